/* SPDX-License-Identifier: Apache-2.0 */
/* Another chain of ops for converters that stand in a list already, as weights that a mapping was not written for need it. */
#include <string.h>

#include "transform/weft-transform-list.h"
#include "transform/weft-weight-converter.h"

/**
 * weft_transform_list_set_operations:
 * @self: a list
 * @position: position of a converter
 * @operations: (element-type WeftConversionOps): its new chain of ops
 * @error: return location
 *
 * Exchanges a converter for one with the same patterns, scope and origin, and another chain.
 *
 * Returns: whether the chain goes with the patterns
 * Errors: %WEFT_ERROR_PATTERN if it does not, %WEFT_ERROR_ARGUMENT if the rule is no converter
 * Since: 1.0
 */
gboolean
weft_transform_list_set_operations (WeftTransformList *self, guint position, GPtrArray *operations,
                                    GError **error)
{
  g_autoptr (WeftWeightTransform) edited = NULL;

  if (position >= weft_transform_list_get_n_transforms (self)
      || !weft_transform_list_is_converter (self, position))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "rule %u of the list is no converter", position);
      return FALSE;
    }
  edited = weft_weight_converter_dup_with_operations (
      WEFT_WEIGHT_CONVERTER (weft_transform_list_get_transform (self, position)), operations, error);
  if (edited == NULL)
    return FALSE;
  weft_transform_list_remove (self, position);
  weft_transform_list_insert (self, position, edited);
  return TRUE;
}

/* The chain of a converter, for changes. NULL if the rule is none. */
static GPtrArray *
copy_chain (WeftTransformList *self, guint position)
{
  GPtrArray *operations;
  GPtrArray *chain;

  if (!weft_transform_list_is_converter (self, position))
    return NULL;
  operations = weft_weight_converter_get_operations (
      WEFT_WEIGHT_CONVERTER (weft_transform_list_get_transform (self, position)));
  chain = g_ptr_array_new_with_free_func (g_object_unref);
  for (guint i = 0; i < operations->len; i++)
    g_ptr_array_add (chain, g_object_ref (operations->pdata[i]));
  return chain;
}

/**
 * weft_transform_list_append_operation:
 * @self: a list
 * @operation: an op
 * @error: return location
 *
 * Appends an op to the chain of every converter.
 *
 * Returns: whether it goes with all of them
 * Errors: %WEFT_ERROR_PATTERN if it does not
 * Since: 1.0
 */
gboolean
weft_transform_list_append_operation (WeftTransformList *self, WeftConversionOps *operation, GError **error)
{
  for (guint i = 0; i < weft_transform_list_get_n_transforms (self); i++)
    {
      g_autoptr (GPtrArray) chain = copy_chain (self, i);

      if (chain == NULL)
        continue;
      g_ptr_array_add (chain, g_object_ref (operation));
      if (!weft_transform_list_set_operations (self, i, chain, error))
        return FALSE;
    }
  return TRUE;
}

/* Whether an op of that name was in the chain; each is exchanged, or taken out. */
static gboolean
exchange (GPtrArray *chain, const gchar *name, WeftConversionOps *operation)
{
  gboolean has_changed = FALSE;

  for (guint i = chain->len; i > 0; i--)
    if (strcmp (weft_conversion_ops_get_name (chain->pdata[i - 1]), name) == 0)
      {
        g_ptr_array_remove_index (chain, i - 1);
        if (operation != NULL)
          g_ptr_array_insert (chain, (gint) i - 1, g_object_ref (operation));
        has_changed = TRUE;
      }
  return has_changed;
}

/**
 * weft_transform_list_replace_operation:
 * @self: a list
 * @name: the name of an op, such as `Concatenate`
 * @operation: (nullable): what stands in its place; %NULL takes it out
 * @error: return location
 *
 * Exchanges an op for another in all chains that have it.
 *
 * Returns: whether there was one, and @operation goes with all of its converters
 * Errors: %WEFT_ERROR_MISSING if no chain has such an op, %WEFT_ERROR_PATTERN if the other one does not go with a converter
 * Since: 1.0
 */
gboolean
weft_transform_list_replace_operation (WeftTransformList *self, const gchar *name,
                                       WeftConversionOps *operation, GError **error)
{
  gboolean is_there = FALSE;

  for (guint i = 0; i < weft_transform_list_get_n_transforms (self); i++)
    {
      g_autoptr (GPtrArray) chain = copy_chain (self, i);

      if (chain == NULL || !exchange (chain, name, operation))
        continue;
      if (!weft_transform_list_set_operations (self, i, chain, error))
        return FALSE;
      is_there = TRUE;
    }
  if (!is_there)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "no converter of the list has an op '%s'", name);
  return is_there;
}
