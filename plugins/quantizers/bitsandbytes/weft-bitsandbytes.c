/* SPDX-License-Identifier: Apache-2.0 */
/* bitsandbytes: nibbles that index a map of values (nf4, fp4), the first one high, in blocks that run on over row ends and
 * whose largest magnitudes may themselves be quantised; and bytes with a largest magnitude for each row. Layout of
 * bitsandbytes. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "weft.h"

#define ROLE_ABSMAX "absmax"
#define ROLE_QUANT_MAP "quant_map"
#define ROLE_NESTED_ABSMAX "nested_absmax"
#define ROLE_NESTED_QUANT_MAP "nested_quant_map"
#define ROLE_QUANT_STATE "quant_state"
#define ROLE_ROW_ABSMAX "SCB"
#define ROLE_WEIGHT_FORMAT "weight_format"
#define MAX_STATE_BYTES 65536

#define NESTED_BLOCK 256

typedef struct
{
  WeftQuantizerBase parent_instance;
  /* What quantising makes. */
  gboolean is_int8;
  gboolean is_fp4;
  gboolean is_double;
  gint64 block;
} WeftBitsandbytes;

WEFT_DEFINE_QUANTIZER (WeftBitsandbytes, weft_bitsandbytes)

/* What a caller asks for. */
static gboolean
read_scheme (WeftBitsandbytes *self, WeftQuantizationConfig *config, GError **error)
{
  static const gchar *const schemes[] = { "bitsandbytes", "bitsandbytes-4bit", "bitsandbytes-int8", NULL };
  const gchar *scheme = weft_quantization_config_get_scheme (config);
  const gchar *type;

  if (!weft_quantization_config_check_scheme (config, schemes, error))
    return FALSE;
  self->is_int8 = g_strcmp0 (scheme, "bitsandbytes-int8") == 0;
  if (self->is_int8)
    return TRUE;
  type = weft_quantization_config_lookup_string (config, "quant_type");
  self->block = 64;
  weft_quantization_config_lookup_int (config, "blocksize", &self->block);
  self->is_fp4 = type != NULL && g_str_equal (type, "fp4");
  self->is_double = weft_quantization_config_lookup_boolean (config, "double_quant", FALSE);
  if (scheme == NULL || (self->block > 0 && (type == NULL || self->is_fp4 || g_str_equal (type, "nf4"))))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected quant_type 'nf4' or 'fp4' and a blocksize above 0");
  return FALSE;
}

static gboolean
weft_bitsandbytes_configure (WeftQuantizerBase *base, WeftQuantizationConfig *config, GError **error)
{
  WeftBitsandbytes *self = (WeftBitsandbytes *) base;

  if (!read_scheme (self, config, error))
    return FALSE;
  weft_quantizer_base_add_part (base, WEFT_ROLE_CODES, ".weight", ".weight");
  weft_quantizer_base_add_part (base, ROLE_ABSMAX, ".weight", ".weight.absmax");
  weft_quantizer_base_add_part (base, ROLE_QUANT_MAP, ".weight", ".weight.quant_map");
  weft_quantizer_base_add_part (base, ROLE_NESTED_ABSMAX, ".weight", ".weight.nested_absmax");
  weft_quantizer_base_add_part (base, ROLE_NESTED_QUANT_MAP, ".weight", ".weight.nested_quant_map");
  /* What is written is the first spelling. */
  if (self->is_fp4)
    weft_quantizer_base_add_part (base, ROLE_QUANT_STATE, ".weight", ".weight.quant_state.bitsandbytes__fp4");
  weft_quantizer_base_add_part (base, ROLE_QUANT_STATE, ".weight", ".weight.quant_state.bitsandbytes__nf4");
  weft_quantizer_base_add_part (base, ROLE_QUANT_STATE, ".weight", ".weight.quant_state.bitsandbytes__fp4");
  weft_quantizer_base_add_part (base, ROLE_ROW_ABSMAX, ".weight", ".SCB");
  weft_quantizer_base_add_part (base, ROLE_WEIGHT_FORMAT, ".weight", ".weight_format");
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
  gboolean is_fp4;
} State;

