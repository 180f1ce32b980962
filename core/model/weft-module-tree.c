/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-module-tree.h"

#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "model/weft-module-private.h"
#include "model/weft-module-tree-private.h"

/* No model comes near; what does is refused before it fills the memory. */
#define MAX_MODULES (1 << 20)
#define MAX_TENSORS (1 << 22)
#define MAX_TEXT_BYTES (1 << 30)

G_DEFINE_FINAL_TYPE (WeftModuleTree, weft_module_tree, G_TYPE_OBJECT)

static void
clear_sub_model (gpointer pointer)
{
  WeftSubModel *sub_model = pointer;

  g_free (sub_model->fqn);
  g_free (sub_model->class_name);
  g_free (sub_model->model_type);
  g_free (sub_model->base_model_prefix);
  g_clear_object (&sub_model->config);
}

static void
clear_dtype_rule (gpointer pointer)
{
  g_free (((WeftDtypeRule *) pointer)->pattern);
}

static void
clear_text_pair (gpointer pointer)
{
  WeftTextPair *pair = pointer;

  g_free (pair->first);
  g_free (pair->second);
}

static GArray *
new_array (gsize element_size, GDestroyNotify clear)
{
  GArray *array = g_array_new (FALSE, TRUE, (guint) element_size);

  g_array_set_clear_func (array, clear);
  return array;
}

static void
weft_module_tree_init (WeftModuleTree *self)
{
  self->dtype_rules = new_array (sizeof (WeftDtypeRule), clear_dtype_rule);
  self->ties = new_array (sizeof (WeftTextPair), clear_text_pair);
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    self->plan_rules[i] = new_array (sizeof (WeftTextPair), clear_text_pair);
  self->sub_models = new_array (sizeof (WeftSubModel), clear_sub_model);
  self->texts = g_string_chunk_new (4096);
  self->modules = g_array_new (FALSE, FALSE, sizeof (WeftModulePlace));
  self->tensors = g_array_new (FALSE, FALSE, sizeof (WeftTensorPlace));
  self->aliases = g_array_new (FALSE, FALSE, sizeof (WeftAliasPlace));
  self->tensor_positions = g_hash_table_new (weft_text_hash, g_str_equal);
  self->model_keys = g_hash_table_new (weft_text_hash, g_str_equal);
}

static void
weft_module_tree_finalize (GObject *object)
{
  WeftModuleTree *self = WEFT_MODULE_TREE (object);

  g_hash_table_unref (self->tensor_positions);
  g_hash_table_unref (self->model_keys);
  g_clear_pointer (&self->module_positions, g_hash_table_unref);
  g_array_unref (self->dtype_rules);
  g_array_unref (self->ties);
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    g_array_unref (self->plan_rules[i]);
  g_array_unref (self->sub_models);
  g_array_unref (self->modules);
  g_array_unref (self->tensors);
  g_array_unref (self->aliases);
  g_string_chunk_free (self->texts);
  g_clear_pointer (&self->root, weft_module_body_unref);
  g_strfreev (self->ignore_on_load_missing);
  g_strfreev (self->ignore_on_load_unexpected);
  g_strfreev (self->ignore_on_save);
  g_free (self->class_name);
  g_free (self->model_type);
  g_free (self->base_model_prefix);
  G_OBJECT_CLASS (weft_module_tree_parent_class)->finalize (object);
}

static void
weft_module_tree_class_init (WeftModuleTreeClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_module_tree_finalize;
}

WeftModuleTree *
weft_module_tree_new_empty (void)
{
  return g_object_new (WEFT_TYPE_MODULE_TREE, NULL);
}

void
weft_module_tree_add_sub_model (WeftModuleTree *self, const gchar *fqn, const gchar *class_name,
                                const gchar *model_type, const gchar *base_model_prefix,
                                WeftModelConfig *config)
{
  WeftSubModel sub_model = { .fqn = g_strdup (fqn),
                             .class_name = g_strdup (class_name),
                             .model_type = g_strdup (model_type),
                             .base_model_prefix = g_strdup (base_model_prefix),
                             .config = config != NULL ? g_object_ref (config) : NULL };

  g_array_append_val (self->sub_models, sub_model);
}

void
weft_module_tree_add_dtype_rule (WeftModuleTree *self, const gchar *pattern, WeftDtype dtype)
{
  WeftDtypeRule rule = { g_strdup (pattern), dtype };

  g_array_append_val (self->dtype_rules, rule);
}

/* A tied tensor is its source, whatever its own module made of it: a head in 32 bits takes the dtype of the embedding. */
void
weft_module_tree_add_tie (WeftModuleTree *self, const gchar *target, const gchar *source)
{
  WeftTextPair tie = { g_strdup (target), g_strdup (source) };
  guint to, from;

  g_array_append_val (self->ties, tie);
  if (weft_module_tree_find_tensor (self, target, &to) && weft_module_tree_find_tensor (self, source, &from))
    g_array_index (self->tensors, WeftTensorPlace, to).spec =
        g_array_index (self->tensors, WeftTensorPlace, from).spec;
}

