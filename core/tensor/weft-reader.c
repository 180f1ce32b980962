/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-reader-private.h"

#include "tensor/weft-arithmetic-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-copy-private.h"

#include <limits.h>
#include <string.h>

/* Rows of a source go straight to where they belong if they are at least as long; shorter ones cost the kernel more than a
 * second copy. */
#define MIN_ROW_BYTES 1024
/* As many as one call takes, and how many runs wait for a flush at most. */
#define MAX_VECTORS 1024
#define MAX_RUNS (16 * 1024)

typedef struct
{
  WeftFile *file;
  guint64 offset;
  guint8 *destination;
  gsize n_bytes;
} Run;

typedef struct
{
  guint8 *bytes;
  gsize size;
} Scratch;

static void
scratch_free (gpointer user_data)
{
  Scratch *scratch = user_data;

  g_free (scratch->bytes);
  g_free (scratch);
}

void
weft_reader_init (WeftReader *self, gsize limit)
{
  *self = (WeftReader){ .limit = limit, .hole_bytes = WEFT_HOLE_BYTES };
  self->runs = g_array_new (FALSE, FALSE, sizeof (Run));
  self->scratch = g_ptr_array_new_with_free_func (scratch_free);
}

void
weft_reader_clear (WeftReader *self)
{
  g_clear_pointer (&self->runs, g_array_unref);
  g_clear_pointer (&self->scratch, g_ptr_array_unref);
}

/* Buffers are taken and given back in stack order, so that a thread reuses the same few. */
static guint8 *
take_scratch (WeftReader *self, gsize n_bytes)
{
  Scratch *scratch;

  if (self->scratch_depth == self->scratch->len)
    g_ptr_array_add (self->scratch, g_new0 (Scratch, 1));
  scratch = self->scratch->pdata[self->scratch_depth++];
  if (scratch->size < n_bytes)
    {
      g_free (scratch->bytes);
      scratch->bytes = g_malloc (n_bytes);
      scratch->size = n_bytes;
    }
  return scratch->bytes;
}

static void
give_scratch (WeftReader *self)
{
  self->scratch_depth--;
}

void
weft_reader_add_run (WeftReader *self, WeftFile *file, guint64 offset, guint8 *destination, gsize n_bytes)
{
  Run run = { file, offset, destination, n_bytes };

  g_array_append_val (self->runs, run);
}

void
weft_reader_forget (WeftReader *self)
{
  g_array_set_size (self->runs, 0);
  self->scratch_depth = 0;
}

static gint
compare_runs (gconstpointer a, gconstpointer b)
{
  const Run *run_a = a;
  const Run *run_b = b;

  if (run_a->file != run_b->file)
    return run_a->file < run_b->file ? -1 : 1;
  return (run_a->offset > run_b->offset) - (run_a->offset < run_b->offset);
}

/* Runs mostly come as they stand in the file. */
static void
sort_runs (GArray *runs)
{
  for (guint i = 1; i < runs->len; i++)
    if (compare_runs (&g_array_index (runs, Run, i - 1), &g_array_index (runs, Run, i)) > 0)
      {
        g_array_sort (runs, compare_runs);
        return;
      }
}

gboolean
weft_reader_flush (WeftReader *self, GError **error)
{
  struct iovec vectors[MAX_VECTORS];
  guint i = 0;

  sort_runs (self->runs);
  while (i < self->runs->len)
    {
      const Run *run = &g_array_index (self->runs, Run, i);
      WeftFile *file = run->file;
      guint64 start = run->offset;
      guint64 end = start;
      guint n_vectors = 0;

      for (; i < self->runs->len && n_vectors + 2 <= G_N_ELEMENTS (vectors); i++)
        {
          run = &g_array_index (self->runs, Run, i);
          if (run->file != file || run->offset < end
              || (n_vectors > 0 && run->offset > end && run->offset - end >= self->hole_bytes))
            break;
          if (run->offset > end)
            vectors[n_vectors++] = (struct iovec){ NULL, run->offset - end };
          vectors[n_vectors++] = (struct iovec){ run->destination, run->n_bytes };
          end = run->offset + run->n_bytes;
          self->counters.n_bytes_kept += run->n_bytes;
        }
      if (!weft_file_read_vectors (file, start, vectors, n_vectors, &self->counters.n_bytes_read, error))
        {
          g_array_set_size (self->runs, 0);
          return FALSE;
        }
    }
  g_array_set_size (self->runs, 0);
  return TRUE;
}

static void
copy_piece (const WeftPiece *piece, gsize unit_bytes, const guint8 *source, guint8 *origin)
{
  gint64 extents[WEFT_MAX_LOOPS], destinations[WEFT_MAX_LOOPS], sources[WEFT_MAX_LOOPS];

  for (guint i = 0; i < piece->n_loops; i++)
    {
      extents[i] = piece->loops[i].extent;
      destinations[i] = piece->loops[i].destination;
      sources[i] = piece->loops[i].source;
    }
  weft_copy_loops (origin, source, unit_bytes, piece->n_loops, extents, destinations, sources);
}

