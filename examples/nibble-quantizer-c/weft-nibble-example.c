/* SPDX-License-Identifier: Apache-2.0 */
/* A format that Weft does not know: two codes a byte, the first in the low nibble, 8 for zero, and a scale for each row. */
#include <weft.h>

#define ROLE_SCALE "scale"

typedef struct
{
  WeftQuantizerBase parent_instance;
} WeftNibbleExample;

WEFT_DEFINE_QUANTIZER (WeftNibbleExample, weft_nibble_example)

static gboolean
weft_nibble_example_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".nibbles");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".row_scale");
  return TRUE;
}

static gboolean
weft_nibble_example_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *packed = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftDtype dtype = weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (base));
  WeftShape dense = *weft_tensor_get_shape (packed);

  if (weft_packed_weight_require_tensor (weight, ROLE_SCALE, error) == NULL)
    return FALSE;
  if (dense.rank != 2 || dense.dims[1] > G_MAXINT64 / 2)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s' has no rows of nibbles",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  dense.dims[1] *= 2;
  return weft_packed_weight_set_packed (weight, "nibbles, scale per row", dense.dims, 2, dtype, error)
         && weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, 2, error)
         && weft_packed_weight_set_block (weight, ROLE_SCALE, 1, 0, error);
}

static WeftTensor *
weft_nibble_example_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                                GError **error)
{
  static const gint64 row[] = { 1, 0 };
  gint64 n_columns = weft_packed_weight_get_shape (weight)->dims[1];
  g_autoptr (WeftTensor) codes = weft_tensor_unpack (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES),
                                                     4, WEFT_BIT_ORDER_DENSE, -1, n_columns, error);
  g_autoptr (WeftTensor) eight =
      codes != NULL ? weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, 8, error) : NULL;

  return eight != NULL ? weft_tensor_dequantize (codes, weft_packed_weight_get_tensor (weight, ROLE_SCALE),
                                                 eight, row, 2, dtype, error)
                       : NULL;
}

static void
weft_nibble_example_class_init (WeftNibbleExampleClass *klass)
{
  klass->parent_class.configure = weft_nibble_example_configure;
  klass->parent_class.describe = weft_nibble_example_describe;
  klass->parent_class.dequantize = weft_nibble_example_dequantize;
}

WEFT_PLUGIN_DEFINE ("nibble-example", "Nibbles with a scale for each row", NULL, "1.0", "Apache-2.0",
                    "an example", WEFT_PLUGIN_QUANTIZER ("nibble", WeftNibbleExample, weft_nibble_example));
