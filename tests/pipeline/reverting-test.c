/* SPDX-License-Identifier: Apache-2.0 */
/* The way back: the inverse of the plan on the tensors that are there, with the record and without. */
#include "made-checkpoint-private.h"

#define MIXTRAL "{'model_type':'mixtral','architectures':['MixtralForCausalLM']}"
#define MIXTRAL_PUBLISHED                                              \
  "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[1,2] 10\n" \
  "model.layers.0.block_sparse_moe.experts.0.w2.weight: F32[2,1] 20\n" \
  "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[1,2] 30\n" \
  "model.layers.0.block_sparse_moe.experts.1.w1.weight: F32[1,2] 40\n" \
  "model.layers.0.block_sparse_moe.experts.1.w2.weight: F32[2,1] 50\n" \
  "model.layers.0.block_sparse_moe.experts.1.w3.weight: F32[1,2] 60\n" \
  "model.layers.0.block_sparse_moe.gate.weight: F32[2,2] 70\n"
#define MIXTRAL_RUNTIME                                                           \
  "model.layers.0.mlp.experts.down_proj: F32[2,2,1] 20 21 50 51\n"                \
  "model.layers.0.mlp.experts.gate_up_proj: F32[2,2,2] 10 11 30 31 40 41 60 61\n" \
  "model.layers.0.mlp.gate.weight: F32[2,2] 70 71 72 73\n"

/* Bytes come back whatever was renamed and however each key was spelt. */
static const struct
{
  const gchar *name;
  const gchar *config;
  const gchar *mapping;
  const gchar *model;
  const gchar *model_tensors;
  const gchar *published;
  const gchar *runtime;
} rows[] = {
  { "mixtral", MIXTRAL, NULL, NULL, NULL, MIXTRAL_PUBLISHED, MIXTRAL_RUNTIME },
  /* Already fused: no rule was used, so none is reversed. */
  { "fused-already", MIXTRAL, NULL, NULL, NULL, MIXTRAL_RUNTIME, MIXTRAL_RUNTIME },
  { "prefix-removed", NULL, "{'type':'PrefixChange','prefix_to_remove':'bad'}", NULL, NULL,
    "bad.a: F32[1] 1\nx.bad.b: F32[1] 2\n", "a: F32[1] 1\nx.bad.b: F32[1] 2\n" },
  { "prefix-repaired", NULL, NULL, "TestForB test model", "model.a: F32[1]\nhead: F32[1]",
    "a: F32[1] 1\nhead: F32[1] 2\n", "head: F32[1] 2\nmodel.a: F32[1] 1\n" },
  { "prefix-there-already", NULL, NULL, "TestForB test model", "model.a: F32[1]\nhead: F32[1]",
    "model.a: F32[1] 1\nhead: F32[1] 2\n", "head: F32[1] 2\nmodel.a: F32[1] 1\n" },
  { "group", NULL,
    "{'type':'GroupWeightRename','source_patterns':['norm0','norm1'],'target_patterns':['norm1','norm2']}",
    NULL, NULL, "l.norm0.w: F32[1] 1\nl.norm1.w: F32[1] 2\n", "l.norm1.w: F32[1] 1\nl.norm2.w: F32[1] 2\n" },
  { "group-converted-already", NULL,
    RENAME (
        "^x",
        "y") ",{'type':'GroupWeightRename','source_patterns':['norm0','norm1'],'target_patterns':['norm1','norm2']}",
    NULL, NULL, "l.norm1.w: F32[1] 1\nl.norm2.w: F32[1] 2\nx: F32[1]\n",
    "l.norm1.w: F32[1] 1\nl.norm2.w: F32[1] 2\ny: F32[1] 0\n" },
  /* The reference writes gamma for both. */
  { "both-spellings", "{'model_type':'bert'}", NULL, NULL, NULL,
    "a.LayerNorm.gamma: F32[1] 1\nb.LayerNorm.weight: F32[1] 2\nc.LayerNorm.beta: F32[1] 3\nd.LayerNorm.bias: F32[1] 4\n",
    "a.LayerNorm.weight: F32[1] 1\nb.LayerNorm.weight: F32[1] 2\nc.LayerNorm.bias: F32[1] 3\nd.LayerNorm.bias: F32[1] 4\n" },
  { "rules-that-cross", NULL, RENAME ("^a", "b") "," RENAME ("^x", "a") "," RENAME ("^a", "c"), NULL, NULL,
    "a.w: F32[1] 1\nx.w: F32[1] 2\n", "b.w: F32[1] 1\nc.w: F32[1] 2\n" },
  { "rules-that-no-reverse-rule-undoes", NULL, RENAME ("^(?:enc|dec)\\\\.(\\\\d+)\\\\.", "m.\\\\1."), NULL,
    NULL, "dec.1.w: F32[1] 1\nenc.0.w: F32[1] 2\n", "m.0.w: F32[1] 2\nm.1.w: F32[1] 1\n" },
  /* Dtypes, empty tensors and scalars. */
  { "all-shapes", MIXTRAL, NULL, NULL, NULL,
    "a: F64[] 1\nb: I64[0,3]\nc: BOOL[2] 0\nd: F8_E4M3[3] 1\ne: U8[1,1,1,1] 9\n",
    "a: F64[] 1\nb: I64[0,3]\nc: BOOL[2] 0 1\nd: F8_E4M3[3] 1 2 3\ne: U8[1,1,1,1] 9\n" },
  { "shards", MIXTRAL, NULL, NULL, NULL,
    "--- model-00001-of-00003.safetensors\n"
    "model.layers.0.block_sparse_moe.experts.0.w2.weight: F32[1,1] 1\n"
    "--- model-00002-of-00003.safetensors\n"
    "model.layers.0.block_sparse_moe.experts.1.w2.weight: F32[1,1] 2\n"
    "z: F32[1] 3\n"
    "--- model-00003-of-00003.safetensors\n"
    "a: F32[1] 4\n",
    "a: F32[1] 4\nmodel.layers.0.mlp.experts.down_proj: F32[2,1,1] 1 2\nz: F32[1] 3\n" },
};

