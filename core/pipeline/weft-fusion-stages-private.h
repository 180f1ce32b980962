/* SPDX-License-Identifier: Apache-2.0 */
/* The stages that fusions and plan overrides add behind the model's mapping: what a fused checkpoint holds is taken back to the
 * runtime's names, then what is asked for is applied. */
#pragma once

#include "pipeline/weft-load-plan-private.h"

/* Compiles and applies what the options ask for or config.json stores to the skeleton. The names of both forms count as the model's. */
gboolean weft_fusion_stages_prepare (WeftLoadPlan *self, GError **error);
/* The name of a fused tensor that the checkpoint holds, where the mapping takes @key for a published one and makes @renamed of it; NULL
 * without an error if there is no such doubt. */
gchar *weft_fusion_stages_keep_fused_name (WeftLoadPlan *self, const gchar *key, const gchar *renamed,
                                           GError **error);
/* Takes fused tensors of the checkpoint back. */
gboolean weft_fusion_stages_take_back (WeftLoadPlan *self, GError **error);
/* Fuses. */
gboolean weft_fusion_stages_apply (WeftLoadPlan *self, GError **error);

/* The text of config.json as the output has it, or NULL if it stays as it is. */
gchar *weft_fusion_stages_edit_config (WeftLoadPlan *self, GError **error);

/* What a config stores, applied to @tree; NULL without an error if it stores nothing. */
WeftReplacementExecutor *weft_fusion_stages_open_stored (WeftModuleTree *tree, JsonNode *config,
                                                         const gchar *where, WeftLoadReport *report,
                                                         GError **error);
/* A config without what it stores of fusions, or NULL if it stores nothing. */
gchar *weft_fusion_stages_clean_config (JsonNode *config, const gchar *text, const gchar *where,
                                        GError **error);
/* Whether a name is one that replaced modules have and the model as it was has not. */
gboolean weft_fusion_stages_is_fused_name (WeftReplacementExecutor *fusion, WeftModuleTree *tree,
                                           const gchar *name);
