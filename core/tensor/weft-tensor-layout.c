/* SPDX-License-Identifier: Apache-2.0 */
/* The layout operations of WeftTensor: every one rewrites pieces and reads nothing. */
#include "tensor/weft-tensor-private.h"

#include <string.h>

typedef struct
{
  WeftLayoutBuilder *builder;
  /* A rule for loops and addresses: those of (outer, old_width) move to (outer, new_width), the inner part by @shift. */
  gint64 old_width;
  gint64 new_width;
  gint64 shift;
} Rewidth;

static gboolean
add_rewidthed (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Rewidth *rule = user_data;
  WeftPiece moved;

  weft_piece_copy (&moved, piece);
  moved.destination = piece->destination / rule->old_width * rule->new_width
                      + piece->destination % rule->old_width + rule->shift;
  for (guint i = 0; i < moved.n_loops; i++)
    if (moved.loops[i].destination >= rule->old_width)
      moved.loops[i].destination = moved.loops[i].destination / rule->old_width * rule->new_width;
  return weft_layout_builder_add (rule->builder, &moved, error);
}

/* An axis seen as (outer, width): width units make one index of all axes before it. */
typedef struct
{
  gint64 outer;
  gint64 width;
  gint64 inner;
} AxisView;

/* @shape is that of the tensor, or one of as many elements. Cuts at @axis are made in units; @n_at are the numbers of indices at which a cut falls. */
static gboolean
view_axis (WeftTensor *self, const WeftShape *shape, guint axis, const gint64 *n_at, gsize n_cuts,
           const gchar *operation, AxisView *view, GError **error)
{
  gint64 unit = weft_dtype_get_unit_elements (self->dtype);
  gint64 inner = 1;

  view->outer = 1;
  view->width = view->inner = 0;
  /* The other extents of an empty tensor may be anything, their product too large. */
  if (self->n_elements == 0)
    return TRUE;
  for (guint i = 0; i < axis; i++)
    view->outer *= shape->dims[i];
  for (guint i = axis + 1; i < shape->rank; i++)
    inner *= shape->dims[i];
  view->inner = inner;
  view->width = shape->dims[axis] * inner;
  for (gsize i = 0; i < n_cuts; i++)
    if (n_at[i] * inner % unit != 0 || (view->outer > 1 && view->width % unit != 0))
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                     "%s: a cut at index %" G_GINT64_FORMAT " of axis %u falls inside a byte of %s elements",
                     operation, n_at[i], axis, weft_dtype_get_name (self->dtype));
        return FALSE;
      }
  return TRUE;
}

typedef struct
{
  WeftPieceFunc next;
  gpointer next_data;
  gint64 width;
  gint64 start;
  gint64 length;
  const gchar *operation;
} Cut;

static gboolean
cut_fitted (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Cut *cut = user_data;

  return weft_piece_cut (piece, cut->width, cut->start, cut->length, cut->operation, cut->next,
                         cut->next_data, error);
}

/* Indices [start, start + length) of axis @k, in a tensor of shape @shape, which has as many elements. */
static WeftTensor *
cut_axis (WeftTensor *self, guint k, gint64 start, gint64 length, const WeftShape *shape, GError **error)
{
  WeftLayoutBuilder builder;
  AxisView view;
  gint64 unit = weft_dtype_get_unit_elements (self->dtype);
  guint first = 0, last = self->layout.n_pieces;
  gboolean ok = TRUE;

  if (!view_axis (self, &self->shape, k, (const gint64[]){ start, start + length }, 2, "slice", &view, error))
    return NULL;
  if (view.outer == 1)
    weft_layout_find_pieces (&self->layout, start * view.inner / unit, (start + length) * view.inner / unit,
                             &first, &last);
  weft_layout_builder_init (&builder, "slice");
  for (guint i = first; ok && self->n_elements > 0 && length > 0 && i < last; i++)
    {
      const gint64 dims[] = { view.outer, view.width / unit };
      Rewidth rule = { &builder, view.width / unit, length * view.inner / unit, -start * view.inner / unit };
      Cut cut = {
        add_rewidthed, &rule, view.width / unit, start * view.inner / unit, length * view.inner / unit,
        "slice"
      };
      WeftPiece piece;

      if (view.outer == 1)
        {
          /* Units of the whole tensor, whose last bytes a sub-byte axis need not fill. */
          rule.old_width = rule.new_width = cut.width = G_MAXINT64;
        }
      weft_layout_get_piece (&self->layout, i, &piece);
      ok = view.outer == 1 ? cut_fitted (&piece, &cut, error)
                           : weft_piece_fit (&piece, dims, 2, "slice", cut_fitted, &cut, error);
    }
  if (!ok)
    {
      weft_layout_builder_clear (&builder);
      return NULL;
    }
  return weft_tensor_new_from_builder (self->dtype, shape, &builder);
}

