/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-sink.h"

#include <string.h>

G_DEFINE_INTERFACE (WeftSink, weft_sink, G_TYPE_OBJECT)

/* One call of weft_sink_write(). The callbacks of the caller see one run over all outputs, whatever the batches. */
typedef struct
{
  WeftSink *sink;
  WeftStateDict *outputs;
  WeftTransferOptions options;
  GArray *transfers;
  guint64 n_bytes_before;
  guint64 n_bytes_total;
  /* Follows the caller's, and is cancelled too when the sink says so. */
  GCancellable *cancellable;
  GError *poll_error;
} Run;

static void
weft_sink_default_init (G_GNUC_UNUSED WeftSinkInterface *iface)
{
}

static void
on_progress (guint64 n_bytes_done, G_GNUC_UNUSED guint64 n_bytes_total, gpointer user_data)
{
  Run *run = user_data;
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);
  guint64 n_bytes = run->n_bytes_before + n_bytes_done;

  if (iface->poll != NULL && run->poll_error == NULL && !iface->poll (run->sink, &n_bytes, &run->poll_error))
    g_cancellable_cancel (run->cancellable);
  if (run->options.progress != NULL)
    run->options.progress (n_bytes, run->n_bytes_total, run->options.progress_data);
}

static void
report_completed (const Run *run, const WeftTransfer *transfer)
{
  guint position;

  if (run->options.completed != NULL && weft_state_dict_find (run->outputs, transfer->name, &position))
    run->options.completed (position, run->options.completed_data);
}

static void
on_completed (gsize position, gpointer user_data)
{
  const Run *run = user_data;
  const WeftTransfer *transfer = &g_array_index (run->transfers, WeftTransfer, position);
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);

  if (iface->filled != NULL)
    iface->filled (run->sink, weft_tensor_get_n_bytes (transfer->tensor));
  report_completed (run, transfer);
}

/* A batch that an earlier run has filled. */
static void
skip_batch (Run *run, guint64 n_bytes)
{
  for (guint i = 0; i < run->transfers->len; i++)
    report_completed (run, &g_array_index (run->transfers, WeftTransfer, i));
  on_progress (n_bytes, n_bytes, run);
}

static gboolean
fill_batch (Run *run, WeftTransferCounters *counters, GError **error)
{
  WeftTransferOptions options = run->options;

  options.struct_size = sizeof options;
  options.progress = on_progress;
  options.progress_data = run;
  options.completed = on_completed;
  options.completed_data = run;
  return weft_transfer_execute ((const WeftTransfer *) (gpointer) run->transfers->data, run->transfers->len,
                                &options, counters, run->cancellable, error);
}

static gboolean
write_batch (Run *run, guint batch, WeftTransferCounters *counters, GError **error)
{
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);
  gboolean is_filled = FALSE;
  guint64 n_bytes = 0;

  if (g_cancellable_is_cancelled (run->cancellable))
    {
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "writing was cancelled");
      return FALSE;
    }
  g_array_set_size (run->transfers, 0);
  if (!iface->begin_batch (run->sink, batch, run->transfers, &is_filled, error))
    return FALSE;
  for (guint i = 0; i < run->transfers->len; i++)
    n_bytes += weft_tensor_get_n_bytes (g_array_index (run->transfers, WeftTransfer, i).tensor);
  if (is_filled)
    skip_batch (run, n_bytes);
  else if (!fill_batch (run, counters, error)
           || (iface->end_batch != NULL && !iface->end_batch (run->sink, batch, error)))
    return FALSE;
  run->n_bytes_before += n_bytes;
  return TRUE;
}

/* The others of a sink that several processes fill may take longer. */
static gboolean
wait_for_others (Run *run, GError **error)
{
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);
  gboolean is_over = iface->wait == NULL;

  while (!is_over)
    {
      guint64 n_bytes = run->n_bytes_before;

      if (!iface->wait (run->sink, &n_bytes, &is_over, error))
        return FALSE;
      if (run->options.progress != NULL)
        run->options.progress (n_bytes, run->n_bytes_total, run->options.progress_data);
    }
  return TRUE;
}

static gboolean
write_batches (Run *run, WeftTransferCounters *counters, GError **error)
{
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);
  guint n_batches = 0;

  if (!iface->prepare (run->sink, run->outputs, &n_batches, error))
    return FALSE;
  for (guint i = 0; i < n_batches; i++)
    if (!write_batch (run, i, counters, error))
      return FALSE;
  return wait_for_others (run, error) && (iface->finish == NULL || iface->finish (run->sink, error));
}

/* Tells the sink that something failed, and gives the error that says most. */
static void
settle_failure (Run *run, GError *failure, GError **error)
{
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);

  if (run->poll_error != NULL)
    {
      g_clear_error (&failure);
      failure = g_steal_pointer (&run->poll_error);
    }
  if (iface->fail != NULL)
    iface->fail (run->sink, &failure);
  if (iface->abandon != NULL)
    iface->abandon (run->sink);
  g_propagate_error (error, failure);
}

static void
cancel_too (G_GNUC_UNUSED GCancellable *cancellable, gpointer user_data)
{
  g_cancellable_cancel (user_data);
}

/**
 * weft_sink_write: (skip)
 * @self: a sink that nothing has been written to
 * @outputs: what to write
 * @options: (nullable): how transfers run; progress counts the bytes of all outputs, and completed gives positions in
 *   @outputs
 * @counters: (nullable): added to
 * @cancellable: (nullable): stops the work within a tile
 * @error: return location
 *
 * Evaluates @outputs into the sink and finishes it. On failure the sink is left as if nothing had been written, but for
 * what it keeps to be resumed.
 *
 * Returns: whether all outputs are in their final place
 * Errors: those of the sink and of weft_transfer_execute()
 * Since: 1.0
 */
gboolean
weft_sink_write (WeftSink *self, WeftStateDict *outputs, const WeftTransferOptions *options,
                 WeftTransferCounters *counters, GCancellable *cancellable, GError **error)
{
  g_autoptr (GArray) transfers = g_array_new (FALSE, TRUE, sizeof (WeftTransfer));
  g_autoptr (GCancellable) own_cancellable = g_cancellable_new ();
  Run run = { .sink = self, .outputs = outputs, .transfers = transfers, .cancellable = own_cancellable };
  GError *failure = NULL;
  gulong handler = 0;
  gboolean ok;

  g_return_val_if_fail (WEFT_IS_SINK (self) && WEFT_IS_STATE_DICT (outputs), FALSE);
  if (options != NULL)
    memcpy (&run.options, options, MIN (options->struct_size, sizeof run.options));
  else
    run.options.n_threads = weft_transfer_get_default_n_threads ();
  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    run.n_bytes_total += weft_tensor_get_n_bytes (weft_state_dict_get_tensor (outputs, i));
  if (cancellable != NULL)
    handler = g_cancellable_connect (cancellable, G_CALLBACK (cancel_too), own_cancellable, NULL);
  ok = write_batches (&run, counters, &failure);
  g_cancellable_disconnect (cancellable, handler);
  if (!ok)
    settle_failure (&run, failure, error);
  g_clear_error (&run.poll_error);
  return ok;
}
