/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of failure with files, indexes and reading, each by its id. */
#include <sys/stat.h>
#include <unistd.h>

#include "../pipeline/made-checkpoint-private.h"

#define MIXTRAL "{'model_type':'mixtral'}"
#define EXPERTS_IN_THREE_FILES                                                                               \
  "--- model-00001-of-00003.safetensors\nl.block_sparse_moe.experts.0.w2.weight: F32[2,2] 0\n"               \
  "--- model-00002-of-00003.safetensors\nl.block_sparse_moe.experts.2.w2.weight: F32[2,2] 20\nx: F32[1] 7\n" \
  "--- model-00003-of-00003.safetensors\nl.block_sparse_moe.experts.1.w2.weight: F32[2,2] 10\n"
#define EXPERTS_MERGED "l.mlp.experts.down_proj: F32[3,2,2] 0 1 2 3 10 11 12 13 20 21 22 23\nx: F32[1] 7\n"

/* Refuses to open, with all of @parts in the message. */
static void
assert_not_opened (const gchar *folder, const gchar *parts)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (folder, NULL, &error);

  g_assert_null (checkpoint);
  made_assert_message (error, parts);
}

static void
write_index (const gchar *folder, const gchar *weight_map)
{
  g_autofree gchar *text = g_strdup_printf ("{'metadata':{},'weight_map':{%s}}", weight_map);
  g_autofree gchar *quoted = g_strdelimit (g_strdup (text), "'", '"');

  fixture_write (folder, "model.safetensors.index.json", quoted, -1);
}

/* The index lists a tensor that its file does not have. */
static void
test_f32 (void)
{
  g_auto (MadeFolders) folders = { 0 };

  made_folders_init (&folders);
  made_write (folders.published, NULL,
              "--- model-1.safetensors\na: F32[1]\n--- model-2.safetensors\nb: F32[1]\n");
  write_index (folders.published,
               "'a':'model-1.safetensors','b':'model-2.safetensors','gone':'model-2.safetensors'");
  assert_not_opened (folders.published, "'gone'|model-2.safetensors");
}

/* Headers beyond what any reader takes: refused while planning the files, in one file; else begun anew in another. */
static void
test_f54 (void)
{
  static const gint64 empty[] = { 0 };
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (GPtrArray) metadata = g_ptr_array_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout = NULL;
  g_autofree guint *shards = g_new0 (guint, 101);

  g_ptr_array_add (metadata, NULL);
  for (guint i = 0; i < 101; i++)
    {
      g_autoptr (WeftTensor) tensor = weft_tensor_new_constant (WEFT_DTYPE_U8, empty, 1, 0, &error);
      g_autofree gchar *name = g_strnfill (1000 * 1000, 'a');

      name[0] = (gchar) ('a' + i / 26);
      name[1] = (gchar) ('a' + i % 26);
      g_assert_true (weft_state_dict_add (outputs, name, tensor, &error));
    }
  layout = weft_shard_layout_new_assigned (outputs, shards, 101, metadata, NULL, &error);
  g_assert_null (layout);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  made_assert_message (error, "100000000");
}

