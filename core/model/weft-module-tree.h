/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime's model looks like without weights: classes, modules, tensors, ties. */
#pragma once

#include <json-glib/json-glib.h>

#include "checkpoint/weft-checkpoint.h"
#include "model/weft-architecture-registry.h"
#include "model/weft-model-config.h"
#include "model/weft-module.h"
#include "model/weft-tensor-spec.h"

G_BEGIN_DECLS

/**
 * WeftParallelKind:
 * @WEFT_PARALLEL_KIND_TENSOR: tensors cut over devices
 * @WEFT_PARALLEL_KIND_EXPERT: experts spread over devices
 *
 * The plans of a model for several devices.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_PARALLEL_KIND_TENSOR,
  WEFT_PARALLEL_KIND_EXPERT,
} WeftParallelKind;

/**
 * WEFT_N_PARALLEL_KINDS:
 *
 * The number of parallel plans.
 *
 * Since: 1.0
 */
#define WEFT_N_PARALLEL_KINDS (WEFT_PARALLEL_KIND_EXPERT + 1)

/**
 * WEFT_UNKNOWN_MODULE_CLASS:
 *
 * The class of modules that are known by the names of their tensors alone.
 *
 * Since: 1.0
 */
#define WEFT_UNKNOWN_MODULE_CLASS "Module"

#define WEFT_TYPE_MODULE_TREE (weft_module_tree_get_type ())

/**
 * WeftModuleTree:
 *
 * The skeleton of a model: its class and sub-models (in definition order, parents first), its modules, and the names,
 * shapes and dtypes of its tensors. Made from `config.json`, from a JSON file that a runtime exports, or from the names
 * and shapes of a checkpoint. Immutable once it is made, but for the marks of custom code; a changed tree is a new one,
 * which shares what did not change.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftModuleTree, weft_module_tree, WEFT, MODULE_TREE, GObject)

/* Making one. */
WEFT_PUBLIC WeftModuleTree *weft_module_tree_load (const gchar *path, GError **error);
WEFT_PUBLIC WeftModuleTree *weft_module_tree_new_from_json (JsonNode *root, const gchar *where,
                                                            GError **error);
WEFT_PUBLIC WeftModuleTree *weft_module_tree_new_from_config (JsonNode *config, const gchar *where,
                                                              GError **error);
WEFT_PUBLIC WeftModuleTree *weft_module_tree_new_for_config (WeftArchitectureRegistry *registry,
                                                             JsonNode *root, const gchar *where,
                                                             const gchar *class_name, WeftDtype dtype,
                                                             GError **error);
WEFT_PUBLIC WeftModuleTree *weft_module_tree_new_like (WeftCheckpoint *checkpoint, GError **error);
WEFT_PUBLIC gboolean weft_module_tree_mark_custom_code (WeftModuleTree *self, JsonNode *config,
                                                        const gchar *where, GError **error);
WEFT_PUBLIC void weft_module_tree_set_config (WeftModuleTree *self, WeftModelConfig *config);
WEFT_PUBLIC WeftModuleTree *weft_module_tree_replace (WeftModuleTree *self, GHashTable *replacements,
                                                      GError **error);
WEFT_PUBLIC JsonNode *weft_module_tree_to_json (WeftModuleTree *self);

/* The model. */
WEFT_PUBLIC const gchar *weft_module_tree_get_class (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_model_type (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_base_model_prefix (WeftModuleTree *self);
WEFT_PUBLIC WeftDtype weft_module_tree_get_dtype (WeftModuleTree *self);
WEFT_PUBLIC const gchar *const *weft_module_tree_get_ignore_on_load_missing (WeftModuleTree *self);
WEFT_PUBLIC const gchar *const *weft_module_tree_get_ignore_on_load_unexpected (WeftModuleTree *self);
WEFT_PUBLIC const gchar *const *weft_module_tree_get_ignore_on_save (WeftModuleTree *self);
WEFT_PUBLIC guint weft_module_tree_get_n_dtype_rules (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_dtype_rule_pattern (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftDtype weft_module_tree_get_dtype_rule_dtype (WeftModuleTree *self, guint position);
WEFT_PUBLIC guint weft_module_tree_get_n_ties (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_tie_target (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_tie_source (WeftModuleTree *self, guint position);
WEFT_PUBLIC guint weft_module_tree_get_n_plan_rules (WeftModuleTree *self, WeftParallelKind plan);
WEFT_PUBLIC const gchar *weft_module_tree_get_plan_rule_pattern (WeftModuleTree *self, WeftParallelKind plan,
                                                                 guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_plan_rule_style (WeftModuleTree *self, WeftParallelKind plan,
                                                               guint position);

/* Sub-models; the first one is the model itself, with the path "". */
WEFT_PUBLIC guint weft_module_tree_get_n_sub_models (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_fqn (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_class (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_type (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_base_model_prefix (WeftModuleTree *self,
                                                                           guint position);
WEFT_PUBLIC gboolean weft_module_tree_is_sub_model_custom (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftModelConfig *weft_module_tree_get_sub_model_config (WeftModuleTree *self, guint position);

/* Modules: as plain texts, or as objects, which are made when they are asked for. */
WEFT_PUBLIC guint weft_module_tree_get_n_modules (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_module_fqn (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_module_class (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftModule *weft_module_tree_get_module (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftModule *weft_module_tree_get_root (WeftModuleTree *self);
WEFT_PUBLIC WeftModule *weft_module_tree_find_module (WeftModuleTree *self, const gchar *fqn);

/* Tensors. */
WEFT_PUBLIC gboolean weft_module_tree_has_tensors (WeftModuleTree *self);
WEFT_PUBLIC guint weft_module_tree_get_n_tensors (WeftModuleTree *self);
WEFT_PUBLIC gboolean weft_module_tree_find_tensor (WeftModuleTree *self, const gchar *name, guint *position);
WEFT_PUBLIC const gchar *weft_module_tree_get_tensor_name (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftTensorSpec *weft_module_tree_get_tensor_spec (WeftModuleTree *self, guint position);
WEFT_PUBLIC const WeftShape *weft_module_tree_get_tensor_shape (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftDtype weft_module_tree_get_tensor_dtype (WeftModuleTree *self, guint position);
WEFT_PUBLIC gboolean weft_module_tree_is_tensor_persistent (WeftModuleTree *self, guint position);
WEFT_PUBLIC gboolean weft_module_tree_is_tensor_buffer (WeftModuleTree *self, guint position);
WEFT_PUBLIC GHashTable *weft_module_tree_get_model_keys (WeftModuleTree *self);

G_END_DECLS
