/* SPDX-License-Identifier: Apache-2.0 */
/* Changes one member of a JSON text and leaves every other byte as it is: a config goes back as it was published, with its
 * numbers as they were spelled. */
#include <string.h>

#include "base/weft-json-internal.h"
#include "base/weft-json.h"

/* A member of an object, as positions in the text. */
typedef struct
{
  /* Behind the value before it, or behind the brace. */
  gsize gap;
  gsize key;
  gsize value;
  gsize end;
} Member;

/* The text was parsed before, so that it is known to be valid. */

static gsize
skip_space (const gchar *text, gsize at)
{
  return at + strspn (text + at, " \t\r\n");
}

static gsize
skip_string (const gchar *text, gsize at)
{
  for (at++; text[at] != '"'; at++)
    if (text[at] == '\\')
      at++;
  return at + 1;
}

static gsize
skip_value (const gchar *text, gsize at)
{
  guint depth = 0;

  do
    if (text[at] == '"')
      at = skip_string (text, at);
    else if (text[at] == '{' || text[at] == '[')
      {
        depth++;
        at++;
      }
    else if (text[at] == '}' || text[at] == ']')
      {
        depth--;
        at++;
      }
    else if (depth > 0)
      at++;
    else
      return at + strcspn (text + at, ",}] \t\r\n");
  while (depth > 0);
  return at;
}

/* The next member of the object, from behind its brace or behind a value of it. FALSE at its end. */
static gboolean
next_member (const gchar *text, gsize at, Member *member)
{
  gsize start = skip_space (text, at);

  if (text[start] == ',')
    start = skip_space (text, start + 1);
  if (text[start] != '"')
    return FALSE;
  member->gap = at;
  member->key = start;
  member->value = skip_space (text, skip_space (text, skip_string (text, start)) + 1);
  member->end = skip_value (text, member->value);
  return TRUE;
}

static gboolean
has_name (const gchar *text, const Member *member, const gchar *name)
{
  const gchar *key = text + member->key;
  gsize n_name = strlen (name);
  gsize n_key = skip_string (text, member->key) - member->key;
  g_autofree gchar *array = NULL;
  g_autoptr (JsonNode) root = NULL;

  if (memchr (key, '\\', n_key) == NULL)
    return n_key == n_name + 2 && memcmp (key + 1, name, n_name) == 0;
  array = g_strdup_printf ("[%.*s]", (gint) n_key, key);
  root = json_from_string (array, NULL);
  return root != NULL && g_str_equal (json_array_get_string_element (json_node_get_array (root), 0), name);
}

static void
remove_member (GString *text, const Member *member, gboolean is_first)
{
  gsize end = member->end;
  Member next;

  /* The first one leaves its place to the next one. */
  if (is_first && next_member (text->str, end, &next))
    g_string_erase (text, (gssize) member->key, (gssize) (next.key - member->key));
  else
    g_string_erase (text, (gssize) member->gap, (gssize) (end - member->gap));
}

/* Behind the last member, set off as the first one is. */
static void
insert_member (GString *text, gsize object, gsize end_of_last, GStrv names, const gchar *value)
{
  g_autoptr (GString) inserted = g_string_new (NULL);
  gsize first = skip_space (text->str, object + 1);
  guint n = g_strv_length (names);

  if (end_of_last > object + 1)
    {
      g_string_append_c (inserted, ',');
      g_string_append_len (inserted, text->str + object + 1, (gssize) (first - object - 1));
    }
  for (guint i = 0; i < n; i++)
    {
      weft_json_append_text (inserted, names[i], FALSE);
      g_string_append (inserted, i + 1 < n ? ": {" : ": ");
    }
  g_string_append (inserted, value);
  for (guint i = 1; i < n; i++)
    g_string_append_c (inserted, '}');
  g_string_insert (text, (gssize) end_of_last, inserted->str);
}

static gboolean
edit (GString *text, gsize object, GStrv names, const gchar *value)
{
  gsize at = object + 1;
  Member member;

  if (text->str[object] != '{')
    return FALSE;
  for (; next_member (text->str, at, &member); at = member.end)
    {
      if (!has_name (text->str, &member, names[0]))
        continue;
      if (names[1] != NULL)
        return edit (text, member.value, names + 1, value);
      if (value == NULL)
        remove_member (text, &member, at == object + 1);
      else
        {
          g_string_erase (text, (gssize) member.value, (gssize) (member.end - member.value));
          g_string_insert (text, (gssize) member.value, value);
        }
      return TRUE;
    }
  if (value != NULL)
    insert_member (text, object, at, names, value);
  return TRUE;
}

/**
 * weft_json_replace_member:
 * @text: a JSON text, whose root is an object
 * @dotted_path: the member, such as `fusion_config` or `text_config.quantization_config`; as for weft_json_lookup()
 * @value: (nullable): its new value as JSON text; %NULL removes the member
 * @where: what messages call the text, such as a path
 * @error: return location
 *
 * Changes one member; all other bytes stay. A member that is not there is added at the end of its object.
 *
 * Returns: (transfer full): the changed text
 * Errors: %WEFT_ERROR_FORMAT if @text is no JSON, or if what should hold the member is no object
 * Since: 1.0
 */
gchar *
weft_json_replace_member (const gchar *text, const gchar *dotted_path, const gchar *value, const gchar *where,
                          GError **error)
{
  g_autoptr (JsonNode) root = weft_json_parse (text, -1, where, error);
  g_autoptr (GString) edited = NULL;
  g_auto (GStrv) names = weft_json_split_path (dotted_path);

  if (root == NULL)
    return NULL;
  edited = g_string_new (text);
  if (!edit (edited, skip_space (text, 0), names, value))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                   "%s: '%s' cannot be set: what should hold it is no object", where, dotted_path);
      return NULL;
    }
  return g_string_free (g_steal_pointer (&edited), FALSE);
}
