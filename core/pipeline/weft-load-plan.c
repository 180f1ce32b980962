/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-load-plan-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-caller-rules-private.h"
#include "pipeline/weft-carry-private.h"
#include "pipeline/weft-output-private.h"
#include "pipeline/weft-repeated-rename-private.h"

/* How many files a finding names before the rest is counted. */
#define N_NAMED_FILES 6

G_DEFINE_FINAL_TYPE (WeftLoadPlan, weft_load_plan, G_TYPE_OBJECT)

static void
weft_load_plan_finalize (GObject *object)
{
  WeftLoadPlan *self = WEFT_LOAD_PLAN (object);

  g_clear_object (&self->checkpoint);
  g_clear_object (&self->options);
  g_clear_object (&self->packed);
  g_clear_object (&self->published);
  g_clear_object (&self->tree);
  g_clear_pointer (&self->model_keys, g_hash_table_unref);
  g_clear_object (&self->transforms);
  g_clear_pointer (&self->dtype_patterns, g_ptr_array_unref);
  g_clear_pointer (&self->config, json_node_unref);
  g_clear_pointer (&self->layers, g_hash_table_unref);
  g_clear_pointer (&self->left_out, g_hash_table_unref);
  g_clear_pointer (&self->carried_names, g_hash_table_unref);
  g_clear_pointer (&self->output_conversions, g_ptr_array_unref);
  g_clear_pointer (&self->conversions, g_ptr_array_unref);
  g_clear_pointer (&self->carried, g_ptr_array_unref);
  g_clear_object (&self->outputs);
  g_clear_object (&self->report);
  G_OBJECT_CLASS (weft_load_plan_parent_class)->finalize (object);
}

static void
weft_load_plan_class_init (WeftLoadPlanClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_load_plan_finalize;
}

static void
weft_load_plan_init (WeftLoadPlan *self)
{
  self->conversions = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);
  self->carried = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);
  self->output_conversions = g_ptr_array_new ();
  self->dtype_patterns = g_ptr_array_new_with_free_func ((GDestroyNotify) g_regex_unref);
  self->layers = g_hash_table_new (g_str_hash, g_str_equal);
  self->outputs = weft_state_dict_new ();
  self->left_out = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->carried_names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->report = weft_load_report_new ();
}

const gchar *
weft_load_plan_get_base_model_prefix (WeftLoadPlan *self)
{
  return self->tree != NULL ? weft_module_tree_get_base_model_prefix (self->tree) : NULL;
}

/* A pattern of the dtype plan is searched; `*` means any text. */
static gboolean
compile_dtype_plan (WeftLoadPlan *self, GError **error)
{
  guint n = self->tree != NULL ? weft_module_tree_get_n_dtype_rules (self->tree) : 0;

  for (guint i = 0; i < n; i++)
    {
      const gchar *pattern = weft_module_tree_get_dtype_rule_pattern (self->tree, i);
      g_autoptr (GString) expression = g_string_new (pattern);
      g_autoptr (GError) local_error = NULL;
      GRegex *regex;

      g_string_replace (expression, "*", ".*", 0);
      regex = g_regex_new (expression->str, 0, 0, &local_error);
      if (regex == NULL)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "dtype_plan: '%s' is no pattern: %s", pattern,
                       local_error->message);
          return FALSE;
        }
      g_ptr_array_add (self->dtype_patterns, regex);
    }
  return TRUE;
}

/* The model: from the caller, or as much as the config says. */
static gboolean
find_model (WeftLoadPlan *self, GError **error)
{
  JsonNode *config = weft_checkpoint_get_config (self->checkpoint);
  WeftModuleTree *given = weft_load_options_get_module_tree (self->options);

  self->config = config != NULL ? json_node_ref (config) : NULL;
  if (given != NULL)
    self->tree = g_object_ref (given);
  else if (config != NULL
           && (weft_json_lookup (config, "model_type") != NULL
               || weft_json_lookup (config, "architectures") != NULL))
    {
      g_autofree gchar *where =
          g_build_filename (weft_checkpoint_get_path (self->checkpoint), "config.json", NULL);

      self->tree = weft_module_tree_new_from_config (config, where, error);
      if (self->tree == NULL)
        return FALSE;
    }
  if (self->tree != NULL && weft_module_tree_has_tensors (self->tree))
    self->model_keys = g_hash_table_ref (weft_module_tree_get_model_keys (self->tree));
  return compile_dtype_plan (self, error);
}

