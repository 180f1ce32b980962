/* SPDX-License-Identifier: Apache-2.0 */
/* A module tree from the names and shapes of a checkpoint: for a model that nothing else is known of. */
#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "model/weft-module-tree-private.h"

static gint
compare_positions (gconstpointer a, gconstpointer b, gpointer tensors)
{
  return weft_text_compare_natural (weft_state_dict_get_name (tensors, *(const guint *) a),
                                    weft_state_dict_get_name (tensors, *(const guint *) b));
}

/* The module of a path; it and those above it are made if they are not there yet. The path is cut for a moment. */
static WeftModuleBody *
get_module (GHashTable *modules, WeftModuleBody *root, gchar *path)
{
  WeftModuleBody *body = g_hash_table_lookup (modules, path);
  gchar *dot = strrchr (path, '.');
  WeftModuleBody *parent = root;

  if (body != NULL)
    return body;
  if (dot != NULL)
    {
      *dot = '\0';
      parent = get_module (modules, root, path);
      *dot = '.';
    }
  body = weft_module_body_new (WEFT_UNKNOWN_MODULE_CLASS, NULL);
  weft_module_body_set_child (parent, NULL, dot != NULL ? dot + 1 : path, body, NULL);
  g_hash_table_insert (modules, g_strdup (path), body);
  weft_module_body_unref (body);
  return body;
}

static void
add_tensor (GHashTable *modules, WeftModuleBody *root, const gchar *name, WeftTensor *tensor)
{
  g_autofree gchar *path = g_strdup (name);
  gchar *dot = strrchr (path, '.');
  g_autoptr (WeftTensorSpec) spec =
      weft_tensor_spec_new (weft_tensor_get_dtype (tensor), weft_tensor_get_shape (tensor));
  WeftModuleBody *body = root;

  if (dot != NULL)
    {
      *dot = '\0';
      body = get_module (modules, root, path);
    }
  weft_module_body_set_tensor (body, NULL, dot != NULL ? dot + 1 : path, spec);
}

/* In natural order, so that layers stand by their numbers. */
static gboolean
add_tensors (WeftModuleBody *root, WeftCheckpoint *checkpoint, GError **error)
{
  WeftStateDict *tensors = weft_checkpoint_get_state_dict (checkpoint);
  guint n = weft_state_dict_get_n_tensors (tensors);
  g_autofree guint *order = g_new (guint, MAX (n, 1));
  g_autoptr (GHashTable) modules = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; i < n; i++)
    order[i] = i;
  g_qsort_with_data (order, (gint) n, sizeof (guint), compare_positions, tensors);
  for (guint i = 0; i < n; i++)
    {
      const gchar *name = weft_state_dict_get_name (tensors, order[i]);

      if (!weft_module_body_check_depth (name, weft_checkpoint_get_path (checkpoint), error))
        return FALSE;
      add_tensor (modules, root, name, weft_state_dict_get_tensor (tensors, order[i]));
    }
  return TRUE;
}

/* What the config says of the model, but for its tensors. */
static WeftModuleTree *
find_known (WeftCheckpoint *checkpoint, GError **error)
{
  JsonNode *config = weft_checkpoint_get_config (checkpoint);
  g_autofree gchar *where = g_build_filename (weft_checkpoint_get_path (checkpoint), "config.json", NULL);
  g_autoptr (JsonNode) nothing = weft_json_parse ("{}", -1, where, NULL);
  WeftModuleTree *known = NULL;

  /* If the model that the config describes cannot be had, it still names the class. */
  if (config != NULL)
    known = weft_module_tree_new_for_config (NULL, config, where, NULL, WEFT_DTYPE_INVALID, NULL);
  return known != NULL ? known
                       : weft_module_tree_new_from_config (config != NULL ? config : nothing, where, error);
}

/**
 * weft_module_tree_new_like:
 * @checkpoint: a checkpoint in the layout of a runtime
 * @error: return location
 *
 * Makes a tree that expects the names, shapes and dtypes of a checkpoint. Of its modules nothing but the path is known. What
 * its `config.json` says of the model (class, sub-models, base model prefix, lists) holds as well.
 *
 * Returns: (transfer full): the tree
 * Errors: %WEFT_ERROR_FORMAT if the config names no class or model type as it should, %WEFT_ERROR_LIMIT if names are nested
 *   deeper than any model
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_new_like (WeftCheckpoint *checkpoint, GError **error)
{
  g_autoptr (WeftModuleTree) known = find_known (checkpoint, error);
  g_autoptr (WeftModuleTree) tree = NULL;
  g_autoptr (WeftModuleBody) root = NULL;

  if (known == NULL)
    return NULL;
  root = weft_module_body_new (weft_module_tree_get_class (known), NULL);
  if (!add_tensors (root, checkpoint, error))
    return NULL;
  tree = weft_module_tree_new_empty ();
  weft_module_tree_copy_model (tree, known);
  tree->has_tensors = TRUE;
  if (!weft_module_tree_complete (tree, g_steal_pointer (&root), weft_checkpoint_get_path (checkpoint),
                                  error))
    return NULL;
  weft_module_tree_copy_parts (tree, known);
  return g_steal_pointer (&tree);
}
