/* SPDX-License-Identifier: Apache-2.0 */
/* Rules from JSON and back. A member is a property of the rule's class, with `_` for `-`; so a kind that a plugin brings
 * needs no code for it. */
#include "base/weft-json.h"
#include "plugin/weft-plugin-registry.h"
#include "transform/weft-group-weight-rename.h"
#include "transform/weft-prefix-change.h"
#include "transform/weft-weight-converter.h"
#include "transform/weft-weight-transform-private.h"

#include <string.h>

/* A list in a mapping has a handful of members; one that exceeds this is no mapping. */
#define MAX_LIST_LENGTH 10000

static gboolean
refuse (GError **error, const gchar *where, const gchar *member, const gchar *expected, JsonNode *found)
{
  g_autofree gchar *text = weft_json_to_text (found, FALSE);

  if (strlen (text) > 60)
    strcpy (text + 57, "...");
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s.%s: expected %s, found %s", where, member, expected,
               text);
  return FALSE;
}

static gboolean
is_string (JsonNode *node)
{
  return JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING;
}

/* A list of strings; a single string is a list of one. */
static gboolean
read_strings (JsonNode *node, GValue *value, const gchar *where, const gchar *member, GError **error)
{
  g_autoptr (GStrvBuilder) strings = g_strv_builder_new ();
  JsonArray *array;

  if (is_string (node))
    {
      g_strv_builder_add (strings, json_node_get_string (node));
      g_value_take_boxed (value, g_strv_builder_end (strings));
      return TRUE;
    }
  if (!JSON_NODE_HOLDS_ARRAY (node) || json_array_get_length (json_node_get_array (node)) > MAX_LIST_LENGTH)
    return refuse (error, where, member, "a string or a list of strings", node);
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      if (!is_string (json_array_get_element (array, i)))
        return refuse (error, where, member, "a list of strings", node);
      g_strv_builder_add (strings, json_array_get_string_element (array, i));
    }
  g_value_take_boxed (value, g_strv_builder_end (strings));
  return TRUE;
}

static gboolean
read_operations (JsonNode *node, GValue *value, const gchar *where, const gchar *member, GError **error)
{
  g_autoptr (GPtrArray) operations = g_ptr_array_new_with_free_func (g_object_unref);
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (node) || json_array_get_length (json_node_get_array (node)) > MAX_LIST_LENGTH)
    return refuse (error, where, member, "a list of operations", node);
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      g_autofree gchar *place = g_strdup_printf ("%s.%s[%u]", where, member, i);
      WeftConversionOps *operation;
      JsonNode *type;

      if (!JSON_NODE_HOLDS_OBJECT (element))
        return refuse (error, where, member, "objects with a member 'type'", element);
      type = json_object_get_member (json_node_get_object (element), "type");
      if (type == NULL || !is_string (type))
        return refuse (error, place, "type", "the name of an operation, such as \"MergeModulelist\"",
                       element);
      operation = weft_op_new (json_node_get_string (type), json_node_get_object (element), place, error);
      if (operation == NULL)
        return FALSE;
      g_ptr_array_add (operations, operation);
    }
  g_value_take_boxed (value, g_steal_pointer (&operations));
  return TRUE;
}

static gboolean
read_number (JsonNode *node, GValue *value, GParamSpec *pspec)
{
  g_auto (GValue) number = G_VALUE_INIT;

  if (!JSON_NODE_HOLDS_VALUE (node)
      || (json_node_get_value_type (node) != G_TYPE_INT64
          && json_node_get_value_type (node) != G_TYPE_DOUBLE))
    return FALSE;
  if (json_node_get_value_type (node) == G_TYPE_DOUBLE && pspec->value_type != G_TYPE_DOUBLE)
    return FALSE;
  json_node_get_value (node, &number);
  /* A narrower type would wrap around: refuse what does not come back. */
  if (g_value_transform (&number, value))
    {
      g_auto (GValue) back = G_VALUE_INIT;

      g_value_init (&back, G_VALUE_TYPE (&number));
      return g_value_transform (value, &back) && !g_param_value_validate (pspec, value)
             && (G_VALUE_HOLDS_DOUBLE (&number) || g_value_get_int64 (&back) == g_value_get_int64 (&number));
    }
  return FALSE;
}

