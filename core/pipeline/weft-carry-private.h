/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights through a conversion: codes and companions follow as one unit, or the conversion is refused. */
#pragma once

#include "transform/weft-conversion-internal.h"
#include "quantize/weft-packed-weights.h"

/* Whether a source of @conversion, whose positions are those of weft_packed_weights_get_dense(), is packed. */
gboolean weft_carry_is_needed (WeftPackedWeights *weights, const WeftConversion *conversion);

/* The conversions that carry each role of the packed weights that meet in @conversion: they have run, and their positions are
 * those of the stored tensors. @keeps_names: parts are spelled as they are stored. An error says what cannot be kept exact. */
GPtrArray *weft_carry (WeftPackedWeights *weights, WeftConversion *conversion, WeftOpContext *model,
                       gboolean keeps_names, GError **error);

/* Makes the positions of a conversion of plain tensors those of the stored ones. */
void weft_carry_refer_to_stored (WeftPackedWeights *weights, WeftConversion *conversion);
