/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime's model looks like without weights: classes, modules, tensors, ties. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-shape.h"

G_BEGIN_DECLS

#define WEFT_TYPE_MODULE_TREE (weft_module_tree_get_type ())

/**
 * WeftModuleTree:
 *
 * The skeleton of a model: its class and sub-models (in definition order, parents first), its modules, and the names,
 * shapes and dtypes of its tensors. Read from a JSON file that a runtime exports, or, with the class alone, from
 * `config.json`. Immutable but for the marks of custom code.
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
WEFT_PUBLIC gboolean weft_module_tree_mark_custom_code (WeftModuleTree *self, JsonNode *config,
                                                        const gchar *where, GError **error);

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

/* Sub-models; the first one is the model itself, with the path "". */
WEFT_PUBLIC guint weft_module_tree_get_n_sub_models (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_fqn (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_class (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_type (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_sub_model_base_model_prefix (WeftModuleTree *self,
                                                                           guint position);
WEFT_PUBLIC gboolean weft_module_tree_is_sub_model_custom (WeftModuleTree *self, guint position);

/* Modules. */
WEFT_PUBLIC guint weft_module_tree_get_n_modules (WeftModuleTree *self);
WEFT_PUBLIC const gchar *weft_module_tree_get_module_fqn (WeftModuleTree *self, guint position);
WEFT_PUBLIC const gchar *weft_module_tree_get_module_class (WeftModuleTree *self, guint position);

/* Tensors. */
WEFT_PUBLIC gboolean weft_module_tree_has_tensors (WeftModuleTree *self);
WEFT_PUBLIC guint weft_module_tree_get_n_tensors (WeftModuleTree *self);
WEFT_PUBLIC gboolean weft_module_tree_find_tensor (WeftModuleTree *self, const gchar *name, guint *position);
WEFT_PUBLIC const gchar *weft_module_tree_get_tensor_name (WeftModuleTree *self, guint position);
WEFT_PUBLIC const WeftShape *weft_module_tree_get_tensor_shape (WeftModuleTree *self, guint position);
WEFT_PUBLIC WeftDtype weft_module_tree_get_tensor_dtype (WeftModuleTree *self, guint position);
WEFT_PUBLIC gboolean weft_module_tree_is_tensor_persistent (WeftModuleTree *self, guint position);
WEFT_PUBLIC gboolean weft_module_tree_is_tensor_buffer (WeftModuleTree *self, guint position);
WEFT_PUBLIC GHashTable *weft_module_tree_get_model_keys (WeftModuleTree *self);

G_END_DECLS