static gboolean
is_run (const WeftPiece *piece)
{
  return piece->n_loops == 0
         || (piece->n_loops == 1 && piece->loops[0].destination == 1 && piece->loops[0].source == 1);
}

/* The loop that moves furthest in the source. */
static guint
find_outer_loop (const WeftPiece *piece)
{
  guint outer = 0;

  for (guint i = 1; i < piece->n_loops; i++)
    if (piece->loops[i].source > piece->loops[outer].source
        || (piece->loops[i].source == piece->loops[outer].source
            && piece->loops[i].extent > piece->loops[outer].extent))
      outer = i;
  return outer;
}

/* Whether the source of a piece has holes that are not read through. */
static gboolean
has_wide_hole (const WeftReader *self, const WeftPiece *piece, gsize unit_bytes)
{
  WeftPiece rest = *piece;
  gint64 span = weft_piece_get_last_source (piece) - piece->source + 1;

  while (rest.n_loops > 0)
    {
      guint outer = find_outer_loop (&rest);
      WeftLoop loop = rest.loops[outer];

      span -= (loop.extent - 1) * loop.source;
      if ((loop.source - span) * (gint64) unit_bytes >= MAX (1, (gint64) self->hole_bytes))
        return TRUE;
      rest.loops[outer] = rest.loops[--rest.n_loops];
    }
  return FALSE;
}

typedef gboolean (*FillFunc) (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error);

/* Cuts the loop that moves furthest in the source into groups of @n_rounds and fills each by @fill. */
static gboolean
fill_in_rounds (WeftReader *self, const WeftPiece *piece, guint8 *origin, gint64 n_rounds, FillFunc fill,
                GError **error)
{
  guint outer = find_outer_loop (piece);
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  WeftLoop loop = piece->loops[outer];

  n_rounds = CLAMP (n_rounds, 1, loop.extent);
  for (gint64 i = 0; i < loop.extent; i += n_rounds)
    {
      WeftPiece part = *piece;

      part.destination += i * loop.destination;
      part.source += i * loop.source;
      part.loops[outer].extent = MIN (n_rounds, loop.extent - i);
      if (part.loops[outer].extent == 1)
        weft_piece_normalise (&part);
      if (!fill (self, &part, origin + (gsize) (i * loop.destination) * unit_bytes, error))
        return FALSE;
    }
  return TRUE;
}

/* Bytes from the first to the last source unit of a piece. */
static gsize
get_source_span (const WeftPiece *piece, gsize unit_bytes)
{
  return (gsize) (weft_piece_get_last_source (piece) - piece->source + 1) * unit_bytes;
}

/* How many rounds of the loop that moves furthest fit into @limit bytes of the source: fewer than it has if the whole span
 * does not fit. */
static gint64
get_rounds_within (const WeftPiece *piece, gsize unit_bytes, gsize limit)
{
  WeftLoop outer = piece->loops[find_outer_loop (piece)];
  gint64 reach = weft_piece_get_last_source (piece) - piece->source - (outer.extent - 1) * outer.source;

  return outer.source > 0 ? ((gint64) (limit / unit_bytes) - 1 - reach) / outer.source + 1 : G_MAXINT64;
}

/* Whether a piece consists of rows that are worth a run each, none of them wanted twice. */
static gboolean
has_long_rows (const WeftPiece *piece, gsize unit_bytes)
{
  const WeftLoop *inner = &piece->loops[piece->n_loops - 1];

  for (guint i = 0; i + 1 < piece->n_loops; i++)
    if (piece->loops[i].source < inner->extent)
      return FALSE;
  return inner->destination == 1 && inner->source == 1 && (gsize) inner->extent * unit_bytes >= MIN_ROW_BYTES;
}

static void
add_rows (WeftReader *self, const WeftPiece *piece, guint8 *origin)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  guint64 offset = piece->base->file.offset + (guint64) piece->source * unit_bytes;
  guint n_outer = piece->n_loops - 1;
  gsize row_bytes = (gsize) piece->loops[n_outer].extent * unit_bytes;
  gint64 index[WEFT_MAX_LOOPS] = { 0 };
  gboolean is_done = FALSE;

  while (!is_done)
    {
      gint64 destination = 0, source = 0;

      for (guint i = 0; i < n_outer; i++)
        {
          destination += index[i] * piece->loops[i].destination;
          source += index[i] * piece->loops[i].source;
        }
      weft_reader_add_run (self, piece->base->file.file, offset + (guint64) source * unit_bytes,
                           origin + (gsize) destination * unit_bytes, row_bytes);
      is_done = TRUE;
      for (guint i = n_outer; is_done && i-- > 0;)
        {
          is_done = ++index[i] == piece->loops[i].extent;
          if (is_done)
            index[i] = 0;
        }
    }
}

