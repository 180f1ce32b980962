/* SPDX-License-Identifier: Apache-2.0 */
/* What a GGUF file holds otherwise than the checkpoint it was made from: norms plus one, logarithms, missing axes, rows
 * and columns in the order of another kernel, blocks of codes. One tensor in, one out; none has an inverse. */
#include "weft-gguf-blocks.h"

#include <math.h>

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gdouble offset;
} WeftGgufSubtractOne;

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftGgufLogNegate;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
  gint64 expected_ndim;
} WeftGgufUnsqueeze;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  GVariant *permutation;
  gint64 offset;
} WeftGgufPermuteRows;

typedef WeftGgufPermuteRows WeftGgufPermuteInputs;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 num_k_heads;
  gint64 heads_per_k;
  gint64 head_dim;
  gint64 offset;
} WeftGgufGroupRows;

typedef WeftGgufGroupRows WeftGgufGroupInputs;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  GVariant *types;
  WeftDtype dtype;
} WeftGgufDequantize;

typedef WeftGgufDequantize WeftGgufDequantizeTypes;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  WeftDtype dtype;
} WeftGgufCast;

WEFT_DEFINE_OP (WeftGgufSubtractOne, weft_gguf_subtract_one)
WEFT_DEFINE_OP (WeftGgufLogNegate, weft_gguf_log_negate)
WEFT_DEFINE_OP (WeftGgufUnsqueeze, weft_gguf_unsqueeze)
WEFT_DEFINE_OP (WeftGgufPermuteRows, weft_gguf_permute_rows)
WEFT_DEFINE_OP (WeftGgufPermuteInputs, weft_gguf_permute_inputs)
WEFT_DEFINE_OP (WeftGgufGroupRows, weft_gguf_group_rows)
WEFT_DEFINE_OP (WeftGgufGroupInputs, weft_gguf_group_inputs)
WEFT_DEFINE_OP (WeftGgufDequantize, weft_gguf_dequantize)
WEFT_DEFINE_OP (WeftGgufDequantizeTypes, weft_gguf_dequantize_types)
WEFT_DEFINE_OP (WeftGgufCast, weft_gguf_cast)

typedef WeftTensor *(*ApplyFunc) (gconstpointer self, WeftTensor *tensor, GError **error);

/* The one output: what @apply makes of the one input, under the first target's name. */
static WeftTensorGroups *
convert_tensor (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                ApplyFunc apply, GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftTensor) result = tensor != NULL ? apply (base, tensor, error) : NULL;

  return result != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), result) : NULL;
}

/* Packed blocks travel as bytes. */
static gboolean
is_packed (WeftTensor *tensor)
{
  return weft_tensor_get_dtype (tensor) == WEFT_DTYPE_U8;
}

static gboolean
check_floating (WeftTensor *tensor, GError **error)
{
  WeftDtype dtype = weft_tensor_get_dtype (tensor);

  if (weft_dtype_is_floating (dtype))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "expected a floating dtype, found %s: dequantise first",
               weft_dtype_get_name (dtype));
  return FALSE;
}

/* Three parts of an axis: before @offset, @length indices, the rest. */
static GPtrArray *
cut_out (WeftTensor *tensor, gint axis, gint64 offset, gint64 length, GError **error)
{
  gint64 n_rows;
  guint resolved;

  if (!weft_shape_resolve_axis (weft_tensor_get_shape (tensor), axis, &resolved, error))
    return NULL;
  n_rows = weft_tensor_get_dim (tensor, (gint) resolved);
  if (offset > n_rows || length > n_rows - offset)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%" G_GINT64_FORMAT " indices from %" G_GINT64_FORMAT
                   " on leave an axis of %" G_GINT64_FORMAT,
                   length, offset, n_rows);
      return NULL;
    }
  return weft_tensor_split (tensor, axis, (const gint64[]){ offset, length, n_rows - offset - length }, 3,
                            error);
}

/* The parts with @middle, which it takes, in place of the second. */
static WeftTensor *
put_back (GPtrArray *parts, WeftTensor *middle, gint axis, GError **error)
{
  weft_tensor_unref (parts->pdata[1]);
  parts->pdata[1] = middle;
  return weft_tensor_concat ((WeftTensor **) parts->pdata, parts->len, axis, error);
}

