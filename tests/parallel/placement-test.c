/* SPDX-License-Identifier: Apache-2.0 */
/* Which elements each rank of a mesh holds. */
#include "weft.h"

/* A tensor of these extents holds 0, 1, 2, ...; ranks are separated by bars. */
static const struct
{
  const gchar *placement;
  const gchar *dims;
  const gchar *mesh;
  const gchar *ranks;
} rows[] = {
  { "shard:0", "5", "2", "0 1 2|3 4" },
  { "shard:0", "3", "4", "0|1|2|" },
  { "shard:0", "16", "3", "0 1 2 3 4 5|6 7 8 9 10 11|12 13 14 15" },
  { "shard:0", "16", "14", "0 1|2 3|4 5|6 7|8 9|10 11|12 13|14 15||||||" },
  { "shard:0", "0", "2", "|" },
  { "replicate", "3", "2", "0 1 2|0 1 2" },
  { "strided:0:2", "8", "2", "0 1 4 5|2 3 6 7" },
  { "strided:0:2", "7", "2", "0 1 4 5|2 3 6" },
  { "strided:0:2", "4", "2", "0 2|1 3" },
  { "strided:0:2", "12", "4", "0 1 6 7|2 3 8 9|4 5 10 11|" },
  { "strided:0:4", "2", "1", "0 1" },
  { "strided:0:2", "0", "3", "||" },
  { "shard:0,shard:1", "4,4", "2,2", "0 1 4 5|2 3 6 7|8 9 12 13|10 11 14 15" },
  { "shard:0,shard:0", "8", "2,2", "0 1|2 3|4 5|6 7" },
  { "strided:0:2,shard:0", "8", "2,2", "0 1|4 5|2 3|6 7" },
  { "shard:0,strided:1:2", "2,4", "2,2", "0 2|1 3|4 6|5 7" },
  { "replicate,shard:0", "4", "2,2", "0 1|2 3|0 1|2 3" },
  /* Over the innermost dimension. */
  { "shard:0", "4", "2,2", "0 1|2 3|0 1|2 3" },
  { "shard:1", "2,5", "2", "0 1 2 5 6 7|3 4 8 9" },
};

static const struct
{
  const gchar *placement;
  const gchar *dims;
  const gchar *mesh;
  guint rank;
  WeftError code;
  const gchar *message;
} refused_rows[] = {
  { "shard:1", "4", "2", 0, WEFT_ERROR_SHAPE, "axis 1 is to be cut, and a tensor of shape (4,) has 1 axes*" },
  { "shard:0", "4", "2", 2, WEFT_ERROR_ARGUMENT, "there is no rank 2 among 2*" },
  { "shard:0,shard:1", "4,4", "4", 0, WEFT_ERROR_ARGUMENT, "a placement for 2 dimensions of a mesh*" },
  { "strided:0:2,strided:1:2", "8,8", "2,2", 1, WEFT_ERROR_UNSUPPORTED,
    "*pieces apart from each other on 2 axes*" },
};

static const gchar *const bad_texts[] = { "",
                                          "shard",
                                          "shard:",
                                          "shard:x",
                                          "shard:-1",
                                          "strided:0",
                                          "strided:0:0",
                                          "strided:0:99999999",
                                          "replicate:0",
                                          "shard:0,",
                                          "shard:999" };

static gsize
parse_numbers (const gchar *text, gint64 *numbers)
{
  g_auto (GStrv) words = g_strsplit (text, ",", -1);
  gsize n = 0;

  for (; words[n] != NULL; n++)
    numbers[n] = g_ascii_strtoll (words[n], NULL, 10);
  return n;
}

