/* SPDX-License-Identifier: Apache-2.0 */
/* The block types of GGUF files. A block is written as its layout: fields in the order of the file, each a list of bytes
 * (in hexadecimal), or one byte and how often it stands there. F16 1 is 00 3c, 2 is 00 40, -0.5 is 00 b8. */
#include <math.h>

#include "weft.h"

/* Blocks, and the values of some elements, in the output's dtype. */
static const struct
{
  const gchar *type;
  gint64 number;
  const gchar *block;
  const gchar *values; /* element=value */
} block_cases[] = {
  { "F32", 0, "00 00 80 3f", "0=1" },
  { "F16", 1, "00 b8", "0=-0.5" },
  { "BF16", 30, "80 3f", "0=1" },
  /* scale 2; low nibbles are elements 0-15, high ones 16-31; 8 is zero */
  { "Q4_0", 2, "00 40 f0 87*14 0f", "0=-16 1=-2 14=-2 15=14 16=14 17=0 31=-16" },
  /* scale 2, minimum -0.5 */
  { "Q4_1", 3, "00 40 00 b8 f0 87*14 0f", "0=-0.5 1=13.5 15=29.5 16=29.5 17=15.5 31=-0.5" },
  /* the fifth bit of element e is bit e of 4 bytes; 16 is zero */
  { "Q5_0", 6, "00 40 01 00 02 80 f0 00*14 0f", "0=0 1=-32 15=-2 16=-2 17=0 18=-32 31=0" },
  { "Q5_1", 7, "00 40 00 b8 01 00 02 80 f0 00*14 0f",
    "0=31.5 1=-0.5 15=29.5 16=29.5 17=31.5 18=-0.5 31=31.5" },
  { "Q8_0", 8, "00 40 80 ff 00*29 7f", "0=-256 1=-2 2=0 31=254" },
  /* 16 groups of 16: nibbles are scale and minimum; 4 codes a byte, 32 elements apart; scale 2, minimum -0.5 */
  { "Q2_K", 10, "21 43*14 01 e4*32 1b*32 00 40 00 b8",
    "0=1 15=1 16=2 32=8 64=14 96=20 128=20 160=14 192=8 224=2 239=2 240=0 255=0" },
  /* third bits, 8 elements a byte, 32 apart; 4 is zero; 16 scales of 6 bits, 32 is zero */
  { "Q3_K", 11, "01 fe*30 00 e4*64 f1 00*7 0e*4 00 40", "0=0 1=-8 31=-0 64=-64 65=64 128=136 160=192" },
  /* 8 groups of 32: scales and minima of 6 bits */
  { "Q4_K", 12, "00 40 00 b8 01 02 03 c4 05 06 07 88 1f 00 00 23 21*31 87*1 21*96",
    "0=4.5 1=4.5 31=16.5 32=11 63=35" },
  /* with fifth bits, 8 elements a byte, 32 apart */
  { "Q5_K", 13, "00 40 00 b8 01 02 03 c4 05 06 07 88 1f 00 00 23 01 02 00*29 80 21*128",
    "0=36.5 1=4.5 2=4.5 32=11 33=75 224=221 255=1853" },
  /* low nibbles, 2 elements a byte, 64 apart; upper 2 bits, 4 a byte, 32 apart; 16 signed scales; 32 is zero */
  { "Q6_K", 14, "f0*64 0f*64 e4*64 ff 01*13 02 80 00 40",
    "0=64 16=-64 32=-32 64=30 96=62 128=-34 192=0 224=64 239=64 240=-4096 255=-4096" },
  /* five digits to the base of 3 a byte, less 1; the scale is last */
  { "TQ1_0", 34, "00*52 00 40", "0=-2 159=-2 160=-2 240=-2 255=-2" },
  /* 2 bits, 4 a byte, 32 apart; 1 is zero */
  { "TQ2_0", 35, "e4*64 00 40", "0=-2 32=0 64=2 96=4 128=-2 255=4" },
  /* 2^1; low nibbles are elements 0-15 */
  { "MXFP4", 39, "80 21 7f*14 80", "0=1 16=2 1=-12 17=12 15=0 31=0" },
  /* scales 1, 2, 0 and the code of NaN, which counts as 0; 16 elements each, low nibbles first */
  { "NVFP4", 40, "38 40 00 7f 21*32", "0=0.5 8=1 16=1 24=2 32=0 48=0" },
  /* codes stand for values from -127 to 113 */
  { "IQ4_NL", 20, "00 40 f0*16", "0=-254 16=226" },
  /* 8 scales of 6 bits, 32 is zero: upper 2 bits, then low nibbles */
  { "IQ4_XS", 23, "00 40 00 80 21*4 f0*128", "0=7874 16=-7006 224=-508 255=452" },
  /* vectors; the eighth sign is that which makes their number even */
  { "IQ2_XXS", 16, "00 40 00*4 01 00*3 00*56", "0=-2 1=2 7=-2 8=2 255=2" },
  { "IQ3_XXS", 18, "00 40 00*64 01 00*3 00*28", "0=-2 1=2 7=-2 8=2 255=2" },
  /* 9 bits of index and 7 signs; vector 511 is all 43; a nibble of scale for 16 elements */
  { "IQ2_XS", 17, "00 40 01 02 ff 01 00*60 10 00*7", "0=-10.75 1=2 7=-2 8=10.75 15=10.75 16=6 31=6 255=2" },
  /* indices, signs, upper bits of indices, scales */
  { "IQ2_S", 22, "00 40 ff 00*31 01 00*31 03 00*7 10 00*7",
    "0=-10.75 1=10.75 3=10.75 7=10.75 8=2 16=6 255=2" },
  /* vector 2047 is all 1, vector 0 all -1, an eighth more or less */
  { "IQ1_S", 19, "00 40 ff 00*31 07 80 00*12 00 10",
    "0=1.75 1=1.75 7=1.75 8=-2.25 32=-1.75 224=-5.25 255=-5.25" },
  /* the scale of scales is in the upper nibbles of the last words */
  { "IQ1_M", 29, "ff 00*31 8f 00*15 01 00*2 00 00*3 40", "0=5.25 1=5.25 7=5.25 8=-6.75 16=-1.75 255=-1.75" },
  /* a scale of F32, codes, sums that nobody needs */
  { "Q8_K", 15, "00 00 00 40 80 ff 00*253 7f 11*32", "0=-256 1=-2 2=0 255=254" },
  { "IQ3_S", 21, "00 40 00*64 00*8 01 00*31 02 00*3", "0=-10 1=10 32=2 255=2" },
};