/* SubtractOne */

static WeftTensor *
subtract_one (gconstpointer self, WeftTensor *tensor, GError **error)
{
  return check_floating (tensor, error)
             ? weft_tensor_shift (tensor, -((const WeftGgufSubtractOne *) self)->offset, error)
             : NULL;
}

static WeftTensorGroups *
weft_gguf_subtract_one_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  return convert_tensor (base, inputs, context, subtract_one, error);
}

static void
weft_gguf_subtract_one_class_init (WeftGgufSubtractOneClass *klass)
{
  klass->parent_class.convert = weft_gguf_subtract_one_convert;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_double (&klass->parent_class, "offset", "Offset", "What is subtracted", -G_MAXFLOAT,
                            G_MAXFLOAT, 1, G_STRUCT_OFFSET (WeftGgufSubtractOne, offset));
}

/* LogNegate */

static gboolean
compute_log_negate (gconstpointer params, const WeftKernelView *output, const WeftKernelView *inputs,
                    guint n_inputs, gpointer scratch, GError **error)
{
  const gfloat *x = inputs[0].elements;
  gfloat *y = output->elements;

  for (gint64 i = 0; i < output->n_elements; i++)
    y[i] = logf (-x[i]);
  return TRUE;
}

static const WeftKernel log_negate_kernel = {
  .struct_size = sizeof (WeftKernel),
  .name = "LogNegate",
  .compute = compute_log_negate,
};

static WeftTensor *
log_negate (gconstpointer self, WeftTensor *tensor, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  g_autoptr (WeftTensor) wide =
      check_floating (tensor, error) ? weft_tensor_cast (tensor, WEFT_DTYPE_F32, error) : NULL;
  g_autoptr (WeftTensor) logarithm = NULL;

  if (wide != NULL)
    logarithm = weft_tensor_new_from_kernel (&log_negate_kernel, NULL, NULL, WEFT_DTYPE_F32, shape->dims,
                                             shape->rank, &wide, 1, error);
  return logarithm != NULL ? weft_tensor_cast (logarithm, weft_tensor_get_dtype (tensor), error) : NULL;
}

static WeftTensorGroups *
weft_gguf_log_negate_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                              GError **error)
{
  return convert_tensor (base, inputs, context, log_negate, error);
}

static void
weft_gguf_log_negate_class_init (WeftGgufLogNegateClass *klass)
{
  klass->parent_class.convert = weft_gguf_log_negate_convert;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

/* Unsqueeze */

static WeftTensor *
unsqueeze (gconstpointer base, WeftTensor *tensor, GError **error)
{
  const WeftGgufUnsqueeze *self = base;

  if (self->expected_ndim > 0 && weft_tensor_get_rank (tensor) >= self->expected_ndim)
    return weft_tensor_ref (tensor);
  return weft_tensor_unsqueeze (tensor, (gint) self->dim, error);
}

static WeftTensorGroups *
weft_gguf_unsqueeze_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                             GError **error)
{
  return convert_tensor (base, inputs, context, unsqueeze, error);
}

static void
weft_gguf_unsqueeze_class_init (WeftGgufUnsqueezeClass *klass)
{
  klass->parent_class.convert = weft_gguf_unsqueeze_convert;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (&klass->parent_class, "dim", "Axis", "Where the new axis stands", -WEFT_MAX_RANK,
                         WEFT_MAX_RANK - 1, 0, G_STRUCT_OFFSET (WeftGgufUnsqueeze, dim));
  weft_op_class_set_parameter_flags (&klass->parent_class, "dim", WEFT_OP_PARAMETER_FLAGS_REQUIRED);
  weft_op_class_add_int (&klass->parent_class, "expected-ndim", "Expected rank",
                         "Leave a tensor of this rank; 0 for none", 0, WEFT_MAX_RANK, 0,
                         G_STRUCT_OFFSET (WeftGgufUnsqueeze, expected_ndim));
}

/* PermuteRows, PermuteInputFeatures */

