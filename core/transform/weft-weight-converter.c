/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-weight-converter.h"

#include "transform/weft-weight-transform-base-private.h"

struct _WeftWeightConverter
{
  WeftWeightTransformBase parent_instance;

  GPtrArray *operations;
  gboolean force_cpu;
};

enum
{
  PROP_OPERATIONS = 1,
  PROP_FORCE_CPU,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

G_DEFINE_FINAL_TYPE (WeftWeightConverter, weft_weight_converter, WEFT_TYPE_WEIGHT_TRANSFORM_BASE)

static void
weft_weight_converter_init (WeftWeightConverter *self)
{
}

static void
weft_weight_converter_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  WeftWeightConverter *self = WEFT_WEIGHT_CONVERTER (object);

  switch (id)
    {
    case PROP_OPERATIONS:
      self->operations = g_value_dup_boxed (value);
      break;
    case PROP_FORCE_CPU:
      self->force_cpu = g_value_get_boolean (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
weft_weight_converter_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  WeftWeightConverter *self = WEFT_WEIGHT_CONVERTER (object);

  switch (id)
    {
    case PROP_OPERATIONS:
      g_value_set_boxed (value, self->operations);
      break;
    case PROP_FORCE_CPU:
      g_value_set_boolean (value, self->force_cpu);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
weft_weight_converter_finalize (GObject *object)
{
  g_clear_pointer (&WEFT_WEIGHT_CONVERTER (object)->operations, g_ptr_array_unref);
  G_OBJECT_CLASS (weft_weight_converter_parent_class)->finalize (object);
}

static gboolean
has_trait (WeftWeightConverter *self, WeftOpTraits trait)
{
  for (guint i = 0; self->operations != NULL && i < self->operations->len; i++)
    if ((weft_conversion_ops_get_traits (self->operations->pdata[i]) & trait) != 0)
      return TRUE;
  return FALSE;
}

static gboolean
weft_weight_converter_prepare (WeftWeightTransformBase *base, GError **error)
{
  WeftWeightConverter *self = WEFT_WEIGHT_CONVERTER (base);
  WeftTransformState *state = weft_weight_transform_get_state (WEFT_WEIGHT_TRANSFORM (base));

  if (!WEFT_WEIGHT_TRANSFORM_BASE_CLASS (weft_weight_converter_parent_class)->prepare (base, error))
    return FALSE;
  if (state->pattern == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "a converter needs source_patterns and target_patterns; write both");
      return FALSE;
    }
  if (g_strv_length (state->sources) > 1 && g_strv_length (state->targets) > 1
      && !has_trait (self, WEFT_OP_TRAITS_MANY_TO_MANY))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PATTERN,
          "%u sources and %u targets, and no operation of the chain takes several to several; write a converter "
          "with one source or one target, or use an operation that is made for it",
          g_strv_length (state->sources), g_strv_length (state->targets));
      return FALSE;
    }
  if (self->operations == NULL || self->operations->len == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "a converter needs at least one operation; write a WeightRenaming if nothing is computed");
      return FALSE;
    }
  return has_trait (self, WEFT_OP_TRAITS_EXPANDS_STAR)
         || weft_weight_transform_base_refuse_stars (base, error);
}

static WeftWeightTransformBase *
weft_weight_converter_dup_inverse (WeftWeightTransformBase *base, GError **error)
{
  g_autoptr (GPtrArray) operations =
      weft_op_chain_dup_inverse (WEFT_WEIGHT_CONVERTER (base)->operations, error);
  WeftWeightTransformBase *inverse;

  if (operations == NULL)
    return NULL;
  inverse = WEFT_WEIGHT_TRANSFORM_BASE_CLASS (weft_weight_converter_parent_class)->dup_inverse (base, error);
  g_ptr_array_unref (WEFT_WEIGHT_CONVERTER (inverse)->operations);
  WEFT_WEIGHT_CONVERTER (inverse)->operations = g_steal_pointer (&operations);
  return inverse;
}

