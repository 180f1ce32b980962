/* SPDX-License-Identifier: Apache-2.0 */
/* Renamings that arm each other through a guard. */
#pragma once

#include "transform/weft-weight-renaming.h"

G_BEGIN_DECLS

#define WEFT_TYPE_GROUP_WEIGHT_RENAME (weft_group_weight_rename_get_type ())

/**
 * WeftGroupWeightRename:
 *
 * Paired renamings that share intermediate names (`norm0 -> norm1`, `norm1 -> norm2`) and must not fire on a checkpoint
 * that has the new names already. The first source is the guard: the others fire only after it has matched a key. Keys
 * pass in natural order.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftGroupWeightRename, weft_group_weight_rename, WEFT, GROUP_WEIGHT_RENAME,
                      WeftWeightRenaming)

WEFT_PUBLIC WeftWeightTransform *weft_group_weight_rename_new (const gchar *const *source_patterns,
                                                               const gchar *const *target_patterns,
                                                               GError **error);
WEFT_PUBLIC gboolean weft_group_weight_rename_is_active (WeftGroupWeightRename *self);

G_END_DECLS
