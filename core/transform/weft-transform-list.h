/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered list of rules, and what it makes of a key in either direction. */
#pragma once

#include "transform/weft-conversion-ops.h"
#include "transform/weft-renamed-key.h"
#include "transform/weft-rule-trial.h"
#include "transform/weft-weight-transform.h"

G_BEGIN_DECLS

#define WEFT_TYPE_TRANSFORM_LIST (weft_transform_list_get_type ())

/**
 * WeftTransformList:
 *
 * The rules of a conversion in their order. Load direction: every renaming, each on the result of the one before, then
 * the first converter that matches. Save direction (see weft_transform_list_dup_inverse()): the first converter that
 * matches; without one, every renaming.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftTransformList, weft_transform_list, WEFT, TRANSFORM_LIST, GObject)

/**
 * WeftInverseFlags:
 * @WEFT_INVERSE_FLAGS_NONE: reverse every rule
 * @WEFT_INVERSE_FLAGS_ONLY_USED: reverse the rules that a key has met
 * @WEFT_INVERSE_FLAGS_NO_PREFIX_CHANGE: leave out rules that add or remove a prefix, as for a model that was never loaded
 *
 * Which rules are reversed.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_INVERSE_FLAGS_NONE = 0,
  WEFT_INVERSE_FLAGS_ONLY_USED = 1 << 0,
  WEFT_INVERSE_FLAGS_NO_PREFIX_CHANGE = 1 << 1,
} WeftInverseFlags;

/* The list. */
WEFT_PUBLIC WeftTransformList *weft_transform_list_new (void);
WEFT_PUBLIC WeftTransformList *weft_transform_list_new_like (WeftTransformList *self);
WEFT_PUBLIC WeftTransformList *weft_transform_list_copy (WeftTransformList *self, GError **error);
WEFT_PUBLIC void weft_transform_list_append (WeftTransformList *self, WeftWeightTransform *transform);
WEFT_PUBLIC void weft_transform_list_insert (WeftTransformList *self, guint position,
                                             WeftWeightTransform *transform);
WEFT_PUBLIC void weft_transform_list_remove (WeftTransformList *self, guint position);
WEFT_PUBLIC void weft_transform_list_append_list (WeftTransformList *self, WeftTransformList *other);
WEFT_PUBLIC guint weft_transform_list_get_n_transforms (WeftTransformList *self);
WEFT_PUBLIC WeftWeightTransform *weft_transform_list_get_transform (WeftTransformList *self, guint position);
WEFT_PUBLIC gboolean weft_transform_list_is_converter (WeftTransformList *self, guint position);
WEFT_PUBLIC gboolean weft_transform_list_append_renaming (WeftTransformList *self,
                                                          const gchar *source_pattern,
                                                          const gchar *target_pattern, GError **error);

/* Editing the chains of its converters. */
WEFT_PUBLIC gboolean weft_transform_list_append_operation (WeftTransformList *self,
                                                           WeftConversionOps *operation, GError **error);
WEFT_PUBLIC gboolean weft_transform_list_replace_operation (WeftTransformList *self, const gchar *name,
                                                            WeftConversionOps *operation, GError **error);
WEFT_PUBLIC gboolean weft_transform_list_set_operations (WeftTransformList *self, guint position,
                                                         GPtrArray *operations, GError **error);

/* Keys. */
WEFT_PUBLIC WeftRenamedKey *weft_transform_list_rename_key (WeftTransformList *self, const gchar *key,
                                                            const gchar *base_model_prefix,
                                                            GHashTable *model_keys, GError **error);
WEFT_PUBLIC gchar *weft_transform_list_rename_output (WeftTransformList *self, const gchar *name,
                                                      GError **error);
WEFT_PUBLIC GPtrArray *weft_transform_list_explain_key (WeftTransformList *self, const gchar *key,
                                                        GError **error);
WEFT_PUBLIC void weft_transform_list_reset (WeftTransformList *self);

/* The other direction. */
WEFT_PUBLIC WeftTransformList *weft_transform_list_dup_inverse (WeftTransformList *self,
                                                                WeftInverseFlags flags, GError **error);
WEFT_PUBLIC gboolean weft_transform_list_is_inverse (WeftTransformList *self);

/* Order of rules in a mapping. */
WEFT_PUBLIC gboolean weft_transform_list_check_order (WeftTransformList *self, GError **error);
WEFT_PUBLIC gchar *weft_transform_list_find_rewritten_output (WeftTransformList *self, guint converter,
                                                              guint renaming);

WEFT_PUBLIC gchar *weft_transform_repair_prefix (const gchar *key, const gchar *base_model_prefix,
                                                 GHashTable *model_keys);

G_END_DECLS
