/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a tensor. Private to the tensor room. */
#pragma once

#include "tensor/weft-piece-private.h"

struct _WeftTensor
{
  gatomicrefcount ref_count;
  WeftDtype dtype;
  gint64 n_elements;
  WeftShape shape;
  WeftLayout layout;
  /* Its memory goes with that of its one base. */
  gboolean is_in_base;
};

/* A tensor of one piece with one loop at most, as all tensors of a checkpoint are. */
typedef struct
{
  WeftTensor tensor;
  WeftStoredPiece piece;
  WeftLoop loop;
} WeftLeaf;

/* A tensor of one element or more that keeps all addresses of @base, or, with stride 0, repeats the first element. Takes @base. */
void weft_leaf_init (WeftLeaf *self, WeftDtype dtype, const WeftShape *shape, WeftBase *base,
                     gint64 source_stride);
WeftTensor *weft_tensor_new_empty (WeftDtype dtype, const WeftShape *shape);
gboolean weft_tensor_check_new (WeftDtype dtype, const gint64 *dims, gsize n_dims, WeftShape *shape,
                                gint64 *n_bytes, GError **error);

/* Takes the pieces of @builder. */
WeftTensor *weft_tensor_new_from_builder (WeftDtype dtype, const WeftShape *shape,
                                          WeftLayoutBuilder *builder);
gboolean weft_tensor_needs_owner (WeftTensor *self);
