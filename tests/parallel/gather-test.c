/* SPDX-License-Identifier: Apache-2.0 */
/* Joining what ranks hold: always what was cut, or a refusal. */
#include "../pipeline/made-checkpoint-private.h"

static const guint world_sizes[] = { 1, 2, 3, 4, 8 };

/* Cuts @source, as it is named, into folders below @target. */
static void
cut (const gchar *source, const gchar *target, const gchar *plan_text, guint world_size)
{
  g_autoptr (JsonNode) root = made_json (plan_text);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new_from_json (root, "plan", &error);

  g_assert_no_error (error);
  g_mkdir (target, 0777);
  for (guint rank = 0; rank < world_size; rank++)
    {
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autofree gchar *name = weft_rank_folder_name (rank, world_size);
      g_autofree gchar *folder = g_build_filename (target, name, NULL);

      weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_KEEP_NAMES | WEFT_LOAD_FLAGS_OPEN);
      weft_load_options_set_parallel_plan (options, plan);
      g_assert_true (weft_load_options_set_mesh (options, &world_size, 1, rank, &error));
      g_assert_true (made_convert (source, folder, options, &error));
      g_assert_no_error (error);
    }
}

/* Joins the ranks but those whose bit is set in @left_out. */
static gboolean
gather_full (const gchar *source, const gchar *target, guint world_size, guint left_out,
             WeftOutputFlags flags, GError **error)
{
  g_autoptr (GPtrArray) checkpoints = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (WeftGatherPlan) plan = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  for (guint i = 0; i < world_size; i++)
    {
      g_autofree gchar *name = weft_rank_folder_name (world_size - 1 - i, world_size);
      g_autofree gchar *folder = g_build_filename (source, name, NULL);

      if ((left_out & (1u << (world_size - 1 - i))) == 0)
        g_ptr_array_add (checkpoints, made_open (folder));
    }
  plan = weft_gather_plan_new (checkpoints, error);
  sink = plan != NULL ? weft_safetensors_sink_new_full (target, flags, error) : NULL;
  return sink != NULL && weft_gather_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, error);
}

static gboolean
gather (const gchar *source, const gchar *target, guint world_size, guint left_out, GError **error)
{
  return gather_full (source, target, world_size, left_out, WEFT_OUTPUT_FLAGS_NO_SYNC, error);
}

static const gchar *
pick (const gchar *const *texts, guint n)
{
  return texts[g_test_rand_int_range (0, (gint32) n)];
}

/* Random tensors, and a random style or placement for each that can have it. */
static void
make_random (GString *tensors, GString *plan)
{
  static const gchar *const dtypes[] = { "F32", "BF16", "U8", "F8_E4M3", "F64" };
  static const gchar *const styles[] = { "colwise",        "rowwise",     "packed_colwise",
                                         "packed_rowwise", "replicate",   "embedding_rowwise",
                                         "shard:0",        "strided:0:3", "sequence_parallel" };
  guint n = (guint) g_test_rand_int_range (1, 7);

  g_string_append_c (plan, '{');
  for (guint i = 0; i < n; i++)
    {
      guint rank = (guint) g_test_rand_int_range (1, 4);

      g_string_append_printf (tensors, "t%u.weight: %s[", i, pick (dtypes, G_N_ELEMENTS (dtypes)));
      for (guint k = 0; k < rank; k++)
        g_string_append_printf (tensors, "%s%d", k > 0 ? "," : "", g_test_rand_int_range (k > 0 ? 1 : 0, 14));
      g_string_append_printf (tensors, "] %d\n", g_test_rand_int_range (0, 9));
      g_string_append_printf (plan, "%s't%u':'%s'", i > 0 ? "," : "", i,
                              pick (styles, G_N_ELEMENTS (styles)));
    }
  g_string_append_c (plan, '}');
}

static void
test_random (void)
{
  for (guint round = 0; round < 25; round++)
    {
      g_autoptr (GString) tensors = g_string_new (NULL);
      g_autoptr (GString) plan = g_string_new (NULL);
      guint world_size = world_sizes[round % G_N_ELEMENTS (world_sizes)];
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (GError) error = NULL;

      made_folders_init (&folders);
      make_random (tensors, plan);
      g_test_message ("%u ranks, %s, %s", world_size, plan->str, tensors->str);
      made_write (folders.published, "{'model_type':'made'}", tensors->str);
      cut (folders.published, folders.runtime, plan->str, world_size);
      g_assert_true (gather (folders.runtime, folders.back, world_size, 0, &error));
      g_assert_no_error (error);
      made_assert_same_folder (folders.published, folders.back);
    }
}

/* The files of the source come back: two shards, an index, a file beside them, a record of an earlier conversion. */
static void
test_files (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *ranks = NULL;
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) mapping = made_mapping (RENAME ("^old", "new"));
  g_autofree gchar *reverted = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  ranks = g_build_filename (folders.root, "ranks", NULL);
  reverted = g_build_filename (folders.root, "reverted", NULL);
  weft_load_options_set_mapping (options, mapping);
  made_write (folders.published, "{'model_type':'made'}",
              "--- model-00001-of-00002.safetensors\nold.a: F32[4,3] 1\nold.b: F32[3] 5\n"
              "--- model-00002-of-00002.safetensors\nold.c: BF16[5,2] 1\n");
  fixture_write (folders.published, "tokenizer.json", "{}", -1);
  g_assert_true (made_convert (folders.published, folders.runtime, options, &error));
  cut (folders.runtime, ranks, "{'new.a':'rowwise','new.c':'colwise'}", 3);
  g_assert_true (gather (ranks, folders.back, 3, 0, &error));
  g_assert_no_error (error);
  made_assert_same_folder (folders.runtime, folders.back);
  g_assert_true (made_revert (folders.back, reverted, NULL, WEFT_REVERT_FLAGS_NONE, &error));
  made_assert_same_folder (folders.published, reverted);
}

