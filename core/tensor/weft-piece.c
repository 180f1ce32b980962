/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-piece-private.h"

#include <string.h>

static gint
compare_loops (gconstpointer a, gconstpointer b)
{
  const WeftLoop *loop_a = a;
  const WeftLoop *loop_b = b;

  return (loop_a->destination < loop_b->destination) - (loop_a->destination > loop_b->destination);
}

void
weft_piece_copy (WeftPiece *piece, const WeftPiece *original)
{
  memcpy (piece, original, G_STRUCT_OFFSET (WeftPiece, loops) + original->n_loops * sizeof (WeftLoop));
}

/* Sorts the loops and joins those that continue one another on both sides. */
void
weft_piece_normalise (WeftPiece *piece)
{
  guint n = 0;

  for (guint i = 0; i < piece->n_loops; i++)
    if (piece->loops[i].extent != 1)
      piece->loops[n++] = piece->loops[i];
  piece->n_loops = n;
  if (n < 2)
    return;
  /* Nests are short and mostly sorted: insertion sort. */
  for (guint i = 1; i < n; i++)
    {
      WeftLoop loop = piece->loops[i];
      guint j = i;

      for (; j > 0 && compare_loops (&piece->loops[j - 1], &loop) > 0; j--)
        piece->loops[j] = piece->loops[j - 1];
      piece->loops[j] = loop;
    }
  n = 0;
  for (guint i = 1; i < piece->n_loops; i++)
    {
      WeftLoop *outer = &piece->loops[n];
      const WeftLoop *inner = &piece->loops[i];

      if (outer->destination == inner->extent * inner->destination
          && outer->source == inner->extent * inner->source)
        *outer = (WeftLoop){ outer->extent * inner->extent, inner->destination, inner->source };
      else
        piece->loops[++n] = *inner;
    }
  piece->n_loops = n + 1;
}

/* Number of units that the piece holds. */
gint64
weft_piece_count (const WeftPiece *piece)
{
  gint64 count = 1;

  for (guint i = 0; i < piece->n_loops; i++)
    count *= piece->loops[i].extent;
  return count;
}

/* Highest destination address. */
gint64
weft_piece_get_last (const WeftPiece *piece)
{
  gint64 last = piece->destination;

  for (guint i = 0; i < piece->n_loops; i++)
    last += (piece->loops[i].extent - 1) * piece->loops[i].destination;
  return last;
}

/* Highest source address. */
gint64
weft_piece_get_last_source (const WeftPiece *piece)
{
  gint64 last = piece->source;

  for (guint i = 0; i < piece->n_loops; i++)
    last += (piece->loops[i].extent - 1) * piece->loops[i].source;
  return last;
}

/* Whether every element keeps its address. */
gboolean
weft_piece_is_identity (const WeftPiece *piece)
{
  if (piece->destination != piece->source)
    return FALSE;
  for (guint i = 0; i < piece->n_loops; i++)
    if (piece->loops[i].destination != piece->loops[i].source)
      return FALSE;
  return TRUE;
}

void
weft_piece_exchange (WeftPiece *piece)
{
  gint64 address = piece->destination;

  piece->destination = piece->source;
  piece->source = address;
  for (guint i = 0; i < piece->n_loops; i++)
    {
      gint64 stride = piece->loops[i].destination;

      piece->loops[i].destination = piece->loops[i].source;
      piece->loops[i].source = stride;
    }
}

void
weft_layout_clear (WeftLayout *self)
{
  for (guint i = 0; i < self->n_pieces; i++)
    weft_base_unref (self->pieces[i].base);
  if (!self->is_inside_tensor)
    {
      g_free (self->pieces);
      g_free (self->loops);
    }
}

void
weft_layout_get_piece (const WeftLayout *self, guint position, WeftPiece *piece)
{
  const WeftStoredPiece *stored = &self->pieces[position];

  piece->base = stored->base;
  piece->destination = stored->destination;
  piece->source = stored->source;
  piece->n_loops = stored->n_loops;
  for (guint i = 0; i < stored->n_loops; i++)
    piece->loops[i] = self->loops[stored->first_loop + i];
}

