/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts transfers into tasks: extents that stay together, tiles, and blocks of what changes its order. Private to the tensor
 * room. */
#pragma once

#include "tensor/weft-task-private.h"

typedef struct
{
  const WeftTransfer *transfers;
  gsize tile_bytes;
  gsize block_bytes;
  /* Takes a task. */
  void (*emit) (WeftTask *task, gpointer emit_data);
  gpointer emit_data;
  /* An extent that may grow yet, and a tile that is not full yet. */
  WeftTask *run;
  WeftTask *fill;
  /* Set by whoever has no use for further tasks. */
  gboolean is_stopped;
} WeftCutter;

void weft_cutter_init (WeftCutter *self, const WeftTransfer *transfers, gsize tile_bytes, guint n_threads);
void weft_cutter_clear (WeftCutter *self);
gboolean weft_cutter_add (WeftCutter *self, gsize transfer, GError **error);
/* Emits what is still open. */
void weft_cutter_finish (WeftCutter *self);
/* The first of the transfers up to @n_cut that an open task may touch again. */
gsize weft_cutter_get_first_open (const WeftCutter *self, gsize n_cut);
