/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank adapters by the rules of their model: where every number lands, what the config says, what is refused. */
#include "made-checkpoint-private.h"

#define P "base_model.model.model.layers.0."
#define Q "model.layers.0."
#define EXPERT(e, w, a, b)                                                                              \
  P "block_sparse_moe.experts." #e "." w ".lora_A.weight: F32[" a "\n" P "block_sparse_moe.experts." #e \
    "." w ".lora_B.weight: F32[" b "\n"

/* 3 experts, rank 2, h = 2, i = 2. A: (2, 2), rows 1eR for w1, 2eR for w3; B: (2, 2), columns by rank. Numbers say expert and rank. */
#define GATE_UP                                                        \
  EXPERT (0, "w1", "2,2] 100 100 101 101", "2,2] 1000 1001 1010 1011") \
  EXPERT (0, "w3", "2,2] 200 200 201 201", "2,2] 2000 2001 2010 2011") \
  EXPERT (1, "w1", "2,2] 110 110 111 111", "2,2] 1100 1101 1110 1111") \
  EXPERT (1, "w3", "2,2] 210 210 211 211", "2,2] 2100 2101 2110 2111") \
  EXPERT (2, "w1", "2,2] 120 120 121 121", "2,2] 1200 1201 1210 1211") \
  EXPERT (2, "w3", "2,2] 220 220 221 221", "2,2] 2200 2201 2210 2211")
#define DOWN                                                           \
  EXPERT (0, "w2", "2,2] 300 300 301 301", "2,2] 3000 3001 3010 3011") \
  EXPERT (1, "w2", "2,2] 310 310 311 311", "2,2] 3100 3101 3110 3111") \
  EXPERT (2, "w2", "2,2] 320 320 321 321", "2,2] 3200 3201 3210 3211")

