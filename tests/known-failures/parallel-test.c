/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of failure with ranks, each by its id. */
#include "../pipeline/made-checkpoint-private.h"

#define HEADS "{'model_type':'made','num_attention_heads':4,'num_key_value_heads':2}"

static const struct
{
  const gchar *id;
  const gchar *config;
  const gchar *plan;
  guint world_size;
  const gchar *published;
  /* What each rank holds; or the error. */
  const gchar *ranks[5];
  const gchar *message;
} rows[] = {
  /* Each rank has a whole head, not half of one; in a fused projection too. */
  { "F51",
    HEADS,
    "{'k_proj':'colwise'}",
    4,
    "k_proj.weight: F32[4,1] 0\n",
    { "k_proj.weight: F32[2,1] 0 1\n", "k_proj.weight: F32[2,1] 0 1\n", "k_proj.weight: F32[2,1] 2 3\n",
      "k_proj.weight: F32[2,1] 2 3\n" },
    NULL },
  { "F51/fused",
    HEADS,
    "{'qkv_proj':'colwise_segments'}",
    4,
    "qkv_proj.weight: F32[8,1] 0\n",
    { "qkv_proj.weight: F32[3,1] 0 4 6\n", "qkv_proj.weight: F32[3,1] 1 4 6\n",
      "qkv_proj.weight: F32[3,1] 2 5 7\n", "qkv_proj.weight: F32[3,1] 3 5 7\n" },
    NULL },
  /* A slip of the pen leaves no expert on every rank. */
  { "F52",
    NULL,
    "{'layers.*.experts.gate_up_porj':'packed_colwise'}",
    2,
    "layers.0.experts.gate_up_proj: F32[1,4,1] 0\n",
    { NULL },
    "*the rule 'layers.*.experts.gate_up_porj' (packed_colwise) of the plan is for no module or tensor*" },
  /* Ranks hold what there is, and no row more. */
  { "F53",
    NULL,
    "{'embed':'embedding_rowwise'}",
    3,
    "embed.weight: F32[10,1] 0\n",
    { "embed.weight: F32[4,1] 0 1 2 3\n", "embed.weight: F32[4,1] 4 5 6 7\n",
      "embed.weight: F32[2,1] 8 9\n" },
    NULL },
};

/* The plan of one rank; NULL with an error. */
static WeftLoadPlan *
make_plan (const gchar *folder, guint i, guint rank, GError **error)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftCheckpoint) checkpoint = made_open (folder);
  g_autoptr (JsonNode) root = made_json (rows[i].plan);
  g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new_from_json (root, "plan", error);

  g_assert_nonnull (plan);
  weft_load_options_set_parallel_plan (options, plan);
  g_assert_true (weft_load_options_set_parallel (options, rows[i].world_size, 1, rank, error));
  return weft_load_plan_new (checkpoint, options, error);
}

static void
test_ranks (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_auto (MadeFolders) folders = { 0 };

  made_folders_init (&folders);
  made_write (folders.published, rows[i].config, rows[i].published);
  for (guint rank = 0; rank < rows[i].world_size; rank++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftLoadPlan) plan = make_plan (folders.published, i, rank, &error);
      g_autofree gchar *found = NULL;

      if (rows[i].message != NULL)
        {
          g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
          g_assert_true (g_pattern_match_simple (rows[i].message, error->message));
          continue;
        }
      g_assert_no_error (error);
      found = made_show (weft_load_plan_get_outputs (plan));
      g_assert_cmpstr (found, ==, rows[i].ranks[rank]);
    }
}

/* What equal shares would need more is told, and the vocabulary comes back as long as it was. */
static void
test_f53_padding (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GPtrArray) ranks = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (WeftGatherPlan) gathered = NULL;
  g_autoptr (GError) error = NULL;
  g_autofree gchar *whole = NULL;

  made_folders_init (&folders);
  made_write (folders.published, NULL, "embed.weight: F32[1000,1] 0\n");
  for (guint rank = 0; rank < 3; rank++)
    {
      g_autoptr (WeftLoadPlan) plan = make_plan (folders.published, G_N_ELEMENTS (rows) - 1, rank, &error);
      g_autoptr (JsonNode) root = weft_load_plan_to_json (plan);
      g_autofree gchar *name = weft_rank_folder_name (rank, 3);
      g_autofree gchar *folder = g_build_filename (folders.root, name, NULL);
      g_autoptr (WeftSafetensorsSink) sink =
          weft_safetensors_sink_new_full (folder, WEFT_OUTPUT_FLAGS_NO_SYNC, &error);
      JsonNode *padding = weft_json_lookup (root, "parallel.padding");

      g_assert_cmpint (json_object_get_int_member (json_node_get_object (padding), "embed.weight"), ==, 2);
      g_assert_true (weft_load_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, &error));
      g_ptr_array_add (ranks, made_open (folder));
    }
  gathered = weft_gather_plan_new (ranks, &error);
  g_assert_no_error (error);
  whole = made_show_folder (folders.published);
  {
    g_autofree gchar *found = made_show (weft_gather_plan_get_outputs (gathered));

    g_assert_cmpstr (found, ==, whole);
  }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/known-failures/%s", rows[i].id);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_ranks);
    }
  g_test_add_func ("/known-failures/F53/padding", test_f53_padding);
  return g_test_run ();
}