static gboolean
fill_from_file (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  WeftFile *file = piece->base->file.file;
  guint64 offset = piece->base->file.offset + (guint64) piece->source * unit_bytes;
  gsize span = get_source_span (piece, unit_bytes);
  struct iovec vector = { .iov_len = span };
  const guint8 *band;
  gboolean ok;

  if (is_run (piece))
    {
      weft_reader_add_run (self, file, offset, origin, span);
      return TRUE;
    }
  if (has_wide_hole (self, piece, unit_bytes))
    return fill_in_rounds (self, piece, origin, 1, fill_from_file, error);
  if (span > self->limit)
    return fill_in_rounds (self, piece, origin, get_rounds_within (piece, unit_bytes, self->limit),
                           fill_from_file, error);
  if (has_long_rows (piece, unit_bytes))
    {
      add_rows (self, piece, origin);
      return self->runs->len < MAX_RUNS || weft_reader_flush (self, error);
    }
  vector.iov_base = take_scratch (self, span);
  band = vector.iov_base;
  ok = weft_file_read_vectors (file, offset, &vector, 1, &self->counters.n_bytes_read, error);
  if (ok)
    {
      gint64 n_kept = 1;

      /* A repeated source counts once. */
      for (guint i = 0; i < piece->n_loops; i++)
        n_kept *= piece->loops[i].source != 0 ? piece->loops[i].extent : 1;
      self->counters.n_bytes_kept += (guint64) n_kept * unit_bytes;
      copy_piece (piece, unit_bytes, band, origin);
    }
  give_scratch (self);
  return ok;
}

static gboolean
fill_from_source (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  gsize span = get_source_span (piece, unit_bytes);
  g_autoptr (GBytes) bytes = NULL;

  if (piece->n_loops > 0 && has_wide_hole (self, piece, unit_bytes))
    return fill_in_rounds (self, piece, origin, 1, fill_from_source, error);
  if (piece->n_loops > 0 && span > self->limit)
    return fill_in_rounds (self, piece, origin, get_rounds_within (piece, unit_bytes, self->limit),
                           fill_from_source, error);
  bytes = weft_tensor_source_read (piece->base->source, (guint64) piece->source * unit_bytes, span, error);
  if (bytes == NULL)
    return FALSE;
  copy_piece (piece, unit_bytes, g_bytes_get_data (bytes, NULL), origin);
  return TRUE;
}

/* Whoever comes first computes; others wait. Nothing that is computed waits for a thread, so no two wait for each other. */
static gboolean
fill_from_memory_once (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  WeftBase *base = piece->base;
  GBytes *bytes;

  g_mutex_lock (&base->once.mutex);
  if (base->once.bytes == NULL)
    base->once.bytes = weft_tensor_read (base->once.input, NULL, error);
  bytes = base->once.bytes;
  g_mutex_unlock (&base->once.mutex);
  if (bytes == NULL)
    return FALSE;
  copy_piece (piece, weft_dtype_get_unit_bytes (base->dtype),
              (const guint8 *) g_bytes_get_data (bytes, NULL)
                  + (gsize) piece->source * weft_dtype_get_unit_bytes (base->dtype),
              origin);
  return TRUE;
}

static void
apply_pointwise (const WeftBase *base, const guint8 *source, guint8 *destination, gsize n_elements)
{
  WeftDtype from = base->pointwise.input->dtype;

  switch (base->pointwise.function)
    {
    case WEFT_POINTWISE_CAST:
      weft_cast_lookup (from, base->dtype) (source, destination, n_elements);
      break;
    case WEFT_POINTWISE_SCALE:
      weft_scale_elements (from, source, destination, n_elements, base->pointwise.operand);
      break;
    case WEFT_POINTWISE_SHIFT:
      /* A bitcast has no function: its input is read under the other dtype. */
    case WEFT_POINTWISE_BITCAST:
    default:
      weft_shift_elements (from, source, destination, n_elements, base->pointwise.operand);
      break;
    }
}

/* Packs the source side of a piece: @packed reads the distinct source units of @piece in rising order into a dense
 * buffer, @spread copies from there to where @piece wants them. Returns the number of units. */