static gint64
stored_get_last (const WeftLayout *self, guint position)
{
  const WeftStoredPiece *stored = &self->pieces[position];
  gint64 last = stored->destination;

  for (guint i = 0; i < stored->n_loops; i++)
    last +=
        (self->loops[stored->first_loop + i].extent - 1) * self->loops[stored->first_loop + i].destination;
  return last;
}

/* The first position whose piece ends at @address or behind. */
static guint
find_end (const WeftLayout *self, gint64 address)
{
  guint low = 0, high = self->n_pieces;

  while (low < high)
    {
      guint middle = low + (high - low) / 2;

      if (stored_get_last (self, middle) < address)
        low = middle + 1;
      else
        high = middle;
    }
  return low;
}

void
weft_layout_find_pieces (const WeftLayout *self, gint64 start, gint64 stop, guint *first, guint *last)
{
  *first = self->is_sorted ? find_end (self, start) : 0;
  *last = self->is_sorted ? *first : self->n_pieces;
  while (*last < self->n_pieces && self->pieces[*last].destination < stop)
    ++*last;
}

static gboolean
are_pieces_sorted (const WeftLayout *self)
{
  for (guint i = 1; i < self->n_pieces; i++)
    if (stored_get_last (self, i - 1) >= self->pieces[i].destination)
      return FALSE;
  return TRUE;
}

void
weft_layout_builder_init (WeftLayoutBuilder *self, const gchar *operation)
{
  *self = (WeftLayoutBuilder){ .operation = operation };
}

void
weft_layout_builder_clear (WeftLayoutBuilder *self)
{
  weft_layout_clear (&self->layout);
}

/* Makes room for @n_more elements behind the @n that are there. */
static gpointer
reserve (gpointer elements, gsize element_bytes, guint n, guint n_more, guint *n_allocated)
{
  if (n + n_more <= *n_allocated)
    return elements;
  *n_allocated = MAX (n + n_more, 2 * *n_allocated);
  return g_realloc_n (elements, *n_allocated, element_bytes);
}

static void
append_piece (WeftLayoutBuilder *self, WeftBase *base)
{
  WeftLayout *layout = &self->layout;

  layout->pieces =
      reserve (layout->pieces, sizeof *layout->pieces, layout->n_pieces, 1, &self->n_pieces_allocated);
  layout->pieces[layout->n_pieces++].base = weft_base_ref (base);
}

static guint
append_loops (WeftLayoutBuilder *self, const WeftLoop *loops, guint n)
{
  WeftLayout *layout = &self->layout;
  guint first = layout->n_loops;

  layout->loops = reserve (layout->loops, sizeof *layout->loops, first, n, &self->n_loops_allocated);
  if (n > 0)
    memcpy (&layout->loops[first], loops, n * sizeof *loops);
  layout->n_loops += n;
  return first;
}

void
weft_layout_builder_copy (WeftLayoutBuilder *self, const WeftLayout *layout)
{
  append_loops (self, layout->loops, layout->n_loops);
  for (guint i = 0; i < layout->n_pieces; i++)
    {
      append_piece (self, layout->pieces[i].base);
      self->layout.pieces[i] = layout->pieces[i];
    }
}

static gboolean
loops_equal (const WeftLoop *a, const WeftLoop *b, guint n)
{
  return n == 0 || memcmp (a, b, n * sizeof *a) == 0;
}

static void
store_piece (WeftLayoutBuilder *self, guint position, const WeftPiece *piece)
{
  WeftStoredPiece *stored = &self->layout.pieces[position];
  const WeftStoredPiece *previous = position > 0 ? stored - 1 : NULL;

  stored->destination = piece->destination;
  stored->source = piece->source;
  stored->n_loops = piece->n_loops;
  if (previous != NULL && previous->n_loops == piece->n_loops
      && (piece->n_loops == 0
          || loops_equal (&self->layout.loops[previous->first_loop], piece->loops, piece->n_loops)))
    stored->first_loop = previous->first_loop;
  else
    stored->first_loop = append_loops (self, piece->loops, piece->n_loops);
}

