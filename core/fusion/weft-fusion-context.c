/* SPDX-License-Identifier: Apache-2.0 */
#include "fusion/weft-fusion-context.h"

#include "base/weft-json.h"

struct _WeftFusionContext
{
  GObject parent_instance;

  WeftModule *module;
  gchar *fqn;
  JsonNode *config;
  gchar *where;
};

G_DEFINE_FINAL_TYPE (WeftFusionContext, weft_fusion_context, G_TYPE_OBJECT)

static void
weft_fusion_context_finalize (GObject *object)
{
  WeftFusionContext *self = WEFT_FUSION_CONTEXT (object);

  g_clear_object (&self->module);
  g_free (self->fqn);
  g_clear_pointer (&self->config, json_node_unref);
  g_free (self->where);
  G_OBJECT_CLASS (weft_fusion_context_parent_class)->finalize (object);
}

static void
weft_fusion_context_class_init (WeftFusionContextClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_fusion_context_finalize;
}

static void
weft_fusion_context_init (WeftFusionContext *self)
{
}

/**
 * weft_fusion_context_new:
 * @module: the module that is replaced
 * @fqn: its path in the model
 * @config: (nullable): the model's config
 * @where: what messages call the config, such as its path
 *
 * Returns: (transfer full): a context
 * Since: 1.0
 */
WeftFusionContext *
weft_fusion_context_new (WeftModule *module, const gchar *fqn, JsonNode *config, const gchar *where)
{
  WeftFusionContext *self = g_object_new (WEFT_TYPE_FUSION_CONTEXT, NULL);

  self->module = g_object_ref (module);
  self->fqn = g_strdup (fqn);
  self->config = config != NULL ? json_node_ref (config) : NULL;
  self->where = g_strdup (where);
  return self;
}

/**
 * weft_fusion_context_get_module:
 * @self: a context
 *
 * Returns: (transfer none): the module that is replaced, as it was before
 * Since: 1.0
 */
WeftModule *
weft_fusion_context_get_module (WeftFusionContext *self)
{
  return self->module;
}

/**
 * weft_fusion_context_get_fqn:
 * @self: a context
 *
 * Returns: (transfer none): the path of the module
 * Since: 1.0
 */
const gchar *
weft_fusion_context_get_fqn (WeftFusionContext *self)
{
  return self->fqn;
}

/**
 * weft_fusion_context_get_config:
 * @self: a context
 *
 * Returns: (transfer none) (nullable): the config of the whole model
 * Since: 1.0
 */
JsonNode *
weft_fusion_context_get_config (WeftFusionContext *self)
{
  return self->config;
}

/**
 * weft_fusion_context_get_where:
 * @self: a context
 *
 * Returns: (transfer none): what messages call the config, such as its path
 * Since: 1.0
 */
const gchar *
weft_fusion_context_get_where (WeftFusionContext *self)
{
  return self->where;
}

/**
 * weft_fusion_context_lookup:
 * @self: a context
 * @dotted_path: where in the config, such as `vision_config.patch_size`
 *
 * Looks into the config of the sub-model that the module belongs to, with the defaults of its model type, then into that of the
 * whole model: both may have a field of one name, such as the number of heads.
 *
 * Returns: (transfer full) (nullable): what is there
 * Since: 1.0
 */
JsonNode *
weft_fusion_context_lookup (WeftFusionContext *self, const gchar *dotted_path)
{
  WeftModelConfig *nearest = weft_module_get_config (self->module);
  JsonNode *found = nearest != NULL ? weft_model_config_lookup (nearest, dotted_path, NULL) : NULL;
  JsonNode *node = found == NULL ? weft_json_lookup (self->config, dotted_path) : NULL;

  return node != NULL ? json_node_ref (node) : found;
}

/**
 * weft_fusion_context_read_int:
 * @self: a context
 * @dotted_path: where in the config, such as `vision_config.patch_size`
 * @value: (out): the number
 * @error: return location
 *
 * Returns: whether the config has a whole number there
 * Errors: %WEFT_ERROR_MISSING if it has none; the message names the path and the config
 * Since: 1.0
 */
gboolean
weft_fusion_context_read_int (WeftFusionContext *self, const gchar *dotted_path, gint64 *value,
                              GError **error)
{
  g_autoptr (JsonNode) node = weft_fusion_context_lookup (self, dotted_path);

  *value = 0;
  if (node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64)
    {
      *value = json_node_get_int (node);
      return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: '%s' must be a whole number, found %s",
               self->where, dotted_path, weft_json_describe (node));
  return FALSE;
}

/**
 * weft_fusion_context_has_tensor:
 * @self: a context
 * @name: a name relative to the module, such as `q_proj.bias`
 *
 * Returns: whether the module has such a tensor
 * Since: 1.0
 */
gboolean
weft_fusion_context_has_tensor (WeftFusionContext *self, const gchar *name)
{
  return weft_module_find_tensor (self->module, name) != NULL;
}
