/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of floating formats <-> the bits of F32, in ways that vector units like. Private to the tensor room. */
#pragma once

#include "tensor/weft-vectorised-private.h"

#define F32_INFINITY 0x7f800000
#define F32_QUIET_NAN 0x7fc00000

/* What a format does with its uppermost codes. */
typedef enum
{
  SPECIALS_IEEE,   /* infinities and NaNs; overflow gives infinity */
  SPECIALS_FN,     /* the last code is NaN; overflow saturates, infinity included */
  SPECIALS_FNUZ,   /* the code of -0 is NaN; overflow gives NaN */
  SPECIALS_FINITE, /* neither; overflow saturates, NaN gives the largest value (as NVIDIA's conversions do) */
} Specials;

typedef union
{
  guint32 bits;
  gfloat value;
} F32;

/* 2^exponent, for constants. */
static WEFT_ALWAYS_INLINE F32
f32_power_of_two (gint exponent)
{
  return (F32){ .bits = (guint32) (127 + exponent) << 23 };
}

/* `a < b ? yes : no`, for a and b that are not negative. */
static WEFT_ALWAYS_INLINE gint32
choose_below (gint32 a, gint32 b, gint32 yes, gint32 no)
{
  gint32 mask = (a - b) >> 31;

  return (yes & mask) | (no & ~mask);
}

/* The F32 bits of a code with a sign, @n_exponent and @n_fraction bits. Magnitudes are signed integers because vector
 * units compare those. */
static WEFT_ALWAYS_INLINE guint32
decode_float (guint32 code, gint n_exponent, gint n_fraction, gint bias, Specials specials)
{
  const gint n_magnitude = n_exponent + n_fraction;
  const gint32 last = (1 << n_magnitude) - 1;
  guint32 sign = (code >> n_magnitude) << 31;
  gint32 magnitude = (gint32) code & last;
  F32 subnormal = { .value = (gfloat) magnitude * f32_power_of_two (1 - bias - n_fraction).value };
  gint32 bits = (magnitude << (23 - n_fraction)) + ((127 - bias) << 23);

  bits = choose_below (magnitude, 1 << n_fraction, (gint32) subnormal.bits, bits);
  if (specials == SPECIALS_IEEE)
    bits = magnitude > last - (1 << n_fraction) ? (magnitude << (23 - n_fraction)) | F32_INFINITY : bits;
  if (specials == SPECIALS_FN)
    bits = magnitude == last ? F32_QUIET_NAN : bits;
  if (specials == SPECIALS_FNUZ)
    bits = code == 1u << n_magnitude ? F32_QUIET_NAN : bits;
  return sign | (guint32) bits;
}

/* The code nearest to F32 @bits. */
static WEFT_ALWAYS_INLINE guint32
encode_float (guint32 bits, gint n_exponent, gint n_fraction, gint bias, Specials specials)
{
  const gint n_magnitude = n_exponent + n_fraction;
  const gint shift = 23 - n_fraction;
  const gint32 last = (1 << n_magnitude) - 1;
  const gint32 infinity = last - (1 << n_fraction) + 1;
  const gint32 largest = specials == SPECIALS_IEEE ? infinity - 1 : specials == SPECIALS_FN ? last - 1 : last;
  gint32 sign = (gint32) ((bits >> 31) << n_magnitude);
  gint32 magnitude = (gint32) (bits & 0x7fffffff);
  gint32 half = (1 << (shift - 1)) - 1 + ((magnitude >> shift) & 1);
  gint32 normal = (gint32) (((guint32) magnitude + (guint32) half) >> shift) - ((127 - bias) << n_fraction);
  /* A number whose unit in the last place is the smallest subnormal: adding it rounds to that unit. */
  const F32 rounder = f32_power_of_two (1 - bias + shift);
  F32 subnormal = { .value = ((F32){ .bits = (guint32) magnitude }).value + rounder.value };
  gint32 code =
      choose_below (magnitude, (128 - bias) << 23, (gint32) (subnormal.bits - rounder.bits), normal);
  gint32 payload = (magnitude >> shift) & ((1 << n_fraction) - 1);

  switch (specials)
    {
    case SPECIALS_IEEE:
      code = code > largest ? infinity : code;
      payload = payload == 0 ? 1 << (n_fraction - 1) : payload;
      code = magnitude > F32_INFINITY ? infinity | payload : code;
      return (guint32) (sign | code);
    case SPECIALS_FN:
      code = code > largest ? largest : code;
      return (guint32) (sign | (magnitude > F32_INFINITY ? last : code));
    case SPECIALS_FNUZ: /* infinities and NaNs lie beyond the largest code as well */
      sign = code == 0 ? 0 : sign;
      return (guint32) (code > largest ? last + 1 : sign | code);
    case SPECIALS_FINITE:
    default:
      code = code > largest ? largest : code;
      return (guint32) (magnitude > F32_INFINITY ? largest : sign | code);
    }
}

