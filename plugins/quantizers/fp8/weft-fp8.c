/* SPDX-License-Identifier: Apache-2.0 */
/* FP8 weights with one scale for a block, a row or all of them, and FP4 experts that are stored beside them. The scale
 * multiplies. Names of DeepSeek's checkpoints (`weight_scale_inv`, or `scale`), of AutoFP8's (`weight_scale`, `input_scale`),
 * of Mistral's (`qscale_weight`) and of fbgemm's. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "weft.h"

#define ROLE_SCALE "scale"
/* The same under a name that a runtime wants to keep. */
#define ROLE_WEIGHT_SCALE "weight_scale"
#define ROLE_ACTIVATION_SCALE "activation_scale"
#define ROLE_INPUT_SCALE "input_scale"
#define FP4_CODES_PER_BYTE 2
#define E4M3_MAX 448
/* Of a matrix of a stack. */
#define LEAST_COLUMNS 16

typedef struct
{
  WeftQuantizerBase parent_instance;
  /* Rows and columns of a block; 0: the config names none. */
  gint64 block[2];
  /* What quantising makes: a scale for each row; for each block, which may be a power of two. */
  gboolean is_per_row;
  gboolean is_power;
} WeftFp8Quantizer;

WEFT_DEFINE_QUANTIZER (WeftFp8Quantizer, weft_fp8_quantizer)

static gboolean
is_fp8 (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_F8_E4M3 || dtype == WEFT_DTYPE_F8_E5M2 || dtype == WEFT_DTYPE_F8_E4M3FNUZ
         || dtype == WEFT_DTYPE_F8_E5M2FNUZ;
}

/* Codes and the scale that belongs to them, under a name that nobody else has for one. */
static gboolean
has_scaled_codes (WeftStateDict *tensors)
{
  static const gchar *const endings[] = { "_scale_inv", "_scale" };

  for (guint i = 0; i < weft_state_dict_get_n_tensors (tensors); i++)
    for (guint k = 0; k < G_N_ELEMENTS (endings); k++)
      {
        const gchar *name = weft_state_dict_get_name (tensors, i);
        g_autofree gchar *scale = g_strconcat (name, endings[k], NULL);

        if (is_fp8 (weft_tensor_get_dtype (weft_state_dict_get_tensor (tensors, i)))
            && weft_state_dict_find (tensors, scale, NULL))
          return TRUE;
      }
  return FALSE;
}

/* By the config, or without one by the names of tensors. */
static gboolean
weft_fp8_quantizer_recognise (WeftQuantizerBase *base, WeftQuantizationConfig *config, WeftStateDict *tensors)
{
  static const gchar *const methods[] = { "fp8", "mxfp8", "fbgemm_fp8", NULL };
  const gchar *method = weft_quantization_config_get_method (config);

  if (weft_quantization_config_get_scheme (config) != NULL)
    return WEFT_QUANTIZER_BASE_CLASS (weft_fp8_quantizer_parent_class)->recognise (base, config, tensors);
  if (!weft_quantization_config_is_there (config))
    return tensors != NULL && has_scaled_codes (tensors);
  return method != NULL && g_strv_contains (methods, method);
}

/* Two numbers, `null`, or nothing, which means 128 x 128. */
static gboolean
read_block (WeftFp8Quantizer *self, WeftQuantizationConfig *config, GError **error)
{
  JsonNode *object = weft_quantization_config_get_node (config);
  JsonNode *size = weft_quantization_config_lookup (config, "weight_block_size");
  JsonNode *node = size == NULL && object != NULL ? weft_json_lookup (object, "weight_block_size") : size;
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

/* What a caller asks for. */
static gboolean
read_scheme (WeftFp8Quantizer *self, WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const schemes[] = { "fp8", "fp8-block", "fp8-per-row", NULL };
  const gchar *format;

  if (!weft_quantization_config_check_scheme (config, schemes, error))
    return FALSE;
  self->is_per_row = g_strcmp0 (weft_quantization_config_get_scheme (config), "fp8-per-row") == 0;
  if (self->is_per_row)
    return TRUE;
  format = weft_quantization_config_lookup_string (config, "scale_fmt");
  self->is_power = g_strcmp0 (format, "ue8m0") == 0;
  if (format != NULL && weft_quantization_config_get_scheme (config) != NULL && !self->is_power
      && !g_str_equal (format, "float"))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "expected scale_fmt to be 'float' or 'ue8m0', found '%s'", format);
      return FALSE;
    }
  return read_block (self, config, error);
}

