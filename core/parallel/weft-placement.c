/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/weft-placement-private.h"

#include <string.h>

/* More than any mesh has. */
#define MAX_CUTS 8
#define MAX_GROUPS 65536

struct _WeftPlacement
{
  GArray *cuts; /* of WeftCut */
};

G_DEFINE_BOXED_TYPE (WeftPlacement, weft_placement, weft_placement_copy, weft_placement_free)

static void
clear_cut (gpointer cut)
{
  g_clear_pointer (&((WeftCut *) cut)->segments, g_array_unref);
}

static WeftPlacement *
placement_new (void)
{
  WeftPlacement *self = g_new0 (WeftPlacement, 1);

  self->cuts = g_array_new (FALSE, TRUE, sizeof (WeftCut));
  g_array_set_clear_func (self->cuts, clear_cut);
  return self;
}

static WeftPlacement *
new_of_cut (gint axis, guint n_groups, GArray *segments)
{
  WeftPlacement *self = placement_new ();
  WeftCut cut = { axis, n_groups, segments };

  g_array_append_val (self->cuts, cut);
  return self;
}

WeftPlacement *
weft_placement_new_whole (void)
{
  return new_of_cut (-1, 1, NULL);
}

WeftPlacement *
weft_placement_new_shard (gint axis, guint n_groups)
{
  return new_of_cut (axis, n_groups, NULL);
}

WeftPlacement *
weft_placement_new_segments (gint axis, GArray *segments)
{
  return new_of_cut (axis, 1, segments);
}

static const WeftCut *
get_cut (const WeftPlacement *self, guint i)
{
  return &g_array_index (self->cuts, WeftCut, i);
}

gboolean
weft_placement_is_whole (const WeftPlacement *self)
{
  for (guint i = 0; i < self->cuts->len; i++)
    if (get_cut (self, i)->axis >= 0)
      return FALSE;
  return TRUE;
}

static gboolean
parse_number (const gchar *text, guint64 max, guint64 *number)
{
  return g_ascii_string_to_unsigned (text, 10, 0, max, number, NULL);
}

static gboolean
parse_cut (const gchar *text, WeftCut *cut)
{
  g_auto (GStrv) words = g_strsplit (text, ":", -1);
  guint n = g_strv_length (words);
  gboolean is_strided = n == 3 && strcmp (words[0], "strided") == 0;
  guint64 axis = 0, n_groups = 1;

  *cut = (WeftCut){ -1, 1, NULL };
  if (n == 1 && strcmp (words[0], "replicate") == 0)
    return TRUE;
  if (!(is_strided || (n == 2 && strcmp (words[0], "shard") == 0))
      || !parse_number (words[1], WEFT_MAX_RANK - 1, &axis)
      || (is_strided && (!parse_number (words[2], MAX_GROUPS, &n_groups) || n_groups == 0)))
    return FALSE;
  cut->axis = (gint) axis;
  cut->n_groups = (guint) n_groups;
  return TRUE;
}

/**
 * weft_placement_new:
 * @text: for each dimension of a mesh, by comma: `replicate` (all ranks hold all of it), `shard:AXIS` (each holds as many
 *   consecutive indices of the axis, rounded up) or `strided:AXIS:GROUPS` (the axis is cut in groups, and each group so)
 * @error: return location
 *
 * Returns: (transfer full): the placement
 * Errors: %WEFT_ERROR_ARGUMENT if @text is none
 * Since: 1.0
 */
WeftPlacement *
weft_placement_new (const gchar *text, GError **error)
{
  g_autoptr (WeftPlacement) self = placement_new ();
  g_auto (GStrv) words = g_strsplit (*text != '\0' ? text : " ", ",", -1);

  for (guint i = 0; words[i] != NULL; i++)
    {
      WeftCut cut;

      if (i >= MAX_CUTS || !parse_cut (g_strstrip (words[i]), &cut))
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
              "'%s' is no placement; write replicate, shard:AXIS or strided:AXIS:GROUPS, by comma for each "
              "of up to %d dimensions of a mesh",
              text, MAX_CUTS);
          return NULL;
        }
      g_array_append_val (self->cuts, cut);
    }
  return g_steal_pointer (&self);
}

