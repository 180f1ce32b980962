/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank adapters: weights beside a model, taken to its runtime layout by the model's own rules, edited for them. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "pipeline/weft-load-plan.h"

G_BEGIN_DECLS

WEFT_PUBLIC WeftTransformList *weft_adapter_derive_transforms (WeftTransformList *transforms,
                                                               const gchar *adapter_name, guint n_experts,
                                                               GError **error);
WEFT_PUBLIC WeftLoadPlan *weft_load_plan_new_for_adapter (WeftCheckpoint *adapter, JsonNode *base_config,
                                                          const gchar *where, const gchar *adapter_name,
                                                          WeftLoadOptions *options, GError **error);

G_END_DECLS
