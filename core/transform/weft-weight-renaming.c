/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-weight-renaming.h"

#include "transform/weft-weight-transform-base-private.h"

G_DEFINE_TYPE (WeftWeightRenaming, weft_weight_renaming, WEFT_TYPE_WEIGHT_TRANSFORM_BASE)

static void
weft_weight_renaming_init (WeftWeightRenaming *self)
{
}

static gboolean
weft_weight_renaming_prepare (WeftWeightTransformBase *base, GError **error)
{
  if (!WEFT_WEIGHT_TRANSFORM_BASE_CLASS (weft_weight_renaming_parent_class)->prepare (base, error))
    return FALSE;
  if (weft_weight_transform_get_regex (WEFT_WEIGHT_TRANSFORM (base)) == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "a rule of this kind needs source_patterns and target_patterns; write both");
      return FALSE;
    }
  return weft_weight_transform_base_refuse_stars (base, error);
}

static void
weft_weight_renaming_class_init (WeftWeightRenamingClass *klass)
{
  WEFT_WEIGHT_TRANSFORM_BASE_CLASS (klass)->prepare = weft_weight_renaming_prepare;
}

/**
 * weft_weight_renaming_new:
 * @source_patterns: (array zero-terminated=1): regular expressions that find a key
 * @target_patterns: (array zero-terminated=1): what is written in place of what was found; the first one counts
 * @error: return location
 *
 * Returns: (transfer full): a renaming
 * Errors: %WEFT_ERROR_PATTERN if a pattern is wrong
 * Since: 1.0
 */
WeftWeightTransform *
weft_weight_renaming_new (const gchar *const *source_patterns, const gchar *const *target_patterns,
                          GError **error)
{
  g_autoptr (WeftWeightTransform) self =
      g_object_new (WEFT_TYPE_WEIGHT_RENAMING, "source-patterns", source_patterns, "target-patterns",
                    target_patterns, NULL);

  return weft_weight_transform_prepare (self, error) ? g_steal_pointer (&self) : NULL;
}