static void
test_round_trip (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      made_options (rows[i].mapping, rows[i].model, rows[i].model_tensors, NULL);

  made_assert_round_trip (rows[i].config, rows[i].published, options, rows[i].runtime);
}

/* Without a record the model's mapping decides the names: no change of prefix, no rule for old names. */
static const struct
{
  const gchar *name;
  const gchar *config;
  const gchar *mapping;
  const gchar *runtime;
  const gchar *published;
} bare_rows[] = {
  { "mixtral", MIXTRAL, NULL, MIXTRAL_RUNTIME,
    "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[1,2] 10 11\n"
    "model.layers.0.block_sparse_moe.experts.0.w2.weight: F32[2,1] 20 21\n"
    "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[1,2] 30 31\n"
    "model.layers.0.block_sparse_moe.experts.1.w1.weight: F32[1,2] 40 41\n"
    "model.layers.0.block_sparse_moe.experts.1.w2.weight: F32[2,1] 50 51\n"
    "model.layers.0.block_sparse_moe.experts.1.w3.weight: F32[1,2] 60 61\n"
    "model.layers.0.block_sparse_moe.gate.weight: F32[2,2] 70 71 72 73\n" },
  { "old-names-stay-new", "{'model_type':'bert'}", NULL, "a.LayerNorm.weight: F32[1] 1\n",
    "a.LayerNorm.weight: F32[1] 1\n" },
  { "converter-then-rename", NULL,
    RENAME ("^old_prefix", "encoder") "," CONVERT ("'attn.qk'", "'attn.q','attn.k'", OP_DIM ("Chunk", 0)),
    "encoder.attn.k: F32[1] 2\nencoder.attn.q: F32[1] 1\nencoder.norm: F32[1] 3\n",
    "old_prefix.attn.qk: F32[2] 1 2\nold_prefix.norm: F32[1] 3\n" },
  { "no-prefix", NULL, RENAME ("^a", "b") ",{'type':'PrefixChange','prefix_to_remove':'bad'}",
    "b.w: F32[1] 1\nc.w: F32[1] 2\n", "a.w: F32[1] 1\nc.w: F32[1] 2\n" },
};

static void
test_without_record (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options = made_options (bare_rows[i].mapping, NULL, NULL, NULL);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  made_write (folders.runtime, bare_rows[i].config, bare_rows[i].runtime);
  made_revert (folders.runtime, folders.back, options, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.back);
  g_assert_cmpstr (found, ==, bare_rows[i].published);
}

