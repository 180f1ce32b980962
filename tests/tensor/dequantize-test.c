/* SPDX-License-Identifier: Apache-2.0 */
/* Codes in words, tables, and scales in blocks: what the formats say, and the fused kernel against plain arithmetic on
 * random codes. */
#include "weft.h"

#include <math.h>
#include <string.h>

#define MAX_CODES 64

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

static GBytes *
read_tensor (WeftTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  GBytes *bytes = weft_tensor_read (tensor, NULL, &error);

  g_assert_no_error (error);
  return bytes;
}

static void
assert_same_bits (WeftTensor *found, WeftTensor *expected)
{
  g_autoptr (GBytes) a = read_tensor (found);
  g_autoptr (GBytes) b = read_tensor (expected);

  g_assert_true (weft_shape_equal (weft_tensor_get_shape (found), weft_tensor_get_shape (expected)));
  g_assert_cmpint (weft_tensor_get_dtype (found), ==, weft_tensor_get_dtype (expected));
  g_assert_cmpmem (g_bytes_get_data (a, NULL), g_bytes_get_size (a), g_bytes_get_data (b, NULL),
                   g_bytes_get_size (b));
}

/* Codes in words as formats write them. */
static const struct
{
  const gchar *name;
  WeftBitOrder order;
  guint bits;
  WeftDtype dtype;
  gint n_words;
  guint32 words[4];
  gint n_codes;
  guint8 codes[MAX_CODES];
} layouts[] = {
  { "int4",
    WEFT_BIT_ORDER_DENSE,
    4,
    WEFT_DTYPE_I32,
    2,
    { 0x7ba9f810, 0xd },
    9,
    { 0, 1, 8, 15, 9, 10, 11, 7, 13 } },
  { "int3 straddles words",
    WEFT_BIT_ORDER_DENSE,
    3,
    WEFT_DTYPE_I32,
    4,
    { 0x88fac688, 0xc688fac6, 0xfac688fa, 0x5 },
    33,
    { 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 5 } },
  { "int3 of old files is padded",
    WEFT_BIT_ORDER_PADDED,
    3,
    WEFT_DTYPE_I32,
    2,
    { 0x11111111, 3 },
    11,
    { 1, 2, 4, 0, 1, 2, 4, 0, 1, 2, 3 } },
  { "low nibble first", WEFT_BIT_ORDER_DENSE, 4, WEFT_DTYPE_U8, 2, { 0x21, 0x7f }, 4, { 1, 2, 15, 7 } },
  { "high nibble first",
    WEFT_BIT_ORDER_HIGH_FIRST,
    4,
    WEFT_DTYPE_U8,
    2,
    { 0xf0, 0x7c },
    4,
    { 15, 0, 7, 12 } },
  { "an odd number, high nibble first",
    WEFT_BIT_ORDER_HIGH_FIRST,
    4,
    WEFT_DTYPE_U8,
    2,
    { 0xf0, 0x70 },
    3,
    { 15, 0, 7 } },
  { "awq", WEFT_BIT_ORDER_AWQ, 4, WEFT_DTYPE_I32, 1, { 0x75316420 }, 8, { 0, 1, 2, 3, 4, 5, 6, 7 } },
  { "mlx", WEFT_BIT_ORDER_DENSE, 4, WEFT_DTYPE_U32, 1, { 0xf210 }, 8, { 0, 1, 2, 15, 0, 0, 0, 0 } },
  { "mxfp6, four codes in three bytes",
    WEFT_BIT_ORDER_DENSE,
    6,
    WEFT_DTYPE_U8,
    3,
    { 0x01, 0xf2, 0x03 },
    4,
    { 1, 8, 63, 0 } },
  { "int8", WEFT_BIT_ORDER_DENSE, 8, WEFT_DTYPE_I32, 1, { 0x80ff7f00 }, 4, { 0, 127, 255, 128 } },
  { "bits, first lowest",
    WEFT_BIT_ORDER_DENSE,
    1,
    WEFT_DTYPE_U8,
    1,
    { 0x05 },
    8,
    { 1, 0, 1, 0, 0, 0, 0, 0 } },
  { "pairs, first highest", WEFT_BIT_ORDER_HIGH_FIRST, 2, WEFT_DTYPE_U8, 1, { 0x1b }, 4, { 0, 1, 2, 3 } },
};

