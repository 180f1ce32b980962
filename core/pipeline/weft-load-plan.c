/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-load-plan-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-caller-rules-private.h"
#include "pipeline/weft-carry-private.h"
#include "pipeline/weft-fit-private.h"
#include "pipeline/weft-ignore-list-private.h"
#include "pipeline/weft-fusion-stages-private.h"
#include "pipeline/weft-gguf-rules-private.h"
#include "pipeline/weft-output-private.h"
#include "pipeline/weft-proofs-private.h"
#include "pipeline/weft-quantize-stage-private.h"
#include "pipeline/weft-repeated-rename-private.h"
#include "pipeline/weft-slice-stage-private.h"
#include "transform/weft-stage-internal.h"

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
  g_clear_object (&self->quantizer);
  g_clear_pointer (&self->dense_modules, g_ptr_array_unref);
  g_clear_pointer (&self->quantized, g_ptr_array_unref);
  g_clear_object (&self->published);
  g_clear_object (&self->tree);
  g_free (self->open_reason);
  g_clear_pointer (&self->model_keys, g_hash_table_unref);
  g_clear_pointer (&self->ties, weft_tied_names_free);
  g_clear_pointer (&self->ignored_missing, g_ptr_array_unref);
  g_clear_pointer (&self->ignored_unexpected, g_ptr_array_unref);
  g_clear_object (&self->registry);
  g_clear_object (&self->transforms);
  g_clear_pointer (&self->dtype_patterns, g_ptr_array_unref);
  g_clear_pointer (&self->config, json_node_unref);
  g_clear_pointer (&self->layers, g_hash_table_unref);
  g_clear_pointer (&self->left_out, g_hash_table_unref);
  g_clear_pointer (&self->carried_names, g_hash_table_unref);
  g_clear_pointer (&self->output_conversions, g_ptr_array_unref);
  g_clear_object (&self->fusion);
  g_clear_object (&self->stored_fusion);
  g_clear_pointer (&self->stages, g_ptr_array_unref);
  g_clear_pointer (&self->runtime_conversions, g_ptr_array_unref);
  g_clear_pointer (&self->conversions, g_ptr_array_unref);
  g_clear_pointer (&self->carried, g_ptr_array_unref);
  g_clear_object (&self->outputs);
  g_clear_pointer (&self->sharding, weft_sharding_free);
  g_clear_object (&self->whole);
  g_clear_pointer (&self->whole_conversions, g_ptr_array_unref);
  g_clear_object (&self->report);
  g_clear_object (&self->value_report);
  g_clear_pointer (&self->lossy_by_values, g_hash_table_unref);
  g_mutex_clear (&self->value_lock);
  g_clear_pointer (&self->replaced_files, g_hash_table_unref);
  g_free (self->file_name);
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
  self->quantized = g_ptr_array_new_with_free_func (g_object_unref);
  self->dense_modules = g_ptr_array_new_with_free_func (g_free);
  self->stages = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_stage_free);
  self->dtype_patterns = g_ptr_array_new_with_free_func ((GDestroyNotify) g_regex_unref);
  self->layers = g_hash_table_new (weft_text_hash, g_str_equal);
  self->outputs = weft_state_dict_new ();
  self->left_out = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->carried_names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->report = weft_load_report_new ();
  self->lossy_by_values = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_mutex_init (&self->value_lock);
  self->replaced_files =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_bytes_unref);
}

void
weft_load_plan_replace_file (WeftLoadPlan *self, const gchar *name, GBytes *content)
{
  g_hash_table_replace (self->replaced_files, g_strdup (name), g_bytes_ref (content));
}

gboolean
weft_load_plan_knows_tensors (WeftLoadPlan *self)
{
  return self->ties != NULL;
}

const gchar *
weft_load_plan_get_base_model_prefix (WeftLoadPlan *self)
{
  return self->tree != NULL ? weft_module_tree_get_base_model_prefix (self->tree) : NULL;
}

