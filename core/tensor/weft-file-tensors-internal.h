/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of one file in one block of memory, which goes with the last of them: a file has tens of thousands, which are
 * made together and given up together. Internal to the library: not installed. */
#pragma once

#include "tensor/weft-file.h"
#include "tensor/weft-tensor.h"

typedef struct _WeftFileTensors WeftFileTensors;

/* A block with room for @n_tensors. */
WeftFileTensors *weft_file_tensors_new (WeftFile *file, gsize n_tensors);
void weft_file_tensors_unref (WeftFileTensors *self);
/* As weft_tensor_new_from_file(), in the block, while there is room. */
WeftTensor *weft_file_tensors_add (WeftFileTensors *self, WeftDtype dtype, const gint64 *dims, gsize n_dims,
                                   guint64 offset, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftFileTensors, weft_file_tensors_unref)
