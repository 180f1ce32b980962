/* SPDX-License-Identifier: Apache-2.0 */
/* The base class of replacements, and the runners that call them. */
#include "fusion/weft-module-replacement.h"

#include "fusion/weft-fusion-runner-private.h"

G_DEFINE_INTERFACE (WeftModuleReplacement, weft_module_replacement, G_TYPE_OBJECT)

static void
weft_module_replacement_default_init (WeftModuleReplacementInterface *iface)
{
}

/* The base class: its slots stand behind those of the interface. */

static GStrv
base_list_module_types (WeftModuleReplacement *replacement)
{
  return g_strdupv ((GStrv) WEFT_MODULE_REPLACEMENT_BASE_GET_CLASS (replacement)->module_types);
}

static gboolean
base_is_exact_type (WeftModuleReplacement *replacement)
{
  return WEFT_MODULE_REPLACEMENT_BASE_GET_CLASS (replacement)->is_exact_type;
}

static gboolean
base_is_fusable (WeftModuleReplacement *replacement, WeftModule *module, GError **error)
{
  WeftModuleReplacementBaseClass *klass = WEFT_MODULE_REPLACEMENT_BASE_GET_CLASS (replacement);

  return klass->is_fusable == NULL
         || klass->is_fusable (WEFT_MODULE_REPLACEMENT_BASE (replacement), module, error);
}

static WeftModule *
base_replace (WeftModuleReplacement *replacement, WeftModule *module, const gchar *fqn,
              WeftFusionContext *context, GError **error)
{
  WeftModuleReplacementBaseClass *klass = WEFT_MODULE_REPLACEMENT_BASE_GET_CLASS (replacement);

  if (klass->replace == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "class '%s' has no replace",
                   G_OBJECT_TYPE_NAME (replacement));
      return NULL;
    }
  return klass->replace (WEFT_MODULE_REPLACEMENT_BASE (replacement), module, fqn, context, error);
}

static WeftTransformList *
base_make_transforms (WeftModuleReplacement *replacement, WeftModule *built, WeftFusionContext *context,
                      GError **error)
{
  WeftModuleReplacementBaseClass *klass = WEFT_MODULE_REPLACEMENT_BASE_GET_CLASS (replacement);

  return klass->make_transforms != NULL
             ? klass->make_transforms (WEFT_MODULE_REPLACEMENT_BASE (replacement), built, context, error)
             : weft_transform_list_new ();
}

static void
weft_module_replacement_base_iface_init (WeftModuleReplacementInterface *iface)
{
  iface->list_module_types = base_list_module_types;
  iface->is_exact_type = base_is_exact_type;
  iface->is_fusable = base_is_fusable;
  iface->replace = base_replace;
  iface->make_transforms = base_make_transforms;
}

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (WeftModuleReplacementBase, weft_module_replacement_base, G_TYPE_OBJECT,
                                  G_IMPLEMENT_INTERFACE (WEFT_TYPE_MODULE_REPLACEMENT,
                                                         weft_module_replacement_base_iface_init))

static void
weft_module_replacement_base_class_init (WeftModuleReplacementBaseClass *klass)
{
}

static void
weft_module_replacement_base_init (WeftModuleReplacementBase *self)
{
}

/**
 * weft_module_replacement_base_class_set_module_types:
 * @klass: class of a replacement
 * @types: (nullable) (array zero-terminated=1): the classes that it takes the place of; none: any
 *
 * Since: 1.0
 */
void
weft_module_replacement_base_class_set_module_types (WeftModuleReplacementBaseClass *klass,
                                                     const gchar *const *types)
{
  guint n = types != NULL ? g_strv_length ((GStrv) types) : 0;
  const gchar **interned = g_new0 (const gchar *, n + 1);

  for (guint i = 0; i < n; i++)
    interned[i] = g_intern_string (types[i]);
  klass->module_types = interned;
}

/**
 * weft_module_replacement_base_class_set_exact_type:
 * @klass: class of a replacement
 * @is_exact_type: whether a class that derives from one of its types does not fit
 *
 * Since: 1.0
 */
void
weft_module_replacement_base_class_set_exact_type (WeftModuleReplacementBaseClass *klass,
                                                   gboolean is_exact_type)
{
  klass->is_exact_type = is_exact_type;
}

