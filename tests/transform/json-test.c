/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings as JSON: what is read comes back; what is wrong is refused with its place. And the two kinds of rule that are
 * plugins. */
#include <string.h>
#include <weft.h>

static WeftTransformList *
read_list (const gchar *text, GError **error)
{
  g_autofree gchar *proper = g_strdelimit (g_strdup (text), "'", '"');
  g_autoptr (JsonNode) root = weft_json_parse (proper, -1, "test.json", error);

  return root != NULL ? weft_mapping_new_from_json (root, "test", "test.json", error) : NULL;
}

static void
test_round_trip (void)
{
  static const gchar *const rows[] = {
    "[{'type':'WeightRenaming','source_patterns':['a'],'target_patterns':['^b']}]",
    "[{'type':'WeightRenaming','source_patterns':['a.b'],'target_patterns':['c'],'match_patterns':['a\\\\.b']}]",
    "[{'type':'PrefixChange','prefix_to_add':'model'}]",
    "[{'type':'PrefixChange','prefix_to_remove':'model','model_prefix':'base'}]",
    "[{'type':'GroupWeightRename','source_patterns':['a','b'],'target_patterns':['b','c']}]",
    ("[{'type':'WeightConverter','source_patterns':['a.*.w'],'target_patterns':['b'],"
     "'operations':[{'type':'MergeModulelist','dim':0}],'force_cpu':true}]"),
    "[{'type':'Inkling2IndexOffsetWeightRename','source_patterns':['q.(\\\\d+)'],'target_patterns':['l.\\\\1.q'],'offset':-2}]",
    "[{'type':'LayerPairCollapse'}]",
    "[]",
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTransformList) list = read_list (rows[i], &error);
      g_autofree gchar *expected = g_strdelimit (g_strdup (rows[i]), "'", '"');

      g_assert_no_error (error);
      g_autoptr (JsonNode) written = weft_mapping_to_json (list);
      g_autofree gchar *text = weft_json_to_text (written, FALSE);
      g_autoptr (JsonNode) expected_node = weft_json_parse (expected, -1, "expected", NULL);
      g_autofree gchar *expected_text = weft_json_to_text (expected_node, FALSE);
      g_assert_cmpstr (text, ==, expected_text);
    }
}

static void
test_errors (void)
{
  static const struct
  {
    const gchar *text;
    gint code;
    const gchar *message;
  } rows[] = {
    { "{}", WEFT_ERROR_FORMAT, "test.json: expected a list" },
    { "[1]", WEFT_ERROR_FORMAT, "test.json[0]: expected a rule" },
    { "[{}]", WEFT_ERROR_FORMAT, "test.json[0].type: expected the kind" },
    { "[{'type':7}]", WEFT_ERROR_FORMAT, "test.json[0].type: expected the kind" },
    { "[{'type':'Nothing'}]", WEFT_ERROR_MISSING, "Nothing" },
    { "[{'type':'WeightRenaming','source':'a'}]", WEFT_ERROR_FORMAT, "test.json[0].source: no such member" },
    { "[{'type':'WeightRenaming','source_patterns':[1]}]", WEFT_ERROR_FORMAT,
      "test.json[0].source_patterns: expected" },
    { "[{'type':'WeightRenaming','source_patterns':['a']}]", WEFT_ERROR_PATTERN,
      "test, rule 0: WeightRenaming" },
    { "[{'type':'WeightRenaming','source_patterns':['a'],'target_patterns':[]}]", WEFT_ERROR_PATTERN,
      "no target patterns" },
    { "[{'type':'WeightRenaming','source_patterns':['a'],'target_patterns':['b'],'match_patterns':['a','b']}]",
      WEFT_ERROR_PATTERN, "2 match patterns and 1 sources" },
    { "[{'type':'PrefixChange'}]", WEFT_ERROR_PATTERN, "exactly one" },
    { "[{'type':'PrefixChange','prefix_to_add':3}]", WEFT_ERROR_FORMAT,
      "prefix_to_add: expected a string or null" },
    { "[{'type':'WeightConverter','source_patterns':['a'],'target_patterns':['b'],'operations':[]}]",
      WEFT_ERROR_PATTERN, "at least one operation" },
    { "[{'type':'WeightConverter','source_patterns':['a','b'],'target_patterns':['c','d'],'operations':[]}]",
      WEFT_ERROR_PATTERN, "2 sources and 2 targets" },
    { "[{'type':'WeightConverter','source_patterns':['a'],'target_patterns':['b'],'operations':[{'type':'Nothing'}]}]",
      WEFT_ERROR_MISSING, "operations[0]" },
    { "[{'type':'WeightConverter','source_patterns':['a'],'target_patterns':['b'],'operations':[{}]}]",
      WEFT_ERROR_FORMAT, "operations[0].type" },
    { "[{'type':'WeightConverter','source_patterns':['a'],'target_patterns':['b'],'operations':[7]}]",
      WEFT_ERROR_FORMAT, "operations" },
    { "[{'type':'WeightConverter','source_patterns':['a'],'target_patterns':['b'],'force_cpu':1}]",
      WEFT_ERROR_FORMAT, "force_cpu: expected true or false" },
    /* Chunk does not number its outputs: every layer would be merged into one tensor. */
    { "[{'type':'WeightConverter','source_patterns':['layers.*.qkv'],'target_patterns':['layers.*.q','layers.*.k'],"
      "'operations':[{'type':'Chunk','dim':0,'num_shards_attribute':null}]}]",
      WEFT_ERROR_PATTERN, "holds a '*'" },
    { "[{'type':'Inkling2IndexOffsetWeightRename','source_patterns':['q'],'target_patterns':['l'],'offset':'x'}]",
      WEFT_ERROR_FORMAT, "offset: expected a number" },
    { "[{'type':'Inkling2IndexOffsetWeightRename','source_patterns':['q'],'target_patterns':['l'],'offset':99999999999}]",
      WEFT_ERROR_FORMAT, "offset: expected a number" },
    /* Renamings run first: this one would never see what the converter makes. */
    { "[{'type':'WeightConverter','source_patterns':['w1','w3'],'target_patterns':['gate_up'],"
      "'operations':[{'type':'Concatenate','dim':0}]},"
      "{'type':'WeightRenaming','source_patterns':['gate_up'],'target_patterns':['fused']}]",
      WEFT_ERROR_PATTERN, "renamings run before converters" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autoptr (GError) error = NULL;

      g_test_message ("%s", rows[i].text);
      g_assert_null (read_list (rows[i].text, &error));
      g_assert_error (error, WEFT_ERROR, rows[i].code);
      g_test_message ("%s", error->message);
      g_assert_nonnull (strstr (error->message, rows[i].message));
    }
}

/* In front of the converter a renaming of that text is meant for published names. */
static void
test_order_is_sound (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTransformList) list = read_list (
      "[{'type':'WeightRenaming','source_patterns':['\\\\.attn\\\\.'],'target_patterns':['.self_attn.']},"
      "{'type':'WeightConverter','source_patterns':['attn.in_proj'],'target_patterns':['attn.q','attn.k'],"
      "'operations':[{'type':'Chunk','dim':0}]}]",
      &error);

  g_assert_no_error (error);
  g_assert_nonnull (list);
}