/* @second prolongs one loop of @first: equal nests but for the extent of that loop. */
static gboolean
try_prolong (WeftPiece *first, const WeftPiece *second)
{
  gint64 destination = second->destination - first->destination;
  gint64 source = second->source - first->source;

  if (first->n_loops != second->n_loops)
    return FALSE;
  for (guint i = 0; i < first->n_loops; i++)
    {
      WeftLoop *loop = &first->loops[i];
      const WeftLoop *other = &second->loops[i];

      if (loop->destination != other->destination || loop->source != other->source)
        return FALSE;
      if (destination == loop->extent * loop->destination && source == loop->extent * loop->source)
        {
          if (!loops_equal (loop + 1, other + 1, first->n_loops - i - 1))
            return FALSE;
          loop->extent += other->extent;
          return TRUE;
        }
      if (loop->extent != other->extent)
        return FALSE;
    }
  return FALSE;
}

/* @second is one more round of the loop @round of @first, whose other loops are those of @second. */
static gboolean
try_one_more_round (WeftPiece *first, const WeftPiece *second)
{
  if (first->n_loops != second->n_loops + 1)
    return FALSE;
  for (guint round = 0; round < first->n_loops; round++)
    {
      WeftLoop *loop = &first->loops[round];

      if (second->destination - first->destination == loop->extent * loop->destination
          && second->source - first->source == loop->extent * loop->source
          && loops_equal (first->loops, second->loops, round)
          && loops_equal (loop + 1, second->loops + round, second->n_loops - round))
        {
          loop->extent++;
          return TRUE;
        }
    }
  return FALSE;
}

/* Two equal nests form a loop of two rounds. Only addresses that rise on the destination side and do not fall on the
 * source side make one. */
static gboolean
try_pair (WeftPiece *first, const WeftPiece *second)
{
  WeftLoop pair = { 2, second->destination - first->destination, second->source - first->source };

  if (first->n_loops != second->n_loops || first->n_loops + 1 >= WEFT_MAX_LOOPS || pair.destination <= 0
      || pair.source < 0 || !loops_equal (first->loops, second->loops, first->n_loops))
    return FALSE;
  first->loops[first->n_loops++] = pair;
  weft_piece_normalise (first);
  return TRUE;
}

static gboolean
try_join (WeftPiece *first, const WeftPiece *second)
{
  if (!weft_base_equal (first->base, second->base))
    return FALSE;
  if (!try_prolong (first, second) && !try_one_more_round (first, second) && !try_pair (first, second))
    return FALSE;
  weft_piece_normalise (first);
  return TRUE;
}

/* Joins the last two pieces as long as they form one. */
static void
join_tail (WeftLayoutBuilder *self)
{
  WeftLayout *layout = &self->layout;

  while (layout->n_pieces >= 2)
    {
      guint n = layout->n_pieces;
      WeftPiece first, second;

      if (!weft_base_equal (layout->pieces[n - 2].base, layout->pieces[n - 1].base))
        return;
      weft_layout_get_piece (layout, n - 2, &first);
      weft_layout_get_piece (layout, n - 1, &second);
      if (!try_join (&first, &second))
        return;
      weft_base_unref (second.base);
      layout->n_pieces--;
      store_piece (self, n - 2, &first);
    }
}

gboolean
weft_layout_builder_add (WeftLayoutBuilder *self, const WeftPiece *piece, GError **error)
{
  WeftPiece normal;

  if (self->layout.n_pieces >= WEFT_MAX_PIECES)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_LIMIT,
          "%s: the layout falls into more than %d pieces; cast or convert in two steps with a file between",
          self->operation, WEFT_MAX_PIECES);
      return FALSE;
    }
  weft_piece_copy (&normal, piece);
  weft_piece_normalise (&normal);
  append_piece (self, piece->base);
  store_piece (self, self->layout.n_pieces - 1, &normal);
  join_tail (self);
  return TRUE;
}

