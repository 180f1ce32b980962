/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying an output: each way in which it can be wrong is found by the check that is there for it. */
#include "made-checkpoint-private.h"

#define CONFIG "{'model_type':'mixtral','architectures':['MixtralForCausalLM']}"
#define FIRST "model-00001-of-00002.safetensors"
#define SECOND "model-00002-of-00002.safetensors"
#define PUBLISHED                                                      \
  "--- " FIRST "\n"                                                    \
  "model.layers.0.block_sparse_moe.gate.weight: F32[2,2] 7\n"          \
  "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[2,2] 1\n"  \
  "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[2,2] 21\n" \
  "--- " SECOND "\n"                                                   \
  "model.layers.0.block_sparse_moe.experts.1.w1.weight: F32[2,2] 31\n" \
  "model.layers.0.block_sparse_moe.experts.1.w3.weight: F32[2,2] 51\n" \
  "lm_head.weight: F32[2] 3"

/* Checks and outcomes in order, such as `files+ record+ hashes-`; `?` is skipped. */
static gchar *
list_outcomes (WeftVerification *verification)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < weft_verification_get_n_checks (verification); i++)
    g_string_append_printf (text, "%s%s%c", i > 0 ? " " : "",
                            weft_verification_get_check_name (verification, i),
                            "+-?"[weft_verification_get_check_outcome (verification, i)]);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

static gchar *
verify (const MadeFolders *folders)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftVerification) verification = weft_verification_new (folders->runtime, NULL, &error);
  g_autoptr (WeftCheckpoint) source = made_open (folders->published);

  g_assert_no_error (error);
  g_assert_true (weft_verification_check_record (verification, &error));
  g_assert_true (weft_verification_check_hashes (verification, NULL, &error));
  g_assert_true (weft_verification_check_source (verification, source, NULL, NULL, &error));
  g_assert_true (weft_verification_check_round_trip (verification, source, NULL, FALSE, NULL, &error));
  g_assert_true (weft_verification_check_round_trip (verification, source, NULL, TRUE, NULL, &error));
  g_assert_no_error (error);
  return list_outcomes (verification);
}

typedef void (*Damage) (const MadeFolders *folders);

static void
leave_alone (G_GNUC_UNUSED const MadeFolders *folders)
{
}

static void
flip_last_byte (const MadeFolders *folders)
{
  g_autoptr (GBytes) bytes = fixture_read (folders->runtime, FIRST);
  g_autofree guint8 *copy = g_memdup2 (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));

  copy[g_bytes_get_size (bytes) - 1] ^= 1;
  fixture_write (folders->runtime, FIRST, copy, (gssize) g_bytes_get_size (bytes));
}

static void
cut_file (const MadeFolders *folders)
{
  g_autoptr (GBytes) bytes = fixture_read (folders->runtime, FIRST);

  fixture_write (folders->runtime, FIRST, g_bytes_get_data (bytes, NULL),
                 (gssize) g_bytes_get_size (bytes) - 4);
}

static void
remove_shard (const MadeFolders *folders)
{
  g_autofree gchar *path = g_build_filename (folders->runtime, SECOND, NULL);

  g_assert_cmpint (g_remove (path), ==, 0);
}

static void
remove_record (const MadeFolders *folders)
{
  g_autofree gchar *path = g_build_filename (folders->runtime, WEFT_PROVENANCE_FILE_NAME, NULL);

  g_assert_cmpint (g_remove (path), ==, 0);
}

static void
break_record (const MadeFolders *folders)
{
  fixture_write (folders->runtime, WEFT_PROVENANCE_FILE_NAME, "{\"format\": \"weft-provenance\"", -1);
}

/* Puts a checkpoint of one tensor fewer, or more, in place of the weights; the record stays. */
static void
drop_tensor (const MadeFolders *folders)
{
  made_write (folders->runtime, CONFIG,
              "--- " FIRST "\nmodel.layers.0.mlp.gate.weight: F32[2,2] 7\n"
              "--- " SECOND "\nlm_head.weight: F32[2] 3");
}

static void
change_dtype (const MadeFolders *folders)
{
  made_write (
      folders->runtime, CONFIG,
      "--- " FIRST "\nmodel.layers.0.mlp.gate.weight: BF16[2,2] 7\n"
      "model.layers.0.mlp.experts.gate_up_proj: F32[2,4,2] 1 2 3 4 21 22 23 24 31 32 33 34 51 52 53 54\n"
      "--- " SECOND "\nlm_head.weight: F32[2] 3");
}

static void
change_source (const MadeFolders *folders)
{
  made_write (folders->published, CONFIG, PUBLISHED "\nmodel.norm.weight: F32[2] 3");
}

static void
test_damage (void)
{
  static const struct
  {
    Damage damage;
    const gchar *expected;
  } rows[] = {
    { leave_alone,
      "files+ record+ hashes+ source+ round trip: headers+ round trip: files+ round trip: bytes+ "
      "round trip: files+" },
    { flip_last_byte,
      "files+ record+ hashes- source- round trip: headers+ round trip: files+ round trip: bytes- "
      "round trip: files+" },
    { cut_file, "files- record? hashes? source? round trip: headers? round trip: bytes?" },
    { remove_shard, "files- record? hashes? source? round trip: headers? round trip: bytes?" },
    { remove_record,
      "files+ record? hashes? source+ round trip: headers+ round trip: files? round trip: bytes+ "
      "round trip: files?" },
    { break_record, "files+ record- hashes- source+ round trip: headers- round trip: bytes-" },
    { drop_tensor, "files+ record- hashes- source- round trip: headers- round trip: bytes-" },
    { change_dtype, "files+ record- hashes- source- round trip: headers- round trip: bytes-" },
    { change_source,
      "files+ record+ hashes+ source- round trip: headers- round trip: files- round trip: bytes- "
      "round trip: files-" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (GError) error = NULL;
      g_autofree gchar *found = NULL;

      made_folders_init (&folders);
      made_write (folders.published, CONFIG, PUBLISHED);
      weft_load_options_set_is_hashed (options, TRUE);
      made_convert (folders.published, folders.runtime, options, &error);
      g_assert_no_error (error);
      rows[i].damage (&folders);
      found = verify (&folders);
      g_assert_cmpstr (found, ==, rows[i].expected);
    }
}

/* Every file that is damaged is named, not the first one alone. */
static void
test_each_file_is_named (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftVerification) verification = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GString) details = g_string_new (NULL);

  made_folders_init (&folders);
  made_write (folders.published, CONFIG, PUBLISHED);
  fixture_write (folders.published, FIRST, "abc", -1);
  fixture_write (folders.published, SECOND, "\x05\0\0\0\0\0\0\0[]", 10);
  verification = weft_verification_new (folders.published, NULL, &error);
  g_assert_no_error (error);
  g_assert_false (weft_verification_has_passed (verification));
  for (guint i = 0; i < weft_verification_get_n_checks (verification); i++)
    g_string_append (details, weft_verification_get_check_detail (verification, i));
  g_assert_nonnull (strstr (details->str, FIRST));
  g_assert_nonnull (strstr (details->str, SECOND));
}

static void
test_nothing_there (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftVerification) verification = weft_verification_new ("/no/such/folder", NULL, &error);

  g_assert_null (verification);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/verification/damage", test_damage);
  g_test_add_func ("/verification/each-file-is-named", test_each_file_is_named);
  g_test_add_func ("/verification/nothing-there", test_nothing_there);
  return g_test_run ();
}
