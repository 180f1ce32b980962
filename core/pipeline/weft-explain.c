/* SPDX-License-Identifier: Apache-2.0 */
/* Views of a plan as JSON: the whole, and the history of one key. */
#include "pipeline/weft-slice-stage-private.h"

#include <string.h>

#include "mapping/weft-mapping.h"
#include "transform/weft-conversion-ops.h"
#include "transform/weft-rule-trial.h"
#include "transform/weft-stage-internal.h"

static void
add_member_string (JsonBuilder *builder, const gchar *name, const gchar *value)
{
  json_builder_set_member_name (builder, name);
  if (value != NULL)
    json_builder_add_string_value (builder, value);
  else
    json_builder_add_null_value (builder);
}

static void
add_member_int (JsonBuilder *builder, const gchar *name, gint64 value)
{
  json_builder_set_member_name (builder, name);
  json_builder_add_int_value (builder, value);
}

static void
add_tensor (JsonBuilder *builder, WeftTensor *tensor)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);

  add_member_string (builder, "dtype", weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
  json_builder_set_member_name (builder, "shape");
  json_builder_begin_array (builder);
  for (guint i = 0; i < shape->rank; i++)
    json_builder_add_int_value (builder, shape->dims[i]);
  json_builder_end_array (builder);
  add_member_int (builder, "bytes", (gint64) weft_tensor_get_n_bytes (tensor));
}

/* Where a stored tensor lies: file and offset from the start of the file. @scheme: (nullable): what it is a part of. */
static void
add_stored (JsonBuilder *builder, WeftLoadPlan *self, guint position, const gchar *scheme, const gchar *role)
{
  WeftStateDict *stored = weft_checkpoint_get_state_dict (self->checkpoint);
  WeftTensor *tensor = weft_state_dict_get_tensor (stored, position);
  WeftShard *shard = weft_checkpoint_get_shard (
      self->checkpoint, weft_checkpoint_get_tensor_shard (self->checkpoint, position));

  json_builder_begin_object (builder);
  add_member_string (builder, "key", weft_state_dict_get_name (stored, position));
  add_tensor (builder, tensor);
  add_member_string (builder, "file", weft_shard_get_file_name (shard));
  for (guint i = 0; i < weft_shard_get_n_tensors (shard); i++)
    if (weft_shard_get_tensor (shard, i) == tensor)
      add_member_int (builder, "offset", (gint64) weft_shard_get_tensor_offset (shard, i));
  if (scheme != NULL)
    {
      add_member_string (builder, "scheme", scheme);
      add_member_string (builder, "role", role);
    }
  json_builder_end_object (builder);
}

/* What a conversion takes: a stored tensor, or each part of a packed weight that is dequantized. */
static void
add_source (JsonBuilder *builder, WeftLoadPlan *self, guint position)
{
  gboolean is_dequantized = weft_load_plan_is_dequantized (self);
  WeftPackedWeight *weight = is_dequantized ? weft_packed_weights_get_weight (self->packed, position) : NULL;

  for (guint i = 0; weight != NULL && i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);
      guint stored;

      if (weft_packed_weight_get_position (weight, role, &stored))
        add_stored (builder, self, stored, weft_packed_weight_get_scheme (weight), role);
    }
  if (weight == NULL)
    add_stored (builder, self,
                is_dequantized ? weft_packed_weights_get_stored_position (self->packed, position) : position,
                NULL, NULL);
}

static void
add_operations (JsonBuilder *builder, WeftConversion *conversion)
{
  GPtrArray *ops =
      conversion->converter != NULL ? weft_weight_converter_get_operations (conversion->converter) : NULL;

  json_builder_set_member_name (builder, "operations");
  json_builder_begin_array (builder);
  for (guint i = 0; ops != NULL && i < ops->len; i++)
    {
      JsonNode *node = json_node_new (JSON_NODE_OBJECT);

      json_node_take_object (node, weft_op_to_json (ops->pdata[i]));
      json_builder_add_value (builder, node);
    }
  json_builder_end_array (builder);
}

