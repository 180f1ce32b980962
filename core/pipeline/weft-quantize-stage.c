/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-quantize-stage-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "pipeline/weft-carry-private.h"
#include "pipeline/weft-load-options-private.h"
#include "quantize/weft-quantization-config-internal.h"

#define CONFIG_FILE_NAME "config.json"
#define MEMBER WEFT_QUANTIZATION_METADATA_NAME
#define REASON "it is quantized, and codes do not give the values back exactly"

/* What methods leave dense if nobody says: heads and routers of experts. */
static const gchar *const default_dense[] = {
  "lm_head",    "head",       "embed_out",
  "score",      "classifier", "router",
  "qa_outputs", "mlp.gate",   "block_sparse_moe.gate",
};

/* Modules that are no linear layer, by the last part of their path. */
static gboolean
is_embedding_or_norm (const gchar *path)
{
  static const gchar *const names[] = { "wte", "wpe", "shared", NULL };
  const gchar *dot = strrchr (path, '.');
  const gchar *name = dot != NULL ? dot + 1 : path;

  return g_strv_contains (names, name) || (strstr (name, "embed") != NULL && !g_str_equal (name, "embed_out"))
         || strstr (name, "norm") != NULL;
}

/* Whether the weight of two axes of a module is that of a linear layer: by the module's class, or without one by its name.
 * Stacked experts are the affair of the method. */
static gboolean
is_linear (WeftLoadPlan *plan, const gchar *path, WeftTensor *tensor)
{
  g_autoptr (WeftModule) module = plan->tree != NULL ? weft_module_tree_find_module (plan->tree, path) : NULL;
  const gchar *class_name = module != NULL ? weft_module_get_class_name (module) : WEFT_UNKNOWN_MODULE_CLASS;

  if (weft_tensor_get_rank (tensor) != 2)
    return TRUE;
  if (g_strcmp0 (class_name, WEFT_UNKNOWN_MODULE_CLASS) == 0)
    return !is_embedding_or_norm (path);
  return strstr (class_name, "Linear") != NULL || g_str_equal (class_name, "Conv1D");
}

static gboolean
is_left_dense (WeftLoadPlan *plan, const gchar *path)
{
  if (weft_load_options_has_dense_modules (plan->options))
    return weft_load_options_is_module_dense (plan->options, path);
  for (guint i = 0; i < G_N_ELEMENTS (default_dense); i++)
    if (weft_quantization_config_matches_module (default_dense[i], path))
      return TRUE;
  return FALSE;
}

/* Whether an entry of what is to be left dense is there, or a name that models may have. */
static gboolean
is_entry_used (WeftLoadPlan *plan, const gchar *entry)
{
  for (guint i = 0; i < G_N_ELEMENTS (default_dense); i++)
    if (g_str_equal (entry, default_dense[i]))
      return TRUE;
  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (plan->outputs, i);
      g_autoptr (WeftPackedWeight) weight = weft_packed_weight_new (name);
      g_autofree gchar *path = weft_packed_weight_dup_module_path (weight);

      if (weft_quantization_config_matches_module (entry, path)
          || weft_quantization_config_matches_module (entry, name))
        return TRUE;
    }
  return FALSE;
}

static gboolean
check_entries (WeftLoadPlan *plan, GError **error)
{
  const gchar *entry;

  for (guint i = 0; (entry = weft_load_options_get_dense_module (plan->options, i)) != NULL; i++)
    if (!is_entry_used (plan, entry))
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_MISSING,
            "%s: '%s' of what is to be kept dense matches no module: expected a path, its beginning or its end in "
            "whole parts, with * for any text, or re:REGEX; `weft inspect` lists the names",
            weft_checkpoint_get_path (plan->checkpoint), entry);
        return FALSE;
      }
  return TRUE;
}

/* Whether a tensor that stays as it is would be read as codes. */
static gboolean
looks_packed (WeftLoadPlan *plan, const gchar *name, WeftTensor *tensor)
{
  WeftDtype dtype = weft_tensor_get_dtype (tensor);
  const gchar *role = NULL;
  g_autofree gchar *dense_name = weft_quantizer_find_part (plan->quantizer, name, &role);
  g_autoptr (WeftPackedWeight) weight = NULL;

  if (dense_name == NULL || g_strcmp0 (role, WEFT_ROLE_CODES) != 0
      || (weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) > 8))
    return FALSE;
  weight = weft_packed_weight_new (dense_name);
  return weft_packed_weight_add_stored_part (weight, role, name, 0, tensor, NULL)
         && (!weft_quantizer_describe (plan->quantizer, weight, NULL)
             || weft_packed_weight_is_packed (weight));
}

