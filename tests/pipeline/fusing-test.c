/* SPDX-License-Identifier: Apache-2.0 */
/* Fusions in a load: values of the fused tensors, the way back, and what a checkpoint that is fused already becomes. */
#include "made-checkpoint-private.h"

#define CONFIG "{'model_type':'tiny','num_attention_heads':4,'num_key_value_heads':2}"
#define NO_RULES ""
#define SAME_NAME "a.qkv_proj.weight: F32[6,1] 1 2 3 4 5 6\n"
#define SAME_NAME_SKELETON "a.q_proj.weight: F32[2,1]\na.k_proj.weight: F32[2,1]\na.v_proj.weight: F32[2,1]\n"
#define SAME_NAME_SPLIT \
  CONVERT ("'a.qkv_proj.weight'", "'a.q_proj.weight','a.k_proj.weight','a.v_proj.weight'", OP ("Chunk"))

/* One model a row: its tensors, the rules of its mapping, the fusions, and what the runtime gets. The skeleton is @skeleton, or the published
 * tensors. */
static const struct
{
  const gchar *name;
  const gchar *published;
  const gchar *skeleton;
  const gchar *mapping;
  const gchar *fusion;
  const gchar *runtime;
} rows[] = {
  { "gate-up",
    "m.gate_proj.weight: F32[2,1] 1 2\nm.up_proj.weight: F32[2,1] 3 4\nm.down_proj.weight: F32[1,2] 5 6\n",
    NULL, NO_RULES, "{'gate_up':true}",
    "m.down_proj.weight: F32[1,2] 5 6\nm.gate_up_proj.weight: F32[4,1] 1 2 3 4\n" },
  { "gate-up-with-biases",
    "m.gate_proj.bias: F32[1] 7\nm.gate_proj.weight: F32[1,1] 1\nm.up_proj.bias: F32[1] 8\nm.up_proj.weight: F32[1,1] 2\n",
    NULL, NO_RULES, "{'gate_up':{}}",
    "m.gate_up_proj.bias: F32[2] 7 8\nm.gate_up_proj.weight: F32[2,1] 1 2\n" },
  { "qkv-in-blocks",
    "a.k_proj.weight: F32[2,1] 5 6\na.q_proj.weight: F32[4,1] 1 2 3 4\na.v_proj.weight: F32[2,1] 7 8\n", NULL,
    NO_RULES, "{'qkv':true}", "a.qkv_proj.weight: F32[8,1] 1 2 3 4 5 6 7 8\n" },
  { "qkv-interleaved",
    "a.k_proj.weight: F32[2,1] 5 6\na.q_proj.weight: F32[4,1] 1 2 3 4\na.v_proj.weight: F32[2,1] 7 8\n", NULL,
    NO_RULES, "{'qkv':{'layout':'interleaved'}}", "a.qkv_proj.weight: F32[8,1] 1 2 5 7 3 4 6 8\n" },
  { "qkv-with-biases",
    "a.k_proj.bias: F32[1] 5\na.k_proj.weight: F32[1,1] 3\na.q_proj.bias: F32[2] 4 4\na.q_proj.weight: F32[2,1] 1 2\n"
    "a.v_proj.bias: F32[1] 6\na.v_proj.weight: F32[1,1] 9\n",
    NULL, NO_RULES, "{'qkv':true}",
    "a.qkv_proj.bias: F32[4] 4 4 5 6\na.qkv_proj.weight: F32[4,1] 1 2 3 9\n" },
  { "experts",
    "x.experts.0.down_proj.weight: F32[1,1] 5\nx.experts.0.gate_proj.weight: F32[1,1] 1\nx.experts.0.up_proj.weight: F32[1,1] 3\n"
    "x.experts.1.down_proj.weight: F32[1,1] 6\nx.experts.1.gate_proj.weight: F32[1,1] 2\nx.experts.1.up_proj.weight: F32[1,1] 4\n",
    NULL, NO_RULES, "{'moe_experts':true}",
    "x.experts.down_proj: F32[2,1,1] 5 6\nx.experts.gate_up_proj: F32[2,2,1] 1 3 2 4\n" },
  { "each-expert",
    "x.experts.0.gate_proj.weight: F32[1,1] 1\nx.experts.0.up_proj.weight: F32[1,1] 3\n"
    "x.experts.1.gate_proj.weight: F32[1,1] 2\nx.experts.1.up_proj.weight: F32[1,1] 4\n",
    NULL, NO_RULES, "{'gate_up':true}",
    "x.experts.0.gate_up_proj.weight: F32[2,1] 1 3\nx.experts.1.gate_up_proj.weight: F32[2,1] 2 4\n" },
  { "classes-alone", "n.weight: F32[2] 1 2\n", NULL, NO_RULES, "{}", "n.weight: F32[2] 1 2\n" },
  /* A published projection that the mapping splits is joined again. */
  { "joined-again", "a.qkv: F32[3,1] 1 2 3\n",
    "a.q_proj.weight: F32[1,1]\na.k_proj.weight: F32[1,1]\na.v_proj.weight: F32[1,1]\n",
    CONVERT ("'a.qkv'", "'a.q_proj.weight','a.k_proj.weight','a.v_proj.weight'", OP ("Chunk")),
    "{'qkv':true}", "a.qkv_proj.weight: F32[3,1] 1 2 3\n" },
  { "joined-interleaved", "a.qkv: F32[6,1] 1 2 3 4 5 6\n",
    "a.q_proj.weight: F32[2,1]\na.k_proj.weight: F32[2,1]\na.v_proj.weight: F32[2,1]\n",
    CONVERT ("'a.qkv'", "'a.q_proj.weight','a.k_proj.weight','a.v_proj.weight'", OP ("Chunk")),
    "{'qkv':{'layout':'interleaved'}}", "a.qkv_proj.weight: F32[6,1] 1 3 5 2 4 6\n" },
  /* The fused tensor has the name of the published one, and another order. */
  { "joined-under-the-published-name", SAME_NAME, SAME_NAME_SKELETON, SAME_NAME_SPLIT,
    "{'qkv':{'layout':'interleaved'}}", "a.qkv_proj.weight: F32[6,1] 1 3 5 2 4 6\n" },
  /* Rules for published names never meet the runtime's, nor those of fusions. */
  { "after-the-mapping", "old.w1: F32[1,1] 1\nold.w3: F32[1,1] 2\n",
    "m.gate_proj.weight: F32[1,1]\nm.up_proj.weight: F32[1,1]\n",
    RENAME ("old.w1", "m.gate_proj.weight") "," RENAME ("old.w3", "m.up_proj.weight"), "{'gate_up':true}",
    "m.gate_up_proj.weight: F32[2,1] 1 2\n" },
};

