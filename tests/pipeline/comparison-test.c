/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing checkpoints: what counts as a difference, and which layouts are the same model. */
#include <math.h>

#include "made-checkpoint-private.h"

#define MIXTRAL "{'model_type':'mixtral','architectures':['MixtralForCausalLM']}"
#define EXPERTS                                                        \
  "model.layers.0.block_sparse_moe.gate.weight: F32[2,2] 7\n"          \
  "model.layers.0.block_sparse_moe.experts.0.w1.weight: F32[2,2] 1\n"  \
  "model.layers.0.block_sparse_moe.experts.0.w2.weight: F32[2,2] 11\n" \
  "model.layers.0.block_sparse_moe.experts.0.w3.weight: F32[2,2] 21\n" \
  "model.layers.0.block_sparse_moe.experts.1.w1.weight: F32[2,2] 31\n" \
  "model.layers.0.block_sparse_moe.experts.1.w2.weight: F32[2,2] 41\n" \
  "model.layers.0.block_sparse_moe.experts.1.w3.weight: F32[2,2] 51\n"

/* Compares two checkpoints made from text and gives the differences as text. */
static gchar *
compare (const gchar *a_text, const gchar *b_text, WeftComparisonFlags flags, gchar **layouts)
{
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) a = NULL;
  g_autoptr (WeftCheckpoint) b = NULL;
  g_autoptr (WeftComparison) comparison = NULL;
  g_autoptr (GError) error = NULL;

  made_folders_init (&folders);
  made_write (folders.published, MIXTRAL, a_text);
  made_write (folders.back, MIXTRAL, b_text);
  a = made_open (folders.published);
  b = made_open (folders.back);
  comparison = weft_comparison_new (a, b, NULL, flags, &error);
  g_assert_no_error (error);
  g_assert_true (weft_comparison_execute (comparison, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  if (layouts != NULL)
    *layouts = g_strdup_printf ("%s %s", weft_comparison_get_layout (comparison, FALSE),
                                weft_comparison_get_layout (comparison, TRUE));
  return weft_comparison_to_text (comparison, 100);
}

static void
test_differences (void)
{
  static const struct
  {
    const gchar *a;
    const gchar *b;
    const gchar *expected;
  } rows[] = {
    { "x: F32[2] 1", "x: F32[2] 1", "" },
    { "x: F32[2] 1\ny: F32[1]", "x: F32[2] 1", "ONLY IN A  y\n" },
    { "x: F32[2] 1", "x: F32[2] 1\na.0.b: F32[1]\na.1.b: F32[1]", "ONLY IN B  a.{0, 1}.b (2)\n" },
    { "x: F32[2] 1", "x: BF16[2] 1", "DTYPE      x: F32 and BF16\n" },
    { "x: F32[2,3] 1", "x: F32[3,2] 1", "SHAPE      x: (2, 3) and (3, 2)\n" },
    { "x: F32[2] 1", "x: BF16[1] 1", "DTYPE      x: F32 and BF16\nSHAPE      x: (2,) and (1,)\n" },
    { "x: F32[2,3] 1 2 3 4 5 6", "x: F32[2,3] 1 2 3 4 9 7",
      "VALUES     x: 2 of 6 elements, the first at (1, 1), by at most 4\n" },
    { "x: BF16[3] 1 2 3", "x: BF16[3] 1 2 2",
      "VALUES     x: 1 of 3 elements, the first at (2,), by at most 1\n" },
    { "x: F8_E4M3[2] 1 2", "x: F8_E4M3[2] 1 4",
      "VALUES     x: 1 of 2 elements, the first at (1,), by at most 2\n" },
    { "x: F4[4] 0 1 2 3", "x: F4[4] 0 1 2 4",
      "VALUES     x: 1 of 4 elements, the first at (3,), by at most 1\n" },
    { "x: I64[1] 4", "x: I64[1] 9", "VALUES     x: 1 of 1 elements, the first at (0,), by at most 5\n" },
    { "x: F32[] 4", "x: F32[] 3", "VALUES     x: 1 of 1 elements, the first at (), by at most 1\n" },
    { "x: F32[2] 1 2", "x: F32[2] 1 nan",
      "VALUES     x: 1 of 2 elements, the first at (1,), one side being infinite or no number\n" },
    { "x: F32[1] 0", "x: F32[1] -0", "VALUES     x: 1 of 1 elements, the first at (0,), by at most 0\n" },
    { "x: BOOL[2] 0 1", "x: BOOL[2] 1 1", "VALUES     x: 1 of 2 elements, the first at (0,)\n" },
    { "x: F32[0] 1", "x: F32[0] 1", "" },
    { "l.0.w: F32[1] 1\nl.1.w: F32[1] 1", "l.0.w: F32[1] 4\nl.1.w: F32[1] 2",
      "VALUES     l.{0, 1}.w (2; the worst:): 1 of 1 elements, the first at (0,), by at most 3\n" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *layouts = NULL;
      g_autofree gchar *found = compare (rows[i].a, rows[i].b, WEFT_COMPARISON_FLAGS_NONE, &layouts);

      g_assert_cmpstr (found, ==, rows[i].expected);
      g_assert_cmpstr (layouts, ==, "stored stored");
    }
}

/* A tensor larger than what is held at a time: the first difference and the last one are found. */
static void
test_large (void)
{
  const gint64 n_elements = 24 * 1024 * 1024 + 3;
  g_autofree guint16 *values = g_new0 (guint16, n_elements);
  g_autoptr (WeftStateDict) a = weft_state_dict_new ();
  g_autoptr (WeftStateDict) b = weft_state_dict_new ();
  g_autoptr (WeftComparison) comparison = NULL;
  g_autoptr (GPtrArray) differences = NULL;
  g_autoptr (GError) error = NULL;

  for (guint side = 0; side < 2; side++)
    {
      g_autoptr (GBytes) bytes = NULL;
      g_autoptr (WeftTensor) tensor = NULL;

      values[17 * 1024 * 1024] = side == 0 ? 1 : 3;
      values[n_elements - 1] = side == 0 ? 100 : 90;
      bytes = g_bytes_new (values, (gsize) n_elements * sizeof *values);
      tensor = weft_tensor_new_from_bytes (WEFT_DTYPE_U16, &n_elements, 1, bytes, &error);
      g_assert_no_error (error);
      weft_state_dict_add (side == 0 ? a : b, "x", tensor, &error);
      g_assert_no_error (error);
    }
  comparison = weft_comparison_new_of_state_dicts (a, b);
  g_assert_true (weft_comparison_is_equal (comparison));
  g_assert_true (weft_comparison_execute (comparison, NULL, NULL, NULL, &error));
  differences = weft_comparison_list_differences (comparison);
  g_assert_cmpuint (differences->len, ==, 1);
  {
    const WeftDifference *difference = differences->pdata[0];

    g_assert_cmpuint (difference->n_different, ==, 2);
    g_assert_cmpuint (difference->first, ==, 17 * 1024 * 1024);
    g_assert_cmpfloat (difference->largest, ==, 10);
  }
}

/* What was converted is equal to what it was made of, with its record and without; an edit is found in either. */
static void
test_layouts (void)
{
  static const struct
  {
    const gchar *edited;
    gboolean has_record;
    const gchar *layouts;
    gboolean is_equal;
  } rows[] = {
    { EXPERTS, TRUE, "stored reverted", TRUE },
    { EXPERTS, FALSE, "converted stored", TRUE },
    { "model.norm.weight: F32[1] 1\n" EXPERTS, TRUE, "stored reverted", FALSE },
    { "model.norm.weight: F32[1] 1\n" EXPERTS, FALSE, "converted stored", FALSE },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_auto (MadeFolders) folders = { 0 };
      g_autoptr (WeftCheckpoint) a = NULL;
      g_autoptr (WeftCheckpoint) b = NULL;
      g_autoptr (WeftComparison) comparison = NULL;
      g_autoptr (GError) error = NULL;
      g_autofree gchar *record = NULL;
      g_autofree gchar *layouts = NULL;

      made_folders_init (&folders);
      made_write (folders.published, MIXTRAL, EXPERTS);
      made_write (folders.back, MIXTRAL, rows[i].edited);
      made_convert (folders.back, folders.runtime, NULL, &error);
      g_assert_no_error (error);
      record = g_build_filename (folders.runtime, WEFT_PROVENANCE_FILE_NAME, NULL);
      if (!rows[i].has_record)
        g_assert_cmpint (g_remove (record), ==, 0);
      a = made_open (folders.published);
      b = made_open (folders.runtime);
      comparison = weft_comparison_new (a, b, NULL, WEFT_COMPARISON_FLAGS_NONE, &error);
      g_assert_no_error (error);
      g_assert_true (weft_comparison_execute (comparison, NULL, NULL, NULL, &error));
      layouts = g_strdup_printf ("%s %s", weft_comparison_get_layout (comparison, FALSE),
                                 weft_comparison_get_layout (comparison, TRUE));
      g_assert_cmpstr (layouts, ==, rows[i].layouts);
      g_assert_true (weft_comparison_is_equal (comparison) == rows[i].is_equal);
    }
}

static void
test_bytes (void)
{
  static const struct
  {
    const gchar *a;
    const gchar *b;
    const gchar *expected;
  } rows[] = {
    { "x: F32[2] 1", "x: F32[2] 1", "" },
    { "x: F32[2] 1", "x: F32[2] 2", "FILE       model.safetensors: the first difference at byte 95\n" },
    { "--- a.safetensors\nx: F32[2] 1\n--- b.safetensors\ny: F32[1]",
      "--- a.safetensors\nx: F32[2] 1\n--- c.safetensors\ny: F32[1]",
      "ONLY IN A  b.safetensors\nONLY IN B  c.safetensors\nFILE       model.safetensors.index.json: the first difference at byte 60\n" },
  };

  for (gsize i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *found = compare (rows[i].a, rows[i].b, WEFT_COMPARISON_FLAGS_BYTES, NULL);

      g_assert_cmpstr (found, ==, rows[i].expected);
    }
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/comparison/differences", test_differences);
  g_test_add_func ("/comparison/large", test_large);
  g_test_add_func ("/comparison/layouts", test_layouts);
  g_test_add_func ("/comparison/bytes", test_bytes);
  return g_test_run ();
}
