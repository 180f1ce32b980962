/* SPDX-License-Identifier: Apache-2.0 */
/* One module of a model: its class, attributes, tensors and children. */
#pragma once

#include "model/weft-model-config.h"
#include "model/weft-tensor-spec.h"

G_BEGIN_DECLS

typedef struct _WeftModuleTree WeftModuleTree;

#define WEFT_TYPE_MODULE (weft_module_get_type ())

/**
 * WeftModule:
 *
 * A module of a model, as far as its weights are concerned: what class it is, the attributes that its constructor was
 * given, its own tensors, its children. A module of a #WeftModuleTree is immutable; two objects stand for the same
 * module if their trees and their paths are the same. A copy, or one made anew, is in no tree and can be changed; what
 * it holds is shared until it is changed. weft_module_tree_replace() makes a tree with such modules in it.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftModule, weft_module, WEFT, MODULE, GObject)

/* Where it is. */
WEFT_PUBLIC const gchar *weft_module_get_fqn (WeftModule *self);
WEFT_PUBLIC const gchar *weft_module_get_name (WeftModule *self);
WEFT_PUBLIC GStrv weft_module_dup_fqns (WeftModule *self);
WEFT_PUBLIC WeftModuleTree *weft_module_get_tree (WeftModule *self);
WEFT_PUBLIC WeftModule *weft_module_get_parent (WeftModule *self);
WEFT_PUBLIC WeftModelConfig *weft_module_get_config (WeftModule *self);

/* What it is. */
WEFT_PUBLIC const gchar *weft_module_get_class_name (WeftModule *self);
WEFT_PUBLIC const gchar *const *weft_module_get_bases (WeftModule *self);
WEFT_PUBLIC gboolean weft_module_is_a (WeftModule *self, const gchar *class_name);
WEFT_PUBLIC GStrv weft_module_list_attributes (WeftModule *self);
WEFT_PUBLIC GVariant *weft_module_get_attribute (WeftModule *self, const gchar *name);
WEFT_PUBLIC gboolean weft_module_get_attribute_int (WeftModule *self, const gchar *name, gint64 *value);

/* Children. */
WEFT_PUBLIC guint weft_module_get_n_children (WeftModule *self);
WEFT_PUBLIC const gchar *weft_module_get_child_name (WeftModule *self, guint position);
WEFT_PUBLIC WeftModule *weft_module_get_child (WeftModule *self, guint position);
WEFT_PUBLIC WeftModule *weft_module_find (WeftModule *self, const gchar *path);

/* Tensors: its own, in the order of definition; and those of the modules in it. */
WEFT_PUBLIC guint weft_module_get_n_tensors (WeftModule *self);
WEFT_PUBLIC const gchar *weft_module_get_tensor_name (WeftModule *self, guint position);
WEFT_PUBLIC WeftTensorSpec *weft_module_get_tensor_spec (WeftModule *self, guint position);
WEFT_PUBLIC WeftTensorSpec *weft_module_find_tensor (WeftModule *self, const gchar *path);
WEFT_PUBLIC GStrv weft_module_list_tensors (WeftModule *self);

/* Changing one that is in no tree. */
WEFT_PUBLIC WeftModule *weft_module_new (const gchar *class_name, const gchar *const *bases);
WEFT_PUBLIC WeftModule *weft_module_copy (WeftModule *self);
WEFT_PUBLIC void weft_module_set_class_name (WeftModule *self, const gchar *class_name,
                                             const gchar *const *bases);
WEFT_PUBLIC void weft_module_set_attribute (WeftModule *self, const gchar *name, GVariant *value);
WEFT_PUBLIC void weft_module_set_child (WeftModule *self, const gchar *name, WeftModule *child);
WEFT_PUBLIC void weft_module_replace_child (WeftModule *self, const gchar *old_name, const gchar *name,
                                            WeftModule *child);
WEFT_PUBLIC gboolean weft_module_remove_child (WeftModule *self, const gchar *name);
WEFT_PUBLIC void weft_module_set_tensor (WeftModule *self, const gchar *name, WeftTensorSpec *spec);
WEFT_PUBLIC void weft_module_replace_tensor (WeftModule *self, const gchar *old_name, const gchar *name,
                                             WeftTensorSpec *spec);
WEFT_PUBLIC gboolean weft_module_remove_tensor (WeftModule *self, const gchar *name);

G_END_DECLS
