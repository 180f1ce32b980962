/* SPDX-License-Identifier: Apache-2.0 */
/* The packed weights of a state dict: which tensors make up which weight. */
#pragma once

#include "quantize/weft-quantizer.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PACKED_WEIGHTS (weft_packed_weights_get_type ())

/**
 * WeftPackedWeights:
 *
 * A state dict seen as the dense weights that it stands for: each packed weight is one entry under its dense name, and its
 * companions are none. Immutable.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPackedWeights, weft_packed_weights, WEFT, PACKED_WEIGHTS, GObject)

WEFT_PUBLIC WeftPackedWeights *weft_packed_weights_new (WeftQuantizer *quantizer, WeftStateDict *stored,
                                                        gboolean is_dequantised, GError **error);
WEFT_PUBLIC WeftQuantizer *weft_packed_weights_get_quantizer (WeftPackedWeights *self);
WEFT_PUBLIC WeftStateDict *weft_packed_weights_get_dense (WeftPackedWeights *self);
WEFT_PUBLIC guint weft_packed_weights_get_n_packed (WeftPackedWeights *self);
WEFT_PUBLIC WeftPackedWeight *weft_packed_weights_get_weight (WeftPackedWeights *self, guint position);
WEFT_PUBLIC guint weft_packed_weights_get_stored_position (WeftPackedWeights *self, guint position);
WEFT_PUBLIC WeftStateDict *weft_packed_weights_dequantize (WeftPackedWeights *self, WeftDtype dtype,
                                                           GError **error);

G_END_DECLS