static gboolean
add_part (WeftLoadPlan *plan, WeftStateDict *outputs, GPtrArray *conversions, const gchar *name,
          WeftTensor *tensor, WeftConversion *conversion, GError **error)
{
  g_ptr_array_add (conversions, conversion);
  return weft_state_dict_add (outputs, name, tensor, error);
}

static gboolean
add_packed (WeftLoadPlan *plan, WeftPackedWeight *weight, WeftStateDict *outputs, GPtrArray *conversions,
            WeftConversion *conversion, GError **error)
{
  if (!weft_quantizer_quantize (plan->quantizer, weight, error))
    return FALSE;
  g_ptr_array_add (plan->quantized, g_object_ref (weight));
  if (conversion->proof != WEFT_PROOF_LOSSY)
    {
      weft_conversion_set_lossy (conversion, REASON);
      weft_load_report_add (plan->report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer, REASON);
    }
  for (guint i = 0; i < weft_packed_weight_get_n_parts (weight); i++)
    {
      const gchar *role = weft_packed_weight_get_role (weight, i);

      if (!add_part (plan, outputs, conversions, weft_packed_weight_get_key (weight, role),
                     weft_packed_weight_get_tensor (weight, role), conversion, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
refuse_packed (WeftLoadPlan *plan, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "%s: its weights are packed (%s), and codes cannot be quantized; ask for --dequantize too",
               weft_checkpoint_get_path (plan->checkpoint),
               weft_quantizer_get_name (weft_packed_weights_get_quantizer (plan->packed)));
  return FALSE;
}

/* A config that says what no weight is would be wrong. */
static gboolean
refuse_nothing (WeftLoadPlan *plan, GError **error)
{
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_MISSING,
      "%s: '%s' packs no weight of it: none is of a kind that the scheme takes, or all are kept dense",
      weft_checkpoint_get_path (plan->checkpoint), weft_load_options_get_quantization_scheme (plan->options));
  return FALSE;
}

static gboolean
find_quantizer (WeftLoadPlan *plan, GError **error)
{
  g_autoptr (WeftQuantizationConfig) config = weft_quantization_config_new_for_scheme (
      weft_load_options_get_quantization_scheme (plan->options),
      weft_load_options_get_quantization_parameters (plan->options), plan->config);

  plan->quantizer = weft_quantizer_new_for_scheme (config, error);
  return plan->quantizer != NULL;
}

gboolean
weft_quantize_stage_run (WeftLoadPlan *plan, GError **error)
{
  g_autoptr (WeftStateDict) outputs = NULL;
  g_autoptr (GPtrArray) conversions = NULL;
  g_autoptr (GHashTable) skipped = NULL;

  if (weft_load_options_get_quantization_scheme (plan->options) == NULL)
    return TRUE;
  if (plan->packed != NULL && weft_packed_weights_get_n_packed (plan->packed) > 0
      && !weft_load_plan_is_dequantized (plan))
    return refuse_packed (plan, error);
  if (!find_quantizer (plan, error) || !check_entries (plan, error))
    return FALSE;
  outputs = weft_state_dict_new ();
  conversions = g_ptr_array_new ();
  skipped = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (plan->outputs, i);
      WeftTensor *tensor = weft_state_dict_get_tensor (plan->outputs, i);
      WeftConversion *conversion = plan->output_conversions->pdata[i];
      g_autoptr (WeftPackedWeight) weight = weft_packed_weight_new (name);
      g_autofree gchar *path = weft_packed_weight_dup_module_path (weight);
      gboolean is_eligible, ok;

      weft_packed_weight_set_dense (weight, tensor);
      is_eligible = weft_quantizer_is_eligible (plan->quantizer, weight);
      if (is_eligible && is_linear (plan, path, tensor) && !is_left_dense (plan, path)
          && !is_left_dense (plan, name))
        ok = add_packed (plan, weight, outputs, conversions, conversion, error);
      else
        {
          if ((is_eligible || looks_packed (plan, name, tensor)) && g_hash_table_add (skipped, path))
            g_ptr_array_add (plan->dense_modules, g_steal_pointer (&path));
          ok = add_part (plan, outputs, conversions, name, tensor, conversion, error);
        }
      if (!ok)
        return FALSE;
    }
  if (plan->quantized->len == 0)
    return refuse_nothing (plan, error);
  g_set_object (&plan->outputs, outputs);
  g_ptr_array_unref (plan->output_conversions);
  plan->output_conversions = g_steal_pointer (&conversions);
  return TRUE;
}

/* The config. */

gchar *
weft_quantize_stage_clean_config (const gchar *text, const gchar *where, GError **error)
{
  g_autofree gchar *edited = g_strdup (text);

  while (edited != NULL)
    {
      g_autoptr (JsonNode) root = weft_json_parse (edited, -1, where, error);
      g_autoptr (WeftQuantizationConfig) config = root != NULL ? weft_quantization_config_new (root) : NULL;
      gchar *next;

      if (config == NULL)
        return NULL;
      if (!weft_quantization_config_is_there (config))
        return g_steal_pointer (&edited);
      next =
          weft_json_replace_member (edited, weft_quantization_config_get_path (config), NULL, where, error);
      /* Each round takes one away. */
      if (next != NULL && strlen (next) >= strlen (edited))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "%s: '%s' cannot be removed", where,
                       weft_quantization_config_get_path (config));
          g_clear_pointer (&next, g_free);
        }
      g_free (edited);
      edited = next;
    }
  return NULL;
}

