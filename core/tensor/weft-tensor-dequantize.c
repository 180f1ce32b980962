/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel dequantises: it walks the rows of a region in runs, brings the codes of a run to F32 (out of their words,
 * through their table), scales them, and rounds once. Codes of up to 4 bits become a table of 16 results for each block. */
#include "tensor/weft-tensor-dequantize.h"

#include "tensor/weft-block-grid-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-code-kernels-private.h"
#include "tensor/weft-dequantize-loops-private.h"
#include "tensor/weft-tensor-private.h"

#include <math.h>
#include <string.h>

#define MAX_TABLE_ENTRIES 256
#define MAX_INPUTS 5

/* Scales, or zero points: one for each block, or one for all in a tensor of whatever rank. Input 0 means none. */
typedef struct
{
  guint input;
  gboolean is_single;
  guint single_rank;
} Factors;

typedef struct
{
  WeftScaling scaling;
  WeftDtype code_dtype;
  gboolean is_packed;
  WeftUnpacking unpacking;
  WeftBlockGrid grid;
  Factors scales;
  /* Zero points or biases. */
  Factors shifts;
  guint table_input;
  gint64 n_table;
  /* The group of each index on an axis, in place of a block there. */
  guint index_input;
  guint index_axis;
  gint64 n_groups;
} Dequantization;

/* Regions */

static void
get_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  const Dequantization *self = params;

  if (self->is_packed)
    block[self->unpacking.axis] = self->unpacking.packing.period;
}

static void
get_factor_region (const Dequantization *self, const Factors *factors, const WeftRegion *output,
                   WeftRegion *region)
{
  if (factors->is_single)
    {
      *region = (WeftRegion){ .rank = factors->single_rank };
      for (guint k = 0; k < region->rank; k++)
        region->extent[k] = 1;
      return;
    }
  weft_block_grid_get_region (&self->grid, output, region);
  if (self->index_input == 0)
    return;
  region->start[self->index_axis] = 0;
  region->extent[self->index_axis] = self->n_groups;
}

static void
get_input_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const Dequantization *self = params;

  if (input == 0 && self->is_packed)
    weft_unpacking_get_word_region (&self->unpacking, output, region);
  else if (input == 0)
    *region = *output;
  else if (input == self->scales.input)
    get_factor_region (self, &self->scales, output, region);
  else if (input == self->shifts.input)
    get_factor_region (self, &self->shifts, output, region);
  else if (input == self->table_input)
    *region = (WeftRegion){ .rank = 1, .extent = { self->n_table } };
  else
    *region = (WeftRegion){ .rank = 1,
                            .start = { output->start[self->index_axis] },
                            .extent = { output->extent[self->index_axis] } };
}

static gint64
count_factors (const Dequantization *self, const Factors *factors, const WeftRegion *output)
{
  WeftRegion region;
  gint64 count = 1;

  if (factors->input == 0)
    return 0;
  get_factor_region (self, factors, output, &region);
  for (guint k = 0; k < region.rank; k++)
    count *= region.extent[k];
  return count;
}

static gsize
get_scratch_bytes (gconstpointer params, const WeftRegion *output)
{
  const Dequantization *self = params;

  return (gsize) (count_factors (self, &self->scales, output) + count_factors (self, &self->shifts, output))
         * sizeof (gfloat);
}

/* Walking a region */

typedef struct
{
  const Dequantization *params;
  const WeftKernelView *output;
  const WeftKernelView *codes;
  WeftCastFunc decode;
  WeftCastFunc encode;
  WeftDequantizeFunc dequantize;
  gsize code_bytes;
  gsize element_bytes;
  /* Codes are below 16, and results have 16 bits. */
  gboolean is_nibble;
  const gfloat *scales;
  const gfloat *shifts;
  gfloat table[MAX_TABLE_ENTRIES];
  gint64 *groups;
  gint64 index[WEFT_MAX_RANK];
  /* Factors of the row of the output at @index. */
  const gfloat *row_scales;
  const gfloat *row_shifts;
} Walk;

/* The factors of the row at the walk's index. */
static const gfloat *
find_row (const Walk *walk, const Factors *factors, const gfloat *values)
{
  const Dequantization *self = walk->params;
  const WeftRegion *output = &walk->output->region;
  WeftRegion region;
  gint64 offset = 0;

  if (factors->input == 0 || factors->is_single)
    return values;
  get_factor_region (self, factors, output, &region);
  for (guint k = 0; k + 1 < output->rank; k++)
    {
      gint64 at = walk->index[k];

      if (self->index_input != 0 && self->index_axis == k)
        at = walk->groups[at];
      else
        at = (output->start[k] + at) / self->grid.block[k] - region.start[k];
      offset = (offset + at) * region.extent[k + 1];
    }
  return values + offset;
}

