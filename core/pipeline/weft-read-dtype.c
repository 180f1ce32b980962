/* SPDX-License-Identifier: Apache-2.0 */
/* In which dtype a plan reads: as stored, as the config and the model say, or as the caller asks. */
#include "pipeline/weft-load-plan-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "model/weft-model-config-internal.h"

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

/* The dtype that the config names; one that says `auto`, or nothing, names none. */
static gboolean
find_config_dtype (WeftLoadPlan *self, WeftDtype *dtype, GError **error)
{
  static const gchar *const paths[] = { "dtype", "torch_dtype", "text_config.dtype",
                                        "text_config.torch_dtype" };

  *dtype = WEFT_DTYPE_INVALID;
  for (guint i = 0; self->config != NULL && i < G_N_ELEMENTS (paths); i++)
    {
      JsonNode *node = weft_json_lookup (self->config, paths[i]);

      if (node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING)
        return weft_model_config_read_dtype (json_node_get_string (node), "config.json", dtype, error);
    }
  return TRUE;
}

/* The dtype of the first floating tensor, by name, of the first file that is wider than codes; else of its first tensor. */
static WeftDtype
find_stored_dtype (WeftCheckpoint *checkpoint)
{
  WeftShard *shard =
      weft_checkpoint_get_n_shards (checkpoint) > 0 ? weft_checkpoint_get_shard (checkpoint, 0) : NULL;
  const gchar *first = NULL;
  WeftDtype found = WEFT_DTYPE_INVALID;

  for (guint i = 0; shard != NULL && i < weft_shard_get_n_tensors (shard); i++)
    {
      WeftDtype dtype = weft_tensor_get_dtype (weft_shard_get_tensor (shard, i));
      const gchar *name = weft_shard_get_tensor_name (shard, i);

      if (!weft_dtype_is_floating (dtype) || weft_dtype_get_bits (dtype) <= 8)
        continue;
      if (first == NULL || strcmp (name, first) < 0)
        {
          first = name;
          found = dtype;
        }
    }
  return found;
}

gboolean
weft_load_plan_prepare_dtypes (WeftLoadPlan *self, GError **error)
{
  const gchar *wanted = weft_load_options_get_dtype (self->options);

  if (strcmp (wanted, "keep") == 0)
    return TRUE;
  if (strcmp (wanted, "auto") != 0)
    self->request = weft_dtype_from_any_name (wanted);
  else if (!find_config_dtype (self, &self->request, error))
    return FALSE;
  /* A tree that follows from the config knows no more than that. */
  if (self->request == WEFT_DTYPE_INVALID && weft_load_options_get_module_tree (self->options) != NULL)
    self->request = weft_module_tree_get_dtype (self->tree);
  if (self->request == WEFT_DTYPE_INVALID)
    self->request = find_stored_dtype (self->checkpoint);
  if (self->request == WEFT_DTYPE_INVALID)
    self->request = WEFT_DTYPE_F32;
  return compile_dtype_plan (self, error);
}

static WeftDtype
find_planned_dtype (WeftLoadPlan *self, const gchar *name)
{
  for (guint i = 0; i < self->dtype_patterns->len; i++)
    if (g_regex_match (self->dtype_patterns->pdata[i], name, 0, NULL))
      return weft_module_tree_get_dtype_rule_dtype (self->tree, i);
  return WEFT_DTYPE_INVALID;
}

WeftDtype
weft_load_plan_choose_dtype (WeftLoadPlan *self, const WeftConversion *conversion)
{
  WeftDtype planned, parameter;
  guint position;

  if (self->request == WEFT_DTYPE_INVALID)
    return WEFT_DTYPE_INVALID;
  if (!weft_load_plan_knows_tensors (self)
      || !weft_module_tree_find_tensor (self->tree, conversion->layer, &position))
    {
      guint first = g_array_index (conversion->sources, WeftConversionSource, 0).position;
      WeftTensor *tensor = weft_state_dict_get_tensor (self->published, first);
      gboolean is_auto = strcmp (weft_load_options_get_dtype (self->options), "auto") == 0;

      /* Nothing is known of the model's own dtypes: `auto` keeps what is stored, integers stay integers. */
      return is_auto || !weft_dtype_is_floating (weft_tensor_get_dtype (tensor)) ? WEFT_DTYPE_INVALID
                                                                                 : self->request;
    }
  planned = find_planned_dtype (self, conversion->layer);
  if (planned != WEFT_DTYPE_INVALID)
    return planned;
  parameter = weft_module_tree_get_tensor_dtype (self->tree, position);
  return parameter != weft_module_tree_get_dtype (self->tree) ? parameter : self->request;
}
