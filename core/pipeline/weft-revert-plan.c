/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-revert-plan-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-caller-rules-private.h"
#include "pipeline/weft-carry-private.h"
#include "pipeline/weft-fusion-stages-private.h"
#include "pipeline/weft-output-private.h"
#include "pipeline/weft-provenance-private.h"
#include "pipeline/weft-quantize-stage-private.h"
#include "transform/weft-stage-internal.h"

struct _WeftRevertPlan
{
  GObject parent_instance;

  WeftCheckpoint *checkpoint;
  WeftLoadOptions *options;
  WeftRevertFlags flags;
  WeftProvenance *provenance;
  /* What the way back starts from, stage by stage: first the tensors of the checkpoint; and the shard of each. */
  WeftStateDict *runtime;
  GArray *runtime_shards;
  /* Packed weights of the checkpoint that go back as they are; NULL: it is dense, or a record tells where each tensor goes. */
  WeftPackedWeights *packed;
  WeftStateDict *outputs;
  /* For each output the shard of the runtime checkpoint that it mainly comes from. */
  GArray *shards;
  WeftLoadReport *report;
  /* Of the rules that decide what an output is made of. */
  gchar *fingerprint;
  /* Tensors of the runtime checkpoint that the record does not know. */
  guint n_added;
};

/* One stage of the record while it is taken back. */
typedef struct
{
  /* What it was made of: tensors without values. */
  WeftStateDict *published;
  WeftOpContext *facts;
  /* Of the runtime's tensors: whether a conversion made it. */
  gboolean *is_taken;
  WeftStateDict *outputs;
  GArray *shards;
} Level;

G_DEFINE_FINAL_TYPE (WeftRevertPlan, weft_revert_plan, G_TYPE_OBJECT)

static void
weft_revert_plan_finalize (GObject *object)
{
  WeftRevertPlan *self = WEFT_REVERT_PLAN (object);

  g_clear_object (&self->checkpoint);
  g_clear_object (&self->options);
  g_clear_pointer (&self->provenance, weft_provenance_free);
  g_clear_object (&self->runtime);
  g_clear_object (&self->packed);
  g_clear_pointer (&self->runtime_shards, g_array_unref);
  g_clear_object (&self->outputs);
  g_clear_pointer (&self->shards, g_array_unref);
  g_clear_object (&self->report);
  g_free (self->fingerprint);
  G_OBJECT_CLASS (weft_revert_plan_parent_class)->finalize (object);
}

static void
weft_revert_plan_class_init (WeftRevertPlanClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_revert_plan_finalize;
}

static void
weft_revert_plan_init (WeftRevertPlan *self)
{
  self->runtime_shards = g_array_new (FALSE, FALSE, sizeof (guint));
  self->outputs = weft_state_dict_new ();
  self->shards = g_array_new (FALSE, FALSE, sizeof (guint));
  self->report = weft_load_report_new ();
}

static void
start_from_checkpoint (WeftRevertPlan *self)
{
  self->runtime = g_object_ref (weft_checkpoint_get_state_dict (self->checkpoint));
  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->runtime); i++)
    {
      guint shard = weft_checkpoint_get_tensor_shard (self->checkpoint, i);

      g_array_append_val (self->runtime_shards, shard);
    }
}

/* Sees the packed weights of the checkpoint: as dense values, or as names that the rules take back. */
static gboolean
find_packed (WeftRevertPlan *self, gboolean is_dequantized, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftQuantizer) quantizer = weft_quantizer_new_for_checkpoint (self->checkpoint, &local_error);
  g_autoptr (WeftStateDict) seen = NULL;

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  self->packed =
      quantizer != NULL ? weft_packed_weights_new (quantizer, self->runtime, is_dequantized, error) : NULL;
  if (self->packed == NULL)
    return quantizer == NULL;
  seen = is_dequantized ? weft_packed_weights_dequantize (self->packed, WEFT_DTYPE_INVALID, error)
                        : g_object_ref (weft_packed_weights_get_dense (self->packed));
  if (seen == NULL)
    return FALSE;
  g_set_object (&self->runtime, seen);
  g_array_set_size (self->runtime_shards, 0);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (seen); i++)
    {
      guint shard = weft_checkpoint_get_tensor_shard (
          self->checkpoint, weft_packed_weights_get_stored_position (self->packed, i));

      g_array_append_val (self->runtime_shards, shard);
    }
  return TRUE;
}

