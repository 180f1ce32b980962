/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-yaml-private.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <yaml.h>

/* Plan overrides are written by people: a document beyond these is none. The count also bounds anchors that are used again and
 * again. */
#define MAX_YAML_BYTES (4 * 1024 * 1024)
#define MAX_YAML_NODES 100000
#define MAX_YAML_DEPTH 64

typedef struct
{
  WeftYaml *yaml;
  yaml_document_t *document;
  const gchar *where;
  guint n_nodes;
} Reading;

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (yaml_parser_t, yaml_parser_delete)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (yaml_document_t, yaml_document_delete)

static JsonNode *
refuse (Reading *reading, yaml_mark_t mark, gint code, const gchar *what, const gchar *text, GError **error)
{
  g_set_error (error, WEFT_ERROR, code, "%s:%zu:%zu: %s%s%s%s", reading->where, mark.line + 1,
               mark.column + 1, what, text != NULL ? " '" : "", text != NULL ? text : "",
               text != NULL ? "'" : "");
  return NULL;
}

/* Numbers as YAML 1.2 writes them in its core schema. */
static JsonNode *
read_number (const gchar *text)
{
  gboolean is_hex = g_str_has_prefix (text, "0x");
  gboolean is_octal = g_str_has_prefix (text, "0o");
  const gchar *digits = is_hex || is_octal ? text + 2 : text;
  gchar *end;
  gint64 number;
  gdouble real;

  if (!g_ascii_isxdigit (digits[0]) && strchr ("+-.", digits[0]) == NULL)
    return NULL;
  errno = 0;
  number = g_ascii_strtoll (digits, &end, is_hex ? 16 : is_octal ? 8 : 10);
  if (*end == '\0' && end != digits && errno == 0 && digits[0] != '.')
    return json_node_init_int (json_node_alloc (), number);
  if (is_hex || is_octal || strpbrk (text, "xXnNiIpP") != NULL)
    return NULL;
  real = g_ascii_strtod (text, &end);
  return *end == '\0' && end != text ? json_node_init_double (json_node_alloc (), real) : NULL;
}

static JsonNode *
read_plain (const gchar *text)
{
  static const gchar *const words[] = { "null", "Null", "NULL", "~", "" };
  static const gchar *const truths[] = { "true", "True", "TRUE" };
  static const gchar *const untruths[] = { "false", "False", "FALSE" };
  JsonNode *number;

  for (guint i = 0; i < G_N_ELEMENTS (words); i++)
    if (strcmp (text, words[i]) == 0)
      return json_node_init_null (json_node_alloc ());
  for (guint i = 0; i < G_N_ELEMENTS (truths); i++)
    if (strcmp (text, truths[i]) == 0 || strcmp (text, untruths[i]) == 0)
      return json_node_init_boolean (json_node_alloc (), strcmp (text, truths[i]) == 0);
  number = read_number (text);
  return number != NULL ? number : json_node_init_string (json_node_alloc (), text);
}

static JsonNode *
read_scalar (Reading *reading, yaml_node_t *node, GError **error)
{
  const gchar *text = (const gchar *) node->data.scalar.value;

  if (strlen (text) != node->data.scalar.length)
    return refuse (reading, node->start_mark, WEFT_ERROR_FORMAT, "a text holds a NUL character", NULL, error);
  return node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE
             ? read_plain (text)
             : json_node_init_string (json_node_alloc (), text);
}

static JsonNode *read_node (Reading *reading, gint id, guint depth, GError **error);

static JsonNode *
read_sequence (Reading *reading, yaml_node_t *node, guint depth, GError **error)
{
  g_autoptr (JsonArray) array = json_array_new ();

  for (yaml_node_item_t *item = node->data.sequence.items.start; item < node->data.sequence.items.top; item++)
    {
      JsonNode *element = read_node (reading, *item, depth + 1, error);

      if (element == NULL)
        return NULL;
      json_array_add_element (array, element);
    }
  return json_node_init_array (json_node_alloc (), array);
}

static JsonNode *
read_mapping (Reading *reading, yaml_node_t *node, guint depth, GError **error)
{
  g_autoptr (JsonObject) object = json_object_new ();

  for (yaml_node_pair_t *pair = node->data.mapping.pairs.start; pair < node->data.mapping.pairs.top; pair++)
    {
      yaml_node_t *key = yaml_document_get_node (reading->document, pair->key);
      const gchar *name;
      JsonNode *value;

      if (key == NULL || key->type != YAML_SCALAR_NODE
          || strlen ((const gchar *) key->data.scalar.value) != key->data.scalar.length)
        return refuse (reading, node->start_mark, WEFT_ERROR_FORMAT, "a key must be a text", NULL, error);
      name = (const gchar *) key->data.scalar.value;
      if (json_object_has_member (object, name))
        return refuse (reading, key->start_mark, WEFT_ERROR_FORMAT, "the key is there twice:", name, error);
      value = read_node (reading, pair->value, depth + 1, error);
      if (value == NULL)
        return NULL;
      json_object_set_member (object, name, value);
    }
  return json_node_init_object (json_node_alloc (), object);
}

