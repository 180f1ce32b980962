/* SPDX-License-Identifier: Apache-2.0 */
/* Values -> codes with scales for blocks of them. A scheme composes these: what a block is like, its scale out of that, the
 * codes out of both. All lazy. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

/**
 * WeftBlockStatistic:
 * @WEFT_BLOCK_STATISTIC_MAGNITUDE: the largest magnitude
 * @WEFT_BLOCK_STATISTIC_MINIMUM: the smallest value
 * @WEFT_BLOCK_STATISTIC_MAXIMUM: the largest value
 * @WEFT_BLOCK_STATISTIC_SUM: the sum
 *
 * What is asked about the values of a block.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_BLOCK_STATISTIC_MAGNITUDE,
  WEFT_BLOCK_STATISTIC_MINIMUM,
  WEFT_BLOCK_STATISTIC_MAXIMUM,
  WEFT_BLOCK_STATISTIC_SUM,
} WeftBlockStatistic;

/**
 * WeftQuantizeFlags:
 * @WEFT_QUANTIZE_FLAGS_NONE: divide by the scale
 * @WEFT_QUANTIZE_FLAGS_MULTIPLY: multiply by the scale, which is a reciprocal then
 * @WEFT_QUANTIZE_FLAGS_ROUND_STEPS: round the quotient, and its sum with the zero point, to the dtype of the values
 * @WEFT_QUANTIZE_FLAGS_BIAS: subtract from the values, before they are divided, in place of adding to the quotient
 *
 * How values become codes.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_QUANTIZE_FLAGS_NONE = 0,
  WEFT_QUANTIZE_FLAGS_MULTIPLY = 1 << 0,
  WEFT_QUANTIZE_FLAGS_ROUND_STEPS = 1 << 1,
  WEFT_QUANTIZE_FLAGS_BIAS = 1 << 2,
} WeftQuantizeFlags;

/**
 * WeftComputeFunc: (skip)
 * @params: what weft_tensor_compute() was given
 * @inputs: a run of each input, in F32
 * @n_values: how many values a run has
 * @output: where the results go
 *
 * Computes values out of those at the same places. Called on any thread, several at a time.
 *
 * Since: 1.0
 */
typedef void (*WeftComputeFunc) (gconstpointer params, const gfloat *const *inputs, gsize n_values,
                                 gfloat *output);

WEFT_PUBLIC WeftTensor *weft_tensor_reduce_blocks (WeftTensor *self, WeftBlockStatistic statistic,
                                                   const gint64 *block, gsize n_block, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_quantize (WeftTensor *self, WeftTensor *scales, WeftTensor *zero_points,
                                              const gint64 *block, gsize n_block, WeftQuantizeFlags flags,
                                              WeftDtype dtype, guint bits, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_find_nearest (WeftTensor *self, WeftTensor *scales, WeftTensor *table,
                                                  const gint64 *block, gsize n_block, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_compute (WeftTensor **inputs, gsize n_inputs, WeftComputeFunc func,
                                             gpointer params, GDestroyNotify destroy, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_subtract (WeftTensor *self, WeftTensor *other, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_remember (WeftTensor *self, GError **error);

G_END_DECLS
