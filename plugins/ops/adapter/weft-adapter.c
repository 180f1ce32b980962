/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank adapters of experts, one pair of matrices an expert, as the pair of the fused parameter, and back. */
#include "weft.h"

typedef struct
{
  WeftConversionOpsBase parent_instance;
  GVariant *dims;
} WeftAdapterPermute;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  GVariant *dims;
  GVariant *sizes;
  gboolean inverse;
} WeftAdapterFlatten;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 n_experts;
  gboolean inverse;
} WeftAdapterJoin;

WEFT_DEFINE_OP (WeftAdapterPermute, weft_adapter_permute)
WEFT_DEFINE_OP (WeftAdapterFlatten, weft_adapter_flatten)
WEFT_DEFINE_OP (WeftAdapterJoin, weft_adapter_join)

static const gint64 *
get_numbers (GVariant *numbers, gsize *n)
{
  return g_variant_get_fixed_array (numbers, n, sizeof (gint64));
}

/* PermuteDims */

/* The axes of @self for a tensor of that rank: each one once. */
static gboolean
read_axes (WeftAdapterPermute *self, guint rank, gint *axes, GError **error)
{
  gsize n;
  const gint64 *dims = get_numbers (self->dims, &n);
  gboolean is_taken[WEFT_MAX_RANK] = { FALSE };

  if (n != rank)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "dims lists %" G_GSIZE_FORMAT " axes, the tensor has %u", n, rank);
      return FALSE;
    }
  for (gsize i = 0; i < n; i++)
    {
      if (dims[i] < 0 || dims[i] >= (gint64) rank || is_taken[dims[i]])
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                       "dims: expected each axis from 0 to %u once, found %" G_GINT64_FORMAT, rank - 1,
                       dims[i]);
          return FALSE;
        }
      is_taken[dims[i]] = TRUE;
      axes[i] = (gint) dims[i];
    }
  return TRUE;
}

static WeftTensorGroups *
weft_adapter_permute_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                              GError **error)
{
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *name = tensor != NULL ? weft_op_get_output_name (context, error) : NULL;
  gint axes[WEFT_MAX_RANK];
  g_autoptr (WeftTensor) permuted = NULL;

  if (name == NULL || !read_axes ((WeftAdapterPermute *) base, weft_tensor_get_rank (tensor), axes, error))
    return NULL;
  permuted = weft_tensor_permute (tensor, axes, weft_tensor_get_rank (tensor), error);
  return permuted != NULL ? weft_op_new_output (name, permuted) : NULL;
}

static WeftConversionOpsBase *
weft_adapter_permute_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  gsize n;
  const gint64 *dims = get_numbers (((WeftAdapterPermute *) base)->dims, &n);
  gint64 inverse[WEFT_MAX_RANK] = { 0 };
  gint axes[WEFT_MAX_RANK];

  if (!read_axes ((WeftAdapterPermute *) base, (guint) MIN (n, WEFT_MAX_RANK), axes, error))
    return NULL;
  for (gsize i = 0; i < n; i++)
    inverse[dims[i]] = (gint64) i;
  return g_object_new (weft_adapter_permute_get_type (), "dims",
                       g_variant_new_fixed_array (G_VARIANT_TYPE_INT64, inverse, n, sizeof (gint64)), NULL);
}

static void
weft_adapter_permute_class_init (WeftAdapterPermuteClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_adapter_permute_convert;
  base_class->dup_inverse = weft_adapter_permute_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_variant (base_class, "dims", "Axes", "Old place of each axis, in their new order", "ax",
                             "[]", G_STRUCT_OFFSET (WeftAdapterPermute, dims));
}

/* FlattenDims */

/* The first of the axes that become one, which follow each other. */
static gboolean
read_first_axis (WeftAdapterFlatten *self, guint rank, guint *first, guint *n_axes, GError **error)
{
  gsize n;
  const gint64 *dims = get_numbers (self->dims, &n);
  gboolean is_valid = n >= 2 && dims[0] >= 0 && dims[0] + (gint64) n <= (gint64) rank;

  for (gsize i = 1; is_valid && i < n; i++)
    is_valid = dims[i] == dims[i - 1] + 1;
  if (!is_valid)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "dims: expected at least two axes that follow each other, of a tensor with %u", rank);
      return FALSE;
    }
  *first = (guint) dims[0];
  *n_axes = (guint) n;
  return TRUE;
}