/* Whether @permutation holds each of its indices once. */
static gboolean
check_permutation (const gint64 *permutation, gsize length, GError **error)
{
  g_autofree gboolean *is_taken = g_new0 (gboolean, length);

  for (gsize i = 0; i < length; i++)
    {
      if (permutation[i] < 0 || permutation[i] >= (gint64) length || is_taken[permutation[i]])
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                       "permutation must hold each of 0 to %" G_GSIZE_FORMAT " once, found %" G_GINT64_FORMAT
                       " at %" G_GSIZE_FORMAT,
                       length - 1, permutation[i], i);
          return FALSE;
        }
      is_taken[permutation[i]] = TRUE;
    }
  return TRUE;
}

static WeftTensor *
permute_axis (const WeftGgufPermuteRows *self, WeftTensor *tensor, gint axis, GError **error)
{
  gsize length = 0;
  const gint64 *permutation = g_variant_get_fixed_array (self->permutation, &length, sizeof (gint64));
  g_autoptr (GPtrArray) parts = NULL;
  WeftTensor *permuted;

  if (!check_permutation (permutation, length, error)
      || (parts = cut_out (tensor, axis, self->offset, (gint64) length, error)) == NULL)
    return NULL;
  permuted = weft_tensor_select (parts->pdata[1], axis, permutation, length, error);
  return permuted != NULL ? put_back (parts, permuted, axis, error) : NULL;
}

static WeftTensor *
permute_rows (gconstpointer self, WeftTensor *tensor, GError **error)
{
  return permute_axis (self, tensor, 0, error);
}

static WeftTensor *
permute_inputs (gconstpointer self, WeftTensor *tensor, GError **error)
{
  return is_packed (tensor) ? weft_tensor_ref (tensor) : permute_axis (self, tensor, -1, error);
}

static WeftTensorGroups *
weft_gguf_permute_rows_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  return convert_tensor (base, inputs, context, permute_rows, error);
}

static WeftTensorGroups *
weft_gguf_permute_inputs_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                  WeftOpContext *context, GError **error)
{
  return convert_tensor (base, inputs, context, permute_inputs, error);
}

static void
add_permutation (WeftConversionOpsBaseClass *klass)
{
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_variant (klass, "permutation", "Permutation", "For each index the one it is taken from",
                             "ax", "[]", G_STRUCT_OFFSET (WeftGgufPermuteRows, permutation));
  weft_op_class_set_parameter_flags (klass, "permutation", WEFT_OP_PARAMETER_FLAGS_REQUIRED);
}

static void
weft_gguf_permute_rows_class_init (WeftGgufPermuteRowsClass *klass)
{
  klass->parent_class.convert = weft_gguf_permute_rows_convert;
  add_permutation (&klass->parent_class);
  weft_op_class_add_int (&klass->parent_class, "offset", "Offset", "First row that is permuted", 0,
                         G_MAXINT64, 0, G_STRUCT_OFFSET (WeftGgufPermuteRows, offset));
}

static void
weft_gguf_permute_inputs_class_init (WeftGgufPermuteInputsClass *klass)
{
  klass->parent_class.convert = weft_gguf_permute_inputs_convert;
  add_permutation (&klass->parent_class);
}

/* TiledToGroupedRows, TiledToGroupedInputs */

static WeftTensor *
group_rows (gconstpointer base, WeftTensor *tensor, GError **error)
{
  const WeftGgufGroupRows *self = base;
  gint64 n_tiled;
  g_autoptr (GPtrArray) parts = NULL;
  WeftTensor *grouped;

  if (__builtin_mul_overflow (self->num_k_heads * self->heads_per_k, self->head_dim, &n_tiled))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "num_k_heads, heads_per_k and head_dim are too large");
      return NULL;
    }
  parts = cut_out (tensor, 0, self->offset, n_tiled, error);
  if (parts == NULL)
    return NULL;
  grouped = weft_op_transpose_within_axis (parts->pdata[1], 0, 1, self->heads_per_k, self->num_k_heads,
                                           self->head_dim, error);
  return grouped != NULL ? put_back (parts, grouped, 0, error) : NULL;
}