void
weft_module_tree_add_plan_rule (WeftModuleTree *self, WeftParallelKind plan, const gchar *pattern,
                                const gchar *style)
{
  WeftTextPair rule = { g_strdup (pattern), g_strdup (style) };

  g_array_append_val (self->plan_rules[plan], rule);
}

/* The walk over all places of a tree. */
typedef struct
{
  WeftModuleTree *tree;
  GString *path;
  GArray *not_persistent; /* of WeftTensorPlace */
  gsize n_text_bytes;
  guint n_visited;       /* modules, those under a second path too */
  guint n_aliases_above; /* of where the walk is */
  const gchar *where;
  GError **error;
} Walk;

static gboolean
refuse_size (Walk *walk, const gchar *what)
{
  g_set_error (walk->error, WEFT_ERROR, WEFT_ERROR_LIMIT, "%s: '%.100s': %s", walk->where, walk->path->str,
               what);
  return FALSE;
}

/* The path of something in the module that the walk is at, kept by the tree; %NULL if there is too much. */
static const gchar *
keep_path (Walk *walk, const gchar *name)
{
  gsize length = walk->path->len;
  const gchar *path;

  if (length > 0 && name[0] != '\0')
    g_string_append_c (walk->path, '.');
  g_string_append (walk->path, name);
  walk->n_text_bytes += walk->path->len + 1;
  path = walk->n_text_bytes <= MAX_TEXT_BYTES
             ? g_string_chunk_insert_len (walk->tree->texts, walk->path->str, (gssize) walk->path->len)
             : NULL;
  g_string_truncate (walk->path, length);
  return path;
}

static gboolean
visit_tensors (Walk *walk, const WeftModuleBody *body)
{
  WeftModuleTree *tree = walk->tree;

  if (tree->tensors->len + walk->not_persistent->len + body->tensors->len > MAX_TENSORS)
    return refuse_size (walk, "the model has more than 4194304 tensors");
  for (guint i = 0; i < body->tensors->len; i++)
    {
      const WeftModuleTensor *tensor = &g_array_index (body->tensors, WeftModuleTensor, i);
      WeftTensorPlace place = { keep_path (walk, tensor->name), tensor->spec };

      if (place.name == NULL)
        return refuse_size (walk, "the names of the model take more than 1 GiB");
      if (weft_tensor_spec_is_persistent (tensor->spec))
        g_array_append_val (tree->tensors, place);
      else
        g_array_append_val (walk->not_persistent, place);
    }
  return TRUE;
}

/* Modules contain modules. */
static gboolean visit_module (Walk *walk, WeftModuleBody *body, guint parent, guint depth);

/* The tensors of an alias count under its path too, its modules do not. */
static gboolean
visit_child (Walk *walk, const WeftModuleChild *child, guint parent, guint depth)
{
  WeftModuleTree *tree = walk->tree;
  gsize length = walk->path->len;
  guint n_modules = tree->modules->len;
  gboolean is_alias = child->alias_of != NULL, is_visited;

  g_string_append_printf (walk->path, "%s%s", length > 0 ? "." : "", child->name);
  walk->n_aliases_above += is_alias ? 1 : 0;
  is_visited = visit_module (walk, child->body, parent, depth);
  walk->n_aliases_above -= is_alias ? 1 : 0;
  if (is_alias && is_visited)
    g_array_set_size (tree->modules, n_modules);
  if (is_alias && is_visited && walk->n_aliases_above == 0)
    {
      WeftAliasPlace alias = { g_string_chunk_insert (tree->texts, walk->path->str),
                               g_string_chunk_insert (tree->texts, child->alias_of), n_modules, parent };

      g_array_append_val (tree->aliases, alias);
    }
  g_string_truncate (walk->path, length);
  return is_visited;
}

static gboolean
visit_module (Walk *walk, WeftModuleBody *body, guint parent, guint depth)
{
  WeftModuleTree *tree = walk->tree;
  WeftModulePlace place = { keep_path (walk, ""), body, parent };
  guint position = tree->modules->len;

  if (place.fqn == NULL)
    return refuse_size (walk, "the names of the model take more than 1 GiB");
  if (++walk->n_visited > MAX_MODULES)
    return refuse_size (walk, "the model has more than 1048576 modules");
  if (depth > WEFT_MAX_MODULE_DEPTH)
    return refuse_size (walk, "modules are nested deeper than 128 levels");
  g_array_append_val (tree->modules, place);
  if (!visit_tensors (walk, body))
    return FALSE;
  for (guint i = 0; i < body->children->len; i++)
    if (!visit_child (walk, &g_array_index (body->children, WeftModuleChild, i), position, depth + 1))
      return FALSE;
  return TRUE;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (((const WeftTensorPlace *) a)->name, ((const WeftTensorPlace *) b)->name);
}

