/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-caller-rules-private.h"

#include "base/weft-json.h"

/* Origins as weft_mapping_assemble() writes them. */
#define KEY_MAPPING "key_mapping"
#define LEGACY "legacy"

static gboolean
append_named (WeftTransformList *list, WeftMappingRegistry *registry, const gchar *name, gboolean is_required,
              GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftTransformList) named = weft_mapping_registry_lookup (registry, name, &local_error);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (named == NULL && is_required)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "there is no mapping '%s'; `weft mappings` lists the names", name);
      return FALSE;
    }
  if (named != NULL)
    weft_transform_list_append_list (list, named);
  return TRUE;
}

WeftTransformList *
weft_caller_rules_assemble (WeftLoadOptions *options, WeftMappingRegistry *registry, gboolean with_legacy,
                            GError **error)
{
  WeftTransformList *mapping = weft_load_options_get_mapping (options);
  const gchar *model_type = weft_load_options_get_model_type (options);
  g_autoptr (WeftTransformList) list =
      weft_transform_list_copy (weft_load_options_get_key_mapping (options), error);
  g_autoptr (WeftTransformList) copy = NULL;

  if (list == NULL)
    return NULL;
  for (guint i = 0; i < weft_transform_list_get_n_transforms (list); i++)
    weft_weight_transform_set_origin (weft_transform_list_get_transform (list, i), KEY_MAPPING, i);
  if (mapping != NULL)
    {
      copy = weft_transform_list_copy (mapping, error);
      if (copy == NULL)
        return NULL;
      weft_transform_list_append_list (list, copy);
    }
  if (model_type != NULL && !append_named (list, registry, model_type, TRUE, error))
    return NULL;
  if (with_legacy && !append_named (list, registry, LEGACY, FALSE, error))
    return NULL;
  return g_steal_pointer (&list);
}

/* The dtype that is asked for by name; invalid: it is the config's. */
static WeftDtype
get_asked_dtype (WeftLoadOptions *options)
{
  return weft_dtype_from_any_name (weft_load_options_get_dtype (options));
}

/* Who gives rules of their own for the model says that it is not what its config says. */
static gboolean
is_open (WeftLoadOptions *options)
{
  return (weft_load_options_get_flags (options) & WEFT_LOAD_FLAGS_OPEN) != 0
         || weft_load_options_get_mapping (options) != NULL
         || weft_load_options_get_transforms (options) != NULL
         || weft_load_options_get_model_type (options) != NULL;
}

WeftModuleTree *
weft_caller_find_model (WeftLoadOptions *options, JsonNode *config, const gchar *where, gchar **open_reason,
                        GError **error)
{
  WeftModuleTree *given = weft_load_options_get_module_tree (options);
  g_autoptr (WeftModuleTree) tree = NULL;
  g_autoptr (GError) cause = NULL;

  if (given != NULL)
    return g_object_ref (given);
  if (config == NULL
      || (weft_json_lookup (config, "model_type") == NULL
          && weft_json_lookup (config, "architectures") == NULL))
    return NULL;
  if (!is_open (options))
    tree = weft_module_tree_new_for_config (NULL, config, where, weft_load_options_get_class_name (options),
                                            get_asked_dtype (options), &cause);
  if (tree != NULL && !weft_module_tree_has_tensors (tree) && open_reason != NULL)
    *open_reason = g_strdup_printf ("of the class '%s' only the models in it are known",
                                    weft_module_tree_get_class (tree));
  if (tree != NULL)
    return g_steal_pointer (&tree);
  if (cause != NULL && !g_error_matches (cause, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED))
    {
      g_propagate_error (error, g_steal_pointer (&cause));
      return NULL;
    }
  if (cause != NULL && open_reason != NULL)
    *open_reason = g_strdup (cause->message);
  return weft_module_tree_new_from_config (config, where, error);
}

WeftMappingRegistry *
weft_caller_find_registry (WeftLoadOptions *options, GError **error)
{
  WeftMappingRegistry *given = weft_load_options_get_registry (options);

  return given != NULL ? g_object_ref (given) : weft_mapping_registry_new (error);
}