/* A member that has to be there, of a type. */
static JsonNode *
require_member (JsonNode *root, const gchar *name, GType type, const gchar *expected, GError **error)
{
  JsonNode *node = weft_json_lookup (root, name);
  gboolean is_value = node != NULL && JSON_NODE_HOLDS_VALUE (node);
  g_autofree gchar *found = NULL;

  if (is_value
      && (json_node_get_value_type (node) == type
          || (type == G_TYPE_DOUBLE && json_node_get_value_type (node) == G_TYPE_INT64)))
    return node;
  found = node != NULL ? weft_json_to_text (node, FALSE) : g_strdup ("nothing");
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT, "expected '%s' of its quant_state to be %s, found %s",
               name, expected, found);
  return NULL;
}

static gboolean
read_block (JsonNode *root, const gchar *name, gint64 *block, GError **error)
{
  JsonNode *node = require_member (root, name, G_TYPE_INT64, "a whole number above 0", error);

  *block = node != NULL ? json_node_get_int (node) : 0;
  if (node != NULL && *block <= 0)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                 "expected '%s' of its quant_state to be a whole number above 0, found %" G_GINT64_FORMAT,
                 name, *block);
  return *block > 0;
}

static gboolean
read_shape (JsonNode *root, WeftShape *shape, GError **error)
{
  JsonNode *node = weft_json_lookup (root, "shape");
  JsonArray *dims = node != NULL && JSON_NODE_HOLDS_ARRAY (node) ? json_node_get_array (node) : NULL;
  guint rank = dims != NULL ? json_array_get_length (dims) : 0;
  gint64 extents[WEFT_MAX_RANK] = { 0 };
  gboolean is_shape = rank > 0 && rank <= WEFT_MAX_RANK;

  for (guint i = 0; is_shape && i < rank; i++)
    {
      JsonNode *element = json_array_get_element (dims, i);

      is_shape = JSON_NODE_HOLDS_VALUE (element) && json_node_get_value_type (element) == G_TYPE_INT64;
      extents[i] = is_shape ? json_node_get_int (element) : 0;
    }
  if (is_shape)
    return weft_shape_init (shape, extents, rank, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "expected 'shape' of its quant_state to be a list of 1 to %d whole numbers, found %s",
               WEFT_MAX_RANK, dims != NULL ? "another list" : weft_json_describe (node));
  return FALSE;
}

/* One of the names that a text may be. */
static const gchar *
read_name (JsonNode *root, const gchar *name, const gchar *const *choices, GError **error)
{
  g_autofree gchar *expected = g_strjoinv (", ", (gchar **) choices);
  JsonNode *node = require_member (root, name, G_TYPE_STRING, expected, error);

  if (node == NULL || g_strv_contains (choices, json_node_get_string (node)))
    return node != NULL ? json_node_get_string (node) : NULL;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "expected '%s' of its quant_state to be one of %s, found '%s'", name, expected,
               json_node_get_string (node));
  return NULL;
}

static gboolean
state_parse (State *state, JsonNode *root, GError **error)
{
  static const gchar *const dtypes[] = { "float32", "float16", "bfloat16", NULL };
  static const gchar *const types[] = { "nf4", "fp4", NULL };
  const gchar *type = read_name (root, "quant_type", types, error);
  const gchar *dtype = type != NULL ? read_name (root, "dtype", dtypes, error) : NULL;
  JsonNode *nested = weft_json_lookup (root, "nested_blocksize");
  JsonNode *offset;

  if (dtype == NULL || !read_block (root, "blocksize", &state->block, error)
      || !read_shape (root, &state->shape, error))
    return FALSE;
  state->is_fp4 = g_str_equal (type, "fp4");
  state->dtype = weft_dtype_from_any_name (dtype);
  state->is_nested = nested != NULL && !JSON_NODE_HOLDS_NULL (nested);
  if (!state->is_nested)
    return TRUE;
  offset = read_block (root, "nested_blocksize", &state->nested_block, error)
               ? require_member (root, "nested_offset", G_TYPE_DOUBLE, "a number", error)
               : NULL;
  state->nested_offset = offset != NULL ? json_node_get_double (offset) : 0;
  if (offset == NULL || isfinite ((gfloat) state->nested_offset))
    return offset != NULL;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
               "expected 'nested_offset' of its quant_state to fit F32, found %g", state->nested_offset);
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

