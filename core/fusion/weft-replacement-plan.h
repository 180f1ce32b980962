/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules are to be replaced, by what, and why: compiled, not yet applied. */
#pragma once

#include <json-glib/json-glib.h>

#include "fusion/weft-patch-mapping.h"

G_BEGIN_DECLS

#define WEFT_TYPE_REPLACEMENT_PLAN (weft_replacement_plan_get_type ())

/**
 * WeftReplacementPlan:
 *
 * A list of modules with their replacements, in the order of the skeleton. Immutable.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftReplacementPlan, weft_replacement_plan, WEFT, REPLACEMENT_PLAN, GObject)

WEFT_PUBLIC guint weft_replacement_plan_get_n_modules (WeftReplacementPlan *self);
WEFT_PUBLIC GStrv weft_replacement_plan_list_fqns (WeftReplacementPlan *self, guint module);
WEFT_PUBLIC const gchar *weft_replacement_plan_get_class (WeftReplacementPlan *self, guint module);
WEFT_PUBLIC const gchar *weft_replacement_plan_get_target (WeftReplacementPlan *self, guint module);
WEFT_PUBLIC JsonObject *weft_replacement_plan_get_options (WeftReplacementPlan *self, guint module);
WEFT_PUBLIC const gchar *weft_replacement_plan_get_origin (WeftReplacementPlan *self, guint module);
WEFT_PUBLIC GStrv weft_replacement_plan_list_notes (WeftReplacementPlan *self);
WEFT_PUBLIC JsonNode *weft_replacement_plan_to_json (WeftReplacementPlan *self);

G_END_DECLS