WeftTransformList *
weft_caller_find_rules (WeftLoadOptions *options, WeftMappingRegistry *registry, WeftModuleTree *tree,
                        GError **error)
{
  if (weft_load_options_get_transforms (options) != NULL)
    return weft_transform_list_copy (weft_load_options_get_transforms (options), error);
  if (tree == NULL || weft_load_options_get_mapping (options) != NULL
      || weft_load_options_get_model_type (options) != NULL)
    return weft_caller_rules_assemble (options, registry, TRUE, error);
  return weft_mapping_assemble (registry, tree, weft_load_options_get_key_mapping (options), TRUE, error);
}

/**
 * weft_load_options_assemble:
 * @self: options
 * @config: (nullable): the content of the checkpoint's `config.json`, as weft_checkpoint_get_config() gives it
 * @where: what messages call it, such as its path
 * @error: return location
 *
 * Makes the list of rules that a plan with these options would have for a checkpoint with that config: the caller's key mapping,
 * the rules of the model and of its parts with their scopes, those for old names. It is the caller's own: read it, edit it,
 * and give it to weft_load_options_set_transforms().
 *
 * Returns: (transfer full): the rules
 * Errors: %WEFT_ERROR_FORMAT if the config is malformed, those of weft_mapping_registry_lookup()
 * Since: 1.0
 */
WeftTransformList *
weft_load_options_assemble (WeftLoadOptions *self, JsonNode *config, const gchar *where, GError **error)
{
  g_autoptr (WeftMappingRegistry) registry = weft_caller_find_registry (self, error);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftModuleTree) tree =
      registry != NULL ? weft_caller_find_model (self, config, where, NULL, &local_error) : NULL;

  if (registry == NULL)
    return NULL;
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  return weft_caller_find_rules (self, registry, tree, error);
}

gboolean
weft_caller_rules_is_of_model (WeftWeightTransform *rule)
{
  const gchar *origin = weft_weight_transform_get_origin (rule);

  return g_strcmp0 (origin, KEY_MAPPING) != 0 && g_strcmp0 (origin, LEGACY) != 0;
}

gboolean
weft_caller_rules_is_given (WeftLoadOptions *options, WeftMappingRegistry *registry,
                            WeftWeightTransform *rule)
{
  const gchar *origin = weft_weight_transform_get_origin (rule);

  if (!weft_caller_rules_is_of_model (rule))
    return FALSE;
  return weft_load_options_get_mapping (options) != NULL || weft_load_options_get_transforms (options) != NULL
         || (origin != NULL && weft_mapping_registry_is_user_registered (registry, origin));
}

gboolean
weft_caller_rules_check_used (WeftLoadOptions *options, WeftTransformList *rules, WeftCheckpoint *checkpoint,
                              const gchar *layout, GError **error)
{
  gboolean is_given =
      weft_load_options_get_mapping (options) != NULL || weft_load_options_get_model_type (options) != NULL;
  gboolean any_used = FALSE;

  for (guint i = 0; i < weft_transform_list_get_n_transforms (rules); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (rules, i);

      any_used = any_used || (weft_caller_rules_is_of_model (rule) && weft_weight_transform_get_used (rule));
      if (g_strcmp0 (weft_weight_transform_get_origin (rule), KEY_MAPPING) != 0
          || weft_weight_transform_get_used (rule))
        continue;
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_MISSING,
          "key mapping %u ('%s' -> '%s') matches no tensor of the checkpoint; `weft inspect` lists the names",
          weft_weight_transform_get_origin_index (rule) + 1,
          weft_weight_transform_get_written_sources (rule)[0],
          weft_weight_transform_get_written_targets (rule)[0]);
      return FALSE;
    }
  if (!is_given || any_used)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "no rule of the mapping that was asked for matches any of the %u tensors of %s; is it the "
               "mapping of another model, or is the checkpoint in its %s layout already?",
               weft_state_dict_get_n_tensors (weft_checkpoint_get_state_dict (checkpoint)),
               weft_checkpoint_get_path (checkpoint), layout);
  return FALSE;
}