static GBytes *
parse_block (const gchar *text)
{
  g_auto (GStrv) fields = g_strsplit (text, " ", -1);
  GByteArray *bytes = g_byte_array_new ();

  for (guint i = 0; fields[i] != NULL; i++)
    {
      gchar *end;
      guint8 byte = (guint8) g_ascii_strtoull (fields[i], &end, 16);
      guint64 n_times = *end == '*' ? g_ascii_strtoull (end + 1, NULL, 10) : 1;

      for (guint64 j = 0; j < n_times; j++)
        g_byte_array_append (bytes, &byte, 1);
    }
  return g_byte_array_free_to_bytes (bytes);
}

/* `PARAMETERS` of an op that decodes the tensor `m.w`. */
static WeftTensor *
decode (const gchar *op, const gchar *parameters, WeftTensor *rows, GError **error)
{
  g_autofree gchar *quoted = g_strdelimit (g_strdup (parameters), "'", '"');
  g_autoptr (JsonNode) node = weft_json_parse (quoted, -1, "test", error);
  g_autoptr (WeftConversionOps) gguf_op = weft_op_new (op, json_node_get_object (node), NULL, error);
  g_autoptr (WeftOpContext) context =
      weft_op_context_new ((const gchar *[]){ "w", NULL }, (const gchar *[]){ "w", NULL });
  g_autoptr (WeftTensorGroups) inputs = weft_op_new_output ("w", rows);
  g_autoptr (WeftTensorGroups) outputs = NULL;

  if (gguf_op == NULL)
    return NULL;
  weft_op_context_set_full_layer_name (context, "m.w");
  outputs = weft_conversion_ops_convert (gguf_op, inputs, context, error);
  return outputs != NULL ? weft_tensor_ref (weft_tensor_groups_get_tensor (outputs, 0, 0)) : NULL;
}

static gdouble *
read_values (WeftTensor *tensor, gsize *n_values)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) wide = weft_tensor_cast (tensor, WEFT_DTYPE_F64, &error);
  g_autoptr (GBytes) bytes = weft_tensor_read (wide, NULL, &error);

  g_assert_no_error (error);
  *n_values = g_bytes_get_size (bytes) / sizeof (gdouble);
  return g_memdup2 (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes));
}

static void
assert_values (const gdouble *values, gsize n_values, const gchar *expected)
{
  g_auto (GStrv) elements = g_strsplit (expected, " ", -1);

  for (guint i = 0; elements[i] != NULL; i++)
    {
      gchar *end;
      guint64 element = g_ascii_strtoull (elements[i], &end, 10);

      g_assert_cmpuint (element, <, n_values);
      g_test_message ("element %" G_GUINT64_FORMAT, element);
      g_assert_cmpfloat (values[element], ==, g_ascii_strtod (end + 1, NULL));
    }
}

