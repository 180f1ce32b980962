/* SPDX-License-Identifier: Apache-2.0 */
/* Joining tensors on an axis they have, and cutting them apart: in equal parts, in sizes that are given, or in the sizes of
 * the model's parameters. */
#include "weft.h"

/* Rows of heads in one projection; far above any model. */
#define MAX_GROUPS G_MAXUINT16

/* How an axis that several tensors share is made of theirs. */
typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
  GVariant *sizes;
  gint64 groups;
} WeftConcatenateParts;

typedef struct
{
  WeftConcatenateParts parent_instance;
  gchar *num_shards_attribute;
} WeftConcatenate;

typedef WeftConcatenate WeftConcatenateRows;
typedef WeftConcatenateParts WeftConcatenateSplit;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
  gchar *num_shards_attribute;
} WeftConcatenateChunk;

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

static void
add_parts (WeftConversionOpsBaseClass *klass)
{
  add_dim (klass, G_STRUCT_OFFSET (WeftConcatenateParts, dim));
  weft_op_class_add_variant (
      klass, "sizes", "Sizes",
      "Extent of each part on that axis, in order; empty if they are equal, or those of the model's parameters",
      "ax", "[]", G_STRUCT_OFFSET (WeftConcatenateParts, sizes));
  weft_op_class_set_parameter_flags (klass, "sizes", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
  weft_op_class_add_int (klass, "groups", "Groups",
                         "Runs that each part is cut in, so that the runs of all parts alternate", 1,
                         MAX_GROUPS, 1, G_STRUCT_OFFSET (WeftConcatenateParts, groups));
  weft_op_class_set_parameter_flags (klass, "groups", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
}

/* The sizes that are given; none for the other two forms. */
static const gint64 *
get_sizes (WeftConcatenateParts *self, gsize *n_sizes)
{
  return g_variant_get_fixed_array (self->sizes, n_sizes, sizeof (gint64));
}

/* @tensor with the axis at @axis (from the front) as (@groups, extent / @groups). */
static WeftTensor *
unfold_axis (WeftTensor *tensor, guint axis, gint64 groups, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  gint64 dims[WEFT_MAX_RANK + 1];

  if (shape->dims[axis] % groups != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "axis %u has extent %" G_GINT64_FORMAT ", which cannot be cut in %" G_GINT64_FORMAT
                   " equal groups",
                   axis, shape->dims[axis], groups);
      return NULL;
    }
  for (guint i = 0; i <= shape->rank; i++)
    dims[i] = i < axis ? shape->dims[i] : i == axis ? groups : shape->dims[i - 1];
  dims[axis + 1] /= groups;
  return weft_tensor_reshape (tensor, dims, shape->rank + 1, error);
}

/* The other way: the axes at @axis and behind it as one. */
static WeftTensor *
fold_axis (WeftTensor *tensor, guint axis, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  gint64 dims[WEFT_MAX_RANK];

  for (guint i = 0; i + 1 < shape->rank; i++)
    dims[i] = i < axis    ? shape->dims[i]
              : i == axis ? shape->dims[i] * shape->dims[i + 1]
                          : shape->dims[i + 1];
  return weft_tensor_reshape (tensor, dims, shape->rank - 1, error);
}

/* Each tensor in turn with its axis unfolded, or folded back. */
static gboolean
refold_all (GPtrArray *tensors, guint axis, gint64 groups, GError **error)
{
  for (guint i = 0; i < tensors->len; i++)
    {
      WeftTensor *refolded = groups > 0 ? unfold_axis (tensors->pdata[i], axis, groups, error)
                                        : fold_axis (tensors->pdata[i], axis, error);

      if (refolded == NULL)
        return FALSE;
      weft_tensor_unref (tensors->pdata[i]);
      tensors->pdata[i] = refolded;
    }
  return TRUE;
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

/* Sizes that are given are a promise: the inverse cuts by them. */
static gboolean
check_sizes (WeftConcatenateParts *self, GPtrArray *tensors, guint axis, GError **error)
{
  gsize n_sizes;
  const gint64 *sizes = get_sizes (self, &n_sizes);

  if (n_sizes != 0 && n_sizes != tensors->len)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "'sizes' is about %" G_GSIZE_FORMAT " tensors, there are %u to join", n_sizes,
                   tensors->len);
      return FALSE;
    }
  for (guint i = 0; i < n_sizes; i++)
    if (weft_tensor_get_dim (tensors->pdata[i], axis) != sizes[i])
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                     "tensor %u has extent %" G_GINT64_FORMAT " on axis %u, 'sizes' says %" G_GINT64_FORMAT,
                     i, weft_tensor_get_dim (tensors->pdata[i], axis), axis, sizes[i]);
        return FALSE;
      }
  return TRUE;
}