static gint64
pack_source (const WeftPiece *piece, WeftPiece *packed, WeftPiece *spread)
{
  gint64 count = 1;
  gboolean is_packed[WEFT_MAX_LOOPS] = { FALSE };

  *spread = *piece;
  *packed = (WeftPiece){ .base = piece->base->pointwise.input, .source = piece->source };
  spread->source = 0;
  for (guint n = 0; n < piece->n_loops; n++)
    {
      guint inner = piece->n_loops;

      for (guint i = 0; i < piece->n_loops; i++)
        if (!is_packed[i] && (inner == piece->n_loops || piece->loops[i].source < piece->loops[inner].source))
          inner = i;
      is_packed[inner] = TRUE;
      if (piece->loops[inner].source == 0)
        continue;
      packed->loops[packed->n_loops++] =
          (WeftLoop){ piece->loops[inner].extent, count, piece->loops[inner].source };
      spread->loops[inner].source = count;
      count *= piece->loops[inner].extent;
    }
  weft_piece_normalise (packed);
  return count;
}

/* Input of whole-byte elements: exactly the elements of the piece are read. */
static gboolean
fill_pointwise_packed (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  const WeftBase *base = piece->base;
  gint64 unit_elements = weft_dtype_get_unit_elements (base->dtype);
  gsize unit_bytes = weft_dtype_get_unit_bytes (base->dtype);
  gsize input_bytes = weft_dtype_get_unit_bytes (base->pointwise.input->dtype) * (gsize) unit_elements;
  WeftPiece packed, spread;
  gint64 count = pack_source (piece, &packed, &spread);
  guint8 *input, *output;
  gboolean ok;

  if (piece->n_loops > 0 && (gsize) count * MAX (input_bytes, unit_bytes) > self->limit)
    {
      gint64 rounds = (gint64) (self->limit / MAX (input_bytes, unit_bytes))
                      / MAX (1, count / piece->loops[find_outer_loop (piece)].extent);

      return fill_in_rounds (self, piece, origin, rounds, fill_pointwise_packed, error);
    }
  if (unit_elements > 1)
    {
      /* From units of the output to elements of the input. */
      packed.source *= unit_elements;
      for (guint i = 0; i < packed.n_loops; i++)
        {
          packed.loops[i].destination *= unit_elements;
          packed.loops[i].source *= unit_elements;
        }
      packed.loops[packed.n_loops++] = (WeftLoop){ unit_elements, 1, 1 };
      weft_piece_normalise (&packed);
    }
  input = take_scratch (self, (gsize) count * input_bytes);
  output = is_run (piece) ? origin : take_scratch (self, (gsize) count * unit_bytes);
  ok = weft_reader_fill (self, &packed, input, error) && weft_reader_flush (self, error);
  if (ok)
    apply_pointwise (base, input, output, (gsize) (count * unit_elements));
  if (ok && output != origin)
    copy_piece (&spread, unit_bytes, output, origin);
  if (output != origin)
    give_scratch (self);
  give_scratch (self);
  return ok;
}

/* Input of sub-byte elements: the bytes that hold the elements of the piece are read, so a cut may fall inside one. */
static gboolean
fill_pointwise_band (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  const WeftBase *base = piece->base;
  gint64 input_unit = weft_dtype_get_unit_elements (base->pointwise.input->dtype);
  gsize input_bytes = weft_dtype_get_unit_bytes (base->pointwise.input->dtype);
  gint64 unit_elements = weft_dtype_get_unit_elements (base->dtype);
  gsize unit_bytes = weft_dtype_get_unit_bytes (base->dtype);
  gint64 first = piece->source * unit_elements / input_unit;
  gint64 last = ((weft_piece_get_last_source (piece) + 1) * unit_elements - 1) / input_unit;
  gsize n_elements = (gsize) ((last - first + 1) * input_unit);
  WeftPiece band = { .base = base->pointwise.input, .source = first };
  guint8 *input, *output;
  gboolean ok;

  if (piece->n_loops > 0 && has_wide_hole (self, piece, unit_bytes))
    return fill_in_rounds (self, piece, origin, 1, fill_pointwise_band, error);
  if (piece->n_loops > 0 && get_source_span (piece, unit_bytes) > self->limit)
    return fill_in_rounds (self, piece, origin, get_rounds_within (piece, unit_bytes, self->limit),
                           fill_pointwise_band, error);
  band.n_loops = 1;
  band.loops[0] = (WeftLoop){ last - first + 1, 1, 1 };
  weft_piece_normalise (&band);
  input = take_scratch (self, (gsize) (last - first + 1) * input_bytes);
  output = take_scratch (self, n_elements * weft_dtype_get_bits (base->dtype) / 8);
  ok = weft_reader_fill (self, &band, input, error) && weft_reader_flush (self, error);
  if (ok)
    {
      apply_pointwise (base, input, output, n_elements);
      copy_piece (piece, unit_bytes,
                  output + (gsize) (piece->source - first * input_unit / unit_elements) * unit_bytes, origin);
    }
  give_scratch (self);
  give_scratch (self);
  return ok;
}