static JsonNode *
read_node (Reading *reading, gint id, guint depth, GError **error)
{
  yaml_node_t *node = yaml_document_get_node (reading->document, id);
  WeftYamlPlace *place;
  JsonNode *read;

  if (node == NULL)
    return refuse (reading, (yaml_mark_t){ 0 }, WEFT_ERROR_FORMAT, "the document is broken", NULL, error);
  if (++reading->n_nodes > MAX_YAML_NODES || depth > MAX_YAML_DEPTH)
    return refuse (reading, node->start_mark, WEFT_ERROR_LIMIT,
                   depth > MAX_YAML_DEPTH ? "nested deeper than 64 levels" : "more than 100000 values", NULL,
                   error);
  read = node->type == YAML_SCALAR_NODE     ? read_scalar (reading, node, error)
         : node->type == YAML_SEQUENCE_NODE ? read_sequence (reading, node, depth, error)
                                            : read_mapping (reading, node, depth, error);
  if (read == NULL)
    return NULL;
  place = g_new (WeftYamlPlace, 1);
  *place = (WeftYamlPlace){ (guint) node->start_mark.line + 1, (guint) node->start_mark.column + 1 };
  g_hash_table_insert (reading->yaml->places, read, place);
  return read;
}

static gboolean
refuse_by_parser (yaml_parser_t *parser, const gchar *where, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s:%zu:%zu: no valid YAML: %s%s%s", where,
               parser->problem_mark.line + 1, parser->problem_mark.column + 1,
               parser->context != NULL ? parser->context : "", parser->context != NULL ? ", " : "",
               parser->problem != NULL ? parser->problem : "unknown problem");
  return FALSE;
}

/* Encodings are found by the byte order mark, and without one it is UTF-8; UTF-16 does not come this far. */
static gboolean
open_parser (yaml_parser_t *parser, const gchar *text, gsize length)
{
  if (!yaml_parser_initialize (parser))
    return FALSE;
  yaml_parser_set_input_string (parser, (const guchar *) text, length);
  return TRUE;
}

/* Reads the events alone. A document too deep is refused where it becomes so, since the parser takes time by the square of the
 * depth; and one that others follow, since only the first would be read. */
static gboolean
check_events (const gchar *text, gsize length, const gchar *where, GError **error)
{
  g_auto (yaml_parser_t) parser = { 0 };
  yaml_event_type_t type = YAML_NO_EVENT;
  guint depth = 0, n_documents = 0;

  if (!open_parser (&parser, text, length))
    return refuse_by_parser (&parser, where, error);
  while (type != YAML_STREAM_END_EVENT)
    {
      yaml_event_t event;
      yaml_mark_t mark;
      Reading reading = { .where = where };

      if (!yaml_parser_parse (&parser, &event))
        return refuse_by_parser (&parser, where, error);
      type = event.type;
      mark = event.start_mark;
      yaml_event_delete (&event);
      if (type == YAML_SEQUENCE_START_EVENT || type == YAML_MAPPING_START_EVENT)
        depth++;
      else if (type == YAML_SEQUENCE_END_EVENT || type == YAML_MAPPING_END_EVENT)
        depth--;
      else if (type == YAML_DOCUMENT_START_EVENT)
        n_documents++;
      if (depth > MAX_YAML_DEPTH)
        return refuse (&reading, mark, WEFT_ERROR_LIMIT, "nested deeper than 64 levels", NULL, error) != NULL;
      if (n_documents > 1)
        return refuse (&reading, mark, WEFT_ERROR_FORMAT,
                       "a second document begins here; expected one document", NULL, error)
               != NULL;
    }
  return TRUE;
}

WeftYaml *
weft_yaml_parse (const gchar *text, gsize length, const gchar *where, GError **error)
{
  g_autoptr (WeftYaml) self = g_new0 (WeftYaml, 1);
  g_auto (yaml_parser_t) parser = { 0 };
  g_auto (yaml_document_t) document = { 0 };
  Reading reading = { self, &document, where, 0 };

  self->places = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  if (!g_utf8_validate (text, (gssize) length, NULL))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: the text is not UTF-8", where);
      return NULL;
    }
  if (!check_events (text, length, where, error))
    return NULL;
  if (!open_parser (&parser, text, length) || !yaml_parser_load (&parser, &document))
    {
      refuse_by_parser (&parser, where, error);
      return NULL;
    }
  if (yaml_document_get_root_node (&document) == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: the document is empty", where);
      return NULL;
    }
  self->root = read_node (&reading, 1, 0, error);
  return self->root != NULL ? g_steal_pointer (&self) : NULL;
}

WeftYaml *
weft_yaml_load (const gchar *path, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *text = NULL;
  gsize length;
  struct stat status;

  if (stat (path, &status) == 0 && (!S_ISREG (status.st_mode) || status.st_size > MAX_YAML_BYTES))
    {
      g_set_error (error, WEFT_ERROR, S_ISREG (status.st_mode) ? WEFT_ERROR_LIMIT : WEFT_ERROR_IO,
                   "%s: cannot be read: %s", path,
                   S_ISREG (status.st_mode) ? "it is larger than 4 MiB, the limit for YAML"
                                            : "it is no regular file");
      return NULL;
    }
  if (!g_file_get_contents (path, &text, &length, &local_error))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
      return NULL;
    }
  return weft_yaml_parse (text, length, path, error);
}

void
weft_yaml_free (WeftYaml *self)
{
  g_clear_pointer (&self->places, g_hash_table_unref);
  g_clear_pointer (&self->root, json_node_unref);
  g_free (self);
}

gboolean
weft_yaml_find_place (WeftYaml *self, JsonNode *node, WeftYamlPlace *place)
{
  WeftYamlPlace *known = self != NULL && node != NULL ? g_hash_table_lookup (self->places, node) : NULL;

  if (known != NULL)
    *place = *known;
  return known != NULL;
}
