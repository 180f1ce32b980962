/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-fusion-target-private.h"

#include <string.h>

#include "plugin/weft-plugin-registry.h"
#include "transform/weft-object-json-internal.h"

static const struct
{
  WeftFeatureKind kind;
  const gchar *description;
} other_kinds[] = {
  { WEFT_FEATURE_KIND_OP, "an op" },
  { WEFT_FEATURE_KIND_TRANSFORM, "a kind of rule" },
  { WEFT_FEATURE_KIND_QUANTIZER, "a quantizer" },
};

static gchar *
list_known (WeftFeatureKind kind)
{
  g_auto (GStrv) names = weft_plugin_registry_list_names (weft_plugin_registry_get_default (), kind);
  GString *text = g_string_new (NULL);

  for (guint i = 0; names[i] != NULL; i++)
    {
      GType type = weft_plugin_registry_lookup (weft_plugin_registry_get_default (), kind, names[i], NULL);

      if (i > 0)
        g_string_append (text, ", ");
      if (kind == WEFT_FEATURE_KIND_REPLACEMENT)
        g_string_append_printf (text, "%s.", weft_feature_get_plugin_id (type));
      g_string_append (text, names[i]);
    }
  return g_string_free (text, text->len == 0);
}

static WeftFusionTarget *
new_from_type (const gchar *name, GType type, GType interface_type, JsonObject *options, const gchar *where,
               GError **error)
{
  g_autoptr (WeftFusionTarget) self = NULL;
  g_autofree gchar *place = g_strdup_printf ("%s: %s", where, name);
  GObject *feature;

  if (!g_type_is_a (type, interface_type))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN, "%s: class '%s' of plugin '%s' is no %s", place,
                   g_type_name (type), weft_feature_get_plugin_id (type), g_type_name (interface_type));
      return NULL;
    }
  feature = weft_object_new_from_json (type, options, place, error);
  if (feature == NULL)
    return NULL;
  self = g_new0 (WeftFusionTarget, 1);
  self->name = g_strdup (name);
  self->feature = feature;
  self->options = options != NULL ? json_object_ref (options) : json_object_new ();
  return g_steal_pointer (&self);
}

WeftFusionTarget *
weft_fusion_target_new_family (const gchar *name, JsonObject *options, const gchar *where, GError **error)
{
  g_autoptr (GError) reason = NULL;
  GType type = weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_FUSION,
                                            name, &reason);
  g_autofree gchar *known = NULL;

  if (type != G_TYPE_INVALID)
    return new_from_type (name, type, WEFT_TYPE_MODULE_FUSION_SPEC, options, where, error);
  known = list_known (WEFT_FEATURE_KIND_FUSION);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: %s; known families: %s", where, reason->message,
               known != NULL ? known : "none");
  return NULL;
}

/* `perf_modules.FusedMLP` names the plugin `perf-modules`. */
static GType
find_of_plugin (const gchar *name)
{
  const gchar *dot = strrchr (name, '.');
  g_autofree gchar *plugin_id = dot != NULL ? g_strndup (name, (gsize) (dot - name)) : NULL;
  GType type;

  if (dot == NULL)
    return G_TYPE_INVALID;
  type = weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_REPLACEMENT,
                                      dot + 1, NULL);
  if (type == G_TYPE_INVALID)
    return G_TYPE_INVALID;
  return g_strcmp0 (weft_feature_get_plugin_id (type), plugin_id) == 0
                 || g_strcmp0 (weft_feature_get_plugin_id (type), g_strdelimit (plugin_id, "_", '-')) == 0
             ? type
             : G_TYPE_INVALID;
}

static WeftFusionTarget *
refuse_unknown (const gchar *name, const gchar *where, GError **error)
{
  g_autofree gchar *replacements = list_known (WEFT_FEATURE_KIND_REPLACEMENT);
  g_autofree gchar *families = list_known (WEFT_FEATURE_KIND_FUSION);

  for (guint i = 0; i < G_N_ELEMENTS (other_kinds); i++)
    if (weft_plugin_registry_lookup (weft_plugin_registry_get_default (), other_kinds[i].kind, name, NULL)
        != G_TYPE_INVALID)
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
            "%s: _target_ '%s' is %s; it takes a replacement class, named PLUGIN.CLASS, or a family of fusions",
            where, name, other_kinds[i].description);
        return NULL;
      }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "%s: _target_ '%s' is unknown; known replacements: %s; known families: %s", where, name,
               replacements != NULL ? replacements : "none", families != NULL ? families : "none");
  return NULL;
}

