/* SPDX-License-Identifier: Apache-2.0 */
/* Dtype conversion as it is defined: one element at a time, in exact arithmetic on F64. The vectorised conversions are
 * checked against this; it is compiled into tests only. */
#include "tensor/weft-cast-private.h"
#include "tensor/weft-cast-pairs-private.h"

#include <math.h>
#include <string.h>

#define F64_SIGN 0x8000000000000000
#define F64_INFINITY 0x7ff0000000000000
#define F64_QUIET_BIT 0x0008000000000000

typedef enum
{
  NOT_A_FLOAT,
  IEEE,
  LAST_IS_NAN,       /* no infinity: overflow saturates */
  MINUS_ZERO_IS_NAN, /* no infinity: overflow gives NaN */
  FINITE,            /* overflow saturates, NaN gives the largest value */
} Specials;

static const struct
{
  Specials specials;
  gint n_fraction;
  gint bias;
} formats[WEFT_N_DTYPES] = {
  [WEFT_DTYPE_F4] = { FINITE, 1, 1 },
  [WEFT_DTYPE_F6_E2M3] = { FINITE, 3, 1 },
  [WEFT_DTYPE_F6_E3M2] = { FINITE, 2, 3 },
  [WEFT_DTYPE_F8_E5M2] = { IEEE, 2, 15 },
  [WEFT_DTYPE_F8_E4M3] = { LAST_IS_NAN, 3, 7 },
  [WEFT_DTYPE_F8_E4M3FNUZ] = { MINUS_ZERO_IS_NAN, 3, 8 },
  [WEFT_DTYPE_F8_E5M2FNUZ] = { MINUS_ZERO_IS_NAN, 2, 16 },
  [WEFT_DTYPE_F16] = { IEEE, 10, 15 },
  [WEFT_DTYPE_BF16] = { IEEE, 7, 127 },
  [WEFT_DTYPE_F32] = { IEEE, 23, 127 },
  [WEFT_DTYPE_F64] = { IEEE, 52, 1023 },
};

static guint64
bits_of (gdouble value)
{
  guint64 bits;
  memcpy (&bits, &value, sizeof bits);
  return bits;
}

static gdouble
value_of (guint64 bits)
{
  gdouble value;
  memcpy (&value, &bits, sizeof value);
  return value;
}

static gboolean
is_nan (guint64 f64)
{
  return (f64 & ~F64_SIGN) > F64_INFINITY;
}

static guint64
load_code (WeftDtype dtype, const guint8 *bytes, gsize i)
{
  gsize width = weft_dtype_get_bits (dtype);
  guint64 code = 0;

  for (gsize bit = 0; bit < width; bit++)
    code |= (guint64) (bytes[(i * width + bit) / 8] >> (i * width + bit) % 8 & 1) << bit;
  return code;
}

static void
store_code (WeftDtype dtype, guint8 *bytes, gsize i, guint64 code)
{
  gsize width = weft_dtype_get_bits (dtype);

  for (gsize bit = 0; bit < width; bit++)
    {
      gsize at = i * width + bit;
      bytes[at / 8] = (guint8) ((bytes[at / 8] & ~(1 << at % 8)) | (code >> bit & 1) << at % 8);
    }
}

/* The bits of an F64 that stands for the code of a floating dtype: the payload of a NaN is aligned to the left. */
static guint64
decode (WeftDtype dtype, guint64 code)
{
  gint n_fraction = formats[dtype].n_fraction, n_magnitude = (gint) weft_dtype_get_bits (dtype) - 1;
  guint64 last = (G_GUINT64_CONSTANT (1) << n_magnitude) - 1, magnitude = code & last;
  guint64 sign = code >> n_magnitude << 63,
          fraction = magnitude & ((G_GUINT64_CONSTANT (1) << n_fraction) - 1);
  gint exponent = (gint) (magnitude >> n_fraction);
  gdouble value;

  if (formats[dtype].specials == IEEE && exponent == (gint) (last >> n_fraction))
    return sign | F64_INFINITY | fraction << (52 - n_fraction);
  if ((formats[dtype].specials == LAST_IS_NAN && magnitude == last)
      || (formats[dtype].specials == MINUS_ZERO_IS_NAN && code == last + 1))
    return sign | F64_INFINITY | F64_QUIET_BIT;
  value = exponent == 0 ? (gdouble) fraction : (gdouble) (fraction + (G_GUINT64_CONSTANT (1) << n_fraction));
  return sign | bits_of (ldexp (value, MAX (exponent, 1) - formats[dtype].bias - n_fraction));
}

