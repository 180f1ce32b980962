/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the speed of each inner loop, and its time as a multiple of that of a memcpy that moves as many bytes (read
 * and written together). Both are taken in one run, alternating, as the best of several rounds. */
#include "base/weft-dtype.h"
#include "tensor/weft-arithmetic-private.h"
#include "tensor/weft-cast-private.h"
#include "tensor/weft-copy-private.h"

#include <string.h>
#include <time.h>

#define N_ROUNDS 15
#define N_BUFFER ((gsize) 64 << 20)

typedef void (*Kernel) (const void *arguments, guint8 *destination, const guint8 *source);

typedef struct
{
  WeftDtype from, to;
  gsize n_elements;
} Cast;

typedef struct
{
  gsize element_bytes;
  guint n_loops;
  gint64 extents[3], destination_strides[3], source_strides[3];
} Nest;

typedef struct
{
  WeftDtype dtype;
  gsize n_elements;
  gdouble factor;
} Scale;

static void
run_cast (const void *arguments, guint8 *destination, const guint8 *source)
{
  const Cast *cast = arguments;
  weft_cast_lookup (cast->from, cast->to) (source, destination, cast->n_elements);
}

static void
run_copy (const void *arguments, guint8 *destination, const guint8 *source)
{
  const Nest *nest = arguments;
  weft_copy_loops (destination, source, nest->element_bytes, nest->n_loops, nest->extents,
                   nest->destination_strides, nest->source_strides);
}

static void
run_scale (const void *arguments, guint8 *destination, const guint8 *source)
{
  const Scale *scale = arguments;
  weft_scale_elements (scale->dtype, source, destination, scale->n_elements, scale->factor);
}

static gint64
now (void)
{
  struct timespec time;
  clock_gettime (CLOCK_MONOTONIC, &time);
  return (gint64) time.tv_sec * 1000000000 + time.tv_nsec;
}

static void
measure (const gchar *name, Kernel kernel, const void *arguments, gsize n_bytes, guint8 *destination,
         const guint8 *source)
{
  gint64 best_kernel = G_MAXINT64, best_copy = G_MAXINT64;

  for (guint round = 0; round < N_ROUNDS; round++)
    {
      gint64 start = now (), middle, end;

      kernel (arguments, destination, source);
      middle = now ();
      memcpy (destination, source, n_bytes / 2);
      end = now ();
      best_kernel = MIN (best_kernel, middle - start);
      best_copy = MIN (best_copy, end - middle);
    }
  g_print ("%-36s %6.2f GB/s  %5.2f x memcpy\n", name, (gdouble) n_bytes / (gdouble) best_kernel,
           (gdouble) best_kernel / (gdouble) best_copy);
}

static const Cast casts[] = {
  { WEFT_DTYPE_BF16, WEFT_DTYPE_F32, 1024 * 3584 },     { WEFT_DTYPE_F32, WEFT_DTYPE_BF16, 1024 * 3584 },
  { WEFT_DTYPE_F16, WEFT_DTYPE_F32, 1024 * 3584 },      { WEFT_DTYPE_F32, WEFT_DTYPE_F16, 1024 * 3584 },
  { WEFT_DTYPE_BF16, WEFT_DTYPE_F16, 1024 * 3584 },     { WEFT_DTYPE_F16, WEFT_DTYPE_BF16, 1024 * 3584 },
  { WEFT_DTYPE_F32, WEFT_DTYPE_F8_E4M3, 1024 * 3584 },  { WEFT_DTYPE_F32, WEFT_DTYPE_F8_E5M2, 1024 * 3584 },
  { WEFT_DTYPE_BF16, WEFT_DTYPE_F8_E4M3, 1024 * 3584 }, { WEFT_DTYPE_F8_E4M3, WEFT_DTYPE_F32, 1024 * 3584 },
  { WEFT_DTYPE_F8_E4M3, WEFT_DTYPE_BF16, 1024 * 3584 }, { WEFT_DTYPE_F8_E4M3, WEFT_DTYPE_F16, 1024 * 3584 },
  { WEFT_DTYPE_F8_E5M2, WEFT_DTYPE_BF16, 1024 * 3584 }, { WEFT_DTYPE_F8_E5M2, WEFT_DTYPE_F16, 1024 * 3584 },
  { WEFT_DTYPE_F64, WEFT_DTYPE_F32, 1024 * 3584 },      { WEFT_DTYPE_F4, WEFT_DTYPE_BF16, 1024 * 3584 },
  { WEFT_DTYPE_I64, WEFT_DTYPE_I32, 1024 * 3584 },      { WEFT_DTYPE_F32, WEFT_DTYPE_I32, 1024 * 3584 },
};

