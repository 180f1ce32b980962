/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-replacement-plan-private.h"

#include <string.h>

#include "base/weft-text.h"

struct _WeftReplacementPlan
{
  GObject parent_instance;

  GPtrArray *steps;
  /* Every path of a selected module -> its step. */
  GHashTable *by_fqn;
  /* Every path above a selected module -> one of the steps below it. */
  GHashTable *below;
  GPtrArray *notes;
};

G_DEFINE_FINAL_TYPE (WeftReplacementPlan, weft_replacement_plan, G_TYPE_OBJECT)

static void
step_free (gpointer pointer)
{
  WeftReplacementStep *step = pointer;

  g_strfreev (step->fqns);
  g_free (step->old_class);
  g_object_unref (step->module);
  weft_fusion_target_free (step->target);
  g_free (step->origin);
  g_free (step);
}

static void
weft_replacement_plan_finalize (GObject *object)
{
  WeftReplacementPlan *self = WEFT_REPLACEMENT_PLAN (object);

  g_hash_table_unref (self->by_fqn);
  g_hash_table_unref (self->below);
  g_ptr_array_unref (self->steps);
  g_ptr_array_unref (self->notes);
  G_OBJECT_CLASS (weft_replacement_plan_parent_class)->finalize (object);
}

static void
weft_replacement_plan_class_init (WeftReplacementPlanClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_replacement_plan_finalize;
}

static void
weft_replacement_plan_init (WeftReplacementPlan *self)
{
  self->steps = g_ptr_array_new_with_free_func (step_free);
  self->by_fqn = g_hash_table_new (g_str_hash, g_str_equal);
  self->below = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->notes = g_ptr_array_new_with_free_func (g_free);
}

WeftReplacementPlan *
weft_replacement_plan_new (void)
{
  return g_object_new (WEFT_TYPE_REPLACEMENT_PLAN, NULL);
}

void
weft_replacement_add_above (GHashTable *table, const gchar *fqn, gpointer value)
{
  g_autofree gchar *above = g_strdup (fqn);

  for (gchar *dot = strrchr (above, '.'); dot != NULL; dot = strrchr (above, '.'))
    {
      *dot = '\0';
      g_hash_table_insert (table, g_strdup (above), value);
    }
  if (fqn[0] != '\0')
    g_hash_table_insert (table, g_strdup (""), value);
}

void
weft_replacement_plan_add (WeftReplacementPlan *self, WeftModule *module, WeftFusionTarget *target,
                           const gchar *origin)
{
  WeftReplacementStep *step = g_new0 (WeftReplacementStep, 1);

  step->fqns = weft_module_dup_fqns (module);
  step->old_class = g_strdup (weft_module_get_class_name (module));
  step->module = g_object_ref (module);
  step->target = weft_fusion_target_copy (target);
  step->origin = g_strdup (origin);
  g_ptr_array_add (self->steps, step);
  for (guint i = 0; step->fqns[i] != NULL; i++)
    {
      g_hash_table_insert (self->by_fqn, step->fqns[i], step);
      weft_replacement_add_above (self->below, step->fqns[i], step);
    }
}

void
weft_replacement_plan_add_note (WeftReplacementPlan *self, const gchar *note)
{
  g_ptr_array_add (self->notes, g_strdup (note));
}

const WeftReplacementStep *
weft_replacement_plan_get_step (WeftReplacementPlan *self, guint module)
{
  return self->steps->pdata[module];
}

const WeftReplacementStep *
weft_replacement_plan_find (WeftReplacementPlan *self, const gchar *fqn)
{
  return g_hash_table_lookup (self->by_fqn, fqn);
}

const WeftReplacementStep *
weft_replacement_plan_find_below (WeftReplacementPlan *self, const gchar *fqn)
{
  return g_hash_table_lookup (self->below, fqn);
}

static gint
compare_steps (gconstpointer a, gconstpointer b)
{
  const WeftReplacementStep *const *first = a;
  const WeftReplacementStep *const *second = b;

  return weft_text_compare_natural ((*first)->fqns[0], (*second)->fqns[0]);
}

void
weft_replacement_plan_sort (WeftReplacementPlan *self)
{
  g_ptr_array_sort (self->steps, compare_steps);
}

/**
 * weft_replacement_plan_get_n_modules:
 * @self: a plan
 *
 * Returns: the number of modules that are to be replaced
 * Since: 1.0
 */
guint
weft_replacement_plan_get_n_modules (WeftReplacementPlan *self)
{
  return self->steps->len;
}

/**
 * weft_replacement_plan_list_fqns:
 * @self: a plan
 * @module: which module
 *
 * Returns: (transfer full): all paths of the module
 * Since: 1.0
 */
