/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-module-tree.h"

#include <string.h>

#include "base/weft-json.h"

typedef struct
{
  gchar *fqn;
  gchar *class_name;
  gchar *model_type;
  gchar *base_model_prefix;
  gboolean is_custom;
} SubModel;

typedef struct
{
  gchar *fqn;
  gchar *class_name;
} Module;

typedef struct
{
  gchar *name;
  WeftShape shape;
  WeftDtype dtype;
  gboolean is_persistent;
  gboolean is_buffer;
} ModelTensor;

typedef struct
{
  gchar *pattern;
  WeftDtype dtype;
} DtypeRule;

typedef struct
{
  gchar *target;
  gchar *source;
} Tie;

struct _WeftModuleTree
{
  GObject parent_instance;

  gchar *class_name;
  gchar *model_type;
  gchar *base_model_prefix;
  WeftDtype dtype;
  GArray *dtype_rules;
  GArray *ties;
  GStrv ignore_on_load_missing;
  GStrv ignore_on_load_unexpected;
  GStrv ignore_on_save;
  GArray *sub_models;
  GArray *modules;
  GArray *tensors;
  gboolean has_tensors;
  GHashTable *positions;  /* name -> position in tensors */
  GHashTable *model_keys; /* names of persistent tensors */
};

G_DEFINE_FINAL_TYPE (WeftModuleTree, weft_module_tree, G_TYPE_OBJECT)

static void
clear_sub_model (gpointer pointer)
{
  SubModel *sub_model = pointer;

  g_free (sub_model->fqn);
  g_free (sub_model->class_name);
  g_free (sub_model->model_type);
  g_free (sub_model->base_model_prefix);
}

static void
clear_module (gpointer pointer)
{
  Module *module = pointer;

  g_free (module->fqn);
  g_free (module->class_name);
}

static void
clear_tensor (gpointer pointer)
{
  g_free (((ModelTensor *) pointer)->name);
}

static void
clear_dtype_rule (gpointer pointer)
{
  g_free (((DtypeRule *) pointer)->pattern);
}

static void
clear_tie (gpointer pointer)
{
  Tie *tie = pointer;

  g_free (tie->target);
  g_free (tie->source);
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
  self->dtype_rules = new_array (sizeof (DtypeRule), clear_dtype_rule);
  self->ties = new_array (sizeof (Tie), clear_tie);
  self->sub_models = new_array (sizeof (SubModel), clear_sub_model);
  self->modules = new_array (sizeof (Module), clear_module);
  self->tensors = new_array (sizeof (ModelTensor), clear_tensor);
  self->positions = g_hash_table_new (g_str_hash, g_str_equal);
  self->model_keys = g_hash_table_new (g_str_hash, g_str_equal);
}

static void
weft_module_tree_finalize (GObject *object)
{
  WeftModuleTree *self = WEFT_MODULE_TREE (object);

  g_hash_table_unref (self->positions);
  g_hash_table_unref (self->model_keys);
  g_array_unref (self->dtype_rules);
  g_array_unref (self->ties);
  g_array_unref (self->sub_models);
  g_array_unref (self->modules);
  g_array_unref (self->tensors);
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

static gboolean
refuse (GError **error, const gchar *where, const gchar *member, const gchar *expected, JsonNode *found)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: expected %s, found %s", where, member, expected,
               found != NULL ? json_node_type_name (found) : "nothing");
  return FALSE;
}

static gboolean
holds (JsonNode *node, GType type)
{
  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == type;
}

/* A string member; @fallback stands for an absent one, %NULL if it must be there. */
static gboolean
read_string (JsonObject *object, const gchar *member, const gchar *fallback, const gchar *where, gchar **text,
             GError **error)
{
  JsonNode *node = json_object_get_member (object, member);

  if (node == NULL && fallback != NULL)
    {
      *text = g_strdup (fallback);
      return TRUE;
    }
  if (!holds (node, G_TYPE_STRING))
    return refuse (error, where, member, "a string", node);
  *text = g_strdup (json_node_get_string (node));
  return TRUE;
}

