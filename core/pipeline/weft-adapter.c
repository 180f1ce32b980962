/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-adapter.h"

#include <string.h>

#include "base/weft-json.h"
#include "pipeline/weft-adapter-config-private.h"
#include "pipeline/weft-caller-rules-private.h"
#include "pipeline/weft-load-plan-private.h"
#include "transform/weft-conversion-ops.h"
#include "transform/weft-weight-converter.h"
#include "transform/weft-weight-renaming.h"

/* Origin of the rules that take names of adapters to names of their models. */
#define ORIGIN "adapter"
#define GATE_UP "gate_up_proj"
#define DOWN ".down_proj"
/* More experts than any model has. */
#define MAX_EXPERTS G_MAXUINT16

/* One of the two matrices, and the ops that fuse it: `%u` is the number of experts. */
typedef struct
{
  const gchar *matrix;
  const gchar *operations;
} Fusing;

/* Rows are (expert, source, rank); columns rank * experts + expert. */
static const Fusing joined_fusings[] = {
  { "lora_A", "[{\"type\":\"MergeModulelist\",\"dim\":0},{\"type\":\"Concatenate\",\"dim\":1},"
              "{\"type\":\"FlattenDims\",\"dims\":[0,1],\"sizes\":[%u,-1]}]" },
  { "lora_B", "[{\"type\":\"MergeModulelist\",\"dim\":0},{\"type\":\"PeftConcatenate\",\"n_experts\":%u}]" },
};
static const Fusing single_fusings[] = {
  { "lora_A",
    "[{\"type\":\"MergeModulelist\",\"dim\":0},{\"type\":\"FlattenDims\",\"dims\":[0,1],\"sizes\":[%u,-1]}]" },
  { "lora_B",
    "[{\"type\":\"MergeModulelist\",\"dim\":0},{\"type\":\"PermuteDims\",\"dims\":[2,0,1]},"
    "{\"type\":\"FlattenDims\",\"dims\":[0,1],\"sizes\":[-1,%u]},{\"type\":\"Transpose\",\"dim0\":0,\"dim1\":1}]" },
};

static GPtrArray *
make_operations (const Fusing *fusing, guint n_experts, GError **error)
{
  g_auto (GStrv) halves = g_strsplit (fusing->operations, "%u", 2);
  g_autofree gchar *text = g_strdup_printf ("%s%u%s", halves[0], n_experts, halves[1]);
  g_autoptr (JsonNode) root = weft_json_parse (text, -1, ORIGIN, error);
  g_autoptr (GPtrArray) operations = g_ptr_array_new_with_free_func (g_object_unref);
  JsonArray *array = root != NULL ? json_node_get_array (root) : NULL;

  for (guint i = 0; array != NULL && i < json_array_get_length (array); i++)
    {
      JsonObject *parameters = json_array_get_object_element (array, i);
      WeftConversionOps *op =
          weft_op_new (json_object_get_string_member (parameters, "type"), parameters, ORIGIN, error);

      if (op == NULL)
        return NULL;
      g_ptr_array_add (operations, op);
    }
  return array != NULL ? g_steal_pointer (&operations) : NULL;
}

/* `.experts.*.w1.weight` as `.experts.*.w1.lora_A.default.weight`. */
static gchar *
derive_source (const gchar *source, const gchar *matrix, const gchar *adapter_name)
{
  const gchar *dot = strrchr (source, '.');
  gsize length = dot != NULL ? (gsize) (dot - source) : strlen (source);

  if (length > 0 && source[length - 1] == '\\')
    length--;
  return g_strdup_printf ("%.*s\\.%s\\.%s\\.weight", (gint) length, source, matrix, adapter_name);
}

/* `.experts.gate_up_proj` as `.experts.base_layer.lora_A.default.weight`, `.experts.down_proj` as
 * `.experts.lora_A.default.weight`: the fused module has a layer for each of its two parameters, one around the other. */
static gchar *
derive_target (const gchar *target, const gchar *matrix, const gchar *adapter_name)
{
  gboolean is_gate_up = g_str_has_suffix (target, GATE_UP);
  gsize length = strlen (target) - (is_gate_up ? strlen (GATE_UP) : strlen (DOWN));

  return g_strdup_printf ("%.*s%s.%s.%s.weight", (gint) length, target, is_gate_up ? "base_layer" : "",
                          matrix, adapter_name);
}