/* What the rules make of an entry of a list of modules: a plain path that names a module of the checkpoint. */
static gchar *
rename_entry (WeftTransformList *rules, const gchar *entry)
{
  g_autofree gchar *key = g_strconcat (entry, ".weight", NULL);
  g_autoptr (WeftRenamedKey) renamed = strpbrk (entry, "*:^$()[]\\|") == NULL
                                           ? weft_transform_list_rename_key (rules, key, NULL, NULL, NULL)
                                           : NULL;
  const gchar *name = renamed != NULL ? weft_renamed_key_get_name (renamed) : NULL;

  if (name == NULL || !g_str_has_suffix (name, ".weight"))
    return g_strdup (entry);
  return g_strndup (name, strlen (name) - strlen (".weight"));
}

/* A list with its entries renamed, as JSON text; NULL if that changes nothing. */
static gchar *
rename_list (WeftTransformList *rules, JsonArray *array)
{
  g_autoptr (GString) json = g_string_new ("[");
  gboolean is_changed = FALSE;

  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      g_autofree gchar *text = weft_json_to_text (element, FALSE);

      if (i > 0)
        g_string_append (json, ", ");
      if (JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_STRING)
        {
          g_autofree gchar *renamed = rename_entry (rules, json_node_get_string (element));

          is_changed |= strcmp (renamed, json_node_get_string (element)) != 0;
          weft_json_append_text (json, renamed, FALSE);
        }
      else
        g_string_append (json, text);
    }
  g_string_append_c (json, ']');
  return is_changed ? g_string_free (g_steal_pointer (&json), FALSE) : NULL;
}

/* The list of modules @name of the object at @path, if there is one, gets the names that they have in the output. */
static gboolean
rename_member (WeftTransformList *rules, JsonNode *root, const gchar *path, const gchar *name,
               const gchar *where, gchar **text, GError **error)
{
  g_autofree gchar *list_path = g_strconcat (path, ".", name, NULL);
  JsonNode *node = weft_json_lookup (root, list_path);
  g_autofree gchar *value =
      node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? rename_list (rules, json_node_get_array (node)) : NULL;
  gchar *edited;

  if (value == NULL)
    return TRUE;
  edited = weft_json_replace_member (*text, list_path, value, where, error);
  if (edited == NULL)
    return FALSE;
  g_free (*text);
  *text = edited;
  return TRUE;
}

/* All lists of modules of the object at @path (NULL: there are none). */
static gchar *
rename_lists (WeftLoadPlan *plan, const gchar *text, const gchar *path, const gchar *where, GError **error)
{
  g_autoptr (WeftTransformList) rules = weft_transform_list_copy (plan->transforms, error);
  g_autoptr (JsonNode) root = rules != NULL ? weft_json_parse (text, -1, where, error) : NULL;
  g_autofree gchar *edited = g_strdup (text);

  if (root == NULL)
    return NULL;
  if (path == NULL)
    return g_steal_pointer (&edited);
  for (guint i = 0; weft_quantization_config_skip_lists[i] != NULL; i++)
    if (!rename_member (rules, root, path, weft_quantization_config_skip_lists[i], where, &edited, error))
      return NULL;
  return rename_member (rules, root, path, "modules_to_convert", where, &edited, error)
             ? g_steal_pointer (&edited)
             : NULL;
}