/* The runners. */

/**
 * weft_module_replacement_dup_name:
 * @self: a replacement
 *
 * Returns: (transfer full): its plugin and its name, such as `perf-modules/FusedMLP`
 * Since: 1.0
 */
gchar *
weft_module_replacement_dup_name (WeftModuleReplacement *self)
{
  return weft_fusion_dup_feature_name (G_OBJECT (self));
}

/**
 * weft_module_replacement_list_module_types:
 * @self: a replacement
 *
 * Returns: (transfer full): the classes that it takes the place of; empty: any
 * Since: 1.0
 */
GStrv
weft_module_replacement_list_module_types (WeftModuleReplacement *self)
{
  GStrv types = WEFT_MODULE_REPLACEMENT_GET_IFACE (self)->list_module_types (self);

  return types != NULL ? types : g_new0 (gchar *, 1);
}

/**
 * weft_module_replacement_is_exact_type:
 * @self: a replacement
 *
 * Returns: whether a class that derives from one of its types does not fit
 * Since: 1.0
 */
gboolean
weft_module_replacement_is_exact_type (WeftModuleReplacement *self)
{
  return WEFT_MODULE_REPLACEMENT_GET_IFACE (self)->is_exact_type (self);
}

/**
 * weft_module_replacement_is_fusable:
 * @self: a replacement
 * @module: a module of the right type
 * @is_fusable: (out): whether it can be replaced
 * @error: return location
 *
 * Returns: whether the replacement could tell
 * Errors: those of the replacement, after `plugin/name: `
 * Since: 1.0
 */
gboolean
weft_module_replacement_is_fusable (WeftModuleReplacement *self, WeftModule *module, gboolean *is_fusable,
                                    GError **error)
{
  GError *local_error = NULL;

  *is_fusable = WEFT_MODULE_REPLACEMENT_GET_IFACE (self)->is_fusable (self, module, &local_error);
  return weft_fusion_check_answer (G_OBJECT (self), "is_fusable", *is_fusable, local_error, error);
}

/**
 * weft_module_replacement_replace:
 * @self: a replacement
 * @context: the module, and what is known of the model
 * @error: return location
 *
 * Returns: (transfer full): the module in its place, in no tree
 * Errors: those of the replacement, after `plugin/name: `; %WEFT_ERROR_PLUGIN_CONTRACT if it gives a module of a tree
 * Since: 1.0
 */
WeftModule *
weft_module_replacement_replace (WeftModuleReplacement *self, WeftFusionContext *context, GError **error)
{
  GError *local_error = NULL;
  g_autoptr (WeftModule) built = WEFT_MODULE_REPLACEMENT_GET_IFACE (self)->replace (
      self, weft_fusion_context_get_module (context), weft_fusion_context_get_fqn (context), context,
      &local_error);

  if (!weft_fusion_check_result (G_OBJECT (self), "replace", built, local_error, error))
    return NULL;
  if (weft_module_get_tree (built) != NULL)
    {
      g_autofree gchar *name = weft_module_replacement_dup_name (self);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT,
                   "%s: replace gave a module that is in a tree; copy it with weft_module_copy()", name);
      return NULL;
    }
  return g_steal_pointer (&built);
}

/**
 * weft_module_replacement_make_transforms:
 * @self: a replacement
 * @replacement: what was built
 * @context: the module, and what is known of the model
 * @error: return location
 *
 * Returns: (transfer full): the rules, relative to the module; empty if names and shapes stay
 * Errors: those of the replacement, after `plugin/name: `
 * Since: 1.0
 */
WeftTransformList *
weft_module_replacement_make_transforms (WeftModuleReplacement *self, WeftModule *replacement,
                                         WeftFusionContext *context, GError **error)
{
  GError *local_error = NULL;
  g_autoptr (WeftTransformList) rules =
      WEFT_MODULE_REPLACEMENT_GET_IFACE (self)->make_transforms (self, replacement, context, &local_error);

  return weft_fusion_check_result (G_OBJECT (self), "make_transforms", rules, local_error, error)
             ? g_steal_pointer (&rules)
             : NULL;
}
