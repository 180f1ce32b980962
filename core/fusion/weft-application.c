/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-application-private.h"

#include <string.h>

#include "fusion/weft-module-tensors-private.h"
#include "fusion/weft-replacement-plan-private.h"
#include "fusion/weft-schema-check-private.h"

/* One module while a plan is applied. */
typedef struct
{
  const WeftReplacementStep *step;
  WeftFusionContext *context;
  WeftModule *replacement;
  WeftTransformList *rules;
} Part;

static void
part_clear (gpointer pointer)
{
  Part *part = pointer;

  g_clear_object (&part->context);
  g_clear_object (&part->replacement);
  g_clear_object (&part->rules);
}

static GHashTable *
new_texts (void)
{
  return g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
}

WeftAppliedState *
weft_applied_state_new (WeftModuleTree *tree)
{
  WeftAppliedState *self = g_new0 (WeftAppliedState, 1);

  self->tree = g_object_ref (tree);
  self->transforms = weft_transform_list_new ();
  self->patches = weft_patch_mapping_new ();
  self->plans = g_ptr_array_new_with_free_func (g_object_unref);
  self->replaced = new_texts ();
  self->replaced_below = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->taken = new_texts ();
  self->made = new_texts ();
  self->styles = g_ptr_array_new_with_free_func (g_free);
  return self;
}

void
weft_applied_state_free (WeftAppliedState *self)
{
  g_object_unref (self->tree);
  g_object_unref (self->transforms);
  g_object_unref (self->patches);
  g_ptr_array_unref (self->plans);
  g_hash_table_unref (self->replaced_below);
  g_hash_table_unref (self->replaced);
  g_hash_table_unref (self->taken);
  g_hash_table_unref (self->made);
  g_ptr_array_unref (self->styles);
  g_free (self);
}

static void
copy_texts (GHashTable *from, GHashTable *to)
{
  GHashTableIter iter;
  gpointer key, value;

  g_hash_table_iter_init (&iter, from);
  while (g_hash_table_iter_next (&iter, &key, &value))
    g_hash_table_insert (to, g_strdup (key), g_strdup (value));
}

static void
add_replaced (WeftAppliedState *self, const gchar *fqn, const gchar *origin)
{
  gchar *kept = g_strdup (origin);

  g_hash_table_insert (self->replaced, g_strdup (fqn), kept);
  weft_replacement_add_above (self->replaced_below, fqn, kept);
}

static void
copy_replaced (GHashTable *from, WeftAppliedState *to)
{
  GHashTableIter iter;
  gpointer fqn, origin;

  g_hash_table_iter_init (&iter, from);
  while (g_hash_table_iter_next (&iter, &fqn, &origin))
    add_replaced (to, fqn, origin);
}

static WeftAppliedState *
copy_state (const WeftAppliedState *state)
{
  WeftAppliedState *copy = weft_applied_state_new (state->tree);

  weft_transform_list_append_list (copy->transforms, state->transforms);
  g_set_object (&copy->patches, state->patches);
  for (guint i = 0; i < state->plans->len; i++)
    g_ptr_array_add (copy->plans, g_object_ref (state->plans->pdata[i]));
  copy_replaced (state->replaced, copy);
  copy_texts (state->taken, copy->taken);
  copy_texts (state->made, copy->made);
  for (guint i = 0; i < state->styles->len; i++)
    g_ptr_array_add (copy->styles, g_strdup (state->styles->pdata[i]));
  return copy;
}

static void
prefix_part (GError **error, const Part *part)
{
  g_prefix_error (error, "%s: '%s': ", part->step->origin, part->step->fqns[0]);
}

/* What a runtime asks of a module beside its tensors has to stay, where the skeleton records it. */
static gboolean
check_protocol (const Part *part, GError **error)
{
  static const gchar *const attributes[] = { "training", "call_protocol" };

  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    {
      GVariant *old = weft_module_get_attribute (part->step->module, attributes[i]);
      GVariant *new = weft_module_get_attribute (part->replacement, attributes[i]);

      if (old == NULL || (new != NULL &&g_variant_equal (old, new)))
        continue;
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "the replacement changes '%s' of the module",
                   attributes[i]);
      return FALSE;
    }
  return TRUE;
}

/* Rules belong to one replacement: an instance that was seen before would change under another's hands. */
static gboolean
check_new_rules (const Part *part, GHashTable *seen, GError **error)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (part->rules); i++)
    if (!g_hash_table_add (seen, g_object_ref (weft_transform_list_get_transform (part->rules, i))))
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
            "make_transforms of '%s' gave a rule that it gave before; it makes new ones at every call",
            part->step->target->name);
        return FALSE;
      }
  return TRUE;
}

static gboolean
build (Part *part, JsonNode *config, const gchar *where, GError **error)
{
  part->context = weft_fusion_context_new (part->step->module, part->step->fqns[0], config, where);
  part->replacement = weft_fusion_target_replace (part->step->target, part->context, error);
  return part->replacement != NULL && check_protocol (part, error);
}

static gboolean
check (Part *part, WeftAppliedState *state, GHashTable *seen, JsonNode *config, GError **error)
{
  static const gchar *const nothing[] = { NULL };
  g_autoptr (WeftOpContext) facts = weft_op_context_new (nothing, nothing);
  WeftSchemaCheck schema = { part->step->module, part->replacement, part->step->fqns[0], NULL, facts,
                             part->step->origin };

  part->rules =
      weft_fusion_target_make_transforms (part->step->target, part->replacement, part->context, error);
  if (part->rules == NULL || !check_new_rules (part, seen, error))
    return FALSE;
  weft_op_context_set_config (facts, config);
  schema.rules = part->rules;
  return weft_schema_check_run (&schema, state->taken, state->made, error);
}

