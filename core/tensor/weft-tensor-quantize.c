/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel makes codes: it walks the rows of a region in runs, scales a run in F32 and rounds it to codes. */
#include "tensor/weft-tensor-quantize.h"

#include "tensor/weft-bit-packing-private.h"
#include "tensor/weft-block-grid-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-dequantize-loops-private.h"
#include "tensor/weft-tensor-private.h"
#include "tensor/weft-vectorised-private.h"

#include <math.h>
#include <string.h>

#define MAX_TABLE_ENTRIES 256
#define MAX_INPUTS 3

typedef struct
{
  WeftQuantizeFlags flags;
  WeftDtype dtype; /* of the codes; that of a table: INVALID */
  guint bits;
  WeftBlockGrid grid;
  /* Scales and, if there is an input 2, zero points: one for each block, or one for all. */
  gboolean is_single[MAX_INPUTS];
  guint single_rank[MAX_INPUTS];
  gint64 n_table;
} Quantization;

/* Regions */

static void
get_input_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const Quantization *self = params;

  if (input == 0)
    *region = *output;
  else if (input == 2 && self->n_table > 0)
    *region = (WeftRegion){ .rank = 1, .extent = { self->n_table } };
  else if (!self->is_single[input])
    weft_block_grid_get_region (&self->grid, output, region);
  else
    {
      *region = (WeftRegion){ .rank = self->single_rank[input] };
      for (guint k = 0; k < region->rank; k++)
        region->extent[k] = 1;
    }
}

static gsize
count_factors (const Quantization *self, guint input, const WeftRegion *output)
{
  WeftRegion region;
  gsize count = 1;

  get_input_region (self, input, output, &region);
  for (guint k = 0; k < region.rank; k++)
    count *= (gsize) region.extent[k];
  return count;
}

static gsize
get_scratch_bytes (gconstpointer params, const WeftRegion *output)
{
  return (count_factors (params, 1, output) + count_factors (params, 2, output)) * sizeof (gfloat);
}

/* Tables */

/* The entries of a table by their values, equal ones in their order. */
typedef struct
{
  gint64 n;
  gfloat values[MAX_TABLE_ENTRIES];
  guint8 codes[MAX_TABLE_ENTRIES];
} SortedTable;

static void
sorted_table_init (SortedTable *self, const gfloat *values, gint64 n)
{
  self->n = n;
  for (gint64 i = 0; i < n; i++)
    {
      gint64 at = i;

      for (; at > 0 && self->values[at - 1] > values[i]; at--)
        {
          self->values[at] = self->values[at - 1];
          self->codes[at] = self->codes[at - 1];
        }
      self->values[at] = values[i];
      self->codes[at] = (guint8) i;
    }
}

static guint8
sorted_table_find_nearest (const SortedTable *self, gfloat value)
{
  gint64 low = 0, high = self->n;

  while (low < high)
    {
      gint64 middle = (low + high) / 2;

      if (self->values[middle] < value)
        low = middle + 1;
      else
        high = middle;
    }
  if (low == self->n || (low > 0 && value - self->values[low - 1] <= self->values[low] - value))
    low--;
  return self->codes[low];
}

/* Runs */

typedef struct
{
  const Quantization *params;
  const WeftRegion *output;
  WeftCastFunc decode;
  WeftCastFunc narrow, widen; /* of rounded steps */
  WeftCastFunc encode;
  WeftBitPacking packing; /* of codes of less than a byte */
  gsize value_bytes;
  WeftQuantizeFunc quantize; /* NULL: step by step */
  const gfloat *scales;
  const gfloat *shifts; /* NULL: none */
  const SortedTable *table;
} Walk;

static void
round_step (const Walk *walk, gfloat *values, gsize n)
{
  guint16 rounded[WEFT_RUN_ELEMENTS];

  if ((walk->params->flags & WEFT_QUANTIZE_FLAGS_ROUND_STEPS) == 0 || walk->value_bytes != sizeof *rounded)
    return;
  walk->narrow (values, rounded, n);
  walk->widen (rounded, values, n);
}

