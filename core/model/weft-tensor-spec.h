/* SPDX-License-Identifier: Apache-2.0 */
/* What a model expects of one tensor: dtype, shape, and what part it plays. */
#pragma once

#include "base/weft-shape.h"

G_BEGIN_DECLS

#define WEFT_TYPE_TENSOR_SPEC (weft_tensor_spec_get_type ())

/**
 * WeftTensorSpec:
 *
 * A parameter or a buffer of a module, without its values. Immutable and reference counted. Where one module takes a
 * tensor over from another, both hold the same specification.
 *
 * Since: 1.0
 */
typedef struct _WeftTensorSpec WeftTensorSpec;

WEFT_PUBLIC GType weft_tensor_spec_get_type (void);
WEFT_PUBLIC WeftTensorSpec *weft_tensor_spec_new (WeftDtype dtype, const WeftShape *shape);
WEFT_PUBLIC WeftTensorSpec *weft_tensor_spec_new_buffer (WeftDtype dtype, const WeftShape *shape,
                                                         gboolean is_persistent);
WEFT_PUBLIC WeftTensorSpec *weft_tensor_spec_ref (WeftTensorSpec *self);
WEFT_PUBLIC void weft_tensor_spec_unref (WeftTensorSpec *self);
WEFT_PUBLIC WeftDtype weft_tensor_spec_get_dtype (WeftTensorSpec *self);
WEFT_PUBLIC const WeftShape *weft_tensor_spec_get_shape (WeftTensorSpec *self);
WEFT_PUBLIC gboolean weft_tensor_spec_is_buffer (WeftTensorSpec *self);
WEFT_PUBLIC gboolean weft_tensor_spec_is_persistent (WeftTensorSpec *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftTensorSpec, weft_tensor_spec_unref)

G_END_DECLS
