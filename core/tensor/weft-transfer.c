/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-transfer.h"

#include "tensor/weft-copy-private.h"
#include "tensor/weft-file-private.h"
#include "tensor/weft-guard-private.h"
#include "tensor/weft-reader-private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Extents of one file that stay together go through the kernel, without a buffer of ours. */
#define MIN_EXTENT_BYTES (256 * 1024)
#define MAX_EXTENT_BYTES (32 * 1024 * 1024)
#define DEFAULT_TILE_BYTES (2 * 1024 * 1024)
/* How much of an output is mapped at once for scattered writing. */
#define WINDOW_BYTES (64 * 1024 * 1024)

/* A stretch of an output file that is mapped while scattering tasks fill it. */
typedef struct
{
  gatomicrefcount ref_count;
  guint8 *mapping;
  gsize mapped_bytes;
} Window;

/* One part of a tile: a run of a file, or a piece. */
typedef struct
{
  gsize at;
  gsize n_bytes;
  WeftFile *file;
  guint64 offset;
  WeftPiece *piece;
} Segment;

typedef enum
{
  TASK_COPY,
  TASK_FILL,
  TASK_SCATTER,
} TaskKind;

typedef struct
{
  TaskKind kind;
  gint fd;
  guint64 offset;
  guint8 *memory;
  gsize n_bytes;
  WeftFile *source;
  guint64 source_offset;
  GArray *segments;
  Window *window;
  /* Where the first unit of the piece of a scattering task goes. */
  guint8 *origin;
  WeftPiece piece;
  gboolean needs_owner;
  /* Transfers that this task helps to fill. */
  gsize first_transfer;
  gsize last_transfer;
} Task;

static void
window_unref (Window *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  munmap (self->mapping, self->mapped_bytes);
  g_free (self);
}

/* Maps [offset, offset + n_bytes) of a file; @origin is where @offset is found. */
static Window *
window_new (gint fd, guint64 offset, gsize n_bytes, guint8 **origin, GError **error)
{
  guint64 page = (guint64) sysconf (_SC_PAGESIZE);
  guint64 start = offset / page * page;
  gsize mapped_bytes = (gsize) (offset - start) + n_bytes;
  gpointer mapping = mmap (NULL, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t) start);
  Window *self;

  if (mapping == MAP_FAILED)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO,
                   "mapping %" G_GSIZE_FORMAT " bytes of the output failed: %s", n_bytes, g_strerror (errno));
      return NULL;
    }
  self = g_new0 (Window, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->mapping = mapping;
  self->mapped_bytes = mapped_bytes;
  *origin = self->mapping + (offset - start);
  return self;
}

static void
segment_clear (gpointer user_data)
{
  Segment *segment = user_data;

  g_clear_pointer (&segment->file, weft_file_unref);
  if (segment->piece != NULL)
    {
      weft_base_unref (segment->piece->base);
      g_free (segment->piece);
    }
}

static void
task_free (Task *self)
{
  g_clear_pointer (&self->source, weft_file_unref);
  g_clear_pointer (&self->segments, g_array_unref);
  g_clear_pointer (&self->window, window_unref);
  g_clear_pointer (&self->piece.base, weft_base_unref);
  g_free (self);
}

static gboolean
write_all (gint fd, guint64 offset, const guint8 *bytes, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gssize n = pwrite (fd, bytes, n_bytes, (off_t) offset);

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO,
                       "writing %" G_GSIZE_FORMAT " bytes at offset %" G_GUINT64_FORMAT
                       " of the output failed: %s",
                       n_bytes, offset, g_strerror (n < 0 ? errno : ENOSPC));
          return FALSE;
        }
      bytes += n;
      offset += (guint64) n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