static WeftTensor *
slice_region (WeftTensor *tensor, const WeftRegion *region, GError **error)
{
  g_autoptr (WeftTensor) part = weft_tensor_ref (tensor);

  for (guint i = 0; i < region->rank; i++)
    {
      WeftTensor *cut = weft_tensor_slice (part, (gint) i, region->start[i], region->extent[i], error);

      if (cut == NULL)
        return NULL;
      weft_tensor_unref (part);
      part = cut;
    }
  return g_steal_pointer (&part);
}

/* Whether kernels take elements at an address, which may have any dtype. */
static gboolean
is_aligned (gconstpointer address)
{
  return GPOINTER_TO_SIZE (address) % G_ALIGNOF (gdouble) == 0;
}

/* The elements of a tensor that lie in memory as a kernel wants them: dense and aligned. NULL: they have to be read. */
static gpointer
peek_elements (WeftTensor *tensor)
{
  WeftPiece piece;
  guint8 *elements;

  if (tensor->layout.n_pieces != 1 || tensor->layout.pieces[0].base->kind != WEFT_BASE_MEMORY)
    return NULL;
  weft_layout_get_piece (&tensor->layout, 0, &piece);
  elements = (guint8 *) g_bytes_get_data (piece.base->bytes, NULL)
             + (gsize) piece.source * weft_dtype_get_unit_bytes (tensor->dtype);
  return is_run (&piece) && is_aligned (elements) ? elements : NULL;
}

static gint64
count_region (const WeftRegion *region)
{
  gint64 count = 1;

  for (guint i = 0; i < region->rank; i++)
    count *= region->extent[i];
  return count;
}

static gsize
count_bytes (WeftDtype dtype, gint64 n_elements)
{
  return ((gsize) n_elements * weft_dtype_get_bits (dtype) + 7) / 8;
}

/* A stranger's kernel may ask for anything: what it asks for has to lie in its input. */
static gboolean
check_input_region (const WeftKernel *kernel, guint input, WeftTensor *tensor, const WeftRegion *region,
                    GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  gboolean is_inside = region->rank == shape->rank;

  for (guint k = 0; is_inside && k < shape->rank; k++)
    is_inside = region->start[k] >= 0 && region->extent[k] >= 0 && region->start[k] <= shape->dims[k]
                && region->extent[k] <= shape->dims[k] - region->start[k];
  if (!is_inside)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
                 "%s: the kernel asks for a region that is not in its input %u", kernel->name, input);
  return is_inside;
}

/* Finds or reads the box of @tensor that @input says. */
static gboolean
read_input (WeftReader *self, WeftTensor *tensor, WeftKernelView *input, GError **error)
{
  g_autoptr (WeftTensor) part = slice_region (tensor, &input->region, error);

  if (part == NULL)
    return FALSE;
  input->n_elements = count_region (&input->region);
  input->elements = peek_elements (part);
  if (input->elements != NULL)
    return TRUE;
  input->elements = take_scratch (self, MAX (1, count_bytes (input->dtype, input->n_elements)));
  return weft_reader_read_tensor (self, part, input->elements, error);
}

static gboolean
run_kernel (WeftReader *self, const WeftBase *base, const WeftRegion *region, guint8 *output, GError **error)
{
  const WeftKernel *kernel = base->kernel.kernel;
  g_autofree WeftKernelView *inputs = g_new0 (WeftKernelView, base->kernel.n_inputs);
  WeftKernelView view = { base->dtype, *region, output, count_region (region) };
  guint depth = self->scratch_depth;
  gpointer scratch = NULL;
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < base->kernel.n_inputs; i++)
    {
      WeftTensor *tensor = base->kernel.inputs[i];

      inputs[i].dtype = weft_tensor_get_dtype (tensor);
      inputs[i].region = *region;
      if (kernel->get_input_region != NULL)
        kernel->get_input_region (base->kernel.params, i, region, &inputs[i].region);
      ok = check_input_region (kernel, i, tensor, &inputs[i].region, error)
           && read_input (self, tensor, &inputs[i], error);
    }
  if (ok && kernel->get_scratch_bytes != NULL)
    scratch = take_scratch (self, MAX (1, kernel->get_scratch_bytes (base->kernel.params, region)));
  if (ok)
    {
      g_autoptr (GError) local_error = NULL;

      ok = kernel->compute (base->kernel.params, &view, inputs, base->kernel.n_inputs, scratch, &local_error);
      if (!ok && local_error != NULL)
        g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", kernel->name);
      else if (!ok)
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: the kernel failed without an error",
                     kernel->name);
    }
  self->scratch_depth = depth;
  return ok;
}

/* The output of a kernel as a frame of axes, in units. */
typedef struct
{
  WeftReader *reader;
  const WeftBase *base;
  guint8 *origin;
  gint64 destination;
  guint rank;
  gint64 dims[WEFT_MAX_RANK];
  gint64 strides[WEFT_MAX_RANK];
  /* Elements a unit and a block, along each axis. */
  gint64 scale[WEFT_MAX_RANK];
  gint64 block[WEFT_MAX_RANK];
} KernelFill;