static WeftTensor *
join (WeftConcatenateParts *self, GPtrArray *tensors, GError **error)
{
  g_autoptr (WeftTensor) joined = NULL;
  guint axis;

  if (!weft_shape_resolve_axis (weft_tensor_get_shape (tensors->pdata[0]), (gint) self->dim, &axis, error))
    return NULL;
  for (guint i = 1; i < tensors->len; i++)
    if (weft_tensor_get_rank (tensors->pdata[i]) != weft_tensor_get_rank (tensors->pdata[0]))
      return weft_tensor_concat ((WeftTensor **) tensors->pdata, tensors->len, (gint) axis, error);
  if (!check_sizes (self, tensors, axis, error))
    return NULL;
  if (self->groups == 1)
    return weft_tensor_concat ((WeftTensor **) tensors->pdata, tensors->len, (gint) axis, error);
  if (!refold_all (tensors, axis, self->groups, error))
    return NULL;
  joined = weft_tensor_concat ((WeftTensor **) tensors->pdata, tensors->len, (gint) axis + 1, error);
  return joined != NULL ? fold_axis (joined, axis, error) : NULL;
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
  joined = join (&self->parent_instance, tensors, error);
  return joined != NULL ? weft_op_new_output (name, joined) : NULL;
}

static WeftConversionOpsBase *
weft_concatenate_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftConcatenate *self = (WeftConcatenate *) base;
  WeftConcatenateParts *parts = &self->parent_instance;

  /* Equal parts need no sizes; where they alternate, they are cut by them. */
  if (g_variant_n_children (parts->sizes) > 0)
    return g_object_new (weft_concatenate_split_get_type (), "dim", parts->dim, "sizes", parts->sizes,
                         "groups", parts->groups, NULL);
  if (parts->groups != 1)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
                   "parts that alternate are cut by their 'sizes', which are not given");
      return NULL;
    }
  return g_object_new (weft_concatenate_chunk_get_type (), "dim", parts->dim, "num-shards-attribute",
                       self->num_shards_attribute, NULL);
}

static void
weft_concatenate_class_init (WeftConcatenateClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_concatenate_convert;
  base_class->dup_inverse = weft_concatenate_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_parts (base_class);
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
name_parts (gchar **names, GPtrArray *parts, GError **error)
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
  return name_parts (names, parts, error);
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

/* The extent of each part: as given, or of the model's parameters. */
static gboolean
find_lengths (WeftConcatenateSplit *self, WeftOpContext *context, gint64 *lengths, GError **error)
{
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  gsize n_sizes;
  const gint64 *sizes = get_sizes (self, &n_sizes);

  if (n_sizes != 0 && n_sizes != n_targets)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "'sizes' is about %" G_GSIZE_FORMAT " parts, there are %u targets", n_sizes, n_targets);
      return FALSE;
    }
  for (guint i = 0; i < n_targets; i++)
    {
      if (n_sizes > 0)
        lengths[i] = sizes[i];
      else if (!lookup_part_length (context, i, (gint) self->dim, &lengths[i], error))
        return FALSE;
    }
  return TRUE;
}

static GPtrArray *
cut (WeftConcatenateSplit *self, WeftTensor *tensor, gint64 *lengths, guint n_parts, GError **error)
{
  g_autoptr (WeftTensor) unfolded = NULL;
  g_autoptr (GPtrArray) parts = NULL;
  guint axis;

  if (self->groups == 1)
    return weft_tensor_split (tensor, (gint) self->dim, lengths, n_parts, error);
  if (!weft_shape_resolve_axis (weft_tensor_get_shape (tensor), (gint) self->dim, &axis, error))
    return NULL;
  for (guint i = 0; i < n_parts; i++)
    {
      if (lengths[i] % self->groups != 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                       "part %u has extent %" G_GINT64_FORMAT ", which cannot be cut in %" G_GINT64_FORMAT
                       " equal groups",
                       i, lengths[i], self->groups);
          return NULL;
        }
      lengths[i] /= self->groups;
    }
  unfolded = unfold_axis (tensor, axis, self->groups, error);
  parts = unfolded != NULL ? weft_tensor_split (unfolded, (gint) axis + 1, lengths, n_parts, error) : NULL;
  return parts != NULL && refold_all (parts, axis, 0, error) ? g_steal_pointer (&parts) : NULL;
}

static WeftTensorGroups *
weft_concatenate_split_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                                GError **error)
{
  WeftConcatenateSplit *self = (WeftConcatenateSplit *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  g_autofree gint64 *lengths = g_new0 (gint64, n_targets);
  g_auto (GStrv) names = NULL;
  g_autoptr (GPtrArray) parts = NULL;

  if (tensor == NULL || !find_lengths (self, context, lengths, error))
    return NULL;
  names = g_strdupv ((GStrv) weft_op_context_get_target_patterns (context));
  parts = cut (self, tensor, lengths, n_targets, error);
  return parts != NULL ? name_parts (names, parts, error) : NULL;
}

static WeftConversionOpsBase *
weft_concatenate_split_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftConcatenateSplit *self = (WeftConcatenateSplit *) base;

  return g_object_new (weft_concatenate_get_type (), "dim", self->dim, "sizes", self->sizes, "groups",
                       self->groups, NULL);
}

static void
weft_concatenate_split_class_init (WeftConcatenateSplitClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_concatenate_split_convert;
  base_class->dup_inverse = weft_concatenate_split_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  add_parts (base_class);
}

WEFT_PLUGIN_DEFINE ("concatenate", "Joins tensors on an axis and cuts them apart", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("Concatenate", WeftConcatenate, weft_concatenate),
                    WEFT_PLUGIN_OP ("ConcatenateRows", WeftConcatenateRows, weft_concatenate_rows),
                    WEFT_PLUGIN_OP ("Chunk", WeftConcatenateChunk, weft_concatenate_chunk),
                    WEFT_PLUGIN_OP ("Split", WeftConcatenateSplit, weft_concatenate_split));
