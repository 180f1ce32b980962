/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of failure with renames, prefixes and reversal that users of such tools have met; each by its id. */
#include "../pipeline/made-checkpoint-private.h"

#define MERGE_JOIN OP_DIM ("MergeModulelist", 0) "," OP_DIM ("Concatenate", 1)

/* What is published, by which rules, what the runtime gets; every byte comes back from that. */
static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *mapping;
  const gchar *model;
  const gchar *model_tensors;
  const gchar *published;
  const gchar *runtime;
} rows[] = {
  /* A rule whose inverse would hit keys that it never made. */
  { "F01", NULL, RENAME ("encoder.layers", "layers"), NULL, NULL,
    "decoder.layers.0.w: F32[1] 1\nencoder.layers.0.w: F32[1] 2\nx.layers: F32[1] 3\n",
    "decoder.layers.0.w: F32[1] 1\nlayers.0.w: F32[1] 2\nx.layers: F32[1] 3\n" },
  /* A file in which one key has the old spelling, and others the new one. */
  { "F02", NULL, RENAME ("a.embedding.w", "a.embeddings.w"), NULL, NULL,
    "a.embedding.w: F32[1] 1\nb.a.embeddings.w: F32[1] 2\n",
    "a.embeddings.w: F32[1] 1\nb.a.embeddings.w: F32[1] 2\n" },
  { "F02/only-the-new-spelling", "{'model_type':'bert'}", NULL, NULL, NULL, "x.LayerNorm.weight: F32[1] 1\n",
    "x.LayerNorm.weight: F32[1] 1\n" },
  { "F03", NULL, RENAME ("h\\\\.(\\\\d+)\\\\.e\\\\.(\\\\d+)", "layers.\\\\1.experts.\\\\2"), NULL, NULL,
    "h.1.e.2.w: F32[1] 1\nh.2.e.1.w: F32[1] 2\n",
    "layers.1.experts.2.w: F32[1] 1\nlayers.2.experts.1.w: F32[1] 2\n" },
  /* The token of the inverse is the tail of a longer word; a dot is no wildcard where it is escaped. */
  { "F05", NULL, RENAME ("^layer_proj\\\\.", "proj."), NULL, NULL,
    "layer_proj.w: F32[1] 1\nlayer_projXw: F32[1] 4\npre_layer_proj_model.w: F32[1] 2\npre_proj.w: F32[1] 3\n",
    "layer_projXw: F32[1] 4\npre_layer_proj_model.w: F32[1] 2\npre_proj.w: F32[1] 3\nproj.w: F32[1] 1\n" },
  { "F06/prefix-added", NULL, NULL, "TestForB test model", "model.x: F32[1]\nhead: F32[1]",
    "head: F32[1] 1\nx: F32[1] 2\n", "head: F32[1] 1\nmodel.x: F32[1] 2\n" },
  { "F06/prefix-taken-away", NULL, NULL, "TestModel test model", "x: F32[1]\ny: F32[1]",
    "model.x: F32[1] 1\ny: F32[1] 2\n", "x: F32[1] 1\ny: F32[1] 2\n" },
  { "F06/doubly-nested", NULL, NULL, "TestForB test model", "model.x: F32[1]", "model.model.x: F32[1] 1\n",
    "model.x: F32[1] 1\n" },
  /* The model's names tell that the suffix is there already. */
  { "F07/with-a-model", NULL, RENAME ("head.weight", "lm_head.weight") "," RENAME ("^a", "b"),
    "TestForB test model", "lm_head.weight: F32[1]\nb: F32[1]", "a: F32[1] 2\nlm_head.weight: F32[1] 1\n",
    "b: F32[1] 2\nlm_head.weight: F32[1] 1\n" },
  { "F07/not-there", NULL, RENAME ("head.weight", "lm_head.weight"), NULL, NULL, "head.weight: F32[1] 1\n",
    "lm_head.weight: F32[1] 1\n" },
  /* A rename, then a merge of its results: going back is in mirrored order. */
  { "F09", NULL,
    RENAME ("\\\\.moe\\\\.", ".mlp.") "," CONVERT ("'mlp.experts.*.w1','mlp.experts.*.w3'",
                                                   "'mlp.experts.gate_up'", MERGE_JOIN),
    NULL, NULL,
    "l.0.moe.experts.0.w1: F32[1,1] 1\nl.0.moe.experts.0.w3: F32[1,1] 2\nl.0.moe.experts.1.w1: F32[1,1] 3\n"
    "l.0.moe.experts.1.w3: F32[1,1] 4\n",
    "l.0.mlp.experts.gate_up: F32[2,2,1] 1 2 3 4\n" },
  /* Rules for the main layers leave the block beside them alone; the model does not know it. */
  { "F10", NULL, RENAME ("^layers\\\\.", "model.layers."), "TestForB test model", "model.layers.0.w: F32[1]",
    "layers.0.w: F32[1] 1\nmtp.0.w: F32[1] 2\n", "model.layers.0.w: F32[1] 1\nmtp.0.w: F32[1] 2\n" },
  { "F13", NULL, RENAME ("^experts\\\\.gate_up", "mlp.experts.gate_up") "," RENAME ("^x", "y"), NULL, NULL,
    "experts.gate_up: F32[1] 1\nmlp.experts.0.gate_up: F32[1] 2\nx: F32[1] 3\n",
    "mlp.experts.0.gate_up: F32[1] 2\nmlp.experts.gate_up: F32[1] 1\ny: F32[1] 3\n" },
  { "F14", "{'model_type':'llama'}", NULL, "LlamaForCausalLM llama model", "model.w: F32[1]",
    "model.w: F32[1] 1\nmtp.0.w: F32[1] 2\nmtp.0.w_scale: F32[] 3\n",
    "model.w: F32[1] 1\nmtp.0.w: F32[1] 2\nmtp.0.w_scale: F32[] 3\n" },
};

