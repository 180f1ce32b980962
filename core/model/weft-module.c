/* SPDX-License-Identifier: Apache-2.0 */
#include "model/weft-module.h"

#include <string.h>

#include "model/weft-module-private.h"
#include "model/weft-module-tree-private.h"

struct _WeftModule
{
  GObject parent_instance;

  WeftModuleBody *body;
  gchar *fqn;
  WeftModuleTree *tree; /* (nullable) */
  guint position;       /* in the tree */
};

G_DEFINE_FINAL_TYPE (WeftModule, weft_module, G_TYPE_OBJECT)

static void
weft_module_init (WeftModule *self)
{
}

static void
weft_module_finalize (GObject *object)
{
  WeftModule *self = WEFT_MODULE (object);

  weft_module_body_unref (self->body);
  g_free (self->fqn);
  g_clear_object (&self->tree);
  G_OBJECT_CLASS (weft_module_parent_class)->finalize (object);
}

static void
weft_module_class_init (WeftModuleClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_module_finalize;
}

static WeftModule *
new_module (WeftModuleBody *body, const gchar *fqn)
{
  WeftModule *self = g_object_new (WEFT_TYPE_MODULE, NULL);

  self->body = body;
  self->fqn = g_strdup (fqn);
  return self;
}

WeftModule *
weft_module_new_in_tree (WeftModuleTree *tree, guint position)
{
  const WeftModulePlace *place = &g_array_index (tree->modules, WeftModulePlace, position);
  WeftModule *self = new_module (weft_module_body_ref (place->body), place->fqn);

  self->tree = g_object_ref (tree);
  self->position = position;
  return self;
}

WeftModuleBody *
weft_module_get_body (WeftModule *self)
{
  return self->body;
}

/**
 * weft_module_get_fqn:
 * @self: a module
 *
 * Returns: (transfer none): its path from the model, empty for the model itself; the first one, if it is registered under
 *   several. A copy keeps the path of what it was copied from
 * Since: 1.0
 */
const gchar *
weft_module_get_fqn (WeftModule *self)
{
  return self->fqn;
}

/**
 * weft_module_get_name:
 * @self: a module
 *
 * Returns: (transfer none): the last part of its path
 * Since: 1.0
 */
const gchar *
weft_module_get_name (WeftModule *self)
{
  const gchar *dot = strrchr (self->fqn, '.');

  return dot != NULL ? dot + 1 : self->fqn;
}

static gboolean
is_within (const gchar *fqn, const gchar *above)
{
  gsize length = strlen (above);

  return strncmp (fqn, above, length) == 0 && (fqn[length] == '\0' || fqn[length] == '.');
}

/**
 * weft_module_dup_fqns:
 * @self: a module
 *
 * Returns: (transfer full): all paths under which it is registered in its tree, the first one first
 * Since: 1.0
 */
GStrv
weft_module_dup_fqns (WeftModule *self)
{
  g_autoptr (GStrvBuilder) paths = g_strv_builder_new ();

  g_strv_builder_add (paths, self->fqn);
  for (guint i = 0; self->tree != NULL && i < self->tree->aliases->len; i++)
    {
      const WeftAliasPlace *alias = &g_array_index (self->tree->aliases, WeftAliasPlace, i);
      g_autofree gchar *path = NULL;

      if (!is_within (self->fqn, alias->alias_of))
        continue;
      path = g_strconcat (alias->fqn, self->fqn + strlen (alias->alias_of), NULL);
      g_strv_builder_add (paths, path);
    }
  return g_strv_builder_end (paths);
}

/**
 * weft_module_get_tree:
 * @self: a module
 *
 * Returns: (transfer none) (nullable): the tree it is in; %NULL for one that can be changed
 * Since: 1.0
 */
WeftModuleTree *
weft_module_get_tree (WeftModule *self)
{
  return self->tree;
}

/**
 * weft_module_get_parent:
 * @self: a module
 *
 * Returns: (transfer full) (nullable): the module it is a child of; %NULL for the model itself and for one in no tree
 * Since: 1.0
 */
WeftModule *
weft_module_get_parent (WeftModule *self)
{
  if (self->tree == NULL || self->position == 0)
    return NULL;
  return weft_module_new_in_tree (
      self->tree, g_array_index (self->tree->modules, WeftModulePlace, self->position).parent);
}

/**
 * weft_module_get_config:
 * @self: a module
 *
 * Returns: (transfer none) (nullable): the config of the nearest sub-model that it is in; %NULL if the tree was made without,
 *   and for one in no tree
 * Since: 1.0
 */
