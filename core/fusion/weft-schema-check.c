/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-schema-check-private.h"

#include <string.h>

#include "base/weft-text.h"
#include "fusion/weft-module-tensors-private.h"
#include "transform/weft-stage-internal.h"

static gboolean
is_same_entry (WeftModule *a, WeftModule *b, const gchar *name)
{
  return weft_module_find_tensor (a, name) == weft_module_find_tensor (b, name);
}

/* A tensor that keeps its name is taken over, not made anew. */
static gboolean
check_kept (const WeftSchemaCheck *self, const gchar *name, GError **error)
{
  if (is_same_entry (self->module, self->replacement, name))
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
      "'%s' keeps its name but is another entry in the replacement; a replacement takes tensors over (copy the "
      "module), it does not make look-alikes",
      name);
  return FALSE;
}

/* Without rules every tensor stays, the buffers that no checkpoint holds included. */
static gboolean
check_structure (const WeftSchemaCheck *self, GError **error)
{
  g_auto (GStrv) old_names = weft_module_list_tensors (self->module);
  g_auto (GStrv) new_names = weft_module_list_tensors (self->replacement);

  for (guint i = 0; old_names[i] != NULL; i++)
    if (!g_strv_contains ((const gchar *const *) new_names, old_names[i]))
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                     "'%s' vanishes, and there is no rule that takes it anywhere", old_names[i]);
        return FALSE;
      }
    else if (!check_kept (self, old_names[i], error))
      return FALSE;
  for (guint i = 0; new_names[i] != NULL; i++)
    if (!g_strv_contains ((const gchar *const *) old_names, new_names[i]))
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
                     "'%s' is new, and there is no rule that makes it", new_names[i]);
        return FALSE;
      }
  return TRUE;
}

/* A pattern that names the path of the module would never match: rules see names relative to it. */
static gboolean
check_relative (const WeftSchemaCheck *self, GError **error)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->rules); i++)
    {
      const gchar *const *sources =
          weft_weight_transform_get_written_sources (weft_transform_list_get_transform (self->rules, i));

      for (guint j = 0; sources[j] != NULL; j++)
        {
          g_auto (GStrv) parts = g_strsplit (sources[j] + (sources[j][0] == '^'), "\\", -1);
          g_autofree gchar *plain = g_strjoinv ("", parts);
          gsize length = strlen (self->fqn);

          if (length == 0 || strncmp (plain, self->fqn, length) != 0 || plain[length] != '.')
            continue;
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_PATTERN,
              "source pattern '%s' holds the path of the module; patterns are relative to it, as '%s'",
              sources[j], plain + length + 1);
          return FALSE;
        }
    }
  return TRUE;
}

/* One tensor meets one rule. */
static gboolean
check_claimed_once (const WeftSchemaCheck *self, const gchar *name, GError **error)
{
  gint first = -1;

  for (guint i = 0; i < weft_transform_list_get_n_transforms (self->rules); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (self->rules, i);
      g_autoptr (GError) local_error = NULL;
      g_autofree gchar *pattern = NULL;
      g_autofree gchar *renamed = weft_weight_transform_rename_key (rule, name, &pattern, &local_error);

      if (local_error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&local_error));
          return FALSE;
        }
      if (renamed == NULL || pattern == NULL)
        continue;
      if (first >= 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "'%s' is claimed by two rules, %d and %u",
                       name, first + 1, i + 1);
          return FALSE;
        }
      first = (gint) i;
    }
  weft_transform_list_reset (self->rules);
  return TRUE;
}

/* Files a name under who claims it; one that is filed is another's. */
static gboolean
claim (const WeftSchemaCheck *self, GHashTable *claims, const gchar *name, const gchar *what, GError **error)
{
  g_autofree gchar *full_name = weft_module_tensors_join (self->fqn, name);
  const gchar *other = g_hash_table_lookup (claims, full_name);

  if (other != NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "'%s' is %s by %s already", full_name, what,
                   other);
      return FALSE;
    }
  g_hash_table_insert (claims, g_steal_pointer (&full_name), g_strdup (self->origin));
  return TRUE;
}