/* The codes of a run, out of their words. */
static void
unpack_run (const Walk *walk, gint64 row, gint64 column, gsize n_codes, guint8 *codes)
{
  const WeftUnpacking *unpacking = &walk->params->unpacking;
  const WeftBitPacking *packing = &unpacking->packing;
  const WeftRegion *output = &walk->output->region;
  const WeftRegion *words = &walk->codes->region;
  const guint last = output->rank - 1;
  const gint64 word_bytes = packing->word_bits / 8;
  const guint8 *bytes = walk->codes->elements;
  gint64 outer = 0, inner = 0, n_inner = 1;

  if (unpacking->axis == last)
    {
      bytes += (row * words->extent[last] + weft_bit_packing_count_words (packing, column)) * word_bytes;
      weft_bit_packing_unpack (packing, bytes, n_codes, codes);
      return;
    }
  for (guint k = 0; k < unpacking->axis; k++)
    outer = outer * output->extent[k] + walk->index[k];
  for (guint k = unpacking->axis + 1; k <= last; k++)
    {
      inner = inner * output->extent[k] + (k < last ? walk->index[k] : column);
      n_inner *= output->extent[k];
    }
  bytes += outer * words->extent[unpacking->axis] * n_inner * word_bytes;
  weft_bit_packing_unpack_row (packing, bytes, (gsize) n_inner, walk->index[unpacking->axis], (gsize) inner,
                               n_codes, codes);
}

/* The factors of a run. Groups of columns are spread over @scales and @shifts, which have room for a run. */
static WeftBlockRun
find_blocks (const Walk *walk, gint64 column, gsize n_codes, gfloat *scales, gfloat *shifts)
{
  const Dequantization *self = walk->params;
  const WeftRegion *output = &walk->output->region;
  const guint last = output->rank - 1;
  const gint64 block = self->grid.block[last], start = output->start[last];
  const gboolean has_scales = !self->scales.is_single;
  const gboolean has_shifts = self->shifts.input != 0 && !self->shifts.is_single;
  const gint64 begin = start + column, first_block = begin / block;
  const gsize first = (gsize) (first_block - start / block);
  WeftBlockRun run = { .scaling = self->scaling,
                       .scales = walk->row_scales + (has_scales ? first : 0),
                       .shifts = walk->row_shifts + (has_shifts ? first : 0),
                       .scale_step = has_scales,
                       .shift_step = has_shifts,
                       .block = (gsize) block,
                       .first = (gsize) ((first_block + 1) * block - begin) };

  if (!has_scales && !has_shifts)
    run.block = run.first = n_codes;
  if (self->index_input == 0 || self->index_axis != last)
    return run;
  for (gsize i = 0; i < n_codes; i++)
    {
      gint64 group = walk->groups[column + (gint64) i];

      scales[i] = walk->row_scales[group];
      shifts[i] = walk->row_shifts[has_shifts ? group : 0];
    }
  return (WeftBlockRun){ self->scaling, scales, shifts, 1, 1, 1, 1 };
}

static void
compute_run (const Walk *walk, gint64 row, gint64 column, gsize n_codes, guint8 *out)
{
  const Dequantization *self = walk->params;
  const gint64 n_columns = walk->output->region.extent[walk->output->region.rank - 1];
  const guint8 *codes =
      (const guint8 *) walk->codes->elements + (gsize) (row * n_columns + column) * walk->code_bytes;
  guint8 code_array[WEFT_RUN_ELEMENTS];
  gfloat value_array[WEFT_RUN_ELEMENTS], scales[WEFT_RUN_ELEMENTS], shifts[WEFT_RUN_ELEMENTS];
  gfloat *values = walk->output->dtype == WEFT_DTYPE_F32 ? (gfloat *) (gpointer) out : value_array;
  const WeftBlockRun run = find_blocks (walk, column, n_codes, scales, shifts);

  if (self->is_packed)
    {
      unpack_run (walk, row, column, n_codes, code_array);
      codes = code_array;
    }
  if (walk->is_nibble && run.block > 1)
    {
      weft_dequantize_nibbles (&run, walk->table, codes, n_codes, walk->output->dtype,
                               (guint16 *) (gpointer) out);
      return;
    }
  if (walk->dequantize != NULL && run.block > 1)
    {
      walk->dequantize (&run, codes, n_codes, out);
      return;
    }
  if (self->table_input != 0)
    for (gsize i = 0; i < n_codes; i++)
      values[i] = walk->table[codes[i]];
  else
    walk->decode (codes, values, n_codes);
  weft_scale_run (&run, values, n_codes);
  if (values == value_array)
    walk->encode (values, out, n_codes);
}

