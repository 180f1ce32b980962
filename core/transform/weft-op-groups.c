/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-op-groups.h"

#include <string.h>

/**
 * weft_op_get_tensor:
 * @inputs: inputs of an op
 * @group: position of a group
 * @error: return location
 *
 * Returns: (transfer none): the one tensor of that group, be it a list or not
 * Errors: %WEFT_ERROR_ARGUMENT if the group is a list of none or of several: no tensor is dropped silently
 * Since: 1.0
 */
WeftTensor *
weft_op_get_tensor (WeftTensorGroups *inputs, guint group, GError **error)
{
  guint n_tensors = weft_tensor_groups_get_n_tensors (inputs, group);

  if (n_tensors == 1)
    return weft_tensor_groups_get_tensor (inputs, group, 0);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "expected one tensor for '%s', found a list of %u",
               weft_tensor_groups_get_name (inputs, group), n_tensors);
  return NULL;
}

/**
 * weft_op_get_only_tensor:
 * @inputs: inputs of an op
 * @error: return location
 *
 * Returns: (transfer none): the one tensor that is there
 * Errors: %WEFT_ERROR_ARGUMENT if there is not exactly one
 * Since: 1.0
 */
WeftTensor *
weft_op_get_only_tensor (WeftTensorGroups *inputs, GError **error)
{
  guint n_groups = weft_tensor_groups_get_n_groups (inputs);

  if (n_groups == 1)
    return weft_op_get_tensor (inputs, 0, error);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "expected tensors of one pattern, found %u", n_groups);
  return NULL;
}

/**
 * weft_op_find_source:
 * @inputs: inputs of an op
 * @context: the op's context
 * @source_pattern: position of a source pattern
 * @group: (out): position of the group that was collected for it
 * @error: return location
 *
 * Returns: whether there is one
 * Errors: %WEFT_ERROR_MISSING if there is none; the message names the pattern and what is there
 * Since: 1.0
 */
gboolean
weft_op_find_source (WeftTensorGroups *inputs, WeftOpContext *context, guint source_pattern, guint *group, GError **error)
{
  const gchar *pattern = weft_op_context_get_source_pattern (context, source_pattern);
  g_autoptr (GString) found = NULL;

  if (weft_tensor_groups_find (inputs, pattern, group))
    return TRUE;
  found = g_string_new (NULL);
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    g_string_append_printf (found, "%s'%s'", i > 0 ? ", " : "", weft_tensor_groups_get_name (inputs, i));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "no tensor was found for the source pattern '%s', only for %s", pattern,
               found->len > 0 ? found->str : "none");
  return FALSE;
}

/**
 * weft_op_get_only_target:
 * @context: the op's context
 * @error: return location
 *
 * Returns: (transfer none): the converter's one target pattern
 * Errors: %WEFT_ERROR_ARGUMENT if it has several
 * Since: 1.0
 */
const gchar *
weft_op_get_only_target (WeftOpContext *context, GError **error)
{
  guint n_targets = weft_op_context_get_n_target_patterns (context);

  if (n_targets == 1)
    return weft_op_context_get_target_pattern (context, 0);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "expected one target pattern, found %u", n_targets);
  return NULL;
}

/**
 * weft_op_get_output_name:
 * @context: the op's context
 * @error: return location
 *
 * The name of the output of an op that makes one tensor out of one: the target pattern if there is one, otherwise the
 * source pattern, so that a later op of the chain can split it.
 *
 * Returns: (transfer none): the name
 * Errors: %WEFT_ERROR_ARGUMENT if the converter has several sources and several targets
 * Since: 1.0
 */
const gchar *
weft_op_get_output_name (WeftOpContext *context, GError **error)
{
  guint n_sources = weft_op_context_get_n_source_patterns (context);
  guint n_targets = weft_op_context_get_n_target_patterns (context);

  if (n_targets == 1)
    return weft_op_context_get_target_pattern (context, 0);
  if (n_sources == 1)
    return weft_op_context_get_source_pattern (context, 0);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "expected one target pattern or one source pattern, found %u sources and %u targets", n_sources, n_targets);
  return NULL;
}

/**
 * weft_op_expand_star:
 * @pattern: a pattern
 * @number: a number, such as that of an expert
 *
 * Returns: (transfer full): @pattern with @number in place of every `*`
 * Since: 1.0
 */
gchar *
weft_op_expand_star (const gchar *pattern, guint number)
{
  GString *name = g_string_new (NULL);

  for (const gchar *c = pattern; *c != '\0'; c++)
    if (*c == '*')
      g_string_append_printf (name, "%u", number);
    else
      g_string_append_c (name, *c);
  return g_string_free (name, FALSE);
}

/**
 * weft_op_add_output:
 * @outputs: outputs of an op
 * @name: name of one more
 * @tensor: the tensor
 * @error: return location
 *
 * Returns: whether it was added
 * Errors: %WEFT_ERROR_CONFLICT if there is an output with that name
 * Since: 1.0
 */
gboolean
weft_op_add_output (WeftTensorGroups *outputs, const gchar *name, WeftTensor *tensor, GError **error)
{
  guint group;

  if (weft_tensor_groups_find (outputs, name, &group))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT, "two outputs have the name '%s': a target pattern needs a '*'", name);
      return FALSE;
    }
  weft_tensor_groups_set (outputs, name, tensor);
  return TRUE;
}
