/* SPDX-License-Identifier: Apache-2.0 */
/* Linting: what is found about small mappings, and that what is found about the shipped ones is so. */
#include "../pipeline/made-checkpoint-private.h"

/* Findings as `kind rule/other key`, one a line. */
static gchar *
show (GPtrArray *findings)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < findings->len; i++)
    {
      const WeftLintFinding *finding = findings->pdata[i];

      g_string_append_printf (text, "%s %u/%d %s\n", weft_lint_kind_get_name (finding->kind), finding->rule,
                              finding->other, finding->key);
    }
  return g_string_free (g_steal_pointer (&text), FALSE);
}

#define STACK OP_DIM ("MergeModulelist", 0)

static void
test_findings (void)
{
  static const struct
  {
    const gchar *rules;
    const gchar *keys; /* split at spaces; NULL: made from the patterns */
    const gchar *expected;
  } rows[] = {
    { RENAME ("^vit\\\\.", "tower."), NULL, "" },
    /* Converters. */
    { CONVERT ("'e.*.w1'", "'e.up'", STACK) "," CONVERT ("'e.*.w2'", "'e.down'", STACK), NULL, "" },
    { CONVERT ("'.e.*.w1'", "'.e.up'", STACK) "," CONVERT ("'mlp.e.*.w1'", "'mlp.e.up'", STACK), NULL,
      "shadowed 1/0 mlp.e.0.w1\n" },
    { CONVERT ("'mlp.e.*.w1'", "'mlp.e.up'", STACK) "," CONVERT ("'e.*.w1'", "'e.up'", STACK), NULL,
      "overlap 1/0 mlp.e.0.w1\n" },
    { CONVERT ("'mlp.e.*.w1'", "'mlp.e.up'", STACK) "," CONVERT ("'e.*.w1'", "'e.up'", STACK), "a.e.0.w1",
      "" },
    /* Order. */
    { RENAME ("^lm\\\\.head", "head") "," RENAME ("^lm", "model.lm"), NULL, "order 1/0 lm.head\n" },
    { RENAME ("^a\\\\.", "b.") "," RENAME ("^b\\\\.", "c."), NULL, "order 1/0 a.weight\n" },
    { RENAME ("^a\\\\.", "b.") "," RENAME ("^x\\\\.", "c."), NULL, "" },
    { RENAME ("^lm\\\\.head", "head") "," RENAME ("^lm", "model.lm"), "lm.other", "" },
    /* Shadowed. */
    { RENAME (".moe.", ".mlp.") "," RENAME (".moe.bias", ".mlp.bias"), NULL, "shadowed 1/0 x.0.moe.bias\n" },
    /* Irreversible. */
    { "{'type':'WeightRenaming','source_patterns':['^a\\\\.','^b\\\\.'],'target_patterns':['c.']}", NULL,
      "irreversible 0/-1 b.weight\n" },
    { RENAME ("^l\\\\.(?:a|b)\\\\.", "m."), NULL, "irreversible 0/-1 l.a.weight\n" },
    { RENAME ("^l\\\\.\\\\d+\\\\.", "m."), NULL, "irreversible 0/-1 l.0.weight\n" },
    { RENAME ("^l\\\\.(\\\\d+)\\\\.", "m.\\\\1."), NULL, "" },
    { "{'type':'PrefixChange','prefix_to_remove':'bad'}", NULL, "" },
    /* Dots. */
    { RENAME ("mlp.gate", "mlp.router"), "mlp.gate mlp_gate",
      "irreversible 0/-1 mlp_gate\nloose-dot 0/-1 mlp_gate\n" },
    { RENAME ("mlp\\\\.gate", "mlp.router"), "mlp.gate mlp_gate", "" },
    { CONVERT ("'e.*.w1'", "'e.up'", STACK), "e.0.w1 e_0.w1",
      "irreversible 0/-1 e_0.w1\nloose-dot 0/-1 e_0.w1\n" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftTransformList) list = made_mapping (rows[i].rules);
      g_auto (GStrv) keys = rows[i].keys != NULL ? g_strsplit (rows[i].keys, " ", -1) : NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (GPtrArray) findings = weft_mapping_lint (list, (const gchar *const *) keys, NULL, &error);
      g_autofree gchar *found = NULL;

      g_assert_no_error (error);
      found = show (findings);
      g_assert_cmpstr (found, ==, rows[i].expected);
    }
}

