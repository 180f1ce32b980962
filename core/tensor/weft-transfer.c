/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-transfer.h"

#include <string.h>

#include "tensor/weft-cutter-private.h"

#define DEFAULT_TILE_BYTES (2 * 1024 * 1024)
/* How much may wait for each thread. A tile holds a list of its parts; a copy holds next to nothing, and it takes many of them
 * to reach from one file into the next. */
#define MAX_WEIGHT_PER_THREAD 64
#define TILE_WEIGHT 16

typedef struct
{
  WeftTask *task;
  GError *error;
} Outcome;

typedef struct
{
  const WeftTransfer *transfers;
  gsize n_transfers;
  WeftTransferOptions options;
  GCancellable *cancellable;
  GThreadPool *pool;
  /* Tasks that wait for a thread, and those that have one. */
  GMutex lock;
  GQueue waiting;
  GPtrArray *running;
  /* Workers that no thread uses, and outcomes that the executing thread has not seen. */
  GAsyncQueue *idle;
  GAsyncQueue *outcomes;
  /* The executing thread's own. */
  WeftWorker *worker;
  guint n_in_flight;
  guint weight_in_flight;
  WeftCutter cutter;
  gsize n_released;
  /* For each transfer the tasks that are still to run, and one more while it is being cut into tasks. */
  guint32 *n_pending;
  guint64 n_bytes_done;
  guint64 n_bytes_total;
  GError *error;
  /* Set with the first error, for the threads: tasks that have not begun are dropped. */
  gint is_failed;
} Execution;

static gboolean
writes_to_busy_file (Execution *self, const WeftTask *task)
{
  for (guint i = 0; task->fd >= 0 && i < self->running->len; i++)
    if (((WeftTask *) self->running->pdata[i])->fd == task->fd)
      return TRUE;
  return FALSE;
}

/* The first task whose file no other thread writes to, or else the first: two threads in one file wait for each other. */
static WeftTask *
take_task (Execution *self)
{
  WeftTask *task;
  GList *link;

  g_mutex_lock (&self->lock);
  link = self->waiting.head;
  while (link != NULL && writes_to_busy_file (self, link->data))
    link = link->next;
  if (link == NULL)
    link = self->waiting.head;
  task = link->data;
  g_queue_delete_link (&self->waiting, link);
  g_ptr_array_add (self->running, task);
  g_mutex_unlock (&self->lock);
  return task;
}

static void
release_task (Execution *self, WeftTask *task)
{
  g_mutex_lock (&self->lock);
  g_ptr_array_remove_fast (self->running, task);
  g_mutex_unlock (&self->lock);
}

/* Each push is for one task, whichever suits when a thread is free. */
static void
run_on_pool (G_GNUC_UNUSED gpointer pool_data, gpointer user_data)
{
  Execution *self = user_data;
  WeftWorker *worker = g_async_queue_pop (self->idle);
  Outcome *outcome = g_new0 (Outcome, 1);

  outcome->task = take_task (self);
  if (!g_atomic_int_get (&self->is_failed))
    (void) weft_worker_run (worker, outcome->task, self->cancellable, &outcome->error);
  release_task (self, outcome->task);
  g_async_queue_push (self->idle, worker);
  g_async_queue_push (self->outcomes, outcome);
}

static void
finish_transfers (Execution *self, gsize first, gsize last)
{
  for (gsize i = first; i <= last; i++)
    if (--self->n_pending[i] == 0 && self->error == NULL && self->options.completed != NULL)
      self->options.completed (i, self->options.completed_data);
}