static void
kernel_fill_init (KernelFill *self, WeftReader *reader, const WeftPiece *piece, guint8 *origin)
{
  const WeftShape *shape = piece->base->kernel.shape;
  gint64 stride = 1;

  *self = (KernelFill){ .reader = reader,
                        .base = piece->base,
                        .origin = origin,
                        .destination = piece->destination,
                        .rank = shape->rank };
  for (guint k = shape->rank; k-- > 0; stride *= self->dims[k])
    {
      self->scale[k] = k + 1 == shape->rank ? weft_dtype_get_unit_elements (piece->base->dtype) : 1;
      self->dims[k] = shape->dims[k] / self->scale[k];
      self->strides[k] = stride;
      self->block[k] = 1;
    }
  if (piece->base->kernel.kernel->get_granularity != NULL)
    piece->base->kernel.kernel->get_granularity (piece->base->kernel.params, shape, self->block);
  /* A stranger's block may be anything; ours is whole units, at least one. */
  for (guint k = 0; k < shape->rank; k++)
    self->block[k] = (MAX (1, self->block[k]) + self->scale[k] - 1) / self->scale[k] * self->scale[k];
}

static guint
kernel_fill_find_axis (const KernelFill *self, gint64 stride)
{
  guint axis = 0;

  while (axis + 1 < self->rank && (self->strides[axis] > stride || self->dims[axis] == 1))
    axis++;
  return axis;
}

/* The smallest box of whole blocks that holds the source of a fitted piece. */
static void
kernel_fill_get_region (const KernelFill *self, const WeftPiece *piece, WeftRegion *region)
{
  gint64 span[WEFT_MAX_RANK] = { 0 };

  region->rank = self->rank;
  for (guint i = 0; i < piece->n_loops; i++)
    {
      guint k = kernel_fill_find_axis (self, piece->loops[i].source);

      span[k] += piece->loops[i].source / self->strides[k] * (piece->loops[i].extent - 1);
    }
  for (guint k = 0; k < self->rank; k++)
    {
      gint64 at = piece->source / self->strides[k] % self->dims[k];
      gint64 end = (at + span[k] + 1) * self->scale[k];

      region->start[k] = at * self->scale[k] / self->block[k] * self->block[k];
      region->extent[k] =
          MIN (self->dims[k] * self->scale[k], (end + self->block[k] - 1) / self->block[k] * self->block[k])
          - region->start[k];
    }
}

/* Rewrites the source of a piece from addresses of the whole output to addresses of the packed region. */
static void
kernel_fill_localise (const KernelFill *self, const WeftRegion *region, WeftPiece *piece)
{
  gint64 strides[WEFT_MAX_RANK];
  gint64 stride = 1, address = 0;

  for (guint k = self->rank; k-- > 0; stride *= region->extent[k] / self->scale[k])
    {
      strides[k] = stride;
      address +=
          (piece->source / self->strides[k] % self->dims[k] - region->start[k] / self->scale[k]) * stride;
    }
  for (guint i = 0; i < piece->n_loops; i++)
    {
      guint k = kernel_fill_find_axis (self, piece->loops[i].source);

      piece->loops[i].source = piece->loops[i].source / self->strides[k] * strides[k];
    }
  piece->source = address;
}

/* Makes @part of the rounds [first, first + count) of a loop. A single round loses the loop; nothing else is joined, since
 * a joined loop would carry over an axis of the kernel's output. */
static void
take_rounds (const WeftPiece *piece, guint loop, gint64 first, gint64 count, WeftPiece *part)
{
  weft_piece_copy (part, piece);
  part->destination += first * piece->loops[loop].destination;
  part->source += first * piece->loops[loop].source;
  part->loops[loop].extent = count;
  if (count > 1)
    return;
  part->n_loops--;
  memmove (&part->loops[loop], &part->loops[loop + 1], (part->n_loops - loop) * sizeof (WeftLoop));
}

/* Where to halve a piece whose region is too large: the loop on the outermost axis that runs through several blocks, so that
 * the halves are as contiguous as the whole, at the border of a block if its steps meet it. FALSE if every loop stays within a
 * block. */
static gboolean
kernel_fill_find_cut (const KernelFill *self, const WeftPiece *piece, const WeftRegion *region, guint *loop,
                      gint64 *n_rounds)
{
  guint axis = self->rank;

  for (guint i = 0; i < piece->n_loops; i++)
    {
      guint k = kernel_fill_find_axis (self, piece->loops[i].source);
      gint64 step = piece->loops[i].source / self->strides[k] * self->scale[k];
      gint64 at = piece->source / self->strides[k] % self->dims[k] * self->scale[k];
      gint64 half = piece->loops[i].extent / 2;
      gint64 to_border = (at + half * step) / self->block[k] * self->block[k] - at;

      if (half == 0 || step == 0 || k >= axis || region->extent[k] / self->block[k] <= 1)
        continue;
      axis = k;
      *loop = i;
      *n_rounds = to_border > 0 && to_border % step == 0 ? to_border / step : half;
    }
  return axis < self->rank;
}