static const gchar *
get_proof_name (const WeftConversion *conversion)
{
  static const gchar *const names[] = { "exact", "if dropped elements are zero", "no" };

  return names[conversion->proof];
}

static void
add_rule (JsonBuilder *builder, WeftTransformList *rules, const WeftConversion *conversion)
{
  g_autofree gchar *rule = conversion->rule >= 0 ? weft_weight_transform_describe (
                               weft_transform_list_get_transform (rules, (guint) conversion->rule))
                                                 : NULL;

  add_member_string (builder, "rule", rule);
}

static void
collect_conversion (const WeftConversion *conversion, GArray *positions)
{
  for (guint i = 0; i < conversion->sources->len; i++)
    g_array_append_val (positions, g_array_index (conversion->sources, WeftConversionSource, i).position);
}

/* The published tensors that a tensor behind stage @level is made of. */
static void
collect_sources (WeftLoadPlan *self, guint level, guint position, GArray *positions)
{
  WeftStage *stage = level > 0 ? self->stages->pdata[level - 1] : NULL;
  const WeftConversion *maker = stage != NULL ? stage->makers->pdata[position] : NULL;

  if (stage == NULL)
    collect_conversion (self->runtime_conversions->pdata[position], positions);
  else if (maker == NULL)
    collect_sources (self, level - 1, weft_stage_get_origin (stage, position), positions);
  else
    for (guint i = 0; i < maker->sources->len; i++)
      collect_sources (self, level - 1, g_array_index (maker->sources, WeftConversionSource, i).position,
                       positions);
}

/* Where an output stands in what the last stage made; FALSE: there is no stage, or it was packed after it. */
static gboolean
find_stage_position (WeftLoadPlan *self, guint output, guint *position)
{
  WeftStage *stage = self->stages->len > 0 ? self->stages->pdata[self->stages->len - 1] : NULL;

  return stage != NULL
         && weft_state_dict_find (stage->outputs, weft_state_dict_get_name (self->outputs, output), position);
}

static GArray *
list_sources (WeftLoadPlan *self, guint output)
{
  GArray *positions = g_array_new (FALSE, FALSE, sizeof (guint));
  guint position;

  if (find_stage_position (self, output, &position))
    collect_sources (self, self->stages->len, position, positions);
  else
    collect_conversion (self->output_conversions->pdata[output], positions);
  return positions;
}

/* One step of a stage: its rule and ops, and the names that it takes from. */
static void
add_stage (JsonBuilder *builder, WeftStage *stage, WeftConversion *maker)
{
  json_builder_begin_object (builder);
  add_rule (builder, stage->rules, maker);
  add_operations (builder, maker);
  json_builder_set_member_name (builder, "sources");
  json_builder_begin_array (builder);
  for (guint i = 0; i < maker->sources->len; i++)
    json_builder_add_string_value (
        builder, weft_state_dict_get_name (stage->inputs,
                                           g_array_index (maker->sources, WeftConversionSource, i).position));
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "outputs");
  json_builder_begin_array (builder);
  for (guint i = 0; i < maker->outputs->len; i++)
    json_builder_add_string_value (builder, g_array_index (maker->outputs, WeftConversionOutput, i).name);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
}

/* The stages between the conversion and an output, last one first, along the first source of each. */
static void
add_stages (JsonBuilder *builder, WeftLoadPlan *self, guint output)
{
  guint level = self->stages->len, position;

  json_builder_set_member_name (builder, "stages");
  json_builder_begin_array (builder);
  for (level = find_stage_position (self, output, &position) ? level : 0; level > 0; level--)
    {
      WeftStage *stage = self->stages->pdata[level - 1];

      if (stage->makers->pdata[position] != NULL)
        add_stage (builder, stage, stage->makers->pdata[position]);
      position = weft_stage_get_origin (stage, position);
    }
  json_builder_end_array (builder);
}

