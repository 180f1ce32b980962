/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-stage-internal.h"

#include <string.h>

/* The rules of one module. Models have thousands of them, so that a key only meets the rules of the modules it is in. */
typedef struct
{
  WeftTransformList *rules;
  /* For each its position in the whole list. */
  GArray *positions;
} Scope;

/* What one place of the outputs is made of: a conversion, or the input that passes. */
typedef struct
{
  WeftConversion *conversion;
  Scope *scope;
  guint input;
} Item;

typedef struct
{
  WeftStage *stage;
  GHashTable *scopes;
  GArray *items;
  /* Name under which sources meet, or that passes -> position in items. */
  GHashTable *by_name;
} Run;

static void
scope_free (gpointer pointer)
{
  Scope *scope = pointer;

  g_object_unref (scope->rules);
  g_array_unref (scope->positions);
  g_free (scope);
}

static GHashTable *
sort_by_scope (WeftTransformList *rules, GError **error)
{
  g_autoptr (GHashTable) scopes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, scope_free);

  for (guint i = 0; i < weft_transform_list_get_n_transforms (rules); i++)
    {
      WeftWeightTransform *rule = weft_transform_list_get_transform (rules, i);
      const gchar *prefix = weft_weight_transform_get_scope_prefix (rule);
      Scope *scope = g_hash_table_lookup (scopes, prefix != NULL ? prefix : "");

      if (scope == NULL)
        {
          scope = g_new0 (Scope, 1);
          scope->rules = weft_transform_list_new_like (rules);
          scope->positions = g_array_new (FALSE, FALSE, sizeof (guint));
          g_hash_table_insert (scopes, g_strdup (prefix != NULL ? prefix : ""), scope);
        }
      weft_transform_list_append (scope->rules, rule);
      g_array_append_val (scope->positions, i);
    }
  return g_steal_pointer (&scopes);
}

/* Tries the rules of one module on a key that is in it. NULL without an error: none matches. */
static WeftRenamedKey *
try_scope (Scope *scope, const gchar *key, GError **error)
{
  g_autoptr (WeftRenamedKey) renamed = NULL;

  if (scope == NULL)
    return NULL;
  renamed = weft_transform_list_rename_key (scope->rules, key, NULL, NULL, error);
  return renamed != NULL && weft_renamed_key_get_n_steps (renamed) > 0 ? g_steal_pointer (&renamed) : NULL;
}

/* The rules of the outermost module that has one for the key. */
static gboolean
rename_key (Run *run, const gchar *key, Scope **scope, WeftRenamedKey **renamed, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *module = g_strdup (key);
  gsize length = strlen (key);

  *scope = g_hash_table_lookup (run->scopes, "");
  *renamed = try_scope (*scope, key, &local_error);
  for (gsize i = 0; *renamed == NULL && local_error == NULL && i < length; i++)
    if (key[i] == '.')
      {
        module[i] = '\0';
        *scope = g_hash_table_lookup (run->scopes, module);
        module[i] = '.';
        *renamed = try_scope (*scope, key, &local_error);
      }
  if (local_error != NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));
  return *renamed != NULL || local_error == NULL;
}

static gboolean
refuse_second (Run *run, const Item *first, guint input, const gchar *name, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "'%s' and '%s' both become '%s'",
               weft_state_dict_get_name (run->stage->inputs, first->input),
               weft_state_dict_get_name (run->stage->inputs, input), name);
  return FALSE;
}

static gboolean
add_item (Run *run, const gchar *name, const Item *item, GError **error)
{
  gpointer known;

  if (g_hash_table_lookup_extended (run->by_name, name, NULL, &known))
    return refuse_second (run, &g_array_index (run->items, Item, GPOINTER_TO_UINT (known)), item->input, name,
                          error);
  g_hash_table_insert (run->by_name, (gpointer) name, GUINT_TO_POINTER (run->items->len));
  g_array_append_vals (run->items, item, 1);
  return TRUE;
}

/* Files a key that met a rule under the name it got. */
static gboolean
collect (Run *run, Scope *scope, WeftRenamedKey *renamed, guint input, GError **error)
{
  Item item = { NULL, scope, input };
  gint rule = weft_renamed_key_get_converter (renamed);
  gpointer known;

  if (rule >= 0
      && g_hash_table_lookup_extended (run->by_name, weft_renamed_key_get_name (renamed), NULL, &known))
    {
      Item *first = &g_array_index (run->items, Item, GPOINTER_TO_UINT (known));

      if (first->conversion == NULL
          || first->conversion->rule != g_array_index (scope->positions, gint, rule))
        return refuse_second (run, first, input, weft_renamed_key_get_name (renamed), error);
      weft_conversion_collect (first->conversion, renamed, input);
      return TRUE;
    }
  item.conversion = weft_conversion_new_for_key (renamed, scope->rules, error);
  if (item.conversion == NULL)
    return FALSE;
  g_ptr_array_add (run->stage->conversions, item.conversion);
  if (rule >= 0)
    item.conversion->rule = g_array_index (scope->positions, gint, rule);
  weft_conversion_collect (item.conversion, renamed, input);
  return add_item (run, item.conversion->layer, &item, error);
}

