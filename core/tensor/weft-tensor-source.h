/* SPDX-License-Identifier: Apache-2.0 */
/* A stranger's source of elements: a class that gives the bytes of a tensor on demand. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

#define WEFT_TYPE_TENSOR_SOURCE (weft_tensor_source_get_type ())

/**
 * WeftTensorSource:
 *
 * Gives the elements of a tensor that no file and no memory of Weft holds. Read on the thread that executes.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftTensorSource, weft_tensor_source, WEFT, TENSOR_SOURCE, GObject)

/**
 * WeftTensorSourceClass:
 * @parent_class: the parent
 * @read: gives the bytes of a range of the tensor
 *
 * The class structure of #WeftTensorSource.
 *
 * Since: 1.0
 */
struct _WeftTensorSourceClass
{
  GObjectClass parent_class;

  /**
   * WeftTensorSourceClass::read:
   * @self: a source
   * @offset: first byte
   * @n_bytes: number of bytes
   * @error: return location
   *
   * Returns: (transfer full): exactly @n_bytes bytes, row-major, little-endian
   */
  GBytes *(*read) (WeftTensorSource *self, guint64 offset, guint64 n_bytes, GError **error);

  /*< private >*/
  gpointer reserved[4];
};

WEFT_PUBLIC GBytes *weft_tensor_source_read (WeftTensorSource *self, guint64 offset, guint64 n_bytes,
                                             GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_new_from_source (WeftDtype dtype, const gint64 *dims, gsize n_dims,
                                                     WeftTensorSource *source, GError **error);

G_END_DECLS