static void
test_layouts (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (layouts); i++)
    {
      g_autoptr (GError) error = NULL;
      guint word_bytes = weft_dtype_get_bits (layouts[i].dtype) / 8;
      guint8 words[16];
      g_autoptr (WeftTensor) packed = NULL;
      g_autoptr (WeftTensor) expected = NULL;
      g_autoptr (WeftTensor) codes = NULL;
      g_autoptr (WeftTensor) again = NULL;

      g_test_message ("%s", layouts[i].name);
      for (gint k = 0; k < layouts[i].n_words; k++)
        memcpy (words + (guint) k * word_bytes, &layouts[i].words[k], word_bytes);
      packed = new_tensor (layouts[i].dtype, (gint64[]){ layouts[i].n_words }, 1, words);
      expected = new_tensor (WEFT_DTYPE_U8, (gint64[]){ layouts[i].n_codes }, 1, layouts[i].codes);
      codes = weft_tensor_unpack (packed, layouts[i].bits, layouts[i].order, -1, layouts[i].n_codes, &error);
      g_assert_no_error (error);
      assert_same_bits (codes, expected);
      again = weft_tensor_pack (expected, layouts[i].bits, layouts[i].order, -1, layouts[i].dtype, &error);
      g_assert_no_error (error);
      assert_same_bits (again, packed);
    }
}

static const WeftDtype word_dtypes[] = { WEFT_DTYPE_U8, WEFT_DTYPE_I16, WEFT_DTYPE_I32, WEFT_DTYPE_I64 };

static void
fill_codes (guint8 *codes, gsize n_codes, guint bits)
{
  for (gsize i = 0; i < n_codes; i++)
    codes[i] = (guint8) g_test_rand_int_range (0, 1 << bits);
}

/* All widths and orders, along columns and down rows: packing loses nothing, and a slice of the codes is that slice. */
static void
test_packing_is_undone (void)
{
  for (guint bits = 1; bits <= 8; bits++)
    for (guint w = 0; w < G_N_ELEMENTS (word_dtypes); w++)
      for (gint order = WEFT_BIT_ORDER_DENSE; order <= WEFT_BIT_ORDER_AWQ; order++)
        for (gint axis = 0; axis < 3; axis++)
          {
            const gint64 dims[] = { 3, 71, 45 };
            guint8 codes[3 * 71 * 45];
            g_autoptr (GError) error = NULL;
            g_autoptr (WeftTensor) dense = NULL;
            g_autoptr (WeftTensor) packed = NULL;
            g_autoptr (WeftTensor) again = NULL;
            g_autoptr (WeftTensor) part = NULL;
            g_autoptr (WeftTensor) expected = NULL;

            fill_codes (codes, sizeof codes, bits);
            dense = new_tensor (WEFT_DTYPE_U8, dims, 3, codes);
            packed = weft_tensor_pack (dense, bits, (WeftBitOrder) order, axis, word_dtypes[w], &error);
            if (packed == NULL)
              {
                g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
                continue;
              }
            again = weft_tensor_unpack (packed, bits, (WeftBitOrder) order, axis, dims[axis], &error);
            g_assert_no_error (error);
            assert_same_bits (again, dense);
            part = weft_tensor_slice (again, axis, 2, 1, &error);
            expected = weft_tensor_slice (dense, axis, 2, 1, &error);
            g_assert_no_error (error);
            assert_same_bits (part, expected);
          }
}

/* Element types that a code of a byte is read as. */
static const WeftDtype code_dtypes[] = { WEFT_DTYPE_U8, WEFT_DTYPE_I8, WEFT_DTYPE_F8_E4M3,
                                         WEFT_DTYPE_F8_E5M2 };
static const WeftDtype value_dtypes[] = { WEFT_DTYPE_F32, WEFT_DTYPE_F16, WEFT_DTYPE_BF16 };

