/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges two axes. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim0;
  gint64 dim1;
  gboolean check_dims;
} WeftTranspose;

WEFT_DEFINE_OP (WeftTranspose, weft_transpose)

/* Whether the tensor has the shape of the model's parameter already. */
static gboolean
compare_with_parameter (WeftTensor *tensor, WeftOpContext *context, gboolean *is_equal, GError **error)
{
  const gchar *name = weft_op_context_get_full_layer_name (context);
  g_autoptr (WeftShape) shape = name != NULL ? weft_op_context_get_parameter_shape (context, name) : NULL;

  if (shape == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "check_dims needs the shape of the model's parameter '%s', which is not known",
                   name != NULL ? name : "");
      return FALSE;
    }
  *is_equal = weft_shape_equal (shape, weft_tensor_get_shape (tensor));
  return TRUE;
}

static WeftTensorGroups *
weft_transpose_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                        GError **error)
{
  WeftTranspose *self = (WeftTranspose *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *name = tensor != NULL ? weft_op_get_output_name (context, error) : NULL;
  g_autoptr (WeftTensor) transposed = NULL;
  gboolean is_equal = FALSE;

  if (name == NULL || (self->check_dims && !compare_with_parameter (tensor, context, &is_equal, error)))
    return NULL;
  if (is_equal)
    transposed = weft_tensor_ref (tensor);
  else
    transposed = weft_tensor_transpose (tensor, (gint) self->dim0, (gint) self->dim1, error);
  return transposed != NULL ? weft_op_new_output (name, transposed) : NULL;
}

static WeftConversionOpsBase *
weft_transpose_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftTranspose *self = (WeftTranspose *) base;

  return g_object_new (weft_transpose_get_type (), "dim0", self->dim1, "dim1", self->dim0, "check-dims",
                       self->check_dims, NULL);
}

static void
weft_transpose_class_init (WeftTransposeClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_transpose_convert;
  base_class->dup_inverse = weft_transpose_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (base_class, "dim0", "First axis", "One of the axes to exchange", -WEFT_MAX_RANK,
                         WEFT_MAX_RANK - 1, 0, G_STRUCT_OFFSET (WeftTranspose, dim0));
  weft_op_class_add_int (base_class, "dim1", "Second axis", "The other axis", -WEFT_MAX_RANK,
                         WEFT_MAX_RANK - 1, 1, G_STRUCT_OFFSET (WeftTranspose, dim1));
  weft_op_class_add_boolean (base_class, "check-dims", "Check shape",
                             "Leave a tensor that has the shape of the model's parameter", FALSE,
                             G_STRUCT_OFFSET (WeftTranspose, check_dims));
}

WEFT_PLUGIN_DEFINE ("transpose", "Exchanges two axes", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("Transpose", WeftTranspose, weft_transpose));
