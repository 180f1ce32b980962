/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of facts on the data path. */
#include "base/weft-data-path-internal.h"

#include "base/weft-error.h"

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

static gint
compare_texts (gconstpointer first, gconstpointer second)
{
  return strcmp (*(const gchar *const *) first, *(const gchar *const *) second);
}

GStrv
weft_data_path_list_files (const gchar *folder, GError **error)
{
  g_autoptr (GError) cause = NULL;
  g_autoptr (GDir) listing = g_dir_open (folder, 0, &cause);
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  if (listing == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be listed: %s", folder, cause->message);
      return NULL;
    }
  while ((name = g_dir_read_name (listing)) != NULL)
    {
      g_autofree gchar *file = g_build_filename (folder, name, NULL);

      if (g_str_has_suffix (name, WEFT_DATA_FILE_ENDING) && name[0] != '.'
          && g_file_test (file, G_FILE_TEST_IS_REGULAR))
        g_ptr_array_add (files, g_steal_pointer (&file));
    }
  g_ptr_array_sort (files, compare_texts);
  g_ptr_array_add (files, NULL);
  return (GStrv) g_ptr_array_steal (files, NULL);
}
