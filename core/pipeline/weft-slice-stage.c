/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-slice-stage-private.h"

#include "parallel/weft-parallel-plan-internal.h"
#include "pipeline/weft-fusion-stages-private.h"
#include "pipeline/weft-load-options-private.h"

/* What the rules come from. */
typedef struct
{
  WeftModuleTree *tree;            /* (nullable) */
  WeftReplacementExecutor *fusion; /* (nullable): what is replaced in it */
} Model;

static void
model_clear (Model *self)
{
  g_clear_object (&self->tree);
  g_clear_object (&self->fusion);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Model, model_clear)

static gboolean
keeps_names (WeftLoadPlan *plan)
{
  return (weft_load_options_get_flags (plan->options) & WEFT_LOAD_FLAGS_KEEP_NAMES) != 0;
}

/* Tensors that keep their names are not judged by the model, but its rules count, where they have the runtime's names. */
static gboolean
look_model_up (WeftLoadPlan *plan, Model *model, GError **error)
{
  const gchar *where = weft_checkpoint_get_path (plan->checkpoint);
  g_autoptr (WeftLoadReport) unread = weft_load_report_new ();
  g_autoptr (GError) local_error = NULL;

  g_clear_object (&model->tree);
  model->tree = weft_module_tree_new_for_config (
      NULL, plan->config, where, weft_load_options_get_class_name (plan->options), WEFT_DTYPE_INVALID, NULL);
  if (model->tree == NULL || !weft_module_tree_has_tensors (model->tree))
    return TRUE;
  model->fusion = weft_fusion_stages_open_stored (model->tree, plan->config, where, unread, &local_error);
  if (local_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&local_error));
  return FALSE;
}

static gboolean
find_model (WeftLoadPlan *plan, Model *model, GError **error)
{
  gboolean is_known = plan->tree != NULL && weft_module_tree_has_tensors (plan->tree);

  model->tree = plan->tree != NULL ? g_object_ref (plan->tree) : NULL;
  model->fusion = plan->fusion != NULL ? g_object_ref (plan->fusion) : NULL;
  if (keeps_names (plan) && !is_known && plan->config != NULL)
    return look_model_up (plan, model, error);
  return TRUE;
}

/* The rules of the model and of what was fused in it, and over them those of the caller; for tensors that keep their names, the caller's
 * alone, if there are any. */
static WeftParallelPlan *
assemble_rules (WeftLoadPlan *plan, const Model *model, GError **error)
{
  WeftParallelPlan *given = weft_load_options_get_parallel_plan (plan->options);
  gboolean has_own = model->tree != NULL && !(keeps_names (plan) && given != NULL);
  g_autoptr (WeftParallelPlan) rules =
      has_own ? weft_parallel_plan_new_for_module_tree (model->tree, error) : weft_parallel_plan_new ();
  g_autoptr (GVariant) styles =
      has_own && model->fusion != NULL ? weft_replacement_executor_dup_parallel_styles (model->fusion) : NULL;

  if (rules == NULL || (styles != NULL && !weft_parallel_plan_add_styles (rules, styles, error))
      || (given != NULL && !weft_parallel_plan_merge (rules, given, error)))
    return NULL;
  return g_steal_pointer (&rules);
}

/* The packed weights among the outputs; NULL without an error if there are none. */
static WeftPackedWeights *
find_packed (WeftLoadPlan *plan, GError **error)
{
  WeftQuantizer *quantizer = plan->quantizer;

  if (quantizer == NULL && plan->packed != NULL && !weft_load_plan_is_dequantized (plan))
    quantizer = weft_packed_weights_get_quantizer (plan->packed);
  return quantizer != NULL ? weft_packed_weights_new (quantizer, plan->outputs, FALSE, error) : NULL;
}

static void
add_notes (WeftLoadPlan *plan)
{
  GPtrArray *notes = weft_sharding_get_notes (plan->sharding);

  for (guint i = 0; i + 1 < notes->len; i += 2)
    weft_load_report_add (plan->report, WEFT_FINDING_NOTE, notes->pdata[i], notes->pdata[i + 1]);
}