/* @sources: (nullable): positions of the published tensors, if they are more than those of the conversion. */
static void
add_conversion (JsonBuilder *builder, WeftLoadPlan *self, WeftConversion *conversion, GArray *sources,
                gboolean with_sources)
{
  g_autoptr (GArray) own = g_array_new (FALSE, FALSE, sizeof (guint));
  GArray *positions = sources != NULL ? sources : own;

  if (sources == NULL)
    collect_conversion (conversion, own);
  add_rule (builder, self->transforms, conversion);
  add_operations (builder, conversion);
  add_member_string (builder, "reversible", get_proof_name (conversion));
  if (conversion->proof_reason != NULL)
    add_member_string (builder, "reason", conversion->proof_reason);
  json_builder_set_member_name (builder, "sources");
  json_builder_begin_array (builder);
  for (guint i = 0; i < positions->len; i++)
    {
      guint position = g_array_index (positions, guint, i);

      if (with_sources)
        add_source (builder, self, position);
      else
        json_builder_add_string_value (builder, weft_state_dict_get_name (self->published, position));
    }
  json_builder_end_array (builder);
}

/* The assembled list: of each rule where it comes from, and whether a key met it. */
static void
add_rules (JsonBuilder *builder, WeftLoadPlan *self)
{
  json_builder_set_member_name (builder, "rules");
  json_builder_begin_array (builder);
  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->transforms); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (self->transforms, i);

      json_builder_begin_object (builder);
      add_member_string (builder, "origin", weft_weight_transform_get_origin (rule));
      add_member_int (builder, "index", weft_weight_transform_get_origin_index (rule));
      add_member_string (builder, "kind", weft_weight_transform_get_kind (rule));
      add_member_string (builder, "scope_prefix", weft_weight_transform_get_scope_prefix (rule));
      json_builder_set_member_name (builder, "used");
      json_builder_add_boolean_value (builder, weft_weight_transform_get_used (rule));
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

/**
 * weft_load_plan_to_json:
 * @self: a plan
 *
 * Returns: (transfer full): an object with `reversible`, `open`, `bytes`, `outputs` (name, dtype, shape, bytes, rule, operations,
 *   sources of each, and with fusions `stages`, last one first), `rules` (origin, index, kind, scope_prefix, used) and `report`
 * Since: 1.0
 */
