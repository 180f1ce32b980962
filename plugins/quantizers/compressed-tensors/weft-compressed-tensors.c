/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of compressed-tensors (llm-compressor): a config of groups, each a format and a set of modules; codes in words
 * or bytes, and sparse matrices behind bitmasks. The formats are those of the compressed-tensors library. */
#include "weft-compressed-tensors-quantize.h"

#include <math.h>
#include <string.h>

#define ROLE_SCALE "scale"
#define ROLE_ZERO_POINT "zero_point"
#define ROLE_GLOBAL_SCALE "global_scale"
#define ROLE_SHAPE "shape"
#define ROLE_GROUP_INDEX "g_idx"
#define ROLE_BITMASK "bitmask"
#define ROLE_ROW_OFFSETS "row_offsets"
#define ROLE_SPARSE_SHAPE "sparse_shape"

typedef struct
{
  WeftQuantizerBase parent_instance;
  GPtrArray *groups;
} WeftCompressedTensors;

WEFT_DEFINE_QUANTIZER (WeftCompressedTensors, weft_compressed_tensors)

static gboolean
is_format_packed (const WeftCtGroup *group)
{
  return g_str_has_suffix (group->format, "pack-quantized");
}

static gboolean
weft_compressed_tensors_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const dropped[] = { "input_scale", "input_global_scale", "input_zero_point",
                                          "output_scale", "output_zero_point" };
  WeftCompressedTensors *self = (WeftCompressedTensors *) base;

  self->groups = weft_ct_groups_read (config, error);
  if (self->groups == NULL)
    return FALSE;
  /* What is written is the first spelling. */
  if (weft_quantization_config_get_scheme (config) != NULL && is_format_packed (self->groups->pdata[0]))
    weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight_packed");
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight");
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight_packed");
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".compressed");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".weight_scale");
  weft_quantizer_base_add_part (base, ROLE_ZERO_POINT, ".weight", ".weight_zero_point");
  weft_quantizer_base_add_part (base, ROLE_GLOBAL_SCALE, ".weight", ".weight_global_scale");
  weft_quantizer_base_add_part (base, ROLE_SHAPE, ".weight", ".weight_shape");
  weft_quantizer_base_add_part (base, ROLE_GROUP_INDEX, ".weight", ".weight_g_idx");
  weft_quantizer_base_add_part (base, ROLE_BITMASK, ".weight", ".bitmask");
  weft_quantizer_base_add_part (base, ROLE_ROW_OFFSETS, ".weight", ".row_offsets");
  weft_quantizer_base_add_part (base, ROLE_SPARSE_SHAPE, ".weight", ".shape");
  for (guint i = 0; i < G_N_ELEMENTS (dropped); i++)
    {
      g_autofree gchar *ending = g_strconcat (".", dropped[i], NULL);

      weft_quantizer_base_add_part (base, dropped[i], ".weight", ending);
    }
  weft_quantizer_base_add_runtime_tensor (base, ".k_scale");
  weft_quantizer_base_add_runtime_tensor (base, ".v_scale");
  return TRUE;
}

static void
weft_compressed_tensors_finalize (GObject *object)
{
  g_clear_pointer (&((WeftCompressedTensors *) object)->groups, g_ptr_array_unref);
  G_OBJECT_CLASS (weft_compressed_tensors_parent_class)->finalize (object);
}

/* Describing */

static gboolean
is_fp8 (WeftDtype dtype)
{
  return dtype == WEFT_DTYPE_F8_E4M3 || dtype == WEFT_DTYPE_F8_E5M2;
}

static gboolean
refuse (WeftPackedWeight *weight, WeftError code, const gchar *what, GError **error)
{
  g_set_error (error, WEFT_ERROR, code, "'%s': %s", weft_packed_weight_get_name (weight), what);
  return FALSE;
}

/* Rows and columns that a tensor of two numbers gives. */
static gboolean
read_shape (WeftPackedWeight *weight, const gchar *role, gint64 dims[2], GError **error)
{
  WeftTensor *tensor = weft_packed_weight_require_tensor (weight, role, error);
  g_autoptr (WeftTensor) wide = NULL;
  g_autoptr (GBytes) bytes = NULL;

  if (tensor == NULL)
    return FALSE;
  if (weft_tensor_get_n_elements (tensor) != 2 || weft_dtype_is_floating (weft_tensor_get_dtype (tensor)))
    return refuse (weight, WEFT_ERROR_SHAPE, "its shape is not a tensor of two whole numbers", error);
  wide = weft_tensor_cast (tensor, WEFT_DTYPE_I64, error);
  bytes = wide != NULL ? weft_tensor_read (wide, NULL, error) : NULL;
  if (bytes == NULL)
    return FALSE;
  memcpy (dims, g_bytes_get_data (bytes, NULL), 2 * sizeof *dims);
  return (dims[0] >= 0 && dims[1] >= 0)
         || refuse (weight, WEFT_ERROR_SHAPE, "its shape has numbers below 0", error);
}

