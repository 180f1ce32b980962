/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights over two ranks, whatever the method and the style: what ranks hold is joined to the original, and each rank's values are
 * its slice of all values; or the cut is refused. */
#include "../pipeline/made-checkpoint-private.h"

#define N_RANKS 2
#define N_MANY_RANKS 16

/* What has to be cut: refusing all would be right, and of no use. */
static const struct
{
  const gchar *set;
  const gchar *style;
} cuts[] = {
  { "bnb-int8", "replicate" },
  { "ct-fp8-block", "colwise" },
  { "ct-fp8-channel-f32-scales", "colwise" },
  { "ct-int8-w8a8-channel", "colwise" },
  { "ct-mxfp4", "colwise" },
  { "ct-mxfp8", "rowwise" },
  { "fbgemm-fp8-per-row", "colwise" },
  { "fp4-int8-ue8m0-experts", "grouped_gemm" },
  { "fp8-block-ue8m0", "colwise" },
  { "mlx-affine-4bit", "colwise" },
  { "modelopt-nvfp4", "colwise" },
  { "torchao-int8-weight-only", "colwise" },
};

/* One of each layout. */
static const gchar *const styles[] = { "colwise",           "colwise_segments", "rowwise",
                                       "packed_colwise",    "packed_rowwise",   "embedding_rowwise",
                                       "embedding_colwise", "grouped_gemm",     "replicate" };

typedef struct
{
  const gchar *source;
  WeftParallelPlan *plan;
  /* Its codes are read as values in any case. */
  gboolean is_gguf;
  guint n_ranks;
} Case;

/* @rank: -1: all of it. */
static WeftLoadOptions *
make_options (const Case *self, gint rank, gboolean is_dequantized)
{
  const guint mesh[] = { self->n_ranks };
  WeftLoadOptions *options = weft_load_options_new ();

  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_KEEP_NAMES | WEFT_LOAD_FLAGS_OPEN);
  weft_load_options_set_is_dequantized (options, is_dequantized);
  if (rank >= 0)
    {
      weft_load_options_set_parallel_plan (options, self->plan);
      g_assert_true (weft_load_options_set_mesh (options, mesh, 1, (guint) rank, NULL));
    }
  return options;
}

static void
assert_same_tensors (WeftStateDict *found, WeftStateDict *expected)
{
  g_assert_cmpuint (weft_state_dict_get_n_tensors (found), ==, weft_state_dict_get_n_tensors (expected));
  for (guint i = 0; i < weft_state_dict_get_n_tensors (expected); i++)
    {
      WeftTensor *b = weft_state_dict_get_tensor (expected, i);
      WeftTensor *a = weft_state_dict_lookup (found, weft_state_dict_get_name (expected, i));
      g_autoptr (GBytes) a_bytes = NULL;
      g_autoptr (GBytes) b_bytes = NULL;
      g_autoptr (GError) error = NULL;

      g_assert_nonnull (a);
      g_assert_cmpint (weft_tensor_get_dtype (a), ==, weft_tensor_get_dtype (b));
      g_assert_true (weft_shape_equal (weft_tensor_get_shape (a), weft_tensor_get_shape (b)));
      a_bytes = weft_tensor_read (a, NULL, &error);
      g_assert_no_error (error);
      b_bytes = weft_tensor_read (b, NULL, &error);
      g_assert_no_error (error);
      g_assert_true (g_bytes_equal (a_bytes, b_bytes));
    }
}

static WeftLoadPlan *
open_dense (const Case *self, const gchar *folder, gint rank)
{
  g_autoptr (WeftCheckpoint) checkpoint = made_open (folder);
  g_autoptr (WeftLoadOptions) options = make_options (self, rank, TRUE);
  g_autoptr (GError) error = NULL;
  WeftLoadPlan *plan = weft_load_plan_new (checkpoint, options, &error);

  g_assert_no_error (error);
  return plan;
}

/* The values of what a rank holds are what it holds of the values. */
static void
check_values (const Case *self, const gchar *folder, gint rank)
{
  g_autoptr (WeftLoadPlan) found = open_dense (self, folder, -1);
  g_autoptr (WeftLoadPlan) expected = open_dense (self, self->source, rank);

  assert_same_tensors (weft_load_plan_get_outputs (found), weft_load_plan_get_outputs (expected));
}

static void
check_gathered (const Case *self, GPtrArray *ranks)
{
  g_autoptr (WeftCheckpoint) original = made_open (self->source);
  g_autoptr (WeftLoadPlan) values = open_dense (self, self->source, -1);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftGatherPlan) plan = weft_gather_plan_new (ranks, &error);

  g_assert_no_error (error);
  g_assert_true (weft_gather_plan_check_replicas (plan, NULL, &error));
  g_assert_no_error (error);
  assert_same_tensors (weft_gather_plan_get_outputs (plan), self->is_gguf
                                                                ? weft_load_plan_get_outputs (values)
                                                                : weft_checkpoint_get_state_dict (original));
}

