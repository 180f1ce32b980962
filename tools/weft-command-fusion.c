/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-fusion.h"

#include <string.h>

#include "base/weft-json.h"
#include "weft-command-output.h"

/* A file holds the map of families, or a config that has it. */
static JsonNode *
load_config (const gchar *path, GError **error)
{
  g_autoptr (JsonNode) root = weft_json_load_file (path, error);
  JsonNode *config = root != NULL ? weft_json_lookup (root, "fusion_config") : NULL;

  if (root == NULL)
    return NULL;
  return config != NULL ? json_node_copy (config) : json_node_copy (root);
}

/* `gate_up`, or `qkv={"layout": "interleaved"}`. */
static gboolean
add_family (JsonObject *config, const gchar *text, GError **error)
{
  const gchar *equals = strchr (text, '=');
  g_autofree gchar *name = equals != NULL ? g_strndup (text, (gsize) (equals - text)) : g_strdup (text);
  g_autoptr (GError) cause = NULL;
  g_autoptr (JsonNode) value = NULL;

  if (*name == '\0')
    {
      weft_command_set_usage_error (error, "--fusion '%s' names no family", text);
      return FALSE;
    }
  if (equals == NULL)
    {
      json_object_set_boolean_member (config, name, TRUE);
      return TRUE;
    }
  value = weft_json_parse (equals + 1, -1, "--fusion", &cause);
  if (value == NULL)
    {
      weft_command_set_usage_error (error, "--fusion %s: %s", name, cause->message);
      return FALSE;
    }
  json_object_set_member (config, name, json_node_copy (value));
  return TRUE;
}

static gboolean
add_families (const WeftCommandFusion *fusion, WeftLoadOptions *options, GError **error)
{
  g_autoptr (JsonObject) config = NULL;
  g_autoptr (JsonNode) root = NULL;
  const gchar *where = fusion->fusion_config != NULL ? fusion->fusion_config : "--fusion";

  if (fusion->fusion_config != NULL)
    {
      root = load_config (fusion->fusion_config, error);
      if (root == NULL)
        return FALSE;
    }
  if (fusion->fusions != NULL && (root == NULL || JSON_NODE_HOLDS_OBJECT (root)))
    {
      config = root != NULL ? json_node_dup_object (root) : json_object_new ();
      for (guint i = 0; fusion->fusions[i] != NULL; i++)
        if (!add_family (config, fusion->fusions[i], error))
          return FALSE;
      g_clear_pointer (&root, json_node_unref);
      root = json_node_init_object (json_node_alloc (), config);
    }
  weft_load_options_set_fusion_config (options, root, where);
  return TRUE;
}

/* Nothing is asked for, and that goes before what is stored. */
static gboolean
set_nothing (const WeftCommandFusion *fusion, WeftLoadOptions *options, GError **error)
{
  g_autoptr (JsonNode) nothing = NULL;
  g_autoptr (JsonNode) no_entries = NULL;
  g_autoptr (WeftPlanOverrides) overrides = NULL;

  if (fusion->fusions != NULL || fusion->fusion_config != NULL || fusion->plan_overrides != NULL)
    {
      weft_command_set_usage_error (
          error, "--no-fusion goes without --fusion, --fusion-config and --plan-overrides");
      return FALSE;
    }
  nothing = weft_json_parse ("{}", -1, "--no-fusion", error);
  no_entries = weft_json_parse ("[]", -1, "--no-fusion", error);
  overrides = weft_plan_overrides_new_from_json (no_entries, "--no-fusion", error);
  weft_load_options_set_fusion_config (options, nothing, "--no-fusion");
  weft_load_options_set_plan_overrides (options, overrides);
  return TRUE;
}

gboolean
weft_command_add_fusion (const WeftCommandFusion *fusion, WeftLoadOptions *options, GError **error)
{
  if (fusion->is_without)
    return set_nothing (fusion, options, error);
  if ((fusion->fusions != NULL || fusion->fusion_config != NULL) && !add_families (fusion, options, error))
    return FALSE;
  if (fusion->plan_overrides != NULL)
    {
      g_autoptr (WeftPlanOverrides) overrides = weft_plan_overrides_load (fusion->plan_overrides, error);

      if (overrides == NULL)
        return FALSE;
      weft_load_options_set_plan_overrides (options, overrides);
    }
  return TRUE;
}