static const struct
{
  const gchar *name;
  Nest nest;
} nests[] = {
  { "transpose 1 byte 1024x3584", { 1, 2, { 3584, 1024 }, { 1024, 1 }, { 1, 3584 } } },
  { "transpose 2 bytes 1024x3584", { 2, 2, { 3584, 1024 }, { 1024, 1 }, { 1, 3584 } } },
  { "transpose 4 bytes 1024x3584", { 4, 2, { 3584, 1024 }, { 1024, 1 }, { 1, 3584 } } },
  { "transpose 8 bytes 1024x3584", { 8, 2, { 3584, 1024 }, { 1024, 1 }, { 1, 3584 } } },
  { "transpose 2 bytes 4096x4096", { 2, 2, { 4096, 4096 }, { 4096, 1 }, { 1, 4096 } } },
  { "interleave halves 2 bytes 1024x3584", { 2, 3, { 1024, 1792, 2 }, { 3584, 2, 1 }, { 3584, 1, 1792 } } },
  { "take pairs apart 2 bytes 1024x3584", { 2, 3, { 1024, 2, 1792 }, { 3584, 1792, 1 }, { 3584, 1, 2 } } },
  { "every other element 2 bytes", { 2, 1, { 1024 * 3584 }, { 1 }, { 2 } } },
  { "channels last 2 bytes 1024x3x1024", { 2, 3, { 1024, 1024, 3 }, { 3072, 3, 1 }, { 3072, 1, 1024 } } },
};

static const Scale scales[] = {
  { WEFT_DTYPE_BF16, 1024 * 3584, 0.5 },
  { WEFT_DTYPE_F32, 1024 * 3584, 0.5 },
  { WEFT_DTYPE_BF16, 1024 * 3584, -1 },
};

/* Small finite numbers in whatever floating dtype they are taken for. */
static guint8 *
make_source (void)
{
  guint8 *source = g_malloc (N_BUFFER);

  for (gsize i = 0; i < N_BUFFER; i++)
    source[i] = (guint8) (0x30 + (i * 0x9e3779b1u >> 28));
  return source;
}

int
main (void)
{
  g_autofree guint8 *source = make_source ();
  g_autofree guint8 *destination = g_malloc0 (N_BUFFER);

  for (guint i = 0; i < G_N_ELEMENTS (casts); i++)
    {
      const Cast *cast = &casts[i];
      gsize bits = weft_dtype_get_bits (cast->from) + weft_dtype_get_bits (cast->to);
      g_autofree gchar *name =
          g_strdup_printf ("cast %s to %s", weft_dtype_get_name (cast->from), weft_dtype_get_name (cast->to));

      measure (name, run_cast, cast, cast->n_elements * bits / 8, destination, source);
    }
  for (guint i = 0; i < G_N_ELEMENTS (nests); i++)
    {
      gsize n_bytes = 2 * nests[i].nest.element_bytes;

      for (guint k = 0; k < nests[i].nest.n_loops; k++)
        n_bytes *= (gsize) nests[i].nest.extents[k];
      measure (nests[i].name, run_copy, &nests[i].nest, n_bytes, destination, source);
    }
  for (guint i = 0; i < G_N_ELEMENTS (scales); i++)
    {
      g_autofree gchar *name =
          g_strdup_printf ("scale %s by %g", weft_dtype_get_name (scales[i].dtype), scales[i].factor);

      measure (name, run_scale, &scales[i], scales[i].n_elements * weft_dtype_get_bits (scales[i].dtype) / 4,
               destination, source);
    }
  return 0;
}