/* To nearest, ties to even, within the codes. NaN gives 0. */
WEFT_VECTORISED static void
round_to_integers (const gfloat *restrict values, gsize n, gfloat lowest, gfloat highest,
                   guint8 *restrict codes)
{
  for (gsize i = 0; i < n; i++)
    {
      /* Adding this number leaves no bits for a fraction. */
      gfloat clamped = values[i] < highest ? values[i] : highest;
      gfloat rounded = ((clamped > lowest ? clamped : lowest) + 0x1.8p23f) - 0x1.8p23f;

      codes[i] = (guint8) (gint8) (gint32) rounded;
    }
}

WEFT_VECTORISED static void
round_to_unsigned (const gfloat *restrict values, gsize n, gfloat highest, guint8 *restrict codes)
{
  for (gsize i = 0; i < n; i++)
    {
      gfloat clamped = values[i] < highest ? values[i] : highest;

      codes[i] = (guint8) (gint32) (((clamped > 0 ? clamped : 0) + 0x1.8p23f) - 0x1.8p23f);
    }
}

static void
encode_run (const Walk *walk, const gfloat *values, gsize n, guint8 *codes)
{
  const Quantization *self = walk->params;
  const gfloat n_codes = (gfloat) (1 << self->bits);
  guint8 packed[WEFT_RUN_ELEMENTS];

  if (self->n_table > 0)
    for (gsize i = 0; i < n; i++)
      codes[i] = sorted_table_find_nearest (walk->table, isnan (values[i]) ? 0 : values[i]);
  else if (self->dtype == WEFT_DTYPE_I8)
    round_to_integers (values, n, -n_codes / 2, n_codes / 2 - 1, codes);
  else if (self->dtype == WEFT_DTYPE_U8)
    round_to_unsigned (values, n, n_codes - 1, codes);
  else if (weft_dtype_get_bits (self->dtype) == 8)
    walk->encode (values, codes, n);
  else
    {
      /* Whole bytes; what is beyond the run is left out again. */
      walk->encode (values, packed, (n + 3) / 4 * 4);
      weft_bit_packing_unpack (&walk->packing, packed, n, codes);
    }
}

static void
compute_run (const Walk *walk, WeftBlockRun *run, const guint8 *in, gsize n, guint8 *codes)
{
  static const gfloat one = 1, none = 0;
  const Quantization *self = walk->params;
  const gboolean has_bias = (self->flags & WEFT_QUANTIZE_FLAGS_BIAS) != 0;
  gfloat values[WEFT_RUN_ELEMENTS + 4];
  WeftBlockRun shift = *run;

  run->scaling =
      (self->flags & WEFT_QUANTIZE_FLAGS_MULTIPLY) != 0 ? WEFT_SCALING_MULTIPLY : WEFT_SCALING_DIVIDE;
  run->shifts = &none;
  run->shift_step = 0;
  if (walk->quantize != NULL && run->block > 1)
    {
      walk->quantize (run, in, n, codes);
      return;
    }
  memset (values + n, 0, 4 * sizeof *values);
  walk->decode (in, values, n);
  shift.scaling = has_bias ? WEFT_SCALING_MULTIPLY : WEFT_SCALING_AFFINE;
  shift.scales = &one;
  shift.scale_step = 0;
  if (walk->shifts != NULL && has_bias)
    weft_scale_run (&shift, values, n);
  weft_scale_run (run, values, n);
  round_step (walk, values, n);
  if (walk->shifts != NULL && !has_bias)
    {
      weft_scale_run (&shift, values, n);
      round_step (walk, values, n);
    }
  encode_run (walk, values, n, codes);
}

static void
compute_row (const Walk *walk, gint64 offset, const guint8 *in, guint8 *codes)
{
  const Quantization *self = walk->params;
  const guint last = walk->output->rank - 1;
  const gint64 block = self->grid.block[last], start = walk->output->start[last];
  const gint64 n_columns = walk->output->extent[last];

  for (gint64 column = 0; column < n_columns; column += WEFT_RUN_ELEMENTS)
    {
      const gsize n = (gsize) MIN (WEFT_RUN_ELEMENTS, n_columns - column);
      const gint64 begin = start + column, first_block = begin / block;
      const gsize at = (gsize) (offset + first_block - start / block);
      const gboolean has_shifts = walk->shifts != NULL && !self->is_single[2];
      WeftBlockRun run = { .scales = walk->scales + (self->is_single[1] ? 0 : at),
                           .scale_step = !self->is_single[1],
                           .shifts = walk->shifts != NULL ? walk->shifts + (has_shifts ? at : 0) : NULL,
                           .shift_step = has_shifts,
                           .block = (gsize) block,
                           .first = (gsize) ((first_block + 1) * block - begin) };

      compute_run (walk, &run, in + (gsize) column * walk->value_bytes, n, codes + column);
    }
}

