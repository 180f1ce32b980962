/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON form of a module tree, read and written; docs/module-tree.md describes it. */
#include <string.h>

#include "base/weft-json.h"
#include "model/weft-module-tree-private.h"
#include "model/weft-module-value-private.h"

static const gchar *const plan_members[WEFT_N_PARALLEL_KINDS] = { "parallel_plan", "expert_plan" };

/* The modules of a tree while they are read. */
typedef struct
{
  WeftModuleTree *tree;
  WeftModuleBody *root; /* taken by the tree at the end */
  GHashTable *bodies;   /* fqn -> WeftModuleBody, not owned */
  GHashTable *names;    /* of tensors */
  GPtrArray *aliases;   /* paths of modules that are registered again */
  gboolean makes_modules;
} Reading;

static gboolean
refuse (GError **error, const gchar *where, const gchar *member, const gchar *expected, JsonNode *found)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: %s: expected %s, found %s", where, member, expected,
               weft_json_describe (found));
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

typedef gboolean (*ReadEntry) (Reading *reading, JsonObject *entry, const gchar *where, GError **error);

/* An optional list of objects, each read by @read_entry. */
static gboolean
read_entries (Reading *reading, JsonObject *object, const gchar *member, const gchar *where,
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
      if (!read_entry (reading, json_node_get_object (element), place, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_sub_model (Reading *reading, JsonObject *entry, const gchar *where, GError **error)
{
  gboolean is_first = reading->tree->sub_models->len == 0;
  g_autofree gchar *fqn = NULL;
  g_autofree gchar *class_name = NULL;
  g_autofree gchar *model_type = NULL;
  g_autofree gchar *base_model_prefix = NULL;

  if (!read_string (entry, "fqn", NULL, where, &fqn, error)
      || !read_string (entry, "class", NULL, where, &class_name, error)
      || !read_string (entry, "model_type", NULL, where, &model_type, error)
      || !read_string (entry, "base_model_prefix", "", where, &base_model_prefix, error))
    return FALSE;
  if (is_first != (fqn[0] == '\0'))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "%s: fqn: found '%s'; the first sub-model, and only it, is the model itself with an empty fqn",
          where, fqn);
      return FALSE;
    }
  weft_module_tree_add_sub_model (reading->tree, fqn, class_name, model_type, base_model_prefix, NULL);
  return TRUE;
}

/* The nearest module above a path that is known, and where the rest of the path begins. */
static WeftModuleBody *
find_above (Reading *reading, const gchar *path, const gchar **rest)
{
  g_autofree gchar *above = g_strdup (path);

  for (gchar *dot = strrchr (above, '.'); dot != NULL; dot = strrchr (above, '.'))
    {
      WeftModuleBody *body;

      *dot = '\0';
      body = g_hash_table_lookup (reading->bodies, above);
      if (body != NULL)
        {
          *rest = path + strlen (above) + 1;
          return body;
        }
    }
  *rest = path;
  return reading->root;
}

static void
add_module (Reading *reading, const gchar *fqn, WeftModuleBody *body, const gchar *alias_of)
{
  const gchar *name;
  WeftModuleBody *parent = find_above (reading, fqn, &name);

  weft_module_body_set_child (parent, NULL, name, body, alias_of);
  if (alias_of == NULL)
    g_hash_table_insert (reading->bodies, g_strdup (fqn), body);
}

static gboolean
read_attributes (WeftModuleBody *body, JsonObject *entry, const gchar *where, GError **error)
{
  JsonNode *node = json_object_get_member (entry, "attributes");
  g_autoptr (GList) names = NULL;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (error, where, "attributes", "an object", node);
  names = json_object_get_members (json_node_get_object (node));
  for (GList *name = names; name != NULL; name = name->next)
    {
      JsonNode *value = json_object_get_member (json_node_get_object (node), name->data);
      GVariant *attribute = weft_module_value_from_json (value);

      if (attribute == NULL)
        return refuse (error, where, name->data,
                       "a number, a text, true, false, null, or a list of numbers or texts", value);
      weft_module_body_set_attribute (body, name->data, attribute);
    }
  return TRUE;
}

static gboolean
read_alias (Reading *reading, const gchar *fqn, const gchar *alias_of, const gchar *where, GError **error)
{
  WeftModuleBody *body = g_hash_table_lookup (reading->bodies, alias_of);

  if (body == NULL || body == reading->root)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: alias_of: '%s' is the path of no module that stands before this one", where,
                   alias_of);
      return FALSE;
    }
  if (g_str_has_prefix (fqn, alias_of) && fqn[strlen (alias_of)] == '.')
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: alias_of: '%s' would contain itself", where,
                   alias_of);
      return FALSE;
    }
  add_module (reading, fqn, body, alias_of);
  g_ptr_array_add (reading->aliases, g_strdup (fqn));
  return TRUE;
}