static void
compute_row (Walk *walk, gint64 row)
{
  const Dequantization *self = walk->params;
  const WeftRegion *output = &walk->output->region;
  const gint64 n_columns = output->extent[output->rank - 1];
  gint64 step = WEFT_RUN_ELEMENTS;

  /* Runs begin where words do, and where no code is unpacked a row is one. */
  if (self->is_packed)
    step -= step % self->unpacking.packing.period;
  else if (walk->dequantize != NULL && self->grid.block[output->rank - 1] > 1)
    step = n_columns;
  walk->row_scales = find_row (walk, &self->scales, walk->scales);
  walk->row_shifts = find_row (walk, &self->shifts, walk->shifts);
  for (gint64 column = 0; column < n_columns; column += step)
    compute_run (walk, row, column, (gsize) MIN (step, n_columns - column),
                 (guint8 *) walk->output->elements
                     + (gsize) (row * n_columns + column) * walk->element_bytes);
}

/* The groups of a region, each checked. */
static gboolean
read_groups (Walk *walk, const WeftKernelView *view, GError **error)
{
  walk->groups = g_new (gint64, MAX (1, view->n_elements));
  weft_cast_lookup (view->dtype, WEFT_DTYPE_I64) (view->elements, walk->groups, (gsize) view->n_elements);
  for (gint64 i = 0; i < view->n_elements; i++)
    if (walk->groups[i] < 0 || walk->groups[i] >= walk->params->n_groups)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                     "index %" G_GINT64_FORMAT " is in group %" G_GINT64_FORMAT
                     ", expected groups below %" G_GINT64_FORMAT,
                     view->region.start[0] + i, walk->groups[i], walk->params->n_groups);
        return FALSE;
      }
  return TRUE;
}

static void
read_table (Walk *walk, const WeftKernelView *view)
{
  const gsize n_codes =
      walk->params->is_packed ? (gsize) 1 << walk->params->unpacking.packing.bits : MAX_TABLE_ENTRIES;

  for (gsize i = 0; i < MAX_TABLE_ENTRIES; i++)
    walk->table[i] = view != NULL ? NAN : (gfloat) i;
  if (view != NULL)
    memcpy (walk->table, view->elements, MIN (n_codes, (gsize) view->n_elements) * sizeof (gfloat));
}

/* Brings factors to F32. */
static const gfloat *
read_factors (const WeftKernelView *view, gfloat *values)
{
  weft_cast_lookup (view->dtype, WEFT_DTYPE_F32) (view->elements, values, (gsize) view->n_elements);
  return values;
}

static gboolean
walk_init (Walk *walk, const WeftKernelView *inputs, gfloat *scratch, GError **error)
{
  static const gfloat no_shift = 0;
  const Dequantization *self = walk->params;
  const WeftDtype dtype = walk->output->dtype;

  walk->code_bytes = weft_dtype_get_bits (self->code_dtype) / 8;
  walk->element_bytes = weft_dtype_get_bits (dtype) / 8;
  walk->decode = weft_cast_lookup (self->code_dtype, WEFT_DTYPE_F32);
  walk->encode = weft_cast_lookup (WEFT_DTYPE_F32, dtype);
  walk->is_nibble = self->is_packed && self->unpacking.packing.bits <= 4 && walk->element_bytes == 2;
  if (self->scaling == WEFT_SCALING_MULTIPLY && self->table_input == 0)
    walk->dequantize = weft_dequantize_lookup (self->code_dtype, dtype);
  walk->scales = read_factors (&inputs[self->scales.input], scratch);
  walk->shifts = &no_shift;
  if (self->shifts.input != 0)
    walk->shifts =
        read_factors (&inputs[self->shifts.input], scratch + inputs[self->scales.input].n_elements);
  read_table (walk, self->table_input != 0 ? &inputs[self->table_input] : NULL);
  return self->index_input == 0 || read_groups (walk, &inputs[self->index_input], error);
}

