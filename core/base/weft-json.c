/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-json.h"

#include <string.h>

/* A config or an index is read whole; a document beyond this is no config. */
#define MAX_JSON_BYTES (1024 * 1024 * 1024)

/* The parser recurses; a config nests a few levels. */
#define MAX_JSON_DEPTH 512
#define MAX_ODD_JSON_BRACKETS 4096

/* Whether a text nests deeper than the parser can bear. A quote within a comment might hide brackets from us, so that a text
 * with characters that no JSON has outside of a string is judged by all its brackets. */
static gboolean
is_too_deep (const gchar *text, gsize length)
{
  gsize depth = 0, n_open = 0, deepest = 0;
  gboolean is_string = FALSE, is_plain = TRUE;

  for (gsize i = 0; i < length; i++)
    {
      n_open += text[i] == '[' || text[i] == '{';
      if (is_string && text[i] == '\\')
        i++;
      else if (text[i] == '"')
        is_string = !is_string;
      else if (!is_string && (text[i] == '[' || text[i] == '{'))
        {
          depth++;
          deepest = MAX (deepest, depth);
        }
      else if (!is_string && (text[i] == ']' || text[i] == '}'))
        depth -= depth > 0;
      else if (!is_string && (text[i] == '/' || text[i] == '\'' || text[i] == '#'))
        is_plain = FALSE;
    }
  return is_plain ? deepest > MAX_JSON_DEPTH : n_open > MAX_ODD_JSON_BRACKETS;
}

/**
 * weft_json_load_file:
 * @path: path of a JSON file
 * @error: return location
 *
 * Returns: (transfer full): the root node
 * Errors: %WEFT_ERROR_IO if it cannot be read, %WEFT_ERROR_FORMAT if it is no JSON; both name @path
 * Since: 1.0
 */
JsonNode *
weft_json_load_file (const gchar *path, GError **error)
{
  g_autofree gchar *text = NULL;
  g_autoptr (GError) local_error = NULL;
  gsize length = 0;

  if (!g_file_get_contents (path, &text, &length, &local_error))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
      return NULL;
    }
  return weft_json_parse (text, (gssize) length, path, error);
}

/**
 * weft_json_parse:
 * @text: JSON text
 * @length: its length in bytes, or -1 if it ends with NUL
 * @where: what messages call the text, such as a path
 * @error: return location
 *
 * Returns: (transfer full): the root node
 * Errors: %WEFT_ERROR_FORMAT if @text is no JSON, %WEFT_ERROR_LIMIT if it is too long or nests too deep
 * Since: 1.0
 */
JsonNode *
weft_json_parse (const gchar *text, gssize length, const gchar *where, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GError) local_error = NULL;
  JsonNode *root;

  if (length > MAX_JSON_BYTES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "%s: %" G_GSSIZE_FORMAT " bytes of JSON are above the limit of 1 GiB", where, length);
      return NULL;
    }
  if (!g_utf8_validate (text, length, NULL))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: the text is not UTF-8", where);
      return NULL;
    }
  if (is_too_deep (text, length < 0 ? strlen (text) : (gsize) length))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "%s: the JSON nests deeper than %d levels", where,
                   MAX_JSON_DEPTH);
      return NULL;
    }
  if (!json_parser_load_from_data (parser, text, length, &local_error))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: no valid JSON: %s", where,
                   local_error->message);
      return NULL;
    }
  root = json_parser_steal_root (parser);
  if (root == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: the document is empty", where);
  return root;
}

/**
 * weft_json_to_text:
 * @node: a node
 * @pretty: whether to indent by two spaces
 *
 * Returns: (transfer full): the node as JSON text
 * Since: 1.0
 */
gchar *
weft_json_to_text (JsonNode *node, gboolean pretty)
{
  g_autoptr (JsonGenerator) generator = json_generator_new ();

  json_generator_set_root (generator, node);
  json_generator_set_pretty (generator, pretty);
  return json_generator_to_data (generator, NULL);
}

/**
 * weft_json_lookup:
 * @root: (nullable): a node
 * @dotted_path: member names joined by dots, such as `text_config.hidden_size`
 *
 * Returns: (transfer none) (nullable): the node at that path, or %NULL
 * Since: 1.0
 */
JsonNode *
weft_json_lookup (JsonNode *root, const gchar *dotted_path)
{
  g_auto (GStrv) parts = g_strsplit (dotted_path, ".", -1);
  JsonNode *node = root;

  for (guint i = 0; parts[i] != NULL && node != NULL; i++)
    node =
        JSON_NODE_HOLDS_OBJECT (node) ? json_object_get_member (json_node_get_object (node), parts[i]) : NULL;
  return node;
}

static void
append_escaped_character (GString *json, gunichar character)
{
  if (character < 0x10000)
    g_string_append_printf (json, "\\u%04x", character);
  else
    g_string_append_printf (json, "\\u%04x\\u%04x", 0xD7C0 + (character >> 10), 0xDC00 + (character & 0x3FF));
}

static void
append_escaped_byte (GString *json, guchar byte)
{
  static const gchar letters[] = "btn\0fr";

  g_string_append_c (json, '\\');
  if (byte == '"' || byte == '\\')
    g_string_append_c (json, (gchar) byte);
  else if (byte >= '\b' && byte <= '\r' && byte != '\v')
    g_string_append_c (json, letters[byte - '\b']);
  else
    g_string_append_printf (json, "u%04x", byte);
}

/**
 * weft_json_append_text: (skip)
 * @json: where it is appended
 * @text: a text
 * @is_ascii: whether what is not ASCII is escaped too
 *
 * Appends @text as a JSON string, in quotes.
 *
 * Since: 1.0
 */
void
weft_json_append_text (GString *json, const gchar *text, gboolean is_ascii)
{
  g_string_append_c (json, '"');
  while (*text != '\0')
    {
      const gchar *run = text;

      while ((guchar) *text >= 0x20 && *text != '"' && *text != '\\' && !(is_ascii && (guchar) *text >= 0x80))
        text++;
      g_string_append_len (json, run, text - run);
      if ((guchar) *text >= 0x80)
        {
          append_escaped_character (json, g_utf8_get_char (text));
          text = g_utf8_next_char (text);
        }
      else if (*text != '\0')
        append_escaped_byte (json, (guchar) *text++);
    }
  g_string_append_c (json, '"');
}
