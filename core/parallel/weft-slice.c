/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/weft-slice-internal.h"

void
weft_ranges_append (GArray *ranges, gint64 start, gint64 length)
{
  WeftRange *last = ranges->len > 0 ? &g_array_index (ranges, WeftRange, ranges->len - 1) : NULL;
  WeftRange range = { start, length };

  if (length <= 0)
    return;
  if (last != NULL && last->start + last->length == start)
    last->length += length;
  else
    g_array_append_val (ranges, range);
}

gint64
weft_ranges_count (const GArray *ranges)
{
  gint64 n = 0;

  for (guint i = 0; i < ranges->len; i++)
    n += g_array_index (ranges, WeftRange, i).length;
  return n;
}

void
weft_slice_init (WeftSlice *self, const WeftShape *shape)
{
  *self = (WeftSlice){ .shape = *shape };
}

void
weft_slice_clear (WeftSlice *self)
{
  for (guint i = 0; i < self->shape.rank; i++)
    g_clear_pointer (&self->ranges[i], g_array_unref);
}

static gboolean
is_whole_axis (const WeftSlice *self, guint axis)
{
  return self->ranges[axis] == NULL || weft_ranges_count (self->ranges[axis]) == self->shape.dims[axis];
}

gboolean
weft_slice_is_whole (const WeftSlice *self)
{
  for (guint i = 0; i < self->shape.rank; i++)
    if (!is_whole_axis (self, i))
      return FALSE;
  return TRUE;
}

static gboolean
have_equal_ranges (const GArray *a, const GArray *b)
{
  for (guint i = 0; a->len == b->len && i < a->len; i++)
    if (g_array_index (a, WeftRange, i).start != g_array_index (b, WeftRange, i).start
        || g_array_index (a, WeftRange, i).length != g_array_index (b, WeftRange, i).length)
      return FALSE;
  return a->len == b->len;
}

gboolean
weft_slice_equal (const WeftSlice *self, const WeftSlice *other)
{
  if (!weft_shape_equal (&self->shape, &other->shape))
    return FALSE;
  for (guint i = 0; i < self->shape.rank; i++)
    {
      gboolean is_whole = is_whole_axis (self, i);

      if (is_whole != is_whole_axis (other, i)
          || (!is_whole && !have_equal_ranges (self->ranges[i], other->ranges[i])))
        return FALSE;
    }
  return TRUE;
}

WeftShape
weft_slice_get_shape (const WeftSlice *self)
{
  WeftShape shape = self->shape;

  for (guint i = 0; i < shape.rank; i++)
    if (self->ranges[i] != NULL)
      shape.dims[i] = weft_ranges_count (self->ranges[i]);
  return shape;
}

/* Where the elements of @local stand, which counts within @outer. */
static GArray *
select_ranges (const GArray *outer, const GArray *local)
{
  GArray *selected = g_array_new (FALSE, FALSE, sizeof (WeftRange));

  for (guint i = 0; i < local->len; i++)
    {
      gint64 begin = g_array_index (local, WeftRange, i).start;
      gint64 end = begin + g_array_index (local, WeftRange, i).length;
      gint64 offset = 0;

      for (guint k = 0; k < outer->len; k++)
        {
          const WeftRange *range = &g_array_index (outer, WeftRange, k);
          gint64 first = MAX (begin, offset), last = MIN (end, offset + range->length);

          weft_ranges_append (selected, range->start + first - offset, last - first);
          offset += range->length;
        }
    }
  return selected;
}

void
weft_slice_narrow (WeftSlice *self, guint axis, const GArray *local)
{
  g_autoptr (GArray) outer = self->ranges[axis];

  if (outer == NULL)
    {
      outer = g_array_new (FALSE, FALSE, sizeof (WeftRange));
      weft_ranges_append (outer, 0, self->shape.dims[axis]);
    }
  self->ranges[axis] = select_ranges (outer, local);
}

static WeftTensor *
cut_axis (WeftTensor *tensor, guint axis, const GArray *ranges, GError **error)
{
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);

  if (ranges->len == 0)
    return weft_tensor_slice (tensor, (gint) axis, 0, 0, error);
  for (guint i = 0; i < ranges->len; i++)
    {
      const WeftRange *range = &g_array_index (ranges, WeftRange, i);
      WeftTensor *part = weft_tensor_slice (tensor, (gint) axis, range->start, range->length, error);

      if (part == NULL)
        return NULL;
      g_ptr_array_add (parts, part);
    }
  return parts->len == 1 ? weft_tensor_ref (parts->pdata[0])
                         : weft_tensor_concat ((WeftTensor **) parts->pdata, parts->len, (gint) axis, error);
}

WeftTensor *
weft_slice_cut (const WeftSlice *self, WeftTensor *tensor, GError **error)
{
  g_autoptr (WeftTensor) part = weft_tensor_ref (tensor);

  for (guint i = 0; part != NULL && i < self->shape.rank; i++)
    {
      WeftTensor *narrower;

      if (is_whole_axis (self, i))
        continue;
      narrower = cut_axis (part, i, self->ranges[i], error);
      weft_tensor_unref (part);
      part = narrower;
    }
  return g_steal_pointer (&part);
}