/* Whether a localised piece takes all @n_units of a region in their order, and @target is aligned as kernels expect. */
static gboolean
takes_whole_region (const WeftPiece *piece, gint64 n_units, const guint8 *target)
{
  gint64 stride = 1;

  if (!is_aligned (target))
    return FALSE;
  for (guint i = piece->n_loops; i-- > 0; stride *= piece->loops[i].extent)
    if (piece->loops[i].destination != stride || piece->loops[i].source != stride)
      return FALSE;
  return stride == n_units;
}

/* What the kernel reads for a region; 0 if it asks for what there is not, which running it reports. */
static gsize
kernel_fill_count_input_bytes (const KernelFill *self, const WeftRegion *region)
{
  const WeftBase *base = self->base;
  gsize n_bytes = 0;

  for (guint i = 0; i < base->kernel.n_inputs; i++)
    {
      WeftTensor *tensor = base->kernel.inputs[i];
      WeftRegion input = *region;

      if (base->kernel.kernel->get_input_region != NULL)
        base->kernel.kernel->get_input_region (base->kernel.params, i, region, &input);
      if (!check_input_region (base->kernel.kernel, i, tensor, &input, NULL))
        return 0;
      n_bytes += count_bytes (weft_tensor_get_dtype (tensor), count_region (&input));
    }
  return n_bytes;
}

/* Whether the half of a region whose output is small enough spares reading: a kernel may need all of an input for any part. */
static gboolean
kernel_fill_is_half_lighter (const KernelFill *self, const WeftPiece *half, gsize n_input_bytes)
{
  WeftRegion region;

  kernel_fill_get_region (self, half, &region);
  return kernel_fill_count_input_bytes (self, &region) < n_input_bytes / 4 * 3;
}

/* Fills a piece whose source moves along the axes of the kernel's output, in halves if its region, or what the kernel reads for
 * it, is too large. */
static gboolean
kernel_fill_run (KernelFill *self, const WeftPiece *piece, GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (self->base->dtype);
  WeftPiece local = *piece;
  WeftRegion region;
  gsize n_bytes, n_input_bytes;
  guint8 *output;
  gint64 n_rounds = 0;
  guint loop = 0;
  gboolean ok;

  kernel_fill_get_region (self, piece, &region);
  n_bytes = count_bytes (self->base->dtype, count_region (&region));
  n_input_bytes = kernel_fill_count_input_bytes (self, &region);
  if ((n_bytes > self->reader->limit || n_input_bytes > 2 * self->reader->limit)
      && kernel_fill_find_cut (self, piece, &region, &loop, &n_rounds))
    {
      WeftPiece half, rest;

      take_rounds (piece, loop, 0, n_rounds, &half);
      take_rounds (piece, loop, n_rounds, piece->loops[loop].extent - n_rounds, &rest);
      if (n_bytes > self->reader->limit || kernel_fill_is_half_lighter (self, &half, n_input_bytes))
        return kernel_fill_run (self, &half, error) && kernel_fill_run (self, &rest, error);
    }
  kernel_fill_localise (self, &region, &local);
  output = self->origin + (gsize) (local.destination - self->destination) * unit_bytes;
  if (takes_whole_region (&local, (gint64) (n_bytes / unit_bytes), output))
    return run_kernel (self->reader, self->base, &region, output, error);
  output = take_scratch (self->reader, n_bytes);
  ok = run_kernel (self->reader, self->base, &region, output, error);
  if (ok)
    copy_piece (&local, unit_bytes, output + (gsize) local.source * unit_bytes,
                self->origin + (gsize) (local.destination - self->destination) * unit_bytes);
  give_scratch (self->reader);
  return ok;
}

static gboolean
fill_from_box (const WeftPiece *exchanged, gpointer user_data, GError **error)
{
  WeftPiece piece = *exchanged;

  weft_piece_exchange (&piece);
  return kernel_fill_run (user_data, &piece, error);
}

/* A loop that repeats its source moves nowhere in the kernel's output: its first round is computed, then copied. */
static void
repeat_first_round (const WeftPiece *piece, guint8 *origin)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (piece->base->dtype);
  WeftPiece copies = { .base = piece->base };

  for (guint i = 0; i < piece->n_loops; i++)
    if (piece->loops[i].source != 0)
      copies.loops[copies.n_loops++] =
          (WeftLoop){ piece->loops[i].extent, piece->loops[i].destination, piece->loops[i].destination };
  for (guint i = 0; i < piece->n_loops; i++)
    {
      const WeftLoop *loop = &piece->loops[i];

      if (loop->source != 0)
        continue;
      copies.loops[copies.n_loops++] = (WeftLoop){ loop->extent - 1, loop->destination, 0 };
      copy_piece (&copies, unit_bytes, origin, origin + (gsize) loop->destination * unit_bytes);
      copies.loops[copies.n_loops - 1] = (WeftLoop){ loop->extent, loop->destination, loop->destination };
    }
}

