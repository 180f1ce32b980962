/* SPDX-License-Identifier: Apache-2.0 */
/* weft_copy_loops against the plain meaning of its loops. */
#include "tensor/weft-copy-private.h"

#include <string.h>

#define MAX_TEST_LOOPS 6

typedef struct
{
  const gchar *meaning;
  gsize element_bytes;
  guint n_loops;
  gint64 extents[MAX_TEST_LOOPS];
  gint64 destination_strides[MAX_TEST_LOOPS];
  gint64 source_strides[MAX_TEST_LOOPS];
} Nest;

static const Nest nests[] = {
  { "one element", 2, 0, { 0 }, { 0 }, { 0 } },
  { "one run in two loops", 2, 2, { 5, 7 }, { 7, 1 }, { 7, 1 } },
  { "rows out of a matrix", 2, 2, { 5, 100 }, { 100, 1 }, { 130, 1 } },
  { "a transposition of whole tiles", 2, 2, { 64, 96 }, { 96, 1 }, { 1, 64 } },
  { "a transposition with rests", 2, 2, { 71, 103 }, { 103, 1 }, { 1, 71 } },
  { "the same, loops in the source's order", 2, 2, { 103, 71 }, { 1, 103 }, { 71, 1 } },
  { "rows a power of two apart", 4, 2, { 64, 64 }, { 2048, 1 }, { 1, 2048 } },
  { "the halves of a rope axis interleaved", 2, 3, { 3, 64, 2 }, { 128, 2, 1 }, { 128, 1, 64 } },
  { "an interleaved rope axis taken apart", 4, 3, { 3, 2, 64 }, { 128, 64, 1 }, { 128, 1, 2 } },
  { "bytes zipped, with a rest", 1, 2, { 37, 2 }, { 2, 1 }, { 1, 37 } },
  { "bytes unzipped, with a rest", 1, 2, { 2, 37 }, { 37, 1 }, { 1, 2 } },
  { "pairs of bytes zipped, with a rest", 2, 2, { 37, 2 }, { 2, 1 }, { 1, 40 } },
  { "pairs of bytes unzipped, with a rest", 2, 2, { 2, 37 }, { 40, 1 }, { 1, 2 } },
  { "doubles zipped, with a rest", 8, 2, { 37, 2 }, { 2, 1 }, { 1, 37 } },
  { "doubles unzipped, with a rest", 8, 2, { 2, 37 }, { 37, 1 }, { 1, 2 } },
  { "channels first to channels last", 2, 3, { 9, 11, 3 }, { 33, 3, 1 }, { 11, 1, 99 } },
  { "three axes reversed", 1, 3, { 70, 5, 80 }, { 400, 80, 1 }, { 1, 70, 350 } },
  { "one value everywhere", 4, 2, { 100, 100 }, { 100, 1 }, { 0, 0 } },
  { "a row repeated", 2, 2, { 10, 100 }, { 100, 1 }, { 0, 1 } },
  { "a column repeated", 2, 2, { 10, 100 }, { 100, 1 }, { 1, 0 } },
  { "elements of three bytes", 3, 2, { 50, 60 }, { 60, 1 }, { 1, 50 } },
  { "elements of twenty bytes", 20, 2, { 50, 60 }, { 60, 1 }, { 1, 50 } },
  { "pairs that stay together", 2, 3, { 40, 50, 2 }, { 100, 2, 1 }, { 2, 80, 1 } },
  { "gaps in the destination", 8, 2, { 20, 30 }, { 100, 3 }, { 1, 20 } },
};

/* The distance from the first element to the last. */
static gsize
span (const Nest *nest, const gint64 *strides)
{
  gsize last = 0;

  for (guint i = 0; i < nest->n_loops; i++)
    last += (gsize) ((nest->extents[i] - 1) * strides[i]);
  return (last + 1) * nest->element_bytes;
}