static WeftLoadOptions *
make_options (const gchar *model, const gchar *skeleton, const gchar *mapping, const gchar *fusion)
{
  WeftLoadOptions *options = weft_load_options_new ();
  g_autoptr (WeftModuleTree) tree = made_model (model, skeleton, NULL);
  g_autoptr (WeftTransformList) list = made_mapping (mapping);
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new (NULL);

  g_assert_true (weft_mapping_registry_register (registry, "tiny", list, FALSE, NULL));
  weft_load_options_set_module_tree (options, tree);
  weft_load_options_set_registry (options, registry);
  if (fusion != NULL)
    {
      g_autoptr (JsonNode) config = made_json (fusion);

      weft_load_options_set_fusion_config (options, config, "test");
    }
  return options;
}

static WeftLoadOptions *
make_row_options (guint i, const gchar *fusion)
{
  return make_options ("Tiny tiny -", rows[i].skeleton != NULL ? rows[i].skeleton : rows[i].published,
                       rows[i].mapping, fusion);
}

static void
test_values (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options = make_row_options (i, rows[i].fusion);

  made_assert_round_trip (CONFIG, rows[i].published, options, rows[i].runtime);
}

static void
assert_shows (const gchar *folder, const gchar *expected)
{
  g_autofree gchar *shown = made_show_folder (folder);

  g_assert_cmpstr (shown, ==, expected);
}

