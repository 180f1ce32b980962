/* SPDX-License-Identifier: Apache-2.0 */
/* All sources of a rule are one regular expression: a named branch each, the longest source first. A search finds the
 * leftmost match, and there the first branch that fits. Three steps keep it cheap: text that a match must contain is
 * looked for first; plain sources have a matcher of their own; GRegex does the rest, compiled when first needed. */
#include "transform/weft-pattern-private.h"
#include "transform/weft-pattern-text-private.h"

#include <string.h>

/* A rule has a handful of sources; a mapping that exceeds this is no mapping. */
#define MAX_BRANCHES 1000

/* As in the dialect that mappings are written in: `.` stops at a line feed only. */
#define COMPILE_FLAGS G_REGEX_NEWLINE_LF

typedef struct
{
  guint index; /* in the list of sources */
  gchar *text;
  gsize n_characters; /* of the source */
  guint n_captures;
  guint first_group; /* number of its named group in the regular expression */
  WeftPlainMatcher *plain;
  gchar *literal; /* (nullable) */
  gsize rare;     /* index in it of a character that is rare in names */
  gboolean is_literal_anchored;
  gboolean repeats_literal; /* of the branch before */
} Branch;

struct _WeftPattern
{
  GArray *branches; /* in compiled order */
  gchar *text;
  gboolean is_plain;
  gboolean has_literals;
  gsize regex_once;
  GRegex *regex;
};

static void
clear_branch (gpointer pointer)
{
  Branch *branch = pointer;

  g_free (branch->text);
  g_free (branch->literal);
  g_clear_pointer (&branch->plain, weft_plain_matcher_free);
}

static void
clear_pattern (gpointer pointer)
{
  WeftPattern *self = pointer;

  g_clear_pointer (&self->branches, g_array_unref);
  g_free (self->text);
  g_clear_pointer (&self->regex, g_regex_unref);
}

/* weft_pattern_ref: */
WeftPattern *
weft_pattern_ref (WeftPattern *self)
{
  return g_atomic_rc_box_acquire (self);
}

/* weft_pattern_unref: */
void
weft_pattern_unref (WeftPattern *self)
{
  g_atomic_rc_box_release_full (self, clear_pattern);
}

/* `*.` stands for any text and a dot; a source that ends with a letter or digit ends on a name boundary. */
static gchar *
make_branch_text (const gchar *source)
{
  g_autoptr (GString) text = g_string_new (source);

  g_string_replace (text, "*.", ".*\\.", 0);
  if (text->len > 0 && g_ascii_isalnum (text->str[text->len - 1]))
    g_string_append (text, "(?!\\w)");
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/* What GRegex alone knows of a source that is not plain: whether it is valid, and how many captures it has. */
static gboolean
inspect_regex (Branch *branch, const gchar *source, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GRegex) regex = NULL;

  if (weft_pattern_highest_reference (source) > 0)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PATTERN,
          "source '%s' refers to a capture; only one '\\1', that stands for the target's group, is possible",
          source);
      return FALSE;
    }
  if (strstr (source, "(?P<g") != NULL || strstr (source, "(?<g") != NULL || strstr (source, "(?'g") != NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "source '%s' names a group that starts with 'g'; those names are taken, choose another",
                   source);
      return FALSE;
    }
  regex = g_regex_new (branch->text, G_REGEX_NEWLINE_LF, 0, &local_error);
  if (regex == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "source '%s' is no valid regular expression: %s",
                   source, local_error->message);
      return FALSE;
    }
  branch->n_captures = (guint) g_regex_get_capture_count (regex);
  return TRUE;
}