static gboolean
add_tensor (WeftRevertPlan *self, WeftStateDict *outputs, GArray *shards, const gchar *name,
            WeftTensor *tensor, guint runtime_position, GError **error)
{
  if (!weft_state_dict_add (outputs, name, tensor, error))
    return FALSE;
  g_array_append_val (shards, g_array_index (self->runtime_shards, guint, runtime_position));
  return TRUE;
}

static gboolean
add_output (WeftRevertPlan *self, const gchar *name, WeftTensor *tensor, guint runtime_position,
            GError **error)
{
  return add_tensor (self, self->outputs, self->shards, name, tensor, runtime_position, error);
}

/* The runtime tensors of a recorded conversion, as they are now. */
static gboolean
find_runtime (WeftRevertPlan *self, Level *level, WeftConversion *conversion, WeftTensor **runtime,
              guint *first, GError **error)
{
  WeftStateDict *state_dict = self->runtime;
  gboolean *is_taken = level->is_taken;

  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (conversion->outputs, WeftConversionOutput, i);
      WeftDtype recorded = weft_tensor_get_dtype (output->tensor);
      guint position;

      if (!weft_state_dict_find (state_dict, output->name, &position))
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_MISSING,
              "%s: '%s' is gone, which the record says was made of '%s'; it cannot be reverted without",
              weft_checkpoint_get_path (self->checkpoint), output->name,
              weft_state_dict_get_name (
                  level->published, g_array_index (conversion->sources, WeftConversionSource, 0).position));
          return FALSE;
        }
      if (is_taken[position])
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_FORMAT,
              "%s: '%s' is named twice in the record (%s); remove it to revert by the model's mapping alone",
              weft_checkpoint_get_path (self->checkpoint), output->name, WEFT_PROVENANCE_FILE_NAME);
          return FALSE;
        }
      runtime[i] = weft_state_dict_get_tensor (state_dict, position);
      is_taken[position] = TRUE;
      if (i == 0)
        *first = position;
      if (weft_tensor_get_dtype (runtime[i]) != recorded && !self->provenance->is_quantized)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                       "%s: '%s' was written as %s and is %s now; cast it back before reverting",
                       weft_checkpoint_get_path (self->checkpoint), output->name,
                       weft_dtype_get_name (recorded),
                       weft_dtype_get_name (weft_tensor_get_dtype (runtime[i])));
          return FALSE;
        }
    }
  return TRUE;
}

/* Whether a conversion lost an output while converting. The others stay where they are then. */
static gboolean
is_incomplete (WeftRevertPlan *self, WeftConversion *conversion)
{
  WeftStateDict *state_dict = self->runtime;

  for (guint i = 0; conversion->proof == WEFT_PROOF_LOSSY && i < conversion->outputs->len; i++)
    if (!weft_state_dict_find (state_dict, g_array_index (conversion->outputs, WeftConversionOutput, i).name,
                               NULL))
      return TRUE;
  return FALSE;
}