/* Whether a part has a dtype and as many elements as the state says; what has other ones would be read by its bits. */
static gboolean
check_part (WeftPackedWeight *weight, const gchar *role, WeftDtype dtype, gint64 n_elements, GError **error)
{
  WeftTensor *tensor = weft_packed_weight_require_tensor (weight, role, error);

  if (tensor == NULL)
    return FALSE;
  if (weft_tensor_get_dtype (tensor) == dtype && weft_tensor_get_n_elements (tensor) == n_elements)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "'%s': expected its %s to be %" G_GINT64_FORMAT
               " elements of %s, as its quant_state says, found %" G_GINT64_FORMAT " of %s",
               weft_packed_weight_get_name (weight), role, n_elements, weft_dtype_get_name (dtype),
               weft_tensor_get_n_elements (tensor), weft_dtype_get_name (weft_tensor_get_dtype (tensor)));
  return FALSE;
}

static gint64
count_blocks (gint64 n_elements, gint64 block)
{
  return n_elements / block + (n_elements % block != 0);
}

/* Nibbles may be stored in elements of any width; magnitudes are numbers, or codes of their own map. */
static gboolean
check_4_bit_parts (WeftPackedWeight *weight, const State *state, GError **error)
{
  gint64 n_elements, n_blocks;

  if (!weft_shape_count_elements (&state->shape, &n_elements, error))
    return FALSE;
  n_blocks = count_blocks (n_elements, state->block);
  if (!check_part (weight, ROLE_QUANT_MAP, WEFT_DTYPE_F32, 16, error)
      || !check_part (weight, ROLE_ABSMAX, state->is_nested ? WEFT_DTYPE_U8 : WEFT_DTYPE_F32, n_blocks,
                      error))
    return FALSE;
  return !state->is_nested
         || (check_part (weight, ROLE_NESTED_QUANT_MAP, WEFT_DTYPE_F32, 256, error)
             && check_part (weight, ROLE_NESTED_ABSMAX, WEFT_DTYPE_F32,
                            count_blocks (n_blocks, state->nested_block), error));
}

static gboolean
describe_4_bit (WeftPackedWeight *weight, GError **error)
{
  const gchar *name = weft_packed_weight_get_name (weight);
  const gchar *state_key = weft_packed_weight_get_key (weight, ROLE_QUANT_STATE);
  State state;

  if (!state_read (&state, weight, error))
    return FALSE;
  if (!g_str_has_suffix (state_key, state.is_fp4 ? "fp4" : "nf4"))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "'%s': its quant_state says quant_type '%s', and is called '%s'", name,
                   state.is_fp4 ? "fp4" : "nf4", state_key);
      return FALSE;
    }
  if (state.is_nested != (weft_packed_weight_get_tensor (weight, ROLE_NESTED_ABSMAX) != NULL))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_FORMAT,
          "'%s': its quant_state and its companions do not agree: expected both nested_blocksize and "
          "nested_absmax, or neither, found only %s",
          name, state.is_nested ? "nested_blocksize" : "nested_absmax");
      return FALSE;
    }
  if (!check_4_bit_parts (weight, &state, error))
    return FALSE;
  weft_packed_weight_keep_spelling (weight, ROLE_QUANT_STATE);
  return weft_packed_weight_set_packed (weight, state.is_fp4 ? "fp4" : "nf4", state.shape.dims,
                                        state.shape.rank, state.dtype, error);
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

/* Quantising */

static const gfloat nf4_map[16] = {
  -1.0f,
  -0.6961928009986877f,
  -0.5250730514526367f,
  -0.39491748809814453f,
  -0.28444138169288635f,
  -0.18477343022823334f,
  -0.09105003625154495f,
  0.0f,
  0.07958029955625534f,
  0.16093020141124725f,
  0.24611230194568634f,
  0.33791524171829224f,
  0.44070982933044434f,
  0.5626170039176941f,
  0.7229568362236023f,
  1.0f,
};
static const gfloat fp4_map[16] = {
  0.0f,
  0.0052083334885537624f,
  0.6666666865348816f,
  1.0f,
  0.3333333432674408f,
  0.5f,
  0.1666666716337204f,
  0.25f,
  0.0f,
  -0.0052083334885537624f,
  -0.6666666865348816f,
  -1.0f,
  -0.3333333432674408f,
  -0.5f,
  -0.1666666716337204f,
  -0.25f,
};

