/* SPDX-License-Identifier: Apache-2.0 */
/* BF16 to scaled codes of E4M3 in one pass, for AVX2: the compilers' loops go over a run once for each step. */
#include "tensor/weft-dequantize-loops-private.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define FOR_AVX2 __attribute__ ((target ("avx2")))
#define FOR_AVX2_INLINE FOR_AVX2 static inline __attribute__ ((always_inline))

#define CODES_AT_ONCE 32
#define F32_FRACTION_BITS 23
#define F32_EXPONENT_MASK 0x7f800000
#define E4M3_FRACTION_BITS 3
/* As bits of F32: 448 and 2^-6. */
#define E4M3_LARGEST 0x43e00000
#define E4M3_SMALLEST_NORMAL 0x3c800000

FOR_AVX2_INLINE __m256
scale_8 (WeftScaling scaling, __m128i elements, __m256 scales)
{
  const __m256 values = _mm256_castsi256_ps (_mm256_slli_epi32 (_mm256_cvtepu16_epi32 (elements), 16));

  return scaling == WEFT_SCALING_DIVIDE ? _mm256_div_ps (values, scales) : _mm256_mul_ps (values, scales);
}

/* The code of the magnitude, plus that of 2^-6 less its only step: E4M3_CODE_EXCESS. Adding a number whose unit in the last
 * place is a step of E4M3 rounds to whole steps, to nearest, ties to even; below 2^-6 steps are as long as above. */
#define E4M3_CODE_EXCESS (E4M3_SMALLEST_NORMAL >> (F32_FRACTION_BITS - E4M3_FRACTION_BITS))

FOR_AVX2_INLINE __m256i
encode_8 (__m256 values)
{
  const __m256i infinity = _mm256_set1_epi32 (F32_EXPONENT_MASK);
  const __m256i magnitude = _mm256_and_si256 (_mm256_castps_si256 (values), _mm256_set1_epi32 (0x7fffffff));
  const __m256i finite = _mm256_min_epi32 (magnitude, _mm256_set1_epi32 (E4M3_LARGEST));
  const __m256i exponent =
      _mm256_max_epi32 (_mm256_and_si256 (finite, infinity), _mm256_set1_epi32 (E4M3_SMALLEST_NORMAL));
  const __m256i rounder = _mm256_add_epi32 (
      exponent, _mm256_set1_epi32 ((F32_FRACTION_BITS - E4M3_FRACTION_BITS) << F32_FRACTION_BITS));
  const __m256 rounded = _mm256_add_ps (_mm256_castsi256_ps (finite), _mm256_castsi256_ps (rounder));
  const __m256i n_steps = _mm256_sub_epi32 (_mm256_castps_si256 (rounded), rounder);
  const __m256i code =
      _mm256_add_epi32 (n_steps, _mm256_srli_epi32 (exponent, F32_FRACTION_BITS - E4M3_FRACTION_BITS));

  /* NaN is the code after the largest. */
  return _mm256_sub_epi32 (code, _mm256_cmpgt_epi32 (magnitude, infinity));
}

FOR_AVX2_INLINE void
quantize_32 (WeftScaling scaling, const guint16 *elements, __m256 scales, guint8 *codes)
{
  const __m128i *in = (const __m128i *) (gconstpointer) elements;
  const __m256 a = scale_8 (scaling, _mm_loadu_si128 (in), scales);
  const __m256 b = scale_8 (scaling, _mm_loadu_si128 (in + 1), scales);
  const __m256 c = scale_8 (scaling, _mm_loadu_si128 (in + 2), scales);
  const __m256 d = scale_8 (scaling, _mm_loadu_si128 (in + 3), scales);
  const __m256i excess = _mm256_set1_epi16 (E4M3_CODE_EXCESS);
  const __m256i first = _mm256_sub_epi16 (_mm256_packs_epi32 (encode_8 (a), encode_8 (b)), excess);
  const __m256i second = _mm256_sub_epi16 (_mm256_packs_epi32 (encode_8 (c), encode_8 (d)), excess);
  /* Saturation keeps signs. */
  const __m256i signs =
      _mm256_packs_epi16 (_mm256_packs_epi32 (_mm256_castps_si256 (a), _mm256_castps_si256 (b)),
                          _mm256_packs_epi32 (_mm256_castps_si256 (c), _mm256_castps_si256 (d)));
  const __m256i joined = _mm256_or_si256 (_mm256_packs_epi16 (first, second),
                                          _mm256_and_si256 (signs, _mm256_set1_epi8 ((gchar) 0x80)));

  /* Each pack leaves the halves of its sources in the halves of its result. */
  _mm256_storeu_si256 ((__m256i *) (gpointer) codes,
                       _mm256_permutevar8x32_epi32 (joined, _mm256_setr_epi32 (0, 4, 1, 5, 2, 6, 3, 7)));
}

FOR_AVX2_INLINE void
quantize_block (WeftScaling scaling, const guint16 *elements, gsize n_elements, gfloat scale, guint8 *codes)
{
  const __m256 scales = _mm256_set1_ps (scale);
  gsize i = 0;

  for (; i + CODES_AT_ONCE <= n_elements; i += CODES_AT_ONCE)
    quantize_32 (scaling, elements + i, scales, codes + i);
  if (i < n_elements)
    {
      guint16 last_elements[CODES_AT_ONCE] = { 0 };
      guint8 last_codes[CODES_AT_ONCE];

      memcpy (last_elements, elements + i, (n_elements - i) * sizeof *elements);
      quantize_32 (scaling, last_elements, scales, last_codes);
      memcpy (codes + i, last_codes, n_elements - i);
    }
}

FOR_AVX2 void
weft_quantize_bf16_to_e4m3_avx2 (const WeftBlockRun *run, const void *elements, gsize n_elements,
                                 guint8 *codes)
{
  const guint16 *ins = elements;

  WEFT_FOR_EACH_BLOCK (run, n_elements)
  {
    if (run->scaling == WEFT_SCALING_DIVIDE)
      quantize_block (WEFT_SCALING_DIVIDE, ins + at, n, WEFT_BLOCK_SCALE (run), codes + at);
    else
      quantize_block (WEFT_SCALING_MULTIPLY, ins + at, n, WEFT_BLOCK_SCALE (run), codes + at);
  }
}
#endif