static gint
compare_pieces (gconstpointer a, gconstpointer b, gpointer user_data)
{
  gint64 address_a = ((const WeftStoredPiece *) a)->destination;
  gint64 address_b = ((const WeftStoredPiece *) b)->destination;

  return (address_a > address_b) - (address_a < address_b);
}

/* By where they begin, so that who fills a destination piece by piece walks it from front to back: a join of stacks
 * gives all gates before all ups, while each gate lies before its up. */
static void
sort_pieces (WeftLayout *layout)
{
  for (guint i = 1; i < layout->n_pieces; i++)
    if (compare_pieces (&layout->pieces[i - 1], &layout->pieces[i], NULL) > 0)
      {
        g_qsort_with_data (layout->pieces, (gint) layout->n_pieces, sizeof *layout->pieces, compare_pieces,
                           NULL);
        return;
      }
}

void
weft_layout_builder_finish (WeftLayoutBuilder *self, WeftLayout *layout)
{
  *layout = self->layout;
  sort_pieces (layout);
  /* A layout lives as long as its tensor. */
  if (layout->n_pieces < self->n_pieces_allocated)
    layout->pieces = g_renew (WeftStoredPiece, layout->pieces, layout->n_pieces);
  if (layout->n_loops < self->n_loops_allocated)
    layout->loops = g_renew (WeftLoop, layout->loops, layout->n_loops);
  layout->is_sorted = are_pieces_sorted (layout);
}

/* A stack of pieces that are still to be cut, the next on top. */
typedef struct
{
  GArray *pieces;
  const gchar *operation;
  guint n_cut;
} Work;

static gboolean
work_push (Work *work, const WeftPiece *piece, GError **error)
{
  if (++work->n_cut > 2 * WEFT_MAX_PIECES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "%s: the layout falls into more than %d pieces",
                   work->operation, WEFT_MAX_PIECES);
      return FALSE;
    }
  g_array_append_val (work->pieces, *piece);
  return TRUE;
}

/* Pushes the rounds [first, first + count) of loop @loop; a single round loses the loop. */
static gboolean
work_push_rounds (Work *work, const WeftPiece *piece, guint loop, gint64 first, gint64 count, GError **error)
{
  WeftPiece part = *piece;

  if (count <= 0)
    return TRUE;
  part.destination += first * piece->loops[loop].destination;
  part.source += first * piece->loops[loop].source;
  part.loops[loop].extent = count;
  if (count == 1)
    {
      memmove (&part.loops[loop], &part.loops[loop + 1], (part.n_loops - loop - 1) * sizeof (WeftLoop));
      part.n_loops--;
    }
  return work_push (work, &part, error);
}

/* Where the loops of a piece lie in a shape. */
typedef struct
{
  const gint64 *dims;
  guint rank;
  gint64 strides[WEFT_MAX_RANK];
} Frame;

static guint
find_axis (const Frame *frame, gint64 stride)
{
  guint axis = 0;

  while (axis + 1 < frame->rank && (frame->strides[axis] > stride || frame->dims[axis] == 1))
    axis++;
  return axis;
}

/* Finds the outermost loop that carries over an axis or moves along two axes at once. */
static gboolean
find_misfit (const Frame *frame, const WeftPiece *piece, guint *loop, guint *axis, gint64 *inner_span)
{
  gint64 highest[WEFT_MAX_RANK];
  gint64 span[WEFT_MAX_RANK] = { 0 };
  gint64 rest = piece->destination;

  for (guint k = 0; k < frame->rank; k++)
    {
      highest[k] = k == 0 ? rest / frame->strides[k] : rest / frame->strides[k] % frame->dims[k];
    }
  for (guint i = 0; i < piece->n_loops; i++)
    {
      guint k = find_axis (frame, piece->loops[i].destination);
      gint64 step = piece->loops[i].destination / frame->strides[k];

      if (piece->loops[i].destination % frame->strides[k] != 0)
        {
          *loop = i;
          *axis = G_MAXUINT;
          return TRUE;
        }
      highest[k] += step * (piece->loops[i].extent - 1);
      span[k] += step * (piece->loops[i].extent - 1);
    }
  for (guint i = 0; i < piece->n_loops; i++)
    {
      guint k = find_axis (frame, piece->loops[i].destination);

      if (highest[k] < frame->dims[k])
        continue;
      *loop = i;
      *axis = k;
      *inner_span = span[k] - piece->loops[i].destination / frame->strides[k] * (piece->loops[i].extent - 1);
      return TRUE;
    }
  return FALSE;
}

