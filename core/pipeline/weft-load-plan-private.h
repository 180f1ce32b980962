/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a plan, for the other views of it. */
#pragma once

#include "pipeline/weft-conversion-private.h"
#include "pipeline/weft-load-plan.h"
#include "quantize/weft-packed-weights.h"

struct _WeftLoadPlan
{
  GObject parent_instance;

  WeftCheckpoint *checkpoint;
  WeftLoadOptions *options;
  /* NULL: the checkpoint is dense. */
  WeftPackedWeights *packed;
  /* The tensors that conversions refer to: those of the checkpoint, or, dequantized, their dense values. */
  WeftStateDict *published;
  /* NULL: open mode without any knowledge of the model. */
  WeftModuleTree *tree;
  /* Names that the model knows; NULL in open mode. */
  GHashTable *model_keys;
  WeftTransformList *transforms;
  /* GRegex for each rule of the tree's dtype plan. */
  GPtrArray *dtype_patterns;
  JsonNode *config;
  GPtrArray *conversions;
  /* Conversions of packed weights as dense ones; `conversions` has one for each of their roles instead. */
  GPtrArray *carried;
  /* Names of packed outputs. */
  GHashTable *carried_names;
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

/* Whether positions of conversions are those of dequantized weights. */
gboolean weft_load_plan_is_dequantized (WeftLoadPlan *self);
/* The shard of the checkpoint that a source lies in. */
guint weft_load_plan_get_source_shard (WeftLoadPlan *self, guint position);

const gchar *weft_load_plan_get_base_model_prefix (WeftLoadPlan *self);
/* Says what of the checkpoint's folder is neither read nor carried along. */
void weft_note_left_files (WeftLoadReport *report, WeftCheckpoint *checkpoint);
