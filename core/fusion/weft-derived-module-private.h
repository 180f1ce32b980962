/* SPDX-License-Identifier: Apache-2.0 */
/* The module that rules make of another one, where a family does not build it itself. */
#pragma once

#include "fusion/weft-fusion-context.h"
#include "transform/weft-transform-list.h"

/* Changes @fused, a copy of @module: tensors that @rules (relative, without a scope) take in vanish, with the modules that they leave empty;
 * what they make stands in the place of the first of them, in a module of the same class. */
gboolean weft_derived_module_apply (WeftModule *fused, WeftModule *module, WeftTransformList *rules,
                                    WeftFusionContext *context, GError **error);