static gboolean
weft_fp8_quantizer_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, "", "");
  weft_quantizer_base_add_part (base, ROLE_SCALE, "", "_scale_inv");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".scale");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".qscale_weight");
  weft_quantizer_base_add_part (base, ROLE_WEIGHT_SCALE, ".weight", ".weight_scale");
  weft_quantizer_base_add_part (base, ROLE_WEIGHT_SCALE, "", "_weight_scale");
  weft_quantizer_base_add_part (base, ROLE_ACTIVATION_SCALE, ".weight", ".activation_scale");
  weft_quantizer_base_add_part (base, ROLE_ACTIVATION_SCALE, "", "_activation_scale");
  weft_quantizer_base_add_part (base, ROLE_ACTIVATION_SCALE, ".weight", ".qscale_act");
  weft_quantizer_base_add_part (base, ROLE_INPUT_SCALE, ".weight", ".input_scale");
  weft_quantizer_base_add_part (base, ROLE_INPUT_SCALE, "", "_input_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".input_scale_ub");
  weft_quantizer_base_add_runtime_tensor (base, ".k_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".v_scale");
  return read_scheme ((WeftFp8Quantizer *) base, config, error);
}

static WeftTensor *
get_scale (WeftPackedWeight *weight, const gchar **role)
{
  WeftTensor *scale = weft_packed_weight_get_tensor (weight, ROLE_SCALE);

  *role = scale != NULL ? ROLE_SCALE : ROLE_WEIGHT_SCALE;
  return scale != NULL ? scale : weft_packed_weight_get_tensor (weight, ROLE_WEIGHT_SCALE);
}

/* A scale under two names is one too many, even where they agree: nobody could tell which one an op has to follow. */
static gboolean
check_one_scale (WeftPackedWeight *weight, GError **error)
{
  const gchar *scale = weft_packed_weight_get_key (weight, ROLE_SCALE);
  const gchar *other = weft_packed_weight_get_key (weight, ROLE_WEIGHT_SCALE);

  if (scale == NULL || other == NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "'%s' and '%s' are both the scale of '%s'; leave one of them out", scale, other,
               weft_packed_weight_get_name (weight));
  return FALSE;
}

static gboolean
is_grid (gint64 extent, gint64 block, gint64 n_blocks)
{
  return block > 0 && extent / block + (extent % block != 0) == n_blocks;
}

static gboolean
is_exponent (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_U8 || dtype == WEFT_DTYPE_F8_E8M0;
}

/* Numbers, or exponents. Others are no scales, whatever their names say. */
static gboolean
check_scale_dtype (WeftTensor *scale, GError **error)
{
  WeftDtype dtype = weft_tensor_get_dtype (scale);

  if (is_exponent (dtype) || (weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) >= 16))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
               "its scale is stored as %s; expected F32, BF16, F16, F64, or exponents as F8_E8M0 or U8",
               weft_dtype_get_name (dtype));
  return FALSE;
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
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "a scale of shape %s is no grid over a weight of shape %s", grid_text, dense_text);
      return FALSE;
    }
  for (guint i = 0; i < 2; i++)
    {
      gint64 n_blocks = grid->dims[first + i];

      /* A rank that has nothing of the weight. */
      if (n_blocks == 0 && dense->dims[first + i] == 0)
        {
          block[i] = 1;
          continue;
        }
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
  if (!check_one_scale (weight, error))
    return FALSE;
  if (is_fp4
      && (dense.rank == 0
          || __builtin_mul_overflow (dense.dims[dense.rank - 1], FP4_CODES_PER_BYTE,
                                     &dense.dims[dense.rank - 1])))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s' has no columns of packed FP4",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  if (!check_scale_dtype (scale, error) || !find_block (self, &dense, scale, is_fp4, block, error))
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
  if (is_exponent (weft_tensor_get_dtype (scale)))
    weft_packed_weight_set_exponents (weight, role);
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

/* FP8 codes are elements as they are; those of E2M1 stand in bytes, the first in the low nibble. */
static WeftTensor *
dup_elements (WeftTensor *codes, const WeftShape *dense, GError **error)
{
  return is_fp8 (weft_tensor_get_dtype (codes))
             ? weft_tensor_ref (codes)
             : weft_tensor_unpack_floats (codes, WEFT_DTYPE_F4, dense->dims[dense->rank - 1], error);
}

/* Bytes of a scale are exponents. */
static WeftTensor *
dequantize_blocks (WeftTensor *elements, WeftTensor *scale, const gint64 *block, WeftDtype dtype,
                   GError **error)
{
  g_autoptr (WeftTensor) factors = weft_tensor_get_dtype (scale) == WEFT_DTYPE_U8
                                       ? weft_tensor_bitcast (scale, WEFT_DTYPE_F8_E8M0, error)
                                       : weft_tensor_ref (scale);

  return factors != NULL ? weft_tensor_dequantize (elements, factors, NULL, block,
                                                   MIN (weft_tensor_get_rank (elements), 2), dtype, error)
                         : NULL;
}

static WeftTensor *
weft_fp8_quantizer_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                               GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  const WeftShape *dense = weft_packed_weight_get_shape (weight);
  const gchar *role;
  WeftTensor *scale = get_scale (weight, &role);
  g_autoptr (WeftTensor) elements = dup_elements (codes, dense, error);
  gint64 block[2];

  if (elements == NULL)
    return NULL;
  weft_packed_weight_get_block (weight, role, &block[0], &block[1]);
  return dequantize_blocks (elements, scale, block, dtype, error);
}

