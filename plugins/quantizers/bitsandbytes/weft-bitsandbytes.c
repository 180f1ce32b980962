/* SPDX-License-Identifier: Apache-2.0 */
/* bitsandbytes: nibbles that index a map of values (nf4, fp4), the first one high, in blocks that run on over row ends and
 * whose largest magnitudes may themselves be quantised; and bytes with a largest magnitude for each row. Layout of
 * bitsandbytes. */
#include "weft.h"

#define ROLE_ABSMAX "absmax"
#define ROLE_QUANT_MAP "quant_map"
#define ROLE_NESTED_ABSMAX "nested_absmax"
#define ROLE_NESTED_QUANT_MAP "nested_quant_map"
#define ROLE_QUANT_STATE "quant_state"
#define ROLE_ROW_ABSMAX "SCB"
#define MAX_STATE_BYTES 65536

typedef struct
{
  WeftQuantizerBase parent_instance;
} WeftBitsandbytes;

WEFT_DEFINE_QUANTIZER (WeftBitsandbytes, weft_bitsandbytes)

static gboolean
weft_bitsandbytes_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight");
  weft_quantizer_base_add_part (base, ROLE_ABSMAX, ".weight", ".weight.absmax");
  weft_quantizer_base_add_part (base, ROLE_QUANT_MAP, ".weight", ".weight.quant_map");
  weft_quantizer_base_add_part (base, ROLE_NESTED_ABSMAX, ".weight", ".weight.nested_absmax");
  weft_quantizer_base_add_part (base, ROLE_NESTED_QUANT_MAP, ".weight", ".weight.nested_quant_map");
  weft_quantizer_base_add_part (base, ROLE_QUANT_STATE, ".weight", ".weight.quant_state.bitsandbytes__nf4");
  weft_quantizer_base_add_part (base, ROLE_QUANT_STATE, ".weight", ".weight.quant_state.bitsandbytes__fp4");
  weft_quantizer_base_add_part (base, ROLE_ROW_ABSMAX, ".weight", ".SCB");
  weft_quantizer_base_add_part (base, "weight_format", ".weight", ".weight_format");
  return TRUE;
}

/* What the JSON in `quant_state` says. */
typedef struct
{
  WeftShape shape;
  WeftDtype dtype;
  gint64 block;
  gboolean is_nested;
  gint64 nested_block;
  gdouble nested_offset;
} State;

static gint64
lookup_int (JsonNode *root, const gchar *name)
{
  JsonNode *node = weft_json_lookup (root, name);

  return node != NULL && JSON_NODE_HOLDS_VALUE (node) && json_node_get_value_type (node) == G_TYPE_INT64
             ? json_node_get_int (node)
             : 0;
}

static gboolean
state_parse (State *state, JsonNode *root, GError **error)
{
  JsonNode *shape = weft_json_lookup (root, "shape");
  JsonNode *dtype = weft_json_lookup (root, "dtype");
  JsonNode *offset = weft_json_lookup (root, "nested_offset");
  JsonArray *dims = shape != NULL && JSON_NODE_HOLDS_ARRAY (shape) ? json_node_get_array (shape) : NULL;
  gint64 extents[WEFT_MAX_RANK] = { 0 };
  guint rank = dims != NULL ? json_array_get_length (dims) : 0;

  for (guint i = 0; i < MIN (rank, WEFT_MAX_RANK); i++)
    {
      JsonNode *element = json_array_get_element (dims, i);

      extents[i] = JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_INT64
                       ? json_node_get_int (element)
                       : -1;
    }
  state->dtype =
      dtype != NULL && JSON_NODE_HOLDS_VALUE (dtype) && json_node_get_value_type (dtype) == G_TYPE_STRING
          ? weft_dtype_from_any_name (json_node_get_string (dtype))
          : WEFT_DTYPE_INVALID;
  state->block = lookup_int (root, "blocksize");
  state->nested_block = lookup_int (root, "nested_blocksize");
  state->is_nested = state->nested_block != 0;
  state->nested_offset = offset != NULL && JSON_NODE_HOLDS_VALUE (offset) ? json_node_get_double (offset) : 0;
  if (rank > 0 && rank <= WEFT_MAX_RANK && state->block > 0 && state->nested_block >= 0
      && (state->dtype == WEFT_DTYPE_F32 || state->dtype == WEFT_DTYPE_F16
          || state->dtype == WEFT_DTYPE_BF16))
    return weft_shape_init (&state->shape, extents, rank, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "quant_state needs 'shape', 'blocksize' and a floating 'dtype'");
  return FALSE;
}

