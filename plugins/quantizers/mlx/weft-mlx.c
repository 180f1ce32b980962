/* SPDX-License-Identifier: Apache-2.0 */
/* Affine groups as MLX writes them: codes in words of 32 bits, lowest bits first, a scale and a bias for each group of
 * columns. The value is code * scale + bias. */
#include <math.h>

#include "weft.h"

#define ROLE_SCALE "scale"
#define ROLE_BIAS "bias"

typedef struct
{
  WeftQuantizerBase parent_instance;
  gint64 bits;
  gint64 group_size;
} WeftMlx;

WEFT_DEFINE_QUANTIZER (WeftMlx, weft_mlx)

/* These configs name no method; some say `metal`. */
static gboolean
weft_mlx_recognise (WeftQuantizerBase *base, WeftQuantizationConfig *config, WeftStateDict *tensors)
{
  const gchar *method = weft_quantization_config_get_method (config);
  gint64 number;

  if (weft_quantization_config_get_scheme (config) != NULL)
    return g_str_equal (weft_quantization_config_get_scheme (config), "affine")
           || WEFT_QUANTIZER_BASE_CLASS (weft_mlx_parent_class)->recognise (base, config, tensors);
  if (method != NULL)
    return g_str_equal (method, "metal") || g_str_equal (method, "mlx");
  return weft_quantization_config_lookup_int (config, "bits", &number)
         && weft_quantization_config_lookup_int (config, "group_size", &number);
}

static gboolean
weft_mlx_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const schemes[] = { "affine", "mlx", "mlx-affine", NULL };
  WeftMlx *self = (WeftMlx *) base;
  const gchar *mode = weft_quantization_config_lookup_string (config, "mode");

  if (!weft_quantization_config_check_scheme (config, schemes, error))
    return FALSE;
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight");
  weft_quantizer_base_add_part (base, ROLE_SCALE, ".weight", ".scales");
  weft_quantizer_base_add_part (base, ROLE_BIAS, ".weight", ".biases");
  weft_quantizer_base_add_part (base, ROLE_BIAS, ".weight", ".qbiases");
  self->bits = 4;
  self->group_size = 64;
  weft_quantization_config_lookup_int (config, "bits", &self->bits);
  weft_quantization_config_lookup_int (config, "group_size", &self->group_size);
  if (self->bits >= 2 && self->bits <= 8 && self->group_size > 0
      && (mode == NULL || g_str_equal (mode, "affine")))
    return TRUE;
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
      "expected mode 'affine' with 2 to 8 bits and groups of 1 and more, found mode '%s' with %" G_GINT64_FORMAT
      " bits and groups of %" G_GINT64_FORMAT,
      mode != NULL ? mode : "affine", self->bits, self->group_size);
  return FALSE;
}

typedef struct
{
  gint64 bits;
  gint64 group_size;
} Widths;

/* FALSE if a member is there and is no whole number. */
static gboolean
read_member (JsonObject *object, const gchar *name, gint64 *value)
{
  JsonNode *node = json_object_get_member (object, name);

  if (node == NULL)
    return TRUE;
  if (!JSON_NODE_HOLDS_VALUE (node) || json_node_get_value_type (node) != G_TYPE_INT64)
    return FALSE;
  *value = json_node_get_int (node);
  return TRUE;
}

/* Those of the config, or what a member of it under the path of a module says for that one. */
static gboolean
read_widths (WeftMlx *self, WeftPackedWeight *weight, Widths *widths, GError **error)
{
  JsonNode *root =
      weft_quantization_config_get_node (weft_quantizer_base_get_config (&self->parent_instance));
  g_autofree gchar *module = weft_packed_weight_dup_module_path (weight);
  JsonNode *own = root != NULL ? json_object_get_member (json_node_get_object (root), module) : NULL;
  JsonObject *object = own != NULL && JSON_NODE_HOLDS_OBJECT (own) ? json_node_get_object (own) : NULL;

  widths->bits = self->bits;
  widths->group_size = self->group_size;
  if (object == NULL)
    return TRUE;
  if (read_member (object, "bits", &widths->bits) && read_member (object, "group_size", &widths->group_size)
      && widths->bits >= 2 && widths->bits <= 8 && widths->group_size > 0
      && g_str_equal (json_object_get_string_member_with_default (object, "mode", "affine"), "affine"))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "the config says of '%s' what is not mode 'affine' with 2 to 8 bits and groups of 1 and more",
               module);
  return FALSE;
}

/* Words of another type would pass for a plain tensor, beside scales that say otherwise. */
static gboolean
check_plain (WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  if (weft_packed_weight_get_tensor (weight, ROLE_SCALE) == NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "'%s': expected words of U32 beside '%s', found %s",
               weft_packed_weight_get_name (weight), weft_packed_weight_get_key (weight, ROLE_SCALE),
               weft_dtype_get_name (dtype));
  return FALSE;
}