/**
 * weft_tensor_slice:
 * @self: a tensor of rank r
 * @axis: axis to cut, `-r <= axis < r`
 * @start: first index kept
 * @length: how many indices are kept; may be 0
 * @error: return location
 *
 * Cuts @length indices out of @axis. No element is read; reading the result reads only what it keeps.
 *
 * Returns: (transfer full): a tensor whose shape is that of @self with @axis set to @length
 * Errors: %WEFT_ERROR_SHAPE if the range leaves the axis, or a cut falls inside a byte of a sub-byte dtype
 * Since: 1.0
 */
WeftTensor *
weft_tensor_slice (WeftTensor *self, gint axis, gint64 start, gint64 length, GError **error)
{
  WeftShape shape = self->shape;
  guint k;

  if (!weft_shape_resolve_axis (&self->shape, axis, &k, error))
    return NULL;
  if (start < 0 || length < 0 || start > shape.dims[k] || length > shape.dims[k] - start)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "slice: %" G_GINT64_FORMAT " indices from %" G_GINT64_FORMAT
                   " leave axis %u of size %" G_GINT64_FORMAT,
                   length, start, k, shape.dims[k]);
      return NULL;
    }
  if (start == 0 && length == shape.dims[k])
    return weft_tensor_ref (self);
  shape.dims[k] = length;
  return cut_axis (self, k, start, length, &shape, error);
}

/* What tensors give that are joined on @axis, or, if there is no such axis, are to be equal on all. */
static gboolean
check_concat (WeftTensor **tensors, gsize n_tensors, guint axis, WeftShape *shape, GError **error)
{
  *shape = tensors[0]->shape;
  for (gsize i = 1; i < n_tensors; i++)
    {
      gboolean fits = tensors[i]->shape.rank == shape->rank;

      if (tensors[i]->dtype != tensors[0]->dtype)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                       "concat: tensor %" G_GSIZE_FORMAT
                       " is %s, the first is %s; cast them to one dtype first",
                       i, weft_dtype_get_name (tensors[i]->dtype), weft_dtype_get_name (tensors[0]->dtype));
          return FALSE;
        }
      for (guint k = 0; fits && k < shape->rank; k++)
        fits = k == axis || tensors[i]->shape.dims[k] == shape->dims[k];
      if (!fits)
        {
          g_autofree gchar *first = weft_shape_to_string (&tensors[0]->shape);
          g_autofree gchar *other = weft_shape_to_string (&tensors[i]->shape);
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                       "concat on axis %u: shapes %s and %s (tensor %" G_GSIZE_FORMAT
                       ") differ on another axis",
                       axis, first, other, i);
          return FALSE;
        }
      if (axis < shape->rank
          && __builtin_add_overflow (shape->dims[axis], tensors[i]->shape.dims[axis], &shape->dims[axis]))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "concat: axis %u is beyond 2^63 - 1", axis);
          return FALSE;
        }
    }
  return TRUE;
}

/* Adds the pieces of a tensor, seen under @shape, where it stands in the result: @offset elements after the start of
 * each of the runs of @total elements that one index of the axes before @k has. */