static gboolean
revert_conversion (WeftRevertPlan *self, Level *level, WeftConversion *conversion, GError **error)
{
  WeftStateDict *published = level->published;
  g_autofree WeftTensor **runtime = g_new0 (WeftTensor *, conversion->outputs->len);
  g_autoptr (GPtrArray) tensors = NULL;
  guint first = 0;

  if (conversion->proof == WEFT_PROOF_LOSSY && (self->flags & WEFT_REVERT_FLAGS_ALLOW_LOSSY) == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
                   "'%s' has no exact inverse: %s (--lossy takes the nearest one)", conversion->layer,
                   conversion->proof_reason);
      return FALSE;
    }
  if (is_incomplete (self, conversion))
    return TRUE;
  if (!find_runtime (self, level, conversion, runtime, &first, error))
    return FALSE;
  tensors = weft_conversion_invert (conversion, runtime, published, level->facts, error);
  if (tensors == NULL)
    {
      g_prefix_error (error, "'%s': ", conversion->layer);
      return FALSE;
    }
  for (guint i = 0; i < tensors->len; i++)
    {
      guint position = g_array_index (conversion->sources, WeftConversionSource, i).position;

      if (!add_tensor (self, level->outputs, level->shards, weft_state_dict_get_name (published, position),
                       tensors->pdata[i], first, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
revert_conversions (WeftRevertPlan *self, Level *level, GPtrArray *conversions, GError **error)
{
  for (guint i = 0; i < conversions->len; i++)
    if (!revert_conversion (self, level, conversions->pdata[i], error))
      return FALSE;
  return TRUE;
}

/* Takes one stage behind the conversions back. What it did not meet stays. */
static gboolean
revert_stage (WeftRevertPlan *self, const WeftRecordedStage *stage, GError **error)
{
  guint n = weft_state_dict_get_n_tensors (self->runtime);
  g_autofree gboolean *is_taken = g_new0 (gboolean, MAX (n, 1));
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (GArray) shards = g_array_new (FALSE, FALSE, sizeof (guint));
  g_autoptr (WeftOpContext) facts =
      weft_make_published_facts (stage->inputs, weft_checkpoint_get_config (self->checkpoint));
  Level level = { stage->inputs, facts, is_taken, outputs, shards };

  if (!revert_conversions (self, &level, stage->conversions, error))
    return FALSE;
  for (guint i = 0; i < n; i++)
    if (!is_taken[i]
        && !add_tensor (self, outputs, shards, weft_state_dict_get_name (self->runtime, i),
                        weft_state_dict_get_tensor (self->runtime, i), i, error))
      return FALSE;
  g_set_object (&self->runtime, outputs);
  g_array_unref (self->runtime_shards);
  self->runtime_shards = g_steal_pointer (&shards);
  return TRUE;
}

/* Tensors that somebody put into the runtime checkpoint: carried along under their own names. */
static gboolean
add_rest (WeftRevertPlan *self, const gboolean *is_taken, GError **error)
{
  WeftStateDict *state_dict = self->runtime;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (state_dict); i++)
    if (!is_taken[i])
      {
        const gchar *name = weft_state_dict_get_name (state_dict, i);

        weft_load_report_add (self->report, WEFT_FINDING_UNEXPECTED, name,
                              "not in the record; carried along under its own name");
        self->n_added++;
        if (!add_output (self, name, weft_state_dict_get_tensor (state_dict, i), i, error))
          return FALSE;
      }
  return TRUE;
}

static guint
count_left_out (WeftRevertPlan *self)
{
  return weft_state_dict_get_n_tensors (self->provenance->published)
         - (weft_state_dict_get_n_tensors (self->outputs) - self->n_added);
}

/* What was left out while converting does not come back. */
static void
note_left_out (WeftRevertPlan *self)
{
  guint n = count_left_out (self);
  g_autofree gchar *detail =
      g_strdup_printf ("%u of the published tensors were left out when they were converted and do not come "
                       "back; the files are laid out anew",
                       n);

  if (n > 0)
    weft_load_report_add (self->report, WEFT_FINDING_NOTE, "left out", detail);
}

static gboolean
revert_by_record (WeftRevertPlan *self, GError **error)
{
  WeftProvenance *record = self->provenance;
  g_autoptr (WeftOpContext) facts =
      weft_make_published_facts (record->published, weft_checkpoint_get_config (self->checkpoint));
  g_autofree gboolean *is_taken = NULL;
  Level level = { record->published, facts, NULL, self->outputs, self->shards };

  if (record->is_quantized && !find_packed (self, TRUE, error))
    return FALSE;
  for (guint i = record->stages->len; i-- > 0;)
    if (!revert_stage (self, record->stages->pdata[i], error))
      return FALSE;
  is_taken = g_new0 (gboolean, weft_state_dict_get_n_tensors (self->runtime) + 1);
  level.is_taken = is_taken;
  if (!revert_conversions (self, &level, record->conversions, error))
    return FALSE;
  note_left_out (self);
  return add_rest (self, is_taken, error);
}

/* The model as the caller or the config knows it; NULL without an error if neither does. */
static WeftModuleTree *
find_tree (WeftRevertPlan *self, GError **error)
{
  return weft_caller_find_model (self->options, weft_checkpoint_get_config (self->checkpoint),
                                 weft_checkpoint_get_path (self->checkpoint), NULL, error);
}

/* Takes back what the config says is fused, as far as the checkpoint holds it. */
static gboolean
take_back_stored (WeftRevertPlan *self, WeftModuleTree *tree, GError **error)
{
  JsonNode *config = weft_checkpoint_get_config (self->checkpoint);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftReplacementExecutor) fusion = weft_fusion_stages_open_stored (
      tree, config, weft_checkpoint_get_path (self->checkpoint), self->report, &local_error);
  g_autoptr (WeftOpContext) facts = weft_make_published_facts (self->runtime, config);
  g_autoptr (WeftTransformList) inverse = NULL;
  g_autoptr (WeftStage) stage = NULL;
  g_autoptr (GArray) shards = g_array_new (FALSE, FALSE, sizeof (guint));

  if (fusion == NULL && local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (fusion == NULL)
    return TRUE;
  inverse = weft_transform_list_dup_inverse (weft_replacement_executor_get_transforms (fusion),
                                             WEFT_INVERSE_FLAGS_NONE, error);
  stage = inverse != NULL ? weft_stage_run (self->runtime, inverse, facts, error) : NULL;
  if (stage == NULL)
    return FALSE;
  if (stage->failures->len > 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "'%s': %s",
                   (const gchar *) stage->failures->pdata[0], (const gchar *) stage->failures->pdata[1]);
      return FALSE;
    }
  for (guint i = 0; i < weft_state_dict_get_n_tensors (stage->outputs); i++)
    g_array_append_val (shards,
                        g_array_index (self->runtime_shards, guint, weft_stage_get_origin (stage, i)));
  g_set_object (&self->runtime, stage->outputs);
  g_array_unref (self->runtime_shards);
  self->runtime_shards = g_steal_pointer (&shards);
  return TRUE;
}

static WeftTransformList *
find_rules_of_model (WeftRevertPlan *self, WeftMappingRegistry *registry, WeftModuleTree *tree,
                     GError **error)
{
  if (tree == NULL)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_MISSING,
          "%s has neither a record (%s) nor a config.json that names a model; name the mapping with --model-type or --mapping",
          weft_checkpoint_get_path (self->checkpoint), WEFT_PROVENANCE_FILE_NAME);
      return NULL;
    }
  return weft_mapping_assemble (registry, tree, weft_load_options_get_key_mapping (self->options), FALSE,
                                error);
}