static gboolean
read_module (Reading *reading, JsonObject *entry, const gchar *where, GError **error)
{
  g_autofree gchar *fqn = NULL;
  g_autofree gchar *class_name = NULL;
  g_autofree gchar *alias_of = NULL;
  g_auto (GStrv) bases = NULL;
  g_autoptr (GPtrArray) names = NULL;
  g_autoptr (WeftModuleBody) body = NULL;

  if (!read_string (entry, "fqn", NULL, where, &fqn, error)
      || !read_string (entry, "alias_of", "", where, &alias_of, error)
      || !weft_module_body_check_depth (fqn, where, error))
    return FALSE;
  if (g_hash_table_contains (reading->bodies, fqn) && fqn[0] != '\0')
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: fqn: '%s' is there twice", where, fqn);
      return FALSE;
    }
  if (alias_of[0] != '\0')
    return read_alias (reading, fqn, alias_of, where, error);
  if (!read_string (entry, "class", NULL, where, &class_name, error)
      || !read_strings (entry, "bases", where, &bases, error))
    return FALSE;
  names = weft_module_bases_new ((const gchar *const *) bases);
  if (fqn[0] == '\0')
    {
      weft_module_body_set_class (reading->root, class_name, names);
      return read_attributes (reading->root, entry, where, error);
    }
  body = weft_module_body_new (class_name, names);
  add_module (reading, fqn, body, NULL);
  return read_attributes (body, entry, where, error);
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

/* The modules that the name of a tensor passes, where the file lists none. */
static void
make_modules (Reading *reading, const gchar *name)
{
  for (const gchar *dot = strchr (name, '.'); dot != NULL; dot = strchr (dot + 1, '.'))
    {
      g_autofree gchar *fqn = g_strndup (name, (gsize) (dot - name));
      g_autoptr (WeftModuleBody) body = NULL;

      if (g_hash_table_contains (reading->bodies, fqn))
        continue;
      body = weft_module_body_new (WEFT_UNKNOWN_MODULE_CLASS, NULL);
      add_module (reading, fqn, body, NULL);
    }
}

/* The tensors of an alias follow from it; a file may list them. */
static gboolean
is_of_alias (Reading *reading, const gchar *name)
{
  for (guint i = 0; i < reading->aliases->len; i++)
    {
      const gchar *fqn = reading->aliases->pdata[i];

      if (g_str_has_prefix (name, fqn) && name[strlen (fqn)] == '.')
        return TRUE;
    }
  return FALSE;
}

