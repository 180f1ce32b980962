/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-code-kernels-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-tensor-private.h"

#include <math.h>
#include <string.h>

#define MAX_TABLE_ENTRIES 256

/* The kernel whose whole output a tensor is, in its order, or %NULL. */
static const WeftBase *
peek_kernel_base (WeftTensor *self, const WeftKernel *kernel)
{
  WeftPiece piece;

  if (self->layout.n_pieces != 1)
    return NULL;
  weft_layout_get_piece (&self->layout, 0, &piece);
  if (piece.base->kind != WEFT_BASE_KERNEL || piece.base->kernel.kernel != kernel || piece.source != 0
      || piece.n_loops > 1 || (piece.n_loops == 1 && piece.loops[0].source != 1)
      || !weft_shape_equal (piece.base->kernel.shape, &self->shape))
    return NULL;
  return piece.base;
}

/* Extents before, on and after an axis of a region. */
typedef struct
{
  gsize n_outer;
  gsize n_codes;
  gsize n_inner;
} Frame;

static Frame
get_frame (const WeftRegion *region, guint axis)
{
  Frame frame = { 1, (gsize) region->extent[axis], 1 };

  for (guint i = 0; i < axis; i++)
    frame.n_outer *= (gsize) region->extent[i];
  for (guint i = axis + 1; i < region->rank; i++)
    frame.n_inner *= (gsize) region->extent[i];
  return frame;
}

/* Unpacking */

void
weft_unpacking_get_word_region (const WeftUnpacking *self, const WeftRegion *codes, WeftRegion *words)
{
  *words = *codes;
  words->start[self->axis] = weft_bit_packing_count_words (&self->packing, codes->start[self->axis]);
  words->extent[self->axis] = weft_bit_packing_count_words (&self->packing, codes->extent[self->axis]);
}

static void
get_unpacking_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  const WeftUnpacking *unpacking = params;

  block[unpacking->axis] = unpacking->packing.period;
}

static void
get_word_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  weft_unpacking_get_word_region (params, output, region);
}

static gboolean
compute_codes (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
               guint n_inputs, gpointer scratch, GError **error)
{
  const WeftUnpacking *unpacking = params;
  const Frame frame = get_frame (&output->region, unpacking->axis);
  const guint8 *words = inputs[0].elements;
  const gsize n_word_bytes =
      (gsize) inputs[0].region.extent[unpacking->axis] * frame.n_inner * unpacking->packing.word_bits / 8;
  guint8 *codes = output->elements;

  for (gsize i = 0; i < frame.n_outer; i++, words += n_word_bytes, codes += frame.n_codes * frame.n_inner)
    if (frame.n_inner == 1)
      weft_bit_packing_unpack (&unpacking->packing, words, frame.n_codes, codes);
    else
      for (gsize row = 0; row < frame.n_codes; row++)
        weft_bit_packing_unpack_row (&unpacking->packing, words, frame.n_inner, (gint64) row, 0,
                                     frame.n_inner, codes + row * frame.n_inner);
  return TRUE;
}

static const WeftKernel unpack_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "unpack",
  .get_granularity = get_unpacking_granularity,
  .get_input_region = get_word_region,
  .compute = compute_codes,
};

WeftTensor *
weft_tensor_peek_words (WeftTensor *self, const WeftUnpacking **unpacking)
{
  const WeftBase *base = peek_kernel_base (self, &unpack_kernel);

  if (base == NULL)
    return NULL;
  *unpacking = base->kernel.params;
  return base->kernel.inputs[0];
}

/**
 * weft_tensor_unpack:
 * @self: words that hold codes
 * @bits: bits of a code, 1 to 8
 * @order: how codes lie in words
 * @axis: axis along which a word holds codes, `-r <= axis < r`
 * @n_codes: codes along that axis
 * @error: return location
 *
 * Takes codes out of words.
 *
 * Returns: (transfer full): the codes as U8, of the shape of @self with @n_codes on @axis
 * Errors: %WEFT_ERROR_ARGUMENT if @order does not hold codes of @bits, %WEFT_ERROR_DTYPE if @self is not of words of 8, 16,
 *   32 or 64 bits, %WEFT_ERROR_SHAPE if the words along @axis are not as many as @n_codes take
 * Since: 1.0
 */
