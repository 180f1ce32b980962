/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping/weft-name-sampler-private.h"

#include <string.h>

/* How many names are made of one text by what may stand around it. */
#define N_NAMES_A_TEXT 4

/* A group that is open: alternatives that are complete, and the one that is being read. */
typedef struct
{
  GPtrArray *complete;
  GPtrArray *current;
  gboolean is_lookaround;
} Group;

static GPtrArray *
texts_new (const gchar *text)
{
  GPtrArray *texts = g_ptr_array_new_with_free_func (g_free);

  if (text != NULL)
    g_ptr_array_add (texts, g_strdup (text));
  return texts;
}

static void
texts_append (GPtrArray *texts, GPtrArray *others, guint n_max)
{
  for (guint i = 0; i < others->len && texts->len < n_max; i++)
    g_ptr_array_add (texts, g_strdup (others->pdata[i]));
}

/* Each text of @heads followed by each of @tails. */
static GPtrArray *
texts_join (GPtrArray *heads, GPtrArray *tails, guint n_max)
{
  GPtrArray *joined = texts_new (NULL);

  for (guint i = 0; i < heads->len; i++)
    for (guint k = 0; k < tails->len && joined->len < n_max; k++)
      g_ptr_array_add (joined, g_strconcat (heads->pdata[i], tails->pdata[k], NULL));
  return joined;
}

static Group *
group_new (gboolean is_lookaround)
{
  Group *group = g_new0 (Group, 1);

  group->complete = texts_new (NULL);
  group->current = texts_new ("");
  group->is_lookaround = is_lookaround;
  return group;
}

static void
group_free (gpointer user_data)
{
  Group *group = user_data;

  g_ptr_array_unref (group->complete);
  g_ptr_array_unref (group->current);
  g_free (group);
}

static gboolean
is_quantifier (gchar c)
{
  return c == '*' || c == '+' || c == '?' || c == '{';
}

/* An escape outside or inside of a class; *at is behind the backslash, and moves behind the escape. */
static gchar *
read_escape (const gchar **at)
{
  static const struct
  {
    gchar letter;
    const gchar *text;
  } classes[] = { { 'd', "0" }, { 'w', "a" }, { 's', " " }, { 'D', "x" }, { 'W', "." },
                  { 'S', "x" }, { 'b', "" },  { 'B', "" },  { 'A', "" },  { 'Z', "" } };
  gchar c = **at;

  if (c == '\0')
    return g_strdup ("");
  (*at)++;
  for (guint i = 0; i < G_N_ELEMENTS (classes); i++)
    if (classes[i].letter == c)
      return g_strdup (classes[i].text);
  return g_ascii_isdigit (c) ? g_strdup ("") : g_strndup (&c, 1);
}

/* A class such as `[a-z_]`: its first member, or for a negated one something that is none. *at is behind the bracket. */
static gchar *
read_class (const gchar **at)
{
  static const gchar candidates[] = "x0_a.-";
  gboolean is_negated = **at == '^';
  const gchar *start = *at + (is_negated ? 1 : 0);
  const gchar *end = start;
  g_autofree gchar *members = NULL;

  while (*end != '\0' && (*end != ']' || end == start))
    end += *end == '\\' && end[1] != '\0' ? 2 : 1;
  members = g_strndup (start, (gsize) (end - start));
  *at = *end == ']' ? end + 1 : end;
  for (guint i = 0; is_negated && candidates[i] != '\0'; i++)
    if (strchr (members, candidates[i]) == NULL)
      return g_strndup (&candidates[i], 1);
  if (*members == '\\')
    {
      start++;
      return read_escape (&start);
    }
  return g_strndup (members, 1);
}

/* Any single character: a dot of a name, unless it is repeated. */
static GPtrArray *
read_dot (const gchar *at)
{
  GPtrArray *texts = texts_new (is_quantifier (*at) ? "0" : ".");

  if (is_quantifier (*at))
    g_ptr_array_add (texts, g_strdup ("x"));
  return texts;
}

/* What `*`, `+`, `?` or `{m,n}` makes of the texts before it. */
static GPtrArray *
read_quantifier (const gchar **at, GPtrArray *texts, gboolean is_dot, guint n_max)
{
  GPtrArray *repeated = texts_new (NULL);
  guint64 n = 1;

  texts_append (repeated, texts, n_max);
  if (**at == '{')
    n = g_ascii_strtoull (*at + 1, NULL, 10);
  for (guint64 i = 1; i < MIN (n, 8); i++)
    {
      GPtrArray *longer = texts_join (repeated, texts, n_max);

      g_ptr_array_unref (repeated);
      repeated = longer;
    }
  if ((**at == '*' && !is_dot) || **at == '?')
    g_ptr_array_add (repeated, g_strdup (""));
  *at = **at == '{' && strchr (*at, '}') != NULL ? strchr (*at, '}') + 1 : *at + 1;
  if (**at == '?' || **at == '+')
    (*at)++;
  g_ptr_array_unref (texts);
  return repeated;
}

/* Opens a group; *at is behind the parenthesis, and moves behind what says of which kind it is. */
static Group *
open_group (const gchar **at)
{
  const gchar *kind = *at;

  if (kind[0] != '?')
    return group_new (FALSE);
  if (kind[1] == '=' || kind[1] == '!' || (kind[1] == '<' && (kind[2] == '=' || kind[2] == '!')))
    {
      *at += kind[1] == '<' ? 3 : 2;
      return group_new (TRUE);
    }
  if (kind[1] == 'P' || kind[1] == '<')
    *at = strchr (kind, '>') != NULL ? strchr (kind, '>') + 1 : kind + 1;
  else
    *at = kind[1] == ':' ? kind + 2 : kind + 1;
  return group_new (FALSE);
}

