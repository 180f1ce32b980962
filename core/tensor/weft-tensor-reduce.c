/* SPDX-License-Identifier: Apache-2.0 */
/* What blocks of values are like, and functions of that. */
#include "tensor/weft-tensor-quantize.h"

#include "tensor/weft-block-grid-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-tensor-private.h"
#include "tensor/weft-vectorised-private.h"

#include <math.h>
#include <string.h>

#define RUN_ELEMENTS 512
/* A block of more elements that goes over whole axes is reduced in two steps, to read it in parts. */
#define MAX_BLOCK_ELEMENTS 65536
#define MAX_INPUTS 4

/* Blocks */

typedef struct
{
  WeftBlockStatistic statistic;
  WeftBlockGrid grid;
  WeftShape shape;
} Reduction;

static void
get_block_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const Reduction *reduction = params;

  region->rank = output->rank;
  for (guint k = 0; k < output->rank; k++)
    {
      gint64 extent = reduction->shape.dims[k], block = reduction->grid.block[k];
      gint64 end = output->start[k] + output->extent[k];

      region->start[k] = output->start[k] * block;
      /* The last block may be cut short, and end * block beyond what a number holds. */
      region->extent[k] = (end > extent / block ? extent : end * block) - region->start[k];
    }
}

/* The order of the numbers is that of the values. */
static WEFT_ALWAYS_INLINE gint32
order_value (gint32 bits)
{
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

WEFT_VECTORISED static gfloat
reduce_run (WeftBlockStatistic statistic, const gfloat *values, gsize n, gfloat start)
{
  const gint32 *bits = (const gint32 *) (gconstpointer) values;
  gint32 best;
  gdouble sum = start;

  memcpy (&best, &start, sizeof best);
  switch (statistic)
    {
    case WEFT_BLOCK_STATISTIC_MAGNITUDE:
      for (gsize i = 0; i < n; i++)
        best = MAX (best, bits[i] & 0x7fffffff);
      break;
    case WEFT_BLOCK_STATISTIC_MINIMUM:
      best = order_value (best);
      for (gsize i = 0; i < n; i++)
        best = MIN (best, order_value (bits[i]));
      best = order_value (best);
      break;
    case WEFT_BLOCK_STATISTIC_MAXIMUM:
      best = order_value (best);
      for (gsize i = 0; i < n; i++)
        best = MAX (best, order_value (bits[i]));
      best = order_value (best);
      break;
    case WEFT_BLOCK_STATISTIC_SUM:
    default:
      for (gsize i = 0; i < n; i++)
        sum += values[i];
      return (gfloat) sum;
    }
  memcpy (&start, &best, sizeof start);
  return start;
}

static gfloat
get_start (WeftBlockStatistic statistic)
{
  if (statistic == WEFT_BLOCK_STATISTIC_MINIMUM)
    return INFINITY;
  return statistic == WEFT_BLOCK_STATISTIC_MAXIMUM ? -INFINITY : 0;
}

/* Folds a row of the input into the row of blocks that it lies in. */
static void
fold_row (const Reduction *reduction, WeftCastFunc decode, gsize element_bytes, const guint8 *row,
          gint64 n_columns, gfloat *blocks)
{
  const gint64 block = reduction->grid.block[reduction->grid.rank - 1];
  gfloat values[RUN_ELEMENTS];

  for (gint64 column = 0, n; column < n_columns; column += n)
    {
      gint64 rest = MIN (block - column % block, n_columns - column);

      n = MIN (rest, RUN_ELEMENTS);
      /* Small blocks share a run. */
      if (block <= RUN_ELEMENTS / 2 && column % block == 0)
        n = MIN (RUN_ELEMENTS / block * block, n_columns - column);
      decode (row + (gsize) column * element_bytes, values, (gsize) n);
      for (gint64 at = 0, length; at < n; at += length)
        {
          gfloat *result = &blocks[(column + at) / block];

          length = MIN (block, n - at);
          *result = reduce_run (reduction->statistic, values + at, (gsize) length, *result);
        }
    }
}

static gboolean
compute_blocks (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                guint n_inputs, gpointer scratch, GError **error)
{
  const Reduction *reduction = params;
  const WeftRegion *region = &inputs[0].region;
  const guint last = region->rank - 1;
  const gsize element_bytes = weft_dtype_get_bits (inputs[0].dtype) / 8;
  WeftCastFunc decode = weft_cast_lookup (inputs[0].dtype, WEFT_DTYPE_F32);
  const guint8 *row = inputs[0].elements;
  gfloat *blocks = output->elements;
  gint64 index[WEFT_MAX_RANK] = { 0 };
  gint64 n_rows = 1;

  for (gint64 i = 0; i < output->n_elements; i++)
    blocks[i] = get_start (reduction->statistic);
  for (guint k = 0; k < last; k++)
    n_rows *= region->extent[k];
  for (gint64 i = 0; i < n_rows; i++, row += (gsize) region->extent[last] * element_bytes)
    {
      gint64 offset = 0;

      for (guint k = 0; k < last; k++)
        offset = (offset + index[k] / reduction->grid.block[k]) * output->region.extent[k + 1];
      fold_row (reduction, decode, element_bytes, row, region->extent[last], blocks + offset);
      for (guint k = last; k-- > 0 && ++index[k] == region->extent[k];)
        index[k] = 0;
    }
  return TRUE;
}

static const WeftKernel reduce_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "reduce_blocks",
  .get_input_region = get_block_region,
  .compute = compute_blocks,
};