/* Output and source are one: refused; or exchanged when the new one is complete. */
static void
test_f55 (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) refusal = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  g_autoptr (WeftSafetensorsSink) in_place = NULL;
  g_autofree gchar *before = NULL;
  g_autofree gchar *after = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  made_write (folders.published, MIXTRAL, EXPERTS_IN_THREE_FILES);
  before = made_show_folder (folders.published);
  checkpoint = weft_checkpoint_open_full (folders.published, NULL, WEFT_IO_BACKEND_MMAP,
                                          WEFT_CHECKPOINT_FLAGS_NONE, NULL, &error);
  plan = weft_load_plan_new (checkpoint, NULL, &error);
  g_assert_no_error (error);
  sink = weft_safetensors_sink_new_full (folders.published,
                                         WEFT_OUTPUT_FLAGS_FORCE | WEFT_OUTPUT_FLAGS_NO_SYNC, &error);
  g_assert_false (weft_load_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, &refusal));
  made_assert_message (refusal, "is the source|--in-place");
  after = made_show_folder (folders.published);
  g_assert_cmpstr (before, ==, after);
  in_place = weft_safetensors_sink_new_full (folders.published,
                                             WEFT_OUTPUT_FLAGS_IN_PLACE | WEFT_OUTPUT_FLAGS_NO_SYNC, &error);
  g_assert_true (weft_load_plan_execute (plan, WEFT_SINK (in_place), NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  found = made_show_folder (folders.published);
  g_assert_cmpstr (found, ==, EXPERTS_MERGED);
}

static void
test_f56 (void)
{
  g_auto (MadeFolders) folders = { 0 };

  made_folders_init (&folders);
  made_write (folders.published, NULL,
              "--- model-1.safetensors\na: F32[1]\n--- model-2.safetensors\nb: F32[1]\n");
  write_index (folders.published,
               "'a':'model-1.safetensors','b':'model-2.safetensors','c':'model-3.safetensors'");
  assert_not_opened (folders.published, "model-3.safetensors");
  /* The other way round: a shard that is there and is not listed does not count; a tensor that is not listed stops. */
  write_index (folders.published, "'a':'model-1.safetensors'");
  {
    g_autofree gchar *found = made_show_folder (folders.published);

    g_assert_cmpstr (found, ==, "a: F32[1] 0\n");
  }
  made_write (folders.published, NULL,
              "--- model-1.safetensors\na: F32[1]\nextra: F32[1]\n--- model-2.safetensors\nb: F32[1]\n");
  write_index (folders.published, "'a':'model-1.safetensors','b':'model-2.safetensors'");
  assert_not_opened (folders.published, "'extra'|model-1.safetensors");
}

/* The index of the output is the output's own, whatever the source had. */
static void
test_f57 (void)
{
  static const struct
  {
    guint n_files;
    guint64 max_shard_bytes;
    guint n_expected;
  } sizes[] = { { 10, 16, 3 }, { 2, 1000, 1 }, { 1, 4, 10 }, { 3, 0, 3 }, { 1, 0, 1 } };

  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (GString) published = g_string_new (NULL);
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (WeftCheckpoint) checkpoint = NULL;
      g_autoptr (GError) error = NULL;
      g_autofree gchar *before = NULL;
      g_autofree gchar *after = NULL;

      made_folders_init (&folders);
      for (guint j = 0; j < 10; j++)
        {
          if (j * sizes[i].n_files % 10 < sizes[i].n_files && sizes[i].n_files > 1)
            g_string_append_printf (published, "--- model-%05u-of-%05u.safetensors\n",
                                    j * sizes[i].n_files / 10 + 1, sizes[i].n_files);
          g_string_append_printf (published, "t%u: F32[1] %u\n", j, j);
        }
      made_write (folders.published, MIXTRAL, published->str);
      fixture_write (folders.published, "model-stale-00001-of-00009.safetensors.bak", "x", 1);
      weft_load_options_set_max_shard_bytes (options, sizes[i].max_shard_bytes);
      made_convert (folders.published, folders.runtime, options, &error);
      g_assert_no_error (error);
      checkpoint = made_open (folders.runtime);
      g_assert_cmpuint (weft_checkpoint_get_n_shards (checkpoint), ==, sizes[i].n_expected);
      g_assert_true ((weft_checkpoint_get_index (checkpoint) != NULL) == (sizes[i].n_expected > 1));
      g_assert_true (fixture_exists (folders.runtime, "model.safetensors.index.json")
                     == (sizes[i].n_expected > 1));
      before = made_show_folder (folders.published);
      after = made_show_folder (folders.runtime);
      g_assert_cmpstr (before, ==, after);
      made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      made_assert_same_folder (folders.published, folders.back);
    }
}

static void
append_entry (GString *header, GByteArray *values, const gchar *name, const gchar *dtype, const gchar *shape,
              guint n_bytes)
{
  guint begin = values->len;

  for (guint i = 0; i < n_bytes; i++)
    g_byte_array_append (values, (const guint8[]){ (guint8) (begin + 37 * i + 1) }, 1);
  g_string_append_printf (header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":%s,\"data_offsets\":[%u,%u]}",
                          header->len > 1 ? "," : "", name, dtype, shape, begin, values->len);
}

static void
write_raw (const gchar *folder, GString *header, GByteArray *values)
{
  guint64 length = GUINT64_TO_LE ((guint64) header->len);
  g_autoptr (GByteArray) file = g_byte_array_new ();

  g_byte_array_append (file, (const guint8 *) &length, sizeof length);
  g_byte_array_append (file, (const guint8 *) header->str, (guint) header->len);
  g_byte_array_append (file, values->data, values->len);
  fixture_write (folder, "model.safetensors", file->data, file->len);
}

