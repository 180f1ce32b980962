/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-transfer.h"

#include "tensor/weft-copy-private.h"
#include "tensor/weft-file-private.h"
#include "tensor/weft-reader-private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

/* Extents of one file that stay together go through the kernel, without a buffer of ours. */
#define MIN_EXTENT_BYTES (256 * 1024)
#define MAX_EXTENT_BYTES (32 * 1024 * 1024)
#define PAGE_BYTES 4096
#define DEFAULT_TILE_BYTES (2 * 1024 * 1024)
/* A block of a piece whose order differs between source and destination, and the run on either side below which a system
 * call costs more than the bytes it moves. */
#define MAX_BLOCK_BYTES (16 * 1024 * 1024)
/* What the blocks of all threads take together. */
#define ALL_BLOCKS_BYTES (32 * 1024 * 1024)
#define MIN_RUN_BYTES (4 * 1024)

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
  TASK_BLOCK,
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
  /* Of a block: destinations count from the start of the tensor. */
  WeftPiece piece;
  gboolean is_cut_in_source;
  gboolean needs_owner;
  /* Transfers that this task helps to fill. */
  gsize first_transfer;
  gsize last_transfer;
} Task;

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
  g_clear_pointer (&self->piece.base, weft_base_unref);
  g_free (self);
}

/* A file system writes one stretch of a file at a time and lets others spin until it is done; waiting asleep leaves the
 * processor to whoever gathers the next stretch. */
static GMutex write_mutex;

