/* SPDX-License-Identifier: Apache-2.0 */
/* Dense weights -> codes and companions, by the rules of compressed-tensors. Every step of the arithmetic of scales is rounded to
 * the dtype of the weight, as that library computes in it. */
#pragma once

#include "weft-compressed-tensors-group.h"

G_BEGIN_DECLS

/* Sets the parts of @weight. */
gboolean weft_ct_quantize (const WeftCtGroup *group, WeftPackedWeight *weight, GError **error);

G_END_DECLS
