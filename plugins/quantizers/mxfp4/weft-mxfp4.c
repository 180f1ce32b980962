/* SPDX-License-Identifier: Apache-2.0 */
/* MXFP4 experts as gpt-oss stores them: blocks [E, R, G, 16] of two E2M1 codes a byte, the first in the low nibble, and a power
 * of two [E, R, G] for every 32 of them. The dense weight is [E, 32 G, R]: its last two axes are swapped. */
#include <math.h>
#include <string.h>

#include "weft.h"

#define ROLE_SCALE "scales"
#define BLOCK_BYTES 16
#define BLOCK_ELEMENTS 32
#define E2M1_MAX 6
#define MXFP4_SCHEME "mxfp4, scale per 32"

typedef struct
{
  WeftQuantizerBase parent_instance;
} WeftMxfp4Quantizer;

WEFT_DEFINE_QUANTIZER (WeftMxfp4Quantizer, weft_mxfp4_quantizer)

/* Blocks and scales of one weight. */
static gboolean
has_blocks (WeftStateDict *tensors)
{
  for (guint i = 0; i < weft_state_dict_get_n_tensors (tensors); i++)
    {
      const gchar *name = weft_state_dict_get_name (tensors, i);
      WeftTensor *tensor = weft_state_dict_get_tensor (tensors, i);
      g_autofree gchar *scales = NULL;

      if (!g_str_has_suffix (name, "_blocks") || weft_tensor_get_dtype (tensor) != WEFT_DTYPE_U8
          || weft_tensor_get_rank (tensor) != 4)
        continue;
      scales = g_strdup_printf ("%.*s_scales", (gint) (strlen (name) - strlen ("_blocks")), name);
      if (weft_state_dict_find (tensors, scales, NULL))
        return TRUE;
    }
  return FALSE;
}

static gboolean
weft_mxfp4_quantizer_recognise (WeftQuantizerBase *base, WeftQuantizationConfig *config,
                                WeftStateDict *tensors)
{
  if (weft_quantization_config_is_there (config) || tensors == NULL)
    return WEFT_QUANTIZER_BASE_CLASS (weft_mxfp4_quantizer_parent_class)->recognise (base, config, tensors);
  return weft_quantization_config_get_scheme (config) == NULL && has_blocks (tensors);
}

/* What a caller asks for is what there is. */
static gboolean
check_scheme (WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const schemes[] = { "mxfp4", "mxfp4-moe", NULL };
  const gchar *rounding;
  gint64 block = BLOCK_ELEMENTS;

  if (weft_quantization_config_get_scheme (config) == NULL)
    return TRUE;
  if (!weft_quantization_config_check_scheme (config, schemes, error))
    return FALSE;
  rounding = weft_quantization_config_lookup_string (config, "scale_rounding");
  weft_quantization_config_lookup_int (config, "block", &block);
  if (block == BLOCK_ELEMENTS && (rounding == NULL || g_str_equal (rounding, "up")))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected a block of %d and a scale_rounding of 'up', which are all that is written",
               BLOCK_ELEMENTS);
  return FALSE;
}

static gboolean
weft_mxfp4_quantizer_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, "", "_blocks");
  weft_quantizer_base_add_part (base, ROLE_SCALE, "", "_scales");
  return check_scheme (config, error);
}

static gboolean
refuse_shapes (WeftTensor *blocks, WeftTensor *scales, GError **error)
{
  g_autofree gchar *blocks_text = weft_shape_to_string (weft_tensor_get_shape (blocks));
  g_autofree gchar *scales_text = weft_shape_to_string (weft_tensor_get_shape (scales));

  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_SHAPE,
      "blocks of shape %s and scales of shape %s do not go together; expected [E, R, G, %d] and [E, R, G]",
      blocks_text, scales_text, BLOCK_BYTES);
  return FALSE;
}

static gboolean
describe (WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  WeftTensor *blocks = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftTensor *scales = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error);
  WeftShape expected, dense = { .rank = 3 };

  if (scales == NULL)
    return FALSE;
  expected = *weft_tensor_get_shape (scales);
  if (expected.rank != 3)
    return refuse_shapes (blocks, scales, error);
  expected.dims[expected.rank++] = BLOCK_BYTES;
  if (!weft_shape_equal (weft_tensor_get_shape (blocks), &expected)
      || __builtin_mul_overflow (expected.dims[2], BLOCK_ELEMENTS, &dense.dims[1]))
    return refuse_shapes (blocks, scales, error);
  if (weft_tensor_get_dtype (blocks) != WEFT_DTYPE_U8
      || (weft_tensor_get_dtype (scales) != WEFT_DTYPE_U8
          && weft_tensor_get_dtype (scales) != WEFT_DTYPE_F8_E8M0))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "'%s' is not stored as bytes",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  dense.dims[0] = expected.dims[0];
  dense.dims[2] = expected.dims[1];
  weft_packed_weight_set_exponents (weight, ROLE_SCALE);
  return weft_packed_weight_set_packed (weight, MXFP4_SCHEME, dense.dims, dense.rank, dtype, error);
}

