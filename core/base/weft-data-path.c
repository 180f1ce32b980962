/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of facts on the data path. */
#include "base/weft-data-path-internal.h"

static void
add_folder (GStrvBuilder *folders, const gchar *parent, const gchar *topic)
{
  g_autofree gchar *folder = g_build_filename (parent, topic, NULL);

  if (g_file_test (folder, G_FILE_TEST_IS_DIR))
    g_strv_builder_add (folders, folder);
}

GStrv
weft_data_path_list_folders (const gchar *topic)
{
  g_autoptr (GStrvBuilder) folders = g_strv_builder_new ();
  g_autofree gchar *user_folder = g_build_filename (g_get_user_data_dir (), "weft-1", NULL);
  const gchar *data_path = g_getenv ("WEFT_DATA_PATH");
  g_auto (GStrv) parents = g_strsplit (data_path != NULL ? data_path : "", G_SEARCHPATH_SEPARATOR_S, -1);

  add_folder (folders, WEFT_DATADIR, topic);
  add_folder (folders, user_folder, topic);
  for (guint i = g_strv_length (parents); i > 0; i--)
    if (parents[i - 1][0] != '\0')
      add_folder (folders, parents[i - 1], topic);
  return g_strv_builder_end (folders);
}