static WeftWeightTransform *
derive_converter (WeftWeightTransform *converter, const Fusing *fusing, const gchar *adapter_name,
                  guint n_experts, GError **error)
{
  const gchar *const *written = weft_weight_transform_get_written_sources (converter);
  g_autoptr (GStrvBuilder) sources = g_strv_builder_new ();
  g_auto (GStrv) source_patterns = NULL;
  g_autofree gchar *target =
      derive_target (weft_weight_transform_get_written_targets (converter)[0], fusing->matrix, adapter_name);
  g_autoptr (GPtrArray) operations = make_operations (fusing, n_experts, error);
  WeftWeightTransform *derived;

  if (operations == NULL)
    return NULL;
  for (guint i = 0; written[i] != NULL; i++)
    {
      g_autofree gchar *source = derive_source (written[i], fusing->matrix, adapter_name);

      g_strv_builder_add (sources, source);
    }
  source_patterns = g_strv_builder_end (sources);
  derived = weft_weight_converter_new ((const gchar *const *) source_patterns,
                                       (const gchar *const[]){ target, NULL }, operations, FALSE, error);
  if (derived == NULL)
    return NULL;
  weft_weight_transform_set_scope (derived, weft_weight_transform_get_scope_prefix (converter),
                                   weft_weight_transform_get_base_model_prefix (converter));
  weft_weight_transform_set_origin (derived, weft_weight_transform_get_origin (converter),
                                    weft_weight_transform_get_origin_index (converter));
  weft_weight_transform_set_origin_model (derived, weft_weight_transform_get_origin_path (converter),
                                          weft_weight_transform_get_origin_via (converter));
  return derived;
}

/* Whether a converter makes a fused parameter of experts: only for such does an adapter have parts to fuse. */
static gboolean
fuses_experts (WeftWeightTransform *converter)
{
  const gchar *const *sources = weft_weight_transform_get_written_sources (converter);
  const gchar *const *targets = weft_weight_transform_get_written_targets (converter);

  if (targets[0] == NULL || targets[1] != NULL
      || !(g_str_has_suffix (targets[0], GATE_UP) || g_str_has_suffix (targets[0], DOWN)))
    return FALSE;
  for (guint i = 0; sources[i] != NULL; i++)
    if (strstr (sources[i], "*.") == NULL && strstr (sources[i], "*\\.") == NULL)
      return FALSE;
  return TRUE;
}

/* Puts the two converters of an adapter in the place of the one at @position; moves it behind them. */
static gboolean
replace_converter (WeftTransformList *list, guint *position, const gchar *adapter_name, guint n_experts,
                   GError **error)
{
  g_autoptr (WeftWeightTransform) converter =
      g_object_ref (weft_transform_list_get_transform (list, *position));
  const Fusing *fusings =
      weft_weight_transform_get_written_sources (converter)[1] != NULL ? joined_fusings : single_fusings;

  weft_transform_list_remove (list, *position);
  for (guint i = 0; i < G_N_ELEMENTS (joined_fusings) && fuses_experts (converter); i++)
    {
      g_autoptr (WeftWeightTransform) derived =
          derive_converter (converter, &fusings[i], adapter_name, n_experts, error);

      if (derived == NULL)
        return FALSE;
      weft_transform_list_insert (list, (*position)++, derived);
    }
  return TRUE;
}

static gboolean
insert_renaming (WeftTransformList *list, guint position, const gchar *source, const gchar *target,
                 GError **error)
{
  g_autoptr (WeftWeightTransform) renaming = weft_weight_renaming_new (
      (const gchar *const[]){ source, NULL }, (const gchar *const[]){ target, NULL }, error);

  if (renaming == NULL)
    return FALSE;
  weft_weight_transform_set_origin (renaming, ORIGIN, position);
  weft_transform_list_insert (list, position, renaming);
  return TRUE;
}

/* A name that goes into patterns and names of tensors. */
static gboolean
check_adapter_name (const gchar *adapter_name, GError **error)
{
  gsize length = strlen (adapter_name);

  if (length > 0 && strspn (adapter_name, G_CSET_a_2_z G_CSET_A_2_Z G_CSET_DIGITS "_-") == length)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "'%s' is no name for an adapter; expected letters, digits, '_' and '-'", adapter_name);
  return FALSE;
}

