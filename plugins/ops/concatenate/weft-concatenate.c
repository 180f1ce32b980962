/* SPDX-License-Identifier: Apache-2.0 */
/* Joining tensors on an axis they have, and cutting them apart: in equal parts, or in the sizes of the model's parameters. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
  gchar *num_shards_attribute;
} WeftConcatenate;

typedef WeftConcatenate WeftConcatenateRows;
typedef WeftConcatenate WeftConcatenateChunk;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
} WeftConcatenateSplit;

WEFT_DEFINE_OP (WeftConcatenate, weft_concatenate)
WEFT_DEFINE_OP_WITH_PARENT (WeftConcatenateRows, weft_concatenate_rows, WeftConcatenate,
                            weft_concatenate_get_type ())
WEFT_DEFINE_OP (WeftConcatenateChunk, weft_concatenate_chunk)
WEFT_DEFINE_OP (WeftConcatenateSplit, weft_concatenate_split)

static void
add_dim (WeftConversionOpsBaseClass *klass, gsize offset)
{
  weft_op_class_add_int (klass, "dim", "Axis", "Axis to join or cut", -WEFT_MAX_RANK, WEFT_MAX_RANK - 1, 0,
                         offset);
}

static void
add_num_shards_attribute (WeftConversionOpsBaseClass *klass, gsize offset)
{
  weft_op_class_add_string (klass, "num-shards-attribute", "Number of shards",
                            "Field of the text model's config that holds the number of parts", NULL, offset);
}

/* Concatenate */

/* The dtype that holds every value of both; %WEFT_DTYPE_INVALID if they are not meant to meet. */
static WeftDtype
promote (WeftDtype a, WeftDtype b)
{
  const gboolean is_half_pair =
      (a == WEFT_DTYPE_F16 || a == WEFT_DTYPE_BF16) && (b == WEFT_DTYPE_F16 || b == WEFT_DTYPE_BF16);

  if (a == b)
    return a;
  if (!weft_dtype_is_floating (a) || !weft_dtype_is_floating (b) || weft_dtype_get_bits (a) < 16
      || weft_dtype_get_bits (b) < 16)
    return WEFT_DTYPE_INVALID;
  if (is_half_pair)
    return WEFT_DTYPE_F32;
  return weft_dtype_get_bits (a) > weft_dtype_get_bits (b) ? a : b;
}

/* Casts all tensors to the dtype that holds them all. */
static gboolean
unify_dtypes (GPtrArray *tensors, GError **error)
{
  WeftDtype common = weft_tensor_get_dtype (tensors->pdata[0]);

  for (guint i = 1; i < tensors->len; i++)
    {
      WeftDtype dtype = weft_tensor_get_dtype (tensors->pdata[i]);
      WeftDtype promoted = promote (common, dtype);

      if (promoted == WEFT_DTYPE_INVALID)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                       "tensors of %s and %s cannot be joined: cast or dequantise them first",
                       weft_dtype_get_name (common), weft_dtype_get_name (dtype));
          return FALSE;
        }
      common = promoted;
    }
  for (guint i = 0; i < tensors->len; i++)
    {
      WeftTensor *cast = weft_tensor_cast (tensors->pdata[i], common, error);

      if (cast == NULL)
        return FALSE;
      weft_tensor_unref (tensors->pdata[i]);
      tensors->pdata[i] = cast;
    }
  return TRUE;
}

/* Whether every group is collected for a source pattern: a tensor under another name would be lost. */
static gboolean
check_names (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      const gchar *name = weft_tensor_groups_get_name (inputs, i);
      gboolean is_source = FALSE;

      for (guint j = 0; !is_source && j < weft_op_context_get_n_source_patterns (context); j++)
        is_source = g_str_equal (name, weft_op_context_get_source_pattern (context, j));
      if (!is_source)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
                       "'%s' is no source pattern, so it has no place in the order", name);
          return FALSE;
        }
    }
  return TRUE;
}

