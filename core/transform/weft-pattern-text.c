/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns of a rule are written once and used in both directions: a target is what a source makes, and, reversed, a
 * regular expression. This file turns the written text into the form that one direction needs, and reads from a
 * regular expression which literal text a match must contain. Nothing is compiled here. */
#include "transform/weft-pattern-text-private.h"

#include <string.h>

/* Whether the last character is a `$` that is not escaped. */
static gboolean
ends_with_anchor (const gchar *pattern)
{
  gsize length = strlen (pattern);
  gsize n_backslashes = 0;

  if (length == 0 || pattern[length - 1] != '$')
    return FALSE;
  while (n_backslashes + 1 < length && pattern[length - 2 - n_backslashes] == '\\')
    n_backslashes++;
  return n_backslashes % 2 == 0;
}

/* Lookarounds and non-capturing groups say where a source matches; they are no part of a name. The shortest text up
 * to the first `)` goes, and one `)` that follows it. */
static void
delete_special_groups (GString *text)
{
  gchar *start;

  while ((start = strstr (text->str, "(?")) != NULL)
    {
      gchar *end = strchr (start, ')');

      if (end == NULL)
        return;
      end += end[1] == ')' ? 2 : 1;
      g_string_erase (text, start - text->str, end - start);
    }
}

/* Replaces the first `(...)` by `\1` and returns it. */
static gchar *
take_capture (GString *text)
{
  gchar *start = strchr (text->str, '(');
  gchar *end = start != NULL ? strchr (start, ')') : NULL;
  gsize position;
  g_autofree gchar *captured = NULL;

  if (end == NULL)
    return NULL;
  position = (gsize) (start - text->str);
  captured = g_strndup (start, (gsize) (end + 1 - start));
  g_string_erase (text, (gssize) position, end + 1 - start);
  g_string_insert (text, (gssize) position, "\\1");
  return g_steal_pointer (&captured);
}

/* weft_pattern_normalise_target: the name that a target writes, with `\1` where the source's capture goes; @captured
 * is the text of its group, or %NULL. Anchors at both ends are dropped: they speak of the reverse direction. */
gchar *
weft_pattern_normalise_target (const gchar *written, gchar **captured)
{
  g_autoptr (GString) text = g_string_new (written[0] == '^' ? written + 1 : written);

  if (ends_with_anchor (text->str))
    g_string_truncate (text, text->len - 1);
  delete_special_groups (text);
  *captured = take_capture (text);
  g_string_replace (text, "\\.", ".", 0);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static GStrv
normalise_targets (const gchar *const *written, gchar **captured, GError **error)
{
  g_autoptr (GStrvBuilder) targets = g_strv_builder_new ();
  g_autofree gchar *common = NULL;

  for (guint i = 0; written[i] != NULL; i++)
    {
      g_autofree gchar *own = NULL;
      g_autofree gchar *target = weft_pattern_normalise_target (written[i], &own);

      if (own != NULL && common != NULL && strcmp (own, common) != 0)
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_PATTERN,
              "target '%s' captures '%s' and an earlier target captures '%s'; write the same group in every target",
              written[i], own, common);
          return NULL;
        }
      if (common == NULL)
        common = g_steal_pointer (&own);
      g_strv_builder_add (targets, target);
    }
  *captured = g_steal_pointer (&common);
  return g_strv_builder_end (targets);
}

/* A source gets the anchors that its paired target was written with, and the group in place of its `\1`. */
static gchar *
normalise_source (const gchar *written, const gchar *paired_target, const gchar *captured, GError **error)
{
  g_autoptr (GString) text = g_string_new (written);

  if (strstr (written, "\\1") != NULL)
    {
      if (captured == NULL)
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_PATTERN,
              "source '%s' refers to '\\1' and no target has a group; write the group in the target, as '(\\d+)'",
              written);
          return NULL;
        }
      g_string_replace (text, "\\1", captured, 1);
    }
  if (paired_target != NULL && paired_target[0] == '^' && text->str[0] != '^')
    g_string_prepend_c (text, '^');
  if (paired_target != NULL && ends_with_anchor (paired_target) && !ends_with_anchor (text->str))
    g_string_append_c (text, '$');
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* weft_pattern_normalise: both lists of a rule as they are used: @sources are regular expressions, @targets names. */
gboolean
weft_pattern_normalise (const gchar *const *written_sources, const gchar *const *written_targets,
                        GStrv *sources, GStrv *targets, GError **error)
{
  g_autofree gchar *captured = NULL;
  g_auto (GStrv) new_targets = normalise_targets (written_targets, &captured, error);
  g_autoptr (GStrvBuilder) new_sources = g_strv_builder_new ();
  gboolean are_paired =
      g_strv_length ((gchar **) written_sources) == g_strv_length ((gchar **) written_targets);

  if (new_targets == NULL)
    return FALSE;
  for (guint i = 0; written_sources[i] != NULL; i++)
    {
      g_autofree gchar *source =
          normalise_source (written_sources[i], are_paired ? written_targets[i] : NULL, captured, error);

      if (source == NULL)
        return FALSE;
      g_strv_builder_add (new_sources, source);
    }
  *sources = g_strv_builder_end (new_sources);
  *targets = g_steal_pointer (&new_targets);
  return TRUE;
}

