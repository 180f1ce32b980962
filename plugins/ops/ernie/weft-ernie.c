/* SPDX-License-Identifier: Apache-2.0 */
/* The experts of Ernie 4.5 VL: one numbered list in the checkpoint, text experts first, then vision experts; in the
 * runtime one tensor for each of the two, gate and up joined. Several sources make several targets. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 stack_dim;
  gint64 concat_dim;
} WeftErnieFuse;

typedef WeftErnieFuse WeftErnieSplit;

WEFT_DEFINE_OP (WeftErnieFuse, weft_ernie_fuse)
WEFT_DEFINE_OP (WeftErnieSplit, weft_ernie_split)

/* Fuse */

/* The experts of run @run of @n_runs of a list, stacked. */
static WeftTensor *
stack_run (WeftTensorGroups *inputs, guint group, guint run, guint n_runs, gint stack_dim, GError **error)
{
  guint n_experts = weft_tensor_groups_get_n_tensors (inputs, group);
  g_autoptr (GPtrArray) experts = g_ptr_array_new ();

  if (n_experts == 0 || n_experts % n_runs != 0)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_SHAPE,
          "%u experts of '%s' do not divide by %u targets: the cut would fall inside the experts of one",
          n_experts, weft_tensor_groups_get_name (inputs, group), n_runs);
      return NULL;
    }
  for (guint i = 0; i < n_experts / n_runs; i++)
    g_ptr_array_add (experts, weft_tensor_groups_get_tensor (inputs, group, run * (n_experts / n_runs) + i));
  return weft_tensor_stack ((WeftTensor **) experts->pdata, experts->len, stack_dim, error);
}

static WeftTensor *
fuse_run (WeftErnieFuse *self, WeftTensorGroups *inputs, WeftOpContext *context, guint run, GError **error)
{
  guint n_runs = weft_op_context_get_n_target_patterns (context);
  g_autoptr (GPtrArray) stacks = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  for (guint i = 0; i < weft_op_context_get_n_source_patterns (context); i++)
    {
      guint group;
      WeftTensor *stack = NULL;

      if (weft_op_find_source (inputs, context, i, &group, error))
        stack = stack_run (inputs, group, run, n_runs, (gint) self->stack_dim, error);
      if (stack == NULL)
        return NULL;
      g_ptr_array_add (stacks, stack);
    }
  return weft_tensor_concat ((WeftTensor **) stacks->pdata, stacks->len, (gint) self->concat_dim, error);
}

static WeftTensorGroups *
weft_ernie_fuse_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                         GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_op_context_get_n_target_patterns (context); i++)
    {
      g_autoptr (WeftTensor) fused = fuse_run ((WeftErnieFuse *) base, inputs, context, i, error);

      if (fused == NULL
          || !weft_op_add_output (outputs, weft_op_context_get_target_pattern (context, i), fused, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

/* Split */

/* Adds the experts that part @target of each source holds, numbered through all sources. */
static gboolean
add_experts (WeftErnieSplit *self, GPtrArray *sources, const gchar *pattern, guint target, guint n_targets,
             WeftTensorGroups *outputs, GError **error)
{
  guint number = 0;

  for (guint i = 0; i < sources->len; i++)
    {
      g_autoptr (GPtrArray) parts =
          weft_op_split_evenly (sources->pdata[i], (gint) self->concat_dim, n_targets, error);
      g_autoptr (GPtrArray) experts =
          parts != NULL ? weft_op_unstack (parts->pdata[target], (gint) self->stack_dim, error) : NULL;

      for (guint j = 0; experts != NULL && j < experts->len; j++)
        {
          g_autofree gchar *name = weft_op_expand_star (pattern, number++);

          if (!weft_op_add_output (outputs, name, experts->pdata[j], error))
            return FALSE;
        }
      if (experts == NULL)
        return FALSE;
    }
  return TRUE;
}

static WeftTensorGroups *
weft_ernie_split_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                          GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();
  g_autoptr (GPtrArray) sources = g_ptr_array_new ();
  guint n_targets = weft_op_context_get_n_target_patterns (context);

  for (guint i = 0; i < weft_op_context_get_n_source_patterns (context); i++)
    {
      guint group;
      WeftTensor *source = weft_op_find_source (inputs, context, i, &group, error)
                               ? weft_op_get_tensor (inputs, group, error)
                               : NULL;

      if (source == NULL)
        return NULL;
      g_ptr_array_add (sources, source);
    }
  for (guint i = 0; i < n_targets; i++)
    if (!add_experts ((WeftErnieSplit *) base, sources, weft_op_context_get_target_pattern (context, i), i,
                      n_targets, outputs, error))
      return NULL;
  return g_steal_pointer (&outputs);
}

/* Classes */

static WeftConversionOpsBase *
invert (WeftConversionOpsBase *base, GType type)
{
  WeftErnieFuse *self = (WeftErnieFuse *) base;

  return g_object_new (type, "stack-dim", self->stack_dim, "concat-dim", self->concat_dim, NULL);
}

static WeftConversionOpsBase *
weft_ernie_fuse_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return invert (base, weft_ernie_split_get_type ());
}

static WeftConversionOpsBase *
weft_ernie_split_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return invert (base, weft_ernie_fuse_get_type ());
}

static void
add_parameters (WeftConversionOpsBaseClass *klass)
{
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (klass, "stack-dim", "Axis of the experts", "Axis that the list of experts becomes",
                         -WEFT_MAX_RANK, WEFT_MAX_RANK - 1, 0, G_STRUCT_OFFSET (WeftErnieFuse, stack_dim));
  weft_op_class_add_int (klass, "concat-dim", "Axis of the join", "Axis on which gate and up are joined",
                         -WEFT_MAX_RANK, WEFT_MAX_RANK - 1, 1, G_STRUCT_OFFSET (WeftErnieFuse, concat_dim));
}

static void
weft_ernie_fuse_class_init (WeftErnieFuseClass *klass)
{
  klass->parent_class.convert = weft_ernie_fuse_convert;
  klass->parent_class.dup_inverse = weft_ernie_fuse_dup_inverse;
  klass->parent_class.traits = WEFT_OP_TRAITS_MANY_TO_MANY | WEFT_OP_TRAITS_STACKS_LIST;
  add_parameters (&klass->parent_class);
}

static void
weft_ernie_split_class_init (WeftErnieSplitClass *klass)
{
  klass->parent_class.convert = weft_ernie_split_convert;
  klass->parent_class.dup_inverse = weft_ernie_split_dup_inverse;
  klass->parent_class.traits = WEFT_OP_TRAITS_MANY_TO_MANY | WEFT_OP_TRAITS_EXPANDS_STAR;
  add_parameters (&klass->parent_class);
}

WEFT_PLUGIN_DEFINE ("ernie", "Fuses text and vision experts of Ernie 4.5 VL and takes them apart", NULL,
                    PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("ErnieFuseAndSplitTextVisionExperts", WeftErnieFuse, weft_ernie_fuse),
                    WEFT_PLUGIN_OP ("ErnieSplitAndDecoupleTextVisionExperts", WeftErnieSplit,
                                    weft_ernie_split));