static gboolean
check_conversion (const WeftSchemaCheck *self, WeftStage *stage, WeftConversion *conversion,
                  GHashTable *taken, GHashTable *made, GError **error)
{
  for (guint i = 0; i < conversion->sources->len; i++)
    {
      const gchar *name = weft_state_dict_get_name (
          stage->inputs, g_array_index (conversion->sources, WeftConversionSource, i).position);

      if (weft_module_find_tensor (self->replacement, name) != NULL
          && is_same_entry (self->module, self->replacement, name))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                       "'%s' stays, and a rule claims it all the same", name);
          return FALSE;
        }
      if (!claim (self, taken, name, "taken in", error))
        return FALSE;
    }
  for (guint i = 0; i < conversion->outputs->len; i++)
    if (!claim (self, made, g_array_index (conversion->outputs, WeftConversionOutput, i).name, "made", error))
      return FALSE;
  if (conversion->proof == WEFT_PROOF_EXACT)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE, "'%s' does not come back exactly: %s",
               conversion->layer,
               conversion->proof_reason != NULL ? conversion->proof_reason : "its ops drop elements");
  return FALSE;
}

/* What the rules made against what the replacement has. */
static gboolean
check_new_tensor (const WeftSchemaCheck *self, WeftStage *stage, const gchar *name, GError **error)
{
  WeftTensorSpec *spec = weft_module_find_tensor (self->replacement, name);
  WeftTensor *tensor = weft_state_dict_lookup (stage->outputs, name);
  g_autofree gchar *expected = NULL;
  g_autofree gchar *found = NULL;

  if (tensor == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "'%s' is new, and no target pattern makes it",
                   name);
      return FALSE;
    }
  if (weft_shape_equal (weft_tensor_spec_get_shape (spec), weft_tensor_get_shape (tensor))
      && weft_tensor_spec_get_dtype (spec) == weft_tensor_get_dtype (tensor))
    return TRUE;
  expected = weft_shape_to_string (weft_tensor_spec_get_shape (spec));
  found = weft_shape_to_string (weft_tensor_get_shape (tensor));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s' is %s %s in the replacement, the rules make %s %s",
               name, weft_dtype_get_name (weft_tensor_spec_get_dtype (spec)), expected,
               weft_dtype_get_name (weft_tensor_get_dtype (tensor)), found);
  return FALSE;
}

/* Every name of the replacement is made or stays; every name that the rules leave is one of the replacement. */
static gboolean
check_names (const WeftSchemaCheck *self, WeftStage *stage, GError **error)
{
  g_auto (GStrv) new_names = weft_module_list_tensors (self->replacement);

  for (guint i = 0; new_names[i] != NULL; i++)
    {
      WeftTensorSpec *old = weft_module_find_tensor (self->module, new_names[i]);

      if (old != NULL && old == weft_module_find_tensor (self->replacement, new_names[i]))
        continue;
      if (old != NULL)
        return check_kept (self, new_names[i], error);
      if (weft_tensor_spec_is_persistent (weft_module_find_tensor (self->replacement, new_names[i]))
          && !check_new_tensor (self, stage, new_names[i], error))
        return FALSE;
    }
  for (guint i = 0; i < weft_state_dict_get_n_tensors (stage->outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (stage->outputs, i);

      if (weft_module_find_tensor (self->replacement, name) != NULL)
        continue;
      if (stage->makers->pdata[i] == NULL)
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "'%s' vanishes, and no source pattern covers it",
                     name);
      else
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
                     "the rules make '%s', which the replacement does not have", name);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_rules (const WeftSchemaCheck *self, GHashTable *taken, GHashTable *made, GError **error)
{
  g_autoptr (WeftStateDict) inputs = weft_module_tensors_to_state_dict (self->module, "", error);
  g_autoptr (WeftStage) stage = NULL;

  if (inputs == NULL || !check_relative (self, error))
    return FALSE;
  for (guint i = 0; i < weft_state_dict_get_n_tensors (inputs); i++)
    if (!check_claimed_once (self, weft_state_dict_get_name (inputs, i), error))
      return FALSE;
  stage = weft_stage_run (inputs, self->rules, self->facts, error);
  if (stage == NULL)
    return FALSE;
  if (stage->failures->len > 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "'%s': %s",
                   (const gchar *) stage->failures->pdata[0], (const gchar *) stage->failures->pdata[1]);
      return FALSE;
    }
  for (guint i = 0; i < stage->conversions->len; i++)
    if (!check_conversion (self, stage, stage->conversions->pdata[i], taken, made, error))
      return FALSE;
  return check_names (self, stage, error);
}

gboolean
weft_schema_check_run (const WeftSchemaCheck *self, GHashTable *taken, GHashTable *made, GError **error)
{
  return weft_transform_list_get_n_transforms (self->rules) > 0 ? check_rules (self, taken, made, error)
                                                                : check_structure (self, error);
}
