/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-module-body-private.h"

#include <string.h>

#include "base/weft-error.h"

static void
clear_attribute (gpointer pointer)
{
  WeftModuleAttribute *attribute = pointer;

  g_ref_string_release (attribute->name);
  g_variant_unref (attribute->value);
}

static void
clear_tensor (gpointer pointer)
{
  WeftModuleTensor *tensor = pointer;

  g_ref_string_release (tensor->name);
  weft_tensor_spec_unref (tensor->spec);
}

static void
clear_child (gpointer pointer)
{
  WeftModuleChild *child = pointer;

  g_ref_string_release (child->name);
  weft_module_body_unref (child->body);
  g_clear_pointer (&child->alias_of, g_ref_string_release);
}

static GArray *
new_array (gsize element_size, GDestroyNotify clear)
{
  GArray *array = g_array_new (FALSE, TRUE, (guint) element_size);

  g_array_set_clear_func (array, clear);
  return array;
}

/* @bases: (nullable): taken as it is */
WeftModuleBody *
weft_module_body_new (const gchar *class_name, GPtrArray *bases)
{
  WeftModuleBody *self = g_new0 (WeftModuleBody, 1);

  g_atomic_ref_count_init (&self->n_references);
  self->class_name = g_ref_string_new (class_name);
  self->bases = bases != NULL ? g_ptr_array_ref (bases) : weft_module_bases_new (NULL);
  self->attributes = new_array (sizeof (WeftModuleAttribute), clear_attribute);
  self->tensors = new_array (sizeof (WeftModuleTensor), clear_tensor);
  self->children = new_array (sizeof (WeftModuleChild), clear_child);
  return self;
}

WeftModuleBody *
weft_module_body_ref (WeftModuleBody *self)
{
  g_atomic_ref_count_inc (&self->n_references);
  return self;
}

/* The depth of bodies is bounded. */
void
weft_module_body_unref (WeftModuleBody *self)
{
  if (!g_atomic_ref_count_dec (&self->n_references))
    return;
  g_ref_string_release (self->class_name);
  g_ptr_array_unref (self->bases);
  g_array_unref (self->attributes);
  g_array_unref (self->tensors);
  g_array_unref (self->children);
  g_free (self);
}

WeftModuleBody *
weft_module_body_copy (const WeftModuleBody *self)
{
  WeftModuleBody *copy = weft_module_body_new (self->class_name, self->bases);

  for (guint i = 0; i < self->attributes->len; i++)
    {
      const WeftModuleAttribute *attribute = &g_array_index (self->attributes, WeftModuleAttribute, i);

      weft_module_body_set_attribute (copy, attribute->name, attribute->value);
    }
  for (guint i = 0; i < self->tensors->len; i++)
    {
      const WeftModuleTensor *tensor = &g_array_index (self->tensors, WeftModuleTensor, i);
      WeftModuleTensor own = { g_ref_string_acquire (tensor->name), weft_tensor_spec_ref (tensor->spec) };

      g_array_append_val (copy->tensors, own);
    }
  for (guint i = 0; i < self->children->len; i++)
    {
      const WeftModuleChild *child = &g_array_index (self->children, WeftModuleChild, i);
      WeftModuleChild own = { g_ref_string_acquire (child->name), weft_module_body_ref (child->body),
                              child->alias_of != NULL ? g_ref_string_acquire (child->alias_of) : NULL };

      g_array_append_val (copy->children, own);
    }
  return copy;
}

static void
release_text (gpointer text)
{
  if (text != NULL)
    g_ref_string_release (text);
}

/* @names: (nullable): nearest first */
GPtrArray *
weft_module_bases_new (const gchar *const *names)
{
  GPtrArray *bases = g_ptr_array_new_with_free_func (release_text);

  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    g_ptr_array_add (bases, g_ref_string_new (names[i]));
  g_ptr_array_add (bases, NULL);
  return bases;
}

void
weft_module_body_set_class (WeftModuleBody *self, const gchar *class_name, GPtrArray *bases)
{
  /* Released last: the new ones may be the same. */
  g_autoptr (GPtrArray) old G_GNUC_UNUSED = self->bases;

  g_ref_string_release (self->class_name);
  self->class_name = g_ref_string_new (class_name);
  self->bases = g_ptr_array_ref (bases);
}