GStrv
weft_replacement_plan_list_fqns (WeftReplacementPlan *self, guint module)
{
  g_return_val_if_fail (module < self->steps->len, NULL);
  return g_strdupv (weft_replacement_plan_get_step (self, module)->fqns);
}

/**
 * weft_replacement_plan_get_class:
 * @self: a plan
 * @module: which module
 *
 * Returns: (transfer none): its class before
 * Since: 1.0
 */
const gchar *
weft_replacement_plan_get_class (WeftReplacementPlan *self, guint module)
{
  g_return_val_if_fail (module < self->steps->len, NULL);
  return weft_replacement_plan_get_step (self, module)->old_class;
}

/**
 * weft_replacement_plan_get_target:
 * @self: a plan
 * @module: which module
 *
 * Returns: (transfer none): the family or the replacement, as the user wrote it
 * Since: 1.0
 */
const gchar *
weft_replacement_plan_get_target (WeftReplacementPlan *self, guint module)
{
  g_return_val_if_fail (module < self->steps->len, NULL);
  return weft_replacement_plan_get_step (self, module)->target->name;
}

/**
 * weft_replacement_plan_get_options:
 * @self: a plan
 * @module: which module
 *
 * Returns: (transfer none): the options of the target
 * Since: 1.0
 */
JsonObject *
weft_replacement_plan_get_options (WeftReplacementPlan *self, guint module)
{
  g_return_val_if_fail (module < self->steps->len, NULL);
  return weft_replacement_plan_get_step (self, module)->target->options;
}

/**
 * weft_replacement_plan_get_origin:
 * @self: a plan
 * @module: which module
 *
 * Returns: (transfer none): who asked for it: a family and the config, or an entry and its place
 * Since: 1.0
 */
const gchar *
weft_replacement_plan_get_origin (WeftReplacementPlan *self, guint module)
{
  g_return_val_if_fail (module < self->steps->len, NULL);
  return weft_replacement_plan_get_step (self, module)->origin;
}

/**
 * weft_replacement_plan_list_notes:
 * @self: a plan
 *
 * Returns: (transfer full): what is worth knowing: modules that were skipped, families that fit nothing
 * Since: 1.0
 */
GStrv
weft_replacement_plan_list_notes (WeftReplacementPlan *self)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < self->notes->len; i++)
    g_strv_builder_add (builder, self->notes->pdata[i]);
  return g_strv_builder_end (builder);
}

static void
add_strings (JsonBuilder *builder, const gchar *member, GStrv strings)
{
  json_builder_set_member_name (builder, member);
  json_builder_begin_array (builder);
  for (guint i = 0; strings[i] != NULL; i++)
    json_builder_add_string_value (builder, strings[i]);
  json_builder_end_array (builder);
}

static void
add_step (JsonBuilder *builder, const WeftReplacementStep *step, WeftModuleTree *tree)
{
  JsonNode *options = json_node_init_object (json_node_alloc (), step->target->options);
  g_autoptr (WeftModule) now = tree != NULL ? weft_module_tree_find_module (tree, step->fqns[0]) : NULL;

  json_builder_begin_object (builder);
  add_strings (builder, "fqns", step->fqns);
  json_builder_set_member_name (builder, "class");
  json_builder_add_string_value (builder, step->old_class);
  if (now != NULL)
    {
      json_builder_set_member_name (builder, "new_class");
      json_builder_add_string_value (builder, weft_module_get_class_name (now));
    }
  json_builder_set_member_name (builder, "target");
  json_builder_add_string_value (builder, step->target->name);
  json_builder_set_member_name (builder, "options");
  json_builder_add_value (builder, options);
  json_builder_set_member_name (builder, "origin");
  json_builder_add_string_value (builder, step->origin);
  json_builder_end_object (builder);
}

void
weft_replacement_plan_add_to_json (WeftReplacementPlan *self, JsonBuilder *builder, WeftModuleTree *tree)
{
  for (guint i = 0; i < self->steps->len; i++)
    add_step (builder, self->steps->pdata[i], tree);
}

/**
 * weft_replacement_plan_to_json:
 * @self: a plan
 *
 * Returns: (transfer full): an object: `modules` (`fqns`, `class`, `target`, `options`, `origin` of each) and `notes`
 * Since: 1.0
 */
JsonNode *
weft_replacement_plan_to_json (WeftReplacementPlan *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_auto (GStrv) notes = weft_replacement_plan_list_notes (self);

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "modules");
  json_builder_begin_array (builder);
  weft_replacement_plan_add_to_json (self, builder, NULL);
  json_builder_end_array (builder);
  add_strings (builder, "notes", notes);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}
