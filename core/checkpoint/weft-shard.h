/* SPDX-License-Identifier: Apache-2.0 */
/* One open file of a checkpoint, safetensors or GGUF: its tensors in the order of their bytes, its metadata, its header. */
#pragma once

#include "checkpoint/weft-gguf-file.h"
#include "tensor/weft-state-dict.h"
#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

#define WEFT_TYPE_SHARD (weft_shard_get_type ())

/**
 * WeftShard:
 *
 * One file of a checkpoint. Its header has been read and checked whole; of its tensors nothing has been read.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftShard, weft_shard, WEFT, SHARD, GObject)

WEFT_PUBLIC WeftShard *weft_shard_open (const gchar *path, WeftIoBackend backend, GError **error);
WEFT_PUBLIC const gchar *weft_shard_get_file_name (WeftShard *self);
WEFT_PUBLIC WeftFile *weft_shard_get_file (WeftShard *self);
WEFT_PUBLIC GHashTable *weft_shard_get_metadata (WeftShard *self);
WEFT_PUBLIC WeftGgufFile *weft_shard_get_gguf (WeftShard *self);
WEFT_PUBLIC GBytes *weft_shard_read_header (WeftShard *self, GError **error);
WEFT_PUBLIC guint weft_shard_get_n_tensors (WeftShard *self);
WEFT_PUBLIC const gchar *weft_shard_get_tensor_name (WeftShard *self, guint position);
WEFT_PUBLIC WeftTensor *weft_shard_get_tensor (WeftShard *self, guint position);
WEFT_PUBLIC guint64 weft_shard_get_tensor_offset (WeftShard *self, guint position);
WEFT_PUBLIC gboolean weft_shard_scan_recorded_header (GBytes *header, const gchar *file_name,
                                                      WeftStateDict *tensors, GError **error);

G_END_DECLS
