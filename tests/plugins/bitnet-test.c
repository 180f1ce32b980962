/* SPDX-License-Identifier: Apache-2.0 */
/* Ternary weights: packed bytes by rows, what the model knows of the weight, and the values by rows, or the error. */
#include "weft.h"

static const struct
{
  const gchar *packed; /* bytes in hexadecimal, rows separated by commas */
  const gchar *expected_shape;
  const gchar *dtype;
  const gchar *values;
  const gchar *message;
} cases[] = {
  /* the codes of a byte, from its lowest bits, are rows n apart */
  { "68,91", "8 1", "F32", "-1,0,1,-1,1,0,0,1", NULL },
  { "68 91", "4 2", "BF16", "-1 0,1 -1,1 0,0 1", NULL },
  { "ff 00", "4 2", "F16", "2 -1,2 -1,2 -1,2 -1", NULL },
  /* nothing is known of the model, or no floating dtype */
  { "68,91", NULL, NULL, "-1,0,1,-1,1,0,0,1", NULL },
  { "68,91", "8 1", "U8", "-1,0,1,-1,1,0,0,1", NULL },
  /* bytes of the parameter's shape are the weight */
  { "02,03", "2 1", "U8", "2,3", NULL },
  { "68,91", "7 1", "F32", NULL,
    "bitnet/BitNetDeserialize: 'm.weight' has shape (2, 1), which is neither the (7, 1) of the model's parameter nor a fourth of its rows" },
  { "68,91", "8 2", "F32", NULL,
    "bitnet/BitNetDeserialize: 'm.weight' has shape (2, 1), which is neither the (8, 2) of the model's parameter nor a fourth of its rows" },
};

static WeftTensor *
parse_packed (const gchar *text)
{
  g_auto (GStrv) rows = g_strsplit (text, ",", -1);
  g_autoptr (GByteArray) array = g_byte_array_new ();
  g_autoptr (GBytes) bytes = NULL;
  gint64 dims[2] = { (gint64) g_strv_length (rows), 0 };

  for (guint i = 0; rows[i] != NULL; i++)
    {
      g_auto (GStrv) columns = g_strsplit (rows[i], " ", -1);

      dims[1] = (gint64) g_strv_length (columns);
      for (guint j = 0; columns[j] != NULL; j++)
        {
          guint8 byte = (guint8) g_ascii_strtoull (columns[j], NULL, 16);

          g_byte_array_append (array, &byte, 1);
        }
    }
  bytes = g_bytes_new (array->data, array->len);
  return weft_tensor_new_from_bytes (WEFT_DTYPE_U8, dims, 2, bytes, NULL);
}

static gchar *
print_values (WeftTensor *tensor)
{
  g_autoptr (WeftTensor) wide = weft_tensor_cast (tensor, WEFT_DTYPE_I64, NULL);
  g_autoptr (GBytes) bytes = weft_tensor_read (wide, NULL, NULL);
  const gint64 *values = g_bytes_get_data (bytes, NULL);
  gint64 n_columns = weft_tensor_get_dim (tensor, 1);
  GString *text = g_string_new (NULL);

  for (gint64 i = 0; i < weft_tensor_get_n_elements (tensor); i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT,
                            i == 0               ? ""
                            : i % n_columns == 0 ? ","
                                                 : " ",
                            values[i]);
  return g_string_free (text, FALSE);
}

static WeftOpContext *
make_context (const gchar *shape_text, const gchar *dtype)
{
  WeftOpContext *context =
      weft_op_context_new ((const gchar *[]){ "weight", NULL }, (const gchar *[]){ "weight", NULL });
  WeftShape shape = { .rank = 2 };
  gchar *end;

  weft_op_context_set_full_layer_name (context, "m.weight");
  if (shape_text == NULL)
    return context;
  shape.dims[0] = g_ascii_strtoll (shape_text, &end, 10);
  shape.dims[1] = g_ascii_strtoll (end, NULL, 10);
  weft_op_context_add_parameter (context, "m.weight", &shape, weft_dtype_from_name (dtype));
  return context;
}

static void
test_case (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftTensor) packed = parse_packed (cases[i].packed);
  g_autoptr (WeftOpContext) context = make_context (cases[i].expected_shape, cases[i].dtype);
  g_autoptr (WeftTensorGroups) inputs = weft_op_new_output ("weight", packed);
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftConversionOps) op = weft_op_new ("BitNetDeserialize", NULL, NULL, &error);
  g_autofree gchar *values = NULL;
  WeftTensor *weight;

  g_assert_no_error (error);
  outputs = weft_conversion_ops_convert (op, inputs, context, &error);
  if (cases[i].message != NULL)
    {
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE);
      g_assert_cmpstr (error->message, ==, cases[i].message);
      return;
    }
  g_assert_no_error (error);
  weight = weft_tensor_groups_get_tensor (outputs, 0, 0);
  values = print_values (weight);
  g_assert_cmpstr (values, ==, cases[i].values);
  if (cases[i].dtype == NULL)
    g_assert_cmpstr (weft_dtype_get_name (weft_tensor_get_dtype (weight)), ==, "BF16");
  else if (!g_str_equal (cases[i].dtype, "U8"))
    g_assert_cmpstr (weft_dtype_get_name (weft_tensor_get_dtype (weight)), ==, cases[i].dtype);
}

/* A slice of rows that begins and ends between two codes of a byte. */
static void
test_slice (void)
{
  g_autoptr (WeftTensor) packed = parse_packed ("68,91");
  g_autoptr (WeftOpContext) context = make_context (NULL, NULL);
  g_autoptr (WeftTensorGroups) inputs = weft_op_new_output ("weight", packed);
  g_autoptr (WeftConversionOps) op = weft_op_new ("BitNetDeserialize", NULL, NULL, NULL);
  g_autoptr (WeftTensorGroups) outputs = weft_conversion_ops_convert (op, inputs, context, NULL);
  g_autoptr (WeftTensor) rows =
      weft_tensor_slice (weft_tensor_groups_get_tensor (outputs, 0, 0), 0, 3, 4, NULL);
  g_autofree gchar *values = print_values (rows);

  g_assert_cmpstr (values, ==, "-1,1,0,0");
}

/* Dense weights of the same checkpoint pass. */
static void
test_dense (void)
{
  g_autoptr (WeftTensor) dense = weft_tensor_new_unreadable (WEFT_DTYPE_BF16, (gint64[]){ 2, 1 }, 2, NULL);
  g_autoptr (WeftOpContext) context = make_context ("8 1", "BF16");
  g_autoptr (WeftTensorGroups) inputs = weft_op_new_output ("weight", dense);
  g_autoptr (WeftConversionOps) op = weft_op_new ("BitNetDeserialize", NULL, NULL, NULL);
  g_autoptr (WeftTensorGroups) outputs = weft_conversion_ops_convert (op, inputs, context, NULL);

  g_assert_true (weft_tensor_is_same (weft_tensor_groups_get_tensor (outputs, 0, 0), dense));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/bitnet/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_case);
    }
  g_test_add_func ("/bitnet/slice", test_slice);
  g_test_add_func ("/bitnet/dense", test_dense);
  return g_test_run ();
}
