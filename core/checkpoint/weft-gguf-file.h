/* SPDX-License-Identifier: Apache-2.0 */
/* One open GGUF file: its metadata, and its tensors, packed in blocks or plain. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

#define WEFT_TYPE_GGUF_FILE (weft_gguf_file_get_type ())

/**
 * WeftGgufFile:
 *
 * A GGUF file of version 2 or 3. What comes before its elements has been read and checked whole; of its tensors nothing has
 * been read. A tensor of a block type is rows of U8: the bytes of its blocks. Immutable.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftGgufFile, weft_gguf_file, WEFT, GGUF_FILE, GObject)

WEFT_PUBLIC WeftGgufFile *weft_gguf_file_open (const gchar *path, WeftIoBackend backend, GError **error);
WEFT_PUBLIC WeftFile *weft_gguf_file_get_file (WeftGgufFile *self);
WEFT_PUBLIC const gchar *const *weft_gguf_file_get_metadata_names (WeftGgufFile *self);
WEFT_PUBLIC GVariant *weft_gguf_file_lookup_metadata (WeftGgufFile *self, const gchar *name);
WEFT_PUBLIC guint weft_gguf_file_get_n_tensors (WeftGgufFile *self);
WEFT_PUBLIC const gchar *weft_gguf_file_get_tensor_name (WeftGgufFile *self, guint position);
WEFT_PUBLIC const gchar *weft_gguf_file_get_tensor_type (WeftGgufFile *self, guint position);
WEFT_PUBLIC WeftTensor *weft_gguf_file_get_tensor (WeftGgufFile *self, guint position);
WEFT_PUBLIC guint64 weft_gguf_file_get_tensor_offset (WeftGgufFile *self, guint position);

WEFT_PUBLIC gboolean weft_gguf_type_get_block (const gchar *type, gint64 *n_elements, gint64 *n_bytes);

G_END_DECLS