/* Most models need rules; one that has none may be plain, or unknown. */
static void
note_no_mapping (WeftLoadPlan *self)
{
  const gchar *name = self->tree != NULL ? weft_module_tree_get_model_type (self->tree) : NULL;

  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->transforms); i++)
    if (weft_caller_rules_is_of_model (weft_transform_list_get_transform (self->transforms, i)))
      return;
  weft_load_report_add (
      self->report, WEFT_FINDING_NOTE, name != NULL ? name : "no model type",
      name != NULL ? "there is no mapping for this model type: its tensors keep their names and layout"
                   : "config.json names no model type, so that no mapping applies: tensors keep their "
                     "names and layout (name one with --model-type or --mapping)");
}

static gboolean
find_transforms (WeftLoadPlan *self, GError **error)
{
  WeftMappingRegistry *given = weft_load_options_get_registry (self->options);
  g_autoptr (WeftMappingRegistry) registry =
      given != NULL ? g_object_ref (given) : weft_mapping_registry_new (error);
  g_auto (GStrv) custom = NULL;

  if (registry == NULL)
    return FALSE;
  if (self->tree == NULL || weft_load_options_get_mapping (self->options) != NULL
      || weft_load_options_get_model_type (self->options) != NULL)
    self->transforms = weft_caller_rules_assemble (self->options, registry, TRUE, error);
  else
    {
      self->transforms = weft_mapping_assemble (
          registry, self->tree, weft_load_options_get_key_mapping (self->options), TRUE, error);
      custom = weft_mapping_list_custom_code (registry, self->tree);
    }
  for (guint i = 0; custom != NULL && custom[i] != NULL; i++)
    weft_load_report_add (
        self->report, WEFT_FINDING_NOTE, custom[i],
        "is custom code of the checkpoint; it gets no shipped mapping, and no foreign code is run "
        "(register a mapping under its name to convert it)");
  if (self->transforms == NULL)
    return FALSE;
  note_no_mapping (self);
  return TRUE;
}

/* The tensors whose names meet the rules: a packed weight is one, under its dense name. */
static WeftStateDict *
get_named (WeftLoadPlan *self)
{
  return self->packed != NULL ? weft_packed_weights_get_dense (self->packed) : self->published;
}

static const gchar *
get_key (WeftLoadPlan *self, guint position)
{
  return weft_state_dict_get_name (get_named (self), position);
}

static gchar *
describe_rule (WeftLoadPlan *self, gint rule)
{
  return rule < 0 ? g_strdup ("a renaming")
                  : weft_weight_transform_describe (
                      weft_transform_list_get_transform (self->transforms, (guint) rule));
}

static gboolean
refuse_second_source (WeftLoadPlan *self, WeftConversion *conversion, guint position, gint rule,
                      GError **error)
{
  guint first = g_array_index (conversion->sources, WeftConversionSource, 0).position;
  g_autofree gchar *first_rule = describe_rule (self, conversion->rule);
  g_autofree gchar *second_rule = describe_rule (self, rule);

  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
      "'%s' and '%s' both become '%s' (the first by %s, the second by %s); leave one of them out, or rename it with a key "
      "mapping",
      get_key (self, first), get_key (self, position), conversion->layer, first_rule, second_rule);
  return FALSE;
}

static void
take_conversion (WeftLoadPlan *self, WeftConversion *conversion)
{
  g_ptr_array_add (self->conversions, conversion);
  g_hash_table_insert (self->layers, conversion->layer, conversion);
}

static gboolean
add_plain (WeftLoadPlan *self, const gchar *name, guint position, GError **error)
{
  WeftConversion *conversion = g_hash_table_lookup (self->layers, name);

  if (conversion != NULL)
    return refuse_second_source (self, conversion, position, -1, error);
  conversion = weft_conversion_new (name, NULL, -1);
  weft_conversion_add_source (conversion, position, 0, -1);
  take_conversion (self, conversion);
  return TRUE;
}

/* Files a key under the converter that it met. */
static gboolean
collect (WeftLoadPlan *self, WeftRenamedKey *renamed, guint position, GError **error)
{
  gint rule = weft_renamed_key_get_converter (renamed);
  WeftConversion *conversion = g_hash_table_lookup (self->layers, weft_renamed_key_get_name (renamed));

  if (conversion != NULL && conversion->rule != rule)
    return refuse_second_source (self, conversion, position, rule, error);
  if (conversion == NULL)
    {
      conversion = weft_conversion_new_for_key (renamed, self->transforms, error);
      if (conversion == NULL)
        return FALSE;
      take_conversion (self, conversion);
    }
  weft_conversion_collect (conversion, renamed, position);
  return TRUE;
}

static gboolean
is_ignored (const gchar *const *patterns, const gchar *name)
{
  for (guint i = 0; patterns != NULL && patterns[i] != NULL; i++)
    if (g_regex_match_simple (patterns[i], name, 0, 0))
      return TRUE;
  return FALSE;
}

