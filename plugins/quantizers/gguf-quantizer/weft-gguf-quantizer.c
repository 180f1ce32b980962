/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of GGUF files: rows of blocks, whose type the file's table tells. Values are computed in F32; F16 and BF16
 * tensors are widened to it, as the tools of that format do. */
#include "weft-gguf-blocks.h"

#include <string.h>

typedef struct
{
  WeftQuantizerBase parent_instance;
  /* What quantising makes. */
  const WeftGgufBlockType *type;
} WeftGgufQuantizer;

WEFT_DEFINE_QUANTIZER (WeftGgufQuantizer, weft_gguf_quantizer)

static gboolean
weft_gguf_quantizer_recognise (WeftQuantizerBase *base, WeftQuantizationConfig *config,
                               WeftStateDict *tensors)
{
  const gchar *format = weft_quantization_config_get_metadata (config, "format");

  if (weft_quantization_config_get_scheme (config) != NULL)
    return WEFT_QUANTIZER_BASE_CLASS (weft_gguf_quantizer_parent_class)->recognise (base, config, tensors);
  return format != NULL && g_str_equal (format, "gguf");
}

static gboolean
weft_gguf_quantizer_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const schemes[] = { "gguf", NULL };
  const gchar *name = weft_quantization_config_lookup_string (config, "type");

  if (!weft_quantization_config_check_scheme (config, schemes, error))
    return FALSE;
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, "", "");
  if (weft_quantization_config_get_scheme (config) == NULL)
    return TRUE;
  ((WeftGgufQuantizer *) base)->type = name != NULL ? weft_gguf_block_type_from_name (name) : NULL;
  if (((WeftGgufQuantizer *) base)->type != NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected the parameter 'type' to be a block type such as 'Q8_0', found '%s'",
               name != NULL ? name : "");
  return FALSE;
}

/* Blocks in a safetensors file are weights, as they are where blocks are made. */
static gboolean
is_weight (WeftPackedWeight *weight)
{
  WeftTensor *rows = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  const gchar *name = weft_packed_weight_get_name (weight);

  return weft_tensor_get_dtype (rows) == WEFT_DTYPE_U8 && weft_tensor_get_rank (rows) >= 2
         && (g_str_has_suffix (name, "weight") || strstr (name, "experts") != NULL);
}

/* The table of a GGUF file tells it for each tensor. Blocks that a safetensors file holds are all of the config's type. */
static const gchar *
get_type_name (WeftQuantizerBase *base, WeftPackedWeight *weight)
{
  WeftQuantizationConfig *config = weft_quantizer_base_get_config (base);
  const gchar *key = weft_packed_weight_get_key (weight, WEFT_ROLE_CODES);
  const gchar *name = key != NULL ? weft_quantization_config_get_metadata (config, key) : NULL;

  if (name != NULL || !is_weight (weight))
    return name;
  return weft_quantization_config_lookup_string (config, "type");
}

/* The type of a weight, if it is one that is decoded. */
static const WeftGgufBlockType *
find_type (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  const gchar *name = get_type_name (base, weight);
  const WeftGgufBlockType *type = name != NULL ? weft_gguf_block_type_from_name (name) : NULL;

  /* The public descriptions do not agree on what stands in a block of Q8_1: 36 bytes, or 40. */
  if (type == NULL)
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED, "'%s' is of type %s, whose blocks are not known%s",
        weft_packed_weight_get_name (weight), name != NULL ? name : "none",
        g_strcmp0 (name, "Q8_1") == 0 ? ": runtimes keep activations in it, and files have none" : "");
  return type;
}

/* F32 and integers are as they are. */
static gboolean
weft_gguf_quantizer_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *rows = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftDtype dtype = weft_tensor_get_dtype (rows);
  gboolean is_half = dtype == WEFT_DTYPE_F16 || dtype == WEFT_DTYPE_BF16;
  WeftShape shape = *weft_tensor_get_shape (rows);
  const WeftGgufBlockType *type;
  gint64 *last = &shape.dims[MAX (shape.rank, 1) - 1];

  if (get_type_name (base, weight) == NULL || !(is_half || dtype == WEFT_DTYPE_U8))
    return TRUE;
  type = find_type (base, weight, error);
  if (type == NULL)
    return FALSE;
  if (!is_half && *last % type->n_bytes != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s' has rows of %" G_GINT64_FORMAT " bytes, which are not whole blocks of %s",
                   weft_packed_weight_get_name (weight), *last, type->name);
      return FALSE;
    }
  if (!is_half)
    *last = *last / type->n_bytes * type->n_elements;
  return weft_packed_weight_set_packed (weight, type->name, shape.dims, shape.rank, WEFT_DTYPE_F32, error);
}

static WeftTensor *
weft_gguf_quantizer_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                                GError **error)
{
  WeftTensor *rows = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  const WeftGgufBlockType *type = find_type (base, weight, error);
  g_autoptr (WeftTensor) values = NULL;

  if (type == NULL)
    return NULL;
  values = weft_tensor_get_dtype (rows) == WEFT_DTYPE_U8
               ? weft_gguf_blocks_dequantize (rows, type, WEFT_DTYPE_F32, error)
               : weft_tensor_ref (rows);
  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

static gboolean
weft_gguf_quantizer_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  g_autoptr (WeftTensor) rows = weft_gguf_blocks_quantize (weft_packed_weight_get_dense (weight),
                                                           ((WeftGgufQuantizer *) base)->type, error);

  if (rows != NULL)
    weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, rows);
  return rows != NULL;
}

static gchar *
weft_gguf_quantizer_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules, GError **error)
{
  g_autoptr (GString) json = g_string_new (NULL);

  g_string_append_printf (json, "{\"quant_method\": \"gguf\", \"type\": \"%s\", \"modules_to_not_convert\": ",
                          ((WeftGgufQuantizer *) base)->type->name);
  weft_json_append_texts (json, skipped_modules);
  g_string_append_c (json, '}');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
weft_gguf_quantizer_class_init (WeftGgufQuantizerClass *klass)
{
  klass->parent_class.recognise = weft_gguf_quantizer_recognise;
  klass->parent_class.configure = weft_gguf_quantizer_configure;
  klass->parent_class.describe = weft_gguf_quantizer_describe;
  klass->parent_class.dequantize = weft_gguf_quantizer_dequantize;
  klass->parent_class.quantize = weft_gguf_quantizer_quantize;
  klass->parent_class.dup_config = weft_gguf_quantizer_dup_config;
}

WEFT_PLUGIN_DEFINE ("gguf-quantizer", "The block types of GGUF files", NULL, PACKAGE_VERSION, "Apache-2.0",
                    PACKAGE_ORIGIN, WEFT_PLUGIN_QUANTIZER ("gguf", WeftGgufQuantizer, weft_gguf_quantizer));