/* Names that the caller declares are all that is known of what is wanted. */
static void
take_target_names (WeftLoadPlan *self)
{
  const gchar *const *names = weft_load_options_get_target_names (self->options);

  self->model_keys = g_hash_table_new (weft_text_hash, g_str_equal);
  for (guint i = 0; names[i] != NULL; i++)
    g_hash_table_add (self->model_keys, (gpointer) names[i]);
}

/* What the tree says of the model's tensors. */
static gboolean
take_tree (WeftLoadPlan *self, GError **error)
{
  self->model_keys = g_hash_table_ref (weft_module_tree_get_model_keys (self->tree));
  self->ties = weft_tied_names_new (self->tree, self->config);
  self->ignored_missing = weft_ignore_list_new (weft_module_tree_get_ignore_on_load_missing (self->tree),
                                                "ignore_on_load_missing", error);
  self->ignored_unexpected =
      self->ignored_missing != NULL ? weft_ignore_list_new (
          weft_module_tree_get_ignore_on_load_unexpected (self->tree), "ignore_on_load_unexpected", error)
                                    : NULL;
  return self->ignored_unexpected != NULL;
}

/* Names that stay as they are published are not judged by those of the model. */
static gboolean
keeps_names (WeftLoadPlan *self)
{
  return (weft_load_options_get_flags (self->options) & WEFT_LOAD_FLAGS_KEEP_NAMES) != 0;
}

/* NULL: the checkpoint is no GGUF file. */
static WeftGgufFile *
get_gguf (WeftLoadPlan *self)
{
  return weft_checkpoint_get_n_shards (self->checkpoint) > 0
             ? weft_shard_get_gguf (weft_checkpoint_get_shard (self->checkpoint, 0))
             : NULL;
}

static gboolean
find_model (WeftLoadPlan *self, GError **error)
{
  JsonNode *config = weft_checkpoint_get_config (self->checkpoint);
  g_autofree gchar *where =
      g_build_filename (weft_checkpoint_get_path (self->checkpoint), "config.json", NULL);
  g_autoptr (GError) local_error = NULL;

  if (config != NULL)
    self->config = json_node_ref (config);
  else if (get_gguf (self) != NULL)
    self->config = weft_gguf_rules_dup_config (get_gguf (self));
  self->tree = weft_caller_find_model (self->options, config, where, &self->open_reason, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (weft_load_options_get_target_names (self->options) != NULL)
    take_target_names (self);
  else if (self->tree != NULL && weft_module_tree_has_tensors (self->tree) && !keeps_names (self)
           && !take_tree (self, error))
    return FALSE;
  return weft_load_plan_prepare_dtypes (self, error);
}

static void
note_open_mode (WeftLoadPlan *self)
{
  g_autofree gchar *text = g_strconcat (
      "what the runtime expects is not known: missing names are not judged, the base model's prefix is not "
      "repaired, a name that the model has in its published spelling is not kept, and --dtype auto keeps stored "
      "dtypes (give --module-tree or --like)",
      self->open_reason != NULL ? "; " : "", self->open_reason, NULL);

  weft_load_report_add (self->report, WEFT_FINDING_NOTE, "open mode", text);
}

/* Most models need rules; one that has none may be plain, or unknown. Where its names are known, they tell. */
static void
note_no_mapping (WeftLoadPlan *self)
{
  const gchar *name = self->tree != NULL ? weft_module_tree_get_model_type (self->tree) : NULL;

  if (self->model_keys != NULL)
    return;
  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->transforms); i++)
    if (weft_caller_rules_is_of_model (weft_transform_list_get_transform (self->transforms, i)))
      return;
  weft_load_report_add (
      self->report, WEFT_FINDING_NOTE, name != NULL ? name : "no model type",
      name != NULL ? "there is no mapping for this model type: its tensors keep their names and layout"
                   : "config.json names no model type, so that no mapping applies: tensors keep their "
                     "names and layout (name one with --model-type or --mapping)");
}

