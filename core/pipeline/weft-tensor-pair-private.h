/* SPDX-License-Identifier: Apache-2.0 */
/* Two lazy tensors of one dtype and shape, compared element by element; and the bands that lazy tensors are streamed in. */
#pragma once

#include "tensor/weft-transfer.h"

/* What is held of one side at a time. */
#define WEFT_BAND_BYTES ((gsize) 32 * 1024 * 1024)

typedef struct
{
  WeftTensor *a;
  WeftTensor *b;
  const gchar *name; /* (nullable): what messages call it */
  /* Found by comparing: elements whose bytes differ, the first of them (row-major), and the largest absolute difference
   * (NaN for a dtype that is no number; infinite where one side is NaN). */
  guint64 n_different;
  guint64 first;
  gdouble largest;
} WeftTensorPair;

/* How many elements of a dtype a buffer of @n_bytes holds, cut so that the next band begins on a whole byte. */
gint64 weft_band_count_elements (WeftDtype dtype, gsize n_bytes);

/* @length elements from @start on, in row-major order, as a tensor of one axis. */
WeftTensor *weft_band_cut (WeftTensor *tensor, gint64 start, gint64 length, GError **error);

/* Reads all pairs once, band by band, into two buffers of WEFT_BAND_BYTES. @options: threads and progress. */
gboolean weft_tensor_pairs_compare (WeftTensorPair *pairs, gsize n_pairs, const WeftTransferOptions *options,
                                    GCancellable *cancellable, GError **error);

/* Whether two tensors of one dtype and shape have the same bytes. */
gboolean weft_tensors_compare (WeftTensor *a, WeftTensor *b, gboolean *are_equal, GCancellable *cancellable,
                               GError **error);
