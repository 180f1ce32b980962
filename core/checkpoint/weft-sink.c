/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-sink.h"

#include <string.h>

G_DEFINE_INTERFACE (WeftSink, weft_sink, G_TYPE_OBJECT)

/* So many batches are filled side by side at most, by a thread each. */
#define MAX_OPEN_BATCHES 4
/* What is taken from a batch before the next one's turn comes: enough to be moved in one go. */
#define STRETCH_BYTES (32 * 1024 * 1024)

/* A batch that is being filled: which of the transfers made are its own, and how many have had their turn. */
typedef struct
{
  guint number;
  guint next;
  guint end;
  guint64 n_bytes_taken;
} Batch;

/* One call of weft_sink_write(). The callbacks of the caller see one run over all outputs, whatever the batches. */
typedef struct
{
  WeftSink *sink;
  WeftStateDict *outputs;
  WeftTransferOptions options;
  /* Batches that are open, their transfers as they were made, and in the order in which they run. */
  GArray *batches;
  GArray *made;
  GArray *transfers;
  /* For each transfer its batch. */
  GArray *owners;
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
    iface->filled (run->sink, g_array_index (run->owners, guint, position),
                   weft_tensor_get_n_bytes (transfer->tensor));
  report_completed (run, transfer);
}

/* A batch that an earlier run has filled. */
static void
skip_batch (Run *run, const Batch *batch)
{
  for (guint i = batch->next; i < batch->end; i++)
    {
      const WeftTransfer *transfer = &g_array_index (run->made, WeftTransfer, i);

      report_completed (run, transfer);
      run->n_bytes_before += weft_tensor_get_n_bytes (transfer->tensor);
    }
  on_progress (0, 0, run);
}

static gboolean
begin_batch (Run *run, guint number, GError **error)
{
  Batch batch = { .number = number, .next = run->made->len };
  gboolean is_filled = FALSE;

  if (!WEFT_SINK_GET_IFACE (run->sink)->begin_batch (run->sink, number, run->made, &is_filled, error))
    return FALSE;
  batch.end = run->made->len;
  if (is_filled)
    skip_batch (run, &batch);
  else
    g_array_append_val (run->batches, batch);
  return TRUE;
}

/* The batch whose turn it is, or %NULL if all transfers have had theirs. */
static Batch *
find_next_batch (Run *run)
{
  Batch *next = NULL;

  for (guint i = 0; i < run->batches->len; i++)
    {
      Batch *batch = &g_array_index (run->batches, Batch, i);

      if (batch->next < batch->end && (next == NULL || batch->n_bytes_taken < next->n_bytes_taken))
        next = batch;
    }
  return next;
}

/* Puts the transfers of the open batches in turns, so that each thread finds a file to itself. */
static void
interleave (Run *run)
{
  Batch *batch;

  while ((batch = find_next_batch (run)) != NULL)
    for (guint64 n_bytes = 0; batch->next < batch->end && n_bytes < STRETCH_BYTES; batch->next++)
      {
        const WeftTransfer *transfer = &g_array_index (run->made, WeftTransfer, batch->next);

        n_bytes += weft_tensor_get_n_bytes (transfer->tensor);
        batch->n_bytes_taken += weft_tensor_get_n_bytes (transfer->tensor);
        g_array_append_val (run->transfers, *transfer);
        g_array_append_val (run->owners, batch->number);
      }
}

static gboolean
fill_batches (Run *run, WeftTransferCounters *counters, GError **error)
{
  WeftTransferOptions options = run->options;

  options.struct_size = sizeof options;
  options.progress = on_progress;
  options.progress_data = run;
  options.completed = on_completed;
  options.completed_data = run;
  interleave (run);
  return weft_transfer_execute ((const WeftTransfer *) (gpointer) run->transfers->data, run->transfers->len,
                                &options, counters, run->cancellable, error);
}

static gboolean
end_batches (Run *run, GError **error)
{
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);

  for (guint i = 0; i < run->batches->len; i++)
    {
      const Batch *batch = &g_array_index (run->batches, Batch, i);

      run->n_bytes_before += batch->n_bytes_taken;
      if (iface->end_batch != NULL && !iface->end_batch (run->sink, batch->number, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
check_not_cancelled (GCancellable *cancellable, GError **error)
{
  if (!g_cancellable_is_cancelled (cancellable))
    return TRUE;
  g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "writing was cancelled");
  return FALSE;
}

/* Writes @n batches side by side. If there is no room for one, those before it are written yet: they can be resumed. */
static gboolean
write_batches (Run *run, guint first, guint n, WeftTransferCounters *counters, GError **error)
{
  g_autoptr (GError) begin_error = NULL;

  if (!check_not_cancelled (run->cancellable, error))
    return FALSE;
  g_array_set_size (run->batches, 0);
  g_array_set_size (run->made, 0);
  g_array_set_size (run->transfers, 0);
  g_array_set_size (run->owners, 0);
  for (guint i = 0; i < n && begin_error == NULL; i++)
    (void) begin_batch (run, first + i, &begin_error);
  if (run->batches->len > 0 && (!fill_batches (run, counters, error) || !end_batches (run, error)))
    return FALSE;
  if (begin_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&begin_error));
  return FALSE;
}

/* How many of the batches that are left are written next: one a thread, and none that is left alone at the end. */
static guint
count_next_batches (const Run *run, guint n_left)
{
  guint width = CLAMP (run->options.n_threads, 1, MAX_OPEN_BATCHES);

  return width > 1 && n_left == width + 1 ? n_left : MIN (n_left, width);
}

static gboolean
write_all_batches (Run *run, guint n_batches, WeftTransferCounters *counters, GError **error)
{
  guint n;

  for (guint i = 0; i < n_batches; i += n)
    {
      n = count_next_batches (run, n_batches - i);
      if (!write_batches (run, i, n, counters, error))
        return FALSE;
    }
  /* Whoever cancels at the last report of progress finds nothing published. */
  return check_not_cancelled (run->cancellable, error);
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
write_sink (Run *run, WeftTransferCounters *counters, GError **error)
{
  WeftSinkInterface *iface = WEFT_SINK_GET_IFACE (run->sink);
  guint n_batches = 0;

  if (!iface->prepare (run->sink, run->outputs, &n_batches, error))
    return FALSE;
  return write_all_batches (run, n_batches, counters, error) && wait_for_others (run, error)
         && (iface->finish == NULL || iface->finish (run->sink, error));
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
  g_autoptr (GArray) batches = g_array_new (FALSE, TRUE, sizeof (Batch));
  g_autoptr (GArray) made = g_array_new (FALSE, TRUE, sizeof (WeftTransfer));
  g_autoptr (GArray) transfers = g_array_new (FALSE, TRUE, sizeof (WeftTransfer));
  g_autoptr (GArray) owners = g_array_new (FALSE, TRUE, sizeof (guint));
  g_autoptr (GCancellable) own_cancellable = g_cancellable_new ();
  Run run = { self, outputs, { 0 }, batches, made, transfers, owners, 0, 0, own_cancellable, NULL };
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
  ok = write_sink (&run, counters, &failure);
  g_cancellable_disconnect (cancellable, handler);
  if (!ok)
    settle_failure (&run, failure, error);
  g_clear_error (&run.poll_error);
  return ok;
}
