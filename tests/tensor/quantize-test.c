/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks are like against plain loops, codes against tables, and values that are codes already come back as they. */
#include "weft.h"

#include <math.h>
#include <string.h>

static WeftTensor *
new_tensor (WeftDtype dtype, const gint64 *dims, gsize n_dims, gconstpointer elements)
{
  g_autoptr (GError) error = NULL;
  WeftShape shape;
  gint64 n_bytes = 0;
  g_autoptr (GBytes) bytes = NULL;
  WeftTensor *tensor;

  g_assert_true (weft_shape_init (&shape, dims, n_dims, &error));
  g_assert_true (weft_shape_count_bytes (&shape, dtype, &n_bytes, &error));
  bytes = g_bytes_new (elements, (gsize) n_bytes);
  tensor = weft_tensor_new_from_bytes (dtype, dims, n_dims, bytes, &error);
  g_assert_no_error (error);
  return tensor;
}

static gconstpointer
read_elements (WeftTensor *tensor, GBytes **bytes)
{
  g_autoptr (GError) error = NULL;

  *bytes = weft_tensor_read (tensor, NULL, &error);
  g_assert_no_error (error);
  return g_bytes_get_data (*bytes, NULL);
}

static gfloat *
new_random_values (gsize n_values)
{
  gfloat *values = g_new (gfloat, n_values);

  for (gsize i = 0; i < n_values; i++)
    values[i] = (gfloat) g_test_rand_double_range (-100, 100);
  return values;
}

static gfloat
reduce_plainly (WeftBlockStatistic statistic, gfloat a, gfloat b)
{
  switch (statistic)
    {
    case WEFT_BLOCK_STATISTIC_MAGNITUDE:
      return fmaxf (a, fabsf (b));
    case WEFT_BLOCK_STATISTIC_MINIMUM:
      return fminf (a, b);
    case WEFT_BLOCK_STATISTIC_MAXIMUM:
    case WEFT_BLOCK_STATISTIC_SUM:
    default:
      return fmaxf (a, b);
    }
}

/* 0: all of an axis. */
static const struct
{
  gint64 dims[3];
  gint64 block[2];
} shapes[] = {
  { { 1, 40, 50 }, { 16, 16 } }, { { 3, 16, 33 }, { 8, 16 } },   { { 2, 5, 700 }, { 1, 0 } },
  { { 1, 300, 700 }, { 0, 0 } }, { { 1, 7, 1300 }, { 1, 600 } }, { { 1, 4, 70000 }, { 1, 0 } },
  { { 1, 9, 31 }, { 4, 1 } },    { { 1, 3, 1 }, { 1, 1 } },      { { 1, 200000, 1 }, { 0, 0 } },
};

static void
check_reduction (guint at, WeftBlockStatistic statistic)
{
  const gint64 *dims = shapes[at].dims;
  const gint64 rows = shapes[at].block[0] > 0 ? shapes[at].block[0] : dims[1];
  const gint64 columns = shapes[at].block[1] > 0 ? shapes[at].block[1] : dims[2];
  const gint64 grid[] = { dims[0], (dims[1] + rows - 1) / rows, (dims[2] + columns - 1) / columns };
  g_autofree gfloat *values = new_random_values ((gsize) (dims[0] * dims[1] * dims[2]));
  g_autofree gfloat *expected = g_new (gfloat, grid[0] * grid[1] * grid[2]);
  g_autoptr (WeftTensor) tensor = new_tensor (WEFT_DTYPE_F32, dims, 3, values);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) found = weft_tensor_reduce_blocks (tensor, statistic, shapes[at].block, 2, &error);
  g_autoptr (GBytes) bytes = NULL;

  g_assert_no_error (error);
  for (gint64 i = 0; i < grid[0] * grid[1] * grid[2]; i++)
    expected[i] = statistic == WEFT_BLOCK_STATISTIC_MAGNITUDE ? 0
                  : statistic == WEFT_BLOCK_STATISTIC_MINIMUM ? INFINITY
                                                              : -INFINITY;
  for (gint64 i = 0; i < dims[0] * dims[1] * dims[2]; i++)
    {
      gint64 row = i / dims[2] % dims[1], e = i / dims[2] / dims[1];
      gfloat *block = &expected[(e * grid[1] + row / rows) * grid[2] + i % dims[2] / columns];

      *block = reduce_plainly (statistic, *block, values[i]);
    }
  read_elements (found, &bytes);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), expected,
                   (gsize) (grid[0] * grid[1] * grid[2]) * sizeof *expected);
}

