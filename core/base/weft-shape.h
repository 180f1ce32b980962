/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of a tensor: its extents, outermost axis first. */
#pragma once

#include "base/weft-dtype.h"

G_BEGIN_DECLS

#define WEFT_TYPE_SHAPE (weft_shape_get_type ())

/**
 * WeftShape:
 * @rank: number of axes; 0 for a scalar
 * @dims: extents in elements, outermost first; only the first @rank are used
 *
 * The extents of a tensor. A plain value: copy it by assignment.
 *
 * Since: 1.0
 */
typedef struct
{
  guint rank;
  gint64 dims[WEFT_MAX_RANK];
} WeftShape;

WEFT_PUBLIC GType weft_shape_get_type (void);
WEFT_PUBLIC WeftShape *weft_shape_new (const gint64 *dims, gsize n_dims);
WEFT_PUBLIC WeftShape *weft_shape_copy (const WeftShape *self);
WEFT_PUBLIC void weft_shape_free (WeftShape *self);
WEFT_PUBLIC guint weft_shape_get_rank (const WeftShape *self);
WEFT_PUBLIC gint64 weft_shape_get_dim (const WeftShape *self, gint axis);
WEFT_PUBLIC gboolean weft_shape_equal (const WeftShape *self, const WeftShape *other);
WEFT_PUBLIC gchar *weft_shape_to_string (const WeftShape *self);
WEFT_PUBLIC gboolean weft_shape_init (WeftShape *self, const gint64 *dims, gsize n_dims, GError **error);
WEFT_PUBLIC gboolean weft_shape_count_elements (const WeftShape *self, gint64 *n_elements, GError **error);
WEFT_PUBLIC gboolean weft_shape_count_bytes (const WeftShape *self, WeftDtype dtype, gint64 *n_bytes,
                                             GError **error);
WEFT_PUBLIC gboolean weft_shape_resolve_axis (const WeftShape *self, gint axis, guint *resolved,
                                              GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftShape, weft_shape_free)

G_END_DECLS
