/* SPDX-License-Identifier: Apache-2.0 */
/* Multiplying and adding numbers to runs of elements. Private to the tensor room. */
#pragma once

#include "base/weft-dtype.h"

/* Both compute n_elements contiguous elements, in F32 (F64 for F64) rounded once back to @dtype, or exactly in the
 * integer dtype, where results wrap. Sub-byte dtypes are packed and @n_elements fills whole bytes. Source and destination
 * may be the same, and may be unaligned.
 * Returns FALSE, with nothing written, if there is no such arithmetic: for BOOL, C64 and F8_E8M0, and for integers if the
 * number is not whole or does not fit 64 bits. */
gboolean weft_scale_elements (WeftDtype dtype, const void *source, void *destination, gsize n_elements,
                              gdouble factor);
gboolean weft_shift_elements (WeftDtype dtype, const void *source, void *destination, gsize n_elements,
                              gdouble summand);