/* No part may be written over, whichever it is. */
static void
test_sources (void)
{
  for (guint rank = 0; rank < 2; rank++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autofree gchar *name = weft_rank_folder_name (rank, 2);
      g_autofree gchar *folder = NULL;
      g_autoptr (GError) error = NULL;

      made_folders_init (&folders);
      folder = g_build_filename (folders.runtime, name, NULL);
      made_write (folders.published, NULL, "a: F32[4] 1\n");
      cut (folders.published, folders.runtime, "{'a':'colwise'}", 2);
      g_assert_false (gather_full (folders.runtime, folder, 2, 0,
                                   WEFT_OUTPUT_FLAGS_NO_SYNC | WEFT_OUTPUT_FLAGS_FORCE, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
    }
}

/* A rank that is not there, or is another's, or was changed. */
static void
test_refused (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *first = NULL;
  g_autofree gchar *second = NULL;
  g_autoptr (GPtrArray) twice = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (GBytes) bytes = NULL;
  g_autofree guint8 *changed = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.published, NULL, "a: F32[4] 1\nb: F32[2] 1\n");
  cut (folders.published, folders.runtime, "{'a':'colwise'}", 2);
  g_assert_false (gather (folders.runtime, folders.back, 2, 1u << 1, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  g_assert_cmpstr (error->message, ==,
                   "'a': no folder holds [2:4]; 1 of 2 ranks are given, give the others too");
  g_clear_error (&error);

  first = g_build_filename (folders.runtime, "rank-00000-of-00002", NULL);
  second = g_build_filename (folders.runtime, "rank-00001-of-00002", NULL);
  g_ptr_array_add (twice, made_open (first));
  g_ptr_array_add (twice, made_open (first));
  g_assert_null (weft_gather_plan_new (twice, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  g_clear_error (&error);

  bytes = fixture_read (second, "model.safetensors");
  changed = g_memdup2 (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
  changed[g_bytes_get_size (bytes) - 1] ^= 1;
  fixture_write (second, "model.safetensors", changed, (gssize) g_bytes_get_size (bytes));
  g_assert_false (gather (folders.runtime, folders.back, 2, 0, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  g_assert_true (g_pattern_match_simple ("'b': ranks 0 and 1 hold the same elements with different values*",
                                         error->message));
  g_clear_error (&error);

  g_ptr_array_set_size (twice, 0);
  g_ptr_array_add (twice, made_open (folders.published));
  g_assert_null (weft_gather_plan_new (twice, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
}

/* A rank may be left out whose tensors others hold. */
static void
test_copies (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.published, NULL, "a: F32[4] 1\n");
  cut (folders.published, folders.runtime, "{'a':'replicate'}", 3);
  g_assert_true (gather (folders.runtime, folders.back, 3, 5, &error));
  g_assert_no_error (error);
  made_assert_same_folder (folders.published, folders.back);
}

/* Records that nobody wrote. */
static void
test_bad_records (void)
{
  static const gchar *const records[] = {
    "",
    "[]",
    "{}",
    "{'format':'weft-provenance','version':1}",
    "{'format':'weft-slice','version':2}",
    "{'format':'weft-slice','version':1,'rank':2,'world_size':2}",
    "{'format':'weft-slice','version':1,'rank':0,'world_size':2,'files':[]}",
    "{'format':'weft-slice','version':1,'rank':0,'world_size':2,'files':[{'name':'a'}]}",
    "{'format':'weft-slice','version':1,'rank':0,'world_size':2,'files':[{'name':'a','header':'{'}]}",
#define WITH(slices)                                                                          \
  "{'format':'weft-slice','version':1,'rank':0,'world_size':2,'files':[{'name':'a','header':" \
  "'{\\'a\\':{\\'dtype\\':\\'F32\\',\\'shape\\':[4],\\'data_offsets\\':[0,16]}}'}],'slices':" slices "}"
    WITH ("{}"),
    WITH ("[1]"),
    WITH ("[['b',[0,0,1]]]"),
    WITH ("[['a',[1,0,1]]]"),
    WITH ("[['a',[0,0]]]"),
    WITH ("[['a',[0,3,2]]]"),
    WITH ("[['a',[0,-1,2]]]"),
    WITH ("[['a',[0,2,1,0,1]]]"),
    WITH ("[['a',[0,9223372036854775807,9223372036854775807]]]"),
    WITH ("[['a',[0,0,1],[0,0,1]]]"),
    WITH ("[['a'],['a']]"),
    /* It says less than there is. */
    WITH ("[['a',[0,0,1]]]"),
  };

  for (guint i = 0; i < G_N_ELEMENTS (records); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (GPtrArray) checkpoints = g_ptr_array_new_with_free_func (g_object_unref);
      g_autofree gchar *quoted = g_strdelimit (g_strdup (records[i]), "'", '"');
      g_autoptr (GError) error = NULL;

      made_folders_init (&folders);
      made_write (folders.published, NULL, "a: F32[4] 1\n");
      fixture_write (folders.published, "weft-provenance.json", quoted, -1);
      g_ptr_array_add (checkpoints, made_open (folders.published));
      g_assert_null (weft_gather_plan_new (checkpoints, &error));
      g_assert_nonnull (error);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/gather/random", test_random);
  g_test_add_func ("/gather/files", test_files);
  g_test_add_func ("/gather/refused", test_refused);
  g_test_add_func ("/gather/copies", test_copies);
  g_test_add_func ("/gather/bad-records", test_bad_records);
  g_test_add_func ("/gather/sources", test_sources);
  return g_test_run ();
}
