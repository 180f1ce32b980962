/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-tensor-pair-private.h"

#include <math.h>
#include <string.h>

/* Elements looked at closely at a time, where bytes differ. */
#define CHUNK_ELEMENTS 65536

gint64
weft_band_count_elements (WeftDtype dtype, gsize n_bytes)
{
  gint64 n = (gint64) (n_bytes * 8 / weft_dtype_get_bits (dtype));

  return n - n % 8;
}

WeftTensor *
weft_band_cut (WeftTensor *tensor, gint64 start, gint64 length, GError **error)
{
  gint64 n_elements = weft_tensor_get_n_elements (tensor);
  g_autoptr (WeftTensor) flat = weft_tensor_reshape (tensor, &n_elements, 1, error);

  return flat != NULL ? weft_tensor_slice (flat, 0, start, length, error) : NULL;
}

/* One band of one pair, and where its bytes lie in both buffers. */
typedef struct
{
  WeftTensorPair *pair;
  gint64 start;
  gint64 length;
  gsize offset;
  WeftTensor *a;
  WeftTensor *b;
} Band;

static void
band_clear (gpointer user_data)
{
  Band *band = user_data;

  g_clear_pointer (&band->a, weft_tensor_unref);
  g_clear_pointer (&band->b, weft_tensor_unref);
}

/* A walk over all pairs: what is the next element to be compared. */
typedef struct
{
  WeftTensorPair *pairs;
  gsize n_pairs;
  gsize position;
  gint64 start;
} Cursor;

static gboolean
take_band (Cursor *cursor, GArray *bands, gsize *n_used, GError **error)
{
  WeftTensorPair *pair = &cursor->pairs[cursor->position];
  gint64 rest = weft_tensor_get_n_elements (pair->a) - cursor->start;
  guint bits = weft_dtype_get_bits (weft_tensor_get_dtype (pair->a));
  gint64 room = weft_band_count_elements (weft_tensor_get_dtype (pair->a), WEFT_BAND_BYTES - *n_used);
  Band band = { .pair = pair, .start = cursor->start, .length = MIN (rest, room), .offset = *n_used };

  if (band.length > 0)
    {
      band.a = weft_band_cut (pair->a, band.start, band.length, error);
      band.b = band.a != NULL ? weft_band_cut (pair->b, band.start, band.length, error) : NULL;
      g_array_append_val (bands, band);
      if (band.b == NULL && pair->name != NULL)
        g_prefix_error (error, "'%s': ", pair->name);
      if (band.b == NULL)
        return FALSE;
    }
  *n_used += ((gsize) band.length * bits / 8 + 64) & ~(gsize) 63;
  cursor->start += band.length;
  if (band.length == rest)
    {
      cursor->position++;
      cursor->start = 0;
    }
  return TRUE;
}

/* Small tensors share a batch; a large one takes several. */
static gboolean
take_batch (Cursor *cursor, GArray *bands, GError **error)
{
  gsize n_used = 0;

  g_array_set_size (bands, 0);
  while (cursor->position < cursor->n_pairs && n_used <= WEFT_BAND_BYTES / 4 * 3)
    if (!take_band (cursor, bands, &n_used, error))
      return FALSE;
  return TRUE;
}

static gboolean
read_batch (GArray *bands, guint8 *a, guint8 *b, const WeftTransferOptions *options,
            GCancellable *cancellable, GError **error)
{
  g_autoptr (GArray) transfers = g_array_new (FALSE, FALSE, sizeof (WeftTransfer));
  WeftTransferOptions quiet = { .struct_size = sizeof quiet, .n_threads = options->n_threads };

  for (guint i = 0; i < bands->len; i++)
    {
      const Band *band = &g_array_index (bands, Band, i);
      WeftTransfer sides[] = {
        { .tensor = band->a, .fd = -1, .memory = a + band->offset, .name = band->pair->name },
        { .tensor = band->b, .fd = -1, .memory = b + band->offset, .name = band->pair->name },
      };

      g_array_append_vals (transfers, sides, G_N_ELEMENTS (sides));
    }
  return weft_transfer_execute ((const WeftTransfer *) (gpointer) transfers->data, transfers->len, &quiet,
                                NULL, cancellable, error);
}

/* The bits of an element; sub-byte ones are packed from the lowest bit on. */
static guint
get_code (const guint8 *bytes, guint bits, gsize i)
{
  gsize bit = i * bits;
  guint code = bytes[bit / 8] >> (bit % 8);

  if (bit % 8 + bits > 8)
    code |= (guint) bytes[bit / 8 + 1] << (8 - bit % 8);
  return code & ((1u << bits) - 1);
}

static gboolean
differs (const guint8 *a, const guint8 *b, guint bits, gsize i)
{
  gsize width = bits / 8;

  return bits < 8 ? get_code (a, bits, i) != get_code (b, bits, i)
                  : memcmp (a + i * width, b + i * width, width) != 0;
}