/* All tensors in the order of the source patterns, which is not that of their arrival. */
static GPtrArray *
collect_in_source_order (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  g_autoptr (GPtrArray) tensors = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  for (guint i = 0; i < weft_op_context_get_n_source_patterns (context); i++)
    {
      guint group;

      if (!weft_op_find_source (inputs, context, i, &group, error))
        return NULL;
      for (guint j = 0; j < weft_tensor_groups_get_n_tensors (inputs, group); j++)
        g_ptr_array_add (tensors, weft_tensor_ref (weft_tensor_groups_get_tensor (inputs, group, j)));
    }
  if (!check_names (inputs, context, error))
    return NULL;
  if (tensors->len == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "there is no tensor to join");
      return NULL;
    }
  return g_steal_pointer (&tensors);
}

static WeftTensorGroups *
weft_concatenate_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                          GError **error)
{
  WeftConcatenate *self = (WeftConcatenate *) base;
  g_autoptr (WeftTensor) joined = NULL;
  g_autoptr (GPtrArray) tensors = NULL;
  const gchar *name = weft_op_get_only_target (context, error);

  if (name == NULL || (tensors = collect_in_source_order (inputs, context, error)) == NULL
      || !unify_dtypes (tensors, error))
    return NULL;
  joined = weft_tensor_concat ((WeftTensor **) tensors->pdata, tensors->len, (gint) self->dim, error);
  return joined != NULL ? weft_op_new_output (name, joined) : NULL;
}

static WeftConversionOpsBase *
weft_concatenate_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftConcatenate *self = (WeftConcatenate *) base;

  return g_object_new (weft_concatenate_chunk_get_type (), "dim", self->dim, "num-shards-attribute",
                       self->num_shards_attribute, NULL);
}

static void
weft_concatenate_class_init (WeftConcatenateClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_concatenate_convert;
  base_class->dup_inverse = weft_concatenate_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_dim (base_class, G_STRUCT_OFFSET (WeftConcatenate, dim));
  add_num_shards_attribute (base_class, G_STRUCT_OFFSET (WeftConcatenate, num_shards_attribute));
}

/* ConcatenateRows: the same on rows of packed blocks, which keep their bytes. */

static void
weft_concatenate_rows_class_init (WeftConcatenateRowsClass *klass)
{
}

/* Chunk */

/* One name a part: the targets, or the one target with a number in place of its `*`. */
static GStrv
list_part_names (WeftConcatenateChunk *self, WeftOpContext *context, GError **error)
{
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  const gchar *target;
  gint64 n_shards = 0;

  for (guint i = 0; self->num_shards_attribute == NULL && i < n_targets; i++)
    g_strv_builder_add (names, weft_op_context_get_target_pattern (context, i));
  if (self->num_shards_attribute == NULL)
    return g_strv_builder_end (names);
  target = weft_op_get_only_target (context, error);
  if (target == NULL)
    return NULL;
  if (!weft_op_context_lookup_text_config_int (context, self->num_shards_attribute, &n_shards) || n_shards < 1
      || n_shards > G_MAXUINT16)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "the config's '%s' must be a number of parts from 1 to %d", self->num_shards_attribute,
                   G_MAXUINT16);
      return NULL;
    }
  for (guint i = 0; i < n_shards; i++)
    {
      g_autofree gchar *name = weft_op_expand_star (target, i);

      g_strv_builder_add (names, name);
    }
  return g_strv_builder_end (names);
}

static WeftTensorGroups *
add_parts (gchar **names, GPtrArray *parts, GError **error)
{
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; i < parts->len; i++)
    if (!weft_op_add_output (outputs, names[i], parts->pdata[i], error))
      return NULL;
  return g_steal_pointer (&outputs);
}

static WeftTensorGroups *
weft_concatenate_chunk_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  WeftConcatenateChunk *self = (WeftConcatenateChunk *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  g_auto (GStrv) names = tensor != NULL ? list_part_names (self, context, error) : NULL;
  g_autoptr (GPtrArray) parts = NULL;

  if (names == NULL
      || (parts = weft_op_split_evenly (tensor, (gint) self->dim, g_strv_length (names), error)) == NULL)
    return NULL;
  return add_parts (names, parts, error);
}

