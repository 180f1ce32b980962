/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-fusion-stages-private.h"

#include <string.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "pipeline/weft-output-private.h"
#include "pipeline/weft-provenance-private.h"
#include "transform/weft-stage-internal.h"

#define OVERRIDES_PATH "parallelism.plan_overrides"

/* What is to be replaced: by families, and by path. */
typedef struct
{
  JsonNode *fusion_config;      /* (nullable) */
  WeftPlanOverrides *overrides; /* (nullable) */
  const gchar *where;
  WeftFusionOrigin origin;
} Request;

static gboolean
is_empty (const Request *request)
{
  JsonNode *config = request->fusion_config;
  gboolean has_families =
      config != NULL && !JSON_NODE_HOLDS_NULL (config)
      && !(JSON_NODE_HOLDS_OBJECT (config) && json_object_get_size (json_node_get_object (config)) == 0);

  return !has_families
         && (request->overrides == NULL || weft_plan_overrides_get_n_entries (request->overrides) == 0);
}

static gboolean
has_skeleton (WeftModuleTree *tree)
{
  return tree != NULL && weft_module_tree_has_tensors (tree) && weft_module_tree_get_n_modules (tree) > 0;
}

static void
take_notes (WeftReplacementPlan *plan, WeftLoadReport *report)
{
  g_auto (GStrv) notes = weft_replacement_plan_list_notes (plan);

  for (guint i = 0; notes[i] != NULL; i++)
    weft_load_report_add (report, WEFT_FINDING_NOTE, "fusion", notes[i]);
}

static WeftReplacementExecutor *
open_request (const Request *request, WeftModuleTree *tree, JsonNode *config, const gchar *config_path,
              WeftLoadReport *report, GError **error)
{
  g_autoptr (WeftReplacementExecutor) executor = weft_replacement_executor_new (tree, config, config_path);
  g_autoptr (WeftReplacementPlan) fusions = weft_replacement_executor_compile_fusions (
      executor, request->fusion_config, request->where, request->origin, error);
  g_autoptr (WeftReplacementPlan) overrides = NULL;

  if (fusions == NULL || !weft_replacement_executor_apply (executor, fusions, error))
    return NULL;
  take_notes (fusions, report);
  if (request->overrides == NULL)
    return g_steal_pointer (&executor);
  overrides = weft_replacement_executor_compile_overrides (executor, request->overrides, error);
  if (overrides == NULL || !weft_replacement_executor_apply (executor, overrides, error))
    return NULL;
  take_notes (overrides, report);
  return g_steal_pointer (&executor);
}

/* The overrides that a config stores; NULL if it stores none. */
static gboolean
read_stored_overrides (JsonNode *config, const gchar *where, WeftPlanOverrides **overrides, GError **error)
{
  JsonNode *stored = weft_json_lookup (config, OVERRIDES_PATH);

  *overrides = stored != NULL ? weft_plan_overrides_new_from_json (stored, where, error) : NULL;
  return stored == NULL || *overrides != NULL;
}

static Request
make_stored_request (JsonNode *config, const gchar *where, WeftPlanOverrides *overrides)
{
  return (Request){ weft_json_lookup (config, "fusion_config"), overrides, where, WEFT_FUSION_ORIGIN_STORED };
}

WeftReplacementExecutor *
weft_fusion_stages_open_stored (WeftModuleTree *tree, JsonNode *config, const gchar *where,
                                WeftLoadReport *report, GError **error)
{
  g_autoptr (WeftPlanOverrides) overrides = NULL;
  Request request;

  if (!read_stored_overrides (config, where, &overrides, error))
    return NULL;
  request = make_stored_request (config, where, overrides);
  if (is_empty (&request))
    return NULL;
  if (!has_skeleton (tree))
    {
      weft_load_report_add (
          report, WEFT_FINDING_NOTE, "fusion",
          "config.json stores fusions, and what the runtime expects is not known: nothing is fused or "
          "taken back (give --module-tree)");
      return NULL;
    }
  return open_request (&request, tree, config, where, report, error);
}