static WeftTensor *
reduce_once (WeftTensor *self, WeftBlockStatistic statistic, const WeftBlockGrid *grid, GError **error)
{
  Reduction reduction = { statistic, *grid, self->shape };
  WeftShape shape;

  weft_block_grid_get_shape (grid, &self->shape, &shape);
  return weft_tensor_new_from_kernel (&reduce_kernel, g_memdup2 (&reduction, sizeof reduction), g_free,
                                      WEFT_DTYPE_F32, shape.dims, shape.rank, &self, 1, error);
}

/* Cuts blocks that go over whole axes into parts of about MAX_BLOCK_ELEMENTS. */
static gboolean
cut_blocks (const WeftBlockGrid *grid, const WeftShape *shape, WeftBlockGrid *parts)
{
  gint64 n_elements = 1;
  gboolean is_cut = FALSE;

  *parts = *grid;
  for (guint k = shape->rank; k-- > 0;)
    {
      gint64 block = MIN (grid->block[k], MAX (1, shape->dims[k]));
      gint64 room = MAX (1, MAX_BLOCK_ELEMENTS / n_elements);

      if (block >= shape->dims[k] && block > room)
        {
          parts->block[k] = block = room;
          is_cut = TRUE;
        }
      n_elements = MIN (MAX_BLOCK_ELEMENTS, n_elements * block);
    }
  return is_cut;
}

/**
 * weft_tensor_reduce_blocks:
 * @self: values of a real dtype of whole bytes
 * @statistic: what is asked about a block
 * @block: (array length=n_block): elements of a block on the last axes, 0 for all of an axis; on axes before, 1
 * @n_block: how many axes @block gives
 * @error: return location
 *
 * Returns: (transfer full): a number for each block, F32, of shape ceil (extent / block) on each axis
 * Errors: %WEFT_ERROR_SHAPE if the block does not fit the values, %WEFT_ERROR_DTYPE if they are no numbers
 * Since: 1.0
 */
WeftTensor *
weft_tensor_reduce_blocks (WeftTensor *self, WeftBlockStatistic statistic, const gint64 *block, gsize n_block,
                           GError **error)
{
  WeftBlockGrid grid, parts;
  g_autoptr (WeftTensor) partial = NULL;

  if (self->shape.rank == 0 || weft_dtype_get_bits (self->dtype) % 8 != 0
      || weft_cast_lookup (self->dtype, WEFT_DTYPE_F32) == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                   "reduce_blocks: expected numbers of whole bytes on one axis or more, found %s",
                   weft_dtype_get_name (self->dtype));
      return NULL;
    }
  if (!weft_block_grid_init (&grid, &self->shape, block, n_block, error))
    return NULL;
  if (!cut_blocks (&grid, &self->shape, &parts))
    return reduce_once (self, statistic, &grid, error);
  partial = reduce_once (self, statistic, &parts, error);
  if (partial == NULL)
    return NULL;
  /* An axis that was cut has one block; on the others a part is a block. */
  for (guint k = 0; k < grid.rank; k++)
    grid.block[k] = parts.block[k] != grid.block[k] ? MAX (1, partial->shape.dims[k]) : 1;
  return weft_tensor_reduce_blocks (partial, statistic, grid.block, grid.rank, error);
}

/* Functions */

typedef struct
{
  WeftComputeFunc func;
  gpointer params;
  GDestroyNotify destroy;
  gboolean is_single[MAX_INPUTS];
  guint single_rank[MAX_INPUTS];
} Computation;