/* weft_pattern_highest_reference: the highest N of a `\N`, 1 to 9, in @pattern, or 0. */
guint
weft_pattern_highest_reference (const gchar *pattern)
{
  guint highest = 0;

  for (const gchar *c = pattern; *c != '\0'; c++)
    if (*c == '\\' && c[1] != '\0')
      {
        c++;
        if (*c >= '1' && *c <= '9')
          highest = MAX (highest, (guint) (*c - '0'));
      }
  return highest;
}

/* The end of a character class that starts at @start. */
static const gchar *
skip_class (const gchar *start)
{
  const gchar *c = start + 1;

  if (*c == '^')
    c++;
  if (*c == ']')
    c++;
  while (*c != '\0' && *c != ']')
    c += *c == '\\' && c[1] != '\0' ? 2 : 1;
  return *c == ']' ? c + 1 : c;
}

/* The end of a group that starts at @start. */
static const gchar *
skip_group (const gchar *start)
{
  const gchar *c = start + 1;
  guint depth = 1;

  while (*c != '\0' && depth > 0)
    {
      if (*c == '[')
        {
          c = skip_class (c);
          continue;
        }
      depth += *c == '(' ? 1 : 0;
      depth -= *c == ')' ? 1 : 0;
      c += *c == '\\' && c[1] != '\0' ? 2 : 1;
    }
  return c;
}

/* Reads one literal character at *@cursor, or returns 0 and moves past something else. */
static gchar
next_literal (const gchar **cursor)
{
  const gchar *c = *cursor;

  if (*c == '[')
    *cursor = skip_class (c);
  else if (*c == '(')
    *cursor = skip_group (c);
  else if (*c == '\\' && c[1] != '\0')
    {
      *cursor = c + 2;
      return g_ascii_ispunct (c[1]) ? c[1] : 0;
    }
  else
    {
      *cursor = c + 1;
      return (g_ascii_isgraph (*c) || *c == ' ') && strchr (".^$*+?{}|)\\", *c) == NULL ? *c : 0;
    }
  return 0;
}

/* Reads the run of literal characters at *@cursor. The last of them is left out where a quantifier makes it
 * optional. */
static GString *
next_run (const gchar **cursor)
{
  GString *run = g_string_new (NULL);

  while (**cursor != '\0')
    {
      const gchar *before = *cursor;
      gchar literal = next_literal (cursor);

      if (literal == 0)
        {
          if (run->len > 0)
            *cursor = before;
          break;
        }
      if (**cursor == '*' || **cursor == '?' || **cursor == '{')
        break;
      g_string_append_c (run, literal);
    }
  return run;
}

/* Alternatives outside of groups, switches such as `(?i)` and quoting make literal text uncertain. */
static gboolean
has_certain_literals (const gchar *pattern)
{
  for (const gchar *c = pattern; *c != '\0';)
    {
      if (*c == '|' || g_str_has_prefix (c, "\\Q"))
        return FALSE;
      if (c[0] == '(' && c[1] == '?' && strchr (":!=<P", c[2]) == NULL)
        return FALSE;
      next_literal (&c);
    }
  return TRUE;
}

/* weft_pattern_longest_literal: the longest text that every match of @pattern contains, or %NULL if none is known. */
gchar *
weft_pattern_longest_literal (const gchar *pattern)
{
  g_autoptr (GString) longest = g_string_new (NULL);

  if (!has_certain_literals (pattern))
    return NULL;
  for (const gchar *c = pattern; *c != '\0';)
    {
      g_autoptr (GString) run = next_run (&c);

      if (run->len > longest->len)
        g_string_assign (longest, run->str);
    }
  return longest->len > 0 ? g_string_free (g_steal_pointer (&longest), FALSE) : NULL;
}

/* weft_pattern_anchored_literal: the text that every match of @pattern starts with at the start of the key, or %NULL. */
gchar *
weft_pattern_anchored_literal (const gchar *pattern)
{
  const gchar *c = pattern + 1;
  g_autoptr (GString) run = NULL;

  if (pattern[0] != '^' || !has_certain_literals (pattern))
    return NULL;
  run = next_run (&c);
  return run->len > 0 ? g_string_free (g_steal_pointer (&run), FALSE) : NULL;
}