static gboolean
add_joined (WeftLayoutBuilder *builder, WeftTensor *tensor, const WeftShape *shape, guint k, gint64 total,
            gint64 *offset, GError **error)
{
  const gint64 cuts[] = { shape->dims[k] };
  gint64 unit = weft_dtype_get_unit_elements (tensor->dtype);
  AxisView view;
  gboolean ok;

  if (tensor->n_elements == 0)
    return TRUE;
  ok = view_axis (tensor, shape, k, cuts, 1, "concat", &view, error);
  for (guint i = 0; ok && i < tensor->layout.n_pieces; i++)
    {
      const gint64 dims[] = { view.outer, view.width / unit };
      Rewidth rule = { builder, view.width / unit, total / unit, *offset / unit };
      WeftPiece piece;

      weft_layout_get_piece (&tensor->layout, i, &piece);
      if (view.outer == 1)
        rule.old_width = rule.new_width = G_MAXINT64;
      ok = view.outer == 1 ? add_rewidthed (&piece, &rule, error)
                           : weft_piece_fit (&piece, dims, 2, "concat", add_rewidthed, &rule, error);
    }
  if (ok)
    *offset += view.width;
  return ok;
}

/* Joins tensors on axis @k to one of shape @shape; each is seen under @raised, or if that is NULL under its own shape. */
static WeftTensor *
join (WeftTensor **tensors, gsize n_tensors, const WeftShape *raised, guint k, const WeftShape *shape,
      GError **error)
{
  WeftLayoutBuilder builder;
  gint64 total, n_bytes, offset = 0;
  gboolean ok = TRUE;

  if (!weft_shape_count_bytes (shape, tensors[0]->dtype, &n_bytes, error))
    return NULL;
  total = n_bytes > 0 ? shape->dims[k] : 0;
  for (guint i = k + 1; total > 0 && i < shape->rank; i++)
    total *= shape->dims[i];
  weft_layout_builder_init (&builder, "concat");
  for (gsize i = 0; ok && i < n_tensors; i++)
    ok = add_joined (&builder, tensors[i], raised != NULL ? raised : &tensors[i]->shape, k, total, &offset,
                     error);
  if (!ok)
    {
      weft_layout_builder_clear (&builder);
      return NULL;
    }
  return weft_tensor_new_from_builder (tensors[0]->dtype, shape, &builder);
}

/**
 * weft_tensor_concat:
 * @tensors: (array length=n_tensors): tensors of one dtype and rank, equal on all axes but @axis
 * @n_tensors: their number, at least 1
 * @axis: axis to join on
 * @error: return location
 *
 * Returns: (transfer full): the tensors one after the other on @axis
 * Errors: %WEFT_ERROR_SHAPE or %WEFT_ERROR_DTYPE if they do not fit together, %WEFT_ERROR_LIMIT for too many pieces
 * Since: 1.0
 */
WeftTensor *
weft_tensor_concat (WeftTensor **tensors, gsize n_tensors, gint axis, GError **error)
{
  WeftShape shape;
  guint k;

  if (n_tensors == 0)
    {
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "concat: there is no tensor to join");
      return NULL;
    }
  if (!weft_shape_resolve_axis (&tensors[0]->shape, axis, &k, error)
      || !check_concat (tensors, n_tensors, k, &shape, error))
    return NULL;
  if (n_tensors == 1)
    return weft_tensor_ref (tensors[0]);
  return join (tensors, n_tensors, NULL, k, &shape, error);
}

/* @shape with a new axis of extent 1 at @axis, counted from the end if it is negative. */
static gboolean
insert_axis (WeftShape *shape, gint axis, guint *k, GError **error)
{
  gint rank = (gint) shape->rank;
  gint at = axis < 0 ? axis + rank + 1 : axis;

  if (at < 0 || at > rank)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "unsqueeze: axis %d is outside a tensor of rank %d",
                   axis, rank);
      return FALSE;
    }
  if (rank == WEFT_MAX_RANK)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "unsqueeze: the tensor has %d axes already, the limit", WEFT_MAX_RANK);
      return FALSE;
    }
  memmove (&shape->dims[at + 1], &shape->dims[at], (gsize) (rank - at) * sizeof shape->dims[0]);
  shape->dims[at] = 1;
  shape->rank++;
  *k = (guint) at;
  return TRUE;
}

static void
remove_axis (WeftShape *shape, guint k)
{
  memmove (&shape->dims[k], &shape->dims[k + 1], (shape->rank - k - 1) * sizeof shape->dims[0]);
  shape->rank--;
}

