/* SPDX-License-Identifier: Apache-2.0 */
/* Copying a nest of loops as fast as memory goes. The nest is brought to a normal form in bytes: loops that run on
 * into each other are merged, and what is contiguous on both sides becomes the unit that is copied. What is left is a
 * single run, a strided row, or a transposition, where the destination's fastest loop is not the source's. That goes
 * tile by tile, so that whole cache lines are read and whole cache lines are written. */
#include "tensor/weft-copy-private.h"
#include "tensor/weft-vectorised-private.h"

#include <string.h>

/* Loops of extent 1 are dropped, and 63 loops of extent 2 are more elements than can be counted. */
#define MAX_LOOPS 63

#define CACHE_LINE 64
#define VECTOR_BYTES 16

/* Tiles that are transposed before the next block; measured, as the best balance of runs read and runs written. */
#define BLOCK_ROWS 2
#define BLOCK_COLUMNS 8

typedef struct
{
  gint64 extent;
  gint64 destination_stride; /* bytes */
  gint64 source_stride;      /* bytes */
} Loop;

/* Two loops over units: `row` is the destination's fastest loop, `column` the source's. */
typedef struct
{
  gsize unit;
  Loop row;
  Loop column;
} Plane;

typedef void (*PlaneFunc) (guint8 *destination, const guint8 *source, const Plane *plane);

static WEFT_ALWAYS_INLINE void
copy_tile (guint8 *destination, const guint8 *source, const Loop *outer, const Loop *inner, gsize unit)
{
  for (gint64 i = 0; i < outer->extent; i++)
    {
      guint8 *to = destination + i * outer->destination_stride;
      const guint8 *from = source + i * outer->source_stride;

      for (gint64 k = 0; k < inner->extent; k++)
        memcpy (to + k * inner->destination_stride, from + k * inner->source_stride, unit);
    }
}

/* Any plane, unit by unit, in tiles that stay in the cache; `unit` is a constant where this is inlined. */
static WEFT_ALWAYS_INLINE void
copy_plane_of (guint8 *destination, const guint8 *source, const Plane *plane, gsize unit)
{
  const gint64 n_rows = 256, n_columns = plane->row.extent < 8 ? 256 : 16;
  Loop row = plane->row, column = plane->column;

  for (gint64 j = 0; j < plane->column.extent; j += n_columns)
    for (gint64 i = 0; i < plane->row.extent; i += n_rows)
      {
        guint8 *to = destination + i * row.destination_stride + j * column.destination_stride;
        const guint8 *from = source + i * row.source_stride + j * column.source_stride;

        row.extent = MIN (n_rows, plane->row.extent - i);
        column.extent = MIN (n_columns, plane->column.extent - j);
        if (row.extent >= column.extent)
          copy_tile (to, from, &column, &row, unit);
        else
          copy_tile (to, from, &row, &column, unit);
      }
}

#define DEFINE_COPY_PLANE(unit)                                                             \
  WEFT_VECTORISED static void copy_plane_##unit (guint8 *destination, const guint8 *source, \
                                                 const Plane *plane)                        \
  {                                                                                         \
    copy_plane_of (destination, source, plane, unit);                                       \
  }

DEFINE_COPY_PLANE (1)
DEFINE_COPY_PLANE (2)
DEFINE_COPY_PLANE (3)
DEFINE_COPY_PLANE (4)
DEFINE_COPY_PLANE (6)
DEFINE_COPY_PLANE (8)
DEFINE_COPY_PLANE (12)
DEFINE_COPY_PLANE (16)

static void
copy_plane_any (guint8 *destination, const guint8 *source, const Plane *plane)
{
  copy_plane_of (destination, source, plane, plane->unit);
}

/* The units of one source, again and again. */
static void
fill_plane (guint8 *destination, const guint8 *source, const Plane *plane)
{
  gsize n_bytes = (gsize) plane->row.extent * plane->unit, n_filled = plane->unit;

  memcpy (destination, source, plane->unit);
  while (n_filled < n_bytes)
    {
      gsize n = MIN (MIN (n_filled, 4096 / plane->unit * plane->unit), n_bytes - n_filled);

      memcpy (destination + n_filled, destination, n);
      n_filled += n;
    }
}

/* Transposition of a square of vectors: interleaving the first half of the rows with the second half, element by
 * element, as often as halving leads to one row. A tile is as wide and as high as a cache line; it is built in the first
 * level cache, since rows that lie a power of two apart would push each other out of it. */