/* The columns of packed rows are bytes: a head is as many of them as divide, whatever a head's size is in elements. */
static WeftTensor *
group_inputs (gconstpointer base, WeftTensor *tensor, GError **error)
{
  const WeftGgufGroupInputs *self = base;
  gint64 n_columns = weft_tensor_get_rank (tensor) > 0 ? weft_tensor_get_dim (tensor, -1) : 0;
  gint64 n_heads = self->num_k_heads * self->heads_per_k;
  gint64 run = is_packed (tensor) && n_columns % n_heads == 0 ? n_columns / n_heads : self->head_dim;

  return weft_op_transpose_within_axis (tensor, -1, 1, self->heads_per_k, self->num_k_heads, run, error);
}

static WeftTensorGroups *
weft_gguf_group_rows_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                              GError **error)
{
  return convert_tensor (base, inputs, context, group_rows, error);
}

static WeftTensorGroups *
weft_gguf_group_inputs_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  return convert_tensor (base, inputs, context, group_inputs, error);
}

static void
add_heads (WeftConversionOpsBaseClass *klass)
{
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (klass, "num-k-heads", "Key heads", "Number of key heads", 1, G_MAXINT32, 1,
                         G_STRUCT_OFFSET (WeftGgufGroupRows, num_k_heads));
  weft_op_class_set_parameter_flags (klass, "num-k-heads", WEFT_OP_PARAMETER_FLAGS_REQUIRED);
  weft_op_class_add_int (klass, "heads-per-k", "Value heads", "Value heads for each key head", 1, G_MAXINT32,
                         1, G_STRUCT_OFFSET (WeftGgufGroupRows, heads_per_k));
  weft_op_class_set_parameter_flags (klass, "heads-per-k", WEFT_OP_PARAMETER_FLAGS_REQUIRED);
  weft_op_class_add_int (klass, "head-dim", "Head size", "Indices of one head", 1, G_MAXINT32, 1,
                         G_STRUCT_OFFSET (WeftGgufGroupRows, head_dim));
}

static void
weft_gguf_group_rows_class_init (WeftGgufGroupRowsClass *klass)
{
  klass->parent_class.convert = weft_gguf_group_rows_convert;
  add_heads (&klass->parent_class);
  weft_op_class_add_int (&klass->parent_class, "offset", "Offset", "First row that is reordered", 0,
                         G_MAXINT64, 0, G_STRUCT_OFFSET (WeftGgufGroupRows, offset));
}

static void
weft_gguf_group_inputs_class_init (WeftGgufGroupInputsClass *klass)
{
  klass->parent_class.convert = weft_gguf_group_inputs_convert;
  add_heads (&klass->parent_class);
}

/* GgufDequantize, and Dequantize, which calls its parameter `types` */

/* The block type of a tensor of that name; NULL without an error if none is given. */
static const WeftGgufBlockType *
lookup_block_type (const WeftGgufDequantize *self, const gchar *full_name, GError **error)
{
  g_autoptr (GVariant) value =
      full_name != NULL ? g_variant_lookup_value (self->types, full_name, NULL) : NULL;
  const WeftGgufBlockType *type = NULL;
  g_autofree gchar *text = NULL;

  if (value == NULL)
    return NULL;
  if (g_variant_is_of_type (value, G_VARIANT_TYPE_INT64))
    type = weft_gguf_block_type_from_number (g_variant_get_int64 (value));
  else if (g_variant_is_of_type (value, G_VARIANT_TYPE_STRING))
    type = weft_gguf_block_type_from_name (g_variant_get_string (value, NULL));
  if (type != NULL)
    return type;
  text = g_variant_print (value, FALSE);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "'%s' has block type %s, which is not known: expected a name such as 'Q8_0', or its number",
               full_name, text);
  return NULL;
}

static WeftTensorGroups *
copy_groups (WeftTensorGroups *inputs)
{
  WeftTensorGroups *outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    weft_op_copy_group (outputs, weft_tensor_groups_get_name (inputs, i), inputs, i);
  return outputs;
}

static WeftTensorGroups *
weft_gguf_dequantize_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                              GError **error)
{
  WeftGgufDequantize *self = (WeftGgufDequantize *) base;
  const gchar *full_name = weft_op_context_get_full_layer_name (context);
  g_autoptr (GError) local_error = NULL;
  const WeftGgufBlockType *type = lookup_block_type (self, full_name, &local_error);
  WeftTensor *rows = NULL;
  g_autoptr (WeftTensor) values = NULL;

  if (type == NULL && local_error == NULL)
    return copy_groups (inputs);
  if (type != NULL)
    rows = weft_op_get_only_tensor (inputs, &local_error);
  if (rows != NULL)
    values = weft_gguf_blocks_dequantize (rows, type, self->dtype, &local_error);
  if (values != NULL)
    return weft_op_new_output (full_name, values);
  g_propagate_error (error, g_steal_pointer (&local_error));
  return NULL;
}

