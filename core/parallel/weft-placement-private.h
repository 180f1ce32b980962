/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts, and the slices that they give. */
#pragma once

#include "parallel/weft-placement.h"
#include "parallel/weft-slice-internal.h"

/* Consecutive elements of an axis that are spread on their own: by whole units of so many elements, the last of which may be
 * smaller; with fewer units than ranks, a rank is left without, or, where it spreads, several ranks hold the same unit. */
typedef struct
{
  gint64 length;
  gint64 unit;
  gboolean spreads;
} WeftSegment;

/* How one dimension of the mesh cuts. */
typedef struct
{
  /* -1: not at all. */
  gint axis;
  /* Into so many segments of equal length, the last of which may be shorter; or, if @segments is not NULL, into these. */
  guint n_groups;
  GArray *segments;
} WeftCut;

WeftPlacement *weft_placement_new_whole (void);
WeftPlacement *weft_placement_new_shard (gint axis, guint n_groups);
/* @segments: (transfer full): of WeftSegment. */
WeftPlacement *weft_placement_new_segments (gint axis, GArray *segments);
gboolean weft_placement_is_whole (const WeftPlacement *self);

/* What @rank holds of a tensor of this shape. */
gboolean weft_placement_find_slice (const WeftPlacement *self, const WeftShape *shape, const guint *mesh,
                                    gsize n_mesh, guint rank, WeftSlice *slice, GError **error);

/* The same for one of @n_items tensors that are the slices of a tensor along its axis 0. Each is a projection of its own: what would be cut in
 * groups is cut as a whole. *@is_owned: whether the rank has anything of it. */
gboolean weft_placement_find_item_slice (const WeftPlacement *self, gint64 item, gint64 n_items,
                                         const WeftShape *shape, const guint *mesh, gsize n_mesh, guint rank,
                                         WeftSlice *slice, gboolean *is_owned, GError **error);
