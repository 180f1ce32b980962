/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the quantize room. */
#pragma once

#include "quantize/weft-packed-weight.h"

G_BEGIN_DECLS

/* The name that the part of a role is written under. */
void weft_packed_weight_set_key (WeftPackedWeight *self, const gchar *role, const gchar *key);
/* Gives each part all the axes of its blocks, for as long as a method looks at it. Returns what the parts were, for
 * weft_packed_weight_restore_axes(). */
GPtrArray *weft_packed_weight_fill_axes (WeftPackedWeight *self, GError **error);
void weft_packed_weight_restore_axes (WeftPackedWeight *self, GPtrArray *stored);

G_END_DECLS
