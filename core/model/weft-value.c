/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-value-private.h"

#include <string.h>

WeftValue
weft_value_boolean (gboolean boolean)
{
  return (WeftValue){ .kind = WEFT_VALUE_BOOLEAN, .of.boolean = boolean != FALSE };
}

WeftValue
weft_value_integer (gint64 integer)
{
  return (WeftValue){ .kind = WEFT_VALUE_INTEGER, .of.integer = integer };
}

WeftValue
weft_value_real (gdouble real)
{
  return (WeftValue){ .kind = WEFT_VALUE_REAL, .of.real = real };
}

WeftValue
weft_value_text (const gchar *text, gssize length)
{
  return (WeftValue){ .kind = WEFT_VALUE_TEXT, .of.text = g_ref_string_new_len (text, length) };
}

static void
clear_element (gpointer element)
{
  weft_value_clear (element);
}

WeftValue
weft_value_list (void)
{
  GArray *list = g_array_new (FALSE, FALSE, sizeof (WeftValue));

  g_array_set_clear_func (list, clear_element);
  return (WeftValue){ .kind = WEFT_VALUE_LIST, .of.list = list };
}

void
weft_value_append (WeftValue *list, const WeftValue *element)
{
  WeftValue copy = weft_value_copy (element);

  g_array_append_val (list->of.list, copy);
}

WeftValue
weft_value_config (GObject *config)
{
  return (WeftValue){ .kind = WEFT_VALUE_CONFIG, .of.config = g_object_ref (config) };
}

static WeftValue
list_from_json (JsonArray *array)
{
  WeftValue list = weft_value_list ();

  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      WeftValue element = weft_value_from_json (json_array_get_element (array, i));

      g_array_append_val (list.of.list, element);
    }
  return list;
}

/* The depth of a document is bounded where it is parsed. */
WeftValue
weft_value_from_json (JsonNode *node)
{
  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return (WeftValue) WEFT_VALUE_INIT;
  if (JSON_NODE_HOLDS_ARRAY (node))
    return list_from_json (json_node_get_array (node));
  if (JSON_NODE_HOLDS_OBJECT (node))
    return (WeftValue){ .kind = WEFT_VALUE_OBJECT, .of.object = json_node_dup_object (node) };
  switch (json_node_get_value_type (node))
    {
    case G_TYPE_BOOLEAN:
      return weft_value_boolean (json_node_get_boolean (node));
    case G_TYPE_INT64:
      return weft_value_integer (json_node_get_int (node));
    case G_TYPE_DOUBLE:
      return weft_value_real (json_node_get_double (node));
    default:
      return weft_value_text (json_node_get_string (node), -1);
    }
}

static JsonNode *
list_to_json (GArray *list)
{
  g_autoptr (JsonArray) array = json_array_sized_new (list->len);

  for (guint i = 0; i < list->len; i++)
    json_array_add_element (array, weft_value_to_json (&g_array_index (list, WeftValue, i)));
  return json_node_init_array (json_node_alloc (), array);
}

/* A config has no JSON of its own here; its owner knows it. */
JsonNode *
weft_value_to_json (const WeftValue *self)
{
  switch (self->kind)
    {
    case WEFT_VALUE_BOOLEAN:
      return json_node_init_boolean (json_node_alloc (), self->of.boolean);
    case WEFT_VALUE_INTEGER:
      return json_node_init_int (json_node_alloc (), self->of.integer);
    case WEFT_VALUE_REAL:
      return json_node_init_double (json_node_alloc (), self->of.real);
    case WEFT_VALUE_TEXT:
      return json_node_init_string (json_node_alloc (), self->of.text);
    case WEFT_VALUE_LIST:
      return list_to_json (self->of.list);
    case WEFT_VALUE_OBJECT:
      return json_node_init_object (json_node_alloc (), self->of.object);
    case WEFT_VALUE_NULL:
    case WEFT_VALUE_CONFIG:
    default:
      return json_node_init_null (json_node_alloc ());
    }
}

WeftValue
weft_value_copy (const WeftValue *self)
{
  WeftValue copy = *self;

  if (self->kind == WEFT_VALUE_TEXT)
    copy.of.text = g_ref_string_acquire (self->of.text);
  else if (self->kind == WEFT_VALUE_LIST)
    copy.of.list = g_array_ref (self->of.list);
  else if (self->kind == WEFT_VALUE_OBJECT)
    copy.of.object = json_object_ref (self->of.object);
  else if (self->kind == WEFT_VALUE_CONFIG)
    copy.of.config = g_object_ref (self->of.config);
  return copy;
}