static gchar *
get_config_path (WeftLoadPlan *self)
{
  const gchar *folder = weft_checkpoint_get_folder (self->checkpoint);

  return g_build_filename (folder != NULL ? folder : weft_checkpoint_get_path (self->checkpoint),
                           "config.json", NULL);
}

gboolean
weft_fusion_stages_is_fused_name (WeftReplacementExecutor *fusion, WeftModuleTree *tree, const gchar *name)
{
  return fusion != NULL
         && g_hash_table_contains (
             weft_module_tree_get_model_keys (weft_replacement_executor_get_tree (fusion)), name)
         && !g_hash_table_contains (weft_module_tree_get_model_keys (tree), name);
}

/* A checkpoint may have the names of either form. */
static void
add_model_keys (WeftLoadPlan *self, WeftReplacementExecutor *fusion)
{
  g_autoptr (GHashTable) known = self->model_keys;
  GHashTable *tables[] = { known,
                           weft_module_tree_get_model_keys (weft_replacement_executor_get_tree (fusion)) };
  GHashTableIter iter;
  gpointer name;

  self->model_keys = g_hash_table_new_full (weft_text_hash, g_str_equal, g_free, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (tables); i++)
    {
      g_hash_table_iter_init (&iter, tables[i]);
      while (g_hash_table_iter_next (&iter, &name, NULL))
        g_hash_table_add (self->model_keys, g_strdup (name));
    }
}

/* What the caller asks for in place of what is stored. */
static gboolean
open_asked (WeftLoadPlan *self, const gchar *config_path, GError **error)
{
  g_autoptr (WeftPlanOverrides) stored_overrides = NULL;
  JsonNode *fusion_config = weft_load_options_get_fusion_config (self->options);
  WeftPlanOverrides *overrides = weft_load_options_get_plan_overrides (self->options);
  Request request;

  if (overrides == NULL && !read_stored_overrides (self->config, config_path, &stored_overrides, error))
    return FALSE;
  request = make_stored_request (self->config, config_path, overrides != NULL ? overrides : stored_overrides);
  if (fusion_config != NULL)
    {
      request.fusion_config = fusion_config;
      request.where = weft_load_options_get_fusion_where (self->options);
      request.origin = WEFT_FUSION_ORIGIN_ASKED;
    }
  if (is_empty (&request))
    return TRUE;
  if (!has_skeleton (self->tree))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "%s: fusions look at the modules of the model, which are not known; give --module-tree",
                   weft_checkpoint_get_path (self->checkpoint));
      return FALSE;
    }
  self->fusion = open_request (&request, self->tree, self->config, config_path, self->report, error);
  return self->fusion != NULL;
}

gboolean
weft_fusion_stages_prepare (WeftLoadPlan *self, GError **error)
{
  g_autofree gchar *config_path = get_config_path (self);
  g_autoptr (GError) local_error = NULL;
  gboolean is_asked = weft_load_options_get_fusion_config (self->options) != NULL
                      || weft_load_options_get_plan_overrides (self->options) != NULL;

  if (self->config == NULL && !is_asked)
    return TRUE;
  self->stored_fusion =
      weft_fusion_stages_open_stored (self->tree, self->config, config_path, self->report, &local_error);
  if (local_error != NULL && !is_asked)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  /* What is stored and not wanted may be broken, or of a plugin that is not here: it does not matter if nothing is fused. */
  if (local_error != NULL)
    weft_load_report_add (self->report, WEFT_FINDING_NOTE, "fusion", local_error->message);
  if (!is_asked)
    self->fusion = self->stored_fusion != NULL ? g_object_ref (self->stored_fusion) : NULL;
  else if (!open_asked (self, config_path, error))
    return FALSE;
  if (self->stored_fusion != NULL)
    add_model_keys (self, self->stored_fusion);
  if (self->fusion != NULL && self->fusion != self->stored_fusion)
    add_model_keys (self, self->fusion);
  return TRUE;
}

