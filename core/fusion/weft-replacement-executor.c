/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-replacement-executor.h"

#include <string.h>

#include "base/weft-json.h"
#include "fusion/weft-application-private.h"
#include "fusion/weft-discovery-private.h"
#include "fusion/weft-replacement-plan-private.h"

struct _WeftReplacementExecutor
{
  GObject parent_instance;

  JsonNode *config; /* (nullable) */
  gchar *where;
  WeftAppliedState *state;
  /* Family and its options -> the modules of the skeleton that it fits. The skeleton and the config are the executor's, so
   * they need not be part of the key; a change of the skeleton empties it. */
  GHashTable *discoveries;
};

G_DEFINE_FINAL_TYPE (WeftReplacementExecutor, weft_replacement_executor, G_TYPE_OBJECT)

static void
weft_replacement_executor_finalize (GObject *object)
{
  WeftReplacementExecutor *self = WEFT_REPLACEMENT_EXECUTOR (object);

  g_clear_pointer (&self->config, json_node_unref);
  g_free (self->where);
  g_clear_pointer (&self->state, weft_applied_state_free);
  g_hash_table_unref (self->discoveries);
  G_OBJECT_CLASS (weft_replacement_executor_parent_class)->finalize (object);
}

static void
weft_replacement_executor_class_init (WeftReplacementExecutorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_replacement_executor_finalize;
}

static void
weft_replacement_executor_init (WeftReplacementExecutor *self)
{
  self->discoveries =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_ptr_array_unref);
}

/**
 * weft_replacement_executor_new:
 * @tree: the skeleton of a model, which is not changed
 * @config: (nullable): its config
 * @where: what messages call the config, such as its path
 *
 * Returns: (transfer full): an executor that has replaced nothing yet
 * Since: 1.0
 */
WeftReplacementExecutor *
weft_replacement_executor_new (WeftModuleTree *tree, JsonNode *config, const gchar *where)
{
  WeftReplacementExecutor *self = g_object_new (WEFT_TYPE_REPLACEMENT_EXECUTOR, NULL);

  self->config = config != NULL ? json_node_ref (config) : NULL;
  self->where = g_strdup (where);
  self->state = weft_applied_state_new (tree);
  return self;
}

/* Compiling fusions. */

static gchar *
describe_miss (WeftFusionTarget *family, guint n_candidates, const gchar *example)
{
  if (n_candidates == 0)
    return g_strdup_printf ("family '%s' fits no module of this model: its target patterns hit no path",
                            family->name);
  return g_strdup_printf ("family '%s' fits no module of this model: %u %s tried%s%s", family->name,
                          n_candidates, n_candidates == 1 ? "module was" : "modules were",
                          example != NULL ? ", such as " : "", example != NULL ? example : "");
}

/* Looks once for each family and options. @miss (transfer full) says why there is none. */
static GPtrArray *
discover (WeftReplacementExecutor *self, WeftFusionTarget *family, gchar **miss, GError **error)
{
  g_autoptr (JsonNode) options = json_node_init_object (json_node_alloc (), family->options);
  g_autofree gchar *text = weft_json_to_text (options, FALSE);
  g_autofree gchar *key = g_strdup_printf ("%s %s", family->name, text);
  GPtrArray *found = g_hash_table_lookup (self->discoveries, key);
  g_autofree gchar *example = NULL;
  guint n_candidates = 0;

  *miss = NULL;
  if (found != NULL)
    return found;
  found = weft_discovery_find_fusable (self->state->tree, family, &n_candidates, &example, error);
  if (found == NULL)
    return NULL;
  if (found->len > 0)
    g_hash_table_insert (self->discoveries, g_steal_pointer (&key), found);
  else
    {
      *miss = describe_miss (family, n_candidates, example);
      g_ptr_array_unref (found);
      return NULL;
    }
  return found;
}

