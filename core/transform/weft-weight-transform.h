/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a rule of a conversion mapping, and what every rule can be asked. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_WEIGHT_TRANSFORM (weft_weight_transform_get_type ())

/**
 * WeftWeightTransform:
 *
 * One rule of a conversion mapping: it renames the keys that it matches; a converter also computes. Implementers derive
 * from #WeftWeightTransformBase.
 *
 * A rule is written once, as two lists of patterns, and is not changed afterwards; what it learns while keys pass (that
 * it was used, that a guard was met) is learnt by the copy that a plan owns.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_INTERFACE (WeftWeightTransform, weft_weight_transform, WEFT, WEIGHT_TRANSFORM, GObject)

/**
 * WeftWeightTransformInterface:
 * @g_iface: the parent
 * @prepare: checks the rule and compiles its patterns, once, after construction
 * @rename_key: the new key, or %NULL if the rule does not match
 * @dup_inverse: the rule for the other direction
 * @reset: forgets what was learnt from keys
 *
 * The slots that the runners call. #WeftWeightTransformBase fills them from its own.
 *
 * Since: 1.0
 */
struct _WeftWeightTransformInterface
{
  GTypeInterface g_iface;

  /**
   * WeftWeightTransformInterface::prepare: (skip)
   */
  gboolean (*prepare) (WeftWeightTransform *self, GError **error);

  /**
   * WeftWeightTransformInterface::rename_key: (skip)
   */
  gchar *(*rename_key) (WeftWeightTransform *self, const gchar *key, gchar **source_pattern, GError **error);

  /**
   * WeftWeightTransformInterface::dup_inverse: (skip)
   */
  WeftWeightTransform *(*dup_inverse) (WeftWeightTransform *self, GError **error);

  /**
   * WeftWeightTransformInterface::reset: (skip)
   */
  void (*reset) (WeftWeightTransform *self);
};

/* Making rules. */
WEFT_PUBLIC WeftWeightTransform *weft_weight_transform_new_from_json (JsonObject *object, const gchar *where,
                                                                      GError **error);
WEFT_PUBLIC JsonObject *weft_weight_transform_to_json (WeftWeightTransform *self);
WEFT_PUBLIC JsonObject *weft_weight_transform_describe_json (WeftWeightTransform *self);
WEFT_PUBLIC WeftWeightTransform *weft_weight_transform_copy (WeftWeightTransform *self, GError **error);
WEFT_PUBLIC gboolean weft_weight_transform_prepare (WeftWeightTransform *self, GError **error);

/* The runners: nobody calls a slot bare. */
WEFT_PUBLIC gchar *weft_weight_transform_rename_key (WeftWeightTransform *self, const gchar *key,
                                                     gchar **source_pattern, GError **error);
WEFT_PUBLIC WeftWeightTransform *weft_weight_transform_dup_inverse (WeftWeightTransform *self,
                                                                    GError **error);
WEFT_PUBLIC void weft_weight_transform_reset (WeftWeightTransform *self);

/* What it is. */
WEFT_PUBLIC const gchar *weft_weight_transform_get_kind (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *const *weft_weight_transform_get_source_patterns (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *const *weft_weight_transform_get_target_patterns (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *const *weft_weight_transform_get_written_sources (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *const *weft_weight_transform_get_written_targets (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *weft_weight_transform_get_regex (WeftWeightTransform *self);
WEFT_PUBLIC GStrv weft_weight_transform_resolve_targets (WeftWeightTransform *self, const gchar *key,
                                                         GError **error);
WEFT_PUBLIC gchar *weft_weight_transform_describe (WeftWeightTransform *self);

/* Where it applies. */
WEFT_PUBLIC void weft_weight_transform_set_scope (WeftWeightTransform *self, const gchar *scope_prefix,
                                                  const gchar *base_model_prefix);
WEFT_PUBLIC const gchar *weft_weight_transform_get_scope_prefix (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *weft_weight_transform_get_base_model_prefix (WeftWeightTransform *self);
WEFT_PUBLIC gboolean weft_weight_transform_enter_scope (WeftWeightTransform *self, const gchar *key,
                                                        gsize *consumed);

/* Where it comes from, and what it learnt. */
WEFT_PUBLIC void weft_weight_transform_set_origin (WeftWeightTransform *self, const gchar *entry,
                                                   guint position);
WEFT_PUBLIC const gchar *weft_weight_transform_get_origin (WeftWeightTransform *self);
WEFT_PUBLIC guint weft_weight_transform_get_origin_index (WeftWeightTransform *self);
WEFT_PUBLIC void weft_weight_transform_set_origin_model (WeftWeightTransform *self, const gchar *path,
                                                         const gchar *via);
WEFT_PUBLIC const gchar *weft_weight_transform_get_origin_path (WeftWeightTransform *self);
WEFT_PUBLIC const gchar *weft_weight_transform_get_origin_via (WeftWeightTransform *self);
WEFT_PUBLIC gboolean weft_weight_transform_get_used (WeftWeightTransform *self);
WEFT_PUBLIC void weft_weight_transform_set_used (WeftWeightTransform *self, gboolean used);

/* For implementers: sets the written patterns, normalises and compiles them. Called from `prepare`. */
WEFT_PUBLIC gboolean weft_weight_transform_set_patterns (WeftWeightTransform *self,
                                                         const gchar *const *sources,
                                                         const gchar *const *targets, GError **error);

G_END_DECLS