WeftTensor *
weft_tensor_unpack (WeftTensor *self, guint bits, WeftBitOrder order, gint axis, gint64 n_codes,
                    GError **error)
{
  WeftShape shape = self->shape;
  WeftUnpacking unpacking;
  gint64 n_words;

  if (!weft_bit_packing_init (&unpacking.packing, bits, order, self->dtype, error)
      || !weft_shape_resolve_axis (&shape, axis, &unpacking.axis, error))
    return NULL;
  n_words = n_codes >= 0 && n_codes <= G_MAXINT64 / 16
                ? weft_bit_packing_count_words (&unpacking.packing, n_codes)
                : -1;
  if (n_words != shape.dims[unpacking.axis])
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "unpack: %" G_GINT64_FORMAT " codes of %u bits take %" G_GINT64_FORMAT
                   " words of %u bits, found %" G_GINT64_FORMAT " words on axis %u",
                   n_codes, bits, n_words, unpacking.packing.word_bits, shape.dims[unpacking.axis],
                   unpacking.axis);
      return NULL;
    }
  shape.dims[unpacking.axis] = n_codes;
  return weft_tensor_new_from_kernel (&unpack_kernel, g_memdup2 (&unpacking, sizeof unpacking), g_free,
                                      WEFT_DTYPE_U8, shape.dims, shape.rank, &self, 1, error);
}

/* Packing */

static void
get_packing_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  const WeftUnpacking *unpacking = params;

  block[unpacking->axis] = weft_bit_packing_count_words (&unpacking->packing, unpacking->packing.period);
}

typedef struct
{
  WeftUnpacking unpacking;
  gint64 n_codes;
} Packing;

/* Whole periods, cut short at the end of the codes. */
static void
get_code_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const Packing *packing = params;
  const WeftUnpacking *unpacking = &packing->unpacking;
  gint64 period = unpacking->packing.period, period_words = unpacking->packing.period_words;
  gint64 start = output->start[unpacking->axis] / period_words * period;
  gint64 n_periods = (output->extent[unpacking->axis] + period_words - 1) / period_words;

  *region = *output;
  region->start[unpacking->axis] = start;
  region->extent[unpacking->axis] = MIN (n_periods * period, packing->n_codes - start);
}

static gboolean
compute_words (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
               guint n_inputs, gpointer scratch, GError **error)
{
  const WeftUnpacking *unpacking = &((const Packing *) params)->unpacking;
  const Frame frame = get_frame (&inputs[0].region, unpacking->axis);
  const gsize n_word_bytes =
      (gsize) output->region.extent[unpacking->axis] * frame.n_inner * unpacking->packing.word_bits / 8;
  const guint8 *codes = inputs[0].elements;
  guint8 *words = output->elements;

  for (gsize i = 0; i < frame.n_outer; i++, words += n_word_bytes, codes += frame.n_codes * frame.n_inner)
    if (frame.n_inner == 1)
      weft_bit_packing_pack (&unpacking->packing, codes, frame.n_codes, words);
    else
      {
        memset (words, 0, n_word_bytes);
        for (gsize row = 0; row < frame.n_codes; row++)
          weft_bit_packing_pack_row (&unpacking->packing, codes + row * frame.n_inner, frame.n_inner,
                                     (gint64) row, words);
      }
  return TRUE;
}

static WeftTensor *
invert_packing (gconstpointer params, WeftTensor *output, GError **error)
{
  const Packing *packing = params;

  return weft_tensor_unpack (output, packing->unpacking.packing.bits, packing->unpacking.packing.order,
                             (gint) packing->unpacking.axis, packing->n_codes, error);
}

static const WeftKernel pack_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "pack",
  .get_granularity = get_packing_granularity,
  .get_input_region = get_code_region,
  .compute = compute_words,
  .invert = invert_packing,
};

/**
 * weft_tensor_pack:
 * @self: codes, U8 or I8; bits above @bits are left out
 * @bits: bits of a code, 1 to 8
 * @order: how codes lie in words
 * @axis: axis along which a word holds codes, `-r <= axis < r`
 * @words: dtype of the words
 * @error: return location
 *
 * Puts codes into words; what is left of the last word is zero.
 *
 * Returns: (transfer full): the words
 * Errors: %WEFT_ERROR_ARGUMENT if @order does not hold codes of @bits, %WEFT_ERROR_DTYPE if codes are not of 8 bits, or
 *   words not of 8, 16, 32 or 64
 * Since: 1.0
 */