static gboolean
select_fusable (WeftReplacementExecutor *self, WeftReplacementPlan *plan, WeftFusionTarget *family,
                const gchar *where, WeftFusionOrigin asked, GError **error)
{
  g_autofree gchar *origin = g_strdup_printf ("fusion '%s' (%s)", family->name, where);
  g_autofree gchar *miss = NULL;
  g_autoptr (GError) local_error = NULL;
  GPtrArray *found = discover (self, family, &miss, &local_error);

  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (found == NULL && asked == WEFT_FUSION_ORIGIN_ASKED)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: %s (`weft fusions DIR` lists what fits)",
                   where, miss);
      return FALSE;
    }
  if (found == NULL)
    weft_replacement_plan_add_note (plan, miss);
  for (guint i = 0; found != NULL && i < found->len; i++)
    {
      const WeftReplacementStep *other =
          weft_replacement_plan_find (plan, weft_module_get_fqn (found->pdata[i]));

      if (other != NULL)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                       "%s and %s both want to replace '%s'; choose one", other->origin, origin,
                       weft_module_get_fqn (found->pdata[i]));
          return FALSE;
        }
      weft_replacement_plan_add (plan, found->pdata[i], family, origin);
    }
  return TRUE;
}

/* One member of the config: a family that is on, with its options, or off. */
static gboolean
compile_family (WeftReplacementExecutor *self, WeftReplacementPlan *plan, const gchar *name, JsonNode *value,
                const gchar *where, WeftFusionOrigin asked, GError **error)
{
  g_autofree gchar *place = g_strdup_printf ("%s: fusion_config.%s", where, name);
  gboolean is_map = JSON_NODE_HOLDS_OBJECT (value);
  gboolean is_truth = JSON_NODE_HOLDS_VALUE (value) && json_node_get_value_type (value) == G_TYPE_BOOLEAN;
  g_autoptr (WeftFusionTarget) family =
      weft_fusion_target_new_family (name, is_map ? json_node_get_object (value) : NULL, place, error);

  if (family == NULL)
    return FALSE;
  if (!is_map && !is_truth)
    {
      g_autofree gchar *found = weft_json_to_text (value, FALSE);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: expected true, false or a map of options, found %s", place, found);
      return FALSE;
    }
  return (is_truth && !json_node_get_boolean (value))
         || select_fusable (self, plan, family, where, asked, error);
}

/**
 * weft_replacement_executor_compile_fusions:
 * @self: an executor
 * @fusion_config: (nullable): a map from families to `true`, `false` or their options
 * @where: what messages call it, such as `--fusion` or the path of a config
 * @origin: whether a family that fits no module is an error
 * @error: return location
 *
 * Returns: (transfer full): the plan, in the order in which the families stand in @fusion_config
 * Errors: %WEFT_ERROR_ARGUMENT if the config is malformed, %WEFT_ERROR_MISSING for an unknown family or one that fits nothing,
 *   %WEFT_ERROR_CONFLICT if two want one module
 * Since: 1.0
 */
WeftReplacementPlan *
weft_replacement_executor_compile_fusions (WeftReplacementExecutor *self, JsonNode *fusion_config,
                                           const gchar *where, WeftFusionOrigin origin, GError **error)
{
  g_autoptr (WeftReplacementPlan) plan = weft_replacement_plan_new ();
  g_autoptr (GList) members = NULL;

  if (fusion_config == NULL || JSON_NODE_HOLDS_NULL (fusion_config))
    return g_steal_pointer (&plan);
  if (!JSON_NODE_HOLDS_OBJECT (fusion_config))
    {
      g_autofree gchar *found = weft_json_to_text (fusion_config, FALSE);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: fusion_config must be a map from families to true, false or options, found %s", where,
                   found);
      return NULL;
    }
  members = json_object_get_members (json_node_get_object (fusion_config));
  for (GList *member = members; member != NULL; member = member->next)
    if (!compile_family (self, plan, member->data,
                         json_object_get_member (json_node_get_object (fusion_config), member->data), where,
                         origin, error))
      return NULL;
  return g_steal_pointer (&plan);
}

