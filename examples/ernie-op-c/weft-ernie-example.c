/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of Ernie 4.5 VL. The checkpoint has one numbered list for each projection, text experts first, then vision
 * experts; the runtime wants one tensor for each of the two, the projections joined. */
#include <weft.h>

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 stack_dim;
  gint64 concat_dim;
} WeftErnieExampleFuse;

typedef WeftErnieExampleFuse WeftErnieExampleSplit;

WEFT_DEFINE_OP (WeftErnieExampleFuse, weft_ernie_example_fuse)
WEFT_DEFINE_OP (WeftErnieExampleSplit, weft_ernie_example_split)

/* The share of target @target of every list: experts stacked, then the projections joined. */
static WeftTensor *
fuse (WeftErnieExampleFuse *self, WeftTensorGroups *inputs, WeftOpContext *context, guint target,
      GError **error)
{
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  g_autoptr (GPtrArray) projections = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  for (guint i = 0; i < weft_op_context_get_n_source_patterns (context); i++)
    {
      g_autoptr (GPtrArray) experts = g_ptr_array_new ();
      WeftTensor *stacked;
      guint group, n_experts;

      if (!weft_op_find_source (inputs, context, i, &group, error))
        return NULL;
      n_experts = weft_tensor_groups_get_n_tensors (inputs, group);
      if (n_experts == 0 || n_experts % n_targets != 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "'%s' has %u experts, expected a multiple of %u",
                       weft_tensor_groups_get_name (inputs, group), n_experts, n_targets);
          return NULL;
        }
      for (guint j = 0; j < n_experts / n_targets; j++)
        g_ptr_array_add (experts,
                         weft_tensor_groups_get_tensor (inputs, group, target * (n_experts / n_targets) + j));
      stacked =
          weft_tensor_stack ((WeftTensor **) experts->pdata, experts->len, (gint) self->stack_dim, error);
      if (stacked == NULL)
        return NULL;
      g_ptr_array_add (projections, stacked);
    }
  return weft_tensor_concat ((WeftTensor **) projections->pdata, projections->len, (gint) self->concat_dim,
                             error);
}

static WeftTensorGroups *
weft_ernie_example_fuse_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                 WeftOpContext *context, GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_op_context_get_n_target_patterns (context); i++)
    {
      g_autoptr (WeftTensor) fused = fuse ((WeftErnieExampleFuse *) base, inputs, context, i, error);

      if (fused == NULL
          || !weft_op_add_output (outputs, weft_op_context_get_target_pattern (context, i), fused, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

/* Adds the experts that source @source has for projection @target, numbered from *@number on. */
static gboolean
split (WeftErnieExampleSplit *self, WeftTensor *source, WeftOpContext *context, guint target, guint *number,
       WeftTensorGroups *outputs, GError **error)
{
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  g_autoptr (GPtrArray) projections =
      weft_op_split_evenly (source, (gint) self->concat_dim, n_targets, error);
  g_autoptr (GPtrArray) experts = NULL;

  if (projections == NULL)
    return FALSE;
  experts = weft_op_unstack (projections->pdata[target], (gint) self->stack_dim, error);
  for (guint i = 0; experts != NULL && i < experts->len; i++)
    {
      g_autofree gchar *name =
          weft_op_expand_star (weft_op_context_get_target_pattern (context, target), (*number)++);

      if (!weft_op_add_output (outputs, name, experts->pdata[i], error))
        return FALSE;
    }
  return experts != NULL;
}

static WeftTensorGroups *
weft_ernie_example_split_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                  WeftOpContext *context, GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_op_context_get_n_target_patterns (context); i++)
    {
      guint number = 0;

      for (guint j = 0; j < weft_op_context_get_n_source_patterns (context); j++)
        {
          guint group;
          WeftTensor *source = NULL;

          if (weft_op_find_source (inputs, context, j, &group, error))
            source = weft_op_get_tensor (inputs, group, error);
          if (source == NULL
              || !split ((WeftErnieExampleSplit *) base, source, context, i, &number, outputs, error))
            return NULL;
        }
    }
  return g_steal_pointer (&outputs);
}

/* The two classes: what they share, then their slots. */

static WeftConversionOpsBase *
invert (WeftErnieExampleFuse *self, GType type)
{
  return g_object_new (type, "stack-dim", self->stack_dim, "concat-dim", self->concat_dim, NULL);
}

static WeftConversionOpsBase *
weft_ernie_example_fuse_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return invert ((WeftErnieExampleFuse *) base, weft_ernie_example_split_get_type ());
}

static WeftConversionOpsBase *
weft_ernie_example_split_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return invert ((WeftErnieExampleSplit *) base, weft_ernie_example_fuse_get_type ());
}

static void
declare (WeftConversionOpsBaseClass *klass, WeftOpTraits traits)
{
  klass->traits = WEFT_OP_TRAITS_MANY_TO_MANY | traits;
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (klass, "stack-dim", "Axis of the experts", "Axis that a list of experts becomes",
                         -WEFT_MAX_RANK, WEFT_MAX_RANK - 1, 0,
                         G_STRUCT_OFFSET (WeftErnieExampleFuse, stack_dim));
  weft_op_class_add_int (klass, "concat-dim", "Axis of the join", "Axis on which projections are joined",
                         -WEFT_MAX_RANK, WEFT_MAX_RANK - 1, 1,
                         G_STRUCT_OFFSET (WeftErnieExampleFuse, concat_dim));
}

static void
weft_ernie_example_fuse_class_init (WeftErnieExampleFuseClass *klass)
{
  klass->parent_class.convert = weft_ernie_example_fuse_convert;
  klass->parent_class.dup_inverse = weft_ernie_example_fuse_dup_inverse;
  declare (&klass->parent_class, WEFT_OP_TRAITS_STACKS_LIST);
}

static void
weft_ernie_example_split_class_init (WeftErnieExampleSplitClass *klass)
{
  klass->parent_class.convert = weft_ernie_example_split_convert;
  klass->parent_class.dup_inverse = weft_ernie_example_split_dup_inverse;
  declare (&klass->parent_class, WEFT_OP_TRAITS_EXPANDS_STAR);
}

WEFT_PLUGIN_DEFINE ("ernie-example", "Fuses the experts of Ernie 4.5 VL, from outside the tree", NULL, "1.0",
                    "Apache-2.0", "examples/ernie-op-c of Weft",
                    WEFT_PLUGIN_OP ("ErnieFuseAndSplitTextVisionExperts", WeftErnieExampleFuse,
                                    weft_ernie_example_fuse),
                    WEFT_PLUGIN_OP ("ErnieSplitAndDecoupleTextVisionExperts", WeftErnieExampleSplit,
                                    weft_ernie_example_split));
