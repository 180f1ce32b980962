/* SPDX-License-Identifier: Apache-2.0 */
/* GPTQ: codes of an [in, out] matrix packed down the rows, zero points along the columns, and groups of rows in any order
 * (act-order). Zero points of the first version of the format are one too small. Layout of AutoGPTQ and GPTQModel. */
#include <string.h>

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
  /* What the config says; NULL: nothing. */
  const gchar *format;
  /* Whether every zero point is the middle code, so that it tells the version. */
  gboolean is_symmetric;
} WeftGptq;

WEFT_DEFINE_QUANTIZER (WeftGptq, weft_gptq)

#define FORMAT_V1 "gptq"
#define FORMAT_V2 "gptq_v2"

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
  if (format != NULL && !g_str_equal (format, FORMAT_V1) && !g_str_equal (format, FORMAT_V2))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
                   "expected a checkpoint_format of '" FORMAT_V1 "' or '" FORMAT_V2 "', found '%s'", format);
      return FALSE;
    }
  self->bits = (guint) bits;
  self->format = format;
  self->is_symmetric = weft_quantization_config_lookup_boolean (config, "sym", FALSE);
  weft_quantization_config_lookup_int (config, "group_size", &self->group_size);
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

/* Whether the zero points in one word, as many as there are columns for, are all @code. */
static gboolean
is_word_of (guint32 word, guint bits, gint64 n_columns, guint32 code)
{
  for (guint i = 0; i < 32 / bits && i < n_columns; i++)
    if ((word >> (bits * i) & ((1u << bits) - 1)) != code)
      return FALSE;
  return TRUE;
}

/* The format that the first word of a symmetric weight's zero points is of; %NULL without an error if it is of neither. */
static const gchar *
read_format (WeftGptq *self, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *words = weft_packed_weight_get_tensor (weight, ROLE_ZERO_POINT);
  const gint64 n_columns = weft_tensor_get_dim (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES), 1);
  const guint32 middle = 1u << (self->bits - 1);
  g_autoptr (WeftTensor) row = NULL;
  g_autoptr (WeftTensor) first = NULL;
  g_autoptr (GBytes) bytes = NULL;
  guint32 word;

  if (weft_tensor_get_dtype (words) != WEFT_DTYPE_I32 || weft_tensor_get_rank (words) != 2
      || weft_tensor_get_n_elements (words) == 0)
    return NULL;
  row = weft_tensor_slice (words, 0, 0, 1, error);
  first = row != NULL ? weft_tensor_slice (row, 1, 0, 1, error) : NULL;
  bytes = first != NULL ? weft_tensor_read (first, NULL, error) : NULL;
  if (bytes == NULL)
    return NULL;
  memcpy (&word, g_bytes_get_data (bytes, NULL), sizeof word);
  return is_word_of (word, self->bits, n_columns, middle - 1) ? FORMAT_V1
         : is_word_of (word, self->bits, n_columns, middle)   ? FORMAT_V2
                                                              : NULL;
}

/* What is added to stored zero points. Files name the wrong version, or none: then those of a symmetric weight tell it, and
 * the first version is meant where they cannot. */
static gboolean
find_zero_point_offset (WeftGptq *self, WeftPackedWeight *weight, gint *offset, GError **error)
{
  g_autoptr (GError) cause = NULL;
  const gchar *found = self->is_symmetric ? read_format (self, weight, &cause) : NULL;
  const gchar *format = found != NULL ? found : self->format;

  *offset = format != NULL && g_str_equal (format, FORMAT_V2) ? 0 : 1;
  if (cause != NULL)
    g_propagate_prefixed_error (error, g_steal_pointer (&cause),
                                "'%s': ", weft_packed_weight_get_name (weight));
  else if (found == NULL || self->format == NULL || g_str_equal (found, self->format))
    return TRUE;
  else
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
        "the config says checkpoint_format '%s', and the zero points of '%s', which are symmetric, are those of "
        "'%s'; set checkpoint_format to what the file is",
        self->format, weft_packed_weight_get_name (weight), found);
  return FALSE;
}

/* Words of another type would be read by their bits. */
static gboolean
check_words (WeftPackedWeight *weight, const gchar *role, GError **error)
{
  WeftDtype dtype = weft_tensor_get_dtype (weft_packed_weight_get_tensor (weight, role));

  if (dtype == WEFT_DTYPE_I32)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "'%s': expected its %s in words of I32, found %s",
               weft_packed_weight_get_name (weight), role, weft_dtype_get_name (dtype));
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
  gint offset;

  if (scales == NULL || weft_packed_weight_require_tensor (weight, ROLE_ZERO_POINT, error) == NULL)
    return FALSE;
  if (!check_words (weight, WEFT_ROLE_CODES, error) || !check_words (weight, ROLE_ZERO_POINT, error))
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
         && find_zero_point_offset (self, weight, &offset, error)
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
  gint offset;

  return wide != NULL && find_zero_point_offset (self, weight, &offset, error)
             ? weft_tensor_shift (wide, offset, error)
             : NULL;
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