static gint
compare_values (gconstpointer a, gconstpointer b)
{
  gfloat x = *(const gfloat *) a, y = *(const gfloat *) b;

  return (x > y) - (x < y);
}

/* The i-th of n + 1 even steps from 0.1 to 1, counted from the nearer end, product and sum rounded once. */
static gfloat
get_fraction (gint i, gint n)
{
  const gfloat step = 0.9f / (gfloat) n;

  return i < (n + 1) / 2 ? fmaf (step, (gfloat) i, 0.1f) : fmaf (-step, (gfloat) (n - i), 1);
}

/* Seven decades, the n-th with 2^n fractions from 0.1 to 1; their negatives; 0 and 1. */
static void
fill_dynamic_map (gfloat map[NESTED_BLOCK])
{
  gsize n = 0;

  for (gint decade = 0; decade < 7; decade++)
    {
      const gint n_fractions = 1 << decade;
      const gfloat power = (gfloat) pow (10, decade - 6);

      for (gint i = 0; i < n_fractions; i++)
        {
          gfloat low = get_fraction (i, n_fractions), high = get_fraction (i + 1, n_fractions);
          gfloat value = (low + high) / 2 * power;

          map[n++] = value;
          map[n++] = -value;
        }
    }
  map[n++] = 0;
  map[n++] = 1;
  qsort (map, n, sizeof *map, compare_values);
}

static WeftTensor *
new_map (const gfloat *values, gint64 n_values, GError **error)
{
  g_autoptr (GBytes) bytes = g_bytes_new (values, (gsize) n_values * sizeof *values);

  return weft_tensor_new_from_bytes (WEFT_DTYPE_F32, &n_values, 1, bytes, error);
}

/* The JSON of a state. The mean that nested blocks are around is known when elements are read only: it is written into
 * room that is left for it, padded by spaces. */
typedef struct
{
  gchar *text;
  gsize n_bytes;
} StateText;

#define OFFSET_BYTES 24

static void
state_text_free (gpointer user_data)
{
  g_free (((StateText *) user_data)->text);
  g_free (user_data);
}

static void
get_state_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[0] = output->dims[0];
}

static void
get_offset_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  *region = (WeftRegion){ .rank = 1, .extent = { 1 } };
}

static gboolean
compute_state (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
               guint n_inputs, gpointer scratch, GError **error)
{
  const StateText *state = params;
  gchar number[G_ASCII_DTOSTR_BUF_SIZE];
  gchar *end = (gchar *) output->elements + state->n_bytes;

  g_ascii_formatd (number, sizeof number, "%.17g", *(const gfloat *) inputs[0].elements);
  memset (output->elements, ' ', state->n_bytes + OFFSET_BYTES + 1);
  memcpy (output->elements, state->text, state->n_bytes);
  memcpy (end, number, MIN (strlen (number), OFFSET_BYTES));
  end[OFFSET_BYTES] = '}';
  return TRUE;
}

static const WeftKernel state_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "quant_state",
  .get_granularity = get_state_granularity,
  .get_input_region = get_offset_region,
  .compute = compute_state,
};

static WeftTensor *
new_state (WeftBitsandbytes *self, WeftTensor *dense, WeftTensor *offset, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (dense);
  WeftDtype dtype = weft_tensor_get_dtype (dense);
  g_autoptr (GString) text = g_string_new (NULL);
  g_autoptr (GBytes) bytes = NULL;
  StateText *state;
  gint64 n_bytes;

  g_string_append_printf (
      text, "{\"quant_type\": \"%s\", \"blocksize\": %" G_GINT64_FORMAT ", \"dtype\": \"%s\", \"shape\": [",
      self->is_fp4 ? "fp4" : "nf4", self->block,
      dtype == WEFT_DTYPE_BF16  ? "bfloat16"
      : dtype == WEFT_DTYPE_F16 ? "float16"
                                : "float32");
  for (guint k = 0; k < shape->rank; k++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, k > 0 ? ", " : "", shape->dims[k]);
  g_string_append (text, "]");
  if (offset == NULL)
    {
      g_string_append_c (text, '}');
      n_bytes = (gint64) text->len;
      bytes = g_string_free_to_bytes (g_steal_pointer (&text));
      return weft_tensor_new_from_bytes (WEFT_DTYPE_U8, &n_bytes, 1, bytes, error);
    }
  g_string_append_printf (
      text, ", \"nested_blocksize\": %d, \"nested_dtype\": \"float32\", \"nested_offset\": ", NESTED_BLOCK);
  state = g_new (StateText, 1);
  state->n_bytes = text->len;
  state->text = g_string_free (g_steal_pointer (&text), FALSE);
  n_bytes = (gint64) state->n_bytes + OFFSET_BYTES + 1;
  return weft_tensor_new_from_kernel (&state_kernel, state, state_text_free, WEFT_DTYPE_U8, &n_bytes, 1,
                                      &offset, 1, error);
}

