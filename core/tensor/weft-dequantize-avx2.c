/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of dequantising that compilers do not find by themselves, for AVX2. Every processor that has it has the
 * conversions between F16 and F32 as well. */
#include "tensor/weft-dequantize-loops-private.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define FOR_AVX2 __attribute__ ((target ("avx2,f16c")))
#define FOR_AVX2_INLINE FOR_AVX2 static inline __attribute__ ((always_inline))

gboolean
weft_dequantize_has_avx2 (void)
{
  return __builtin_cpu_supports ("avx2") != 0;
}

FOR_AVX2_INLINE __m256
scale_8 (WeftScaling scaling, __m256 values, gfloat scale, gfloat shift)
{
  const __m256 scales = _mm256_set1_ps (scale), shifts = _mm256_set1_ps (shift);

  switch (scaling)
    {
    case WEFT_SCALING_DIVIDE:
      return _mm256_div_ps (values, scales);
    case WEFT_SCALING_AFFINE:
      return _mm256_add_ps (_mm256_mul_ps (values, scales), shifts);
    case WEFT_SCALING_MULTIPLY:
    default:
      return _mm256_mul_ps (_mm256_sub_ps (values, shifts), scales);
    }
}

/* To nearest, ties to even; wrong for NaNs with a large payload. In the low half of each lane. */
FOR_AVX2_INLINE __m256i
round_to_bf16 (__m256 values)
{
  const __m256i bits = _mm256_castps_si256 (values);
  const __m256i last = _mm256_and_si256 (_mm256_srli_epi32 (bits, 16), _mm256_set1_epi32 (1));

  return _mm256_srli_epi32 (_mm256_add_epi32 (_mm256_add_epi32 (bits, _mm256_set1_epi32 (0x7fff)), last), 16);
}

/* NaNs keep the upper part of their payload; those that arithmetic gives are quiet. */
FOR_AVX2_INLINE __m256i
round_any_to_bf16 (__m256 values)
{
  const __m256i kept = _mm256_srli_epi32 (_mm256_castps_si256 (values), 16);
  const __m256i is_nan = _mm256_castps_si256 (_mm256_cmp_ps (values, values, _CMP_UNORD_Q));

  return _mm256_blendv_epi8 (round_to_bf16 (values), kept, is_nan);
}

/* 16 elements of 16 bits out of the low halves of two times 8 lanes. */
FOR_AVX2_INLINE __m256i
join_halves (__m256i first, __m256i second)
{
  return _mm256_permute4x64_epi64 (_mm256_packus_epi32 (first, second), 0xd8);
}

/* The low and the high bytes of the results of all 16 codes. */
typedef struct
{
  __m128i low;
  __m128i high;
} Results;

FOR_AVX2_INLINE Results
compute_results (WeftScaling scaling, __m256 first, __m256 second, gfloat scale, gfloat shift,
                 WeftDtype dtype)
{
  const __m128i low_bytes = _mm_set1_epi16 (0xff);
  __m128i a, b;

  first = scale_8 (scaling, first, scale, shift);
  second = scale_8 (scaling, second, scale, shift);
  if (dtype == WEFT_DTYPE_BF16)
    {
      const __m256i both = join_halves (round_any_to_bf16 (first), round_any_to_bf16 (second));

      a = _mm256_castsi256_si128 (both);
      b = _mm256_extracti128_si256 (both, 1);
    }
  else
    {
      a = _mm256_cvtps_ph (first, _MM_FROUND_TO_NEAREST_INT);
      b = _mm256_cvtps_ph (second, _MM_FROUND_TO_NEAREST_INT);
    }
  return (Results){ _mm_packus_epi16 (_mm_and_si128 (a, low_bytes), _mm_and_si128 (b, low_bytes)),
                    _mm_packus_epi16 (_mm_srli_epi16 (a, 8), _mm_srli_epi16 (b, 8)) };
}

/* A shuffle of bytes looks up 16 codes in 16 bytes at once. */
FOR_AVX2_INLINE void
look_up_16 (const guint8 *codes, Results results, guint16 *elements)
{
  const __m128i code = _mm_loadu_si128 ((const __m128i *) (gconstpointer) codes);
  const __m128i low = _mm_shuffle_epi8 (results.low, code), high = _mm_shuffle_epi8 (results.high, code);

  _mm_storeu_si128 ((__m128i *) (gpointer) elements, _mm_unpacklo_epi8 (low, high));
  _mm_storeu_si128 ((__m128i *) (gpointer) (elements + 8), _mm_unpackhi_epi8 (low, high));
}