static const gfloat *
read_factors (const WeftKernelView *view, gfloat *values)
{
  weft_cast_lookup (view->dtype, WEFT_DTYPE_F32) (view->elements, values, (gsize) view->n_elements);
  return values;
}

static gboolean
compute_codes (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
               guint n_inputs, gpointer scratch, GError **error)
{
  const Quantization *self = params;
  const guint last = output->region.rank - 1;
  gint64 index[WEFT_MAX_RANK] = { 0 };
  gint64 n_rows = 1;
  SortedTable table;
  Walk walk = {
    .params = self, .output = &output->region, .scales = read_factors (&inputs[1], scratch), .table = &table
  };

  walk.value_bytes = weft_dtype_get_bits (inputs[0].dtype) / 8;
  walk.decode = weft_cast_lookup (inputs[0].dtype, WEFT_DTYPE_F32);
  walk.widen = walk.decode;
  walk.narrow = weft_cast_lookup (WEFT_DTYPE_F32, inputs[0].dtype);
  if (self->n_table > 0)
    sorted_table_init (&table, inputs[2].elements, self->n_table);
  else if (n_inputs > 2)
    walk.shifts = read_factors (&inputs[2], (gfloat *) scratch + inputs[1].n_elements);
  if (self->n_table == 0)
    walk.encode = weft_cast_lookup (WEFT_DTYPE_F32, self->dtype);
  if (self->n_table == 0 && walk.shifts == NULL && (self->flags & WEFT_QUANTIZE_FLAGS_ROUND_STEPS) == 0)
    walk.quantize = weft_quantize_lookup (inputs[0].dtype, self->dtype);
  if (self->n_table == 0
      && !weft_bit_packing_init (&walk.packing, weft_dtype_get_bits (self->dtype), WEFT_BIT_ORDER_DENSE,
                                 WEFT_DTYPE_U8, error))
    return FALSE;
  for (guint k = 0; k < last; k++)
    n_rows *= output->region.extent[k];
  for (gint64 row = 0; row < n_rows; row++)
    {
      compute_row (&walk, weft_block_grid_get_row_offset (&self->grid, &output->region, index),
                   (const guint8 *) inputs[0].elements
                       + (gsize) (row * output->region.extent[last]) * walk.value_bytes,
                   (guint8 *) output->elements + row * output->region.extent[last]);
      for (guint k = last; k-- > 0 && ++index[k] == output->region.extent[k];)
        index[k] = 0;
    }
  return TRUE;
}

static const WeftKernel quantize_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "quantize",
  .get_input_region = get_input_region,
  .get_scratch_bytes = get_scratch_bytes,
  .compute = compute_codes,
};

/* Making tensors */

static gboolean
is_value (WeftTensor *tensor)
{
  return weft_dtype_get_bits (tensor->dtype) % 8 == 0
         && weft_cast_lookup (tensor->dtype, WEFT_DTYPE_F32) != NULL;
}

static gboolean
add_factors (Quantization *self, WeftTensor *values, WeftTensor *factors, guint input, GError **error)
{
  WeftShape expected;
  g_autofree gchar *found_text = weft_shape_to_string (&factors->shape);
  g_autofree gchar *expected_text = NULL;

  self->is_single[input] = factors->n_elements == 1;
  self->single_rank[input] = factors->shape.rank;
  weft_block_grid_get_shape (&self->grid, &values->shape, &expected);
  expected_text = weft_shape_to_string (&expected);
  if (is_value (factors) && (self->is_single[input] || weft_shape_equal (&expected, &factors->shape)))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "quantize: expected scales and zero points to be numbers of shape %s, found %s of shape %s",
               expected_text, weft_dtype_get_name (factors->dtype), found_text);
  return FALSE;
}

