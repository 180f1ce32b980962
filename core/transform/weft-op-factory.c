/* SPDX-License-Identifier: Apache-2.0 */
/* Ops from JSON and back. Every value is checked against the declaration of its parameter, because GObject itself only
 * warns and takes the default. */
#include "base/weft-json.h"
#include "plugin/weft-plugin-registry.h"
#include "transform/weft-object-json-internal.h"
#include "transform/weft-op-parameters-private.h"
#include "weft-enums.h"

/* JSON writes `num_shards_attribute`, GObject `num-shards-attribute`. */
static gchar *
get_json_name (GParamSpec *pspec)
{
  return g_strdelimit (g_strdup (pspec->name), "-", '_');
}

static GParamSpec *
find_parameter (GPtrArray *parameters, const gchar *json_name)
{
  for (guint i = 0; i < parameters->len; i++)
    {
      g_autofree gchar *name = get_json_name (parameters->pdata[i]);

      if (g_str_equal (name, json_name))
        return parameters->pdata[i];
    }
  return NULL;
}

static gchar *
list_names (GPtrArray *parameters)
{
  GString *names = g_string_new (NULL);

  for (guint i = 0; i < parameters->len; i++)
    {
      g_autofree gchar *name = get_json_name (parameters->pdata[i]);

      g_string_append_printf (names, "%s%s", i > 0 ? ", " : "", name);
    }
  return g_string_free (names, FALSE);
}

/* What JSON must hold, for messages. */
static const gchar *
describe_type (GParamSpec *pspec)
{
  switch (G_TYPE_FUNDAMENTAL (pspec->value_type))
    {
    case G_TYPE_BOOLEAN:
      return "true or false";
    case G_TYPE_INT:
    case G_TYPE_UINT:
    case G_TYPE_INT64:
    case G_TYPE_UINT64:
      return "a whole number";
    case G_TYPE_FLOAT:
    case G_TYPE_DOUBLE:
      return "a number";
    case G_TYPE_STRING:
      return "a string";
    case G_TYPE_ENUM:
      return pspec->value_type == WEFT_TYPE_DTYPE ? "the name of a dtype" : "the name of a value";
    case G_TYPE_VARIANT:
      if (g_variant_type_equal (G_PARAM_SPEC_VARIANT (pspec)->type, G_VARIANT_TYPE ("ax")))
        return "a whole number or a list of them";
      if (g_variant_type_equal (G_PARAM_SPEC_VARIANT (pspec)->type, G_VARIANT_TYPE_VARDICT))
        return "an object, a value for each name";
      return "of another form";
    default:
      return pspec->value_type == G_TYPE_STRV ? "a list of strings" : g_type_name (pspec->value_type);
    }
}

/* Whole numbers of every width, and of doubles that JSON wrote without a point. */
static gboolean
read_number (GParamSpec *pspec, JsonNode *node, GValue *value)
{
  GType json_type = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_value_type (node) : G_TYPE_INVALID;
  gint64 number;

  if (pspec->value_type == G_TYPE_DOUBLE || pspec->value_type == G_TYPE_FLOAT)
    {
      g_auto (GValue) wide = G_VALUE_INIT;

      if (json_type != G_TYPE_INT64 && json_type != G_TYPE_DOUBLE)
        return FALSE;
      g_value_init (&wide, G_TYPE_DOUBLE);
      g_value_set_double (&wide, json_node_get_double (node));
      return g_value_transform (&wide, value);
    }
  if (json_type != G_TYPE_INT64)
    return FALSE;
  number = json_node_get_int (node);
  if (pspec->value_type == G_TYPE_INT64)
    g_value_set_int64 (value, number);
  else if (pspec->value_type == G_TYPE_UINT64 && number >= 0)
    g_value_set_uint64 (value, (guint64) number);
  else if (pspec->value_type == G_TYPE_INT && number >= G_MININT && number <= G_MAXINT)
    g_value_set_int (value, (gint) number);
  else if (pspec->value_type == G_TYPE_UINT && number >= 0 && number <= G_MAXUINT)
    g_value_set_uint (value, (guint) number);
  else
    return FALSE;
  return TRUE;
}

