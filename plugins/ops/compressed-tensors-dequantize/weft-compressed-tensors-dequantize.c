/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of compressed-tensors inside a converter. The quantizer of that name does the work; the op pairs codes with companions. */
#include <string.h>

#include "weft.h"

#define METHOD "compressed-tensors"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  GVariant *quantization_config;
} WeftCompressedTensorsDequantize;

WEFT_DEFINE_OP (WeftCompressedTensorsDequantize, weft_compressed_tensors_dequantize)

/* The parameter, or else what the model's config says. */
static WeftQuantizer *
new_quantizer (WeftCompressedTensorsDequantize *self, WeftOpContext *context, GError **error)
{
  g_autoptr (JsonNode) root = json_node_new (JSON_NODE_OBJECT);
  g_autoptr (WeftQuantizationConfig) config = NULL;
  const gchar *method;

  json_node_take_object (root, json_object_new ());
  if (g_variant_n_children (self->quantization_config) > 0)
    json_object_set_member (json_node_get_object (root), "quantization_config",
                            json_gvariant_serialize (self->quantization_config));
  config = weft_quantization_config_new (
      json_object_get_size (json_node_get_object (root)) > 0 ? root : weft_op_context_get_config (context));
  method = weft_quantization_config_get_method (config);
  if (g_strcmp0 (method, METHOD) == 0)
    return weft_quantizer_new_for_config (config, NULL, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected a quantization_config whose quant_method is '%s', found %s", METHOD,
               method != NULL ? method : "none");
  return NULL;
}

/* A key with the dot that stored endings begin with: the converter of every weight has keys such as `weight_scale`. */
static gchar *
find_part (WeftQuantizer *quantizer, const gchar *key, const gchar **role)
{
  g_autofree gchar *dotted = g_strconcat (".", key, NULL);

  return weft_quantizer_find_part (quantizer, dotted, role);
}

/* Where the weight is in the model, which the groups of a config go by. */
static gchar *
dup_dense_name (WeftOpContext *context, const gchar *key)
{
  const gchar *layer = weft_op_context_get_full_layer_name (context);

  if (layer == NULL)
    return g_strdup (key);
  return g_str_has_suffix (layer, ".weight") ? g_strdup (layer) : g_strconcat (layer, ".weight", NULL);
}

typedef struct
{
  WeftQuantizer *quantizer;
  WeftTensorGroups *inputs;
  WeftOpContext *context;
  guint group;             /* the codes */
  const gchar *dense_name; /* what the keys of codes and companions have in common */
} Job;

/* Companions pair with codes by their place in the lists. */
static gboolean
add_parts (const Job *job, WeftPackedWeight *weight, guint place, GError **error)
{
  const guint n_weights = weft_tensor_groups_get_n_tensors (job->inputs, job->group);

  for (guint i = 0; i < weft_tensor_groups_get_n_groups (job->inputs); i++)
    {
      const gchar *role = NULL;
      const gchar *key = weft_tensor_groups_get_name (job->inputs, i);
      g_autofree gchar *dense_name = find_part (job->quantizer, key, &role);
      g_autofree gchar *dotted = g_strconcat (".", key, NULL);
      const guint n_tensors = weft_tensor_groups_get_n_tensors (job->inputs, i);

      if (g_strcmp0 (dense_name, job->dense_name) != 0)
        continue;
      if (n_tensors != n_weights)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "'%s' has %u tensors, '%s' has %u",
                       weft_tensor_groups_get_name (job->inputs, job->group), n_weights, key, n_tensors);
          return FALSE;
        }
      if (!weft_packed_weight_add_stored_part (weight, role, dotted, i,
                                               weft_tensor_groups_get_tensor (job->inputs, i, place), error))
        return FALSE;
    }
  return TRUE;
}