/**
 * weft_placement_copy: (skip)
 * @self: a placement
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftPlacement *
weft_placement_copy (const WeftPlacement *self)
{
  WeftPlacement *copy = placement_new ();

  for (guint i = 0; i < self->cuts->len; i++)
    {
      WeftCut cut = *get_cut (self, i);

      if (cut.segments != NULL)
        g_array_ref (cut.segments);
      g_array_append_val (copy->cuts, cut);
    }
  return copy;
}

/**
 * weft_placement_free: (skip)
 * @self: a placement
 *
 * Since: 1.0
 */
void
weft_placement_free (WeftPlacement *self)
{
  g_array_unref (self->cuts);
  g_free (self);
}

static gint64
divide_up (gint64 n, gint64 by)
{
  return n / by + (n % by != 0);
}

static void
cut_segment (GArray *ranges, gint64 offset, const WeftSegment *segment, guint n_ranks, guint rank)
{
  gint64 n_units = divide_up (segment->length, segment->unit);
  gint64 n_each = divide_up (n_units, n_ranks);
  gint64 first, last;

  if (n_units == 0)
    return;
  if (segment->spreads && n_units < n_ranks)
    {
      first = rank * n_units / n_ranks;
      last = first + 1;
    }
  else
    {
      first = rank > n_units / n_each ? n_units : MIN (rank * n_each, n_units);
      last = MIN (first + n_each, n_units);
    }
  first = MIN (first * segment->unit, segment->length);
  last = last == n_units ? segment->length : last * segment->unit;
  weft_ranges_append (ranges, offset + first, last - first);
}

/* What @rank of @n_ranks holds of an axis of @n elements. */
static GArray *
cut_axis (const WeftCut *cut, gint64 n, guint n_ranks, guint rank)
{
  GArray *ranges = g_array_new (FALSE, FALSE, sizeof (WeftRange));
  gint64 n_each = MAX (divide_up (n, cut->n_groups), 1);
  gint64 offset = 0;

  for (guint i = 0; cut->segments != NULL && i < cut->segments->len; i++)
    {
      const WeftSegment *segment = &g_array_index (cut->segments, WeftSegment, i);

      cut_segment (ranges, offset, segment, n_ranks, rank);
      offset += segment->length;
    }
  for (; cut->segments == NULL && offset < n; offset += n_each)
    {
      WeftSegment segment = { MIN (n_each, n - offset), 1, FALSE };

      cut_segment (ranges, offset, &segment, n_ranks, rank);
    }
  return ranges;
}

static gboolean
check_axis (const WeftCut *cut, const WeftShape *shape, GError **error)
{
  g_autofree gchar *text = NULL;

  if (cut->axis < (gint) shape->rank)
    return TRUE;
  text = weft_shape_to_string (shape);
  g_set_error (
      error, WEFT_ERROR, WEFT_ERROR_SHAPE,
      "axis %d is to be cut, and a tensor of shape %s has %u axes; give it a style for such a tensor",
      cut->axis, text, shape->rank);
  return FALSE;
}

/* Pieces on two axes would be a lattice of boxes. */
static gboolean
check_pieces (const WeftSlice *slice, GError **error)
{
  guint n_axes = 0;

  for (guint i = 0; i < slice->shape.rank; i++)
    n_axes += slice->ranges[i] != NULL && slice->ranges[i]->len > 1;
  if (n_axes < 2)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_UNSUPPORTED,
               "a rank would hold pieces apart from each other on %u axes; cut one axis in groups at most",
               n_axes);
  return FALSE;
}

static gboolean
check_mesh (const WeftPlacement *self, const guint *mesh, gsize n_mesh, guint rank, GError **error)
{
  guint n_ranks = 1;
  gboolean is_mesh = TRUE;

  for (gsize i = 0; is_mesh && i < n_mesh; i++)
    is_mesh = mesh[i] > 0 && !__builtin_mul_overflow (n_ranks, mesh[i], &n_ranks);
  if (!is_mesh)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "a mesh has sizes from 1 on, of fewer than %u ranks in all", G_MAXUINT);
      return FALSE;
    }
  if (self->cuts->len <= n_mesh && rank < n_ranks)
    return TRUE;
  if (self->cuts->len > n_mesh)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                 "a placement for %u dimensions of a mesh does not fit a mesh of %" G_GSIZE_FORMAT
                 "; name as many sizes, as in 2x2",
                 self->cuts->len, n_mesh);
  else
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "there is no rank %u among %u; ranks count from 0",
                 rank, n_ranks);
  return FALSE;
}