static void
test_round_trip (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      made_options (rows[i].mapping, rows[i].model, rows[i].model_tensors, NULL);

  made_assert_round_trip (rows[i].config, rows[i].published, options, rows[i].runtime);
}

/* What is refused, with the rule or the key by its name. */
static const struct
{
  const gchar *id;
  const gchar *mapping;
  const gchar *key_mapping;
  const gchar *model_tensors;
  const gchar *published;
  gint code;
  const gchar *message;
} refused_rows[] = {
  { "F02/both-spellings-of-one-tensor", RENAME ("embedding.w", "embeddings.w"), NULL, NULL,
    "a.embedding.w: F32[1]\na.embeddings.w: F32[1]", WEFT_ERROR_CONFLICT,
    "'a.embedding.w' and 'a.embeddings.w'" },
  { "F06/nested-too-deep", NULL, NULL, "x: F32[1]", "model.model.x: F32[1]", WEFT_ERROR_MISSING,
    "none of the 1 tensors" },
  { "F06/two-keys-on-one-name", NULL, NULL, "model.x: F32[1]", "model.x: F32[1]\nx: F32[1]",
    WEFT_ERROR_CONFLICT, "'model.x' and 'x' both become 'model.x'" },
  { "F07", RENAME ("head.weight", "lm_head.weight"), NULL, NULL, "lm_head.weight: F32[1]",
    WEFT_ERROR_CONFLICT,
    "'head.weight'|'lm_head.weight' has the name 'lm_head.weight' already|--module-tree" },
  { "F07/a-dot-that-matches-any-letter", RENAME ("mlp.expert.", "mlp.experts."), NULL, NULL,
    "mlp.experts.w: F32[1]", WEFT_ERROR_CONFLICT, "'mlp.experts.w' has the name 'mlp.experts.' already" },
  { "F07/key-mapping", NULL, "head.weight=lm_head.weight", NULL,
    "a.head.weight: F32[1]\nlm_head.weight: F32[1]", WEFT_ERROR_CONFLICT, "'lm_head.weight' already" },
  /* A wide rule first, so that a later one never fires. */
  { "F08", NULL, "^=model. ^enc=dec", NULL, "enc.w: F32[1]", WEFT_ERROR_MISSING,
    "key mapping 2 ('^enc' -> 'dec')" },
  { "F10", RENAME ("^layers\\\\.", "model.layers."), NULL, "model.layers.0.w: F32[1]\nmodel.mtp.0.w: F32[1]",
    "layers.0.w: F32[1]\nmtp.layers.0.w: F32[1]", WEFT_ERROR_MISSING, "'model.mtp.0.w' is missing" },
  { "F11", NULL, NULL, "model.layers.0.w: F32[1]", "transformer.h.0.w: F32[1]\ntransformer.h.1.w: F32[1]",
    WEFT_ERROR_MISSING, "none of the 2 tensors|among the 1 of TestModel" },
  { "F11/most-of-it", NULL, NULL, "model.layers.0.w: F32[1]\nmodel.layers.1.w: F32[1]\nhead: F32[1]",
    "head: F32[1]\nh.0.w: F32[1]", WEFT_ERROR_MISSING, "'model.layers.0.w' and 1 more is missing" },
};

