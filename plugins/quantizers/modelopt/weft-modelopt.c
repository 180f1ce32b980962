/* SPDX-License-Identifier: Apache-2.0 */
/* ModelOpt's checkpoints. NVFP4: two E2M1 codes a byte, an E4M3 scale for every 16 of them and one F32 scale for all, which
 * multiplies (compressed-tensors divides by its own). FP8: one scale for all, or for each row. */
#include <math.h>
#include <string.h>

#include "weft.h"

#define ROLE_SCALE "scale"
#define ROLE_GLOBAL_SCALE "global_scale"
#define ROLE_INPUT_SCALE "input_scale"
#define CODES_PER_BYTE 2
#define GROUP_ELEMENTS 16
#define E2M1_MAX 6
#define E4M3_MAX 448

typedef struct
{
  WeftQuantizerBase parent_instance;
} WeftModeloptQuantizer;

WEFT_DEFINE_QUANTIZER (WeftModeloptQuantizer, weft_modelopt_quantizer)

/* What a caller asks for: NVFP4, with the groups that it has. */
static gboolean
check_scheme (WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const schemes[] = { "modelopt", "modelopt-nvfp4", NULL };
  const gchar *name = weft_quantization_config_lookup_string (config, "quant_algo");
  gint64 group_size = GROUP_ELEMENTS;

  if (!weft_quantization_config_check_scheme (config, schemes, error))
    return FALSE;
  weft_quantization_config_lookup_int (config, "group_size", &group_size);
  if (group_size == GROUP_ELEMENTS && (name == NULL || g_str_equal (name, "NVFP4")))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected quant_algo 'NVFP4' and a group_size of %d, which are all that is written",
               GROUP_ELEMENTS);
  return FALSE;
}

/* Algorithms whose weights are stored as NVFP4 or FP8, whatever their activations are. */
static gboolean
check_algorithm (WeftQuantizationConfig *config, GError **error)
{
  const gchar *name = weft_quantization_config_lookup_string (config, "quant_algo");

  if (weft_quantization_config_get_scheme (config) != NULL)
    return check_scheme (config, error);
  if (name == NULL || strstr (name, "NVFP4") != NULL || strstr (name, "FP8") != NULL
      || g_str_equal (name, "MIXED_PRECISION"))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "expected a quant_algo of NVFP4, FP8 or MIXED_PRECISION, found '%s'", name);
  return FALSE;
}

static gboolean
weft_modelopt_quantizer_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, "", "");
  weft_quantizer_base_add_part (base, ROLE_SCALE, "", "_scale");
  weft_quantizer_base_add_part (base, ROLE_GLOBAL_SCALE, "", "_scale_2");
  weft_quantizer_base_add_part (base, ROLE_INPUT_SCALE, ".weight", ".input_scale");
  weft_quantizer_base_add_part (base, ROLE_INPUT_SCALE, "", "_input_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".k_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".v_scale");
  return check_algorithm (config, error);
}

/* Whether what a weight is stored as is what the config says of all weights. */
static gboolean
check_stored (WeftQuantizerBase *base, WeftPackedWeight *weight, const gchar *stored, GError **error)
{
  WeftQuantizationConfig *config = weft_quantizer_base_get_config (base);
  const gchar *name = weft_quantization_config_lookup_string (config, "quant_algo");

  if (name == NULL || strstr (name, stored) != NULL || g_str_equal (name, "MIXED_PRECISION"))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "'%s' is stored as %s, and the config says quant_algo '%s'",
               weft_packed_weight_get_name (weight), stored, name);
  return FALSE;
}

static gboolean
check_group_size (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  gint64 size = GROUP_ELEMENTS;

  weft_quantization_config_lookup_int (weft_quantizer_base_get_config (base), "group_size", &size);
  if (size == GROUP_ELEMENTS)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "'%s' is stored as NVFP4, whose group_size is %d, and the config says %" G_GINT64_FORMAT,
               weft_packed_weight_get_name (weight), GROUP_ELEMENTS, size);
  return FALSE;
}

/* A number for all of the weight. */
static gboolean
check_global_scale (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *scale = weft_packed_weight_require_tensor (weight, ROLE_GLOBAL_SCALE, error);
  WeftDtype dtype = scale != NULL ? weft_tensor_get_dtype (scale) : WEFT_DTYPE_INVALID;

  if (scale == NULL || (weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) >= 16))
    return scale != NULL;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "'%s': expected its %s in F32, found %s",
               weft_packed_weight_get_name (weight), ROLE_GLOBAL_SCALE, weft_dtype_get_name (dtype));
  return FALSE;
}

