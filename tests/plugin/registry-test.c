/* SPDX-License-Identifier: Apache-2.0 */
/* Where plugins are looked for, which are denied, and features that a process registers itself. A process has one
 * registry, so each case runs in a process of its own. */
#include <glib/gstdio.h>
#include <string.h>

#include "weft.h"

/* What the environment says, and what becomes of op `Transpose`, of plugin `transpose`, and of op `Chunk`. */
static const struct
{
  const gchar *name;
  gboolean has_system_path;
  const gchar *denied;
  gboolean has_transpose;
  gboolean has_chunk;
} cases[] = {
  { "all", TRUE, NULL, TRUE, TRUE },
  { "isolated", FALSE, NULL, FALSE, FALSE },
  { "plugin-denied", TRUE, "transpose", FALSE, TRUE },
  { "feature-denied", TRUE, "Chunk", TRUE, FALSE },
  { "glob-denied", TRUE, "nothing,trans*", FALSE, TRUE },
  { "all-denied", TRUE, "*", FALSE, FALSE },
  { "no-substring", TRUE, "trans,hunk", TRUE, TRUE },
};

static gboolean
has_op (const gchar *name)
{
  g_autoptr (GError) error = NULL;
  GType type =
      weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_OP, name, &error);

  g_assert_true ((type == G_TYPE_INVALID) == g_error_matches (error, WEFT_ERROR, WEFT_ERROR_MISSING));
  return type != G_TYPE_INVALID;
}

static void
run_in_subprocess (GTestDataFunc function, gconstpointer argument)
{
  if (g_test_subprocess ())
    {
      function (argument);
      return;
    }
  g_test_trap_subprocess (NULL, 0, G_TEST_SUBPROCESS_INHERIT_STDERR);
  g_test_trap_assert_passed ();
}

static void
check_environment (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);

  if (!cases[i].has_system_path)
    g_setenv ("WEFT_PLUGIN_SYSTEM_PATH", "", TRUE);
  if (cases[i].denied != NULL)
    g_setenv ("WEFT_PLUGIN_DENY", cases[i].denied, TRUE);
  g_assert_cmpint (has_op ("Transpose"), ==, cases[i].has_transpose);
  g_assert_cmpint (has_op ("Chunk"), ==, cases[i].has_chunk);
  /* A feature that is denied leaves the rest of its plugin. */
  g_assert_cmpint (has_op ("Concatenate"), ==,
                   cases[i].has_system_path && g_strcmp0 (cases[i].denied, "*") != 0);
}

static void
test_environment (gconstpointer position)
{
  run_in_subprocess (check_environment, position);
}

/* Files with another suffix are no plugins; a folder of the first path comes before the system's, and its sub-folder
 * `ops` is searched. What has the suffix but cannot be one, and a folder that is not there, stay with the reason. */
static void
check_search (gconstpointer unused)
{
  g_autofree gchar *folder = g_dir_make_tmp ("weft-registry-XXXXXX", NULL);
  g_autofree gchar *ops = g_build_filename (folder, "ops", NULL);
  g_autofree gchar *link = g_build_filename (ops, "b.so", NULL);
  g_autofree gchar *other = g_build_filename (ops, "a.so.1", NULL);
  g_autofree gchar *directory = g_build_filename (ops, "c.so", NULL);
  g_autofree gchar *target =
      g_build_filename (g_getenv ("WEFT_PLUGIN_SYSTEM_PATH"), "ops", "weft-transpose.so", NULL);
  GListModel *plugins = G_LIST_MODEL (weft_plugin_registry_get_default ());
  g_autoptr (WeftPlugin) first = NULL;
  g_autofree gchar *pipe = g_build_filename (ops, "d.so", NULL);
  g_autofree gchar *dangling = g_build_filename (ops, "e.so", NULL);
  g_autofree gchar *absent = g_build_filename (folder, "absent", NULL);
  g_autofree gchar *search_path = g_strjoin (G_SEARCHPATH_SEPARATOR_S, folder, absent, NULL);
  const gchar *failed[][2] = {
    { directory, "a folder" }, { pipe, "a pipe" }, { dangling, "No such file" }, { absent, "No such file" }
  };
  g_autoptr (WeftPlugin) system = NULL;

  g_assert_cmpint (g_mkdir (ops, 0700), ==, 0);
  g_assert_cmpint (g_mkdir (directory, 0700), ==, 0);
  g_assert_true (g_file_set_contents (other, "x", 1, NULL));
  g_assert_cmpint (symlink (target, link), ==, 0);
  g_assert_cmpint (mkfifo (pipe, 0600), ==, 0);
  g_assert_cmpint (symlink (absent, dangling), ==, 0);
  g_setenv ("WEFT_PLUGIN_PATH", search_path, TRUE);
  first = g_list_model_get_item (plugins, 0);
  system = g_list_model_get_item (plugins, 1 + G_N_ELEMENTS (failed));
  for (guint i = 0; i < G_N_ELEMENTS (failed); i++)
    {
      g_autoptr (WeftPlugin) plugin = g_list_model_get_item (plugins, 1 + i);

      g_assert_cmpstr (weft_plugin_get_path (plugin), ==, failed[i][0]);
      g_assert_cmpint (weft_plugin_get_state (plugin), ==, WEFT_PLUGIN_STATE_FAILED);
      g_assert_nonnull (strstr (weft_plugin_get_reason (plugin), failed[i][1]));
    }
  g_unlink (pipe);
  g_unlink (dangling);
  g_unlink (link);
  g_unlink (other);
  g_rmdir (directory);
  g_rmdir (ops);
  g_rmdir (folder);
  g_assert_cmpstr (weft_plugin_get_path (first), ==, link);
  g_assert_cmpstr (weft_plugin_get_id (first), ==, "transpose");
  g_assert_cmpstr (weft_plugin_get_id (system), <, "transpose");
  g_assert_cmpint (weft_plugin_get_state (first), ==, WEFT_PLUGIN_STATE_USABLE);
}