static void
test_refused (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      made_options (refused_rows[i].mapping, "TestModel test model", refused_rows[i].model_tensors, NULL);
  g_auto (GStrv) words =
      g_strsplit (refused_rows[i].key_mapping != NULL ? refused_rows[i].key_mapping : "", " ", -1);
  g_autoptr (GError) error = NULL;

  for (guint j = 0; words[j] != NULL && *words[j] != '\0'; j++)
    {
      g_auto (GStrv) sides = g_strsplit (words[j], "=", 2);

      weft_load_options_add_key_mapping (options, sides[0], sides[1], &error);
      g_assert_no_error (error);
    }
  made_assert_refused (NULL, refused_rows[i].published, options, refused_rows[i].code,
                       refused_rows[i].message);
}

/* A rule of the vision tower does not touch the text model, nor the root. */
static void
test_f04 (void)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftTransformList) rules = made_mapping (RENAME ("^layers", "blocks"));
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftModuleTree) tree = made_model (
      "RootForB root model",
      "model.text.layers.0.w: F32[1]\nmodel.vision.blocks.0.w: F32[1]\nlayers.0.w: F32[1]",
      ",'sub_models':[{'fqn':'','class':'RootForB','model_type':'root','base_model_prefix':'model'},"
      "{'fqn':'model.text','class':'TextModel','model_type':'made_text','base_model_prefix':''},"
      "{'fqn':'model.vision','class':'VisionModel','model_type':'made_vision','base_model_prefix':''}]");

  weft_mapping_registry_register (registry, "VisionModel", rules, FALSE, &error);
  g_assert_no_error (error);
  weft_load_options_set_registry (options, registry);
  weft_load_options_set_module_tree (options, tree);
  made_assert_round_trip (
      NULL, "layers.0.w: F32[1] 1\nmodel.text.layers.0.w: F32[1] 2\nmodel.vision.layers.0.w: F32[1] 3\n",
      options, "layers.0.w: F32[1] 1\nmodel.text.layers.0.w: F32[1] 2\nmodel.vision.blocks.0.w: F32[1] 3\n");
}

/* The same conversion through every entry: a folder, its index, its one file; with pread and with mmap. */
static void
test_f12 (void)
{
  static const gchar *const published[] = {
    "a.LayerNorm.gamma: F32[1] 1\nb: F32[1] 2\n",
    "--- model-00001-of-00002.safetensors\na.LayerNorm.gamma: F32[1] 1\n--- model-00002-of-00002.safetensors\nb: F32[1] 2\n",
  };
  static const gchar *const entries[2][2] = { { "", "model.safetensors" },
                                              { "", "model.safetensors.index.json" } };

  for (guint i = 0; i < G_N_ELEMENTS (published); i++)
    for (guint j = 0; j < 4; j++)
      {
        g_auto (MadeFolders) folders = { 0 };
        g_autofree gchar *entry = NULL;
        g_autoptr (WeftCheckpoint) checkpoint = NULL;
        g_autoptr (WeftLoadPlan) plan = NULL;
        g_autoptr (GError) error = NULL;
        g_autofree gchar *found = NULL;

        made_folders_init (&folders);
        made_write (folders.published, "{'model_type':'bert'}", published[i]);
        entry = g_build_filename (folders.published, entries[i][j / 2], NULL);
        checkpoint =
            weft_checkpoint_open_full (entry, NULL, j % 2 == 0 ? WEFT_IO_BACKEND_PREAD : WEFT_IO_BACKEND_MMAP,
                                       WEFT_CHECKPOINT_FLAGS_NONE, NULL, &error);
        g_assert_no_error (error);
        plan = weft_load_plan_new (checkpoint, NULL, &error);
        g_assert_no_error (error);
        found = made_show (weft_load_plan_get_outputs (plan));
        g_assert_cmpstr (found, ==, "a.LayerNorm.weight: F32[1] 1\nb: F32[1] 2\n");
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/comes-back", rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_round_trip);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s/refused", refused_rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/known-failures/F04", test_f04);
  g_test_add_func ("/known-failures/F12", test_f12);
  return g_test_run ();
}