/* What copy_file_range cannot do, such as copying between two file systems of old kernels, goes through a buffer. */
static gboolean
copy_by_buffer (Task *task, gsize done, gsize limit, GError **error)
{
  g_autofree guint8 *buffer = g_malloc (MIN (limit, task->n_bytes - done));

  for (; done < task->n_bytes; done += MIN (limit, task->n_bytes - done))
    {
      gsize n_bytes = MIN (limit, task->n_bytes - done);

      if (!weft_file_read (task->source, task->source_offset + done, buffer, n_bytes, error)
          || !write_all (task->fd, task->offset + done, buffer, n_bytes, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
run_copy (Task *task, WeftReader *reader, gsize tile_bytes, GError **error)
{
  gsize done = 0;

  while (done < task->n_bytes)
    {
      off_t from = (off_t) (task->source_offset + done);
      off_t to = (off_t) (task->offset + done);
      gssize n =
          copy_file_range (weft_file_get_fd (task->source), &from, task->fd, &to, task->n_bytes - done, 0);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0 && errno == ENOSPC)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO,
                       "writing %" G_GSIZE_FORMAT " bytes of the output failed: %s", task->n_bytes - done,
                       g_strerror (errno));
          return FALSE;
        }
      /* 0 means the end of a truncated source, or a file system that does not copy: reading tells which. */
      if (n <= 0)
        {
          if (!copy_by_buffer (task, done, tile_bytes, error))
            return FALSE;
          break;
        }
      weft_file_count_bytes_read (task->source, (guint64) n);
      done += (gsize) n;
    }
  reader->counters.n_bytes_kept += task->n_bytes;
  reader->counters.n_bytes_read += task->n_bytes;
  return TRUE;
}

static gboolean
run_fill (Task *task, WeftReader *reader, guint8 *buffer, GError **error)
{
  guint8 *target = task->memory != NULL ? task->memory : buffer;

  for (guint i = 0; i < task->segments->len; i++)
    {
      const Segment *segment = &g_array_index (task->segments, Segment, i);

      if (segment->piece == NULL)
        weft_reader_add_run (reader, segment->file, segment->offset, target + segment->at, segment->n_bytes);
      else if (!weft_reader_fill (reader, segment->piece, target + segment->at, error))
        return FALSE;
    }
  if (!weft_reader_flush (reader, error))
    return FALSE;
  return task->memory != NULL || write_all (task->fd, task->offset, buffer, task->n_bytes, error);
}

typedef struct
{
  Task *task;
  WeftReader *reader;
  GError *error;
  gboolean ok;
} Scatter;

static void
scatter_guarded (gpointer user_data)
{
  Scatter *scatter = user_data;

  scatter->ok =
      weft_reader_fill (scatter->reader, &scatter->task->piece, scatter->task->origin, &scatter->error)
      && weft_reader_flush (scatter->reader, &scatter->error);
}

/* Only stores into the window can fault, and they hold nothing: what the reader had in hand is dropped. */
static gboolean
run_scatter (Task *task, WeftReader *reader, GError **error)
{
  Scatter scatter = { task, reader, NULL, FALSE };

  if (!weft_guard_run (scatter_guarded, &scatter))
    {
      weft_reader_reset (reader);
      g_set_error_literal (
          error, WEFT_ERROR, WEFT_ERROR_IO,
          "writing to the mapped output failed: the disk is full, or the file was truncated");
      return FALSE;
    }
  if (scatter.error != NULL)
    g_propagate_error (error, scatter.error);
  return scatter.ok;
}

/* What a thread keeps from task to task. */
typedef struct
{
  WeftReader reader;
  guint8 *buffer;
} Worker;

static Worker *
worker_new (const WeftTransferOptions *options)
{
  Worker *self = g_new0 (Worker, 1);

  weft_reader_init (&self->reader, options->tile_bytes / 2);
  return self;
}

static void
worker_free (gpointer user_data)
{
  Worker *self = user_data;

  weft_reader_clear (&self->reader);
  g_free (self->buffer);
  g_free (self);
}

typedef struct
{
  Task *task;
  GError *error;
} Outcome;

typedef struct
{
  const WeftTransfer *transfers;
  gsize n_transfers;
  WeftTransferOptions options;
  GCancellable *cancellable;
  GThreadPool *pool;
  /* Workers that no thread uses, and outcomes that the executing thread has not seen. */
  GAsyncQueue *idle;
  GAsyncQueue *outcomes;
  /* The executing thread's own. */
  Worker *worker;
  guint n_in_flight;
  /* An extent that may grow yet, and a tile that is not full yet. */
  Task *run;
  Task *fill;
  gsize n_released;
  /* For each transfer the tasks that are still to run, and one more while it is being cut into tasks. */
  guint32 *n_pending;
  guint64 n_bytes_done;
  guint64 n_bytes_total;
  GError *error;
} Execution;

static gboolean
run_task (Execution *self, Worker *worker, Task *task, GError **error)
{
  if (g_cancellable_is_cancelled (self->cancellable))
    {
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "cancelled");
      return FALSE;
    }
  if (task->kind == TASK_COPY)
    return run_copy (task, &worker->reader, self->options.tile_bytes, error);
  if (task->kind == TASK_SCATTER)
    return run_scatter (task, &worker->reader, error);
  if (task->memory == NULL && worker->buffer == NULL)
    worker->buffer = g_malloc (self->options.tile_bytes);
  return run_fill (task, &worker->reader, worker->buffer, error);
}

