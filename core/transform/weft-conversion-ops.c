/* SPDX-License-Identifier: Apache-2.0 */
/* The runner of ops: checks what goes in and what comes out, and puts the op's name before every error. */
#include "transform/weft-conversion-ops.h"

#include "plugin/weft-plugin-registry.h"
#include "transform/weft-op-parameters-private.h"

G_DEFINE_INTERFACE (WeftConversionOps, weft_conversion_ops, G_TYPE_OBJECT)

static void
weft_conversion_ops_default_init (WeftConversionOpsInterface *iface)
{
}

/* The base class: its slots stand behind those of the interface. */

static WeftTensorGroups *
base_convert (WeftConversionOps *op, WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  WeftConversionOpsBase *self = WEFT_CONVERSION_OPS_BASE (op);
  WeftConversionOpsBaseClass *klass = WEFT_CONVERSION_OPS_BASE_GET_CLASS (self);

  if (klass->convert == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "class '%s' has no convert",
                   G_OBJECT_TYPE_NAME (self));
      return NULL;
    }
  return klass->convert (self, inputs, context, error);
}

static WeftConversionOps *
base_dup_inverse (WeftConversionOps *op, GError **error)
{
  WeftConversionOpsBase *self = WEFT_CONVERSION_OPS_BASE (op);
  WeftConversionOpsBaseClass *klass = WEFT_CONVERSION_OPS_BASE_GET_CLASS (self);

  if (klass->dup_inverse == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE, "this op has no inverse");
      return NULL;
    }
  return (WeftConversionOps *) klass->dup_inverse (self, error);
}

static WeftOpTraits
base_get_traits (WeftConversionOps *op)
{
  WeftConversionOpsBaseClass *klass = WEFT_CONVERSION_OPS_BASE_GET_CLASS (op);

  return klass->get_traits != NULL ? klass->get_traits (WEFT_CONVERSION_OPS_BASE (op)) : klass->traits;
}

static WeftThreadPolicy
base_get_thread_policy (WeftConversionOps *op)
{
  return WEFT_CONVERSION_OPS_BASE_GET_CLASS (op)->thread_policy;
}

static void
weft_conversion_ops_base_iface_init (WeftConversionOpsInterface *iface)
{
  iface->convert = base_convert;
  iface->dup_inverse = base_dup_inverse;
  iface->get_traits = base_get_traits;
  iface->get_thread_policy = base_get_thread_policy;
}

G_DEFINE_ABSTRACT_TYPE_WITH_CODE (WeftConversionOpsBase, weft_conversion_ops_base, G_TYPE_OBJECT,
                                  G_IMPLEMENT_INTERFACE (WEFT_TYPE_CONVERSION_OPS,
                                                         weft_conversion_ops_base_iface_init))

static void
weft_conversion_ops_base_finalize (GObject *object)
{
  weft_op_parameters_clear (object);
  G_OBJECT_CLASS (weft_conversion_ops_base_parent_class)->finalize (object);
}

static void
weft_conversion_ops_base_class_init (WeftConversionOpsBaseClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_conversion_ops_base_finalize;
}

static void
weft_conversion_ops_base_init (WeftConversionOpsBase *self)
{
}

/**
 * weft_conversion_ops_base_class_set_traits:
 * @klass: class of an op
 * @traits: what it may do
 *
 * Since: 1.0
 */
void
weft_conversion_ops_base_class_set_traits (WeftConversionOpsBaseClass *klass, WeftOpTraits traits)
{
  klass->traits = traits;
}

/**
 * weft_conversion_ops_base_class_set_thread_policy:
 * @klass: class of an op
 * @policy: where its functions may be called
 *
 * Since: 1.0
 */
void
weft_conversion_ops_base_class_set_thread_policy (WeftConversionOpsBaseClass *klass, WeftThreadPolicy policy)
{
  klass->thread_policy = policy;
}

/* The runners. */

/* `plugin/op: `, which every error of an op begins with. */
static gchar *
make_prefix (WeftConversionOps *self)
{
  const gchar *plugin_id = weft_feature_get_plugin_id (G_OBJECT_TYPE (self));

  if (plugin_id == NULL)
    return g_strdup (G_OBJECT_TYPE_NAME (self));
  return g_strdup_printf ("%s/%s", plugin_id, weft_conversion_ops_get_name (self));
}

