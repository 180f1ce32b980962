/* SPDX-License-Identifier: Apache-2.0 */
/* Ops whose inverse gives the right shape and the wrong elements, and one that is right. */
#include <string.h>

#include "weft.h"

/* Moves the first @n_rows rows behind the others. */
static WeftTensorGroups *
rotate (WeftTensorGroups *inputs, WeftOpContext *context, gint64 n_rows, GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *name = tensor != NULL ? weft_op_get_output_name (context, error) : NULL;
  g_autoptr (WeftTensor) head = name != NULL ? weft_tensor_slice (tensor, 0, 0, n_rows, error) : NULL;
  g_autoptr (WeftTensor) tail =
      head != NULL ? weft_tensor_slice (tensor, 0, n_rows, weft_tensor_get_dim (tensor, 0) - n_rows, error)
                   : NULL;
  g_autoptr (WeftTensor) rotated =
      tail != NULL ? weft_tensor_concat ((WeftTensor *[]){ tail, head }, 2, 0, error) : NULL;

  return rotated != NULL ? weft_op_new_output (name, rotated) : NULL;
}

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftWrongInverseRotate;

WEFT_DEFINE_OP (WeftWrongInverseRotate, weft_wrong_inverse_rotate)

static WeftTensorGroups *
weft_wrong_inverse_rotate_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                   WeftOpContext *context, GError **error)
{
  return rotate (inputs, context, 1, error);
}

/* Wrong: it rotates the same way. */
static WeftConversionOpsBase *
weft_wrong_inverse_rotate_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_wrong_inverse_rotate_get_type (), NULL);
}

static void
weft_wrong_inverse_rotate_class_init (WeftWrongInverseRotateClass *klass)
{
  klass->parent_class.convert = weft_wrong_inverse_rotate_convert;
  klass->parent_class.dup_inverse = weft_wrong_inverse_rotate_dup_inverse;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gboolean inverse;
} WeftWrongInverseTurn;

WEFT_DEFINE_OP (WeftWrongInverseTurn, weft_wrong_inverse_turn)

static WeftTensorGroups *
weft_wrong_inverse_turn_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                 WeftOpContext *context, GError **error)
{
  WeftWrongInverseTurn *self = (WeftWrongInverseTurn *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *name = tensor != NULL ? weft_op_get_output_name (context, error) : NULL;
  g_autoptr (WeftTensor) turned = NULL;

  if (name == NULL)
    return NULL;
  /* Wrong: the inverse forgets to turn back, which a square tensor hides. */
  turned = self->inverse ? weft_tensor_ref (tensor) : weft_tensor_transpose (tensor, 0, 1, error);
  return turned != NULL ? weft_op_new_output (name, turned) : NULL;
}

static WeftConversionOpsBase *
weft_wrong_inverse_turn_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_wrong_inverse_turn_get_type (), "inverse",
                       !((WeftWrongInverseTurn *) base)->inverse, NULL);
}

static void
weft_wrong_inverse_turn_class_init (WeftWrongInverseTurnClass *klass)
{
  klass->parent_class.convert = weft_wrong_inverse_turn_convert;
  klass->parent_class.dup_inverse = weft_wrong_inverse_turn_dup_inverse;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_boolean (&klass->parent_class, "inverse", "Inverse", "Go back", FALSE,
                             G_STRUCT_OFFSET (WeftWrongInverseTurn, inverse));
}

typedef struct
{
  WeftConversionOpsBase parent_instance;
} WeftWrongInverseSwap;

WEFT_DEFINE_OP (WeftWrongInverseSwap, weft_wrong_inverse_swap)

static WeftTensorGroups *
weft_wrong_inverse_swap_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                 WeftOpContext *context, GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);

  return tensor != NULL ? rotate (inputs, context, weft_tensor_get_dim (tensor, 0) / 2, error) : NULL;
}

/* Right where the rows are even in number. */
static WeftConversionOpsBase *
weft_wrong_inverse_swap_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_wrong_inverse_swap_get_type (), NULL);
}

static void
weft_wrong_inverse_swap_class_init (WeftWrongInverseSwapClass *klass)
{
  klass->parent_class.convert = weft_wrong_inverse_swap_convert;
  klass->parent_class.dup_inverse = weft_wrong_inverse_swap_dup_inverse;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
}

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gboolean inverse;
} WeftWrongInverseLayer;

WEFT_DEFINE_OP (WeftWrongInverseLayer, weft_wrong_inverse_layer)

/* Swaps halves. Wrong: the way back leaves layer 2 out. */
static WeftTensorGroups *
weft_wrong_inverse_layer_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                  WeftOpContext *context, GError **error)
{
  gboolean is_inverse = ((WeftWrongInverseLayer *) base)->inverse;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  gboolean is_left_out = is_inverse && strstr (weft_op_context_get_full_layer_name (context), ".2.") != NULL;

  if (tensor == NULL)
    return NULL;
  return rotate (inputs, context, is_left_out ? 0 : weft_tensor_get_dim (tensor, 0) / 2, error);
}

static WeftConversionOpsBase *
weft_wrong_inverse_layer_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_wrong_inverse_layer_get_type (), "inverse",
                       !((WeftWrongInverseLayer *) base)->inverse, NULL);
}

static void
weft_wrong_inverse_layer_class_init (WeftWrongInverseLayerClass *klass)
{
  klass->parent_class.convert = weft_wrong_inverse_layer_convert;
  klass->parent_class.dup_inverse = weft_wrong_inverse_layer_dup_inverse;
  klass->parent_class.thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_boolean (&klass->parent_class, "inverse", "Inverse", "Go back", FALSE,
                             G_STRUCT_OFFSET (WeftWrongInverseLayer, inverse));
}

WEFT_PLUGIN_DEFINE ("wrong-inverse", "Ops with a wrong inverse", NULL, "1", "Apache-2.0", "tests",
                    WEFT_PLUGIN_OP ("RotateRows", WeftWrongInverseRotate, weft_wrong_inverse_rotate),
                    WEFT_PLUGIN_OP ("TurnSquare", WeftWrongInverseTurn, weft_wrong_inverse_turn),
                    WEFT_PLUGIN_OP ("SwapHalves", WeftWrongInverseSwap, weft_wrong_inverse_swap),
                    WEFT_PLUGIN_OP ("SwapInLayers", WeftWrongInverseLayer, weft_wrong_inverse_layer));