static gboolean
add_key (Run *run, guint input, GError **error)
{
  const gchar *key = weft_state_dict_get_name (run->stage->inputs, input);
  g_autoptr (WeftRenamedKey) renamed = NULL;
  Scope *scope;

  if (!rename_key (run, key, &scope, &renamed, error))
    return FALSE;
  return renamed != NULL ? collect (run, scope, renamed, input, error)
                         : add_item (run, key, &(Item){ NULL, NULL, input }, error);
}

static gboolean
add_output (WeftStage *self, const gchar *name, WeftTensor *tensor, WeftConversion *maker, guint origin,
            GError **error)
{
  if (!weft_state_dict_add (self->outputs, name, tensor, error))
    return FALSE;
  g_ptr_array_add (self->makers, maker);
  g_array_append_val (self->origins, origin);
  return TRUE;
}

/* What the ops of a turned-round converter give is renamed by the turned-round renamings. */
static gchar *
name_output (const Item *item, const gchar *name, GError **error)
{
  return item->conversion->converter != NULL && weft_transform_list_is_inverse (item->scope->rules)
             ? weft_transform_list_rename_output (item->scope->rules, name, error)
             : g_strdup (name);
}

static gboolean
run_item (WeftStage *self, const Item *item, WeftOpContext *facts, GError **error)
{
  WeftConversion *conversion = item->conversion;
  g_autoptr (GError) local_error = NULL;

  if (conversion == NULL)
    return add_output (self, weft_state_dict_get_name (self->inputs, item->input),
                       weft_state_dict_get_tensor (self->inputs, item->input), NULL, item->input, error);
  if (!weft_conversion_run (conversion, self->inputs, WEFT_DTYPE_INVALID, facts, &local_error))
    {
      g_ptr_array_add (self->failures, g_strdup (conversion->layer));
      g_ptr_array_add (self->failures, g_strdup (local_error->message));
      return TRUE;
    }
  if (!weft_conversion_prove (conversion, self->inputs, facts, error))
    {
      g_prefix_error (error, "'%s': ", conversion->layer);
      return FALSE;
    }
  for (guint i = 0; i < conversion->outputs->len; i++)
    {
      WeftConversionOutput *output = &g_array_index (conversion->outputs, WeftConversionOutput, i);
      gchar *name = name_output (item, output->name, error);

      if (name == NULL)
        return FALSE;
      g_free (output->name);
      output->name = name;
      if (!add_output (self, name, output->tensor, conversion, item->input, error))
        return FALSE;
    }
  return TRUE;
}

WeftStage *
weft_stage_run (WeftStateDict *inputs, WeftTransformList *rules, WeftOpContext *facts, GError **error)
{
  g_autoptr (WeftStage) self = g_new0 (WeftStage, 1);
  g_autoptr (GHashTable) scopes = sort_by_scope (rules, error);
  g_autoptr (GHashTable) by_name = g_hash_table_new (g_str_hash, g_str_equal);
  g_autoptr (GArray) items = g_array_new (FALSE, FALSE, sizeof (Item));
  Run run = { self, scopes, items, by_name };

  self->rules = g_object_ref (rules);
  self->inputs = g_object_ref (inputs);
  self->outputs = weft_state_dict_new ();
  self->conversions = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_conversion_free);
  self->makers = g_ptr_array_new ();
  self->origins = g_array_new (FALSE, FALSE, sizeof (guint));
  self->failures = g_ptr_array_new_with_free_func (g_free);
  for (guint i = 0; i < weft_state_dict_get_n_tensors (inputs); i++)
    if (!add_key (&run, i, error))
      return NULL;
  for (guint i = 0; i < items->len; i++)
    if (!run_item (self, &g_array_index (items, Item, i), facts, error))
      return NULL;
  return g_steal_pointer (&self);
}

void
weft_stage_free (WeftStage *self)
{
  g_clear_object (&self->rules);
  g_clear_object (&self->inputs);
  g_clear_object (&self->outputs);
  g_clear_pointer (&self->makers, g_ptr_array_unref);
  g_clear_pointer (&self->origins, g_array_unref);
  g_clear_pointer (&self->failures, g_ptr_array_unref);
  g_clear_pointer (&self->conversions, g_ptr_array_unref);
  g_free (self);
}

guint
weft_stage_get_origin (WeftStage *self, guint output)
{
  return g_array_index (self->origins, guint, output);
}
