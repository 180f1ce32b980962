/* SPDX-License-Identifier: Apache-2.0 */
/* The base class of families, and the runners that call them. */
#include "fusion/weft-module-fusion-spec.h"

#include "base/weft-json.h"
#include "fusion/weft-derived-module-private.h"
#include "fusion/weft-fusion-runner-private.h"
#include "plugin/weft-plugin-registry.h"
#include "transform/weft-conversion-ops.h"
#include "transform/weft-weight-converter.h"

G_DEFINE_INTERFACE (WeftModuleFusionSpec, weft_module_fusion_spec, G_TYPE_OBJECT)

static void
weft_module_fusion_spec_default_init (WeftModuleFusionSpecInterface *iface)
{
}

/* The base class: its slots stand behind those of the interface. */

static GStrv
base_list_target_patterns (WeftModuleFusionSpec *spec)
{
  return g_strdupv ((GStrv) WEFT_MODULE_FUSION_SPEC_BASE_GET_CLASS (spec)->target_patterns);
}

static gboolean
base_is_fusable (WeftModuleFusionSpec *spec, WeftModule *module, GError **error)
{
  WeftModuleFusionSpecBaseClass *klass = WEFT_MODULE_FUSION_SPEC_BASE_GET_CLASS (spec);

  if (klass->is_fusable == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "class '%s' has no is_fusable",
                   G_OBJECT_TYPE_NAME (spec));
      return FALSE;
    }
  return klass->is_fusable (WEFT_MODULE_FUSION_SPEC_BASE (spec), module, error);
}

static gchar *
base_make_fused_class (WeftModuleFusionSpec *spec, const gchar *class_name, GError **error)
{
  WeftModuleFusionSpecBaseClass *klass = WEFT_MODULE_FUSION_SPEC_BASE_GET_CLASS (spec);

  return klass->make_fused_class != NULL
             ? klass->make_fused_class (WEFT_MODULE_FUSION_SPEC_BASE (spec), class_name, error)
             : g_strconcat ("Fused", class_name, NULL);
}

static gboolean
base_fuse_module (WeftModuleFusionSpec *spec, WeftModule *fused, WeftFusionContext *context,
                  gboolean *is_done, GError **error)
{
  WeftModuleFusionSpecBaseClass *klass = WEFT_MODULE_FUSION_SPEC_BASE_GET_CLASS (spec);

  *is_done = klass->fuse_module != NULL;
  return klass->fuse_module == NULL
         || klass->fuse_module (WEFT_MODULE_FUSION_SPEC_BASE (spec), fused, context, error);
}

static WeftTransformList *
base_make_transforms (WeftModuleFusionSpec *spec, WeftFusionContext *context, GError **error)
{
  WeftModuleFusionSpecBaseClass *klass = WEFT_MODULE_FUSION_SPEC_BASE_GET_CLASS (spec);

  return klass->make_transforms != NULL
             ? klass->make_transforms (WEFT_MODULE_FUSION_SPEC_BASE (spec), context, error)
             : weft_transform_list_new ();
}

static GVariant *
base_list_parallel_styles (WeftModuleFusionSpec *spec, WeftFusionContext *context)
{
  WeftModuleFusionSpecBaseClass *klass = WEFT_MODULE_FUSION_SPEC_BASE_GET_CLASS (spec);

  return klass->list_parallel_styles != NULL
             ? klass->list_parallel_styles (WEFT_MODULE_FUSION_SPEC_BASE (spec), context)
             : NULL;
}

static void
weft_module_fusion_spec_base_iface_init (WeftModuleFusionSpecInterface *iface)
{
  iface->list_target_patterns = base_list_target_patterns;
  iface->is_fusable = base_is_fusable;
  iface->make_fused_class = base_make_fused_class;
  iface->fuse_module = base_fuse_module;
  iface->make_transforms = base_make_transforms;
  iface->list_parallel_styles = base_list_parallel_styles;
}

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (WeftModuleFusionSpecBase, weft_module_fusion_spec_base, G_TYPE_OBJECT,
                                  G_IMPLEMENT_INTERFACE (WEFT_TYPE_MODULE_FUSION_SPEC,
                                                         weft_module_fusion_spec_base_iface_init))

static void
weft_module_fusion_spec_base_class_init (WeftModuleFusionSpecBaseClass *klass)
{
}

static void
weft_module_fusion_spec_base_init (WeftModuleFusionSpecBase *self)
{
}

/* Patterns of classes live as long as the process, as classes do. */
static const gchar *const *
intern_strings (const gchar *const *strings)
{
  guint n = strings != NULL ? g_strv_length ((GStrv) strings) : 0;
  const gchar **interned = g_new0 (const gchar *, n + 1);

  for (guint i = 0; i < n; i++)
    interned[i] = g_intern_string (strings[i]);
  return interned;
}