/* The rules for the way back: without those for old names, and without changes of prefix. */
static WeftTransformList *
find_inverse (WeftRevertPlan *self, WeftModuleTree *tree, GError **error)
{
  gboolean has_mapping = weft_load_options_get_mapping (self->options) != NULL
                         || weft_load_options_get_model_type (self->options) != NULL;
  g_autoptr (WeftMappingRegistry) registry = weft_caller_find_registry (self->options, error);
  g_autoptr (WeftTransformList) list = NULL;

  if (registry == NULL)
    return NULL;
  if (weft_load_options_get_transforms (self->options) != NULL)
    list = weft_transform_list_copy (weft_load_options_get_transforms (self->options), error);
  else
    list = has_mapping ? weft_caller_rules_assemble (self->options, registry, FALSE, error)
                       : find_rules_of_model (self, registry, tree, error);
  return list != NULL ? weft_transform_list_dup_inverse (list, WEFT_INVERSE_FLAGS_NO_PREFIX_CHANGE, error)
                      : NULL;
}

/* Keys that met one inverse converter, in the order of the first of each. */
typedef struct
{
  WeftConversion *conversion;
  guint first;
} Bucket;

static void
bucket_free (gpointer user_data)
{
  Bucket *bucket = user_data;

  weft_conversion_free (bucket->conversion);
  g_free (bucket);
}