#define DEFINE_TRANSPOSE(unit, Type, n_rounds, low, high)                                                   \
  typedef Type Vector##unit __attribute__ ((vector_size (VECTOR_BYTES)));                                   \
                                                                                                            \
  static WEFT_ALWAYS_INLINE void transpose_square_##unit (guint8 *to, gint64 to_stride, const guint8 *from, \
                                                          gint64 from_stride)                               \
  {                                                                                                         \
    enum                                                                                                    \
    {                                                                                                       \
      N = VECTOR_BYTES / unit                                                                               \
    };                                                                                                      \
    Vector##unit rows[n_rounds + 1][N];                                                                     \
    for (gint i = 0; i < N; i++)                                                                            \
      memcpy (&rows[0][i], from + i * from_stride, VECTOR_BYTES);                                           \
    for (gint round = 0; round < n_rounds; round++)                                                         \
      for (gint i = 0; i < N / 2; i++)                                                                      \
        {                                                                                                   \
          rows[round + 1][2 * i] = __builtin_shufflevector (rows[round][i], rows[round][i + N / 2], low);   \
          rows[round + 1][2 * i + 1] =                                                                      \
              __builtin_shufflevector (rows[round][i], rows[round][i + N / 2], high);                       \
        }                                                                                                   \
    for (gint i = 0; i < N; i++)                                                                            \
      memcpy (to + i * to_stride, &rows[n_rounds][i], VECTOR_BYTES);                                        \
  }                                                                                                         \
                                                                                                            \
  WEFT_VECTORISED static void transpose_tile_##unit (guint8 *to, gint64 to_stride, const guint8 *from,      \
                                                     gint64 from_stride)                                    \
  {                                                                                                         \
    guint8 tile[CACHE_LINE / unit][CACHE_LINE];                                                             \
    for (gint64 i = 0; i < CACHE_LINE; i += VECTOR_BYTES)                                                   \
      for (gint64 j = 0; j < CACHE_LINE; j += VECTOR_BYTES)                                                 \
        transpose_square_##unit (&tile[j / unit][i], CACHE_LINE, from + i / unit * from_stride + j,         \
                                 from_stride);                                                              \
    for (gint64 j = 0; j < CACHE_LINE / unit; j++)                                                          \
      memcpy (to + j * to_stride, tile[j], CACHE_LINE);                                                     \
  }

/* Two rows zipped into one, or one unzipped into two, by the same interleaving: done once it zips, done as often as
 * halving a vector leads to one element it unzips. */
#define DEFINE_ZIP(unit, n_rounds, low, high)                                                          \
  static WEFT_ALWAYS_INLINE void shuffle_pair_##unit (guint8 *to, guint8 *to_next, const guint8 *from, \
                                                      const guint8 *from_next, gint n_shuffles)        \
  {                                                                                                    \
    Vector##unit first, second;                                                                        \
    memcpy (&first, from, VECTOR_BYTES);                                                               \
    memcpy (&second, from_next, VECTOR_BYTES);                                                         \
    for (gint i = 0; i < n_shuffles; i++)                                                              \
      {                                                                                                \
        Vector##unit lower = __builtin_shufflevector (first, second, low);                             \
        second = __builtin_shufflevector (first, second, high);                                        \
        first = lower;                                                                                 \
      }                                                                                                \
    memcpy (to, &first, VECTOR_BYTES);                                                                 \
    memcpy (to_next, &second, VECTOR_BYTES);                                                           \
  }                                                                                                    \
                                                                                                       \
  WEFT_VECTORISED static void zip_plane_##unit (guint8 *destination, const guint8 *source,             \
                                                const Plane *plane)                                    \
  {                                                                                                    \
    const gint64 n = plane->column.extent * unit / VECTOR_BYTES;                                       \
    Plane rest = *plane;                                                                               \
    for (gint64 i = 0; i < n; i++)                                                                     \
      {                                                                                                \
        guint8 *to = destination + 2 * i * VECTOR_BYTES;                                               \
        const guint8 *from = source + i * VECTOR_BYTES;                                                \
        shuffle_pair_##unit (to, to + VECTOR_BYTES, from, from + plane->row.source_stride, 1);         \
      }                                                                                                \
    rest.column.extent -= n * VECTOR_BYTES / unit;                                                     \
    copy_plane_##unit (destination + 2 * n * VECTOR_BYTES, source + n * VECTOR_BYTES, &rest);          \
  }                                                                                                    \
                                                                                                       \
  WEFT_VECTORISED static void unzip_plane_##unit (guint8 *destination, const guint8 *source,           \
                                                  const Plane *plane)                                  \
  {                                                                                                    \
    const gint64 n = plane->row.extent * unit / VECTOR_BYTES;                                          \
    Plane rest = *plane;                                                                               \
    for (gint64 i = 0; i < n; i++)                                                                     \
      {                                                                                                \
        guint8 *to = destination + i * VECTOR_BYTES;                                                   \
        const guint8 *from = source + 2 * i * VECTOR_BYTES;                                            \
        shuffle_pair_##unit (to, to + plane->column.destination_stride, from, from + VECTOR_BYTES,     \
                             n_rounds);                                                                \
      }                                                                                                \
    rest.row.extent -= n * VECTOR_BYTES / unit;                                                        \
    copy_plane_##unit (destination + n * VECTOR_BYTES, source + 2 * n * VECTOR_BYTES, &rest);          \
  }