static gboolean
read_value (GParamSpec *pspec, JsonNode *node, GValue *value, const gchar *where, const gchar *member,
            GError **error)
{
  g_value_init (value, pspec->value_type);
  if (pspec->value_type == G_TYPE_STRV)
    return read_strings (node, value, where, member, error);
  if (pspec->value_type == G_TYPE_PTR_ARRAY)
    return read_operations (node, value, where, member, error);
  if (pspec->value_type == G_TYPE_STRING)
    {
      if (!JSON_NODE_HOLDS_NULL (node) && !is_string (node))
        return refuse (error, where, member, "a string or null", node);
      g_value_set_string (value, JSON_NODE_HOLDS_NULL (node) ? NULL : json_node_get_string (node));
      return TRUE;
    }
  if (pspec->value_type == G_TYPE_BOOLEAN)
    {
      if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
        return refuse (error, where, member, "true or false", node);
      g_value_set_boolean (value, json_node_get_boolean (node));
      return TRUE;
    }
  return read_number (node, value, pspec) || refuse (error, where, member, "a number in range", node);
}

static gchar *
make_member_name (GParamSpec *pspec)
{
  return g_strdelimit (g_strdup (pspec->name), "-", '_');
}

static GParamSpec *
find_property (GObjectClass *klass, const gchar *member, const gchar *where, GError **error)
{
  g_autofree GParamSpec **properties = NULL;
  g_autoptr (GString) known = g_string_new ("type");
  guint n_properties;

  properties = g_object_class_list_properties (klass, &n_properties);
  for (guint i = 0; i < n_properties; i++)
    {
      g_autofree gchar *name = make_member_name (properties[i]);

      if ((properties[i]->flags & G_PARAM_WRITABLE) == 0)
        continue;
      if (strcmp (name, member) == 0)
        return properties[i];
      g_string_append_printf (known, ", %s", name);
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s.%s: no such member; this kind of rule has %s", where,
               member, known->str);
  return NULL;
}

/* The kinds that every mapping may use; others come from plugins. */
static GType
find_kind (const gchar *name, const gchar *where, GError **error)
{
  const struct
  {
    const gchar *name;
    GType type;
  } kinds[] = {
    { "WeightRenaming", WEFT_TYPE_WEIGHT_RENAMING },
    { "GroupWeightRename", WEFT_TYPE_GROUP_WEIGHT_RENAME },
    { "PrefixChange", WEFT_TYPE_PREFIX_CHANGE },
    { "WeightConverter", WEFT_TYPE_WEIGHT_CONVERTER },
  };
  GType type;

  for (guint i = 0; i < G_N_ELEMENTS (kinds); i++)
    if (strcmp (kinds[i].name, name) == 0)
      return kinds[i].type;
  type = weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_TRANSFORM, name,
                                      error);
  if (type == G_TYPE_INVALID)
    g_prefix_error (error, "%s.type: ", where);
  else if (!g_type_is_a (type, WEFT_TYPE_WEIGHT_TRANSFORM))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN,
                   "%s.type: class '%s' of '%s' is no WeftWeightTransform", where, g_type_name (type), name);
      return G_TYPE_INVALID;
    }
  return type;
}

static gboolean
read_members (GObjectClass *klass, JsonObject *object, const gchar *where, GPtrArray *names, GArray *values,
              GError **error)
{
  g_autoptr (GList) members = json_object_get_members (object);

  for (GList *member = members; member != NULL; member = member->next)
    {
      GParamSpec *pspec;

      if (strcmp (member->data, "type") == 0)
        continue;
      pspec = find_property (klass, member->data, where, error);
      if (pspec == NULL)
        return FALSE;
      g_array_set_size (values, values->len + 1);
      g_ptr_array_add (names, (gpointer) pspec->name);
      if (!read_value (pspec, json_object_get_member (object, member->data),
                       &g_array_index (values, GValue, values->len - 1), where, member->data, error))
        return FALSE;
    }
  return TRUE;
}

/**
 * weft_weight_transform_new_from_json:
 * @object: a rule as in a mapping file: a member `type`, and the members of that kind
 * @where: what messages call its place, such as `mixtral.json[0]`
 * @error: return location
 *
 * Makes a rule. It is still to be prepared, so that its origin can be set before.
 *
 * Returns: (transfer full): the rule
 * Errors: %WEFT_ERROR_FORMAT if a member is wrong, %WEFT_ERROR_MISSING if no plugin has the kind or an op, and those of
 *   weft_op_new()
 * Since: 1.0
 */
WeftWeightTransform *
weft_weight_transform_new_from_json (JsonObject *object, const gchar *where, GError **error)
{
  JsonNode *kind = json_object_get_member (object, "type");
  g_autoptr (GTypeClass) klass = NULL;
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GArray) values = g_array_new (FALSE, TRUE, sizeof (GValue));
  GType type;

  if (kind == NULL || !is_string (kind))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s.type: expected the kind of the rule, such as \"WeightRenaming\", found %s", where,
                   weft_json_describe (kind));
      return NULL;
    }
  type = find_kind (json_node_get_string (kind), where, error);
  if (type == G_TYPE_INVALID)
    return NULL;
  klass = g_type_class_ref (type);
  g_array_set_clear_func (values, (GDestroyNotify) g_value_unset);
  if (!read_members (G_OBJECT_CLASS (klass), object, where, names, values, error))
    return NULL;
  return WEFT_WEIGHT_TRANSFORM (g_object_new_with_properties (type, names->len, (const gchar **) names->pdata,
                                                              (const GValue *) (gpointer) values->data));
}