static gint64
divide_up (gint64 a, gint64 b)
{
  return (a + b - 1) / b;
}

/* Values of a tensor as F32. */
static gfloat *
read_values (WeftTensor *tensor)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) wide = weft_tensor_cast (tensor, WEFT_DTYPE_F32, &error);
  g_autoptr (GBytes) bytes = NULL;

  g_assert_no_error (error);
  bytes = read_tensor (wide);
  return g_memdup2 (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static WeftTensor *
new_random_scales (const gint64 *dims, gsize n_dims)
{
  g_autofree gfloat *values = NULL;
  gsize n = 1;

  for (gsize i = 0; i < n_dims; i++)
    n *= (gsize) dims[i];
  values = g_new (gfloat, n);
  for (gsize i = 0; i < n; i++)
    values[i] = (gfloat) g_test_rand_double_range (0.001, 2);
  return new_tensor (WEFT_DTYPE_F32, dims, n_dims, values);
}

typedef enum
{
  MULTIPLY,
  AFFINE,
  DIVIDE,
} Arithmetic;

/* One element after the other, as the definition says. */
static WeftTensor *
dequantize_plainly (Arithmetic arithmetic, WeftTensor *codes, WeftTensor *scales, WeftTensor *shifts,
                    const gint64 block[2], WeftDtype dtype)
{
  g_autoptr (GError) error = NULL;
  g_autofree gfloat *q = read_values (codes);
  g_autofree gfloat *s = read_values (scales);
  g_autofree gfloat *z = shifts != NULL ? read_values (shifts) : NULL;
  gint64 n_rows = weft_tensor_get_dim (codes, 0), n_columns = weft_tensor_get_dim (codes, 1);
  gint64 n_blocks = divide_up (n_columns, block[1]);
  g_autofree gfloat *values = g_new (gfloat, n_rows * n_columns);
  g_autoptr (WeftTensor) wide = NULL;
  WeftTensor *rounded;

  for (gint64 i = 0; i < n_rows; i++)
    for (gint64 j = 0; j < n_columns; j++)
      {
        gint64 at = i / block[0] * n_blocks + j / block[1];
        gfloat shift = z != NULL ? z[at] : 0, code = q[i * n_columns + j];
        gfloat product;

        if (arithmetic == DIVIDE)
          product = code / s[at];
        else if (arithmetic == AFFINE)
          product = code * s[at] + shift;
        else
          product = (code - shift) * s[at];
        values[i * n_columns + j] = product;
      }
  wide = new_tensor (WEFT_DTYPE_F32, (gint64[]){ n_rows, n_columns }, 2, values);
  rounded = weft_tensor_cast (wide, dtype, &error);
  g_assert_no_error (error);
  return rounded;
}

static WeftTensor *
dequantize (Arithmetic arithmetic, WeftTensor *codes, WeftTensor *scales, WeftTensor *shifts,
            const gint64 block[2], WeftDtype dtype)
{
  g_autoptr (GError) error = NULL;
  WeftTensor *values = NULL;

  if (arithmetic == MULTIPLY)
    values = weft_tensor_dequantize (codes, scales, shifts, block, 2, dtype, &error);
  else if (arithmetic == AFFINE)
    values = weft_tensor_dequantize_affine (codes, scales, shifts, block, 2, dtype, &error);
  else
    values = weft_tensor_divide (codes, scales, block, 2, dtype, &error);
  g_assert_no_error (error);
  return values;
}

/* Compares the whole, and a part that begins and ends within blocks. */
static void
check_dequantize (Arithmetic arithmetic, WeftTensor *codes, WeftTensor *plain_codes, const gint64 block[2],
                  WeftDtype dtype)
{
  g_autoptr (GError) error = NULL;
  const gint64 grid[] = { divide_up (weft_tensor_get_dim (codes, 0), block[0]),
                          divide_up (weft_tensor_get_dim (codes, 1), block[1]) };
  g_autoptr (WeftTensor) scales = new_random_scales (grid, 2);
  g_autoptr (WeftTensor) shifts = arithmetic == DIVIDE ? NULL : new_random_scales (grid, 2);
  g_autoptr (WeftTensor) found = dequantize (arithmetic, codes, scales, shifts, block, dtype);
  g_autoptr (WeftTensor) expected =
      dequantize_plainly (arithmetic, plain_codes, scales, shifts, block, dtype);
  g_autoptr (WeftTensor) rows = weft_tensor_slice (found, 0, 3, 9, &error);
  g_autoptr (WeftTensor) part = weft_tensor_slice (rows, 1, 5, 33, &error);
  g_autoptr (WeftTensor) expected_rows = weft_tensor_slice (expected, 0, 3, 9, &error);
  g_autoptr (WeftTensor) expected_part = weft_tensor_slice (expected_rows, 1, 5, 33, &error);
  g_autoptr (WeftTensor) turned = weft_tensor_transpose (found, 0, 1, &error);
  g_autoptr (WeftTensor) expected_turned = weft_tensor_transpose (expected, 0, 1, &error);

  g_assert_no_error (error);
  assert_same_bits (found, expected);
  assert_same_bits (part, expected_part);
  assert_same_bits (turned, expected_turned);
}

static const gint64 blocks[][2] = { { 128, 128 }, { 1, 32 }, { 1, 16 },   { 1, 5 },      { 8, 8 },
                                    { 1, 1 },     { 16, 1 }, { 1, 1000 }, { 1000, 1000 } };

static void
test_dequantize_bytes (void)
{
  for (guint c = 0; c < G_N_ELEMENTS (code_dtypes); c++)
    for (guint v = 0; v < G_N_ELEMENTS (value_dtypes); v++)
      for (guint b = 0; b < G_N_ELEMENTS (blocks); b++)
        for (gint arithmetic = MULTIPLY; arithmetic <= DIVIDE; arithmetic++)
          {
            guint8 codes[17 * 610];
            g_autoptr (WeftTensor) tensor = NULL;

            /* All codes but those of infinities and NaNs, which have patterns of their own. */
            fill_codes (codes, sizeof codes, 8);
            for (gsize i = 0; i < sizeof codes; i++)
              if (c >= 2 && (codes[i] & 0x7f) >= 0x7c)
                codes[i] &= 0x83;
            tensor = new_tensor (code_dtypes[c], (gint64[]){ 17, 610 }, 2, codes);
            check_dequantize ((Arithmetic) arithmetic, tensor, tensor, blocks[b], value_dtypes[v]);
          }
}

/* Fused with what unpacks and looks up, the same as one after the other. */
static void
test_dequantize_packed (void)
{
  for (guint bits = 1; bits <= 8; bits++)
    for (gint order = WEFT_BIT_ORDER_DENSE; order <= WEFT_BIT_ORDER_AWQ; order++)
      for (gint axis = 0; axis < 2; axis++)
        for (guint v = 0; v < G_N_ELEMENTS (value_dtypes); v++)
          for (guint b = 0; b < G_N_ELEMENTS (blocks); b++)
            {
              guint8 codes[72 * 80];
              g_autoptr (GError) error = NULL;
              g_autoptr (WeftTensor) dense = NULL;
              g_autoptr (WeftTensor) packed = NULL;
              g_autoptr (WeftTensor) unpacked = NULL;

              fill_codes (codes, sizeof codes, bits);
              dense = new_tensor (WEFT_DTYPE_U8, (gint64[]){ 72, 80 }, 2, codes);
              packed = weft_tensor_pack (dense, bits, (WeftBitOrder) order, axis,
                                         order == WEFT_BIT_ORDER_HIGH_FIRST ? WEFT_DTYPE_U8 : WEFT_DTYPE_I32,
                                         &error);
              if (packed == NULL)
                continue;
              unpacked =
                  weft_tensor_unpack (packed, bits, (WeftBitOrder) order, axis, axis == 0 ? 72 : 80, &error);
              g_assert_no_error (error);
              check_dequantize (MULTIPLY, unpacked, dense, blocks[b], value_dtypes[v]);
              if (bits == 4)
                {
                  g_autoptr (WeftTensor) table = weft_tensor_new_code_table (WEFT_DTYPE_F4, &error);
                  g_autoptr (WeftTensor) looked_up = weft_tensor_lookup (unpacked, table, &error);
                  g_autoptr (WeftTensor) plain = weft_tensor_lookup (dense, table, &error);

                  g_assert_no_error (error);
                  check_dequantize (AFFINE, looked_up, plain, blocks[b], value_dtypes[v]);
                }
            }
}

static const struct
{
  WeftDtype dtype;
  gint n_values;
  gfloat values[16];
} tables[] = {
  { WEFT_DTYPE_F4, 16, { 0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6 } },
  { WEFT_DTYPE_F6_E2M3,
    64,
    { 0, 0.125, 0.25, 0.375, 0.5, 0.625, 0.75, 0.875, 1, 1.125, 1.25, 1.375, 1.5, 1.625, 1.75, 1.875 } },
  { WEFT_DTYPE_F6_E3M2,
    64,
    { 0, 0.0625, 0.125, 0.1875, 0.25, 0.3125, 0.375, 0.4375, 0.5, 0.625, 0.75, 0.875, 1, 1.25, 1.5, 1.75 } },
};

static void
test_code_tables (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTensor) table = weft_tensor_new_code_table (tables[i].dtype, &error);
      g_autoptr (GBytes) bytes = NULL;

      g_assert_no_error (error);
      bytes = read_tensor (table);
      g_assert_cmpint (weft_tensor_get_n_elements (table), ==, tables[i].n_values);
      g_assert_cmpmem (g_bytes_get_data (bytes, NULL), sizeof tables[i].values, tables[i].values,
                       sizeof tables[i].values);
    }
}

