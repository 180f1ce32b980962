/* SPDX-License-Identifier: Apache-2.0 */
/* Codes with scales for blocks of them -> values. The scales are never expanded, and codes that are unpacked or looked up on
 * the way are so in the same pass. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

WEFT_PUBLIC WeftTensor *weft_tensor_dequantize (WeftTensor *self, WeftTensor *scales, WeftTensor *zero_points,
                                                const gint64 *block, gsize n_block, WeftDtype dtype,
                                                GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_dequantize_affine (WeftTensor *self, WeftTensor *scales,
                                                       WeftTensor *biases, const gint64 *block, gsize n_block,
                                                       WeftDtype dtype, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_dequantize_grouped (WeftTensor *self, WeftTensor *scales,
                                                        WeftTensor *zero_points, WeftTensor *group_index,
                                                        gint axis, WeftDtype dtype, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_divide (WeftTensor *self, WeftTensor *divisors, const gint64 *block,
                                            gsize n_block, WeftDtype dtype, GError **error);

G_END_DECLS
