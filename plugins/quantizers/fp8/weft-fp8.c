/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights with one scale for a block, a row or all of them, and FP4 experts that are stored beside them. The scale
 * multiplies. Names of DeepSeek's checkpoints (`weight_scale_inv`, or `scale`), of AutoFP8's (`weight_scale`, `input_scale`),
 * of Mistral's (`qscale_weight`) and of fbgemm's. */
#include <string.h>

#include "weft.h"

#define ROLE_SCALE "scale"
/* The same under a name that a runtime wants to keep. */
#define ROLE_WEIGHT_SCALE "weight_scale"
#define ROLE_ACTIVATION_SCALE "activation_scale"
#define ROLE_INPUT_SCALE "input_scale"
#define FP4_CODES_PER_BYTE 2

typedef struct
{
  WeftQuantizerBase parent_instance;
  /* Rows and columns of a block; 0: the config names none. */
  gint64 block[2];
} WeftFp8Quantizer;

WEFT_DEFINE_QUANTIZER (WeftFp8Quantizer, weft_fp8_quantizer)

static gboolean
weft_fp8_quantizer_recognise (WeftQuantizerBase *base, WeftQuantizationConfig *config, WeftStateDict *tensors)
{
  static const gchar *const methods[] = { "fp8", "mxfp8", "fbgemm_fp8", NULL };
  const gchar *method = weft_quantization_config_get_method (config);

  if (weft_quantization_config_get_scheme (config) != NULL)
    return WEFT_QUANTIZER_BASE_CLASS (weft_fp8_quantizer_parent_class)->recognise (base, config, tensors);
  return method != NULL && g_strv_contains (methods, method);
}

/* Two numbers, `null`, or nothing, which means 128 x 128. */
static gboolean
read_block (WeftFp8Quantizer *self, WeftQuantizationConfig *config, GError **error)
{
  JsonNode *object = weft_quantization_config_get_node (config);
  JsonNode *node = object != NULL ? weft_json_lookup (object, "weight_block_size") : NULL;
  JsonArray *array = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;

  self->block[0] = self->block[1] = node == NULL ? 128 : 0;
  if (node == NULL || JSON_NODE_HOLDS_NULL (node))
    return TRUE;
  for (guint i = 0; array != NULL && json_array_get_length (array) == 2 && i < 2; i++)
    {
      JsonNode *element = json_array_get_element (array, i);

      if (JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_INT64)
        self->block[i] = json_node_get_int (element);
    }
  if (self->block[0] > 0 && self->block[1] > 0)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "weight_block_size is not two whole numbers above 0, such as [128, 128]");
  return FALSE;
}

static gboolean
weft_fp8_quantizer_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, "", "");
  weft_quantizer_base_add_part (base, ROLE_SCALE, "", "_scale_inv");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".scale");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".qscale_weight");
  weft_quantizer_base_add_part (base, ROLE_WEIGHT_SCALE, ".weight", ".weight_scale");
  weft_quantizer_base_add_part (base, ROLE_ACTIVATION_SCALE, ".weight", ".activation_scale");
  weft_quantizer_base_add_part (base, ROLE_ACTIVATION_SCALE, "", "_activation_scale");
  weft_quantizer_base_add_part (base, ROLE_ACTIVATION_SCALE, ".weight", ".qscale_act");
  weft_quantizer_base_add_part (base, ROLE_INPUT_SCALE, ".weight", ".input_scale");
  weft_quantizer_base_add_part (base, ROLE_INPUT_SCALE, "", "_input_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".input_scale_ub");
  weft_quantizer_base_add_runtime_tensor (base, ".k_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".v_scale");
  return read_block ((WeftFp8Quantizer *) base, config, error);
}

static gboolean
is_fp8 (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_F8_E4M3 || dtype == WEFT_DTYPE_F8_E5M2 || dtype == WEFT_DTYPE_F8_E4M3FNUZ
         || dtype == WEFT_DTYPE_F8_E5M2FNUZ;
}

static WeftTensor *
get_scale (WeftPackedWeight *weight, const gchar **role)
{
  WeftTensor *scale = weft_packed_weight_get_tensor (weight, ROLE_SCALE);

  *role = scale != NULL ? ROLE_SCALE : ROLE_WEIGHT_SCALE;
  return scale != NULL ? scale : weft_packed_weight_get_tensor (weight, ROLE_WEIGHT_SCALE);
}

static gboolean
is_grid (gint64 extent, gint64 block, gint64 n_blocks)
{
  return block > 0 && extent / block + (extent % block != 0) == n_blocks;
}

/* The block of the config, if it gives the grid; otherwise the one that divides the weight. */
static gboolean
find_block (WeftFp8Quantizer *self, const WeftShape *dense, WeftTensor *scale, gboolean is_fp4, gint64 *block,
            GError **error)
{
  const WeftShape *grid = weft_tensor_get_shape (scale);
  g_autofree gchar *dense_text = weft_shape_to_string (dense);
  g_autofree gchar *grid_text = weft_shape_to_string (grid);
  guint first = dense->rank - 2;

  block[0] = block[1] = 0;
  if (!is_fp4 && dense->rank >= 2 && grid->rank == dense->rank
      && is_grid (dense->dims[first], self->block[0], grid->dims[first])
      && is_grid (dense->dims[first + 1], self->block[1], grid->dims[first + 1]))
    {
      memcpy (block, self->block, sizeof self->block);
      return TRUE;
    }
  if (weft_tensor_get_n_elements (scale) == 1)
    return TRUE;
  if (dense->rank < 2 || grid->rank != dense->rank)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "a scale of shape %s is no grid over a weight of shape %s",
                   grid_text, dense_text);
      return FALSE;
    }
  for (guint i = 0; i < 2; i++)
    {
      gint64 n_blocks = grid->dims[first + i];

      if (n_blocks <= 0 || dense->dims[first + i] % n_blocks != 0)
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_SHAPE,
              "a scale of shape %s divides a weight of shape %s into no blocks; the config says %" G_GINT64_FORMAT
              " x %" G_GINT64_FORMAT,
              grid_text, dense_text, self->block[0], self->block[1]);
          return FALSE;
        }
      block[i] = n_blocks == 1 ? 0 : dense->dims[first + i] / n_blocks;
    }
  return TRUE;
}