/* The dtype that scales round values to; that of the config for scales that are codes themselves. */
static WeftDtype
get_value_dtype (WeftCompressedTensors *self, WeftTensor *scale)
{
  WeftDtype dtype = weft_tensor_get_dtype (scale);

  if (dtype == WEFT_DTYPE_F32 || dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16)
    return dtype;
  return weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (&self->parent_instance));
}

/* What is known of a packed weight before its values are asked for. */
typedef struct
{
  const WeftCtGroup *group;
  WeftTensor *codes;
  WeftTensor *scale;
  gint64 dims[2];
  /* Columns that a word of the codes has whole; 0: codes straddle words. */
  gint64 word_columns;
} Description;

/* Codes in words: their number of columns, which only integers have to be told, as the last word need not be full. */
static gboolean
describe_words (WeftPackedWeight *weight, Description *description, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (description->codes);
  const guint bits = description->group->bits;
  const guint word_bits = weft_dtype_get_bits (weft_tensor_get_dtype (description->codes));

  if (shape->rank != 2)
    return refuse (weight, WEFT_ERROR_SHAPE, "its packed codes have not two axes", error);
  description->word_columns = word_bits % bits == 0 ? word_bits / bits : 0;
  if (weft_packed_weight_get_tensor (weight, ROLE_SHAPE) != NULL)
    return read_shape (weight, ROLE_SHAPE, description->dims, error)
           && (description->dims[0] == shape->dims[0]
               || refuse (weight, WEFT_ERROR_SHAPE, "its shape has other rows than its packed codes", error));
  if (description->group->is_integer)
    return weft_packed_weight_require_tensor (weight, ROLE_SHAPE, error) != NULL;
  description->dims[0] = shape->dims[0];
  return !__builtin_mul_overflow (shape->dims[1], word_bits, &description->dims[1])
             ? (description->dims[1] /= bits, TRUE)
             : refuse (weight, WEFT_ERROR_LIMIT, "its packed codes are too many", error);
}

/* Whether what is stored can be divided by. What is being packed is not asked: it is not computed yet. */
static gboolean
check_global_value (WeftCompressedTensors *self, WeftPackedWeight *weight, WeftTensor *scale, GError **error)
{
  WeftQuantizationConfig *config = weft_quantizer_base_get_config (&self->parent_instance);
  g_autoptr (WeftTensor) wide = NULL;
  g_autoptr (GBytes) bytes = NULL;
  gfloat value;

  if (weft_quantization_config_get_scheme (config) != NULL)
    return TRUE;
  wide = weft_tensor_cast (scale, WEFT_DTYPE_F32, error);
  bytes = wide != NULL ? weft_tensor_read (wide, NULL, error) : NULL;
  if (bytes == NULL)
    return FALSE;
  memcpy (&value, g_bytes_get_data (bytes, NULL), sizeof value);
  if (value > 0 && isfinite (value))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "'%s': expected its %s, which scales are divided by, to be above 0, found %g",
               weft_packed_weight_get_name (weight), ROLE_GLOBAL_SCALE, (gdouble) value);
  return FALSE;
}

static gboolean
check_global_scale (WeftCompressedTensors *self, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *scale = weft_packed_weight_require_tensor (weight, ROLE_GLOBAL_SCALE, error);
  WeftDtype dtype = scale != NULL ? weft_tensor_get_dtype (scale) : WEFT_DTYPE_INVALID;

  if (scale == NULL)
    return FALSE;
  if (weft_dtype_is_floating (dtype) && weft_dtype_get_bits (dtype) >= 16
      && weft_tensor_get_n_elements (scale) == 1)
    return check_global_value (self, weight, scale, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "'%s': expected its %s to be one number in F32, found %" G_GINT64_FORMAT " elements of %s",
               weft_packed_weight_get_name (weight), ROLE_GLOBAL_SCALE, weft_tensor_get_n_elements (scale),
               weft_dtype_get_name (dtype));
  return FALSE;
}