static void
test_reductions (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (shapes); i++)
    for (gint statistic = WEFT_BLOCK_STATISTIC_MAGNITUDE; statistic <= WEFT_BLOCK_STATISTIC_MAXIMUM;
         statistic++)
      check_reduction (i, (WeftBlockStatistic) statistic);
}

static void
test_sum (void)
{
  const gint64 dims[] = { 300000 };
  g_autofree gfloat *values = g_new (gfloat, dims[0]);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = NULL;
  g_autoptr (WeftTensor) sum = NULL;
  g_autoptr (GBytes) bytes = NULL;

  for (gint64 i = 0; i < dims[0]; i++)
    values[i] = (gfloat) (i % 3);
  tensor = new_tensor (WEFT_DTYPE_F32, dims, 1, values);
  sum = weft_tensor_reduce_blocks (tensor, WEFT_BLOCK_STATISTIC_SUM, (gint64[]){ 0 }, 1, &error);
  g_assert_no_error (error);
  g_assert_cmpfloat (*(const gfloat *) read_elements (sum, &bytes), ==, 300000);
}

/* One value, its scale and zero point, and the code. */
static const struct
{
  const gchar *name;
  WeftDtype dtype;
  guint bits;
  WeftQuantizeFlags flags;
  gfloat value, scale, zero_point;
  guint8 code;
} codes[] = {
  { "ties to even", WEFT_DTYPE_I8, 4, 0, 2.5, 1, 0, 2 },
  { "ties to even, up", WEFT_DTYPE_I8, 4, 0, 3.5, 1, 0, 4 },
  { "negative", WEFT_DTYPE_I8, 4, 0, -3.5, 1, 0, (guint8) -4 },
  { "the range of 4 bits ends at 7", WEFT_DTYPE_I8, 4, 0, 100, 1, 0, 7 },
  { "and begins at -8", WEFT_DTYPE_I8, 4, 0, -100, 1, 0, (guint8) -8 },
  { "infinity", WEFT_DTYPE_I8, 8, 0, INFINITY, 1, 0, 127 },
  { "division by zero", WEFT_DTYPE_I8, 8, 0, -1, 0, 0, (guint8) -128 },
  { "zero point", WEFT_DTYPE_I8, 8, 0, 10, 2, -3, 2 },
  { "unsigned", WEFT_DTYPE_U8, 4, 0, 40, 2, 0, 15 },
  { "unsigned from below", WEFT_DTYPE_U8, 8, 0, -1, 2, 0, 0 },
  { "bias", WEFT_DTYPE_U8, 4, WEFT_QUANTIZE_FLAGS_BIAS, -1, 0.5, -3, 4 },
  { "multiply", WEFT_DTYPE_I8, 8, WEFT_QUANTIZE_FLAGS_MULTIPLY, 3, 4, 0, 12 },
  { "e4m3", WEFT_DTYPE_F8_E4M3, 8, 0, 19, 1, 0, 0x5a },
  { "e4m3 saturates", WEFT_DTYPE_F8_E4M3, 8, 0, 1000, 1, 0, 0x7e },
  { "e2m1", WEFT_DTYPE_F4, 0, 0, 2.5, 1, 0, 4 },
  { "e2m1 saturates", WEFT_DTYPE_F4, 0, 0, -100, 1, 0, 15 },
  { "e2m1, a negative zero", WEFT_DTYPE_F4, 0, 0, -0.1f, 1, 0, 8 },
  { "e2m3", WEFT_DTYPE_F6_E2M3, 0, 0, 7.5, 1, 0, 31 },
};

