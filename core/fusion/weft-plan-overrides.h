/* SPDX-License-Identifier: Apache-2.0 */
/* Plan overrides: which modules a user wants replaced, by path, and by what. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PLAN_OVERRIDES (weft_plan_overrides_get_type ())

/**
 * WeftPlanOverrides:
 *
 * A list of entries, each with a pattern of module paths, a target and its options. Read from YAML or JSON. Immutable.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftPlanOverrides, weft_plan_overrides, WEFT, PLAN_OVERRIDES, GObject)

WEFT_PUBLIC WeftPlanOverrides *weft_plan_overrides_load (const gchar *path, GError **error);
WEFT_PUBLIC WeftPlanOverrides *weft_plan_overrides_new_from_json (JsonNode *root, const gchar *where,
                                                                  GError **error);

WEFT_PUBLIC guint weft_plan_overrides_get_n_entries (WeftPlanOverrides *self);
WEFT_PUBLIC const gchar *weft_plan_overrides_get_match (WeftPlanOverrides *self, guint entry);
WEFT_PUBLIC const gchar *weft_plan_overrides_get_target (WeftPlanOverrides *self, guint entry);
WEFT_PUBLIC JsonObject *weft_plan_overrides_get_options (WeftPlanOverrides *self, guint entry);
WEFT_PUBLIC gboolean weft_plan_overrides_skips_mismatch (WeftPlanOverrides *self, guint entry);
WEFT_PUBLIC const gchar *weft_plan_overrides_get_where (WeftPlanOverrides *self, guint entry);
WEFT_PUBLIC JsonNode *weft_plan_overrides_to_json (WeftPlanOverrides *self);

G_END_DECLS
