/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-renamed-key-private.h"

typedef struct
{
  guint transform;
  gchar *pattern;
} Step;

struct _WeftRenamedKey
{
  gchar *name;
  Step *steps; /* (nullable): most keys meet no rule */
  guint n_steps;
  gint converter;
  gchar *converter_input;
  gboolean is_kept;
};

G_DEFINE_BOXED_TYPE (WeftRenamedKey, weft_renamed_key, weft_renamed_key_copy, weft_renamed_key_free)

static void
clear_steps (WeftRenamedKey *self)
{
  for (guint i = 0; i < self->n_steps; i++)
    g_free (self->steps[i].pattern);
  g_clear_pointer (&self->steps, g_free);
  self->n_steps = 0;
}

/* weft_renamed_key_new: @key, that met no rule yet. */
WeftRenamedKey *
weft_renamed_key_new (const gchar *key)
{
  WeftRenamedKey *self = g_new0 (WeftRenamedKey, 1);

  self->name = g_strdup (key);
  self->converter = -1;
  return self;
}

/**
 * weft_renamed_key_copy:
 * @self: a renamed key
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftRenamedKey *
weft_renamed_key_copy (const WeftRenamedKey *self)
{
  WeftRenamedKey *copy = weft_renamed_key_new (self->name);

  for (guint i = 0; i < weft_renamed_key_get_n_steps (self); i++)
    weft_renamed_key_take_step (copy, weft_renamed_key_get_step_transform (self, i),
                                g_strdup (weft_renamed_key_get_step_pattern (self, i)),
                                g_strdup (self->name));
  copy->converter = self->converter;
  copy->converter_input = g_strdup (self->converter_input);
  copy->is_kept = self->is_kept;
  return copy;
}

/**
 * weft_renamed_key_free:
 * @self: (transfer full): a renamed key
 *
 * Since: 1.0
 */
void
weft_renamed_key_free (WeftRenamedKey *self)
{
  g_free (self->name);
  clear_steps (self);
  g_free (self->converter_input);
  g_free (self);
}

/* weft_renamed_key_take_step: a rule matched and gave @name. */
void
weft_renamed_key_take_step (WeftRenamedKey *self, guint transform, gchar *pattern, gchar *name)
{
  self->steps = g_renew (Step, self->steps, self->n_steps + 1);
  self->steps[self->n_steps++] = (Step){ transform, pattern };
  weft_renamed_key_take_name (self, name);
}

/* weft_renamed_key_take_conversion: a converter matched and gave @name. */
void
weft_renamed_key_take_conversion (WeftRenamedKey *self, guint transform, gchar *pattern, gchar *name)
{
  self->converter = (gint) transform;
  self->converter_input = g_steal_pointer (&self->name);
  weft_renamed_key_take_step (self, transform, pattern, name);
}

/* weft_renamed_key_take_name: another name, by no rule. */
void
weft_renamed_key_take_name (WeftRenamedKey *self, gchar *name)
{
  g_free (self->name);
  self->name = name;
}

/* weft_renamed_key_keep: the model knows @key itself, so that all steps are undone. */
void
weft_renamed_key_keep (WeftRenamedKey *self, const gchar *key)
{
  clear_steps (self);
  g_clear_pointer (&self->converter_input, g_free);
  self->converter = -1;
  self->is_kept = TRUE;
  weft_renamed_key_take_name (self, g_strdup (key));
}

/**
 * weft_renamed_key_get_name:
 * @self: a renamed key
 *
 * Returns: (transfer none): the new name; with a converter, the one that its first target gives
 * Since: 1.0
 */
const gchar *
weft_renamed_key_get_name (const WeftRenamedKey *self)
{
  return self->name;
}

/**
 * weft_renamed_key_get_converter:
 * @self: a renamed key
 *
 * Returns: the index in the list of the converter that the key meets, or -1
 * Since: 1.0
 */
gint
weft_renamed_key_get_converter (const WeftRenamedKey *self)
{
  return self->converter;
}

/**
 * weft_renamed_key_get_converter_pattern:
 * @self: a renamed key
 *
 * Returns: (transfer none) (nullable): the source pattern of the converter that matched, or %NULL without a converter
 * Since: 1.0
 */
const gchar *
weft_renamed_key_get_converter_pattern (const WeftRenamedKey *self)
{
  for (guint i = 0; i < weft_renamed_key_get_n_steps (self); i++)
    if (self->converter >= 0 && weft_renamed_key_get_step_transform (self, i) == (guint) self->converter)
      return weft_renamed_key_get_step_pattern (self, i);
  return NULL;
}

/**
 * weft_renamed_key_get_converter_input:
 * @self: a renamed key
 *
 * Returns: (transfer none) (nullable): the name that the converter matched, for weft_weight_transform_resolve_targets()
 * Since: 1.0
 */
const gchar *
weft_renamed_key_get_converter_input (const WeftRenamedKey *self)
{
  return self->converter_input;
}

/**
 * weft_renamed_key_get_n_steps:
 * @self: a renamed key
 *
 * Returns: how many rules matched
 * Since: 1.0
 */
guint
weft_renamed_key_get_n_steps (const WeftRenamedKey *self)
{
  return self->n_steps;
}

/**
 * weft_renamed_key_get_step_transform:
 * @self: a renamed key
 * @step: a step, from 0
 *
 * Returns: the index in the list of the rule that matched
 * Since: 1.0
 */
guint
weft_renamed_key_get_step_transform (const WeftRenamedKey *self, guint step)
{
  g_return_val_if_fail (step < weft_renamed_key_get_n_steps (self), 0);
  return self->steps[step].transform;
}

/**
 * weft_renamed_key_get_step_pattern:
 * @self: a renamed key
 * @step: a step, from 0
 *
 * Returns: (transfer none): the source pattern that matched
 * Since: 1.0
 */
const gchar *
weft_renamed_key_get_step_pattern (const WeftRenamedKey *self, guint step)
{
  g_return_val_if_fail (step < weft_renamed_key_get_n_steps (self), NULL);
  return self->steps[step].pattern;
}

/**
 * weft_renamed_key_is_kept:
 * @self: a renamed key
 *
 * Returns: whether rules matched and were undone, because the model knows the key as it was and not the new name
 * Since: 1.0
 */
gboolean
weft_renamed_key_is_kept (const WeftRenamedKey *self)
{
  return self->is_kept;
}
