/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a tensor that one rank holds. Internal to the library: not installed. */
#pragma once

#include "tensor/weft-tensor.h"

typedef struct
{
  gint64 start;
  gint64 length;
} WeftRange;

/* On each axis of a tensor of this shape, all of it or ranges of it: ascending, apart from each other, none of them empty. */
typedef struct
{
  WeftShape shape;
  /* GArray of WeftRange; NULL: all of the axis. */
  GArray *ranges[WEFT_MAX_RANK];
} WeftSlice;

void weft_slice_init (WeftSlice *self, const WeftShape *shape);
void weft_slice_clear (WeftSlice *self);
gboolean weft_slice_is_whole (const WeftSlice *self);
gboolean weft_slice_equal (const WeftSlice *self, const WeftSlice *other);
/* The shape of the part. */
WeftShape weft_slice_get_shape (const WeftSlice *self);
/* Keeps of @axis only @local, whose ranges count within what is kept so far. */
void weft_slice_narrow (WeftSlice *self, guint axis, const GArray *local);
/* Cuts the part out of the whole tensor. No element is read. */
WeftTensor *weft_slice_cut (const WeftSlice *self, WeftTensor *tensor, GError **error);

/* Appends a range; one that follows on the last is joined with it, an empty one is none. */
void weft_ranges_append (GArray *ranges, gint64 start, gint64 length);
gint64 weft_ranges_count (const GArray *ranges);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (WeftSlice, weft_slice_clear)