/* A scale of what goes in is one for all of the weight. */
static gboolean
describe_input_scale (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *scale = weft_packed_weight_get_tensor (weight, ROLE_INPUT_SCALE);

  return scale == NULL || weft_tensor_get_n_elements (scale) != 1
         || weft_packed_weight_set_block (weight, ROLE_INPUT_SCALE, 0, 0, error);
}

static gboolean
describe_nvfp4 (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftTensor *codes, WeftDtype dtype,
                GError **error)
{
  WeftShape dense = *weft_tensor_get_shape (codes);
  WeftTensor *scale = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error);

  if (scale == NULL || !check_global_scale (weight, error) || !check_stored (base, weight, "NVFP4", error)
      || !check_group_size (base, weight, error))
    return FALSE;
  if (dense.rank < 2
      || __builtin_mul_overflow (dense.dims[dense.rank - 1], CODES_PER_BYTE, &dense.dims[dense.rank - 1])
      || weft_tensor_get_dtype (scale) != WEFT_DTYPE_F8_E4M3)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s' has no columns of packed FP4 with scales of F8_E4M3",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  return weft_packed_weight_set_packed (weight, "nvfp4, scale per 16 and per tensor", dense.dims, dense.rank,
                                        dtype, error)
         && weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, CODES_PER_BYTE, error)
         && weft_packed_weight_set_block (weight, ROLE_SCALE, 1, GROUP_ELEMENTS, error)
         && weft_packed_weight_set_block (weight, ROLE_GLOBAL_SCALE, 0, 0, error);
}

static gboolean
describe_fp8 (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftTensor *codes, WeftDtype dtype,
              GError **error)
{
  const WeftShape *dense = weft_tensor_get_shape (codes);
  WeftTensor *scale = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error);
  gboolean is_per_tensor = scale != NULL && weft_tensor_get_n_elements (scale) == 1;

  if (scale == NULL || !check_stored (base, weight, "FP8", error)
      || !weft_packed_weight_set_packed (weight,
                                         is_per_tensor ? "fp8, scale per tensor" : "fp8, scale per row",
                                         dense->dims, dense->rank, dtype, error)
      || !weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, 1, error)
      || !weft_packed_weight_set_block (weight, ROLE_SCALE, is_per_tensor ? 0 : 1, 0, error))
    return FALSE;
  if (is_per_tensor)
    weft_packed_weight_allow_channels (weight, ROLE_SCALE);
  return TRUE;
}

static gboolean
weft_modelopt_quantizer_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftDtype dtype = weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (base));

  switch ((gint) weft_tensor_get_dtype (codes))
    {
    case WEFT_DTYPE_U8:
      return describe_nvfp4 (base, weight, codes, dtype, error) && describe_input_scale (weight, error);
    case WEFT_DTYPE_F8_E4M3:
      return describe_fp8 (base, weight, codes, dtype, error) && describe_input_scale (weight, error);
    default:
      return TRUE;
    }
}

static WeftTensor *
dequantize_nvfp4 (WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  static const gint64 group[] = { GROUP_ELEMENTS };
  const WeftShape *dense = weft_packed_weight_get_shape (weight);
  g_autoptr (WeftTensor) elements =
      weft_tensor_unpack_floats (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES), WEFT_DTYPE_F4,
                                 dense->dims[dense->rank - 1], error);
  /* The product of both scales is rounded to F32 first. */
  g_autoptr (WeftTensor) scale =
      elements != NULL ? weft_tensor_dequantize (weft_packed_weight_get_tensor (weight, ROLE_SCALE),
                                                 weft_packed_weight_get_tensor (weight, ROLE_GLOBAL_SCALE),
                                                 NULL, NULL, 0, WEFT_DTYPE_F32, error)
                       : NULL;

  return scale != NULL ? weft_tensor_dequantize (elements, scale, NULL, group, 1, dtype, error) : NULL;
}

static WeftTensor *
weft_modelopt_quantizer_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                                    GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  gint64 block[2];

  if (weft_tensor_get_dtype (codes) == WEFT_DTYPE_U8)
    return dequantize_nvfp4 (weight, dtype, error);
  weft_packed_weight_get_block (weight, ROLE_SCALE, &block[0], &block[1]);
  return weft_tensor_dequantize (codes, weft_packed_weight_get_tensor (weight, ROLE_SCALE), NULL, block,
                                 MIN (weft_tensor_get_rank (codes), 2), dtype, error);
}

/* Quantising: NVFP4 */

static void
compute_global_scale (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = inputs[0][i] / (E2M1_MAX * E4M3_MAX);
}

/* From the smallest to the largest number of E4M3. */
static void
compute_group_scales (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    {
      gfloat scale = inputs[0][i] / (E2M1_MAX * inputs[1][i]);

      output[i] = scale > 0 ? fminf (fmaxf (scale, 0x1p-9f), E4M3_MAX) : 1;
    }
}