/* Three rows of two blocks each, so that blocks have neighbours. */
static void
test_block (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GBytes) block = parse_block (block_cases[i].block);
  gsize n_bytes = g_bytes_get_size (block);
  g_autoptr (WeftTensor) one =
      weft_tensor_new_from_bytes (WEFT_DTYPE_U8, (gint64[]){ 1, (gint64) n_bytes }, 2, block, NULL);
  WeftTensor *parts[] = { one, one };
  g_autoptr (WeftTensor) row = weft_tensor_concat (parts, 2, 1, NULL);
  WeftTensor *copies[] = { row, row, row };
  g_autoptr (WeftTensor) rows = weft_tensor_concat (copies, 3, 0, NULL);
  g_autofree gchar *by_number =
      g_strdup_printf ("{'ggml_types':{'m.w':%d},'dtype':'F32'}", (gint) block_cases[i].number);
  g_autofree gchar *by_name = g_strdup_printf ("{'types':{'m.w':'%s'}}", block_cases[i].type);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = decode ("GgufDequantize", by_number, rows, &error);
  g_autoptr (WeftTensor) same = decode ("Dequantize", by_name, rows, &error);
  g_autofree gdouble *values = NULL;
  g_autofree gdouble *same_values = NULL;
  gsize n_values, n_same;

  g_assert_no_error (error);
  values = read_values (tensor, &n_values);
  same_values = read_values (same, &n_same);
  g_assert_cmpmem (values, n_values * sizeof *values, same_values, n_same * sizeof *same_values);
  g_assert_cmpint (weft_tensor_get_dim (tensor, 0), ==, 3);
  for (guint j = 0; j < 6; j++)
    assert_values (values + j * n_values / 6, n_values / 6, block_cases[i].values);
}

/* A slice decodes the blocks it needs. */
static void
test_slice (void)
{
  g_autoptr (GBytes) bytes = parse_block ("00 40 00*31 05 00 40 07 01*31");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) rows = weft_tensor_new_from_bytes (WEFT_DTYPE_U8, (gint64[]){ 68 }, 1, bytes, NULL);
  g_autoptr (WeftTensor) tensor = decode ("Dequantize", "{'types':{'m.w':'Q8_0'}}", rows, &error);
  g_autoptr (WeftTensor) slice = weft_tensor_slice (tensor, 0, 31, 3, &error);
  g_autofree gdouble *values = NULL;
  gsize n_values;

  g_assert_no_error (error);
  values = read_values (slice, &n_values);
  g_assert_cmpuint (n_values, ==, 3);
  assert_values (values, n_values, "0=10 1=14 2=2");
}

/* Every step is rounded to the dtype: in BF16 a scale of 2050 is 2048. */
static const struct
{
  const gchar *dtype;
  const gchar *type;
  const gchar *block;
  const gchar *values;
} rounding_cases[] = {
  { "F32", "Q8_0", "01 68 03 ff 00*30", "0=6150 1=-2050" },
  { "BF16", "Q8_0", "01 68 03 ff 00*30", "0=6144 1=-2048" },
  { "F16", "Q8_0", "01 68 03 ff 00*30", "0=6152 1=-2050" },
  /* 1 + 2^-9 as a minimum under 2 x 15: in BF16 it is 1 */
  { "F32", "Q4_1", "00 40 02 3c 0f*16", "0=31.001953125 16=1.001953125" },
  { "BF16", "Q4_1", "00 40 02 3c 0f*16", "0=31 16=1" },
  { "F16", "Q4_1", "00 40 02 3c 0f*16", "0=31 16=1.001953125" },
  /* 2^-24 is the least F16; 65504 x 2 is too much */
  { "F16", "Q8_0", "01 00 01 ff 00*30", "0=5.9604644775390625e-08 1=-5.9604644775390625e-08" },
  { "F16", "Q8_0", "ff 7b 02 fe 01 00*29", "0=inf 1=-inf 2=65504" },
  { "BF16", "Q8_0", "00 7c 01 ff 00*30", "0=inf 1=-inf" },
};

static void
test_rounding (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GBytes) bytes = parse_block (rounding_cases[i].block);
  g_autoptr (WeftTensor) rows = weft_tensor_new_from_bytes (
      WEFT_DTYPE_U8, (gint64[]){ (gint64) g_bytes_get_size (bytes) }, 1, bytes, NULL);
  g_autofree gchar *parameters = g_strdup_printf ("{'types':{'m.w':'%s'},'dtype':'%s'}",
                                                  rounding_cases[i].type, rounding_cases[i].dtype);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = decode ("Dequantize", parameters, rows, &error);
  g_autofree gdouble *values = NULL;
  gsize n_values;

  g_assert_no_error (error);
  g_assert_cmpstr (weft_dtype_get_name (weft_tensor_get_dtype (tensor)), ==, rounding_cases[i].dtype);
  values = read_values (tensor, &n_values);
  assert_values (values, n_values, rounding_cases[i].values);
}

