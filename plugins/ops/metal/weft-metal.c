/* SPDX-License-Identifier: Apache-2.0 */
/* Affine groups of Apple's kernels: codes in U32 words, lowest bits first; a value is code * scale + bias of its group. */
#include <string.h>

#include "weft.h"

#define SCHEME "affine"
#define WORD_BITS 32

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 bits;
  gint64 group_size;
} WeftMetalDequantize;

typedef WeftMetalDequantize WeftMetalQuantize;

WEFT_DEFINE_OP (WeftMetalDequantize, weft_metal_dequantize)
WEFT_DEFINE_OP (WeftMetalQuantize, weft_metal_quantize)

static WeftTensor *
find_input (WeftTensorGroups *inputs, const gchar *name, GError **error)
{
  guint group;

  if (weft_tensor_groups_find (inputs, name, &group))
    return weft_op_get_tensor (inputs, group, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "expected weight, scales and qbiases, found no %s",
               name);
  return NULL;
}

/* Values have the dtype of the scales. */
static WeftTensor *
dequantize (WeftMetalDequantize *self, WeftTensor *words, WeftTensor *scales, WeftTensor *biases,
            GError **error)
{
  const gint64 block[] = { self->group_size };
  gint64 n_columns;
  g_autoptr (WeftTensor) codes = NULL;

  if (weft_tensor_get_rank (words) == 0
      || __builtin_mul_overflow (weft_tensor_get_dim (words, -1), WORD_BITS / self->bits, &n_columns))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "packed codes need columns, and not too many of them");
      return NULL;
    }
  codes = weft_tensor_unpack (words, (guint) self->bits, WEFT_BIT_ORDER_DENSE, -1, n_columns, error);
  return codes != NULL ? weft_tensor_dequantize_affine (codes, scales, biases, block, 1,
                                                        weft_tensor_get_dtype (scales), error)
                       : NULL;
}

static WeftTensorGroups *
weft_metal_dequantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                               GError **error)
{
  const gchar *layer = weft_op_context_get_full_layer_name (context);
  const gchar *name = layer != NULL ? layer : weft_op_get_output_name (context, error);
  WeftTensor *words = name != NULL ? find_input (inputs, "weight", error) : NULL;
  WeftTensor *scales = words != NULL ? find_input (inputs, "scales", error) : NULL;
  WeftTensor *biases = scales != NULL ? find_input (inputs, "qbiases", error) : NULL;
  g_autoptr (WeftTensor) dense =
      biases != NULL ? dequantize ((WeftMetalDequantize *) base, words, scales, biases, error) : NULL;

  return dense != NULL ? weft_op_new_output (name, dense) : NULL;
}

static WeftConversionOpsBase *
weft_metal_dequantize_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return (WeftConversionOpsBase *) weft_op_new ("Identity", NULL, "MetalDequantize", error);
}

/* The quantizer of the scheme does it. */
static WeftPackedWeight *
quantize (WeftMetalQuantize *self, const gchar *name, WeftTensor *dense, GError **error)
{
  g_autofree gchar *text = g_strdup_printf (
      "{\"bits\": %" G_GINT64_FORMAT ", \"group_size\": %" G_GINT64_FORMAT "}", self->bits, self->group_size);
  g_autoptr (JsonNode) parameters = weft_json_parse (text, -1, "MetalQuantize", error);
  g_autoptr (WeftQuantizationConfig) config =
      parameters != NULL ? weft_quantization_config_new_for_scheme (SCHEME, parameters, NULL) : NULL;
  g_autoptr (WeftQuantizer) quantizer = config != NULL ? weft_quantizer_new_for_scheme (config, error) : NULL;
  g_autoptr (WeftPackedWeight) weight = weft_packed_weight_new (name);

  weft_packed_weight_set_dense (weight, dense);
  return quantizer != NULL && weft_quantizer_quantize (quantizer, weight, error) ? g_steal_pointer (&weight)
                                                                                 : NULL;
}

/* `p.weight` becomes `p.weight`, `p.scales` and `p.qbiases`. */
static gboolean
add_part (WeftTensorGroups *outputs, WeftPackedWeight *weight, const gchar *role, const gchar *ending,
          GError **error)
{
  g_autofree gchar *path = weft_packed_weight_dup_module_path (weight);
  g_autofree gchar *name = *path != '\0' ? g_strconcat (path, ".", ending, NULL) : g_strdup (ending);
  WeftTensor *tensor = weft_packed_weight_require_tensor (weight, role, error);

  return tensor != NULL && weft_op_add_output (outputs, name, tensor, error);
}

static WeftTensorGroups *
weft_metal_quantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                             GError **error)
{
  WeftTensor *dense = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftPackedWeight) weight =
      dense != NULL
          ? quantize ((WeftMetalQuantize *) base, weft_tensor_groups_get_name (inputs, 0), dense, error)
          : NULL;
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  if (weight == NULL || !add_part (outputs, weight, WEFT_ROLE_CODES, "weight", error)
      || !add_part (outputs, weight, "scale", "scales", error)
      || !add_part (outputs, weight, "bias", "qbiases", error))
    return NULL;
  return g_steal_pointer (&outputs);
}

static void
add_parameters (WeftConversionOpsBaseClass *klass)
{
  weft_op_class_add_int (klass, "bits", "Bits", "Bits of a code", 1, 8, 4,
                         G_STRUCT_OFFSET (WeftMetalDequantize, bits));
  weft_op_class_add_int (klass, "group-size", "Group size", "Columns that share a scale", 1, G_MAXINT, 64,
                         G_STRUCT_OFFSET (WeftMetalDequantize, group_size));
}

static void
weft_metal_dequantize_class_init (WeftMetalDequantizeClass *klass)
{
  klass->parent_class.convert = weft_metal_dequantize_convert;
  klass->parent_class.dup_inverse = weft_metal_dequantize_dup_inverse;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES | WEFT_OP_TRAITS_CONSUMES_COMPANIONS;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  add_parameters (&klass->parent_class);
}

static void
weft_metal_quantize_class_init (WeftMetalQuantizeClass *klass)
{
  klass->parent_class.convert = weft_metal_quantize_convert;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  add_parameters (&klass->parent_class);
}

WEFT_PLUGIN_DEFINE ("metal", "Affine groups of codes", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("MetalDequantize", WeftMetalDequantize, weft_metal_dequantize),
                    WEFT_PLUGIN_OP ("MetalQuantize", WeftMetalQuantize, weft_metal_quantize));
