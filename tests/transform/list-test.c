/* SPDX-License-Identifier: Apache-2.0 */
/* One key through a list of rules: order, the one converter, prefix repair, the way back, and explanations. */
#include <string.h>
#include <weft.h>

static WeftTransformList *
read_list (const gchar *text)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) root = weft_json_parse (text, -1, "test", &error);
  WeftTransformList *list;

  g_assert_no_error (error);
  list = weft_mapping_new_from_json (root, "test", "test", &error);
  g_assert_no_error (error);
  return list;
}

#define RENAMING(source, target) \
  "{\"type\": \"WeightRenaming\", \"source_patterns\": \"" source "\", \"target_patterns\": \"" target "\"}"

#define MERGE_AND_SPLIT                                                                                             \
  "[" RENAMING ("^decoder", "encoder") "," RENAMING (                                                               \
      "encoder",                                                                                                    \
      "enc") ", {\"type\": \"WeightConverter\", \"source_patterns\": \"qkv\", \"target_patterns\": [\"q\", \"k\"]," \
             "   \"operations\": [{\"type\": \"Chunk\", \"dim\": 0}]},"                                             \
             "  {\"type\": \"WeightConverter\", \"source_patterns\": \"qkv\", \"target_patterns\": [\"x\", \"y\"]," \
             "   \"operations\": [{\"type\": \"Chunk\", \"dim\": 0}]}]"

static void
test_order (void)
{
  g_autoptr (WeftTransformList) list = read_list (MERGE_AND_SPLIT);
  g_autoptr (WeftRenamedKey) key = weft_transform_list_rename_key (list, "decoder.qkv", NULL, NULL, NULL);

  g_assert_cmpstr (weft_renamed_key_get_name (key), ==, "enc.q");
  g_assert_cmpint (weft_renamed_key_get_converter (key), ==, 2);
  g_assert_cmpstr (weft_renamed_key_get_converter_pattern (key), ==, "qkv");
  g_assert_cmpstr (weft_renamed_key_get_converter_input (key), ==, "enc.qkv");
  g_assert_cmpuint (weft_renamed_key_get_n_steps (key), ==, 3);
  g_assert_true (weft_weight_transform_get_used (weft_transform_list_get_transform (list, 2)));
  g_assert_false (weft_weight_transform_get_used (weft_transform_list_get_transform (list, 3)));
}

static void
test_save_order (void)
{
  g_autoptr (WeftTransformList) list = read_list (MERGE_AND_SPLIT);
  g_autoptr (WeftRenamedKey) loaded = weft_transform_list_rename_key (list, "decoder.qkv", NULL, NULL, NULL);
  g_autoptr (WeftTransformList) inverse =
      weft_transform_list_dup_inverse (list, WEFT_INVERSE_FLAGS_ONLY_USED, NULL);
  g_autoptr (WeftRenamedKey) saved = NULL;
  g_autoptr (WeftRenamedKey) plain = NULL;
  g_autofree gchar *output = NULL;

  g_assert_nonnull (loaded);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (inverse), ==, 3);
  /* The converter alone; its output then goes through the renamings, last one first. */
  saved = weft_transform_list_rename_key (inverse, "enc.k", NULL, NULL, NULL);
  g_assert_cmpstr (weft_renamed_key_get_name (saved), ==, "enc.qkv");
  output = weft_transform_list_rename_output (inverse, "enc.qkv", NULL);
  g_assert_cmpstr (output, ==, "decoder.qkv");
  plain = weft_transform_list_rename_key (inverse, "enc.norm", NULL, NULL, NULL);
  g_assert_cmpstr (weft_renamed_key_get_name (plain), ==, "decoder.norm");
  g_assert_cmpint (weft_renamed_key_get_converter (plain), ==, -1);
}