static gboolean
read_strings (JsonNode *node, GValue *value)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  JsonArray *array;

  if (!JSON_NODE_HOLDS_ARRAY (node))
    return FALSE;
  array = json_node_get_array (node);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      const gchar *text = json_node_get_string (json_array_get_element (array, i));

      if (text == NULL)
        return FALSE;
      g_strv_builder_add (builder, text);
    }
  g_value_take_boxed (value, g_strv_builder_end (builder));
  return TRUE;
}

static gboolean
read_enum (GParamSpec *pspec, JsonNode *node, GValue *value)
{
  const gchar *text = JSON_NODE_HOLDS_VALUE (node) ? json_node_get_string (node) : NULL;
  GEnumValue *enum_value;

  if (text == NULL)
    return FALSE;
  if (pspec->value_type == WEFT_TYPE_DTYPE)
    {
      WeftDtype dtype = weft_dtype_from_any_name (text);

      g_value_set_enum (value, (gint) dtype);
      return dtype != WEFT_DTYPE_INVALID;
    }
  enum_value = g_enum_get_value_by_nick (G_PARAM_SPEC_ENUM (pspec)->enum_class, text);
  if (enum_value != NULL)
    g_value_set_enum (value, enum_value->value);
  return enum_value != NULL;
}

static gboolean
read_variant (GParamSpec *pspec, JsonNode *node, GValue *value)
{
  const GVariantType *type = G_PARAM_SPEC_VARIANT (pspec)->type;
  g_autofree gchar *signature = g_variant_type_dup_string (type);
  g_autoptr (JsonNode) wrapped = NULL;
  GVariant *variant;

  if (g_variant_type_is_array (type) && JSON_NODE_HOLDS_VALUE (node))
    {
      JsonArray *array = json_array_new ();

      json_array_add_element (array, json_node_copy (node));
      wrapped = json_node_init_array (json_node_alloc (), array);
      json_array_unref (array);
    }
  variant = json_gvariant_deserialize (wrapped != NULL ? wrapped : node, signature, NULL);
  if (variant != NULL)
    g_value_take_variant (value, variant);
  return variant != NULL;
}

static gboolean
read_value (GParamSpec *pspec, JsonNode *node, GValue *value)
{
  switch (G_TYPE_FUNDAMENTAL (pspec->value_type))
    {
    case G_TYPE_BOOLEAN:
      if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_BOOLEAN)
        return FALSE;
      g_value_set_boolean (value, json_node_get_boolean (node));
      return TRUE;
    case G_TYPE_STRING:
      if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_STRING)
        return FALSE;
      g_value_set_string (value, json_node_get_string (node));
      return TRUE;
    case G_TYPE_ENUM:
      return read_enum (pspec, node, value);
    case G_TYPE_VARIANT:
      return read_variant (pspec, node, value);
    case G_TYPE_BOXED:
      return pspec->value_type == G_TYPE_STRV && read_strings (node, value);
    default:
      return read_number (pspec, node, value);
    }
}

/* The value of one parameter, or an error that says what was expected and found. */
static gboolean
read_parameter (GParamSpec *pspec, JsonNode *node, const gchar *where, GValue *value, GError **error)
{
  g_autofree gchar *json_name = get_json_name (pspec);
  g_autofree gchar *found = weft_json_to_text (node, FALSE);

  g_value_init (value, pspec->value_type);
  if (!read_value (pspec, node, value))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: parameter '%s' must be %s, found %s", where,
                   json_name, describe_type (pspec), found);
      return FALSE;
    }
  if (g_param_value_validate (pspec, value))
    {
      g_autofree gchar *nearest = g_strdup_value_contents (value);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: parameter '%s' is out of range: found %s, the nearest allowed is %s", where,
                   json_name, found, nearest);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_required (GPtrArray *parameters, JsonObject *json, const gchar *where, GError **error)
{
  for (guint i = 0; i < parameters->len; i++)
    {
      GParamSpec *pspec = parameters->pdata[i];
      g_autofree gchar *json_name = get_json_name (pspec);

      if ((weft_op_parameter_get_flags (pspec) & WEFT_OP_PARAMETER_FLAGS_REQUIRED) != 0
          && (json == NULL || !json_object_has_member (json, json_name)
              || json_object_get_null_member (json, json_name)))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: parameter '%s' (%s) is required", where,
                       json_name, describe_type (pspec));
          return FALSE;
        }
    }
  return TRUE;
}