static gboolean
read_boolean (JsonObject *object, const gchar *member, gboolean fallback, const gchar *where, gboolean *value,
              GError **error)
{
  JsonNode *node = json_object_get_member (object, member);

  *value = fallback;
  if (node == NULL)
    return TRUE;
  if (!holds (node, G_TYPE_BOOLEAN))
    return refuse (error, where, member, "true or false", node);
  *value = json_node_get_boolean (node);
  return TRUE;
}

static gboolean
parse_dtype (JsonNode *node, const gchar *member, const gchar *where, WeftDtype *dtype, GError **error)
{
  if (!holds (node, G_TYPE_STRING))
    return refuse (error, where, member, "the name of a dtype", node);
  *dtype = weft_dtype_from_any_name (json_node_get_string (node));
  if (*dtype != WEFT_DTYPE_INVALID)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "%s: %s: '%s' is no dtype; write one such as bfloat16",
               where, member, json_node_get_string (node));
  return FALSE;
}

/* An optional list of strings; absent ones are empty. */
static gboolean
read_strings (JsonObject *object, const gchar *member, const gchar *where, GStrv *strings, GError **error)
{
  JsonNode *node = json_object_get_member (object, member);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  if (node != NULL && !JSON_NODE_HOLDS_ARRAY (node))
    return refuse (error, where, member, "a list of strings", node);
  for (guint i = 0; node != NULL && i < json_array_get_length (json_node_get_array (node)); i++)
    {
      JsonNode *element = json_array_get_element (json_node_get_array (node), i);

      if (!holds (element, G_TYPE_STRING))
        return refuse (error, where, member, "a list of strings", element);
      g_strv_builder_add (builder, json_node_get_string (element));
    }
  *strings = g_strv_builder_end (builder);
  return TRUE;
}

typedef gboolean (*ReadEntry) (WeftModuleTree *self, JsonObject *entry, const gchar *where, GError **error);