static void
computation_free (gpointer user_data)
{
  Computation *computation = user_data;

  if (computation->destroy != NULL)
    computation->destroy (computation->params);
  g_free (computation);
}

static void
get_same_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  const Computation *computation = params;

  *region = *output;
  if (!computation->is_single[input])
    return;
  region->rank = computation->single_rank[input];
  for (guint k = 0; k < region->rank; k++)
    {
      region->start[k] = 0;
      region->extent[k] = 1;
    }
}

static gboolean
compute_function (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                  guint n_inputs, gpointer scratch, GError **error)
{
  const Computation *computation = params;
  gfloat values[MAX_INPUTS][RUN_ELEMENTS];
  const gfloat *runs[MAX_INPUTS];
  gfloat *results = output->elements;

  for (gint64 at = 0; at < output->n_elements; at += RUN_ELEMENTS)
    {
      gsize n = (gsize) MIN (RUN_ELEMENTS, output->n_elements - at);

      for (guint i = 0; i < n_inputs; i++)
        {
          WeftCastFunc decode = weft_cast_lookup (inputs[i].dtype, WEFT_DTYPE_F32);
          gsize offset = (gsize) at * weft_dtype_get_bits (inputs[i].dtype) / 8;

          runs[i] = values[i];
          if (!computation->is_single[i])
            decode ((const guint8 *) inputs[i].elements + offset, values[i], n);
          else if (at == 0)
            {
              decode (inputs[i].elements, values[i], 1);
              for (gsize k = 1; k < RUN_ELEMENTS; k++)
                values[i][k] = values[i][0];
            }
        }
      computation->func (computation->params, runs, n, results + at);
    }
  return TRUE;
}

static const WeftKernel compute_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "compute",
  .get_input_region = get_same_region,
  .compute = compute_function,
};

/**
 * weft_tensor_compute: (skip)
 * @inputs: (array length=n_inputs): 1 to 4 tensors of real dtypes of whole bytes: all of the first one's shape, or of one element
 * @n_inputs: their number
 * @func: computes a run of the output
 * @params: (nullable): what @func gets
 * @destroy: (nullable): frees @params, also on error
 * @error: return location
 *
 * Applies a function to the elements at each place, in F32: the scale of a block out of what it is like.
 *
 * Returns: (transfer full): the results, F32, of the shape of the first input
 * Errors: %WEFT_ERROR_ARGUMENT, %WEFT_ERROR_SHAPE or %WEFT_ERROR_DTYPE if the inputs are not as they should be
 * Since: 1.0
 */
WeftTensor *
weft_tensor_compute (WeftTensor **inputs, gsize n_inputs, WeftComputeFunc func, gpointer params,
                     GDestroyNotify destroy, GError **error)
{
  Computation *computation = g_new0 (Computation, 1);
  gboolean ok = n_inputs >= 1 && n_inputs <= MAX_INPUTS;

  *computation = (Computation){ .func = func, .params = params, .destroy = destroy };
  for (gsize i = 0; ok && i < n_inputs; i++)
    {
      computation->is_single[i] = i > 0 && inputs[i]->n_elements == 1;
      computation->single_rank[i] = inputs[i]->shape.rank;
      ok = weft_dtype_get_bits (inputs[i]->dtype) % 8 == 0
           && weft_cast_lookup (inputs[i]->dtype, WEFT_DTYPE_F32) != NULL
           && (computation->is_single[i] || weft_shape_equal (&inputs[i]->shape, &inputs[0]->shape));
    }
  if (ok)
    return weft_tensor_new_from_kernel (&compute_kernel, computation, computation_free, WEFT_DTYPE_F32,
                                        inputs[0]->shape.dims, inputs[0]->shape.rank, inputs, n_inputs,
                                        error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "compute: expected 1 to %d tensors of numbers of whole bytes, of one shape or of one element",
               MAX_INPUTS);
  computation_free (computation);
  return NULL;
}
static void
subtract (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = inputs[0][i] - inputs[1][i];
}

/**
 * weft_tensor_subtract:
 * @self: numbers
 * @other: as many, or one
 * @error: return location
 *
 * Subtracts in F32: the range of a block out of its maximum and its minimum.
 *
 * Returns: (transfer full): the differences, F32, of the shape of @self
 * Errors: those of weft_tensor_compute()
 * Since: 1.0
 */
WeftTensor *
weft_tensor_subtract (WeftTensor *self, WeftTensor *other, GError **error)
{
  return weft_tensor_compute ((WeftTensor *[]){ self, other }, 2, subtract, NULL, NULL, error);
}