static WeftTensor *
make_tensor (const gchar *text)
{
  gint64 dims[WEFT_MAX_RANK];
  gsize n_dims = parse_numbers (text, dims);
  g_autoptr (GByteArray) values = g_byte_array_new ();
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  gint64 n = 1;
  WeftTensor *tensor;

  for (gsize i = 0; i < n_dims; i++)
    n *= dims[i];
  for (gint64 i = 0; i < n; i++)
    {
      guint8 value = (guint8) i;

      g_byte_array_append (values, &value, 1);
    }
  bytes = g_byte_array_free_to_bytes (g_steal_pointer (&values));
  tensor = weft_tensor_new_from_bytes (WEFT_DTYPE_U8, dims, n_dims, bytes, &error);
  g_assert_no_error (error);
  return tensor;
}

static WeftTensor *
cut (const gchar *text, WeftTensor *tensor, const gchar *mesh_text, guint rank, GError **error)
{
  g_autoptr (WeftPlacement) placement = weft_placement_new (text, error);
  gint64 numbers[WEFT_MAX_RANK];
  guint mesh[WEFT_MAX_RANK];
  gsize n_mesh = parse_numbers (mesh_text, numbers);

  g_assert_nonnull (placement);
  for (gsize i = 0; i < n_mesh; i++)
    mesh[i] = (guint) numbers[i];
  return weft_placement_cut (placement, tensor, mesh, n_mesh, rank, error);
}

static void
append_values (GString *text, WeftTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = weft_tensor_read (tensor, NULL, &error);
  const guint8 *values = g_bytes_get_data (bytes, NULL);

  g_assert_no_error (error);
  for (gsize i = 0; i < g_bytes_get_size (bytes); i++)
    g_string_append_printf (text, "%s%u", i > 0 ? " " : "", values[i]);
}

static void
test_ranks (gconstpointer user_data)
{
  const gsize row = GPOINTER_TO_UINT (user_data);
  g_auto (GStrv) expected = g_strsplit (rows[row].ranks, "|", -1);
  g_autoptr (WeftTensor) tensor = make_tensor (rows[row].dims);

  for (guint rank = 0; expected[rank] != NULL; rank++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTensor) part = cut (rows[row].placement, tensor, rows[row].mesh, rank, &error);
      g_autoptr (GString) found = g_string_new (NULL);

      g_assert_no_error (error);
      g_assert_cmpuint (weft_tensor_get_rank (part), ==, weft_tensor_get_rank (tensor));
      append_values (found, part);
      g_assert_cmpstr (found->str, ==, expected[rank]);
    }
}

static void
test_refused (gconstpointer user_data)
{
  const gsize row = GPOINTER_TO_UINT (user_data);
  g_autoptr (WeftTensor) tensor = make_tensor (refused_rows[row].dims);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) part =
      cut (refused_rows[row].placement, tensor, refused_rows[row].mesh, refused_rows[row].rank, &error);

  g_assert_null (part);
  g_assert_error (error, WEFT_ERROR, (gint) refused_rows[row].code);
  g_assert_true (g_pattern_match_simple (refused_rows[row].message, error->message));
}

static void
test_bad_texts (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (bad_texts); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (weft_placement_new (bad_texts[i], &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
    }
}

/* More ranks than can be counted. */
static void
test_wide_mesh (void)
{
  static const guint meshes[][2] = { { 65536, 65536 }, { G_MAXUINT, 2 }, { 0, 2 } };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftPlacement) placement = weft_placement_new ("shard:0,shard:0", &error);
  g_autoptr (WeftTensor) tensor =
      weft_tensor_new_constant (WEFT_DTYPE_F32, (const gint64[]){ 4 }, 1, 0, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < G_N_ELEMENTS (meshes); i++)
    {
      g_assert_null (weft_placement_cut (placement, tensor, meshes[i], 2, 0, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
      g_clear_error (&error);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path =
          g_strdup_printf ("/placement/%s/%s/%s", rows[i].placement, rows[i].dims, rows[i].mesh);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_ranks);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refused_rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/placement/refused/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refused);
    }
  g_test_add_func ("/placement/bad-texts", test_bad_texts);
  g_test_add_func ("/placement/wide-mesh", test_wide_mesh);
  return g_test_run ();
}
