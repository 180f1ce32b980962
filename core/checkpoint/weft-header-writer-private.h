/* SPDX-License-Identifier: Apache-2.0 */
/* The text of safetensors headers and of the index, byte for byte as the format's reference writer has it (metadata keys
 * sorted, so that equal content gives equal bytes). */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-shape.h"

G_BEGIN_DECLS

/* The format's writer aligns the bytes of the first tensor to this. */
#define WEFT_HEADER_ALIGNMENT 8
/* The pages in which files are copied. */
#define WEFT_HEADER_PAGE_BYTES 4096

/* Sorts positions in a list of tensors: dtype descending in the format's order, then name by code point. */
gint weft_header_writer_compare (WeftDtype a_dtype, const gchar *a_name, WeftDtype b_dtype,
                                 const gchar *b_name);

/* A header: begin, one add for each tensor in the order of their bytes, finish. */
GString *weft_header_writer_begin (GHashTable *metadata);
void weft_header_writer_add (GString *json, const gchar *name, WeftDtype dtype, const WeftShape *shape,
                             guint64 begin, guint64 end);
/* Spaces bring the first tensor to a multiple of 8; or, if @page_offset is not negative, to that offset in its page. */
GBytes *weft_header_writer_finish (GString *json, gint page_offset);
/* No less than what weft_header_writer_add() appends. */
gsize weft_header_writer_get_max_bytes (const gchar *name, const WeftShape *shape);

G_END_DECLS
