/* SPDX-License-Identifier: Apache-2.0 */
/* The folders of what ranks hold, by their names. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

WEFT_PUBLIC gboolean weft_rank_folder_parse (const gchar *name, guint *rank, guint *world_size);
WEFT_PUBLIC GStrv weft_rank_folders_list (const gchar *folder);

G_END_DECLS