/* Whether the rules are those of the model, and not the caller's. */
static gboolean
is_looked_up (WeftLoadPlan *self)
{
  return weft_load_options_get_transforms (self->options) == NULL
         && weft_load_options_get_mapping (self->options) == NULL
         && weft_load_options_get_model_type (self->options) == NULL;
}

static gboolean
find_transforms (WeftLoadPlan *self, GError **error)
{
  g_auto (GStrv) custom = NULL;

  if (keeps_names (self))
    {
      self->transforms = weft_transform_list_new ();
      return TRUE;
    }
  self->registry = weft_caller_find_registry (self->options, error);
  if (self->registry != NULL && get_gguf (self) != NULL && is_looked_up (self))
    {
      self->transforms = weft_gguf_rules_assemble (self, get_gguf (self), error);
      return self->transforms != NULL;
    }
  self->transforms = self->registry != NULL
                         ? weft_caller_find_rules (self->options, self->registry, self->tree, error)
                         : NULL;
  if (self->transforms == NULL)
    return FALSE;
  if (self->tree != NULL && is_looked_up (self))
    custom = weft_mapping_list_custom_code (self->registry, self->tree);
  for (guint i = 0; custom != NULL && custom[i] != NULL; i++)
    weft_load_report_add (
        self->report, WEFT_FINDING_NOTE, custom[i],
        "is custom code of the checkpoint; it gets no shipped mapping, and no foreign code is run "
        "(register a mapping under its name to convert it)");
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
  if (!weft_load_plan_knows_tensors (self))
    return FALSE;
  return weft_ignore_list_has (self->ignored_unexpected, name)
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

  weft_load_report_add (self->report,
                        may_be_unexpected (self, key) ? WEFT_FINDING_IGNORED : WEFT_FINDING_UNEXPECTED, key,
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
  g_autofree gchar *fused = NULL;
  g_autoptr (GError) local_error = NULL;
  const gchar *name;

  if (renamed == NULL)
    return FALSE;
  name = weft_renamed_key_get_name (renamed);
  fused = weft_fusion_stages_keep_fused_name (self, key, name, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (*name == '\0' && *key != '\0')
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "the rules leave nothing of the name '%s'; `weft explain` shows which", key);
      return FALSE;
    }
  if (self->model_keys != NULL && !g_hash_table_contains (self->model_keys, name))
    return add_unexpected (self, position, error);
  self->n_known++;
  if (fused != NULL)
    return add_plain (self, fused, position, error);
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

/* How many of the model's tensors the checkpoint speaks of. */
static guint
count_given (WeftLoadPlan *self)
{
  guint n = 0;

  for (guint i = 0; i < self->conversions->len; i++)
    n += g_hash_table_contains (self->model_keys, ((WeftConversion *) self->conversions->pdata[i])->layer);
  return n;
}

/* A model of which next to nothing is found in the checkpoint is another one, whatever the config says. */
static gboolean
check_fit (WeftLoadPlan *self, GError **error)
{
  WeftStateDict *published = get_named (self);
  guint n_published = weft_state_dict_get_n_tensors (published);
  guint n_expected = self->model_keys != NULL ? g_hash_table_size (self->model_keys) : 0;
  g_autofree gchar *found = NULL;
  g_autofree gchar *nearest = NULL;

  if (n_published == 0 || n_expected == 0)
    return TRUE;
  if (self->n_known > 0
      && !(weft_fit_is_chance (self->n_known, n_published)
           && weft_fit_is_chance (count_given (self), n_expected)))
    return TRUE;
  found = self->n_known == 0 ? g_strdup_printf ("none of the %u", n_published)
                             : g_strdup_printf ("%u of the %u", self->n_known, n_published);
  nearest = weft_load_plan_knows_tensors (self)
                ? weft_fit_describe_nearest (published, self->tree, self->registry)
                : NULL;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "this config does not fit this checkpoint: %s tensors of %s are among the %u of %s%s%s", found,
               weft_checkpoint_get_path (self->checkpoint), n_expected,
               weft_load_plan_knows_tensors (self) ? weft_module_tree_get_class (self->tree)
                                                   : "the names that are wanted",
               nearest != NULL ? "; nearest: " : "", nearest != NULL ? nearest : "");
  return FALSE;
}