static gboolean
index_tensors (WeftModuleTree *self, const gchar *where, GError **error)
{
  for (guint i = 0; i < self->tensors->len; i++)
    {
      const WeftTensorPlace *place = &g_array_index (self->tensors, WeftTensorPlace, i);

      if (!g_hash_table_insert (self->tensor_positions, (gpointer) place->name, GUINT_TO_POINTER (i)))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: the model has the tensor '%s' twice", where,
                       place->name);
          return FALSE;
        }
      if (weft_tensor_spec_is_persistent (place->spec))
        g_hash_table_add (self->model_keys, (gpointer) place->name);
    }
  return TRUE;
}

/* Most callers never look for a module by its path. */
static GHashTable *
get_module_positions (WeftModuleTree *self)
{
  if (g_once_init_enter (&self->module_positions_once))
    {
      GHashTable *positions = g_hash_table_new (g_str_hash, g_str_equal);

      for (guint i = 0; i < self->modules->len; i++)
        g_hash_table_insert (positions, (gpointer) g_array_index (self->modules, WeftModulePlace, i).fqn,
                             GUINT_TO_POINTER (i));
      self->module_positions = positions;
      g_once_init_leave (&self->module_positions_once, 1);
    }
  return self->module_positions;
}

/* The path of first registration of what is at or below an alias; %NULL if @fqn is at or below none. */
static gchar *
resolve_alias (WeftModuleTree *self, const gchar *fqn)
{
  for (guint i = 0; i < self->aliases->len; i++)
    {
      const WeftAliasPlace *alias = &g_array_index (self->aliases, WeftAliasPlace, i);
      gsize length = strlen (alias->fqn);

      if (strncmp (fqn, alias->fqn, length) == 0 && (fqn[length] == '\0' || fqn[length] == '.'))
        return g_strconcat (alias->alias_of, fqn + length, NULL);
    }
  return NULL;
}

gint
weft_module_tree_find_position (WeftModuleTree *self, const gchar *fqn)
{
  g_autofree gchar *resolved = NULL;
  gpointer position;

  /* An alias may lie in another one; each step leads to a place that is registered earlier. */
  for (guint i = 0; i <= self->aliases->len; i++)
    {
      gchar *next;

      if (g_hash_table_lookup_extended (get_module_positions (self), resolved != NULL ? resolved : fqn, NULL,
                                        &position))
        return (gint) GPOINTER_TO_UINT (position);
      next = resolve_alias (self, resolved != NULL ? resolved : fqn);
      if (next == NULL)
        return -1;
      g_free (resolved);
      resolved = next;
    }
  return -1;
}

/* What was registered twice must still be where it was registered first. */
static gboolean
check_aliases (WeftModuleTree *self, const gchar *where, GError **error)
{
  for (guint i = 0; i < self->aliases->len; i++)
    {
      const WeftAliasPlace *alias = &g_array_index (self->aliases, WeftAliasPlace, i);

      if (weft_module_tree_find_position (self, alias->alias_of) >= 0)
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: '%s' is another path of '%s', which is no module; change both", where, alias->fqn,
                   alias->alias_of);
      return FALSE;
    }
  return TRUE;
}

gboolean
weft_module_tree_complete (WeftModuleTree *self, WeftModuleBody *root, const gchar *where, GError **error)
{
  g_autoptr (GString) path = g_string_new (NULL);
  g_autoptr (GArray) not_persistent = g_array_new (FALSE, FALSE, sizeof (WeftTensorPlace));
  Walk walk = {
    .tree = self, .path = path, .not_persistent = not_persistent, .where = where, .error = error
  };

  self->root = root;
  if (!visit_module (&walk, root, 0, 0))
    return FALSE;
  g_array_sort (not_persistent, compare_names);
  g_array_append_vals (self->tensors, not_persistent->data, not_persistent->len);
  return check_aliases (self, where, error) && index_tensors (self, where, error);
}

/* `modeling_x.XModel` and `someone/repository--modeling_x.XModel` name the class XModel. */
static void
mark_class (WeftModuleTree *self, const gchar *reference)
{
  const gchar *dot = strrchr (reference, '.');
  const gchar *class_name = dot != NULL ? dot + 1 : reference;

  for (guint i = 0; i < self->sub_models->len; i++)
    {
      WeftSubModel *sub_model = &g_array_index (self->sub_models, WeftSubModel, i);

      sub_model->is_custom |= strcmp (sub_model->class_name, class_name) == 0;
    }
}

static gboolean
refuse_auto_map (const gchar *where, const gchar *expected, JsonNode *found, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: auto_map: expected %s, found %s", where, expected,
               weft_json_describe (found));
  return FALSE;
}

