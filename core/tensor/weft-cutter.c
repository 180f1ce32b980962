/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-cutter-private.h"

#include <string.h>

/* Extents of one file that stay together go through the kernel, without a buffer of ours. */
#define MIN_EXTENT_BYTES (256 * 1024)
#define MAX_EXTENT_BYTES (32 * 1024 * 1024)
/* A block of a piece whose order differs between source and destination, and the run on either side below which a system
 * call costs more than the bytes it moves. */
#define MAX_BLOCK_BYTES (16 * 1024 * 1024)
/* What the blocks of all threads take together. */
#define ALL_BLOCKS_BYTES (32 * 1024 * 1024)
#define MIN_RUN_BYTES (4 * 1024)

void
weft_cutter_init (WeftCutter *self, const WeftTransfer *transfers, gsize tile_bytes, guint n_threads)
{
  gsize block_bytes = MIN (MAX_BLOCK_BYTES, ALL_BLOCKS_BYTES / MAX (1, n_threads));

  *self = (WeftCutter){ .transfers = transfers,
                        .tile_bytes = tile_bytes,
                        .block_bytes = MIN (block_bytes, 8 * tile_bytes) };
}

void
weft_cutter_clear (WeftCutter *self)
{
  g_clear_pointer (&self->run, weft_task_free);
  g_clear_pointer (&self->fill, weft_task_free);
}

/* Whether @n_bytes at @at of a destination continue a task. */
static gboolean
continues (const WeftTask *task, const WeftTransfer *destination, guint64 at)
{
  if (task->fd != destination->fd)
    return FALSE;
  return task->fd >= 0 ? task->offset + task->n_bytes == destination->offset + at
                       : task->memory + task->n_bytes == (guint8 *) destination->memory + at;
}

static void
close_fill (WeftCutter *self)
{
  if (self->fill != NULL)
    self->emit (g_steal_pointer (&self->fill), self->emit_data);
}

/* Adds a part to the tile that is being gathered, or begins another. Takes what @segment holds. */
static void
add_segment (WeftCutter *self, gsize transfer, guint64 at, WeftSegment segment, gboolean needs_owner)
{
  const WeftTransfer *destination = &self->transfers[transfer];

  if (self->fill != NULL
      && (!continues (self->fill, destination, at) || self->fill->needs_owner != needs_owner
          || self->fill->n_bytes + segment.n_bytes > self->tile_bytes))
    close_fill (self);
  if (self->fill == NULL)
    {
      self->fill = weft_task_new (WEFT_TASK_FILL, transfer, destination, at, 0);
      self->fill->needs_owner = needs_owner;
      self->fill->segments = g_array_new (FALSE, FALSE, sizeof (WeftSegment));
      g_array_set_clear_func (self->fill->segments, weft_segment_clear);
    }
  segment.at = self->fill->n_bytes;
  segment.transfer = transfer;
  g_array_append_val (self->fill->segments, segment);
  self->fill->n_bytes += segment.n_bytes;
  self->fill->last_transfer = transfer;
}

/* An extent has grown as far as it goes: a long one goes through the kernel, a short one into tiles. */
static void
close_run (WeftCutter *self)
{
  WeftTask *run = g_steal_pointer (&self->run);
  gboolean is_long;
  gsize step;

  if (run == NULL)
    return;
  is_long = run->fd >= 0 && run->n_bytes >= MIN_EXTENT_BYTES;
  step = is_long ? MAX_EXTENT_BYTES : self->tile_bytes;
  if (is_long)
    close_fill (self);
  for (gsize done = 0; done < run->n_bytes; done += step)
    {
      gsize n_bytes = MIN (step, run->n_bytes - done);

      if (is_long)
        {
          WeftTask *part = g_memdup2 (run, sizeof *run);

          part->source = weft_file_ref (run->source);
          part->offset += done;
          part->source_offset += done;
          part->n_bytes = n_bytes;
          self->emit (part, self->emit_data);
        }
      else
        {
          WeftSegment segment = { .n_bytes = n_bytes,
                                  .file = weft_file_ref (run->source),
                                  .offset = run->source_offset + done };
          const WeftTransfer *first = &self->transfers[run->first_transfer];
          guint64 at =
              run->fd >= 0 ? run->offset - first->offset : (guint64) (run->memory - (guint8 *) first->memory);

          add_segment (self, run->first_transfer, at + done, segment, FALSE);
          self->fill->last_transfer = run->last_transfer;
        }
    }
  weft_task_free (run);
}

static void
add_run (WeftCutter *self, gsize transfer, guint64 at, const WeftPiece *piece, gsize n_bytes)
{
  const WeftTransfer *destination = &self->transfers[transfer];
  WeftFile *file = piece->base->file.file;
  guint64 offset =
      piece->base->file.offset + (guint64) piece->source * weft_dtype_get_unit_bytes (piece->base->dtype);
  WeftTask *run = self->run;

  if (run != NULL && run->source == file && run->source_offset + run->n_bytes == offset
      && continues (run, destination, at))
    {
      run->n_bytes += n_bytes;
      run->last_transfer = transfer;
      return;
    }
  close_run (self);
  self->run = weft_task_new (WEFT_TASK_COPY, transfer, destination, at, n_bytes);
  self->run->source = weft_file_ref (file);
  self->run->source_offset = offset;
}