/* The key mapping of the caller is reversed too, and one that matches nothing stops. */
static void
test_key_mapping_without_record (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  made_write (folders.runtime, NULL, "model.layers.0.mlp.gate.weight: F32[1] 1\n");
  weft_load_options_set_model_type (options, "mixtral");
  weft_load_options_add_key_mapping (options, "^transformer\\.", "model.", &error);
  g_assert_no_error (error);
  made_revert (folders.runtime, folders.back, options, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.back);
  g_assert_cmpstr (found, ==, "transformer.layers.0.block_sparse_moe.gate.weight: F32[1] 1\n");
}

static void
test_key_mapping_that_matches_nothing (void)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.runtime, MIXTRAL, "model.layers.0.mlp.gate.weight: F32[1] 1\n");
  weft_load_options_add_key_mapping (options, "^x\\.", "y.", &error);
  g_assert_no_error (error);
  g_assert_false (made_revert (folders.runtime, folders.back, options, WEFT_REVERT_FLAGS_NONE, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  made_assert_message (error, "key mapping 1|matches no tensor");
}

static const struct
{
  const gchar *name;
  const gchar *mapping;
  const gchar *runtime;
  gint code;
  const gchar *message;
} refused_rows[] = {
  { "mapping-that-matches-nothing", RENAME ("^a", "b"), "c.w: F32[1]\n", WEFT_ERROR_MISSING,
    "no rule of the mapping|1 tensors" },
  { "two-tensors-on-one-name", RENAME ("^a", "b"), "a.w: F32[1]\nb.w: F32[1]\n", WEFT_ERROR_CONFLICT,
    "go back to 'a.w'" },
  { "no-mapping-at-all", NULL, "c.w: F32[1]\n", WEFT_ERROR_MISSING, "neither a record|--model-type" },
  { "half-of-a-group", CONVERT ("'qk'", "'q','k'", OP_DIM ("Chunk", 0)), "q: F32[1]\n", WEFT_ERROR_MISSING,
    "'k'" },
};

static void
test_refused (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options = made_options (refused_rows[i].mapping, NULL, NULL, NULL);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.runtime, NULL, refused_rows[i].runtime);
  g_assert_false (made_revert (folders.runtime, folders.back, options, WEFT_REVERT_FLAGS_NONE, &error));
  g_assert_error (error, WEFT_ERROR, refused_rows[i].code);
  made_assert_message (error, refused_rows[i].message);
  g_assert_false (g_file_test (folders.back, G_FILE_TEST_EXISTS));
}

/* Puts other bytes in the place of the first @old in a file; there has to be one. */
static void
edit (const gchar *folder, const gchar *name, gfloat old, gfloat new)
{
  g_autoptr (GBytes) bytes = fixture_read (folder, name);
  gsize n_bytes;
  g_autofree gchar *copy = g_memdup2 (g_bytes_get_data (bytes, &n_bytes), g_bytes_get_size (bytes));
  gchar *at = memmem (copy, n_bytes, &old, sizeof old);

  g_assert_nonnull (at);
  memcpy (at, &new, sizeof new);
  fixture_write (folder, name, copy, (gssize) n_bytes);
}

/* With the source gone and a value edited, the published names come back with the edit in place. */
static void
test_edited (gconstpointer with_record)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GString) expected = g_string_new (NULL);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *record = NULL;
  g_autofree gchar *found = NULL;
  g_autofree gchar *published = NULL;

  made_folders_init (&folders);
  made_write (folders.published, MIXTRAL, MIXTRAL_PUBLISHED);
  published = made_show_folder (folders.published);
  made_convert (folders.published, folders.runtime, NULL, &error);
  g_assert_no_error (error);
  fixture_remove_tree (folders.published);
  edit (folders.runtime, "model.safetensors", 61, 1000);
  edit (folders.runtime, "model.safetensors", 20, 2000);
  record = g_build_filename (folders.runtime, WEFT_PROVENANCE_FILE_NAME, NULL);
  if (!GPOINTER_TO_INT (with_record))
    g_assert_cmpint (g_remove (record), ==, 0);
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  g_string_assign (expected, published);
  g_assert_cmpuint (g_string_replace (expected, " 61\n", " 1000\n", 0), ==, 1);
  g_assert_cmpuint (g_string_replace (expected, " 20 ", " 2000 ", 0), ==, 1);
  found = made_show_folder (folders.back);
  g_assert_cmpstr (found, ==, expected->str);
}

