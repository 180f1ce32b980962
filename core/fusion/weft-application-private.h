/* SPDX-License-Identifier: Apache-2.0 */
/* Applies a plan to a copy of what is applied already: the copy takes its place only if all went well. */
#pragma once

#include "fusion/weft-replacement-plan.h"
#include "model/weft-module-tree.h"
#include "transform/weft-transform-list.h"

typedef struct
{
  WeftModuleTree *tree;
  WeftTransformList *transforms;
  WeftPatchMapping *patches;
  /* WeftReplacementPlan, in the order they were applied. */
  GPtrArray *plans;
  /* Path of a replaced module -> who asked; and every path above one. */
  GHashTable *replaced;
  GHashTable *replaced_below;
  /* Full names of the tensors that the rules take in, and that they make -> who asked. */
  GHashTable *taken;
  GHashTable *made;
  /* Full name, then style, and so on. */
  GPtrArray *styles;
} WeftAppliedState;

WeftAppliedState *weft_applied_state_new (WeftModuleTree *tree);
void weft_applied_state_free (WeftAppliedState *self);

/* What @state becomes with @plan. @state is not changed. */
WeftAppliedState *weft_application_run (const WeftAppliedState *state, WeftReplacementPlan *plan,
                                        JsonNode *config, const gchar *where, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftAppliedState, weft_applied_state_free)