static void
convert (const gchar *source, const gchar *target, WeftLoadOptions *options)
{
  g_autoptr (GError) error = NULL;

  made_convert (source, target, options, &error);
  g_assert_no_error (error);
}

/* A fused checkpoint loads as it is, by what its config stores; fuses no more where nothing is asked for; and goes back to the published
 * layout without its record. */
static void
test_fused_already (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) asked = make_row_options (i, rows[i].fusion);
  g_autoptr (WeftLoadOptions) stored = make_row_options (i, NULL);
  g_autoptr (WeftLoadOptions) nothing = make_row_options (i, "{}");
  g_autofree gchar *again = NULL;
  g_autofree gchar *plain = NULL;
  g_autofree gchar *unfused = NULL;
  g_autofree gchar *record = NULL;
  g_autofree gchar *expected = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (MadeFolders) folders = { 0 };

  made_folders_init (&folders);
  again = g_build_filename (folders.root, "again", NULL);
  plain = g_build_filename (folders.root, "plain", NULL);
  unfused = g_build_filename (folders.root, "unfused", NULL);
  record = g_build_filename (folders.runtime, WEFT_PROVENANCE_FILE_NAME, NULL);
  made_write (folders.published, CONFIG, rows[i].published);
  convert (folders.published, folders.runtime, asked);
  convert (folders.runtime, again, stored);
  assert_shows (again, rows[i].runtime);
  convert (folders.published, plain, nothing);
  expected = made_show_folder (plain);
  convert (folders.runtime, unfused, nothing);
  assert_shows (unfused, expected);
  g_assert_cmpint (g_unlink (record), ==, 0);
  made_revert (folders.runtime, folders.back, stored, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_clear_pointer (&expected, g_free);
  expected = made_show_folder (folders.published);
  assert_shows (folders.back, expected);
}

/* The record of a fused checkpoint agrees with its files. */
static void
test_verified (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options = make_row_options (i, rows[i].fusion);
  g_autoptr (WeftVerification) verification = NULL;
  g_auto (MadeFolders) folders = { 0 };

  made_folders_init (&folders);
  made_write (folders.published, CONFIG, rows[i].published);
  convert (folders.published, folders.runtime, options);
  verification = weft_verification_new (folders.runtime, NULL, NULL);
  g_assert_true (weft_verification_check_record (verification, NULL));
  g_assert_true (weft_verification_has_passed (verification));
}

/* What stops a load with fusions, and nothing is written. */
static const struct
{
  const gchar *name;
  const gchar *published;
  const gchar *skeleton;
  gint code;
  const gchar *message;
} refusals[] = {
  { "half-is-missing", "m.gate_proj.weight: F32[1,1] 1\n",
    "m.gate_proj.weight: F32[1,1]\nm.up_proj.weight: F32[1,1]\n", WEFT_ERROR_FAILED,
    "'m.gate_up_proj.weight' cannot be converted|needs a tensor for '^up_proj" },
  { "both-forms",
    "m.gate_proj.weight: F32[1,1] 1\nm.gate_up_proj.weight: F32[2,1] 1 2\nm.up_proj.weight: F32[1,1] 2\n",
    "m.gate_proj.weight: F32[1,1]\nm.up_proj.weight: F32[1,1]\n", WEFT_ERROR_CONFLICT,
    "both become 'm.gate_proj.weight'" },
  { "fused-of-another-size", "m.gate_up_proj.weight: F32[4,1] 1 2 3 4\n",
    "m.gate_proj.weight: F32[1,1]\nm.up_proj.weight: F32[1,1]\n", WEFT_ERROR_SHAPE,
    "the fused checkpoint gives (2, 1), the model has (1, 1)" },
  { "fits-nothing", "m.w: F32[1,1] 1\n", "m.w: F32[1,1]\n", WEFT_ERROR_MISSING,
    "test: family 'gate_up' fits no module of this model" },
};

static void
test_refused (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      make_options ("Tiny tiny -", refusals[i].skeleton, NO_RULES, "{'gate_up':true}");

  made_assert_refused (CONFIG, refusals[i].published, options, refusals[i].code, refusals[i].message);
}

