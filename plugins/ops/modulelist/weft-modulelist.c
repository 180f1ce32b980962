/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a list of modules, such as experts, as one tensor with an axis of its own, and back. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
} WeftModulelistMerge;

typedef WeftModulelistMerge WeftModulelistSplit;

WEFT_DEFINE_OP (WeftModulelistMerge, weft_modulelist_merge)
WEFT_DEFINE_OP (WeftModulelistSplit, weft_modulelist_split)

/* One entry takes the target's name; several keep theirs, for a later op of the chain to join. */
static const gchar *
get_name (WeftTensorGroups *inputs, guint group, WeftOpContext *context, GError **error)
{
  if (weft_tensor_groups_get_n_groups (inputs) == 1)
    return weft_op_get_only_target (context, error);
  return weft_tensor_groups_get_name (inputs, group);
}

static WeftTensor *
stack_group (WeftTensorGroups *inputs, guint group, gint dim, GError **error)
{
  g_autoptr (GPtrArray) tensors = g_ptr_array_new ();

  if (!weft_tensor_groups_is_list (inputs, group))
    return weft_tensor_ref (weft_tensor_groups_get_tensor (inputs, group, 0));
  for (guint i = 0; i < weft_tensor_groups_get_n_tensors (inputs, group); i++)
    g_ptr_array_add (tensors, weft_tensor_groups_get_tensor (inputs, group, i));
  if (tensors->len == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "no tensor was collected for '%s'",
                   weft_tensor_groups_get_name (inputs, group));
      return NULL;
    }
  return weft_tensor_stack ((WeftTensor **) tensors->pdata, tensors->len, dim, error);
}

static WeftTensorGroups *
weft_modulelist_merge_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                               GError **error)
{
  WeftModulelistMerge *self = (WeftModulelistMerge *) base;
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      const gchar *name = get_name (inputs, i, context, error);
      g_autoptr (WeftTensor) stacked = name != NULL ? stack_group (inputs, i, (gint) self->dim, error) : NULL;

      if (stacked == NULL || !weft_op_add_output (outputs, name, stacked, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftConversionOpsBase *
weft_modulelist_merge_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_modulelist_split_get_type (), "dim", ((WeftModulelistMerge *) base)->dim, NULL);
}

static void
weft_modulelist_merge_class_init (WeftModulelistMergeClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_modulelist_merge_convert;
  base_class->dup_inverse = weft_modulelist_merge_dup_inverse;
  base_class->traits = WEFT_OP_TRAITS_STACKS_LIST;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (base_class, "dim", "Axis", "Axis that the list becomes", -WEFT_MAX_RANK,
                         WEFT_MAX_RANK - 1, 0, G_STRUCT_OFFSET (WeftModulelistMerge, dim));
}

/* Adds one output for each index of @axis, which is removed. */
static gboolean
unstack_group (WeftTensorGroups *outputs, const gchar *pattern, WeftTensor *tensor, gint axis, GError **error)
{
  g_autoptr (GPtrArray) modules = weft_op_unstack (tensor, axis, error);

  for (guint i = 0; modules != NULL && i < modules->len; i++)
    {
      g_autofree gchar *name = weft_op_expand_star (pattern, i);

      if (!weft_op_add_output (outputs, name, modules->pdata[i], error))
        return FALSE;
    }
  return modules != NULL;
}

static WeftTensorGroups *
weft_modulelist_split_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                               GError **error)
{
  WeftModulelistSplit *self = (WeftModulelistSplit *) base;
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      const gchar *pattern = get_name (inputs, i, context, error);
      WeftTensor *tensor = pattern != NULL ? weft_op_get_tensor (inputs, i, error) : NULL;

      if (tensor == NULL || !unstack_group (outputs, pattern, tensor, (gint) self->dim, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftConversionOpsBase *
weft_modulelist_split_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_modulelist_merge_get_type (), "dim", ((WeftModulelistSplit *) base)->dim, NULL);
}

static void
weft_modulelist_split_class_init (WeftModulelistSplitClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_modulelist_split_convert;
  base_class->dup_inverse = weft_modulelist_split_dup_inverse;
  base_class->traits = WEFT_OP_TRAITS_EXPANDS_STAR;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (base_class, "dim", "Axis", "Axis that becomes the list", -WEFT_MAX_RANK,
                         WEFT_MAX_RANK - 1, 0, G_STRUCT_OFFSET (WeftModulelistSplit, dim));
}

WEFT_PLUGIN_DEFINE ("modulelist", "Stacks the tensors of a list of modules and takes them apart", NULL,
                    PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("MergeModulelist", WeftModulelistMerge, weft_modulelist_merge),
                    WEFT_PLUGIN_OP ("SplitModulelist", WeftModulelistSplit, weft_modulelist_split));
