/* SPDX-License-Identifier: Apache-2.0 */
/* Scales of FP8 linear layers as fused kernels want them: one row of F32, an element for each output feature. */
#include <string.h>

#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftFp8LinearScaleConvert;

typedef WeftFp8LinearScaleConvert WeftFp8LinearScaleRevert;

WEFT_DEFINE_OP (WeftFp8LinearScaleConvert, weft_fp8_linear_scale_convert)
WEFT_DEFINE_OP (WeftFp8LinearScaleRevert, weft_fp8_linear_scale_revert)

/* The shape of the weight that the scale belongs to, if that is FP8; NULL for other modules. */
static WeftShape *
find_weight (WeftOpContext *context)
{
  const gchar *name = weft_op_context_get_full_layer_name (context);
  const gchar *ending = name != NULL ? g_strrstr (name, "_scale") : NULL;
  g_autofree gchar *weight = ending != NULL ? g_strndup (name, (gsize) (ending - name)) : NULL;
  WeftDtype dtype =
      weight != NULL ? weft_op_context_get_parameter_dtype (context, weight) : WEFT_DTYPE_INVALID;

  return dtype == WEFT_DTYPE_F8_E4M3 || dtype == WEFT_DTYPE_F8_E5M2
             ? weft_op_context_get_parameter_shape (context, weight)
             : NULL;
}

/* One element becomes one for each row; a column becomes a row. */
static WeftTensor *
make_row (WeftTensor *scale, gint64 n_rows, GError **error)
{
  const gint64 row[] = { 1, n_rows };
  g_autoptr (WeftTensor) factors = weft_tensor_cast (scale, WEFT_DTYPE_F32, error);

  if (factors == NULL)
    return NULL;
  return weft_tensor_get_n_elements (scale) == 1 ? weft_tensor_broadcast_scalar (factors, row, 2, error)
                                                 : weft_tensor_reshape (factors, row, 2, error);
}

static WeftTensorGroups *
weft_fp8_linear_scale_convert_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                       WeftOpContext *context, GError **error)
{
  WeftTensor *scale = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftShape) weight = scale != NULL ? find_weight (context) : NULL;
  g_autoptr (WeftTensor) row = NULL;

  if (scale == NULL)
    return NULL;
  row = weight != NULL && weight->rank == 2 ? make_row (scale, weight->dims[0], error)
                                            : weft_tensor_ref (scale);
  return row != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), row) : NULL;
}

/* Whether the config says that there is one scale for all of a weight. */
static gboolean
is_per_tensor (WeftOpContext *context)
{
  g_autoptr (WeftQuantizationConfig) config =
      weft_quantization_config_new (weft_op_context_get_config (context));
  const gchar *strategy =
      weft_quantization_config_lookup_string (config, "config_groups.group_0.weights.strategy");

  return g_strcmp0 (strategy, "tensor") == 0;
}

static WeftTensorGroups *
weft_fp8_linear_scale_revert_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                      WeftOpContext *context, GError **error)
{
  WeftTensor *row = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftShape) weight = row != NULL ? find_weight (context) : NULL;
  g_autoptr (WeftTensor) scale = NULL;

  if (row == NULL)
    return NULL;
  if (weight == NULL || weft_tensor_get_rank (row) != 2)
    scale = weft_tensor_ref (row);
  else if (is_per_tensor (context))
    scale = weft_tensor_slice (row, 1, 0, 1, error);
  else
    scale = weft_tensor_transpose (row, 0, 1, error);
  return scale != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), scale) : NULL;
}

static WeftConversionOpsBase *
weft_fp8_linear_scale_convert_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_fp8_linear_scale_revert_get_type (), NULL);
}

static WeftConversionOpsBase *
weft_fp8_linear_scale_revert_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_fp8_linear_scale_convert_get_type (), NULL);
}

static void
weft_fp8_linear_scale_convert_class_init (WeftFp8LinearScaleConvertClass *klass)
{
  klass->parent_class.convert = weft_fp8_linear_scale_convert_convert;
  klass->parent_class.dup_inverse = weft_fp8_linear_scale_convert_dup_inverse;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

static void
weft_fp8_linear_scale_revert_class_init (WeftFp8LinearScaleRevertClass *klass)
{
  klass->parent_class.convert = weft_fp8_linear_scale_revert_convert;
  klass->parent_class.dup_inverse = weft_fp8_linear_scale_revert_dup_inverse;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

WEFT_PLUGIN_DEFINE ("fp8-linear-scale", "Scales of FP8 linear layers as rows", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("ConvertFP8LinearScale", WeftFp8LinearScaleConvert,
                                    weft_fp8_linear_scale_convert),
                    WEFT_PLUGIN_OP ("RevertFP8LinearScale", WeftFp8LinearScaleRevert,
                                    weft_fp8_linear_scale_revert));