/* A name that published and fused tensors share, in a checkpoint whose config stores the fusion and that no record tells of: either
 * could be meant, and one would give wrong values. */
static void
test_doubtful (void)
{
  g_autoptr (WeftLoadOptions) options =
      make_options ("Tiny tiny -", SAME_NAME_SKELETON, SAME_NAME_SPLIT, NULL);

  made_assert_refused (
      "{'model_type':'tiny','num_key_value_heads':2,'fusion_config':{'qkv':{'layout':'interleaved'}}}",
      SAME_NAME, options, WEFT_ERROR_CONFLICT,
      "'a.qkv_proj.weight' is the name of a published tensor|to 'a.q_proj.weight'|no record (weft-provenance.json)|--fusion");
}

/* Codes are not joined without their scales: asked for or stored, the fusion is refused with the way out, which goes. */
static void
test_packed (gconstpointer is_stored)
{
  static const gchar published[] =
      "m.gate_proj.weight: F8_E4M3[2,2] 1\nm.gate_proj.weight_scale_inv: F32[1,1] 2\n"
      "m.up_proj.weight: F8_E4M3[2,2] 5\nm.up_proj.weight_scale_inv: F32[1,1] 1\n";
  g_autofree gchar *config = g_strdup_printf (
      "{'model_type':'tiny','quantization_config':{'quant_method':'fp8','weight_block_size':[2,2]}%s}",
      is_stored != NULL ? ",'fusion_config':{'gate_up':true}" : "");
  g_autoptr (WeftLoadOptions) options =
      make_options ("Tiny tiny -", "m.gate_proj.weight: F32[2,2]\nm.up_proj.weight: F32[2,2]\n", NO_RULES,
                    is_stored != NULL ? NULL : "{'gate_up':true}");
  g_auto (MadeFolders) folders = { 0 };

  made_assert_refused (config, published, options, WEFT_ERROR_UNSUPPORTED,
                       "its weights are packed (|fused modules have dense ones; --dequantize");
  weft_load_options_set_is_dequantized (options, TRUE);
  made_folders_init (&folders);
  made_write (folders.published, config, published);
  convert (folders.published, folders.runtime, options);
  assert_shows (folders.runtime, "m.gate_up_proj.weight: BF16[4,2] 2 4 6 8 5 6 7 8\n");
}

/* Kernels over patches of videos, read as rows: element (o, c, t, y, x) is column ((c kt + t) kh + y) kw + x of row o. */
static const struct
{
  const gchar *name;
  const gchar *sizes; /* of the config */
  const gchar *kernel;
  const gchar *published;
  const gchar *runtime;
} patches[] = {
  { "one-channel", "'in_channels':1,'temporal_patch_size':1,'patch_size':2", "[1,2,2]",
    "patch_embed.proj.weight: F32[1,1,1,2,2] 0 1 2 3\n",
    "patch_embed.linear_proj.weight: F32[1,4] 0 1 2 3\n" },
  { "bias-is-renamed", "'in_channels':1,'temporal_patch_size':1,'patch_size':[1,2]", "[1,1,2]",
    "patch_embed.proj.bias: F32[2] 8 9\npatch_embed.proj.weight: F32[2,1,1,1,2] 1 2 3 4\n",
    "patch_embed.linear_proj.bias: F32[2] 8 9\npatch_embed.linear_proj.weight: F32[2,2] 1 2 3 4\n" },
  { "channels-outermost", "'in_channels':2,'temporal_patch_size':2,'patch_size':[1,2]", "[2,1,2]",
    "patch_embed.proj.weight: F32[1,2,2,1,2] 0 1 2 3 4 5 6 7\n",
    "patch_embed.linear_proj.weight: F32[1,8] 0 1 2 3 4 5 6 7\n" },
};