/* Fills @names and @values from the members of @json. */
static gboolean
read_parameters (GPtrArray *parameters, JsonObject *json, const gchar *where, GPtrArray *names,
                 GArray *values, GError **error)
{
  g_autoptr (GList) members = json_object_get_members (json);

  for (GList *member = members; member != NULL; member = member->next)
    {
      const gchar *json_name = member->data;
      GParamSpec *pspec = find_parameter (parameters, json_name);

      if (g_str_equal (json_name, "type"))
        continue;
      if (pspec != NULL && json_object_get_null_member (json, json_name))
        continue;
      if (pspec == NULL)
        {
          g_autofree gchar *known = list_names (parameters);

          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: parameter '%s' is unknown, expected %s%s",
                       where, json_name, parameters->len > 0 ? "one of: " : "none", known);
          return FALSE;
        }
      g_array_set_size (values, values->len + 1);
      g_ptr_array_add (names, (gpointer) pspec->name);
      if (!read_parameter (pspec, json_object_get_member (json, json_name), where,
                           &g_array_index (values, GValue, values->len - 1), error))
        return FALSE;
    }
  return TRUE;
}

GObject *
weft_object_new_from_json (GType type, JsonObject *parameters, const gchar *place, GError **error)
{
  g_autoptr (GTypeClass) klass = g_type_class_ref (type);
  g_autoptr (GPtrArray) declared = weft_op_class_list_parameters (G_OBJECT_CLASS (klass));
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GArray) values = g_array_new (FALSE, TRUE, sizeof (GValue));

  g_array_set_clear_func (values, (GDestroyNotify) g_value_unset);
  if (!check_required (declared, parameters, place, error)
      || (parameters != NULL && !read_parameters (declared, parameters, place, names, values, error)))
    return NULL;
  return g_object_new_with_properties (type, names->len, (const char **) names->pdata,
                                       (const GValue *) (gpointer) values->data);
}

/**
 * weft_op_new:
 * @name: name of an op, such as `MergeModulelist`
 * @parameters: (nullable): its parameters, names with `_`; null stands for the default; a member `type` is no parameter
 *   and is skipped
 * @where: (nullable): what messages call the place of the op, such as a file and a rule
 * @error: return location
 *
 * Returns: (transfer full): the op
 * Errors: %WEFT_ERROR_MISSING if no plugin provides @name; %WEFT_ERROR_ARGUMENT if a parameter is unknown, missing, of
 *   the wrong type or out of range; %WEFT_ERROR_PLUGIN if the class is no op
 * Since: 1.0
 */
WeftConversionOps *
weft_op_new (const gchar *name, JsonObject *parameters, const gchar *where, GError **error)
{
  GType type =
      weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP, name, error);
  g_autofree gchar *place = where != NULL ? g_strconcat (where, ": ", name, NULL) : g_strdup (name);
  GObject *op;

  if (type == G_TYPE_INVALID)
    {
      if (where != NULL)
        g_prefix_error (error, "%s: ", where);
      return NULL;
    }
  if (!g_type_is_a (type, WEFT_TYPE_CONVERSION_OPS))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN,
                   "%s: class '%s' of plugin '%s' is no WeftConversionOps", place, g_type_name (type),
                   weft_feature_get_plugin_id (type));
      return NULL;
    }
  op = weft_object_new_from_json (type, parameters, place, error);
  return op != NULL ? WEFT_CONVERSION_OPS (op) : NULL;
}

