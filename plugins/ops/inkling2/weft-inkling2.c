/* SPDX-License-Identifier: Apache-2.0 */
/* Inkling 2: packed experts, the message queries of its loop, and a vocabulary that was padded. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftInkling2Dequantize;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gboolean inverse;
} WeftInkling2MergeQueries;

typedef WeftInkling2MergeQueries WeftInkling2UnpadVocab;

WEFT_DEFINE_OP (WeftInkling2Dequantize, weft_inkling2_dequantize)
WEFT_DEFINE_OP (WeftInkling2MergeQueries, weft_inkling2_merge_queries)
WEFT_DEFINE_OP (WeftInkling2UnpadVocab, weft_inkling2_unpad_vocab)

/* Inkling2LoopDequantizeExperts */

/* Inputs of the kernel, in the order of the source patterns. */
enum
{
  WEIGHT,
  SCALE,
  AMAX,
  DENOMINATOR,
  N_INPUTS,
};

/* NVFP4: two E2M1 codes a byte, one scale for 16 values. MXFP8: one scale for 32. */
#define NVFP4_GROUP 16
#define MXFP8_GROUP 32

typedef struct
{
  gint64 group;
} DequantizeParams;

static const DequantizeParams nvfp4_params = { NVFP4_GROUP };
static const DequantizeParams mxfp8_params = { MXFP8_GROUP };

static const gfloat e2m1_values[16] = {
  0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6
};

static void
get_granularity (gconstpointer params, const WeftShape *output, gint64 *block)
{
  block[output->rank - 1] = ((const DequantizeParams *) params)->group;
}

static void
get_input_region (gconstpointer params, guint input, const WeftRegion *output, WeftRegion *region)
{
  gint64 group = ((const DequantizeParams *) params)->group;
  gint64 per_element = input == SCALE ? group : group == NVFP4_GROUP ? 2 : 1;
  guint last = output->rank - 1;

  *region = *output;
  if (input == AMAX || input == DENOMINATOR)
    {
      region->rank = 1;
      return;
    }
  region->start[last] = output->start[last] / per_element;
  region->extent[last] = (output->extent[last] + per_element - 1) / per_element;
}

static gboolean
compute_dequantize (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                    guint n_inputs, gpointer scratch, GError **error)
{
  gint64 group = ((const DequantizeParams *) params)->group;
  gint64 n_columns = output->region.extent[output->region.rank - 1];
  gint64 n_scales = (n_columns + group - 1) / group;
  gint64 n_rows = n_columns > 0 ? output->n_elements / n_columns : 0;
  gint64 rows_per_expert = n_rows / MAX (output->region.extent[0], 1);
  const gfloat *scales = inputs[SCALE].elements;
  gfloat *values = output->elements;

  for (gint64 row = 0; row < n_rows; row++)
    {
      gint64 expert = row / rows_per_expert;
      gfloat factor = 1;

      if (n_inputs > AMAX)
        factor = ((const gfloat *) inputs[AMAX].elements)[expert]
                 / ((const gfloat *) inputs[DENOMINATOR].elements)[expert];
      for (gint64 i = 0; i < n_columns; i++)
        {
          gint64 element = row * n_columns + i;
          gfloat code;

          if (group == NVFP4_GROUP)
            code = e2m1_values[(((const guint8 *) inputs[WEIGHT].elements)[element / 2] >> (element % 2 * 4))
                               & 15];
          else
            code = ((const gfloat *) inputs[WEIGHT].elements)[element];
          /* In this order: it decides the last bit. */
          values[element] = code * scales[row * n_scales + i / group] * factor;
        }
    }
  return TRUE;
}

static const WeftKernel dequantize_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "Inkling2LoopDequantizeExperts",
  .get_granularity = get_granularity,
  .get_input_region = get_input_region,
  .compute = compute_dequantize,
};

/* Whether the scales fit @dims, the shape of the values, and the other companions the experts. */
static gboolean
check_companions (GPtrArray *inputs, const WeftShape *dims, gint64 group, GError **error)
{
  WeftShape expected = *dims;

  if (dims->rank < 2 || dims->dims[dims->rank - 1] % group != 0)
    {
      g_autofree gchar *text = weft_shape_to_string (dims);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "values of shape %s do not divide in groups of %" G_GINT64_FORMAT, text, group);
      return FALSE;
    }
  expected.dims[expected.rank - 1] /= group;
  for (guint i = SCALE; i < inputs->len; i++)
    {
      const WeftShape *found = weft_tensor_get_shape (inputs->pdata[i]);
      g_autofree gchar *expected_text = NULL;
      g_autofree gchar *found_text = NULL;

      if (i == AMAX)
        expected.rank = 1;
      if (weft_shape_equal (found, &expected))
        continue;
      expected_text = weft_shape_to_string (&expected);
      found_text = weft_shape_to_string (found);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "companion %u has shape %s, expected %s", i,
                   found_text, expected_text);
      return FALSE;
    }
  return TRUE;
}

