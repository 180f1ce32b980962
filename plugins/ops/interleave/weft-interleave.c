/* SPDX-License-Identifier: Apache-2.0 */
/* Even indices of an axis first, then the odd ones; the inverse zips the two halves. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
  gboolean inverse;
} WeftInterleave;

WEFT_DEFINE_OP (WeftInterleave, weft_interleave)

static WeftTensorGroups *
weft_interleave_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                         GError **error)
{
  WeftInterleave *self = (WeftInterleave *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftTensor) woven = NULL;
  gint64 half;
  guint axis;

  if (tensor == NULL
      || !weft_shape_resolve_axis (weft_tensor_get_shape (tensor), (gint) self->dim, &axis, error))
    return NULL;
  half = weft_tensor_get_dim (tensor, (gint) axis) / 2;
  woven = weft_op_transpose_within_axis (tensor, (gint) axis, 1, self->inverse ? 2 : half,
                                         self->inverse ? half : 2, 1, error);
  /* Where there are several targets a later op of the chain cuts the result. */
  return woven != NULL ? weft_op_new_output (weft_op_context_get_target_pattern (context, 0), woven) : NULL;
}

static WeftConversionOpsBase *
weft_interleave_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftInterleave *self = (WeftInterleave *) base;

  return g_object_new (weft_interleave_get_type (), "dim", self->dim, "inverse", !self->inverse, NULL);
}

static void
weft_interleave_class_init (WeftInterleaveClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_interleave_convert;
  base_class->dup_inverse = weft_interleave_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (base_class, "dim", "Axis", "Axis to reorder", -WEFT_MAX_RANK, WEFT_MAX_RANK - 1, 0,
                         G_STRUCT_OFFSET (WeftInterleave, dim));
  weft_op_class_add_boolean (base_class, "inverse", "Inverse", "Zip the halves instead", FALSE,
                             G_STRUCT_OFFSET (WeftInterleave, inverse));
}

WEFT_PLUGIN_DEFINE ("interleave", "Separates even and odd indices, or zips them", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("Interleave", WeftInterleave, weft_interleave));
