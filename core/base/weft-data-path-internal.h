/* SPDX-License-Identifier: Apache-2.0 */
/* Where files of facts lie beside those compiled in. For the rooms that read such files. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The folders named @topic that exist, in the order in which a later one overrides an earlier one: the library's installed
 * folder, the user's, and those of `WEFT_DATA_PATH` from its last to its first. (transfer full) */
GStrv weft_data_path_list_folders (const gchar *topic);

/* The ending of a file of facts. Its name before that is what the file is about. */
#define WEFT_DATA_FILE_ENDING ".json"

/* The paths of the files of facts in @folder, sorted by name; hidden ones are left out. (transfer full); %NULL with
 * %WEFT_ERROR_IO if the folder cannot be listed. */
GStrv weft_data_path_list_files (const gchar *folder, GError **error);

G_END_DECLS