/**
 * weft_tensor_stack:
 * @tensors: (array length=n_tensors): tensors of one dtype and shape, of rank r
 * @n_tensors: their number, at least 1
 * @axis: where the new axis stands, `-r - 1 <= axis <= r`
 * @error: return location
 *
 * Returns: (transfer full): a tensor of rank r + 1 whose @axis counts the tensors
 * Errors: %WEFT_ERROR_SHAPE or %WEFT_ERROR_DTYPE if they differ, %WEFT_ERROR_LIMIT for too many pieces
 * Since: 1.0
 */
WeftTensor *
weft_tensor_stack (WeftTensor **tensors, gsize n_tensors, gint axis, GError **error)
{
  WeftShape raised, shape;
  guint k;

  if (n_tensors == 0)
    {
      g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "stack: there is no tensor to stack");
      return NULL;
    }
  for (gsize i = 0; i < n_tensors; i++)
    {
      if (!weft_shape_equal (&tensors[i]->shape, &tensors[0]->shape))
        {
          g_autofree gchar *first = weft_shape_to_string (&tensors[0]->shape);
          g_autofree gchar *other = weft_shape_to_string (&tensors[i]->shape);
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                       "stack: tensor %" G_GSIZE_FORMAT " has shape %s, the first has %s", i, other, first);
          return NULL;
        }
    }
  if (!check_concat (tensors, n_tensors, G_MAXUINT, &raised, error)
      || !insert_axis (&raised, axis, &k, error))
    return NULL;
  shape = raised;
  shape.dims[k] = (gint64) n_tensors;
  return join (tensors, n_tensors, &raised, k, &shape, error);
}

/**
 * weft_tensor_split:
 * @self: a tensor
 * @axis: axis to cut
 * @lengths: (array length=n_lengths): how many indices each part takes; their sum is the size of the axis
 * @n_lengths: number of parts
 * @error: return location
 *
 * Returns: (transfer container) (element-type WeftTensor): the parts in order
 * Errors: %WEFT_ERROR_SHAPE if the lengths do not sum to the axis
 * Since: 1.0
 */
GPtrArray *
weft_tensor_split (WeftTensor *self, gint axis, const gint64 *lengths, gsize n_lengths, GError **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  gint64 start = 0;
  guint k;

  if (!weft_shape_resolve_axis (&self->shape, axis, &k, error))
    return NULL;
  for (gsize i = 0; i < n_lengths; i++)
    {
      WeftTensor *part = weft_tensor_slice (self, axis, start, lengths[i], error);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (parts, part);
      start += lengths[i];
    }
  if (start != self->shape.dims[k])
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "split: lengths sum to %" G_GINT64_FORMAT ", axis %u has %" G_GINT64_FORMAT, start, k,
                   self->shape.dims[k]);
      return NULL;
    }
  return g_steal_pointer (&parts);
}

/**
 * weft_tensor_unstack:
 * @self: a tensor of rank r >= 1
 * @axis: axis to take apart
 * @error: return location
 *
 * Returns: (transfer container) (element-type WeftTensor): one tensor of rank r - 1 for each index of @axis
 * Errors: %WEFT_ERROR_SHAPE if there is no such axis, %WEFT_ERROR_LIMIT if it has more than 65536 indices
 * Since: 1.0
 */
GPtrArray *
weft_tensor_unstack (WeftTensor *self, gint axis, GError **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  WeftShape shape = self->shape;
  guint k;

  if (!weft_shape_resolve_axis (&self->shape, axis, &k, error))
    return NULL;
  /* Another extent of 0 lets an axis of any size into a file. */
  if (self->shape.dims[k] > WEFT_MAX_PIECES)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "unstack: axis %u has %" G_GINT64_FORMAT " indices, more than %d", k, self->shape.dims[k],
                   WEFT_MAX_PIECES);
      return NULL;
    }
  remove_axis (&shape, k);
  for (gint64 i = 0; i < self->shape.dims[k]; i++)
    {
      WeftTensor *part = cut_axis (self, k, i, 1, &shape, error);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (parts, part);
    }
  return g_steal_pointer (&parts);
}

