/* SPDX-License-Identifier: Apache-2.0 */
/* Dtype conversion of runs of elements. Private to the tensor room. */
#pragma once

#include "base/weft-dtype.h"

/* Converts @n_elements contiguous elements. Sub-byte dtypes are packed; for them @n_elements fills whole bytes.
 * Source and destination may be unaligned and do not overlap. */
typedef void (*WeftCastFunc) (const void *source, void *destination, gsize n_elements);

/* The function for a pair of dtypes; NULL if there is no such conversion (C64 to a real dtype). */
WeftCastFunc weft_cast_lookup (WeftDtype from, WeftDtype to);

/* The plain version of the same conversion: one element at a time, used to check the vectorised ones. */
WeftCastFunc weft_cast_lookup_plain (WeftDtype from, WeftDtype to);

/* Whether every value of @from is a value of @to, so that casting there and back is the identity on bits (NaN
 * payloads included). */
gboolean weft_cast_is_widening (WeftDtype from, WeftDtype to);
