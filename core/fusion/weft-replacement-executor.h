/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces modules of one model: families and plan overrides are compiled to plans, and applied as a whole or not at all. */
#pragma once

#include "fusion/weft-plan-overrides.h"
#include "fusion/weft-replacement-plan.h"
#include "model/weft-module-tree.h"
#include "transform/weft-transform-list.h"

G_BEGIN_DECLS

#define WEFT_TYPE_REPLACEMENT_EXECUTOR (weft_replacement_executor_get_type ())

/**
 * WeftReplacementExecutor:
 *
 * The skeleton of one model with what was replaced in it, and the rules that take the weights there: the second stage,
 * behind the model's own mapping. Applying a plan changes all of it, or, with an error, nothing.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftReplacementExecutor, weft_replacement_executor, WEFT, REPLACEMENT_EXECUTOR, GObject)

/**
 * WeftFusionOrigin:
 * @WEFT_FUSION_ORIGIN_ASKED: the user asked for these families now: one that fits no module is an error
 * @WEFT_FUSION_ORIGIN_STORED: the config is stored in the checkpoint: one that fits no module is noted
 *
 * Where a fusion config comes from.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_FUSION_ORIGIN_ASKED,
  WEFT_FUSION_ORIGIN_STORED,
} WeftFusionOrigin;

WEFT_PUBLIC WeftReplacementExecutor *weft_replacement_executor_new (WeftModuleTree *tree, JsonNode *config,
                                                                    const gchar *where);

/* Compiling: no side effects. */
WEFT_PUBLIC WeftReplacementPlan *
weft_replacement_executor_compile_fusions (WeftReplacementExecutor *self, JsonNode *fusion_config,
                                           const gchar *where, WeftFusionOrigin origin, GError **error);
WEFT_PUBLIC WeftReplacementPlan *weft_replacement_executor_compile_overrides (WeftReplacementExecutor *self,
                                                                              WeftPlanOverrides *overrides,
                                                                              GError **error);
WEFT_PUBLIC GStrv weft_replacement_executor_discover (WeftReplacementExecutor *self, const gchar *family,
                                                      gchar **reason, GError **error);

/* Applying: all or nothing. */
WEFT_PUBLIC gboolean weft_replacement_executor_apply (WeftReplacementExecutor *self,
                                                      WeftReplacementPlan *plan, GError **error);

/* What was applied so far. */
WEFT_PUBLIC WeftModuleTree *weft_replacement_executor_get_tree (WeftReplacementExecutor *self);
WEFT_PUBLIC WeftTransformList *weft_replacement_executor_get_transforms (WeftReplacementExecutor *self);
WEFT_PUBLIC WeftPatchMapping *weft_replacement_executor_get_patch_mapping (WeftReplacementExecutor *self);
WEFT_PUBLIC GStrv weft_replacement_executor_list_replaced (WeftReplacementExecutor *self);
WEFT_PUBLIC GVariant *weft_replacement_executor_dup_parallel_styles (WeftReplacementExecutor *self);

WEFT_PUBLIC JsonNode *weft_replacement_executor_to_json (WeftReplacementExecutor *self);

G_END_DECLS