/* Casts all companions to F32; E8M0 scales come as bytes. The weight of MXFP8 is cast as well. */
static gboolean
widen (GPtrArray *inputs, GError **error)
{
  const gboolean is_nvfp4 = inputs->len > AMAX;

  for (guint i = is_nvfp4 ? SCALE : WEIGHT; i < inputs->len; i++)
    {
      g_autoptr (WeftTensor) tensor = weft_tensor_ref (inputs->pdata[i]);
      WeftTensor *wide;

      if (i == SCALE && !is_nvfp4 && weft_tensor_get_dtype (tensor) == WEFT_DTYPE_U8)
        {
          g_autoptr (WeftTensor) scale = weft_tensor_bitcast (tensor, WEFT_DTYPE_F8_E8M0, error);

          wide = scale != NULL ? weft_tensor_cast (scale, WEFT_DTYPE_F32, error) : NULL;
        }
      else
        wide = weft_tensor_cast (tensor, WEFT_DTYPE_F32, error);
      if (wide == NULL)
        return FALSE;
      weft_tensor_unref (inputs->pdata[i]);
      inputs->pdata[i] = wide;
    }
  return TRUE;
}

/* The values in F32. */
static WeftTensor *
dequantize (GPtrArray *inputs, GError **error)
{
  const DequantizeParams *params = inputs->len > AMAX ? &nvfp4_params : &mxfp8_params;
  WeftShape shape = *weft_tensor_get_shape (inputs->pdata[WEIGHT]);

  if (params == &nvfp4_params && weft_tensor_get_dtype (inputs->pdata[WEIGHT]) != WEFT_DTYPE_U8)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "packed codes must be U8, found %s",
                   weft_dtype_get_name (weft_tensor_get_dtype (inputs->pdata[WEIGHT])));
      return NULL;
    }
  if (params == &nvfp4_params && shape.rank > 0
      && __builtin_mul_overflow (shape.dims[shape.rank - 1], 2, &shape.dims[shape.rank - 1]))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "the weight has too many columns");
      return NULL;
    }
  if (!check_companions (inputs, &shape, params->group, error) || !widen (inputs, error))
    return NULL;
  return weft_tensor_new_from_kernel (&dequantize_kernel, (gpointer) params, NULL, WEFT_DTYPE_F32, shape.dims,
                                      shape.rank, (WeftTensor **) inputs->pdata, inputs->len, error);
}

/* The weight and the companions that are there, in the order of the source patterns: 2 or all 4. */
static GPtrArray *
collect_by_position (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  g_autoptr (GPtrArray) tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  guint n_groups = weft_tensor_groups_get_n_groups (inputs);

  if ((n_groups != 2 && n_groups != N_INPUTS) || weft_op_context_get_n_source_patterns (context) < n_groups)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "expected a weight, or with it a scale, or with it a scale, a maximum and a denominator, found %u of %u sources",
          n_groups, weft_op_context_get_n_source_patterns (context));
      return NULL;
    }
  for (guint i = 0; i < n_groups; i++)
    {
      guint group;
      WeftTensor *tensor = weft_op_find_source (inputs, context, i, &group, error)
                               ? weft_op_get_tensor (inputs, group, error)
                               : NULL;

      if (tensor == NULL)
        return NULL;
      g_ptr_array_add (tensors, weft_tensor_ref (tensor));
    }
  return g_steal_pointer (&tensors);
}

static WeftTensorGroups *
weft_inkling2_dequantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                  WeftOpContext *context, GError **error)
{
  const gchar *full_name = weft_op_context_get_full_layer_name (context);
  const gchar *name = weft_op_context_get_target_pattern (context, 0);
  WeftDtype dtype =
      full_name != NULL ? weft_op_context_get_parameter_dtype (context, full_name) : WEFT_DTYPE_INVALID;
  g_autoptr (GPtrArray) tensors = NULL;
  g_autoptr (WeftTensor) values = NULL;
  g_autoptr (WeftTensor) cast = NULL;

  if (weft_tensor_groups_get_n_groups (inputs) == 1)
    {
      WeftTensor *dense = weft_op_get_only_tensor (inputs, error);

      return dense != NULL ? weft_op_new_output (name, dense) : NULL;
    }
  tensors = collect_by_position (inputs, context, error);
  values = tensors != NULL ? dequantize (tensors, error) : NULL;
  cast = values != NULL
             ? weft_tensor_cast (values, dtype != WEFT_DTYPE_INVALID ? dtype : WEFT_DTYPE_BF16, error)
             : NULL;
  return cast != NULL ? weft_op_new_output (name, cast) : NULL;
}