/* The code nearest to an F64, ties to even; @f64 is an F32 if the dtype is narrower than that. */
static guint64
encode (WeftDtype dtype, guint64 f64)
{
  gint n_fraction = formats[dtype].n_fraction, n_magnitude = (gint) weft_dtype_get_bits (dtype) - 1;
  guint64 last = (G_GUINT64_CONSTANT (1) << n_magnitude) - 1, sign = f64 >> 63 << n_magnitude;
  guint64 infinity = last - (G_GUINT64_CONSTANT (1) << n_fraction) + 1, payload, code = last + 1;
  gdouble magnitude = fabs (value_of (f64));

  if (isfinite (magnitude))
    {
      gint exponent = magnitude == 0 ? 1 : MAX (ilogb (magnitude) + formats[dtype].bias, 1);
      gdouble n_ulps = nearbyint (ldexp (magnitude, n_fraction + formats[dtype].bias - exponent));

      code = (guint64) n_ulps + ((guint64) (exponent - 1) << n_fraction);
    }
  switch (formats[dtype].specials)
    {
    case IEEE:
      payload = f64 << 12 >> (64 - n_fraction);
      if (is_nan (f64))
        return sign | infinity | (payload == 0 ? G_GUINT64_CONSTANT (1) << (n_fraction - 1) : payload);
      return sign | MIN (code, infinity);
    case LAST_IS_NAN:
      return sign | (is_nan (f64) ? last : MIN (code, last - 1));
    case MINUS_ZERO_IS_NAN:
      return code > last ? last + 1 : code == 0 ? 0 : sign | code;
    case FINITE:
      return is_nan (f64) ? last : sign | MIN (code, last);
    case NOT_A_FLOAT:
    default:
      g_assert_not_reached ();
    }
}

static guint64
decode_power (guint64 code)
{
  return code == 0xff ? F64_INFINITY | F64_QUIET_BIT : bits_of (ldexp (1, (gint) code - 127));
}

static guint64
encode_power (guint64 f64)
{
  gdouble magnitude = fabs (value_of (f64));
  gint exponent;

  if (!isfinite (magnitude))
    return 0xff;
  if (magnitude <= 0x1.8p-127)
    return magnitude > 0x1p-127 ? 1 : 0;
  exponent = ilogb (magnitude) + 127;
  return (guint64) exponent + (magnitude >= ldexp (1.5, exponent - 127) ? 1 : 0);
}

static guint64
to_integer (WeftDtype to, gdouble value)
{
  if (isnan (value))
    return 0;
  value = MAX (trunc (value), -0x1p63);
  if (value < 0)
    return (guint64) (gint64) value;
  if (to == WEFT_DTYPE_U64)
    return value < 0x1p64 ? (guint64) value : G_MAXUINT64;
  return value < 0x1p63 ? (guint64) value : G_MAXINT64;
}

static gint64
sign_extend (WeftDtype dtype, guint64 code)
{
  guint n_unused = 64 - weft_dtype_get_bits (dtype);

  return (gint64) (code << n_unused) >> n_unused;
}

static gboolean
is_signed_integer (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_I8 || dtype == WEFT_DTYPE_I16 || dtype == WEFT_DTYPE_I32
         || dtype == WEFT_DTYPE_I64;
}

/* Rounds to F32 what is on its way to a dtype narrower than F64. */
static guint64
round_to_f32 (WeftDtype from, WeftDtype to, guint64 code)
{
  gboolean is_whole = !weft_dtype_is_floating (from);

  if (to == WEFT_DTYPE_F64)
    return is_whole ? bits_of (is_signed_integer (from) ? (gdouble) sign_extend (from, code) : (gdouble) code)
                    : code;
  if (is_whole)
    return bits_of (is_signed_integer (from) ? (gfloat) sign_extend (from, code) : (gfloat) code);
  return is_nan (code) ? decode (WEFT_DTYPE_F32, encode (WEFT_DTYPE_F32, code))
                       : bits_of ((gfloat) value_of (code));
}

static guint64
cast_code (WeftDtype from, WeftDtype to, guint64 code)
{
  if (from == to)
    return code;
  if (from == WEFT_DTYPE_BOOL)
    code = code != 0;
  if (weft_dtype_is_floating (from))
    code = from == WEFT_DTYPE_F8_E8M0 ? decode_power (code) : decode (from, code);
  if (to == WEFT_DTYPE_BOOL)
    return weft_dtype_is_floating (from) ? (code & ~F64_SIGN) != 0 : code != 0;
  if (weft_dtype_is_floating (to))
    {
      code = round_to_f32 (from, to, code);
      return to == WEFT_DTYPE_F8_E8M0 ? encode_power (code) : encode (to, code);
    }
  if (weft_dtype_is_floating (from))
    return to_integer (to, value_of (code));
  return is_signed_integer (from) ? (guint64) sign_extend (from, code) : code;
}

static void
cast_plainly (WeftDtype from, WeftDtype to, const void *source, void *destination, gsize n_elements)
{
  for (gsize i = 0; i < n_elements; i++)
    store_code (to, destination, i, cast_code (from, to, load_code (from, source, i)));
}

WEFT_CAST_DEFINE_LOOKUP (lookup_cast_plainly, cast_plainly)

WeftCastFunc
weft_cast_lookup_plain (WeftDtype from, WeftDtype to)
{
  g_return_val_if_fail (from < WEFT_N_DTYPES && to < WEFT_N_DTYPES, NULL);

  if (from == WEFT_DTYPE_C64 && to == WEFT_DTYPE_C64)
    return lookup_cast_plainly (WEFT_DTYPE_U64, WEFT_DTYPE_U64);
  return lookup_cast_plainly (from, to);
}
