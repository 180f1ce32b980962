/* SPDX-License-Identifier: Apache-2.0 */
/* What the list of rules asks of the base class. */
#pragma once

#include "transform/weft-weight-transform-base.h"
#include "transform/weft-weight-transform-private.h"

G_BEGIN_DECLS

WeftPattern *weft_weight_transform_base_get_filter (WeftWeightTransform *self);
gboolean weft_weight_transform_base_refuse_stars (WeftWeightTransformBase *self, GError **error);
void weft_weight_transform_base_take_written (WeftWeightTransformBase *self, GStrv sources, GStrv targets);

G_END_DECLS