/* Numbers; exponents for the MX formats, and E4M3 under a global scale for NVFP4. */
static gboolean
check_scale_dtype (WeftCompressedTensors *self, WeftPackedWeight *weight, const Description *description,
                   GError **error)
{
  WeftDtype dtype = weft_tensor_get_dtype (description->scale);
  gboolean is_mx = g_str_has_prefix (description->group->format, "mxfp");
  gboolean is_nvfp4 = g_str_has_prefix (description->group->format, "nvfp4")
                      || weft_packed_weight_get_tensor (weight, ROLE_GLOBAL_SCALE) != NULL;

  if (is_nvfp4 && !check_global_scale (self, weight, error))
    return FALSE;

  if (is_mx && (dtype == WEFT_DTYPE_U8 || dtype == WEFT_DTYPE_F8_E8M0))
    {
      weft_packed_weight_set_exponents (weight, ROLE_SCALE);
      return TRUE;
    }
  if (weft_dtype_is_floating (dtype)
      && (weft_dtype_get_bits (dtype) >= 16 || (is_nvfp4 && dtype == WEFT_DTYPE_F8_E4M3)))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
               "'%s': expected its scale in %s for the format %s, found %s",
               weft_packed_weight_get_name (weight),
               is_mx      ? "exponents of U8 or F8_E8M0, or in F32, BF16 or F16"
               : is_nvfp4 ? "F8_E4M3, F32, BF16 or F16"
                          : "F32, BF16 or F16",
               description->group->format, weft_dtype_get_name (dtype));
  return FALSE;
}

/* Tells the blocks of parts that ops may act on. */
static gboolean
set_blocks (WeftPackedWeight *weight, const Description *description, GError **error)
{
  const WeftCtGroup *group = description->group;
  gboolean has_index = weft_packed_weight_get_tensor (weight, ROLE_GROUP_INDEX) != NULL;
  WeftTensor *zero_point = weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT);

  if (description->word_columns > 0
      && !weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, description->word_columns, error))
    return FALSE;
  if (has_index)
    return TRUE;
  if (!weft_packed_weight_set_block (weight, ROLE_SCALE, group->block[0], group->block[1], error))
    return FALSE;
  if (zero_point != NULL
      && weft_shape_equal (weft_tensor_get_shape (zero_point), weft_tensor_get_shape (description->scale)))
    return weft_packed_weight_set_block (weight, ROLE_ZERO_POINT, group->block[0], group->block[1], error);
  return TRUE;
}

static gboolean
describe_codes (WeftCompressedTensors *self, WeftPackedWeight *weight, gboolean is_packed, GError **error)
{
  g_autofree gchar *module = weft_packed_weight_dup_module_path (weight);
  Description description = { .group = weft_ct_groups_find (self->groups, module),
                              .codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES),
                              .scale = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error),
                              .word_columns = 1 };
  const WeftShape *shape = weft_tensor_get_shape (description.codes);

  if (description.scale == NULL)
    return FALSE;
  if (description.group == NULL)
    return refuse (weight, WEFT_ERROR_FORMAT, "it is packed, and no group of the config has its module",
                   error);
  if (!check_scale_dtype (self, weight, &description, error))
    return FALSE;
  if (!description.group->is_symmetric && weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT) == NULL)
    return refuse (weight, WEFT_ERROR_FORMAT,
                   "it has no zero points, and its config group says that it is not symmetric", error);
  if (is_packed && !describe_words (weight, &description, error))
    return FALSE;
  if (!is_packed)
    {
      if (shape->rank != 2)
        return refuse (weight, WEFT_ERROR_SHAPE, "its codes have not two axes", error);
      memcpy (description.dims, shape->dims, sizeof description.dims);
    }
  return weft_packed_weight_set_packed (weight, description.group->format, description.dims, 2,
                                        get_value_dtype (self, description.scale), error)
         && set_blocks (weight, &description, error);
}

static gboolean
describe_sparse (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *kept = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftDtype dtype = weft_tensor_get_dtype (kept);
  WeftTensor *mask = weft_packed_weight_require_tensor (weight, ROLE_BITMASK, error);
  gint64 dims[2];

  if (mask == NULL || !read_shape (weight, ROLE_SPARSE_SHAPE, dims, error))
    return FALSE;
  if (is_fp8 (dtype) && weft_packed_weight_require_tensor (weight, ROLE_SCALE, error) == NULL)
    return FALSE;
  return weft_packed_weight_set_packed (weight, "sparse", dims, 2, is_fp8 (dtype) ? WEFT_DTYPE_BF16 : dtype,
                                        error);
}

/* Codes of words, of elements that are kept, and of elements each have names of their own. */
static gboolean
describe_packed (WeftCompressedTensors *self, WeftPackedWeight *weight, gboolean is_packed, GError **error)
{
  const gchar *key = weft_packed_weight_get_key (weight, WEFT_ROLE_CODES);
  gboolean ok = g_str_has_suffix (key, ".compressed") ? describe_sparse (weight, error)
                                                      : describe_codes (self, weight, is_packed, error);

  if (ok)
    weft_packed_weight_keep_spelling (weight, WEFT_ROLE_CODES);
  return ok;
}

