/* SPDX-License-Identifier: Apache-2.0 */
/* Element types of a tensor: those of the safetensors format, in its own order. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

/**
 * WeftDtype:
 * @WEFT_DTYPE_INVALID: no dtype
 * @WEFT_DTYPE_BOOL: one byte, 0 or 1 (other values are kept as they are)
 * @WEFT_DTYPE_F4: E2M1, 4 bits, element 0 in the low nibble
 * @WEFT_DTYPE_F6_E2M3: 6 bits, packed without gaps, lowest bits first
 * @WEFT_DTYPE_F6_E3M2: 6 bits, packed without gaps, lowest bits first
 * @WEFT_DTYPE_U8: unsigned, 8 bits
 * @WEFT_DTYPE_I8: signed, 8 bits
 * @WEFT_DTYPE_F8_E5M2: 8 bits, with infinities
 * @WEFT_DTYPE_F8_E4M3: 8 bits, "fn": largest 448, no infinity
 * @WEFT_DTYPE_F8_E8M0: 8 bits, a power of two: 2^(code - 127), 255 is NaN
 * @WEFT_DTYPE_F8_E4M3FNUZ: 8 bits, no infinity, no negative zero
 * @WEFT_DTYPE_F8_E5M2FNUZ: 8 bits, no infinity, no negative zero
 * @WEFT_DTYPE_I16: signed, 16 bits
 * @WEFT_DTYPE_U16: unsigned, 16 bits
 * @WEFT_DTYPE_F16: IEEE 754 binary16
 * @WEFT_DTYPE_BF16: the upper half of an IEEE 754 binary32
 * @WEFT_DTYPE_I32: signed, 32 bits
 * @WEFT_DTYPE_U32: unsigned, 32 bits
 * @WEFT_DTYPE_F32: IEEE 754 binary32
 * @WEFT_DTYPE_C64: complex, two F32
 * @WEFT_DTYPE_F64: IEEE 754 binary64
 * @WEFT_DTYPE_I64: signed, 64 bits
 * @WEFT_DTYPE_U64: unsigned, 64 bits
 *
 * The element types of the safetensors format 0.8, in the format's own order (which decides the order of
 * tensors in a file that is written).
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_DTYPE_INVALID,
  WEFT_DTYPE_BOOL,
  WEFT_DTYPE_F4,
  WEFT_DTYPE_F6_E2M3,
  WEFT_DTYPE_F6_E3M2,
  WEFT_DTYPE_U8,
  WEFT_DTYPE_I8,
  WEFT_DTYPE_F8_E5M2,
  WEFT_DTYPE_F8_E4M3,
  WEFT_DTYPE_F8_E8M0,
  WEFT_DTYPE_F8_E4M3FNUZ,
  WEFT_DTYPE_F8_E5M2FNUZ,
  WEFT_DTYPE_I16,
  WEFT_DTYPE_U16,
  WEFT_DTYPE_F16,
  WEFT_DTYPE_BF16,
  WEFT_DTYPE_I32,
  WEFT_DTYPE_U32,
  WEFT_DTYPE_F32,
  WEFT_DTYPE_C64,
  WEFT_DTYPE_F64,
  WEFT_DTYPE_I64,
  WEFT_DTYPE_U64,
} WeftDtype;

/**
 * WEFT_N_DTYPES:
 *
 * The number of dtypes, %WEFT_DTYPE_INVALID included.
 *
 * Since: 1.0
 */
#define WEFT_N_DTYPES (WEFT_DTYPE_U64 + 1)

WEFT_PUBLIC guint weft_dtype_get_bits (WeftDtype dtype);
WEFT_PUBLIC const gchar *weft_dtype_get_name (WeftDtype dtype);
WEFT_PUBLIC const gchar *weft_dtype_get_config_name (WeftDtype dtype);
WEFT_PUBLIC WeftDtype weft_dtype_from_name (const gchar *name);
WEFT_PUBLIC WeftDtype weft_dtype_from_any_name (const gchar *name);
WEFT_PUBLIC gboolean weft_dtype_is_floating (WeftDtype dtype);

G_END_DECLS