WeftModelConfig *
weft_module_get_config (WeftModule *self)
{
  WeftModelConfig *nearest = NULL;
  gsize length = 0;

  for (guint i = 0; self->tree != NULL && i < self->tree->sub_models->len; i++)
    {
      const WeftSubModel *sub_model = &g_array_index (self->tree->sub_models, WeftSubModel, i);
      gboolean is_in = sub_model->fqn[0] == '\0' || is_within (self->fqn, sub_model->fqn);

      if (!is_in || sub_model->config == NULL || strlen (sub_model->fqn) < length)
        continue;
      nearest = sub_model->config;
      length = strlen (sub_model->fqn);
    }
  return nearest;
}

/**
 * weft_module_get_class_name:
 * @self: a module
 *
 * Returns: (transfer none): its class
 * Since: 1.0
 */
const gchar *
weft_module_get_class_name (WeftModule *self)
{
  return self->body->class_name;
}

/**
 * weft_module_get_bases:
 * @self: a module
 *
 * Returns: (transfer none) (array zero-terminated=1): the classes that its class derives from, in the order in which methods
 *   are looked for; empty if they are not known
 * Since: 1.0
 */
const gchar *const *
weft_module_get_bases (WeftModule *self)
{
  return (const gchar *const *) self->body->bases->pdata;
}

/**
 * weft_module_is_a:
 * @self: a module
 * @class_name: a class
 *
 * Returns: whether its class is @class_name or derives from it
 * Since: 1.0
 */
gboolean
weft_module_is_a (WeftModule *self, const gchar *class_name)
{
  return strcmp (self->body->class_name, class_name) == 0
         || g_strv_contains (weft_module_get_bases (self), class_name);
}

/**
 * weft_module_list_attributes:
 * @self: a module
 *
 * Returns: (transfer full): the names of its attributes
 * Since: 1.0
 */
GStrv
weft_module_list_attributes (WeftModule *self)
{
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  for (guint i = 0; i < self->body->attributes->len; i++)
    g_strv_builder_add (names, g_array_index (self->body->attributes, WeftModuleAttribute, i).name);
  return g_strv_builder_end (names);
}

/**
 * weft_module_get_attribute:
 * @self: a module
 * @name: an attribute, such as `kernel_size`
 *
 * Returns: (transfer none) (nullable): its value: a whole number (`x`), a real one (`d`), a truth value (`b`), a text (`s`), a
 *   list of these (`ax`, `ad`, `as`), or nothing (`mx`); %NULL if the module has no such attribute
 * Since: 1.0
 */
GVariant *
weft_module_get_attribute (WeftModule *self, const gchar *name)
{
  const WeftModuleAttribute *attribute = weft_module_body_find_attribute (self->body, name);

  return attribute != NULL ? attribute->value : NULL;
}

/**
 * weft_module_get_attribute_int:
 * @self: a module
 * @name: an attribute, such as `in_features`
 * @value: (out): its value
 *
 * Returns: whether the module has the attribute, and it is a whole number
 * Since: 1.0
 */
gboolean
weft_module_get_attribute_int (WeftModule *self, const gchar *name, gint64 *value)
{
  GVariant *attribute = weft_module_get_attribute (self, name);

  if (attribute == NULL || !g_variant_is_of_type (attribute, G_VARIANT_TYPE_INT64))
    return FALSE;
  *value = g_variant_get_int64 (attribute);
  return TRUE;
}

/**
 * weft_module_get_n_children:
 * @self: a module
 *
 * Returns: the number of modules that are registered in it
 * Since: 1.0
 */
guint
weft_module_get_n_children (WeftModule *self)
{
  return self->body->children->len;
}

/**
 * weft_module_get_child_name:
 * @self: a module
 * @position: which one
 *
 * Returns: (transfer none): the name under which the child is registered
 * Since: 1.0
 */
const gchar *
weft_module_get_child_name (WeftModule *self, guint position)
{
  g_return_val_if_fail (position < self->body->children->len, NULL);
  return g_array_index (self->body->children, WeftModuleChild, position).name;
}

static gchar *
join_path (const gchar *first, const gchar *second)
{
  return g_strconcat (first, first[0] != '\0' ? "." : "", second, NULL);
}

static WeftModule *
get_child (WeftModule *self, const WeftModuleChild *child)
{
  g_autofree gchar *fqn = join_path (self->fqn, child->name);

  return self->tree != NULL ? weft_module_tree_find_module (self->tree, fqn)
                            : new_module (weft_module_body_ref (child->body), fqn);
}

/**
 * weft_module_get_child:
 * @self: a module
 * @position: which one
 *
 * Returns: (transfer full): the child. That of a module in no tree is a copy: put it back with weft_module_set_child() if
 *   you change it
 * Since: 1.0
 */
WeftModule *
weft_module_get_child (WeftModule *self, guint position)
{
  g_return_val_if_fail (position < self->body->children->len, NULL);
  return get_child (self, &g_array_index (self->body->children, WeftModuleChild, position));
}

