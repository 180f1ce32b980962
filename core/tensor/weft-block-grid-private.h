/* SPDX-License-Identifier: Apache-2.0 */
/* A grid of blocks over a tensor: each block shares one scale. Private to the tensor room. */
#pragma once

#include "tensor/weft-kernel.h"

typedef struct
{
  guint rank;
  /* Extent of a block on each axis, at least 1; the last block of an axis may be cut short. */
  gint64 block[WEFT_MAX_RANK];
} WeftBlockGrid;

/* Takes @block as the public functions do: right-aligned, 0 for a whole axis, 1 on axes before. */
gboolean weft_block_grid_init (WeftBlockGrid *self, const WeftShape *shape, const gint64 *block,
                               gsize n_block, GError **error);
void weft_block_grid_get_shape (const WeftBlockGrid *self, const WeftShape *shape, WeftShape *grid);

/* The part of the grid that a region of the tensor touches. */
void weft_block_grid_get_region (const WeftBlockGrid *self, const WeftRegion *region, WeftRegion *grid);

/* Where the factors of a row of a region begin, in the packed part of the grid that the region touches. @index is that of the
 * row in the region, on all axes but the last. */
gint64 weft_block_grid_get_row_offset (const WeftBlockGrid *self, const WeftRegion *region,
                                       const gint64 *index);