static void
test_codes (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (codes); i++)
    {
      const gint64 dims[] = { 1, 5 };
      gfloat values[5];
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTensor) tensor = NULL;
      g_autoptr (WeftTensor) scale =
          weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, codes[i].scale, &error);
      g_autoptr (WeftTensor) zero_point =
          weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, codes[i].zero_point, &error);
      g_autoptr (WeftTensor) found = NULL;
      g_autoptr (GBytes) bytes = NULL;
      const guint8 *elements;

      g_test_message ("%s", codes[i].name);
      for (guint k = 0; k < 5; k++)
        values[k] = codes[i].value;
      tensor = new_tensor (WEFT_DTYPE_F32, dims, 2, values);
      found =
          weft_tensor_quantize (tensor, scale, codes[i].zero_point != 0 ? zero_point : NULL,
                                (gint64[]){ 1, 0 }, 2, codes[i].flags, codes[i].dtype, codes[i].bits, &error);
      g_assert_no_error (error);
      elements = read_elements (found, &bytes);
      for (guint k = 0; k < 5; k++)
        g_assert_cmpint (elements[k], ==, codes[i].code);
    }
}

/* Every BF16, scaled and rounded in one pass, gives the code that it gives in F32, step by step. (The sign of the
 * product of two NaNs is open.) */
static void
test_one_pass (void)
{
  static const gfloat scales[] = {
    1, -1, 0.37f, -12345.6f, 0x1p-120f, 0x1p120f, 0x1p-149f, 0, -0.0f, INFINITY
  };
  const gint64 dims[] = { 64, 1024 };
  static const gint64 blocks[][2] = { { 1, 32 }, { 3, 43 }, { 0, 0 }, { 1, 1 } };
  g_autofree guint16 *all = g_new (guint16, 65536);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = NULL;
  g_autoptr (WeftTensor) wide = NULL;

  for (guint i = 0; i < 65536; i++)
    all[i] = (guint16) i;
  tensor = new_tensor (WEFT_DTYPE_BF16, dims, 2, all);
  wide = weft_tensor_cast (tensor, WEFT_DTYPE_F32, &error);
  g_assert_no_error (error);
  for (guint s = 0; s < G_N_ELEMENTS (scales); s++)
    for (guint b = 0; b < G_N_ELEMENTS (blocks); b++)
      for (gint flags = WEFT_QUANTIZE_FLAGS_NONE; flags <= WEFT_QUANTIZE_FLAGS_MULTIPLY;
           flags += WEFT_QUANTIZE_FLAGS_MULTIPLY)
        {
          g_autoptr (WeftTensor) scale =
              weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, scales[s], &error);
          g_autoptr (WeftTensor) found = weft_tensor_quantize (
              tensor, scale, NULL, blocks[b], 2, (WeftQuantizeFlags) flags, WEFT_DTYPE_F8_E4M3, 8, &error);
          g_autoptr (WeftTensor) expected = weft_tensor_quantize (
              wide, scale, NULL, blocks[b], 2, (WeftQuantizeFlags) flags, WEFT_DTYPE_F8_E4M3, 8, &error);
          g_autoptr (GBytes) found_bytes = NULL;
          g_autoptr (GBytes) expected_bytes = NULL;

          g_assert_no_error (error);
          g_assert_cmpmem (read_elements (found, &found_bytes), 65536,
                           read_elements (expected, &expected_bytes), 65536);
        }
}

/* The lower of two entries; of equal entries the first, but for values above them. */
static void
test_nearest (void)
{
  const gfloat table_values[] = { 0, 1, 2, 0, -1 };
  const gfloat values[] = { 0, 0.5, 0.51f, 0.1f, -0.1f, -0.5f, 9, -9, NAN };
  const guint8 expected[] = { 0, 3, 1, 3, 0, 4, 2, 4, 0 };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) table = new_tensor (WEFT_DTYPE_F32, (gint64[]){ 5 }, 1, table_values);
  g_autoptr (WeftTensor) tensor = new_tensor (WEFT_DTYPE_F32, (gint64[]){ 9 }, 1, values);
  g_autoptr (WeftTensor) one = weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, 1, &error);
  g_autoptr (WeftTensor) found = weft_tensor_find_nearest (tensor, one, table, (gint64[]){ 0 }, 1, &error);
  g_autoptr (GBytes) bytes = NULL;

  g_assert_no_error (error);
  g_assert_cmpmem (read_elements (found, &bytes), sizeof expected, expected, sizeof expected);
}