static gboolean
add_outputs (WeftRevertPlan *self, Bucket *bucket, WeftConversion *conversion, WeftTransformList *inverse,
             GError **error)
{
  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (conversion->outputs, WeftConversionOutput, i);
      g_autofree gchar *name = conversion->converter != NULL
                                   ? weft_transform_list_rename_output (inverse, output->name, error)
                                   : g_strdup (output->name);

      if (name == NULL || !add_output (self, name, output->tensor, bucket->first, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
carry_bucket (WeftRevertPlan *self, Bucket *bucket, WeftTransformList *inverse, WeftOpContext *facts,
              GError **error)
{
  g_autoptr (GPtrArray) carried = weft_carry (self->packed, bucket->conversion, facts, FALSE, error);

  if (carried == NULL)
    {
      g_prefix_error (error, "'%s': ", bucket->conversion->layer);
      return FALSE;
    }
  for (guint i = 0; i < carried->len; i++)
    if (!add_outputs (self, bucket, carried->pdata[i], inverse, error))
      return FALSE;
  return TRUE;
}

static gboolean
run_bucket (WeftRevertPlan *self, Bucket *bucket, WeftTransformList *inverse, WeftOpContext *facts,
            GError **error)
{
  WeftConversion *conversion = bucket->conversion;

  if (self->packed != NULL && weft_carry_is_needed (self->packed, conversion))
    return carry_bucket (self, bucket, inverse, facts, error);
  if (!weft_conversion_run (conversion, self->runtime, WEFT_DTYPE_INVALID, facts, error))
    {
      g_prefix_error (error, "'%s': ", conversion->layer);
      return FALSE;
    }
  return add_outputs (self, bucket, conversion, inverse, error);
}

static gboolean
collect_key (WeftRevertPlan *self, WeftTransformList *inverse, guint position, GPtrArray *buckets,
             GHashTable *by_name, GError **error)
{
  const gchar *key = weft_state_dict_get_name (self->runtime, position);
  g_autoptr (WeftRenamedKey) renamed = weft_transform_list_rename_key (inverse, key, NULL, NULL, error);
  gint rule = renamed != NULL ? weft_renamed_key_get_converter (renamed) : -1;
  const gchar *name = renamed != NULL ? weft_renamed_key_get_name (renamed) : NULL;
  Bucket *bucket = name != NULL ? g_hash_table_lookup (by_name, name) : NULL;

  if (renamed == NULL)
    return FALSE;
  if (bucket != NULL && (rule < 0 || bucket->conversion->rule != rule))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "two runtime tensors go back to '%s', one of them '%s'", name, key);
      return FALSE;
    }
  if (bucket == NULL)
    {
      WeftConversion *conversion = weft_conversion_new_for_key (renamed, inverse, error);

      if (conversion == NULL)
        return FALSE;
      bucket = g_new0 (Bucket, 1);
      bucket->first = position;
      bucket->conversion = conversion;
      g_ptr_array_add (buckets, bucket);
      g_hash_table_insert (by_name, conversion->layer, bucket);
    }
  weft_conversion_collect (bucket->conversion, renamed, position);
  return TRUE;
}

static void
take_fingerprint_of_rules (WeftRevertPlan *self, WeftTransformList *rules)
{
  g_autoptr (JsonNode) root = weft_mapping_to_json (rules);
  g_autofree gchar *text = weft_json_to_text (root, FALSE);

  self->fingerprint = g_compute_checksum_for_string (G_CHECKSUM_SHA256, text, -1);
}

static gboolean
revert_by_mapping (WeftRevertPlan *self, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftModuleTree) tree = find_tree (self, &local_error);
  g_autoptr (WeftTransformList) inverse = NULL;
  g_autoptr (WeftOpContext) facts = NULL;
  g_autoptr (GPtrArray) buckets = g_ptr_array_new_with_free_func (bucket_free);
  g_autoptr (GHashTable) by_name = g_hash_table_new (g_str_hash, g_str_equal);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (!take_back_stored (self, tree, error) || !find_packed (self, FALSE, error))
    return FALSE;
  inverse = find_inverse (self, tree, error);
  if (inverse == NULL)
    return FALSE;
  facts = weft_make_published_facts (self->runtime, weft_checkpoint_get_config (self->checkpoint));
  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->runtime); i++)
    if (!collect_key (self, inverse, i, buckets, by_name, error))
      return FALSE;
  take_fingerprint_of_rules (self, inverse);
  if (!weft_caller_rules_check_used (self->options, inverse, self->checkpoint, "published", error))
    return FALSE;
  for (guint i = 0; i < buckets->len; i++)
    if (!run_bucket (self, buckets->pdata[i], inverse, facts, error))
      return FALSE;
  weft_load_report_add (
      self->report, WEFT_FINDING_NOTE, "no record",
      "names follow the model's mapping; old names and prefixes that were changed while loading do not come back");
  return TRUE;
}

