/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping/weft-mapping.h"

#include <string.h>

#include "base/weft-json.h"

/* The longest shipped mapping has some fifty rules. */
#define MAX_RULES 10000

static WeftWeightTransform *
read_rule (JsonNode *element, const gchar *name, guint position, const gchar *where, GError **error)
{
  g_autofree gchar *place = g_strdup_printf ("%s[%u]", where, position);
  g_autoptr (WeftWeightTransform) rule = NULL;

  if (!JSON_NODE_HOLDS_OBJECT (element))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: expected a rule, an object with a member 'type', found %s", place,
                   weft_json_describe (element));
      return NULL;
    }
  rule = weft_weight_transform_new_from_json (json_node_get_object (element), place, error);
  if (rule == NULL)
    return NULL;
  weft_weight_transform_set_origin (rule, name, position);
  return weft_weight_transform_prepare (rule, error) ? g_steal_pointer (&rule) : NULL;
}

/**
 * weft_mapping_new_from_json:
 * @root: a list of rules, as a mapping file holds it
 * @name: the name of the mapping, for messages
 * @where: what messages call the document, such as the path of the file
 * @error: return location
 *
 * Reads a mapping and checks it whole.
 *
 * Returns: (transfer full): its rules
 * Errors: %WEFT_ERROR_FORMAT if a member is wrong, %WEFT_ERROR_PATTERN if a rule or the order of rules is,
 *   %WEFT_ERROR_MISSING if no plugin has a kind or an op
 * Since: 1.0
 */
WeftTransformList *
weft_mapping_new_from_json (JsonNode *root, const gchar *name, const gchar *where, GError **error)
{
  g_autoptr (WeftTransformList) list = weft_transform_list_new ();
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (root) || json_array_get_length (json_node_get_array (root)) > MAX_RULES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: expected a list of at most %d rules, found %s",
                   where, MAX_RULES, weft_json_describe (root));
      return NULL;
    }
  array = json_node_get_array (root);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      g_autoptr (WeftWeightTransform) rule =
          read_rule (json_array_get_element (array, i), name, i, where, error);

      if (rule == NULL)
        return NULL;
      weft_transform_list_append (list, rule);
    }
  return weft_transform_list_check_order (list, error) ? g_steal_pointer (&list) : NULL;
}

/**
 * weft_mapping_load:
 * @path: path of a mapping file
 * @error: return location
 *
 * Returns: (transfer full): the rules of the file, named after it
 * Errors: those of weft_json_load_file() and of weft_mapping_new_from_json()
 * Since: 1.0
 */
WeftTransformList *
weft_mapping_load (const gchar *path, GError **error)
{
  g_autoptr (JsonNode) root = weft_json_load_file (path, error);
  g_autofree gchar *name = g_path_get_basename (path);

  if (root == NULL)
    return NULL;
  if (g_str_has_suffix (name, ".json"))
    name[strlen (name) - strlen (".json")] = '\0';
  return weft_mapping_new_from_json (root, name, path, error);
}

/**
 * weft_mapping_to_json:
 * @list: rules
 *
 * Returns: (transfer full): the rules as weft_mapping_new_from_json() reads them
 * Since: 1.0
 */
JsonNode *
weft_mapping_to_json (WeftTransformList *list)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (guint i = 0; i < weft_transform_list_get_n_transforms (list); i++)
    json_array_add_object_element (
        array, weft_weight_transform_to_json (weft_transform_list_get_transform (list, i)));
  return json_node_init_array (json_node_alloc (), array);
}

/**
 * weft_mapping_describe_json:
 * @list: rules
 *
 * Returns: (transfer full): all that is known of each rule: its members, the patterns as they are used (`processed`), its
 *   scope, and its inverse (`reverse`), or why there is none (`reverse_error`)
 * Since: 1.0
 */
JsonNode *
weft_mapping_describe_json (WeftTransformList *list)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (guint i = 0; i < weft_transform_list_get_n_transforms (list); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (list, i);
      g_autoptr (GError) reverse_error = NULL;
      g_autoptr (WeftWeightTransform) reverse = weft_weight_transform_dup_inverse (rule, &reverse_error);
      JsonObject *object = weft_weight_transform_describe_json (rule);

      if (weft_weight_transform_get_scope_prefix (rule) != NULL)
        {
          json_object_set_string_member (object, "scope_prefix",
                                         weft_weight_transform_get_scope_prefix (rule));
          json_object_set_string_member (object, "base_model_prefix",
                                         weft_weight_transform_get_base_model_prefix (rule));
        }
      if (reverse != NULL)
        json_object_set_object_member (object, "reverse", weft_weight_transform_describe_json (reverse));
      else
        json_object_set_string_member (object, "reverse_error", reverse_error->message);
      json_array_add_object_element (array, object);
    }
  return json_node_init_array (json_node_alloc (), array);
}

