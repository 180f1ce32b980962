/* SPDX-License-Identifier: Apache-2.0 */
/* Private to the quantize room. */
#pragma once

#include "quantize/weft-packed-weight.h"

G_BEGIN_DECLS

/* The name that the part of a role is written under. */
void weft_packed_weight_set_key (WeftPackedWeight *self, const gchar *role, const gchar *key);

G_END_DECLS