static gboolean
write_all (gint fd, guint64 offset, const guint8 *bytes, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gssize n;

      g_mutex_lock (&write_mutex);
      n = pwrite (fd, bytes, n_bytes, (off_t) offset);
      g_mutex_unlock (&write_mutex);
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
      gssize n;

      g_mutex_lock (&write_mutex);
      n = copy_file_range (weft_file_get_fd (task->source), &from, task->fd, &to, task->n_bytes - done, 0);
      g_mutex_unlock (&write_mutex);
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

/* What a thread keeps from task to task. */
typedef struct
{
  WeftReader reader;
  guint8 *buffer;
  gsize buffer_bytes;
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
  g_aligned_free (self->buffer);
  g_free (self);
}

/* A buffer that lies in its page as the bytes at @offset lie in theirs: copies between pages that are shifted against each
 * other run several times slower on processors that copy by string instructions. */
static guint8 *
worker_ensure_buffer (Worker *self, gsize n_bytes, guint64 offset)
{
  if (self->buffer_bytes < n_bytes)
    {
      g_aligned_free (self->buffer);
      self->buffer = g_aligned_alloc (1, n_bytes + 2 * PAGE_BYTES, PAGE_BYTES);
      self->buffer_bytes = n_bytes;
    }
  return self->buffer + offset % PAGE_BYTES;
}

/* Gives a block dense addresses in the order of its destination. Returns its number of bytes, and that of the runs that
 * are dense in the destination too. */
static gsize
pack_block (const WeftPiece *piece, gsize unit_bytes, WeftPiece *packed, gsize *run_bytes)
{
  gint64 count = 1;
  gint64 run = 1;

  *packed = *piece;
  packed->destination = 0;
  for (guint i = piece->n_loops; i-- > 0;)
    {
      if (piece->loops[i].destination == run)
        run *= piece->loops[i].extent;
      packed->loops[i].destination = count;
      count *= piece->loops[i].extent;
    }
  *run_bytes = (gsize) run * unit_bytes;
  return (gsize) count * unit_bytes;
}

/* Writes the runs of a packed block to where the loops of @piece put them. */
static gboolean
write_runs (Task *task, const WeftPiece *piece, gsize unit_bytes, gsize run_bytes, const guint8 *buffer,
            gsize n_bytes, GError **error)
{
  gint64 index[WEFT_MAX_LOOPS] = { 0 };
  gint64 run = 1;
  guint n_outer = piece->n_loops;

  while (n_outer > 0 && piece->loops[n_outer - 1].destination == run)
    run *= piece->loops[--n_outer].extent;
  for (gsize done = 0; done < n_bytes; done += run_bytes)
    {
      gint64 address = piece->destination;

      for (guint i = 0; i < n_outer; i++)
        address += index[i] * piece->loops[i].destination;
      if (!write_all (task->fd, task->offset + (guint64) address * unit_bytes, buffer + done, run_bytes,
                      error))
        return FALSE;
      for (guint i = n_outer; i-- > 0 && ++index[i] == piece->loops[i].extent;)
        index[i] = 0;
    }
  return TRUE;
}

/* A block of a piece whose order differs: gathered dense and in the order of the destination, then written run by run. */
static gboolean
run_block (Task *task, Worker *worker, GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (task->piece.base->dtype);
  WeftPiece packed;
  gsize run_bytes;
  gsize n_bytes = pack_block (&task->piece, unit_bytes, &packed, &run_bytes);
  guint64 offset = task->offset + (guint64) task->piece.destination * unit_bytes;
  guint8 *buffer = task->memory == NULL ? worker_ensure_buffer (worker, n_bytes, offset) : NULL;
  gboolean ok;

  /* What lies between the runs of a cut row belongs to other blocks, and is not read twice. */
  worker->reader.hole_bytes = task->is_cut_in_source ? 0 : WEFT_HOLE_BYTES;
  ok = weft_reader_fill (
           &worker->reader, task->memory != NULL ? &task->piece : &packed,
           task->memory != NULL ? task->memory + (gsize) task->piece.destination * unit_bytes : buffer, error)
       && weft_reader_flush (&worker->reader, error);
  worker->reader.hole_bytes = WEFT_HOLE_BYTES;
  return ok
         && (task->memory != NULL
             || write_runs (task, &task->piece, unit_bytes, run_bytes, buffer, n_bytes, error));
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
  gsize block_bytes;
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
  if (task->kind == TASK_BLOCK)
    return run_block (task, worker, error);
  return run_fill (task, &worker->reader,
                   task->memory == NULL ? worker_ensure_buffer (
                       worker, MAX (task->n_bytes, self->options.tile_bytes), task->offset)
                                        : NULL,
                   error);
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

/* How a piece is cut into blocks: for each loop how many rounds a block takes. */
typedef struct
{
  gint64 rounds[WEFT_MAX_LOOPS];
  gint64 n_units;
  gint64 limit;
} BlockShape;

/* Lets a block take up to @wanted rounds of a loop, as far as there is room. */
static void
block_shape_grow (BlockShape *self, const WeftPiece *piece, guint loop, gint64 wanted)
{
  gint64 others = self->n_units / self->rounds[loop];
  gint64 rounds = CLAMP (wanted, self->rounds[loop], piece->loops[loop].extent);

  rounds = MAX (self->rounds[loop], MIN (rounds, self->limit / others));
  self->rounds[loop] = rounds;
  self->n_units = others * rounds;
}

/* Both sides first get runs that are worth a system call, then the source its whole rows, then the destination, then all
 * other loops, those that move least first. */
static void
choose_block (const WeftPiece *piece, gsize unit_bytes, gsize block_bytes, BlockShape *shape)
{
  guint in_source = 0;
  guint in_destination = piece->n_loops - 1;
  gint64 run = (gint64) (MIN_RUN_BYTES / unit_bytes);

  shape->n_units = 1;
  shape->limit = (gint64) (block_bytes / unit_bytes);
  for (guint i = 0; i < piece->n_loops; i++)
    {
      shape->rounds[i] = 1;
      if (piece->loops[i].source < piece->loops[in_source].source)
        in_source = i;
    }
  block_shape_grow (shape, piece, in_source, run);
  block_shape_grow (shape, piece, in_destination, run);
  block_shape_grow (shape, piece, in_source, G_MAXINT64);
  for (guint i = piece->n_loops; i-- > 0;)
    block_shape_grow (shape, piece, i, G_MAXINT64);
}

/* Makes tasks of the blocks of a piece whose order differs between source and destination. */
static void
add_blocks (Execution *self, gsize transfer, const WeftPiece *piece)
{
  const WeftTransfer *destination = &self->transfers[transfer];
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  gint64 start[WEFT_MAX_LOOPS] = { 0 };
  BlockShape shape;
  guint in_source = 0;
  gboolean is_done = FALSE;

  choose_block (piece, unit_bytes, self->block_bytes, &shape);
  for (guint i = 1; i < piece->n_loops; i++)
    if (piece->loops[i].source < piece->loops[in_source].source)
      in_source = i;
  while (!is_done && self->error == NULL)
    {
      Task *task = task_new (TASK_BLOCK, transfer, destination, 0, 0);
      gint64 count = 1;

      task->piece = *piece;
      weft_base_ref (piece->base);
      task->needs_owner = piece->base->needs_owner;
      task->is_cut_in_source = shape.rounds[in_source] < piece->loops[in_source].extent;
      for (guint i = 0; i < piece->n_loops; i++)
        {
          WeftLoop *loop = &task->piece.loops[i];

          loop->extent = MIN (shape.rounds[i], loop->extent - start[i]);
          task->piece.destination += start[i] * loop->destination;
          task->piece.source += start[i] * loop->source;
          count *= loop->extent;
        }
      task->n_bytes = (gsize) count * unit_bytes;
      submit (self, task);
      is_done = TRUE;
      for (guint i = piece->n_loops; is_done && i-- > 0;)
        {
          start[i] += shape.rounds[i];
          is_done = start[i] >= piece->loops[i].extent;
          if (is_done)
            start[i] = 0;
        }
    }
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
  if (!is_destination_run (&piece)
      || (n_bytes > self->options.tile_bytes && is_out_of_order (&piece, unit_bytes)))
    {
      close_fill (self);
      add_blocks (self, transfer, &piece);
      return TRUE;
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

/* A stretch of a tensor that whole pieces fill. */
typedef struct
{
  gint64 start;
  gint64 end;
} Island;

static gint
compare_islands (gconstpointer a, gconstpointer b)
{
  gint64 start_a = ((const Island *) a)->start;
  gint64 start_b = ((const Island *) b)->start;

  return (start_a > start_b) - (start_a < start_b);
}

/* The stretches of a tensor whose pieces mesh, in order; small neighbours are joined up to @join units. */
static GArray *
find_islands (WeftTensor *tensor, gint64 join)
{
  GArray *islands = g_array_new (FALSE, FALSE, sizeof (Island));
  guint n = 0;

  for (guint i = 0; i < tensor->layout.n_pieces; i++)
    {
      WeftPiece piece;
      Island island;

      weft_layout_get_piece (&tensor->layout, i, &piece);
      island = (Island){ piece.destination, weft_piece_get_last (&piece) + 1 };
      g_array_append_val (islands, island);
    }
  g_array_sort (islands, compare_islands);
  for (guint i = 1; i < islands->len; i++)
    {
      Island *last = &g_array_index (islands, Island, n);
      const Island *next = &g_array_index (islands, Island, i);

      if (next->start < last->end || next->end - last->start <= join)
        last->end = MAX (last->end, next->end);
      else
        g_array_index (islands, Island, ++n) = *next;
    }
  g_array_set_size (islands, n + 1);
  return islands;
}

/* A tensor of pieces that mesh and whose order differs from that of their sources, such as joined transposes: a stretch
 * that fits a block is gathered whole and written in one go. FALSE in @is_done if one does not fit. */
static gboolean
add_islands (Execution *self, gsize transfer, gboolean *is_done, GError **error)
{
  WeftTensor *tensor = self->transfers[transfer].tensor;
  gsize unit_bytes = weft_dtype_get_unit_bytes (tensor->dtype);
  g_autoptr (GArray) islands = find_islands (tensor, (gint64) (self->options.tile_bytes / unit_bytes));

  *is_done = TRUE;
  for (guint i = 0; *is_done && i < islands->len; i++)
    {
      const Island *island = &g_array_index (islands, Island, i);

      *is_done = (gsize) (island->end - island->start) * unit_bytes <= self->block_bytes;
    }
  for (guint i = 0; *is_done && i < islands->len; i++)
    {
      const Island *island = &g_array_index (islands, Island, i);

      if (!add_tile (self, transfer, 0, tensor->layout.n_pieces, island->start, island->end - island->start,
                     error))
        return FALSE;
    }
  return TRUE;
}

/* Chooses how a tensor is cut into tasks. Pieces that are runs of the destination stand for themselves; interleaved
 * ones share tiles of the whole tensor, unless their order makes blocks the better way. */
static gboolean
add_transfer (Execution *self, gsize transfer, GError **error)
{
  WeftTensor *tensor = self->transfers[transfer].tensor;
  gsize unit_bytes = weft_dtype_get_unit_bytes (tensor->dtype);
  guint64 n_bytes = weft_tensor_get_n_bytes (tensor);
  gboolean is_interleaved = FALSE, is_out = FALSE;

  for (guint i = 0; i < tensor->layout.n_pieces; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&tensor->layout, i, &piece);
      if (is_destination_run (&piece))
        continue;
      is_interleaved = TRUE;
      is_out |= is_out_of_order (&piece, unit_bytes);
    }
  if (is_interleaved && (!is_out || n_bytes <= self->options.tile_bytes))
    {
      close_run (self);
      close_fill (self);
      return add_tiles (self, transfer, 0, tensor->layout.n_pieces, 0, (gint64) (n_bytes / unit_bytes),
                        error);
    }
  if (is_interleaved)
    {
      gboolean is_done;

      close_run (self);
      close_fill (self);
      if (!add_islands (self, transfer, &is_done, error))
        return FALSE;
      if (is_done)
        return TRUE;
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
  execution.block_bytes = MIN (MAX_BLOCK_BYTES, 8 * execution.options.tile_bytes);
  execution.block_bytes =
      MIN (execution.block_bytes, ALL_BLOCKS_BYTES / MAX (1, execution.options.n_threads));
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
