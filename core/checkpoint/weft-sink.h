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
 * A destination of a state dict: files, memory, or buffers of the caller. It makes room for a few batches of tensors at a
 * time; weft_sink_write() fills them. A sink is written to once.
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
 * @filled: (nullable): so many bytes more of a batch are there
 * @poll: (nullable): for a sink that several processes fill; called often on the thread that executes, and never to wait.
 *   `n_bytes_done` are the bytes that this process has filled, and become those that all have. An error stops the work
 * @end_batch: (nullable): all transfers of the batch are done
 * @wait: (nullable): all batches of this process are done; as @poll, after a moment of rest, until it sets `is_over` because those of
 *   all processes are
 * @finish: (nullable): all batches are done
 * @fail: (nullable): something failed after @prepare was called; other processes that fill the sink stop too, and the error may
 *   become one that tells more
 * @abandon: (nullable): something failed after @prepare was called; nothing else will be called
 *
 * The slots that weft_sink_write() calls, in this order, on one thread; several batches may be begun before the first of
 * them ends, for two files are written faster side by side than one after the other. They are for sinks written in C.
 *
 * Since: 1.0
 */
struct _WeftSinkInterface
{
  GTypeInterface g_iface;

  /**
   * WeftSinkInterface::prepare: (skip)
   */
  gboolean (*prepare) (WeftSink *self, WeftStateDict *outputs, guint *n_batches, GError **error);

  /**
   * WeftSinkInterface::begin_batch: (skip)
   */
  gboolean (*begin_batch) (WeftSink *self, guint batch, GArray *transfers, gboolean *is_filled,
                           GError **error);

  /**
   * WeftSinkInterface::filled: (skip)
   */
  void (*filled) (WeftSink *self, guint batch, guint64 n_bytes);

  /**
   * WeftSinkInterface::poll: (skip)
   */
  gboolean (*poll) (WeftSink *self, guint64 *n_bytes_done, GError **error);

  /**
   * WeftSinkInterface::end_batch: (skip)
   */
  gboolean (*end_batch) (WeftSink *self, guint batch, GError **error);

  /**
   * WeftSinkInterface::wait: (skip)
   */
  gboolean (*wait) (WeftSink *self, guint64 *n_bytes_done, gboolean *is_over, GError **error);

  /**
   * WeftSinkInterface::finish: (skip)
   */
  gboolean (*finish) (WeftSink *self, GError **error);

  /**
   * WeftSinkInterface::fail: (skip)
   */
  void (*fail) (WeftSink *self, GError **error);

  /**
   * WeftSinkInterface::abandon: (skip)
   */
  void (*abandon) (WeftSink *self);
};

WEFT_PUBLIC gboolean weft_sink_write (WeftSink *self, WeftStateDict *outputs,
                                      const WeftTransferOptions *options, WeftTransferCounters *counters,
                                      GCancellable *cancellable, GError **error);

G_END_DECLS