static void
add_dequantize_parameters (WeftConversionOpsBaseClass *klass, const gchar *types)
{
  klass->convert = weft_gguf_dequantize_convert;
  klass->traits = WEFT_OP_TRAITS_NEEDS_VALUES;
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_variant (
      klass, types, "Block types",
      "Full name of a tensor -> its block type, a name or the number in files; others pass", "a{sv}", "{}",
      G_STRUCT_OFFSET (WeftGgufDequantize, types));
  weft_op_class_set_parameter_flags (klass, types, WEFT_OP_PARAMETER_FLAGS_REQUIRED);
  weft_op_class_add_dtype (klass, "dtype", "Dtype", "Dtype of the output", WEFT_DTYPE_F32,
                           G_STRUCT_OFFSET (WeftGgufDequantize, dtype));
}

static void
weft_gguf_dequantize_class_init (WeftGgufDequantizeClass *klass)
{
  add_dequantize_parameters (&klass->parent_class, "ggml-types");
}

static void
weft_gguf_dequantize_types_class_init (WeftGgufDequantizeTypesClass *klass)
{
  add_dequantize_parameters (&klass->parent_class, "types");
}

/* Cast */

static WeftTensorGroups *
weft_gguf_cast_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                        GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *full_name = weft_op_context_get_full_layer_name (context);
  g_autoptr (WeftTensor) cast = NULL;

  if (tensor == NULL)
    return NULL;
  cast = is_packed (tensor) ? weft_tensor_ref (tensor)
                            : weft_tensor_cast (tensor, ((WeftGgufCast *) base)->dtype, error);
  if (cast == NULL)
    return NULL;
  return weft_op_new_output (full_name != NULL ? full_name : weft_op_context_get_target_pattern (context, 0),
                             cast);
}

static void
weft_gguf_cast_class_init (WeftGgufCastClass *klass)
{
  klass->parent_class.convert = weft_gguf_cast_convert;
  klass->parent_class.traits = WEFT_OP_TRAITS_NEEDS_VALUES;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_dtype (&klass->parent_class, "dtype", "Dtype",
                           "Dtype of the output; packed blocks are left alone", WEFT_DTYPE_INVALID,
                           G_STRUCT_OFFSET (WeftGgufCast, dtype));
  weft_op_class_set_parameter_flags (&klass->parent_class, "dtype", WEFT_OP_PARAMETER_FLAGS_REQUIRED);
}

WEFT_PLUGIN_DEFINE ("gguf", "Undoes what a GGUF file changed in the tensors of a checkpoint", NULL,
                    PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("SubtractOne", WeftGgufSubtractOne, weft_gguf_subtract_one),
                    WEFT_PLUGIN_OP ("LogNegate", WeftGgufLogNegate, weft_gguf_log_negate),
                    WEFT_PLUGIN_OP ("Unsqueeze", WeftGgufUnsqueeze, weft_gguf_unsqueeze),
                    WEFT_PLUGIN_OP ("PermuteRows", WeftGgufPermuteRows, weft_gguf_permute_rows),
                    WEFT_PLUGIN_OP ("PermuteInputFeatures", WeftGgufPermuteInputs, weft_gguf_permute_inputs),
                    WEFT_PLUGIN_OP ("TiledToGroupedRows", WeftGgufGroupRows, weft_gguf_group_rows),
                    WEFT_PLUGIN_OP ("TiledToGroupedInputs", WeftGgufGroupInputs, weft_gguf_group_inputs),
                    WEFT_PLUGIN_OP ("GgufDequantize", WeftGgufDequantize, weft_gguf_dequantize),
                    WEFT_PLUGIN_OP ("Dequantize", WeftGgufDequantizeTypes, weft_gguf_dequantize_types),
                    WEFT_PLUGIN_OP ("Cast", WeftGgufCast, weft_gguf_cast));
