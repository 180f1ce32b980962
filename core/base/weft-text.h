/* SPDX-License-Identifier: Apache-2.0 */
/* Small text functions for tensor names: natural order, globs, sizes. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

WEFT_PUBLIC gint weft_text_compare_natural (const gchar *a, const gchar *b);
WEFT_PUBLIC void weft_text_append_natural_key (GByteArray *keys, const gchar *name);
WEFT_PUBLIC guint weft_text_hash (gconstpointer text);
WEFT_PUBLIC gchar *weft_text_number_pattern (const gchar *pattern, guint64 number);
WEFT_PUBLIC gboolean weft_text_parse_size (const gchar *text, guint64 *n_bytes, GError **error);
WEFT_PUBLIC gchar *weft_text_format_size (guint64 n_bytes);

G_END_DECLS
