/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-dequantize-loops-private.h"
#include "tensor/weft-float-codecs-private.h"

static WEFT_ALWAYS_INLINE gfloat
scale_value (WeftScaling scaling, gfloat value, gfloat scale, gfloat shift)
{
  switch (scaling)
    {
    case WEFT_SCALING_DIVIDE:
      return value / scale;
    case WEFT_SCALING_AFFINE:
      return value * scale + shift;
    case WEFT_SCALING_MULTIPLY:
    default:
      return (value - shift) * scale;
    }
}

static WEFT_ALWAYS_INLINE gfloat
value_from_bits (guint32 bits)
{
  return ((F32){ .bits = bits }).value;
}

static WEFT_ALWAYS_INLINE guint32
bits_from_value (gfloat value)
{
  return ((F32){ .value = value }).bits;
}

/* In place */

static WEFT_ALWAYS_INLINE void
scale_block (WeftScaling scaling, gfloat *values, gsize n, gfloat scale, gfloat shift)
{
  for (gsize i = 0; i < n; i++)
    values[i] = scale_value (scaling, values[i], scale, shift);
}

/* Steps of 0 and 1 are loops of their own. */
static WEFT_ALWAYS_INLINE void
scale_each (WeftScaling scaling, gfloat *restrict values, gsize n, const gfloat *restrict scales,
            gsize scale_step, const gfloat *restrict shifts, gsize shift_step)
{
  if (scale_step == 1 && shift_step == 1)
    for (gsize i = 0; i < n; i++)
      values[i] = scale_value (scaling, values[i], scales[i], shifts[i]);
  else if (scale_step == 1)
    for (gsize i = 0; i < n; i++)
      values[i] = scale_value (scaling, values[i], scales[i], shifts[0]);
  else
    for (gsize i = 0; i < n; i++)
      values[i] = scale_value (scaling, values[i], scales[i * scale_step], shifts[i * shift_step]);
}

static WEFT_ALWAYS_INLINE void
scale_run (WeftScaling scaling, const WeftBlockRun *run, gfloat *values, gsize n_values)
{
  if (run->block == 1)
    scale_each (scaling, values, n_values, run->scales, run->scale_step, run->shifts, run->shift_step);
  else
    WEFT_FOR_EACH_BLOCK (run, n_values)
  scale_block (scaling, values + at, n, WEFT_BLOCK_SCALE (run), WEFT_BLOCK_SHIFT (run));
}

static WEFT_VECTORISED void
scale_values (const WeftBlockRun *run, gfloat *values, gsize n_values)
{
  switch (run->scaling)
    {
    case WEFT_SCALING_DIVIDE:
      scale_run (WEFT_SCALING_DIVIDE, run, values, n_values);
      break;
    case WEFT_SCALING_AFFINE:
      scale_run (WEFT_SCALING_AFFINE, run, values, n_values);
      break;
    case WEFT_SCALING_MULTIPLY:
    default:
      scale_run (WEFT_SCALING_MULTIPLY, run, values, n_values);
      break;
    }
}

/* A function of its own: Clang names a vectorised one otherwise than its callers in other files do. */
void
weft_scale_run (const WeftBlockRun *run, gfloat *values, gsize n_values)
{
  scale_values (run, values, n_values);
}

/* In one pass */

static WEFT_ALWAYS_INLINE guint32
decode_I8 (guint32 code)
{
  return bits_from_value ((gfloat) (gint8) code);
}

static WEFT_ALWAYS_INLINE guint32
decode_U8 (guint32 code)
{
  return bits_from_value ((gfloat) (gint32) code);
}

static WEFT_ALWAYS_INLINE guint32
encode_F32 (guint32 bits)
{
  return bits;
}

#define DEFINE_DEQUANTIZE(from, to, To)                                                                      \
  WEFT_VECTORISED static void dequantize_##from##_to_##to (const WeftBlockRun *run, const void *codes,       \
                                                           gsize n_codes, void *elements)                    \
  {                                                                                                          \
    WEFT_FOR_EACH_BLOCK (run, n_codes)                                                                       \
    {                                                                                                        \
      const guint8 *restrict ins = (const guint8 *) codes + at;                                              \
      To *restrict outs = (To *) elements + at;                                                              \
      const gfloat scale = WEFT_BLOCK_SCALE (run), shift = WEFT_BLOCK_SHIFT (run);                           \
      for (gsize i = 0; i < n; i++)                                                                          \
        outs[i] =                                                                                            \
            (To) encode_##to (bits_from_value ((value_from_bits (decode_##from (ins[i])) - shift) * scale)); \
    }                                                                                                        \
  }