/* Quantising */

/* What brings the largest magnitude of a block to the largest code; 1 where all is zero. The quotient is that of the
 * implementations in the field, which multiply by a reciprocal. Magnitudes that no number brings so far get the largest. */
static void
compute_scales (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = inputs[0][i] > 0 ? fminf (1 / inputs[0][i] * E4M3_MAX, FLT_MAX) : 1;
}

static void
compute_inverses (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = 1 / inputs[0][i];
}

/* The inverse, rounded up to a power of two that an exponent stands for. */
static void
compute_powers (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    {
      gint exponent;
      gfloat fraction = frexpf (1 / inputs[0][i], &exponent);

      output[i] = fmaxf (ldexpf (1, fraction > 0.5f ? exponent : exponent - 1), 0x1p-127f);
    }
}

/* A quotient that is too small for a number is none to divide by, as little as 0. */
static void
compute_row_scales (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    {
      gfloat scale = inputs[0][i] / E4M3_MAX;

      output[i] = scale > 0 ? scale : 1.0f / E4M3_MAX;
    }
}

/* The largest magnitudes of blocks, computed once. */
static WeftTensor *
reduce (WeftTensor *dense, const gint64 block[2], GError **error)
{
  g_autoptr (WeftTensor) magnitudes =
      weft_tensor_reduce_blocks (dense, WEFT_BLOCK_STATISTIC_MAGNITUDE, block, 2, error);

  return magnitudes != NULL ? weft_tensor_remember (magnitudes, error) : NULL;
}

static gboolean
set_parts (WeftPackedWeight *weight, WeftTensor *codes, const gchar *role, WeftTensor *scale)
{
  if (codes == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, codes);
  weft_packed_weight_set_part (weight, role, scale);
  return TRUE;
}

/* The codes of @dense, and the scale of each block; NULL if it fails. */
static WeftTensor *
quantize_dense (WeftTensor *dense, const gint64 block[2], gboolean is_power, WeftTensor **scale,
                GError **error)
{
  g_autoptr (WeftTensor) magnitudes = reduce (dense, block, error);
  g_autoptr (WeftTensor) scales =
      magnitudes != NULL ? weft_tensor_compute (&magnitudes, 1, compute_scales, NULL, NULL, error) : NULL;
  g_autoptr (WeftTensor) inverses = NULL;

  if (scales != NULL)
    inverses =
        weft_tensor_compute (&scales, 1, is_power ? compute_powers : compute_inverses, NULL, NULL, error);
  if (inverses != NULL)
    *scale = weft_tensor_cast (inverses, is_power ? WEFT_DTYPE_F8_E8M0 : WEFT_DTYPE_F32, error);
  /* Dividing by a power of two is multiplying by its inverse. */
  return *scale != NULL
             ? weft_tensor_quantize (dense, is_power ? *scale : scales, NULL, block, 2,
                                     is_power ? WEFT_QUANTIZE_FLAGS_NONE : WEFT_QUANTIZE_FLAGS_MULTIPLY,
                                     WEFT_DTYPE_F8_E4M3, 8, error)
             : NULL;
}