/* Dense experts are saved as they are. */
static WeftConversionOpsBase *
weft_inkling2_dequantize_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_inkling2_dequantize_get_type (), NULL);
}

static void
weft_inkling2_dequantize_class_init (WeftInkling2DequantizeClass *klass)
{
  klass->parent_class.convert = weft_inkling2_dequantize_convert;
  klass->parent_class.dup_inverse = weft_inkling2_dequantize_dup_inverse;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES | WEFT_OP_TRAITS_CONSUMES_COMPANIONS;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

/* Inkling2LoopMergeMessageQueries */

/* Axis 0 of @tensor as two: (layer, @per_layer). */
static WeftTensor *
split_layers (WeftTensor *tensor, gint64 per_layer, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  WeftShape layers = *shape;

  if (shape->rank < 1 || shape->rank >= WEFT_MAX_RANK || shape->dims[0] % per_layer != 0)
    {
      g_autofree gchar *text = weft_shape_to_string (shape);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "expected %" G_GINT64_FORMAT " rows a layer, found the shape %s", per_layer, text);
      return NULL;
    }
  layers.rank++;
  layers.dims[0] = shape->dims[0] / per_layer;
  layers.dims[1] = per_layer;
  for (guint i = 1; i < shape->rank; i++)
    layers.dims[i + 1] = shape->dims[i];
  return weft_tensor_reshape (tensor, layers.dims, layers.rank, error);
}

/* The inverse of split_layers(). */
static WeftTensor *
join_layers (WeftTensor *tensor, GError **error)
{
  WeftShape rows = *weft_tensor_get_shape (tensor);

  rows.rank--;
  if (__builtin_mul_overflow (rows.dims[0], rows.dims[1], &rows.dims[0]))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "there are too many layers");
      return NULL;
    }
  for (guint i = 1; i < rows.rank; i++)
    rows.dims[i] = rows.dims[i + 1];
  return weft_tensor_reshape (tensor, rows.dims, rows.rank, error);
}

/* (query, mlp) and (key, value) of each layer as (query, key, value, mlp). */
static WeftTensorGroups *
merge_queries (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  g_autoptr (WeftTensor) merged = NULL;
  static const gint64 halves[] = { 1, 1 };

  for (guint i = 0; i < 2; i++)
    {
      guint group;
      WeftTensor *rows = weft_op_find_source (inputs, context, i, &group, error)
                             ? weft_op_get_tensor (inputs, group, error)
                             : NULL;
      g_autoptr (WeftTensor) layers = rows != NULL ? split_layers (rows, 2, error) : NULL;
      g_autoptr (GPtrArray) pair =
          layers != NULL ? weft_tensor_split (layers, 1, halves, G_N_ELEMENTS (halves), error) : NULL;

      if (pair == NULL)
        return NULL;
      g_ptr_array_insert (parts, (gint) i, weft_tensor_ref (pair->pdata[0]));
      g_ptr_array_insert (parts, (gint) i + 1, weft_tensor_ref (pair->pdata[1]));
    }
  merged = weft_tensor_concat ((WeftTensor **) parts->pdata, parts->len, 1, error);
  return merged != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), merged) : NULL;
}

static WeftTensorGroups *
split_queries (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();
  WeftTensor *merged = weft_op_get_only_tensor (inputs, error);
  static const gint64 indices[2][2] = { { 0, 3 }, { 1, 2 } };

  if (merged == NULL)
    return NULL;
  if (weft_tensor_get_rank (merged) < 2 || weft_tensor_get_dim (merged, 1) != 4)
    {
      g_autofree gchar *text = weft_shape_to_string (weft_tensor_get_shape (merged));

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "expected 4 rows (query, key, value, mlp) a layer, found the shape %s", text);
      return NULL;
    }
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (WeftTensor) pair =
          weft_tensor_select (merged, 1, indices[i], G_N_ELEMENTS (indices[i]), error);
      g_autoptr (WeftTensor) rows = pair != NULL ? join_layers (pair, error) : NULL;

      if (rows == NULL
          || !weft_op_add_output (outputs, weft_op_context_get_target_pattern (context, i), rows, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftTensorGroups *
weft_inkling2_merge_queries_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                     WeftOpContext *context, GError **error)
{
  gboolean is_inverse = ((WeftInkling2MergeQueries *) base)->inverse;
  guint n_patterns = is_inverse ? weft_op_context_get_n_target_patterns (context)
                                : weft_op_context_get_n_source_patterns (context);

  if (n_patterns != 2)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "expected two %s patterns, found %u",
                   is_inverse ? "target" : "source", n_patterns);
      return NULL;
    }
  return is_inverse ? split_queries (inputs, context, error) : merge_queries (inputs, context, error);
}