static gboolean
weft_compressed_tensors_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  const gchar *key = weft_packed_weight_get_key (weight, WEFT_ROLE_CODES);
  WeftDtype dtype = weft_tensor_get_dtype (codes);
  gboolean has_scale = weft_packed_weight_get_tensor (weight, ROLE_SCALE) != NULL;
  gboolean is_packed = g_str_has_suffix (key, ".weight_packed");

  if (g_str_has_suffix (key, ".compressed") || is_packed || is_fp8 (dtype)
      || (has_scale && dtype == WEFT_DTYPE_I8))
    return describe_packed ((WeftCompressedTensors *) base, weight, is_packed, error);
  return !has_scale
         || refuse (weight, WEFT_ERROR_DTYPE,
                    "it has a scale, but its elements are no codes: expected I8 or F8", error);
}

/* Dequantising */

/* Words of @n_codes codes are dense, or padded as in older files: the number of words tells. */
static WeftTensor *
unpack (WeftTensor *words, guint bits, gint axis, gint64 n_codes, GError **error)
{
  gint64 per_word = weft_dtype_get_bits (weft_tensor_get_dtype (words)) / bits;
  gint64 n_words = weft_tensor_get_dim (words, axis);
  WeftTensor *codes = weft_tensor_unpack (words, bits, WEFT_BIT_ORDER_DENSE, axis, n_codes, NULL);

  if (codes != NULL || n_words != n_codes / per_word + (n_codes % per_word != 0))
    return codes != NULL ? codes
                         : weft_tensor_unpack (words, bits, WEFT_BIT_ORDER_DENSE, axis, n_codes, error);
  return weft_tensor_unpack (words, bits, WEFT_BIT_ORDER_PADDED, axis, n_codes, error);
}

/* The values of the codes before they are scaled, for integers above their smallest. */
static WeftTensor *
decode (WeftPackedWeight *weight, const WeftCtGroup *group, WeftTensor *codes, gboolean is_packed,
        GError **error)
{
  const WeftShape *shape = weft_packed_weight_get_shape (weight);
  g_autoptr (WeftTensor) unpacked = NULL;
  g_autoptr (WeftTensor) table = NULL;

  if (!is_packed)
    return weft_tensor_ref (codes);
  unpacked = unpack (codes, group->bits, -1, shape->dims[1], error);
  if (unpacked == NULL || group->is_integer)
    return g_steal_pointer (&unpacked);
  table = weft_tensor_new_code_table (group->bits == 4 ? WEFT_DTYPE_F4 : WEFT_DTYPE_F6_E2M3, error);
  return table != NULL ? weft_tensor_lookup (unpacked, table, error) : NULL;
}

static WeftTensor *
dup_scale (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *scale = weft_packed_weight_get_tensor (weight, ROLE_SCALE);
  WeftTensor *global = weft_packed_weight_get_tensor (weight, ROLE_GLOBAL_SCALE);

  if (global != NULL)
    return weft_tensor_divide (scale, global, NULL, 0, WEFT_DTYPE_F32, error);
  if (weft_tensor_get_dtype (scale) == WEFT_DTYPE_U8)
    return weft_tensor_bitcast (scale, WEFT_DTYPE_F8_E8M0, error);
  return weft_tensor_ref (scale);
}

/* Zero points as the codes are: packed down the rows, or plain; where there is none, the code of 0. %NULL without an error:
 * nothing is to be subtracted. */
static WeftTensor *
dup_zero_point (WeftPackedWeight *weight, const WeftCtGroup *group, gboolean is_packed, GError **error)
{
  WeftTensor *zero_point = weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT);
  const gint64 n_rows = weft_packed_weight_get_shape (weight)->dims[0];
  const gint offset = 1 << (group->bits - 1);
  g_autoptr (WeftTensor) wide = NULL;

  if (zero_point == NULL && is_packed && group->is_integer)
    return weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, offset, error);
  if (zero_point == NULL)
    return NULL;
  if (is_packed && weft_tensor_get_dtype (zero_point) == WEFT_DTYPE_I32)
    return unpack (zero_point, group->bits, 0, n_rows, error);
  wide = weft_tensor_cast (zero_point, WEFT_DTYPE_F32, error);
  if (wide == NULL || !is_packed)
    return g_steal_pointer (&wide);
  return weft_tensor_shift (wide, offset, error);
}