static const struct
{
  const gchar *name;
  const gchar *base;
  const gchar *adapter_config;
  const gchar *published;
  const gchar *runtime;
  /* Members of the converted config, as compact JSON. */
  const gchar *target_modules;
  const gchar *target_parameters;
  const gchar *rank_pattern;
  const gchar *alpha_pattern;
} rows[] = {
  { "dense", "{'model_type':'llama'}",
    "{'peft_type':'LORA','r':1,'lora_alpha':2,'target_modules':['q_proj']}",
    P "self_attn.q_proj.lora_A.weight: F32[1,2] 1\n" P "self_attn.q_proj.lora_B.weight: F32[2,1] 3\n",
    Q "self_attn.q_proj.lora_A.default.weight: F32[1,2] 1 2\n" Q
      "self_attn.q_proj.lora_B.default.weight: F32[2,1] 3 4\n",
    "[\"q_proj\"]", NULL, NULL, NULL },
  { "dense/rank-two", "{'model_type':'llama'}",
    "{'peft_type':'LORA','r':2,'lora_alpha':4,'target_modules':['q_proj','down_proj']}",
    P "self_attn.q_proj.lora_A.weight: F32[2,3] 100 101 102 110 111 112\n" P
      "self_attn.q_proj.lora_B.weight: F32[3,2] 200 201 210 211 220 221\n" P
      "mlp.down_proj.lora_A.weight: F32[2,1] 300 310\n" P
      "mlp.down_proj.lora_B.weight: F32[3,2] 400 401 410 411 420 421\n",
    Q "mlp.down_proj.lora_A.default.weight: F32[2,1] 300 310\n" Q
      "mlp.down_proj.lora_B.default.weight: F32[3,2] 400 401 410 411 420 421\n" Q
      "self_attn.q_proj.lora_A.default.weight: F32[2,3] 100 101 102 110 111 112\n" Q
      "self_attn.q_proj.lora_B.default.weight: F32[3,2] 200 201 210 211 220 221\n",
    "[\"q_proj\",\"down_proj\"]", NULL, NULL, NULL },
  /* A base model without a head. */
  { "dense/base-model", "{'model_type':'llama'}",
    "{'peft_type':'LORA','r':1,'lora_alpha':2,'target_modules':['q_proj']}",
    "base_model.model.layers.0.q_proj.lora_A.weight: F32[1,1] 1\nbase_model.model.layers.0.q_proj.lora_B.weight: F32[1,1] 2\n",
    "layers.0.q_proj.lora_A.default.weight: F32[1,1] 1\nlayers.0.q_proj.lora_B.default.weight: F32[1,1] 2\n",
    "[\"q_proj\"]", NULL, NULL, NULL },
  /* Old names of the base model. */
  { "dense/renamed", "{'model_type':'mixtral'}",
    "{'peft_type':'LORA','r':1,'lora_alpha':2,'target_modules':['gate']}",
    P "block_sparse_moe.gate.lora_A.weight: F32[1,1] 1\n" P
      "block_sparse_moe.gate.lora_B.weight: F32[1,1] 2\n",
    Q "mlp.gate.lora_A.default.weight: F32[1,1] 1\n" Q "mlp.gate.lora_B.default.weight: F32[1,1] 2\n",
    "[\"gate\"]", NULL, NULL, NULL },
  /* A has rows (expert, source, rank); B columns rank * 3 + expert, where ranks 0 and 1 are those of w1, 2 and 3 those of w3. */
  { "experts/gate-up", "{'model_type':'mixtral'}",
    "{'peft_type':'LORA','r':2,'lora_alpha':4,'target_modules':['w1','w3','q_proj']}", GATE_UP,
    Q
    "mlp.experts.base_layer.lora_A.default.weight: F32[12,2] 100 100 101 101 200 200 201 201 110 110 111 111 210 210 211 211 120 120 121 121 220 220 221 221\n" Q
    "mlp.experts.base_layer.lora_B.default.weight: F32[4,12] "
    "1000 1100 1200 1001 1101 1201 0 0 0 0 0 0 1010 1110 1210 1011 1111 1211 0 0 0 0 0 0 "
    "0 0 0 0 0 0 2000 2100 2200 2001 2101 2201 0 0 0 0 0 0 2010 2110 2210 2011 2111 2211\n",
    "[\"q_proj\"]", "[\"experts.gate_up_proj\"]", "{\".*\\\\.experts\\\\.gate_up_proj\":4}",
    "{\".*\\\\.experts\\\\.gate_up_proj\":8}" },
  { "experts/down", "{'model_type':'mixtral'}",
    "{'peft_type':'LORA','r':2,'lora_alpha':4,'target_modules':['w2']}", DOWN,
    Q
    "mlp.experts.lora_A.default.weight: F32[6,2] 300 300 301 301 310 310 311 311 320 320 321 321\n" Q
    "mlp.experts.lora_B.default.weight: F32[2,6] 3000 3100 3200 3001 3101 3201 3010 3110 3210 3011 3111 3211\n",
    "[]", "[\"experts.down_proj\"]", NULL, NULL },
  /* What the config says of other modules stays. */
  { "experts/rank-of-another-module", "{'model_type':'mixtral'}",
    "{'peft_type':'LORA','r':1,'lora_alpha':3,'use_rslora':false,'target_modules':['w1','w3'],'rank_pattern':{'q_proj':9}}",
    EXPERT (0, "w1", "1,1] 1", "1,1] 2") EXPERT (0, "w3", "1,1] 3", "1,1] 4"),
    Q "mlp.experts.base_layer.lora_A.default.weight: F32[2,1] 1 3\n" Q
      "mlp.experts.base_layer.lora_B.default.weight: F32[2,2] 2 0 0 4\n",
    "[]", "[\"experts.gate_up_proj\"]", "{\"q_proj\":9,\".*\\\\.experts\\\\.gate_up_proj\":2}",
    "{\".*\\\\.experts\\\\.gate_up_proj\":6}" },
  /* A module of that name that is not one of the experts stays named. */
  { "experts/shared-expert", "{'model_type':'qwen2_moe'}",
    "{'peft_type':'LORA','r':1,'lora_alpha':1,'target_modules':['gate_proj','up_proj']}",
    P "mlp.experts.0.gate_proj.lora_A.weight: F32[1,1] 1\n" P
      "mlp.experts.0.gate_proj.lora_B.weight: F32[1,1] 2\n" P
      "mlp.experts.0.up_proj.lora_A.weight: F32[1,1] 3\n" P
      "mlp.experts.0.up_proj.lora_B.weight: F32[1,1] 4\n" P
      "mlp.shared_expert.gate_proj.lora_A.weight: F32[1,1] 5\n" P
      "mlp.shared_expert.gate_proj.lora_B.weight: F32[1,1] 6\n",
    Q "mlp.experts.base_layer.lora_A.default.weight: F32[2,1] 1 3\n" Q
      "mlp.experts.base_layer.lora_B.default.weight: F32[2,2] 2 0 0 4\n" Q
      "mlp.shared_expert.gate_proj.lora_A.default.weight: F32[1,1] 5\n" Q
      "mlp.shared_expert.gate_proj.lora_B.default.weight: F32[1,1] 6\n",
    "[\"gate_proj\"]", "[\"experts.gate_up_proj\"]", "{\".*\\\\.experts\\\\.gate_up_proj\":2}",
    "{\".*\\\\.experts\\\\.gate_up_proj\":2}" },
};