/* A tensor that somebody added comes along; one that was removed stops, by name. */
static void
test_added_and_removed (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autofree gchar *other = NULL;
  g_autofree gchar *found = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) refusal = NULL;

  made_folders_init (&folders);
  made_write (folders.published, MIXTRAL, "a.block_sparse_moe.gate.weight: F32[1] 1\nb: F32[1] 2\n");
  made_convert (folders.published, folders.runtime, NULL, &error);
  g_assert_no_error (error);
  made_write (folders.runtime, NULL, "a.mlp.gate.weight: F32[1] 1\nb: F32[1] 2\nlora: F32[1] 3\n");
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.back);
  g_assert_cmpstr (found, ==, "a.block_sparse_moe.gate.weight: F32[1] 1\nb: F32[1] 2\nlora: F32[1] 3\n");
  made_write (folders.runtime, NULL, "b: F32[1] 2\n");
  other = g_strconcat (folders.back, "2", NULL);
  g_assert_false (made_revert (folders.runtime, other, NULL, WEFT_REVERT_FLAGS_NONE, &refusal));
  g_assert_error (refusal, WEFT_ERROR, WEFT_ERROR_MISSING);
  made_assert_message (refusal, "'a.mlp.gate.weight' is gone|'a.block_sparse_moe.gate.weight'");
}

/* An edit of dtype or shape is not put back under the old header. */
static void
test_changed_type (void)
{
  static const struct
  {
    const gchar *tensor;
    gint code;
    const gchar *message;
  } changes[] = {
    { "a.mlp.gate.weight: BF16[2] 1\n", WEFT_ERROR_DTYPE, "written as F32 and is BF16 now" },
    { "a.mlp.gate.weight: F32[3] 1\n", WEFT_ERROR_NOT_REVERSIBLE, "shape (2,)|gives (3,)" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (changes); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (GError) error = NULL;

      made_folders_init (&folders);
      made_write (folders.published, MIXTRAL, "a.block_sparse_moe.gate.weight: F32[2] 1\n");
      made_convert (folders.published, folders.runtime, NULL, &error);
      g_assert_no_error (error);
      made_write (folders.runtime, NULL, changes[i].tensor);
      g_assert_false (made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error));
      g_assert_error (error, WEFT_ERROR, changes[i].code);
      made_assert_message (error, changes[i].message);
    }
}

/* A mapping beside a record would be ignored: it is refused, and taken where the record is not to be used. */
static void
test_mapping_beside_record (void)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) mapping = made_mapping (RENAME ("^old", "new"));
  g_autoptr (WeftTransformList) other = made_mapping (RENAME ("^older", "new"));
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  made_folders_init (&folders);
  made_write (folders.published, NULL, "old.w: F32[1] 1\n");
  weft_load_options_set_mapping (options, mapping);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  weft_load_options_set_mapping (options, other);
  g_assert_false (made_revert (folders.runtime, folders.back, options, WEFT_REVERT_FLAGS_NONE, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  made_assert_message (error, "has a record|--no-provenance");
  g_clear_error (&error);
  made_revert (folders.runtime, folders.back, options, WEFT_REVERT_FLAGS_IGNORE_PROVENANCE, &error);
  g_assert_no_error (error);
  found = made_show_folder (folders.back);
  g_assert_cmpstr (found, ==, "older.w: F32[1] 1\n");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/reverting/round-trip/%s", rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_round_trip);
    }
  for (guint i = 0; i < G_N_ELEMENTS (bare_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/reverting/without-record/%s", bare_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_without_record);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/reverting/refused/%s", refused_rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/reverting/key-mapping-without-record", test_key_mapping_without_record);
  g_test_add_func ("/reverting/key-mapping-that-matches-nothing", test_key_mapping_that_matches_nothing);
  g_test_add_data_func ("/reverting/edited/with-record", GINT_TO_POINTER (TRUE), test_edited);
  g_test_add_data_func ("/reverting/edited/without-record", GINT_TO_POINTER (FALSE), test_edited);
  g_test_add_func ("/reverting/mapping-beside-record", test_mapping_beside_record);
  g_test_add_func ("/reverting/added-and-removed", test_added_and_removed);
  g_test_add_func ("/reverting/changed-type", test_changed_type);
  return g_test_run ();
}