static JsonNode *
write_strings (const gchar *const *strings)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (guint i = 0; strings[i] != NULL; i++)
    json_array_add_string_element (array, strings[i]);
  return json_node_init_array (json_node_alloc (), array);
}

static JsonNode *
write_enum (GType type, gint value)
{
  g_autoptr (GTypeClass) klass = g_type_class_ref (type);
  GEnumValue *enum_value = g_enum_get_value (G_ENUM_CLASS (klass), value);

  if (type == WEFT_TYPE_DTYPE && value == WEFT_DTYPE_INVALID)
    return json_node_init_null (json_node_alloc ());
  if (type == WEFT_TYPE_DTYPE)
    return json_node_init_string (json_node_alloc (), weft_dtype_get_name ((WeftDtype) value));
  return json_node_init_string (json_node_alloc (), enum_value != NULL ? enum_value->value_nick : "");
}

static JsonNode *
write_value (const GValue *value)
{
  JsonNode *node = json_node_alloc ();

  switch (G_TYPE_FUNDAMENTAL (G_VALUE_TYPE (value)))
    {
    case G_TYPE_BOOLEAN:
      return json_node_init_boolean (node, g_value_get_boolean (value));
    case G_TYPE_INT:
      return json_node_init_int (node, g_value_get_int (value));
    case G_TYPE_UINT:
      return json_node_init_int (node, g_value_get_uint (value));
    case G_TYPE_INT64:
      return json_node_init_int (node, g_value_get_int64 (value));
    case G_TYPE_UINT64:
      return json_node_init_int (node, (gint64) g_value_get_uint64 (value));
    case G_TYPE_FLOAT:
      return json_node_init_double (node, (gdouble) g_value_get_float (value));
    case G_TYPE_DOUBLE:
      return json_node_init_double (node, g_value_get_double (value));
    case G_TYPE_STRING:
      if (g_value_get_string (value) != NULL)
        return json_node_init_string (node, g_value_get_string (value));
      return json_node_init_null (node);
    default:
      return json_node_init_null (node);
    }
}

static JsonNode *
write_parameter (const GValue *value)
{
  GType type = G_VALUE_TYPE (value);

  if (type == G_TYPE_STRV && g_value_get_boxed (value) != NULL)
    return write_strings (g_value_get_boxed (value));
  if (type == G_TYPE_VARIANT && g_value_get_variant (value) != NULL)
    return json_gvariant_serialize (g_value_get_variant (value));
  if (G_TYPE_IS_ENUM (type))
    return write_enum (type, g_value_get_enum (value));
  return write_value (value);
}

/**
 * weft_op_to_json:
 * @self: an op
 *
 * Returns: (transfer full): its name as the member `type`, then all its parameters, absent ones as null;
 *   weft_op_new() reads it
 * Since: 1.0
 */
JsonObject *
weft_op_to_json (WeftConversionOps *self)
{
  JsonObject *json = json_object_new ();
  g_autoptr (GPtrArray) parameters = weft_op_class_list_parameters (G_OBJECT_GET_CLASS (self));

  json_object_set_string_member (json, "type", weft_conversion_ops_get_name (self));
  for (guint i = 0; i < parameters->len; i++)
    {
      GParamSpec *pspec = parameters->pdata[i];
      g_auto (GValue) value = G_VALUE_INIT;
      g_autofree gchar *json_name = get_json_name (pspec);

      if ((pspec->flags & G_PARAM_READABLE) == 0)
        continue;
      g_value_init (&value, pspec->value_type);
      g_object_get_property (G_OBJECT (self), pspec->name, &value);
      if ((weft_op_parameter_get_flags (pspec) & WEFT_OP_PARAMETER_FLAGS_EXTENSION) == 0
          || !g_param_value_defaults (pspec, &value))
        json_object_set_member (json, json_name, write_parameter (&value));
    }
  return json;
}