/* One tensor of each dtype; also of no elements, and a scalar where a scalar is whole bytes. */
static void
test_f58 (void)
{
  static const struct
  {
    const gchar *name;
    guint n_bits;
  } dtypes[] = {
    { "BOOL", 8 }, { "F4", 4 },      { "F6_E2M3", 6 },     { "F6_E3M2", 6 },     { "U8", 8 },
    { "I8", 8 },   { "F8_E5M2", 8 }, { "F8_E4M3", 8 },     { "F8_E8M0", 8 },     { "I16", 16 },
    { "U16", 16 }, { "F16", 16 },    { "F8_E4M3FNUZ", 8 }, { "F8_E5M2FNUZ", 8 }, { "BF16", 16 },
    { "I32", 32 }, { "U32", 32 },    { "F32", 32 },        { "C64", 64 },        { "F64", 64 },
    { "I64", 64 }, { "U64", 64 },
  };
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GString) header = g_string_new ("{");
  g_autoptr (GByteArray) values = g_byte_array_new ();
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    {
      g_autofree gchar *full = g_strdup_printf ("x.%s.LayerNorm.gamma", dtypes[i].name);
      g_autofree gchar *empty = g_strdup_printf ("x.%s.empty", dtypes[i].name);
      g_autofree gchar *scalar = g_strdup_printf ("x.%s.scalar", dtypes[i].name);

      append_entry (header, values, full, dtypes[i].name, "[2,4]", dtypes[i].n_bits);
      append_entry (header, values, empty, dtypes[i].name, "[0,7]", 0);
      if (dtypes[i].n_bits % 8 == 0)
        append_entry (header, values, scalar, dtypes[i].name, "[]", dtypes[i].n_bits / 8);
    }
  g_string_append_c (header, '}');
  write_raw (folders.published, header, values);
  fixture_write (folders.published, "config.json", "{\"model_type\":\"bert\"}", -1);
  made_convert (folders.published, folders.runtime, NULL, &error);
  g_assert_no_error (error);
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  made_assert_same_folder (folders.published, folders.back);
}

/* Values at every offset from the alignment of their dtype, with and without a cast. */
static void
test_f59 (void)
{
  static const gfloat numbers[] = { 1.5f, -2, 3 };

  for (guint padding = 0; padding < 8; padding++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (GString) header =
          g_string_new ("{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                        "\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[1,13]}}");
      g_autoptr (GByteArray) values = g_byte_array_new ();
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (WeftCheckpoint) checkpoint = NULL;
      g_autoptr (WeftLoadPlan) plan = NULL;
      g_autoptr (GError) error = NULL;
      g_autofree gchar *found = NULL;

      made_folders_init (&folders);
      for (guint i = 0; i < padding; i++)
        g_string_append_c (header, ' ');
      g_byte_array_append (values, (const guint8 *) "\x09", 1);
      g_byte_array_append (values, (const guint8 *) numbers, sizeof numbers);
      write_raw (folders.published, header, values);
      weft_load_options_set_dtype (options, "F64", &error);
      checkpoint = made_open (folders.published);
      plan = weft_load_plan_new (checkpoint, options, &error);
      g_assert_no_error (error);
      found = made_show (weft_load_plan_get_outputs (plan));
      g_assert_cmpstr (found, ==, "b: U8[1] 9\nw: F64[3] 1.5 -2 3\n");
      made_convert (folders.published, folders.runtime, NULL, &error);
      made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
      g_assert_no_error (error);
      made_assert_same_folder (folders.published, folders.back);
    }
}