/* What brings the largest magnitude to the largest product of code and scale; no axes. */
static WeftTensor *
make_global_scale (WeftTensor *dense, GError **error)
{
  g_autoptr (WeftTensor) flat =
      weft_tensor_reshape (dense, (gint64[]){ weft_tensor_get_n_elements (dense) }, 1, error);
  g_autoptr (WeftTensor) magnitude =
      flat != NULL
          ? weft_tensor_reduce_blocks (flat, WEFT_BLOCK_STATISTIC_MAGNITUDE, (gint64[]){ 0 }, 1, error)
          : NULL;
  g_autoptr (WeftTensor) scale =
      magnitude != NULL ? weft_tensor_compute (&magnitude, 1, compute_global_scale, NULL, NULL, error) : NULL;
  g_autoptr (WeftTensor) once = scale != NULL ? weft_tensor_remember (scale, error) : NULL;

  return once != NULL ? weft_tensor_reshape (once, NULL, 0, error) : NULL;
}

static WeftTensor *
make_group_scales (WeftTensor *dense, WeftTensor *global, GError **error)
{
  static const gint64 group[] = { GROUP_ELEMENTS };
  g_autoptr (WeftTensor) magnitudes =
      weft_tensor_reduce_blocks (dense, WEFT_BLOCK_STATISTIC_MAGNITUDE, group, 1, error);
  g_autoptr (WeftTensor) scales = magnitudes != NULL
                                      ? weft_tensor_compute ((WeftTensor *[]){ magnitudes, global }, 2,
                                                             compute_group_scales, NULL, NULL, error)
                                      : NULL;

  return scales != NULL ? weft_tensor_cast (scales, WEFT_DTYPE_F8_E4M3, error) : NULL;
}

/* Experts are packed one by one, each with a global scale of its own. */
static gboolean
require_matrix (WeftPackedWeight *weight, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (weft_packed_weight_get_dense (weight));
  g_autofree gchar *text = NULL;

  if (shape->rank == 2)
    return TRUE;
  text = weft_shape_to_string (shape);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s': expected a matrix, found shape %s",
               weft_packed_weight_get_name (weight), text);
  return FALSE;
}

static gboolean
weft_modelopt_quantizer_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  static const gint64 group[] = { GROUP_ELEMENTS };
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  g_autoptr (WeftTensor) global = NULL;
  g_autoptr (WeftTensor) scales = NULL;
  g_autoptr (WeftTensor) products = NULL;
  g_autoptr (WeftTensor) codes = NULL;
  g_autoptr (WeftTensor) packed = NULL;

  if (!require_matrix (weight, error))
    return FALSE;
  global = make_global_scale (dense, error);
  scales = global != NULL ? make_group_scales (dense, global, error) : NULL;
  products =
      scales != NULL ? weft_tensor_dequantize (scales, global, NULL, NULL, 0, WEFT_DTYPE_F32, error) : NULL;
  codes = products != NULL ? weft_tensor_quantize (dense, products, NULL, group, 1, WEFT_QUANTIZE_FLAGS_NONE,
                                                   WEFT_DTYPE_F4, 0, error)
                           : NULL;
  packed = codes != NULL ? weft_tensor_pack (codes, 4, WEFT_BIT_ORDER_DENSE, -1, WEFT_DTYPE_U8, error) : NULL;
  if (packed == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, packed);
  weft_packed_weight_set_part (weight, ROLE_SCALE, scales);
  weft_packed_weight_set_part (weight, ROLE_GLOBAL_SCALE, global);
  return TRUE;
}

static gchar *
weft_modelopt_quantizer_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules,
                                    GError **error)
{
  g_autoptr (GString) json = g_string_new (
      "{\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\", \"group_size\": 16, \"ignore\": ");

  weft_json_append_texts (json, skipped_modules);
  g_string_append_c (json, '}');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
weft_modelopt_quantizer_class_init (WeftModeloptQuantizerClass *klass)
{
  klass->parent_class.configure = weft_modelopt_quantizer_configure;
  klass->parent_class.describe = weft_modelopt_quantizer_describe;
  klass->parent_class.dequantize = weft_modelopt_quantizer_dequantize;
  klass->parent_class.quantize = weft_modelopt_quantizer_quantize;
  klass->parent_class.dup_config = weft_modelopt_quantizer_dup_config;
}

WEFT_PLUGIN_DEFINE ("modelopt", "ModelOpt's NVFP4 and FP8", NULL, PACKAGE_VERSION, "Apache-2.0",
                    PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("modelopt", WeftModeloptQuantizer, weft_modelopt_quantizer));