static JsonNode *
write_strings (const gchar *const *strings)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (guint i = 0; strings != NULL && strings[i] != NULL; i++)
    json_array_add_string_element (array, strings[i]);
  return json_node_init_array (json_node_alloc (), array);
}

static JsonNode *
write_operations (GPtrArray *operations)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (guint i = 0; operations != NULL && i < operations->len; i++)
    json_array_add_object_element (array, weft_op_to_json (operations->pdata[i]));
  return json_node_init_array (json_node_alloc (), array);
}

static JsonNode *
write_value (const GValue *value)
{
  g_auto (GValue) number = G_VALUE_INIT;
  JsonNode *node;

  if (G_VALUE_HOLDS (value, G_TYPE_STRV))
    return write_strings (g_value_get_boxed (value));
  if (G_VALUE_HOLDS (value, G_TYPE_PTR_ARRAY))
    return write_operations (g_value_get_boxed (value));
  if (G_VALUE_HOLDS_STRING (value) && g_value_get_string (value) == NULL)
    return json_node_init_null (json_node_alloc ());
  node = json_node_new (JSON_NODE_VALUE);
  if (G_VALUE_HOLDS_STRING (value) || G_VALUE_HOLDS_BOOLEAN (value) || G_VALUE_HOLDS_DOUBLE (value))
    json_node_set_value (node, value);
  else
    {
      g_value_init (&number, G_TYPE_INT64);
      g_value_transform (value, &number);
      json_node_set_value (node, &number);
    }
  return node;
}

static JsonObject *
write_rule (WeftWeightTransform *self, gboolean with_defaults)
{
  g_autofree GParamSpec **properties = NULL;
  JsonObject *object = json_object_new ();
  guint n_properties;

  properties = g_object_class_list_properties (G_OBJECT_GET_CLASS (self), &n_properties);
  json_object_set_string_member (object, "type", weft_weight_transform_get_kind (self));
  for (guint i = 0; i < n_properties; i++)
    {
      g_auto (GValue) value = G_VALUE_INIT;
      g_autofree gchar *name = make_member_name (properties[i]);

      if ((properties[i]->flags & G_PARAM_READWRITE) != G_PARAM_READWRITE)
        continue;
      g_value_init (&value, properties[i]->value_type);
      g_object_get_property (G_OBJECT (self), properties[i]->name, &value);
      if (G_VALUE_HOLDS (&value, G_TYPE_STRV) && g_value_get_boxed (&value) == NULL)
        continue;
      if (with_defaults || !g_param_value_defaults (properties[i], &value))
        json_object_set_member (object, name, write_value (&value));
    }
  return object;
}

/**
 * weft_weight_transform_to_json:
 * @self: a rule
 *
 * Returns: (transfer full): the rule as weft_weight_transform_new_from_json() reads it; members at their default are
 *   left out
 * Since: 1.0
 */
JsonObject *
weft_weight_transform_to_json (WeftWeightTransform *self)
{
  return write_rule (self, FALSE);
}

/**
 * weft_weight_transform_describe_json:
 * @self: a rule that is prepared
 *
 * Returns: (transfer full): all that is known of the rule: every member, the written patterns of kinds that make them
 *   themselves, and under `processed` the patterns as they are used
 * Since: 1.0
 */
JsonObject *
weft_weight_transform_describe_json (WeftWeightTransform *self)
{
  JsonObject *object = write_rule (self, TRUE);
  JsonObject *processed = json_object_new ();

  json_object_set_member (object, "source_patterns",
                          write_strings (weft_weight_transform_get_written_sources (self)));
  json_object_set_member (object, "target_patterns",
                          write_strings (weft_weight_transform_get_written_targets (self)));
  json_object_set_member (processed, "source_patterns",
                          write_strings (weft_weight_transform_get_source_patterns (self)));
  json_object_set_member (processed, "target_patterns",
                          write_strings (weft_weight_transform_get_target_patterns (self)));
  if (weft_weight_transform_get_regex (self) != NULL)
    json_object_set_string_member (processed, "regex", weft_weight_transform_get_regex (self));
  json_object_set_object_member (object, "processed", processed);
  return object;
}
