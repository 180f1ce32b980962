/* SPDX-License-Identifier: Apache-2.0 */
/* Which class takes the place of which: exact names, then marked patterns in the order they came. */
#include <string.h>

#include "weft.h"

static const struct
{
  const gchar *entries; /* name=class, in order */
  const gchar *class_name;
  const gchar *expected;
} lookups[] = {
  { "re:.*Attention=X BertAttention=Y", "BertAttention", "Y" },
  { "re:.*Attention=X", "BertAttention", "X" },
  { "re:.*Attention=X", "T5Attention", "X" },
  { "re:.*Attention=X", "SomethingElse", NULL },
  { "re:Bert=X re:Attention=Y", "BertAttention", "X" },
  /* A plain name is exact. */
  { "Linear=X", "FP8Linear", NULL },
  { "Linear=X", "Linear", "X" },
  { "re:Linear=X", "FP8Linear", "X" },
  { "re:^Linear$=X", "FP8Linear", NULL },
  { "", "Linear", NULL },
};

static gboolean
add (WeftPatchMapping *mapping, const gchar *entries, gboolean overwrite, GError **error)
{
  g_auto (GStrv) words = g_strsplit (entries, " ", -1);
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  g_autoptr (GStrvBuilder) classes = g_strv_builder_new ();
  g_auto (GStrv) name_list = NULL;
  g_auto (GStrv) class_list = NULL;

  for (guint i = 0; words[i] != NULL && *words[i] != '\0'; i++)
    {
      gchar *equals = strrchr (words[i], '=');

      *equals = '\0';
      g_strv_builder_add (names, words[i]);
      g_strv_builder_add (classes, equals + 1);
    }
  name_list = g_strv_builder_end (names);
  class_list = g_strv_builder_end (classes);
  return weft_patch_mapping_register (mapping, (const gchar *const *) name_list,
                                      (const gchar *const *) class_list, overwrite, error);
}

static void
test_lookup (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftPatchMapping) mapping = weft_patch_mapping_new ();

  g_assert_true (add (mapping, lookups[i].entries, FALSE, NULL));
  g_assert_cmpstr (weft_patch_mapping_lookup (mapping, lookups[i].class_name), ==, lookups[i].expected);
}

/* What registering refuses, with nothing changed. */
static const struct
{
  const gchar *entries;
  gint code;
  const gchar *message;
} refusals[] = {
  { "New=X Linear=Y", WEFT_ERROR_CONFLICT, "'Linear' already has a patch mapping, to 'Fused'" },
  { "New=X Other=", WEFT_ERROR_ARGUMENT, "'Other' needs the name of a class" },
  { "New=X re:(=Y", WEFT_ERROR_PATTERN, "'re:(' is no pattern" },
};

static void
assert_names (WeftPatchMapping *mapping, const gchar *expected)
{
  g_auto (GStrv) names = weft_patch_mapping_list_names (mapping);
  g_autofree gchar *text = g_strjoinv (" ", names);

  g_assert_cmpstr (text, ==, expected);
}

static void
test_refusal (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftPatchMapping) mapping = weft_patch_mapping_new ();
  g_autoptr (GError) error = NULL;

  g_assert_true (add (mapping, "Linear=Fused", FALSE, NULL));
  g_assert_false (add (mapping, refusals[i].entries, FALSE, &error));
  g_assert_error (error, WEFT_ERROR, refusals[i].code);
  g_assert_true (g_str_has_prefix (error->message, refusals[i].message));
  assert_names (mapping, "Linear");
}

static void
test_changes (void)
{
  g_autoptr (WeftPatchMapping) mapping = weft_patch_mapping_new ();
  g_autoptr (WeftPatchMapping) copy = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_true (add (mapping, "A=X B=Y", FALSE, NULL));
  copy = weft_patch_mapping_copy (mapping);
  g_assert_true (add (mapping, "A=Z", TRUE, NULL));
  g_assert_cmpstr (weft_patch_mapping_lookup (mapping, "A"), ==, "Z");
  g_assert_cmpstr (weft_patch_mapping_lookup (copy, "A"), ==, "X");
  g_assert_false (weft_patch_mapping_unregister (mapping, (const gchar *const[]){ "A", "C", NULL }, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  assert_names (mapping, "A B");
  g_assert_true (weft_patch_mapping_unregister (mapping, (const gchar *const[]){ "A", NULL }, NULL));
  assert_names (mapping, "B");
  weft_patch_mapping_clear (mapping);
  assert_names (mapping, "");
  assert_names (copy, "A B");
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (lookups); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/patch-mapping/lookup/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_lookup);
    }
  for (guint i = 0; i < G_N_ELEMENTS (refusals); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/patch-mapping/refused/%u", i);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_refusal);
    }
  g_test_add_func ("/patch-mapping/changes", test_changes);
  return g_test_run ();
}
