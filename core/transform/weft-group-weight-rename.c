/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-group-weight-rename.h"

#include <string.h>

#include "transform/weft-weight-transform-base-private.h"

struct _WeftGroupWeightRename
{
  WeftWeightRenaming parent_instance;

  gboolean is_active;
};

G_DEFINE_FINAL_TYPE (WeftGroupWeightRename, weft_group_weight_rename, WEFT_TYPE_WEIGHT_RENAMING)

static void
weft_group_weight_rename_init (WeftGroupWeightRename *self)
{
}

static gboolean
weft_group_weight_rename_prepare (WeftWeightTransformBase *base, GError **error)
{
  g_auto (GStrv) sources = NULL;
  g_auto (GStrv) targets = NULL;

  g_object_get (base, "source-patterns", &sources, "target-patterns", &targets, NULL);
  if (sources != NULL && targets != NULL && g_strv_length (sources) != g_strv_length (targets))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PATTERN,
          "%u sources and %u targets; the source at each place is renamed to the target at the same place",
          g_strv_length (sources), g_strv_length (targets));
      return FALSE;
    }
  return WEFT_WEIGHT_TRANSFORM_BASE_CLASS (weft_group_weight_rename_parent_class)->prepare (base, error);
}

static gboolean
weft_group_weight_rename_accept_branch (WeftWeightTransformBase *base, guint branch)
{
  WeftGroupWeightRename *self = WEFT_GROUP_WEIGHT_RENAME (base);

  self->is_active |= branch == 0;
  return self->is_active;
}

typedef struct
{
  const gchar *source;
  const gchar *target;
} Pair;

static gint
compare_pairs (gconstpointer a, gconstpointer b)
{
  const Pair *left = a;
  const Pair *right = b;
  gint order = strcmp (left->source, right->source);

  return order != 0 ? order : strcmp (left->target, right->target);
}

/* The smallest new source becomes the guard: it comes first in natural order. */
static WeftWeightTransformBase *
weft_group_weight_rename_dup_inverse (WeftWeightTransformBase *base, GError **error)
{
  WeftTransformState *state = weft_weight_transform_get_state (WEFT_WEIGHT_TRANSFORM (base));
  guint n_pairs = g_strv_length (state->written_sources);
  g_autofree Pair *pairs = g_new (Pair, n_pairs);
  g_autoptr (GStrvBuilder) sources = g_strv_builder_new ();
  g_autoptr (GStrvBuilder) targets = g_strv_builder_new ();
  g_auto (GStrv) source_list = NULL;
  g_auto (GStrv) target_list = NULL;
  WeftWeightTransform *inverse;

  for (guint i = 0; i < n_pairs; i++)
    pairs[i] = (Pair){ .source = state->written_targets[i], .target = state->written_sources[i] };
  qsort (pairs, n_pairs, sizeof *pairs, compare_pairs);
  for (guint i = 0; i < n_pairs; i++)
    {
      g_strv_builder_add (sources, pairs[i].source);
      g_strv_builder_add (targets, pairs[i].target);
    }
  source_list = g_strv_builder_end (sources);
  target_list = g_strv_builder_end (targets);
  inverse = weft_weight_transform_clone (WEFT_WEIGHT_TRANSFORM (base), TRUE);
  weft_weight_transform_base_take_written (WEFT_WEIGHT_TRANSFORM_BASE (inverse),
                                           g_steal_pointer (&source_list), g_steal_pointer (&target_list));
  return WEFT_WEIGHT_TRANSFORM_BASE (inverse);
}

static void
weft_group_weight_rename_reset (WeftWeightTransformBase *base)
{
  WEFT_GROUP_WEIGHT_RENAME (base)->is_active = FALSE;
}

static void
weft_group_weight_rename_class_init (WeftGroupWeightRenameClass *klass)
{
  WeftWeightTransformBaseClass *base_class = WEFT_WEIGHT_TRANSFORM_BASE_CLASS (klass);

  base_class->prepare = weft_group_weight_rename_prepare;
  base_class->accept_branch = weft_group_weight_rename_accept_branch;
  base_class->dup_inverse = weft_group_weight_rename_dup_inverse;
  base_class->reset = weft_group_weight_rename_reset;
  base_class->targets_are_paired = TRUE;
}

/**
 * weft_group_weight_rename_new:
 * @source_patterns: (array zero-terminated=1): regular expressions that find a key; the first one is the guard
 * @target_patterns: (array zero-terminated=1): as many targets, paired
 * @error: return location
 *
 * Returns: (transfer full): a group of renamings
 * Errors: %WEFT_ERROR_PATTERN if a pattern is wrong or the lists differ in length
 * Since: 1.0
 */
WeftWeightTransform *
weft_group_weight_rename_new (const gchar *const *source_patterns, const gchar *const *target_patterns,
                              GError **error)
{
  g_autoptr (WeftWeightTransform) self =
      g_object_new (WEFT_TYPE_GROUP_WEIGHT_RENAME, "source-patterns", source_patterns, "target-patterns",
                    target_patterns, NULL);

  return weft_weight_transform_prepare (self, error) ? g_steal_pointer (&self) : NULL;
}

/**
 * weft_group_weight_rename_is_active:
 * @self: a group of renamings
 *
 * Returns: whether the guard has matched a key
 * Since: 1.0
 */
gboolean
weft_group_weight_rename_is_active (WeftGroupWeightRename *self)
{
  return self->is_active;
}
