/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a plan, for the other views of it. */
#pragma once

#include "transform/weft-conversion-internal.h"
#include "pipeline/weft-load-plan.h"

struct _WeftLoadPlan
{
  GObject parent_instance;

  WeftCheckpoint *checkpoint;
  WeftLoadOptions *options;
  /* NULL: open mode without any knowledge of the model. */
  WeftModuleTree *tree;
  /* Names that the model knows; NULL in open mode. */
  GHashTable *model_keys;
  WeftTransformList *transforms;
  /* GRegex for each rule of the tree's dtype plan. */
  GPtrArray *dtype_patterns;
  JsonNode *config;
  GPtrArray *conversions;
  /* Name under which sources meet -> WeftConversion. */
  GHashTable *layers;
  /* For each output the conversion that makes it. */
  GPtrArray *output_conversions;
  WeftStateDict *outputs;
  /* Names that a conversion gives and the caller wants left out. */
  GHashTable *left_out;
  WeftLoadReport *report;
  guint n_known;
};

const gchar *weft_load_plan_get_base_model_prefix (WeftLoadPlan *self);
/* Says what of the checkpoint's folder is neither read nor carried along. */
void weft_note_left_files (WeftLoadReport *report, WeftCheckpoint *checkpoint);