/* Collects the parts of pieces that a cut gives. */
typedef struct
{
  GArray *segments;
  gsize transfer;
  gint64 start;
  gsize unit_bytes;
} Collector;

static gboolean
collect_segment (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Collector *collector = user_data;
  WeftSegment segment = { .at = (gsize) (piece->destination - collector->start) * collector->unit_bytes,
                          .transfer = collector->transfer,
                          .piece = g_memdup2 (piece, sizeof *piece) };

  weft_base_ref (piece->base);
  g_array_append_val (collector->segments, segment);
  return TRUE;
}

/* Makes a task of its own for [start, start + length) units of a tensor, out of the pieces that lie there. */
static gboolean
add_tile (WeftCutter *self, gsize transfer, gint64 start, gint64 length, GError **error)
{
  const WeftTransfer *destination = &self->transfers[transfer];
  gsize unit_bytes = weft_dtype_get_unit_bytes (destination->tensor->dtype);
  WeftTask *task = weft_task_new (WEFT_TASK_FILL, transfer, destination, (guint64) start * unit_bytes,
                                  (gsize) length * unit_bytes);
  Collector collector = { NULL, transfer, start, unit_bytes };
  guint first, last;

  weft_layout_find_pieces (&destination->tensor->layout, start, start + length, &first, &last);
  task->segments = g_array_new (FALSE, FALSE, sizeof (WeftSegment));
  g_array_set_clear_func (task->segments, weft_segment_clear);
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
          weft_task_free (task);
          return FALSE;
        }
    }
  self->emit (task, self->emit_data);
  return TRUE;
}

static gboolean
add_tiles (WeftCutter *self, gsize transfer, gint64 start, gint64 length, GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (self->transfers[transfer].tensor->dtype);
  gint64 step = MAX (1, (gint64) (self->tile_bytes / unit_bytes));

  for (gint64 done = 0; done < length && !self->is_stopped; done += step)
    if (!add_tile (self, transfer, start + done, MIN (step, length - done), error))
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
add_blocks (WeftCutter *self, gsize transfer, const WeftPiece *piece)
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
  while (!is_done && !self->is_stopped)
    {
      WeftTask *task = weft_task_new (WEFT_TASK_BLOCK, transfer, destination, 0, 0);
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
      self->emit (task, self->emit_data);
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
add_piece (WeftCutter *self, gsize transfer, guint position, GError **error)
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
  if (!is_destination_run (&piece) || (n_bytes > self->tile_bytes && is_out_of_order (&piece, unit_bytes)))
    {
      close_fill (self);
      add_blocks (self, transfer, &piece);
      return TRUE;
    }
  if (n_bytes > self->tile_bytes)
    {
      close_fill (self);
      return add_tiles (self, transfer, piece.destination, weft_piece_count (&piece), error);
    }
  add_segment (self, transfer, at,
               (WeftSegment){ .n_bytes = n_bytes, .piece = g_memdup2 (&piece, sizeof piece) },
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
add_islands (WeftCutter *self, gsize transfer, gboolean *is_done, GError **error)
{
  WeftTensor *tensor = self->transfers[transfer].tensor;
  gsize unit_bytes = weft_dtype_get_unit_bytes (tensor->dtype);
  g_autoptr (GArray) islands = find_islands (tensor, (gint64) (self->tile_bytes / unit_bytes));

  *is_done = TRUE;
  for (guint i = 0; *is_done && i < islands->len; i++)
    {
      const Island *island = &g_array_index (islands, Island, i);

      *is_done = (gsize) (island->end - island->start) * unit_bytes <= self->block_bytes;
    }
  for (guint i = 0; *is_done && i < islands->len; i++)
    {
      const Island *island = &g_array_index (islands, Island, i);

      if (!add_tile (self, transfer, island->start, island->end - island->start, error))
        return FALSE;
    }
  return TRUE;
}

/* Chooses how a tensor is cut into tasks. Pieces that are runs of the destination stand for themselves; interleaved
 * ones share tiles of the whole tensor, unless their order makes blocks the better way. */
gboolean
weft_cutter_add (WeftCutter *self, gsize transfer, GError **error)
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
  if (is_interleaved && (!is_out || n_bytes <= self->tile_bytes))
    {
      close_run (self);
      close_fill (self);
      return add_tiles (self, transfer, 0, (gint64) (n_bytes / unit_bytes), error);
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

void
weft_cutter_finish (WeftCutter *self)
{
  close_run (self);
  close_fill (self);
}

gsize
weft_cutter_get_first_open (const WeftCutter *self, gsize n_cut)
{
  if (self->run != NULL)
    n_cut = MIN (n_cut, self->run->first_transfer);
  if (self->fill != NULL)
    n_cut = MIN (n_cut, self->fill->first_transfer);
  return n_cut;
}