typedef void (*TileFunc) (guint8 *to, gint64 to_stride, const guint8 *from, gint64 from_stride);

static void
transpose_block (guint8 *destination, const guint8 *source, const Plane *block, TileFunc transpose_tile)
{
  const gint64 n = CACHE_LINE / (gint64) block->unit;

  for (gint64 j = 0; j < block->column.extent; j += n)
    for (gint64 i = 0; i < block->row.extent; i += n)
      transpose_tile (destination + i * block->row.destination_stride + j * block->column.destination_stride,
                      block->column.destination_stride,
                      source + i * block->row.source_stride + j * block->column.source_stride,
                      block->row.source_stride);
}

/* Whole tiles, then the rest at the ends of columns and of rows. */
static void
transpose_plane (guint8 *destination, const guint8 *source, const Plane *plane, TileFunc transpose_tile,
                 PlaneFunc copy_rest)
{
  const gint64 n = CACHE_LINE / (gint64) plane->unit;
  const gint64 n_rows = plane->row.extent / n * n, n_columns = plane->column.extent / n * n;
  Plane rest = *plane;

  for (gint64 j = 0; j < n_columns; j += BLOCK_COLUMNS * n)
    for (gint64 i = 0; i < n_rows; i += BLOCK_ROWS * n)
      {
        rest.row.extent = MIN (BLOCK_ROWS * n, n_rows - i);
        rest.column.extent = MIN (BLOCK_COLUMNS * n, n_columns - j);
        transpose_block (
            destination + i * plane->row.destination_stride + j * plane->column.destination_stride,
            source + i * plane->row.source_stride + j * plane->column.source_stride, &rest, transpose_tile);
      }

  rest.row.extent = n_rows;
  rest.column.extent = plane->column.extent - n_columns;
  copy_rest (destination + n_columns * plane->column.destination_stride,
             source + n_columns * plane->column.source_stride, &rest);
  rest.row.extent = plane->row.extent - n_rows;
  rest.column.extent = plane->column.extent;
  copy_rest (destination + n_rows * plane->row.destination_stride, source + n_rows * plane->row.source_stride,
             &rest);
}