static void
test_search (void)
{
  run_in_subprocess (check_search, NULL);
}

static WeftPlugin *
find_plugin (GListModel *plugins, const gchar *id)
{
  for (guint i = 0; i < g_list_model_get_n_items (plugins); i++)
    {
      g_autoptr (WeftPlugin) plugin = g_list_model_get_item (plugins, i);

      if (g_strcmp0 (weft_plugin_get_id (plugin), id) == 0)
        return g_steal_pointer (&plugin);
    }
  return NULL;
}

static void
check_description (gconstpointer unused)
{
  GListModel *plugins = G_LIST_MODEL (weft_plugin_registry_get_default ());
  g_autoptr (WeftPlugin) plugin = find_plugin (plugins, "concatenate");

  g_assert_nonnull (plugin);
  g_assert_true (g_list_model_get_item_type (plugins) == WEFT_TYPE_PLUGIN);
  g_assert_null (g_list_model_get_item (plugins, 1000));
  g_assert_cmpstr (weft_plugin_get_license (plugin), ==, "Apache-2.0");
  g_assert_cmpstr (weft_plugin_get_version (plugin), ==, "1.0.0");
  g_assert_nonnull (weft_plugin_get_description (plugin));
  g_assert_nonnull (weft_plugin_get_origin (plugin));
  g_assert_null (weft_plugin_get_reason (plugin));
  g_assert_cmpuint (weft_plugin_get_n_features (plugin), ==, 4);
  g_assert_cmpstr (weft_plugin_get_feature_name (plugin, 2), ==, "Chunk");
  g_assert_cmpint (weft_plugin_get_feature_kind (plugin, 2), ==, WEFT_FEATURE_KIND_OP);
  g_assert_false (weft_plugin_is_feature_denied (plugin, 2));
}

static void
test_description (void)
{
  run_in_subprocess (check_description, NULL);
}

/* Features of the process. */

static void
count_items_changed (GListModel *model, guint position, guint removed, guint added, gpointer n_calls)
{
  g_assert_cmpuint (position, ==, g_list_model_get_n_items (model) - 1);
  g_assert_cmpuint (removed, ==, 0);
  g_assert_cmpuint (added, ==, 1);
  ++*(guint *) n_calls;
}

static void
check_register (gconstpointer unused)
{
  WeftPluginRegistry *registry = weft_plugin_registry_get_default ();
  g_autoptr (GError) error = NULL;
  g_auto (GStrv) names = NULL;
  guint n_calls = 0;

  g_signal_connect (registry, "items-changed", G_CALLBACK (count_items_changed), &n_calls);
  g_assert_true (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_FUSION, "Mine",
                                                WEFT_TYPE_OP_CONTEXT, &error));
  g_assert_no_error (error);
  g_assert_true (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_QUANTIZER, "Mine",
                                                WEFT_TYPE_TENSOR_GROUPS, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (n_calls, ==, 1);
  g_assert_true (weft_plugin_registry_lookup (registry, WEFT_FEATURE_KIND_FUSION, "Mine", &error)
                 == WEFT_TYPE_OP_CONTEXT);
  g_assert_cmpstr (weft_feature_get_name (WEFT_TYPE_OP_CONTEXT), ==, "Mine");
  g_assert_cmpstr (weft_feature_get_plugin_id (WEFT_TYPE_OP_CONTEXT), ==, "runtime");
  names = weft_plugin_registry_list_names (registry, WEFT_FEATURE_KIND_FUSION);
  g_assert_true (g_strv_contains ((const gchar *const *) names, "Mine"));

  g_assert_false (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_FUSION, "Mine",
                                                 WEFT_TYPE_OP_CONTEXT, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  g_clear_error (&error);
  g_assert_false (weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_OP, "Base",
                                                 WEFT_TYPE_CONVERSION_OPS_BASE, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN);
  g_clear_error (&error);
  g_assert_false (
      weft_plugin_registry_register (registry, WEFT_FEATURE_KIND_OP, "Chunk", WEFT_TYPE_OP_CONTEXT, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  g_assert_nonnull (strstr (error->message, "plugin 'concatenate' provides it"));
}

static void
test_register (void)
{
  run_in_subprocess (check_register, NULL);
}

static gpointer
look_up (gpointer unused)
{
  return GINT_TO_POINTER (has_op ("Transpose"));
}

/* The registry is opened once, whichever thread asks first. */
static void
check_threads (gconstpointer unused)
{
  GThread *threads[8];

  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    threads[i] = g_thread_new ("look-up", look_up, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (threads); i++)
    g_assert_true (GPOINTER_TO_INT (g_thread_join (threads[i])));
}

static void
test_threads (void)
{
  run_in_subprocess (check_threads, NULL);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/registry/environment/", cases[i].name, NULL);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_environment);
    }
  g_test_add_func ("/registry/search", test_search);
  g_test_add_func ("/registry/description", test_description);
  g_test_add_func ("/registry/register", test_register);
  g_test_add_func ("/registry/threads", test_threads);
  return g_test_run ();
}
