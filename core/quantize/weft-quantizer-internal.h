/* SPDX-License-Identifier: Apache-2.0 */
/* What the library alone asks of a quantizer. Internal to the library: not installed. */
#pragma once

#include "quantize/weft-quantizer.h"

/* The name of a part of the weight @dense_name, spelled as @key, the name of such a part; (nullable): the method has none for such a
 * weight. */
gchar *weft_quantizer_dup_key_spelled_as (WeftQuantizer *self, const gchar *dense_name, const gchar *key);