/* A weight that is not packed passes. */
static WeftTensor *
dequantize (const Job *job, guint place, GError **error)
{
  const gchar *layer = weft_op_context_get_full_layer_name (job->context);
  g_autofree gchar *name = dup_dense_name (job->context, job->dense_name);
  g_autoptr (WeftPackedWeight) weight = weft_packed_weight_new (name);
  WeftDtype dtype =
      layer != NULL ? weft_op_context_get_parameter_dtype (job->context, layer) : WEFT_DTYPE_INVALID;

  if (!add_parts (job, weight, place, error) || !weft_quantizer_describe (job->quantizer, weight, error))
    return NULL;
  if (!weft_packed_weight_is_packed (weight))
    return weft_tensor_ref (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES));
  if (!weft_dtype_is_floating (dtype) || weft_dtype_get_bits (dtype) <= 8)
    dtype = weft_packed_weight_get_dtype (weight);
  return weft_quantizer_dequantize (job->quantizer, weight, dtype, error);
}

/* A list comes out as one tensor. */
static WeftTensor *
dequantize_group (const Job *job, GError **error)
{
  g_autoptr (GPtrArray) weights = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  if (!weft_tensor_groups_is_list (job->inputs, job->group))
    return dequantize (job, 0, error);
  for (guint i = 0; i < weft_tensor_groups_get_n_tensors (job->inputs, job->group); i++)
    {
      WeftTensor *dense = dequantize (job, i, error);

      if (dense == NULL)
        return NULL;
      g_ptr_array_add (weights, dense);
    }
  return weft_tensor_stack ((WeftTensor **) weights->pdata, weights->len, 0, error);
}

/* The converter of every weight has keys without a path, and gives the layer; others give the key of the codes. */
static const gchar *
get_output_name (const Job *job)
{
  const gchar *layer = weft_op_context_get_full_layer_name (job->context);
  const gchar *key = weft_tensor_groups_get_name (job->inputs, job->group);

  return layer != NULL && strchr (key, '.') == NULL ? layer : key;
}

static WeftTensorGroups *
weft_compressed_tensors_dequantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                            WeftOpContext *context, GError **error)
{
  g_autoptr (WeftQuantizer) quantizer =
      new_quantizer ((WeftCompressedTensorsDequantize *) base, context, error);
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; quantizer != NULL && i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      const gchar *role = NULL;
      g_autofree gchar *dense_name = find_part (quantizer, weft_tensor_groups_get_name (inputs, i), &role);
      const Job job = { quantizer, inputs, context, i, dense_name };
      g_autoptr (WeftTensor) dense = NULL;

      if (g_strcmp0 (role, WEFT_ROLE_CODES) != 0)
        continue;
      dense = dequantize_group (&job, error);
      if (dense == NULL || !weft_op_add_output (outputs, get_output_name (&job), dense, error))
        return NULL;
    }
  if (quantizer == NULL || weft_tensor_groups_get_n_groups (outputs) > 0)
    return quantizer != NULL ? g_steal_pointer (&outputs) : NULL;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "there are no codes: expected weight or weight_packed");
  return NULL;
}

static WeftConversionOpsBase *
weft_compressed_tensors_dequantize_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return (WeftConversionOpsBase *) weft_op_new ("Identity", NULL, "CompressedTensorsDequantize", error);
}

static void
weft_compressed_tensors_dequantize_class_init (WeftCompressedTensorsDequantizeClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_compressed_tensors_dequantize_convert;
  base_class->dup_inverse = weft_compressed_tensors_dequantize_dup_inverse;
  base_class->traits =
      WEFT_OP_TRAITS_NEEDS_VALUES | WEFT_OP_TRAITS_CONSUMES_COMPANIONS | WEFT_OP_TRAITS_MANY_TO_MANY;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_variant (base_class, "quantization-config", "Quantization config",
                             "As in config.json; empty: what the model's config has", "a{sv}", "{}",
                             G_STRUCT_OFFSET (WeftCompressedTensorsDequantize, quantization_config));
}

WEFT_PLUGIN_DEFINE ("compressed-tensors-dequantize", "Weights of compressed-tensors inside a converter", NULL,
                    PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("CompressedTensorsDequantize", WeftCompressedTensorsDequantize,
                                    weft_compressed_tensors_dequantize));
