/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of members: names joined by dots, with a backslash before a dot or a backslash of a name. Internal to the library: not
 * installed. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The names of a path. */
GStrv weft_json_split_path (const gchar *path);

/* A name as it stands in a path. */
gchar *weft_json_escape_name (const gchar *name);

G_END_DECLS
