/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-repeated-rename-private.h"

#include <string.h>

#include "transform/weft-weight-renaming.h"

/* Whether the text that @regex matches in @key is a part of an occurrence of @target. */
static gboolean
matches_inside_target (GRegex *regex, const gchar *key, const gchar *target)
{
  g_autoptr (GMatchInfo) match = NULL;
  gint start, end;

  if (strstr (key, target) == NULL || !g_regex_match (regex, key, 0, &match)
      || !g_match_info_fetch_pos (match, 0, &start, &end) || start == end)
    return FALSE;
  for (const gchar *at = strstr (key, target); at != NULL && at - key <= start; at = strstr (at + 1, target))
    if (end <= at - key + (gssize) strlen (target))
      return TRUE;
  return FALSE;
}

/* The regex of a rule that could fire on its own target; %NULL for all others. Kinds with a guard of their own are none. */
static GRegex *
find_regex (WeftWeightTransform *rule)
{
  const gchar *target =
      G_OBJECT_TYPE (rule) == WEFT_TYPE_WEIGHT_RENAMING && weft_weight_transform_get_used (rule)
          ? weft_weight_transform_get_target_patterns (rule)[0]
          : NULL;
  g_autoptr (GRegex) regex = NULL;

  if (target == NULL || strchr (target, '\\') != NULL)
    return NULL;
  regex = g_regex_new (weft_weight_transform_get_regex (rule), 0, 0, NULL);
  return regex != NULL && g_regex_match (regex, target, 0, NULL) ? g_steal_pointer (&regex) : NULL;
}

gboolean
weft_repeated_rename_refuse (WeftTransformList *rules, WeftStateDict *published, GError **error)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (rules); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (rules, i);
      g_autoptr (GRegex) regex = find_regex (rule);

      for (guint j = 0; regex != NULL && j < weft_state_dict_get_n_tensors (published); j++)
        {
          const gchar *key = weft_state_dict_get_name (published, j);
          const gchar *target = weft_weight_transform_get_target_patterns (rule)[0];
          g_autofree gchar *description = NULL;
          gsize consumed;

          if (!weft_weight_transform_enter_scope (rule, key, &consumed)
              || !matches_inside_target (regex, key + consumed, target))
            continue;
          description = weft_weight_transform_describe (rule);
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
              "%s: '%s' has the name '%s' already, which the rule would put in once more; begin its source "
              "with ^ or (?<!...), or say with --module-tree which names the model has",
              description, key, target);
          return FALSE;
        }
    }
  return TRUE;
}