/**
 * weft_module_tree_mark_custom_code:
 * @self: a tree
 * @config: the content of `config.json`
 * @where: what messages call it, such as the path of the file
 * @error: return location
 *
 * Marks the sub-models whose class `auto_map` says to come with the checkpoint. Such code is never loaded.
 *
 * Returns: whether `auto_map` is well-formed
 * Errors: %WEFT_ERROR_FORMAT if it is not
 * Since: 1.0
 */
gboolean
weft_module_tree_mark_custom_code (WeftModuleTree *self, JsonNode *config, const gchar *where, GError **error)
{
  g_autoptr (GList) members = NULL;
  JsonNode *node = JSON_NODE_HOLDS_OBJECT (config)
                       ? json_object_get_member (json_node_get_object (config), "auto_map")
                       : NULL;
  JsonObject *auto_map;

  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse_auto_map (where, "an object", node, error);
  auto_map = json_node_get_object (node);
  members = json_object_get_members (auto_map);
  for (GList *member = members; member != NULL; member = member->next)
    {
      JsonNode *value = json_object_get_member (auto_map, member->data);

      /* Tokenizers are listed in pairs, of which one may be null. */
      if (JSON_NODE_HOLDS_VALUE (value) && json_node_get_value_type (value) == G_TYPE_STRING)
        mark_class (self, json_node_get_string (value));
      else if (!JSON_NODE_HOLDS_ARRAY (value) && !JSON_NODE_HOLDS_NULL (value))
        return refuse_auto_map (where, "names of classes", value, error);
    }
  return TRUE;
}

/**
 * weft_module_tree_set_config:
 * @self: a tree that was just made
 * @config: the config of its model
 *
 * Tells a tree that was read from a file which config its model has: modules find it there, and a model type that the
 * file lacks is taken from it. A tree that is in use must not be changed.
 *
 * Since: 1.0
 */
void
weft_module_tree_set_config (WeftModuleTree *self, WeftModelConfig *config)
{
  WeftSubModel *root = &g_array_index (self->sub_models, WeftSubModel, 0);
  const gchar *model_type = weft_model_config_get_model_type (config);

  g_set_object (&root->config, config);
  if (self->model_type[0] != '\0' || model_type == NULL)
    return;
  g_free (self->model_type);
  g_free (root->model_type);
  self->model_type = g_strdup (model_type);
  root->model_type = g_strdup (model_type);
}

/* A tree while modules of another one are replaced. */
typedef struct
{
  WeftModuleTree *old;
  WeftModuleBody **copies; /* by position; those that differ from the old ones */
  gboolean *is_replaced;
} Replacing;

static const WeftModulePlace *
get_place (WeftModuleTree *self, guint position)
{
  return &g_array_index (self->modules, WeftModulePlace, position);
}

/* Where the path of a module continues that of its parent. */
static const gchar *
get_name_in_parent (const gchar *fqn, const gchar *parent_fqn)
{
  return parent_fqn[0] != '\0' ? fqn + strlen (parent_fqn) + 1 : fqn;
}

/* A copy of a module that can be changed, in copies of the modules above it. */
static WeftModuleBody *
get_copy (Replacing *replacing, guint position)
{
  const WeftModulePlace *place = get_place (replacing->old, position);
  const gchar *name;

  if (replacing->copies[position] != NULL)
    return replacing->copies[position];
  replacing->copies[position] = weft_module_body_copy (place->body);
  if (position > 0)
    {
      name = get_name_in_parent (place->fqn, get_place (replacing->old, place->parent)->fqn);
      weft_module_body_set_child (get_copy (replacing, place->parent), name, name,
                                  replacing->copies[position], NULL);
    }
  return replacing->copies[position];
}

static void
put_replacement (Replacing *replacing, guint position, WeftModuleBody *body)
{
  const WeftModulePlace *place = get_place (replacing->old, position);
  const gchar *name;

  replacing->copies[position] = weft_module_body_ref (body);
  if (position == 0)
    return;
  name = get_name_in_parent (place->fqn, get_place (replacing->old, place->parent)->fqn);
  weft_module_body_set_child (get_copy (replacing, place->parent), name, name, body, NULL);
}

static gboolean
is_gone (Replacing *replacing, guint position)
{
  while (position > 0 && !replacing->is_replaced[position])
    position = get_place (replacing->old, position)->parent;
  return replacing->is_replaced[position];
}

/* A module that changed, itself or below it, changed under its other paths too. */
static void
update_aliases (Replacing *replacing)
{
  WeftModuleTree *old = replacing->old;

  /* A copy that is made here may be an alias itself. */
  for (guint round = 0; round < old->aliases->len; round++)
    for (guint i = 0; i < old->aliases->len; i++)
      {
        const WeftAliasPlace *alias = &g_array_index (old->aliases, WeftAliasPlace, i);
        gint position = weft_module_tree_find_position (old, alias->alias_of);
        const gchar *name;

        if (replacing->copies[position] == NULL || is_gone (replacing, alias->parent))
          continue;
        name = get_name_in_parent (alias->fqn, get_place (old, alias->parent)->fqn);
        weft_module_body_set_child (get_copy (replacing, alias->parent), name, name,
                                    replacing->copies[position], alias->alias_of);
      }
}

