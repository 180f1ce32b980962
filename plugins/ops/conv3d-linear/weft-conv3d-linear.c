/* SPDX-License-Identifier: Apache-2.0 */
/* The weight of a patch convolution (out, in, time, height, width) as that of a linear layer, and back. With a kernel of two
 * extents the patches are of images: (out, in, height, width). */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 in_channels;
  GVariant *kernel_size;
} WeftConv3dLinear;

typedef WeftConv3dLinear WeftConv3dLinearInverse;

WEFT_DEFINE_OP (WeftConv3dLinear, weft_conv3d_linear)
WEFT_DEFINE_OP (WeftConv3dLinearInverse, weft_conv3d_linear_inverse)

static void
add_parameters (WeftConversionOpsBaseClass *klass)
{
  weft_op_class_add_int (klass, "in-channels", "Input channels", "Channels of an image", 1, G_MAXINT32, 3,
                         G_STRUCT_OFFSET (WeftConv3dLinear, in_channels));
  weft_op_class_set_parameter_flags (klass, "in-channels", WEFT_OP_PARAMETER_FLAGS_REQUIRED);
  weft_op_class_add_variant (klass, "kernel-size", "Kernel size",
                             "Time, height and width of a patch, or height and width; one number for a cube",
                             "ax", "[3]", G_STRUCT_OFFSET (WeftConv3dLinear, kernel_size));
}

/* The one output: @tensor with another shape. */
static WeftTensorGroups *
reshape (WeftTensor *tensor, WeftOpContext *context, const gint64 *dims, gsize n_dims, GError **error)
{
  const gchar *name = weft_op_get_output_name (context, error);
  g_autoptr (WeftTensor) reshaped = name != NULL ? weft_tensor_reshape (tensor, dims, n_dims, error) : NULL;

  return reshaped != NULL ? weft_op_new_output (name, reshaped) : NULL;
}

static WeftTensorGroups *
weft_conv3d_linear_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                            GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  guint n_axes = g_variant_n_children (((WeftConv3dLinear *) base)->kernel_size) == 2 ? 4 : 5;
  const WeftShape *shape;
  WeftShape patch = { 0 };
  gint64 n_inputs;

  if (tensor == NULL)
    return NULL;
  shape = weft_tensor_get_shape (tensor);
  if (shape->rank != 2 && shape->rank != n_axes)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "expected a weight with %u axes (or with 2, which is done already), found %u", n_axes,
                   shape->rank);
      return NULL;
    }
  if (!weft_shape_init (&patch, shape->dims + 1, shape->rank - 1, error)
      || !weft_shape_count_elements (&patch, &n_inputs, error))
    return NULL;
  return reshape (tensor, context, (const gint64[]){ shape->dims[0], n_inputs }, 2, error);
}

static WeftConversionOpsBase *
weft_conv3d_linear_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftConv3dLinear *self = (WeftConv3dLinear *) base;

  return g_object_new (weft_conv3d_linear_inverse_get_type (), "in-channels", self->in_channels,
                       "kernel-size", self->kernel_size, NULL);
}

static void
weft_conv3d_linear_class_init (WeftConv3dLinearClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_conv3d_linear_convert;
  base_class->dup_inverse = weft_conv3d_linear_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_parameters (base_class);
}

static WeftTensorGroups *
weft_conv3d_linear_inverse_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                    WeftOpContext *context, GError **error)
{
  WeftConv3dLinearInverse *self = (WeftConv3dLinearInverse *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  gsize n_sizes = 0;
  const gint64 *sizes = g_variant_get_fixed_array (self->kernel_size, &n_sizes, sizeof (gint64));

  if (tensor == NULL)
    return NULL;
  if (n_sizes < 1 || n_sizes > 3 || weft_tensor_get_rank (tensor) == 0)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "expected kernel_size as one number, [height, width] or [time, height, width] and a weight with axes, found %" G_GSIZE_FORMAT
          " numbers and %u axes",
          n_sizes, weft_tensor_get_rank (tensor));
      return NULL;
    }
  if (n_sizes == 2)
    return reshape (
        tensor, context,
        (const gint64[]){ weft_tensor_get_dim (tensor, 0), self->in_channels, sizes[0], sizes[1] }, 4, error);
  return reshape (tensor, context,
                  (const gint64[]){ weft_tensor_get_dim (tensor, 0), self->in_channels, sizes[0],
                                    sizes[n_sizes / 2], sizes[n_sizes - 1] },
                  5, error);
}

static WeftConversionOpsBase *
weft_conv3d_linear_inverse_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftConv3dLinearInverse *self = (WeftConv3dLinearInverse *) base;

  return g_object_new (weft_conv3d_linear_get_type (), "in-channels", self->in_channels, "kernel-size",
                       self->kernel_size, NULL);
}

static void
weft_conv3d_linear_inverse_class_init (WeftConv3dLinearInverseClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_conv3d_linear_inverse_convert;
  base_class->dup_inverse = weft_conv3d_linear_inverse_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_parameters (base_class);
}

WEFT_PLUGIN_DEFINE ("conv3d-linear", "Reads a patch convolution as a linear layer", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("Conv3dToLinear", WeftConv3dLinear, weft_conv3d_linear),
                    WEFT_PLUGIN_OP ("LinearToConv3d", WeftConv3dLinearInverse, weft_conv3d_linear_inverse));
