/* SPDX-License-Identifier: Apache-2.0 */
/* For every golden model: the mappings that its sub-models get, in order, with their scopes. */
#include "golden-private.h"

static WeftMappingRegistry *registry;

static const gchar *
get_text (JsonObject *object, const gchar *member)
{
  return json_object_get_string_member_with_default (object, member, NULL);
}

static void
test_model (gconstpointer pointer)
{
  const gchar *path = pointer;
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) root = weft_json_load_file (path, &error);
  g_autoptr (WeftModuleTree) tree = NULL;
  g_autoptr (WeftTransformList) list = NULL;
  JsonArray *sub_models;
  guint position = 0;

  g_assert_no_error (error);
  tree = weft_module_tree_new_from_json (root, path, &error);
  g_assert_no_error (error);
  list = weft_mapping_assemble (registry, tree, NULL, FALSE, &error);
  g_assert_no_error (error);
  sub_models = json_object_get_array_member (json_node_get_object (root), "sub_models");
  g_assert_cmpuint (json_array_get_length (sub_models), ==, weft_module_tree_get_n_sub_models (tree));
  for (guint i = 0; i < json_array_get_length (sub_models); i++)
    {
      JsonObject *sub_model = json_array_get_object_element (sub_models, i);
      const gchar *entry = get_text (sub_model, "entry");
      g_autoptr (WeftTransformList) own = NULL;

      if (entry == NULL)
        continue;
      own = weft_mapping_registry_lookup (registry, entry, &error);
      g_assert_no_error (error);
      for (guint k = 0; k < weft_transform_list_get_n_transforms (own); k++, position++)
        {
          WeftWeightTransform *rule = weft_transform_list_get_transform (list, position);

          g_assert_cmpstr (weft_weight_transform_get_origin (rule), ==, entry);
          g_assert_cmpuint (weft_weight_transform_get_origin_index (rule), ==, k);
          g_assert_cmpstr (weft_weight_transform_get_origin_via (rule), ==, get_text (sub_model, "via"));
          g_assert_cmpstr (weft_weight_transform_get_origin_path (rule), ==, get_text (sub_model, "fqn"));
          g_assert_cmpstr (weft_weight_transform_get_scope_prefix (rule), ==,
                           get_text (sub_model, "scope_prefix"));
          if (weft_weight_transform_get_scope_prefix (rule) != NULL)
            g_assert_cmpstr (weft_weight_transform_get_base_model_prefix (rule), ==,
                             get_text (sub_model, "scope_base"));
        }
    }
  g_assert_cmpuint (weft_transform_list_get_n_transforms (list), ==, position);
}

int
main (int argc, char **argv)
{
  g_autofree gchar *folder = build_golden_path ("models");
  g_autoptr (GDir) models = g_dir_open (folder, 0, NULL);
  const gchar *name;
  guint n_models = 0;
  int status;

  g_test_init (&argc, &argv, NULL);
  g_assert_nonnull (models);
  registry = weft_mapping_registry_new_shipped ();
  while ((name = g_dir_read_name (models)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (folder, name, "skeleton.json", NULL);
      g_autofree gchar *test_path = g_strconcat ("/mapping/trees/", name, NULL);

      if (!g_file_test (path, G_FILE_TEST_EXISTS))
        continue;
      g_test_add_data_func_full (test_path, g_strdup (path), test_model, g_free);
      n_models++;
    }
  g_assert_cmpuint (n_models, >, 0);
  status = g_test_run ();
  g_clear_object (&registry);
  return status;
}
