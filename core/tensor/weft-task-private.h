/* SPDX-License-Identifier: Apache-2.0 */
/* A task: a part of a transfer that one thread does in one go. Private to the tensor room. */
#pragma once

#include "tensor/weft-reader-private.h"

/* One part of a tile: a run of a file, or a piece. */
typedef struct
{
  gsize at;
  gsize n_bytes;
  gsize transfer;
  WeftFile *file;
  guint64 offset;
  WeftPiece *piece;
} WeftSegment;

typedef enum
{
  WEFT_TASK_COPY,
  WEFT_TASK_FILL,
  WEFT_TASK_BLOCK,
} WeftTaskKind;

typedef struct
{
  WeftTaskKind kind;
  gint fd;
  guint64 offset;
  guint8 *memory;
  gsize n_bytes;
  WeftFile *source;
  guint64 source_offset;
  GArray *segments;
  /* Of a block: destinations count from the start of the tensor. */
  WeftPiece piece;
  gboolean is_cut_in_source;
  gboolean needs_owner;
  /* Transfers that this task helps to fill. */
  gsize first_transfer;
  gsize last_transfer;
  /* The one to name if the task fails. */
  gsize current_transfer;
} WeftTask;

/* What a thread keeps from task to task. */
typedef struct
{
  WeftReader reader;
  guint8 *buffer;
  gsize buffer_bytes;
  gsize tile_bytes;
} WeftWorker;

WeftTask *weft_task_new (WeftTaskKind kind, gsize transfer, const WeftTransfer *destination, guint64 at,
                         gsize n_bytes);
void weft_task_free (WeftTask *self);
void weft_segment_clear (gpointer segment);

WeftWorker *weft_worker_new (gsize tile_bytes);
void weft_worker_free (gpointer worker);
gboolean weft_worker_run (WeftWorker *self, WeftTask *task, GCancellable *cancellable, GError **error);
