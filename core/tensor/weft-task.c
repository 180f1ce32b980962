/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-task-private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tensor/weft-copy-private.h"

#define PAGE_BYTES 4096
/* One write of more lets the kernel take its largest pages for the file, which on a virtual machine are the ones that the
 * host has taken back: each has to be given again, at several times the cost of the copy. */
#define MAX_WRITE_BYTES (1024 * 1024)

WeftTask *
weft_task_new (WeftTaskKind kind, gsize transfer, const WeftTransfer *destination, guint64 at, gsize n_bytes)
{
  WeftTask *self = g_new0 (WeftTask, 1);

  self->kind = kind;
  self->fd = destination->fd;
  self->offset = destination->offset + at;
  self->memory = destination->fd < 0 ? (guint8 *) destination->memory + at : NULL;
  self->n_bytes = n_bytes;
  self->first_transfer = self->last_transfer = self->current_transfer = transfer;
  return self;
}

void
weft_segment_clear (gpointer user_data)
{
  WeftSegment *segment = user_data;

  g_clear_pointer (&segment->file, weft_file_unref);
  if (segment->piece != NULL)
    {
      weft_base_unref (segment->piece->base);
      g_free (segment->piece);
    }
}

void
weft_task_free (WeftTask *self)
{
  g_clear_pointer (&self->source, weft_file_unref);
  g_clear_pointer (&self->segments, g_array_unref);
  g_clear_pointer (&self->piece.base, weft_base_unref);
  g_free (self);
}

/* A file system writes one stretch of a file at a time and lets others spin until it is done; waiting asleep leaves the
 * processor to whoever gathers the next stretch. Files that are open together have descriptors next to each other. */
static GMutex write_mutexes[16];

static GMutex *
get_write_mutex (gint fd)
{
  return &write_mutexes[(guint) fd % G_N_ELEMENTS (write_mutexes)];
}

static gboolean
write_all (gint fd, guint64 offset, const guint8 *bytes, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gssize n;
      gint reason;

      g_mutex_lock (get_write_mutex (fd));
      n = pwrite (fd, bytes, MIN (n_bytes, MAX_WRITE_BYTES), (off_t) offset);
      reason = errno;
      g_mutex_unlock (get_write_mutex (fd));
      errno = reason;
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
copy_by_buffer (WeftTask *task, gsize done, gsize limit, GError **error)
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

static gssize
copy_range (const WeftTask *task, off_t from, off_t to, gsize n_bytes)
{
  gssize n;
  gint reason;

  g_mutex_lock (get_write_mutex (task->fd));
  n = copy_file_range (weft_file_get_fd (task->source), &from, task->fd, &to, n_bytes, 0);
  reason = errno;
  g_mutex_unlock (get_write_mutex (task->fd));
  errno = reason;
  return n;
}

static gboolean
run_copy (WeftTask *task, WeftReader *reader, gsize tile_bytes, GError **error)
{
  gsize done = 0;

  while (done < task->n_bytes)
    {
      off_t from = (off_t) (task->source_offset + done);
      off_t to = (off_t) (task->offset + done);
      gssize n = copy_range (task, from, to, task->n_bytes - done);

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
run_fill (WeftTask *task, WeftReader *reader, guint8 *buffer, GError **error)
{
  guint8 *target = task->memory != NULL ? task->memory : buffer;

  for (guint i = 0; i < task->segments->len; i++)
    {
      const WeftSegment *segment = &g_array_index (task->segments, WeftSegment, i);

      task->current_transfer = segment->transfer;
      if (segment->piece == NULL)
        weft_reader_add_run (reader, segment->file, segment->offset, target + segment->at, segment->n_bytes);
      else if (!weft_reader_fill (reader, segment->piece, target + segment->at, error))
        return FALSE;
    }
  if (!weft_reader_flush (reader, error))
    return FALSE;
  return task->memory != NULL || write_all (task->fd, task->offset, buffer, task->n_bytes, error);
}

WeftWorker *
weft_worker_new (gsize tile_bytes)
{
  WeftWorker *self = g_new0 (WeftWorker, 1);

  self->tile_bytes = tile_bytes;
  weft_reader_init (&self->reader, tile_bytes / 2);
  return self;
}

void
weft_worker_free (gpointer user_data)
{
  WeftWorker *self = user_data;

  weft_reader_clear (&self->reader);
  g_aligned_free (self->buffer);
  g_free (self);
}

/* A buffer that lies in its page as the bytes at @offset lie in theirs: copies between pages that are shifted against each
 * other run several times slower on processors that copy by string instructions. */
static guint8 *
worker_ensure_buffer (WeftWorker *self, gsize n_bytes, guint64 offset)
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
write_runs (WeftTask *task, const WeftPiece *piece, gsize unit_bytes, gsize run_bytes, const guint8 *buffer,
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
run_block (WeftTask *task, WeftWorker *worker, GError **error)
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

static gboolean
run_task (WeftWorker *self, WeftTask *task, GError **error)
{
  guint8 *buffer = NULL;

  if (task->kind == WEFT_TASK_COPY)
    return run_copy (task, &self->reader, self->tile_bytes, error);
  if (task->kind == WEFT_TASK_BLOCK)
    return run_block (task, self, error);
  if (task->memory == NULL)
    buffer = worker_ensure_buffer (self, MAX (task->n_bytes, self->tile_bytes), task->offset);
  return run_fill (task, &self->reader, buffer, error);
}

gboolean
weft_worker_run (WeftWorker *self, WeftTask *task, GCancellable *cancellable, GError **error)
{
  if (g_cancellable_is_cancelled (cancellable))
    {
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "cancelled");
      return FALSE;
    }
  if (run_task (self, task, error))
    return TRUE;
  weft_reader_forget (&self->reader);
  return FALSE;
}