/* All alternatives of a group; a look-around stands for no text. */
static GPtrArray *
close_group (GPtrArray *groups, guint n_max)
{
  Group *group = groups->pdata[groups->len - 1];
  GPtrArray *texts = texts_new (group->is_lookaround ? "" : NULL);

  if (!group->is_lookaround)
    {
      texts_append (texts, group->complete, n_max);
      texts_append (texts, group->current, n_max);
    }
  g_ptr_array_set_size (groups, (gint) groups->len - 1);
  return texts;
}

/* One element of a pattern at *at, or NULL where one only begins. */
static GPtrArray *
read_element (const gchar **at, GPtrArray *groups, guint n_max)
{
  Group *group = groups->pdata[groups->len - 1];
  gchar c = *(*at)++;
  g_autofree gchar *text = NULL;

  switch (c)
    {
    case '(':
      g_ptr_array_add (groups, open_group (at));
      return NULL;
    case '|':
      texts_append (group->complete, group->current, n_max);
      g_ptr_array_unref (group->current);
      group->current = texts_new ("");
      return NULL;
    case ')':
      return groups->len > 1 ? close_group (groups, n_max) : texts_new ("");
    case '^':
    case '$':
      return texts_new ("");
    case '.':
      return read_dot (*at);
    case '\\':
      text = read_escape (at);
      return texts_new (text);
    case '[':
      text = read_class (at);
      return texts_new (text);
    default:
      text = g_strndup (&c, 1);
      return texts_new (text);
    }
}

GPtrArray *
weft_sample_regex (const gchar *regex, guint n_max)
{
  g_autoptr (GPtrArray) groups = g_ptr_array_new_with_free_func (group_free);
  const gchar *at = regex;

  g_ptr_array_add (groups, group_new (FALSE));
  while (*at != '\0')
    {
      gboolean is_dot = *at == '.';
      GPtrArray *texts = read_element (&at, groups, n_max);
      Group *group = groups->pdata[groups->len - 1];
      GPtrArray *joined;

      if (texts == NULL)
        continue;
      if (is_quantifier (*at))
        texts = read_quantifier (&at, texts, is_dot, n_max);
      joined = texts_join (group->current, texts, n_max);
      g_ptr_array_unref (group->current);
      group->current = joined;
      g_ptr_array_unref (texts);
    }
  while (groups->len > 1)
    g_ptr_array_unref (close_group (groups, n_max));
  return close_group (groups, n_max);
}

/* A name of parts that are not empty. */
static gboolean
is_plausible (const gchar *name)
{
  return *name != '\0' && *name != '.' && !g_str_has_suffix (name, ".") && strstr (name, "..") == NULL
         && strchr (name, ' ') == NULL;
}

/* No word grows out of another: `fc1` and `weight` are no part of one name. */
static gchar *
join_parts (const gchar *scope, const gchar *before, const gchar *text, const gchar *after)
{
  gsize length = strlen (text);
  gsize before_length = strlen (before);

  if (length > 0 && g_ascii_isalnum (text[length - 1]) && g_ascii_isalnum (*after))
    return NULL;
  if (*text == '.' && before_length > 0)
    before_length--;
  return g_strdup_printf ("%s%.*s%s%s", scope, (gint) before_length, before, text, after);
}

static gboolean
renames (WeftWeightTransform *rule, const gchar *name)
{
  g_autofree gchar *pattern = NULL;
  g_autofree gchar *renamed = weft_weight_transform_rename_key (rule, name, &pattern, NULL);

  weft_weight_transform_reset (rule);
  return renamed != NULL;
}

static void
add_names (GPtrArray *names, WeftWeightTransform *rule, const gchar *scope, const gchar *text, guint n_max)
{
  /* A place that no rule is about: what is found is due to the rule, not to the place. */
  static const gchar *const before[] = { "", "x.0." };
  static const gchar *const after[] = { "", ".weight", "weight", ".bias" };
  guint n = 0;

  for (guint i = 0; i < G_N_ELEMENTS (before); i++)
    for (guint k = 0; k < G_N_ELEMENTS (after) && n < N_NAMES_A_TEXT && names->len < n_max; k++)
      {
        g_autofree gchar *name = join_parts (scope, before[i], text, after[k]);

        if (name == NULL || !is_plausible (name) || !renames (rule, name)
            || g_ptr_array_find_with_equal_func (names, name, g_str_equal, NULL))
          continue;
        g_ptr_array_add (names, g_steal_pointer (&name));
        n++;
      }
}

GPtrArray *
weft_sample_names (WeftWeightTransform *rule, guint n_max)
{
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  const gchar *regex = weft_weight_transform_get_regex (rule);
  const gchar *scope_prefix = weft_weight_transform_get_scope_prefix (rule);
  g_autofree gchar *scope =
      scope_prefix != NULL && *scope_prefix != '\0' ? g_strconcat (scope_prefix, ".", NULL) : g_strdup ("");
  g_autoptr (GPtrArray) texts = regex != NULL ? weft_sample_regex (regex, n_max) : NULL;

  for (guint i = 0; texts != NULL && i < texts->len; i++)
    add_names (names, rule, scope, texts->pdata[i], n_max);
  return names;
}
