/* SPDX-License-Identifier: Apache-2.0 */
/* The text of safetensors headers and of the index, byte for byte as the format's reference writer has it (metadata keys
 * sorted, so that equal content gives equal bytes). */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-shape.h"

G_BEGIN_DECLS

/* Sorts positions in a list of tensors: dtype descending in the format's order, then name by code point. */
gint weft_header_writer_compare (WeftDtype a_dtype, const gchar *a_name, WeftDtype b_dtype,
                                 const gchar *b_name);

/* A header: begin, one add for each tensor in the order of their bytes, finish. */
GString *weft_header_writer_begin (GHashTable *metadata);
void weft_header_writer_add (GString *json, const gchar *name, WeftDtype dtype, const WeftShape *shape,
                             guint64 begin, guint64 end);
GBytes *weft_header_writer_finish (GString *json);
/* No less than what weft_header_writer_add() appends. */
gsize weft_header_writer_get_max_bytes (const gchar *name, const WeftShape *shape);

G_END_DECLS