static WeftTensor *
new_codes (Quantization *self, WeftTensor **inputs, guint n_inputs, const gint64 *block, gsize n_block,
           WeftDtype dtype, GError **error)
{
  WeftTensor *values = inputs[0];

  if (values->shape.rank == 0 || !weft_dtype_is_floating (values->dtype) || !is_value (values))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                   "quantize: expected floating values on one axis or more, found %s",
                   weft_dtype_get_name (values->dtype));
      return NULL;
    }
  if (!weft_block_grid_init (&self->grid, &values->shape, block, n_block, error)
      || !add_factors (self, values, inputs[1], 1, error)
      || (n_inputs > 2 && self->n_table == 0 && !add_factors (self, values, inputs[2], 2, error)))
    return NULL;
  return weft_tensor_new_from_kernel (&quantize_kernel, g_memdup2 (self, sizeof *self), g_free, dtype,
                                      values->shape.dims, values->shape.rank, inputs, n_inputs, error);
}

/**
 * weft_tensor_quantize:
 * @self: floating values
 * @scales: one for each block, or one for all
 * @zero_points: (nullable): what is added to a quotient: one for each block, or one for all
 * @block: (array length=n_block): elements of a block on the last axes, 0 for all of an axis; on axes before, 1
 * @n_block: how many axes @block gives
 * @flags: in which way
 * @dtype: what codes are: I8, U8, or a floating dtype of up to 8 bits
 * @bits: how many bits an integer has
 * @error: return location
 *
 * Computes `value / scale + zero point` in F32 and takes the nearest code, ties to even, within the range of the codes. Scales
 * of blocks of many rows are best remembered (weft_tensor_remember()), since a part of the codes may begin within a block.
 *
 * Returns: (transfer full): codes of the shape of @self: @dtype if that has whole bytes, U8 if it has fewer bits
 * Errors: %WEFT_ERROR_SHAPE if the blocks or the scales do not fit the values; %WEFT_ERROR_DTYPE if values or codes are of
 *   another dtype
 * Since: 1.0
 */
WeftTensor *
weft_tensor_quantize (WeftTensor *self, WeftTensor *scales, WeftTensor *zero_points, const gint64 *block,
                      gsize n_block, WeftQuantizeFlags flags, WeftDtype dtype, guint bits, GError **error)
{
  WeftTensor *inputs[] = { self, scales, zero_points };
  Quantization params = { .flags = flags, .dtype = dtype, .bits = bits };
  gboolean is_integer = dtype == WEFT_DTYPE_I8 || dtype == WEFT_DTYPE_U8;

  if (!(is_integer && bits >= 1 && bits <= 8)
      && !(weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) <= 8))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_DTYPE,
          "quantize: expected codes of I8 or U8 with 1 to 8 bits, or of a floating dtype of up to 8 bits");
      return NULL;
    }
  return new_codes (&params, inputs, zero_points != NULL ? 3 : 2, block, n_block,
                    weft_dtype_get_bits (dtype) == 8 ? dtype : WEFT_DTYPE_U8, error);
}

/**
 * weft_tensor_find_nearest:
 * @self: floating values
 * @scales: one for each block, or one for all
 * @table: the value of each code, F32, one axis of 1 to 256
 * @block: (array length=n_block): elements of a block on the last axes, 0 for all of an axis; on axes before, 1
 * @n_block: how many axes @block gives
 * @error: return location
 *
 * Takes the code whose entry is nearest to `value / scale`, the lower of two. Of equal entries a larger value takes the last,
 * others the first. 0 / 0 counts as 0.
 *
 * Returns: (transfer full): codes of the shape of @self, U8
 * Errors: as for weft_tensor_quantize()
 * Since: 1.0
 */
WeftTensor *
weft_tensor_find_nearest (WeftTensor *self, WeftTensor *scales, WeftTensor *table, const gint64 *block,
                          gsize n_block, GError **error)
{
  WeftTensor *inputs[] = { self, scales, table };
  Quantization params = { .bits = 8, .n_table = table->n_elements };

  if (table->dtype == WEFT_DTYPE_F32 && table->shape.rank == 1 && table->n_elements >= 1
      && table->n_elements <= MAX_TABLE_ENTRIES)
    return new_codes (&params, inputs, 3, block, n_block, WEFT_DTYPE_U8, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "find_nearest: expected a table of 1 to 256 entries of F32");
  return NULL;
}