static void
copy_plainly (guint8 *destination, const guint8 *source, const Nest *nest, guint loop)
{
  if (loop == nest->n_loops)
    memcpy (destination, source, nest->element_bytes);
  else
    for (gint64 i = 0; i < nest->extents[loop]; i++)
      copy_plainly (destination + i * nest->destination_strides[loop] * (gint64) nest->element_bytes,
                    source + i * nest->source_strides[loop] * (gint64) nest->element_bytes, nest, loop + 1);
}

/* Both sides start at an odd address, so that nothing is aligned; what no loop reaches stays as it was. */
static void
check_nest (const Nest *nest)
{
  gsize n_source = span (nest, nest->source_strides) + 1;
  gsize n_destination = span (nest, nest->destination_strides) + 2;
  g_autofree guint8 *source = g_malloc (n_source);
  g_autofree guint8 *copied = g_malloc (n_destination), *expected = g_malloc (n_destination);

  for (gsize i = 0; i < n_source; i++)
    source[i] = (guint8) (i * 0x9e3779b1u >> 24);
  memset (copied, 0xa5, n_destination);
  memset (expected, 0xa5, n_destination);
  weft_copy_loops (copied + 1, source + 1, nest->element_bytes, nest->n_loops, nest->extents,
                   nest->destination_strides, nest->source_strides);
  copy_plainly (expected + 1, source + 1, nest, 0);
  g_assert_cmpmem (copied, n_destination, expected, n_destination);
}

static void
test_table (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (nests); i++)
    {
      g_test_message ("%s", nests[i].meaning);
      check_nest (&nests[i]);
    }
}

/* Sets @strides so that the loops, taken in a random order, lie within each other, some with gaps between. */
static void
choose_strides (GRand *random, const Nest *nest, gint64 *strides)
{
  guint order[MAX_TEST_LOOPS];
  gint64 stride = g_rand_int_range (random, 0, 4) == 0 ? 2 : 1;

  for (guint i = 0; i < nest->n_loops; i++)
    {
      guint at = (guint) g_rand_int_range (random, 0, (gint32) i + 1);

      order[i] = order[at];
      order[at] = i;
    }
  for (guint i = 0; i < nest->n_loops; i++)
    {
      strides[order[i]] = stride;
      stride *= nest->extents[order[i]];
      if (g_rand_int_range (random, 0, 4) == 0)
        stride += g_rand_int_range (random, 1, 5);
    }
}

static void
test_random (void)
{
  static const gsize widths[] = { 1, 2, 4, 8, 2, 4, 3, 16 };
  g_autoptr (GRand) random = g_rand_new_with_seed (7);

  for (guint n = 0; n < 1000; n++)
    {
      Nest nest = { .element_bytes = widths[g_rand_int_range (random, 0, G_N_ELEMENTS (widths))] };
      gint64 n_elements = 1;

      nest.n_loops = (guint) g_rand_int_range (random, 0, MAX_TEST_LOOPS + 1);
      for (guint i = 0; i < nest.n_loops; i++)
        {
          gint64 extent = g_rand_int_range (random, 1, g_rand_boolean (random) ? 5 : 130);

          nest.extents[i] = n_elements * extent > 30000 ? 1 : extent;
          n_elements *= nest.extents[i];
        }
      choose_strides (random, &nest, nest.destination_strides);
      choose_strides (random, &nest, nest.source_strides);
      for (guint i = 0; i < nest.n_loops; i++)
        if (g_rand_int_range (random, 0, 10) == 0)
          nest.source_strides[i] = 0;
      check_nest (&nest);
    }
}

/* A source that is read backwards. */
static void
test_negative_stride (void)
{
  static const gint64 extents[] = { 3, 4 }, destination_strides[] = { 4, 1 }, source_strides[] = { 4, -1 };
  static const gchar source[] = "dcbahgfelkji";
  gchar destination[12];

  weft_copy_loops (destination, source + 3, 1, 2, extents, destination_strides, source_strides);
  g_assert_cmpmem (destination, 12, "abcdefghijkl", 12);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/copy/table", test_table);
  g_test_add_func ("/copy/random", test_random);
  g_test_add_func ("/copy/negative-stride", test_negative_stride);
  return g_test_run ();
}