static WeftConversionOpsBase *
weft_concatenate_chunk_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftConcatenateChunk *self = (WeftConcatenateChunk *) base;

  return g_object_new (weft_concatenate_get_type (), "dim", self->dim, "num-shards-attribute",
                       self->num_shards_attribute, NULL);
}

/* Only with the attribute are the parts numbered; else each has a target of its own. */
static WeftOpTraits
weft_concatenate_chunk_get_traits (WeftConversionOpsBase *base)
{
  return ((WeftConcatenateChunk *) base)->num_shards_attribute != NULL ? WEFT_OP_TRAITS_EXPANDS_STAR
                                                                       : WEFT_OP_TRAITS_NONE;
}

static void
weft_concatenate_chunk_class_init (WeftConcatenateChunkClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_concatenate_chunk_convert;
  base_class->dup_inverse = weft_concatenate_chunk_dup_inverse;
  base_class->get_traits = weft_concatenate_chunk_get_traits;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_dim (base_class, G_STRUCT_OFFSET (WeftConcatenateChunk, dim));
  add_num_shards_attribute (base_class, G_STRUCT_OFFSET (WeftConcatenateChunk, num_shards_attribute));
}

/* Split */

/* The size on @axis of the model's parameter for a target: the full layer name with target 0 replaced by it. */
static gboolean
lookup_part_length (WeftOpContext *context, guint target, gint axis, gint64 *length, GError **error)
{
  const gchar *layer = weft_op_context_get_full_layer_name (context);
  g_autoptr (GString) name =
      g_string_new (layer != NULL ? layer : weft_op_context_get_target_pattern (context, target));
  g_autoptr (WeftShape) shape = NULL;
  guint resolved;

  g_string_replace (name, weft_op_context_get_target_pattern (context, 0),
                    weft_op_context_get_target_pattern (context, target), 0);
  shape = weft_op_context_get_parameter_shape (context, name->str);
  if (shape == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "the sizes of the parts are those of the model's parameters, but the model %s '%s'",
                   weft_op_context_has_parameters (context) ? "has no parameter"
                                                            : "is not known, so neither is",
                   name->str);
      return FALSE;
    }
  if (!weft_shape_resolve_axis (shape, axis, &resolved, error))
    return FALSE;
  *length = shape->dims[resolved];
  return TRUE;
}

static WeftTensorGroups *
weft_concatenate_split_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  WeftConcatenateSplit *self = (WeftConcatenateSplit *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  g_autofree gint64 *lengths = g_new0 (gint64, n_targets);
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_auto (GStrv) names = NULL;
  g_autoptr (GPtrArray) parts = NULL;

  if (tensor == NULL)
    return NULL;
  for (guint i = 0; i < n_targets; i++)
    {
      if (!lookup_part_length (context, i, (gint) self->dim, &lengths[i], error))
        return NULL;
      g_strv_builder_add (builder, weft_op_context_get_target_pattern (context, i));
    }
  names = g_strv_builder_end (builder);
  parts = weft_tensor_split (tensor, (gint) self->dim, lengths, n_targets, error);
  return parts != NULL ? add_parts (names, parts, error) : NULL;
}

static WeftConversionOpsBase *
weft_concatenate_split_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return g_object_new (weft_concatenate_get_type (), "dim", ((WeftConcatenateSplit *) base)->dim, NULL);
}

static void
weft_concatenate_split_class_init (WeftConcatenateSplitClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_concatenate_split_convert;
  base_class->dup_inverse = weft_concatenate_split_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_dim (base_class, G_STRUCT_OFFSET (WeftConcatenateSplit, dim));
}

WEFT_PLUGIN_DEFINE ("concatenate", "Joins tensors on an axis and cuts them apart", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("Concatenate", WeftConcatenate, weft_concatenate),
                    WEFT_PLUGIN_OP ("ConcatenateRows", WeftConcatenateRows, weft_concatenate_rows),
                    WEFT_PLUGIN_OP ("Chunk", WeftConcatenateChunk, weft_concatenate_chunk),
                    WEFT_PLUGIN_OP ("Split", WeftConcatenateSplit, weft_concatenate_split));
