/* SPDX-License-Identifier: Apache-2.0 */
/* Single rules: what they make of a key, in and out of scope, in both directions, and what is refused. */
#include <string.h>
#include <weft.h>

/* Lists are written with a blank between patterns. */
static WeftWeightTransform *
new_renaming (const gchar *sources, const gchar *targets, GError **error)
{
  g_auto (GStrv) source_list = g_strsplit (sources, " ", -1);
  g_auto (GStrv) target_list = g_strsplit (targets, " ", -1);

  return weft_weight_renaming_new ((const gchar *const *) source_list, (const gchar *const *) target_list,
                                   error);
}

/* @renamed is %NULL where the rule does not match. */
static void
check_key (WeftWeightTransform *rule, const gchar *key, const gchar *renamed)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *pattern = NULL;
  g_autofree gchar *found = NULL;

  weft_weight_transform_set_used (rule, FALSE);
  found = weft_weight_transform_rename_key (rule, key, &pattern, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (found, ==, renamed);
  g_assert_cmpint (weft_weight_transform_get_used (rule), ==, renamed != NULL);
  g_assert_cmpint (pattern != NULL, ==, renamed != NULL);
}

static void
test_renaming (void)
{
  static const struct
  {
    const gchar *sources;
    const gchar *targets;
    const gchar *key;
    const gchar *renamed;
  } rows[] = {
    /* The match is replaced, not the first occurrence of its text. */
    { "weight_g$", "orig", "weight_g.conv.weight_g", "weight_g.conv.orig" },
    { "norm", "X", "norms.norm.w", "norms.X.w" },
    { "mlp.gate", "mlp.G", "l.0.mlp.gate.weight", "l.0.mlp.G.weight" },
    { "mlp.gate", "mlp.G", "l.0.mlp.gate_proj.weight", NULL },
    { "LayerNorm.gamma", "LayerNorm.weight", "e.LayerNorm.gamma", "e.LayerNorm.weight" },
    { "LayerNorm.gamma", "LayerNorm.weight", "x.LayerNorm.gamma2", NULL },
    { "a\\.(\\d+)\\.", "\\1.\\1.", "a.7.w", "7.7.w" },
    /* Every capture has its number. */
    { "(a)\\.(b)", "\\1-\\2", "a.b", "a-b" },
    { "l\\.\\d", "m", "l.12", NULL },
    { "l\\.\\d", "m", "l.1.w", "m.w" },
    { "^", "model.", "a.b", "model.a.b" },
    { "model.language_model.*", "language_model", "model.language_model.lm_head.weight", "language_model" },
    /* The first target counts, whichever source matched. */
    { "a b", "c", "x.b", "x.c" },
    { "a", "a", "a.w", "a.w" },
    /* An anchor at the end of a target is no text. */
    { "a\\.w$", "a\\.x$", "m.a.w", "m.a.x" },
    { "(\\d+)\\.x|z", "y.\\1", "z", "y." },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftWeightTransform) rule = new_renaming (rows[i].sources, rows[i].targets, &error);

      g_assert_no_error (error);
      check_key (rule, rows[i].key, rows[i].renamed);
    }
}

static void
test_scope (void)
{
  static const struct
  {
    const gchar *scope;
    const gchar *base;
    const gchar *source;
    const gchar *key;
    const gchar *renamed;
  } rows[] = {
    { NULL, NULL, "^old", "old.w", "q.w" },
    { "sub", "model", "^old", "model.sub.old.w", "model.sub.q.w" },
    { "sub", "model", "^old", "sub.old.w", "sub.q.w" },
    { "sub", "model", "old", "x.sub.old.w", NULL },
    { "sub", "model", "old", "subx.old.w", NULL },
    { "", "model", "^old", "model.old.w", "model.q.w" },
    { "", "model", "^old", "old.w", "q.w" },
    /* An unset base prefix is empty. */
    { "sub", NULL, "^old", "sub.old.w", "sub.q.w" },
    { "sub", NULL, "^old", "None.sub.old.w", NULL },
    { "", "", "^old", "old.w", "q.w" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftWeightTransform) rule = new_renaming (rows[i].source, "q", NULL);
      g_autoptr (WeftWeightTransform) copy = NULL;

      weft_weight_transform_set_scope (rule, rows[i].scope, rows[i].base);
      check_key (rule, rows[i].key, rows[i].renamed);
      copy = weft_weight_transform_copy (rule, NULL);
      g_assert_false (weft_weight_transform_get_used (copy));
      check_key (copy, rows[i].key, rows[i].renamed);
    }
}