static void
set_optional_string (JsonObject *object, const gchar *member, const gchar *text)
{
  if (text != NULL)
    json_object_set_string_member (object, member, text);
  else
    json_object_set_null_member (object, member);
}

/**
 * weft_mapping_describe_assembled_json:
 * @list: the rules of a model, such as weft_mapping_assemble() makes
 *
 * Returns: (transfer full): an array as weft_mapping_describe_json() makes it, with `scope_prefix` and `base_model_prefix` in every
 *   rule (`null` for none) and `origin`: `entry` (the name of a mapping; `key_mapping` for the caller's own rules, `legacy` for
 *   those for old names), `index` there, `sub_model` (the path of the part of the model that it was found for) and `via` (by
 *   its `class` or by its `model_type`)
 * Since: 1.0
 */
JsonNode *
weft_mapping_describe_assembled_json (WeftTransformList *list)
{
  JsonNode *root = weft_mapping_describe_json (list);
  JsonArray *array = json_node_get_array (root);

  for (guint i = 0; i < weft_transform_list_get_n_transforms (list); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (list, i);
      JsonObject *object = json_array_get_object_element (array, i);
      JsonObject *origin = json_object_new ();

      set_optional_string (object, "scope_prefix", weft_weight_transform_get_scope_prefix (rule));
      set_optional_string (object, "base_model_prefix", weft_weight_transform_get_base_model_prefix (rule));
      set_optional_string (origin, "entry", weft_weight_transform_get_origin (rule));
      json_object_set_int_member (origin, "index", weft_weight_transform_get_origin_index (rule));
      set_optional_string (origin, "sub_model", weft_weight_transform_get_origin_path (rule));
      set_optional_string (origin, "via", weft_weight_transform_get_origin_via (rule));
      json_object_set_object_member (object, "origin", origin);
    }
  return root;
}

/* Which sub-model has taken which class and which model type, so that a sub-model below it does not take it again. */
typedef struct
{
  const gchar *fqn;
  const gchar *name;
} Claim;

static gboolean
is_ancestor (const gchar *ancestor, const gchar *fqn)
{
  gsize length = strlen (ancestor);

  return length == 0 || (strncmp (fqn, ancestor, length) == 0 && fqn[length] == '.');
}

static gboolean
is_claimed (GArray *claims, const gchar *name, const gchar *fqn)
{
  for (guint i = 0; i < claims->len; i++)
    {
      const Claim *claim = &g_array_index (claims, Claim, i);

      if (strcmp (claim->name, name) == 0 && is_ancestor (claim->fqn, fqn))
        return TRUE;
    }
  return FALSE;
}

/* The path of a sub-model as its rules see it: without the root's base model prefix. */
static const gchar *
find_scope (const gchar *fqn, const gchar *base_model_prefix)
{
  gsize length = strlen (base_model_prefix);

  if (length == 0 || strncmp (fqn, base_model_prefix, length) != 0)
    return fqn;
  if (fqn[length] == '\0')
    return "";
  return fqn[length] == '.' ? fqn + length + 1 : fqn;
}

static gboolean
is_skipped_custom_code (WeftMappingRegistry *registry, WeftModuleTree *tree, guint position)
{
  return weft_module_tree_is_sub_model_custom (tree, position)
         && !weft_mapping_registry_is_user_registered (registry,
                                                       weft_module_tree_get_sub_model_class (tree, position))
         && !weft_mapping_registry_is_user_registered (registry,
                                                       weft_module_tree_get_sub_model_type (tree, position));
}

