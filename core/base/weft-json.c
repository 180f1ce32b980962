/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-json-internal.h"
#include "base/weft-json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A config or an index is read whole; a document beyond this is no config. */
#define MAX_JSON_BYTES (1024 * 1024 * 1024)
/* The parser recurses, so the depth of a document is bounded before it sees it; the same bound as for headers. */
#define MAX_JSON_DEPTH 127

static gchar *
fail_to_read (const gchar *path, gint fd, const gchar *reason, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, reason);
  if (fd >= 0)
    close (fd);
  return NULL;
}

/* Reads a regular file: a pipe would wait for ever, a device might have no end. */
static gchar *
read_regular_file (const gchar *path, gsize *length, GError **error)
{
  gint fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status;
  g_autofree gchar *text = NULL;
  gsize size, done = 0;

  if (fd < 0 || fstat (fd, &status) != 0)
    return fail_to_read (path, fd, g_strerror (errno), error);
  if (!S_ISREG (status.st_mode))
    return fail_to_read (path, fd, "it is no regular file", error);
  if (status.st_size > MAX_JSON_BYTES)
    return fail_to_read (path, fd, "it is larger than 1 GiB, the limit for JSON", error);
  size = (gsize) status.st_size;
  text = g_malloc (size + 1);
  while (done < size)
    {
      gssize n = read (fd, text + done, size - done);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        return fail_to_read (path, fd, n < 0 ? g_strerror (errno) : "it became shorter meanwhile", error);
      done += (gsize) n;
    }
  close (fd);
  text[size] = '\0';
  *length = size;
  return g_steal_pointer (&text);
}

/* Copies the number at @text as the parser may have it: a whole number beyond 64 bits, which it would wrap, as a real one, and
 * the words that Python writes where a number is none, which JSON does not have. Returns the bytes of it. */
static gsize
append_number (GString *proper, const gchar *text, gsize length)
{
  gsize n = 1;
  g_autofree gchar *number = NULL;

  while (n < length && (g_ascii_isalnum (text[n]) || strchr ("+-.", text[n]) != NULL) && text[n] != '\0')
    n++;
  number = g_strndup (text, n);
  if (g_str_equal (number, "Infinity") || g_str_equal (number, "-Infinity"))
    g_string_append (proper, number[0] == '-' ? "-1e999" : "1e999");
  else if (g_str_equal (number, "NaN"))
    g_string_append (proper, "null");
  else
    g_string_append_len (proper, number, (gssize) n);
  errno = 0;
  if (strspn (number, "-0123456789") == n && (g_ascii_strtoll (number, NULL, 10), errno == ERANGE))
    g_string_append (proper, ".0");
  return n;
}

/* The text as the parser may have it. Refused is what it must not see: a document too deep; comments and single quotes, which
 * JSON does not have and which would hide brackets from this; and escaped NUL, which would end a text too early. */
static GString *
check_text (const gchar *text, gsize length, const gchar *where, GError **error)
{
  g_autoptr (GString) proper = g_string_sized_new (length);
  guint depth = 0;
  gboolean is_in_text = FALSE;
  gsize i = 0, n_copied = 0;

  while (i < length)
    {
      gchar c = text[i];
      gboolean is_escape = is_in_text && c == '\\' && i + 1 < length;
      gboolean is_nul = is_escape && length - i >= 6 && strncmp (text + i, "\\u0000", 6) == 0;
      gboolean is_number = !is_in_text && (g_ascii_isdigit (c) || strchr ("-IN", c) != NULL);
      gboolean is_foreign = !is_in_text && strchr ("/'#", c) != NULL;

      if (!is_in_text && (c == '[' || c == '{'))
        depth++;
      else if (!is_in_text && (c == ']' || c == '}') && depth > 0)
        depth--;
      if (depth > MAX_JSON_DEPTH || is_foreign || is_nul)
        {
          g_set_error (error, WEFT_ERROR, depth > MAX_JSON_DEPTH ? WEFT_ERROR_LIMIT : WEFT_ERROR_FORMAT,
                       "%s: byte %" G_GSIZE_FORMAT ": %s", where, i,
                       depth > MAX_JSON_DEPTH ? "nested deeper than 127 levels"
                       : is_nul               ? "a text holds a NUL character"
                                              : "JSON has no comments and no single quotes");
          return NULL;
        }
      if (c == '"')
        is_in_text = !is_in_text;
      if (is_number)
        {
          g_string_append_len (proper, text + n_copied, (gssize) (i - n_copied));
          i += append_number (proper, text + i, length - i);
          n_copied = i;
        }
      else
        i += is_escape ? 2 : 1;
    }
  g_string_append_len (proper, text + n_copied, (gssize) (length - n_copied));
  return g_steal_pointer (&proper);
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
  gsize length = 0;
  g_autofree gchar *text = read_regular_file (path, &length, error);

  return text != NULL ? weft_json_parse (text, (gssize) length, path, error) : NULL;
}

/**
 * weft_json_parse:
 * @text: JSON text
 * @length: its length in bytes, or -1 if it ends with NUL
 * @where: what messages call the text, such as a path
 * @error: return location
 *
 * A whole number beyond 64 bits becomes a real one. `Infinity` and `-Infinity`, as Python writes them, are taken; `NaN` is null.
 *
 * Returns: (transfer full): the root node
 * Errors: %WEFT_ERROR_FORMAT if @text is no JSON, %WEFT_ERROR_LIMIT if it is nested deeper than 127 levels
 * Since: 1.0
 */