static WeftTensor *
flatten (WeftAdapterFlatten *self, WeftTensor *tensor, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  gint64 dims[WEFT_MAX_RANK];
  guint first, n_axes, rank = 0;

  if (!read_first_axis (self, shape->rank, &first, &n_axes, error))
    return NULL;
  for (guint i = 0; i < shape->rank; i++)
    if (i > first && i < first + n_axes)
      dims[first] *= shape->dims[i];
    else
      dims[rank++] = shape->dims[i];
  return weft_tensor_reshape (tensor, dims, rank, error);
}

/* The extents of the axes that one becomes; at most one is -1, for what is left. */
static gboolean
read_sizes (WeftAdapterFlatten *self, gint64 extent, gint64 *sizes, guint n_axes, GError **error)
{
  gsize n;
  const gint64 *given = get_numbers (self->sizes, &n);
  gint64 known = 1;
  gint open = -1;

  for (guint i = 0; i < n_axes && n == n_axes; i++)
    {
      sizes[i] = given[i];
      if (given[i] < 0 && open < 0)
        open = (gint) i;
      else if (given[i] <= 0 || given[i] > extent || known > extent / given[i])
        known = 0;
      else
        known *= given[i];
    }
  if (n != n_axes || known <= 0 || extent % known != 0 || (open < 0 && known != extent))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
                   "an axis of extent %" G_GINT64_FORMAT
                   " cannot be cut in %u axes of the sizes that are given",
                   extent, n_axes);
      return FALSE;
    }
  if (open >= 0)
    sizes[open] = extent / known;
  return TRUE;
}

static WeftTensor *
unflatten (WeftAdapterFlatten *self, WeftTensor *tensor, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  gsize n_sizes;
  gint64 dims[WEFT_MAX_RANK];
  guint first, n_axes, rank = 0;

  get_numbers (self->dims, &n_sizes);
  if (shape->rank + n_sizes > WEFT_MAX_RANK + 1)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "dims: expected at most %d axes in all, found %" G_GSIZE_FORMAT " in place of one of %u",
                   WEFT_MAX_RANK, n_sizes, shape->rank);
      return NULL;
    }
  if (!read_first_axis (self, shape->rank + (guint) MAX (n_sizes, 1) - 1, &first, &n_axes, error))
    return NULL;
  for (guint i = 0; i < shape->rank; i++)
    {
      if (i != first)
        dims[rank++] = shape->dims[i];
      else if (read_sizes (self, shape->dims[i], dims + rank, n_axes, error))
        rank += n_axes;
      else
        return NULL;
    }
  return weft_tensor_reshape (tensor, dims, rank, error);
}

static WeftTensorGroups *
weft_adapter_flatten_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                              GError **error)
{
  WeftAdapterFlatten *self = (WeftAdapterFlatten *) base;
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  const gchar *name = tensor != NULL ? weft_op_get_output_name (context, error) : NULL;
  g_autoptr (WeftTensor) reshaped = NULL;

  if (name != NULL)
    reshaped = self->inverse ? unflatten (self, tensor, error) : flatten (self, tensor, error);
  return reshaped != NULL ? weft_op_new_output (name, reshaped) : NULL;
}

static WeftConversionOpsBase *
weft_adapter_flatten_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftAdapterFlatten *self = (WeftAdapterFlatten *) base;

  return g_object_new (weft_adapter_flatten_get_type (), "dims", self->dims, "sizes", self->sizes, "inverse",
                       !self->inverse, NULL);
}