static WEFT_ALWAYS_INLINE guint32
decode_BF16 (guint32 code)
{
  return code << 16;
}

static WEFT_ALWAYS_INLINE guint32
encode_BF16 (guint32 bits)
{
  guint32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  guint32 nan = (bits >> 16) | ((bits & 0x7f0000) == 0 ? 0x40 : 0);

  return (gint32) (bits & 0x7fffffff) > F32_INFINITY ? nan : rounded;
}

/* Code 0 is 2^-127, half the smallest normal F32. */
static WEFT_ALWAYS_INLINE guint32
decode_F8_E8M0 (guint32 code)
{
  guint32 bits = code == 0 ? 0x400000 : code << 23;

  return code == 0xff ? F32_QUIET_NAN : bits;
}

/* The power of two nearest to the magnitude; 1.5 * 2^k goes up, but half of the smallest code, which is as near to
 * zero, does not. Zero has no code of its own and gives the smallest; the sign is lost. */
static WEFT_ALWAYS_INLINE guint32
encode_F8_E8M0 (guint32 bits)
{
  gint32 magnitude = (gint32) (bits & 0x7fffffff);
  gint32 rounded = (magnitude + 0x400000 - (magnitude < 0x800000)) >> 23;

  return (guint32) (magnitude >= F32_INFINITY ? 0xff : rounded);
}

/* Name, type that holds a code, bits of exponent, bits of fraction, bias, specials. */
#define DEFINE_FORMAT(name, n_exponent, n_fraction, bias, specials)     \
  static WEFT_ALWAYS_INLINE guint32 decode_##name (guint32 code)        \
  {                                                                     \
    return decode_float (code, n_exponent, n_fraction, bias, specials); \
  }                                                                     \
  static WEFT_ALWAYS_INLINE guint32 encode_##name (guint32 bits)        \
  {                                                                     \
    return encode_float (bits, n_exponent, n_fraction, bias, specials); \
  }

DEFINE_FORMAT (F4, 2, 1, 1, SPECIALS_FINITE)
DEFINE_FORMAT (F6_E2M3, 2, 3, 1, SPECIALS_FINITE)
DEFINE_FORMAT (F6_E3M2, 3, 2, 3, SPECIALS_FINITE)
DEFINE_FORMAT (F8_E5M2, 5, 2, 15, SPECIALS_IEEE)
DEFINE_FORMAT (F8_E4M3, 4, 3, 7, SPECIALS_FN)
DEFINE_FORMAT (F8_E4M3FNUZ, 4, 3, 8, SPECIALS_FNUZ)
DEFINE_FORMAT (F8_E5M2FNUZ, 5, 2, 16, SPECIALS_FNUZ)
DEFINE_FORMAT (F16, 5, 10, 15, SPECIALS_IEEE)

#undef DEFINE_FORMAT
