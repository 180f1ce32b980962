/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-op-context.h"

#include "base/weft-json.h"

typedef struct
{
  WeftShape shape;
  WeftDtype dtype;
} Parameter;

struct _WeftOpContext
{
  GObject parent_instance;

  GStrv source_patterns;
  GStrv target_patterns;
  gchar *full_layer_name;
  JsonNode *config;
  /* Name -> Parameter; shared by the contexts of a conversion; NULL if nothing is known of the model. */
  GHashTable *parameters;
  /* (nullable): tensors that count as parameters too. */
  WeftStateDict *state_dict;
};

G_DEFINE_FINAL_TYPE (WeftOpContext, weft_op_context, G_TYPE_OBJECT)

static void
weft_op_context_finalize (GObject *object)
{
  WeftOpContext *self = WEFT_OP_CONTEXT (object);

  g_strfreev (self->source_patterns);
  g_strfreev (self->target_patterns);
  g_free (self->full_layer_name);
  g_clear_pointer (&self->config, json_node_unref);
  g_clear_pointer (&self->parameters, g_hash_table_unref);
  g_clear_object (&self->state_dict);
  G_OBJECT_CLASS (weft_op_context_parent_class)->finalize (object);
}

static void
weft_op_context_class_init (WeftOpContextClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_op_context_finalize;
}

static void
weft_op_context_init (WeftOpContext *self)
{
}

static gboolean
find_parameter (WeftOpContext *self, const gchar *name, Parameter *parameter)
{
  const Parameter *own = self->parameters != NULL ? g_hash_table_lookup (self->parameters, name) : NULL;
  WeftTensor *tensor = self->state_dict != NULL ? weft_state_dict_lookup (self->state_dict, name) : NULL;

  if (own != NULL)
    *parameter = *own;
  else if (tensor != NULL)
    *parameter = (Parameter){ *weft_tensor_get_shape (tensor), weft_tensor_get_dtype (tensor) };
  return own != NULL || tensor != NULL;
}

/**
 * weft_op_context_new:
 * @source_patterns: (array zero-terminated=1): the converter's source patterns
 * @target_patterns: (array zero-terminated=1): the converter's target patterns
 *
 * Returns: (transfer full): a context that knows the patterns only
 * Since: 1.0
 */
WeftOpContext *
weft_op_context_new (const gchar *const *source_patterns, const gchar *const *target_patterns)
{
  WeftOpContext *self = g_object_new (WEFT_TYPE_OP_CONTEXT, NULL);

  self->source_patterns = g_strdupv ((GStrv) source_patterns);
  self->target_patterns = g_strdupv ((GStrv) target_patterns);
  return self;
}

/**
 * weft_op_context_new_with_sources:
 * @self: a context
 * @source_patterns: (array zero-terminated=1): other source patterns
 *
 * Returns: (transfer full): a context like @self, with other source patterns
 * Since: 1.0
 */
WeftOpContext *
weft_op_context_new_with_sources (WeftOpContext *self, const gchar *const *source_patterns)
{
  WeftOpContext *copy = weft_op_context_new (source_patterns, (const gchar *const *) self->target_patterns);

  weft_op_context_set_full_layer_name (copy, self->full_layer_name);
  weft_op_context_set_config (copy, self->config);
  weft_op_context_share_parameters (copy, self);
  return copy;
}

/**
 * weft_op_context_set_full_layer_name:
 * @self: a context
 * @full_layer_name: (nullable): the full name of the tensor that is made, target pattern 0 put in
 *
 * Since: 1.0
 */
void
weft_op_context_set_full_layer_name (WeftOpContext *self, const gchar *full_layer_name)
{
  g_free (self->full_layer_name);
  self->full_layer_name = g_strdup (full_layer_name);
}

/**
 * weft_op_context_set_config:
 * @self: a context
 * @config: (nullable): the model's config
 *
 * Since: 1.0
 */
void
weft_op_context_set_config (WeftOpContext *self, JsonNode *config)
{
  g_clear_pointer (&self->config, json_node_unref);
  if (config != NULL)
    self->config = json_node_ref (config);
}

/**
 * weft_op_context_add_parameter:
 * @self: a context
 * @name: full name of a parameter of the model
 * @shape: its shape
 * @dtype: its dtype, %WEFT_DTYPE_INVALID if that is not known
 *
 * Since: 1.0
 */
void
weft_op_context_add_parameter (WeftOpContext *self, const gchar *name, const WeftShape *shape,
                               WeftDtype dtype)
{
  Parameter *parameter = g_new (Parameter, 1);

  parameter->shape = *shape;
  parameter->dtype = dtype;
  if (self->parameters == NULL)
    self->parameters = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  g_hash_table_replace (self->parameters, g_strdup (name), parameter);
}

/**
 * weft_op_context_share_parameters:
 * @self: a context
 * @other: a context that knows the model's parameters
 *
 * Lets @self know the parameters that @other knows. They are not copied: a conversion has many contexts and one model.
 *
 * Since: 1.0
 */
void
weft_op_context_share_parameters (WeftOpContext *self, WeftOpContext *other)
{
  GHashTable *parameters = other->parameters != NULL ? g_hash_table_ref (other->parameters) : NULL;

  g_clear_pointer (&self->parameters, g_hash_table_unref);
  self->parameters = parameters;
  g_set_object (&self->state_dict, other->state_dict);
}

/**
 * weft_op_context_set_state_dict:
 * @self: a context
 * @state_dict: (nullable): tensors, whose names, shapes and dtypes the model's parameters have
 *
 * Lets @self know the tensors of a state dict as parameters. They are not copied; those of
 * weft_op_context_add_parameter() go before them.
 *
 * Since: 1.0
 */
