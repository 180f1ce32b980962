/* SPDX-License-Identifier: Apache-2.0 */
/* JSON helpers on top of json-glib: reading with a file name in every message, and typed access. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

WEFT_PUBLIC JsonNode *weft_json_load_file (const gchar *path, GError **error);
WEFT_PUBLIC JsonNode *weft_json_parse (const gchar *text, gssize length, const gchar *where, GError **error);
WEFT_PUBLIC gchar *weft_json_to_text (JsonNode *node, gboolean pretty);
WEFT_PUBLIC JsonNode *weft_json_lookup (JsonNode *root, const gchar *dotted_path);
WEFT_PUBLIC const gchar *weft_json_describe (JsonNode *node);
WEFT_PUBLIC gchar *weft_json_replace_member (const gchar *text, const gchar *dotted_path, const gchar *value,
                                             const gchar *where, GError **error);
WEFT_PUBLIC void weft_json_append_text (GString *json, const gchar *text, gboolean is_ascii);
WEFT_PUBLIC void weft_json_append_texts (GString *json, const gchar *const *texts);

G_END_DECLS
