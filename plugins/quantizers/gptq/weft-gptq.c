/* SPDX-License-Identifier: Apache-2.0 */
/* GPTQ: codes of an [in, out] matrix packed down the rows, zero points along the columns, and groups of rows in any order
 * (act-order). Zero points of the first version of the format are one too small. Layout of AutoGPTQ and GPTQModel. */
#include "weft.h"

#define ROLE_ZERO_POINT "zero_point"
#define ROLE_SCALE "scale"
#define ROLE_GROUP_INDEX "g_idx"

typedef struct
{
  WeftQuantizerBase parent_instance;
  guint bits;
  /* Rows of a group; not above 0: all. */
  gint64 group_size;
  /* Added to a stored zero point. */
  gint zero_point_offset;
} WeftGptq;

WEFT_DEFINE_QUANTIZER (WeftGptq, weft_gptq)

static gboolean
weft_gptq_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  WeftGptq *self = (WeftGptq *) base;
  const gchar *format = weft_quantization_config_lookup_string (config, "checkpoint_format");
  gint64 bits = 0;

  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".qweight");
  weft_quantizer_base_add_part (base, ROLE_ZERO_POINT, ".weight", ".qzeros");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".scales");
  weft_quantizer_base_add_part (base, ROLE_GROUP_INDEX, ".weight", ".g_idx");
  if (!weft_quantization_config_lookup_int (config, "bits", &bits)
      || (bits != 2 && bits != 3 && bits != 4 && bits != 8))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "expected 'bits' of 2, 3, 4 or 8, found %" G_GINT64_FORMAT, bits);
      return FALSE;
    }
  if (format != NULL && !g_str_equal (format, "gptq") && !g_str_equal (format, "gptq_v2"))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "expected a checkpoint_format of 'gptq' or 'gptq_v2', found '%s'", format);
      return FALSE;
    }
  self->bits = (guint) bits;
  weft_quantization_config_lookup_int (config, "group_size", &self->group_size);
  self->zero_point_offset = format != NULL && g_str_equal (format, "gptq_v2") ? 0 : 1;
  return TRUE;
}

/* Rows of the packed matrix, which are columns of the weight. Where a last word is not full, the index tells them. */
static gboolean
count_inputs (WeftGptq *self, WeftPackedWeight *weight, gint64 *n_inputs, GError **error)
{
  WeftTensor *words = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftTensor *group_index = weft_packed_weight_get_tensor (weight, ROLE_GROUP_INDEX);

  if (group_index != NULL)
    {
      *n_inputs = weft_tensor_get_n_elements (group_index);
      return TRUE;
    }
  if (!__builtin_mul_overflow (weft_tensor_get_dim (words, 0), 32, n_inputs))
    {
      *n_inputs /= self->bits;
      return TRUE;
    }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "'%s' has too many rows",
               weft_packed_weight_get_name (weight));
  return FALSE;
}

static gboolean
weft_gptq_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftGptq *self = (WeftGptq *) base;
  WeftTensor *words = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftTensor *scales = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error);
  g_autofree gchar *scheme = g_strdup_printf ("gptq int%u", self->bits);
  gint64 n_inputs;

  if (scales == NULL || weft_packed_weight_require_tensor (weight, ROLE_ZERO_POINT, error) == NULL)
    return FALSE;
  if (weft_tensor_get_rank (words) != 2 || weft_tensor_get_rank (scales) != 2
      || weft_tensor_get_dim (words, 1) != weft_tensor_get_dim (scales, 1))
    {
      g_autofree gchar *words_text = weft_shape_to_string (weft_tensor_get_shape (words));
      g_autofree gchar *scales_text = weft_shape_to_string (weft_tensor_get_shape (scales));

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s': expected qweight and scales of two axes and as many columns, found %s and %s",
                   weft_packed_weight_get_name (weight), words_text, scales_text);
      return FALSE;
    }
  return count_inputs (self, weight, &n_inputs, error)
         && weft_packed_weight_set_packed (weight, scheme,
                                           (gint64[]){ weft_tensor_get_dim (words, 1), n_inputs }, 2,
                                           weft_tensor_get_dtype (scales), error);
}

/* Zero points of shape [groups, out] in F32. */
static WeftTensor *
dup_zero_points (WeftGptq *self, WeftPackedWeight *weight, gint64 n_outputs, GError **error)
{
  WeftTensor *words = weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT);
  g_autoptr (WeftTensor) codes =
      weft_tensor_unpack (words, self->bits, WEFT_BIT_ORDER_DENSE, -1, n_outputs, error);
  g_autoptr (WeftTensor) wide = codes != NULL ? weft_tensor_cast (codes, WEFT_DTYPE_F32, error) : NULL;

  return wide != NULL ? weft_tensor_shift (wide, self->zero_point_offset, error) : NULL;
}

/* The rows of a group follow each other where there is no index. */
static WeftTensor *
scale_codes (WeftGptq *self, WeftPackedWeight *weight, WeftTensor *codes, WeftTensor *zero_points,
             GError **error)
{
  WeftTensor *scales = weft_packed_weight_get_tensor (weight, ROLE_SCALE);
  WeftTensor *group_index = weft_packed_weight_get_tensor (weight, ROLE_GROUP_INDEX);
  const gint64 block[2] = { MAX (0, self->group_size), 1 };

  if (group_index != NULL)
    return weft_tensor_dequantize_grouped (codes, scales, zero_points, group_index, 0,
                                           weft_tensor_get_dtype (scales), error);
  return weft_tensor_dequantize (codes, scales, zero_points, block, 2, weft_tensor_get_dtype (scales), error);
}

/* Values are rounded to the dtype of the scales first. */
static WeftTensor *
weft_gptq_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  WeftGptq *self = (WeftGptq *) base;
  const WeftShape *shape = weft_packed_weight_get_shape (weight);
  g_autoptr (WeftTensor) codes =
      weft_tensor_unpack (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES), self->bits,
                          WEFT_BIT_ORDER_DENSE, 0, shape->dims[1], error);
  g_autoptr (WeftTensor) zero_points =
      codes != NULL ? dup_zero_points (self, weight, shape->dims[0], error) : NULL;
  g_autoptr (WeftTensor) values =
      zero_points != NULL ? scale_codes (self, weight, codes, zero_points, error) : NULL;
  g_autoptr (WeftTensor) turned = values != NULL ? weft_tensor_transpose (values, 0, 1, error) : NULL;

  return turned != NULL ? weft_tensor_cast (turned, dtype, error) : NULL;
}

static void
weft_gptq_class_init (WeftGptqClass *klass)
{
  klass->parent_class.configure = weft_gptq_configure;
  klass->parent_class.describe = weft_gptq_describe;
  klass->parent_class.dequantize = weft_gptq_dequantize;
}

WEFT_PLUGIN_DEFINE ("gptq", "Weights of GPTQ", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("gptq", WeftGptq, weft_gptq));