static void
run_on_pool (gpointer pool_data, gpointer user_data)
{
  Execution *self = user_data;
  Worker *worker = g_async_queue_pop (self->idle);
  Outcome *outcome = g_new0 (Outcome, 1);

  outcome->task = pool_data;
  (void) run_task (self, worker, outcome->task, &outcome->error);
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
settle_task (Execution *self, Task *task, GError *error)
{
  if (error != NULL && self->error == NULL)
    {
      const gchar *name = self->transfers[task->first_transfer].name;

      self->error = g_error_copy (error);
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
  task_free (task);
}

static void
settle_one (Execution *self)
{
  Outcome *outcome = g_async_queue_pop (self->outcomes);

  self->n_in_flight--;
  settle_task (self, outcome->task, outcome->error);
  g_free (outcome);
}

static void
submit (Execution *self, Task *task)
{
  for (gsize i = task->first_transfer; i <= task->last_transfer; i++)
    self->n_pending[i]++;
  if (self->pool == NULL || task->needs_owner || self->error != NULL)
    {
      GError *error = NULL;

      if (self->error == NULL)
        (void) run_task (self, self->worker, task, &error);
      settle_task (self, task, error);
      return;
    }
  self->n_in_flight++;
  g_thread_pool_push (self->pool, task, NULL);
  while (self->n_in_flight >= 4 * self->options.n_threads)
    settle_one (self);
}

static Task *
task_new (TaskKind kind, gsize transfer, const WeftTransfer *destination, guint64 at, gsize n_bytes)
{
  Task *self = g_new0 (Task, 1);

  self->kind = kind;
  self->fd = destination->fd;
  self->offset = destination->offset + at;
  self->memory = destination->fd < 0 ? (guint8 *) destination->memory + at : NULL;
  self->n_bytes = n_bytes;
  self->first_transfer = self->last_transfer = transfer;
  return self;
}

/* Whether @n_bytes at @at of a destination continue a task. */
static gboolean
continues (const Task *task, const WeftTransfer *destination, guint64 at)
{
  if (task->fd != destination->fd)
    return FALSE;
  return task->fd >= 0 ? task->offset + task->n_bytes == destination->offset + at
                       : task->memory + task->n_bytes == (guint8 *) destination->memory + at;
}

static void
close_fill (Execution *self)
{
  if (self->fill != NULL)
    submit (self, g_steal_pointer (&self->fill));
}

/* Adds a part to the tile that is being gathered, or begins another. Takes what @segment holds. */
static void
add_segment (Execution *self, gsize transfer, guint64 at, Segment segment, gboolean needs_owner)
{
  const WeftTransfer *destination = &self->transfers[transfer];

  if (self->fill != NULL
      && (!continues (self->fill, destination, at) || self->fill->needs_owner != needs_owner
          || self->fill->n_bytes + segment.n_bytes > self->options.tile_bytes))
    close_fill (self);
  if (self->fill == NULL)
    {
      self->fill = task_new (TASK_FILL, transfer, destination, at, 0);
      self->fill->needs_owner = needs_owner;
      self->fill->segments = g_array_new (FALSE, FALSE, sizeof (Segment));
      g_array_set_clear_func (self->fill->segments, segment_clear);
    }
  segment.at = self->fill->n_bytes;
  g_array_append_val (self->fill->segments, segment);
  self->fill->n_bytes += segment.n_bytes;
  self->fill->last_transfer = transfer;
}

/* An extent has grown as far as it goes: a long one goes through the kernel, a short one into tiles. */
static void
close_run (Execution *self)
{
  Task *run = g_steal_pointer (&self->run);
  gboolean is_long;
  gsize step;

  if (run == NULL)
    return;
  is_long = run->fd >= 0 && run->n_bytes >= MIN_EXTENT_BYTES;
  step = is_long ? MAX_EXTENT_BYTES : self->options.tile_bytes;
  if (is_long)
    close_fill (self);
  for (gsize done = 0; done < run->n_bytes; done += step)
    {
      gsize n_bytes = MIN (step, run->n_bytes - done);

      if (is_long)
        {
          Task *part = g_memdup2 (run, sizeof *run);

          part->source = weft_file_ref (run->source);
          part->offset += done;
          part->source_offset += done;
          part->n_bytes = n_bytes;
          submit (self, part);
        }
      else
        {
          Segment segment = { .n_bytes = n_bytes,
                              .file = weft_file_ref (run->source),
                              .offset = run->source_offset + done };
          const WeftTransfer *first = &self->transfers[run->first_transfer];
          guint64 at =
              run->fd >= 0 ? run->offset - first->offset : (guint64) (run->memory - (guint8 *) first->memory);

          add_segment (self, run->first_transfer, at + done, segment, FALSE);
          self->fill->last_transfer = run->last_transfer;
        }
    }
  task_free (run);
}

static void
add_run (Execution *self, gsize transfer, guint64 at, const WeftPiece *piece, gsize n_bytes)
{
  const WeftTransfer *destination = &self->transfers[transfer];
  WeftFile *file = piece->base->file.file;
  guint64 offset =
      piece->base->file.offset + (guint64) piece->source * weft_dtype_get_unit_bytes (piece->base->dtype);
  Task *run = self->run;

  if (run != NULL && run->source == file && run->source_offset + run->n_bytes == offset
      && continues (run, destination, at))
    {
      run->n_bytes += n_bytes;
      run->last_transfer = transfer;
      return;
    }
  close_run (self);
  self->run = task_new (TASK_COPY, transfer, destination, at, n_bytes);
  self->run->source = weft_file_ref (file);
  self->run->source_offset = offset;
}

/* Collects the parts of pieces that a cut gives. */
typedef struct
{
  GArray *segments;
  gint64 start;
  gsize unit_bytes;
} Collector;

static gboolean
collect_segment (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Collector *collector = user_data;
  Segment segment = { .at = (gsize) (piece->destination - collector->start) * collector->unit_bytes,
                      .piece = g_memdup2 (piece, sizeof *piece) };

  weft_base_ref (piece->base);
  g_array_append_val (collector->segments, segment);
  return TRUE;
}

/* Makes a task of its own for [start, start + length) units of a tensor, out of the pieces [first, last). */
static gboolean
add_tile (Execution *self, gsize transfer, guint first, guint last, gint64 start, gint64 length,
          GError **error)
{
  const WeftTransfer *destination = &self->transfers[transfer];
  gsize unit_bytes = weft_dtype_get_unit_bytes (destination->tensor->dtype);
  Task *task =
      task_new (TASK_FILL, transfer, destination, (guint64) start * unit_bytes, (gsize) length * unit_bytes);
  Collector collector = { NULL, start, unit_bytes };

  task->segments = g_array_new (FALSE, FALSE, sizeof (Segment));
  g_array_set_clear_func (task->segments, segment_clear);
  collector.segments = task->segments;
  for (guint i = first; i < last; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&destination->tensor->layout, i, &piece);
      if (piece.destination >= start + length || weft_piece_get_last (&piece) < start)
        continue;
      task->needs_owner |= piece.base->needs_owner;
      if (!weft_piece_cut (&piece, G_MAXINT64, start, length, "evaluation", collect_segment, &collector,
                           error))
        {
          task_free (task);
          return FALSE;
        }
    }
  submit (self, task);
  return TRUE;
}

static gboolean
add_tiles (Execution *self, gsize transfer, guint first, guint last, gint64 start, gint64 length,
           GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (self->transfers[transfer].tensor->dtype);
  gint64 step = MAX (1, (gint64) (self->options.tile_bytes / unit_bytes));

  for (gint64 done = 0; done < length; done += step)
    if (!add_tile (self, transfer, first, last, start + done, MIN (step, length - done), error))
      return FALSE;
  return TRUE;
}

static guint
find_furthest_loop (const WeftPiece *piece, gboolean in_source)
{
  guint found = 0;

  for (guint i = 1; i < piece->n_loops; i++)
    if (in_source ? piece->loops[i].source > piece->loops[found].source
                  : piece->loops[i].destination > piece->loops[found].destination)
      found = i;
  return found;
}

/* Cuts @piece into groups of rounds of one loop and gives each to @func. */
static gboolean
for_each_rounds (const WeftPiece *piece, guint loop, gint64 n_rounds, WeftPieceFunc func, gpointer user_data,
                 GError **error)
{
  gint64 extent = piece->loops[loop].extent;

  n_rounds = CLAMP (n_rounds, 1, extent);
  for (gint64 i = 0; i < extent; i += n_rounds)
    {
      WeftPiece part = *piece;

      part.destination += i * piece->loops[loop].destination;
      part.source += i * piece->loops[loop].source;
      part.loops[loop].extent = MIN (n_rounds, extent - i);
      if (!func (&part, user_data, error))
        return FALSE;
    }
  return TRUE;
}

typedef struct
{
  Execution *execution;
  gsize transfer;
  Window *window;
  guint8 *origin;
  gint64 destination;
} Scattering;

static gboolean
scatter_band (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Scattering *scattering = user_data;
  Execution *self = scattering->execution;
  const WeftTransfer *destination = &self->transfers[scattering->transfer];
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  Task *task = task_new (TASK_SCATTER, scattering->transfer, destination, 0,
                         (gsize) weft_piece_count (piece) * unit_bytes);

  task->piece = *piece;
  weft_piece_normalise (&task->piece);
  weft_base_ref (piece->base);
  task->needs_owner = piece->base->needs_owner;
  task->origin = scattering->origin + (gsize) (piece->destination - scattering->destination) * unit_bytes;
  if (scattering->window != NULL)
    {
      g_atomic_ref_count_inc (&scattering->window->ref_count);
      task->window = scattering->window;
    }
  submit (self, task);
  return TRUE;
}

/* Scatters a piece whose order differs between source and destination: the output is mapped window by window, and
 * bands of the source, each read once and in order, are spread over the window. */
static gboolean
scatter_piece (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Scattering *scattering = user_data;
  Execution *self = scattering->execution;
  const WeftTransfer *destination = &self->transfers[scattering->transfer];
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  gsize span = (gsize) (weft_piece_get_last (piece) - piece->destination + 1) * unit_bytes;
  guint64 at = (guint64) piece->destination * unit_bytes;
  gboolean ok;

  if (span > WINDOW_BYTES && piece->n_loops > 0)
    {
      guint outer = find_furthest_loop (piece, FALSE);
      gint64 rounds = (gint64) (WINDOW_BYTES / unit_bytes) / piece->loops[outer].destination;

      if (piece->loops[outer].extent > 1)
        {
          WeftPiece normal = *piece;

          weft_piece_normalise (&normal);
          return for_each_rounds (&normal, find_furthest_loop (&normal, FALSE),
                                  MIN (rounds, normal.loops[0].extent - 1), scatter_piece, scattering, error);
        }
    }
  scattering->destination = piece->destination;
  scattering->window = NULL;
  if (destination->fd >= 0)
    {
      scattering->window =
          window_new (destination->fd, destination->offset + at, span, &scattering->origin, error);
      if (scattering->window == NULL)
        return FALSE;
    }
  else
    scattering->origin = (guint8 *) destination->memory + at;
  if (piece->n_loops == 0)
    ok = scatter_band (piece, scattering, error);
  else
    {
      guint outer = find_furthest_loop (piece, TRUE);
      gint64 per_round = MAX (1, weft_piece_count (piece) / piece->loops[outer].extent);
      gint64 rounds = (gint64) (self->options.tile_bytes / unit_bytes) / per_round;

      ok = for_each_rounds (piece, outer, rounds, scatter_band, scattering, error);
    }
  g_clear_pointer (&scattering->window, window_unref);
  return ok;
}

static gboolean
is_destination_run (const WeftPiece *piece)
{
  return weft_piece_get_last (piece) - piece->destination + 1 == weft_piece_count (piece);
}

/* Whether walking the destination in order jumps to and fro in the source, in short runs. */
static gboolean
is_out_of_order (const WeftPiece *piece, gsize unit_bytes)
{
  const WeftLoop *inner = &piece->loops[piece->n_loops - 1];

  if (piece->n_loops < 2
      || (inner->destination == 1 && inner->source == 1
          && (gsize) inner->extent * unit_bytes >= WEFT_HOLE_BYTES))
    return FALSE;
  for (guint i = 1; i < piece->n_loops; i++)
    if (piece->loops[i].source > piece->loops[i - 1].source)
      return TRUE;
  return FALSE;
}

static gboolean
add_piece (Execution *self, gsize transfer, guint position, GError **error)
{
  WeftTensor *tensor = self->transfers[transfer].tensor;
  gsize unit_bytes = weft_dtype_get_unit_bytes (tensor->dtype);
  Scattering scattering = { .execution = self, .transfer = transfer };
  WeftPiece piece;
  gsize n_bytes;
  guint64 at;

  weft_layout_get_piece (&tensor->layout, position, &piece);
  n_bytes = (gsize) weft_piece_count (&piece) * unit_bytes;
  at = (guint64) piece.destination * unit_bytes;
  if (piece.base->kind == WEFT_BASE_FILE && is_destination_run (&piece) && piece.n_loops <= 1
      && (piece.n_loops == 0 || piece.loops[0].source == 1))
    {
      add_run (self, transfer, at, &piece, n_bytes);
      return TRUE;
    }
  close_run (self);
  if (n_bytes > self->options.tile_bytes && is_out_of_order (&piece, unit_bytes))
    {
      close_fill (self);
      return scatter_piece (&piece, &scattering, error);
    }
  if (!is_destination_run (&piece))
    {
      close_fill (self);
      return scatter_piece (&piece, &scattering, error);
    }
  if (n_bytes > self->options.tile_bytes)
    {
      close_fill (self);
      return add_tiles (self, transfer, position, position + 1, piece.destination, weft_piece_count (&piece),
                        error);
    }
  add_segment (self, transfer, at, (Segment){ .n_bytes = n_bytes, .piece = g_memdup2 (&piece, sizeof piece) },
               piece.base->needs_owner);
  weft_base_ref (piece.base);
  return TRUE;
}

/* Chooses how a tensor is cut into tasks. Pieces that are runs of the destination stand for themselves; interleaved
 * ones share tiles of the whole tensor, unless their order makes scattering the better way. */
static gboolean
add_transfer (Execution *self, gsize transfer, GError **error)
{
  WeftTensor *tensor = self->transfers[transfer].tensor;
  gsize unit_bytes = weft_dtype_get_unit_bytes (tensor->dtype);
  guint64 n_bytes = weft_tensor_get_n_bytes (tensor);
  gboolean is_interleaved = FALSE, is_scattered = FALSE;

  for (guint i = 0; i < tensor->layout.n_pieces; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&tensor->layout, i, &piece);
      if (is_destination_run (&piece))
        continue;
      is_interleaved = TRUE;
      is_scattered |= is_out_of_order (&piece, unit_bytes);
    }
  if (is_interleaved && (!is_scattered || n_bytes <= self->options.tile_bytes))
    {
      close_run (self);
      close_fill (self);
      return add_tiles (self, transfer, 0, tensor->layout.n_pieces, 0, (gint64) (n_bytes / unit_bytes),
                        error);
    }
  for (guint i = 0; i < tensor->layout.n_pieces; i++)
    if (!add_piece (self, transfer, i, error))
      return FALSE;
  return TRUE;
}

