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
};

/* Takes the pieces of @builder. */
WeftTensor *weft_tensor_new_from_builder (WeftDtype dtype, const WeftShape *shape,
                                          WeftLayoutBuilder *builder);
gboolean weft_tensor_needs_owner (WeftTensor *self);