/**
 * weft_replacement_executor_discover:
 * @self: an executor
 * @family: name of a family
 * @reason: (out) (nullable) (transfer full): if it fits no module, why
 * @error: return location
 *
 * Returns: (transfer full): the paths of the modules that it fits, with its default options
 * Errors: %WEFT_ERROR_MISSING if there is no such family, and those of the family
 * Since: 1.0
 */
GStrv
weft_replacement_executor_discover (WeftReplacementExecutor *self, const gchar *family, gchar **reason,
                                    GError **error)
{
  g_autoptr (WeftFusionTarget) target = weft_fusion_target_new_family (family, NULL, "family", error);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autoptr (GError) local_error = NULL;
  GPtrArray *found;

  *reason = NULL;
  if (target == NULL)
    return NULL;
  found = discover (self, target, reason, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return NULL;
    }
  for (guint i = 0; found != NULL && i < found->len; i++)
    g_strv_builder_add (builder, weft_module_get_fqn (found->pdata[i]));
  return g_strv_builder_end (builder);
}

/* Compiling overrides. */

static gboolean
refuse_no_match (WeftReplacementExecutor *self, WeftPlanOverrides *overrides, guint entry, GError **error)
{
  const gchar *match = weft_plan_overrides_get_match (overrides, entry);
  g_autofree gchar *nearest = weft_discovery_find_nearest (self->state->tree, match);

  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: '%s' matches no module%s%s%s",
               weft_plan_overrides_get_where (overrides, entry), match, nearest != NULL ? " (nearest: '" : "",
               nearest != NULL ? nearest : "", nearest != NULL ? "')" : "");
  return FALSE;
}

/* What was replaced already, at this path or below it: path -> who asked. */
static gboolean
check_not_replaced (WeftReplacementExecutor *self, const gchar *fqn, const gchar *where, GError **error)
{
  const gchar *origin = g_hash_table_lookup (self->state->replaced, fqn);
  const gchar *below = g_hash_table_lookup (self->state->replaced_below, fqn);

  if (origin != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                 "%s: '%s' is replaced already, by %s; a module is replaced once", where, fqn, origin);
  else if (below != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                 "%s: '%s' has a module in it that is replaced already, by %s", where, fqn, below);
  return origin == NULL && below == NULL;
}

/* The step that selected a module above @fqn, or NULL. */
static const WeftReplacementStep *
find_above (WeftReplacementPlan *plan, const gchar *fqn)
{
  g_autofree gchar *above = g_strdup (fqn);
  const WeftReplacementStep *step = NULL;

  for (gchar *dot = strrchr (above, '.'); step == NULL && dot != NULL; dot = strrchr (above, '.'))
    {
      *dot = '\0';
      step = weft_replacement_plan_find (plan, above);
    }
  return step != NULL || fqn[0] == '\0' ? step : weft_replacement_plan_find (plan, "");
}

/* No module is selected twice, nor with one of its descendants. */
static gboolean
check_not_selected (WeftReplacementPlan *plan, const gchar *fqn, const gchar *where, GError **error)
{
  const WeftReplacementStep *same = weft_replacement_plan_find (plan, fqn);
  const WeftReplacementStep *above = find_above (plan, fqn);
  const WeftReplacementStep *below = weft_replacement_plan_find_below (plan, fqn);

  if (same != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "%s: '%s' is selected twice, first by %s", where,
                 fqn, same->origin);
  else if (above != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                 "%s: '%s' is a descendant of '%s', which is selected by %s", where, fqn, above->fqns[0],
                 above->origin);
  else if (below != NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                 "%s: '%s' has a descendant '%s' that is selected by %s", where, fqn, below->fqns[0],
                 below->origin);
  return same == NULL && above == NULL && below == NULL;
}