static gboolean
weft_mxfp4_quantizer_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  return describe (weight, weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (base)),
                   error);
}

static WeftTensor *
dequantize (WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  static const gint64 block[] = { BLOCK_ELEMENTS };
  const gint64 *dense = weft_packed_weight_get_shape (weight)->dims;
  const gint64 packed[] = { dense[0], dense[2], dense[1] / 2 };
  g_autoptr (WeftTensor) bytes =
      weft_tensor_reshape (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES), packed, 3, error);
  g_autoptr (WeftTensor) elements =
      bytes != NULL ? weft_tensor_unpack_floats (bytes, WEFT_DTYPE_F4, dense[1], error) : NULL;
  g_autoptr (WeftTensor) scales =
      elements != NULL ? weft_tensor_bitcast (weft_packed_weight_get_tensor (weight, ROLE_SCALE),
                                              WEFT_DTYPE_F8_E8M0, error)
                       : NULL;
  g_autoptr (WeftTensor) rows =
      scales != NULL ? weft_tensor_dequantize (elements, scales, NULL, block, 1, dtype, error) : NULL;

  return rows != NULL ? weft_tensor_transpose (rows, 1, 2, error) : NULL;
}

static WeftTensor *
weft_mxfp4_quantizer_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                                 GError **error)
{
  return dequantize (weight, dtype, error);
}

/* Quantising */

/* A sixth of the largest magnitude, rounded up to a power of two; the smallest one where all is zero. */
static void
compute_scales (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    {
      gint exponent;
      gfloat fraction = frexpf (inputs[0][i] / E2M1_MAX, &exponent);

      output[i] =
          fraction > 0 ? fmaxf (ldexpf (1, fraction > 0.5f ? exponent : exponent - 1), 0x1p-127f) : 0x1p-127f;
    }
}

static gboolean
weft_mxfp4_quantizer_is_eligible (WeftQuantizerBase *base, WeftPackedWeight *weight)
{
  return weft_tensor_get_rank (weft_packed_weight_get_dense (weight)) == 3
         && strstr (weft_packed_weight_get_name (weight), "experts") != NULL;
}

/* Codes of rows [E, N, K], as blocks. */
static WeftTensor *
pack_blocks (WeftTensor *codes, GError **error)
{
  const gint64 *dims = weft_tensor_get_shape (codes)->dims;
  g_autoptr (WeftTensor) bytes = weft_tensor_pack (codes, 4, WEFT_BIT_ORDER_DENSE, -1, WEFT_DTYPE_U8, error);

  return bytes != NULL ? weft_tensor_reshape (
             bytes, (gint64[]){ dims[0], dims[1], dims[2] / BLOCK_ELEMENTS, BLOCK_BYTES }, 4, error)
                       : NULL;
}

static gboolean
weft_mxfp4_quantizer_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  static const gint64 block[] = { BLOCK_ELEMENTS };
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  g_autoptr (WeftTensor) rows = NULL;
  g_autoptr (WeftTensor) magnitudes = NULL;
  g_autoptr (WeftTensor) scales = NULL;
  g_autoptr (WeftTensor) powers = NULL;
  g_autoptr (WeftTensor) codes = NULL;
  g_autoptr (WeftTensor) blocks = NULL;
  g_autoptr (WeftTensor) exponents = NULL;

  if (weft_tensor_get_dim (dense, 1) % BLOCK_ELEMENTS != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s' has %" G_GINT64_FORMAT " inputs, which are not whole blocks of %d",
                   weft_packed_weight_get_name (weight), weft_tensor_get_dim (dense, 1), BLOCK_ELEMENTS);
      return FALSE;
    }
  rows = weft_tensor_transpose (dense, 1, 2, error);
  if (rows != NULL)
    magnitudes = weft_tensor_reduce_blocks (rows, WEFT_BLOCK_STATISTIC_MAGNITUDE, block, 1, error);
  if (magnitudes != NULL)
    scales = weft_tensor_compute (&magnitudes, 1, compute_scales, NULL, NULL, error);
  if (scales != NULL)
    powers = weft_tensor_cast (scales, WEFT_DTYPE_F8_E8M0, error);
  if (powers != NULL)
    codes = weft_tensor_quantize (rows, powers, NULL, block, 1, WEFT_QUANTIZE_FLAGS_NONE, WEFT_DTYPE_F4, 0,
                                  error);
  if (codes != NULL)
    blocks = pack_blocks (codes, error);
  if (blocks != NULL)
    exponents = weft_tensor_bitcast (powers, WEFT_DTYPE_U8, error);
  if (exponents == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, blocks);
  weft_packed_weight_set_part (weight, ROLE_SCALE, exponents);
  return TRUE;
}