/* Names of children may contain dots, where a file lists some modules only. */
static const WeftModuleChild *
find_on_path (const WeftModuleBody *body, const gchar *path, const gchar **rest)
{
  for (guint i = 0; i < body->children->len; i++)
    {
      const WeftModuleChild *child = &g_array_index (body->children, WeftModuleChild, i);

      if (!is_within (path, child->name))
        continue;
      *rest = path + strlen (child->name);
      *rest += **rest == '.' ? 1 : 0;
      return child;
    }
  return NULL;
}

/**
 * weft_module_find:
 * @self: a module
 * @path: a path from it, such as `mlp.gate_proj`
 *
 * Returns: (transfer full) (nullable): the module there, or %NULL. See weft_module_get_child() about changing it
 * Since: 1.0
 */
WeftModule *
weft_module_find (WeftModule *self, const gchar *path)
{
  g_autofree gchar *fqn = join_path (self->fqn, path);
  WeftModuleBody *body = self->body;

  if (self->tree != NULL)
    return weft_module_tree_find_module (self->tree, fqn);
  while (path[0] != '\0' && body != NULL)
    {
      const WeftModuleChild *child = find_on_path (body, path, &path);

      body = child != NULL ? child->body : NULL;
    }
  return body != NULL ? new_module (weft_module_body_ref (body), fqn) : NULL;
}

/**
 * weft_module_get_n_tensors:
 * @self: a module
 *
 * Returns: the number of its own parameters and buffers
 * Since: 1.0
 */
guint
weft_module_get_n_tensors (WeftModule *self)
{
  return self->body->tensors->len;
}

/**
 * weft_module_get_tensor_name:
 * @self: a module
 * @position: which one
 *
 * Returns: (transfer none): the name of the tensor within the module, such as `weight`
 * Since: 1.0
 */
const gchar *
weft_module_get_tensor_name (WeftModule *self, guint position)
{
  g_return_val_if_fail (position < self->body->tensors->len, NULL);
  return g_array_index (self->body->tensors, WeftModuleTensor, position).name;
}

/**
 * weft_module_get_tensor_spec:
 * @self: a module
 * @position: which one
 *
 * Returns: (transfer none): what the model expects of the tensor
 * Since: 1.0
 */
WeftTensorSpec *
weft_module_get_tensor_spec (WeftModule *self, guint position)
{
  g_return_val_if_fail (position < self->body->tensors->len, NULL);
  return g_array_index (self->body->tensors, WeftModuleTensor, position).spec;
}

/**
 * weft_module_find_tensor:
 * @self: a module
 * @path: the name of a tensor of it or of a module in it, such as `weight` or `gate_proj.weight`
 *
 * Returns: (transfer none) (nullable): what the model expects of the tensor; %NULL if there is none
 * Since: 1.0
 */
WeftTensorSpec *
weft_module_find_tensor (WeftModule *self, const gchar *path)
{
  WeftModuleBody *body = self->body;

  while (body != NULL)
    {
      const WeftModuleTensor *tensor = weft_module_body_find_tensor (body, path);
      const WeftModuleChild *child;

      if (tensor != NULL)
        return tensor->spec;
      child = find_on_path (body, path, &path);
      body = child != NULL ? child->body : NULL;
    }
  return NULL;
}

static void
list_tensors (const WeftModuleBody *body, GString *path, GStrvBuilder *names)
{
  gsize length = path->len;

  for (guint i = 0; i < body->tensors->len; i++)
    {
      g_string_append (path, g_array_index (body->tensors, WeftModuleTensor, i).name);
      g_strv_builder_add (names, path->str);
      g_string_truncate (path, length);
    }
  for (guint i = 0; i < body->children->len; i++)
    {
      const WeftModuleChild *child = &g_array_index (body->children, WeftModuleChild, i);

      g_string_append_printf (path, "%s.", child->name);
      list_tensors (child->body, path, names);
      g_string_truncate (path, length);
    }
}

/**
 * weft_module_list_tensors:
 * @self: a module
 *
 * Returns: (transfer full): the names of all tensors of it and of the modules in it, from it, in definition order
 * Since: 1.0
 */
GStrv
weft_module_list_tensors (WeftModule *self)
{
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  g_autoptr (GString) path = g_string_new (NULL);

  list_tensors (self->body, path, names);
  return g_strv_builder_end (names);
}

/**
 * weft_module_new:
 * @class_name: its class
 * @bases: (nullable) (array zero-terminated=1): the classes that its class derives from, nearest first
 *
 * Returns: (transfer full): a module in no tree, without tensors and children
 * Since: 1.0
 */