typedef struct
{
  WeftLayoutBuilder *builder;
  guint rank;
  gint64 old_strides[WEFT_MAX_RANK];
  gint64 dims[WEFT_MAX_RANK];
  /* Stride in the result of each axis of the original. */
  gint64 new_strides[WEFT_MAX_RANK];
} Permutation;

static gboolean
add_permuted (const WeftPiece *piece, gpointer user_data, GError **error)
{
  Permutation *rule = user_data;
  WeftPiece moved = *piece;

  moved.destination = 0;
  for (guint k = 0; k < rule->rank; k++)
    moved.destination += piece->destination / rule->old_strides[k] % rule->dims[k] * rule->new_strides[k];
  for (guint i = 0; i < moved.n_loops; i++)
    {
      guint k = 0;

      while (rule->old_strides[k] > moved.loops[i].destination || rule->dims[k] == 1)
        k++;
      moved.loops[i].destination = moved.loops[i].destination / rule->old_strides[k] * rule->new_strides[k];
    }
  return weft_layout_builder_add (rule->builder, &moved, error);
}

static gboolean
check_axes (WeftTensor *self, const gint *axes, gsize n_axes, guint *resolved, GError **error)
{
  gboolean seen[WEFT_MAX_RANK] = { FALSE };

  for (gsize i = 0; i < n_axes && n_axes == self->shape.rank; i++)
    {
      if (!weft_shape_resolve_axis (&self->shape, axes[i], &resolved[i], error))
        return FALSE;
      if (seen[resolved[i]])
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "permute: axis %u is named twice", resolved[i]);
          return FALSE;
        }
      seen[resolved[i]] = TRUE;
    }
  if (n_axes == self->shape.rank)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
               "permute: %" G_GSIZE_FORMAT " axes are named, the tensor has %u", n_axes, self->shape.rank);
  return FALSE;
}

/**
 * weft_tensor_permute:
 * @self: a tensor of rank r
 * @axes: (array length=n_axes): for each axis of the result the axis of @self that it was
 * @n_axes: r
 * @error: return location
 *
 * Returns: (transfer full): @self with its axes in another order
 * Errors: %WEFT_ERROR_SHAPE if @axes is no permutation, or moves the last axis of a sub-byte dtype
 * Since: 1.0
 */
WeftTensor *
weft_tensor_permute (WeftTensor *self, const gint *axes, gsize n_axes, GError **error)
{
  Permutation rule = { .rank = self->shape.rank };
  WeftLayoutBuilder builder;
  WeftShape shape = self->shape;
  guint resolved[WEFT_MAX_RANK];
  gint64 unit = weft_dtype_get_unit_elements (self->dtype);
  gint64 stride = 1;
  gboolean ok = TRUE, is_identity = TRUE;

  if (!check_axes (self, axes, n_axes, resolved, error))
    return NULL;
  for (guint i = 0; i < shape.rank; i++)
    {
      is_identity = is_identity && resolved[i] == i;
      shape.dims[i] = self->shape.dims[resolved[i]];
      rule.dims[i] = self->shape.dims[i];
    }
  if (is_identity)
    return weft_tensor_ref (self);
  if (unit > 1 && (resolved[shape.rank - 1] != shape.rank - 1 || rule.dims[shape.rank - 1] % unit != 0))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "permute: %s elements share bytes along the last axis, which must stay last",
                   weft_dtype_get_name (self->dtype));
      return NULL;
    }
  rule.builder = &builder;
  weft_layout_builder_init (&builder, "permute");
  if (self->n_elements == 0)
    return weft_tensor_new_from_builder (self->dtype, &shape, &builder);
  rule.dims[shape.rank - 1] /= unit;
  for (guint i = shape.rank; i-- > 0; stride *= rule.dims[i])
    rule.old_strides[i] = stride;
  stride = 1;
  for (guint i = shape.rank; i-- > 0; stride *= rule.dims[resolved[i]])
    rule.new_strides[resolved[i]] = stride;
  for (guint i = 0; ok && i < self->layout.n_pieces; i++)
    {
      WeftPiece piece;

      weft_layout_get_piece (&self->layout, i, &piece);
      ok = weft_piece_fit (&piece, rule.dims, rule.rank, "permute", add_permuted, &rule, error);
    }
  if (!ok)
    {
      weft_layout_builder_clear (&builder);
      return NULL;
    }
  return weft_tensor_new_from_builder (self->dtype, &shape, &builder);
}

