/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a conversion: what is in it, what is not, and what becomes of a damaged one. */
#include "made-checkpoint-private.h"

#define CONFIG "{'model_type':'mixtral'}"
#define PUBLISHED                                                     \
  "--- model-00001-of-00002.safetensors\n"                            \
  "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[1,2] 1\n" \
  "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[1,2] 3\n" \
  "model.layers.0.block_sparse_moe.gate.weight: F32[2] 5\n"           \
  "--- model-00002-of-00002.safetensors\n"                            \
  "model.layers.0.block_sparse_moe.experts.1.w1.weight: F32[1,2] 7\n" \
  "model.layers.0.block_sparse_moe.experts.1.w3.weight: F32[1,2] 9\n" \
  "norm: F32[2] 11\n"
#define N_MUTATIONS 200

/* A runtime checkpoint with its record, and the text of that. */
static gchar *
make_record (MadeFolders *folders)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;

  made_folders_init (folders);
  made_write (folders->published, CONFIG, PUBLISHED);
  made_convert (folders->published, folders->runtime, NULL, &error);
  g_assert_no_error (error);
  bytes = fixture_read (folders->runtime, WEFT_PROVENANCE_FILE_NAME);
  return g_strndup (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

/* Damage: what is put in the place of what; NULL for the whole record. */
static const struct
{
  const gchar *name;
  const gchar *old;
  const gchar *new;
  const gchar *message;
} rows[] = {
  { "empty", NULL, "", "weft-provenance.json" },
  { "no-json", NULL, "{", "no valid JSON" },
  { "list", NULL, "[]", "'format' is not weft-provenance" },
  { "number", NULL, "7", "'format' is not weft-provenance" },
  { "other-format", "\"weft-provenance\"", "\"x\"", "'format' is not weft-provenance" },
  { "format-is-no-text", "\"weft-provenance\"", "1", "'format' is not weft-provenance" },
  { "newer", "\"version\": 1", "\"version\": 2", "version 2, this Weft reads version 1" },
  { "version-is-text", "\"version\": 1", "\"version\": \"1\"", "weft-provenance.json" },
  { "no-files", "\"source_files\"", "\"x\"", "'source_files' is no list" },
  { "files-are-text", "\"source_files\": [", "\"source_files\": \"\", \"x\": [",
    "'source_files' is no list" },
  { "no-file-at-all", "\"source_files\": [", "\"source_files\": [], \"x\": [", "no source file" },
  { "file-is-text", "\"source_files\": [", "\"source_files\": [\"x\",", "no name or no header" },
  { "file-without-header", "\"header\"", "\"x\"", "no name or no header" },
  { "file-above", "\"name\": \"model-00001", "\"name\": \"../model-00001",
    "'../model-00001-of-00002.safetensors'" },
  { "file-at-root", "\"name\": \"model-00001", "\"name\": \"/model-00001",
    "'/model-00001-of-00002.safetensors'" },
  { "file-hidden", "\"name\": \"model-00001", "\"name\": \".model-00001",
    "'.model-00001-of-00002.safetensors'" },
  { "file-without-name", "\"name\": \"model-00001-of-00002.safetensors\"", "\"name\": \"\"", "found ''" },
  { "file-twice", "\"name\": \"model-00001", "\"name\": \"model-00002", "model-00002-of-00002.safetensors" },
  { "index-above", "\"name\": \"model.safetensors.index.json\"", "\"name\": \"../index\"", "'../index'" },
  { "index-without-name", "\"name\": \"model.safetensors.index.json\"", "\"x\": \"index\"",
    "'source_index'" },
  { "index-with-name-of-a-shard", "\"name\": \"model.safetensors.index.json\"",
    "\"name\": \"model-00001-of-00002.safetensors\"", "model-00001-of-00002.safetensors" },
  { "index-is-a-number", "\"source_index\": {", "\"source_index\": 7, \"x\": {", "'source_index'" },
  { "header-is-no-header", "\"header\": \"{", "\"header\": \"[", "weft-provenance.json" },
  { "header-with-hole", "[0,8]", "[4,8]", "weft-provenance.json" },
  { "header-beyond-all-numbers", "[0,8]", "[0,99999999999999999999]", "weft-provenance.json" },
  { "header-name-twice", "\\\"norm\\\":{", "\\\"model.layers.0.block_sparse_moe.gate.weight\\\":{",
    "weft-provenance.json" },
  { "header-name-changed", "\\\"norm\\\":{", "\\\"aaaa\\\":{", NULL },
  { "no-rules", "\"rules\"", "\"x\"", "'rules' is no list" },
  { "rule-is-a-number", "\"rules\": [", "\"rules\": [1,", "a rule is no object" },
  { "rule-of-no-kind", "\"type\":\"WeightConverter\"", "\"type\":\"Nothing\"",
    "conversions[0] is malformed" },
  { "op-of-no-kind", "\"MergeModulelist\"", "\"NoSuchOp\"", "NoSuchOp" },
  { "op-with-other-dim", "\"dim\":1", "\"dim\":77", "dim" },
  { "no-conversions", "\"conversions\"", "\"x\"", "'conversions' is no list" },
  { "conversion-is-a-number", "\"conversions\": [", "\"conversions\": [1,", "conversions[0] is malformed" },
  { "conversion-is-empty", "\"conversions\": [", "\"conversions\": [[],", "conversions[0] is malformed" },
  { "conversion-of-nothing", "\"conversions\": [", "\"conversions\": [{},", "conversions[0] is malformed" },
  { "conversion-without-output", "\"conversions\": [",
    "\"conversions\": [{\"rule\":-1,\"layer\":\"x\",\"outputs\":[],\"sources\":[0,0,0]},",
    "conversions[0] is malformed" },
  { "conversion-without-source", "\"conversions\": [",
    "\"conversions\": [{\"rule\":-1,\"layer\":\"x\",\"outputs\":[[0,-1,\"norm\",\"F32\"]],\"sources\":[]},",
    "conversions[0] is malformed" },
  { "renaming-with-two-sources", "\"conversions\": [",
    "\"conversions\": [{\"rule\":-1,\"layer\":\"x\",\"outputs\":[[0,-1,\"norm\",\"F32\"]],\"sources\":[0,0,0,1,0,0]},",
    "conversions[0] is malformed" },
  { "renaming-with-two-outputs", "\"conversions\": [",
    "\"conversions\": [{\"rule\":-1,\"layer\":\"x\",\"outputs\":[[0,-1,\"norm\",\"F32\"],[0,-1,\"norm\",\"F32\"]],\"sources\":[0,0,0]},",
    "conversions[0] is malformed" },
  { "rule-beyond-the-list", "{\"rule\": 1,", "{\"rule\": 4711,", "conversions[0] is malformed" },
  { "rule-before-the-list", "{\"rule\": 1,", "{\"rule\": -7,", "conversions[0] is malformed" },
  { "rule-that-is-a-renaming", "{\"rule\": 1,", "{\"rule\": 0,", "conversions[0] is malformed" },
  { "rule-that-is-text", "{\"rule\": 1,", "{\"rule\": \"1\",", "conversions[0] is malformed" },
  { "source-beyond-the-list", "[4,\"model.layers.0.mlp.gate.weight\"",
    "[6,\"model.layers.0.mlp.gate.weight\"", "conversions[1] is malformed" },
  { "source-beyond-32-bits", "[4,\"model.layers.0.mlp.gate.weight\"",
    "[4294967300,\"model.layers.0.mlp.gate.weight\"", "conversions[1] is malformed" },
  { "source-beyond-64-bits", "[4,\"model.layers.0.mlp.gate.weight\"",
    "[99999999999999999999999999,\"model.layers.0.mlp.gate.weight\"", "conversions[1] is malformed" },
  { "source-is-a-fraction", "[4,\"model.layers.0.mlp.gate.weight\"",
    "[4.5,\"model.layers.0.mlp.gate.weight\"", "conversions[1] is malformed" },
  { "source-twice", "[4,\"model.layers.0.mlp.gate.weight\"", "[5,\"model.layers.0.mlp.gate.weight\"",
    "norm" },
  { "output-of-no-dtype", "\"model.layers.0.mlp.gate.weight\",\"F32\"",
    "\"model.layers.0.mlp.gate.weight\",\"F33\"", "conversions[1] is malformed" },
  { "output-of-another-dtype", "\"model.layers.0.mlp.gate.weight\",\"F32\"",
    "\"model.layers.0.mlp.gate.weight\",\"F16\"", "written as F16 and is F32 now" },
  { "output-without-name", "\"model.layers.0.mlp.gate.weight\",\"F32\"", "7,\"F32\"",
    "conversions[1] is malformed" },
  { "output-that-is-gone", "\"model.layers.0.mlp.gate.weight\",\"F32\"", "\"xyz\",\"F32\"", "'xyz' is gone" },
  { "output-twice", "\"model.layers.0.mlp.gate.weight\",\"F32\"", "\"norm\",\"F32\"",
    "'norm' is named twice" },
  { "target-pattern-beyond-the-list", "\"outputs\": [[0,", "\"outputs\": [[1,",
    "conversions[0] is malformed" },
  { "source-pattern-beyond-the-list", "\"sources\": [0,0,0,", "\"sources\": [0,2,0,",
    "conversions[0] is malformed" },
  { "source-list-cut", "\"sources\": [0,0,0,", "\"sources\": [", NULL },
  { "expert-beyond-all-numbers", "\"sources\": [0,0,0,", "\"sources\": [0,0,9223372036854775807,",
    "no tensor" },
  { "expert-twice", "\"sources\": [0,0,0,", "\"sources\": [0,0,1,", NULL },
  { "layer-is-a-number", "\"layer\": \"model.layers.0.mlp.experts.gate_up_proj\"", "\"layer\": 1",
    "conversions[0] is malformed" },
  { "layer-changed", "\"layer\": \"model", "\"layer\": \"xodel", NULL },
};

/* Reverting by a damaged record gives an error, and no output; or, where the damage leaves a valid record, an output. */
static void
assert_survives (MadeFolders *folders, const gchar *message)
{
  g_autoptr (GError) error = NULL;
  gboolean ok = made_revert (folders->runtime, folders->back, NULL, WEFT_REVERT_FLAGS_NONE, &error);

  g_assert_true (ok == (error == NULL));
  g_assert_true (ok == g_file_test (folders->back, G_FILE_TEST_EXISTS));
  if (message != NULL)
    {
      g_assert_false (ok);
      made_assert_message (error, message);
    }
  if (ok)
    fixture_remove_tree (folders->back);
}

static void
test_damaged (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *record = make_record (&folders);
  g_autoptr (GString) damaged = g_string_new (rows[i].old == NULL ? rows[i].new : record);

  if (rows[i].old != NULL)
    g_assert_cmpuint (g_string_replace (damaged, rows[i].old, rows[i].new, 1), ==, 1);
  fixture_write (folders.runtime, WEFT_PROVENANCE_FILE_NAME, damaged->str, (gssize) damaged->len);
  assert_survives (&folders, rows[i].message);
}

static void
test_truncated (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *record = make_record (&folders);
  gsize n_bytes = strlen (record);

  for (gsize length = 0; length + 2 < n_bytes; length += 37)
    {
      fixture_write (folders.runtime, WEFT_PROVENANCE_FILE_NAME, record, (gssize) length);
      assert_survives (&folders, "weft-provenance.json");
    }
}

/* Changes of a few bytes, mostly of such that mean something. */
static void
test_mutated (void)
{
  static const gchar letters[] = "0123456789-.,:[]{}\"\\ tfne\x80\xff";
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *record = make_record (&folders);
  gsize n_bytes = strlen (record);

  for (guint i = 0; i < N_MUTATIONS; i++)
    {
      g_autofree gchar *mutated = g_memdup2 (record, n_bytes);
      gint n_changes = g_test_rand_int_range (1, 4);

      for (gint j = 0; j < n_changes; j++)
        mutated[g_test_rand_int_range (0, (gint32) n_bytes)] =
            letters[g_test_rand_int_range (0, sizeof letters - 1)];
      fixture_write (folders.runtime, WEFT_PROVENANCE_FILE_NAME, mutated, (gssize) n_bytes);
      assert_survives (&folders, NULL);
    }
}

/* No bytes of a tensor, in whatever spelling. */
static void
test_holds_no_tensor_bytes (void)
{
  static const gfloat pattern[] = { 123456.78f, -98765.43f, 31415.92f };
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autofree gchar *base64 = g_base64_encode ((const guchar *) pattern, sizeof pattern);
  g_autoptr (GString) hex = g_string_new (NULL);
  g_autoptr (GBytes) record = NULL;
  gsize n_bytes;
  const gchar *text;

  made_folders_init (&folders);
  made_write (folders.published, CONFIG, "w: F32[3] 123456.78 -98765.43 31415.92\n");
  weft_load_options_set_is_hashed (options, TRUE);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  record = fixture_read (folders.runtime, WEFT_PROVENANCE_FILE_NAME);
  text = g_bytes_get_data (record, &n_bytes);
  for (gsize i = 0; i < sizeof pattern; i++)
    g_string_append_printf (hex, "%02x", ((const guint8 *) pattern)[i]);
  g_assert_null (memmem (text, n_bytes, pattern, sizeof pattern[0]));
  g_assert_null (g_strstr_len (text, (gssize) n_bytes, base64));
  for (gsize i = 0; i + 8 <= hex->len; i += 8)
    {
      g_autofree gchar *value = g_strndup (hex->str + i, 8);
      g_autofree gchar *upper = g_ascii_strup (value, -1);

      g_assert_null (g_strstr_len (text, (gssize) n_bytes, value));
      g_assert_null (g_strstr_len (text, (gssize) n_bytes, upper));
    }
  g_assert_null (g_strstr_len (text, (gssize) n_bytes, "123456"));
}

/* A hash of a source file is there if it was asked for, and is not otherwise. */
static void
test_hash (void)
{
  for (guint is_hashed = 0; is_hashed < 2; is_hashed++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
      g_autoptr (GError) error = NULL;
      g_autoptr (GBytes) record = NULL;

      made_folders_init (&folders);
      made_write (folders.published, CONFIG, "w: F32[3] 1\n");
      weft_load_options_set_is_hashed (options, is_hashed == 1);
      made_convert (folders.published, folders.runtime, options, &error);
      g_assert_no_error (error);
      record = fixture_read (folders.runtime, WEFT_PROVENANCE_FILE_NAME);
      g_assert_true (
          (g_strstr_len (g_bytes_get_data (record, NULL), (gssize) g_bytes_get_size (record), "xxh3-128:")
           != NULL)
          == (is_hashed == 1));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/provenance/damaged/%s", rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_damaged);
    }
  g_test_add_func ("/provenance/truncated", test_truncated);
  g_test_add_func ("/provenance/mutated", test_mutated);
  g_test_add_func ("/provenance/holds-no-tensor-bytes", test_holds_no_tensor_bytes);
  g_test_add_func ("/provenance/hash", test_hash);
  return g_test_run ();
}
