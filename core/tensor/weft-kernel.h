/* SPDX-License-Identifier: Apache-2.0 */
/* The one interface of everything that computes elements: casts, quantizers, arithmetic of model-specific ops. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

/**
 * WeftRegion: (skip)
 * @rank: number of axes
 * @start: first index on each axis, in elements
 * @extent: number of indices on each axis
 *
 * A box of a tensor.
 *
 * Since: 1.0
 */
typedef struct
{
  guint rank;
  gint64 start[WEFT_MAX_RANK];
  gint64 extent[WEFT_MAX_RANK];
} WeftRegion;

/**
 * WeftKernelView: (skip)
 * @dtype: element type
 * @region: which box of the whole tensor this is
 * @elements: the elements of the box, packed row-major; sub-byte dtypes as packed bytes. Those of an input are only read:
 *   they may lie in the memory of a tensor
 * @n_elements: how many they are
 *
 * One operand of a call to a kernel.
 *
 * Since: 1.0
 */
typedef struct
{
  WeftDtype dtype;
  WeftRegion region;
  gpointer elements;
  gint64 n_elements;
} WeftKernelView;

/**
 * WeftKernel: (skip)
 * @struct_size: `sizeof (WeftKernel)`
 * @name: what messages call it
 * @get_granularity: (nullable): fills the block that a region of the output must be a multiple of, per axis, in
 *   elements; regions may be cut short at the end of an axis. %NULL: any region
 * @get_input_region: (nullable): the region of input @input that the output region needs. %NULL: the same region, for
 *   inputs of the output's shape
 * @get_scratch_bytes: (nullable): bytes of scratch memory for one call. %NULL: none
 * @compute: fills @output from @inputs. Called on any thread, several at a time, so it only reads @params
 * @invert: (nullable): given the tensor that this kernel made, a tensor equal to input 0, or %NULL with an error.
 *   %NULL: the kernel has no exact inverse
 *
 * A kernel: a pure function from regions of its inputs to a region of its output. Declared `static const`.
 *
 * Since: 1.0
 */
typedef struct
{
  gsize struct_size;
  const gchar *name;
  void (*get_granularity) (gconstpointer params, const WeftShape *output, gint64 *block);
  void (*get_input_region) (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region);
  gsize (*get_scratch_bytes) (gconstpointer params, const WeftRegion *output);
  gboolean (*compute) (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                       guint n_inputs, gpointer scratch, GError **error);
  WeftTensor *(*invert) (gconstpointer params, WeftTensor *output, GError **error);
} WeftKernel;

WEFT_PUBLIC WeftTensor *weft_tensor_new_from_kernel (const WeftKernel *kernel, gpointer params,
                                                     GDestroyNotify destroy, WeftDtype dtype,
                                                     const gint64 *dims, gsize n_dims, WeftTensor **inputs,
                                                     gsize n_inputs, GError **error);

G_END_DECLS