static WeftConversionOpsBase *
weft_inkling2_merge_queries_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_inkling2_merge_queries_get_type (), "inverse",
                       !((WeftInkling2MergeQueries *) base)->inverse, NULL);
}

static void
add_inverse (WeftConversionOpsBaseClass *klass)
{
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_boolean (klass, "inverse", "Inverse", "Undo instead", FALSE,
                             G_STRUCT_OFFSET (WeftInkling2MergeQueries, inverse));
}

static void
weft_inkling2_merge_queries_class_init (WeftInkling2MergeQueriesClass *klass)
{
  klass->parent_class.convert = weft_inkling2_merge_queries_convert;
  klass->parent_class.dup_inverse = weft_inkling2_merge_queries_dup_inverse;
  add_inverse (&klass->parent_class);
}

/* Inkling2UnpadVocab */

/* @tensor with rows of zeros up to @n_rows. */
static WeftTensor *
pad_rows (WeftTensor *tensor, gint64 n_rows, GError **error)
{
  WeftShape shape = *weft_tensor_get_shape (tensor);
  g_autoptr (WeftTensor) zeros = NULL;

  shape.dims[0] = n_rows - shape.dims[0];
  zeros = weft_tensor_new_constant (weft_tensor_get_dtype (tensor), shape.dims, shape.rank, 0, error);
  return zeros != NULL ? weft_tensor_concat ((WeftTensor *[]){ tensor, zeros }, 2, 0, error) : NULL;
}

/* The first @n_rows rows in the dtype of the model's parameter. */
static WeftTensor *
unpad_rows (WeftTensor *tensor, gint64 n_rows, WeftOpContext *context, GError **error)
{
  const gchar *full_name = weft_op_context_get_full_layer_name (context);
  WeftDtype dtype =
      full_name != NULL ? weft_op_context_get_parameter_dtype (context, full_name) : WEFT_DTYPE_INVALID;
  g_autoptr (WeftTensor) kept = weft_tensor_slice (tensor, 0, 0, n_rows, error);

  if (kept == NULL || dtype == WEFT_DTYPE_INVALID)
    return g_steal_pointer (&kept);
  return weft_tensor_cast (kept, dtype, error);
}

static WeftTensorGroups *
weft_inkling2_unpad_vocab_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                   WeftOpContext *context, GError **error)
{
  gboolean is_inverse = ((WeftInkling2UnpadVocab *) base)->inverse;
  const gchar *field = is_inverse ? "vocab_size" : "unpadded_vocab_size";
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftTensor) result = NULL;
  gint64 n_rows, n_found;

  if (tensor == NULL)
    return NULL;
  n_found = weft_tensor_get_rank (tensor) > 0 ? weft_tensor_get_dim (tensor, 0) : 0;
  if (!weft_op_context_lookup_text_config_int (context, field, &n_rows) || n_rows < 0
      || (is_inverse ? n_found > n_rows : n_found < n_rows))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%" G_GINT64_FORMAT " rows do not fit '%s' of the text model's config", n_found, field);
      return NULL;
    }
  result = is_inverse ? pad_rows (tensor, n_rows, error) : unpad_rows (tensor, n_rows, context, error);
  return result != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), result) : NULL;
}

static WeftConversionOpsBase *
weft_inkling2_unpad_vocab_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_inkling2_unpad_vocab_get_type (), "inverse",
                       !((WeftInkling2UnpadVocab *) base)->inverse, NULL);
}

static void
weft_inkling2_unpad_vocab_class_init (WeftInkling2UnpadVocabClass *klass)
{
  klass->parent_class.convert = weft_inkling2_unpad_vocab_convert;
  klass->parent_class.dup_inverse = weft_inkling2_unpad_vocab_dup_inverse;
  klass->parent_class.traits = WEFT_OP_TRAITS_DROPS_ZEROS;
  add_inverse (&klass->parent_class);
}

WEFT_PLUGIN_DEFINE (
    "inkling2", "Reads checkpoints of Inkling 2", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
    WEFT_PLUGIN_OP ("Inkling2LoopDequantizeExperts", WeftInkling2Dequantize, weft_inkling2_dequantize),
    WEFT_PLUGIN_OP ("Inkling2LoopMergeMessageQueries", WeftInkling2MergeQueries, weft_inkling2_merge_queries),
    WEFT_PLUGIN_OP ("Inkling2UnpadVocab", WeftInkling2UnpadVocab, weft_inkling2_unpad_vocab));