/* Names are made of a few letters; one of the others tells at a glance that a text is not there. */
static gsize
find_rare (const gchar *literal)
{
  gsize index = strcspn (literal, "bcfghjkquvxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

  return literal[index] != '\0' ? index : 0;
}

static gboolean
contains (const gchar *text, const Branch *branch)
{
  for (const gchar *c = strchr (text, branch->literal[branch->rare]); c != NULL;
       c = strchr (c + 1, branch->literal[branch->rare]))
    if ((gsize) (c - text) >= branch->rare && g_str_has_prefix (c - branch->rare, branch->literal))
      return TRUE;
  return FALSE;
}

static gboolean
init_branch (Branch *branch, guint index, const gchar *source, GError **error)
{
  branch->index = index;
  branch->text = make_branch_text (source);
  branch->n_characters = (gsize) g_utf8_strlen (source, -1);
  branch->plain = weft_plain_matcher_new (branch->text);
  branch->literal = weft_pattern_anchored_literal (branch->text);
  branch->is_literal_anchored = branch->literal != NULL;
  if (branch->literal == NULL)
    branch->literal = weft_pattern_longest_literal (branch->text);
  if (branch->literal != NULL)
    branch->rare = find_rare (branch->literal);
  if (branch->plain == NULL)
    return inspect_regex (branch, source, error);
  branch->n_captures = weft_plain_matcher_get_n_captures (branch->plain);
  return TRUE;
}

/* The longest source first; equal lengths keep the order of the list. */
static gint
compare_branches (gconstpointer a, gconstpointer b)
{
  const Branch *left = a;
  const Branch *right = b;

  if (left->n_characters != right->n_characters)
    return left->n_characters > right->n_characters ? -1 : 1;
  return left->index < right->index ? -1 : left->index > right->index;
}

static gboolean
read_sources (WeftPattern *self, const gchar *const *sources, GError **error)
{
  for (guint i = 0; sources[i] != NULL; i++)
    {
      Branch branch = { 0 };
      gboolean is_valid;

      if (i == MAX_BRANCHES)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                       "more than %d sources in one rule; write several rules", MAX_BRANCHES);
          return FALSE;
        }
      is_valid = g_utf8_validate (sources[i], -1, NULL) && init_branch (&branch, i, sources[i], error);
      g_array_append_val (self->branches, branch);
      if (!is_valid)
        {
          if (error != NULL && *error == NULL)
            g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "source %u is not UTF-8", i);
          return FALSE;
        }
    }
  return TRUE;
}

/* weft_pattern_new: compiles normalised sources. */
WeftPattern *
weft_pattern_new (const gchar *const *sources, GError **error)
{
  g_autoptr (WeftPattern) self = g_atomic_rc_box_new0 (WeftPattern);
  g_autoptr (GString) text = g_string_new (NULL);
  guint group = 1;

  self->branches = g_array_new (FALSE, FALSE, sizeof (Branch));
  g_array_set_clear_func (self->branches, clear_branch);
  if (!read_sources (self, sources, error))
    return NULL;
  g_array_sort (self->branches, compare_branches);
  self->is_plain = self->has_literals = TRUE;
  for (guint i = 0; i < self->branches->len; i++)
    {
      Branch *branch = &g_array_index (self->branches, Branch, i);

      branch->repeats_literal = i > 0 && g_strcmp0 (branch->literal, branch[-1].literal) == 0;
      branch->first_group = group;
      group += 1 + branch->n_captures;
      self->is_plain &= branch->plain != NULL;
      self->has_literals &= branch->literal != NULL;
      g_string_append_printf (text, "%s(?P<g%u>%s)", i > 0 ? "|" : "", branch->index, branch->text);
    }
  self->text = g_string_free (g_steal_pointer (&text), FALSE);
  return g_steal_pointer (&self);
}

/* weft_pattern_get_text: the regular expression of all sources. */
const gchar *
weft_pattern_get_text (const WeftPattern *self)
{
  return self->text;
}

/* weft_pattern_get_n_captures: how many captures the source at @branch has. */
guint
weft_pattern_get_n_captures (const WeftPattern *self, guint branch)
{
  for (guint i = 0; i < self->branches->len; i++)
    if (g_array_index (self->branches, Branch, i).index == branch)
      return g_array_index (self->branches, Branch, i).n_captures;
  return 0;
}

/* weft_pattern_is_plain: whether no source needs a regular expression. */
gboolean
weft_pattern_is_plain (const WeftPattern *self)
{
  return self->is_plain;
}

/* weft_pattern_may_match: %FALSE only if no source matches @key or an end of it. */
gboolean
weft_pattern_may_match (const WeftPattern *self, const gchar *key)
{
  if (!self->has_literals)
    return TRUE;
  for (guint i = 0; i < self->branches->len; i++)
    {
      const Branch *branch = &g_array_index (self->branches, Branch, i);

      if (!branch->repeats_literal && contains (key, branch))
        return TRUE;
    }
  return FALSE;
}

static gboolean
is_printable_ascii (const gchar *text, gsize *length)
{
  const gchar *c = text;

  while (*c >= ' ' && *c <= '~')
    c++;
  *length = (gsize) (c - text);
  return *c == '\0';
}

