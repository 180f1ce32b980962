/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic goes through the casts: a block is widened to the type it is computed in, computed, and rounded back.
 * Scaling by -1 only flips signs, those of NaNs included, so that doing it twice is the identity on bits. */
#include "tensor/weft-arithmetic-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-vectorised-private.h"

#include <string.h>

/* A multiple of 4, so that blocks of sub-byte dtypes end on bytes. */
#define BLOCK_ELEMENTS 512

typedef enum
{
  SCALE,
  SHIFT,
} Operation;

WEFT_VECTORISED static void
compute_f32 (Operation operation, gfloat *block, gsize n, gfloat number)
{
  if (operation == SCALE)
    for (gsize i = 0; i < n; i++)
      block[i] *= number;
  else
    for (gsize i = 0; i < n; i++)
      block[i] += number;
}

WEFT_VECTORISED static void
compute_f64 (Operation operation, gdouble *block, gsize n, gdouble number)
{
  if (operation == SCALE)
    for (gsize i = 0; i < n; i++)
      block[i] *= number;
  else
    for (gsize i = 0; i < n; i++)
      block[i] += number;
}

/* Unsigned, so that it wraps; the low bits are those of the signed result. */
static void
compute_u64 (Operation operation, guint64 *block, gsize n, guint64 number)
{
  for (gsize i = 0; i < n; i++)
    block[i] = operation == SCALE ? block[i] * number : block[i] + number;
}

static gboolean
is_whole (gdouble number)
{
  if (!(number >= -0x1p63 && number < 0x1p64))
    return FALSE;
  return number < 0 ? (gdouble) (gint64) number == number : (gdouble) (guint64) number == number;
}

/* The signs of a period of 1, 2, 3, 4 or 8 bytes, in @period bytes from the lowest. */
static guint64
sign_bits (WeftDtype dtype, gsize *period)
{
  switch (weft_dtype_get_bits (dtype))
    {
    case 4:
      *period = 1;
      return 0x88;
    case 6:
      *period = 3;
      return 0x820820;
    default:
      *period = weft_dtype_get_bits (dtype) / 8;
      return G_GUINT64_CONSTANT (1) << (weft_dtype_get_bits (dtype) - 1);
    }
}

WEFT_VECTORISED static void
flip_codes_without_minus_zero (const guint8 *source, guint8 *destination, gsize n_bytes)
{
  for (gsize i = 0; i < n_bytes; i++)
    destination[i] = (guint8) (source[i] ^ ((source[i] & 0x7f) == 0 ? 0 : 0x80));
}

static void
flip_signs (WeftDtype dtype, const guint8 *source, guint8 *destination, gsize n_elements)
{
  gsize n_bytes = n_elements * weft_dtype_get_bits (dtype) / 8, period;
  guint64 signs = sign_bits (dtype, &period);
  guint8 mask[24];
  gsize i = 0;

  if (dtype == WEFT_DTYPE_F8_E4M3FNUZ || dtype == WEFT_DTYPE_F8_E5M2FNUZ)
    {
      flip_codes_without_minus_zero (source, destination, n_bytes);
      return;
    }
  for (gsize k = 0; k < sizeof mask; k++)
    mask[k] = (guint8) (signs >> k % period * 8);
  for (; i + sizeof mask <= n_bytes; i += sizeof mask)
    for (gsize k = 0; k < sizeof mask; k++)
      destination[i + k] = source[i + k] ^ mask[k];
  for (gsize k = 0; i + k < n_bytes; k++)
    destination[i + k] = source[i + k] ^ mask[k];
}

/* The type that a dtype is computed in; INVALID if there is no arithmetic on it. */
static WeftDtype
computing_dtype (WeftDtype dtype)
{
  if (dtype == WEFT_DTYPE_INVALID || dtype == WEFT_DTYPE_BOOL || dtype == WEFT_DTYPE_C64
      || dtype == WEFT_DTYPE_F8_E8M0)
    return WEFT_DTYPE_INVALID;
  if (!weft_dtype_is_floating (dtype))
    return WEFT_DTYPE_U64;
  return dtype == WEFT_DTYPE_F64 ? WEFT_DTYPE_F64 : WEFT_DTYPE_F32;
}

static gboolean
compute (Operation operation, WeftDtype dtype, const guint8 *source, guint8 *destination, gsize n_elements,
         gdouble number)
{
  WeftDtype computing = computing_dtype (dtype);
  gsize bits = weft_dtype_get_bits (dtype);
  WeftCastFunc widen, narrow;
  union
  {
    gfloat f32[BLOCK_ELEMENTS];
    gdouble f64[BLOCK_ELEMENTS];
    guint64 u64[BLOCK_ELEMENTS];
  } block;

  if (computing == WEFT_DTYPE_INVALID || (computing == WEFT_DTYPE_U64 && !is_whole (number)))
    return FALSE;
  if (operation == SCALE && number == -1 && computing != WEFT_DTYPE_U64)
    {
      flip_signs (dtype, source, destination, n_elements);
      return TRUE;
    }
  widen = weft_cast_lookup (dtype, computing);
  narrow = weft_cast_lookup (computing, dtype);
  for (gsize start = 0; start < n_elements; start += BLOCK_ELEMENTS)
    {
      gsize n = MIN (BLOCK_ELEMENTS, n_elements - start), offset = start * bits / 8;

      widen (source + offset, &block, n);
      if (computing == WEFT_DTYPE_F32)
        compute_f32 (operation, block.f32, n, (gfloat) number);
      else if (computing == WEFT_DTYPE_F64)
        compute_f64 (operation, block.f64, n, number);
      else
        compute_u64 (operation, block.u64, n, number < 0 ? (guint64) (gint64) number : (guint64) number);
      narrow (&block, destination + offset, n);
    }
  return TRUE;
}

gboolean
weft_scale_elements (WeftDtype dtype, const void *source, void *destination, gsize n_elements, gdouble factor)
{
  return compute (SCALE, dtype, source, destination, n_elements, factor);
}

gboolean
weft_shift_elements (WeftDtype dtype, const void *source, void *destination, gsize n_elements,
                     gdouble summand)
{
  return compute (SHIFT, dtype, source, destination, n_elements, summand);
}
