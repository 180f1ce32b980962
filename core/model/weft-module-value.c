/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-module-value-private.h"

static gboolean
is_of_type (JsonNode *node, GType type)
{
  return JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == type;
}

/* The one type of a list; whole numbers among real ones are real. */
static const GVariantType *
find_element_type (JsonArray *array)
{
  gboolean are_whole = TRUE, are_numbers = TRUE, are_texts = TRUE;

  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      gboolean is_whole = is_of_type (element, G_TYPE_INT64);

      are_whole = are_whole && is_whole;
      are_numbers = are_numbers && (is_whole || is_of_type (element, G_TYPE_DOUBLE));
      are_texts = are_texts && is_of_type (element, G_TYPE_STRING);
    }
  if (are_whole)
    return G_VARIANT_TYPE_INT64;
  if (are_numbers)
    return G_VARIANT_TYPE_DOUBLE;
  return are_texts ? G_VARIANT_TYPE_STRING : NULL;
}

static GVariant *
list_from_json (JsonArray *array)
{
  const GVariantType *type = find_element_type (array);
  g_autoptr (GPtrArray) elements = g_ptr_array_new ();

  if (type == NULL)
    return NULL;
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);

      if (g_variant_type_equal (type, G_VARIANT_TYPE_INT64))
        g_ptr_array_add (elements, g_variant_new_int64 (json_node_get_int (element)));
      else if (g_variant_type_equal (type, G_VARIANT_TYPE_DOUBLE))
        g_ptr_array_add (elements, g_variant_new_double (json_node_get_double (element)));
      else
        g_ptr_array_add (elements, g_variant_new_string (json_node_get_string (element)));
    }
  return g_variant_new_array (type, (GVariant *const *) elements->pdata, elements->len);
}

GVariant *
weft_module_value_from_json (JsonNode *node)
{
  if (JSON_NODE_HOLDS_NULL (node))
    return g_variant_new_maybe (G_VARIANT_TYPE_INT64, NULL);
  if (JSON_NODE_HOLDS_ARRAY (node))
    return list_from_json (json_node_get_array (node));
  if (is_of_type (node, G_TYPE_INT64))
    return g_variant_new_int64 (json_node_get_int (node));
  if (is_of_type (node, G_TYPE_BOOLEAN))
    return g_variant_new_boolean (json_node_get_boolean (node));
  if (is_of_type (node, G_TYPE_DOUBLE))
    return g_variant_new_double (json_node_get_double (node));
  return is_of_type (node, G_TYPE_STRING) ? g_variant_new_string (json_node_get_string (node)) : NULL;
}

/* A variant of any other type was set by a caller; json-glib knows it. */
JsonNode *
weft_module_value_to_json (GVariant *value)
{
  return json_gvariant_serialize (value);
}
