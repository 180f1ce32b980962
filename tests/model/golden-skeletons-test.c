/* SPDX-License-Identifier: Apache-2.0 */
/* For every golden model whose family is known: the tree that its config gives is the model that the reference makes of it. */
#include "../mapping/golden-private.h"

#include <string.h>

static WeftArchitectureRegistry *registry;

static JsonObject *
get_entry (JsonArray *array, guint position)
{
  return position < json_array_get_length (array) ? json_array_get_object_element (array, position) : NULL;
}

/* Where two lists differ first, and how. */
static void
compare_lists (JsonObject *found, JsonObject *expected, const gchar *member)
{
  JsonArray *a = json_object_get_array_member (found, member),
            *b = json_object_get_array_member (expected, member);

  for (guint i = 0; i < MAX (json_array_get_length (a), json_array_get_length (b)); i++)
    {
      JsonObject *first = get_entry (a, i), *second = get_entry (b, i);
      g_autofree gchar *first_text = NULL;
      g_autofree gchar *second_text = NULL;

      if (first != NULL && second != NULL && json_object_equal (first, second))
        continue;
      if (first != NULL)
        {
          g_autoptr (JsonNode) node = json_node_init_object (json_node_alloc (), first);

          first_text = weft_json_to_text (node, FALSE);
        }
      if (second != NULL)
        {
          g_autoptr (JsonNode) node = json_node_init_object (json_node_alloc (), second);

          second_text = weft_json_to_text (node, FALSE);
        }
      g_test_message ("%s[%u] is %s, expected %s", member, i, first_text, second_text);
      g_test_fail ();
      return;
    }
}

/* Attributes, bases and parallel plans are not in the reference's file. */
static void
drop_extras (JsonObject *tree)
{
  JsonArray *modules = json_object_get_array_member (tree, "modules");

  for (guint i = 0; i < json_array_get_length (modules); i++)
    {
      json_object_remove_member (json_array_get_object_element (modules, i), "bases");
      json_object_remove_member (json_array_get_object_element (modules, i), "attributes");
    }
  json_object_remove_member (tree, "parallel_plan");
  json_object_remove_member (tree, "expert_plan");
}

static void
compare_trees (WeftModuleTree *found, WeftModuleTree *expected)
{
  static const gchar *const lists[] = { "sub_models", "modules", "tensors" };
  g_autoptr (JsonNode) a = weft_module_tree_to_json (found);
  g_autoptr (JsonNode) b = weft_module_tree_to_json (expected);
  JsonObject *first = json_node_get_object (a), *second = json_node_get_object (b);
  g_autofree gchar *first_text = NULL;
  g_autofree gchar *second_text = NULL;

  drop_extras (first);
  for (guint i = 0; i < G_N_ELEMENTS (lists); i++)
    {
      compare_lists (first, second, lists[i]);
      json_object_remove_member (first, lists[i]);
      json_object_remove_member (second, lists[i]);
    }
  first_text = weft_json_to_text (a, FALSE);
  second_text = weft_json_to_text (b, FALSE);
  g_assert_cmpstr (first_text, ==, second_text);
}

/* Of a class that is outlined only, the models in it are known. */
static void
compare_sub_models (WeftModuleTree *found, WeftModuleTree *expected)
{
  g_autoptr (JsonNode) a = weft_module_tree_to_json (found);
  g_autoptr (JsonNode) b = weft_module_tree_to_json (expected);

  compare_lists (json_node_get_object (a), json_node_get_object (b), "sub_models");
}

static void
test_model (gconstpointer pointer)
{
  const gchar *folder = pointer;
  g_autofree gchar *config_path = g_build_filename (folder, "config.json", NULL);
  g_autofree gchar *path = g_build_filename (folder, "skeleton.json", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (JsonNode) config = weft_json_load_file (config_path, &error);
  g_autoptr (WeftModuleTree) expected = NULL;
  g_autoptr (WeftModuleTree) tree = NULL;

  g_assert_no_error (error);
  expected = weft_module_tree_load (path, &error);
  g_assert_no_error (error);
  tree = weft_module_tree_new_for_config (registry, config, config_path, NULL, WEFT_DTYPE_INVALID, &error);
  g_assert_no_error (error);
  if (weft_module_tree_has_tensors (tree))
    compare_trees (tree, expected);
  else
    compare_sub_models (tree, expected);
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
  registry = weft_architecture_registry_new_shipped ();
  while ((name = g_dir_read_name (models)) != NULL)
    {
      g_autofree gchar *model = g_build_filename (folder, name, NULL);
      g_autofree gchar *config = g_build_filename (model, "config.json", NULL);
      g_autofree gchar *test_path = g_strconcat ("/model/skeletons/", name, NULL);

      if (!g_file_test (config, G_FILE_TEST_EXISTS))
        continue;
      g_test_add_data_func_full (test_path, g_steal_pointer (&model), test_model, g_free);
      n_models++;
    }
  g_assert_cmpuint (n_models, >, 0);
  status = g_test_run ();
  g_clear_object (&registry);
  return status;
}