static gboolean
select_module (WeftReplacementExecutor *self, WeftReplacementPlan *plan, WeftModule *module,
               WeftFusionTarget *target, WeftPlanOverrides *overrides, guint entry, GError **error)
{
  const gchar *where = weft_plan_overrides_get_where (overrides, entry);
  const gchar *fqn = weft_module_get_fqn (module);
  g_autofree gchar *reason = NULL;

  if (!check_not_replaced (self, fqn, where, error))
    return FALSE;
  if (!weft_fusion_target_test (target, module, &reason, error))
    {
      g_prefix_error (error, "%s: '%s': ", where, fqn);
      return FALSE;
    }
  if (reason == NULL)
    {
      if (!check_not_selected (plan, fqn, where, error))
        return FALSE;
      weft_replacement_plan_add (plan, module, target, where);
    }
  else if (weft_plan_overrides_skips_mismatch (overrides, entry))
    {
      g_autofree gchar *note = g_strdup_printf ("%s: '%s' is skipped: %s", where, fqn, reason);

      weft_replacement_plan_add_note (plan, note);
    }
  else
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "%s: '%s' cannot be replaced by '%s': %s (`on_mismatch: skip` leaves such modules as they are)",
          where, fqn, target->name, reason);
      return FALSE;
    }
  return TRUE;
}

static gboolean
compile_entry (WeftReplacementExecutor *self, WeftReplacementPlan *plan, WeftPlanOverrides *overrides,
               guint entry, GError **error)
{
  g_autoptr (GPtrArray) found =
      weft_discovery_find_matching (self->state->tree, weft_plan_overrides_get_match (overrides, entry));
  g_autoptr (WeftFusionTarget) target = weft_fusion_target_new (
      weft_plan_overrides_get_target (overrides, entry), weft_plan_overrides_get_options (overrides, entry),
      weft_plan_overrides_get_where (overrides, entry), error);

  if (target == NULL)
    return FALSE;
  if (found->len == 0)
    return refuse_no_match (self, overrides, entry, error);
  for (guint i = 0; i < found->len; i++)
    if (!select_module (self, plan, found->pdata[i], target, overrides, entry, error))
      return FALSE;
  return TRUE;
}

/**
 * weft_replacement_executor_compile_overrides:
 * @self: an executor
 * @overrides: what the user wants replaced
 * @error: return location
 *
 * Compiles against the skeleton as it is now, with the fusions that were applied.
 *
 * Returns: (transfer full): the plan
 * Errors: %WEFT_ERROR_MISSING if a pattern matches nothing or a target is unknown, %WEFT_ERROR_CONFLICT if a module is selected
 *   twice, with a descendant, or is replaced already, %WEFT_ERROR_ARGUMENT if a target does not fit a module or an option is
 *   wrong; messages name file, line and entry
 * Since: 1.0
 */
WeftReplacementPlan *
weft_replacement_executor_compile_overrides (WeftReplacementExecutor *self, WeftPlanOverrides *overrides,
                                             GError **error)
{
  g_autoptr (WeftReplacementPlan) plan = weft_replacement_plan_new ();

  for (guint i = 0; i < weft_plan_overrides_get_n_entries (overrides); i++)
    if (!compile_entry (self, plan, overrides, i, error))
      return NULL;
  weft_replacement_plan_sort (plan);
  return g_steal_pointer (&plan);
}

/**
 * weft_replacement_executor_apply:
 * @self: an executor
 * @plan: a plan that it compiled
 * @error: return location
 *
 * Builds every replacement, checks all of them with their rules, and only then takes them over.
 *
 * Returns: whether the plan was applied; if not, nothing has changed
 * Errors: those of the targets; %WEFT_ERROR_CONFLICT, %WEFT_ERROR_MISSING, %WEFT_ERROR_UNEXPECTED, %WEFT_ERROR_SHAPE or
 *   %WEFT_ERROR_NOT_REVERSIBLE if the rules do not take the old tensors exactly to the new ones
 * Since: 1.0
 */
gboolean
weft_replacement_executor_apply (WeftReplacementExecutor *self, WeftReplacementPlan *plan, GError **error)
{
  WeftAppliedState *state = weft_application_run (self->state, plan, self->config, self->where, error);

  if (state == NULL)
    return FALSE;
  g_clear_pointer (&self->state, weft_applied_state_free);
  self->state = state;
  g_hash_table_remove_all (self->discoveries);
  return TRUE;
}

/**
 * weft_replacement_executor_get_tree:
 * @self: an executor
 *
 * Returns: (transfer none): the skeleton with all that was replaced
 * Since: 1.0
 */