static void
test_chain_and_way_back (void)
{
  g_autoptr (WeftTransformList) list =
      read_list ("[" RENAMING ("^a", "b") "," RENAMING ("^x", "a") "," RENAMING ("^a", "c") "]");
  static const gchar *const rows[][2] = { { "a.w", "b.w" }, { "x.w", "c.w" } };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (WeftRenamedKey) key = weft_transform_list_rename_key (list, rows[i][0], NULL, NULL, NULL);
      g_autoptr (WeftTransformList) inverse =
          weft_transform_list_dup_inverse (list, WEFT_INVERSE_FLAGS_NONE, NULL);
      g_autoptr (WeftRenamedKey) back =
          weft_transform_list_rename_key (inverse, rows[i][1], NULL, NULL, NULL);

      g_assert_cmpstr (weft_renamed_key_get_name (key), ==, rows[i][1]);
      g_assert_cmpstr (weft_renamed_key_get_name (back), ==, rows[i][0]);
    }
}

static GHashTable *
new_set (const gchar *names)
{
  g_auto (GStrv) list = g_strsplit (names, " ", -1);
  GHashTable *set = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  for (guint i = 0; list[i] != NULL; i++)
    g_hash_table_add (set, g_strdup (list[i]));
  return set;
}

static void
test_prefix_repair (void)
{
  static const struct
  {
    const gchar *prefix;
    const gchar *key;
    const gchar *repaired;
  } rows[] = {
    /* A name that the model knows is kept. */
    { "model", "model.x", "model.x" },
    { "model", "x", "x" },
    { "model", "y", "model.y" },
    { "model", "model.ayer.w", "ayer.w" },
    /* The dot after the prefix is a dot, and an empty prefix strips nothing. */
    { "model", "model_x", "model_x" },
    { "", "layer.w", "layer.w" },
    { NULL, "y", "y" },
    { "model", "z", "z" },
  };
  g_autoptr (GHashTable) model_keys = new_set ("x model.x model.y ayer.w layer.w");

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *repaired = weft_transform_repair_prefix (rows[i].key, rows[i].prefix, model_keys);

      g_assert_cmpstr (repaired, ==, rows[i].repaired);
    }
}

/* A model that knows the published name and not the new one keeps it, and the rule does not count as used. */
static void
test_kept (void)
{
  g_autoptr (WeftTransformList) list = read_list ("[" RENAMING ("^decoder", "encoder") "]");
  g_autoptr (GHashTable) model_keys = new_set ("decoder.w model.encoder.v");
  g_autoptr (WeftRenamedKey) kept =
      weft_transform_list_rename_key (list, "decoder.w", "model", model_keys, NULL);

  g_assert_cmpstr (weft_renamed_key_get_name (kept), ==, "decoder.w");
  g_assert_true (weft_renamed_key_is_kept (kept));
  g_assert_cmpuint (weft_renamed_key_get_n_steps (kept), ==, 0);
  g_assert_false (weft_weight_transform_get_used (weft_transform_list_get_transform (list, 0)));

  g_autoptr (WeftRenamedKey) renamed =
      weft_transform_list_rename_key (list, "decoder.v", "model", model_keys, NULL);
  g_assert_cmpstr (weft_renamed_key_get_name (renamed), ==, "model.encoder.v");
  g_assert_true (weft_weight_transform_get_used (weft_transform_list_get_transform (list, 0)));
}