/* The scale of 255 of E8M0 is NaN, not a large number; that of 0 is 2^-127. */
static void
test_exponent_scales (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) codes = new_tensor (WEFT_DTYPE_F8_E4M3, (gint64[]){ 3, 1 }, 2, "\x38\x38\x38");
  g_autoptr (WeftTensor) bytes = new_tensor (WEFT_DTYPE_U8, (gint64[]){ 3, 1 }, 2, "\x00\x82\xff");
  g_autoptr (WeftTensor) scales = weft_tensor_bitcast (bytes, WEFT_DTYPE_F8_E8M0, &error);
  g_autoptr (WeftTensor) values =
      weft_tensor_dequantize (codes, scales, NULL, (gint64[]){ 1, 32 }, 2, WEFT_DTYPE_F32, &error);
  g_autofree gfloat *found = NULL;

  g_assert_no_error (error);
  found = read_values (values);
  g_assert_cmpfloat (found[0], ==, 0x1p-127f);
  g_assert_cmpfloat (found[1], ==, 8);
  g_assert_true (isnan (found[2]));
}

/* Groups that are not runs: the group of an index is what the index says, on either axis. */
static void
test_groups (void)
{
  for (gint axis = 0; axis < 2; axis++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTensor) codes =
          new_tensor (WEFT_DTYPE_U8, (gint64[]){ 4, 4 }, 2, "\0\1\2\3\4\5\6\7\10\11\12\13\14\15\16\17");
      g_autoptr (WeftTensor) index =
          new_tensor (WEFT_DTYPE_I32, (gint64[]){ 4 }, 1, (gint32[]){ 1, 0, 1, 0 });
      g_autoptr (WeftTensor) wrong =
          new_tensor (WEFT_DTYPE_I32, (gint64[]){ 4 }, 1, (gint32[]){ 1, 0, 2, 0 });
      g_autoptr (WeftTensor) scales =
          new_tensor (WEFT_DTYPE_F32, axis == 0 ? (gint64[]){ 2, 4 } : (gint64[]){ 4, 2 }, 2,
                      (gfloat[]){ 1, 2, 3, 4, 10, 20, 30, 40 });
      g_autoptr (WeftTensor) found =
          weft_tensor_dequantize_grouped (codes, scales, NULL, index, axis, WEFT_DTYPE_F32, &error);
      g_autoptr (WeftTensor) refused =
          weft_tensor_dequantize_grouped (codes, scales, NULL, wrong, axis, WEFT_DTYPE_F32, &error);
      g_autofree gfloat *values = NULL;
      const gfloat *s = (gfloat[]){ 1, 2, 3, 4, 10, 20, 30, 40 };

      g_assert_no_error (error);
      values = read_values (found);
      for (gint i = 0; i < 4; i++)
        for (gint j = 0; j < 4; j++)
          g_assert_cmpfloat (values[i * 4 + j], ==,
                             (gfloat) (i * 4 + j)
                                 * (axis == 0 ? s[(1 - i % 2) * 4 + j] : s[i * 2 + 1 - j % 2]));
      g_assert_null (weft_tensor_read (refused, NULL, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
    }
}

/* Scales of scales: one kernel on the other, and nothing is rounded between. */
static void
test_two_levels (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) packed =
      new_tensor (WEFT_DTYPE_U8, (gint64[]){ 1, 8 }, 2, "\x21\x21\x21\x21\x21\x21\x21\x21");
  g_autoptr (WeftTensor) scale = new_tensor (WEFT_DTYPE_F8_E4M3, (gint64[]){ 1, 1 }, 2, "\x48");
  g_autoptr (WeftTensor) global = new_tensor (WEFT_DTYPE_F32, (gint64[]){ 1 }, 1, (gfloat[]){ 2 });
  g_autoptr (WeftTensor) elements = weft_tensor_unpack_floats (packed, WEFT_DTYPE_F4, 16, &error);
  g_autoptr (WeftTensor) quotient = weft_tensor_divide (scale, global, NULL, 0, WEFT_DTYPE_F32, &error);
  g_autoptr (WeftTensor) product =
      weft_tensor_dequantize (scale, global, NULL, NULL, 0, WEFT_DTYPE_F32, &error);
  g_autoptr (WeftTensor) a =
      weft_tensor_dequantize (elements, quotient, NULL, (gint64[]){ 16 }, 1, WEFT_DTYPE_BF16, &error);
  g_autoptr (WeftTensor) b =
      weft_tensor_dequantize (elements, product, NULL, (gint64[]){ 16 }, 1, WEFT_DTYPE_BF16, &error);
  g_autofree gfloat *a_values = NULL;
  g_autofree gfloat *b_values = NULL;

  g_assert_no_error (error);
  a_values = read_values (a);
  b_values = read_values (b);
  g_assert_cmpfloat (a_values[0], ==, 1);
  g_assert_cmpfloat (a_values[1], ==, 2);
  g_assert_cmpfloat (b_values[0], ==, 4);
  g_assert_cmpfloat (b_values[1], ==, 8);
  g_assert_null (weft_tensor_unpack_floats (packed, WEFT_DTYPE_F4, 17, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE);
  g_clear_error (&error);
  g_assert_null (weft_tensor_unpack_floats (packed, WEFT_DTYPE_BF16, 4, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE);
}

static const struct
{
  const gchar *name;
  gint64 codes[2], scales[2], block[2];
} misfits[] = {
  { "a row of scales too few", { 1000, 16 }, { 7, 1 }, { 128, 128 } },
  { "a row of scales too many", { 1000, 16 }, { 9, 1 }, { 128, 128 } },
  { "floor instead of ceiling", { 4, 130 }, { 4, 2 }, { 1, 64 } },
  { "scales the other way round", { 256, 128 }, { 1, 2 }, { 128, 128 } },
  { "a negative block", { 4, 4 }, { 2, 2 }, { -2, 2 } },
};

static void
test_misfits (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (misfits); i++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTensor) codes =
          weft_tensor_new_constant (WEFT_DTYPE_F8_E4M3, misfits[i].codes, 2, 1, &error);
      g_autoptr (WeftTensor) scales =
          weft_tensor_new_constant (WEFT_DTYPE_F32, misfits[i].scales, 2, 1, &error);

      g_test_message ("%s", misfits[i].name);
      g_assert_no_error (error);
      g_assert_null (
          weft_tensor_dequantize (codes, scales, NULL, misfits[i].block, 2, WEFT_DTYPE_BF16, &error));
      g_assert_nonnull (error);
    }
}

