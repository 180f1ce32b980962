/* SPDX-License-Identifier: Apache-2.0 */
/* The registry: registering, overriding, folders and files, aliases; and the samples of the documentation. */
#include <glib/gstdio.h>
#include <string.h>
#include <weft.h>

#define RULES "[{\"type\": \"WeightRenaming\", \"source_patterns\": \"a\", \"target_patterns\": \"b\"}]"

static void
test_register (void)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();
  g_autoptr (WeftTransformList) found = NULL;
  g_autoptr (WeftTransformList) again = NULL;
  g_autoptr (GError) error = NULL;

  weft_transform_list_append_renaming (rules, "a", "b", NULL);
  g_assert_false (weft_mapping_registry_register (registry, "mixtral", rules, FALSE, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
  g_assert_nonnull (strstr (error->message, "already exists"));
  g_clear_error (&error);
  g_assert_false (weft_mapping_registry_register (registry, "../x", rules, FALSE, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_assert_false (weft_mapping_registry_is_user_registered (registry, "mixtral"));

  g_assert_true (weft_mapping_registry_register (registry, "mixtral", rules, TRUE, NULL));
  g_assert_true (weft_mapping_registry_is_user_registered (registry, "mixtral"));
  /* The registry has its own copy, and gives copies. */
  weft_transform_list_remove (rules, 0);
  found = weft_mapping_registry_lookup (registry, "mixtral", NULL);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (found), ==, 1);
  weft_weight_transform_set_used (weft_transform_list_get_transform (found, 0), TRUE);
  again = weft_mapping_registry_lookup (registry, "minimax", NULL);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (again), ==, 1);
  g_assert_false (weft_weight_transform_get_used (weft_transform_list_get_transform (again, 0)));
}

static void
test_unknown (void)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  static const gchar *const names[] = {
    "nothing", "", ".*", "../mappings/mixtral", "mixtral.json", "MIXTRAL"
  };

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_null (weft_mapping_registry_lookup (registry, names[i], &error));
      g_assert_no_error (error);
      g_assert_false (weft_mapping_registry_has (registry, names[i]));
    }
}

static void
write_file (const gchar *folder, const gchar *name, const gchar *text)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);

  g_assert_true (g_file_set_contents (path, text, -1, NULL));
}

static void
remove_folder (const gchar *path)
{
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);
  const gchar *name;

  while (folder != NULL && (name = g_dir_read_name (folder)) != NULL)
    {
      g_autofree gchar *file = g_build_filename (path, name, NULL);

      g_unlink (file);
    }
  g_rmdir (path);
}