JsonNode *
weft_json_parse (const gchar *text, gssize length, const gchar *where, GError **error)
{
  g_autoptr (JsonParser) parser = json_parser_new_immutable ();
  g_autoptr (GString) proper = NULL;
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
  proper = check_text (text, length >= 0 ? (gsize) length : strlen (text), where, error);
  if (proper == NULL)
    return NULL;
  if (!json_parser_load_from_data (parser, proper->str, (gssize) proper->len, &local_error))
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

/* Appends the real number at @text, as json-glib writes it, in the shortest digits that give it again. What json-glib writes
 * for a number such as 1e30 or an infinite one is no JSON. Returns the bytes of it. */
static gsize
append_real (GString *json, const gchar *text)
{
  gsize n = strspn (text, "-+.0123456789einfa");
  gdouble real = g_ascii_strtod (text, NULL);
  gchar digits[G_ASCII_DTOSTR_BUF_SIZE];

  if (isinf (real))
    {
      g_string_append (json, real < 0 ? "-1e999" : "1e999");
      return n;
    }
  for (gint precision = 15; precision <= 17; precision++)
    {
      gchar format[] = "%.17g";

      format[3] = (gchar) ('0' + precision % 10);
      if (g_ascii_strtod (g_ascii_formatd (digits, sizeof (digits), format, real), NULL) == real)
        break;
    }
  g_string_append (json, digits);
  if (strpbrk (digits, ".e") == NULL)
    g_string_append (json, ".0");
  return n;
}

static gchar *
make_numbers_proper (const gchar *text)
{
  GString *json = g_string_sized_new (strlen (text));
  gboolean is_in_text = FALSE;

  while (*text != '\0')
    {
      gsize n = is_in_text && *text == '\\' ? 2 : 1;

      if (*text == '"')
        is_in_text = !is_in_text;
      if (!is_in_text && (g_ascii_isdigit (*text) || *text == '-' || *text == 'i'))
        {
          n = strspn (text, "-0123456789");
          if (strchr (".ei", text[n]) != NULL && text[n] != '\0')
            {
              text += append_real (json, text);
              continue;
            }
        }
      g_string_append_len (json, text, (gssize) n);
      text += n;
    }
  return g_string_free (json, FALSE);
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
  g_autofree gchar *text = NULL;

  json_generator_set_root (generator, node);
  json_generator_set_pretty (generator, pretty);
  text = json_generator_to_data (generator, NULL);
  return make_numbers_proper (text);
}

GStrv
weft_json_split_path (const gchar *path)
{
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  g_autoptr (GString) name = g_string_new (NULL);

  for (; *path != '\0'; path++)
    if (*path == '.')
      {
        g_strv_builder_add (names, name->str);
        g_string_truncate (name, 0);
      }
    else
      {
        path += *path == '\\' && (path[1] == '.' || path[1] == '\\');
        g_string_append_c (name, *path);
      }
  g_strv_builder_add (names, name->str);
  return g_strv_builder_end (names);
}

gchar *
weft_json_escape_name (const gchar *name)
{
  GString *escaped = g_string_new (NULL);

  for (; *name != '\0'; name++)
    {
      if (*name == '.' || *name == '\\')
        g_string_append_c (escaped, '\\');
      g_string_append_c (escaped, *name);
    }
  return g_string_free (escaped, FALSE);
}

/**
 * weft_json_lookup:
 * @root: (nullable): a node
 * @dotted_path: member names joined by dots, such as `text_config.hidden_size`; a backslash goes before a dot or a backslash
 *   that is part of a name
 *
 * Returns: (transfer none) (nullable): the node at that path, or %NULL
 * Since: 1.0
 */
JsonNode *
weft_json_lookup (JsonNode *root, const gchar *dotted_path)
{
  g_auto (GStrv) parts = weft_json_split_path (dotted_path);
  JsonNode *node = root;

  for (guint i = 0; parts[i] != NULL && node != NULL; i++)
    node =
        JSON_NODE_HOLDS_OBJECT (node) ? json_object_get_member (json_node_get_object (node), parts[i]) : NULL;
  return node;
}

/**
 * weft_json_describe:
 * @node: (nullable): a node
 *
 * Names the kind of a value for a message: `expected a list, found a text`.
 *
 * Returns: (transfer none): such as `a list`; `nothing` for %NULL
 * Since: 1.0
 */
const gchar *
weft_json_describe (JsonNode *node)
{
  if (node == NULL)
    return "nothing";
  if (JSON_NODE_HOLDS_OBJECT (node))
    return "an object";
  if (JSON_NODE_HOLDS_ARRAY (node))
    return "a list";
  if (JSON_NODE_HOLDS_NULL (node))
    return "null";
  switch (json_node_get_value_type (node))
    {
    case G_TYPE_STRING:
      return "a text";
    case G_TYPE_BOOLEAN:
      return "true or false";
    case G_TYPE_INT64:
      return "a whole number";
    default:
      return "a number";
    }
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

/**
 * weft_json_append_texts: (skip)
 * @json: where they are appended
 * @texts: (array zero-terminated=1): texts
 *
 * Appends @texts as a JSON array of strings, such as a quantization config's list of modules that are left dense.
 *
 * Since: 1.0
 */
void
weft_json_append_texts (GString *json, const gchar *const *texts)
{
  g_string_append_c (json, '[');
  for (guint i = 0; texts[i] != NULL; i++)
    {
      g_string_append (json, i > 0 ? ", " : "");
      weft_json_append_text (json, texts[i], FALSE);
    }
  g_string_append_c (json, ']');
}