/* A scale of what goes in is one for all of the weight, where there is any. */
static gboolean
describe_activation (WeftPackedWeight *weight, const gchar *role, GError **error)
{
  WeftTensor *scale = weft_packed_weight_get_tensor (weight, role);

  return scale == NULL || weft_tensor_get_n_elements (scale) != 1
         || weft_packed_weight_set_block (weight, role, 0, 0, error);
}

static gboolean
describe_packed (WeftFp8Quantizer *self, WeftPackedWeight *weight, gboolean is_fp4, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftQuantizationConfig *config = weft_quantizer_base_get_config (WEFT_QUANTIZER_BASE (self));
  WeftDtype dtype = weft_quantization_config_get_default_dtype (config);
  WeftShape dense = *weft_tensor_get_shape (codes);
  const gchar *role;
  WeftTensor *scale = get_scale (weight, &role);
  g_autofree gchar *scheme = NULL;
  gint64 block[2];

  if (scale == NULL)
    return weft_packed_weight_require_tensor (weight, ROLE_SCALE, error) != NULL;
  if (is_fp4
      && (dense.rank == 0
          || __builtin_mul_overflow (dense.dims[dense.rank - 1], FP4_CODES_PER_BYTE,
                                     &dense.dims[dense.rank - 1])))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s' has no columns of packed FP4",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  if (!find_block (self, &dense, scale, is_fp4, block, error))
    {
      g_prefix_error (error, "'%s': ", weft_packed_weight_get_name (weight));
      return FALSE;
    }
  scheme = g_strdup_printf ("%s, scale per %s", is_fp4 ? "fp4" : "fp8",
                            block[0] == 0 && block[1] == 0   ? "tensor"
                            : block[0] == 1 && block[1] == 0 ? "row"
                                                             : "block");
  if (!weft_packed_weight_set_packed (weight, scheme, dense.dims, dense.rank, dtype, error)
      || !weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, is_fp4 ? FP4_CODES_PER_BYTE : 1, error)
      || !weft_packed_weight_set_block (weight, role, block[0], block[1], error))
    return FALSE;
  if (block[0] == 0 && block[1] == 0)
    weft_packed_weight_allow_channels (weight, role);
  return describe_activation (weight, ROLE_ACTIVATION_SCALE, error)
         && describe_activation (weight, ROLE_INPUT_SCALE, error);
}

static gboolean
weft_fp8_quantizer_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftDtype dtype = weft_tensor_get_dtype (codes);
  gboolean is_byte = dtype == WEFT_DTYPE_I8 || dtype == WEFT_DTYPE_U8;
  const gchar *role;
  gboolean is_fp4 = is_byte && get_scale (weight, &role) != NULL;

  return !(is_fp8 (dtype) || is_fp4) || describe_packed ((WeftFp8Quantizer *) base, weight, is_fp4, error);
}

/* E2M1 codes, the first in the low nibble. */
static WeftTensor *
look_up_fp4 (WeftTensor *codes, const WeftShape *dense, GError **error)
{
  g_autoptr (WeftTensor) unpacked =
      weft_tensor_unpack (codes, 4, WEFT_BIT_ORDER_DENSE, -1, dense->dims[dense->rank - 1], error);
  g_autoptr (WeftTensor) table = unpacked != NULL ? weft_tensor_new_code_table (WEFT_DTYPE_F4, error) : NULL;

  return table != NULL ? weft_tensor_lookup (unpacked, table, error) : NULL;
}

static WeftTensor *
weft_fp8_quantizer_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                               GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  const WeftShape *dense = weft_packed_weight_get_shape (weight);
  const gchar *role;
  WeftTensor *stored_scale = get_scale (weight, &role);
  g_autoptr (WeftTensor) scale = weft_tensor_get_dtype (stored_scale) == WEFT_DTYPE_U8
                                     ? weft_tensor_bitcast (stored_scale, WEFT_DTYPE_F8_E8M0, error)
                                     : weft_tensor_ref (stored_scale);
  g_autoptr (WeftTensor) elements =
      is_fp8 (weft_tensor_get_dtype (codes)) ? weft_tensor_ref (codes) : look_up_fp4 (codes, dense, error);
  gint64 block[2];

  if (scale == NULL || elements == NULL)
    return NULL;
  weft_packed_weight_get_block (weight, role, &block[0], &block[1]);
  return weft_tensor_dequantize (elements, scale, NULL, block, MIN (dense->rank, 2), dtype, error);
}

static void
weft_fp8_quantizer_class_init (WeftFp8QuantizerClass *klass)
{
  klass->parent_class.recognise = weft_fp8_quantizer_recognise;
  klass->parent_class.configure = weft_fp8_quantizer_configure;
  klass->parent_class.describe = weft_fp8_quantizer_describe;
  klass->parent_class.dequantize = weft_fp8_quantizer_dequantize;
}

WEFT_PLUGIN_DEFINE ("fp8", "FP8 weights with scales for blocks, rows or all of them", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("fp8", WeftFp8Quantizer, weft_fp8_quantizer));