static gboolean
has_buffer (WeftModuleTree *tree, const gchar *suffix)
{
  for (guint i = 0; i < weft_module_tree_get_n_tensors (tree); i++)
    if (weft_module_tree_is_tensor_buffer (tree, i)
        && g_str_has_suffix (weft_module_tree_get_tensor_name (tree, i), suffix))
      return TRUE;
  return FALSE;
}

/* Tensors that nobody misses: what the model names itself, and buffers that older checkpoints stored. */
static gboolean
may_be_unexpected (WeftLoadPlan *self, const gchar *name)
{
  return is_ignored (weft_module_tree_get_ignore_on_load_unexpected (self->tree), name)
         || (strstr (name, "rotary_emb.inv_freq") != NULL && has_buffer (self->tree, "rotary_emb.inv_freq"))
         || ((strcmp (name, "position_ids") == 0 || g_str_has_suffix (name, ".position_ids"))
             && has_buffer (self->tree, "position_ids"));
}

static gboolean
drops_unexpected (WeftLoadPlan *self)
{
  return (weft_load_options_get_flags (self->options) & WEFT_LOAD_FLAGS_DROP_UNEXPECTED) != 0;
}

static gboolean
add_unexpected (WeftLoadPlan *self, guint position, GError **error)
{
  const gchar *key = get_key (self, position);

  if (!may_be_unexpected (self, key))
    weft_load_report_add (self->report, WEFT_FINDING_UNEXPECTED, key,
                          drops_unexpected (self) ? "left out" : "carried along under its own name");
  if (!drops_unexpected (self))
    return add_plain (self, key, position, error);
  weft_load_report_add (self->report, WEFT_FINDING_NOT_REVERSIBLE, key, "it is left out");
  return TRUE;
}

static gboolean
add_key (WeftLoadPlan *self, guint position, GError **error)
{
  const gchar *key = get_key (self, position);
  g_autoptr (WeftRenamedKey) renamed = weft_transform_list_rename_key (
      self->transforms, key, weft_load_plan_get_base_model_prefix (self), self->model_keys, error);
  const gchar *name;

  if (renamed == NULL)
    return FALSE;
  name = weft_renamed_key_get_name (renamed);
  if (*name == '\0' && *key != '\0')
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "the rules leave nothing of the name '%s'; `weft explain` shows which", key);
      return FALSE;
    }
  if (self->model_keys != NULL && !g_hash_table_contains (self->model_keys, name))
    return add_unexpected (self, position, error);
  self->n_known++;
  if (weft_renamed_key_get_converter (renamed) >= 0)
    return collect (self, renamed, position, error);
  return add_plain (self, name, position, error);
}

/* Whether the mapping that the config led to has rules, none of which matched. */
static gboolean
is_model_unmatched (WeftLoadPlan *self)
{
  gboolean has_rules = FALSE;

  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->transforms); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (self->transforms, i);

      if (!weft_caller_rules_is_of_model (rule))
        continue;
      if (weft_weight_transform_get_used (rule))
        return FALSE;
      has_rules = TRUE;
    }
  return has_rules;
}

static gboolean
check_used (WeftLoadPlan *self, GError **error)
{
  if (!weft_caller_rules_check_used (self->options, self->transforms, self->checkpoint, "runtime", error))
    return FALSE;
  if (self->model_keys == NULL && is_model_unmatched (self))
    weft_load_report_add (
        self->report, WEFT_FINDING_NOTE, "mapping",
        "no rule of the model's mapping matches a tensor: the checkpoint is in its runtime layout already, "
        "or it is not what its config says");
  if (self->model_keys == NULL || self->n_known > 0 || g_hash_table_size (self->model_keys) == 0)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "none of the tensors of %s is one of %s; this config does not describe this checkpoint",
               weft_checkpoint_get_path (self->checkpoint),
               weft_module_tree_get_class (self->tree) != NULL ? weft_module_tree_get_class (self->tree)
                                                               : "the model");
  return FALSE;
}

/* The dtype that the config asks for, or the model's. */
static WeftDtype
find_config_dtype (WeftLoadPlan *self)
{
  static const gchar *const paths[] = { "dtype", "torch_dtype", "text_config.dtype",
                                        "text_config.torch_dtype" };

  for (guint i = 0; self->config != NULL && i < G_N_ELEMENTS (paths); i++)
    {
      JsonNode *node = weft_json_lookup (self->config, paths[i]);

      if (node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING)
        return weft_dtype_from_any_name (json_node_get_string (node));
    }
  return self->tree != NULL ? weft_module_tree_get_dtype (self->tree) : WEFT_DTYPE_INVALID;
}