static gboolean
refuse_replacement (const gchar *fqn, gint code, const gchar *reason, GError **error)
{
  g_set_error (error, WEFT_ERROR, code, "'%s' cannot be replaced: %s", fqn, reason);
  return FALSE;
}

/* Finds the place of each replacement; a module is replaced once, and not together with one that it is in. */
static gboolean
mark_replaced (Replacing *replacing, GHashTable *replacements, GError **error)
{
  WeftModuleTree *old = replacing->old;
  GHashTableIter entries;
  gpointer fqn, module;

  g_hash_table_iter_init (&entries, replacements);
  while (g_hash_table_iter_next (&entries, &fqn, &module))
    {
      gint position = weft_module_tree_find_position (old, fqn);

      if (position < 0)
        return refuse_replacement (fqn, WEFT_ERROR_MISSING, "the model has no such module", error);
      if (weft_module_get_tree (module) != NULL)
        return refuse_replacement (fqn, WEFT_ERROR_ARGUMENT,
                                   "its replacement is part of a tree; replace it by a copy", error);
      if (replacing->is_replaced[position])
        return refuse_replacement (fqn, WEFT_ERROR_CONFLICT, "it is replaced under another of its paths too",
                                   error);
      replacing->is_replaced[position] = TRUE;
    }
  for (guint i = 1; i < old->modules->len; i++)
    for (guint above = i; replacing->is_replaced[i] && above != 0;)
      {
        above = get_place (old, above)->parent;
        if (replacing->is_replaced[above])
          return refuse_replacement (get_place (old, i)->fqn, WEFT_ERROR_CONFLICT,
                                     "a module that it is in is replaced too", error);
      }
  return TRUE;
}

void
weft_module_tree_copy_model (WeftModuleTree *self, WeftModuleTree *old)
{
  self->class_name = g_strdup (old->class_name);
  self->model_type = g_strdup (old->model_type);
  self->base_model_prefix = g_strdup (old->base_model_prefix);
  self->dtype = old->dtype;
  self->has_tensors = old->has_tensors;
  self->ignore_on_load_missing = g_strdupv (old->ignore_on_load_missing);
  self->ignore_on_load_unexpected = g_strdupv (old->ignore_on_load_unexpected);
  self->ignore_on_save = g_strdupv (old->ignore_on_save);
  for (guint i = 0; i < old->dtype_rules->len; i++)
    weft_module_tree_add_dtype_rule (self, g_array_index (old->dtype_rules, WeftDtypeRule, i).pattern,
                                     g_array_index (old->dtype_rules, WeftDtypeRule, i).dtype);
  for (guint plan = 0; plan < WEFT_N_PARALLEL_KINDS; plan++)
    for (guint i = 0; i < old->plan_rules[plan]->len; i++)
      weft_module_tree_add_plan_rule (self, plan,
                                      g_array_index (old->plan_rules[plan], WeftTextPair, i).first,
                                      g_array_index (old->plan_rules[plan], WeftTextPair, i).second);
}

void
weft_module_tree_copy_parts (WeftModuleTree *self, WeftModuleTree *old)
{
  for (guint i = 0; i < old->sub_models->len; i++)
    {
      const WeftSubModel *sub_model = &g_array_index (old->sub_models, WeftSubModel, i);
      gboolean was_there = weft_module_tree_find_position (old, sub_model->fqn) >= 0;

      if (was_there && weft_module_tree_find_position (self, sub_model->fqn) < 0)
        continue;
      weft_module_tree_add_sub_model (self, sub_model->fqn, sub_model->class_name, sub_model->model_type,
                                      sub_model->base_model_prefix, sub_model->config);
      g_array_index (self->sub_models, WeftSubModel, self->sub_models->len - 1).is_custom =
          sub_model->is_custom;
    }
  for (guint i = 0; i < old->ties->len; i++)
    {
      const WeftTextPair *tie = &g_array_index (old->ties, WeftTextPair, i);
      gboolean is_there = weft_module_tree_find_tensor (self, tie->first, NULL)
                          && weft_module_tree_find_tensor (self, tie->second, NULL);
      gboolean was_there = weft_module_tree_find_tensor (old, tie->first, NULL)
                           && weft_module_tree_find_tensor (old, tie->second, NULL);

      if (is_there || !was_there)
        weft_module_tree_add_tie (self, tie->first, tie->second);
    }
}

static WeftModuleBody *
replace_bodies (Replacing *replacing, GHashTable *replacements)
{
  GHashTableIter entries;
  gpointer fqn, module;

  g_hash_table_iter_init (&entries, replacements);
  while (g_hash_table_iter_next (&entries, &fqn, &module))
    put_replacement (replacing, (guint) weft_module_tree_find_position (replacing->old, fqn),
                     weft_module_get_body (module));
  update_aliases (replacing);
  return weft_module_body_ref (replacing->copies[0] != NULL ? replacing->copies[0] : replacing->old->root);
}