static gboolean
compile_regex (WeftPattern *self, GError **error)
{
  g_autoptr (GError) local_error = NULL;

  if (g_once_init_enter (&self->regex_once))
    {
      self->regex = g_regex_new (self->text, COMPILE_FLAGS, 0, &local_error);
      g_once_init_leave (&self->regex_once, 1);
    }
  if (self->regex == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "'%s' is no valid regular expression: %s", self->text,
                 local_error != NULL ? local_error->message : "it failed before");
  return self->regex != NULL;
}

static void
read_match (WeftPattern *self, GMatchInfo *found, WeftPatternMatch *match)
{
  for (guint i = 0; i < self->branches->len; i++)
    {
      const Branch *branch = &g_array_index (self->branches, Branch, i);
      gint start = -1;
      gint end = -1;

      if (!g_match_info_fetch_pos (found, (gint) branch->first_group, &start, &end) || start < 0)
        continue;
      match->branch = branch->index;
      for (guint k = 0; k < WEFT_PATTERN_N_CAPTURES; k++)
        {
          gboolean is_set = k <= branch->n_captures
                            && g_match_info_fetch_pos (found, (gint) (branch->first_group + k), &start, &end);

          match->captures[k].start = is_set ? start : -1;
          match->captures[k].end = is_set ? end : -1;
        }
      return;
    }
}

/* weft_pattern_search_regex: weft_pattern_search() by the regular expression alone. */
gboolean
weft_pattern_search_regex (WeftPattern *self, const gchar *text, WeftPatternMatch *match, GError **error)
{
  g_autoptr (GMatchInfo) found = NULL;
  g_autoptr (GError) local_error = NULL;

  if (!g_utf8_validate (text, -1, NULL))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "a name is not UTF-8");
      return FALSE;
    }
  if (!compile_regex (self, error))
    return FALSE;
  if (g_regex_match_full (self->regex, text, -1, 0, 0, &found, &local_error))
    {
      read_match (self, found, match);
      return TRUE;
    }
  if (local_error != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "'%s' cannot be matched against '%s': %s", self->text,
                 text, local_error->message);
  return FALSE;
}

static WeftPlainResult
search_plain (WeftPattern *self, const gchar *text, gsize length, WeftPatternMatch *match)
{
  WeftPlainResult result = WEFT_PLAIN_RESULT_NO_MATCH;

  for (guint i = 0; i < self->branches->len; i++)
    {
      const Branch *branch = &g_array_index (self->branches, Branch, i);
      WeftPatternMatch own = { .branch = branch->index };
      WeftPlainResult own_result;

      for (guint k = 0; k < WEFT_PATTERN_N_CAPTURES; k++)
        own.captures[k] = (WeftPatternSpan){ -1, -1 };
      own_result = weft_plain_matcher_search (branch->plain, text, length, own.captures);
      if (own_result == WEFT_PLAIN_RESULT_GIVEN_UP)
        return own_result;
      if (own_result == WEFT_PLAIN_RESULT_MATCH
          && (result == WEFT_PLAIN_RESULT_NO_MATCH || own.captures[0].start < match->captures[0].start))
        {
          *match = own;
          result = WEFT_PLAIN_RESULT_MATCH;
        }
    }
  return result;
}

static gboolean
has_literal (const WeftPattern *self, const gchar *text)
{
  for (guint i = 0; i < self->branches->len; i++)
    {
      const Branch *branch = &g_array_index (self->branches, Branch, i);

      if (branch->is_literal_anchored ? g_str_has_prefix (text, branch->literal) : contains (text, branch))
        return TRUE;
    }
  return FALSE;
}

/* weft_pattern_search: whether a source matches in @text: leftmost position first, then the longest source. %FALSE
 * without an error is no match. */
gboolean
weft_pattern_search (WeftPattern *self, const gchar *text, WeftPatternMatch *match, GError **error)
{
  gsize length;

  if (self->is_plain && is_printable_ascii (text, &length))
    {
      WeftPlainResult result = search_plain (self, text, length, match);

      if (result != WEFT_PLAIN_RESULT_GIVEN_UP)
        return result == WEFT_PLAIN_RESULT_MATCH;
    }
  if (self->has_literals && !has_literal (self, text))
    return FALSE;
  return weft_pattern_search_regex (self, text, match, error);
}