static void
compute_mean (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = inputs[0][i] / (gfloat) * (const gint64 *) params;
}

static void
subtract_offset (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = inputs[0][i] - inputs[1][i];
}

/* The mean of all, computed once. */
static WeftTensor *
make_offset (WeftTensor *absmax, GError **error)
{
  gint64 n_blocks = weft_tensor_get_n_elements (absmax);
  g_autoptr (WeftTensor) sum =
      weft_tensor_reduce_blocks (absmax, WEFT_BLOCK_STATISTIC_SUM, (gint64[]){ 0 }, 1, error);
  g_autoptr (WeftTensor) mean =
      sum != NULL
          ? weft_tensor_compute (&sum, 1, compute_mean, g_memdup2 (&n_blocks, sizeof n_blocks), g_free, error)
          : NULL;

  return mean != NULL ? weft_tensor_remember (mean, error) : NULL;
}

/* Quantises the largest magnitudes of blocks around their mean. */
static gboolean
set_nested (WeftPackedWeight *weight, WeftTensor *absmax, WeftTensor *offset, GError **error)
{
  gfloat map[NESTED_BLOCK];
  const gint64 block[] = { NESTED_BLOCK };
  g_autoptr (WeftTensor) differences =
      weft_tensor_compute ((WeftTensor *[]){ absmax, offset }, 2, subtract_offset, NULL, NULL, error);
  g_autoptr (WeftTensor) table = NULL;
  g_autoptr (WeftTensor) nested = NULL;
  g_autoptr (WeftTensor) codes = NULL;

  fill_dynamic_map (map);
  if (differences != NULL)
    table = new_map (map, NESTED_BLOCK, error);
  if (table != NULL)
    nested = weft_tensor_reduce_blocks (differences, WEFT_BLOCK_STATISTIC_MAGNITUDE, block, 1, error);
  if (nested != NULL)
    codes = weft_tensor_find_nearest (differences, nested, table, block, 1, error);
  if (codes == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, ROLE_ABSMAX, codes);
  weft_packed_weight_set_part (weight, ROLE_NESTED_ABSMAX, nested);
  weft_packed_weight_set_part (weight, ROLE_NESTED_QUANT_MAP, table);
  return TRUE;
}

static gboolean
set_4_bit_companions (WeftBitsandbytes *self, WeftPackedWeight *weight, WeftTensor *absmax, WeftTensor *map,
                      GError **error)
{
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  g_autoptr (WeftTensor) offset = self->is_double ? make_offset (absmax, error) : NULL;
  g_autoptr (WeftTensor) state = NULL;

  if (self->is_double && (offset == NULL || !set_nested (weight, absmax, offset, error)))
    return FALSE;
  if (!self->is_double)
    weft_packed_weight_set_part (weight, ROLE_ABSMAX, absmax);
  state = new_state (self, dense, offset, error);
  if (state == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, ROLE_QUANT_MAP, map);
  weft_packed_weight_set_part (weight, ROLE_QUANT_STATE, state);
  return TRUE;
}

static gboolean
quantize_4_bit (WeftBitsandbytes *self, WeftPackedWeight *weight, GError **error)
{
  g_autoptr (WeftTensor) flat = flatten (weft_packed_weight_get_dense (weight), error);
  g_autoptr (WeftTensor) absmax =
      flat != NULL ? weft_tensor_reduce_blocks (flat, WEFT_BLOCK_STATISTIC_MAGNITUDE, &self->block, 1, error)
                   : NULL;
  g_autoptr (WeftTensor) map = absmax != NULL ? new_map (self->is_fp4 ? fp4_map : nf4_map, 16, error) : NULL;
  g_autoptr (WeftTensor) codes =
      map != NULL ? weft_tensor_find_nearest (flat, absmax, map, &self->block, 1, error) : NULL;
  g_autoptr (WeftTensor) bytes =
      codes != NULL ? weft_tensor_pack (codes, 4, WEFT_BIT_ORDER_HIGH_FIRST, 0, WEFT_DTYPE_U8, error) : NULL;
  g_autoptr (WeftTensor) column =
      bytes != NULL
          ? weft_tensor_reshape (bytes, (gint64[]){ weft_tensor_get_n_elements (bytes), 1 }, 2, error)
          : NULL;

  if (column == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, column);
  return set_4_bit_companions (self, weight, absmax, map, error);
}

