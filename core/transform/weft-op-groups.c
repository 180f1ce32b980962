/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-op-groups.h"

#include "base/weft-text.h"

/* An op that cuts a tensor in more parts than this was given a header or a config that is wrong. */
#define MAX_PARTS 65536

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
weft_op_find_source (WeftTensorGroups *inputs, WeftOpContext *context, guint source_pattern, guint *group,
                     GError **error)
{
  const gchar *pattern = weft_op_context_get_source_pattern (context, source_pattern);
  g_autoptr (GString) found = NULL;

  if (weft_tensor_groups_find (inputs, pattern, group))
    return TRUE;
  found = g_string_new (NULL);
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    g_string_append_printf (found, "%s'%s'", i > 0 ? ", " : "", weft_tensor_groups_get_name (inputs, i));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
               "no tensor was found for the source pattern '%s', only for %s", pattern,
               found->len > 0 ? found->str : "none");
  return FALSE;
}

/**
 * weft_op_transpose_within_axis:
 * @tensor: a tensor
 * @axis: an axis, of `n_blocks * n_rows * n_columns * run` indices
 * @n_blocks: how many blocks follow one another
 * @n_rows: rows of a block as it is read
 * @n_columns: columns of a block as it is read
 * @run: indices that stay together
 * @error: return location
 *
 * Reads the axis as (block, row, column, index of run) and writes it as (block, column, row, index of run). With 6
 * indices, 1 block, 3 rows, 2 columns and run 1 the result is made of the indices 0 2 4 1 3 5.
 *
 * Returns: (transfer full): a tensor of the same shape
 * Errors: %WEFT_ERROR_SHAPE if the axis is of another size
 * Since: 1.0
 */
WeftTensor *
weft_op_transpose_within_axis (WeftTensor *tensor, gint axis, gint64 n_blocks, gint64 n_rows,
                               gint64 n_columns, gint64 run, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  static const gint swap[] = { 0, 1, 3, 2, 4 };
  gint64 outer = 1, inner = 1, expected;
  guint resolved;
  g_autoptr (WeftTensor) split = NULL;
  g_autoptr (WeftTensor) swapped = NULL;

  if (!weft_shape_resolve_axis (shape, axis, &resolved, error))
    return NULL;
  if (n_blocks < 0 || n_rows < 0 || n_columns < 0 || run < 0
      || __builtin_mul_overflow (n_blocks, n_rows, &expected)
      || __builtin_mul_overflow (expected, n_columns, &expected)
      || __builtin_mul_overflow (expected, run, &expected) || expected != shape->dims[resolved])
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "axis %u has %" G_GINT64_FORMAT " indices, expected %" G_GINT64_FORMAT
                   " x %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT " x %" G_GINT64_FORMAT,
                   resolved, shape->dims[resolved], n_blocks, n_rows, n_columns, run);
      return NULL;
    }
  /* Nothing to move, and extents beside a zero may multiply to anything. */
  if (weft_tensor_get_n_elements (tensor) == 0)
    return weft_tensor_ref (tensor);
  for (guint i = 0; i < resolved; i++)
    outer *= shape->dims[i];
  for (guint i = resolved + 1; i < shape->rank; i++)
    inner *= shape->dims[i];
  split = weft_tensor_reshape (
      tensor, (const gint64[]){ outer * n_blocks, 1, n_rows, n_columns, run * inner }, 5, error);
  swapped = split != NULL ? weft_tensor_permute (split, swap, G_N_ELEMENTS (swap), error) : NULL;
  return swapped != NULL ? weft_tensor_reshape (swapped, shape->dims, shape->rank, error) : NULL;
}

/**
 * weft_op_split_evenly:
 * @tensor: a tensor
 * @axis: axis to cut
 * @n_parts: how many parts
 * @error: return location
 *
 * Returns: (transfer container) (element-type WeftTensor): parts of equal size, in order
 * Errors: %WEFT_ERROR_SHAPE if the axis does not divide; %WEFT_ERROR_LIMIT for more than 65,536 parts
 * Since: 1.0
 */