/* Writes the adapter folder as the usual tools do. */
static void
write_adapter (MadeFolders *folders, const gchar *config, const gchar *published)
{
  g_autofree gchar *text = g_strconcat ("--- adapter_model.safetensors\n", published, NULL);
  g_autofree gchar *quoted = g_strdelimit (g_strdup (config), "'", '"');

  made_folders_init (folders);
  made_write (folders->published, NULL, text);
  fixture_write (folders->published, "adapter_config.json", quoted, -1);
}

static WeftLoadPlan *
make_plan (MadeFolders *folders, const gchar *base, WeftLoadOptions *options, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = made_open (folders->published);
  g_autoptr (JsonNode) config = made_json (base);

  return weft_load_plan_new_for_adapter (checkpoint, config, "config.json", "default", options, error);
}

static gboolean
convert (MadeFolders *folders, const gchar *base, WeftLoadOptions *options, GError **error)
{
  g_autoptr (WeftLoadPlan) plan = make_plan (folders, base, options, error);
  g_autoptr (WeftSafetensorsSink) sink =
      plan != NULL ? weft_safetensors_sink_new_full (folders->runtime, WEFT_OUTPUT_FLAGS_NO_SYNC, error)
                   : NULL;

  return sink != NULL && weft_load_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, error);
}

static void
assert_member (JsonNode *config, const gchar *member, const gchar *expected)
{
  JsonNode *node = weft_json_lookup (config, member);
  g_autofree gchar *text = node != NULL ? weft_json_to_text (node, FALSE) : NULL;

  if (text != NULL)
    g_strchomp (text);
  g_assert_cmpstr (text, ==, expected);
}

static void
test_row (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *found = NULL;
  g_autofree gchar *config_path = NULL;
  g_autofree gchar *weights_path = NULL;
  g_autoptr (JsonNode) config = NULL;
  g_autoptr (GError) error = NULL;

  write_adapter (&folders, rows[i].adapter_config, rows[i].published);
  convert (&folders, rows[i].base, NULL, &error);
  g_assert_no_error (error);
  weights_path = g_build_filename (folders.runtime, "adapter_model.safetensors", NULL);
  g_assert_true (g_file_test (weights_path, G_FILE_TEST_IS_REGULAR));
  found = made_show_folder (folders.runtime);
  g_assert_cmpstr (found, ==, rows[i].runtime);
  config_path = g_build_filename (folders.runtime, "adapter_config.json", NULL);
  config = weft_json_load_file (config_path, &error);
  g_assert_no_error (error);
  assert_member (config, "target_modules", rows[i].target_modules);
  assert_member (config, "target_parameters", rows[i].target_parameters);
  assert_member (config, "rank_pattern", rows[i].rank_pattern);
  assert_member (config, "alpha_pattern", rows[i].alpha_pattern);
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  made_assert_same_folder (folders.published, folders.back);
}