static gchar *
dup_scheme (WeftLoadPlan *plan, GError **error)
{
  gchar *value;

  g_ptr_array_add (plan->dense_modules, NULL);
  value =
      weft_quantizer_dup_config (plan->quantizer, (const gchar *const *) plan->dense_modules->pdata, error);
  g_ptr_array_set_size (plan->dense_modules, (gint) plan->dense_modules->len - 1);
  return value;
}

static gchar *
set_scheme (WeftLoadPlan *plan, const gchar *text, const gchar *where, GError **error)
{
  g_autofree gchar *value = dup_scheme (plan, error);

  return value != NULL ? weft_json_replace_member (text, MEMBER, value, where, error) : NULL;
}

/* (nullable): what the source says of its packed weights. */
static WeftQuantizationConfig *
get_source_config (WeftLoadPlan *plan)
{
  return plan->packed != NULL ? weft_quantizer_get_config (weft_packed_weights_get_quantizer (plan->packed))
                              : NULL;
}

static gchar *
edit (WeftLoadPlan *plan, const gchar *text, const gchar *where, GError **error)
{
  WeftQuantizationConfig *source = get_source_config (plan);
  g_autofree gchar *edited =
      weft_load_plan_is_dequantized (plan) ? weft_quantize_stage_clean_config (text, where, error)
      : source != NULL ? rename_lists (plan, text, weft_quantization_config_get_path (source), where, error)
                       : g_strdup (text);

  if (edited == NULL || plan->quantizer == NULL)
    return g_steal_pointer (&edited);
  return set_scheme (plan, edited, where, error);
}

gchar *
weft_quantize_stage_edit_config (WeftLoadPlan *plan, const gchar *text, GError **error)
{
  const gchar *folder = weft_checkpoint_get_folder (plan->checkpoint);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, CONFIG_FILE_NAME, NULL) : NULL;
  g_autofree gchar *stored = NULL;
  g_autofree gchar *edited = NULL;

  if (plan->packed == NULL && plan->quantizer == NULL)
    return NULL;
  if (text == NULL && (path == NULL || !g_file_get_contents (path, &stored, NULL, NULL)))
    stored = g_strdup ("{}");
  if (text == NULL)
    text = stored;
  edited = edit (plan, text, path != NULL ? path : CONFIG_FILE_NAME, error);
  return edited == NULL || strcmp (edited, text) != 0 ? g_steal_pointer (&edited) : NULL;
}

gchar *
weft_quantize_stage_dup_header_config (WeftLoadPlan *plan, GError **error)
{
  WeftQuantizationConfig *source = weft_load_plan_is_dequantized (plan) ? NULL : get_source_config (plan);
  JsonNode *node = source != NULL ? weft_quantization_config_get_node (source) : NULL;
  g_autofree gchar *stored = NULL;
  g_autofree gchar *edited = NULL;
  g_autofree gchar *text = NULL;
  g_autoptr (JsonNode) root = NULL;

  if (plan->quantizer != NULL)
    return dup_scheme (plan, error);
  if (node == NULL)
    return NULL;
  stored = weft_json_to_text (node, FALSE);
  text = g_strdup_printf ("{\"" MEMBER "\": %s}", stored);
  edited = rename_lists (plan, text, MEMBER, CONFIG_FILE_NAME, error);
  root = edited != NULL ? weft_json_parse (edited, -1, CONFIG_FILE_NAME, error) : NULL;
  return root != NULL ? weft_json_to_text (weft_json_lookup (root, MEMBER), FALSE) : NULL;
}

gchar *
weft_quantize_stage_edit_modelopt (WeftLoadPlan *plan, GError **error)
{
  const gchar *folder = weft_checkpoint_get_folder (plan->checkpoint);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, WEFT_MODELOPT_FILE_NAME, NULL) : NULL;
  g_autofree gchar *stored = NULL;
  g_autofree gchar *edited = NULL;

  if (plan->packed == NULL || weft_load_plan_is_dequantized (plan) || path == NULL
      || !g_file_get_contents (path, &stored, NULL, NULL))
    return NULL;
  edited = rename_lists (plan, stored, WEFT_MODELOPT_MEMBER, path, error);
  return edited != NULL && strcmp (edited, stored) != 0 ? g_steal_pointer (&edited) : NULL;
}