/* A record says by which rules the way back goes: rules of the caller would be ignored, and are refused. */
static gboolean
refuse_rules_beside_record (WeftRevertPlan *self, GError **error)
{
  gboolean has_key_mapping =
      weft_transform_list_get_n_transforms (weft_load_options_get_key_mapping (self->options)) > 0;

  if (!has_key_mapping && weft_load_options_get_transforms (self->options) == NULL
      && weft_load_options_get_mapping (self->options) == NULL
      && weft_load_options_get_model_type (self->options) == NULL)
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
      "%s has a record (%s) that says how it was converted, and a mapping was given beside it; leave the mapping "
      "out, or go by it alone (--no-provenance)",
      weft_checkpoint_get_path (self->checkpoint), WEFT_PROVENANCE_FILE_NAME);
  return FALSE;
}

/**
 * weft_revert_plan_new:
 * @checkpoint: a runtime checkpoint
 * @options: (nullable): mapping, registry and module tree to use when there is no record; a mapping beside one is refused
 * @flags: how to go back
 * @error: return location
 *
 * Compiles the way back, from headers alone. Values that were edited keep their edits.
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_NOT_REVERSIBLE if a conversion has no exact inverse, %WEFT_ERROR_MISSING if a tensor of the record is
 *   gone, %WEFT_ERROR_FORMAT if the record is malformed, %WEFT_ERROR_ARGUMENT if it is there and a mapping is given
 * Since: 1.0
 */
WeftRevertPlan *
weft_revert_plan_new (WeftCheckpoint *checkpoint, WeftLoadOptions *options, WeftRevertFlags flags,
                      GError **error)
{
  g_autoptr (WeftRevertPlan) self = g_object_new (WEFT_TYPE_REVERT_PLAN, NULL);
  gboolean is_by_mapping = (flags & WEFT_REVERT_FLAGS_IGNORE_PROVENANCE) != 0;
  g_autofree gchar *path = !is_by_mapping ? weft_provenance_find (checkpoint) : NULL;

  self->checkpoint = g_object_ref (checkpoint);
  self->options = options != NULL ? g_object_ref (options) : weft_load_options_new ();
  self->flags = flags;
  start_from_checkpoint (self);
  if (path != NULL)
    {
      if (!refuse_rules_beside_record (self, error))
        return NULL;
      self->provenance = weft_provenance_load (path, error);
      if (self->provenance == NULL || !revert_by_record (self, error))
        return NULL;
      self->fingerprint = g_strdup (self->provenance->checksum);
    }
  else if (!revert_by_mapping (self, error))
    return NULL;
  weft_note_left_files (self->report, checkpoint);
  return g_steal_pointer (&self);
}

static GPtrArray *
collect_metadata (WeftCheckpoint *checkpoint)
{
  GPtrArray *metadata = g_ptr_array_new ();

  for (guint i = 0; i < weft_checkpoint_get_n_shards (checkpoint); i++)
    g_ptr_array_add (metadata, weft_shard_get_metadata (weft_checkpoint_get_shard (checkpoint, i)));
  return metadata;
}

const WeftProvenance *
weft_revert_plan_get_provenance (WeftRevertPlan *self)
{
  return self->provenance;
}

gboolean
weft_revert_plan_is_complete (WeftRevertPlan *self)
{
  return self->provenance != NULL && !self->provenance->is_dequantized && !self->provenance->is_quantized
         && self->n_added == 0 && count_left_out (self) == 0;
}