static gboolean
quantize_blocks (WeftFp8Quantizer *self, WeftPackedWeight *weight, GError **error)
{
  g_autoptr (WeftTensor) scale = NULL;
  g_autoptr (WeftTensor) codes =
      quantize_dense (weft_packed_weight_get_dense (weight), self->block, self->is_power, &scale, error);

  return set_parts (weight, codes, ROLE_SCALE, scale);
}

static gboolean
quantize_rows (WeftPackedWeight *weight, GError **error)
{
  static const gint64 block[] = { 1, 0 };
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  g_autoptr (WeftTensor) magnitudes = reduce (dense, block, error);
  g_autoptr (WeftTensor) scales =
      magnitudes != NULL ? weft_tensor_compute (&magnitudes, 1, compute_row_scales, NULL, NULL, error) : NULL;
  g_autoptr (WeftTensor) codes =
      scales != NULL ? weft_tensor_quantize (dense, scales, NULL, block, 2, WEFT_QUANTIZE_FLAGS_NONE,
                                             WEFT_DTYPE_F8_E4M3, 8, error)
                     : NULL;

  return set_parts (weight, codes, ROLE_WEIGHT_SCALE, scales);
}

/* What all methods take, and stacked matrices that are not called experts. Kernels of convolutions have three axes as well: they
 * are short, and called so. */
static gboolean
weft_fp8_quantizer_is_eligible (WeftQuantizerBase *base, WeftPackedWeight *weight)
{
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  const gchar *name = weft_packed_weight_get_name (weight);

  return WEFT_QUANTIZER_BASE_CLASS (weft_fp8_quantizer_parent_class)->is_eligible (base, weight)
         || (weft_tensor_get_rank (dense) == 3 && g_str_has_suffix (name, "weight")
             && strstr (name, "conv") == NULL && weft_tensor_get_dim (dense, 2) >= LEAST_COLUMNS);
}

static gboolean
weft_fp8_quantizer_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftFp8Quantizer *self = (WeftFp8Quantizer *) base;

  return self->is_per_row ? quantize_rows (weight, error) : quantize_blocks (self, weight, error);
}

static gchar *
weft_fp8_quantizer_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules, GError **error)
{
  WeftFp8Quantizer *self = (WeftFp8Quantizer *) base;
  g_autoptr (GString) json = g_string_new ("{\"quant_method\": ");

  if (self->is_per_row)
    g_string_append (json, "\"fbgemm_fp8\"");
  else if (self->block[0] == 0)
    g_string_append (json, "\"fp8\", \"activation_scheme\": \"dynamic\", \"weight_block_size\": null");
  else
    g_string_append_printf (
        json,
        "\"fp8\", \"activation_scheme\": \"dynamic\", \"weight_block_size\": [%" G_GINT64_FORMAT
        ", %" G_GINT64_FORMAT "]",
        self->block[0], self->block[1]);
  if (self->is_power)
    g_string_append (json, ", \"scale_fmt\": \"ue8m0\"");
  g_string_append (json, ", \"modules_to_not_convert\": ");
  weft_json_append_texts (json, skipped_modules);
  g_string_append_c (json, '}');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
weft_fp8_quantizer_class_init (WeftFp8QuantizerClass *klass)
{
  klass->parent_class.recognise = weft_fp8_quantizer_recognise;
  klass->parent_class.configure = weft_fp8_quantizer_configure;
  klass->parent_class.describe = weft_fp8_quantizer_describe;
  klass->parent_class.dequantize = weft_fp8_quantizer_dequantize;
  klass->parent_class.is_eligible = weft_fp8_quantizer_is_eligible;
  klass->parent_class.quantize = weft_fp8_quantizer_quantize;
  klass->parent_class.dup_config = weft_fp8_quantizer_dup_config;
}

/* Fp8Dequantize: the same inside a converter, with blocks that divide the weight. */

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftFp8Dequantize;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  GVariant *weight_block_size;
  gchar *scale_fmt;
} WeftFp8Quantize;

WEFT_DEFINE_OP (WeftFp8Dequantize, weft_fp8_dequantize)
WEFT_DEFINE_OP (WeftFp8Quantize, weft_fp8_quantize)

