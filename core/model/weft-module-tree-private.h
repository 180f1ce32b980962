/* SPDX-License-Identifier: Apache-2.0 */
/* A tree while it is made, by reading or by evaluating; afterwards it is immutable. */
#pragma once

#include "model/weft-module-body-private.h"
#include "model/weft-module-tree.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *fqn;
  gchar *class_name;
  gchar *model_type;
  gchar *base_model_prefix;
  gboolean is_custom;
  WeftModelConfig *config; /* (nullable) */
} WeftSubModel;

typedef struct
{
  gchar *pattern;
  WeftDtype dtype;
} WeftDtypeRule;

/* Two texts: target and source of a tie, pattern and style of a parallel plan. */
typedef struct
{
  gchar *first;
  gchar *second;
} WeftTextPair;

/* A place in the tree. Texts of places are in the tree's chunk. */
typedef struct
{
  const gchar *fqn;
  WeftModuleBody *body;
  guint parent;
} WeftModulePlace;

typedef struct
{
  const gchar *name;
  WeftTensorSpec *spec;
} WeftTensorPlace;

/* A path under which a module is registered again. */
typedef struct
{
  const gchar *fqn;
  const gchar *alias_of;
  guint n_modules_before;
  guint parent;
} WeftAliasPlace;

struct _WeftModuleTree
{
  GObject parent_instance;

  gchar *class_name;
  gchar *model_type;
  gchar *base_model_prefix;
  WeftDtype dtype;
  GArray *dtype_rules;
  GArray *ties;
  GArray *plan_rules[WEFT_N_PARALLEL_KINDS];
  GStrv ignore_on_load_missing;
  GStrv ignore_on_load_unexpected;
  GStrv ignore_on_save;
  GArray *sub_models;
  gboolean has_tensors;
  WeftModuleBody *root;

  /* The rest follows from the root when the tree is complete. */
  GStringChunk *texts;
  GArray *modules; /* depth first, parents first */
  GArray *tensors; /* persistent ones in definition order, then the others by name */
  GArray *aliases;
  GHashTable *tensor_positions; /* name -> position in tensors */
  GHashTable *model_keys;       /* names of persistent tensors */
  gsize module_positions_once;
  GHashTable *module_positions; /* fqn, aliases too -> position in modules; made when first asked for */
};

WeftModuleTree *weft_module_tree_new_empty (void);
void weft_module_tree_add_sub_model (WeftModuleTree *self, const gchar *fqn, const gchar *class_name,
                                     const gchar *model_type, const gchar *base_model_prefix,
                                     WeftModelConfig *config);
void weft_module_tree_add_dtype_rule (WeftModuleTree *self, const gchar *pattern, WeftDtype dtype);
void weft_module_tree_add_tie (WeftModuleTree *self, const gchar *target, const gchar *source);
void weft_module_tree_add_plan_rule (WeftModuleTree *self, WeftParallelKind plan, const gchar *pattern,
                                     const gchar *style);
/* What another tree says of the model as a whole; then, when the tree is complete, its sub-models and ties, as far as they are
 * there. */
void weft_module_tree_copy_model (WeftModuleTree *self, WeftModuleTree *old);
void weft_module_tree_copy_parts (WeftModuleTree *self, WeftModuleTree *old);
/* Fills in what follows from the root, which it takes. */
gboolean weft_module_tree_complete (WeftModuleTree *self, WeftModuleBody *root, const gchar *where,
                                    GError **error);
/* The position of a module, by any of its paths; -1 if there is none. */
gint weft_module_tree_find_position (WeftModuleTree *self, const gchar *fqn);

G_END_DECLS
