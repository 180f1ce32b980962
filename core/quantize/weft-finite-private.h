/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are to be packed are finite: codes have no place for others, and some would hide them. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

/* The elements of @tensor as they are; reading one that is not finite fails, with @name and the place. */
WeftTensor *weft_finite_tensor_new (WeftTensor *tensor, const gchar *name, GError **error);

G_END_DECLS