/* An optional list of objects, each read by @read_entry. */
static gboolean
read_entries (WeftModuleTree *self, JsonObject *object, const gchar *member, const gchar *where,
              ReadEntry read_entry, GError **error)
{
  JsonNode *node = json_object_get_member (object, member);

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_ARRAY (node))
    return refuse (error, where, member, "a list of objects", node);
  for (guint i = 0; i < json_array_get_length (json_node_get_array (node)); i++)
    {
      JsonNode *element = json_array_get_element (json_node_get_array (node), i);
      g_autofree gchar *place = g_strdup_printf ("%s: %s[%u]", where, member, i);

      if (!JSON_NODE_HOLDS_OBJECT (element))
        return refuse (error, where, member, "a list of objects", element);
      if (!read_entry (self, json_node_get_object (element), place, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_sub_model (WeftModuleTree *self, JsonObject *entry, const gchar *where, GError **error)
{
  SubModel sub_model = { 0 };
  gboolean is_valid =
      read_string (entry, "fqn", NULL, where, &sub_model.fqn, error)
      && read_string (entry, "class", NULL, where, &sub_model.class_name, error)
      && read_string (entry, "model_type", NULL, where, &sub_model.model_type, error)
      && read_string (entry, "base_model_prefix", "", where, &sub_model.base_model_prefix, error);

  g_array_append_val (self->sub_models, sub_model);
  if (is_valid && (self->sub_models->len == 1) != (sub_model.fqn[0] == '\0'))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "%s: fqn: found '%s'; the first sub-model, and only it, is the model itself with an empty fqn",
          where, sub_model.fqn);
      return FALSE;
    }
  return is_valid;
}

static gboolean
read_module (WeftModuleTree *self, JsonObject *entry, const gchar *where, GError **error)
{
  Module module = { 0 };
  gboolean is_valid = read_string (entry, "fqn", NULL, where, &module.fqn, error)
                      && read_string (entry, "class", NULL, where, &module.class_name, error);

  g_array_append_val (self->modules, module);
  return is_valid;
}

static gboolean
read_shape (JsonObject *entry, const gchar *where, WeftShape *shape, GError **error)
{
  JsonNode *node = json_object_get_member (entry, "shape");
  gint64 dims[WEFT_MAX_RANK] = { 0 };
  guint rank;

  if (node == NULL || !JSON_NODE_HOLDS_ARRAY (node))
    return refuse (error, where, "shape", "a list of extents", node);
  rank = json_array_get_length (json_node_get_array (node));
  for (guint i = 0; i < rank; i++)
    {
      JsonNode *extent = json_array_get_element (json_node_get_array (node), i);

      if (!holds (extent, G_TYPE_INT64))
        return refuse (error, where, "shape", "whole numbers", extent);
      if (i < WEFT_MAX_RANK)
        dims[i] = json_node_get_int (extent);
    }
  if (!weft_shape_init (shape, dims, rank, error))
    {
      g_prefix_error (error, "%s: shape: ", where);
      return FALSE;
    }
  return TRUE;
}

static gboolean
read_tensor (WeftModuleTree *self, JsonObject *entry, const gchar *where, GError **error)
{
  ModelTensor tensor = { 0 };
  gboolean is_valid =
      read_string (entry, "name", NULL, where, &tensor.name, error)
      && read_shape (entry, where, &tensor.shape, error)
      && parse_dtype (json_object_get_member (entry, "dtype"), "dtype", where, &tensor.dtype, error)
      && read_boolean (entry, "persistent", TRUE, where, &tensor.is_persistent, error)
      && read_boolean (entry, "is_buffer", FALSE, where, &tensor.is_buffer, error);

  g_array_append_val (self->tensors, tensor);
  if (!is_valid)
    return FALSE;
  if (!g_hash_table_insert (self->positions, tensor.name, GUINT_TO_POINTER (self->tensors->len - 1)))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: name: '%s' is there twice", where, tensor.name);
      return FALSE;
    }
  if (tensor.is_persistent)
    g_hash_table_add (self->model_keys, tensor.name);
  return TRUE;
}

/* An optional object; an absent one is empty. */
static gboolean
find_object (JsonObject *root, const gchar *member, const gchar *where, JsonObject **object, GError **error)
{
  JsonNode *node = json_object_get_member (root, member);

  *object = NULL;
  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (error, where, member, "an object", node);
  *object = json_node_get_object (node);
  return TRUE;
}

static gboolean
read_dtype_rules (WeftModuleTree *self, JsonObject *root, const gchar *where, GError **error)
{
  g_autoptr (GList) members = NULL;
  JsonObject *plan;

  if (!find_object (root, "dtype_plan", where, &plan, error))
    return FALSE;
  members = plan != NULL ? json_object_get_members (plan) : NULL;
  for (GList *member = members; member != NULL; member = member->next)
    {
      DtypeRule rule = { 0 };

      if (!parse_dtype (json_object_get_member (plan, member->data), "dtype_plan", where, &rule.dtype, error))
        return FALSE;
      rule.pattern = g_strdup (member->data);
      g_array_append_val (self->dtype_rules, rule);
    }
  return TRUE;
}

static gboolean
read_ties (WeftModuleTree *self, JsonObject *root, const gchar *where, GError **error)
{
  g_autoptr (GList) members = NULL;
  JsonObject *tied;

  if (!find_object (root, "tied", where, &tied, error))
    return FALSE;
  members = tied != NULL ? json_object_get_members (tied) : NULL;
  for (GList *member = members; member != NULL; member = member->next)
    {
      JsonNode *source = json_object_get_member (tied, member->data);
      Tie tie = { 0 };

      if (!holds (source, G_TYPE_STRING))
        return refuse (error, where, "tied", "names of tensors", source);
      tie.target = g_strdup (member->data);
      tie.source = g_strdup (json_node_get_string (source));
      g_array_append_val (self->ties, tie);
    }
  return TRUE;
}