/**
 * weft_module_fusion_spec_base_class_set_target_patterns:
 * @klass: class of a family
 * @patterns: (nullable) (array zero-terminated=1): regular expressions; a module is a candidate if one is found in its path
 *
 * Since: 1.0
 */
void
weft_module_fusion_spec_base_class_set_target_patterns (WeftModuleFusionSpecBaseClass *klass,
                                                        const gchar *const *patterns)
{
  klass->target_patterns = intern_strings (patterns);
}

/* The runners. */

/**
 * weft_module_fusion_spec_get_name:
 * @self: a family
 *
 * Returns: (transfer none): its name in `fusion_config`
 * Since: 1.0
 */
const gchar *
weft_module_fusion_spec_get_name (WeftModuleFusionSpec *self)
{
  const gchar *name = weft_feature_get_name (G_OBJECT_TYPE (self));

  return name != NULL ? name : G_OBJECT_TYPE_NAME (self);
}

/**
 * weft_module_fusion_spec_list_target_patterns:
 * @self: a family
 *
 * Returns: (transfer full): its regular expressions; empty if every module is a candidate
 * Since: 1.0
 */
GStrv
weft_module_fusion_spec_list_target_patterns (WeftModuleFusionSpec *self)
{
  GStrv patterns = WEFT_MODULE_FUSION_SPEC_GET_IFACE (self)->list_target_patterns (self);

  return patterns != NULL ? patterns : g_new0 (gchar *, 1);
}

/**
 * weft_module_fusion_spec_is_fusable:
 * @self: a family
 * @module: a module of the skeleton
 * @is_fusable: (out): whether the family can replace it
 * @error: return location
 *
 * Returns: whether the family could tell
 * Errors: those of the family, after `plugin/name: `
 * Since: 1.0
 */
gboolean
weft_module_fusion_spec_is_fusable (WeftModuleFusionSpec *self, WeftModule *module, gboolean *is_fusable,
                                    GError **error)
{
  GError *local_error = NULL;

  *is_fusable = WEFT_MODULE_FUSION_SPEC_GET_IFACE (self)->is_fusable (self, module, &local_error);
  return weft_fusion_check_answer (G_OBJECT (self), "is_fusable", *is_fusable, local_error, error);
}

/**
 * weft_module_fusion_spec_make_fused_class:
 * @self: a family
 * @class_name: the class of a module
 * @error: return location
 *
 * Returns: (transfer full): the class in its place
 * Errors: those of the family, after `plugin/name: `; %WEFT_ERROR_PLUGIN_CONTRACT if it gives no name
 * Since: 1.0
 */
gchar *
weft_module_fusion_spec_make_fused_class (WeftModuleFusionSpec *self, const gchar *class_name, GError **error)
{
  GError *local_error = NULL;
  g_autofree gchar *fused =
      WEFT_MODULE_FUSION_SPEC_GET_IFACE (self)->make_fused_class (self, class_name, &local_error);

  if (!weft_fusion_check_result (G_OBJECT (self), "make_fused_class", fused, local_error, error))
    return NULL;
  if (fused[0] == '\0')
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: make_fused_class gave an empty name",
                   weft_module_fusion_spec_get_name (self));
      return NULL;
    }
  return g_steal_pointer (&fused);
}

/* A copy of the module under its new class, which derives from the old one. */
static WeftModule *
copy_as (WeftModule *module, const gchar *class_name)
{
  WeftModule *copy = weft_module_copy (module);
  const gchar *const *bases = weft_module_get_bases (module);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_auto (GStrv) new_bases = NULL;

  g_strv_builder_add (builder, weft_module_get_class_name (module));
  for (guint i = 0; bases != NULL && bases[i] != NULL; i++)
    g_strv_builder_add (builder, bases[i]);
  new_bases = g_strv_builder_end (builder);
  weft_module_set_class_name (copy, class_name, (const gchar *const *) new_bases);
  return copy;
}

/**
 * weft_module_fusion_spec_fuse:
 * @self: a family
 * @context: the module, and what is known of the model
 * @error: return location
 *
 * Builds the module that takes the place of that of @context: under the fused class, with the tensors that the family
 * builds, or else those that its rules make.
 *
 * Returns: (transfer full): the fused module, in no tree
 * Errors: those of the family, after `plugin/name: `
 * Since: 1.0
 */