#define SCALE_ENDING "_scale_inv"
#define ACTIVATION_ENDING "activation_scale"

static WeftDtype
get_parameter_dtype (WeftOpContext *context)
{
  const gchar *name = weft_op_context_get_full_layer_name (context);
  WeftDtype dtype = name != NULL ? weft_op_context_get_parameter_dtype (context, name) : WEFT_DTYPE_INVALID;

  return weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) > 8 ? dtype : WEFT_DTYPE_INVALID;
}

/* The dtype of the parameter, or that of the scale if it is one of values. */
static WeftDtype
choose_dtype (WeftOpContext *context, WeftTensor *scale)
{
  WeftDtype parameter = get_parameter_dtype (context);
  WeftDtype dtype = weft_tensor_get_dtype (scale);

  if (parameter != WEFT_DTYPE_INVALID)
    return parameter;
  return weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) > 8 ? dtype : WEFT_DTYPE_BF16;
}

static WeftTensor *
dequantize_pair (WeftTensor *codes, WeftTensor *scale, WeftOpContext *context, GError **error)
{
  static WeftFp8Quantizer no_block;
  WeftShape dense = *weft_tensor_get_shape (codes);
  gboolean is_fp4 = !is_fp8 (weft_tensor_get_dtype (codes));
  g_autoptr (WeftTensor) elements = NULL;
  gint64 block[2];

  if (is_fp4
      && (dense.rank == 0
          || __builtin_mul_overflow (dense.dims[dense.rank - 1], FP4_CODES_PER_BYTE,
                                     &dense.dims[dense.rank - 1])))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "packed FP4 needs columns");
      return NULL;
    }
  if (!check_scale_dtype (scale, error) || !find_block (&no_block, &dense, scale, is_fp4, block, error))
    return NULL;
  elements = dup_elements (codes, &dense, error);
  return elements != NULL ? dequantize_blocks (elements, scale, block, choose_dtype (context, scale), error)
                          : NULL;
}

/* A weight without a scale: of values, it gets the dtype of the parameter; of codes, it means nothing. */
static WeftTensor *
pass_plain (WeftTensor *tensor, WeftOpContext *context, GError **error)
{
  WeftDtype parameter = get_parameter_dtype (context);

  if (is_fp8 (weft_tensor_get_dtype (tensor)))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "codes of %s came without a scale",
                   weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
      return NULL;
    }
  return parameter != WEFT_DTYPE_INVALID ? weft_tensor_cast (tensor, parameter, error)
                                         : weft_tensor_ref (tensor);
}

/* The weights of one entry with their scales, which pair by place. */
static gboolean
dequantize_group (WeftTensorGroups *inputs, guint group, const gchar *name, WeftOpContext *context,
                  WeftTensorGroups *outputs, GError **error)
{
  const gchar *key = weft_tensor_groups_get_name (inputs, group);
  g_autofree gchar *scale_key = g_strconcat (key, SCALE_ENDING, NULL);
  guint n = weft_tensor_groups_get_n_tensors (inputs, group);
  gboolean has_scales;
  guint scales = 0;

  has_scales = weft_tensor_groups_find (inputs, scale_key, &scales);
  if (has_scales && weft_tensor_groups_get_n_tensors (inputs, scales) != n)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "'%s' has %u weights and %u scales", key, n,
                   weft_tensor_groups_get_n_tensors (inputs, scales));
      return FALSE;
    }
  for (guint i = 0; i < n; i++)
    {
      WeftTensor *codes = weft_tensor_groups_get_tensor (inputs, group, i);
      g_autoptr (WeftTensor) tensor =
          has_scales
              ? dequantize_pair (codes, weft_tensor_groups_get_tensor (inputs, scales, i), context, error)
              : pass_plain (codes, context, error);

      if (tensor == NULL)
        return FALSE;
      if (name != key)
        weft_tensor_groups_set (outputs, name, tensor);
      else
        weft_tensor_groups_append (outputs, name, tensor, weft_tensor_groups_get_origin (inputs, group, i));
    }
  return TRUE;
}