static void
weft_adapter_flatten_class_init (WeftAdapterFlattenClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_adapter_flatten_convert;
  base_class->dup_inverse = weft_adapter_flatten_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_variant (base_class, "dims", "Axes", "Axes that become one; they follow each other", "ax",
                             "[0, 1]", G_STRUCT_OFFSET (WeftAdapterFlatten, dims));
  weft_op_class_add_variant (
      base_class, "sizes", "Sizes",
      "Extent of each of these axes, -1 for one that follows from the rest; for the inverse", "ax", "[]",
      G_STRUCT_OFFSET (WeftAdapterFlatten, sizes));
  weft_op_class_set_parameter_flags (base_class, "sizes", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
  weft_op_class_add_boolean (base_class, "inverse", "Inverse", "Whether one axis becomes several", FALSE,
                             G_STRUCT_OFFSET (WeftAdapterFlatten, inverse));
  weft_op_class_set_parameter_flags (base_class, "inverse", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
}

/* PeftConcatenate */

/* The tensors of all sources in their order: (experts, rows, rank) each, all of one shape. */
static GPtrArray *
collect_blocks (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  g_autoptr (GPtrArray) blocks = g_ptr_array_new ();

  for (guint i = 0; i < weft_op_context_get_n_source_patterns (context); i++)
    {
      guint group;
      WeftTensor *block = weft_op_find_source (inputs, context, i, &group, error)
                              ? weft_op_get_tensor (inputs, group, error)
                              : NULL;
      g_autofree gchar *found = NULL;

      if (block == NULL)
        return NULL;
      found = weft_tensor_describe (block);
      g_ptr_array_add (blocks, block);
      if (weft_tensor_get_rank (block) == 3
          && weft_shape_equal (weft_tensor_get_shape (block), weft_tensor_get_shape (blocks->pdata[0]))
          && weft_tensor_get_dtype (block) == weft_tensor_get_dtype (blocks->pdata[0]))
        continue;
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_SHAPE,
          "'%s': expected the dtype and the shape (experts, rows, rank) of the other parts of the fused "
          "parameter, found %s",
          weft_op_context_get_source_pattern (context, i), found);
      return NULL;
    }
  return g_steal_pointer (&blocks);
}

/* A block with zeros before and behind it on the axis of ranks: its rows of the block diagonal of every expert. */
static WeftTensor *
pad_block (WeftTensor *block, guint place, guint n_places, GError **error)
{
  const WeftShape *shape = weft_tensor_get_shape (block);
  const gint64 before[] = { shape->dims[0], shape->dims[1], shape->dims[2] * place };
  const gint64 behind[] = { shape->dims[0], shape->dims[1], shape->dims[2] * (n_places - 1 - place) };
  g_autoptr (WeftTensor) zeros_before =
      weft_tensor_new_constant (weft_tensor_get_dtype (block), before, G_N_ELEMENTS (before), 0, error);
  g_autoptr (WeftTensor) zeros_behind =
      zeros_before != NULL
          ? weft_tensor_new_constant (weft_tensor_get_dtype (block), behind, G_N_ELEMENTS (behind), 0, error)
          : NULL;

  if (zeros_behind == NULL)
    return NULL;
  return weft_tensor_concat ((WeftTensor *[]){ zeros_before, block, zeros_behind }, 3, 2, error);
}

/* (experts, rows, ranks) as (rows, ranks * experts): a column is rank * experts + expert. */
static WeftTensor *
put_experts_last (WeftTensor *tensor, GError **error)
{
  static const gint axes[] = { 1, 2, 0 };
  g_autoptr (WeftTensor) permuted = weft_tensor_permute (tensor, axes, G_N_ELEMENTS (axes), error);
  gint64 dims[2];

  if (permuted == NULL)
    return NULL;
  dims[0] = weft_tensor_get_dim (permuted, 0);
  dims[1] = weft_tensor_get_dim (permuted, 1) * weft_tensor_get_dim (permuted, 2);
  return weft_tensor_reshape (permuted, dims, G_N_ELEMENTS (dims), error);
}

static WeftTensorGroups *
join (WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  const gchar *name = weft_op_get_only_target (context, error);
  g_autoptr (GPtrArray) blocks = name != NULL ? collect_blocks (inputs, context, error) : NULL;
  g_autoptr (GPtrArray) rows = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  g_autoptr (WeftTensor) diagonal = NULL;
  g_autoptr (WeftTensor) joined = NULL;

  for (guint i = 0; blocks != NULL && i < blocks->len; i++)
    {
      WeftTensor *padded = pad_block (blocks->pdata[i], i, blocks->len, error);

      if (padded == NULL)
        return NULL;
      g_ptr_array_add (rows, padded);
    }
  if (blocks == NULL)
    return NULL;
  diagonal = weft_tensor_concat ((WeftTensor **) rows->pdata, rows->len, 1, error);
  joined = diagonal != NULL ? put_experts_last (diagonal, error) : NULL;
  return joined != NULL ? weft_op_new_output (name, joined) : NULL;
}

/* The block of one part out of (experts, rows, ranks). */
static WeftTensor *
cut_block (WeftTensor *tensor, guint place, guint n_places, GError **error)
{
  gint64 n_rows = weft_tensor_get_dim (tensor, 1) / n_places;
  gint64 n_ranks = weft_tensor_get_dim (tensor, 2) / n_places;
  g_autoptr (WeftTensor) rows = weft_tensor_slice (tensor, 1, place * n_rows, n_rows, error);

  return rows != NULL ? weft_tensor_slice (rows, 2, place * n_ranks, n_ranks, error) : NULL;
}

/* (rows, ranks * experts) as (experts, rows, ranks). */
static WeftTensor *
put_experts_first (WeftTensor *tensor, gint64 n_experts, guint n_places, GError **error)
{
  static const gint axes[] = { 2, 0, 1 };
  const WeftShape *shape = weft_tensor_get_shape (tensor);
  gint64 dims[3];
  g_autoptr (WeftTensor) unfolded = NULL;

  if (n_experts <= 0 || shape->rank != 2 || shape->dims[1] % (n_experts * n_places) != 0
      || shape->dims[0] % n_places != 0)
    {
      g_autofree gchar *found = weft_tensor_describe (tensor);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE,
                   "%s does not hold %u parts of %" G_GINT64_FORMAT " experts", found, n_places, n_experts);
      return NULL;
    }
  dims[0] = shape->dims[0];
  dims[1] = shape->dims[1] / n_experts;
  dims[2] = n_experts;
  unfolded = weft_tensor_reshape (tensor, dims, G_N_ELEMENTS (dims), error);
  return unfolded != NULL ? weft_tensor_permute (unfolded, axes, G_N_ELEMENTS (axes), error) : NULL;
}