static gboolean
state_read (State *state, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *tensor = weft_packed_weight_require_tensor (weight, ROLE_QUANT_STATE, error);
  const gchar *name = weft_packed_weight_get_name (weight);
  g_autoptr (GBytes) bytes = NULL;
  g_autoptr (JsonNode) root = NULL;

  if (tensor == NULL)
    return FALSE;
  if (weft_tensor_get_dtype (tensor) != WEFT_DTYPE_U8 || weft_tensor_get_n_bytes (tensor) > MAX_STATE_BYTES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "'%s': quant_state is not JSON text in U8", name);
      return FALSE;
    }
  bytes = weft_tensor_read (tensor, NULL, error);
  root = bytes != NULL ? weft_json_parse (g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes),
                                          name, error)
                       : NULL;
  if (root == NULL)
    return FALSE;
  if (state_parse (state, root, error))
    return TRUE;
  g_prefix_error (error, "'%s': ", name);
  return FALSE;
}

static gboolean
describe_4_bit (WeftPackedWeight *weight, GError **error)
{
  gboolean is_nf4 = g_str_has_suffix (weft_packed_weight_get_key (weight, ROLE_QUANT_STATE), "nf4");
  State state;

  if (!state_read (&state, weight, error)
      || weft_packed_weight_require_tensor (weight, ROLE_ABSMAX, error) == NULL
      || weft_packed_weight_require_tensor (weight, ROLE_QUANT_MAP, error) == NULL)
    return FALSE;
  if (state.is_nested
      && (weft_packed_weight_require_tensor (weight, ROLE_NESTED_ABSMAX, error) == NULL
          || weft_packed_weight_require_tensor (weight, ROLE_NESTED_QUANT_MAP, error) == NULL))
    return FALSE;
  return weft_packed_weight_set_packed (weight, is_nf4 ? "nf4" : "fp4", state.shape.dims, state.shape.rank,
                                        state.dtype, error);
}

static gboolean
describe_8_bit (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftTensor *absmax = weft_packed_weight_require_tensor (weight, ROLE_ROW_ABSMAX, error);
  const WeftShape *shape = weft_tensor_get_shape (codes);
  WeftDtype dtype = weft_quantization_config_get_default_dtype (weft_quantizer_base_get_config (base));

  if (absmax == NULL)
    return FALSE;
  if (shape->rank != 2 || weft_tensor_get_n_elements (absmax) != shape->dims[0])
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'%s': expected codes of two axes and one SCB for each row",
                   weft_packed_weight_get_name (weight));
      return FALSE;
    }
  return weft_packed_weight_set_packed (weight, "int8", shape->dims, shape->rank, dtype, error)
         && weft_packed_weight_set_block (weight, WEFT_ROLE_CODES, 1, 1, error);
}

static gboolean
weft_bitsandbytes_describe (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftDtype dtype = weft_tensor_get_dtype (weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES));
  gboolean has_state = weft_packed_weight_get_tensor (weight, ROLE_QUANT_STATE) != NULL;

  if (has_state)
    return describe_4_bit (weight, error);
  if (dtype == WEFT_DTYPE_U8)
    return weft_packed_weight_require_tensor (weight, ROLE_QUANT_STATE, error) != NULL;
  return dtype != WEFT_DTYPE_I8 || describe_8_bit (base, weight, error);
}

static WeftTensor *
flatten (WeftTensor *tensor, GError **error)
{
  return weft_tensor_reshape (tensor, (gint64[]){ weft_tensor_get_n_elements (tensor) }, 1, error);
}