void
weft_module_body_set_attribute (WeftModuleBody *self, const gchar *name, GVariant *value)
{
  WeftModuleAttribute attribute = { g_ref_string_new (name), g_variant_ref_sink (value) };

  for (guint i = 0; i < self->attributes->len; i++)
    {
      WeftModuleAttribute *old = &g_array_index (self->attributes, WeftModuleAttribute, i);

      if (strcmp (old->name, name) != 0)
        continue;
      clear_attribute (old);
      *old = attribute;
      return;
    }
  g_array_append_val (self->attributes, attribute);
}

static gint
find_tensor (const WeftModuleBody *self, const gchar *name)
{
  for (guint i = 0; i < self->tensors->len; i++)
    if (strcmp (g_array_index (self->tensors, WeftModuleTensor, i).name, name) == 0)
      return (gint) i;
  return -1;
}

static gint
find_child (const WeftModuleBody *self, const gchar *name)
{
  for (guint i = 0; i < self->children->len; i++)
    if (strcmp (g_array_index (self->children, WeftModuleChild, i).name, name) == 0)
      return (gint) i;
  return -1;
}

/* @old_name: (nullable): %NULL appends without looking */
void
weft_module_body_set_tensor (WeftModuleBody *self, const gchar *old_name, const gchar *name,
                             WeftTensorSpec *spec)
{
  WeftModuleTensor tensor = { g_ref_string_new (name), weft_tensor_spec_ref (spec) };
  gint position = old_name != NULL ? find_tensor (self, old_name) : -1;

  if (position < 0)
    {
      g_array_append_val (self->tensors, tensor);
      return;
    }
  clear_tensor (&g_array_index (self->tensors, WeftModuleTensor, (guint) position));
  g_array_index (self->tensors, WeftModuleTensor, (guint) position) = tensor;
}

void
weft_module_body_set_child (WeftModuleBody *self, const gchar *old_name, const gchar *name,
                            WeftModuleBody *body, const gchar *alias_of)
{
  WeftModuleChild child = { g_ref_string_new (name), weft_module_body_ref (body),
                            alias_of != NULL ? g_ref_string_new (alias_of) : NULL };
  gint position = old_name != NULL ? find_child (self, old_name) : -1;

  if (position < 0)
    {
      g_array_append_val (self->children, child);
      return;
    }
  clear_child (&g_array_index (self->children, WeftModuleChild, (guint) position));
  g_array_index (self->children, WeftModuleChild, (guint) position) = child;
}

gboolean
weft_module_body_remove_tensor (WeftModuleBody *self, const gchar *name)
{
  gint position = find_tensor (self, name);

  if (position >= 0)
    g_array_remove_index (self->tensors, (guint) position);
  return position >= 0;
}

gboolean
weft_module_body_remove_child (WeftModuleBody *self, const gchar *name)
{
  gint position = find_child (self, name);

  if (position >= 0)
    g_array_remove_index (self->children, (guint) position);
  return position >= 0;
}

const WeftModuleAttribute *
weft_module_body_find_attribute (const WeftModuleBody *self, const gchar *name)
{
  for (guint i = 0; i < self->attributes->len; i++)
    if (strcmp (g_array_index (self->attributes, WeftModuleAttribute, i).name, name) == 0)
      return &g_array_index (self->attributes, WeftModuleAttribute, i);
  return NULL;
}

const WeftModuleTensor *
weft_module_body_find_tensor (const WeftModuleBody *self, const gchar *name)
{
  gint position = find_tensor (self, name);

  return position >= 0 ? &g_array_index (self->tensors, WeftModuleTensor, (guint) position) : NULL;
}

const WeftModuleChild *
weft_module_body_find_child (const WeftModuleBody *self, const gchar *name)
{
  gint position = find_child (self, name);

  return position >= 0 ? &g_array_index (self->children, WeftModuleChild, (guint) position) : NULL;
}

gboolean
weft_module_body_check_depth (const gchar *name, const gchar *where, GError **error)
{
  guint depth = 0;

  for (const gchar *dot = strchr (name, '.'); dot != NULL; dot = strchr (dot + 1, '.'))
    depth++;
  if (depth <= WEFT_MAX_MODULE_DEPTH)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "%s: '%.100s...' is nested deeper than %d levels", where,
               name, WEFT_MAX_MODULE_DEPTH);
  return FALSE;
}