/* Up to the largest number, where the magnitude is tiny. */
static void
compute_int8_scale (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = inputs[0][i] > 0 ? fminf (127 / inputs[0][i], FLT_MAX) : 0;
}

static gboolean
quantize_8_bit (WeftPackedWeight *weight, GError **error)
{
  WeftTensor *dense = weft_packed_weight_get_dense (weight);
  const gint64 block[] = { 1, 0 };
  g_autoptr (WeftTensor) absmax =
      weft_tensor_reduce_blocks (dense, WEFT_BLOCK_STATISTIC_MAGNITUDE, block, 2, error);
  g_autoptr (WeftTensor) scale =
      absmax != NULL ? weft_tensor_compute (&absmax, 1, compute_int8_scale, NULL, NULL, error) : NULL;
  g_autoptr (WeftTensor) codes =
      scale != NULL ? weft_tensor_quantize (dense, scale, NULL, block, 2, WEFT_QUANTIZE_FLAGS_MULTIPLY,
                                            WEFT_DTYPE_I8, 8, error)
                    : NULL;
  g_autoptr (WeftTensor) rows = codes != NULL ? flatten (absmax, error) : NULL;
  g_autoptr (WeftTensor) format =
      rows != NULL ? weft_tensor_new_constant (WEFT_DTYPE_U8, NULL, 0, 0, error) : NULL;

  if (format == NULL)
    return FALSE;
  weft_packed_weight_set_part (weight, WEFT_ROLE_CODES, codes);
  weft_packed_weight_set_part (weight, ROLE_ROW_ABSMAX, rows);
  weft_packed_weight_set_part (weight, ROLE_WEIGHT_FORMAT, format);
  return TRUE;
}

static gboolean
weft_bitsandbytes_quantize (WeftQuantizerBase *base, WeftPackedWeight *weight, GError **error)
{
  WeftBitsandbytes *self = (WeftBitsandbytes *) base;

  return self->is_int8 ? quantize_8_bit (weight, error) : quantize_4_bit (self, weight, error);
}

static gchar *
weft_bitsandbytes_dup_config (WeftQuantizerBase *base, const gchar *const *skipped_modules, GError **error)
{
  WeftBitsandbytes *self = (WeftBitsandbytes *) base;
  g_autoptr (GString) json = g_string_new (NULL);

  g_string_append_printf (json,
                          "{\"quant_method\": \"bitsandbytes\", \"load_in_4bit\": %s, \"load_in_8bit\": %s, "
                          "\"bnb_4bit_quant_type\": \"%s\", \"bnb_4bit_use_double_quant\": %s, "
                          "\"bnb_4bit_quant_storage\": \"uint8\", \"llm_int8_skip_modules\": ",
                          self->is_int8 ? "false" : "true", self->is_int8 ? "true" : "false",
                          self->is_fp4 ? "fp4" : "nf4", self->is_double ? "true" : "false");
  weft_json_append_texts (json, skipped_modules);
  g_string_append_c (json, '}');
  return g_string_free (g_steal_pointer (&json), FALSE);
}

static void
weft_bitsandbytes_class_init (WeftBitsandbytesClass *klass)
{
  klass->parent_class.configure = weft_bitsandbytes_configure;
  klass->parent_class.describe = weft_bitsandbytes_describe;
  klass->parent_class.dequantize = weft_bitsandbytes_dequantize;
  klass->parent_class.quantize = weft_bitsandbytes_quantize;
  klass->parent_class.dup_config = weft_bitsandbytes_dup_config;
}

WEFT_PLUGIN_DEFINE ("bitsandbytes", "Weights of bitsandbytes: nf4, fp4 and int8", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_QUANTIZER ("bitsandbytes", WeftBitsandbytes, weft_bitsandbytes));
