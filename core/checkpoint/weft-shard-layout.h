/* SPDX-License-Identifier: Apache-2.0 */
/* Which output goes to which file at which offset; the headers and the index that say so. */
#pragma once

#include <json-glib/json-glib.h>

#include "tensor/weft-state-dict.h"

G_BEGIN_DECLS

/**
 * WEFT_DEFAULT_MAX_SHARD_BYTES:
 *
 * The size at which outputs go on in a new file, in bytes of tensors, if nobody says otherwise.
 *
 * Since: 1.0
 */
#define WEFT_DEFAULT_MAX_SHARD_BYTES G_GUINT64_CONSTANT (50000000000)

#define WEFT_TYPE_SHARD_LAYOUT (weft_shard_layout_get_type ())

/**
 * WeftShardLayout:
 *
 * The files of an output checkpoint before one of their tensors is written: their headers, sizes and names, the place
 * of each tensor, and the index. Immutable.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftShardLayout, weft_shard_layout, WEFT, SHARD_LAYOUT, GObject)

WEFT_PUBLIC WeftShardLayout *weft_shard_layout_new_assigned (WeftStateDict *outputs, const guint *shards,
                                                             gsize n_shards, GPtrArray *metadata,
                                                             JsonNode *index_metadata, GError **error);
WEFT_PUBLIC WeftShardLayout *weft_shard_layout_new_by_size (WeftStateDict *outputs, guint64 max_shard_bytes,
                                                            GHashTable *metadata, JsonNode *index_metadata,
                                                            GError **error);
WEFT_PUBLIC void weft_shard_layout_set_single_name (WeftShardLayout *self, const gchar *name);
WEFT_PUBLIC WeftShardLayout *weft_shard_layout_new_verbatim (WeftStateDict *outputs,
                                                             const gchar *const *file_names,
                                                             GPtrArray *headers, const gchar *index_name,
                                                             GBytes *index, GError **error);

WEFT_PUBLIC WeftStateDict *weft_shard_layout_get_outputs (WeftShardLayout *self);
WEFT_PUBLIC guint weft_shard_layout_get_n_files (WeftShardLayout *self);
WEFT_PUBLIC const gchar *weft_shard_layout_get_file_name (WeftShardLayout *self, guint file);
WEFT_PUBLIC guint64 weft_shard_layout_get_file_size (WeftShardLayout *self, guint file);
WEFT_PUBLIC GBytes *weft_shard_layout_get_header (WeftShardLayout *self, guint file);
WEFT_PUBLIC guint weft_shard_layout_get_n_tensors (WeftShardLayout *self, guint file);
WEFT_PUBLIC guint weft_shard_layout_get_tensor (WeftShardLayout *self, guint file, guint tensor);
WEFT_PUBLIC guint64 weft_shard_layout_get_tensor_offset (WeftShardLayout *self, guint file, guint tensor);
WEFT_PUBLIC const gchar *weft_shard_layout_get_index_name (WeftShardLayout *self);
WEFT_PUBLIC GBytes *weft_shard_layout_get_index (WeftShardLayout *self);

G_END_DECLS