static gboolean
weft_mlx_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftMlx *self = (WeftMlx *) base;
  WeftTensor *words = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftShape shape = *weft_tensor_get_shape (words);
  g_autofree gchar *scheme = NULL;
  WeftTensor *scales;
  Widths widths;

  if (weft_tensor_get_dtype (words) != WEFT_DTYPE_U32)
    return check_plain (weight, weft_tensor_get_dtype (words), error);
  if (!read_widths (self, weight, &widths, error))
    return FALSE;
  scheme = g_strdup_printf ("affine int%" G_GINT64_FORMAT, widths.bits);
  scales = weft_packed_weight_require_tensor (weight, ROLE_SCALE, error);
  if (scales == NULL || weft_packed_weight_require_tensor (weight, ROLE_BIAS, error) == NULL)
    return FALSE;
  if (shape.rank < 2 || __builtin_mul_overflow (shape.dims[shape.rank - 1], 32, &shape.dims[shape.rank - 1]))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s': expected packed codes of two or more axes",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  shape.dims[shape.rank - 1] /= widths.bits;
  if (shape.dims[shape.rank - 1] % widths.group_size != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s': %" G_GINT64_FORMAT " columns of %" G_GINT64_FORMAT
                   " bits are not whole groups of %" G_GINT64_FORMAT ", as the config has them",
                   weft_packed_weight_get_name (weight), shape.dims[shape.rank - 1], widths.bits,
                   widths.group_size);
      return FALSE;
    }
  return weft_packed_weight_set_packed (weight, scheme, shape.dims, shape.rank,
                                        weft_tensor_get_dtype (scales), error)
         && (32 % widths.bits != 0
             || weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, 32 / widths.bits, error))
         && weft_packed_weight_set_block (weight, ROLE_SCALE, 1, widths.group_size, error)
         && weft_packed_weight_set_block (weight, ROLE_BIAS, 1, widths.group_size, error);
}

/* Values are rounded to the dtype of the scales first. */
static WeftTensor *
weft_mlx_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype, GError **error)
{
  WeftMlx *self = (WeftMlx *) base;
  const WeftShape *shape = weft_packed_weight_get_shape (weight);
  WeftTensor *scales = weft_packed_weight_get_tensor (weight, ROLE_SCALE);
  g_autoptr (WeftTensor) codes = NULL;
  g_autoptr (WeftTensor) values = NULL;
  Widths widths;

  if (!read_widths (self, weight, &widths, error))
    return NULL;
  codes = weft_tensor_unpack (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES), (guint) widths.bits,
                              WEFT_BIT_ORDER_DENSE, -1, shape->dims[shape->rank - 1], error);
  if (codes != NULL)
    values = weft_tensor_dequantize_affine (codes, scales, weft_packed_weight_get_tensor (weight, ROLE_BIAS),
                                            (gint64[]){ 1, widths.group_size }, 2,
                                            weft_tensor_get_dtype (scales), error);
  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

/* (max - min) / (2^b - 1), and not 0; of a range that is too large for a number, the quotients are subtracted. */
static void
compute_scales (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  const gfloat n_steps = (gfloat) GPOINTER_TO_INT (params);

  for (gsize i = 0; i < n_values; i++)
    {
      gfloat range = inputs[0][i] - inputs[1][i];

      output[i] =
          fmaxf (isinf (range) ? inputs[0][i] / n_steps - inputs[1][i] / n_steps : range / n_steps, 1e-8f);
    }
}

/* Codes are computed with scales and biases that are not rounded yet. */
static gboolean
weft_mlx_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftMlx *self = (WeftMlx *) base;
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  const WeftDtype dtype = weft_tensor_get_dtype (dense);
  const gint64 block[] = { 1, self->group_size };
  g_autoptr (WeftTensor) biases =
      weft_tensor_reduce_blocks (dense, WEFT_BLOCK_STATISTIC_MINIMUM, block, 2, error);
  g_autoptr (WeftTensor) maxima =
      biases != NULL ? weft_tensor_reduce_blocks (dense, WEFT_BLOCK_STATISTIC_MAXIMUM, block, 2, error)
                     : NULL;
  g_autoptr (WeftTensor) scales = NULL;
  g_autoptr (WeftTensor) codes = NULL;
  g_autoptr (WeftTensor) words = NULL;
  g_autoptr (WeftTensor) stored_scales = NULL;
  g_autoptr (WeftTensor) stored_biases = NULL;

  if (maxima != NULL)
    scales = weft_tensor_compute ((WeftTensor *[]){ maxima, biases }, 2, compute_scales,
                                  GINT_TO_POINTER ((1 << self->bits) - 1), NULL, error);
  if (scales != NULL)
    codes = weft_tensor_quantize (dense, scales, biases, block, 2, WEFT_QUANTIZE_FLAGS_BIAS, WEFT_DTYPE_U8,
                                  (guint) self->bits, error);
  if (codes != NULL)
    words = weft_tensor_pack (codes, (guint) self->bits, WEFT_BIT_ORDER_DENSE, -1, WEFT_DTYPE_U32, error);
  if (words != NULL)
    stored_scales = weft_tensor_cast (scales, dtype, error);
  if (stored_scales != NULL)
    stored_biases = weft_tensor_cast (biases, dtype, error);
  if (stored_biases == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, words);
  weft_packed_weight_set_part (weight, ROLE_SCALE, stored_scales);
  weft_packed_weight_set_part (weight, ROLE_BIAS, stored_biases);
  return TRUE;
}

/* MLX tells by the tensors which modules were left dense. */
static gchar *
weft_mlx_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules, GError **error)
{
  WeftMlx *self = (WeftMlx *) base;

  return g_strdup_printf ("{\"group_size\": %" G_GINT64_FORMAT ", \"bits\": %" G_GINT64_FORMAT
                          ", \"mode\": \"affine\"}",
                          self->group_size, self->bits);
}

static void
weft_mlx_class_init (WeftMlxClass *klass)
{
  klass->parent_class.recognise = weft_mlx_recognise;
  klass->parent_class.configure = weft_mlx_configure;
  klass->parent_class.describe = weft_mlx_describe;
  klass->parent_class.dequantize = weft_mlx_dequantize;
  klass->parent_class.quantize = weft_mlx_quantize;
  klass->parent_class.dup_config = weft_mlx_dup_config;
}

WEFT_PLUGIN_DEFINE ("mlx", "Affine groups of MLX", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("mlx", WeftMlx, weft_mlx));