gboolean
weft_placement_find_slice (const WeftPlacement *self, const WeftShape *shape, const guint *mesh, gsize n_mesh,
                           guint rank, WeftSlice *slice, GError **error)
{
  guint n_inner = 1;

  weft_slice_init (slice, shape);
  if (!check_mesh (self, mesh, n_mesh, rank, error))
    return FALSE;
  for (gsize i = 0; i < n_mesh; i++)
    n_inner *= mesh[i];
  for (gsize i = 0; i < n_mesh; i++)
    {
      const WeftCut *cut =
          i + self->cuts->len >= n_mesh ? get_cut (self, (guint) (i + self->cuts->len - n_mesh)) : NULL;
      g_autoptr (GArray) local = NULL;
      WeftShape left = weft_slice_get_shape (slice);

      n_inner /= mesh[i];
      if (cut == NULL || cut->axis < 0)
        continue;
      if (!check_axis (cut, shape, error))
        return FALSE;
      local = cut_axis (cut, left.dims[cut->axis], mesh[i], rank / n_inner % mesh[i]);
      weft_slice_narrow (slice, (guint) cut->axis, local);
    }
  return check_pieces (slice, error);
}

/* Of the tensor that the items make, cut so that each item is cut on its own. */
static WeftPlacement *
make_stacked (const WeftPlacement *self)
{
  WeftPlacement *stacked = weft_placement_copy (self);

  for (guint i = 0; i < stacked->cuts->len; i++)
    if (get_cut (stacked, i)->axis > 0)
      g_array_index (stacked->cuts, WeftCut, i).n_groups = 1;
  return stacked;
}

static gboolean
has_index (const GArray *ranges, gint64 index)
{
  for (guint i = 0; ranges != NULL && i < ranges->len; i++)
    {
      const WeftRange *range = &g_array_index (ranges, WeftRange, i);

      if (index >= range->start && index - range->start < range->length)
        return TRUE;
    }
  return ranges == NULL;
}

gboolean
weft_placement_find_item_slice (const WeftPlacement *self, gint64 item, gint64 n_items,
                                const WeftShape *shape, const guint *mesh, gsize n_mesh, guint rank,
                                WeftSlice *slice, gboolean *is_owned, GError **error)
{
  g_autoptr (WeftPlacement) stacked = make_stacked (self);
  WeftShape whole = { .rank = shape->rank + 1 };
  g_auto (WeftSlice) part = { .shape = { 0 } };

  weft_slice_init (slice, shape);
  if (whole.rank > WEFT_MAX_RANK)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "a stack of tensors of %u axes has too many",
                   shape->rank);
      return FALSE;
    }
  whole.dims[0] = n_items;
  memcpy (whole.dims + 1, shape->dims, shape->rank * sizeof *shape->dims);
  if (!weft_placement_find_slice (stacked, &whole, mesh, n_mesh, rank, &part, error))
    return FALSE;
  *is_owned = has_index (part.ranges[0], item % n_items);
  for (guint i = 0; i < shape->rank; i++)
    slice->ranges[i] = g_steal_pointer (&part.ranges[i + 1]);
  return TRUE;
}

/**
 * weft_placement_cut:
 * @self: a placement
 * @tensor: the whole tensor
 * @mesh: (array length=n_mesh): the sizes of the mesh, outermost first
 * @n_mesh: how many dimensions it has
 * @rank: one of its ranks, which count row by row
 * @error: return location
 *
 * Cuts the part of a rank out of a tensor. No element is read; reading the part reads what it keeps. A rank for which nothing is
 * left gets a tensor of length 0 on the axis that was cut.
 *
 * Returns: (transfer full): the part
 * Errors: %WEFT_ERROR_SHAPE if an axis is not there, %WEFT_ERROR_ARGUMENT if mesh and rank do not fit, %WEFT_ERROR_UNSUPPORTED
 *   if pieces would lie apart on two axes
 * Since: 1.0
 */
WeftTensor *
weft_placement_cut (const WeftPlacement *self, WeftTensor *tensor, const guint *mesh, gsize n_mesh,
                    guint rank, GError **error)
{
  g_auto (WeftSlice) slice = { .shape = { 0 } };

  return weft_placement_find_slice (self, weft_tensor_get_shape (tensor), mesh, n_mesh, rank, &slice, error)
             ? weft_slice_cut (&slice, tensor, error)
             : NULL;
}