static gboolean
compute_values (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                guint n_inputs, gpointer scratch, GError **error)
{
  const guint last = output->region.rank - 1;
  Walk walk = { .params = params, .output = output, .codes = &inputs[0] };
  gboolean ok = walk_init (&walk, inputs, scratch, error);
  gint64 n_rows = ok ? 1 : 0;

  for (guint k = 0; k < last; k++)
    n_rows *= output->region.extent[k];
  for (gint64 row = 0; row < n_rows; row++)
    {
      compute_row (&walk, row);
      for (guint k = last; k-- > 0 && ++walk.index[k] == output->region.extent[k];)
        walk.index[k] = 0;
    }
  g_free (walk.groups);
  return ok;
}

static const WeftKernel dequantize_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "dequantize",
  .get_granularity = get_granularity,
  .get_input_region = get_input_region,
  .get_scratch_bytes = get_scratch_bytes,
  .compute = compute_values,
};

/* Making tensors */

/* What is given to a kernel. */
typedef struct
{
  Dequantization params;
  WeftTensor *inputs[MAX_INPUTS];
  guint n_inputs;
} Draft;

static guint
draft_add_input (Draft *draft, WeftTensor *tensor)
{
  draft->inputs[draft->n_inputs] = tensor;
  return draft->n_inputs++;
}

static gboolean
check_dtypes (WeftTensor *codes, WeftTensor *factors, WeftDtype dtype, GError **error)
{
  if (dtype != WEFT_DTYPE_F32 && dtype != WEFT_DTYPE_F16 && dtype != WEFT_DTYPE_BF16)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                 "dequantize: expected F32, F16 or BF16 to be made, found %s",
                 dtype > WEFT_DTYPE_INVALID && dtype < WEFT_N_DTYPES ? weft_dtype_get_name (dtype) : "none");
  else if (weft_dtype_get_bits (codes->dtype) % 8 != 0
           || weft_cast_lookup (codes->dtype, WEFT_DTYPE_F32) == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "dequantize: codes of %s are not of whole bytes",
                 weft_dtype_get_name (codes->dtype));
  else if (weft_dtype_get_bits (factors->dtype) % 8 != 0
           || weft_cast_lookup (factors->dtype, WEFT_DTYPE_F32) == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                 "dequantize: scales or zero points of %s are no numbers of whole bytes",
                 weft_dtype_get_name (factors->dtype));
  else
    return TRUE;
  return FALSE;
}

/* Takes the codes, and what unpacks them and looks them up if they are so. */
static void
draft_add_codes (Draft *draft, WeftTensor *codes)
{
  Dequantization *self = &draft->params;
  WeftTensor *table = NULL, *looked_up = weft_tensor_peek_codes (codes, &table);
  const WeftUnpacking *unpacking = NULL;
  WeftTensor *words = weft_tensor_peek_words (looked_up != NULL ? looked_up : codes, &unpacking);

  if (looked_up != NULL)
    codes = looked_up;
  self->code_dtype = codes->dtype;
  if (words != NULL)
    {
      self->is_packed = TRUE;
      self->unpacking = *unpacking;
    }
  draft_add_input (draft, words != NULL ? words : codes);
  if (table == NULL)
    return;
  self->n_table = table->n_elements;
  self->table_input = draft_add_input (draft, table);
}

static gboolean
refuse_factors (WeftTensor *factors, const WeftShape *shape, const WeftShape *expected, const gchar *what,
                GError **error)
{
  g_autofree gchar *found_text = weft_shape_to_string (&factors->shape);
  g_autofree gchar *shape_text = weft_shape_to_string (shape);
  g_autofree gchar *expected_text = weft_shape_to_string (expected);

  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "dequantize: codes of shape %s need %s of shape %s, found %s", shape_text, what, expected_text,
               found_text);
  return FALSE;
}

/* Blocks by the quotient of shapes: where no block is given. */
static gboolean
derive_block (WeftTensor *codes, WeftTensor *factors, gint64 *block, GError **error)
{
  gboolean fits = factors->shape.rank == codes->shape.rank;

  for (guint k = 0; fits && k < codes->shape.rank; k++)
    {
      fits = factors->shape.dims[k] > 0 && codes->shape.dims[k] % factors->shape.dims[k] == 0;
      if (fits)
        block[k] = codes->shape.dims[k] / factors->shape.dims[k];
    }
  return fits
         || refuse_factors (factors, &codes->shape, &codes->shape,
                            "scales whose extents divide theirs, or a size of blocks; scales", error);
}

