/* SPDX-License-Identifier: Apache-2.0 */
/* The plain renaming rule. */
#pragma once

#include "transform/weft-weight-transform-base.h"

G_BEGIN_DECLS

#define WEFT_TYPE_WEIGHT_RENAMING (weft_weight_renaming_get_type ())

/**
 * WeftWeightRenaming:
 *
 * Renames the keys that a source matches: the first target stands in place of the match. Kinds that rename in a way of
 * their own may derive from it.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftWeightRenaming, weft_weight_renaming, WEFT, WEIGHT_RENAMING,
                          WeftWeightTransformBase)

/**
 * WeftWeightRenamingClass:
 * @parent_class: the parent
 *
 * The class structure of #WeftWeightRenaming.
 *
 * Since: 1.0
 */
struct _WeftWeightRenamingClass
{
  WeftWeightTransformBaseClass parent_class;

  /*< private >*/
  gpointer reserved[4];
};

WEFT_PUBLIC WeftWeightTransform *weft_weight_renaming_new (const gchar *const *source_patterns,
                                                           const gchar *const *target_patterns,
                                                           GError **error);

G_END_DECLS