JsonNode *
weft_load_plan_to_json (WeftLoadPlan *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  guint64 n_bytes = 0;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "reversible");
  json_builder_add_boolean_value (builder, weft_load_plan_is_reversible (self));
  json_builder_set_member_name (builder, "open");
  json_builder_add_boolean_value (builder, weft_load_plan_is_open (self));
  json_builder_set_member_name (builder, "outputs");
  json_builder_begin_array (builder);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->outputs); i++)
    {
      WeftTensor *tensor = weft_state_dict_get_tensor (self->outputs, i);
      g_autoptr (GArray) sources = list_sources (self, i);

      n_bytes += weft_tensor_get_n_bytes (tensor);
      json_builder_begin_object (builder);
      add_member_string (builder, "name", weft_state_dict_get_name (self->outputs, i));
      add_tensor (builder, tensor);
      add_member_int (builder, "pieces", weft_tensor_get_n_pieces (tensor));
      add_conversion (builder, self, self->output_conversions->pdata[i], sources, FALSE);
      if (self->stages->len > 0)
        add_stages (builder, self, i);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  add_member_int (builder, "bytes", (gint64) n_bytes);
  add_rules (builder, self);
  json_builder_set_member_name (builder, "report");
  json_builder_add_value (builder, weft_load_report_to_json (self->report));
  if (self->sharding != NULL)
    {
      json_builder_set_member_name (builder, "parallel");
      json_builder_add_value (builder, weft_slice_stage_to_json (self));
    }
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

static void
append_ops (GString *text, const WeftConversion *conversion, gboolean *has_ops)
{
  GPtrArray *ops =
      conversion->converter != NULL ? weft_weight_converter_get_operations (conversion->converter) : NULL;

  for (guint i = 0; ops != NULL && i < ops->len; i++)
    {
      g_string_append_printf (text, "%s%s", *has_ops ? ", " : " by ",
                              weft_conversion_ops_get_name (ops->pdata[i]));
      *has_ops = TRUE;
    }
}

/**
 * weft_load_plan_describe_output:
 * @self: a plan
 * @position: position of an output
 *
 * Returns: (transfer full): what it is made of, for a person: a name, or a number of tensors and the ops
 * Since: 1.0
 */
gchar *
weft_load_plan_describe_output (WeftLoadPlan *self, guint position)
{
  WeftStateDict *published = self->published;
  g_autoptr (GArray) sources = list_sources (self, position);
  GString *text = g_string_new (weft_state_dict_get_name (published, g_array_index (sources, guint, 0)));
  g_autoptr (GPtrArray) makers = g_ptr_array_new ();
  gboolean has_ops = FALSE;
  guint at, level = find_stage_position (self, position, &at) ? self->stages->len : 0;

  if (sources->len > 1)
    g_string_append_printf (text, " and %u more", sources->len - 1);
  for (; level > 0; level--)
    {
      WeftStage *stage = self->stages->pdata[level - 1];

      if (stage->makers->pdata[at] != NULL)
        g_ptr_array_add (makers, stage->makers->pdata[at]);
      at = weft_stage_get_origin (stage, at);
    }
  append_ops (text, self->output_conversions->pdata[position], &has_ops);
  for (guint i = makers->len; i > 0; i--)
    append_ops (text, makers->pdata[i - 1], &has_ops);
  return g_string_free (text, FALSE);
}

static const gchar *
get_outcome_name (WeftTrialOutcome outcome)
{
  static const gchar *const names[] = { "matched", "no match", "out of scope", "waiting for its guard",
                                        "not tried: a converter has matched" };

  return names[outcome];
}

static gboolean
add_trials (JsonBuilder *builder, WeftLoadPlan *self, const gchar *key, GError **error)
{
  g_autoptr (GPtrArray) trials = weft_transform_list_explain_key (self->transforms, key, error);

  if (trials == NULL)
    return FALSE;
  json_builder_set_member_name (builder, "rules");
  json_builder_begin_array (builder);
  for (guint i = 0; i < trials->len; i++)
    {
      const WeftRuleTrial *trial = trials->pdata[i];
      WeftWeightTransform *transform = weft_transform_list_get_transform (self->transforms, trial->transform);
      g_autofree gchar *rule = weft_weight_transform_describe (transform);

      json_builder_begin_object (builder);
      add_member_string (builder, "rule", rule);
      add_member_string (builder, "kind", weft_weight_transform_get_kind (transform));
      add_member_string (builder, "scope", weft_weight_transform_get_scope_prefix (transform));
      add_member_string (builder, "outcome", get_outcome_name (trial->outcome));
      if (trial->after != NULL)
        {
          add_member_string (builder, "before", trial->before);
          add_member_string (builder, "after", trial->after);
          add_member_string (builder, "source_pattern", trial->source_pattern);
        }
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
  return TRUE;
}

/* The dense name of a packed weight that the stored tensor @key is a part of; NULL if rules meet it under its own name. */
static gchar *
find_dense_name (WeftLoadPlan *self, const gchar *key)
{
  WeftStateDict *stored = weft_checkpoint_get_state_dict (self->checkpoint);

  return weft_load_plan_is_dequantized (self) && weft_state_dict_find (stored, key, NULL)
                 && !weft_state_dict_find (self->published, key, NULL)
             ? weft_quantizer_find_part (weft_packed_weights_get_quantizer (self->packed), key, NULL)
             : NULL;
}

static WeftConversion *
find_conversion (WeftLoadPlan *self, const gchar *key, gboolean *is_source)
{
  WeftStateDict *published = self->published;
  guint position;

  *is_source = weft_state_dict_find (published, key, &position);
  for (guint i = 0; *is_source && i < self->conversions->len; i++)
    {
      WeftConversion *conversion = self->conversions->pdata[i];

      for (guint j = 0; j < conversion->sources->len; j++)
        if (g_array_index (conversion->sources, WeftConversionSource, j).position == position)
          return conversion;
    }
  if (!*is_source && weft_state_dict_find (self->outputs, key, &position))
    return self->output_conversions->pdata[position];
  return g_hash_table_lookup (self->layers, key);
}

static void
add_outputs (JsonBuilder *builder, const WeftConversion *conversion)
{
  json_builder_set_member_name (builder, "outputs");
  json_builder_begin_array (builder);
  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (conversion->outputs, WeftConversionOutput, i);

      json_builder_begin_object (builder);
      add_member_string (builder, "name", output->name);
      add_tensor (builder, output->tensor);
      json_builder_end_object (builder);
    }
  json_builder_end_array (builder);
}

static gboolean
is_output (const WeftConversion *conversion, const gchar *name)
{
  for (guint i = 0; i < conversion->outputs->len; i++)
    if (strcmp (g_array_index (conversion->outputs, WeftConversionOutput, i).name, name) == 0)
      return TRUE;
  return FALSE;
}

/* What the outputs of a conversion are packed to in the end. */
static void
add_packed (JsonBuilder *builder, WeftLoadPlan *self, const WeftConversion *conversion)
{
  json_builder_set_member_name (builder, "packed");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->quantized->len; i++)
    {
      WeftPackedWeight *weight = self->quantized->pdata[i];

      for (guint k = 0; is_output (conversion, weft_packed_weight_get_name (weight))
                        && k < weft_packed_weight_get_n_parts (weight);
           k++)
        {
          const gchar *role = weft_packed_weight_get_role (weight, k);

          json_builder_begin_object (builder);
          add_member_string (builder, "name", weft_packed_weight_get_key (weight, role));
          add_tensor (builder, weft_packed_weight_get_tensor (weight, role));
          add_member_string (builder, "scheme", weft_packed_weight_get_scheme (weight));
          add_member_string (builder, "role", role);
          json_builder_end_object (builder);
        }
    }
  json_builder_end_array (builder);
}