/**
 * weft_tensor_transpose:
 * @self: a tensor
 * @axis0: an axis
 * @axis1: another
 * @error: return location
 *
 * Returns: (transfer full): @self with two axes exchanged
 * Errors: as weft_tensor_permute()
 * Since: 1.0
 */
WeftTensor *
weft_tensor_transpose (WeftTensor *self, gint axis0, gint axis1, GError **error)
{
  gint axes[WEFT_MAX_RANK];
  guint k0, k1;

  if (!weft_shape_resolve_axis (&self->shape, axis0, &k0, error)
      || !weft_shape_resolve_axis (&self->shape, axis1, &k1, error))
    return NULL;
  for (guint i = 0; i < self->shape.rank; i++)
    axes[i] = (gint) i;
  axes[k0] = (gint) k1;
  axes[k1] = (gint) k0;
  return weft_tensor_permute (self, axes, self->shape.rank, error);
}

/* The same elements and pieces under another shape of as many elements. */
static WeftTensor *
tensor_with_shape (WeftTensor *self, const WeftShape *shape)
{
  WeftLayoutBuilder builder;

  weft_layout_builder_init (&builder, "reshape");
  weft_layout_builder_copy (&builder, &self->layout);
  return weft_tensor_new_from_builder (self->dtype, shape, &builder);
}

/**
 * weft_tensor_reshape:
 * @self: a tensor
 * @dims: (array length=n_dims): new extents in elements; one of them may be -1: what is left
 * @n_dims: new rank
 * @error: return location
 *
 * Returns: (transfer full): the same elements in row-major order under another shape
 * Errors: %WEFT_ERROR_SHAPE if the number of elements differs
 * Since: 1.0
 */
WeftTensor *
weft_tensor_reshape (WeftTensor *self, const gint64 *dims, gsize n_dims, GError **error)
{
  gint64 known[WEFT_MAX_RANK];
  WeftShape shape;
  gint64 n_elements = 0, product = 1;
  gsize free_axis = G_MAXSIZE;

  for (gsize i = 0; i < n_dims && i < WEFT_MAX_RANK; i++)
    {
      known[i] = dims[i];
      if (dims[i] == -1 && free_axis == G_MAXSIZE)
        free_axis = i;
      else if (dims[i] >= 0 && __builtin_mul_overflow (product, dims[i], &product))
        product = 0;
    }
  if (free_axis != G_MAXSIZE)
    known[free_axis] = product > 0 ? self->n_elements / product : 0;
  if (!weft_shape_init (&shape, known, n_dims, error)
      || !weft_shape_count_elements (&shape, &n_elements, error))
    return NULL;
  if (n_elements != self->n_elements)
    {
      g_autofree gchar *old_text = weft_shape_to_string (&self->shape);
      g_autofree gchar *new_text = weft_shape_to_string (&shape);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "reshape: %s has %" G_GINT64_FORMAT " elements, %s has %" G_GINT64_FORMAT, old_text,
                   self->n_elements, new_text, n_elements);
      return NULL;
    }
  return tensor_with_shape (self, &shape);
}

/**
 * weft_tensor_unsqueeze:
 * @self: a tensor of rank r
 * @axis: where the new axis of extent 1 stands, `-r - 1 <= axis <= r`
 * @error: return location
 *
 * Returns: (transfer full): a tensor of rank r + 1
 * Errors: %WEFT_ERROR_SHAPE if @axis is out of range, %WEFT_ERROR_LIMIT beyond %WEFT_MAX_RANK axes
 * Since: 1.0
 */
WeftTensor *
weft_tensor_unsqueeze (WeftTensor *self, gint axis, GError **error)
{
  WeftShape shape = self->shape;
  guint k;

  return insert_axis (&shape, axis, &k, error) ? tensor_with_shape (self, &shape) : NULL;
}