/* Rules of the model's mapping that no key met. Those for old names are idle in most checkpoints, and are not listed. */
static void
find_unused_rules (WeftLoadPlan *self)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->transforms); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (self->transforms, i);
      g_autofree gchar *name = NULL;

      if (!weft_caller_rules_is_of_model (rule) || weft_weight_transform_get_used (rule))
        continue;
      name = weft_weight_transform_describe (rule);
      weft_load_report_add (self->report, WEFT_FINDING_UNUSED, name, NULL);
    }
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
  find_unused_rules (self);
  return check_fit (self, error);
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
    return weft_load_options_get_dense_dtype (self->options);
  if (self->model_keys != NULL)
    return WEFT_DTYPE_F32;
  return self->request;
}

/* A checkpoint of no method that is to be dequantized has values already, unless there are codes in it. */
static gboolean
check_no_codes (WeftLoadPlan *self, GError **error)
{
  for (guint i = 0; i < weft_state_dict_get_n_tensors (self->published); i++)
    {
      WeftDtype dtype = weft_tensor_get_dtype (weft_state_dict_get_tensor (self->published, i));

      if (!weft_dtype_is_floating (dtype) || weft_dtype_get_bits (dtype) > 8)
        continue;
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_MISSING,
          "%s: '%s' is stored as %s; nothing says how it is packed: config.json has no quantization_config, "
          "and no scale belongs to it",
          weft_checkpoint_get_path (self->checkpoint), weft_state_dict_get_name (self->published, i),
          weft_dtype_get_name (dtype));
      return FALSE;
    }
  return TRUE;
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
    return !is_dequantized || check_no_codes (self, error);
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
  for (guint i = 0; weft_load_plan_knows_tensors (self) && i < weft_module_tree_get_n_tensors (self->tree);
       i++)
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
  weft_load_report_add (
      self->report, may_be_unexpected (self, output->name) ? WEFT_FINDING_IGNORED : WEFT_FINDING_UNEXPECTED,
      output->name, detail);
  return !drops_unexpected (self);
}

/* Whether an output is wanted, by what the model has. */
static gboolean
judge (WeftLoadPlan *self, WeftConversion *conversion, const WeftConversionOutput *output)
{
  guint position;

  if (weft_load_plan_knows_tensors (self)
      && weft_module_tree_find_tensor (self->tree, output->name, &position))
    return check_expected (self, output, position);
  if (self->model_keys != NULL && !g_hash_table_contains (self->model_keys, output->name))
    return check_unexpected (self, conversion, output);
  return TRUE;
}