WeftModule *
weft_module_new (const gchar *class_name, const gchar *const *bases)
{
  g_autoptr (GPtrArray) names = weft_module_bases_new (bases);

  return new_module (weft_module_body_new (class_name, names), "");
}

/**
 * weft_module_copy:
 * @self: a module
 *
 * Returns: (transfer full): the same module in no tree, which can be changed. Tensors and children are shared until then
 * Since: 1.0
 */
WeftModule *
weft_module_copy (WeftModule *self)
{
  return new_module (weft_module_body_ref (self->body), self->fqn);
}

/* The body, as the module's own. */
static WeftModuleBody *
get_own_body (WeftModule *self)
{
  WeftModuleBody *copy;

  if (g_atomic_ref_count_compare (&self->body->n_references, 1))
    return self->body;
  copy = weft_module_body_copy (self->body);
  weft_module_body_unref (self->body);
  self->body = copy;
  return copy;
}

/**
 * weft_module_set_class_name:
 * @self: a module in no tree
 * @class_name: its new class
 * @bases: (nullable) (array zero-terminated=1): the classes that the new class derives from, nearest first
 *
 * Changes the class.
 *
 * Since: 1.0
 */
void
weft_module_set_class_name (WeftModule *self, const gchar *class_name, const gchar *const *bases)
{
  g_autoptr (GPtrArray) names = weft_module_bases_new (bases);

  g_return_if_fail (self->tree == NULL);
  weft_module_body_set_class (get_own_body (self), class_name, names);
}

/**
 * weft_module_set_attribute:
 * @self: a module in no tree
 * @name: an attribute
 * @value: its value; a floating one is taken
 *
 * Sets or adds an attribute.
 *
 * Since: 1.0
 */
void
weft_module_set_attribute (WeftModule *self, const gchar *name, GVariant *value)
{
  g_return_if_fail (self->tree == NULL);
  weft_module_body_set_attribute (get_own_body (self), name, value);
}

/**
 * weft_module_set_child:
 * @self: a module in no tree
 * @name: a name
 * @child: the module to be registered under it, as it is now
 *
 * Puts @child in the place of the child of that name, or appends it.
 *
 * Since: 1.0
 */
void
weft_module_set_child (WeftModule *self, const gchar *name, WeftModule *child)
{
  weft_module_replace_child (self, name, name, child);
}

/**
 * weft_module_replace_child:
 * @self: a module in no tree
 * @old_name: the name of a child
 * @name: the name of its successor
 * @child: the module to be registered under @name, as it is now
 *
 * Puts @child in the place of the child @old_name, so that the order of definition is kept; appends it if there is none.
 *
 * Since: 1.0
 */
void
weft_module_replace_child (WeftModule *self, const gchar *old_name, const gchar *name, WeftModule *child)
{
  g_return_if_fail (self->tree == NULL);
  g_return_if_fail (self != child);
  weft_module_body_set_child (get_own_body (self), old_name, name, child->body, NULL);
}

/**
 * weft_module_remove_child:
 * @self: a module in no tree
 * @name: the name of a child
 *
 * Returns: whether there was such a child
 * Since: 1.0
 */
gboolean
weft_module_remove_child (WeftModule *self, const gchar *name)
{
  g_return_val_if_fail (self->tree == NULL, FALSE);
  return weft_module_body_remove_child (get_own_body (self), name);
}

/**
 * weft_module_set_tensor:
 * @self: a module in no tree
 * @name: a name
 * @spec: what the model expects of the tensor
 *
 * Puts @spec in the place of the tensor of that name, or appends it.
 *
 * Since: 1.0
 */
void
weft_module_set_tensor (WeftModule *self, const gchar *name, WeftTensorSpec *spec)
{
  weft_module_replace_tensor (self, name, name, spec);
}

/**
 * weft_module_replace_tensor:
 * @self: a module in no tree
 * @old_name: the name of a tensor of the module
 * @name: the name of its successor
 * @spec: what the model expects of the successor
 *
 * Puts @spec in the place of the tensor @old_name, so that the order of definition is kept; appends it if there is none.
 *
 * Since: 1.0
 */
void
weft_module_replace_tensor (WeftModule *self, const gchar *old_name, const gchar *name, WeftTensorSpec *spec)
{
  g_return_if_fail (self->tree == NULL);
  weft_module_body_set_tensor (get_own_body (self), old_name, name, spec);
}

/**
 * weft_module_remove_tensor:
 * @self: a module in no tree
 * @name: the name of a tensor of the module itself
 *
 * Returns: whether there was such a tensor
 * Since: 1.0
 */
gboolean
weft_module_remove_tensor (WeftModule *self, const gchar *name)
{
  g_return_val_if_fail (self->tree == NULL, FALSE);
  return weft_module_body_remove_tensor (get_own_body (self), name);
}