#define DEFINE_VECTORISED(unit, Type, n_rounds, low, high)                                           \
  DEFINE_TRANSPOSE (unit, Type, n_rounds, LIST (low), LIST (high))                                   \
  DEFINE_ZIP (unit, n_rounds, LIST (low), LIST (high))                                               \
                                                                                                     \
  static void transpose_plane_##unit (guint8 *destination, const guint8 *source, const Plane *plane) \
  {                                                                                                  \
    if (plane->row.extent == 2 && plane->column.destination_stride == 2 * unit)                      \
      zip_plane_##unit (destination, source, plane);                                                 \
    else if (plane->column.extent == 2 && plane->row.source_stride == 2 * unit)                      \
      unzip_plane_##unit (destination, source, plane);                                               \
    else                                                                                             \
      transpose_plane (destination, source, plane, transpose_tile_##unit, copy_plane_##unit);        \
  }

#define LIST(...) __VA_ARGS__
DEFINE_VECTORISED (1, guint8, 4, LIST (0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23),
                   LIST (8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31))
DEFINE_VECTORISED (2, guint16, 3, LIST (0, 8, 1, 9, 2, 10, 3, 11), LIST (4, 12, 5, 13, 6, 14, 7, 15))
DEFINE_VECTORISED (4, guint32, 2, LIST (0, 4, 1, 5), LIST (2, 6, 3, 7))
DEFINE_VECTORISED (8, guint64, 1, LIST (0, 2), LIST (1, 3))

static const struct
{
  gsize unit;
  PlaneFunc copy;
  PlaneFunc transpose;
} plane_funcs[] = {
  { 1, copy_plane_1, transpose_plane_1 }, { 2, copy_plane_2, transpose_plane_2 },
  { 3, copy_plane_3, copy_plane_3 },      { 4, copy_plane_4, transpose_plane_4 },
  { 6, copy_plane_6, copy_plane_6 },      { 8, copy_plane_8, transpose_plane_8 },
  { 12, copy_plane_12, copy_plane_12 },   { 16, copy_plane_16, copy_plane_16 },
};

static PlaneFunc
choose_plane_func (const Plane *plane)
{
  gint64 unit = (gint64) plane->unit;
  gboolean is_transposition = plane->row.destination_stride == unit && plane->column.source_stride == unit;

  if (plane->column.extent == 1 && plane->row.source_stride == 0 && plane->row.destination_stride == unit
      && unit <= 4096)
    return fill_plane;
  for (guint i = 0; i < G_N_ELEMENTS (plane_funcs); i++)
    if (plane_funcs[i].unit == plane->unit)
      return is_transposition ? plane_funcs[i].transpose : plane_funcs[i].copy;
  return copy_plane_any;
}

/* Fills @loops, outermost in the destination first, and sets @unit to the bytes that are copied at a time. */
static guint
normalise (Loop *loops, gsize *unit, guint n_loops, const gint64 *extents, const gint64 *destination_strides,
           const gint64 *source_strides)
{
  gint64 element_bytes = (gint64) *unit;
  guint n_sorted = 0, n_merged = 0;

  for (guint i = 0; i < n_loops; i++)
    {
      Loop loop = { extents[i], destination_strides[i] * element_bytes, source_strides[i] * element_bytes };
      guint at = n_sorted;

      if (loop.extent == 1)
        continue;
      g_return_val_if_fail (n_sorted < MAX_LOOPS, 0);
      for (; at > 0 && loops[at - 1].destination_stride < loop.destination_stride; at--)
        loops[at] = loops[at - 1];
      loops[at] = loop;
      n_sorted++;
    }

  for (guint i = 0; i < n_sorted; i++)
    {
      Loop *outer = n_merged > 0 ? &loops[n_merged - 1] : NULL, inner = loops[i];

      if (outer != NULL && outer->destination_stride == inner.destination_stride * inner.extent
          && outer->source_stride == inner.source_stride * inner.extent)
        *outer = (Loop){ outer->extent * inner.extent, inner.destination_stride, inner.source_stride };
      else
        loops[n_merged++] = inner;
    }
  if (n_merged > 0 && loops[n_merged - 1].destination_stride == element_bytes
      && loops[n_merged - 1].source_stride == element_bytes)
    *unit *= (gsize) loops[--n_merged].extent;
  return n_merged;
}

/* Takes the destination's fastest loop and, if another is faster in the source, that one out of @loops. */
static guint
take_plane (Plane *plane, Loop *loops, guint n_loops)
{
  guint fastest = n_loops - 1;

  plane->column = (Loop){ 1, 0, 0 };
  plane->row = loops[--n_loops];
  if (plane->unit >= CACHE_LINE || plane->row.source_stride == 0)
    return n_loops;
  for (guint i = 0; i < n_loops; i++)
    if (loops[i].source_stride != 0 && ABS (loops[i].source_stride) < ABS (loops[fastest].source_stride))
      fastest = i;
  if (fastest == n_loops)
    return n_loops;
  plane->column = loops[fastest];
  for (guint i = fastest; i + 1 < n_loops; i++)
    loops[i] = loops[i + 1];
  return n_loops - 1;
}

void
weft_copy_loops (void *destination, const void *source, gsize element_bytes, guint n_loops,
                 const gint64 *extents, const gint64 *destination_strides, const gint64 *source_strides)
{
  Loop loops[MAX_LOOPS];
  gint64 indices[MAX_LOOPS] = { 0 };
  Plane plane = { .unit = element_bytes };
  guint8 *to = destination;
  const guint8 *from = source;
  PlaneFunc copy_plane;

  n_loops = normalise (loops, &plane.unit, n_loops, extents, destination_strides, source_strides);
  if (n_loops == 0)
    {
      memcpy (destination, source, plane.unit);
      return;
    }
  n_loops = take_plane (&plane, loops, n_loops);
  copy_plane = choose_plane_func (&plane);

  for (;;)
    {
      guint i = n_loops;

      copy_plane (to, from, &plane);
      while (i > 0 && indices[i - 1] == loops[i - 1].extent - 1)
        {
          i--;
          to -= indices[i] * loops[i].destination_stride;
          from -= indices[i] * loops[i].source_stride;
          indices[i] = 0;
        }
      if (i == 0)
        return;
      indices[i - 1]++;
      to += loops[i - 1].destination_stride;
      from += loops[i - 1].source_stride;
    }
}