GPtrArray *
weft_op_split_evenly (WeftTensor *tensor, gint axis, gint64 n_parts, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  g_autofree gint64 *lengths = NULL;
  guint resolved;

  if (!weft_shape_resolve_axis (shape, axis, &resolved, error))
    return NULL;
  if (n_parts > MAX_PARTS)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "%" G_GINT64_FORMAT " parts are above the limit of %d", n_parts, MAX_PARTS);
      return NULL;
    }
  if (n_parts < 1 || shape->dims[resolved] % n_parts != 0)
    {
      g_autofree gchar *text = weft_shape_to_string (shape);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%s cannot be cut in %" G_GINT64_FORMAT " equal parts on axis %u: %" G_GINT64_FORMAT
                   " does not divide",
                   text, n_parts, resolved, shape->dims[resolved]);
      return NULL;
    }
  lengths = g_new (gint64, n_parts);
  for (gint64 i = 0; i < n_parts; i++)
    lengths[i] = shape->dims[resolved] / n_parts;
  return weft_tensor_split (tensor, axis, lengths, (gsize) n_parts, error);
}

/**
 * weft_op_unstack:
 * @tensor: a tensor
 * @axis: axis that counts modules, such as experts
 * @error: return location
 *
 * Returns: (transfer container) (element-type WeftTensor): one tensor of rank r - 1 for each index of @axis, at least one
 * Errors: %WEFT_ERROR_SHAPE if there is no such axis or it is empty; %WEFT_ERROR_LIMIT for more than 65,536 parts
 * Since: 1.0
 */
GPtrArray *
weft_op_unstack (WeftTensor *tensor, gint axis, GError **error)
{
  guint resolved;
  gint64 n_parts;

  if (!weft_shape_resolve_axis (weft_tensor_get_shape (tensor), axis, &resolved, error))
    return NULL;
  n_parts = weft_tensor_get_dim (tensor, (gint) resolved);
  if (n_parts < 1 || n_parts > MAX_PARTS)
    {
      g_set_error (error, WEFT_ERROR, n_parts < 1 ? WEFT_ERROR_SHAPE : WEFT_ERROR_LIMIT,
                   "axis %u counts %" G_GINT64_FORMAT " modules, expected 1 to %d", resolved, n_parts,
                   MAX_PARTS);
      return NULL;
    }
  return weft_tensor_unstack (tensor, axis, error);
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
               "expected one target pattern or one source pattern, found %u sources and %u targets",
               n_sources, n_targets);
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
  return weft_text_number_pattern (pattern, number);
}

/**
 * weft_op_new_output:
 * @name: name of the output
 * @tensor: the tensor
 *
 * Returns: (transfer full): the outputs of an op that makes one tensor
 * Since: 1.0
 */
WeftTensorGroups *
weft_op_new_output (const gchar *name, WeftTensor *tensor)
{
  WeftTensorGroups *outputs = weft_tensor_groups_new ();

  weft_tensor_groups_set (outputs, name, tensor);
  return outputs;
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
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "two outputs have the name '%s': a target pattern needs a '*'", name);
      return FALSE;
    }
  weft_tensor_groups_set (outputs, name, tensor);
  return TRUE;
}

/**
 * weft_op_copy_group:
 * @outputs: outputs of an op
 * @name: name of one more
 * @inputs: inputs of an op
 * @group: position of the group that goes there unchanged, be it a list or not
 *
 * Since: 1.0
 */
void
weft_op_copy_group (WeftTensorGroups *outputs, const gchar *name, WeftTensorGroups *inputs, guint group)
{
  if (!weft_tensor_groups_is_list (inputs, group))
    {
      weft_tensor_groups_set (outputs, name, weft_tensor_groups_get_tensor (inputs, group, 0));
      return;
    }
  weft_tensor_groups_append_list (outputs, name);
  for (guint i = 0; i < weft_tensor_groups_get_n_tensors (inputs, group); i++)
    weft_tensor_groups_append (outputs, name, weft_tensor_groups_get_tensor (inputs, group, i),
                               weft_tensor_groups_get_origin (inputs, group, i));
}