static WeftTensorGroups *
cut (WeftAdapterJoin *self, WeftTensorGroups *inputs, WeftOpContext *context, GError **error)
{
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  WeftTensor *tensor = weft_op_get_only_tensor (inputs, error);
  g_autoptr (WeftTensor) experts =
      tensor != NULL ? put_experts_first (tensor, self->n_experts, n_targets, error) : NULL;
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();

  for (guint i = 0; experts != NULL && i < n_targets; i++)
    {
      g_autoptr (WeftTensor) block = cut_block (experts, i, n_targets, error);

      if (block == NULL
          || !weft_op_add_output (outputs, weft_op_context_get_target_pattern (context, i), block, error))
        return NULL;
    }
  return experts != NULL ? g_steal_pointer (&outputs) : NULL;
}

static WeftTensorGroups *
weft_adapter_join_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                           GError **error)
{
  WeftAdapterJoin *self = (WeftAdapterJoin *) base;

  return self->inverse ? cut (self, inputs, context, error) : join (inputs, context, error);
}

static WeftConversionOpsBase *
weft_adapter_join_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftAdapterJoin *self = (WeftAdapterJoin *) base;

  return g_object_new (weft_adapter_join_get_type (), "n-experts", self->n_experts, "inverse", !self->inverse,
                       NULL);
}

/* What lies beside the blocks is zero, and is not kept when they are taken out. */
static WeftOpTraits
weft_adapter_join_get_traits (WeftConversionOpsBase *base)
{
  return ((WeftAdapterJoin *) base)->inverse ? WEFT_OP_TRAITS_DROPS_ZEROS : WEFT_OP_TRAITS_NONE;
}

static void
weft_adapter_join_class_init (WeftAdapterJoinClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_adapter_join_convert;
  base_class->dup_inverse = weft_adapter_join_dup_inverse;
  base_class->get_traits = weft_adapter_join_get_traits;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (base_class, "n-experts", "Experts",
                         "Number of experts, for the inverse; 0 if it is not known", 0, G_MAXUINT16, 0,
                         G_STRUCT_OFFSET (WeftAdapterJoin, n_experts));
  weft_op_class_set_parameter_flags (base_class, "n-experts", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
  weft_op_class_add_boolean (base_class, "inverse", "Inverse",
                             "Whether the blocks are taken out of the diagonal", FALSE,
                             G_STRUCT_OFFSET (WeftAdapterJoin, inverse));
  weft_op_class_set_parameter_flags (base_class, "inverse", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
}

WEFT_PLUGIN_DEFINE ("adapter", "Fuses the low-rank adapters of experts and takes them apart", NULL,
                    PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_OP ("PermuteDims", WeftAdapterPermute, weft_adapter_permute),
                    WEFT_PLUGIN_OP ("FlattenDims", WeftAdapterFlatten, weft_adapter_flatten),
                    WEFT_PLUGIN_OP ("PeftConcatenate", WeftAdapterJoin, weft_adapter_join));