/* A list as it is assembled for a model may hold what no mapping alone may: a sub-model's renaming of what the model's
 * converter makes. */
static void
test_rewritten_output (void)
{
  g_autoptr (WeftTransformList) list = made_mapping (CONVERT ("'e.*.w1'", "'e.up'", STACK));
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) findings = NULL;
  g_autofree gchar *found = NULL;

  g_assert_true (weft_transform_list_append_renaming (list, "\\.up", ".raised", &error));
  findings = weft_mapping_lint (list, NULL, NULL, &error);
  g_assert_no_error (error);
  found = show (findings);
  g_assert_cmpstr (found, ==, "rewritten-output 1/0 x.e.up\n");
}

static void
test_cancelled (void)
{
  g_autoptr (WeftTransformList) list = made_mapping (RENAME ("^a\\\\.", "b."));
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;

  g_cancellable_cancel (cancellable);
  g_assert_null (weft_mapping_lint (list, NULL, cancellable, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
}

static void
test_idle (void)
{
  const gchar *const keys[] = { "a.w", "e.0.w1", NULL };
  g_autoptr (WeftTransformList) list = made_mapping (RENAME ("^a\\\\.", "b.") "," RENAME (
      "^z\\\\.", "y.") "," CONVERT ("'e.*.w1'", "'e.up'", STACK) "," CONVERT ("'e.*.w9'", "'e.down'", STACK));
  g_autoptr (GError) error = NULL;
  g_autoptr (GPtrArray) findings = weft_mapping_lint_idle (list, keys, NULL, &error);
  g_autofree gchar *found = NULL;

  g_assert_no_error (error);
  found = show (findings);
  g_assert_cmpstr (found, ==, "idle 1/-1 \nidle 3/-1 \n");
}

/* What runtime names were published as reaches the rules that made them. */
static void
test_guess_published (void)
{
  const gchar *const runtime[] = { "c.0.w", "c.1.w", "l.mlp.up", "y.w", NULL };
  g_autoptr (WeftTransformList) list = made_mapping (
      RENAME ("^a\\\\.", "b.") "," RENAME ("^b\\\\.", "c.") "," RENAME ("^q\\\\.", "p.") "," RENAME (
          "\\\\.moe\\\\.", ".mlp.") "," CONVERT ("'.mlp.*.w1','.mlp.*.w3'", "'.mlp.up'", STACK));
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) published = weft_mapping_guess_published (list, runtime, &error);
  static const gchar *const expected[] = { "c.0.w",      "a.0.w",      "b.0.w",      "l.mlp.up",   "l.moe.up",
                                           "l.mlp.0.w1", "l.moe.0.w1", "l.mlp.0.w3", "l.moe.0.w3", "y.w" };

  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (published), ==, G_N_ELEMENTS (expected));
  for (gsize i = 0; i < G_N_ELEMENTS (expected); i++)
    g_assert_true (g_strv_contains ((const gchar *const *) published, expected[i]));
}

/* Every rule of every shipped mapping is reached by a name that is made for it, but for those that are found shadowed and
 * those without patterns. */
static void
test_samples_reach_every_rule (void)
{
  static const gchar *const unreached[] = { "dory 0", "minimax_m2 3" };
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);
  guint n_unreached = 0;

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autofree gchar *alias_of = weft_mapping_registry_dup_alias (registry, names[i], &error);
      g_autoptr (WeftTransformList) list = weft_mapping_registry_lookup (registry, names[i], &error);
      g_auto (GStrv) keys = weft_mapping_sample_names (list, &error);
      g_autoptr (GPtrArray) idle = weft_mapping_lint_idle (list, (const gchar *const *) keys, NULL, &error);

      g_assert_no_error (error);
      for (guint k = 0; alias_of == NULL && k < idle->len; k++)
        {
          g_autofree gchar *text =
              g_strdup_printf ("%s %u", names[i], ((const WeftLintFinding *) idle->pdata[k])->rule);

          g_assert_cmpuint (n_unreached, <, G_N_ELEMENTS (unreached));
          g_assert_cmpstr (text, ==, unreached[n_unreached++]);
        }
    }
  g_assert_cmpuint (n_unreached, ==, G_N_ELEMENTS (unreached));
}