static WeftDtype
find_planned_dtype (WeftLoadPlan *self, const gchar *name)
{
  for (guint i = 0; i < self->dtype_patterns->len; i++)
    if (g_regex_match (self->dtype_patterns->pdata[i], name, 0, NULL))
      return weft_module_tree_get_dtype_rule_dtype (self->tree, i);
  return WEFT_DTYPE_INVALID;
}

/* What the sources that meet under @name are read as; invalid: as they are stored. */
static WeftDtype
choose_dtype (WeftLoadPlan *self, WeftConversion *conversion)
{
  const gchar *wanted = weft_load_options_get_dtype (self->options);
  gboolean is_auto = strcmp (wanted, "auto") == 0;
  WeftDtype request, planned, parameter;
  guint position;

  if (strcmp (wanted, "keep") == 0)
    return WEFT_DTYPE_INVALID;
  request = is_auto ? find_config_dtype (self) : weft_dtype_from_any_name (wanted);
  if (self->model_keys == NULL || !weft_module_tree_find_tensor (self->tree, conversion->layer, &position))
    {
      guint first = g_array_index (conversion->sources, WeftConversionSource, 0).position;
      WeftTensor *tensor = weft_state_dict_get_tensor (self->published, first);

      /* Nothing is known of the model's own dtypes: `auto` keeps what is stored, integers stay integers. */
      return is_auto || !weft_dtype_is_floating (weft_tensor_get_dtype (tensor)) ? WEFT_DTYPE_INVALID
                                                                                 : request;
    }
  planned = find_planned_dtype (self, conversion->layer);
  if (planned != WEFT_DTYPE_INVALID)
    return planned;
  parameter = weft_module_tree_get_tensor_dtype (self->tree, position);
  if (request == WEFT_DTYPE_INVALID || parameter != weft_module_tree_get_dtype (self->tree))
    return parameter;
  return request;
}

gboolean
weft_load_plan_is_dequantized (WeftLoadPlan *self)
{
  return self->packed != NULL && weft_load_options_get_is_dequantized (self->options);
}

guint
weft_load_plan_get_source_shard (WeftLoadPlan *self, guint position)
{
  if (weft_load_plan_is_dequantized (self))
    position = weft_packed_weights_get_stored_position (self->packed, position);
  return weft_checkpoint_get_tensor_shard (self->checkpoint, position);
}

/* What packed weights are dequantized to. Where the model says what each tensor is, in F32: the cast that follows rounds. */
static WeftDtype
choose_dense_dtype (WeftLoadPlan *self)
{
  const gchar *wanted = weft_load_options_get_dtype (self->options);

  if (strcmp (wanted, "keep") == 0)
    return WEFT_DTYPE_INVALID;
  if (self->model_keys != NULL)
    return WEFT_DTYPE_F32;
  return strcmp (wanted, "auto") == 0 ? find_config_dtype (self) : weft_dtype_from_any_name (wanted);
}

/* What of the checkpoint is packed. */
static gboolean
find_packed (WeftLoadPlan *self, GError **error)
{
  WeftStateDict *stored = weft_checkpoint_get_state_dict (self->checkpoint);
  gboolean is_dequantized = weft_load_options_get_is_dequantized (self->options);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftQuantizer) quantizer = weft_quantizer_new_for_checkpoint (self->checkpoint, &local_error);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  self->published = g_object_ref (stored);
  if (quantizer == NULL)
    return TRUE;
  self->packed = weft_packed_weights_new (quantizer, stored, is_dequantized, error);
  if (self->packed == NULL)
    {
      g_prefix_error (error, "%s: ", weft_checkpoint_get_path (self->checkpoint));
      return FALSE;
    }
  if (!is_dequantized)
    return TRUE;
  g_clear_object (&self->published);
  self->published = weft_packed_weights_dequantize (self->packed, choose_dense_dtype (self), error);
  return self->published != NULL;
}

/* Facts that ops may ask for: the config, and what the model's parameters are. */
static WeftOpContext *
make_model_facts (WeftLoadPlan *self)
{
  static const gchar *const nothing[] = { NULL };
  WeftOpContext *facts = weft_op_context_new (nothing, nothing);

  weft_op_context_set_config (facts, self->config);
  for (guint i = 0; self->model_keys != NULL && i < weft_module_tree_get_n_tensors (self->tree); i++)
    weft_op_context_add_parameter (facts, weft_module_tree_get_tensor_name (self->tree, i),
                                   weft_module_tree_get_tensor_shape (self->tree, i),
                                   weft_module_tree_get_tensor_dtype (self->tree, i));
  return facts;
}

WeftOpContext *
weft_make_published_facts (WeftStateDict *published, JsonNode *config)
{
  static const gchar *const nothing[] = { NULL };
  WeftOpContext *facts = weft_op_context_new (nothing, nothing);

  weft_op_context_set_config (facts, config);
  weft_op_context_set_state_dict (facts, published);
  return facts;
}