void
weft_value_clear (WeftValue *self)
{
  if (self->kind == WEFT_VALUE_TEXT)
    g_ref_string_release (self->of.text);
  else if (self->kind == WEFT_VALUE_LIST)
    g_array_unref (self->of.list);
  else if (self->kind == WEFT_VALUE_OBJECT)
    json_object_unref (self->of.object);
  else if (self->kind == WEFT_VALUE_CONFIG)
    g_object_unref (self->of.config);
  self->kind = WEFT_VALUE_NULL;
}

/* Truth counts as a number, as in the language the expressions are borrowed from. */
gboolean
weft_value_is_number (const WeftValue *self)
{
  return self->kind == WEFT_VALUE_BOOLEAN || self->kind == WEFT_VALUE_INTEGER
         || self->kind == WEFT_VALUE_REAL;
}

gdouble
weft_value_get_real (const WeftValue *self)
{
  if (self->kind == WEFT_VALUE_BOOLEAN)
    return self->of.boolean;
  if (self->kind == WEFT_VALUE_INTEGER)
    return (gdouble) self->of.integer;
  return self->kind == WEFT_VALUE_REAL ? self->of.real : 0.0;
}

gboolean
weft_value_is_true (const WeftValue *self)
{
  switch (self->kind)
    {
    case WEFT_VALUE_NULL:
      return FALSE;
    case WEFT_VALUE_BOOLEAN:
      return self->of.boolean;
    case WEFT_VALUE_INTEGER:
      return self->of.integer != 0;
    case WEFT_VALUE_REAL:
      return self->of.real != 0.0;
    case WEFT_VALUE_TEXT:
      return self->of.text[0] != '\0';
    case WEFT_VALUE_LIST:
      return self->of.list->len > 0;
    case WEFT_VALUE_OBJECT:
      return json_object_get_size (self->of.object) > 0;
    case WEFT_VALUE_CONFIG:
    default:
      return TRUE;
    }
}

static gboolean
are_lists_equal (GArray *a, GArray *b)
{
  gboolean is_equal = a->len == b->len;

  for (guint i = 0; i < a->len && is_equal; i++)
    is_equal = weft_value_equal (&g_array_index (a, WeftValue, i), &g_array_index (b, WeftValue, i));
  return is_equal;
}

gboolean
weft_value_equal (const WeftValue *self, const WeftValue *other)
{
  if (weft_value_is_number (self) && weft_value_is_number (other))
    return self->kind == WEFT_VALUE_INTEGER && other->kind == WEFT_VALUE_INTEGER
               ? self->of.integer == other->of.integer
               : weft_value_get_real (self) == weft_value_get_real (other);
  if (self->kind != other->kind)
    return FALSE;
  switch (self->kind)
    {
    case WEFT_VALUE_NULL:
      return TRUE;
    case WEFT_VALUE_TEXT:
      return strcmp (self->of.text, other->of.text) == 0;
    case WEFT_VALUE_LIST:
      return are_lists_equal (self->of.list, other->of.list);
    case WEFT_VALUE_OBJECT:
      return json_object_equal (self->of.object, other->of.object);
    case WEFT_VALUE_CONFIG:
      return self->of.config == other->of.config;
    default:
      return FALSE;
    }
}

const gchar *
weft_value_kind_get_name (WeftValueKind kind)
{
  static const gchar *const names[] = { "null",   "a truth value", "a whole number", "a real number",
                                        "a text", "a list",        "an object",      "a config" };

  return names[kind];
}

static void
append_list (GString *text, GArray *list)
{
  g_string_append_c (text, '[');
  for (guint i = 0; i < list->len; i++)
    {
      g_autofree gchar *element = weft_value_to_string (&g_array_index (list, WeftValue, i));

      g_string_append_printf (text, "%s%s", i > 0 ? ", " : "", element);
    }
  g_string_append_c (text, ']');
}

gchar *
weft_value_to_string (const WeftValue *self)
{
  g_autoptr (GString) text = g_string_new (NULL);
  gchar digits[G_ASCII_DTOSTR_BUF_SIZE];

  switch (self->kind)
    {
    case WEFT_VALUE_NULL:
      return g_strdup ("None");
    case WEFT_VALUE_BOOLEAN:
      return g_strdup (self->of.boolean ? "True" : "False");
    case WEFT_VALUE_INTEGER:
      return g_strdup_printf ("%" G_GINT64_FORMAT, self->of.integer);
    case WEFT_VALUE_REAL:
      g_ascii_dtostr (digits, sizeof (digits), self->of.real);
      return g_strconcat (digits, strpbrk (digits, ".en") == NULL ? ".0" : "", NULL);
    case WEFT_VALUE_TEXT:
      return g_strdup_printf ("'%s'", self->of.text);
    case WEFT_VALUE_LIST:
      append_list (text, self->of.list);
      return g_strdup (text->str);
    case WEFT_VALUE_OBJECT:
      return g_strdup ("an object");
    case WEFT_VALUE_CONFIG:
    default:
      return g_strdup ("a config");
    }
}
