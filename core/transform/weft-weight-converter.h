/* SPDX-License-Identifier: Apache-2.0 */
/* The rule that computes: it collects tensors under its sources and runs a chain of ops on them. */
#pragma once

#include "transform/weft-conversion-ops.h"
#include "transform/weft-weight-transform-base.h"

G_BEGIN_DECLS

#define WEFT_TYPE_WEIGHT_CONVERTER (weft_weight_converter_get_type ())

/**
 * WeftWeightConverter:
 *
 * Renames the keys that its sources match to its first target, so that they meet there, and has a chain of ops that makes
 * the targets out of what met. A key meets at most one converter.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftWeightConverter, weft_weight_converter, WEFT, WEIGHT_CONVERTER,
                      WeftWeightTransformBase)

WEFT_PUBLIC WeftWeightTransform *weft_weight_converter_new (const gchar *const *source_patterns,
                                                            const gchar *const *target_patterns,
                                                            GPtrArray *operations, gboolean force_cpu,
                                                            GError **error);
WEFT_PUBLIC WeftWeightTransform *
weft_weight_converter_dup_with_operations (WeftWeightConverter *self, GPtrArray *operations, GError **error);
WEFT_PUBLIC GPtrArray *weft_weight_converter_get_operations (WeftWeightConverter *self);
WEFT_PUBLIC gboolean weft_weight_converter_get_force_cpu (WeftWeightConverter *self);

G_END_DECLS
