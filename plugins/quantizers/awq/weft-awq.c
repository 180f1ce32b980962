/* SPDX-License-Identifier: Apache-2.0 */
/* AWQ in its GEMM layout: nibbles of an [in, out] matrix, eight columns a word in an order of its own, zero points the same.
 * Layout of AutoAWQ. */
#include "weft.h"

#define ROLE_ZERO_POINT "zero_point"
#define ROLE_SCALE "scale"
#define BITS 4
#define CODES_PER_WORD 8

typedef struct
{
  WeftQuantizerBase parent_instance;
  /* Rows of a group; 0: all. */
  gint64 group_size;
} WeftAwq;

WEFT_DEFINE_QUANTIZER (WeftAwq, weft_awq)

static gboolean
weft_awq_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  WeftAwq *self = (WeftAwq *) base;
  const gchar *version = weft_quantization_config_lookup_string (config, "version");
  gint64 bits = BITS;

  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".qweight");
  weft_quantizer_base_add_part (base, ROLE_ZERO_POINT, ".weight", ".qzeros");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".scales");
  weft_quantization_config_lookup_int (config, "bits", &bits);
  weft_quantization_config_lookup_int (config, "group_size", &self->group_size);
  self->group_size = MAX (0, self->group_size);
  if (bits == BITS && (version == NULL || g_ascii_strcasecmp (version, "gemm") == 0))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "expected 4 bits in version 'gemm', found %" G_GINT64_FORMAT " bits in version '%s'", bits,
               version != NULL ? version : "gemm");
  return FALSE;
}

static gboolean
weft_awq_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *words = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftTensor *scales = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error);

  if (scales == NULL || weft_packed_weight_require_tensor (weight, ROLE_ZERO_POINT, error) == NULL)
    return FALSE;
  if (weft_tensor_get_rank (words) != 2 || weft_tensor_get_rank (scales) != 2
      || weft_tensor_get_dim (scales, 1) / CODES_PER_WORD != weft_tensor_get_dim (words, 1)
      || weft_tensor_get_dim (scales, 1) % CODES_PER_WORD != 0)
    {
      g_autofree gchar *words_text = weft_shape_to_string (weft_tensor_get_shape (words));
      g_autofree gchar *scales_text = weft_shape_to_string (weft_tensor_get_shape (scales));

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s': expected qweight and scales of two axes, eight columns a word, found %s and %s",
                   weft_packed_weight_get_name (weight), words_text, scales_text);
      return FALSE;
    }
  return weft_packed_weight_set_packed (
      weight, "awq int4", (gint64[]){ weft_tensor_get_dim (scales, 1), weft_tensor_get_dim (words, 0) }, 2,
      weft_tensor_get_dtype (scales), error);
}

static WeftTensor *
unpack (WeftPackedWeight *weight, const gchar *role, GError **error)
{
  return weft_tensor_unpack (weft_packed_weight_get_tensor (weight, role), BITS, WEFT_BIT_ORDER_AWQ, -1,
                             weft_packed_weight_get_shape (weight)->dims[0], error);
}

/* Values are rounded to the dtype of the scales first. */
static WeftTensor *
weft_awq_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  WeftTensor *scales = weft_packed_weight_get_tensor (weight, ROLE_SCALE);
  g_autoptr (WeftTensor) codes = unpack (weight, WEFT_ROLE_CODES, error);
  g_autoptr (WeftTensor) zero_points = codes != NULL ? unpack (weight, ROLE_ZERO_POINT, error) : NULL;
  g_autoptr (WeftTensor) values = NULL;
  g_autoptr (WeftTensor) turned = NULL;

  if (zero_points != NULL)
    values =
        weft_tensor_dequantize (codes, scales, zero_points, (gint64[]){ ((WeftAwq *) base)->group_size, 1 },
                                2, weft_tensor_get_dtype (scales), error);
  turned = values != NULL ? weft_tensor_transpose (values, 0, 1, error) : NULL;
  return turned != NULL ? weft_tensor_cast (turned, dtype, error) : NULL;
}

static void
weft_awq_class_init (WeftAwqClass *klass)
{
  klass->parent_class.configure = weft_awq_configure;
  klass->parent_class.describe = weft_awq_describe;
  klass->parent_class.dequantize = weft_awq_dequantize;
}

WEFT_PLUGIN_DEFINE ("awq", "Weights of AWQ", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("awq", WeftAwq, weft_awq));
