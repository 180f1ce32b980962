/* SPDX-License-Identifier: Apache-2.0 */
/* What the core keeps of every rule, whatever its class. */
#pragma once

#include "transform/weft-pattern-private.h"
#include "transform/weft-weight-transform.h"

G_BEGIN_DECLS

typedef struct
{
  GStrv written_sources;
  GStrv written_targets;
  GStrv sources;
  GStrv targets;
  WeftPattern *pattern;     /* (nullable) */
  gchar *scope_prefix;      /* (nullable) */
  gchar *base_model_prefix; /* (nullable) */
  gchar *origin;            /* (nullable) */
  guint origin_index;
  gchar *origin_path; /* (nullable) */
  gchar *origin_via;  /* (nullable) */
  gboolean is_prepared;
  gboolean is_inverse;
  gboolean is_used;
} WeftTransformState;

WeftTransformState *weft_weight_transform_get_state (WeftWeightTransform *self);
WeftWeightTransform *weft_weight_transform_clone (WeftWeightTransform *self, gboolean is_inverse);
gboolean weft_weight_transform_set_all_patterns (WeftWeightTransform *self, const gchar *const *sources,
                                                 const gchar *const *targets,
                                                 const gchar *const *match_patterns, GError **error);
gchar *weft_weight_transform_try (WeftWeightTransform *self, const gchar *key, gchar **source_pattern,
                                  GError **error);

G_END_DECLS
