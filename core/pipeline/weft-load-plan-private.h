/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a plan, for the other views of it. */
#pragma once

#include "fusion/weft-replacement-executor.h"
#include "parallel/weft-sharding-internal.h"
#include "pipeline/weft-load-plan.h"
#include "pipeline/weft-tied-names-private.h"
#include "quantize/weft-packed-weights.h"
#include "transform/weft-conversion-internal.h"

struct _WeftLoadPlan
{
  GObject parent_instance;

  WeftCheckpoint *checkpoint;
  WeftLoadOptions *options;
  /* NULL: the checkpoint is dense. */
  WeftPackedWeights *packed;
  /* NULL: outputs are not quantized. */
  WeftQuantizer *quantizer;
  /* The weights that it packs. */
  GPtrArray *quantized;
  /* Paths of modules that quantizing leaves dense. */
  GPtrArray *dense_modules;
  /* The tensors that conversions refer to: those of the checkpoint, or, dequantized, their dense values. */
  WeftStateDict *published;
  /* NULL: open mode without any knowledge of the model. */
  WeftModuleTree *tree;
  /* Why the tree has no tensors; NULL if there is nothing to say. */
  gchar *open_reason;
  /* Names that the model knows; NULL in open mode. */
  GHashTable *model_keys;
  /* NULL if the tree has no tensors, or names were declared in its place. */
  WeftTiedNames *ties;
  /* GRegex of names that may be missing, and of names that may be there; NULL where ties is. */
  GPtrArray *ignored_missing;
  GPtrArray *ignored_unexpected;
  WeftMappingRegistry *registry;
  WeftTransformList *transforms;
  /* What is read as, if the model does not say otherwise; invalid: as it is stored. */
  WeftDtype request;
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
  /* For each output the conversion that makes it, or that makes its first source where a stage stands between. */
  GPtrArray *output_conversions;
  /* What is replaced in the model; NULL: nothing. */
  WeftReplacementExecutor *fusion;
  /* What may be replaced in the checkpoint, and is taken back first; NULL: nothing. */
  WeftReplacementExecutor *stored_fusion;
  /* WeftStage: behind the conversions, in their order. */
  GPtrArray *stages;
  /* For each input of the first stage the conversion that makes it; NULL if there is no stage. */
  GPtrArray *runtime_conversions;
  WeftStateDict *outputs;
  /* How the outputs are spread over ranks; NULL: they are not. Then `outputs` are what one rank holds, and these the whole tensors and
   * their conversions. */
  WeftSharding *sharding;
  WeftStateDict *whole;
  GPtrArray *whole_conversions;
  /* Names that a conversion gives and the caller wants left out. */
  GHashTable *left_out;
  WeftLoadReport *report;
  guint n_known;
  /* Name of a file beside the weights -> GBytes, what is written in its place. */
  GHashTable *replaced_files;
  /* (nullable): name of the one file of weights that is written, in place of the usual one. */
  gchar *file_name;
  /* What values told, once: see weft_load_plan_check_values(). NULL before. */
  GMutex value_lock;
  WeftLoadReport *value_report;
  /* WeftConversion -> why it has no exact inverse after all. */
  GHashTable *lossy_by_values;
};

/* Whether positions of conversions are those of dequantized weights. */
gboolean weft_load_plan_is_dequantized (WeftLoadPlan *self);
/* The shard of the checkpoint that a source lies in. */
guint weft_load_plan_get_source_shard (WeftLoadPlan *self, guint position);
/* Writes @content in place of a file that the checkpoint has beside its weights; reverting brings the file back. */
void weft_load_plan_replace_file (WeftLoadPlan *self, const gchar *name, GBytes *content);
/* Finds what the options and the config ask for. */
gboolean weft_load_plan_prepare_dtypes (WeftLoadPlan *self, GError **error);
/* What the sources that meet in a conversion are read as; invalid: as they are stored. */
WeftDtype weft_load_plan_choose_dtype (WeftLoadPlan *self, const WeftConversion *conversion);
/* Why a conversion has no exact inverse, by its layout or by the values that were looked at; NULL if it has one. */
const gchar *weft_load_plan_find_lossy_reason (WeftLoadPlan *self, const WeftConversion *conversion);

const gchar *weft_load_plan_get_base_model_prefix (WeftLoadPlan *self);
/* Whether shapes, dtypes and ties of the model's tensors are known, not only their names or nothing. */
gboolean weft_load_plan_knows_tensors (WeftLoadPlan *self);
/* Says what of the checkpoint's folder is neither read nor carried along. */
void weft_note_left_files (WeftLoadReport *report, WeftCheckpoint *checkpoint);