static void
test_patches (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autofree gchar *config = g_strdup_printf ("{'model_type':'tiny','vision_config':{%s}}", patches[i].sizes);
  g_autofree gchar *modules = g_strdup_printf (
      ",'modules':[{'fqn':'','class':'M'},{'fqn':'patch_embed','class':'PatchEmbed'},"
      "{'fqn':'patch_embed.proj','class':'Conv3d','attributes':{'kernel_size':%s,'stride':%s,'padding':[0,0,0],"
      "'dilation':[1,1,1],'groups':1}}]",
      patches[i].kernel, patches[i].kernel);
  g_autoptr (WeftModuleTree) tree = made_model ("M tiny -", patches[i].published, modules);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (JsonNode) fusion = made_json ("{'patch_embeddings':true}");

  weft_load_options_set_module_tree (options, tree);
  weft_load_options_set_fusion_config (options, fusion, "test");
  made_assert_round_trip (config, patches[i].published, options, patches[i].runtime);
}

/* Without a skeleton there is no module to look at: asked for, that is an error; stored, a note. */
static void
test_open_mode (void)
{
  g_autoptr (WeftLoadOptions) asked = weft_load_options_new ();
  g_autoptr (JsonNode) config = made_json ("{'gate_up':true}");
  g_auto (MadeFolders) folders = { 0 };

  made_folders_init (&folders);
  weft_load_options_set_fusion_config (asked, config, "test");
  made_assert_refused ("{'model_type':'unheard-of'}", "m.gate_proj.weight: F32[1,1] 1\n", asked,
                       WEFT_ERROR_MISSING,
                       "fusions look at the modules of the model, which are not known; give --module-tree");
  made_write (folders.published, "{'model_type':'unheard-of','fusion_config':{'gate_up':true}}",
              "m.gate_proj.weight: F32[1,1] 1\n");
  convert (folders.published, folders.runtime, NULL);
  assert_shows (folders.runtime, "m.gate_proj.weight: F32[1,1] 1\n");
}

/* A checkpoint of the base model in the model with a head: names get the prefix, then they are fused. */
static void
test_base_model (void)
{
  g_autoptr (WeftLoadOptions) options = make_options (
      "TinyForCausalLM tiny model", "model.m.gate_proj.weight: F32[1,1]\nmodel.m.up_proj.weight: F32[1,1]\n",
      NO_RULES, "{'gate_up':true}");

  made_assert_round_trip (CONFIG, "m.gate_proj.weight: F32[1,1] 1\nm.up_proj.weight: F32[1,1] 2\n", options,
                          "model.m.gate_up_proj.weight: F32[2,1] 1 2\n");
}

