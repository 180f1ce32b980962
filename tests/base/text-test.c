/* SPDX-License-Identifier: Apache-2.0 */
/* The natural order of tensor names, and what is derived from a name. */
#include "weft.h"

#include <string.h>

/* In order; those of a line are equal. */
static const gchar *const ordered[][3] = {
  { "0", "00" },
  { "7", "007" },
  { "10" },
  { "18446744073709551616" },
  { "" },
  { ".a" },
  { "a" },
  { "a.7", "a.007", "a.0000000000000000000007" },
  { "a.7.b" },
  { "a.7.b1" },
  { "a.7.c" },
  { "a.10" },
  { "a.10." },
  { "a." },
  { "a.b" },
  { "a.b.0" },
  { "a.b0", "a.b00" },
  { "a.b0.c" },
  { "a.b2" },
  { "a.b10" },
  { "a.b\001" },
  { "a.b10c" },
  { "a.b2c" },
  { "a0" },
  { "a9" },
  { "a10" },
  { "aa" },
  { "b" },
  { "\303\251" },
};

static gint
sign (gint order)
{
  return (order > 0) - (order < 0);
}

static gint
compare_keys (const gchar *a, const gchar *b)
{
  g_autoptr (GByteArray) key_a = g_byte_array_new ();
  g_autoptr (GByteArray) key_b = g_byte_array_new ();
  gint order;

  weft_text_append_natural_key (key_a, a);
  weft_text_append_natural_key (key_b, b);
  order = memcmp (key_a->data, key_b->data, MIN (key_a->len, key_b->len));
  return order != 0 ? sign (order) : (key_a->len > key_b->len) - (key_a->len < key_b->len);
}

static void
assert_order (const gchar *a, const gchar *b, gint order)
{
  g_test_message ("'%s' and '%s'", a, b);
  g_assert_cmpint (sign (weft_text_compare_natural (a, b)), ==, order);
  g_assert_cmpint (compare_keys (a, b), ==, order);
}

static void
test_natural_order (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (ordered); i++)
    for (guint k = 0; k < G_N_ELEMENTS (ordered); k++)
      for (guint m = 0; m < 3 && ordered[i][m] != NULL; m++)
        for (guint n = 0; n < 3 && ordered[k][n] != NULL; n++)
          assert_order (ordered[i][m], ordered[k][n], (i > k) - (i < k));
}

/* Keys stand one behind the other. */
static void
test_keys_in_one_array (void)
{
  g_autoptr (GByteArray) keys = g_byte_array_new ();
  g_autoptr (GByteArray) second = g_byte_array_new ();
  guint length;

  weft_text_append_natural_key (keys, "layers.10.w2");
  length = keys->len;
  weft_text_append_natural_key (keys, "layers.9");
  weft_text_append_natural_key (second, "layers.9");
  g_assert_cmpmem (keys->data + length, keys->len - length, second->data, second->len);
}

static const struct
{
  const gchar *pattern;
  guint64 number;
  const gchar *text;
} numbered[] = {
  { "experts.*.w1", 0, "experts.0.w1" },
  { "experts.*.w1", 127, "experts.127.w1" },
  { "*", G_MAXUINT64, "18446744073709551615" },
  { "*.a.*", 12, "12.a.12" },
  { "**", 5, "55" },
  { "none", 5, "none" },
  { "", 5, "" },
};

static void
test_number_pattern (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (numbered); i++)
    {
      g_autofree gchar *text = weft_text_number_pattern (numbered[i].pattern, numbered[i].number);

      g_assert_cmpstr (text, ==, numbered[i].text);
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/text/natural-order", test_natural_order);
  g_test_add_func ("/text/keys-in-one-array", test_keys_in_one_array);
  g_test_add_func ("/text/number-pattern", test_number_pattern);
  return g_test_run ();
}
