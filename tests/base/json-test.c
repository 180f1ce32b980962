/* SPDX-License-Identifier: Apache-2.0 */
/* Texts that a parser may take in another way than they are meant, and numbers that a writer may. */
#include "weft.h"

/* Either what comes out of the parser again, or the message. */
static const struct
{
  const gchar *name;
  const gchar *text;
  const gchar *parsed;
  gint code;
  const gchar *message;
} rows[] = {
  { "largest", "[9223372036854775807,-9223372036854775808]", "[9223372036854775807,-9223372036854775808]", 0,
    NULL },
  { "beyond-64-bits", "{\"a\":9223372036854775808,\"b\":[-9223372036854775809]}",
    "{\"a\":9.223372036854776e+18,\"b\":[-9.223372036854776e+18]}", 0, NULL },
  { "far-beyond", "1000000000000000000000000000000", "1e+30", 0, NULL },
  { "number-in-a-text", "[\"9223372036854775808\",\"\\\"\",2]", "[\"9223372036854775808\",\"\\\"\",2]", 0,
    NULL },
  { "real", "[1e3,-0.5,0.05,1e-5,1e22,5e-324,0.1000000000000000055]",
    "[1000.0,-0.5,0.05,1e-05,1e+22,4.94065645841247e-324,0.1]", 0, NULL },
  { "infinite", "[1e999,-1e999,\"inf.0\"]", "[1e999,-1e999,\"inf.0\"]", 0, NULL },
  { "words-of-python", "[Infinity,-Infinity,NaN,\"NaN\"]", "[1e999,-1e999,null,\"NaN\"]", 0, NULL },
  { "another-word", "[Infinite]", NULL, WEFT_ERROR_FORMAT, "where: no valid JSON" },
  { "nul", "{\"a\\u0000b\":1}", NULL, WEFT_ERROR_FORMAT, "where: byte 3: a text holds a NUL character" },
  { "backslash-before-u", "[\"\\\\u0000\"]", "[\"\\\\u0000\"]", 0, NULL },
  { "comment", "[1/*]*/]", NULL, WEFT_ERROR_FORMAT, "where: byte 2: JSON has no comments" },
  { "cut-in-a-text", "[\"a\\", NULL, WEFT_ERROR_FORMAT, "where: no valid JSON" },
};

static void
test_row (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) root = weft_json_parse (rows[i].text, -1, "where", &error);
  g_autofree gchar *parsed = root != NULL ? weft_json_to_text (root, FALSE) : NULL;

  if (rows[i].message != NULL)
    {
      g_assert_null (root);
      g_assert_error (error, WEFT_ERROR, rows[i].code);
      g_assert_true (g_str_has_prefix (error->message, rows[i].message));
      return;
    }
  g_assert_no_error (error);
  g_assert_cmpstr (parsed, ==, rows[i].parsed);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/json/%s", rows[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_row);
    }
  return g_test_run ();
}
