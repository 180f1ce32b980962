/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for several ranks: which tensors are cut, and how. */
#pragma once

#include <json-glib/json-glib.h>

#include "model/weft-module-tree.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PARALLEL_PLAN (weft_parallel_plan_get_type ())

/**
 * WeftParallelPlan:
 *
 * Rules from names of modules and tensors to styles, such as `layers.*.self_attn.q_proj` to `colwise`. A number between dots is
 * written `*`. A tensor follows the rule of its own name, or else that of the module that it is in.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftParallelPlan, weft_parallel_plan, WEFT, PARALLEL_PLAN, GObject)

WEFT_PUBLIC WeftParallelPlan *weft_parallel_plan_new (void);
WEFT_PUBLIC WeftParallelPlan *weft_parallel_plan_load (const gchar *path, GError **error);
WEFT_PUBLIC WeftParallelPlan *weft_parallel_plan_new_from_json (JsonNode *root, const gchar *where,
                                                                GError **error);
WEFT_PUBLIC WeftParallelPlan *weft_parallel_plan_new_for_module_tree (WeftModuleTree *tree, GError **error);
WEFT_PUBLIC gboolean weft_parallel_plan_add_rule (WeftParallelPlan *self, const gchar *pattern,
                                                  const gchar *style, GError **error);
WEFT_PUBLIC gboolean weft_parallel_plan_merge (WeftParallelPlan *self, WeftParallelPlan *overrides,
                                               GError **error);

WEFT_PUBLIC guint weft_parallel_plan_get_n_rules (WeftParallelPlan *self);
WEFT_PUBLIC const gchar *weft_parallel_plan_get_pattern (WeftParallelPlan *self, guint rule);
WEFT_PUBLIC const gchar *weft_parallel_plan_get_style (WeftParallelPlan *self, guint rule);
WEFT_PUBLIC gboolean weft_parallel_plan_find_rule (WeftParallelPlan *self, const gchar *name, guint *rule);

WEFT_PUBLIC gchar *weft_parallel_plan_generalize_name (const gchar *name);
WEFT_PUBLIC GStrv weft_parallel_plan_list_styles (void);

WEFT_PUBLIC gchar *weft_rank_folder_name (guint rank, guint world_size);

G_END_DECLS