/* Takes the result of a task: the first error stops everything that has not begun. */
static void
settle_task (Execution *self, WeftTask *task, GError *error)
{
  if (error != NULL && self->error == NULL)
    {
      const gchar *name = self->transfers[task->current_transfer].name;

      self->error = g_error_copy (error);
      self->cutter.is_stopped = TRUE;
      g_atomic_int_set (&self->is_failed, TRUE);
      if (name != NULL && !g_error_matches (error, WEFT_ERROR, WEFT_ERROR_CANCELLED))
        g_prefix_error (&self->error, "%s: ", name);
    }
  g_clear_error (&error);
  if (self->error == NULL)
    {
      self->n_bytes_done += task->n_bytes;
      if (self->options.progress != NULL)
        self->options.progress (self->n_bytes_done, self->n_bytes_total, self->options.progress_data);
    }
  finish_transfers (self, task->first_transfer, task->last_transfer);
  weft_task_free (task);
}

static guint
weigh_task (const WeftTask *task)
{
  return task->kind == WEFT_TASK_COPY ? 1 : TILE_WEIGHT;
}

static void
settle_one (Execution *self)
{
  Outcome *outcome = g_async_queue_pop (self->outcomes);

  self->n_in_flight--;
  self->weight_in_flight -= weigh_task (outcome->task);
  settle_task (self, outcome->task, outcome->error);
  g_free (outcome);
}

static void
submit (WeftTask *task, gpointer user_data)
{
  Execution *self = user_data;

  for (gsize i = task->first_transfer; i <= task->last_transfer; i++)
    self->n_pending[i]++;
  if (self->pool == NULL || task->needs_owner || self->error != NULL)
    {
      GError *error = NULL;

      if (self->error == NULL)
        (void) weft_worker_run (self->worker, task, self->cancellable, &error);
      settle_task (self, task, error);
      return;
    }
  self->n_in_flight++;
  self->weight_in_flight += weigh_task (task);
  g_mutex_lock (&self->lock);
  g_queue_push_tail (&self->waiting, task);
  g_mutex_unlock (&self->lock);
  g_thread_pool_push (self->pool, self, NULL);
  while (self->weight_in_flight >= MAX_WEIGHT_PER_THREAD * self->options.n_threads)
    settle_one (self);
}

/* Gives up the hold on transfers that no open task will touch again. */
static void
release_transfers (Execution *self, gsize n_cut)
{
  n_cut = weft_cutter_get_first_open (&self->cutter, n_cut);
  for (; self->n_released < n_cut; self->n_released++)
    finish_transfers (self, self->n_released, self->n_released);
}

static void
execution_start (Execution *self)
{
  self->idle = g_async_queue_new_full (weft_worker_free);
  self->outcomes = g_async_queue_new ();
  self->running = g_ptr_array_new ();
  g_mutex_init (&self->lock);
  self->worker = weft_worker_new (self->options.tile_bytes);
  self->n_pending = g_new (guint32, MAX (self->n_transfers, 1));
  for (gsize i = 0; i < self->n_transfers; i++)
    {
      self->n_pending[i] = 1;
      self->n_bytes_total += weft_tensor_get_n_bytes (self->transfers[i].tensor);
    }
  if (self->options.n_threads == 0)
    return;
  for (guint i = 0; i < self->options.n_threads; i++)
    g_async_queue_push (self->idle, weft_worker_new (self->options.tile_bytes));
  /* With threads of its own: where they are shared, what is pushed waits for ever if none can be started. */
  self->pool = g_thread_pool_new (run_on_pool, self, (gint) self->options.n_threads, TRUE, NULL);
  if (g_thread_pool_get_num_threads (self->pool) > 0)
    return;
  g_thread_pool_free (g_steal_pointer (&self->pool), TRUE, TRUE);
  self->options.n_threads = 0;
}

static void
add_counters (WeftTransferCounters *total, const WeftTransferCounters *part)
{
  total->n_bytes_kept += part->n_bytes_kept;
  total->n_bytes_read += part->n_bytes_read;
}