/* All ways to read give equal bytes; a file that is cut off meanwhile is an error. */
static void
test_f60 (void)
{
  static const WeftIoBackend backends[] = { WEFT_IO_BACKEND_PREAD, WEFT_IO_BACKEND_MMAP,
                                            WEFT_IO_BACKEND_DIRECT };

  for (guint i = 0; i < G_N_ELEMENTS (backends); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftCheckpoint) checkpoint = NULL;
      g_autoptr (WeftLoadPlan) plan = NULL;
      g_autoptr (WeftSafetensorsSink) sink = NULL;
      g_autoptr (GError) error = NULL;
      g_autoptr (GError) failure = NULL;
      g_autofree gchar *found = NULL;
      g_autofree gchar *file = NULL;

      made_folders_init (&folders);
      made_write (folders.published, MIXTRAL, "a: F32[50000] 1\nb: F32[2] 3\n");
      checkpoint = weft_checkpoint_open_full (folders.published, NULL, backends[i],
                                              WEFT_CHECKPOINT_FLAGS_NONE, NULL, &error);
      plan = weft_load_plan_new (checkpoint, NULL, &error);
      g_assert_no_error (error);
      found = made_show (weft_load_plan_get_outputs (plan));
      g_assert_nonnull (strstr (found, " 49999 50000\nb: F32[2] 3 4\n"));
      file = g_build_filename (folders.published, "model.safetensors", NULL);
      g_assert_cmpint (truncate (file, 4096), ==, 0);
      sink = weft_safetensors_sink_new_full (folders.runtime, WEFT_OUTPUT_FLAGS_NO_SYNC, &error);
      g_assert_false (weft_load_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, &failure));
      made_assert_message (failure, "model.safetensors");
      g_assert_false (g_file_test (folders.runtime, G_FILE_TEST_EXISTS));
    }
}

/* A group that is spread over several files, there and back, each tensor in its own file again. */
static void
test_f61 (void)
{
  made_assert_round_trip (MIXTRAL, EXPERTS_IN_THREE_FILES, NULL, EXPERTS_MERGED);
}

/* Threads change neither the bytes nor what is read, with a cast and without. */
static void
test_f64 (void)
{
  static const guint n_threads[] = { 0, 1, 2, 3, 16 };
  static const gchar *const dtypes[] = { "keep", "BF16" };

  for (guint i = 0; i < G_N_ELEMENTS (dtypes); i++)
    {
      g_autofree gchar *first = NULL;
      guint64 n_bytes_read = 0;

      for (guint j = 0; j < G_N_ELEMENTS (n_threads); j++)
        {
          g_auto (MadeFolders) folders = { 0 };
          g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
          g_autoptr (WeftCheckpoint) checkpoint = NULL;
          g_autoptr (WeftLoadPlan) plan = NULL;
          g_autoptr (WeftSafetensorsSink) sink = NULL;
          g_autoptr (GError) error = NULL;
          g_autofree gchar *found = NULL;
          WeftTransferOptions transfer = { .struct_size = sizeof transfer,
                                           .n_threads = n_threads[j],
                                           .tile_bytes = 4096 };
          WeftTransferCounters counters = { 0 };

          made_folders_init (&folders);
          made_write (folders.published, MIXTRAL,
                      "a: F32[100,99] 1\nl.block_sparse_moe.experts.0.w2.weight: F32[33,44]\n");
          weft_load_options_set_dtype (options, dtypes[i], &error);
          checkpoint = made_open (folders.published);
          plan = weft_load_plan_new (checkpoint, options, &error);
          sink = weft_safetensors_sink_new_full (folders.runtime, WEFT_OUTPUT_FLAGS_NO_SYNC, &error);
          g_assert_no_error (error);
          weft_load_plan_execute_full (plan, WEFT_SINK (sink), &transfer, &counters, NULL, &error);
          g_assert_no_error (error);
          found = made_show_folder (folders.runtime);
          if (j == 0)
            {
              first = g_steal_pointer (&found);
              n_bytes_read = counters.n_bytes_read;
              continue;
            }
          g_assert_cmpstr (found, ==, first);
          g_assert_cmpuint (counters.n_bytes_read, ==, n_bytes_read);
        }
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/known-failures/F32", test_f32);
  g_test_add_func ("/known-failures/F54", test_f54);
  g_test_add_func ("/known-failures/F55", test_f55);
  g_test_add_func ("/known-failures/F56", test_f56);
  g_test_add_func ("/known-failures/F57", test_f57);
  g_test_add_func ("/known-failures/F58", test_f58);
  g_test_add_func ("/known-failures/F59", test_f59);
  g_test_add_func ("/known-failures/F60", test_f60);
  g_test_add_func ("/known-failures/F61", test_f61);
  g_test_add_func ("/known-failures/F64", test_f64);
  return g_test_run ();
}
