/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-shape.h"

#include <string.h>

G_DEFINE_BOXED_TYPE (WeftShape, weft_shape, weft_shape_copy, weft_shape_free)

/**
 * weft_shape_new:
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank, at most %WEFT_MAX_RANK
 *
 * Returns: (transfer full): a new shape
 * Since: 1.0
 */
WeftShape *
weft_shape_new (const gint64 *dims, gsize n_dims)
{
  WeftShape *self = g_new0 (WeftShape, 1);

  g_return_val_if_fail (n_dims <= WEFT_MAX_RANK, self);
  self->rank = (guint) n_dims;
  for (gsize i = 0; i < n_dims; i++)
    self->dims[i] = dims[i];
  return self;
}

/**
 * weft_shape_copy:
 * @self: a shape
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftShape *
weft_shape_copy (const WeftShape *self)
{
  return g_memdup2 (self, sizeof *self);
}

/**
 * weft_shape_free:
 * @self: (transfer full): a shape
 *
 * Since: 1.0
 */
void
weft_shape_free (WeftShape *self)
{
  g_free (self);
}

/**
 * weft_shape_get_rank:
 * @self: a shape
 *
 * Returns: the number of axes
 * Since: 1.0
 */
guint
weft_shape_get_rank (const WeftShape *self)
{
  return self->rank;
}

/**
 * weft_shape_get_dim:
 * @self: a shape of rank r
 * @axis: an axis, `-r <= axis < r`
 *
 * Returns: the extent of @axis in elements, or -1 if there is no such axis
 * Since: 1.0
 */
gint64
weft_shape_get_dim (const WeftShape *self, gint axis)
{
  guint resolved;

  if (!weft_shape_resolve_axis (self, axis, &resolved, NULL))
    return -1;
  return self->dims[resolved];
}

/**
 * weft_shape_equal:
 * @self: a shape
 * @other: another
 *
 * Returns: whether ranks and extents are equal
 * Since: 1.0
 */
gboolean
weft_shape_equal (const WeftShape *self, const WeftShape *other)
{
  return self->rank == other->rank
         && memcmp (self->dims, other->dims, self->rank * sizeof self->dims[0]) == 0;
}

/**
 * weft_shape_to_string:
 * @self: a shape
 *
 * Returns: (transfer full): the extents, such as `(4, 96, 16)`; `()` for a scalar
 * Since: 1.0
 */
gchar *
weft_shape_to_string (const WeftShape *self)
{
  GString *text = g_string_new ("(");

  for (guint i = 0; i < self->rank; i++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", self->dims[i]);
  g_string_append (text, self->rank == 1 ? ",)" : ")");
  return g_string_free (text, FALSE);
}

/**
 * weft_shape_init: (skip)
 * @self: (out caller-allocates): the shape to fill
 * @dims: (array length=n_dims): extents in elements, outermost first
 * @n_dims: the rank
 * @error: return location
 *
 * Fills @self after checking rank and extents.
 *
 * Returns: whether the extents are valid
 * Errors: %WEFT_ERROR_SHAPE for a negative extent, %WEFT_ERROR_LIMIT for a rank above %WEFT_MAX_RANK
 * Since: 1.0
 */
gboolean
weft_shape_init (WeftShape *self, const gint64 *dims, gsize n_dims, GError **error)
{
  if (n_dims > WEFT_MAX_RANK)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "rank %" G_GSIZE_FORMAT " is above the limit of %d axes", n_dims, WEFT_MAX_RANK);
      return FALSE;
    }
  self->rank = (guint) n_dims;
  for (gsize i = 0; i < n_dims; i++)
    {
      if (dims[i] < 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                       "extent %" G_GINT64_FORMAT " of axis %" G_GSIZE_FORMAT " is negative", dims[i], i);
          return FALSE;
        }
      self->dims[i] = dims[i];
    }
  return TRUE;
}

/**
 * weft_shape_count_elements: (skip)
 * @self: a shape
 * @n_elements: (out): the number of elements
 * @error: return location
 *
 * Returns: whether the number fits in 63 bits
 * Errors: %WEFT_ERROR_SHAPE on overflow
 * Since: 1.0
 */
gboolean
weft_shape_count_elements (const WeftShape *self, gint64 *n_elements, GError **error)
{
  gint64 count = 1;

  *n_elements = 0;
  for (guint i = 0; i < self->rank; i++)
    if (self->dims[i] == 0)
      return TRUE;
  for (guint i = 0; i < self->rank; i++)
    if (__builtin_mul_overflow (count, self->dims[i], &count))
      {
        g_autofree gchar *text = weft_shape_to_string (self);
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "shape %s has more than 2^63 - 1 elements", text);
        return FALSE;
      }
  *n_elements = count;
  return TRUE;
}

/**
 * weft_shape_count_bytes: (skip)
 * @self: a shape
 * @dtype: the element type
 * @n_bytes: (out): the number of bytes
 * @error: return location
 *
 * Returns: whether the tensor has a whole number of bytes that fits in 63 bits
 * Errors: %WEFT_ERROR_SHAPE on overflow, or if a sub-byte dtype does not fill its last byte
 * Since: 1.0
 */
gboolean
weft_shape_count_bytes (const WeftShape *self, WeftDtype dtype, gint64 *n_bytes, GError **error)
{
  gint64 n_elements, n_bits;

  if (!weft_shape_count_elements (self, &n_elements, error))
    return FALSE;
  if (__builtin_mul_overflow (n_elements, (gint64) weft_dtype_get_bits (dtype), &n_bits) || n_bits % 8 != 0)
    {
      g_autofree gchar *text = weft_shape_to_string (self);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%s of shape %s is no whole number of bytes in 63 bits", weft_dtype_get_name (dtype),
                   text);
      return FALSE;
    }
  *n_bytes = n_bits / 8;
  return TRUE;
}

/**
 * weft_shape_resolve_axis: (skip)
 * @self: a shape of rank r
 * @axis: an axis, `-r <= axis < r`
 * @resolved: (out): the axis counted from the outermost
 * @error: return location
 *
 * Returns: whether the axis exists
 * Errors: %WEFT_ERROR_SHAPE if it does not
 * Since: 1.0
 */
gboolean
weft_shape_resolve_axis (const WeftShape *self, gint axis, guint *resolved, GError **error)
{
  gint rank = (gint) self->rank;

  if (axis < -rank || axis >= rank)
    {
      g_autofree gchar *text = weft_shape_to_string (self);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "axis %d is outside a tensor of shape %s", axis,
                   text);
      return FALSE;
    }
  *resolved = (guint) (axis < 0 ? axis + rank : axis);
  return TRUE;
}