/* Pushes @n_rounds rounds of loop @loop, from round @first on, as whole periods: one loop more, which moves along the axis
 * outside. The piece is not normalised, which would join the two loops again. */
static gboolean
work_push_periods (Work *work, const WeftPiece *piece, guint loop, gint64 first, gint64 period,
                   gint64 n_periods, GError **error)
{
  WeftPiece body = *piece;
  WeftLoop *inner = &body.loops[loop];

  if (n_periods <= 0)
    return TRUE;
  if (body.n_loops + 1 >= WEFT_MAX_LOOPS)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "%s: the layout has more than %d nested loops",
                   work->operation, WEFT_MAX_LOOPS);
      return FALSE;
    }
  body.destination += first * inner->destination;
  body.source += first * inner->source;
  inner->extent = period;
  if (n_periods > 1)
    {
      memmove (inner + 1, inner, (body.n_loops - loop) * sizeof (WeftLoop));
      *inner = (WeftLoop){ n_periods, period * inner->destination, period * inner->source };
      body.n_loops++;
    }
  return work_push (work, &body, error);
}

/* Cuts loop @loop where it carries over axis @axis: into whole rounds of the axis if the steps come out even, else at
 * the first carry. Parts are pushed last first. */
static gboolean
cut_at_carry (Work *work, const Frame *frame, const WeftPiece *piece, guint loop, guint axis,
              gint64 inner_span, GError **error)
{
  gint64 step = piece->loops[loop].destination / frame->strides[axis];
  gint64 extent = piece->loops[loop].extent;
  gint64 dim = frame->dims[axis];
  gint64 at = piece->destination / frame->strides[axis] % dim;

  if (dim % step == 0 && at % step + inner_span < step)
    {
      gint64 period = dim / step;
      gint64 head = at / step == 0 ? 0 : MIN (extent, period - at / step);
      gint64 n_periods = (extent - head) / period;
      gint64 tail = extent - head - n_periods * period;

      return work_push_rounds (work, piece, loop, extent - tail, tail, error)
             && work_push_periods (work, piece, loop, head, period, n_periods, error)
             && work_push_rounds (work, piece, loop, 0, head, error);
    }
  {
    gint64 n_fitting = at + inner_span >= dim ? 1 : MIN (extent, (dim - 1 - inner_span - at) / step + 1);

    return work_push_rounds (work, piece, loop, n_fitting, extent - n_fitting, error)
           && work_push_rounds (work, piece, loop, 0, n_fitting, error);
  }
}

static gboolean
fit_next (Work *work, const Frame *frame, WeftPieceFunc func, gpointer user_data, GError **error)
{
  WeftPiece piece = g_array_index (work->pieces, WeftPiece, work->pieces->len - 1);
  gint64 inner_span = 0;
  guint loop, axis;

  g_array_set_size (work->pieces, work->pieces->len - 1);
  if (!find_misfit (frame, &piece, &loop, &axis, &inner_span))
    return func (&piece, user_data, error);
  if (axis != G_MAXUINT)
    return cut_at_carry (work, frame, &piece, loop, axis, inner_span, error);
  /* A diagonal: no loop of an axis describes it, so every round stands alone. */
  for (gint64 i = piece.loops[loop].extent - 1; i >= 0; i--)
    if (!work_push_rounds (work, &piece, loop, i, 1, error))
      return FALSE;
  return TRUE;
}