static void
test_folder (void)
{
  static const struct
  {
    const gchar *name;
    gint code;
    const gchar *message;
  } broken[] = {
    { "broken", WEFT_ERROR_FORMAT, "broken.json" },
    { "object", WEFT_ERROR_FORMAT, "alias_of" },
    { "chain", WEFT_ERROR_MISSING, "is an alias itself" },
    { "lost", WEFT_ERROR_MISSING, "does not exist" },
  };
  g_autofree gchar *folder = g_dir_make_tmp ("weft-mappings-XXXXXX", NULL);
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftTransformList) alias = NULL;
  g_autoptr (WeftTransformList) overridden = NULL;
  g_autofree gchar *base = NULL;
  g_autoptr (GError) error = NULL;

  write_file (folder, "mine.json", RULES);
  write_file (folder, "mixtral.json", RULES);
  write_file (folder, "alias.json", "{\"alias_of\": \"mine\"}");
  write_file (folder, "chain.json", "{\"alias_of\": \"alias\"}");
  write_file (folder, "lost.json", "{\"alias_of\": \"nowhere\"}");
  write_file (folder, "broken.json", "[");
  write_file (folder, "object.json", "{\"alias_of\": \"mine\", \"more\": 1}");
  write_file (folder, "ignored.txt", "");
  g_assert_true (weft_mapping_registry_add_folder (registry, folder, &error));
  g_assert_no_error (error);

  alias = weft_mapping_registry_lookup (registry, "alias", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (alias), ==, 1);
  base = weft_mapping_registry_dup_alias (registry, "alias", NULL);
  g_assert_cmpstr (base, ==, "mine");
  overridden = weft_mapping_registry_lookup (registry, "mixtral", NULL);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (overridden), ==, 1);
  g_assert_true (weft_mapping_registry_is_user_registered (registry, "mine"));
  for (guint i = 0; i < G_N_ELEMENTS (broken); i++)
    {
      g_autoptr (GError) broken_error = NULL;

      g_assert_null (weft_mapping_registry_lookup (registry, broken[i].name, &broken_error));
      g_assert_error (broken_error, WEFT_ERROR, broken[i].code);
      g_assert_nonnull (strstr (broken_error->message, broken[i].message));
    }
  g_assert_false (weft_mapping_registry_add_file (registry, "ignored.txt", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_clear_error (&error);
  g_assert_false (weft_mapping_registry_add_file (registry, "/nowhere/x.json", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
  g_clear_error (&error);
  g_assert_false (weft_mapping_registry_add_folder (registry, "/nowhere", &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
  remove_folder (folder);
}

/* Folders of WEFT_DATA_PATH: the first counts. */
static void
test_data_path (void)
{
  g_autofree gchar *first = g_dir_make_tmp ("weft-first-XXXXXX", NULL);
  g_autofree gchar *second = g_dir_make_tmp ("weft-second-XXXXXX", NULL);
  g_autofree gchar *first_folder = g_build_filename (first, "mappings", NULL);
  g_autofree gchar *second_folder = g_build_filename (second, "mappings", NULL);
  g_autofree gchar *data_path = g_strjoin (G_SEARCHPATH_SEPARATOR_S, first, second, NULL);
  g_autoptr (WeftMappingRegistry) registry = NULL;
  g_autoptr (WeftTransformList) list = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (g_mkdir (first_folder, 0700), ==, 0);
  g_assert_cmpint (g_mkdir (second_folder, 0700), ==, 0);
  write_file (first_folder, "mine.json", RULES);
  write_file (second_folder, "mine.json", "[]");
  g_setenv ("WEFT_DATA_PATH", data_path, TRUE);
  registry = weft_mapping_registry_new (&error);
  g_unsetenv ("WEFT_DATA_PATH");
  g_assert_no_error (error);
  list = weft_mapping_registry_lookup (registry, "mine", &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_transform_list_get_n_transforms (list), ==, 1);
  remove_folder (first_folder);
  remove_folder (second_folder);
  remove_folder (first);
  remove_folder (second);
}

/* Each file of the folder is compiled in. */
static void
test_all_files_are_listed (void)
{
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autofree gchar *path = g_build_filename (g_getenv ("WEFT_SOURCE_ROOT"), "data", "mappings", NULL);
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);
  g_auto (GStrv) names = weft_mapping_registry_list_names (registry);
  guint n_files = 0;

  g_assert_nonnull (folder);
  for (const gchar *name = g_dir_read_name (folder); name != NULL; name = g_dir_read_name (folder), n_files++)
    {
      g_autofree gchar *mapping = g_strndup (name, strlen (name) - strlen (".json"));

      g_assert_true (g_strv_contains ((const gchar *const *) names, mapping));
    }
  g_assert_cmpuint (n_files, ==, g_strv_length (names));
}

/* Every sample of the page on mappings is read: lists as mappings. */
static void
test_documentation (void)
{
  g_autofree gchar *path =
      g_build_filename (g_getenv ("WEFT_SOURCE_ROOT"), "docs", "write-a-mapping.md", NULL);
  g_autofree gchar *text = NULL;
  const gchar *start;
  guint n_samples = 0;

  g_assert_true (g_file_get_contents (path, &text, NULL, NULL));
  start = text;
  while ((start = strstr (start, "```json\n")) != NULL)
    {
      const gchar *end = strstr (start + strlen ("```json\n"), "```");
      g_autoptr (GError) error = NULL;
      g_autoptr (JsonNode) root = NULL;
      g_autoptr (WeftTransformList) list = NULL;

      start += strlen ("```json\n");
      g_assert_nonnull (end);
      root = weft_json_parse (start, end - start, "sample", &error);
      g_assert_no_error (error);
      if (JSON_NODE_HOLDS_ARRAY (root))
        list = weft_mapping_new_from_json (root, "sample", "sample", &error);
      g_assert_no_error (error);
      start = end;
      n_samples++;
    }
  g_assert_cmpuint (n_samples, >, 5);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/registry/register", test_register);
  g_test_add_func ("/registry/unknown", test_unknown);
  g_test_add_func ("/registry/folder", test_folder);
  g_test_add_func ("/registry/data-path", test_data_path);
  g_test_add_func ("/registry/all-files-are-listed", test_all_files_are_listed);
  g_test_add_func ("/registry/documentation", test_documentation);
  return g_test_run ();
}
