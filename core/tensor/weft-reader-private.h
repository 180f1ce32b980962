/* SPDX-License-Identifier: Apache-2.0 */
/* Reads pieces into memory, whatever their base. One reader serves one thread. Private to the tensor room. */
#pragma once

#include "tensor/weft-file-private.h"
#include "tensor/weft-tensor-private.h"
#include "tensor/weft-transfer.h"

typedef struct
{
  /* Bound of one scratch buffer in bytes, where the granularity of a kernel allows. */
  gsize limit;
  /* Source runs nearer than this are read in one go, the hole with them. */
  gsize hole_bytes;
  WeftTransferCounters counters;
  /* Runs that are to be read, and buffers that are free, by depth of use. */
  GArray *runs;
  GPtrArray *scratch;
  guint scratch_depth;
} WeftReader;

void weft_reader_init (WeftReader *self, gsize limit);
void weft_reader_clear (WeftReader *self);
/* Fills the destination of @piece; @origin is where its first unit goes. Contiguous file runs are only noted. */
gboolean weft_reader_fill (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error);
/* Notes a run of a file. */
void weft_reader_add_run (WeftReader *self, WeftFile *file, guint64 offset, guint8 *destination,
                          gsize n_bytes);
/* Forgets what a fill that failed has left: runs whose destinations are soon reused, and buffers. */
void weft_reader_forget (WeftReader *self);
/* Reads the runs that were noted. */
gboolean weft_reader_flush (WeftReader *self, GError **error);
/* Fills @buffer with all elements of @tensor. */
gboolean weft_reader_read_tensor (WeftReader *self, WeftTensor *tensor, guint8 *buffer, GError **error);
