/* SPDX-License-Identifier: Apache-2.0 */
/* Dtype conversion in blocks: a codec brings each dtype to a working type (F32, F64 or a 64-bit integer) and back,
 * and a step between converts one working type to another. Pairs with F32 on one side are a single loop; the pairs of
 * narrow floats that real checkpoints convert are one loop each as well.
 *
 * Rounding is to nearest, ties to even. F64 and integers go to narrower floats through F32 (they round twice). Floats
 * to integers truncate towards zero, saturate at 64 bits, keep the low bits of that, and NaN gives 0. A NaN keeps its
 * sign and as much of the upper part of its payload as fits, which is why nothing here lets the processor convert a
 * NaN: it would quiet it. */
#include "tensor/weft-cast-private.h"
#include "tensor/weft-cast-pairs-private.h"
#include "tensor/weft-float-codecs-private.h"

#include <string.h>

/* A multiple of 4, so that blocks of sub-byte dtypes end on bytes; two buffers of it fit the first level cache. */
#define BLOCK_ELEMENTS 512

typedef union
{
  guint64 bits;
  gdouble value;
} F64;

static WEFT_ALWAYS_INLINE guint64
f64_from_f32 (guint32 bits)
{
  F64 converted = { .value = ((F32){ .bits = bits }).value };
  guint64 nan = ((guint64) (bits >> 31) << 63) | 0x7ff0000000000000 | ((guint64) (bits & 0x7fffff) << 29);

  return (bits & 0x7fffffff) > F32_INFINITY ? nan : converted.bits;
}

static WEFT_ALWAYS_INLINE guint32
f32_from_f64 (guint64 bits)
{
  F32 converted = { .value = (gfloat) ((F64){ .bits = bits }).value };
  guint32 payload = (guint32) (bits >> 29) & 0x7fffff;
  guint32 nan = (guint32) (bits >> 63 << 31) | F32_INFINITY | (payload == 0 ? 0x400000 : payload);

  return (bits & 0x7fffffffffffffff) > 0x7ff0000000000000 ? nan : converted.bits;
}

static WEFT_ALWAYS_INLINE gint64
i64_from_f64 (gdouble value)
{
  if (value >= 0x1p63)
    return G_MAXINT64;
  if (value >= -0x1p63)
    return (gint64) value;
  return value < 0 ? G_MININT64 : 0;
}

/* Negative values wrap, as they do for the narrower unsigned integers. */
static WEFT_ALWAYS_INLINE guint64
u64_from_f64 (gdouble value)
{
  if (value < 0x1p63)
    return (guint64) i64_from_f64 (value);
  return value < 0x1p64 ? (guint64) value : value > 0 ? G_MAXUINT64 : 0;
}

/* A WeftCastFunc that sets each `out` to an expression of `in`. */
#define DEFINE_LOOP(name, In, Out, expression)                                               \
  WEFT_VECTORISED static void name (const void *source, void *destination, gsize n_elements) \
  {                                                                                          \
    const In *restrict ins = source;                                                         \
    Out *restrict outs = destination;                                                        \
    for (gsize i = 0; i < n_elements; i++)                                                   \
      {                                                                                      \
        In in = ins[i];                                                                      \
        outs[i] = (Out) (expression);                                                        \
      }                                                                                      \
  }