WeftTensor *
weft_tensor_pack (WeftTensor *self, guint bits, WeftBitOrder order, gint axis, WeftDtype words,
                  GError **error)
{
  WeftShape shape = self->shape;
  Packing packing;

  if (self->dtype != WEFT_DTYPE_U8 && self->dtype != WEFT_DTYPE_I8)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "pack: codes must be U8 or I8, found %s",
                   weft_dtype_get_name (self->dtype));
      return NULL;
    }
  if (!weft_bit_packing_init (&packing.unpacking.packing, bits, order, words, error)
      || !weft_shape_resolve_axis (&shape, axis, &packing.unpacking.axis, error))
    return NULL;
  packing.n_codes = shape.dims[packing.unpacking.axis];
  shape.dims[packing.unpacking.axis] =
      weft_bit_packing_count_words (&packing.unpacking.packing, packing.n_codes);
  return weft_tensor_new_from_kernel (&pack_kernel, g_memdup2 (&packing, sizeof packing), g_free, words,
                                      shape.dims, shape.rank, &self, 1, error);
}

/* Tables */

/**
 * weft_tensor_new_code_table:
 * @dtype: a dtype of 4, 6 or 8 bits, such as F4
 * @error: return location
 *
 * Returns: (transfer full): the values of all codes of @dtype in the order of the codes, F32
 * Errors: %WEFT_ERROR_DTYPE if @dtype is wider, or no dtype
 * Since: 1.0
 */
WeftTensor *
weft_tensor_new_code_table (WeftDtype dtype, GError **error)
{
  guint bits = dtype > WEFT_DTYPE_INVALID && dtype < WEFT_N_DTYPES ? weft_dtype_get_bits (dtype) : 0;
  const gint64 n_codes = G_GINT64_CONSTANT (1) << MIN (bits, 8);
  guint8 codes[MAX_TABLE_ENTRIES], packed[MAX_TABLE_ENTRIES];
  gfloat values[MAX_TABLE_ENTRIES];
  WeftBitPacking packing;
  g_autoptr (GBytes) bytes = NULL;

  if (bits == 0 || bits > 8)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "a table of codes needs a dtype of up to 8 bits");
      return NULL;
    }
  if (!weft_bit_packing_init (&packing, bits, WEFT_BIT_ORDER_DENSE, WEFT_DTYPE_U8, error))
    return NULL;
  for (gsize i = 0; i < MAX_TABLE_ENTRIES; i++)
    codes[i] = (guint8) i;
  weft_bit_packing_pack (&packing, codes, (gsize) n_codes, packed);
  weft_cast_lookup (dtype, WEFT_DTYPE_F32) (packed, values, (gsize) n_codes);
  bytes = g_bytes_new (values, (gsize) n_codes * sizeof *values);
  return weft_tensor_new_from_bytes (WEFT_DTYPE_F32, &n_codes, 1, bytes, error);
}

static void
get_lookup_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  if (input == 0)
    *region = *output;
  else
    *region = (WeftRegion){ .rank = 1, .extent = { GPOINTER_TO_INT (params) } };
}

static gboolean
compute_lookup (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                guint n_inputs, gpointer scratch, GError **error)
{
  const guint8 *codes = inputs[0].elements;
  gfloat table[MAX_TABLE_ENTRIES];
  gfloat *values = output->elements;

  for (gsize i = 0; i < MAX_TABLE_ENTRIES; i++)
    table[i] = NAN;
  memcpy (table, inputs[1].elements, (gsize) inputs[1].n_elements * sizeof *table);
  for (gint64 i = 0; i < output->n_elements; i++)
    values[i] = table[codes[i]];
  return TRUE;
}

static const WeftKernel lookup_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "lookup",
  .get_input_region = get_lookup_region,
  .compute = compute_lookup,
};

WeftTensor *
weft_tensor_peek_codes (WeftTensor *self, WeftTensor **table)
{
  const WeftBase *base = peek_kernel_base (self, &lookup_kernel);

  if (base == NULL)
    return NULL;
  *table = base->kernel.inputs[1];
  return base->kernel.inputs[0];
}

/**
 * weft_tensor_lookup:
 * @self: codes, U8
 * @table: the value of each code, F32, one axis of at most 256
 * @error: return location
 *
 * Puts values in the place of codes. A code beyond the table gives NaN.
 *
 * Returns: (transfer full): the values, F32
 * Errors: %WEFT_ERROR_DTYPE and %WEFT_ERROR_SHAPE if an argument is not as it should be
 * Since: 1.0
 */