static gboolean
read_tensor (Reading *reading, JsonObject *entry, const gchar *where, GError **error)
{
  g_autofree gchar *name = NULL;
  g_autoptr (WeftTensorSpec) spec = NULL;
  WeftModuleBody *body;
  const gchar *rest;
  WeftShape shape;
  WeftDtype dtype;
  gboolean is_persistent, is_buffer;

  if (!read_string (entry, "name", NULL, where, &name, error) || !read_shape (entry, where, &shape, error)
      || !parse_dtype (json_object_get_member (entry, "dtype"), "dtype", where, &dtype, error)
      || !read_boolean (entry, "persistent", TRUE, where, &is_persistent, error)
      || !read_boolean (entry, "is_buffer", !is_persistent, where, &is_buffer, error)
      || !weft_module_body_check_depth (name, where, error))
    return FALSE;
  if (reading->makes_modules)
    make_modules (reading, name);
  body = find_above (reading, name, &rest);
  spec = is_buffer || !is_persistent ? weft_tensor_spec_new_buffer (dtype, &shape, is_persistent)
                                     : weft_tensor_spec_new (dtype, &shape);
  if (!is_of_alias (reading, name))
    weft_module_body_set_tensor (body, NULL, rest, spec);
  if (g_hash_table_add (reading->names, g_steal_pointer (&name)))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: name: '%s' is there twice", where,
               json_object_get_string_member (entry, "name"));
  return FALSE;
}

/* An optional object of texts by name, given to @add one by one. */
static gboolean
read_text_map (WeftModuleTree *tree, JsonObject *root, const gchar *member, const gchar *expected,
               const gchar *where, void (*add) (WeftModuleTree *tree, const gchar *name, const gchar *text),
               GError **error)
{
  JsonNode *node = json_object_get_member (root, member);
  g_autoptr (GList) names = NULL;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (error, where, member, "an object", node);
  names = json_object_get_members (json_node_get_object (node));
  for (GList *name = names; name != NULL; name = name->next)
    {
      JsonNode *text = json_object_get_member (json_node_get_object (node), name->data);

      if (!holds (text, G_TYPE_STRING))
        return refuse (error, where, member, expected, text);
      add (tree, name->data, json_node_get_string (text));
    }
  return TRUE;
}

static gboolean
read_dtype_rules (WeftModuleTree *tree, JsonObject *root, const gchar *where, GError **error)
{
  JsonNode *node = json_object_get_member (root, "dtype_plan");
  g_autoptr (GList) patterns = NULL;

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_OBJECT (node))
    return refuse (error, where, "dtype_plan", "an object", node);
  patterns = json_object_get_members (json_node_get_object (node));
  for (GList *pattern = patterns; pattern != NULL; pattern = pattern->next)
    {
      WeftDtype dtype;

      if (!parse_dtype (json_object_get_member (json_node_get_object (node), pattern->data), "dtype_plan",
                        where, &dtype, error))
        return FALSE;
      weft_module_tree_add_dtype_rule (tree, pattern->data, dtype);
    }
  return TRUE;
}

static void
add_parallel_rule (WeftModuleTree *tree, const gchar *pattern, const gchar *style)
{
  weft_module_tree_add_plan_rule (tree, WEFT_PARALLEL_KIND_TENSOR, pattern, style);
}

static void
add_expert_rule (WeftModuleTree *tree, const gchar *pattern, const gchar *style)
{
  weft_module_tree_add_plan_rule (tree, WEFT_PARALLEL_KIND_EXPERT, pattern, style);
}

/* Everything but modules and tensors. A tree without a class has that of its root module. */
static gboolean
read_model (Reading *reading, JsonObject *root, const gchar *where, GError **error)
{
  WeftModuleTree *tree = reading->tree;
  JsonNode *dtype = json_object_get_member (root, "dtype");
  const gchar *class_of_root = reading->root->class_name[0] != '\0' ? reading->root->class_name : NULL;

  return read_string (root, "class", class_of_root, where, &tree->class_name, error)
         && read_string (root, "model_type", class_of_root != NULL ? "" : NULL, where, &tree->model_type,
                         error)
         && read_string (root, "base_model_prefix", "", where, &tree->base_model_prefix, error)
         && (dtype == NULL || JSON_NODE_HOLDS_NULL (dtype)
             || parse_dtype (dtype, "dtype", where, &tree->dtype, error))
         && read_dtype_rules (tree, root, where, error)
         && read_text_map (tree, root, "tied", "names of tensors", where, weft_module_tree_add_tie, error)
         && read_text_map (tree, root, plan_members[WEFT_PARALLEL_KIND_TENSOR], "names of styles", where,
                           add_parallel_rule, error)
         && read_text_map (tree, root, plan_members[WEFT_PARALLEL_KIND_EXPERT], "names of styles", where,
                           add_expert_rule, error)
         && read_strings (root, "ignore_on_load_missing", where, &tree->ignore_on_load_missing, error)
         && read_strings (root, "ignore_on_load_unexpected", where, &tree->ignore_on_load_unexpected, error)
         && read_strings (root, "ignore_on_save", where, &tree->ignore_on_save, error)
         && read_entries (reading, root, "sub_models", where, read_sub_model, error);
}