/* Half of a fused tensor reads half of the bytes, and the plan proves the way back without reading any. */
static void
test_slice (void)
{
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (WeftLoadOptions) options = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (WeftTensor) half = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (MadeFolders) folders = { 0 };
  WeftFile *file;
  guint64 n_before;

  for (guint i = 0; i < 2; i++)
    {
      g_string_append_printf (text, "m.%s_proj.weight: F32[64,64]", i == 0 ? "gate" : "up");
      for (guint j = 0; j < 64 * 64; j++)
        g_string_append_printf (text, " %u", i * 64 * 64 + j);
      g_string_append_c (text, '\n');
    }
  made_folders_init (&folders);
  made_write (folders.published, CONFIG, text->str);
  options = make_options ("Tiny tiny -", "m.gate_proj.weight: F32[64,64]\nm.up_proj.weight: F32[64,64]\n",
                          NO_RULES, "{'gate_up':true}");
  checkpoint = made_open (folders.published);
  file = weft_shard_get_file (weft_checkpoint_get_shard (checkpoint, 0));
  n_before = weft_file_get_n_bytes_read (file);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  g_assert_true (weft_load_plan_is_reversible (plan));
  g_assert_cmpuint (weft_file_get_n_bytes_read (file), ==, n_before);
  half = weft_tensor_slice (
      weft_state_dict_lookup (weft_load_plan_get_outputs (plan), "m.gate_up_proj.weight"), 0, 64, 64, &error);
  bytes = weft_tensor_read (half, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (g_bytes_get_size (bytes), ==, 64 * 64 * sizeof (gfloat));
  g_assert_cmpfloat (((const gfloat *) g_bytes_get_data (bytes, NULL))[0], ==, 64 * 64);
  g_assert_cmpuint (weft_file_get_n_bytes_read (file) - n_before, ==, 64 * 64 * sizeof (gfloat));
}

/* Modules chosen by path, in a config that stores it, and taken out again. */
static void
test_overrides (void)
{
  g_autoptr (WeftLoadOptions) options = make_options (
      "Tiny tiny -",
      "l.0.gate_proj.weight: F32[1,1]\nl.0.up_proj.weight: F32[1,1]\nl.1.gate_proj.weight: F32[1,1]\nl.1.up_proj.weight: F32[1,1]\n",
      NO_RULES, NULL);
  g_autoptr (JsonNode) list = made_json ("[{'match':'l.1','replace_module':{'_target_':'gate_up'}}]");
  g_autoptr (WeftPlanOverrides) overrides = weft_plan_overrides_new_from_json (list, "test", NULL);

  weft_load_options_set_plan_overrides (options, overrides);
  made_assert_round_trip (
      CONFIG,
      "l.0.gate_proj.weight: F32[1,1] 1\nl.0.up_proj.weight: F32[1,1] 2\nl.1.gate_proj.weight: F32[1,1] 3\nl.1.up_proj.weight: F32[1,1] 4\n",
      options,
      "l.0.gate_proj.weight: F32[1,1] 1\nl.0.up_proj.weight: F32[1,1] 2\nl.1.gate_up_proj.weight: F32[2,1] 3 4\n");
}

/* What a fused tensor is made of, as the plan tells. */
static void
test_explained (void)
{
  g_autoptr (WeftLoadOptions) options = make_row_options (0, rows[0].fusion);
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (JsonNode) explained = NULL;
  g_autofree gchar *text = NULL;
  g_autofree gchar *description = NULL;
  g_autoptr (GError) error = NULL;
  g_auto (MadeFolders) folders = { 0 };
  guint position;

  made_folders_init (&folders);
  made_write (folders.published, CONFIG, rows[0].published);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  explained = weft_load_plan_explain (plan, "m.gate_up_proj.weight", &error);
  g_assert_no_error (error);
  text = weft_json_to_text (explained, FALSE);
  g_assert_nonnull (strstr (text, "\"stages\":[{\"rule\":\"fusion 'gate_up' (test)"));
  g_assert_nonnull (strstr (text, "\"sources\":[\"m.gate_proj.weight\",\"m.up_proj.weight\"]"));
  g_assert_true (
      weft_state_dict_find (weft_load_plan_get_outputs (plan), "m.gate_up_proj.weight", &position));
  description = weft_load_plan_describe_output (plan, position);
  g_assert_cmpstr (description, ==, "m.gate_proj.weight and 1 more by Concatenate");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *values = g_strdup_printf ("/fusing/values/%s", rows[i].name);
      g_autofree gchar *verified = g_strdup_printf ("/fusing/verified/%s", rows[i].name);
      g_autofree gchar *already = g_strdup_printf ("/fusing/already/%s", rows[i].name);

      g_test_add_data_func (values, GUINT_TO_POINTER (i), test_values);
      g_test_add_data_func (already, GUINT_TO_POINTER (i), test_fused_already);
      g_test_add_data_func (verified, GUINT_TO_POINTER (i), test_verified);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/fusing/refused/%s", refusals[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  for (guint i = 0; i < G_N_ELEMENTS (patches); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/fusing/patches/%s", patches[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_patches);
    }
  g_test_add_func ("/fusing/doubtful", test_doubtful);
  g_test_add_data_func ("/fusing/packed/asked", NULL, test_packed);
  g_test_add_data_func ("/fusing/packed/stored", "stored", test_packed);
  g_test_add_func ("/fusing/open-mode", test_open_mode);
  g_test_add_func ("/fusing/base-model", test_base_model);
  g_test_add_func ("/fusing/slice", test_slice);
  g_test_add_func ("/fusing/overrides", test_overrides);
  g_test_add_func ("/fusing/explained", test_explained);
  return g_test_run ();
}