/* The sources of an output that is left out do not come back. */
static void
leave_out (WeftLoadPlan *self, WeftConversion *conversion, const gchar *name)
{
  g_autofree gchar *reason = g_strdup_printf ("'%s' is left out", name);

  g_hash_table_add (self->left_out, g_strdup (name));
  weft_conversion_set_lossy (conversion, reason);
  weft_load_report_add (self->report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer, reason);
}

/* A tensor that the model has: whether it is wanted. */
static gboolean
check_expected (WeftLoadPlan *self, const WeftConversionOutput *output, guint position)
{
  const WeftShape *shape = weft_module_tree_get_tensor_shape (self->tree, position);
  g_autofree gchar *found = NULL;
  g_autofree gchar *expected = NULL;
  g_autofree gchar *detail = NULL;

  if (weft_shape_equal (weft_tensor_get_shape (output->tensor), shape))
    return TRUE;
  found = weft_shape_to_string (weft_tensor_get_shape (output->tensor));
  expected = weft_shape_to_string (shape);
  detail = g_strdup_printf ("the checkpoint gives %s, the model has %s", found, expected);
  weft_load_report_add (self->report, WEFT_FINDING_MISMATCHED, output->name, detail);
  return (weft_load_options_get_flags (self->options) & WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES) == 0;
}

/* A tensor that the model lacks: whether it is wanted. Plain ones were found unexpected by their keys. */
static gboolean
check_unexpected (WeftLoadPlan *self, WeftConversion *conversion, const WeftConversionOutput *output)
{
  g_autofree gchar *rule = NULL;
  g_autofree gchar *detail = NULL;

  if (conversion->converter == NULL)
    return TRUE;
  rule = describe_rule (self, conversion->rule);
  detail = g_strdup_printf ("%s makes it; %s", rule, drops_unexpected (self) ? "left out" : "carried along");
  if (!may_be_unexpected (self, output->name))
    weft_load_report_add (self->report, WEFT_FINDING_UNEXPECTED, output->name, detail);
  return !drops_unexpected (self);
}

/* Packed weights are judged by the dense ones that they stand for. */
static void
judge_carried (WeftLoadPlan *self, WeftConversion *dense, GPtrArray *carried)
{
  for (guint i = 0; i < dense->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (dense->outputs, WeftConversionOutput, i);
      gboolean is_wanted = TRUE;
      guint position;

      if (self->model_keys != NULL)
        is_wanted = weft_module_tree_find_tensor (self->tree, output->name, &position)
                        ? check_expected (self, output, position)
                        : check_unexpected (self, dense, output);
      for (guint k = 0; k < carried->len; k++)
        {
          GArray *outputs = ((WeftConversion *) carried->pdata[k])->outputs;

          g_array_index (outputs, WeftConversionOutput, i).is_left_out = !is_wanted;
        }
      g_hash_table_add (self->carried_names, g_strdup (output->name));
    }
}

/* Adds one output, unless it is unexpected or of another shape than the model's and such tensors are to be left out. */
static gboolean
add_output (WeftLoadPlan *self, WeftConversion *conversion, const WeftConversionOutput *output,
            GError **error)
{
  gboolean is_wanted = !output->is_left_out;
  guint position;

  if (self->model_keys != NULL && conversion->carry == WEFT_CARRY_NONE)
    is_wanted = weft_module_tree_find_tensor (self->tree, output->name, &position)
                    ? check_expected (self, output, position)
                    : check_unexpected (self, conversion, output);
  if (!is_wanted)
    {
      leave_out (self, conversion, output->name);
      return TRUE;
    }
  if (!weft_state_dict_add (self->outputs, output->name, output->tensor, error))
    {
      g_prefix_error (error, "'%s': ", conversion->layer);
      return FALSE;
    }
  g_ptr_array_add (self->output_conversions, conversion);
  return TRUE;
}

static void
note_failed (WeftLoadPlan *self, WeftConversion *conversion, const GError *cause)
{
  g_autofree gchar *rule = describe_rule (self, conversion->rule);
  g_autofree gchar *detail = g_strdup_printf ("%s: %s", rule, cause->message);

  weft_load_report_add (self->report, WEFT_FINDING_FAILED, conversion->layer, detail);
}

