/* SPDX-License-Identifier: Apache-2.0 */
/* Where outputs go: the interface, and the runner that moves the bytes, batch by batch. */
#pragma once

#include "tensor/weft-state-dict.h"
#include "tensor/weft-transfer.h"

G_BEGIN_DECLS

#define WEFT_TYPE_SINK (weft_sink_get_type ())

/**
 * WeftSink:
 *
 * A destination of a state dict: files, memory, or buffers of the caller. It makes room for one batch of tensors after
 * the other; weft_sink_write() fills it. A sink is written to once.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftSink, weft_sink, WEFT, SINK, GObject)

/**
 * WeftSinkInterface:
 * @g_iface: the parent
 * @prepare: looks at the outputs and says how many batches there will be
 * @begin_batch: makes room for a batch and appends its #WeftTransfer elements, each named as its output; sets
 *   `is_filled` if all of them are there already
 * @filled: (nullable): a transfer of the current batch is done
 * @end_batch: (nullable): all transfers of the batch are done
 * @finish: (nullable): all batches are done
 * @abandon: (nullable): something failed after @prepare was called; nothing else will be called
 *
 * The slots that weft_sink_write() calls, in this order, on one thread.
 *
 * Since: 1.0
 */
struct _WeftSinkInterface
{
  GTypeInterface g_iface;

  /*< private >*/
  /* Transfers carry pointers and descriptors: the slots are for C. */
#ifndef __GI_SCANNER__
  gboolean (*prepare) (WeftSink *self, WeftStateDict *outputs, guint *n_batches, GError **error);
  gboolean (*begin_batch) (WeftSink *self, guint batch, GArray *transfers, gboolean *is_filled,
                           GError **error);
  void (*filled) (WeftSink *self, const WeftTransfer *transfer);
  gboolean (*end_batch) (WeftSink *self, guint batch, GError **error);
  gboolean (*finish) (WeftSink *self, GError **error);
  void (*abandon) (WeftSink *self);
#endif
};

WEFT_PUBLIC gboolean weft_sink_write (WeftSink *self, WeftStateDict *outputs,
                                      const WeftTransferOptions *options, WeftTransferCounters *counters,
                                      GCancellable *cancellable, GError **error);

G_END_DECLS
