/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-rank-folder.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* More than a name with two numbers of nine digits has. */
#define MAX_NAME_BYTES 40

/**
 * weft_rank_folder_parse:
 * @name: the name of a folder, without the folders that it is in
 * @rank: (out) (optional): the rank
 * @world_size: (out) (optional): how many ranks there are
 *
 * Reads a name as weft_rank_folder_name() makes it. A name with anything more or less to it (`.weft-partial`, another number of
 * digits) is none: it is what a run has left, or somebody's own.
 *
 * Returns: whether @name is exactly that of a rank's folder
 * Since: 1.0
 */
gboolean
weft_rank_folder_parse (const gchar *name, guint *rank, guint *world_size)
{
  gchar exact[MAX_NAME_BYTES];
  guint own_rank, own_size;

  g_return_val_if_fail (name != NULL, FALSE);
  if (strlen (name) >= sizeof exact || sscanf (name, "rank-%9u-of-%9u", &own_rank, &own_size) != 2)
    return FALSE;
  (void) g_snprintf (exact, sizeof exact, "rank-%05u-of-%05u", own_rank, own_size);
  if (strcmp (name, exact) != 0 || own_rank >= own_size)
    return FALSE;
  if (rank != NULL)
    *rank = own_rank;
  if (world_size != NULL)
    *world_size = own_size;
  return TRUE;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/**
 * weft_rank_folders_list:
 * @folder: (type filename): a path
 *
 * Returns: (transfer full): the names of what ranks hold in @folder, of whatever number of ranks, sorted; none if there is no such
 *   folder
 * Since: 1.0
 */
GStrv
weft_rank_folders_list (const gchar *folder)
{
  g_autoptr (GDir) entries = g_dir_open (folder, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  while (entries != NULL && (name = g_dir_read_name (entries)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (folder, name, NULL);

      if (weft_rank_folder_parse (name, NULL, NULL) && g_file_test (path, G_FILE_TEST_IS_DIR))
        g_ptr_array_add (names, g_strdup (name));
    }
  g_ptr_array_sort (names, compare_names);
  g_ptr_array_add (names, NULL);
  return (GStrv) g_ptr_array_steal (names, NULL);
}