static gboolean
finish_conversion (WeftLoadPlan *self, WeftConversion *conversion, WeftOpContext *published_facts,
                   GError **error)
{
  if (weft_load_plan_is_dequantized (self) && weft_carry_is_needed (self->packed, conversion))
    weft_conversion_set_lossy (conversion, "it is dequantized, and dense values do not give the codes back");
  else if (!weft_conversion_prove (conversion, self->published, published_facts, error))
    {
      g_autofree gchar *rule = describe_rule (self, conversion->rule);

      g_prefix_error (error, "%s: '%s': ", rule, conversion->layer);
      return FALSE;
    }
  if (conversion->proof == WEFT_PROOF_LOSSY)
    weft_load_report_add (self->report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer,
                          conversion->proof_reason);
  for (guint i = 0; i < conversion->outputs->len; i++)
    if (!add_output (self, conversion, &g_array_index (conversion->outputs, WeftConversionOutput, i), error))
      return FALSE;
  return TRUE;
}

static gboolean
run_conversion (WeftLoadPlan *self, WeftConversion *conversion, WeftOpContext *model,
                WeftOpContext *published_facts, GError **error)
{
  g_autoptr (GError) local_error = NULL;

  g_ptr_array_add (self->conversions, conversion);
  if (self->packed != NULL && !weft_load_plan_is_dequantized (self))
    weft_carry_refer_to_stored (self->packed, conversion);
  if (weft_conversion_run (conversion, self->published, choose_dtype (self, conversion), model, &local_error))
    return finish_conversion (self, conversion, published_facts, error);
  note_failed (self, conversion, local_error);
  return TRUE;
}

/* Packed weights: each role of theirs is a conversion of its own. */
static gboolean
carry_conversion (WeftLoadPlan *self, WeftConversion *conversion, WeftOpContext *model,
                  WeftOpContext *published_facts, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GPtrArray) carried = weft_carry (self->packed, conversion, model, &local_error);
  gboolean ok = TRUE;

  /* It stays the one that its name leads to. */
  g_ptr_array_add (self->carried, conversion);
  if (carried == NULL)
    {
      note_failed (self, conversion, local_error);
      return TRUE;
    }
  judge_carried (self, conversion, carried);
  g_ptr_array_set_free_func (carried, NULL);
  for (guint i = 0; i < carried->len; i++)
    g_ptr_array_add (self->conversions, carried->pdata[i]);
  for (guint i = 0; ok && i < carried->len; i++)
    ok = finish_conversion (self, carried->pdata[i], published_facts, error);
  return ok;
}

/* Runs what was collected, in order. */
static gboolean
run_conversions (WeftLoadPlan *self, WeftOpContext *model, WeftOpContext *published_facts, GError **error)
{
  g_autoptr (GPtrArray) collected = g_steal_pointer (&self->conversions);
  gboolean ok = TRUE;

  g_ptr_array_set_free_func (collected, NULL);
  self->conversions = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);
  for (guint i = 0; i < collected->len; i++)
    {
      WeftConversion *conversion = collected->pdata[i];

      if (!ok)
        g_ptr_array_add (self->conversions, conversion);
      else if (self->packed != NULL && !weft_load_plan_is_dequantized (self)
               && weft_carry_is_needed (self->packed, conversion))
        ok = carry_conversion (self, conversion, model, published_facts, error);
      else
        ok = run_conversion (self, conversion, model, published_facts, error);
    }
  return ok;
}

static gboolean
has_output (WeftLoadPlan *self, const gchar *name)
{
  return weft_state_dict_find (self->outputs, name, NULL);
}

/* A tensor that was left out for its shape counts as there: it is no reason to call its partner missing. */
static gboolean
was_given (WeftLoadPlan *self, const gchar *name)
{
  return has_output (self, name) || g_hash_table_contains (self->left_out, name)
         || g_hash_table_contains (self->carried_names, name);
}

/* A tied tensor is there if its partner is. */
static gboolean
is_tied_to_output (WeftLoadPlan *self, const gchar *name)
{
  for (guint i = 0; i < weft_module_tree_get_n_ties (self->tree); i++)
    {
      const gchar *target = weft_module_tree_get_tie_target (self->tree, i);
      const gchar *source = weft_module_tree_get_tie_source (self->tree, i);

      if ((strcmp (target, name) == 0 && was_given (self, source))
          || (strcmp (source, name) == 0 && was_given (self, target)))
        return TRUE;
    }
  return FALSE;
}

static void
find_missing (WeftLoadPlan *self)
{
  for (guint i = 0; i < weft_module_tree_get_n_tensors (self->tree); i++)
    {
      const gchar *name = weft_module_tree_get_tensor_name (self->tree, i);

      if (weft_module_tree_is_tensor_persistent (self->tree, i) && !was_given (self, name)
          && !is_tied_to_output (self, name)
          && !is_ignored (weft_module_tree_get_ignore_on_load_missing (self->tree), name))
        weft_load_report_add (self->report, WEFT_FINDING_MISSING, name, NULL);
    }
}