/* Each tensor that the file lists is in the tree: those of aliases too. */
static gboolean
check_names (Reading *reading, const gchar *where, GError **error)
{
  GHashTableIter names;
  gpointer name;

  g_hash_table_iter_init (&names, reading->names);
  while (reading->aliases->len > 0 && g_hash_table_iter_next (&names, &name, NULL))
    if (!weft_module_tree_find_tensor (reading->tree, name, NULL))
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                     "%s: tensors: '%s' is in a module that is another path of one without such a tensor",
                     where, (const gchar *) name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
read_tree (Reading *reading, JsonObject *root, const gchar *where, GError **error)
{
  WeftModuleTree *tree = reading->tree;
  g_autoptr (GPtrArray) no_bases = weft_module_bases_new (NULL);

  tree->has_tensors = json_object_has_member (root, "tensors");
  if (!read_entries (reading, root, "modules", where, read_module, error)
      || !read_model (reading, root, where, error)
      || !read_entries (reading, root, "tensors", where, read_tensor, error))
    return FALSE;
  if (tree->sub_models->len == 0)
    weft_module_tree_add_sub_model (tree, "", tree->class_name, tree->model_type, tree->base_model_prefix,
                                    NULL);
  if (reading->root->class_name[0] == '\0')
    weft_module_body_set_class (reading->root, tree->class_name, no_bases);
  return weft_module_tree_complete (tree, g_steal_pointer (&reading->root), where, error)
         && check_names (reading, where, error);
}

/**
 * weft_module_tree_new_from_json:
 * @root: the exported tree, as docs/module-tree.md describes it. Members: `class`, `model_type` (both may be left out if there
 *   is a module with an empty `fqn`); optional: `base_model_prefix`, `dtype`, `dtype_plan` (pattern to dtype), `tied`
 *   (target to source), `parallel_plan` and `expert_plan` (pattern to style), `ignore_on_load_missing`,
 *   `ignore_on_load_unexpected`, `ignore_on_save` (regular expressions), `sub_models` (`fqn`, `class`, `model_type`,
 *   `base_model_prefix`; the model itself first, with an empty `fqn`), `modules` (`fqn`, `class`, `bases`, `attributes`,
 *   or `alias_of`) and `tensors` (`name`, `shape`, `dtype`, `persistent`, `is_buffer`). Other members are not looked at
 * @where: what messages call it, such as the path of the file
 * @error: return location
 *
 * Returns: (transfer full): the tree
 * Errors: %WEFT_ERROR_FORMAT if a member is wrong, with its place; %WEFT_ERROR_DTYPE, %WEFT_ERROR_SHAPE; %WEFT_ERROR_LIMIT
 *   if it is larger or deeper than any model
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_new_from_json (JsonNode *root, const gchar *where, GError **error)
{
  g_autoptr (WeftModuleTree) tree = weft_module_tree_new_empty ();
  g_autoptr (GHashTable) bodies = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  g_autoptr (WeftModuleBody) body = weft_module_body_new ("", NULL);
  g_autoptr (GPtrArray) aliases = g_ptr_array_new_with_free_func (g_free);
  Reading reading = { tree, body, bodies, names, aliases, FALSE };
  gboolean is_read;

  if (!JSON_NODE_HOLDS_OBJECT (root))
    {
      refuse (error, where, "the module tree", "an object", root);
      return NULL;
    }
  reading.makes_modules = !json_object_has_member (json_node_get_object (root), "modules");
  is_read = read_tree (&reading, json_node_get_object (root), where, error);
  if (reading.root == NULL)
    g_steal_pointer (&body);
  return is_read ? g_steal_pointer (&tree) : NULL;
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
 * Without `architectures` the class is empty, without `model_type` the type. weft_module_tree_new_for_config() gives the
 * whole tree of a model that Weft knows.
 *
 * Returns: (transfer full): the tree, without tensors
 * Errors: %WEFT_ERROR_FORMAT if a member is wrong, with its place
 * Since: 1.0
 */
WeftModuleTree *
weft_module_tree_new_from_config (JsonNode *config, const gchar *where, GError **error)
{
  g_autoptr (WeftModuleTree) self = weft_module_tree_new_empty ();
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
  weft_module_tree_add_sub_model (self, "", self->class_name, self->model_type, "", NULL);
  if (!weft_module_tree_complete (self, weft_module_body_new (self->class_name, NULL), where, error)
      || !weft_module_tree_mark_custom_code (self, config, where, error))
    return NULL;
  return g_steal_pointer (&self);
}

static void
write_string (JsonBuilder *builder, const gchar *member, const gchar *text)
{
  json_builder_set_member_name (builder, member);
  json_builder_add_string_value (builder, text);
}

static void
write_strings (JsonBuilder *builder, const gchar *member, const gchar *const *texts)
{
  json_builder_set_member_name (builder, member);
  json_builder_begin_array (builder);
  for (guint i = 0; texts != NULL && texts[i] != NULL; i++)
    json_builder_add_string_value (builder, texts[i]);
  json_builder_end_array (builder);
}

static void
write_text_map (JsonBuilder *builder, const gchar *member, GArray *pairs)
{
  json_builder_set_member_name (builder, member);
  json_builder_begin_object (builder);
  for (guint i = 0; i < pairs->len; i++)
    write_string (builder, g_array_index (pairs, WeftTextPair, i).first,
                  g_array_index (pairs, WeftTextPair, i).second);
  json_builder_end_object (builder);
}

static void
write_model (WeftModuleTree *self, JsonBuilder *builder)
{
  write_string (builder, "class", self->class_name);
  write_string (builder, "model_type", self->model_type);
  write_string (builder, "base_model_prefix", self->base_model_prefix);
  if (self->dtype != WEFT_DTYPE_INVALID)
    write_string (builder, "dtype", weft_dtype_get_config_name (self->dtype));
  json_builder_set_member_name (builder, "dtype_plan");
  json_builder_begin_object (builder);
  for (guint i = 0; i < self->dtype_rules->len; i++)
    {
      const WeftDtypeRule *rule = &g_array_index (self->dtype_rules, WeftDtypeRule, i);

      write_string (builder, rule->pattern, weft_dtype_get_config_name (rule->dtype));
    }
  json_builder_end_object (builder);
  write_text_map (builder, "tied", self->ties);
  write_strings (builder, "ignore_on_load_missing", (const gchar *const *) self->ignore_on_load_missing);
  write_strings (builder, "ignore_on_load_unexpected",
                 (const gchar *const *) self->ignore_on_load_unexpected);
  write_strings (builder, "ignore_on_save", (const gchar *const *) self->ignore_on_save);
  for (guint i = 0; i < WEFT_N_PARALLEL_KINDS; i++)
    if (self->plan_rules[i]->len > 0)
      write_text_map (builder, plan_members[i], self->plan_rules[i]);
}

static void
write_sub_models (WeftModuleTree *self, JsonBuilder *builder)
{
  json_builder_set_member_name (builder, "sub_models");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->sub_models->len; i++)
    {
      const WeftSubModel *sub_model = &g_array_index (self->sub_models, WeftSubModel, i);

      json_builder_begin_object (builder);
      write_string (builder, "fqn", sub_model->fqn);
      write_string (builder, "class", sub_model->class_name);
      write_string (builder, "model_type", sub_model->model_type);
      write_string (builder, "base_model_prefix", sub_model->base_model_prefix);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

static void
write_module (JsonBuilder *builder, const WeftModulePlace *place)
{
  const WeftModuleBody *body = place->body;

  json_builder_begin_object (builder);
  write_string (builder, "fqn", place->fqn);
  write_string (builder, "class", body->class_name);
  if (body->bases->len > 1)
    write_strings (builder, "bases", (const gchar *const *) body->bases->pdata);
  if (body->attributes->len > 0)
    {
      json_builder_set_member_name (builder, "attributes");
      json_builder_begin_object (builder);
      for (guint i = 0; i < body->attributes->len; i++)
        {
          const WeftModuleAttribute *attribute = &g_array_index (body->attributes, WeftModuleAttribute, i);

          json_builder_set_member_name (builder, attribute->name);
          json_builder_add_value (builder, weft_module_value_to_json (attribute->value));
        }
      json_builder_end_object (builder);
    }
  json_builder_end_object (builder);
}

static void
write_alias (JsonBuilder *builder, const WeftAliasPlace *place)
{
  json_builder_begin_object (builder);
  write_string (builder, "fqn", place->fqn);
  write_string (builder, "alias_of", place->alias_of);
  json_builder_end_object (builder);
}

/* In definition order, which the place of an alias is part of. */
static void
write_modules (WeftModuleTree *self, JsonBuilder *builder)
{
  guint alias = 0;

  json_builder_set_member_name (builder, "modules");
  json_builder_begin_array (builder);
  for (guint i = 0; i <= self->modules->len; i++)
    {
      for (; alias < self->aliases->len
             && g_array_index (self->aliases, WeftAliasPlace, alias).n_modules_before == i;
           alias++)
        write_alias (builder, &g_array_index (self->aliases, WeftAliasPlace, alias));
      if (i < self->modules->len)
        write_module (builder, &g_array_index (self->modules, WeftModulePlace, i));
    }
  json_builder_end_array (builder);
}

static void
write_tensor (JsonBuilder *builder, const WeftTensorPlace *place)
{
  const WeftShape *shape = weft_tensor_spec_get_shape (place->spec);

  json_builder_begin_object (builder);
  write_string (builder, "name", place->name);
  json_builder_set_member_name (builder, "shape");
  json_builder_begin_array (builder);
  for (guint i = 0; i < shape->rank; i++)
    json_builder_add_int_value (builder, shape->dims[i]);
  json_builder_end_array (builder);
  write_string (builder, "dtype", weft_dtype_get_config_name (weft_tensor_spec_get_dtype (place->spec)));
  json_builder_set_member_name (builder, "persistent");
  json_builder_add_boolean_value (builder, weft_tensor_spec_is_persistent (place->spec));
  json_builder_set_member_name (builder, "is_buffer");
  json_builder_add_boolean_value (builder, weft_tensor_spec_is_buffer (place->spec));
  json_builder_end_object (builder);
}

/**
 * weft_module_tree_to_json:
 * @self: a tree
 *
 * Returns: (transfer full): the tree in the form that weft_module_tree_new_from_json() reads
 * Since: 1.0
 */
JsonNode *
weft_module_tree_to_json (WeftModuleTree *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  write_model (self, builder);
  write_sub_models (self, builder);
  write_modules (self, builder);
  if (self->has_tensors)
    {
      json_builder_set_member_name (builder, "tensors");
      json_builder_begin_array (builder);
      for (guint i = 0; i < self->tensors->len; i++)
        write_tensor (builder, &g_array_index (self->tensors, WeftTensorPlace, i));
      json_builder_end_array (builder);
    }
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}