static void
test_explain (void)
{
  static const WeftTrialOutcome outcomes[] = {
    WEFT_TRIAL_OUTCOME_MATCHED, WEFT_TRIAL_OUTCOME_NO_MATCH, WEFT_TRIAL_OUTCOME_OUT_OF_SCOPE,
    WEFT_TRIAL_OUTCOME_WAITING, WEFT_TRIAL_OUTCOME_MATCHED,  WEFT_TRIAL_OUTCOME_NOT_TRIED
  };
  g_autoptr (WeftTransformList) list = read_list ("[" RENAMING ("^a", "b") "," RENAMING ("zzz", "y") "," RENAMING (
      "b",
      "c") ", {\"type\": \"GroupWeightRename\", \"source_patterns\": [\"n0\", \"n1\"], \"target_patterns\": [\"n1\", \"n2\"]},"
           "  {\"type\": \"WeightConverter\", \"source_patterns\": \"n1\", \"target_patterns\": [\"q\", \"k\"],"
           "   \"operations\": [{\"type\": \"Chunk\", \"dim\": 0}]},"
           "  {\"type\": \"WeightConverter\", \"source_patterns\": \"n1\", \"target_patterns\": [\"x\", \"y\"],"
           "   \"operations\": [{\"type\": \"Chunk\", \"dim\": 0}]}]");
  g_autoptr (GPtrArray) trials = NULL;

  weft_weight_transform_set_scope (weft_transform_list_get_transform (list, 2), "vision", NULL);
  trials = weft_transform_list_explain_key (list, "a.n1", NULL);
  g_assert_cmpuint (trials->len, ==, G_N_ELEMENTS (outcomes));
  for (guint i = 0; i < trials->len; i++)
    {
      const WeftRuleTrial *trial = trials->pdata[i];

      g_assert_cmpuint (trial->transform, ==, i);
      g_assert_cmpint (trial->outcome, ==, outcomes[i]);
      g_assert_cmpint (trial->after != NULL, ==, trial->outcome == WEFT_TRIAL_OUTCOME_MATCHED);
      g_assert_false (weft_weight_transform_get_used (weft_transform_list_get_transform (list, i)));
    }
  g_assert_cmpstr (((WeftRuleTrial *) trials->pdata[4])->before, ==, "b.n1");
  g_assert_cmpstr (((WeftRuleTrial *) trials->pdata[4])->after, ==, "b.q");
  g_assert_cmpstr (((WeftRuleTrial *) trials->pdata[4])->source_pattern, ==, "n1");
}

static void
test_resolve_targets (void)
{
  g_autoptr (WeftTransformList) list =
      read_list ("[{\"type\": \"WeightConverter\", \"source_patterns\": \"layers.(\\\\d+).qkv\","
                 "  \"target_patterns\": [\"layers.\\\\1.q\", \"layers.\\\\1.k\"],"
                 "  \"operations\": [{\"type\": \"Chunk\", \"dim\": 0}]}]");
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) targets = weft_weight_transform_resolve_targets (weft_transform_list_get_transform (list, 0),
                                                                  "m.layers.7.qkv.weight", &error);

  g_assert_no_error (error);
  g_assert_cmpuint (g_strv_length (targets), ==, 2);
  g_assert_cmpstr (targets[0], ==, "layers.7.q");
  g_assert_cmpstr (targets[1], ==, "layers.7.k");
  g_assert_null (
      weft_weight_transform_resolve_targets (weft_transform_list_get_transform (list, 0), "x", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
}

/* A hundred thousand keys through twelve rules. */
static void
test_speed (void)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftTransformList) list = weft_mapping_registry_lookup (registry, "mixtral", NULL);
  g_autoptr (WeftTransformList) legacy = weft_mapping_registry_lookup (registry, "legacy", NULL);
  g_autoptr (WeftTransformList) llava = weft_mapping_registry_lookup (registry, "llava", NULL);
  const guint n_keys = g_test_perf () ? 100000 : 10000;
  gdouble seconds;

  weft_transform_list_append_list (list, llava);
  weft_transform_list_append_list (list, legacy);
  g_test_timer_start ();
  for (guint i = 0; i < n_keys; i++)
    {
      g_autofree gchar *key = g_strdup_printf ("model.layers.%u.block_sparse_moe.experts.%u.w%u.weight",
                                               i / 800, i / 3 % 256, 1 + i % 3);
      g_autoptr (WeftRenamedKey) renamed = weft_transform_list_rename_key (list, key, NULL, NULL, NULL);

      g_assert_cmpint (weft_renamed_key_get_converter (renamed), >=, 0);
    }
  seconds = g_test_timer_elapsed ();
  g_test_minimized_result (seconds, "%u keys through %u rules: %.3f s", n_keys,
                           weft_transform_list_get_n_transforms (list), seconds);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/list/order", test_order);
  g_test_add_func ("/list/save-order", test_save_order);
  g_test_add_func ("/list/chain-and-way-back", test_chain_and_way_back);
  g_test_add_func ("/list/prefix-repair", test_prefix_repair);
  g_test_add_func ("/list/kept", test_kept);
  g_test_add_func ("/list/explain", test_explain);
  g_test_add_func ("/list/resolve-targets", test_resolve_targets);
  g_test_add_func ("/list/speed", test_speed);
  return g_test_run ();
}