/* Packed weights are judged by the dense ones that they stand for. */
static void
judge_carried (WeftLoadPlan *self, WeftConversion *dense, GPtrArray *carried)
{
  for (guint i = 0; i < dense->outputs->len; i++)
    {
      const WeftConversionOutput *output = &g_array_index (dense->outputs, WeftConversionOutput, i);
      gboolean is_wanted = judge (self, dense, output);

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

  if (conversion->carry == WEFT_CARRY_NONE)
    is_wanted = judge (self, conversion, output);
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

/* A conversion that has run. What came of it goes into the plan when all have, in their order. */
typedef struct
{
  WeftConversion *conversion;
  /* (nullable): the conversions of the roles of packed weights, in place of it. */
  GPtrArray *carried;
  /* Its values are not those that were published, whatever its inverse is. */
  gboolean is_dequantized;
  GError *error;
} Ran;

static void
ran_clear (gpointer user_data)
{
  Ran *ran = user_data;

  g_clear_pointer (&ran->carried, g_ptr_array_unref);
  g_clear_error (&ran->error);
}

/* Packed weights: each role of theirs is a conversion of its own. */
static void
carry_conversion (WeftLoadPlan *self, Ran *ran, WeftOpContext *model, WeftProofs *proofs)
{
  /* It stays the one that its name leads to. */
  g_ptr_array_add (self->carried, ran->conversion);
  ran->carried = weft_carry (self->packed, ran->conversion, model, keeps_names (self), &ran->error);
  if (ran->carried == NULL)
    return;
  g_ptr_array_set_free_func (ran->carried, NULL);
  for (guint i = 0; i < ran->carried->len; i++)
    {
      g_ptr_array_add (self->conversions, ran->carried->pdata[i]);
      weft_proofs_add (proofs, ran->carried->pdata[i]);
    }
}

static void
run_conversion (WeftLoadPlan *self, Ran *ran, WeftOpContext *model, WeftProofs *proofs)
{
  WeftConversion *conversion = ran->conversion;

  g_ptr_array_add (self->conversions, conversion);
  if (self->packed != NULL && !weft_load_plan_is_dequantized (self))
    weft_carry_refer_to_stored (self->packed, conversion);
  if (!weft_conversion_run (conversion, self->published, weft_load_plan_choose_dtype (self, conversion),
                            model, &ran->error))
    return;
  ran->is_dequantized =
      weft_load_plan_is_dequantized (self) && weft_carry_is_needed (self->packed, conversion);
  if (!ran->is_dequantized)
    weft_proofs_add (proofs, conversion);
}

static gboolean
finish_conversion (WeftLoadPlan *self, WeftConversion *conversion, WeftProofs *proofs, GError **error)
{
  if (proofs == NULL)
    weft_conversion_set_lossy (conversion, "it is dequantized, and dense values do not give the codes back");
  else if (!weft_proofs_finish_next (proofs, error))
    {
      g_autofree gchar *rule = describe_rule (self, conversion->rule);

      g_prefix_error (error, "%s: '%s': ", rule, conversion->layer);
      return FALSE;
    }
  if (conversion->proof != WEFT_PROOF_LOSSY && get_gguf (self) != NULL)
    weft_conversion_set_lossy (conversion, "it comes from a GGUF file, and none is written");
  if (conversion->proof == WEFT_PROOF_LOSSY)
    weft_load_report_add (self->report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer,
                          conversion->proof_reason);
  for (guint i = 0; i < conversion->outputs->len; i++)
    if (!add_output (self, conversion, &g_array_index (conversion->outputs, WeftConversionOutput, i), error))
      return FALSE;
  return TRUE;
}

static gboolean
finish (WeftLoadPlan *self, const Ran *ran, WeftProofs *proofs, GError **error)
{
  if (ran->error != NULL)
    note_failed (self, ran->conversion, ran->error);
  else if (ran->carried == NULL)
    return finish_conversion (self, ran->conversion, ran->is_dequantized ? NULL : proofs, error);
  else
    {
      judge_carried (self, ran->conversion, ran->carried);
      for (guint i = 0; i < ran->carried->len; i++)
        if (!finish_conversion (self, ran->carried->pdata[i], proofs, error))
          return FALSE;
    }
  return TRUE;
}

/* Runs what was collected, in order, and proves it meanwhile. */
static gboolean
run_conversions (WeftLoadPlan *self, WeftOpContext *model, WeftOpContext *published_facts, GError **error)
{
  g_autoptr (GPtrArray) collected = g_steal_pointer (&self->conversions);
  g_autoptr (GArray) all = g_array_sized_new (FALSE, TRUE, sizeof (Ran), collected->len);
  g_autoptr (WeftProofs) proofs = weft_proofs_new (self->published, published_facts);

  g_ptr_array_set_free_func (collected, NULL);
  g_array_set_clear_func (all, ran_clear);
  g_array_set_size (all, collected->len);
  self->conversions = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);
  for (guint i = 0; i < collected->len; i++)
    {
      Ran *ran = &g_array_index (all, Ran, i);

      ran->conversion = collected->pdata[i];
      if (self->packed != NULL && !weft_load_plan_is_dequantized (self)
          && weft_carry_is_needed (self->packed, ran->conversion))
        carry_conversion (self, ran, model, proofs);
      else
        run_conversion (self, ran, model, proofs);
    }
  for (guint i = 0; i < all->len; i++)
    if (!finish (self, &g_array_index (all, Ran, i), proofs, error))
      return FALSE;
  return TRUE;
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

/* The first of names that share a tensor which the checkpoint gives. */
static const gchar *
find_given (WeftLoadPlan *self, GPtrArray *group)
{
  for (guint i = 0; group != NULL && i < group->len; i++)
    if (was_given (self, group->pdata[i]))
      return group->pdata[i];
  return NULL;
}

/* Of names that share a tensor: which one the others get theirs from. All that the checkpoint gives are kept as they are. */
static void
note_ties (WeftLoadPlan *self, GPtrArray *group)
{
  const gchar *given = find_given (self, group);

  for (guint i = 0; given != NULL && i < group->len; i++)
    {
      const gchar *name = group->pdata[i];
      gboolean is_given = was_given (self, name);
      g_autofree gchar *detail = NULL;

      if (name == given || !(is_given || g_hash_table_contains (self->model_keys, name)))
        continue;
      detail = g_strdup_printf (
          is_given ? "is in the checkpoint beside '%s', to which the model ties it; both are kept"
                   : "is not in the checkpoint; the model ties it to '%s'",
          given);
      weft_load_report_add (self->report, WEFT_FINDING_TIED, name, detail);
    }
}

static void
find_missing (WeftLoadPlan *self)
{
  for (guint i = 0; i < weft_tied_names_get_n_groups (self->ties); i++)
    note_ties (self, weft_tied_names_get_group (self->ties, i));
  for (guint i = 0; i < weft_module_tree_get_n_tensors (self->tree); i++)
    {
      const gchar *name = weft_module_tree_get_tensor_name (self->tree, i);

      if (!weft_module_tree_is_tensor_persistent (self->tree, i) || was_given (self, name)
          || find_given (self, weft_tied_names_find (self->ties, name)) != NULL)
        continue;
      if (weft_ignore_list_has (self->ignored_missing, name))
        weft_load_report_add (self->report, WEFT_FINDING_IGNORED, name,
                              "is not in the checkpoint; the model makes it itself");
      else
        weft_load_report_add (self->report, WEFT_FINDING_MISSING, name, NULL);
    }
}

/* Of names that the caller declares. */
static void
find_missing_names (WeftLoadPlan *self)
{
  const gchar *const *names = weft_load_options_get_target_names (self->options);

  for (guint i = 0; names[i] != NULL; i++)
    if (!was_given (self, names[i]))
      weft_load_report_add (self->report, WEFT_FINDING_MISSING, names[i], NULL);
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

static void
set_report_title (WeftLoadPlan *self)
{
  const gchar *class_name = self->tree != NULL ? weft_module_tree_get_class (self->tree) : "";
  g_autofree gchar *title =
      g_strdup_printf ("%s%sLOAD REPORT from: %s", class_name, *class_name != '\0' ? " " : "",
                       weft_checkpoint_get_path (self->checkpoint));

  weft_load_report_set_title (self->report, title);
}

/* The rules of a fusion join weights without their scales. */
static gboolean
refuse_fusing_codes (WeftLoadPlan *self, GError **error)
{
  if (self->fusion == NULL || self->packed == NULL || weft_load_plan_is_dequantized (self)
      || weft_packed_weights_get_n_packed (self->packed) == 0)
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
      "%s: its weights are packed (%s), and fused modules have dense ones; --dequantize converts dense values",
      weft_checkpoint_get_path (self->checkpoint),
      weft_quantizer_get_name (weft_packed_weights_get_quantizer (self->packed)));
  return FALSE;
}

static gboolean
compile (WeftLoadPlan *self, GError **error)
{
  g_autoptr (WeftOpContext) model = NULL;
  g_autoptr (WeftOpContext) published_facts = NULL;

  if (!find_model (self, error) || !weft_fusion_stages_prepare (self, error) || !find_packed (self, error)
      || !find_transforms (self, error))
    return FALSE;
  set_report_title (self);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (get_named (self)); i++)
    if (!add_key (self, i, error))
      return FALSE;
  if (!check_used (self, error)
      || (self->model_keys == NULL
          && !weft_repeated_rename_refuse (self->transforms, get_named (self), error)))
    return FALSE;
  model = make_model_facts (self);
  published_facts = weft_make_published_facts (self->published, self->config);
  if (!run_conversions (self, model, published_facts, error) || !weft_fusion_stages_take_back (self, error))
    return FALSE;
  weft_note_left_files (self->report, self->checkpoint);
  if (weft_load_plan_knows_tensors (self))
    find_missing (self);
  else if (self->model_keys != NULL)
    find_missing_names (self);
  else if (!keeps_names (self))
    note_open_mode (self);
  return refuse_fusing_codes (self, error) && weft_fusion_stages_apply (self, error)
         && weft_quantize_stage_run (self, error) && weft_slice_stage_run (self, error);
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

/* Findings of one kind as an error: the first by name, the others by number. */
static gboolean
refuse_findings (WeftLoadPlan *self, WeftFinding kind, WeftError code, const gchar *sentence, GError **error)
{
  guint n = weft_load_report_count (self->report, kind);
  const gchar *detail = weft_load_report_get_detail (self->report, kind, 0);
  g_autofree gchar *others = n > 1 ? g_strdup_printf (" and %u more", n - 1) : g_strdup ("");

  g_set_error (error, WEFT_ERROR, (gint) code, "%s: '%s'%s %s%s%s",
               weft_checkpoint_get_path (self->checkpoint), weft_load_report_get_name (self->report, kind, 0),
               others, sentence, detail != NULL ? ": " : "", detail != NULL ? detail : "");
  return FALSE;
}

/* One mapping serves the spellings of many checkpoints, so that idle rules of those that come with Weft are no fault. */
static gboolean
check_given_rules_used (WeftLoadPlan *self, GError **error)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->transforms); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (self->transforms, i);
      g_autofree gchar *name = NULL;

      if (weft_weight_transform_get_used (rule)
          || !weft_caller_rules_is_given (self->options, self->registry, rule))
        continue;
      name = weft_weight_transform_describe (rule);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "%s: '%s' matches no tensor, and --strict was given",
                   weft_checkpoint_get_path (self->checkpoint), name);
      return FALSE;
    }
  return TRUE;
}