WeftFusionTarget *
weft_fusion_target_new (const gchar *name, JsonObject *options, const gchar *where, GError **error)
{
  GType type = find_of_plugin (name);

  if (type != G_TYPE_INVALID)
    return new_from_type (name, type, WEFT_TYPE_MODULE_REPLACEMENT, options, where, error);
  type =
      weft_plugin_registry_lookup (weft_plugin_registry_get_default (), WEFT_FEATURE_KIND_FUSION, name, NULL);
  return type != G_TYPE_INVALID
             ? new_from_type (name, type, WEFT_TYPE_MODULE_FUSION_SPEC, options, where, error)
             : refuse_unknown (name, where, error);
}

WeftFusionTarget *
weft_fusion_target_copy (const WeftFusionTarget *self)
{
  WeftFusionTarget *copy = g_new0 (WeftFusionTarget, 1);

  copy->name = g_strdup (self->name);
  copy->feature = g_object_ref (self->feature);
  copy->options = json_object_ref (self->options);
  return copy;
}

void
weft_fusion_target_free (WeftFusionTarget *self)
{
  g_free (self->name);
  g_object_unref (self->feature);
  json_object_unref (self->options);
  g_free (self);
}

/* Whether the class of @module is one of @types, or derives from one. */
static gboolean
has_type (WeftModule *module, GStrv types, gboolean is_exact)
{
  for (guint i = 0; types[i] != NULL; i++)
    if (strcmp (weft_module_get_class_name (module), types[i]) == 0
        || (!is_exact && weft_module_is_a (module, types[i])))
      return TRUE;
  return types[0] == NULL;
}

gboolean
weft_fusion_target_test (WeftFusionTarget *self, WeftModule *module, gchar **reason, GError **error)
{
  g_auto (GStrv) types = NULL;
  gboolean is_fusable = FALSE;

  *reason = NULL;
  if (WEFT_IS_MODULE_REPLACEMENT (self->feature))
    {
      WeftModuleReplacement *replacement = WEFT_MODULE_REPLACEMENT (self->feature);
      gboolean is_exact = weft_module_replacement_is_exact_type (replacement);

      types = weft_module_replacement_list_module_types (replacement);
      if (!has_type (module, types, is_exact))
        {
          g_autofree gchar *list = g_strjoinv (" or ", types);

          *reason = g_strdup_printf ("its class is '%s', the target takes %s'%s'",
                                     weft_module_get_class_name (module),
                                     is_exact ? "exactly " : "what is or derives from ", list);
          return TRUE;
        }
      if (!weft_module_replacement_is_fusable (replacement, module, &is_fusable, error))
        return FALSE;
    }
  else if (!weft_module_fusion_spec_is_fusable (WEFT_MODULE_FUSION_SPEC (self->feature), module, &is_fusable,
                                                error))
    return FALSE;
  if (!is_fusable)
    *reason = g_strdup_printf ("is_fusable of the target says no to this '%s'",
                               weft_module_get_class_name (module));
  return TRUE;
}

WeftModule *
weft_fusion_target_replace (WeftFusionTarget *self, WeftFusionContext *context, GError **error)
{
  return WEFT_IS_MODULE_REPLACEMENT (self->feature)
             ? weft_module_replacement_replace (WEFT_MODULE_REPLACEMENT (self->feature), context, error)
             : weft_module_fusion_spec_fuse (WEFT_MODULE_FUSION_SPEC (self->feature), context, error);
}

WeftTransformList *
weft_fusion_target_make_transforms (WeftFusionTarget *self, WeftModule *replacement,
                                    WeftFusionContext *context, GError **error)
{
  return WEFT_IS_MODULE_REPLACEMENT (self->feature)
             ? weft_module_replacement_make_transforms (WEFT_MODULE_REPLACEMENT (self->feature), replacement,
                                                        context, error)
             : weft_module_fusion_spec_make_transforms (WEFT_MODULE_FUSION_SPEC (self->feature), context,
                                                        error);
}

GVariant *
weft_fusion_target_list_parallel_styles (WeftFusionTarget *self, WeftFusionContext *context)
{
  return WEFT_IS_MODULE_FUSION_SPEC (self->feature)
             ? weft_module_fusion_spec_list_parallel_styles (WEFT_MODULE_FUSION_SPEC (self->feature), context)
             : NULL;
}
