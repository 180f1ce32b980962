/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of normalisation and of the source regex; and the plain matcher against the regular expression. */
#include <string.h>

#include "transform/weft-pattern-private.h"
#include "transform/weft-pattern-text-private.h"

static void
test_targets (void)
{
  static const struct
  {
    const gchar *written;
    const gchar *normalised;
    const gchar *captured;
  } rows[] = {
    { "^model\\.vision_model\\.", "model.vision_model.", NULL },
    { "^^x", "^x", NULL },
    { "timm_model.\\1", "timm_model.\\1", NULL },
    { "(encoder|decoder).layers.", "\\1.layers.", "(encoder|decoder)" },
    { "(a\\.b)\\.c", "\\1.c", "(a\\.b)" },
    { "^(?!vision)lm_head\\.", "lm_head.", NULL },
    { "(?<!psp_modules\\.[0-9]\\.1\\.)bn\\.", "bn.", NULL },
    { "^model(?!\\.(language_model|visual))", "model", NULL },
    { "(?:(?!X\\.))(.+)", "\\1", "(.+)" },
    /* Weft drops the anchor. */
    { "a(b)(c)$", "a\\1(c)", "(b)" },
    { "^a(?:b|c)d", "ad", NULL },
    { "m(?!\\.(a|b)\\.)x", "m.)x", NULL },
    { "a\\.x$", "a.x", NULL },
    { "a\\$", "a\\$", NULL },
    { "a\\\\$", "a\\\\", NULL },
    { "(?", "(?", NULL },
    { "$", "", NULL },
    { "", "", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *captured = NULL;
      g_autofree gchar *normalised = weft_pattern_normalise_target (rows[i].written, &captured);

      g_assert_cmpstr (normalised, ==, rows[i].normalised);
      g_assert_cmpstr (captured, ==, rows[i].captured);
    }
}

static void
test_lists (void)
{
  /* Lists are written with a blank between patterns; `error` is text of the message. */
  static const struct
  {
    const gchar *sources;
    const gchar *targets;
    const gchar *new_sources;
    const gchar *error;
  } rows[] = {
    { "a$", "^b", "^a$", NULL },
    { "a c", "^b", "a c", NULL },
    { "^a", "^b", "^a", NULL },
    { "a", "b$", "a$", NULL },
    { "a$", "b$", "a$", NULL },
    { "a c", "^b d$", "^a c$", NULL },
    { "x.\\1.y", "(\\d+).z", "x.(\\d+).y", NULL },
    { "x.\\1 y", "(a)b (a)d", "x.(a) y", NULL },
    { "x.\\1.y", "z", NULL, "no target has a group" },
    { "x", "(a)b (c)d", NULL, "captures" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (GStrv) sources = g_strsplit (rows[i].sources, " ", -1);
      g_auto (GStrv) targets = g_strsplit (rows[i].targets, " ", -1);
      g_auto (GStrv) new_sources = NULL;
      g_auto (GStrv) new_targets = NULL;
      g_autoptr (GError) error = NULL;
      gboolean is_valid = weft_pattern_normalise (
          (const gchar *const *) sources, (const gchar *const *) targets, &new_sources, &new_targets, &error);

      if (rows[i].error != NULL)
        {
          g_assert_false (is_valid);
          g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
          g_assert_nonnull (strstr (error->message, rows[i].error));
          continue;
        }
      g_assert_no_error (error);
      g_autofree gchar *joined = g_strjoinv (" ", new_sources);
      g_assert_cmpstr (joined, ==, rows[i].new_sources);
    }
}

static WeftPattern *
compile (const gchar *sources)
{
  g_auto (GStrv) list = g_strsplit (sources, " ", -1);
  g_autoptr (GError) error = NULL;
  WeftPattern *pattern = weft_pattern_new ((const gchar *const *) list, &error);

  g_assert_no_error (error);
  return pattern;
}

static void
test_regex (void)
{
  static const struct
  {
    const gchar *sources;
    const gchar *regex;
  } rows[] = {
    { "experts.*.w1.weight", "(?P<g0>experts..*\\.w1.weight(?!\\w))" },
    { "a.b a.b.c", "(?P<g1>a.b.c(?!\\w))|(?P<g0>a.b(?!\\w))" },
    { "bb aa ccc", "(?P<g2>ccc(?!\\w))|(?P<g0>bb(?!\\w))|(?P<g1>aa(?!\\w))" },
    { "weight_", "(?P<g0>weight_)" },
    { "weight$", "(?P<g0>weight$)" },
    { "layers.(\\d+)", "(?P<g0>layers.(\\d+))" },
    { "bn\\.", "(?P<g0>bn\\.)" },
    { "^", "(?P<g0>^)" },
    { "layer\\d", "(?P<g0>layer\\d(?!\\w))" },
    { "layers\\.\\d*.foo", "(?P<g0>layers\\.\\d.*\\.foo(?!\\w))" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftPattern) pattern = compile (rows[i].sources);

      g_assert_cmpstr (weft_pattern_get_text (pattern), ==, rows[i].regex);
    }
}

static void
test_search (void)
{
  /* `branch` is -1 for no match. */
  static const struct
  {
    const gchar *sources;
    const gchar *key;
    gint branch;
    gint start;
    gint end;
  } rows[] = {
    { "experts.*.w1.weight", "experts.0.w1.weight", 0, 0, 19 },
    { "experts.*.w1.weight", "expertsQ.w1.weight", 0, 0, 18 },
    { "experts.*.w1.weight", "experts.0.w1Xweight", 0, 0, 19 },
    { "experts.*.w1.weight", "experts.w1.weight", -1, 0, 0 },
    { "experts.*.w1.weight", "experts.0.w1.weight_scale_inv", -1, 0, 0 },
    { "experts.*.w1.weight", "experts.0.w1.weight2", -1, 0, 0 },
    { "experts.*.w1.weight", "experts.0.w1.weight.x", 0, 0, 19 },
    { "experts.*.w1.weight", "a.experts.0.b.experts.1.w1.weight", 0, 2, 33 },
    { "a.b a.b.c", "a.b.c", 1, 0, 5 },
    { "a.b a.b.c", "a.b.cd", 0, 0, 3 },
    { "a.b a.b.c", "a.bd", -1, 0, 0 },
    { "experts.gate_up extra_experts.gate_up", "l.extra_experts.gate_up", 1, 2, 23 },
    { "a", "\303\244a", 0, 2, 3 },
    { "a", "a\303\244", -1, 0, 0 },
    { "a.c", "a\303\244c", 0, 0, 4 },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftPattern) pattern = compile (rows[i].sources);
      g_autoptr (GError) error = NULL;
      WeftPatternMatch match;
      gboolean is_match = weft_pattern_search (pattern, rows[i].key, &match, &error);

      g_assert_no_error (error);
      g_assert_cmpint (is_match ? (gint) match.branch : -1, ==, rows[i].branch);
      if (!is_match)
        continue;
      g_assert_cmpint ((gint) match.captures[0].start, ==, rows[i].start);
      g_assert_cmpint ((gint) match.captures[0].end, ==, rows[i].end);
    }
}

static void
test_errors (void)
{
  static const struct
  {
    const gchar *source;
    const gchar *message;
  } rows[] = {
    { "a(", "no valid regular expression" },
    { "a)|(b", "no valid regular expression" },
    { "(?<!a*)b", "no valid regular expression" },
    { "(a)\\2", "refers to a capture" },
    { "(?P<g0>a)", "names a group" },
    { "\377", "not UTF-8" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      WeftPattern *pattern = weft_pattern_new ((const gchar *const[]){ rows[i].source, NULL }, &error);

      g_assert_null (pattern);
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

/* Text that is not UTF-8 reaches a regular expression only. */
static void
test_invalid_key (void)
{
  g_autoptr (WeftPattern) pattern = compile ("a");
  g_autoptr (GError) error = NULL;
  WeftPatternMatch match;

  g_assert_false (weft_pattern_search (pattern, "a\377", &match, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
}

static void
test_literals (void)
{
  static const struct
  {
    const gchar *pattern;
    const gchar *longest;
    const gchar *anchored;
  } rows[] = {
    { "experts..*\\.w1.weight(?!\\w)", "experts", NULL },
    { "^model\\.x", "model.x", "model.x" },
    { "ab?cd", "cd", NULL },
    { "abc*", "ab", NULL },
    { "a|b", NULL, NULL },
    { "(a|bcdef)x", "x", NULL },
    { "(?i)abc", NULL, NULL },
    { "[]abc]de", "de", NULL },
    { "\\Qa*b\\E", NULL, NULL },
    { "\\w+", NULL, NULL },
    { "^", NULL, NULL },
    { "ab+c", "ab", NULL },
    { "x{2}yz", "yz", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *longest = weft_pattern_longest_literal (rows[i].pattern);
      g_autofree gchar *anchored = weft_pattern_anchored_literal (rows[i].pattern);

      /* The text after a quantifier may be found to be in one run or in two. */
      if (g_strcmp0 (rows[i].pattern, "x{2}yz") != 0)
        g_assert_cmpstr (longest, ==, rows[i].longest);
      else
        g_assert_true (g_str_has_suffix (longest, "yz"));
      g_assert_cmpstr (anchored, ==, rows[i].anchored);
    }
}

/* Patterns that the plain matcher takes, on random keys made of the patterns' own pieces: both find the same. */
static void
test_plain_is_regex (void)
{
  static const gchar *const patterns[] = {
    "experts.*.w1.weight",
    "a.b a.b.c",
    "^model.layers.(\\d+).norm(\\d)",
    "layers.(\\d+).(.+)\\.w",
    "^(?:(?!model\\.))(.+)",
    "^model\\.(?:(?!model\\.))(.+)",
    "(\\d+).\\d*.w$",
    "weight(?!_)",
    ".w .*.w1 w",
    "(.+).w.(.+)",
    "^",
    "a.*.b.*.w",
  };
  static const gchar *const pieces[] = { "experts", "model", "layers", "norm", "w1", "weight", "a", "b",
                                         "c",       ".",     ".",      "0",    "12", "_",      "w", "X" };

  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    {
      g_autoptr (WeftPattern) pattern = compile (patterns[i]);

      g_assert_true (weft_pattern_is_plain (pattern));
      for (guint k = 0; k < 4000; k++)
        {
          g_autoptr (GString) key = g_string_new (NULL);
          g_autoptr (GError) error = NULL;
          WeftPatternMatch plain, regex;
          gboolean is_plain_match, is_regex_match;

          for (gint n = g_test_rand_int_range (0, 12); n > 0; n--)
            g_string_append (key, pieces[g_test_rand_int_range (0, G_N_ELEMENTS (pieces))]);
          is_plain_match = weft_pattern_search (pattern, key->str, &plain, &error);
          is_regex_match = weft_pattern_search_regex (pattern, key->str, &regex, &error);
          g_assert_no_error (error);
          g_assert_cmpint (is_plain_match, ==, is_regex_match);
          if (!is_plain_match)
            continue;
          g_assert_cmpuint (plain.branch, ==, regex.branch);
          for (guint c = 0; c <= weft_pattern_get_n_captures (pattern, plain.branch); c++)
            {
              g_assert_cmpint ((gint) plain.captures[c].start, ==, (gint) regex.captures[c].start);
              g_assert_cmpint ((gint) plain.captures[c].end, ==, (gint) regex.captures[c].end);
            }
        }
    }
}

/* A key made to be slow is an answer or an error within the step limit, not a hang. */
static void
test_slow_key (void)
{
  g_autoptr (WeftPattern) pattern = compile ("a.*.a.*.a.*.a.*.b");
  g_autofree gchar *key = g_strnfill (3000, 'a');
  g_autoptr (GError) error = NULL;
  WeftPatternMatch match;

  g_assert_false (weft_pattern_search (pattern, key, &match, &error));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/pattern/targets", test_targets);
  g_test_add_func ("/pattern/lists", test_lists);
  g_test_add_func ("/pattern/regex", test_regex);
  g_test_add_func ("/pattern/search", test_search);
  g_test_add_func ("/pattern/errors", test_errors);
  g_test_add_func ("/pattern/invalid-key", test_invalid_key);
  g_test_add_func ("/pattern/literals", test_literals);
  g_test_add_func ("/pattern/plain-is-regex", test_plain_is_regex);
  g_test_add_func ("/pattern/slow-key", test_slow_key);
  return g_test_run ();
}