/* Gives up the hold on transfers that no open task will touch again. */
static void
release_transfers (Execution *self, gsize n_cut)
{
  if (self->run != NULL)
    n_cut = MIN (n_cut, self->run->first_transfer);
  if (self->fill != NULL)
    n_cut = MIN (n_cut, self->fill->first_transfer);
  for (; self->n_released < n_cut; self->n_released++)
    finish_transfers (self, self->n_released, self->n_released);
}

static gboolean
execution_start (Execution *self, GError **error)
{
  self->idle = g_async_queue_new_full (worker_free);
  self->outcomes = g_async_queue_new ();
  self->worker = worker_new (&self->options);
  self->n_pending = g_new (guint32, MAX (self->n_transfers, 1));
  for (gsize i = 0; i < self->n_transfers; i++)
    {
      self->n_pending[i] = 1;
      self->n_bytes_total += weft_tensor_get_n_bytes (self->transfers[i].tensor);
    }
  if (self->options.n_threads == 0)
    return TRUE;
  for (guint i = 0; i < self->options.n_threads; i++)
    g_async_queue_push (self->idle, worker_new (&self->options));
  self->pool = g_thread_pool_new (run_on_pool, self, (gint) self->options.n_threads, FALSE, error);
  return self->pool != NULL;
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
  Worker *worker;

  g_clear_pointer (&self->run, task_free);
  g_clear_pointer (&self->fill, task_free);
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
          worker_free (worker);
        }
    }
  worker_free (self->worker);
  g_async_queue_unref (self->idle);
  g_async_queue_unref (self->outcomes);
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
  gboolean ok;

  if (options != NULL)
    memcpy (&execution.options, options, MIN (options->struct_size, sizeof *options));
  else
    execution.options.n_threads = weft_transfer_get_default_n_threads ();
  if (execution.options.tile_bytes == 0)
    execution.options.tile_bytes = DEFAULT_TILE_BYTES;
  execution.options.tile_bytes = CLAMP (execution.options.tile_bytes, 4096, G_MAXINT32);
  ok = execution_start (&execution, &execution.error);
  for (gsize i = 0; ok && execution.error == NULL && i < n_transfers; i++)
    {
      ok = add_transfer (&execution, i, &execution.error);
      release_transfers (&execution, i + 1);
    }
  if (ok && execution.error == NULL)
    {
      close_run (&execution);
      close_fill (&execution);
      release_transfers (&execution, n_transfers);
    }
  execution_stop (&execution, counters);
  if (execution.error != NULL)
    g_propagate_error (error, execution.error);
  return execution.error == NULL;
}
