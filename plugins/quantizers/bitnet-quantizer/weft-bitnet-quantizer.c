/* SPDX-License-Identifier: Apache-2.0 */
/* Ternary weights of BitNet: four rows a byte. With n packed rows, row r of the weight is bits 2k and 2k + 1 of packed row
 * r - kn, k = r / n, and the value is the code minus one. The scale of a weight is applied when the model runs, and stays. */
#include "weft.h"

#define CODES_PER_BYTE 4

typedef struct
{
  WeftQuantizerBase parent_instance;
} WeftBitnetQuantizer;

WEFT_DEFINE_QUANTIZER (WeftBitnetQuantizer, weft_bitnet_quantizer)

static gboolean
weft_bitnet_quantizer_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight");
  return TRUE;
}

/* Bytes are packed; a model that was not packed yet has floating weights. */
static gboolean
weft_bitnet_quantizer_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftShape dense = *weft_tensor_get_shape (codes);
  WeftDtype dtype = weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (base));

  if (weft_tensor_get_dtype (codes) != WEFT_DTYPE_U8)
    return TRUE;
  if (dense.rank != 2 || __builtin_mul_overflow (dense.dims[0], CODES_PER_BYTE, &dense.dims[0]))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s' has no rows of packed ternary codes",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  return weft_packed_weight_set_packed (weight, "ternary, four rows a byte", dense.dims, dense.rank, dtype,
                                        error);
}

/* Codes of each column of bytes in order, so that the four planes of rows come to stand one below the other. */
static WeftTensor *
unpack (WeftTensor *packed, const WeftShape *dense, GError **error)
{
  const gint64 bytes[] = { dense->dims[0] / CODES_PER_BYTE, dense->dims[1], 1 };
  g_autoptr (WeftTensor) columns = weft_tensor_reshape (packed, bytes, 3, error);
  g_autoptr (WeftTensor) codes =
      columns != NULL ? weft_tensor_unpack (columns, 2, WEFT_BIT_ORDER_DENSE, -1, CODES_PER_BYTE, error)
                      : NULL;
  static const gint planes_first[] = { 2, 0, 1 };
  g_autoptr (WeftTensor) planes =
      codes != NULL ? weft_tensor_permute (codes, planes_first, G_N_ELEMENTS (planes_first), error) : NULL;

  return planes != NULL ? weft_tensor_reshape (planes, dense->dims, dense->rank, error) : NULL;
}

static WeftTensor *
weft_bitnet_quantizer_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                                  GError **error)
{
  g_autoptr (WeftTensor) codes = unpack (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES),
                                         weft_packed_weight_get_shape (weight), error);
  g_autoptr (WeftTensor) one =
      codes != NULL ? weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, 1, error) : NULL;

  return one != NULL ? weft_tensor_dequantize (codes, one, one, NULL, 0, dtype, error) : NULL;
}

static void
weft_bitnet_quantizer_class_init (WeftBitnetQuantizerClass *klass)
{
  klass->parent_class.configure = weft_bitnet_quantizer_configure;
  klass->parent_class.describe = weft_bitnet_quantizer_describe;
  klass->parent_class.dequantize = weft_bitnet_quantizer_dequantize;
}

WEFT_PLUGIN_DEFINE ("bitnet-quantizer", "Ternary weights of BitNet", NULL, PACKAGE_VERSION, "Apache-2.0",
                    PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("bitnet", WeftBitnetQuantizer, weft_bitnet_quantizer));