/* The largest magnitude of each block, in F32: stored so, or out of its own map and blocks. */
static WeftTensor *
dup_absmax (WeftPackedWeight *weight, const State *state, GError **error)
{
  g_autoptr (WeftTensor) codes = flatten (weft_packed_weight_get_tensor (weight, ROLE_ABSMAX), error);
  g_autoptr (WeftTensor) offset = NULL;
  g_autoptr (WeftTensor) values = NULL;

  if (codes == NULL || !state->is_nested)
    return g_steal_pointer (&codes);
  offset = weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, state->nested_offset, error);
  values =
      offset != NULL
          ? weft_tensor_lookup (codes, weft_packed_weight_get_tensor (weight, ROLE_NESTED_QUANT_MAP), error)
          : NULL;
  if (values == NULL)
    return NULL;
  return weft_tensor_dequantize_affine (values, weft_packed_weight_get_tensor (weight, ROLE_NESTED_ABSMAX),
                                        offset, &state->nested_block, 1, WEFT_DTYPE_F32, error);
}

static WeftTensor *
dequantize_4_bit (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *packed = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  g_autoptr (WeftTensor) bytes = flatten (packed, error);
  g_autoptr (WeftTensor) codes = NULL;
  g_autoptr (WeftTensor) values = NULL;
  g_autoptr (WeftTensor) absmax = NULL;
  g_autoptr (WeftTensor) flat = NULL;
  gint64 n_elements;
  State state;

  if (bytes == NULL || !state_read (&state, weight, error)
      || !weft_shape_count_elements (&state.shape, &n_elements, error))
    return NULL;
  codes = weft_tensor_unpack (bytes, 4, WEFT_BIT_ORDER_HIGH_FIRST, 0, n_elements, error);
  if (codes != NULL)
    values = weft_tensor_lookup (codes, weft_packed_weight_get_tensor (weight, ROLE_QUANT_MAP), error);
  if (values != NULL)
    absmax = dup_absmax (weight, &state, error);
  if (absmax != NULL)
    flat = weft_tensor_dequantize (values, absmax, NULL, &state.block, 1, state.dtype, error);
  return flat != NULL ? weft_tensor_reshape (flat, state.shape.dims, state.shape.rank, error) : NULL;
}

/* code * SCB * (1 / 127), each product rounded to F32. */
static WeftTensor *
dequantize_8_bit (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *codes = weft_packed_weight_get_tensor (weight, WEFT_ROLE_CODES);
  WeftTensor *absmax = weft_packed_weight_get_tensor (weight, ROLE_ROW_ABSMAX);
  g_autoptr (WeftTensor) column =
      weft_tensor_reshape (absmax, (gint64[]){ weft_tensor_get_n_elements (absmax), 1 }, 2, error);
  g_autoptr (WeftTensor) products = NULL;

  if (column != NULL)
    products = weft_tensor_dequantize (codes, column, NULL, (gint64[]){ 1, 0 }, 2, WEFT_DTYPE_F32, error);
  return products != NULL ? weft_tensor_scale (products, (gfloat) (1.0 / 127), error) : NULL;
}

/* Values of nibbles are rounded to the dtype of the state first. */
static WeftTensor *
weft_bitsandbytes_dequantize (WeftQuantizerBase *base, WeftPackedWeight *weight, WeftDtype dtype,
                              GError **error)
{
  g_autoptr (WeftTensor) values = weft_packed_weight_get_tensor (weight, ROLE_QUANT_STATE) != NULL
                                      ? dequantize_4_bit (weight, error)
                                      : dequantize_8_bit (weight, error);

  return values != NULL ? weft_tensor_cast (values, dtype, error) : NULL;
}

static void
weft_bitsandbytes_class_init (WeftBitsandbytesClass *klass)
{
  klass->parent_class.configure = weft_bitsandbytes_configure;
  klass->parent_class.describe = weft_bitsandbytes_describe;
  klass->parent_class.dequantize = weft_bitsandbytes_dequantize;
}

WEFT_PLUGIN_DEFINE ("bitsandbytes", "Weights of bitsandbytes: nf4, fp4 and int8", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("bitsandbytes", WeftBitsandbytes, weft_bitsandbytes));