#define DEFINE_FLOAT_CODEC(name, Code)                                  \
  DEFINE_LOOP (decode_run_##name, Code, WeftAnyU32, decode_##name (in)) \
  DEFINE_LOOP (encode_run_##name, WeftAnyU32, Code, encode_##name (in))

DEFINE_FLOAT_CODEC (F8_E5M2, WeftAnyU8)
DEFINE_FLOAT_CODEC (F8_E4M3, WeftAnyU8)
DEFINE_FLOAT_CODEC (F8_E8M0, WeftAnyU8)
DEFINE_FLOAT_CODEC (F8_E4M3FNUZ, WeftAnyU8)
DEFINE_FLOAT_CODEC (F8_E5M2FNUZ, WeftAnyU8)
DEFINE_FLOAT_CODEC (F16, WeftAnyU16)
DEFINE_FLOAT_CODEC (BF16, WeftAnyU16)

#define DEFINE_INTEGER_CODEC(name, Type)                \
  DEFINE_LOOP (decode_run_##name, Type, WeftAnyI64, in) \
  DEFINE_LOOP (encode_run_##name, WeftAnyU64, Type, in)

DEFINE_INTEGER_CODEC (U8, WeftAnyU8)
DEFINE_INTEGER_CODEC (I8, WeftAnyI8)
DEFINE_INTEGER_CODEC (U16, WeftAnyU16)
DEFINE_INTEGER_CODEC (I16, WeftAnyI16)
DEFINE_INTEGER_CODEC (U32, WeftAnyU32)
DEFINE_INTEGER_CODEC (I32, WeftAnyI32)
DEFINE_LOOP (decode_run_BOOL, WeftAnyU8, WeftAnyI64, in != 0)

WEFT_VECTORISED static void
decode_run_F4 (const void *source, void *destination, gsize n_elements)
{
  const guint8 *restrict packed = source;
  WeftAnyU32 *restrict bits = destination;

  for (gsize i = 0; i < n_elements / 2; i++)
    {
      bits[2 * i] = decode_F4 (packed[i] & 0xf);
      bits[2 * i + 1] = decode_F4 (packed[i] >> 4);
    }
}

WEFT_VECTORISED static void
encode_run_F4 (const void *source, void *destination, gsize n_elements)
{
  const WeftAnyU32 *restrict bits = source;
  guint8 *restrict packed = destination;

  for (gsize i = 0; i < n_elements / 2; i++)
    packed[i] = (guint8) (encode_F4 (bits[2 * i]) | encode_F4 (bits[2 * i + 1]) << 4);
}

/* Four codes of 6 bits in three bytes. */
#define DEFINE_SIX_BIT_CODEC(name)                                                        \
  static void decode_run_##name (const void *source, void *destination, gsize n_elements) \
  {                                                                                       \
    const guint8 *packed = source;                                                        \
    WeftAnyU32 *bits = destination;                                                       \
    for (gsize i = 0; i < n_elements / 4; i++)                                            \
      {                                                                                   \
        guint32 codes = packed[3 * i] | packed[3 * i + 1] << 8 | packed[3 * i + 2] << 16; \
        for (gsize k = 0; k < 4; k++)                                                     \
          bits[4 * i + k] = decode_##name (codes >> 6 * k & 0x3f);                        \
      }                                                                                   \
  }                                                                                       \
  static void encode_run_##name (const void *source, void *destination, gsize n_elements) \
  {                                                                                       \
    const WeftAnyU32 *bits = source;                                                      \
    guint8 *packed = destination;                                                         \
    for (gsize i = 0; i < n_elements / 4; i++)                                            \
      {                                                                                   \
        guint32 codes = 0;                                                                \
        for (gsize k = 0; k < 4; k++)                                                     \
          codes |= encode_##name (bits[4 * i + k]) << 6 * k;                              \
        for (gsize k = 0; k < 3; k++)                                                     \
          packed[3 * i + k] = (guint8) (codes >> 8 * k);                                  \
      }                                                                                   \
  }

DEFINE_SIX_BIT_CODEC (F6_E2M3)
DEFINE_SIX_BIT_CODEC (F6_E3M2)

DEFINE_LOOP (f64_run_from_f32, WeftAnyU32, WeftAnyU64, f64_from_f32 (in))
DEFINE_LOOP (f32_run_from_f64, WeftAnyU64, WeftAnyU32, f32_from_f64 (in))
DEFINE_LOOP (i64_run_from_f32, WeftAnyF32, WeftAnyI64, i64_from_f64 (in))
DEFINE_LOOP (i64_run_from_f64, WeftAnyF64, WeftAnyI64, i64_from_f64 (in))
DEFINE_LOOP (u64_run_from_f32, WeftAnyF32, WeftAnyU64, u64_from_f64 (in))
DEFINE_LOOP (u64_run_from_f64, WeftAnyF64, WeftAnyU64, u64_from_f64 (in))
DEFINE_LOOP (f32_run_from_i64, WeftAnyI64, WeftAnyF32, in)
DEFINE_LOOP (f64_run_from_i64, WeftAnyI64, WeftAnyF64, in)
DEFINE_LOOP (f32_run_from_u64, WeftAnyU64, WeftAnyF32, in)
DEFINE_LOOP (f64_run_from_u64, WeftAnyU64, WeftAnyF64, in)
DEFINE_LOOP (truth_run_from_f32, WeftAnyF32, WeftAnyU8, in != 0)
DEFINE_LOOP (truth_run_from_f64, WeftAnyF64, WeftAnyU8, in != 0)
DEFINE_LOOP (truth_run_from_i64, WeftAnyI64, WeftAnyU8, in != 0)

typedef enum
{
  WORKING_F32,
  WORKING_F64,
  WORKING_I64,
  WORKING_U64,
  WORKING_TRUTH, /* one byte, 0 or 1; only ever made */
  N_WORKING
} Working;

/* NULL: the bits stay as they are. */
static const WeftCastFunc between[N_WORKING - 1][N_WORKING] = {
  [WORKING_F32] = { NULL, f64_run_from_f32, i64_run_from_f32, u64_run_from_f32, truth_run_from_f32 },
  [WORKING_F64] = { f32_run_from_f64, NULL, i64_run_from_f64, u64_run_from_f64, truth_run_from_f64 },
  [WORKING_I64] = { f32_run_from_i64, f64_run_from_i64, NULL, NULL, truth_run_from_i64 },
  [WORKING_U64] = { f32_run_from_u64, f64_run_from_u64, NULL, NULL, truth_run_from_i64 },
};

/* NULL functions: the dtype is its own working type. */
static const struct
{
  Working decoded;
  WeftCastFunc decode;
  Working encoded;
  WeftCastFunc encode;
} codecs[WEFT_N_DTYPES] = {
#define CODEC(name, working) [WEFT_DTYPE_##name] = { working, decode_run_##name, working, encode_run_##name }
  [WEFT_DTYPE_BOOL] = { WORKING_I64, decode_run_BOOL, WORKING_TRUTH, NULL },
  CODEC (F4, WORKING_F32),
  CODEC (F6_E2M3, WORKING_F32),
  CODEC (F6_E3M2, WORKING_F32),
  CODEC (U8, WORKING_I64),
  CODEC (I8, WORKING_I64),
  CODEC (F8_E5M2, WORKING_F32),
  CODEC (F8_E4M3, WORKING_F32),
  CODEC (F8_E8M0, WORKING_F32),
  CODEC (F8_E4M3FNUZ, WORKING_F32),
  CODEC (F8_E5M2FNUZ, WORKING_F32),
  CODEC (I16, WORKING_I64),
  CODEC (U16, WORKING_I64),
  CODEC (F16, WORKING_F32),
  CODEC (BF16, WORKING_F32),
  CODEC (I32, WORKING_I64),
  CODEC (U32, WORKING_I64),
  [WEFT_DTYPE_F32] = { WORKING_F32, NULL, WORKING_F32, NULL },
  [WEFT_DTYPE_F64] = { WORKING_F64, NULL, WORKING_F64, NULL },
  [WEFT_DTYPE_I64] = { WORKING_I64, NULL, WORKING_I64, NULL },
  [WEFT_DTYPE_U64] = { WORKING_U64, NULL, WORKING_U64, NULL },
#undef CODEC
};

static void
cast (WeftDtype from, WeftDtype to, const void *source, void *destination, gsize n_elements)
{
  const WeftCastFunc candidates[] = {
    from == to ? NULL : codecs[from].decode,
    from == to ? NULL : between[codecs[from].decoded][codecs[to].encoded],
    from == to ? NULL : codecs[to].encode,
  };
  WeftCastFunc stages[G_N_ELEMENTS (candidates)];
  gsize from_bits = weft_dtype_get_bits (from), to_bits = weft_dtype_get_bits (to);
  guint64 buffers[2][BLOCK_ELEMENTS];
  guint n_stages = 0;

  for (guint i = 0; i < G_N_ELEMENTS (candidates); i++)
    if (candidates[i] != NULL)
      stages[n_stages++] = candidates[i];
  if (n_stages == 0)
    memcpy (destination, source, n_elements * from_bits / 8);
  else if (n_stages == 1)
    stages[0](source, destination, n_elements);
  else
    for (gsize start = 0; start < n_elements; start += BLOCK_ELEMENTS)
      {
        gsize n = MIN (BLOCK_ELEMENTS, n_elements - start);
        const void *in = (const guint8 *) source + start * from_bits / 8;

        for (guint i = 0; i < n_stages; i++)
          {
            void *out =
                i + 1 < n_stages ? (guint8 *) buffers[i] : (guint8 *) destination + start * to_bits / 8;

            stages[i](in, out, n);
            in = out;
          }
      }
}

WEFT_CAST_DEFINE_LOOKUP (lookup_cast, cast)

/* The pairs worth a loop of their own. */
#define DEFINE_DIRECT(from, From, to, To) \
  DEFINE_LOOP (direct_##from##_to_##to, From, To, encode_##to (decode_##from (in)))

DEFINE_DIRECT (BF16, WeftAnyU16, F16, WeftAnyU16)
DEFINE_DIRECT (F16, WeftAnyU16, BF16, WeftAnyU16)
DEFINE_DIRECT (BF16, WeftAnyU16, F8_E4M3, WeftAnyU8)

DEFINE_LOOP (direct_F8_E5M2_to_F16, WeftAnyU8, WeftAnyU16, (guint32) in << 8)

/* 8 to 16 bits in lanes of 16 bits, which compilers do not find by themselves: twice as many at a time as through F32. */
enum
{
  N_LANES = 16
};
typedef guint8 Codes __attribute__ ((vector_size (N_LANES)));
typedef guint16 Lanes __attribute__ ((vector_size (2 * N_LANES)));
typedef gint16 SignedLanes __attribute__ ((vector_size (2 * N_LANES)));

/* Lanes of ones where a < b. Vector units compare signed numbers; these are not that large. */
#define LANES_BELOW(a, b) ((Lanes) ((SignedLanes) (a) < (gint16) (b)))

/* The magnitude grows by bits of fraction and a difference of biases. A subnormal becomes normal: its uppermost bit,
 * one after the other, is tried as the one that is implied. */
static WEFT_ALWAYS_INLINE void
widen_lanes (const void *source, void *destination, gint n_fraction, gint bias, Specials specials,
             gint to_fraction, gint to_bias)
{
  const gint exponent = to_bias - bias, infinity = 0x7fff >> to_fraction << to_fraction;
  Codes codes;
  Lanes code, magnitude, fraction, bits, special, is_finite;

  memcpy (&codes, source, sizeof codes);
  code = __builtin_convertvector(codes, Lanes);
  magnitude = code & 0x7f;
  fraction = magnitude << (to_fraction - n_fraction);
  bits = fraction + (guint16) (exponent << to_fraction);
  for (gint top = n_fraction - 1; top >= 0; top--)
    {
      Lanes is_below = LANES_BELOW (magnitude, 2 << top);
      Lanes normal =
          (magnitude << (to_fraction - top)) + (guint16) ((exponent - n_fraction + top) << to_fraction);

      bits = (normal & is_below) | (bits & ~is_below);
    }
  bits &= ~LANES_BELOW (magnitude, 1);
  if (specials == SPECIALS_IEEE)
    special = fraction | (guint16) infinity;
  else
    special = (Lanes){ 0 } + (guint16) (infinity | 1 << (to_fraction - 1));
  is_finite = LANES_BELOW (magnitude, specials == SPECIALS_IEEE ? 0x7c : 0x7f);
  bits = (bits & is_finite) | (special & ~is_finite) | (code & 0x80) << 8;
  memcpy (destination, &bits, sizeof bits);
}

#define DEFINE_WIDENING(name, n_fraction, bias, specials, to_fraction, to_bias)              \
  WEFT_VECTORISED static void name (const void *source, void *destination, gsize n_elements) \
  {                                                                                          \
    const guint8 *ins = source;                                                              \
    WeftAnyU16 *outs = destination;                                                          \
    gsize n_rest = n_elements % N_LANES, n_whole = n_elements - n_rest;                      \
    guint8 last_in[N_LANES] = { 0 };                                                         \
    guint16 last_out[N_LANES];                                                               \
    for (gsize i = 0; i < n_whole; i += N_LANES)                                             \
      widen_lanes (ins + i, outs + i, n_fraction, bias, specials, to_fraction, to_bias);     \
    memcpy (last_in, ins + n_whole, n_rest);                                                 \
    widen_lanes (last_in, last_out, n_fraction, bias, specials, to_fraction, to_bias);       \
    memcpy (outs + n_whole, last_out, n_rest * sizeof *outs);                                \
  }

DEFINE_WIDENING (direct_F8_E4M3_to_BF16, 3, 7, SPECIALS_FN, 7, 127)
DEFINE_WIDENING (direct_F8_E4M3_to_F16, 3, 7, SPECIALS_FN, 10, 15)
DEFINE_WIDENING (direct_F8_E5M2_to_BF16, 2, 15, SPECIALS_IEEE, 7, 127)

static const struct
{
  WeftDtype from;
  WeftDtype to;
  WeftCastFunc cast;
} direct_casts[] = {
#define DIRECT(from, to)                                        \
  {                                                             \
    WEFT_DTYPE_##from, WEFT_DTYPE_##to, direct_##from##_to_##to \
  }
  DIRECT (BF16, F16),    DIRECT (F16, BF16),     DIRECT (BF16, F8_E4M3), DIRECT (F8_E4M3, BF16),
  DIRECT (F8_E4M3, F16), DIRECT (F8_E5M2, BF16), DIRECT (F8_E5M2, F16),
#undef DIRECT
};

WeftCastFunc
weft_cast_lookup (WeftDtype from, WeftDtype to)
{
  g_return_val_if_fail (from < WEFT_N_DTYPES && to < WEFT_N_DTYPES, NULL);

  for (guint i = 0; i < G_N_ELEMENTS (direct_casts); i++)
    if (direct_casts[i].from == from && direct_casts[i].to == to)
      return direct_casts[i].cast;
  if (from == WEFT_DTYPE_C64 && to == WEFT_DTYPE_C64)
    return lookup_cast (WEFT_DTYPE_U64, WEFT_DTYPE_U64);
  return lookup_cast (from, to);
}

/* The values of a dtype: whole multiples of 2^ulp_exponent up to the largest, of at most `precision` bits. */
typedef struct
{
  gint precision;
  gint ulp_exponent;
  gdouble largest;
  gboolean has_negative, has_negative_zero, has_infinity;
  gint nan_bits; /* of payload; -1: no NaN */
} Values;

static const Values values[WEFT_N_DTYPES] = {
  [WEFT_DTYPE_F4] = { 2, -1, 6, TRUE, TRUE, FALSE, -1 },
  [WEFT_DTYPE_F6_E2M3] = { 4, -3, 7.5, TRUE, TRUE, FALSE, -1 },
  [WEFT_DTYPE_F6_E3M2] = { 3, -4, 28, TRUE, TRUE, FALSE, -1 },
  [WEFT_DTYPE_U8] = { 8, 0, 0x1p8, FALSE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_I8] = { 7, 0, 0x1p7, TRUE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_F8_E5M2] = { 3, -16, 57344, TRUE, TRUE, TRUE, 2 },
  [WEFT_DTYPE_F8_E4M3] = { 4, -9, 448, TRUE, TRUE, FALSE, 0 },
  [WEFT_DTYPE_F8_E8M0] = { 1, -127, 0x1p127, FALSE, FALSE, FALSE, 0 },
  [WEFT_DTYPE_F8_E4M3FNUZ] = { 4, -10, 240, TRUE, FALSE, FALSE, 0 },
  [WEFT_DTYPE_F8_E5M2FNUZ] = { 3, -17, 57344, TRUE, FALSE, FALSE, 0 },
  [WEFT_DTYPE_I16] = { 15, 0, 0x1p15, TRUE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_U16] = { 16, 0, 0x1p16, FALSE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_F16] = { 11, -24, 65504, TRUE, TRUE, TRUE, 10 },
  [WEFT_DTYPE_BF16] = { 8, -133, 0x1.fep127, TRUE, TRUE, TRUE, 7 },
  [WEFT_DTYPE_I32] = { 31, 0, 0x1p31, TRUE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_U32] = { 32, 0, 0x1p32, FALSE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_F32] = { 24, -149, 0x1.fffffep127, TRUE, TRUE, TRUE, 23 },
  [WEFT_DTYPE_F64] = { 53, -1074, 0x1.fffffffffffffp1023, TRUE, TRUE, TRUE, 52 },
  [WEFT_DTYPE_I64] = { 63, 0, 0x1p63, TRUE, FALSE, FALSE, -1 },
  [WEFT_DTYPE_U64] = { 64, 0, 0x1p64, FALSE, FALSE, FALSE, -1 },
};

/* BOOL and C64 are like nothing but themselves: a BOOL that is neither 0 nor 1 becomes 1 in any other dtype. */
gboolean
weft_cast_is_widening (WeftDtype from, WeftDtype to)
{
  const Values *narrow = &values[from], *wide = &values[to];

  g_return_val_if_fail (from < WEFT_N_DTYPES && to < WEFT_N_DTYPES, FALSE);

  if (from == to)
    return TRUE;
  return narrow->precision > 0 && narrow->precision <= wide->precision
         && narrow->ulp_exponent >= wide->ulp_exponent && narrow->largest <= wide->largest
         && narrow->has_negative <= wide->has_negative && narrow->has_negative_zero <= wide->has_negative_zero
         && narrow->has_infinity <= wide->has_infinity && narrow->nan_bits <= wide->nan_bits;
}