static gboolean
append_sub_model (WeftTransformList *list, WeftMappingRegistry *registry, WeftModuleTree *tree,
                  guint position, GArray *classes, GArray *types, GError **error)
{
  const gchar *root_prefix = weft_module_tree_get_base_model_prefix (tree);
  Claim claim = { .fqn = weft_module_tree_get_sub_model_fqn (tree, position) };
  const gchar *class_name = weft_module_tree_get_sub_model_class (tree, position);
  const gchar *model_type = weft_module_tree_get_sub_model_type (tree, position);
  g_autoptr (WeftTransformList) own = NULL;
  g_autoptr (GError) local_error = NULL;

  if (is_skipped_custom_code (registry, tree, position) || is_claimed (classes, class_name, claim.fqn))
    return TRUE;
  own = weft_mapping_registry_lookup (registry, class_name, &local_error);
  if (own == NULL && local_error == NULL)
    {
      if (is_claimed (types, model_type, claim.fqn))
        return TRUE;
      own = weft_mapping_registry_lookup (registry, model_type, &local_error);
      claim.name = model_type;
    }
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (own == NULL)
    return TRUE;
  for (guint i = 0; i < weft_transform_list_get_n_transforms (own); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (own, i);

      weft_weight_transform_set_origin_model (rule, claim.fqn, claim.name != NULL ? "model_type" : "class");
      if (claim.fqn[0] != '\0')
        weft_weight_transform_set_scope (rule, find_scope (claim.fqn, root_prefix), root_prefix);
    }
  weft_transform_list_append_list (list, own);
  if (claim.name != NULL)
    g_array_append_val (types, claim);
  claim.name = class_name;
  g_array_append_val (classes, claim);
  return TRUE;
}

static gboolean
append_key_mapping (WeftTransformList *list, WeftTransformList *key_mapping, GError **error)
{
  g_autoptr (WeftTransformList) copy = weft_transform_list_copy (key_mapping, error);

  if (copy == NULL)
    return FALSE;
  for (guint i = 0; i < weft_transform_list_get_n_transforms (copy); i++)
    weft_weight_transform_set_origin (weft_transform_list_get_transform (copy, i), "key_mapping", i);
  weft_transform_list_append_list (list, copy);
  return TRUE;
}

/**
 * weft_mapping_assemble:
 * @registry: the mappings
 * @tree: the model
 * @key_mapping: (nullable): the user's own renamings, which come first and are unscoped
 * @with_legacy: whether the rules for old names come last, as on every load
 * @error: return location
 *
 * Makes the list of rules for a model: the user's, those of the model and of each sub-model (found by class, else by model
 * type, and scoped to its path; not again below a sub-model that took the same), and those for old names. The list is the
 * caller's own; it may be edited before a plan is made of it.
 *
 * Returns: (transfer full): the rules
 * Errors: those of weft_mapping_registry_lookup()
 * Since: 1.0
 */
WeftTransformList *
weft_mapping_assemble (WeftMappingRegistry *registry, WeftModuleTree *tree, WeftTransformList *key_mapping,
                       gboolean with_legacy, GError **error)
{
  g_autoptr (WeftTransformList) list = weft_transform_list_new ();
  g_autoptr (WeftTransformList) legacy = NULL;
  g_autoptr (GArray) classes = g_array_new (FALSE, FALSE, sizeof (Claim));
  g_autoptr (GArray) types = g_array_new (FALSE, FALSE, sizeof (Claim));
  g_autoptr (GError) local_error = NULL;

  if (key_mapping != NULL && !append_key_mapping (list, key_mapping, error))
    return NULL;
  for (guint i = 0; i < weft_module_tree_get_n_sub_models (tree); i++)
    if (!append_sub_model (list, registry, tree, i, classes, types, error))
      return NULL;
  legacy = with_legacy ? weft_mapping_registry_lookup (registry, "legacy", &local_error) : NULL;
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  if (legacy != NULL)
    weft_transform_list_append_list (list, legacy);
  return g_steal_pointer (&list);
}

/**
 * weft_mapping_list_custom_code:
 * @registry: the mappings
 * @tree: the model
 *
 * Returns: (transfer full): the classes of sub-models that get no mapping because their code comes with the checkpoint and
 *   neither class nor model type was registered by the user
 * Since: 1.0
 */
GStrv
weft_mapping_list_custom_code (WeftMappingRegistry *registry, WeftModuleTree *tree)
{
  g_autoptr (GStrvBuilder) classes = g_strv_builder_new ();

  for (guint i = 0; i < weft_module_tree_get_n_sub_models (tree); i++)
    if (is_skipped_custom_code (registry, tree, i))
      g_strv_builder_add (classes, weft_module_tree_get_sub_model_class (tree, i));
  return g_strv_builder_end (classes);
}