static void
add_root (WeftModuleTree *self)
{
  SubModel root = { .fqn = g_strdup (""),
                    .class_name = g_strdup (self->class_name),
                    .model_type = g_strdup (self->model_type),
                    .base_model_prefix = g_strdup (self->base_model_prefix) };

  g_array_append_val (self->sub_models, root);
}

static gboolean
read_tree (WeftModuleTree *self, JsonObject *root, const gchar *where, GError **error)
{
  JsonNode *dtype = json_object_get_member (root, "dtype");

  self->has_tensors = json_object_has_member (root, "tensors");
  if (!(read_string (root, "class", NULL, where, &self->class_name, error)
        && read_string (root, "model_type", NULL, where, &self->model_type, error)
        && read_string (root, "base_model_prefix", "", where, &self->base_model_prefix, error)
        && (dtype == NULL || parse_dtype (dtype, "dtype", where, &self->dtype, error))
        && read_dtype_rules (self, root, where, error) && read_ties (self, root, where, error)
        && read_strings (root, "ignore_on_load_missing", where, &self->ignore_on_load_missing, error)
        && read_strings (root, "ignore_on_load_unexpected", where, &self->ignore_on_load_unexpected, error)
        && read_strings (root, "ignore_on_save", where, &self->ignore_on_save, error)
        && read_entries (self, root, "sub_models", where, read_sub_model, error)
        && read_entries (self, root, "modules", where, read_module, error)
        && read_entries (self, root, "tensors", where, read_tensor, error)))
    return FALSE;
  if (self->sub_models->len == 0)
    add_root (self);
  return TRUE;
}