/* Whether a module is still what it was when the plan was compiled. */
static gboolean
check_in_place (const Part *part, WeftModuleTree *tree, GError **error)
{
  g_autoptr (WeftModule) now = weft_module_tree_find_module (tree, part->step->fqns[0]);
  g_auto (GStrv) names = weft_module_list_tensors (part->step->module);
  gboolean is_same = now != NULL && strcmp (weft_module_get_class_name (now), part->step->old_class) == 0;

  for (guint i = 0; is_same && names[i] != NULL; i++)
    is_same =
        weft_module_find_tensor (now, names[i]) == weft_module_find_tensor (part->step->module, names[i]);
  if (is_same)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "the module is no longer what it was when the plan was compiled: %s",
               now != NULL ? "it is replaced already" : "it is gone");
  return FALSE;
}

/* A module is registered under each of its paths, and so are its rules. */
static gboolean
add_rules (const Part *part, WeftAppliedState *state, GError **error)
{
  for (guint i = 0; part->step->fqns[i] != NULL; i++)
    {
      g_autoptr (WeftTransformList) copy = weft_transform_list_copy (part->rules, error);

      if (copy == NULL)
        return FALSE;
      for (guint j = 0; j < weft_transform_list_get_n_transforms (copy); j++)
        {
          WeftWeightTransform *rule = weft_transform_list_get_transform (copy, j);

          weft_weight_transform_set_scope (rule, part->step->fqns[i], NULL);
          weft_weight_transform_set_origin (rule, part->step->origin, j);
        }
      weft_transform_list_append_list (state->transforms, copy);
      add_replaced (state, part->step->fqns[i], part->step->origin);
    }
  return TRUE;
}

static void
add_styles (const Part *part, WeftAppliedState *state)
{
  g_autoptr (GVariant) styles = weft_fusion_target_list_parallel_styles (part->step->target, part->context);
  GVariantIter iter;
  const gchar *name, *style;

  if (styles == NULL)
    return;
  g_variant_iter_init (&iter, styles);
  while (g_variant_iter_next (&iter, "{&s&s}", &name, &style))
    {
      g_ptr_array_add (state->styles, weft_module_tensors_join (part->step->fqns[0], name));
      g_ptr_array_add (state->styles, g_strdup (style));
    }
}

static guint
count_components (const gchar *fqn)
{
  guint n = fqn[0] != '\0';

  for (; *fqn != '\0'; fqn++)
    n += *fqn == '.';
  return n;
}

/* Puts the nodes into the tree, a level at a time: a family may replace a module within one that another family replaces, whose
 * copy holds the old one. */
static gboolean
install_nodes (GArray *parts, WeftAppliedState *state, GError **error)
{
  guint n_left = parts->len;

  for (guint level = 0; n_left > 0; level++)
    {
      g_autoptr (GHashTable) nodes = g_hash_table_new (g_str_hash, g_str_equal);
      WeftModuleTree *tree;

      for (guint i = 0; i < parts->len; i++)
        {
          const Part *part = &g_array_index (parts, Part, i);

          if (count_components (part->step->fqns[0]) == level)
            g_hash_table_insert (nodes, part->step->fqns[0], part->replacement);
        }
      n_left -= g_hash_table_size (nodes);
      if (g_hash_table_size (nodes) == 0)
        continue;
      tree = weft_module_tree_replace (state->tree, nodes, error);
      if (tree == NULL)
        return FALSE;
      g_object_unref (state->tree);
      state->tree = tree;
    }
  return TRUE;
}

static gboolean
add_patch (const Part *part, WeftPatchMapping *patches, GError **error)
{
  const gchar *names[] = { part->step->old_class, NULL };
  const gchar *classes[] = { weft_module_get_class_name (part->replacement), NULL };

  return weft_patch_mapping_register (patches, names, classes, TRUE, error);
}

static gboolean
install (GArray *parts, WeftAppliedState *state, GError **error)
{
  g_autoptr (WeftPatchMapping) patches = weft_patch_mapping_copy (state->patches);

  for (guint i = 0; i < parts->len; i++)
    {
      const Part *part = &g_array_index (parts, Part, i);

      if (!add_patch (part, patches, error) || !add_rules (part, state, error))
        {
          prefix_part (error, part);
          return FALSE;
        }
      add_styles (part, state);
    }
  g_set_object (&state->patches, patches);
  return install_nodes (parts, state, error);
}

WeftAppliedState *
weft_application_run (const WeftAppliedState *state, WeftReplacementPlan *plan, JsonNode *config,
                      const gchar *where, GError **error)
{
  g_autoptr (WeftAppliedState) next = copy_state (state);
  g_autoptr (GArray) parts = g_array_new (FALSE, TRUE, sizeof (Part));
  g_autoptr (GHashTable) seen = g_hash_table_new_full (NULL, NULL, g_object_unref, NULL);
  guint n = weft_replacement_plan_get_n_modules (plan);

  g_array_set_clear_func (parts, part_clear);
  g_array_set_size (parts, n);
  for (guint i = 0; i < n; i++)
    {
      Part *part = &g_array_index (parts, Part, i);

      part->step = weft_replacement_plan_get_step (plan, i);
      if (!build (part, config, where, error))
        {
          prefix_part (error, part);
          return NULL;
        }
    }
  for (guint i = 0; i < n; i++)
    {
      Part *part = &g_array_index (parts, Part, i);

      if (!check (part, next, seen, config, error) || !check_in_place (part, state->tree, error))
        {
          prefix_part (error, part);
          return NULL;
        }
    }
  g_ptr_array_add (next->plans, g_object_ref (plan));
  return install (parts, next, error) ? g_steal_pointer (&next) : NULL;
}