/* Whether the weight is cut; if it is, that is right. */
static gboolean
check (const Case *self)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (GPtrArray) ranks = g_ptr_array_new_with_free_func (g_object_unref);

  made_folders_init (&folders);
  for (gint rank = 0; rank < N_RANKS; rank++)
    {
      const gchar *folder = rank == 0 ? folders.published : folders.runtime;
      g_autoptr (WeftLoadOptions) options = make_options (self, rank, FALSE);
      g_autoptr (GError) error = NULL;

      if (!made_convert (self->source, folder, options, &error))
        {
          g_test_message ("%s", error->message);
          g_assert_true (rank == 0);
          g_assert_true (g_error_matches (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED)
                         || g_error_matches (error, WEFT_ERROR, WEFT_ERROR_SHAPE));
          g_assert_null (strstr (error->message, "--dequantize"));
          return FALSE;
        }
      g_ptr_array_add (ranks, made_open (folder));
      check_values (self, folder, rank);
    }
  check_gathered (self, ranks);
  return TRUE;
}

/* With more ranks than rows, columns or experts the last one may have nothing of a weight; that is a weight as well. */
static void
check_last (const Case *self)
{
  g_auto (MadeFolders) folders = { 0 };
  Case many = *self;
  g_autoptr (WeftLoadOptions) options = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  many.n_ranks = N_MANY_RANKS;
  options = make_options (&many, N_MANY_RANKS - 1, FALSE);
  if (made_convert (self->source, folders.published, options, &error))
    check_values (&many, folders.published, N_MANY_RANKS - 1);
  else
    g_assert_true (g_error_matches (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED)
                   || g_error_matches (error, WEFT_ERROR, WEFT_ERROR_SHAPE));
}

static gboolean
has_to_be_cut (const gchar *set, const gchar *style)
{
  for (guint i = 0; i < G_N_ELEMENTS (cuts); i++)
    if (strcmp (cuts[i].set, set) == 0 && strcmp (cuts[i].style, style) == 0)
      return TRUE;
  return FALSE;
}

/* The dense names of what is packed. */
static GStrv
list_weights (WeftCheckpoint *checkpoint, gboolean is_gguf)
{
  WeftStateDict *stored = weft_checkpoint_get_state_dict (checkpoint);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftQuantizer) quantizer =
      is_gguf ? NULL : weft_quantizer_new_for_checkpoint (checkpoint, &error);
  g_autoptr (WeftPackedWeights) packed =
      quantizer != NULL ? weft_packed_weights_new (quantizer, stored, FALSE, &error) : NULL;
  WeftStateDict *dense = packed != NULL ? weft_packed_weights_get_dense (packed) : stored;
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  g_assert_no_error (error);
  g_assert_true (is_gguf || packed != NULL);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (dense); i++)
    if (is_gguf || weft_packed_weights_get_weight (packed, i) != NULL)
      g_strv_builder_add (names, weft_state_dict_get_name (dense, i));
  return g_strv_builder_end (names);
}

static void
test_set (gconstpointer set)
{
  g_autofree gchar *source = g_test_build_filename (G_TEST_DIST, "..", "golden", "quantized", set, NULL);
  gboolean is_gguf = g_str_has_prefix (set, "gguf");
  g_autoptr (WeftCheckpoint) checkpoint = made_open (source);
  g_auto (GStrv) names = list_weights (checkpoint, is_gguf);

  g_assert_nonnull (names[0]);
  for (guint k = 0; k < G_N_ELEMENTS (styles); k++)
    {
      gboolean is_cut = FALSE;

      for (guint i = 0; names[i] != NULL; i++)
        {
          g_autofree gchar *pattern = weft_parallel_plan_generalize_name (names[i]);
          g_autoptr (WeftParallelPlan) plan = weft_parallel_plan_new ();
          Case one = { source, plan, is_gguf, N_RANKS };

          g_test_message ("%s: %s", pattern, styles[k]);
          g_assert_true (weft_parallel_plan_add_rule (plan, pattern, styles[k], NULL));
          if (!check (&one))
            continue;
          is_cut = TRUE;
          check_last (&one);
        }
      g_assert_true (is_cut || !has_to_be_cut (set, styles[k]));
    }
}

int
main (int argc, char **argv)
{
  g_autofree gchar *folder = NULL;
  g_autoptr (GDir) sets = NULL;
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  g_test_init (&argc, &argv, NULL);
  folder = g_test_build_filename (G_TEST_DIST, "..", "golden", "quantized", NULL);
  sets = g_dir_open (folder, 0, NULL);
  g_assert_nonnull (sets);
  while ((name = g_dir_read_name (sets)) != NULL)
    {
      g_autofree gchar *set = g_build_filename (folder, name, NULL);
      g_autofree gchar *path = g_strdup_printf ("/packed/%s", name);

      if (!g_file_test (set, G_FILE_TEST_IS_DIR))
        continue;
      g_ptr_array_add (names, g_strdup (name));
      g_test_add_data_func (path, names->pdata[names->len - 1], test_set);
    }
  g_assert_cmpuint (names->len, >, 70);
  return g_test_run ();
}