FOR_AVX2_INLINE void
dequantize_nibbles (WeftScaling scaling, const WeftBlockRun *run, const gfloat *table, const guint8 *codes,
                    gsize n_codes, WeftDtype dtype, guint16 *elements)
{
  const __m256 first = _mm256_loadu_ps (table), second = _mm256_loadu_ps (table + 8);

  WEFT_FOR_EACH_BLOCK (run, n_codes)
  {
    const Results results =
        compute_results (scaling, first, second, WEFT_BLOCK_SCALE (run), WEFT_BLOCK_SHIFT (run), dtype);
    gsize i = 0;

    for (; i + 16 <= n; i += 16)
      look_up_16 (codes + at + i, results, elements + at + i);
    if (i < n)
      {
        guint8 last_codes[16] = { 0 };
        guint16 last_elements[16];

        memcpy (last_codes, codes + at + i, n - i);
        look_up_16 (last_codes, results, last_elements);
        memcpy (elements + at + i, last_elements, (n - i) * sizeof *elements);
      }
  }
}

FOR_AVX2 void
weft_dequantize_nibbles_avx2 (const WeftBlockRun *run, const gfloat *table, const guint8 *codes,
                              gsize n_codes, WeftDtype dtype, guint16 *elements)
{
  if (run->scaling == WEFT_SCALING_MULTIPLY && dtype == WEFT_DTYPE_BF16)
    dequantize_nibbles (WEFT_SCALING_MULTIPLY, run, table, codes, n_codes, WEFT_DTYPE_BF16, elements);
  else
    dequantize_nibbles (run->scaling, run, table, codes, n_codes, dtype, elements);
}

/* As F16 the code is 2^-8 of its value, subnormals included, and the product with 2^8 times the scale is rounded once as
 * the product with the scale is. A NaN is the plain one. */
FOR_AVX2_INLINE void
scale_16_e4m3 (const guint8 *codes, __m256 scales, guint16 *elements)
{
  const __m256i code = _mm256_cvtepu8_epi16 (_mm_loadu_si128 ((const __m128i *) (gconstpointer) codes));
  const __m256i magnitude = _mm256_and_si256 (code, _mm256_set1_epi16 (0x7f));
  const __m256i is_nan = _mm256_cmpeq_epi16 (magnitude, _mm256_set1_epi16 (0x7f));
  const __m256i sign = _mm256_and_si256 (_mm256_slli_epi16 (code, 8), _mm256_set1_epi16 ((gshort) 0x8000));
  const __m256i finite = _mm256_or_si256 (_mm256_slli_epi16 (magnitude, 7), sign);
  const __m256i half =
      _mm256_blendv_epi8 (finite, _mm256_or_si256 (sign, _mm256_set1_epi16 (0x7e00)), is_nan);
  const __m256 first = _mm256_mul_ps (_mm256_cvtph_ps (_mm256_castsi256_si128 (half)), scales);
  const __m256 second = _mm256_mul_ps (_mm256_cvtph_ps (_mm256_extracti128_si256 (half, 1)), scales);

  _mm256_storeu_si256 ((__m256i *) (gpointer) elements,
                       join_halves (round_to_bf16 (first), round_to_bf16 (second)));
}

FOR_AVX2 void
weft_scale_e4m3_to_bf16_avx2 (const guint8 *codes, gsize n_codes, gfloat scale, guint16 *elements)
{
  const __m256 scales = _mm256_set1_ps (scale * 0x1p8f);
  gsize i = 0;

  for (; i + 16 <= n_codes; i += 16)
    scale_16_e4m3 (codes + i, scales, elements + i);
  if (i < n_codes)
    {
      guint8 last_codes[16] = { 0 };
      guint16 last_elements[16];

      memcpy (last_codes, codes + i, n_codes - i);
      scale_16_e4m3 (last_codes, scales, last_elements);
      memcpy (elements + i, last_elements, (n_codes - i) * sizeof *elements);
    }
}
#endif
