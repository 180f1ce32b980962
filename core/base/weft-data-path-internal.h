/* SPDX-License-Identifier: Apache-2.0 */
/* Where files of facts lie beside those compiled in. For the rooms that read such files. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The folders named @topic that exist, in the order in which a later one overrides an earlier one: the library's installed
 * folder, the user's, and those of `WEFT_DATA_PATH` from its last to its first. (transfer full) */
GStrv weft_data_path_list_folders (const gchar *topic);

G_END_DECLS