#define DEFINE_DEQUANTIZE_FROM(from)         \
  DEFINE_DEQUANTIZE (from, BF16, WeftAnyU16) \
  DEFINE_DEQUANTIZE (from, F16, WeftAnyU16)  \
  DEFINE_DEQUANTIZE (from, F32, WeftAnyU32)

DEFINE_DEQUANTIZE_FROM (F8_E4M3)
DEFINE_DEQUANTIZE_FROM (F8_E5M2)
DEFINE_DEQUANTIZE_FROM (I8)
DEFINE_DEQUANTIZE_FROM (U8)

#if defined(__x86_64__)
/* A NaN in the scale and a scale too large to be taken 2^8 times are left to the plain loop. */
static void
dequantize_F8_E4M3_to_BF16_quickly (const WeftBlockRun *run, const void *codes, gsize n_codes, void *elements)
{
  WEFT_FOR_EACH_BLOCK (run, n_codes)
  {
    const gfloat scale = WEFT_BLOCK_SCALE (run), shift = WEFT_BLOCK_SHIFT (run);
    const WeftBlockRun block = { run->scaling, &scale, &shift, 0, 0, n, n };

    if (shift == 0 && scale < 0x1p119f && scale > -0x1p119f)
      weft_scale_e4m3_to_bf16_avx2 ((const guint8 *) codes + at, n, scale, (guint16 *) elements + at);
    else
      dequantize_F8_E4M3_to_BF16 (&block, (const guint8 *) codes + at, n, (guint16 *) elements + at);
  }
}
#endif

static const struct
{
  WeftDtype from;
  WeftDtype to;
  WeftDequantizeFunc dequantize;
} functions[] = {
#define FUNCTION(from, to)                                          \
  {                                                                 \
    WEFT_DTYPE_##from, WEFT_DTYPE_##to, dequantize_##from##_to_##to \
  }
#define FUNCTIONS(from) FUNCTION (from, BF16), FUNCTION (from, F16), FUNCTION (from, F32)
  FUNCTIONS (F8_E4M3),
  FUNCTIONS (F8_E5M2),
  FUNCTIONS (I8),
  FUNCTIONS (U8),
};

WeftDequantizeFunc
weft_dequantize_lookup (WeftDtype code_dtype, WeftDtype dtype)
{
#if defined(__x86_64__)
  if (code_dtype == WEFT_DTYPE_F8_E4M3 && dtype == WEFT_DTYPE_BF16 && weft_dequantize_has_avx2 ())
    return dequantize_F8_E4M3_to_BF16_quickly;
#endif
  for (guint i = 0; i < G_N_ELEMENTS (functions); i++)
    if (functions[i].from == code_dtype && functions[i].to == dtype)
      return functions[i].dequantize;
  return NULL;
}

WeftQuantizeFunc
weft_quantize_lookup (WeftDtype dtype, WeftDtype code_dtype)
{
#if defined(__x86_64__)
  if (dtype == WEFT_DTYPE_BF16 && code_dtype == WEFT_DTYPE_F8_E4M3 && weft_dequantize_has_avx2 ())
    return weft_quantize_bf16_to_e4m3_avx2;
#endif
  return NULL;
}

/* By table */

static void
compute_results (const WeftBlockRun *run, const gfloat *table, gfloat scale, gfloat shift, WeftDtype dtype,
                 guint16 *results)
{
  for (gsize i = 0; i < WEFT_NIBBLE_ENTRIES; i++)
    {
      guint32 bits = bits_from_value (scale_value (run->scaling, table[i], scale, shift));

      results[i] = (guint16) (dtype == WEFT_DTYPE_BF16 ? encode_BF16 (bits) : encode_F16 (bits));
    }
}

void
weft_dequantize_nibbles (const WeftBlockRun *run, const gfloat table[WEFT_NIBBLE_ENTRIES],
                         const guint8 *codes, gsize n_codes, WeftDtype dtype, guint16 *elements)
{
#if defined(__x86_64__)
  if (weft_dequantize_has_avx2 ())
    {
      weft_dequantize_nibbles_avx2 (run, table, codes, n_codes, dtype, elements);
      return;
    }
#endif
  WEFT_FOR_EACH_BLOCK (run, n_codes)
  {
    guint16 results[WEFT_NIBBLE_ENTRIES];

    compute_results (run, table, WEFT_BLOCK_SCALE (run), WEFT_BLOCK_SHIFT (run), dtype, results);
    for (gsize i = 0; i < n; i++)
      elements[at + i] = results[codes[at + i] & 15];
  }
}