/**
 * weft_adapter_derive_transforms:
 * @transforms: the rules of a model, as weft_load_options_assemble() gives them
 * @adapter_name: the name that the runtime gives the adapter, such as `default`
 * @n_experts: the number of experts, without which fused weights cannot be taken apart again; 0 if it is not known
 * @error: return location
 *
 * Edits a copy of the rules of a model so that they convert low-rank adapters for it: the prefix of adapter files goes, the name of the
 * adapter comes behind `lora_A` and `lora_B`, renamings stay, a converter that fuses experts becomes two, one for each matrix, and
 * other converters go.
 *
 * Returns: (transfer full): the rules
 * Errors: %WEFT_ERROR_ARGUMENT if @adapter_name is no name, %WEFT_ERROR_MISSING if no plugin has an op that is needed,
 *   %WEFT_ERROR_PATTERN if a rule does not lend itself to it
 * Since: 1.0
 */
WeftTransformList *
weft_adapter_derive_transforms (WeftTransformList *transforms, const gchar *adapter_name, guint n_experts,
                                GError **error)
{
  g_autoptr (WeftTransformList) list = weft_transform_list_copy (transforms, error);
  g_autofree gchar *named = g_strdup_printf ("\\1.%s", adapter_name);

  if (list == NULL || !check_adapter_name (adapter_name, error))
    return NULL;
  for (guint i = 0; i < weft_transform_list_get_n_transforms (list);)
    if (!weft_transform_list_is_converter (list, i))
      i++;
    else if (!replace_converter (list, &i, adapter_name, n_experts, error))
      return NULL;
  if (!insert_renaming (list, 0, "^base_model\\.model\\.", "", error)
      || !insert_renaming (list, 1, "(lora_[^\\.]*)", named, error))
    return NULL;
  return g_steal_pointer (&list);
}

/* How many experts the names of an adapter speak of. */
static guint
count_experts (WeftStateDict *published)
{
  static const gchar word[] = "experts.";
  guint64 n = 0;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (published); i++)
    {
      const gchar *at = strstr (weft_state_dict_get_name (published, i), word);

      if (at != NULL && g_ascii_isdigit (at[strlen (word)]))
        n = MAX (n, MIN (g_ascii_strtoull (at + strlen (word), NULL, 10), MAX_EXPERTS) + 1);
    }
  return n <= MAX_EXPERTS ? (guint) n : 0;
}

/* The path of the module that a weight of an adapter is for; NULL if the name is none of an adapter. */
static gchar *
find_module (const gchar *name)
{
  const gchar *lora = strstr (name, ".lora_");
  g_autoptr (GString) module = lora != NULL ? g_string_new_len (name, lora - name) : NULL;

  if (module == NULL)
    return NULL;
  if (g_str_has_suffix (module->str, ".base_layer"))
    g_string_truncate (module, module->len - strlen (".base_layer"));
  return g_string_free (g_steal_pointer (&module), FALSE);
}

/* Whether the model has a tensor of that module. */
static gboolean
has_module (WeftModuleTree *tree, const gchar *module)
{
  gsize length = strlen (module);

  for (guint i = 0; i < weft_module_tree_get_n_tensors (tree); i++)
    {
      const gchar *name = weft_module_tree_get_tensor_name (tree, i);

      if (strncmp (name, module, length) == 0 && name[length] == '.')
        return TRUE;
    }
  return FALSE;
}

/* A matrix without its partner is half an adapter. */
static void
find_missing_partner (WeftLoadPlan *plan, const gchar *name)
{
  static const gchar *const partners[2][2] = { { ".lora_A.", ".lora_B." }, { ".lora_B.", ".lora_A." } };

  for (guint i = 0; i < G_N_ELEMENTS (partners); i++)
    {
      const gchar *at = strstr (name, partners[i][0]);
      g_autofree gchar *partner = NULL;

      if (at == NULL)
        continue;
      partner = g_strdup_printf ("%.*s%s%s", (gint) (at - name), name, partners[i][1],
                                 at + strlen (partners[i][0]));
      if (weft_state_dict_lookup (plan->outputs, partner) == NULL)
        weft_load_report_add (plan->report, WEFT_FINDING_MISSING, partner,
                              "the other matrix of the pair is in the adapter");
    }
}