static void
check_rule (WeftTransformList *list, const gchar *key, const gchar *renamed, const gchar *reverted)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTransformList) inverse =
      weft_transform_list_dup_inverse (list, WEFT_INVERSE_FLAGS_NONE, &error);
  g_autoptr (WeftRenamedKey) there = weft_transform_list_rename_key (list, key, NULL, NULL, &error);
  g_autoptr (WeftRenamedKey) back = NULL;

  g_assert_no_error (error);
  g_assert_cmpstr (weft_renamed_key_get_name (there), ==, renamed);
  back = weft_transform_list_rename_key (inverse, renamed, NULL, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpstr (weft_renamed_key_get_name (back), ==, reverted);
}

static void
test_index_offset (void)
{
  g_autoptr (WeftTransformList) list = read_list (
      "[{'type':'Inkling2IndexOffsetWeightRename','source_patterns':['q\\\\.(\\\\d+)'],'target_patterns':['layers.\\\\1.q'],"
      "'offset':1}]",
      NULL);
  g_autoptr (WeftTransformList) words = read_list (
      "[{'type':'Inkling2IndexOffsetWeightRename','source_patterns':['q\\\\.(.+)'],'target_patterns':['layers.\\\\1.q'],"
      "'offset':1}]",
      NULL);
  g_autoptr (GError) error = NULL;

  check_rule (list, "q.0.w", "layers.1.q.w", "q.0.w");
  g_assert_null (weft_transform_list_rename_key (words, "q.x", NULL, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN);
  g_assert_nonnull (strstr (error->message, "test, rule 0"));
}

static void
test_layer_pair_collapse (void)
{
  g_autoptr (WeftTransformList) list = read_list ("[{'type':'LayerPairCollapse'}]", NULL);
  static const gchar *const rows[][2] = {
    { "layers.0.mixer.q_proj.weight", "layers.0.self_attn.q_proj.weight" },
    { "layers.7.mixer.x", "layers.3.mlp.x" },
    { "layers.1.mlp_alpha", "layers.0.lambda_2" },
    { "layers.5.attn_alpha", "layers.2.lambda_1" },
    { "m.layers.2.mixers.x", "m.layers.2.mixers.x" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    check_rule (list, rows[i][0], rows[i][1], rows[i][1]);
  weft_weight_transform_set_scope (weft_transform_list_get_transform (list, 0), "elsewhere", NULL);
  check_rule (list, rows[0][0], rows[0][1], rows[0][1]);
}

/* Nesting that the parser's recursion cannot bear is refused; a comment, which could hide a quote, is no JSON. */
static void
test_depth (void)
{
  static const struct
  {
    const gchar *before;
    gsize n_open;
    WeftError code;
  } cases[] = {
    { "", 100, WEFT_ERROR_FORMAT },
    { "", 128, WEFT_ERROR_LIMIT },
    { "", 1000000, WEFT_ERROR_LIMIT },
    { "/*\"*/", 1000000, WEFT_ERROR_FORMAT },
  };

  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree gchar *brackets = g_strnfill (cases[i].n_open, '[');
      g_autofree gchar *text = g_strconcat (cases[i].before, brackets, NULL);
      g_autoptr (GError) error = NULL;

      g_assert_null (weft_json_parse (text, -1, "text", &error));
      g_assert_error (error, WEFT_ERROR, (gint) cases[i].code);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/json/round-trip", test_round_trip);
  g_test_add_func ("/json/errors", test_errors);
  g_test_add_func ("/json/order-is-sound", test_order_is_sound);
  g_test_add_func ("/json/index-offset", test_index_offset);
  g_test_add_func ("/json/layer-pair-collapse", test_layer_pair_collapse);
  g_test_add_func ("/json/depth", test_depth);
  return g_test_run ();
}