static gchar *
weft_mxfp4_quantizer_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules, GError **error)
{
  g_autoptr (GString) json = g_string_new ("{\"quant_method\": \"mxfp4\", \"modules_to_not_convert\": ");

  weft_json_append_texts (json, skipped_modules);
  g_string_append_c (json, '}');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
weft_mxfp4_quantizer_class_init (WeftMxfp4QuantizerClass *klass)
{
  klass->parent_class.recognise = weft_mxfp4_quantizer_recognise;
  klass->parent_class.configure = weft_mxfp4_quantizer_configure;
  klass->parent_class.describe = weft_mxfp4_quantizer_describe;
  klass->parent_class.dequantize = weft_mxfp4_quantizer_dequantize;
  klass->parent_class.is_eligible = weft_mxfp4_quantizer_is_eligible;
  klass->parent_class.quantize = weft_mxfp4_quantizer_quantize;
  klass->parent_class.dup_config = weft_mxfp4_quantizer_dup_config;
}

/* Mxfp4Dequantize: the same inside a converter, for one projection. */

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftMxfp4Dequantize;

WEFT_DEFINE_OP (WeftMxfp4Dequantize, weft_mxfp4_dequantize)

/* A power of two of 255 is NaN, and no weight. */
static gboolean
check_scales (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
              guint n_inputs, gpointer scratch, GError **error)
{
  const guint8 *scales = inputs[0].elements;

  for (gint64 i = 0; i < inputs[0].n_elements; i++)
    if (scales[i] == 255)
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "a scale is 255, which stands for no number");
        return FALSE;
      }
  memcpy (output->elements, scales, (gsize) inputs[0].n_elements);
  return TRUE;
}

static const WeftKernel check_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "MXFP4 scales",
  .compute = check_scales,
};

/* The group whose name ends so, as one tensor. */
static WeftTensor *
find_input (WeftTensorGroups *inputs, const gchar *ending, GError **error)
{
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    if (g_str_has_suffix (weft_tensor_groups_get_name (inputs, i), ending))
      return weft_op_get_tensor (inputs, i, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "expected blocks and scales, found nothing that ends in '%s'", ending);
  return NULL;
}

static WeftDtype
get_dtype (WeftOpContext *context, const gchar *name)
{
  WeftDtype dtype = weft_op_context_get_parameter_dtype (context, name);

  return weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) > 8 ? dtype : WEFT_DTYPE_BF16;
}

static WeftTensorGroups *
weft_mxfp4_dequantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                               GError **error)
{
  const gchar *layer = weft_op_context_get_full_layer_name (context);
  const gchar *name = layer != NULL ? layer : weft_op_get_output_name (context, error);
  WeftTensor *blocks = name != NULL ? find_input (inputs, "_blocks", error) : NULL;
  WeftTensor *scales = blocks != NULL ? find_input (inputs, "_scales", error) : NULL;
  g_autoptr (WeftPackedWeight) weight = name != NULL ? weft_packed_weight_new (name) : NULL;
  g_autoptr (WeftTensor) checked = NULL;
  g_autoptr (WeftTensor) dense = NULL;

  if (scales == NULL)
    return NULL;
  checked = weft_tensor_new_from_kernel (&check_kernel, NULL, NULL, weft_tensor_get_dtype (scales),
                                         weft_tensor_get_shape (scales)->dims, weft_tensor_get_rank (scales),
                                         &scales, 1, error);
  if (checked == NULL)
    return NULL;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, blocks);
  weft_packed_weight_set_part (weight, ROLE_SCALE, checked);
  if (!describe (weight, WEFT_DTYPE_BF16, error))
    return NULL;
  dense = dequantize (weight, get_dtype (context, name), error);
  return dense != NULL ? weft_op_new_output (name, dense) : NULL;
}

static WeftConversionOpsBase *
weft_mxfp4_dequantize_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return (WeftConversionOpsBase *) weft_op_new ("Identity", NULL, "Mxfp4Dequantize", error);
}

static void
weft_mxfp4_dequantize_class_init (WeftMxfp4DequantizeClass *klass)
{
  klass->parent_class.convert = weft_mxfp4_dequantize_convert;
  klass->parent_class.dup_inverse = weft_mxfp4_dequantize_dup_inverse;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES | WEFT_OP_TRAITS_CONSUMES_COMPANIONS;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

WEFT_PLUGIN_DEFINE ("mxfp4", "MXFP4 experts of gpt-oss", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("mxfp4", WeftMxfp4Quantizer, weft_mxfp4_quantizer),
                    WEFT_PLUGIN_OP ("Mxfp4Dequantize", WeftMxfp4Dequantize, weft_mxfp4_dequantize));