/* One finding for several files: how many, and the first ones. */
static void
note_files (WeftLoadReport *report, const gchar *const *files, const gchar *reason)
{
  guint n = g_strv_length ((GStrv) files);
  g_autofree gchar *subject = g_strdup_printf ("%u %s", n, n == 1 ? "entry" : "entries");
  g_autoptr (GString) detail = g_string_new (reason);

  if (n == 0)
    return;
  for (guint i = 0; i < MIN (n, N_NAMED_FILES); i++)
    {
      g_autofree gchar *name = g_filename_display_name (files[i]);

      g_string_append_printf (detail, "%s%s", i == 0 ? ": " : ", ", name);
    }
  if (n > N_NAMED_FILES)
    g_string_append_printf (detail, " and %u more", n - N_NAMED_FILES);
  weft_load_report_add (report, WEFT_FINDING_NOTE, subject, detail->str);
}

void
weft_note_left_files (WeftLoadReport *report, WeftCheckpoint *checkpoint)
{
  note_files (report, weft_checkpoint_get_unused_files (checkpoint),
              "not carried along, holding weights that were not read");
  note_files (report, weft_checkpoint_get_skipped_files (checkpoint),
              "not carried along, being a folder of a tool, a link to a folder or no regular file");
}

static gboolean
compile (WeftLoadPlan *self, GError **error)
{
  g_autoptr (WeftOpContext) model = NULL;
  g_autoptr (WeftOpContext) published_facts = NULL;

  if (!find_model (self, error) || !find_packed (self, error) || !find_transforms (self, error))
    return FALSE;
  for (guint i = 0; i < weft_state_dict_get_n_tensors (get_named (self)); i++)
    if (!add_key (self, i, error))
      return FALSE;
  if (!check_used (self, error)
      || (self->model_keys == NULL
          && !weft_repeated_rename_refuse (self->transforms, get_named (self), error)))
    return FALSE;
  model = make_model_facts (self);
  published_facts = weft_make_published_facts (self->published, self->config);
  if (!run_conversions (self, model, published_facts, error))
    return FALSE;
  weft_note_left_files (self->report, self->checkpoint);
  if (self->model_keys != NULL)
    find_missing (self);
  else
    weft_load_report_add (
        self->report, WEFT_FINDING_NOTE, "open mode",
        "what the runtime expects is not known: missing names are not judged, the base model's prefix is not "
        "repaired, a name that the model has in its published spelling is not kept, and --dtype auto keeps stored "
        "dtypes (give --module-tree)");
  return TRUE;
}

/**
 * weft_load_plan_new:
 * @checkpoint: an open checkpoint
 * @options: (nullable): how to load it
 * @error: return location
 *
 * Compiles a plan from headers and config. No tensor is read. What the model misses is in the report, and stops
 * weft_load_plan_check() and weft_load_plan_execute(), not this.
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_CONFLICT if two sources claim one target, %WEFT_ERROR_MISSING if rules of the caller or the whole
 *   checkpoint match nothing, %WEFT_ERROR_NOT_REVERSIBLE if an op's inverse is wrong
 * Since: 1.0
 */
WeftLoadPlan *
weft_load_plan_new (WeftCheckpoint *checkpoint, WeftLoadOptions *options, GError **error)
{
  g_autoptr (WeftLoadPlan) self = g_object_new (WEFT_TYPE_LOAD_PLAN, NULL);

  self->checkpoint = g_object_ref (checkpoint);
  self->options = options != NULL ? g_object_ref (options) : weft_load_options_new ();
  return compile (self, error) ? g_steal_pointer (&self) : NULL;
}

/**
 * weft_load_plan_check:
 * @self: a plan
 * @error: return location
 *
 * Returns: whether the report holds nothing that stops the load
 * Errors: %WEFT_ERROR_FAILED if a conversion failed, %WEFT_ERROR_SHAPE for a mismatch, %WEFT_ERROR_MISSING for a missing tensor
 * Since: 1.0
 */