WeftTensor *
weft_tensor_lookup (WeftTensor *self, WeftTensor *table, GError **error)
{
  WeftTensor *inputs[] = { self, table };

  if (self->dtype != WEFT_DTYPE_U8 || table->dtype != WEFT_DTYPE_F32)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                   "lookup: expected codes of U8 and a table of F32, found %s and %s",
                   weft_dtype_get_name (self->dtype), weft_dtype_get_name (table->dtype));
      return NULL;
    }
  if (table->shape.rank != 1 || table->n_elements > MAX_TABLE_ENTRIES)
    {
      g_autofree gchar *text = weft_shape_to_string (&table->shape);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "lookup: expected a table of one axis of at most 256, found %s", text);
      return NULL;
    }
  return weft_tensor_new_from_kernel (&lookup_kernel, GINT_TO_POINTER ((gint) table->n_elements), NULL,
                                      WEFT_DTYPE_F32, self->shape.dims, self->shape.rank, inputs, 2, error);
}

/* Bitmasks */

typedef struct
{
  gsize element_bytes;
  /* Where the kept elements of each row begin, and where the last row ends; %NULL if rows keep equally many. */
  gint64 *row_offsets;
  gint64 n_kept_columns;
} Bitmask;

static void
bitmask_free (gpointer params)
{
  g_free (((Bitmask *) params)->row_offsets);
  g_free (params);
}

/* Whole rows, since what lies before a column in its row is known from the mask only. */
static void
get_bitmask_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[1] = MAX (1, output->dims[1]);
}

static void
get_bitmask_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const Bitmask *bitmask = params;
  gint64 first = output->start[0], end = first + output->extent[0];

  *region = *output;
  if (input == 1)
    region->extent[1] = (output->extent[1] + 7) / 8;
  else if (bitmask->row_offsets == NULL)
    region->extent[1] = bitmask->n_kept_columns;
  else
    *region = (WeftRegion){ .rank = 1,
                            .start = { bitmask->row_offsets[first] },
                            .extent = { bitmask->row_offsets[end] - bitmask->row_offsets[first] } };
}

/* Spreads what a row keeps. FALSE if the mask asks for another number of elements. */
static gboolean
spread_row (const guint8 *mask, gsize n_columns, gsize element_bytes, const guint8 *kept, gsize n_kept,
            guint8 *row)
{
  gsize n_taken = 0;

  memset (row, 0, n_columns * element_bytes);
  for (gsize i = 0; i < n_columns; i++)
    {
      if ((mask[i / 8] >> i % 8 & 1) == 0)
        continue;
      if (n_taken == n_kept)
        return FALSE;
      memcpy (row + i * element_bytes, kept + n_taken++ * element_bytes, element_bytes);
    }
  return n_taken == n_kept;
}

static gboolean
compute_rows (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
              guint n_inputs, gpointer scratch, GError **error)
{
  const Bitmask *bitmask = params;
  const guint8 *kept = inputs[0].elements;
  const guint8 *mask = inputs[1].elements;
  const gsize n_columns = (gsize) output->region.extent[1];
  guint8 *row = output->elements;

  for (gint64 i = output->region.start[0]; i < output->region.start[0] + output->region.extent[0]; i++)
    {
      gsize n_kept =
          (gsize) (bitmask->row_offsets != NULL ? bitmask->row_offsets[i + 1] - bitmask->row_offsets[i]
                                                : bitmask->n_kept_columns);

      if (!spread_row (mask, n_columns, bitmask->element_bytes, kept, n_kept, row))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                       "the bitmask of row %" G_GINT64_FORMAT
                       " has not as many bits as the row keeps elements, which are %" G_GSIZE_FORMAT,
                       i, n_kept);
          return FALSE;
        }
      kept += n_kept * bitmask->element_bytes;
      mask += (n_columns + 7) / 8;
      row += n_columns * bitmask->element_bytes;
    }
  return TRUE;
}

static const WeftKernel bitmask_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "bitmask",
  .get_granularity = get_bitmask_granularity,
  .get_input_region = get_bitmask_region,
  .compute = compute_rows,
};

static gboolean
refuse_bitmask (const gchar *what, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "bitmask: %s", what);
  return FALSE;
}