static void
execution_stop (Execution *self, WeftTransferCounters *counters)
{
  WeftWorker *worker;

  weft_cutter_clear (&self->cutter);
  while (self->n_in_flight > 0)
    settle_one (self);
  if (self->pool != NULL)
    g_thread_pool_free (self->pool, FALSE, TRUE);
  if (counters != NULL)
    {
      add_counters (counters, &self->worker->reader.counters);
      counters->n_bytes_written += self->n_bytes_done;
      while ((worker = g_async_queue_try_pop (self->idle)) != NULL)
        {
          add_counters (counters, &worker->reader.counters);
          weft_worker_free (worker);
        }
    }
  weft_worker_free (self->worker);
  g_async_queue_unref (self->idle);
  g_async_queue_unref (self->outcomes);
  g_ptr_array_unref (self->running);
  g_mutex_clear (&self->lock);
  g_free (self->n_pending);
}

/**
 * weft_transfer_get_default_n_threads:
 *
 * Returns: the smaller of 4 and the number of CPUs; 0 (all on the calling thread) if `HF_DEACTIVATE_ASYNC_LOAD` is
 *   `1`, `true`, `y`, `yes` or `on`
 * Since: 1.0
 */
guint
weft_transfer_get_default_n_threads (void)
{
  static const gchar *const yes[] = { "1", "true", "y", "yes", "on" };
  const gchar *value = g_getenv ("HF_DEACTIVATE_ASYNC_LOAD");

  for (guint i = 0; value != NULL && i < G_N_ELEMENTS (yes); i++)
    if (g_ascii_strcasecmp (value, yes[i]) == 0)
      return 0;
  return MIN (4, g_get_num_processors ());
}

/**
 * weft_transfer_execute: (skip)
 * @transfers: (array length=n_transfers): what goes where; destinations do not overlap
 * @n_transfers: their number
 * @options: (nullable): how to run; %NULL for the defaults
 * @counters: (nullable): added to
 * @cancellable: (nullable): stops the work within a tile
 * @error: return location
 *
 * Fills all destinations. Returns when every byte is there or nothing is in flight any more. Tensors whose source
 * belongs to the calling thread are read on it.
 *
 * Returns: whether all destinations are filled; on failure their content is undefined
 * Errors: %WEFT_ERROR_IO, %WEFT_ERROR_CANCELLED, those of kernels and sources
 * Since: 1.0
 */
gboolean
weft_transfer_execute (const WeftTransfer *transfers, gsize n_transfers, const WeftTransferOptions *options,
                       WeftTransferCounters *counters, GCancellable *cancellable, GError **error)
{
  Execution execution = { .transfers = transfers, .n_transfers = n_transfers, .cancellable = cancellable };
  gboolean ok = TRUE;

  if (options != NULL)
    memcpy (&execution.options, options, MIN (options->struct_size, sizeof *options));
  else
    execution.options.n_threads = weft_transfer_get_default_n_threads ();
  if (execution.options.tile_bytes == 0)
    execution.options.tile_bytes = DEFAULT_TILE_BYTES;
  execution.options.tile_bytes = CLAMP (execution.options.tile_bytes, 4096, G_MAXINT32);
  weft_cutter_init (&execution.cutter, transfers, execution.options.tile_bytes, execution.options.n_threads);
  execution.cutter.emit = submit;
  execution.cutter.emit_data = &execution;
  execution_start (&execution);
  for (gsize i = 0; ok && execution.error == NULL && i < n_transfers; i++)
    {
      g_autoptr (GError) cut_error = NULL;

      ok = weft_cutter_add (&execution.cutter, i, &cut_error);
      /* A task of an earlier part may have failed meanwhile. */
      if (!ok && execution.error == NULL)
        execution.error = g_steal_pointer (&cut_error);
      release_transfers (&execution, i + 1);
    }
  if (ok && execution.error == NULL)
    {
      weft_cutter_finish (&execution.cutter);
      release_transfers (&execution, n_transfers);
    }
  execution_stop (&execution, counters);
  if (execution.error != NULL)
    g_propagate_error (error, execution.error);
  return execution.error == NULL;
}