gboolean
weft_piece_fit (const WeftPiece *piece, const gint64 *dims, guint rank, const gchar *operation,
                WeftPieceFunc func, gpointer user_data, GError **error)
{
  Work work = { .operation = operation };
  Frame frame = { .dims = dims, .rank = rank };
  gint64 stride = 1;
  guint loop, axis;
  gint64 inner_span;
  gboolean ok = TRUE;

  for (guint k = rank; k-- > 0; stride *= dims[k])
    frame.strides[k] = stride;
  if (rank == 0 || !find_misfit (&frame, piece, &loop, &axis, &inner_span))
    return func (piece, user_data, error);
  work.pieces = g_array_new (FALSE, FALSE, sizeof (WeftPiece));
  g_array_append_val (work.pieces, *piece);
  while (ok && work.pieces->len > 0)
    ok = fit_next (&work, &frame, func, user_data, error);
  g_array_unref (work.pieces);
  return ok;
}

static gint64
divide_up (gint64 a, gint64 b)
{
  return a <= 0 ? 0 : (a + b - 1) / b;
}

/* How far a piece reaches on the inner axis of (anything, width), where all loops with a stride below width move;
 * @loop is the outermost of them. */
static gint64
get_inner_span (const WeftPiece *piece, gint64 width, guint *loop)
{
  gint64 span = 0;

  *loop = piece->n_loops;
  for (guint i = piece->n_loops; i-- > 0;)
    if (piece->loops[i].destination < width)
      {
        span += (piece->loops[i].extent - 1) * piece->loops[i].destination;
        *loop = i;
      }
  return span;
}

/* One step of a cut on the inner axis of (anything, width). */
static gboolean
cut_next (Work *work, gint64 width, gint64 start, gint64 stop, WeftPieceFunc func, gpointer user_data,
          GError **error)
{
  WeftPiece piece = g_array_index (work->pieces, WeftPiece, work->pieces->len - 1);
  gint64 lowest = piece.destination % width;
  gint64 span, step, extent, inner, first, last, inside_first, inside_last;
  guint loop;

  g_array_set_size (work->pieces, work->pieces->len - 1);
  span = get_inner_span (&piece, width, &loop);
  if (lowest >= stop || lowest + span < start)
    return TRUE;
  if (lowest >= start && lowest + span < stop)
    return func (&piece, user_data, error);

  step = piece.loops[loop].destination;
  extent = piece.loops[loop].extent;
  inner = span - (extent - 1) * step;
  first = divide_up (start - inner - lowest, step);
  last = MIN (extent - 1, (stop - 1 - lowest) / step);
  inside_first = divide_up (start - lowest, step);
  inside_last = stop - 1 - inner < lowest ? -1 : MIN (extent - 1, (stop - 1 - inner - lowest) / step);
  if (inside_first > inside_last)
    {
      for (gint64 i = last; i >= first; i--)
        if (!work_push_rounds (work, &piece, loop, i, 1, error))
          return FALSE;
      return TRUE;
    }
  for (gint64 i = last; i > inside_last; i--)
    if (!work_push_rounds (work, &piece, loop, i, 1, error))
      return FALSE;
  if (!work_push_rounds (work, &piece, loop, inside_first, inside_last - inside_first + 1, error))
    return FALSE;
  for (gint64 i = inside_first - 1; i >= first; i--)
    if (!work_push_rounds (work, &piece, loop, i, 1, error))
      return FALSE;
  return TRUE;
}

gboolean
weft_piece_cut (const WeftPiece *piece, gint64 width, gint64 start, gint64 length, const gchar *operation,
                WeftPieceFunc func, gpointer user_data, GError **error)
{
  Work work = { .operation = operation };
  gint64 lowest = piece->destination % width;
  guint loop;
  gint64 span = get_inner_span (piece, width, &loop);
  gboolean ok = TRUE;

  /* Nearly all pieces lie outside or inside as a whole. */
  if (lowest >= start + length || lowest + span < start)
    return TRUE;
  if (lowest >= start && lowest + span < start + length)
    return func (piece, user_data, error);
  work.pieces = g_array_new (FALSE, FALSE, sizeof (WeftPiece));
  g_array_append_val (work.pieces, *piece);
  while (ok && work.pieces->len > 0)
    ok = cut_next (&work, width, start, start + length, func, user_data, error);
  g_array_unref (work.pieces);
  return ok;
}
