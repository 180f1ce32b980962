/* SPDX-License-Identifier: Apache-2.0 */
/* One weight and the stored tensors that make it up. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

/**
 * WEFT_ROLE_CODES:
 *
 * The role of the tensor that holds the elements of a weight. Its companions have roles that their quantizer names, such
 * as `scale` or `zero_point`.
 *
 * Since: 1.0
 */
#define WEFT_ROLE_CODES "codes"

#define WEFT_TYPE_PACKED_WEIGHT (weft_packed_weight_get_type ())

/**
 * WeftPackedWeight:
 *
 * A weight under its dense name, and the tensors that it is stored as, by role. A quantizer describes one that was read:
 * it checks the parts and says what the dense weight looks like and which elements of it an element of a part stands for. When
 * it quantises, it takes the dense tensor and sets the parts.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPackedWeight, weft_packed_weight, WEFT, PACKED_WEIGHT, GObject)

WEFT_PUBLIC WeftPackedWeight *weft_packed_weight_new (const gchar *name);

WEFT_PUBLIC const gchar *weft_packed_weight_get_name (WeftPackedWeight *self);
WEFT_PUBLIC gchar *weft_packed_weight_dup_module_path (WeftPackedWeight *self);

/* The parts. */
WEFT_PUBLIC void weft_packed_weight_set_part (WeftPackedWeight *self, const gchar *role, WeftTensor *tensor);
WEFT_PUBLIC gboolean weft_packed_weight_add_stored_part (WeftPackedWeight *self, const gchar *role,
                                                         const gchar *key, guint position, WeftTensor *tensor,
                                                         GError **error);
WEFT_PUBLIC guint weft_packed_weight_get_n_parts (WeftPackedWeight *self);
WEFT_PUBLIC const gchar *weft_packed_weight_get_role (WeftPackedWeight *self, guint part);
WEFT_PUBLIC const gchar *weft_packed_weight_get_key (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC gboolean weft_packed_weight_get_position (WeftPackedWeight *self, const gchar *role,
                                                      guint *position);
WEFT_PUBLIC WeftTensor *weft_packed_weight_get_tensor (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC WeftTensor *weft_packed_weight_require_tensor (WeftPackedWeight *self, const gchar *role,
                                                           GError **error);

/* The dense weight: what quantising begins with. */
WEFT_PUBLIC void weft_packed_weight_set_dense (WeftPackedWeight *self, WeftTensor *dense);
WEFT_PUBLIC WeftTensor *weft_packed_weight_get_dense (WeftPackedWeight *self);

/* What describing it found. */
WEFT_PUBLIC gboolean weft_packed_weight_set_packed (WeftPackedWeight *self, const gchar *scheme,
                                                    const gint64 *dims, gsize n_dims, WeftDtype dtype,
                                                    GError **error);
WEFT_PUBLIC gboolean weft_packed_weight_set_block (WeftPackedWeight *self, const gchar *role, gint64 rows,
                                                   gint64 columns, GError **error);
WEFT_PUBLIC void weft_packed_weight_allow_channels (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC gboolean weft_packed_weight_allows_channels (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC void weft_packed_weight_set_exponents (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC gboolean weft_packed_weight_has_exponents (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC void weft_packed_weight_keep_spelling (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC gboolean weft_packed_weight_keeps_spelling (WeftPackedWeight *self, const gchar *role);
WEFT_PUBLIC gboolean weft_packed_weight_is_packed (WeftPackedWeight *self);
WEFT_PUBLIC const gchar *weft_packed_weight_get_scheme (WeftPackedWeight *self);
WEFT_PUBLIC const WeftShape *weft_packed_weight_get_shape (WeftPackedWeight *self);
WEFT_PUBLIC WeftDtype weft_packed_weight_get_dtype (WeftPackedWeight *self);
WEFT_PUBLIC gboolean weft_packed_weight_get_block (WeftPackedWeight *self, const gchar *role, gint64 *rows,
                                                   gint64 *columns);
WEFT_PUBLIC gdouble weft_packed_weight_get_bits_per_element (WeftPackedWeight *self);

G_END_DECLS