static void
weft_weight_converter_class_init (WeftWeightConverterClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  WeftWeightTransformBaseClass *base_class = WEFT_WEIGHT_TRANSFORM_BASE_CLASS (klass);

  object_class->set_property = weft_weight_converter_set_property;
  object_class->get_property = weft_weight_converter_get_property;
  object_class->finalize = weft_weight_converter_finalize;
  base_class->prepare = weft_weight_converter_prepare;
  base_class->dup_inverse = weft_weight_converter_dup_inverse;

  /**
   * WeftWeightConverter:operations: (type GPtrArray(WeftConversionOps))
   *
   * The chain of ops, in the order in which they run.
   *
   * Since: 1.0
   */
  properties[PROP_OPERATIONS] = g_param_spec_boxed (
      "operations", "Operations", "The chain of ops, in the order in which they run", G_TYPE_PTR_ARRAY,
      G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  /**
   * WeftWeightConverter:force-cpu:
   *
   * Whether the chain runs in main memory.
   *
   * Since: 1.0
   */
  properties[PROP_FORCE_CPU] =
      g_param_spec_boolean ("force-cpu", "Force CPU", "Whether the chain runs in main memory", FALSE,
                            G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

/**
 * weft_weight_converter_new:
 * @source_patterns: (array zero-terminated=1): regular expressions that find keys
 * @target_patterns: (array zero-terminated=1): what the ops make
 * @operations: (element-type WeftConversionOps): the chain of ops
 * @force_cpu: whether the chain runs in main memory
 * @error: return location
 *
 * Returns: (transfer full): a converter
 * Errors: %WEFT_ERROR_PATTERN if a pattern is wrong, or the ops do not go with them
 * Since: 1.0
 */
WeftWeightTransform *
weft_weight_converter_new (const gchar *const *source_patterns, const gchar *const *target_patterns,
                           GPtrArray *operations, gboolean force_cpu, GError **error)
{
  g_autoptr (WeftWeightTransform) self =
      g_object_new (WEFT_TYPE_WEIGHT_CONVERTER, "source-patterns", source_patterns, "target-patterns",
                    target_patterns, "operations", operations, "force-cpu", force_cpu, NULL);

  return weft_weight_transform_prepare (self, error) ? g_steal_pointer (&self) : NULL;
}

/**
 * weft_weight_converter_dup_with_operations:
 * @self: a converter
 * @operations: (element-type WeftConversionOps): another chain of ops
 * @error: return location
 *
 * Returns: (transfer full): a converter with the patterns, the scope and the origin of @self and the chain @operations
 * Errors: %WEFT_ERROR_PATTERN if the ops do not go with the patterns
 * Since: 1.0
 */
WeftWeightTransform *
weft_weight_converter_dup_with_operations (WeftWeightConverter *self, GPtrArray *operations, GError **error)
{
  g_autoptr (WeftWeightTransform) copy = weft_weight_transform_clone (WEFT_WEIGHT_TRANSFORM (self), FALSE);

  GPtrArray *chain = g_ptr_array_new_with_free_func (g_object_unref);

  for (guint i = 0; i < operations->len; i++)
    g_ptr_array_add (chain, g_object_ref (operations->pdata[i]));
  g_ptr_array_unref (WEFT_WEIGHT_CONVERTER (copy)->operations);
  WEFT_WEIGHT_CONVERTER (copy)->operations = chain;
  return weft_weight_transform_prepare (copy, error) ? g_steal_pointer (&copy) : NULL;
}

/**
 * weft_weight_converter_get_operations:
 * @self: a converter
 *
 * Returns: (transfer none) (element-type WeftConversionOps): the chain of ops
 * Since: 1.0
 */
GPtrArray *
weft_weight_converter_get_operations (WeftWeightConverter *self)
{
  return self->operations;
}

/**
 * weft_weight_converter_get_force_cpu:
 * @self: a converter
 *
 * Returns: whether the chain runs in main memory
 * Since: 1.0
 */
gboolean
weft_weight_converter_get_force_cpu (WeftWeightConverter *self)
{
  return self->force_cpu;
}