/* By the record, byte for byte; or, if tensors were added or left out or nothing is recorded, by the shards of the runtime. */
WeftShardLayout *
weft_revert_plan_lay_out (WeftRevertPlan *self, GError **error)
{
  g_autoptr (GPtrArray) metadata = NULL;

  if (weft_revert_plan_is_complete (self))
    return weft_shard_layout_new_verbatim (self->outputs, (const gchar *const *) self->provenance->file_names,
                                           self->provenance->headers, self->provenance->index_name,
                                           self->provenance->index, error);
  metadata = collect_metadata (self->checkpoint);
  return weft_shard_layout_new_assigned (self->outputs, (const guint *) (gpointer) self->shards->data,
                                         self->shards->len, metadata,
                                         weft_checkpoint_get_index_metadata (self->checkpoint), error);
}

/* Files beside the weights that were written in another form. */
static gboolean
restore_replaced_files (WeftRevertPlan *self, WeftSafetensorsSink *sink, GError **error)
{
  GHashTableIter iter;
  gpointer name, content;

  if (self->provenance == NULL || weft_safetensors_sink_is_single_file (sink))
    return TRUE;
  g_hash_table_iter_init (&iter, self->provenance->replaced_files);
  while (g_hash_table_iter_next (&iter, &name, &content))
    if (!weft_safetensors_sink_add_text (sink, name, content, error))
      return FALSE;
  return TRUE;
}

/* What was converted was itself the output of a conversion: it gets its record back. */
static gboolean
restore_previous (WeftRevertPlan *self, WeftSafetensorsSink *sink, GError **error)
{
  g_autoptr (GBytes) text = NULL;

  if (self->provenance == NULL || self->provenance->previous == NULL
      || weft_safetensors_sink_is_single_file (sink))
    return TRUE;
  text = g_bytes_new (self->provenance->previous, strlen (self->provenance->previous));
  return weft_safetensors_sink_add_text (sink, WEFT_PROVENANCE_FILE_NAME, text, error);
}

static gchar *
clean_recorded_config (WeftRevertPlan *self, const gchar *path, GError **error)
{
  GBytes *recorded = g_hash_table_lookup (self->provenance->replaced_files, "config.json");
  g_autofree gchar *text =
      recorded != NULL ? g_strndup (g_bytes_get_data (recorded, NULL), g_bytes_get_size (recorded)) : NULL;

  return text != NULL ? weft_quantize_stage_clean_config (text, path, error) : NULL;
}

/* The config as it was published, where no record has it, or, of weights that come back dense, says that they are packed. */
static gboolean
restore_config (WeftRevertPlan *self, WeftSafetensorsSink *sink, GError **error)
{
  JsonNode *config = weft_checkpoint_get_config (self->checkpoint);
  const gchar *folder = weft_checkpoint_get_folder (self->checkpoint);
  g_autofree gchar *path = g_build_filename (folder != NULL ? folder : "", "config.json", NULL);
  g_autofree gchar *text = NULL;
  g_autofree gchar *clean = NULL;
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (GError) local_error = NULL;

  if (weft_safetensors_sink_is_single_file (sink) || folder == NULL)
    return TRUE;
  if (self->provenance != NULL && self->provenance->is_dequantized)
    clean = clean_recorded_config (self, path, &local_error);
  else if (self->provenance == NULL && config != NULL && g_file_get_contents (path, &text, NULL, NULL))
    clean = weft_fusion_stages_clean_config (config, text, path, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (clean == NULL)
    return TRUE;
  bytes = g_bytes_new (clean, strlen (clean));
  return weft_safetensors_sink_add_text (sink, "config.json", bytes, error);
}

/**
 * weft_revert_plan_execute:
 * @self: a plan
 * @sink: where the published tensors go
 * @progress: (nullable) (scope call): called as bytes arrive
 * @user_data: data of @progress
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Returns: whether all outputs are in place
 * Errors: those of the sink and of reading
 * Since: 1.0
 */
gboolean
weft_revert_plan_execute (WeftRevertPlan *self, WeftSink *sink, WeftProgressFunc progress, gpointer user_data,
                          GCancellable *cancellable, GError **error)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads (),
                                  .progress = progress,
                                  .progress_data = user_data };

  return weft_revert_plan_execute_full (self, sink, &options, NULL, cancellable, error);
}