/* Rows begin one after the other and within what is kept. */
static gboolean
read_row_offsets (Bitmask *bitmask, WeftTensor *offsets, gint64 n_rows, gint64 n_kept, GError **error)
{
  g_autoptr (GBytes) bytes = NULL;

  if (offsets->dtype != WEFT_DTYPE_I64 || offsets->shape.rank != 1 || offsets->n_elements != n_rows)
    return refuse_bitmask ("expected as many row offsets, I64, as the mask has rows", error);
  bytes = weft_tensor_read (offsets, NULL, error);
  if (bytes == NULL)
    return FALSE;
  bitmask->row_offsets = g_new (gint64, n_rows + 1);
  memcpy (bitmask->row_offsets, g_bytes_get_data (bytes, NULL), (gsize) n_rows * sizeof (gint64));
  bitmask->row_offsets[n_rows] = n_kept;
  for (gint64 i = 0; i < n_rows; i++)
    if (bitmask->row_offsets[i] < 0 || bitmask->row_offsets[i] > bitmask->row_offsets[i + 1])
      return refuse_bitmask ("expected row offsets that rise, up to the number of kept elements", error);
  return n_rows == 0 || bitmask->row_offsets[0] == 0
         || refuse_bitmask ("expected the first row to begin with the first kept element", error);
}

static gboolean
bitmask_init (Bitmask *bitmask, WeftTensor *kept, WeftTensor *mask, WeftTensor *row_offsets, gint64 n_columns,
              GError **error)
{
  bitmask->element_bytes = weft_dtype_get_bits (kept->dtype) / 8;
  if (weft_dtype_get_bits (kept->dtype) % 8 != 0)
    return refuse_bitmask ("expected elements of whole bytes", error);
  if (mask->dtype != WEFT_DTYPE_U8 || mask->shape.rank != 2 || n_columns < 0
      || mask->shape.dims[1] != n_columns / 8 + (n_columns % 8 != 0))
    return refuse_bitmask ("expected a mask of U8, a row of it a bit for each column", error);
  if (row_offsets != NULL)
    return kept->shape.rank == 1
               ? read_row_offsets (bitmask, row_offsets, mask->shape.dims[0], kept->n_elements, error)
               : refuse_bitmask ("expected kept elements of one axis", error);
  if (kept->shape.rank != 2 || kept->shape.dims[0] != mask->shape.dims[0])
    return refuse_bitmask ("expected as many rows of kept elements as the mask has", error);
  bitmask->n_kept_columns = kept->shape.dims[1];
  return TRUE;
}

/**
 * weft_tensor_expand_bitmask:
 * @self: the elements that are kept: of one axis, row after row, with @row_offsets; of two without
 * @bitmask: U8 of two axes: a bit for each column, the first column lowest, rows padded to whole bytes
 * @row_offsets: (nullable): I64, where each row begins in @self; read at once. %NULL: every row keeps equally many
 * @n_columns: columns of the result
 * @error: return location
 *
 * Puts the kept elements of a sparse matrix where its mask has bits, and zeros elsewhere.
 *
 * Returns: (transfer full): the dense matrix, of the dtype of @self
 * Errors: %WEFT_ERROR_SHAPE if the parts do not fit together; when read, %WEFT_ERROR_FORMAT if a row of the mask has not as
 *   many bits as the row keeps elements
 * Since: 1.0
 */
WeftTensor *
weft_tensor_expand_bitmask (WeftTensor *self, WeftTensor *bitmask, WeftTensor *row_offsets, gint64 n_columns,
                            GError **error)
{
  WeftTensor *inputs[] = { self, bitmask };
  Bitmask *params = g_new0 (Bitmask, 1);

  if (!bitmask_init (params, self, bitmask, row_offsets, n_columns, error))
    {
      bitmask_free (params);
      return NULL;
    }
  return weft_tensor_new_from_kernel (&bitmask_kernel, params, bitmask_free, self->dtype,
                                      (gint64[]){ bitmask->shape.dims[0], n_columns }, 2, inputs, 2, error);
}

/**
 * weft_tensor_unpack_floats:
 * @self: words that hold codes, one after the other along the last axis
 * @dtype: a floating dtype of up to 8 bits that the codes are of, such as F4
 * @n_columns: codes along that axis
 * @error: return location
 *
 * Takes small floats out of words: weft_tensor_unpack(), and the values of the codes.
 *
 * Returns: (transfer full): the values, F32
 * Errors: those of weft_tensor_new_code_table(), weft_tensor_unpack() and weft_tensor_lookup()
 * Since: 1.0
 */
WeftTensor *
weft_tensor_unpack_floats (WeftTensor *self, WeftDtype dtype, gint64 n_columns, GError **error)
{
  g_autoptr (WeftTensor) table = weft_tensor_new_code_table (dtype, error);
  g_autoptr (WeftTensor) codes =
      table != NULL
          ? weft_tensor_unpack (self, weft_dtype_get_bits (dtype), WEFT_BIT_ORDER_DENSE, -1, n_columns, error)
          : NULL;

  return codes != NULL ? weft_tensor_lookup (codes, table, error) : NULL;
}
