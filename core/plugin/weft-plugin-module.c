/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/weft-plugin-internal.h"

#include "plugin/weft-plugin-private.h"

/* The folders that may hold `SUB_FOLDER/FILE_NAME`, as the registry looks through them. */
static gchar **
list_roots (void)
{
  const gchar *first = g_getenv ("WEFT_PLUGIN_PATH");
  const gchar *system = g_getenv ("WEFT_PLUGIN_SYSTEM_PATH");
  g_autofree gchar *user = g_build_filename (g_get_user_data_dir (), "weft-1", "plugins", NULL);
  g_autofree gchar *installed = g_strjoin (G_SEARCHPATH_SEPARATOR_S, user, WEFT_PLUGINDIR, NULL);
  g_autofree gchar *all = g_strjoin (G_SEARCHPATH_SEPARATOR_S, first != NULL ? first : "",
                                     system != NULL ? system : installed, NULL);

  return g_strsplit (all, G_SEARCHPATH_SEPARATOR_S, -1);
}

static gchar *
find_file (const gchar *sub_folder, const gchar *file_name)
{
  g_auto (GStrv) roots = list_roots ();

  for (guint i = 0; roots[i] != NULL; i++)
    {
      g_autofree gchar *path = g_build_filename (roots[i], sub_folder, file_name, NULL);

      if (roots[i][0] != '\0' && g_file_test (path, G_FILE_TEST_EXISTS))
        return g_steal_pointer (&path);
    }
  return NULL;
}

GType
weft_plugin_load_type (const gchar *sub_folder, const gchar *id, WeftFeatureKind kind, GError **error)
{
  g_autofree gchar *file_name = g_strdup_printf ("weft-%s.so", id);
  g_autofree gchar *path = find_file (sub_folder, file_name);
  WeftPlugin *plugin;

  if (path == NULL)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PLUGIN,
          "%s/%s is not installed: build Weft where '%s' is at hand, or install the package that holds it",
          sub_folder, file_name, id);
      return G_TYPE_INVALID;
    }
  /* Resident, as every plugin: it is never freed. */
  plugin = weft_plugin_open (path);
  if (weft_plugin_get_state (plugin) == WEFT_PLUGIN_STATE_USABLE
      && (weft_plugin_get_n_features (plugin) != 1 || weft_plugin_get_feature_kind (plugin, 0) != kind))
    weft_plugin_fail (plugin, "it has another kind of feature than its folder says");
  if (weft_plugin_get_state (plugin) != WEFT_PLUGIN_STATE_USABLE || !weft_plugin_start (plugin))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN, "%s: %s", path, weft_plugin_get_reason (plugin));
      return G_TYPE_INVALID;
    }
  return g_type_from_name (weft_plugin_get_feature_type_name (plugin, 0));
}
