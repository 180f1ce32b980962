/* SPDX-License-Identifier: Apache-2.0 */
/* A lazy tensor: dtype, shape, and where its elements come from. */
#pragma once

#include <gio/gio.h>

#include "base/weft-shape.h"
#include "tensor/weft-file.h"

G_BEGIN_DECLS

#define WEFT_TYPE_TENSOR (weft_tensor_get_type ())

/**
 * WeftTensor:
 *
 * An immutable, reference counted lazy tensor. Layout operations (slice, concatenate, permute, ...) rewrite
 * addressing and read nothing; computing ones (cast, scale, kernels) note what is to be computed. Elements move when
 * a transfer fills a destination.
 *
 * Since: 1.0
 */
typedef struct _WeftTensor WeftTensor;

/**
 * WeftExtentFunc: (skip)
 * @file_offset: where the extent begins in its file
 * @offset: where it begins in the tensor, in bytes
 * @n_bytes: its length
 * @user_data: the caller's
 *
 * Since: 1.0
 */
typedef void (*WeftExtentFunc) (guint64 file_offset, guint64 offset, guint64 n_bytes, gpointer user_data);

WEFT_PUBLIC GType weft_tensor_get_type (void);
WEFT_PUBLIC WeftTensor *weft_tensor_ref (WeftTensor *self);
WEFT_PUBLIC void weft_tensor_unref (WeftTensor *self);

/* Leaves. */
WEFT_PUBLIC WeftTensor *weft_tensor_new_from_bytes (WeftDtype dtype, const gint64 *dims, gsize n_dims,
                                                    GBytes *bytes, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_new_from_file (WeftDtype dtype, const gint64 *dims, gsize n_dims,
                                                   WeftFile *file, guint64 offset, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_new_unreadable (WeftDtype dtype, const gint64 *dims, gsize n_dims,
                                                    GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_new_constant (WeftDtype dtype, const gint64 *dims, gsize n_dims,
                                                  gdouble value, GError **error);

/* What it is. */
WEFT_PUBLIC WeftDtype weft_tensor_get_dtype (WeftTensor *self);
WEFT_PUBLIC const WeftShape *weft_tensor_get_shape (WeftTensor *self);
WEFT_PUBLIC guint weft_tensor_get_rank (WeftTensor *self);
WEFT_PUBLIC gint64 weft_tensor_get_dim (WeftTensor *self, gint axis);
WEFT_PUBLIC gint64 weft_tensor_get_n_elements (WeftTensor *self);
WEFT_PUBLIC guint64 weft_tensor_get_n_bytes (WeftTensor *self);
WEFT_PUBLIC guint weft_tensor_get_n_pieces (WeftTensor *self);
WEFT_PUBLIC gchar *weft_tensor_describe (WeftTensor *self);

/* Layout. No element is read. */
WEFT_PUBLIC WeftTensor *weft_tensor_slice (WeftTensor *self, gint axis, gint64 start, gint64 length,
                                           GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_concat (WeftTensor **tensors, gsize n_tensors, gint axis, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_stack (WeftTensor **tensors, gsize n_tensors, gint axis, GError **error);
WEFT_PUBLIC GPtrArray *weft_tensor_split (WeftTensor *self, gint axis, const gint64 *lengths, gsize n_lengths,
                                          GError **error);
WEFT_PUBLIC GPtrArray *weft_tensor_unstack (WeftTensor *self, gint axis, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_permute (WeftTensor *self, const gint *axes, gsize n_axes,
                                             GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_transpose (WeftTensor *self, gint axis0, gint axis1, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_reshape (WeftTensor *self, const gint64 *dims, gsize n_dims,
                                             GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_unsqueeze (WeftTensor *self, gint axis, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_squeeze (WeftTensor *self, gint axis, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_select (WeftTensor *self, gint axis, const gint64 *indices,
                                            gsize n_indices, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_broadcast_scalar (WeftTensor *self, const gint64 *dims, gsize n_dims,
                                                      GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_repeat (WeftTensor *self, gint axis, gint64 count, gint64 length,
                                            GError **error);

/* Computing. */
WEFT_PUBLIC WeftTensor *weft_tensor_cast (WeftTensor *self, WeftDtype dtype, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_bitcast (WeftTensor *self, WeftDtype dtype, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_scale (WeftTensor *self, gdouble factor, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_shift (WeftTensor *self, gdouble summand, GError **error);

/* Reading. */
WEFT_PUBLIC GBytes *weft_tensor_read (WeftTensor *self, GCancellable *cancellable, GError **error);

/* Proof. */
WEFT_PUBLIC gboolean weft_tensor_is_same (WeftTensor *self, WeftTensor *other);
WEFT_PUBLIC gboolean weft_tensor_is_layout (WeftTensor *self);
WEFT_PUBLIC void weft_tensor_foreach_extent (WeftTensor *self, WeftExtentFunc func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftTensor, weft_tensor_unref)

G_END_DECLS