/**
 * weft_revert_plan_execute_full: (skip)
 * @self: a plan
 * @sink: where the published tensors go
 * @options: threads, tiles, progress
 * @counters: (nullable): added to
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * As weft_revert_plan_execute().
 *
 * Returns: whether all outputs are in place
 * Errors: as weft_revert_plan_execute()
 * Since: 1.0
 */
gboolean
weft_revert_plan_execute_full (WeftRevertPlan *self, WeftSink *sink, const WeftTransferOptions *options,
                               WeftTransferCounters *counters, GCancellable *cancellable, GError **error)
{
  if (WEFT_IS_SAFETENSORS_SINK (sink))
    {
      g_autoptr (WeftShardLayout) layout = NULL;

      if (!weft_safetensors_sink_set_source (WEFT_SAFETENSORS_SINK (sink), self->checkpoint, error))
        return FALSE;
      layout = weft_revert_plan_lay_out (self, error);
      if (layout == NULL)
        return FALSE;
      weft_safetensors_sink_set_layout (WEFT_SAFETENSORS_SINK (sink), layout);
      weft_safetensors_sink_set_fingerprint (WEFT_SAFETENSORS_SINK (sink), self->fingerprint);
      if (!restore_replaced_files (self, WEFT_SAFETENSORS_SINK (sink), error)
          || !restore_previous (self, WEFT_SAFETENSORS_SINK (sink), error)
          || !restore_config (self, WEFT_SAFETENSORS_SINK (sink), error))
        return FALSE;
    }
  return weft_sink_write (sink, self->outputs, options, counters, cancellable, error);
}

/**
 * weft_revert_plan_get_outputs:
 * @self: a plan
 *
 * Returns: (transfer none): the published tensors, lazy
 * Since: 1.0
 */
WeftStateDict *
weft_revert_plan_get_outputs (WeftRevertPlan *self)
{
  return self->outputs;
}

/**
 * weft_revert_plan_has_provenance:
 * @self: a plan
 *
 * Returns: whether it goes by a record
 * Since: 1.0
 */
gboolean
weft_revert_plan_has_provenance (WeftRevertPlan *self)
{
  return self->provenance != NULL;
}

/**
 * weft_revert_plan_get_report:
 * @self: a plan
 *
 * Returns: (transfer none): what is worth knowing about it
 * Since: 1.0
 */
WeftLoadReport *
weft_revert_plan_get_report (WeftRevertPlan *self)
{
  return self->report;
}

/**
 * weft_revert_plan_compare_hashes:
 * @self: a plan that was executed
 * @folder: (type filename): where its files are
 * @n_equal: (out): files whose hash is the one that was recorded for the published file
 * @n_different: (out): files whose hash is another one, as after an edit; they are in the report
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Reads the reverted files and compares their hashes with those of the record. Files that were converted without
 * `--hash` have none, and are not counted.
 *
 * Returns: whether all files could be read
 * Errors: %WEFT_ERROR_IO if one could not
 * Since: 1.0
 */
gboolean
weft_revert_plan_compare_hashes (WeftRevertPlan *self, const gchar *folder, guint *n_equal,
                                 guint *n_different, GCancellable *cancellable, GError **error)
{
  *n_equal = *n_different = 0;
  for (guint i = 0; self->provenance != NULL && i < self->provenance->hashes->len; i++)
    {
      const gchar *name = self->provenance->file_names[i];
      const gchar *recorded = self->provenance->hashes->pdata[i];
      g_autofree gchar *path = g_build_filename (folder, name, NULL);
      g_autoptr (WeftFile) file = NULL;
      g_autofree gchar *found = NULL;

      if (recorded == NULL)
        continue;
      file = weft_file_open (path, WEFT_IO_BACKEND_PREAD, error);
      found = file != NULL ? weft_provenance_hash_file (file, cancellable, error) : NULL;
      if (found == NULL)
        return FALSE;
      if (strcmp (found, recorded) == 0)
        (*n_equal)++;
      else
        {
          g_autofree gchar *detail =
              g_strdup_printf ("the published file had hash %s, this one has %s", recorded, found);

          (*n_different)++;
          weft_load_report_add (self->report, WEFT_FINDING_NOTE, name, detail);
        }
    }
  return TRUE;
}