static void
test_group (void)
{
  const gchar *const sources[] = { "norm0", "norm1", NULL };
  const gchar *const targets[] = { "norm1", "norm2", NULL };
  const gchar *const captured_sources[] = { "b.(\\d+).(n)0", "b.(\\d+).(n)1", NULL };
  const gchar *const captured_targets[] = { "b.\\1.\\2_1", "b.\\1.\\2_2", NULL };
  const gchar *const unsorted_sources[] = { "z", "a", NULL };
  const gchar *const unsorted_targets[] = { "m", "b", NULL };
  g_autoptr (WeftWeightTransform) rule = weft_group_weight_rename_new (sources, targets, NULL);
  g_autoptr (WeftWeightTransform) captured =
      weft_group_weight_rename_new (captured_sources, captured_targets, NULL);
  g_autoptr (WeftWeightTransform) unsorted =
      weft_group_weight_rename_new (unsorted_sources, unsorted_targets, NULL);
  g_autoptr (WeftWeightTransform) inverse = weft_weight_transform_dup_inverse (unsorted, NULL);
  g_autoptr (WeftWeightTransform) copy = NULL;
  g_autoptr (GError) error = NULL;

  check_key (rule, "b.norm1.w", NULL);
  check_key (rule, "a.norm0.w", "a.norm1.w");
  check_key (rule, "b.norm1.w", "b.norm2.w");
  copy = weft_weight_transform_copy (rule, NULL);
  check_key (copy, "b.norm1.w", NULL);
  weft_weight_transform_reset (rule);
  check_key (rule, "b.norm1.w", NULL);

  check_key (captured, "b.3.n0.w", "b.3.n_1.w");
  check_key (captured, "b.3.n1.w", "b.3.n_2.w");

  g_assert_cmpstr (weft_weight_transform_get_written_sources (inverse)[0], ==, "b");
  g_assert_cmpstr (weft_weight_transform_get_written_sources (inverse)[1], ==, "m");
  g_assert_cmpstr (weft_weight_transform_get_written_targets (inverse)[0], ==, "a");
  g_assert_cmpstr (weft_weight_transform_get_written_targets (inverse)[1], ==, "z");

  g_assert_null (weft_group_weight_rename_new (sources, (const gchar *const[]){ "a", NULL }, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
  g_assert_nonnull (strstr (error->message, "2 sources and 1 targets"));
}

static void
test_prefix_change (void)
{
  static const struct
  {
    const gchar *added;
    const gchar *removed;
    const gchar *model_prefix;
    const gchar *key;
    const gchar *renamed;
  } rows[] = {
    { "model", NULL, NULL, "layers.0.w", "model.layers.0.w" },
    { "model", NULL, NULL, "model.layers.0.w", NULL },
    { "model", NULL, NULL, "modelx.y", "model.modelx.y" },
    { "layers", NULL, "model", "model.0.w", "model.layers.0.w" },
    { "layers", NULL, "model", "model.layers.0.w", NULL },
    { "layers", NULL, "model", "x.0.w", NULL },
    { NULL, "bad", NULL, "bad.a", "a" },
    { NULL, "bad", NULL, "badx.a", NULL },
    { NULL, "bad", NULL, "x.bad.a", NULL },
    { NULL, "bad", NULL, "bad.", NULL },
    { NULL, "bad", "model.layers", "model.layers.bad.0.w", "model.layers.0.w" },
  };
  g_autoptr (GError) neither = NULL;
  g_autoptr (GError) both = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftWeightTransform) rule =
          weft_prefix_change_new (rows[i].added, rows[i].removed, rows[i].model_prefix, NULL);
      g_autoptr (WeftWeightTransform) inverse = weft_weight_transform_dup_inverse (rule, NULL);

      check_key (rule, rows[i].key, rows[i].renamed);
      if (rows[i].renamed != NULL)
        check_key (inverse, rows[i].renamed, rows[i].key);
    }
  g_assert_null (weft_prefix_change_new (NULL, NULL, NULL, &neither));
  g_assert_error (neither, WEFT_ERROR, WEFT_ERROR_PATTERN);
  g_assert_null (weft_prefix_change_new ("a", "b", NULL, &both));
  g_assert_error (both, WEFT_ERROR, WEFT_ERROR_PATTERN);
}