/**
 * weft_tensor_squeeze:
 * @self: a tensor
 * @axis: an axis of extent 1
 * @error: return location
 *
 * Returns: (transfer full): @self without @axis
 * Errors: %WEFT_ERROR_SHAPE if there is no such axis or its extent is not 1
 * Since: 1.0
 */
WeftTensor *
weft_tensor_squeeze (WeftTensor *self, gint axis, GError **error)
{
  WeftShape shape = self->shape;
  guint k;

  if (!weft_shape_resolve_axis (&self->shape, axis, &k, error))
    return NULL;
  if (shape.dims[k] != 1)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "squeeze: axis %u has extent %" G_GINT64_FORMAT ", not 1", k, shape.dims[k]);
      return NULL;
    }
  remove_axis (&shape, k);
  return tensor_with_shape (self, &shape);
}

/**
 * weft_tensor_select:
 * @self: a tensor
 * @axis: an axis
 * @indices: (array length=n_indices): indices of @axis in the order wanted; repeats are allowed
 * @n_indices: their number
 * @error: return location
 *
 * Returns: (transfer full): the named indices of @axis, one after the other
 * Errors: %WEFT_ERROR_SHAPE if an index leaves the axis, %WEFT_ERROR_LIMIT for too many pieces
 * Since: 1.0
 */
WeftTensor *
weft_tensor_select (WeftTensor *self, gint axis, const gint64 *indices, gsize n_indices, GError **error)
{
  g_autoptr (GPtrArray) runs = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  gsize next;

  for (gsize i = 0; i < n_indices; i = next)
    {
      WeftTensor *run;

      for (next = i + 1; next < n_indices && indices[next] == indices[next - 1] + 1;)
        next++;
      if (runs->len >= WEFT_MAX_PIECES)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                       "select: the layout falls into more than %d pieces", WEFT_MAX_PIECES);
          return NULL;
        }
      run = weft_tensor_slice (self, axis, indices[i], (gint64) (next - i), error);
      if (run == NULL)
        return NULL;
      g_ptr_array_add (runs, run);
    }
  if (runs->len == 0)
    return weft_tensor_slice (self, axis, 0, 0, error);
  return weft_tensor_concat ((WeftTensor **) runs->pdata, runs->len, axis, error);
}

/**
 * weft_tensor_broadcast_scalar:
 * @self: a tensor of one element, of a dtype of whole bytes
 * @dims: (array length=n_dims): extents of the result
 * @n_dims: its rank
 * @error: return location
 *
 * Returns: (transfer full): a tensor whose elements are all that one
 * Errors: %WEFT_ERROR_SHAPE if @self has not one element, %WEFT_ERROR_DTYPE for a sub-byte dtype
 * Since: 1.0
 */
WeftTensor *
weft_tensor_broadcast_scalar (WeftTensor *self, const gint64 *dims, gsize n_dims, GError **error)
{
  WeftLayoutBuilder builder;
  WeftShape shape;
  WeftPiece piece;
  gint64 n_bytes, n_elements;

  if (self->n_elements != 1 || weft_dtype_get_unit_elements (self->dtype) != 1)
    {
      g_autofree gchar *text = weft_shape_to_string (&self->shape);
      g_set_error (error, WEFT_ERROR, self->n_elements != 1 ? WEFT_ERROR_SHAPE : WEFT_ERROR_DTYPE,
                   "broadcast: %s of shape %s is not one element of whole bytes",
                   weft_dtype_get_name (self->dtype), text);
      return NULL;
    }
  if (!weft_shape_init (&shape, dims, n_dims, error)
      || !weft_shape_count_bytes (&shape, self->dtype, &n_bytes, error)
      || !weft_shape_count_elements (&shape, &n_elements, error))
    return NULL;
  weft_layout_builder_init (&builder, "broadcast");
  weft_layout_get_piece (&self->layout, 0, &piece);
  piece.n_loops = 1;
  piece.loops[0] = (WeftLoop){ n_elements, 1, 0 };
  /* One piece into an empty builder cannot fail. */
  if (n_elements > 0)
    (void) weft_layout_builder_add (&builder, &piece, NULL);
  return weft_tensor_new_from_builder (self->dtype, &shape, &builder);
}