static gboolean
cut_outputs (WeftLoadPlan *plan, GError **error)
{
  guint rank = weft_load_options_get_rank (plan->options);
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (GPtrArray) conversions = g_ptr_array_new ();

  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->whole); i++)
    {
      const gchar *name = weft_state_dict_get_name (plan->whole, i);
      g_auto (WeftSlice) slice = { .shape = { 0 } };
      g_autoptr (WeftTensor) part = NULL;
      gboolean is_owned;

      if (!weft_sharding_find_slice (plan->sharding, i, rank, &slice, &is_owned, error))
        return FALSE;
      if (!is_owned)
        continue;
      part = weft_slice_cut (&slice, weft_state_dict_get_tensor (plan->whole, i), error);
      if (part == NULL || !weft_state_dict_add (outputs, name, part, error))
        {
          g_prefix_error (error, "'%s': ", name);
          return FALSE;
        }
      g_ptr_array_add (conversions, plan->whole_conversions->pdata[i]);
    }
  g_set_object (&plan->outputs, outputs);
  plan->output_conversions = g_steal_pointer (&conversions);
  return TRUE;
}

gboolean
weft_slice_stage_run (WeftLoadPlan *plan, GError **error)
{
  const WeftMesh *mesh = weft_load_options_get_mesh (plan->options);
  g_autoptr (WeftParallelPlan) rules = NULL;
  g_autoptr (WeftPackedWeights) packed = NULL;
  g_autoptr (GError) local_error = NULL;
  g_auto (Model) model = { NULL, NULL };

  if (mesh == NULL)
    return TRUE;
  if (find_model (plan, &model, &local_error))
    packed = find_packed (plan, &local_error);
  rules = local_error == NULL ? assemble_rules (plan, &model, &local_error) : NULL;
  if (local_error == NULL)
    plan->sharding = weft_sharding_new (plan->outputs, packed, rules, mesh, model.tree, !keeps_names (plan),
                                        plan->config, &local_error);
  if (local_error != NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&local_error),
                                  "%s: ", weft_checkpoint_get_path (plan->checkpoint));
      return FALSE;
    }
  add_notes (plan);
  plan->whole = g_object_ref (plan->outputs);
  plan->whole_conversions = g_steal_pointer (&plan->output_conversions);
  return cut_outputs (plan, error);
}

static void
add_shares (WeftLoadPlan *plan, JsonBuilder *builder, guint world_size)
{
  guint64 total = 0, most = 0;

  json_builder_set_member_name (builder, "ranks");
  json_builder_begin_array (builder);
  for (guint rank = 0; rank < world_size; rank++)
    {
      WeftRankShare share = weft_sharding_count_share (plan->sharding, rank);

      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "tensors");
      json_builder_add_int_value (builder, share.n_tensors);
      json_builder_set_member_name (builder, "bytes");
      json_builder_add_int_value (builder, (gint64) share.n_bytes);
      json_builder_end_object (builder);
      total += share.n_bytes;
      most = MAX (most, share.n_bytes);
    }
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "balance");
  json_builder_add_double_value (builder,
                                 most > 0 ? (gdouble) total / (gdouble) most / (gdouble) world_size : 1.0);
}

static void
add_styles (WeftLoadPlan *plan, JsonBuilder *builder)
{
  json_builder_set_member_name (builder, "styles");
  json_builder_begin_object (builder);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->whole); i++)
    if (weft_sharding_get_style (plan->sharding, i) != NULL)
      {
        json_builder_set_member_name (builder, weft_state_dict_get_name (plan->whole, i));
        json_builder_add_string_value (builder, weft_sharding_get_style (plan->sharding, i));
      }
  json_builder_end_object (builder);
}

/* Tensors of which ranks hold different amounts, with the elements that equal shares would need more. */
static void
add_padding (WeftLoadPlan *plan, JsonBuilder *builder)
{
  json_builder_set_member_name (builder, "padding");
  json_builder_begin_object (builder);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (plan->whole); i++)
    {
      gint64 n = weft_sharding_count_padding (plan->sharding, i);

      if (n == 0)
        continue;
      json_builder_set_member_name (builder, weft_state_dict_get_name (plan->whole, i));
      json_builder_add_int_value (builder, n);
    }
  json_builder_end_object (builder);
}

JsonNode *
weft_slice_stage_to_json (WeftLoadPlan *plan)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  const WeftMesh *mesh = plan->sharding != NULL ? weft_sharding_get_mesh (plan->sharding) : NULL;

  if (mesh == NULL)
    return NULL;
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "world_size");
  json_builder_add_int_value (builder, weft_mesh_get_world_size (mesh));
  json_builder_set_member_name (builder, "tp_size");
  json_builder_add_int_value (builder, mesh->tp_size);
  json_builder_set_member_name (builder, "ep_size");
  json_builder_add_int_value (builder, mesh->ep_size);
  json_builder_set_member_name (builder, "rank");
  json_builder_add_int_value (builder, weft_load_options_get_rank (plan->options));
  add_shares (plan, builder, weft_mesh_get_world_size (mesh));
  add_padding (plan, builder);
  add_styles (plan, builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}