/* The table of a GGUF file says of what type the blocks of each tensor are; a safetensors file has no place for that. */
static gboolean
refuse_blocks (WeftLoadPlan *self, GError **error)
{
  if (get_gguf (self) == NULL || self->packed == NULL || weft_load_plan_is_dequantized (self)
      || weft_packed_weights_get_n_packed (self->packed) == 0)
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
      "%s: its blocks would lose their types in a safetensors file; --dequantize converts dense values",
      weft_checkpoint_get_path (self->checkpoint));
  return FALSE;
}

/**
 * weft_load_plan_check:
 * @self: a plan
 * @error: return location
 *
 * Returns: whether the report holds nothing that stops the load
 * Errors: %WEFT_ERROR_FAILED if a conversion failed, %WEFT_ERROR_SHAPE for a mismatch, %WEFT_ERROR_MISSING for a missing
 *   tensor; where the flags of the options refuse more, %WEFT_ERROR_CONFLICT for a tensor or a rule without a counterpart,
 *   %WEFT_ERROR_NOT_REVERSIBLE for a conversion without an exact inverse
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
    { WEFT_FINDING_UNEXPECTED, WEFT_ERROR_CONFLICT, (flags & WEFT_LOAD_FLAGS_REFUSE_UNEXPECTED) == 0,
      "is no tensor of the model, and --strict was given" },
    { WEFT_FINDING_IGNORED, WEFT_ERROR_CONFLICT, (flags & WEFT_LOAD_FLAGS_REFUSE_IGNORED) == 0,
      "is on one side only, and --strict was given" },
    { WEFT_FINDING_NOT_REVERSIBLE, WEFT_ERROR_NOT_REVERSIBLE,
      (flags & WEFT_LOAD_FLAGS_REFUSE_NOT_REVERSIBLE) == 0, "has no exact inverse, and --strict was given" },
  };

  for (guint i = 0; i < G_N_ELEMENTS (stops); i++)
    if (!stops[i].is_allowed && weft_load_report_count (self->report, stops[i].kind) > 0)
      return refuse_findings (self, stops[i].kind, stops[i].code, stops[i].sentence, error);
  if ((flags & WEFT_LOAD_FLAGS_REFUSE_UNUSED) != 0 && !check_given_rules_used (self, error))
    return FALSE;
  if (weft_load_plan_is_open (self) && (flags & WEFT_LOAD_FLAGS_REFUSE_OPEN) != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "%s: what the runtime expects is not known, and --strict was given; give --module-tree",
                   weft_checkpoint_get_path (self->checkpoint));
      return FALSE;
    }
  return refuse_blocks (self, error);
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
 * weft_load_plan_get_options:
 * @self: a plan
 *
 * Returns: (transfer none): how it loads
 * Since: 1.0
 */