/**
 * weft_module_tree_new_from_json:
 * @root: the exported tree. Members: `class`, `model_type`; optional: `base_model_prefix`, `dtype`, `dtype_plan` (pattern
 *   to dtype), `tied` (target to source), `ignore_on_load_missing`, `ignore_on_load_unexpected`, `ignore_on_save`
 *   (regular expressions), `sub_models` (`fqn`, `class`, `model_type`, `base_model_prefix`; the model itself first, with an
 *   empty `fqn`), `modules` (`fqn`, `class`) and `tensors` (`name`, `shape`, `dtype`, `persistent`, `is_buffer`). Other
 *   members are not looked at
 * @where: what messages call it, such as the path of the file
 * @error: return location
 *
 * Returns: (transfer full): the tree
 * Errors: %WEFT_ERROR_FORMAT if a member is wrong, with its place; %WEFT_ERROR_DTYPE, %WEFT_ERROR_SHAPE
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_new_from_json (JsonNode *root, const gchar *where, GError **error)
{
  g_autoptr (WeftModuleTree) self = g_object_new (WEFT_TYPE_MODULE_TREE, NULL);

  if (!JSON_NODE_HOLDS_OBJECT (root))
    {
      refuse (error, where, "the module tree", "an object", root);
      return NULL;
    }
  return read_tree (self, json_node_get_object (root), where, error) ? g_steal_pointer (&self) : NULL;
}

/**
 * weft_module_tree_load:
 * @path: path of a JSON file
 * @error: return location
 *
 * Returns: (transfer full): the tree, see weft_module_tree_new_from_json()
 * Errors: those of weft_json_load_file() and of weft_module_tree_new_from_json()
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_load (const gchar *path, GError **error)
{
  g_autoptr (JsonNode) root = weft_json_load_file (path, error);

  return root != NULL ? weft_module_tree_new_from_json (root, path, error) : NULL;
}

/**
 * weft_module_tree_new_from_config:
 * @config: the content of `config.json`
 * @where: what messages call it, such as the path of the file
 * @error: return location
 *
 * A tree of which only the class and the model type are known: those that the config names. Sub-models are not guessed.
 * Without `architectures` the class is empty, without `model_type` the type.
 *
 * Returns: (transfer full): the tree, without tensors
 * Errors: %WEFT_ERROR_FORMAT if a member is wrong, with its place
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_new_from_config (JsonNode *config, const gchar *where, GError **error)
{
  g_autoptr (WeftModuleTree) self = g_object_new (WEFT_TYPE_MODULE_TREE, NULL);
  g_auto (GStrv) architectures = NULL;
  JsonObject *root;

  if (!JSON_NODE_HOLDS_OBJECT (config))
    {
      refuse (error, where, "the config", "an object", config);
      return NULL;
    }
  root = json_node_get_object (config);
  if (json_object_has_member (root, "architectures") && !json_object_get_null_member (root, "architectures")
      && !read_strings (root, "architectures", where, &architectures, error))
    return NULL;
  if (!read_string (root, "model_type", "", where, &self->model_type, error))
    return NULL;
  self->class_name = g_strdup (architectures != NULL && architectures[0] != NULL ? architectures[0] : "");
  self->base_model_prefix = g_strdup ("");
  self->ignore_on_load_missing = g_new0 (gchar *, 1);
  self->ignore_on_load_unexpected = g_new0 (gchar *, 1);
  self->ignore_on_save = g_new0 (gchar *, 1);
  add_root (self);
  return weft_module_tree_mark_custom_code (self, config, where, error) ? g_steal_pointer (&self) : NULL;
}

/* `modeling_x.XModel` and `someone/repository--modeling_x.XModel` name the class XModel. */
static void
mark_class (WeftModuleTree *self, const gchar *reference)
{
  const gchar *dot = strrchr (reference, '.');
  const gchar *class_name = dot != NULL ? dot + 1 : reference;

  for (guint i = 0; i < self->sub_models->len; i++)
    {
      SubModel *sub_model = &g_array_index (self->sub_models, SubModel, i);

      sub_model->is_custom |= strcmp (sub_model->class_name, class_name) == 0;
    }
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
  if (!find_object (json_node_get_object (config), "auto_map", where, &auto_map, error))
    return FALSE;
  members = json_object_get_members (auto_map);
  for (GList *member = members; member != NULL; member = member->next)
    {
      JsonNode *value = json_object_get_member (auto_map, member->data);

      /* Tokenizers are listed in pairs, of which one may be null. */
      if (holds (value, G_TYPE_STRING))
        mark_class (self, json_node_get_string (value));
      else if (!JSON_NODE_HOLDS_ARRAY (value) && !JSON_NODE_HOLDS_NULL (value))
        return refuse (error, where, "auto_map", "names of classes", value);
    }
  return TRUE;
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
  return g_array_index (self->dtype_rules, DtypeRule, position).pattern;
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
  return g_array_index (self->dtype_rules, DtypeRule, position).dtype;
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
  return g_array_index (self->ties, Tie, position).target;
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
  return g_array_index (self->ties, Tie, position).source;
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
  return g_array_index (self->sub_models, SubModel, position).fqn;
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
  return g_array_index (self->sub_models, SubModel, position).class_name;
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
  return g_array_index (self->sub_models, SubModel, position).model_type;
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
  return g_array_index (self->sub_models, SubModel, position).base_model_prefix;
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
  return g_array_index (self->sub_models, SubModel, position).is_custom;
}

/**
 * weft_module_tree_get_n_modules:
 * @self: a tree
 *
 * Returns: the number of modules
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
  return g_array_index (self->modules, Module, position).fqn;
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
  return g_array_index (self->modules, Module, position).class_name;
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
  return g_array_index (self->tensors, ModelTensor, position).name;
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
  return &g_array_index (self->tensors, ModelTensor, position).shape;
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
  return g_array_index (self->tensors, ModelTensor, position).dtype;
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
  return g_array_index (self->tensors, ModelTensor, position).is_persistent;
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
  return g_array_index (self->tensors, ModelTensor, position).is_buffer;
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

  if (!g_hash_table_lookup_extended (self->positions, name, NULL, &value))
    return FALSE;
  if (position != NULL)
    *position = GPOINTER_TO_UINT (value);
  return TRUE;
}