/* With every scale: a product of an F16 scale and a code is rounded to F16 as casts round. */
static void
test_all_scales (void)
{
  const gsize n_bytes = 65536 * 34;
  guint8 *blocks = g_malloc (n_bytes);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) rows = NULL;
  g_autoptr (WeftTensor) narrow = NULL;
  g_autoptr (WeftTensor) wide = NULL;
  g_autoptr (WeftTensor) cast = NULL;
  g_autofree gdouble *found = NULL;
  g_autofree gdouble *expected = NULL;
  gsize n_found, n_expected;

  for (guint scale = 0; scale < 65536; scale++)
    {
      guint8 *block = blocks + scale * 34;

      block[0] = (guint8) scale;
      block[1] = (guint8) (scale >> 8);
      for (guint i = 0; i < 32; i++)
        block[2 + i] = (guint8) (scale * 7 + i * 8);
    }
  bytes = g_bytes_new_take (blocks, n_bytes);
  rows = weft_tensor_new_from_bytes (WEFT_DTYPE_U8, (gint64[]){ (gint64) n_bytes }, 1, bytes, &error);
  narrow = decode ("Dequantize", "{'types':{'m.w':'Q8_0'},'dtype':'F16'}", rows, &error);
  wide = decode ("Dequantize", "{'types':{'m.w':'Q8_0'}}", rows, &error);
  cast = weft_tensor_cast (wide, WEFT_DTYPE_F16, &error);
  g_assert_no_error (error);
  found = read_values (narrow, &n_found);
  expected = read_values (cast, &n_expected);
  g_assert_cmpuint (n_found, ==, 65536 * 32);
  for (gsize i = 0; i < n_found; i++)
    if (!(isnan (found[i]) && isnan (expected[i])))
      g_assert_cmpfloat (found[i], ==, expected[i]);
}

/* What is refused. */
static const struct
{
  WeftDtype dtype;
  gint64 n_columns;
  const gchar *parameters;
  gint code;
  const gchar *message;
} refusals[] = {
  { WEFT_DTYPE_F32, 34, "{'types':{'m.w':'Q8_0'}}", WEFT_ERROR_DTYPE,
    "gguf/Dequantize: blocks of Q8_0 must be U8, found F32" },
  { WEFT_DTYPE_U8, 35, "{'types':{'m.w':'Q8_0'}}", WEFT_ERROR_SHAPE,
    "gguf/Dequantize: rows of shape (35,) are not whole blocks of Q8_0, which have 34 bytes" },
  { WEFT_DTYPE_U8, 34, "{'types':{'m.w':'Q9'}}", WEFT_ERROR_ARGUMENT,
    "gguf/Dequantize: 'm.w' has block type 'Q9', which is not known: expected a name such as 'Q8_0', or its number" },
  { WEFT_DTYPE_U8, 34, "{'types':{'m.w':4}}", WEFT_ERROR_ARGUMENT,
    "gguf/Dequantize: 'm.w' has block type 4, which is not known: expected a name such as 'Q8_0', or its number" },
  { WEFT_DTYPE_U8, 34, "{'types':{'m.w':true}}", WEFT_ERROR_ARGUMENT,
    "gguf/Dequantize: 'm.w' has block type true, which is not known: expected a name such as 'Q8_0', or its number" },
};

static void
test_refusal (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftTensor) rows =
      weft_tensor_new_unreadable (refusals[i].dtype, &refusals[i].n_columns, 1, NULL);
  g_autoptr (GError) error = NULL;

  g_assert_null (decode ("Dequantize", refusals[i].parameters, rows, &error));
  g_assert_error (error, WEFT_ERROR, refusals[i].code);
  g_assert_cmpstr (error->message, ==, refusals[i].message);
}

/* A name without a type passes, whatever it is. */
static void
test_other_name (void)
{
  g_autoptr (WeftTensor) rows = weft_tensor_new_unreadable (WEFT_DTYPE_F32, (gint64[]){ 3 }, 1, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = decode ("Dequantize", "{'types':{'m.x':'Q8_0'}}", rows, &error);

  g_assert_no_error (error);
  g_assert_true (weft_tensor_is_same (tensor, rows));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (block_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/gguf/block/", block_cases[i].type, NULL);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_block);
    }
  for (guint i = 0; i < G_N_ELEMENTS (rounding_cases); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/gguf/rounding/%u-%s", i, rounding_cases[i].dtype);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_rounding);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/gguf/refusal/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refusal);
    }
  g_test_add_func ("/gguf/all-scales", test_all_scales);
  g_test_add_func ("/gguf/slice", test_slice);
  g_test_add_func ("/gguf/other-name", test_other_name);
  return g_test_run ();
}