static WeftTensor *
scale_codes (WeftPackedWeight *weight, const WeftCtGroup *group, WeftTensor *codes, gboolean is_packed,
             WeftDtype dtype, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftTensor) elements = decode (weight, group, codes, is_packed, error);
  g_autoptr (WeftTensor) scale = elements != NULL ? dup_scale (weight, error) : NULL;
  g_autoptr (WeftTensor) zero_point =
      scale != NULL ? dup_zero_point (weight, group, is_packed, &local_error) : NULL;
  WeftTensor *group_index = weft_packed_weight_get_tensor (weight, ROLE_GROUP_INDEX);

  if (local_error != NULL)
    g_propagate_error (error, g_steal_pointer (&local_error));
  else if (scale != NULL && group_index != NULL)
    return weft_tensor_dequantize_grouped (elements, scale, zero_point, group_index, -1, dtype, error);
  else if (scale != NULL)
    return weft_tensor_dequantize (elements, scale, zero_point, group->block, 2, dtype, error);
  return NULL;
}

static WeftTensor *
expand (WeftPackedWeight *weight, GError **error)
{
  return weft_tensor_expand_bitmask (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES),
                                     weft_packed_weight_get_tensor (weight, ROLE_BITMASK),
                                     weft_packed_weight_get_tensor (weight, ROLE_ROW_OFFSETS),
                                     weft_packed_weight_get_shape (weight)->dims[1], error);
}

/* Values are rounded to the dtype of the scales first. */
static WeftTensor *
weft_compressed_tensors_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                                    GError **error)
{
  WeftCompressedTensors *self = (WeftCompressedTensors *) base;
  const gchar *key = weft_packed_weight_get_key (weight, WEFT_ROLE_CODES);
  gboolean is_sparse = g_str_has_suffix (key, ".compressed");
  g_autofree gchar *module = weft_packed_weight_dup_module_path (weight);
  WeftTensor *scale = weft_packed_weight_get_tensor (weight, ROLE_SCALE);
  g_autoptr (WeftTensor) codes =
      is_sparse ? expand (weight, error)
                : weft_tensor_ref (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES));
  const WeftCtGroup *group = weft_ct_groups_find (self->groups, module);
  g_autoptr (WeftTensor) values = NULL;

  if (codes == NULL || scale == NULL)
    values = g_steal_pointer (&codes);
  else if (group == NULL)
    refuse (weight, WEFT_ERROR_FORMAT, "it has a scale, and no group of the config has its module", error);
  else
    values = scale_codes (
        weight, group, codes, g_str_has_suffix (key, ".weight_packed"),
        weft_dtype_get_bits (weft_tensor_get_dtype (scale)) > 8 ? get_value_dtype (self, scale) : dtype,
        error);
  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

/* Quantising */

static gboolean
weft_compressed_tensors_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  return weft_ct_quantize (((WeftCompressedTensors *) base)->groups->pdata[0], weight, error);
}

/* The parameters that were asked for, as the one group of a config. */
static gchar *
weft_compressed_tensors_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules,
                                    GError **error)
{
  const WeftCtGroup *group = ((WeftCompressedTensors *) base)->groups->pdata[0];
  JsonNode *weights = weft_quantization_config_lookup (weft_quantizer_base_get_config (base), "weights");
  g_autofree gchar *weights_text = weft_json_to_text (weights, FALSE);
  g_autoptr (GString) json = g_string_new ("{\"quant_method\": \"compressed-tensors\", \"format\": ");

  weft_json_append_text (json, group->format, FALSE);
  g_string_append (
      json,
      ", \"quantization_status\": \"compressed\", \"config_groups\": {\"group_0\": {\"targets\": [\"Linear\"], "
      "\"format\": ");
  weft_json_append_text (json, group->format, FALSE);
  g_string_append_printf (
      json, ", \"weights\": %s, \"input_activations\": null, \"output_activations\": null}}, \"ignore\": ",
      weights_text);
  weft_json_append_texts (json, skipped_modules);
  g_string_append_c (json, '}');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
weft_compressed_tensors_class_init (WeftCompressedTensorsClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_compressed_tensors_finalize;
  klass->parent_class.configure = weft_compressed_tensors_configure;
  klass->parent_class.describe = weft_compressed_tensors_describe;
  klass->parent_class.dequantize = weft_compressed_tensors_dequantize;
  klass->parent_class.quantize = weft_compressed_tensors_quantize;
  klass->parent_class.dup_config = weft_compressed_tensors_dup_config;
}

WEFT_PLUGIN_DEFINE ("compressed-tensors", "The formats of compressed-tensors", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("compressed-tensors", WeftCompressedTensors,
                                           weft_compressed_tensors));