static void
take_findings (WeftLoadPlan *self, WeftStage *stage)
{
  for (guint i = 0; i + 1 < stage->failures->len; i += 2)
    weft_load_report_add (self->report, WEFT_FINDING_FAILED, stage->failures->pdata[i],
                          stage->failures->pdata[i + 1]);
  for (guint i = 0; i < stage->conversions->len; i++)
    {
      const WeftConversion *conversion = stage->conversions->pdata[i];

      if (conversion->proof != WEFT_PROOF_EXACT)
        weft_load_report_add (self->report, WEFT_FINDING_NOT_REVERSIBLE, conversion->layer,
                              conversion->proof_reason);
    }
}

/* Puts a stage behind what there is. */
static gboolean
run_stage (WeftLoadPlan *self, WeftTransformList *rules, GError **error)
{
  g_autoptr (WeftOpContext) facts = weft_make_published_facts (self->outputs, self->config);
  g_autoptr (WeftStage) stage = weft_stage_run (self->outputs, rules, facts, error);
  g_autoptr (GPtrArray) makers = g_ptr_array_new ();

  if (stage == NULL)
    {
      g_prefix_error (error, "%s: ", weft_checkpoint_get_path (self->checkpoint));
      return FALSE;
    }
  take_findings (self, stage);
  if (self->runtime_conversions == NULL)
    self->runtime_conversions = g_ptr_array_ref (self->output_conversions);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (stage->outputs); i++)
    g_ptr_array_add (makers, self->output_conversions->pdata[weft_stage_get_origin (stage, i)]);
  g_ptr_array_unref (self->output_conversions);
  self->output_conversions = g_steal_pointer (&makers);
  g_set_object (&self->outputs, stage->outputs);
  g_ptr_array_add (self->stages, g_steal_pointer (&stage));
  return TRUE;
}

/* A conversion of ours writes a record beside what it made; a published checkpoint has none. */
static gboolean
has_record (WeftCheckpoint *checkpoint)
{
  const gchar *folder = weft_checkpoint_get_folder (checkpoint);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, WEFT_PROVENANCE_FILE_NAME, NULL) : NULL;

  return path != NULL && g_file_test (path, G_FILE_TEST_EXISTS);
}

gchar *
weft_fusion_stages_keep_fused_name (WeftLoadPlan *self, const gchar *key, const gchar *renamed,
                                    GError **error)
{
  g_autofree gchar *name = NULL;

  if (self->stored_fusion == NULL)
    return NULL;
  name = weft_transform_repair_prefix (key, weft_load_plan_get_base_model_prefix (self), self->model_keys);
  if (strcmp (name, renamed) == 0
      || !weft_fusion_stages_is_fused_name (self->stored_fusion, self->tree, name))
    return NULL;
  if (has_record (self->checkpoint))
    return g_steal_pointer (&name);
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
      "%s: '%s' is the name of a published tensor, which the mapping takes to '%s', and of one that the fusions "
      "stored in config.json make, and no record (" WEFT_PROVENANCE_FILE_NAME
      ") beside it says which of them it is; if it is published, ask for the fusion (--fusion) instead of storing it "
      "in config.json; if it is fused, bring the record back",
      weft_checkpoint_get_path (self->checkpoint), key, renamed);
  return NULL;
}

static gboolean
has_fused_name (WeftLoadPlan *self, WeftReplacementExecutor *fusion)
{
  for (guint i = 0; fusion != NULL && i < weft_state_dict_get_n_tensors (self->outputs); i++)
    if (weft_fusion_stages_is_fused_name (fusion, self->tree, weft_state_dict_get_name (self->outputs, i)))
      return TRUE;
  return FALSE;
}

/* What was taken back has the shape that the model has, or it was no tensor of that fusion. */
static void
check_shapes (WeftLoadPlan *self, WeftStage *stage)
{
  for (guint i = 0; i < weft_state_dict_get_n_tensors (stage->outputs); i++)
    {
      const gchar *name = weft_state_dict_get_name (stage->outputs, i);
      const WeftShape *found = weft_tensor_get_shape (weft_state_dict_get_tensor (stage->outputs, i));
      guint position;

      if (stage->makers->pdata[i] != NULL && weft_module_tree_find_tensor (self->tree, name, &position)
          && !weft_shape_equal (found, weft_module_tree_get_tensor_shape (self->tree, position)))
        {
          g_autofree gchar *shape = weft_shape_to_string (found);
          g_autofree gchar *expected =
              weft_shape_to_string (weft_module_tree_get_tensor_shape (self->tree, position));
          g_autofree gchar *detail =
              g_strdup_printf ("the fused checkpoint gives %s, the model has %s", shape, expected);

          weft_load_report_add (self->report, WEFT_FINDING_MISMATCHED, name, detail);
        }
    }
}