/**
 * weft_module_tree_replace:
 * @self: a tree
 * @replacements: (element-type utf8 WeftModule): path to the module that takes the place of the one there
 * @error: return location
 *
 * Makes a tree in which modules are replaced; the old one stays as it is, and the two share what did not change. A module
 * that is registered under several paths is replaced under all of them. What the tree says of the model (class, sub-models,
 * lists, plans) is kept, so that its mapping is the same; ties of tensors that are gone are not.
 *
 * Returns: (transfer full): the new tree
 * Errors: %WEFT_ERROR_MISSING if there is no module at a path, %WEFT_ERROR_CONFLICT if a module is replaced twice or within
 *   another one that is, %WEFT_ERROR_ARGUMENT if a replacement is part of a tree, %WEFT_ERROR_LIMIT if the tree grows too large
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_replace (WeftModuleTree *self, GHashTable *replacements, GError **error)
{
  guint n = self->modules->len;
  g_autofree WeftModuleBody **copies = g_new0 (WeftModuleBody *, n);
  g_autofree gboolean *is_replaced = g_new0 (gboolean, n);
  Replacing replacing = { self, copies, is_replaced };
  g_autoptr (WeftModuleTree) replaced = NULL;
  gboolean is_complete;

  if (!mark_replaced (&replacing, replacements, error))
    return NULL;
  replaced = weft_module_tree_new_empty ();
  weft_module_tree_copy_model (replaced, self);
  is_complete = weft_module_tree_complete (replaced, replace_bodies (&replacing, replacements),
                                           "the changed model", error);
  for (guint i = 0; i < n; i++)
    g_clear_pointer (&copies[i], weft_module_body_unref);
  if (!is_complete)
    return NULL;
  weft_module_tree_copy_parts (replaced, self);
  return g_steal_pointer (&replaced);
}

/**
 * weft_module_tree_get_class:
 * @self: a tree
 *
 * Returns: (transfer none): the class of the model
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_class (WeftModuleTree *self)
{
  return self->class_name;
}

/**
 * weft_module_tree_get_model_type:
 * @self: a tree
 *
 * Returns: (transfer none): the model type
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_model_type (WeftModuleTree *self)
{
  return self->model_type;
}

/**
 * weft_module_tree_get_base_model_prefix:
 * @self: a tree
 *
 * Returns: (transfer none): the name under which a model with a head holds its base model; may be empty
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_base_model_prefix (WeftModuleTree *self)
{
  return self->base_model_prefix;
}

/**
 * weft_module_tree_get_dtype:
 * @self: a tree
 *
 * Returns: the dtype that the model asks for, or %WEFT_DTYPE_INVALID
 * Since: 1.0
 */
WeftDtype
weft_module_tree_get_dtype (WeftModuleTree *self)
{
  return self->dtype;
}

/**
 * weft_module_tree_get_ignore_on_load_missing:
 * @self: a tree
 *
 * Returns: (transfer none) (array zero-terminated=1): regular expressions of names whose absence is no fault
 * Since: 1.0
 */
const gchar *const *
weft_module_tree_get_ignore_on_load_missing (WeftModuleTree *self)
{
  return (const gchar *const *) self->ignore_on_load_missing;
}

/**
 * weft_module_tree_get_ignore_on_load_unexpected:
 * @self: a tree
 *
 * Returns: (transfer none) (array zero-terminated=1): regular expressions of names that may be there without a use
 * Since: 1.0
 */
const gchar *const *
weft_module_tree_get_ignore_on_load_unexpected (WeftModuleTree *self)
{
  return (const gchar *const *) self->ignore_on_load_unexpected;
}

/**
 * weft_module_tree_get_ignore_on_save:
 * @self: a tree
 *
 * Returns: (transfer none) (array zero-terminated=1): names that are not saved
 * Since: 1.0
 */
const gchar *const *
weft_module_tree_get_ignore_on_save (WeftModuleTree *self)
{
  return (const gchar *const *) self->ignore_on_save;
}

/**
 * weft_module_tree_get_n_dtype_rules:
 * @self: a tree
 *
 * Returns: the number of rules that keep tensors in another dtype than asked for
 * Since: 1.0
 */
guint
weft_module_tree_get_n_dtype_rules (WeftModuleTree *self)
{
  return self->dtype_rules->len;
}

/**
 * weft_module_tree_get_dtype_rule_pattern:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): the pattern that is searched in names; `*` means any text
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_dtype_rule_pattern (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->dtype_rules->len, NULL);
  return g_array_index (self->dtype_rules, WeftDtypeRule, position).pattern;
}

/**
 * weft_module_tree_get_dtype_rule_dtype:
 * @self: a tree
 * @position: which one
 *
 * Returns: the dtype of tensors whose name has the pattern
 * Since: 1.0
 */
