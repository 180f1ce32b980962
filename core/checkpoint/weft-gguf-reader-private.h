/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the numbers, texts and values that a GGUF file begins with, in order. Nothing is taken on trust: what a length
 * promises has to be in the file. Private to the checkpoint room. */
#pragma once

#include "tensor/weft-file.h"

G_BEGIN_DECLS

typedef struct
{
  WeftFile *file;
  guint64 position;
  guint8 *window;
  guint64 window_start;
  gsize window_bytes;
  guint64 n_counted;
} WeftGgufReader;

void weft_gguf_reader_init (WeftGgufReader *self, WeftFile *file);
void weft_gguf_reader_clear (WeftGgufReader *self);

gboolean weft_gguf_reader_read_u32 (WeftGgufReader *self, guint32 *value, GError **error);
gboolean weft_gguf_reader_read_u64 (WeftGgufReader *self, guint64 *value, GError **error);

/* Counts @n more tensors, values or texts, of which a file may have a limited number. */
gboolean weft_gguf_reader_count (WeftGgufReader *self, guint64 n, GError **error);

/* Text of at least one byte, valid UTF-8 without NUL. */
gchar *weft_gguf_reader_read_name (WeftGgufReader *self, GError **error);

/* A type and a value of it. Text that is not UTF-8 is made so. */
GVariant *weft_gguf_reader_read_value (WeftGgufReader *self, GError **error);

/* Sets an error that names the file and the position. Returns FALSE. */
gboolean weft_gguf_reader_fail (const WeftGgufReader *self, const gchar *format, GError **error, ...)
    G_GNUC_PRINTF (2, 4);

G_END_DECLS
