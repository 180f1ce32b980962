/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-block-grid-private.h"

#include "base/weft-error.h"

gboolean
weft_block_grid_init (WeftBlockGrid *self, const WeftShape *shape, const gint64 *block, gsize n_block,
                      GError **error)
{
  self->rank = shape->rank;
  if (n_block > shape->rank)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "blocks of %" G_GSIZE_FORMAT " axes do not fit a tensor of %u", n_block, shape->rank);
      return FALSE;
    }
  for (guint k = 0; k < shape->rank; k++)
    {
      gsize first = shape->rank - n_block;
      gint64 extent = k < first ? 1 : block[k - first];

      if (extent < 0)
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
              "a block must have at least 1 element on an axis (or 0 for all of it), found %" G_GINT64_FORMAT,
              extent);
          return FALSE;
        }
      self->block[k] = extent > 0 ? extent : MAX (1, shape->dims[k]);
    }
  return TRUE;
}

void
weft_block_grid_get_shape (const WeftBlockGrid *self, const WeftShape *shape, WeftShape *grid)
{
  grid->rank = shape->rank;
  for (guint k = 0; k < shape->rank; k++)
    grid->dims[k] = shape->dims[k] / self->block[k] + (shape->dims[k] % self->block[k] != 0);
}

void
weft_block_grid_get_region (const WeftBlockGrid *self, const WeftRegion *region, WeftRegion *grid)
{
  grid->rank = region->rank;
  for (guint k = 0; k < region->rank; k++)
    {
      gint64 last = region->start[k] + region->extent[k] - 1;

      grid->start[k] = region->start[k] / self->block[k];
      grid->extent[k] = region->extent[k] > 0 ? last / self->block[k] - grid->start[k] + 1 : 0;
    }
}

gint64
weft_block_grid_get_row_offset (const WeftBlockGrid *self, const WeftRegion *region, const gint64 *index)
{
  WeftRegion grid;
  gint64 offset = 0;

  weft_block_grid_get_region (self, region, &grid);
  for (guint k = 0; k + 1 < region->rank; k++)
    offset = (offset + (region->start[k] + index[k]) / self->block[k] - grid.start[k]) * grid.extent[k + 1];
  return offset;
}