/* The scale alpha / sqrt (rank) is that of the parts: 4 / sqrt (1) = 4 sqrt (2) / sqrt (2). */
static void
test_rank_stabilised_alpha (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *path = NULL;
  g_autoptr (JsonNode) config = NULL;
  g_autoptr (GError) error = NULL;

  write_adapter (&folders,
                 "{'peft_type':'LORA','r':1,'lora_alpha':4,'use_rslora':true,'target_modules':['w1','w3']}",
                 EXPERT (0, "w1", "1,1] 1", "1,1] 2") EXPERT (0, "w3", "1,1] 3", "1,1] 4"));
  convert (&folders, "{'model_type':'mixtral'}", NULL, &error);
  g_assert_no_error (error);
  path = g_build_filename (folders.runtime, "adapter_config.json", NULL);
  config = weft_json_load_file (path, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat_with_epsilon (
      json_object_get_double_member (json_node_get_object (weft_json_lookup (config, "alpha_pattern")),
                                     ".*\\.experts\\.gate_up_proj"),
      5.656854, 1e-6);
}

#define LORA(more) "{'peft_type':'LORA','r':1,'lora_alpha':1," more "}"
#define ONE(e, w) EXPERT (e, w, "1,1] 1", "1,1] 2")

static const struct
{
  const gchar *name;
  const gchar *adapter_config;
  const gchar *published;
  gint code;
  const gchar *message;
} refused_rows[] = {
  { "half-named", LORA ("'target_modules':['w1']"), ONE (0, "w1") ONE (0, "w3"), WEFT_ERROR_CONFLICT,
    "target_modules names 'w1' and not 'w3'|'experts.gate_up_proj'" },
  { "half-there", LORA ("'target_modules':['w1','w3']"), ONE (0, "w1"), WEFT_ERROR_FAILED,
    "needs a tensor for|w3" },
  { "an-expert-is-missing", LORA ("'target_modules':['w2']"), ONE (0, "w2") ONE (2, "w2"), WEFT_ERROR_FAILED,
    "needs numbers 0-2|1 is missing" },
  { "a-matrix-is-missing", LORA ("'target_modules':['q_proj']"),
    P "self_attn.q_proj.lora_A.weight: F32[1,1]\n", WEFT_ERROR_MISSING,
    "'model.layers.0.self_attn.q_proj.lora_B.default.weight' is missing" },
  { "other-ranks", LORA ("'target_modules':['w1','w3']"), ONE (0, "w1") EXPERT (0, "w3", "2,1] 1", "1,2] 1"),
    WEFT_ERROR_FAILED, "PeftConcatenate|(experts, rows, rank)" },
  { "rank-of-a-part", LORA ("'target_modules':['w1','w3'],'rank_pattern':{'experts.0.w1':4}"),
    ONE (0, "w1") ONE (0, "w3"), WEFT_ERROR_CONFLICT, "rank_pattern has a value for 'experts.0.w1'" },
  { "ranks-are-a-number", LORA ("'target_modules':['w1','w3'],'rank_pattern':4"), ONE (0, "w1") ONE (0, "w3"),
    WEFT_ERROR_FORMAT, "rank_pattern: expected an object" },
  { "scale-is-a-number", LORA ("'target_modules':['w1','w3'],'use_rslora':1"), ONE (0, "w1") ONE (0, "w3"),
    WEFT_ERROR_FORMAT, "use_rslora: expected true or false" },
  { "modules-by-a-pattern", LORA ("'target_modules':'.*w[13]'"), ONE (0, "w1") ONE (0, "w3"),
    WEFT_ERROR_FORMAT, "target_modules: expected a list" },
  { "another-kind", "{'peft_type':'IA3'}", ONE (0, "w1") ONE (0, "w3"), WEFT_ERROR_FORMAT,
    "peft_type: expected \"LORA\", found \"IA3\"" },
  { "no-rank", "{'peft_type':'LORA','target_modules':['w1','w3']}", ONE (0, "w1") ONE (0, "w3"),
    WEFT_ERROR_FORMAT, "r: expected a number above 0" },
};

static void
test_refused (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;

  write_adapter (&folders, refused_rows[i].adapter_config, refused_rows[i].published);
  g_assert_false (convert (&folders, "{'model_type':'mixtral'}", NULL, &error));
  g_assert_error (error, WEFT_ERROR, refused_rows[i].code);
  made_assert_message (error, refused_rows[i].message);
  g_assert_false (g_file_test (folders.runtime, G_FILE_TEST_EXISTS));
}

/* Where the model is known, a module that it does not have is listed. */
static void
test_unknown_module (void)
{
  g_autoptr (WeftModuleTree) tree = made_model ("MixtralForCausalLM mixtral model",
                                                "model.layers.0.self_attn.q_proj.weight: F32[1,1]", NULL);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;

  weft_load_options_set_module_tree (options, tree);
  write_adapter (&folders, LORA ("'target_modules':['q_proj','k_proj']"),
                 P
                 "self_attn.q_proj.lora_A.weight: F32[1,1]\n" P "self_attn.q_proj.lora_B.weight: F32[1,1]\n" P
                 "self_attn.k_proj.lora_A.weight: F32[1,1]\n" P "self_attn.k_proj.lora_B.weight: F32[1,1]\n");
  plan = make_plan (&folders, "{'model_type':'mixtral'}", options, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_load_report_count (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED), ==,
                    2);
  g_assert_cmpstr (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED, 0),
                   ==, "model.layers.0.self_attn.k_proj.lora_A.default.weight");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/adapter/%s", rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_row);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/adapter/refused/%s", refused_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/adapter/rank-stabilised-alpha", test_rank_stabilised_alpha);
  g_test_add_func ("/adapter/unknown-module", test_unknown_module);
  return g_test_run ();
}