/* As F64, or NULL for what is no number. */
static GBytes *
read_numbers (WeftDtype dtype, const guint8 *bytes, gint64 n_elements)
{
  gsize n_bytes = ((gsize) n_elements * weft_dtype_get_bits (dtype) + 7) / 8;
  g_autoptr (GBytes) copy = g_bytes_new (bytes, n_bytes);
  g_autoptr (WeftTensor) tensor = NULL;
  g_autoptr (WeftTensor) numbers = NULL;

  if (dtype == WEFT_DTYPE_BOOL || dtype == WEFT_DTYPE_C64)
    return NULL;
  tensor = weft_tensor_new_from_bytes (dtype, &n_elements, 1, copy, NULL);
  numbers = tensor != NULL ? weft_tensor_cast (tensor, WEFT_DTYPE_F64, NULL) : NULL;
  return numbers != NULL ? weft_tensor_read (numbers, NULL, NULL) : NULL;
}

static gdouble
get_distance (gdouble a, gdouble b)
{
  if (isnan (a) || isnan (b))
    return isnan (a) && isnan (b) ? 0 : INFINITY;
  return fabs (a - b);
}

static void
examine_chunk (WeftTensorPair *pair, const guint8 *a, const guint8 *b, gint64 start, gint64 length)
{
  WeftDtype dtype = weft_tensor_get_dtype (pair->a);
  guint bits = weft_dtype_get_bits (dtype);
  g_autoptr (GBytes) a_numbers = read_numbers (dtype, a, length);
  g_autoptr (GBytes) b_numbers = read_numbers (dtype, b, length);
  const gdouble *a_values = a_numbers != NULL ? g_bytes_get_data (a_numbers, NULL) : NULL;
  const gdouble *b_values = b_numbers != NULL ? g_bytes_get_data (b_numbers, NULL) : NULL;

  for (gint64 i = 0; i < length; i++)
    {
      if (!differs (a, b, bits, (gsize) i))
        continue;
      if (pair->n_different++ == 0)
        pair->first = (guint64) (start + i);
      pair->largest = a_values != NULL && b_values != NULL
                          ? MAX (pair->largest, get_distance (a_values[i], b_values[i]))
                          : NAN;
    }
}

static void
examine_band (const Band *band, const guint8 *a, const guint8 *b)
{
  guint bits = weft_dtype_get_bits (weft_tensor_get_dtype (band->pair->a));

  for (gint64 at = 0; at < band->length; at += CHUNK_ELEMENTS)
    {
      gint64 length = MIN (CHUNK_ELEMENTS, band->length - at);
      gsize offset = band->offset + (gsize) at * bits / 8;

      if (memcmp (a + offset, b + offset, (gsize) length * bits / 8) != 0)
        examine_chunk (band->pair, a + offset, b + offset, band->start + at, length);
    }
}

static guint64
count_bytes (const WeftTensorPair *pairs, gsize n_pairs)
{
  guint64 n_bytes = 0;

  for (gsize i = 0; i < n_pairs; i++)
    n_bytes += weft_tensor_get_n_bytes (pairs[i].a);
  return n_bytes;
}

static guint64
examine_batch (GArray *bands, const guint8 *a, const guint8 *b)
{
  guint64 n_bytes = 0;

  for (guint i = 0; i < bands->len; i++)
    {
      const Band *band = &g_array_index (bands, Band, i);

      examine_band (band, a, b);
      n_bytes += weft_tensor_get_n_bytes (band->a);
    }
  return n_bytes;
}

gboolean
weft_tensor_pairs_compare (WeftTensorPair *pairs, gsize n_pairs, const WeftTransferOptions *options,
                           GCancellable *cancellable, GError **error)
{
  guint64 n_total = count_bytes (pairs, n_pairs), n_done = 0;
  gsize room = MIN (WEFT_BAND_BYTES, n_total + 64 * n_pairs) + 64;
  g_autofree guint8 *a = g_malloc (room);
  g_autofree guint8 *b = g_malloc (room);
  g_autoptr (GArray) bands = g_array_new (FALSE, FALSE, sizeof (Band));
  Cursor cursor = { .pairs = pairs, .n_pairs = n_pairs };

  g_array_set_clear_func (bands, band_clear);
  while (cursor.position < n_pairs)
    {
      if (!take_batch (&cursor, bands, error) || !read_batch (bands, a, b, options, cancellable, error))
        return FALSE;
      n_done += examine_batch (bands, a, b);
      if (options->progress != NULL)
        options->progress (n_done, n_total, options->progress_data);
    }
  return TRUE;
}

gboolean
weft_tensors_compare (WeftTensor *a, WeftTensor *b, gboolean *are_equal, GCancellable *cancellable,
                      GError **error)
{
  WeftTensorPair pair = { .a = a, .b = b };
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads () };

  if (!weft_tensor_pairs_compare (&pair, 1, &options, cancellable, error))
    return FALSE;
  *are_equal = pair.n_different == 0;
  return TRUE;
}