static gboolean
draft_add_factors (Draft *draft, Factors *factors, WeftTensor *codes, WeftTensor *tensor, const gint64 *block,
                   gsize n_block, const gchar *what, GError **error)
{
  gint64 derived[WEFT_MAX_RANK];
  WeftShape expected;

  factors->is_single = tensor->n_elements == 1;
  factors->single_rank = tensor->shape.rank;
  factors->input = draft_add_input (draft, tensor);
  if (factors->is_single)
    return TRUE;
  if (block == NULL)
    {
      if (!derive_block (codes, tensor, derived, error))
        return FALSE;
      block = derived;
      n_block = codes->shape.rank;
    }
  if (!weft_block_grid_init (&draft->params.grid, &codes->shape, block, n_block, error))
    return FALSE;
  weft_block_grid_get_shape (&draft->params.grid, &codes->shape, &expected);
  if (draft->params.index_input != 0)
    expected.dims[draft->params.index_axis] = draft->params.n_groups;
  return weft_shape_equal (&expected, &tensor->shape)
         || refuse_factors (tensor, &codes->shape, &expected, what, error);
}

static WeftTensor *
draft_finish (Draft *draft, WeftTensor *codes, WeftTensor *scales, WeftTensor *shifts, const gint64 *block,
              gsize n_block, WeftDtype dtype, GError **error)
{
  static const gint64 whole[WEFT_MAX_RANK] = { 0 };
  gboolean is_affine = draft->params.scaling == WEFT_SCALING_AFFINE;

  if (codes->shape.rank == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "dequantize: codes need at least one axis");
      return NULL;
    }
  /* One block, until factors are found that are many. */
  if (!weft_block_grid_init (&draft->params.grid, &codes->shape, whole, codes->shape.rank, error))
    return NULL;
  if (!check_dtypes (codes, scales, dtype, error)
      || (shifts != NULL && !check_dtypes (codes, shifts, dtype, error))
      || !draft_add_factors (draft, &draft->params.scales, codes, scales, block, n_block, "scales", error)
      || (shifts != NULL
          && !draft_add_factors (draft, &draft->params.shifts, codes, shifts, block, n_block,
                                 is_affine ? "biases" : "zero points", error)))
    return NULL;
  return weft_tensor_new_from_kernel (&dequantize_kernel, g_memdup2 (&draft->params, sizeof draft->params),
                                      g_free, dtype, codes->shape.dims, codes->shape.rank, draft->inputs,
                                      draft->n_inputs, error);
}

static WeftTensor *
dequantize (WeftScaling scaling, WeftTensor *codes, WeftTensor *scales, WeftTensor *shifts,
            const gint64 *block, gsize n_block, WeftDtype dtype, GError **error)
{
  Draft draft = { .params.scaling = scaling };

  draft_add_codes (&draft, codes);
  return draft_finish (&draft, codes, scales, shifts, block, n_block, dtype, error);
}

/**
 * weft_tensor_dequantize:
 * @self: codes of a real dtype, or what weft_tensor_unpack() and weft_tensor_lookup() give
 * @scales: one element for each block, or one for all; may itself be computed
 * @zero_points: (nullable): what is subtracted from the codes: one element for each block, or one for all. %NULL: nothing
 * @block: (array length=n_block) (nullable): elements of a block on the last axes, 0 for all of an axis; on axes before, 1.
 *   %NULL: the quotient of the shapes, which must be whole
 * @n_block: how many axes @block gives
 * @dtype: F32, F16 or BF16
 * @error: return location
 *
 * Computes `(code - zero point) * scale` in F32 and rounds once. The scales of a tensor of shape [o, i] in blocks of [m, n]
 * have shape [ceil (o / m), ceil (i / n)]: the last blocks may be cut short.
 *
 * Returns: (transfer full): the values, of the shape of @self
 * Errors: %WEFT_ERROR_SHAPE if the blocks or the scales do not fit the codes, %WEFT_ERROR_DTYPE if a dtype is not one of
 *   those named, or no number
 * Since: 1.0
 */