/* Codes, the largest of which is in every block, are found again in their values: of a map, and of E2M1 with powers of two. */
static void
check_idempotent (const gfloat *map, guint largest, gfloat divisor, WeftDtype dtype)
{
  enum
  {
    N = 4096,
    BLOCK = 32
  };
  const gint64 dims[] = { N }, block[] = { BLOCK };
  guint8 all[N];
  gfloat scales[N / BLOCK];
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) table = new_tensor (WEFT_DTYPE_F32, (gint64[]){ 16 }, 1, map);
  g_autoptr (WeftTensor) dense = NULL;
  g_autoptr (WeftTensor) scale = NULL;
  g_autoptr (WeftTensor) values = NULL;
  g_autoptr (WeftTensor) lookups = NULL;
  g_autoptr (WeftTensor) magnitudes = NULL;
  g_autoptr (WeftTensor) found_scale = NULL;
  g_autoptr (WeftTensor) found = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (WeftTensor) factor = weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, divisor, &error);

  for (guint i = 0; i < N; i++)
    all[i] = (guint8) (i % BLOCK == 0 ? largest : (guint) g_test_rand_int_range (0, 16));
  for (guint i = 0; i < N / BLOCK; i++)
    scales[i] = ldexpf (1, g_test_rand_int_range (-20, 20));
  dense = new_tensor (WEFT_DTYPE_U8, dims, 1, all);
  scale = new_tensor (WEFT_DTYPE_F32, (gint64[]){ N / BLOCK }, 1, scales);
  lookups = weft_tensor_lookup (dense, table, &error);
  values = weft_tensor_dequantize (lookups, scale, NULL, block, 1, WEFT_DTYPE_F32, &error);
  magnitudes = weft_tensor_reduce_blocks (values, WEFT_BLOCK_STATISTIC_MAGNITUDE, block, 1, &error);
  found_scale = weft_tensor_divide (magnitudes, factor, NULL, 0, WEFT_DTYPE_F32, &error);
  found = dtype == WEFT_DTYPE_INVALID
              ? weft_tensor_find_nearest (values, found_scale, table, block, 1, &error)
              : weft_tensor_quantize (values, found_scale, NULL, block, 1, WEFT_QUANTIZE_FLAGS_NONE, dtype, 0,
                                      &error);
  g_assert_no_error (error);
  g_assert_cmpmem (read_elements (found, &bytes), N, all, N);
}

static void
test_idempotent (void)
{
  static const gfloat map[16] = { -1,    -0.7f, -0.52f, -0.4f, -0.28f, -0.18f, -0.09f, 0,
                                  0.08f, 0.16f, 0.25f,  0.34f, 0.44f,  0.56f,  0.72f,  1 };
  static const gfloat e2m1[16] = { 0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6 };

  check_idempotent (map, 15, 1, WEFT_DTYPE_INVALID);
  check_idempotent (e2m1, 7, 6, WEFT_DTYPE_F4);
}

static void
count_calls (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  g_atomic_int_inc ((gint *) params);
  memcpy (output, inputs[0], n_values * sizeof *output);
}

/* However often it is read. */
static void
test_remembered_once (void)
{
  static gint n_calls;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) values = new_tensor (WEFT_DTYPE_F32, (gint64[]){ 2 }, 1, (gfloat[]){ 1, 2 });
  g_autoptr (WeftTensor) counted = weft_tensor_compute (&values, 1, count_calls, &n_calls, NULL, &error);
  g_autoptr (WeftTensor) once = weft_tensor_remember (counted, &error);

  g_assert_no_error (error);
  for (guint i = 0; i < 3; i++)
    {
      g_autoptr (WeftTensor) second = weft_tensor_slice (once, 0, 1, 1, &error);
      g_autoptr (GBytes) bytes = NULL;

      g_assert_cmpfloat (*(const gfloat *) read_elements (second, &bytes), ==, 2);
    }
  g_assert_cmpint (n_calls, ==, 1);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/quantize/reductions", test_reductions);
  g_test_add_func ("/quantize/sum", test_sum);
  g_test_add_func ("/quantize/codes", test_codes);
  g_test_add_func ("/quantize/one-pass", test_one_pass);
  g_test_add_func ("/quantize/nearest", test_nearest);
  g_test_add_func ("/quantize/idempotent", test_idempotent);
  g_test_add_func ("/quantize/remembered-once", test_remembered_once);
  return g_test_run ();
}
