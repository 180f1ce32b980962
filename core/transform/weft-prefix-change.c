/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-prefix-change.h"

#include "transform/weft-weight-transform-private.h"

struct _WeftPrefixChange
{
  WeftWeightTransformBase parent_instance;

  gchar *prefix_to_add;
  gchar *prefix_to_remove;
  gchar *model_prefix;
};

enum
{
  PROP_PREFIX_TO_ADD = 1,
  PROP_PREFIX_TO_REMOVE,
  PROP_MODEL_PREFIX,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (WeftPrefixChange, weft_prefix_change, WEFT_TYPE_WEIGHT_TRANSFORM_BASE)

static void
weft_prefix_change_init (WeftPrefixChange *self)
{
}

static gchar **
find_field (WeftPrefixChange *self, guint id)
{
  return id == PROP_PREFIX_TO_ADD      ? &self->prefix_to_add
         : id == PROP_PREFIX_TO_REMOVE ? &self->prefix_to_remove
                                       : &self->model_prefix;
}

static void
weft_prefix_change_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  *find_field (WEFT_PREFIX_CHANGE (object), id) = g_value_dup_string (value);
}

static void
weft_prefix_change_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  g_value_set_string (value, *find_field (WEFT_PREFIX_CHANGE (object), id));
}

static void
weft_prefix_change_finalize (GObject *object)
{
  for (guint id = PROP_PREFIX_TO_ADD; id < N_PROPERTIES; id++)
    g_free (*find_field (WEFT_PREFIX_CHANGE (object), id));
  G_OBJECT_CLASS (weft_prefix_change_parent_class)->finalize (object);
}

static gboolean
weft_prefix_change_prepare (WeftWeightTransformBase *base, GError **error)
{
  WeftPrefixChange *self = WEFT_PREFIX_CHANGE (base);
  g_auto (GStrv) sources = NULL;
  g_autofree gchar *parent = NULL;
  g_autofree gchar *source = NULL;
  g_autofree gchar *target = NULL;

  g_object_get (base, "source-patterns", &sources, NULL);
  if (sources != NULL || (self->prefix_to_add == NULL) == (self->prefix_to_remove == NULL))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PATTERN,
          "a prefix change is made from one of prefix_to_add and prefix_to_remove; write exactly one%s",
          sources != NULL ? " and no patterns" : "");
      return FALSE;
    }
  if (self->model_prefix != NULL && self->model_prefix[0] != '\0')
    parent = g_strconcat (self->model_prefix, "\\.", NULL);
  else
    parent = g_strdup ("");
  if (self->prefix_to_add != NULL)
    {
      source = g_strdup_printf ("^%s(?:(?!%s\\.))(.+)", parent, self->prefix_to_add);
      target = g_strdup_printf ("%s%s\\.\\1", parent, self->prefix_to_add);
    }
  else
    {
      source = g_strdup_printf ("^%s%s\\.(.+)", parent, self->prefix_to_remove);
      target = g_strdup_printf ("%s\\1", parent);
    }
  return weft_weight_transform_set_patterns (WEFT_WEIGHT_TRANSFORM (base),
                                             (const gchar *const[]){ source, NULL },
                                             (const gchar *const[]){ target, NULL }, error);
}

static WeftWeightTransformBase *
weft_prefix_change_dup_inverse (WeftWeightTransformBase *base, GError **error)
{
  WeftWeightTransformBase *inverse =
      WEFT_WEIGHT_TRANSFORM_BASE_CLASS (weft_prefix_change_parent_class)->dup_inverse (base, error);
  WeftPrefixChange *change = WEFT_PREFIX_CHANGE (inverse);
  gchar *added = change->prefix_to_add;

  change->prefix_to_add = change->prefix_to_remove;
  change->prefix_to_remove = added;
  return inverse;
}

static void
weft_prefix_change_class_init (WeftPrefixChangeClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  WeftWeightTransformBaseClass *base_class = WEFT_WEIGHT_TRANSFORM_BASE_CLASS (klass);
  const GParamFlags flags = G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS;

  object_class->set_property = weft_prefix_change_set_property;
  object_class->get_property = weft_prefix_change_get_property;
  object_class->finalize = weft_prefix_change_finalize;
  base_class->prepare = weft_prefix_change_prepare;
  base_class->dup_inverse = weft_prefix_change_dup_inverse;

  /**
   * WeftPrefixChange:prefix-to-add:
   *
   * The part that is added, without its dot.
   *
   * Since: 1.0
   */
  properties[PROP_PREFIX_TO_ADD] = g_param_spec_string (
      "prefix-to-add", "Prefix to add", "The part that is added, without its dot", NULL, flags);

  /**
   * WeftPrefixChange:prefix-to-remove:
   *
   * The part that is removed, without its dot.
   *
   * Since: 1.0
   */
  properties[PROP_PREFIX_TO_REMOVE] = g_param_spec_string (
      "prefix-to-remove", "Prefix to remove", "The part that is removed, without its dot", NULL, flags);

  /**
   * WeftPrefixChange:model-prefix:
   *
   * What stands before the part, without its dot; empty for the start of the key.
   *
   * Since: 1.0
   */
  properties[PROP_MODEL_PREFIX] = g_param_spec_string (
      "model-prefix", "Model prefix", "What stands before the part, without its dot", "", flags);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

/**
 * weft_prefix_change_new:
 * @prefix_to_add: (nullable): the part to add, without its dot
 * @prefix_to_remove: (nullable): the part to remove, without its dot; exactly one of the two is given
 * @model_prefix: (nullable): what stands before the part
 * @error: return location
 *
 * Returns: (transfer full): a prefix change
 * Errors: %WEFT_ERROR_PATTERN if both or neither are given
 * Since: 1.0
 */
WeftWeightTransform *
weft_prefix_change_new (const gchar *prefix_to_add, const gchar *prefix_to_remove, const gchar *model_prefix,
                        GError **error)
{
  g_autoptr (WeftWeightTransform) self =
      g_object_new (WEFT_TYPE_PREFIX_CHANGE, "prefix-to-add", prefix_to_add, "prefix-to-remove",
                    prefix_to_remove, "model-prefix", model_prefix != NULL ? model_prefix : "", NULL);

  return weft_weight_transform_prepare (self, error) ? g_steal_pointer (&self) : NULL;
}