void
weft_op_context_set_state_dict (WeftOpContext *self, WeftStateDict *state_dict)
{
  g_set_object (&self->state_dict, state_dict);
}

/**
 * weft_op_context_get_n_source_patterns:
 * @self: a context
 *
 * Returns: how many source patterns the converter has
 * Since: 1.0
 */
guint
weft_op_context_get_n_source_patterns (WeftOpContext *self)
{
  return g_strv_length (self->source_patterns);
}

/**
 * weft_op_context_get_source_patterns:
 * @self: a context
 *
 * Returns: (transfer none) (array zero-terminated=1): all source patterns of the converter
 * Since: 1.0
 */
const gchar *const *
weft_op_context_get_source_patterns (WeftOpContext *self)
{
  return (const gchar *const *) self->source_patterns;
}

/**
 * weft_op_context_get_source_pattern:
 * @self: a context
 * @position: position of a source pattern
 *
 * Returns: the pattern
 * Since: 1.0
 */
const gchar *
weft_op_context_get_source_pattern (WeftOpContext *self, guint position)
{
  g_return_val_if_fail (position < g_strv_length (self->source_patterns), NULL);
  return self->source_patterns[position];
}

/**
 * weft_op_context_get_n_target_patterns:
 * @self: a context
 *
 * Returns: how many target patterns the converter has
 * Since: 1.0
 */
guint
weft_op_context_get_n_target_patterns (WeftOpContext *self)
{
  return g_strv_length (self->target_patterns);
}

/**
 * weft_op_context_get_target_patterns:
 * @self: a context
 *
 * Returns: (transfer none) (array zero-terminated=1): all target patterns of the converter
 * Since: 1.0
 */
const gchar *const *
weft_op_context_get_target_patterns (WeftOpContext *self)
{
  return (const gchar *const *) self->target_patterns;
}

/**
 * weft_op_context_get_target_pattern:
 * @self: a context
 * @position: position of a target pattern
 *
 * Returns: the pattern
 * Since: 1.0
 */
const gchar *
weft_op_context_get_target_pattern (WeftOpContext *self, guint position)
{
  g_return_val_if_fail (position < g_strv_length (self->target_patterns), NULL);
  return self->target_patterns[position];
}

/**
 * weft_op_context_get_full_layer_name:
 * @self: a context
 *
 * Returns: (nullable): the full name of the tensor that is made
 * Since: 1.0
 */
const gchar *
weft_op_context_get_full_layer_name (WeftOpContext *self)
{
  return self->full_layer_name;
}

/**
 * weft_op_context_get_config:
 * @self: a context
 *
 * Returns: (transfer none) (nullable): the model's config
 * Since: 1.0
 */
JsonNode *
weft_op_context_get_config (WeftOpContext *self)
{
  return self->config;
}

/**
 * weft_op_context_lookup_config_int:
 * @self: a context
 * @dotted_path: where in the config, such as `vision_config.num_heads`
 * @value: (out): the number there
 *
 * Returns: whether there is a whole number
 * Since: 1.0
 */
gboolean
weft_op_context_lookup_config_int (WeftOpContext *self, const gchar *dotted_path, gint64 *value)
{
  JsonNode *node = weft_json_lookup (self->config, dotted_path);

  if (node == NULL || !JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    return FALSE;
  *value = json_node_get_int (node);
  return TRUE;
}

/**
 * weft_op_context_lookup_text_config_int:
 * @self: a context
 * @name: name of a field of the text model's config
 * @value: (out): the number there
 *
 * Looks into `text_config` if the config has one, otherwise into the config itself.
 *
 * Returns: whether there is a whole number
 * Since: 1.0
 */
gboolean
weft_op_context_lookup_text_config_int (WeftOpContext *self, const gchar *name, gint64 *value)
{
  JsonNode *text_config = weft_json_lookup (self->config, "text_config");
  g_autofree gchar *path = NULL;

  if (text_config == NULL || !JSON_NODE_HOLDS_OBJECT (text_config))
    return weft_op_context_lookup_config_int (self, name, value);
  path = g_strconcat ("text_config.", name, NULL);
  return weft_op_context_lookup_config_int (self, path, value);
}

/**
 * weft_op_context_has_parameters:
 * @self: a context
 *
 * Returns: whether anything is known of the model's parameters
 * Since: 1.0
 */
gboolean
weft_op_context_has_parameters (WeftOpContext *self)
{
  return self->parameters != NULL || self->state_dict != NULL;
}

/**
 * weft_op_context_get_parameter_shape:
 * @self: a context
 * @name: full name of a parameter of the model
 *
 * Returns: (transfer full) (nullable): its shape; %NULL if the model has no such parameter
 * Since: 1.0
 */
WeftShape *
weft_op_context_get_parameter_shape (WeftOpContext *self, const gchar *name)
{
  Parameter parameter;

  return find_parameter (self, name, &parameter) ? weft_shape_copy (&parameter.shape) : NULL;
}

/**
 * weft_op_context_get_parameter_dtype:
 * @self: a context
 * @name: full name of a parameter of the model
 *
 * Returns: its dtype; %WEFT_DTYPE_INVALID if that is not known
 * Since: 1.0
 */
WeftDtype
weft_op_context_get_parameter_dtype (WeftOpContext *self, const gchar *name)
{
  Parameter parameter;

  return find_parameter (self, name, &parameter) ? parameter.dtype : WEFT_DTYPE_INVALID;
}
