/* SPDX-License-Identifier: Apache-2.0 */
/* The config of an adapter whose experts were fused. */
#pragma once

#include "tensor/weft-state-dict.h"
#include "transform/weft-transform-list.h"

#define WEFT_ADAPTER_CONFIG_FILE_NAME "adapter_config.json"

/* The text of the converted config: the parameters that the fused weights are for, their rank and alpha; or NULL with an error if it
 * names a part of what is fused. @config: its content, which is changed. @rules: the derived list, of which the used rules count. @outputs: what was made. */
gchar *weft_adapter_convert_config (JsonNode *config, const gchar *where, WeftTransformList *rules,
                                    WeftStateDict *outputs, GError **error);
