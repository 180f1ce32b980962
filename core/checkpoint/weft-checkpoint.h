/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint as it was published: its shards, its state dict, its index, its config, and what else lies beside them. */
#pragma once

#include <gio/gio.h>
#include <json-glib/json-glib.h>

#include "checkpoint/weft-shard.h"
#include "tensor/weft-state-dict.h"

G_BEGIN_DECLS

/**
 * WEFT_PROVENANCE_FILE_NAME:
 *
 * The file of an output folder that says how it was made. It is never carried along from a source.
 *
 * Since: 1.0
 */
#define WEFT_PROVENANCE_FILE_NAME "weft-provenance.json"

#define WEFT_TYPE_CHECKPOINT (weft_checkpoint_get_type ())

/**
 * WeftCheckpoint:
 *
 * An open checkpoint. Headers, index and config have been read and checked; no tensor has been read. Immutable.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftCheckpoint, weft_checkpoint, WEFT, CHECKPOINT, GObject)

/**
 * WeftCheckpointFlags:
 * @WEFT_CHECKPOINT_FLAGS_NONE: strict
 * @WEFT_CHECKPOINT_FLAGS_LENIENT: tensors that the index does not list are taken all the same if they are in a shard that it
 *   lists; other shards are not opened
 *
 * How strictly a checkpoint is opened.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_CHECKPOINT_FLAGS_NONE = 0,
  WEFT_CHECKPOINT_FLAGS_LENIENT = 1 << 0,
} WeftCheckpointFlags;

WEFT_PUBLIC WeftCheckpoint *weft_checkpoint_open (const gchar *path, GCancellable *cancellable,
                                                  GError **error);
WEFT_PUBLIC WeftCheckpoint *weft_checkpoint_open_full (const gchar *path, const gchar *variant,
                                                       WeftIoBackend backend, WeftCheckpointFlags flags,
                                                       GCancellable *cancellable, GError **error);

WEFT_PUBLIC const gchar *weft_checkpoint_get_path (WeftCheckpoint *self);
WEFT_PUBLIC const gchar *weft_checkpoint_get_folder (WeftCheckpoint *self);
WEFT_PUBLIC WeftStateDict *weft_checkpoint_get_state_dict (WeftCheckpoint *self);
WEFT_PUBLIC JsonNode *weft_checkpoint_get_config (WeftCheckpoint *self);

WEFT_PUBLIC guint weft_checkpoint_get_n_shards (WeftCheckpoint *self);
WEFT_PUBLIC WeftShard *weft_checkpoint_get_shard (WeftCheckpoint *self, guint shard);
WEFT_PUBLIC guint weft_checkpoint_get_tensor_shard (WeftCheckpoint *self, guint position);

WEFT_PUBLIC GBytes *weft_checkpoint_get_index (WeftCheckpoint *self);
WEFT_PUBLIC const gchar *weft_checkpoint_get_index_name (WeftCheckpoint *self);
WEFT_PUBLIC JsonNode *weft_checkpoint_get_index_metadata (WeftCheckpoint *self);

WEFT_PUBLIC const gchar *const *weft_checkpoint_get_other_files (WeftCheckpoint *self);
WEFT_PUBLIC const gchar *const *weft_checkpoint_get_unused_files (WeftCheckpoint *self);
WEFT_PUBLIC const gchar *const *weft_checkpoint_get_skipped_files (WeftCheckpoint *self);

G_END_DECLS