WeftModuleTree *
weft_replacement_executor_get_tree (WeftReplacementExecutor *self)
{
  return self->state->tree;
}

/**
 * weft_replacement_executor_get_transforms:
 * @self: an executor
 *
 * Returns: (transfer none): the rules of the second stage, from runtime names to fused ones; each has the path of its module
 *   as scope
 * Since: 1.0
 */
WeftTransformList *
weft_replacement_executor_get_transforms (WeftReplacementExecutor *self)
{
  return self->state->transforms;
}

/**
 * weft_replacement_executor_get_patch_mapping:
 * @self: an executor
 *
 * Returns: (transfer none): the classes that were replaced, with those in their place
 * Since: 1.0
 */
WeftPatchMapping *
weft_replacement_executor_get_patch_mapping (WeftReplacementExecutor *self)
{
  return self->state->patches;
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

/**
 * weft_replacement_executor_list_replaced:
 * @self: an executor
 *
 * Returns: (transfer full): the paths of the modules that were replaced, sorted
 * Since: 1.0
 */
GStrv
weft_replacement_executor_list_replaced (WeftReplacementExecutor *self)
{
  guint n;
  g_autofree const gchar **fqns = (const gchar **) g_hash_table_get_keys_as_array (self->state->replaced, &n);

  qsort (fqns, n, sizeof *fqns, compare_texts);
  return g_strdupv ((GStrv) fqns);
}

/**
 * weft_replacement_executor_dup_parallel_styles:
 * @self: an executor
 *
 * Returns: (transfer full): a dictionary (`a{ss}`) from the paths of modules and tensors that families made to their styles
 * Since: 1.0
 */
GVariant *
weft_replacement_executor_dup_parallel_styles (WeftReplacementExecutor *self)
{
  g_autoptr (GVariantBuilder) builder = g_variant_builder_new (G_VARIANT_TYPE ("a{ss}"));

  for (guint i = 0; i + 1 < self->state->styles->len; i += 2)
    g_variant_builder_add (builder, "{ss}", self->state->styles->pdata[i], self->state->styles->pdata[i + 1]);
  return g_variant_ref_sink (g_variant_builder_end (builder));
}

static void
add_rules (JsonBuilder *builder, WeftTransformList *rules)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (rules); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (rules, i);
      JsonNode *node = json_node_new (JSON_NODE_OBJECT);

      json_node_take_object (node, weft_weight_transform_to_json (rule));
      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "scope");
      json_builder_add_string_value (builder, weft_weight_transform_get_scope_prefix (rule));
      json_builder_set_member_name (builder, "origin");
      json_builder_add_string_value (builder, weft_weight_transform_get_origin (rule));
      json_builder_set_member_name (builder, "rule");
      json_builder_add_value (builder, node);
      json_builder_end_object (builder);
    }
}

/**
 * weft_replacement_executor_to_json:
 * @self: an executor
 *
 * Returns: (transfer full): an object: `modules` that were replaced (`fqns`, `class`, `new_class`, `target`, `options`, `origin`),
 *   `rules` of the second stage (`scope`, `origin`, `rule`), `parallel_styles` (name to style)
 * Since: 1.0
 */
JsonNode *
weft_replacement_executor_to_json (WeftReplacementExecutor *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "modules");
  json_builder_begin_array (builder);
  for (guint i = 0; i < self->state->plans->len; i++)
    weft_replacement_plan_add_to_json (self->state->plans->pdata[i], builder, self->state->tree);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "rules");
  json_builder_begin_array (builder);
  add_rules (builder, self->state->transforms);
  json_builder_end_array (builder);
  json_builder_set_member_name (builder, "parallel_styles");
  json_builder_begin_object (builder);
  for (guint i = 0; i + 1 < self->state->styles->len; i += 2)
    {
      json_builder_set_member_name (builder, self->state->styles->pdata[i]);
      json_builder_add_string_value (builder, self->state->styles->pdata[i + 1]);
    }
  json_builder_end_object (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}