static void
add_history (JsonBuilder *builder, WeftLoadPlan *self, const gchar *key, WeftConversion *conversion)
{
  g_autoptr (GArray) sources = NULL;
  guint position;

  add_outputs (builder, conversion);
  if (weft_state_dict_find (self->outputs, key, &position) && self->stages->len > 0)
    sources = list_sources (self, position);
  add_conversion (builder, self, conversion, sources, TRUE);
  if (sources != NULL)
    add_stages (builder, self, position);
  if (self->quantizer != NULL)
    add_packed (builder, self, conversion);
}

/**
 * weft_load_plan_explain:
 * @self: a plan
 * @key: a name of the published checkpoint or of the runtime
 * @error: return location
 *
 * Returns: (transfer full): an object: `key`, `is_source`, `rules` (each rule tried on the published key, and what came of
 *   it), and of its conversion `operations`, `outputs`, `sources` with file and offset, and where weights are quantized
 *   what the outputs are `packed` to; a part of a packed weight has a `scheme` and a `role`
 * Errors: %WEFT_ERROR_MISSING if neither side has such a name
 * Since: 1.0
 */
JsonNode *
weft_load_plan_explain (WeftLoadPlan *self, const gchar *key, GError **error)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autofree gchar *dense_name = find_dense_name (self, key);
  const gchar *published = dense_name != NULL ? dense_name : key;
  gboolean is_source;
  WeftConversion *conversion = find_conversion (self, published, &is_source);

  if (conversion == NULL && !is_source)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_MISSING,
          "neither the checkpoint nor what is made of it has a tensor '%s'; `weft inspect` and `weft plan` list the names",
          key);
      return NULL;
    }
  if (!is_source)
    published = weft_state_dict_get_name (
        self->published, g_array_index (conversion->sources, WeftConversionSource, 0).position);
  json_builder_begin_object (builder);
  add_member_string (builder, "key", key);
  json_builder_set_member_name (builder, "is_source");
  json_builder_add_boolean_value (builder, is_source);
  add_member_string (builder, "published", published);
  if (!add_trials (builder, self, published, error))
    return NULL;
  if (conversion != NULL)
    add_history (builder, self, key, conversion);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}