static WeftTensorGroups *
weft_fp8_dequantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                             GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      const gchar *key = weft_tensor_groups_get_name (inputs, i);
      const gchar *layer = weft_op_context_get_full_layer_name (context);
      gboolean is_whole = strcmp (key, "weight") == 0;

      if (g_str_has_suffix (key, SCALE_ENDING) || g_str_has_suffix (key, ACTIVATION_ENDING))
        continue;
      /* The converter of every weight names its output in full. */
      if (!dequantize_group (inputs, i, is_whole ? (layer != NULL ? layer : "weight") : key, context, outputs,
                             error))
        return NULL;
    }
  if (weft_tensor_groups_get_n_groups (outputs) == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "there are scales, and no weight");
      return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftConversionOpsBase *
weft_fp8_dequantize_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_fp8_quantize_get_type (), NULL);
}

static void
weft_fp8_dequantize_class_init (WeftFp8DequantizeClass *klass)
{
  klass->parent_class.convert = weft_fp8_dequantize_convert;
  klass->parent_class.dup_inverse = weft_fp8_dequantize_dup_inverse;
  klass->parent_class.traits =
      WEFT_OP_TRAITS_NEEDS_VALUES | WEFT_OP_TRAITS_CONSUMES_COMPANIONS | WEFT_OP_TRAITS_MANY_TO_MANY;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

/* Fp8Quantize: blocks of the weight, or all of it. What has one axis, and what is a bias, stays. */

static gboolean
quantize_entry (WeftFp8Quantize *self, const gchar *key, WeftTensor *dense, WeftTensorGroups *outputs,
                GError **error)
{
  gsize n_sizes;
  const gint64 *sizes = g_variant_get_fixed_array (self->weight_block_size, &n_sizes, sizeof (gint64));
  const gint64 block[] = { n_sizes == 2 ? sizes[0] : 0, n_sizes == 2 ? sizes[1] : 0 };
  g_autofree gchar *scale_key = g_strconcat (key, SCALE_ENDING, NULL);
  g_autoptr (WeftTensor) scale = NULL;
  g_autoptr (WeftTensor) codes = NULL;

  if (weft_tensor_get_rank (dense) < 2)
    return weft_op_add_output (outputs, key, dense, error);
  if ((n_sizes != 0 && n_sizes != 2) || block[0] < 0 || block[1] < 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "weight_block_size is not two whole numbers above 0, such as [128, 128]");
      return FALSE;
    }
  codes = quantize_dense (dense, block, g_strcmp0 (self->scale_fmt, "ue8m0") == 0, &scale, error);
  return codes != NULL && weft_op_add_output (outputs, key, codes, error)
         && weft_op_add_output (outputs, scale_key, scale, error);
}

static WeftTensorGroups *
weft_fp8_quantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                           GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      WeftTensor *dense = weft_op_get_tensor (inputs, i, error);

      if (dense == NULL
          || !quantize_entry ((WeftFp8Quantize *) base, weft_tensor_groups_get_name (inputs, i), dense,
                              outputs, error))
        return NULL;
    }
  if (weft_tensor_groups_get_n_groups (outputs) == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "there is no weight");
      return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftConversionOpsBase *
weft_fp8_quantize_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_fp8_dequantize_get_type (), NULL);
}

static void
weft_fp8_quantize_class_init (WeftFp8QuantizeClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_fp8_quantize_convert;
  base_class->dup_inverse = weft_fp8_quantize_dup_inverse;
  base_class->traits = WEFT_OP_TRAITS_NEEDS_VALUES | WEFT_OP_TRAITS_MANY_TO_MANY;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_variant (base_class, "weight-block-size", "Block size",
                             "Rows and columns of a block; empty: all of the last two axes", "ax", "[]",
                             G_STRUCT_OFFSET (WeftFp8Quantize, weight_block_size));
  weft_op_class_set_parameter_flags (base_class, "weight-block-size", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
  weft_op_class_add_string (base_class, "scale-fmt", "Scale format", "`float`, or `ue8m0` for powers of two",
                            "float", G_STRUCT_OFFSET (WeftFp8Quantize, scale_fmt));
  weft_op_class_set_parameter_flags (base_class, "scale-fmt", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
}

WEFT_PLUGIN_DEFINE ("fp8", "FP8 weights with scales for blocks, rows or all of them", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("fp8", WeftFp8Quantizer, weft_fp8_quantizer),
                    WEFT_PLUGIN_OP ("Fp8Dequantize", WeftFp8Dequantize, weft_fp8_dequantize),
                    WEFT_PLUGIN_OP ("Fp8Quantize", WeftFp8Quantize, weft_fp8_quantize));