/* What an adapter lacks, and what of it the model has no place for. @tree: nullable. */
static void
judge (WeftLoadPlan *plan, WeftModuleTree *tree)
{
  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (plan->outputs, i);
      g_autofree gchar *module = find_module (name);

      find_missing_partner (plan, name);
      if (tree != NULL && weft_module_tree_has_tensors (tree) && module != NULL && !has_module (tree, module))
        weft_load_report_add (plan->report, WEFT_FINDING_UNEXPECTED, name,
                              "the model has no such module; carried along");
    }
}

static gboolean
convert_config (WeftLoadPlan *plan, GError **error)
{
  const gchar *folder = weft_checkpoint_get_folder (plan->checkpoint);
  g_autofree gchar *path =
      folder != NULL ? g_build_filename (folder, WEFT_ADAPTER_CONFIG_FILE_NAME, NULL) : NULL;
  g_autoptr (JsonNode) config = path != NULL ? weft_json_load_file (path, error) : NULL;
  g_autoptr (GBytes) content = NULL;
  gchar *text;

  if (path == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "%s: an adapter is a folder with %s and its weights; give the folder",
                 weft_checkpoint_get_path (plan->checkpoint), WEFT_ADAPTER_CONFIG_FILE_NAME);
  if (config == NULL)
    return FALSE;
  text = weft_adapter_convert_config (config, path, plan->transforms, plan->outputs, error);
  if (text == NULL)
    return FALSE;
  content = g_bytes_new_take (text, strlen (text));
  weft_load_plan_replace_file (plan, WEFT_ADAPTER_CONFIG_FILE_NAME, content);
  return TRUE;
}

/* The rules of the base model, edited, and what else the caller asks for. */
static WeftLoadOptions *
make_options (WeftLoadOptions *given, WeftTransformList *derived)
{
  WeftLoadOptions *options = weft_load_options_new ();

  weft_load_options_set_transforms (options, derived);
  weft_load_options_set_flags (options, weft_load_options_get_flags (given));
  weft_load_options_set_max_shard_bytes (options, weft_load_options_get_max_shard_bytes (given));
  weft_load_options_set_is_hashed (options, weft_load_options_get_is_hashed (given));
  weft_load_options_set_dtype (options, weft_load_options_get_dtype (given), NULL);
  return options;
}

/**
 * weft_load_plan_new_for_adapter:
 * @adapter: an open adapter: a folder with `adapter_config.json` and low-rank weights
 * @base_config: (nullable): the content of the base model's `config.json`
 * @where: what messages call it, such as its path
 * @adapter_name: the name that the runtime gives the adapter, such as `default`
 * @options: (nullable): what says which rules the base model has (mapping, model type, module tree, registry, key mapping), and
 *   how to load
 * @error: return location
 *
 * Compiles a plan that takes an adapter to the runtime layout of its base model, by the rules of weft_adapter_derive_transforms().
 * Written to a folder, it also has the converted `adapter_config.json`.
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_MISSING if the config of the adapter is, %WEFT_ERROR_FORMAT if it is malformed or for another kind of adapter,
 *   %WEFT_ERROR_CONFLICT if it names a part of what the base model fuses; those of weft_load_plan_new()
 * Since: 1.0
 */
WeftLoadPlan *
weft_load_plan_new_for_adapter (WeftCheckpoint *adapter, JsonNode *base_config, const gchar *where,
                                const gchar *adapter_name, WeftLoadOptions *options, GError **error)
{
  g_autoptr (WeftLoadOptions) base_options =
      options != NULL ? g_object_ref (options) : weft_load_options_new ();
  g_autoptr (WeftTransformList) rules = weft_load_options_assemble (base_options, base_config, where, error);
  g_autoptr (WeftTransformList) derived =
      rules != NULL ? weft_adapter_derive_transforms (
          rules, adapter_name, count_experts (weft_checkpoint_get_state_dict (adapter)), error)
                    : NULL;
  g_autoptr (WeftLoadOptions) adapter_options = NULL;
  g_autoptr (WeftModuleTree) tree = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;

  if (derived == NULL)
    return NULL;
  adapter_options = make_options (base_options, derived);
  plan = weft_load_plan_new (adapter, adapter_options, error);
  if (plan == NULL)
    return NULL;
  tree = weft_caller_find_model (base_options, base_config, where, NULL, NULL);
  judge (plan, tree);
  if (weft_checkpoint_get_n_shards (adapter) == 1)
    plan->file_name = g_strdup (weft_shard_get_file_name (weft_checkpoint_get_shard (adapter, 0)));
  return convert_config (plan, error) ? g_steal_pointer (&plan) : NULL;
}