WeftDtype
weft_module_tree_get_dtype_rule_dtype (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->dtype_rules->len, WEFT_DTYPE_INVALID);
  return g_array_index (self->dtype_rules, WeftDtypeRule, position).dtype;
}

/**
 * weft_module_tree_get_n_ties:
 * @self: a tree
 *
 * Returns: the number of tied tensors
 * Since: 1.0
 */
guint
weft_module_tree_get_n_ties (WeftModuleTree *self)
{
  return self->ties->len;
}

/**
 * weft_module_tree_get_tie_target:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): the name that shares the tensor of another
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_tie_target (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->ties->len, NULL);
  return g_array_index (self->ties, WeftTextPair, position).first;
}

/**
 * weft_module_tree_get_tie_source:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): the name of the tensor that is shared
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_tie_source (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->ties->len, NULL);
  return g_array_index (self->ties, WeftTextPair, position).second;
}

/**
 * weft_module_tree_get_n_sub_models:
 * @self: a tree
 *
 * Returns: the number of sub-models, the model itself included
 * Since: 1.0
 */
guint
weft_module_tree_get_n_sub_models (WeftModuleTree *self)
{
  return self->sub_models->len;
}

/**
 * weft_module_tree_get_sub_model_fqn:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): the path of the sub-model, empty for the model itself
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_sub_model_fqn (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->sub_models->len, NULL);
  return g_array_index (self->sub_models, WeftSubModel, position).fqn;
}

/**
 * weft_module_tree_get_sub_model_class:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): its class
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_sub_model_class (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->sub_models->len, NULL);
  return g_array_index (self->sub_models, WeftSubModel, position).class_name;
}

/**
 * weft_module_tree_get_sub_model_type:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): its model type
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_sub_model_type (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->sub_models->len, NULL);
  return g_array_index (self->sub_models, WeftSubModel, position).model_type;
}

/**
 * weft_module_tree_get_sub_model_base_model_prefix:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): its base model prefix
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_sub_model_base_model_prefix (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->sub_models->len, NULL);
  return g_array_index (self->sub_models, WeftSubModel, position).base_model_prefix;
}

/**
 * weft_module_tree_is_sub_model_custom:
 * @self: a tree
 * @position: which one
 *
 * Returns: whether its class comes with the checkpoint
 * Since: 1.0
 */
gboolean
weft_module_tree_is_sub_model_custom (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->sub_models->len, FALSE);
  return g_array_index (self->sub_models, WeftSubModel, position).is_custom;
}

static const WeftTextPair *
get_plan_rule (WeftModuleTree *self, WeftParallelKind plan, guint position)
{
  return &g_array_index (self->plan_rules[plan], WeftTextPair, position);
}

/**
 * weft_module_tree_get_n_plan_rules:
 * @self: a tree
 * @plan: which plan
 *
 * Returns: the number of rules that say how tensors are cut for several devices
 * Since: 1.0
 */
guint
weft_module_tree_get_n_plan_rules (WeftModuleTree *self, WeftParallelKind plan)
{
  g_return_val_if_fail (plan < WEFT_N_PARALLEL_KINDS, 0);
  return self->plan_rules[plan]->len;
}

/**
 * weft_module_tree_get_plan_rule_pattern:
 * @self: a tree
 * @plan: which plan
 * @position: which rule
 *
 * Returns: (transfer none): the path of a module or tensor, with `*` for the number of a layer
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_plan_rule_pattern (WeftModuleTree *self, WeftParallelKind plan, guint position)
{
  g_return_val_if_fail (position < weft_module_tree_get_n_plan_rules (self, plan), NULL);
  return get_plan_rule (self, plan, position)->first;
}

/**
 * weft_module_tree_get_plan_rule_style:
 * @self: a tree
 * @plan: which plan
 * @position: which rule
 *
 * Returns: (transfer none): how it is cut, such as `colwise`
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_plan_rule_style (WeftModuleTree *self, WeftParallelKind plan, guint position)
{
  g_return_val_if_fail (position < weft_module_tree_get_n_plan_rules (self, plan), NULL);
  return get_plan_rule (self, plan, position)->second;
}

/**
 * weft_module_tree_get_sub_model_config:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none) (nullable): its config; %NULL if the tree was made without
 * Since: 1.0
 */
WeftModelConfig *
weft_module_tree_get_sub_model_config (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->sub_models->len, NULL);
  return g_array_index (self->sub_models, WeftSubModel, position).config;
}

/**
 * weft_module_tree_get_n_modules:
 * @self: a tree
 *
 * Returns: the number of modules; one that is registered under several paths counts once
 * Since: 1.0
 */
guint
weft_module_tree_get_n_modules (WeftModuleTree *self)
{
  return self->modules->len;
}

