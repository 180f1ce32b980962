/* SPDX-License-Identifier: Apache-2.0 */
/* torchao's tensors as safetensors files hold them: the parts of `a.weight` are `a._weight_qdata`, `a._weight_scale` and so
 * on, and the metadata of the file tells the block of a tensor. The value is (code - zero point) * scale. */
#include "weft.h"

#define ROLE_SCALE "scale"
#define ROLE_ZERO_POINT "zero_point"

typedef struct
{
  WeftQuantizerBase parent_instance;
} WeftTorchao;

WEFT_DEFINE_QUANTIZER (WeftTorchao, weft_torchao)

static gboolean
weft_torchao_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", "._weight_qdata");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", "._weight_scale");
  weft_quantizer_base_add_part (base, ROLE_ZERO_POINT, ".weight", "._weight_zero_point");
  return TRUE;
}

/* What the metadata says of a weight, as JSON. */
static JsonNode *
read_record (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  const gchar *name = weft_packed_weight_get_name (weight);
  const gchar *text = weft_quantization_config_get_metadata (weft_quantizer_base_get_config (base), name);

  if (text != NULL)
    return weft_json_parse (text, -1, name, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "'%s': the metadata of the file says nothing of it, so its block is not known", name);
  return NULL;
}

static gboolean
read_block (WeftPackedWeight *weight, JsonNode *record, gint64 block[2], GError **error)
{
  JsonNode *node = weft_json_lookup (record, "_data.block_size");
  JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  block[0] = block[1] = 0;
  for (guint i = 0; array != NULL && json_array_get_length (array) == 2 && i < 2; i++)
    {
      JsonNode *element = json_array_get_element (array, i);

      if (JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_INT64)
        block[i] = json_node_get_int (element);
    }
  if (block[0] > 0 && block[1] > 0)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "'%s': expected a block_size of two numbers above 0 in the metadata of the file",
               weft_packed_weight_get_name (weight));
  return FALSE;
}

static WeftDtype
read_dtype (JsonNode *record, WeftDtype fallback)
{
  JsonNode *node = weft_json_lookup (record, "_data.dtype._data");
  WeftDtype dtype =
      node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_STRING
          ? weft_dtype_from_any_name (json_node_get_string (node))
          : WEFT_DTYPE_INVALID;

  return weft_dtype_is_floating (dtype) ? dtype : fallback;
}

static gboolean
weft_torchao_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  static const gchar *const types[] = { "Float8Tensor", "Int8Tensor", "IntxUnpackedToInt8Tensor", NULL };
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  const WeftShape *shape = weft_tensor_get_shape (codes);
  g_autoptr (JsonNode) record = read_record (base, weight, error);
  JsonNode *type_node = record != NULL ? weft_json_lookup (record, "_type") : NULL;
  const gchar *type =
      type_node != NULL && JSON_NODE_HOLDS_VALUE (type_node) ? json_node_get_string (type_node) : NULL;
  WeftDtype dtype = weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (base));
  gint64 block[2];

  if (record == NULL || weft_packed_weight_require_tensor (weight, ROLE_SCALE, error) == NULL)
    return FALSE;
  if (type == NULL || !g_strv_contains (types, type))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
          "'%s' is a %s of torchao, of which Float8Tensor, Int8Tensor and IntxUnpackedToInt8Tensor are read",
          weft_packed_weight_get_name (weight), type != NULL ? type : "tensor without type");
      return FALSE;
    }
  return read_block (weight, record, block, error)
         && weft_packed_weight_set_packed (weight, type, shape->dims, shape->rank, read_dtype (record, dtype),
                                           error)
         && weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, 1, error)
         && weft_packed_weight_set_block (weight, ROLE_SCALE, block[0], block[1], error)
         && (weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT) == NULL
             || weft_packed_weight_set_block (weight, ROLE_ZERO_POINT, block[0], block[1], error));
}

/* Values are rounded to the dtype that the tensor says it has first. */
static WeftTensor *
weft_torchao_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  g_autoptr (WeftTensor) values = NULL;
  gint64 block[2];

  weft_packed_weight_get_block (weight, ROLE_SCALE, &block[0], &block[1]);
  values = weft_tensor_dequantize (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES),
                                   weft_packed_weight_get_tensor (weight, ROLE_SCALE),
                                   weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT), block, 2,
                                   weft_packed_weight_get_dtype (weight), error);
  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

static void
weft_torchao_class_init (WeftTorchaoClass *klass)
{
  klass->parent_class.configure = weft_torchao_configure;
  klass->parent_class.describe = weft_torchao_describe;
  klass->parent_class.dequantize = weft_torchao_dequantize;
}

WEFT_PLUGIN_DEFINE ("torchao", "Tensors of torchao in safetensors files", NULL, PACKAGE_VERSION, "Apache-2.0",
                    PACKAGE_ORIGIN, WEFT_PLUGIN_QUANTIZER ("torchao", WeftTorchao, weft_torchao));