static gboolean
fill_from_kernel (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  WeftPiece distinct = *piece;
  KernelFill fill;

  distinct.n_loops = 0;
  for (guint i = 0; i < piece->n_loops; i++)
    if (piece->loops[i].source != 0)
      distinct.loops[distinct.n_loops++] = piece->loops[i];
  kernel_fill_init (&fill, self, piece, origin);
  weft_piece_exchange (&distinct);
  weft_piece_normalise (&distinct);
  if (!weft_piece_fit (&distinct, fill.dims, fill.rank, piece->base->kernel.kernel->name, fill_from_box,
                       &fill, error))
    return FALSE;
  repeat_first_round (piece, origin);
  return TRUE;
}

static gboolean
fill_pointwise (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  const WeftBase *base = piece->base;
  WeftPiece same_bits = *piece;

  if (base->pointwise.function != WEFT_POINTWISE_BITCAST)
    return weft_dtype_get_unit_elements (base->pointwise.input->dtype) == 1
               ? fill_pointwise_packed (self, piece, origin, error)
               : fill_pointwise_band (self, piece, origin, error);
  same_bits.base = base->pointwise.input;
  return weft_reader_fill (self, &same_bits, origin, error);
}

gboolean
weft_reader_fill (WeftReader *self, const WeftPiece *piece, guint8 *origin, GError **error)
{
  const WeftBase *base = piece->base;
  gsize unit_bytes = weft_dtype_get_unit_bytes (base->dtype);

  switch ((WeftBaseKind) base->kind)
    {
    case WEFT_BASE_FILE:
      return fill_from_file (self, piece, origin, error);
    case WEFT_BASE_MEMORY:
      copy_piece (piece, unit_bytes,
                  (const guint8 *) g_bytes_get_data (base->bytes, NULL) + (gsize) piece->source * unit_bytes,
                  origin);
      return TRUE;
    case WEFT_BASE_CONSTANT:
      copy_piece (piece, unit_bytes, base->element, origin);
      return TRUE;
    case WEFT_BASE_POINTWISE:
      return fill_pointwise (self, piece, origin, error);
    case WEFT_BASE_KERNEL:
      return fill_from_kernel (self, piece, origin, error);
    case WEFT_BASE_SOURCE:
      return fill_from_source (self, piece, origin, error);
    case WEFT_BASE_ONCE:
      return fill_from_memory_once (self, piece, origin, error);
    case WEFT_BASE_UNREADABLE:
    default:
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                           "the elements are not there: this tensor is known by its header only");
      return FALSE;
    }
}

gboolean
weft_reader_read_tensor (WeftReader *self, WeftTensor *tensor, guint8 *buffer, GError **error)
{
  gsize unit_bytes = weft_dtype_get_unit_bytes (tensor->dtype);

  for (guint i = 0; i < tensor->layout.n_pieces; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&tensor->layout, i, &piece);
      if (!weft_reader_fill (self, &piece, buffer + (gsize) piece.destination * unit_bytes, error))
        return FALSE;
    }
  return weft_reader_flush (self, error);
}

/**
 * weft_tensor_read:
 * @self: a tensor
 * @cancellable: (nullable): to stop early
 * @error: return location
 *
 * Reads and computes all elements into memory, on the calling thread.
 *
 * Returns: (transfer full): the elements, row-major, little-endian
 * Errors: %WEFT_ERROR_IO if a file cannot be read; those of kernels and sources
 * Since: 1.0
 */
GBytes *
weft_tensor_read (WeftTensor *self, GCancellable *cancellable, GError **error)
{
  gsize n_bytes = weft_tensor_get_n_bytes (self);
  g_autofree guint8 *buffer = g_try_malloc (MAX (n_bytes, 1));
  WeftReader reader;
  gboolean ok;

  if (buffer == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "no memory for a tensor of %" G_GSIZE_FORMAT " bytes",
                   n_bytes);
      return NULL;
    }
  if (g_cancellable_is_cancelled (cancellable))
    {
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "cancelled");
      return NULL;
    }
  weft_reader_init (&reader, 1024 * 1024);
  ok = weft_reader_read_tensor (&reader, self, buffer, error);
  weft_reader_clear (&reader);
  return ok ? g_bytes_new_take (g_steal_pointer (&buffer), n_bytes) : NULL;
}
