/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation: a transfer fills a destination with the elements of a lazy tensor, by tiles, on threads. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

/**
 * WeftProgressFunc:
 * @n_bytes_done: bytes of the destinations that are filled
 * @n_bytes_total: bytes of all destinations
 * @user_data: data of the caller
 *
 * Called on the thread that executes, never from two threads.
 *
 * Since: 1.0
 */
typedef void (*WeftProgressFunc) (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data);

/**
 * WeftTransfer: (skip)
 * @tensor: what is to be written
 * @fd: a file open for reading and writing, with at least @offset + n_bytes bytes allocated, or -1 for memory
 * @offset: byte offset in the file
 * @memory: destination if @fd is -1; n_bytes of the tensor are written there
 * @name: (nullable): what messages call it
 *
 * One tensor and the place where its elements go, row-major, little-endian.
 *
 * Since: 1.0
 */
typedef struct
{
  WeftTensor *tensor;
  gint fd;
  guint64 offset;
  gpointer memory;
  const gchar *name;
} WeftTransfer;

/**
 * WeftTransferOptions: (skip)
 * @struct_size: `sizeof (WeftTransferOptions)`
 * @n_threads: worker threads; 0 means that the calling thread does all
 * @tile_bytes: size of a tile in bytes; 0 for the default (4 MiB)
 * @progress: (nullable): called as bytes arrive
 * @progress_data: data of @progress
 * @completed: (nullable): called on the executing thread with the position of a transfer that is filled
 * @completed_data: data of @completed
 *
 * How transfers run.
 *
 * Since: 1.0
 */
typedef struct
{
  gsize struct_size;
  guint n_threads;
  gsize tile_bytes;
  WeftProgressFunc progress;
  gpointer progress_data;
  void (*completed) (gsize position, gpointer completed_data);
  gpointer completed_data;
} WeftTransferOptions;

/**
 * WeftTransferCounters: (skip)
 * @n_bytes_kept: bytes of input files that became part of a destination (or an input of a kernel)
 * @n_bytes_read: bytes read from input files, holes included
 * @n_bytes_written: bytes put into destinations
 *
 * What transfers moved. Header bytes are counted by #WeftFile, not here.
 *
 * Since: 1.0
 */
typedef struct
{
  guint64 n_bytes_kept;
  guint64 n_bytes_read;
  guint64 n_bytes_written;
} WeftTransferCounters;

WEFT_PUBLIC guint weft_transfer_get_default_n_threads (void);
WEFT_PUBLIC gboolean weft_transfer_execute (const WeftTransfer *transfers, gsize n_transfers,
                                            const WeftTransferOptions *options,
                                            WeftTransferCounters *counters, GCancellable *cancellable,
                                            GError **error);

G_END_DECLS
