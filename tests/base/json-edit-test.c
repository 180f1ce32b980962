/* SPDX-License-Identifier: Apache-2.0 */
/* One member of a JSON text changes, and no other byte. */
#include "weft.h"

#define CONFIG "{\n  \"eps\": 1e-06,\n  \"text_config\": {\"a\": [1, {\"b\": \"}\"}]}\n}\n"

static const struct
{
  const gchar *name;
  const gchar *text;
  const gchar *path;
  const gchar *value;
  const gchar *expected; /* NULL: refused */
} rows[] = {
  { "added-behind-the-last", CONFIG, "fusion", "{\"x\": true}",
    "{\n  \"eps\": 1e-06,\n  \"text_config\": {\"a\": [1, {\"b\": \"}\"}]},\n  \"fusion\": {\"x\": true}\n}\n" },
  { "added-to-an-empty-object", "{}", "a", "1", "{\"a\": 1}" },
  { "added-to-a-nested-object", CONFIG, "text_config.q", "null",
    "{\n  \"eps\": 1e-06,\n  \"text_config\": {\"a\": [1, {\"b\": \"}\"}],\"q\": null}\n}\n" },
  { "added-with-the-object-that-holds-it", "{\"a\": 1}", "p.q", "[2]", "{\"a\": 1,\"p\": {\"q\": [2]}}" },
  { "replaced", "{\"a\": \"\\\"}\", \"b\":2 , \"c\": 3}", "b", "{}",
    "{\"a\": \"\\\"}\", \"b\":{} , \"c\": 3}" },
  { "replaced-number-at-the-end", "{\"a\":12}", "a", "3", "{\"a\":3}" },
  { "same-name-deeper-is-another", "{\"x\": {\"a\": 1}, \"a\": 2}", "a", "3",
    "{\"x\": {\"a\": 1}, \"a\": 3}" },
  { "removed-first", "{ \"a\": 1, \"b\": 2 }", "a", NULL, "{ \"b\": 2 }" },
  { "removed-last", "{\n  \"a\": 1,\n  \"b\": 2\n}", "b", NULL, "{\n  \"a\": 1\n}" },
  { "removed-only", "{ \"a\": 1 }", "a", NULL, "{ }" },
  { "removed-under-a-name-with-a-dot", "{\"a.b\": {\"c\": 1}, \"a\": {\"b\": {\"c\": 2}}}", "a\\.b.c", NULL,
    "{\"a.b\": {}, \"a\": {\"b\": {\"c\": 2}}}" },
  { "replaced-under-a-name-with-a-backslash", "{\"a\\\\\": 1}", "a\\\\", "2", "{\"a\\\\\": 2}" },
  { "removed-under-an-escaped-name", "{\"\\u0061\": 1, \"b\": 2}", "a", NULL, "{\"b\": 2}" },
  { "removed-what-is-not-there", CONFIG, "q", NULL, CONFIG },
  { "root-is-a-list", "[1]", "a", "1", NULL },
  { "parent-is-a-number", "{\"a\": 1}", "a.b", "1", NULL },
  { "no-json", "{\"a\": }", "a", "1", NULL },
};

static void
test_row (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *edited =
      weft_json_replace_member (rows[i].text, rows[i].path, rows[i].value, "config.json", &error);

  g_assert_cmpstr (edited, ==, rows[i].expected);
  if (rows[i].expected != NULL)
    {
      g_assert_no_error (error);
      return;
    }
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT);
  g_assert_true (g_str_has_prefix (error->message, "config.json: "));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/json-edit/%s", rows[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_row);
    }
  return g_test_run ();
}