WeftLoadOptions *
weft_load_plan_get_options (WeftLoadPlan *self)
{
  return self->options;
}

/**
 * weft_load_plan_get_whole_outputs:
 * @self: a plan
 *
 * Returns: (transfer none): what all ranks hold together, lazy; of a plan that is not for one rank of several, its outputs
 * Since: 1.0
 */
WeftStateDict *
weft_load_plan_get_whole_outputs (WeftLoadPlan *self)
{
  return self->whole != NULL ? self->whole : self->outputs;
}

/**
 * weft_load_plan_get_outputs:
 * @self: a plan
 *
 * Returns: (transfer none): the runtime's tensors, lazy; what one rank holds of them if the options ask for that
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
 * weft_load_plan_get_quantizer:
 * @self: a plan
 *
 * Returns: (transfer none) (nullable): the method that packs outputs; %NULL if none is packed
 * Since: 1.0
 */
WeftQuantizer *
weft_load_plan_get_quantizer (WeftLoadPlan *self)
{
  return self->quantizer;
}

/**
 * weft_load_plan_get_n_quantized:
 * @self: a plan
 *
 * Returns: how many weights it packs
 * Since: 1.0
 */
guint
weft_load_plan_get_n_quantized (WeftLoadPlan *self)
{
  return self->quantized->len;
}

/**
 * weft_load_plan_get_quantized:
 * @self: a plan
 * @position: which of the weights that it packs
 *
 * Returns: (transfer none): the weight, with its dense values and its parts
 * Since: 1.0
 */
WeftPackedWeight *
weft_load_plan_get_quantized (WeftLoadPlan *self, guint position)
{
  g_return_val_if_fail (position < self->quantized->len, NULL);
  return self->quantized->pdata[position];
}

/**
 * weft_load_plan_get_module_tree:
 * @self: a plan
 *
 * Returns: (transfer none) (nullable): what is known of the model, before anything is replaced in it
 * Since: 1.0
 */
WeftModuleTree *
weft_load_plan_get_module_tree (WeftLoadPlan *self)
{
  return self->tree;
}

/**
 * weft_load_plan_get_fusion:
 * @self: a plan
 *
 * Returns: (transfer none) (nullable): what is replaced in the model, by which rules; %NULL: nothing
 * Since: 1.0
 */
WeftReplacementExecutor *
weft_load_plan_get_fusion (WeftLoadPlan *self)
{
  return self->fusion;
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