gboolean
weft_fusion_stages_take_back (WeftLoadPlan *self, GError **error)
{
  WeftReplacementExecutor *fusions[] = { self->stored_fusion, self->fusion };

  for (guint i = 0; i < G_N_ELEMENTS (fusions); i++)
    {
      g_autoptr (WeftTransformList) inverse = NULL;

      if (!has_fused_name (self, fusions[i]))
        continue;
      inverse = weft_transform_list_dup_inverse (weft_replacement_executor_get_transforms (fusions[i]),
                                                 WEFT_INVERSE_FLAGS_NONE, error);
      if (inverse == NULL || !run_stage (self, inverse, error))
        return FALSE;
      check_shapes (self, self->stages->pdata[self->stages->len - 1]);
    }
  return TRUE;
}

gboolean
weft_fusion_stages_apply (WeftLoadPlan *self, GError **error)
{
  g_autoptr (WeftTransformList) rules = NULL;

  if (self->fusion == NULL)
    return TRUE;
  rules = weft_transform_list_copy (weft_replacement_executor_get_transforms (self->fusion), error);
  return rules != NULL && run_stage (self, rules, error);
}

/* The config of the output. */

static gchar *
set_member (const gchar *text, const gchar *path, JsonNode *value, const gchar *where, GError **error)
{
  g_autofree gchar *value_text = value != NULL ? weft_json_to_text (value, FALSE) : NULL;

  return weft_json_replace_member (text, path, value_text, where, error);
}

gchar *
weft_fusion_stages_edit_config (WeftLoadPlan *self, GError **error)
{
  JsonNode *fusion_config = weft_load_options_get_fusion_config (self->options);
  WeftPlanOverrides *overrides = weft_load_options_get_plan_overrides (self->options);
  g_autofree gchar *path = get_config_path (self);
  g_autofree gchar *original = NULL;
  g_autofree gchar *text = NULL;
  g_autoptr (GError) local_error = NULL;

  /* A single file has nothing beside it. */
  if (self->config == NULL || weft_checkpoint_get_folder (self->checkpoint) == NULL
      || (fusion_config == NULL && overrides == NULL))
    return NULL;
  if (!g_file_get_contents (path, &original, NULL, &local_error))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be read: %s", path, local_error->message);
      return NULL;
    }
  text = g_strdup (original);
  if (fusion_config != NULL)
    {
      Request request = { fusion_config, NULL, NULL, WEFT_FUSION_ORIGIN_ASKED };
      gchar *edited =
          set_member (text, "fusion_config", is_empty (&request) ? NULL : fusion_config, path, error);

      g_free (text);
      text = edited;
    }
  if (text != NULL && overrides != NULL)
    {
      g_autoptr (JsonNode) list = weft_plan_overrides_to_json (overrides);
      gboolean has_entries = weft_plan_overrides_get_n_entries (overrides) > 0;
      gchar *edited = set_member (text, OVERRIDES_PATH, has_entries ? list : NULL, path, error);

      g_free (text);
      text = edited;
    }
  return text == NULL || strcmp (text, original) != 0 ? g_steal_pointer (&text) : NULL;
}

gchar *
weft_fusion_stages_clean_config (JsonNode *config, const gchar *text, const gchar *where, GError **error)
{
  gboolean has_fusions = weft_json_lookup (config, "fusion_config") != NULL;
  gboolean has_overrides = weft_json_lookup (config, OVERRIDES_PATH) != NULL;
  g_autofree gchar *without = NULL;

  if (!has_fusions && !has_overrides)
    return NULL;
  without = has_fusions ? set_member (text, "fusion_config", NULL, where, error) : g_strdup (text);
  return without != NULL && has_overrides ? set_member (without, OVERRIDES_PATH, NULL, where, error)
                                          : g_steal_pointer (&without);
}
