/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-dequantize-loops-private.h"
#include "tensor/weft-vectorised-private.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

WEFT_VECTORISED void
weft_scale_run (WeftScaling scaling, gfloat *values, gsize n_values, gfloat scale, gfloat shift)
{
  switch (scaling)
    {
    case WEFT_SCALING_DIVIDE:
      for (gsize i = 0; i < n_values; i++)
        values[i] = values[i] / scale;
      break;
    case WEFT_SCALING_AFFINE:
      for (gsize i = 0; i < n_values; i++)
        values[i] = values[i] * scale + shift;
      break;
    case WEFT_SCALING_MULTIPLY:
    default:
      for (gsize i = 0; i < n_values; i++)
        values[i] = (values[i] - shift) * scale;
      break;
    }
}

WEFT_VECTORISED void
weft_scale_run_each (WeftScaling scaling, gfloat *restrict values, gsize n_values,
                     const gfloat *restrict scales, const gfloat *restrict shifts)
{
  switch (scaling)
    {
    case WEFT_SCALING_DIVIDE:
      for (gsize i = 0; i < n_values; i++)
        values[i] = values[i] / scales[i];
      break;
    case WEFT_SCALING_AFFINE:
      for (gsize i = 0; i < n_values; i++)
        values[i] = values[i] * scales[i] + shifts[i];
      break;
    case WEFT_SCALING_MULTIPLY:
    default:
      for (gsize i = 0; i < n_values; i++)
        values[i] = (values[i] - shifts[i]) * scales[i];
      break;
    }
}

static void
lookup_each (const guint8 *codes, gsize n_codes, const guint16 *table, guint16 *elements)
{
  for (gsize i = 0; i < n_codes; i++)
    elements[i] = table[codes[i] & 15];
}

#if defined(__x86_64__)
/* A shuffle of bytes looks up 16 codes in 16 bytes at once: once for the low bytes, once for the high ones. */
__attribute__ ((target ("avx2"))) static void
lookup_by_shuffle (const guint8 *codes, gsize n_codes, const guint16 *table, guint16 *elements)
{
  const __m128i first = _mm_loadu_si128 ((const __m128i *) (gconstpointer) table);
  const __m128i second = _mm_loadu_si128 ((const __m128i *) (gconstpointer) (table + 8));
  const __m128i low_mask = _mm_set1_epi16 (0xff);
  const __m128i low = _mm_packus_epi16 (_mm_and_si128 (first, low_mask), _mm_and_si128 (second, low_mask));
  const __m128i high = _mm_packus_epi16 (_mm_srli_epi16 (first, 8), _mm_srli_epi16 (second, 8));
  gsize i = 0;

  for (; i + 16 <= n_codes; i += 16)
    {
      __m128i code =
          _mm_and_si128 (_mm_loadu_si128 ((const __m128i *) (gconstpointer) (codes + i)), _mm_set1_epi8 (15));
      __m128i lows = _mm_shuffle_epi8 (low, code), highs = _mm_shuffle_epi8 (high, code);

      _mm_storeu_si128 ((__m128i *) (gpointer) (elements + i), _mm_unpacklo_epi8 (lows, highs));
      _mm_storeu_si128 ((__m128i *) (gpointer) (elements + i + 8), _mm_unpackhi_epi8 (lows, highs));
    }
  lookup_each (codes + i, n_codes - i, table, elements + i);
}
#endif

void
weft_lookup_run_16 (const guint8 *codes, gsize n_codes, const guint16 *table, guint16 *elements)
{
#if defined(__x86_64__)
  if (__builtin_cpu_supports ("avx2"))
    {
      lookup_by_shuffle (codes, n_codes, table, elements);
      return;
    }
#endif
  lookup_each (codes, n_codes, table, elements);
}