static void
test_reversal (void)
{
  static const struct
  {
    const gchar *source;
    const gchar *target;
    const gchar *reversed_source;
    const gchar *reversed_target;
    const gchar *key;
    const gchar *reverted;
  } rows[] = {
    { "^model\\.vision\\.", "vision.", "^vision.", "model.vision.", "vision.q", "model.vision.q" },
    { "^model\\.vision\\.", "vision.", "^vision.", "model.vision.", "xvision.q", NULL },
    { "layers.(\\d+).fc1", "layers.\\1.mlp.fc1", "layers.(\\d+).mlp.fc1", "layers.\\1.fc1",
      "layers.3.mlp.fc1.weight", "layers.3.fc1.weight" },
    /* The anchor at the end goes with the source, in both directions. */
    { "a\\.w$", "a\\.x$", "a\\.x$", "a.w", "m.a.x", "m.a.w" },
    { "a\\.w$", "a\\.x$", "a\\.x$", "a.w", "m.a.x.y", NULL },
    { "weight_g$", "orig", "orig$", "weight_g", "c.orig", "c.weight_g" },
    { "weight_g$", "orig", "orig$", "weight_g", "c.orig.x", NULL },
    /* Wildcards of the source become text of the name. */
    { "l.*.x", "y", "y", "l.*.x", "y", "l.*.x" },
  };
  g_autoptr (WeftWeightTransform) irreversible = new_renaming ("(a).(b)", "\\1-\\2", NULL);
  g_autoptr (GError) error = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) row_error = NULL;
      g_autoptr (WeftWeightTransform) rule = new_renaming (rows[i].source, rows[i].target, NULL);
      g_autoptr (WeftWeightTransform) inverse = NULL;

      weft_weight_transform_set_origin (rule, "test", i);
      inverse = weft_weight_transform_dup_inverse (rule, &row_error);
      g_assert_no_error (row_error);
      g_assert_cmpstr (weft_weight_transform_get_source_patterns (inverse)[0], ==, rows[i].reversed_source);
      g_assert_cmpstr (weft_weight_transform_get_target_patterns (inverse)[0], ==, rows[i].reversed_target);
      g_assert_cmpstr (weft_weight_transform_get_origin (inverse), ==, "test");
      g_assert_cmpuint (weft_weight_transform_get_origin_index (inverse), ==, i);
      check_key (inverse, rows[i].key, rows[i].reverted);
    }
  g_assert_null (weft_weight_transform_dup_inverse (irreversible, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE);
}

static void
test_errors (void)
{
  static const struct
  {
    const gchar *sources;
    const gchar *targets;
    const gchar *message;
  } rows[] = {
    { "a", "(a)b (c)d", "write the same group in every target" },
    { "x\\1", "y", "no target has a group" },
    { "a(", "b", "no valid regular expression" },
    { "a", "b.\\1", "refers to capture 1" },
    { "(a).x b.x", "c.\\1", "refers to capture 1" },
    { "(a).x", "c.\\2", "refers to capture 2" },
    { "a", "b.*.c", "holds a '*'" },
  };
  const gchar *const none[] = { NULL };
  const gchar *const one[] = { "a", NULL };
  g_autoptr (GError) empty = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (new_renaming (rows[i].sources, rows[i].targets, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
      g_assert_nonnull (strstr (error->message, rows[i].message));
      g_assert_true (g_str_has_prefix (error->message, "WeightRenaming '"));
    }
  g_assert_null (weft_weight_renaming_new (none, one, &empty));
  g_assert_error (empty, WEFT_ERROR, WEFT_ERROR_PATTERN);
}

static void
test_names (void)
{
  /* Lists are written with a blank between names. */
  static const struct
  {
    const gchar *layer;
    const gchar *names;
    const gchar *full_names;
  } rows[] = {
    { "m.0.attn.q.weight", "attn.q attn.k", "m.0.attn.q.weight m.0.attn.k.weight" },
    { "m.k.w", "q k", "m.q.w m.k.w" },
    { "q.a.q.w", "q k", "q.a.q.w k.a.q.w" },
    { "m.e.*.w", "e.0.w e.1.w", "m.e.0.w m.e.1.w" },
    { "m.x", "full.name", "full.name" },
    { "m.x", "x x", NULL },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (GStrv) names = g_strsplit (rows[i].names, " ", -1);
      g_autoptr (GError) error = NULL;
      g_auto (GStrv) full_names =
          weft_transform_expand_names (rows[i].layer, (const gchar *const *) names, &error);
      g_autofree gchar *joined = full_names != NULL ? g_strjoinv (" ", full_names) : NULL;

      g_assert_cmpstr (joined, ==, rows[i].full_names);
      if (full_names == NULL)
        g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/transform/renaming", test_renaming);
  g_test_add_func ("/transform/scope", test_scope);
  g_test_add_func ("/transform/group", test_group);
  g_test_add_func ("/transform/prefix-change", test_prefix_change);
  g_test_add_func ("/transform/reversal", test_reversal);
  g_test_add_func ("/transform/errors", test_errors);
  g_test_add_func ("/transform/names", test_names);
  return g_test_run ();
}