typedef struct
{
  WeftLayoutBuilder *builder;
  /* The tensor is seen as (outer, extent, inner). */
  gint64 extent;
  gint64 inner;
  gint64 count;
} Repetition;

static gint64
move_address (const Repetition *repetition, gint64 address)
{
  gint64 inner = repetition->inner, extent = repetition->extent;

  return ((address / (extent * inner) * extent + address / inner % extent) * repetition->count) * inner
         + address % inner;
}

static gboolean
add_repeated (const WeftPiece *piece, gpointer user_data, GError **error)
{
  const Repetition *repetition = user_data;
  WeftPiece repeated;

  if (piece->n_loops == WEFT_MAX_LOOPS)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT, "repeat: a piece has more than %d loops",
                   WEFT_MAX_LOOPS - 1);
      return FALSE;
    }
  weft_piece_copy (&repeated, piece);
  repeated.destination = move_address (repetition, piece->destination);
  for (guint i = 0; i < repeated.n_loops; i++)
    repeated.loops[i].destination = move_address (repetition, piece->loops[i].destination);
  repeated.loops[repeated.n_loops++] = (WeftLoop){ repetition->count, repetition->inner, 0 };
  weft_piece_normalise (&repeated);
  return weft_layout_builder_add (repetition->builder, &repeated, error);
}

/**
 * weft_tensor_repeat:
 * @self: a tensor of a dtype of whole bytes
 * @axis: axis to stretch, `-r <= axis < r`
 * @count: how often each index stands in the result, at least 1
 * @length: extent of the result on @axis, at most @count times that of @self
 * @error: return location
 *
 * Stands each index of @axis @count times in a row, cut at @length: what a scale for every block becomes when it is
 * written out for every element. No element is read.
 *
 * Returns: (transfer full): a tensor whose shape is that of @self with @axis set to @length
 * Errors: %WEFT_ERROR_SHAPE if @count or @length does not fit, %WEFT_ERROR_DTYPE for a sub-byte dtype
 * Since: 1.0
 */
WeftTensor *
weft_tensor_repeat (WeftTensor *self, gint axis, gint64 count, gint64 length, GError **error)
{
  WeftShape shape = self->shape;
  gint64 dims[3] = { 1, 1, 1 };
  gint64 n_bytes, stretched;
  WeftLayoutBuilder builder;
  g_autoptr (WeftTensor) whole = NULL;
  gboolean ok = TRUE;
  guint k;

  if (!weft_shape_resolve_axis (&self->shape, axis, &k, error))
    return NULL;
  if (weft_dtype_get_unit_elements (self->dtype) != 1)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE, "repeat: elements of %s are no whole bytes",
                   weft_dtype_get_name (self->dtype));
      return NULL;
    }
  if (count < 1 || length < 0 || __builtin_mul_overflow (shape.dims[k], count, &stretched)
      || length > stretched)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "repeat: %" G_GINT64_FORMAT " times %" G_GINT64_FORMAT
                   " indices of axis %u do not give %" G_GINT64_FORMAT,
                   count, shape.dims[k], k, length);
      return NULL;
    }
  for (guint i = 0; i < shape.rank; i++)
    dims[i < k ? 0 : i == k ? 1 : 2] *= shape.dims[i];
  shape.dims[k] = stretched;
  if (!weft_shape_count_bytes (&shape, self->dtype, &n_bytes, error))
    return NULL;
  weft_layout_builder_init (&builder, "repeat");
  for (guint i = 0; ok && i < self->layout.n_pieces; i++)
    {
      Repetition repetition = { &builder, dims[1], dims[2], count };
      WeftPiece piece;

      weft_layout_get_piece (&self->layout, i, &piece);
      ok = weft_piece_fit (&piece, dims, 3, "repeat", add_repeated, &repetition, error);
    }
  if (!ok)
    {
      weft_layout_builder_clear (&builder);
      return NULL;
    }
  whole = weft_tensor_new_from_builder (self->dtype, &shape, &builder);
  return length == stretched ? g_steal_pointer (&whole)
                             : weft_tensor_slice (whole, (gint) k, 0, length, error);
}
