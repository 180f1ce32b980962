/* SPDX-License-Identifier: Apache-2.0 */
/* A rule that adds or removes one part of a name. */
#pragma once

#include "transform/weft-weight-transform-base.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PREFIX_CHANGE (weft_prefix_change_get_type ())

/**
 * WeftPrefixChange:
 *
 * Adds a part to the front of every key, or behind a given prefix, that does not have it, or removes it where it is.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPrefixChange, weft_prefix_change, WEFT, PREFIX_CHANGE, WeftWeightTransformBase)

WEFT_PUBLIC WeftWeightTransform *weft_prefix_change_new (const gchar *prefix_to_add,
                                                         const gchar *prefix_to_remove,
                                                         const gchar *model_prefix, GError **error);

G_END_DECLS