/* An op that fails must say why, and one that says why must fail. Takes @local_error. */
static gboolean
check_result (WeftConversionOps *self, const gchar *slot, gpointer result, GError *local_error,
              GError **error)
{
  g_autofree gchar *prefix = make_prefix (self);

  if (local_error == NULL && result != NULL)
    return TRUE;
  if (local_error == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s returned NULL without an error",
                 prefix, slot);
  else if (result == NULL)
    g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", prefix);
  else
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s returned a result and the error '%s'",
                 prefix, slot, local_error->message);
  g_clear_error (&local_error);
  return FALSE;
}

/* The first broken promise of @outputs as a sentence, or NULL. */
static gchar *
find_fault (WeftTensorGroups *outputs)
{
  guint n_groups = weft_tensor_groups_get_n_groups (outputs);

  if (n_groups == 0)
    return g_strdup ("convert made no output");
  for (guint i = 0; i < n_groups; i++)
    {
      const gchar *name = weft_tensor_groups_get_name (outputs, i);

      if (name == NULL || name[0] == '\0')
        return g_strdup_printf ("output %u of convert has no name", i);
    }
  return NULL;
}

/**
 * weft_conversion_ops_convert:
 * @self: an op
 * @inputs: named groups of lazy tensors
 * @context: what the op may ask about the conversion
 * @error: return location
 *
 * Runs the op. No element is read.
 *
 * Returns: (transfer full): named lazy tensors
 * Errors: those of the op, after `plugin/op: `; %WEFT_ERROR_PLUGIN_CONTRACT if it fails without an error, makes nothing,
 *   or makes outputs without a name
 * Since: 1.0
 */
WeftTensorGroups *
weft_conversion_ops_convert (WeftConversionOps *self, WeftTensorGroups *inputs, WeftOpContext *context,
                             GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = NULL;
  g_autofree gchar *fault = NULL;
  GError *local_error = NULL;

  g_return_val_if_fail (WEFT_IS_CONVERSION_OPS (self), NULL);
  g_return_val_if_fail (WEFT_IS_TENSOR_GROUPS (inputs), NULL);
  g_return_val_if_fail (WEFT_IS_OP_CONTEXT (context), NULL);
  g_return_val_if_fail (weft_op_context_get_n_target_patterns (context) > 0, NULL);
  outputs = WEFT_CONVERSION_OPS_GET_IFACE (self)->convert (self, inputs, context, &local_error);
  if (!check_result (self, "convert", outputs, local_error, error))
    return NULL;
  fault = find_fault (outputs);
  if (fault != NULL)
    {
      g_autofree gchar *prefix = make_prefix (self);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: %s", prefix, fault);
      return NULL;
    }
  return g_steal_pointer (&outputs);
}

/**
 * weft_conversion_ops_dup_inverse:
 * @self: an op
 * @error: return location
 *
 * Returns: (transfer full): a new op that undoes @self
 * Errors: %WEFT_ERROR_NOT_REVERSIBLE if there is none
 * Since: 1.0
 */
WeftConversionOps *
weft_conversion_ops_dup_inverse (WeftConversionOps *self, GError **error)
{
  g_autoptr (WeftConversionOps) inverse = NULL;
  GError *local_error = NULL;

  g_return_val_if_fail (WEFT_IS_CONVERSION_OPS (self), NULL);
  inverse = WEFT_CONVERSION_OPS_GET_IFACE (self)->dup_inverse (self, &local_error);
  if (!check_result (self, "dup_inverse", inverse, local_error, error))
    return NULL;
  return g_steal_pointer (&inverse);
}

/**
 * weft_conversion_ops_get_traits:
 * @self: an op
 *
 * Returns: what its class may do
 * Since: 1.0
 */
WeftOpTraits
weft_conversion_ops_get_traits (WeftConversionOps *self)
{
  g_return_val_if_fail (WEFT_IS_CONVERSION_OPS (self), WEFT_OP_TRAITS_NONE);
  return WEFT_CONVERSION_OPS_GET_IFACE (self)->get_traits (self);
}

