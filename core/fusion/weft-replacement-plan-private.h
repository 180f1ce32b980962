/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a plan, for the executor. */
#pragma once

#include "fusion/weft-fusion-target-private.h"
#include "fusion/weft-replacement-plan.h"
#include "model/weft-module-tree.h"

typedef struct
{
  /* A module may be registered under several paths; the first is its own. */
  GStrv fqns;
  gchar *old_class;
  WeftModule *module;
  WeftFusionTarget *target;
  /* Who asked, for messages: `fusion 'gate_up' (config.json)`, `overrides.yaml:4:5: entry 1`. */
  gchar *origin;
} WeftReplacementStep;

/* Files @value under every path above @fqn. */
void weft_replacement_add_above (GHashTable *table, const gchar *fqn, gpointer value);

WeftReplacementPlan *weft_replacement_plan_new (void);
void weft_replacement_plan_add (WeftReplacementPlan *self, WeftModule *module, WeftFusionTarget *target,
                                const gchar *origin);
void weft_replacement_plan_add_note (WeftReplacementPlan *self, const gchar *note);
const WeftReplacementStep *weft_replacement_plan_get_step (WeftReplacementPlan *self, guint module);
/* The step that selected the module at @fqn, or NULL. */
const WeftReplacementStep *weft_replacement_plan_find (WeftReplacementPlan *self, const gchar *fqn);
/* A step that selected a module below @fqn, or NULL. */
const WeftReplacementStep *weft_replacement_plan_find_below (WeftReplacementPlan *self, const gchar *fqn);
/* Adds each module, with its new class if @tree is the skeleton in which it was replaced. */
void weft_replacement_plan_add_to_json (WeftReplacementPlan *self, JsonBuilder *builder,
                                        WeftModuleTree *tree);
/* Puts the steps in the order of their paths, parents first. */
void weft_replacement_plan_sort (WeftReplacementPlan *self);