gboolean
weft_load_plan_check (WeftLoadPlan *self, GError **error)
{
  WeftLoadFlags flags = weft_load_options_get_flags (self->options);
  const struct
  {
    WeftFinding kind;
    WeftError code;
    gboolean is_allowed;
    const gchar *sentence;
  } stops[] = {
    { WEFT_FINDING_FAILED, WEFT_ERROR_FAILED, FALSE, "cannot be converted" },
    { WEFT_FINDING_MISMATCHED, WEFT_ERROR_SHAPE, (flags & WEFT_LOAD_FLAGS_IGNORE_MISMATCHED_SIZES) != 0,
      "has another shape than the model's (--ignore-mismatched-sizes leaves such tensors out)" },
    { WEFT_FINDING_MISSING, WEFT_ERROR_MISSING, (flags & WEFT_LOAD_FLAGS_ALLOW_MISSING) != 0,
      "is missing in the checkpoint (--allow-missing goes on without)" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (stops); i++)
    {
      guint n = weft_load_report_count (self->report, stops[i].kind);
      const gchar *detail;
      g_autofree gchar *others = NULL;

      if (n == 0 || stops[i].is_allowed)
        continue;
      detail = weft_load_report_get_detail (self->report, stops[i].kind, 0);
      others = n > 1 ? g_strdup_printf (" and %u more", n - 1) : g_strdup ("");
      g_set_error (error, WEFT_ERROR, (gint) stops[i].code, "%s: '%s'%s %s%s%s",
                   weft_checkpoint_get_path (self->checkpoint),
                   weft_load_report_get_name (self->report, stops[i].kind, 0), others, stops[i].sentence,
                   detail != NULL ? ": " : "", detail != NULL ? detail : "");
      return FALSE;
    }
  return TRUE;
}

/**
 * weft_load_plan_execute:
 * @self: a plan
 * @sink: where the outputs go
 * @progress: (nullable) (scope call): called as bytes arrive
 * @user_data: data of @progress
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Moves the bytes, once. A #WeftSafetensorsSink also gets the shards, the other files of the checkpoint and the record
 * that makes reverting exact.
 *
 * Returns: whether all outputs are in place; if not, a file sink has left nothing under its name
 * Errors: those of weft_load_plan_check(), of the sink and of reading
 * Since: 1.0
 */
gboolean
weft_load_plan_execute (WeftLoadPlan *self, WeftSink *sink, WeftProgressFunc progress, gpointer user_data,
                        GCancellable *cancellable, GError **error)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads (),
                                  .progress = progress,
                                  .progress_data = user_data };

  return weft_load_plan_execute_full (self, sink, &options, NULL, cancellable, error);
}

/**
 * weft_load_plan_execute_full: (skip)
 * @self: a plan
 * @sink: where the outputs go
 * @options: threads, tiles, progress
 * @counters: (nullable): added to
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * As weft_load_plan_execute().
 *
 * Returns: whether all outputs are in place
 * Errors: as weft_load_plan_execute()
 * Since: 1.0
 */
gboolean
weft_load_plan_execute_full (WeftLoadPlan *self, WeftSink *sink, const WeftTransferOptions *options,
                             WeftTransferCounters *counters, GCancellable *cancellable, GError **error)
{
  if (!weft_load_plan_check (self, error))
    return FALSE;
  if (WEFT_IS_SAFETENSORS_SINK (sink)
      && !weft_output_prepare (self, WEFT_SAFETENSORS_SINK (sink), cancellable, error))
    return FALSE;
  return weft_sink_write (sink, self->outputs, options, counters, cancellable, error);
}

/**
 * weft_load_plan_get_checkpoint:
 * @self: a plan
 *
 * Returns: (transfer none): the checkpoint that it loads
 * Since: 1.0
 */
WeftCheckpoint *
weft_load_plan_get_checkpoint (WeftLoadPlan *self)
{
  return self->checkpoint;
}

/**
 * weft_load_plan_get_outputs:
 * @self: a plan
 *
 * Returns: (transfer none): the runtime's tensors, lazy
 * Since: 1.0
 */
WeftStateDict *
weft_load_plan_get_outputs (WeftLoadPlan *self)
{
  return self->outputs;
}

/**
 * weft_load_plan_get_report:
 * @self: a plan
 *
 * Returns: (transfer none): what did not go as the model wants
 * Since: 1.0
 */
WeftLoadReport *
weft_load_plan_get_report (WeftLoadPlan *self)
{
  return self->report;
}

/**
 * weft_load_plan_get_transforms:
 * @self: a plan
 *
 * Returns: (transfer none): the rules, the plan's own
 * Since: 1.0
 */
WeftTransformList *
weft_load_plan_get_transforms (WeftLoadPlan *self)
{
  return self->transforms;
}

/**
 * weft_load_plan_is_open:
 * @self: a plan
 *
 * Returns: whether what the runtime expects is not known
 * Since: 1.0
 */
gboolean
weft_load_plan_is_open (WeftLoadPlan *self)
{
  return self->model_keys == NULL;
}

/**
 * weft_load_plan_is_reversible:
 * @self: a plan
 *
 * Returns: whether every conversion is known to have an exact inverse (conditional ones included, which are checked while
 *   converting)
 * Since: 1.0
 */
gboolean
weft_load_plan_is_reversible (WeftLoadPlan *self)
{
  return weft_load_report_count (self->report, WEFT_FINDING_NOT_REVERSIBLE) == 0;
}