WeftTensor *
weft_tensor_dequantize (WeftTensor *self, WeftTensor *scales, WeftTensor *zero_points, const gint64 *block,
                        gsize n_block, WeftDtype dtype, GError **error)
{
  return dequantize (WEFT_SCALING_MULTIPLY, self, scales, zero_points, block, n_block, dtype, error);
}

/**
 * weft_tensor_dequantize_affine:
 * @self: codes, as for weft_tensor_dequantize()
 * @scales: one element for each block, or one for all
 * @biases: what is added: one element for each block, or one for all
 * @block: (array length=n_block) (nullable): elements of a block, as for weft_tensor_dequantize()
 * @n_block: how many axes @block gives
 * @dtype: F32, F16 or BF16
 * @error: return location
 *
 * Computes `code * scale + bias` in F32, product and sum each rounded, and rounds once more.
 *
 * Returns: (transfer full): the values, of the shape of @self
 * Errors: as for weft_tensor_dequantize()
 * Since: 1.0
 */
WeftTensor *
weft_tensor_dequantize_affine (WeftTensor *self, WeftTensor *scales, WeftTensor *biases, const gint64 *block,
                               gsize n_block, WeftDtype dtype, GError **error)
{
  return dequantize (WEFT_SCALING_AFFINE, self, scales, biases, block, n_block, dtype, error);
}

/**
 * weft_tensor_dequantize_grouped:
 * @self: codes, as for weft_tensor_dequantize()
 * @scales: the shape of @self, with the number of groups on @axis
 * @zero_points: (nullable): as @scales, or one element for all
 * @group_index: the group of each index on @axis, integers of one axis
 * @axis: the axis that is grouped, `-r <= axis < r`
 * @dtype: F32, F16 or BF16
 * @error: return location
 *
 * Computes `(code - zero point) * scale` where groups are not runs (act-order).
 *
 * Returns: (transfer full): the values, of the shape of @self
 * Errors: as for weft_tensor_dequantize(); when read, %WEFT_ERROR_FORMAT if an index is in a group that is not there
 * Since: 1.0
 */
WeftTensor *
weft_tensor_dequantize_grouped (WeftTensor *self, WeftTensor *scales, WeftTensor *zero_points,
                                WeftTensor *group_index, gint axis, WeftDtype dtype, GError **error)
{
  gint64 block[WEFT_MAX_RANK];
  Draft draft = { .params.scaling = WEFT_SCALING_MULTIPLY };
  guint resolved;

  if (!weft_shape_resolve_axis (&self->shape, axis, &resolved, error))
    return NULL;
  if ((group_index->dtype != WEFT_DTYPE_I32 && group_index->dtype != WEFT_DTYPE_I64)
      || group_index->shape.rank != 1 || group_index->n_elements != self->shape.dims[resolved]
      || scales->shape.rank != self->shape.rank)
    {
      g_autofree gchar *text = weft_shape_to_string (&group_index->shape);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "dequantize: expected the group of each of %" G_GINT64_FORMAT
                   " indices (I32 or I64) and scales of as many axes as the codes, found %s %s and %u axes",
                   self->shape.dims[resolved], weft_dtype_get_name (group_index->dtype), text,
                   scales->shape.rank);
      return NULL;
    }
  for (guint k = 0; k < self->shape.rank; k++)
    block[k] = 1;
  draft_add_codes (&draft, self);
  draft.params.index_axis = resolved;
  draft.params.index_input = draft_add_input (&draft, group_index);
  draft.params.n_groups = scales->shape.dims[resolved];
  return draft_finish (&draft, self, scales, zero_points, block, self->shape.rank, dtype, error);
}

/**
 * weft_tensor_divide:
 * @self: a tensor of a real dtype
 * @divisors: one element for each block, or one for all
 * @block: (array length=n_block) (nullable): elements of a block, as for weft_tensor_dequantize()
 * @n_block: how many axes @block gives
 * @dtype: F32, F16 or BF16
 * @error: return location
 *
 * Divides in F32 and rounds once. Scales that are themselves scaled by the reciprocal are made so.
 *
 * Returns: (transfer full): the quotients, of the shape of @self
 * Errors: as for weft_tensor_dequantize()
 * Since: 1.0
 */
WeftTensor *
weft_tensor_divide (WeftTensor *self, WeftTensor *divisors, const gint64 *block, gsize n_block,
                    WeftDtype dtype, GError **error)
{
  return dequantize (WEFT_SCALING_DIVIDE, self, divisors, NULL, block, n_block, dtype, error);
}