/* The list with one rule moved before another. */
static WeftTransformList *
move_rule (WeftTransformList *list, guint from, guint to)
{
  g_autoptr (GError) error = NULL;
  WeftTransformList *moved = weft_transform_list_copy (list, &error);
  g_autoptr (WeftWeightTransform) rule = g_object_ref (weft_transform_list_get_transform (moved, from));

  g_assert_no_error (error);
  weft_transform_list_remove (moved, from);
  weft_transform_list_insert (moved, to, rule);
  return moved;
}

static gchar *
rename_by (WeftTransformList *list, const gchar *key)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftRenamedKey) renamed = weft_transform_list_rename_key (list, key, NULL, NULL, &error);

  g_assert_no_error (error);
  return g_strdup (weft_renamed_key_get_name (renamed));
}

/* Shows a finding anew, by nothing but the list itself. */
static void
assert_real (WeftTransformList *list, const WeftLintFinding *finding)
{
  WeftWeightTransform *rule = weft_transform_list_get_transform (list, finding->rule);
  g_autofree gchar *name = rename_by (list, finding->key);

  weft_transform_list_reset (list);
  if (finding->kind == WEFT_LINT_KIND_ORDER)
    {
      g_autoptr (WeftTransformList) moved = move_rule (list, finding->rule, (guint) finding->other);
      g_autofree gchar *other_name = rename_by (moved, finding->key);

      g_assert_cmpstr (name, !=, other_name);
    }
  else if (finding->kind == WEFT_LINT_KIND_SHADOWED)
    {
      g_autofree gchar *alone = weft_weight_transform_rename_key (rule, finding->key, NULL, NULL);
      g_autoptr (WeftRenamedKey) renamed =
          weft_transform_list_rename_key (list, finding->key, NULL, NULL, NULL);

      g_assert_nonnull (alone);
      for (guint i = 0; i < weft_renamed_key_get_n_steps (renamed); i++)
        g_assert_cmpuint (weft_renamed_key_get_step_transform (renamed, i), !=, finding->rule);
    }
  else
    g_assert_cmpint (finding->kind, ==, WEFT_LINT_KIND_IRREVERSIBLE);
}

/* A rule that is called irreversible does not give back a name that it met on the way. */
static gboolean
comes_back (WeftTransformList *list, const WeftLintFinding *finding)
{
  WeftWeightTransform *rule = weft_transform_list_get_transform (list, finding->rule);
  g_autoptr (WeftWeightTransform) inverse = weft_weight_transform_dup_inverse (rule, NULL);
  g_autoptr (GPtrArray) trials = weft_transform_list_explain_key (list, finding->key, NULL);

  for (guint i = 0; i < trials->len; i++)
    {
      const WeftRuleTrial *trial = trials->pdata[i];
      g_autofree gchar *back = NULL;

      if (trial->transform != finding->rule)
        continue;
      g_assert_cmpint (trial->outcome, ==, WEFT_TRIAL_OUTCOME_MATCHED);
      back = weft_weight_transform_rename_key (inverse, trial->after, NULL, NULL);
      return g_strcmp0 (back, trial->before) == 0;
    }
  return TRUE;
}

static void
test_shipped (void)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);
  guint n_findings = 0;

  g_assert_cmpuint (g_strv_length (names), ==, 261);
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTransformList) list = weft_mapping_registry_lookup (registry, names[i], &error);
      g_autoptr (GPtrArray) findings = weft_mapping_lint (list, NULL, NULL, &error);

      g_assert_no_error (error);
      for (guint k = 0; k < findings->len; k++)
        {
          const WeftLintFinding *finding = findings->pdata[k];

          assert_real (list, finding);
          if (finding->kind == WEFT_LINT_KIND_IRREVERSIBLE)
            g_assert_false (comes_back (list, finding));
          n_findings++;
        }
    }
  g_assert_cmpuint (n_findings, >, 100);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/lint/findings", test_findings);
  g_test_add_func ("/lint/rewritten-output", test_rewritten_output);
  g_test_add_func ("/lint/cancelled", test_cancelled);
  g_test_add_func ("/lint/idle", test_idle);
  g_test_add_func ("/lint/guess-published", test_guess_published);
  g_test_add_func ("/lint/samples-reach-every-rule", test_samples_reach_every_rule);
  g_test_add_func ("/lint/shipped", test_shipped);
  return g_test_run ();
}