/**
 * weft_conversion_ops_get_thread_policy:
 * @self: an op
 *
 * Returns: where its functions may be called
 * Since: 1.0
 */
WeftThreadPolicy
weft_conversion_ops_get_thread_policy (WeftConversionOps *self)
{
  g_return_val_if_fail (WEFT_IS_CONVERSION_OPS (self), WEFT_THREAD_POLICY_OWNER);
  return WEFT_CONVERSION_OPS_GET_IFACE (self)->get_thread_policy (self);
}

/**
 * weft_conversion_ops_get_name:
 * @self: an op
 *
 * Returns: the name under which it is registered; the name of its GType if it is not
 * Since: 1.0
 */
const gchar *
weft_conversion_ops_get_name (WeftConversionOps *self)
{
  const gchar *name;

  g_return_val_if_fail (WEFT_IS_CONVERSION_OPS (self), NULL);
  name = weft_feature_get_name (G_OBJECT_TYPE (self));
  return name != NULL ? name : G_OBJECT_TYPE_NAME (self);
}

/* Chains. */

/* The context of the ops behind one that takes companions in: without the source patterns that it consumed. */
static WeftOpContext *
drop_consumed_sources (WeftOpContext *context, WeftTensorGroups *inputs, WeftTensorGroups *outputs)
{
  g_autoptr (GPtrArray) left = g_ptr_array_new ();
  guint n_sources = weft_op_context_get_n_source_patterns (context);

  for (guint i = 0; i < n_sources; i++)
    {
      const gchar *pattern = weft_op_context_get_source_pattern (context, i);
      guint group;

      if (!weft_tensor_groups_find (inputs, pattern, &group)
          || weft_tensor_groups_find (outputs, pattern, &group))
        g_ptr_array_add (left, (gpointer) pattern);
    }
  g_ptr_array_add (left, NULL);
  return weft_op_context_new_with_sources (context, (const gchar *const *) left->pdata);
}

/**
 * weft_op_chain_convert:
 * @ops: (element-type WeftConversionOps): ops in the order they run
 * @inputs: named groups of lazy tensors
 * @context: what the ops may ask about the conversion
 * @error: return location
 *
 * Runs ops one after the other on the same patterns, as a converter does.
 *
 * Returns: (transfer full): the outputs of the last op; @inputs if there is none
 * Errors: those of weft_conversion_ops_convert()
 * Since: 1.0
 */
WeftTensorGroups *
weft_op_chain_convert (GPtrArray *ops, WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  g_autoptr (WeftTensorGroups) groups = g_object_ref (inputs);
  g_autoptr (WeftOpContext) rest = g_object_ref (context);

  for (guint i = 0; i < ops->len; i++)
    {
      WeftConversionOps *op = ops->pdata[i];
      g_autoptr (WeftTensorGroups) outputs = weft_conversion_ops_convert (op, groups, rest, error);

      if (outputs == NULL)
        return NULL;
      if ((weft_conversion_ops_get_traits (op) & WEFT_OP_TRAITS_CONSUMES_COMPANIONS) != 0)
        {
          g_autoptr (WeftOpContext) next = drop_consumed_sources (rest, groups, outputs);

          g_set_object (&rest, next);
        }
      g_set_object (&groups, outputs);
    }
  return g_steal_pointer (&groups);
}

/**
 * weft_op_chain_dup_inverse:
 * @ops: (element-type WeftConversionOps): ops in the order they run
 * @error: return location
 *
 * Returns: (transfer container) (element-type WeftConversionOps): the inverse of each op, last op first
 * Errors: %WEFT_ERROR_NOT_REVERSIBLE if one has none
 * Since: 1.0
 */
GPtrArray *
weft_op_chain_dup_inverse (GPtrArray *ops, GError **error)
{
  g_autoptr (GPtrArray) inverses = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = ops->len; i-- > 0;)
    {
      WeftConversionOps *inverse = weft_conversion_ops_dup_inverse (ops->pdata[i], error);

      if (inverse == NULL)
        return NULL;
      g_ptr_array_add (inverses, inverse);
    }
  return g_steal_pointer (&inverses);
}