/* Without a block the quotient decides, and must be whole. */
static void
test_quotient (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) codes =
      weft_tensor_new_constant (WEFT_DTYPE_F8_E4M3, (gint64[]){ 6, 4 }, 2, 1, &error);
  g_autoptr (WeftTensor) whole = weft_tensor_new_constant (WEFT_DTYPE_F32, (gint64[]){ 2, 2 }, 2, 1, &error);
  g_autoptr (WeftTensor) ragged = weft_tensor_new_constant (WEFT_DTYPE_F32, (gint64[]){ 4, 2 }, 2, 1, &error);
  g_autoptr (WeftTensor) values =
      weft_tensor_dequantize (codes, whole, NULL, NULL, 0, WEFT_DTYPE_BF16, &error);

  g_assert_no_error (error);
  g_assert_nonnull (values);
  g_assert_null (weft_tensor_dequantize (codes, ragged, NULL, NULL, 0, WEFT_DTYPE_BF16, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE);
}

static void
test_bitmask (void)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) kept = new_tensor (WEFT_DTYPE_I16, (gint64[]){ 4 }, 1, (gint16[]){ 1, 2, 3, 4 });
  g_autoptr (WeftTensor) pairs = new_tensor (WEFT_DTYPE_I16, (gint64[]){ 2, 2 }, 2, (gint16[]){ 1, 2, 3, 4 });
  g_autoptr (WeftTensor) mask = new_tensor (WEFT_DTYPE_U8, (gint64[]){ 3, 2 }, 2, "\x05\x02\x00\x00\x80\x00");
  g_autoptr (WeftTensor) even_mask = new_tensor (WEFT_DTYPE_U8, (gint64[]){ 2, 1 }, 2, "\x05\x82");
  g_autoptr (WeftTensor) offsets = new_tensor (WEFT_DTYPE_I64, (gint64[]){ 3 }, 1, (gint64[]){ 0, 3, 3 });
  g_autoptr (WeftTensor) falling = new_tensor (WEFT_DTYPE_I64, (gint64[]){ 3 }, 1, (gint64[]){ 0, 3, 2 });
  g_autoptr (WeftTensor) wrong = new_tensor (WEFT_DTYPE_I64, (gint64[]){ 3 }, 1, (gint64[]){ 0, 2, 3 });
  g_autoptr (WeftTensor) rows = weft_tensor_expand_bitmask (kept, mask, offsets, 10, &error);
  g_autoptr (WeftTensor) even = weft_tensor_expand_bitmask (pairs, even_mask, NULL, 8, &error);
  g_autoptr (WeftTensor) broken = weft_tensor_expand_bitmask (kept, mask, wrong, 10, &error);
  g_autoptr (WeftTensor) expected = new_tensor (
      WEFT_DTYPE_I16, (gint64[]){ 3, 10 }, 2,
      (gint16[]){ 1, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0 });
  g_autoptr (WeftTensor) expected_even = new_tensor (
      WEFT_DTYPE_I16, (gint64[]){ 2, 8 }, 2, (gint16[]){ 1, 0, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 4 });

  g_assert_no_error (error);
  assert_same_bits (rows, expected);
  assert_same_bits (even, expected_even);
  g_assert_null (weft_tensor_read (broken, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
  g_clear_error (&error);
  g_assert_null (weft_tensor_expand_bitmask (kept, mask, falling, 10, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/packing/layouts", test_layouts);
  g_test_add_func ("/packing/is-undone", test_packing_is_undone);
  g_test_add_func ("/packing/code-tables", test_code_tables);
  g_test_add_func ("/packing/bitmask", test_bitmask);
  g_test_add_func ("/dequantize/bytes", test_dequantize_bytes);
  g_test_add_func ("/dequantize/packed", test_dequantize_packed);
  g_test_add_func ("/dequantize/exponent-scales", test_exponent_scales);
  g_test_add_func ("/dequantize/groups", test_groups);
  g_test_add_func ("/dequantize/two-levels", test_two_levels);
  g_test_add_func ("/dequantize/misfits", test_misfits);
  g_test_add_func ("/dequantize/quotient", test_quotient);
  return g_test_run ();
}