/**
 * weft_module_tree_get_module_fqn:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): the path of the module
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_module_fqn (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->modules->len, NULL);
  return g_array_index (self->modules, WeftModulePlace, position).fqn;
}

/**
 * weft_module_tree_get_module_class:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): its class
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_module_class (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->modules->len, NULL);
  return g_array_index (self->modules, WeftModulePlace, position).body->class_name;
}

/**
 * weft_module_tree_get_module:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer full): the module as an object
 * Since: 1.0
 */
WeftModule *
weft_module_tree_get_module (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->modules->len, NULL);
  return weft_module_new_in_tree (self, position);
}

/**
 * weft_module_tree_get_root:
 * @self: a tree
 *
 * Returns: (transfer full): the model itself as a module
 * Since: 1.0
 */
WeftModule *
weft_module_tree_get_root (WeftModuleTree *self)
{
  return weft_module_new_in_tree (self, 0);
}

/**
 * weft_module_tree_find_module:
 * @self: a tree
 * @fqn: a path; any one, if the module is registered under several
 *
 * Returns: (transfer full) (nullable): the module there, or %NULL
 * Since: 1.0
 */
WeftModule *
weft_module_tree_find_module (WeftModuleTree *self, const gchar *fqn)
{
  gint position = weft_module_tree_find_position (self, fqn);

  return position >= 0 ? weft_module_new_in_tree (self, (guint) position) : NULL;
}

/**
 * weft_module_tree_has_tensors:
 * @self: a tree
 *
 * Returns: whether the tensors of the model are known
 * Since: 1.0
 */
gboolean
weft_module_tree_has_tensors (WeftModuleTree *self)
{
  return self->has_tensors;
}

/**
 * weft_module_tree_get_n_tensors:
 * @self: a tree
 *
 * Returns: the number of tensors
 * Since: 1.0
 */
guint
weft_module_tree_get_n_tensors (WeftModuleTree *self)
{
  return self->tensors->len;
}

/**
 * weft_module_tree_get_tensor_name:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): the name of the tensor
 * Since: 1.0
 */
const gchar *
weft_module_tree_get_tensor_name (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->tensors->len, NULL);
  return g_array_index (self->tensors, WeftTensorPlace, position).name;
}

/**
 * weft_module_tree_get_tensor_spec:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): what the model expects of it
 * Since: 1.0
 */
WeftTensorSpec *
weft_module_tree_get_tensor_spec (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->tensors->len, NULL);
  return g_array_index (self->tensors, WeftTensorPlace, position).spec;
}

/**
 * weft_module_tree_get_tensor_shape:
 * @self: a tree
 * @position: which one
 *
 * Returns: (transfer none): its shape
 * Since: 1.0
 */
const WeftShape *
weft_module_tree_get_tensor_shape (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->tensors->len, NULL);
  return weft_tensor_spec_get_shape (weft_module_tree_get_tensor_spec (self, position));
}

/**
 * weft_module_tree_get_tensor_dtype:
 * @self: a tree
 * @position: which one
 *
 * Returns: its dtype
 * Since: 1.0
 */
WeftDtype
weft_module_tree_get_tensor_dtype (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->tensors->len, WEFT_DTYPE_INVALID);
  return weft_tensor_spec_get_dtype (weft_module_tree_get_tensor_spec (self, position));
}

/**
 * weft_module_tree_is_tensor_persistent:
 * @self: a tree
 * @position: which one
 *
 * Returns: whether it is part of a checkpoint
 * Since: 1.0
 */
gboolean
weft_module_tree_is_tensor_persistent (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->tensors->len, FALSE);
  return weft_tensor_spec_is_persistent (weft_module_tree_get_tensor_spec (self, position));
}

/**
 * weft_module_tree_is_tensor_buffer:
 * @self: a tree
 * @position: which one
 *
 * Returns: whether it is a buffer, not a parameter
 * Since: 1.0
 */
gboolean
weft_module_tree_is_tensor_buffer (WeftModuleTree *self, guint position)
{
  g_return_val_if_fail (position < self->tensors->len, FALSE);
  return weft_tensor_spec_is_buffer (weft_module_tree_get_tensor_spec (self, position));
}

/**
 * weft_module_tree_get_model_keys:
 * @self: a tree
 *
 * Returns: (transfer none) (element-type utf8 utf8): the names of all persistent tensors, as keys
 * Since: 1.0
 */
GHashTable *
weft_module_tree_get_model_keys (WeftModuleTree *self)
{
  return self->model_keys;
}

/**
 * weft_module_tree_find_tensor:
 * @self: a tree
 * @name: a tensor name
 * @position: (out) (optional): its position
 *
 * Returns: whether the model has a tensor of that name
 * Since: 1.0
 */
gboolean
weft_module_tree_find_tensor (WeftModuleTree *self, const gchar *name, guint *position)
{
  gpointer value;

  if (!g_hash_table_lookup_extended (self->tensor_positions, name, NULL, &value))
    return FALSE;
  if (position != NULL)
    *position = GPOINTER_TO_UINT (value);
  return TRUE;
}