WeftModule *
weft_module_fusion_spec_fuse (WeftModuleFusionSpec *self, WeftFusionContext *context, GError **error)
{
  WeftModule *module = weft_fusion_context_get_module (context);
  g_autofree gchar *class_name =
      weft_module_fusion_spec_make_fused_class (self, weft_module_get_class_name (module), error);
  g_autoptr (WeftModule) fused = class_name != NULL ? copy_as (module, class_name) : NULL;
  g_autoptr (WeftTransformList) rules = NULL;
  GError *local_error = NULL;
  gboolean is_done = FALSE;
  gboolean ok;

  if (fused == NULL)
    return NULL;
  ok = WEFT_MODULE_FUSION_SPEC_GET_IFACE (self)->fuse_module (self, fused, context, &is_done, &local_error);
  if (!weft_fusion_check_result (G_OBJECT (self), "fuse_module", GINT_TO_POINTER (ok), local_error, error))
    return NULL;
  if (is_done)
    return g_steal_pointer (&fused);
  rules = weft_module_fusion_spec_make_transforms (self, context, error);
  return rules != NULL && weft_derived_module_apply (fused, module, rules, context, error)
             ? g_steal_pointer (&fused)
             : NULL;
}

/**
 * weft_module_fusion_spec_make_transforms:
 * @self: a family
 * @context: the module, and what is known of the model
 * @error: return location
 *
 * Returns: (transfer full): the rules, relative to the module; empty if names and shapes stay
 * Errors: those of the family, after `plugin/name: `
 * Since: 1.0
 */
WeftTransformList *
weft_module_fusion_spec_make_transforms (WeftModuleFusionSpec *self, WeftFusionContext *context,
                                         GError **error)
{
  GError *local_error = NULL;
  g_autoptr (WeftTransformList) rules =
      WEFT_MODULE_FUSION_SPEC_GET_IFACE (self)->make_transforms (self, context, &local_error);

  return weft_fusion_check_result (G_OBJECT (self), "make_transforms", rules, local_error, error)
             ? g_steal_pointer (&rules)
             : NULL;
}

/**
 * weft_module_fusion_spec_list_parallel_styles:
 * @self: a family
 * @context: the module, and what is known of the model
 *
 * Returns: (transfer full) (nullable): a dictionary (`a{ss}`) from a name relative to the module to its style
 * Since: 1.0
 */
GVariant *
weft_module_fusion_spec_list_parallel_styles (WeftModuleFusionSpec *self, WeftFusionContext *context)
{
  GVariant *styles = WEFT_MODULE_FUSION_SPEC_GET_IFACE (self)->list_parallel_styles (self, context);

  if (styles != NULL)
    g_variant_take_ref (styles);
  if (styles != NULL && !g_variant_is_of_type (styles, G_VARIANT_TYPE ("a{ss}")))
    {
      g_critical ("%s: list_parallel_styles gave a %s, expected a{ss}",
                  weft_module_fusion_spec_get_name (self), g_variant_get_type_string (styles));
      g_clear_pointer (&styles, g_variant_unref);
    }
  return styles;
}

/* For implementers. */

static GPtrArray *
parse_operations (const gchar *text, GError **error)
{
  g_autoptr (JsonNode) root = weft_json_parse (text, -1, "operations", error);
  g_autoptr (GPtrArray) ops = g_ptr_array_new_with_free_func (g_object_unref);
  JsonArray *array;

  if (root == NULL)
    return NULL;
  if (!JSON_NODE_HOLDS_ARRAY (root))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "operations must be a list, found %s", text);
      return NULL;
    }
  array = json_node_get_array (root);
  for (guint i = 0; i < json_array_get_length (array); i++)
    {
      JsonNode *element = json_array_get_element (array, i);
      JsonNode *type = weft_json_lookup (element, "type");
      WeftConversionOps *op;

      if (type == NULL || !JSON_NODE_HOLDS_VALUE (type) || json_node_get_value_type (type) != G_TYPE_STRING)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "operations[%u] has no 'type'", i);
          return NULL;
        }
      op = weft_op_new (json_node_get_string (type), json_node_get_object (element), NULL, error);
      if (op == NULL)
        return NULL;
      g_ptr_array_add (ops, op);
    }
  return g_steal_pointer (&ops);
}

/**
 * weft_fusion_append_converter:
 * @rules: where the rule is appended
 * @sources: (array zero-terminated=1): source patterns, relative to the module
 * @targets: (array zero-terminated=1): target patterns
 * @operations: the ops as a JSON list, such as `[{"type": "Concatenate", "dim": 0}]`
 * @error: return location
 *
 * Appends a new converter.
 *
 * Returns: whether it is valid
 * Errors: those of weft_op_new() and weft_weight_converter_new()
 * Since: 1.0
 */
gboolean
weft_fusion_append_converter (WeftTransformList *rules, const gchar *const *sources,
                              const gchar *const *targets, const gchar *operations, GError **error)
{
  g_autoptr (GPtrArray) ops = parse_operations (operations, error);
  g_autoptr (WeftWeightTransform) converter =
      ops != NULL ? weft_weight_converter_new (sources, targets, ops, FALSE, error) : NULL;

  if (converter == NULL)
    return FALSE;
  weft_transform_list_append (rules, converter);
  return TRUE;
}
