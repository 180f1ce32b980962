/* SPDX-License-Identifier: Apache-2.0 */
/* Prints how fast one thread dequantises and quantises a large weight in memory, as bytes of the dense weight a second, and
 * the ratio to a memcpy of the dense weight; with an argument, only the cases whose names contain it. Both are taken in one run, alternating, as the best of several rounds. */
#include "weft.h"

#include <string.h>
#include <time.h>

#define N_ROUNDS 9
#define N_ROWS 4096
#define N_COLUMNS 7168
#define N_ELEMENTS ((gsize) N_ROWS * N_COLUMNS)
#define DENSE_BYTES (N_ELEMENTS * 2)

static gint64
now (void)
{
  struct timespec time;
  clock_gettime (CLOCK_THREAD_CPUTIME_ID, &time);
  return (gint64) time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Codes and scales that are small finite numbers in whatever dtype. */
static WeftTensor *
new_tensor (WeftDtype dtype, const gint64 *dims, gsize n_dims)
{
  gsize n_bytes = weft_dtype_get_bits (dtype) / 8;
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) bytes = NULL;
  guint8 *elements;
  WeftTensor *tensor;

  for (gsize i = 0; i < n_dims; i++)
    n_bytes *= (gsize) dims[i];
  elements = g_malloc (n_bytes);
  for (gsize i = 0; i < n_bytes; i++)
    elements[i] = (guint8) (0x30 + ((guint32) i * 0x9e3779b1u >> 28));
  bytes = g_bytes_new_take (elements, n_bytes);
  tensor = weft_tensor_new_from_bytes (dtype, dims, n_dims, bytes, &error);
  if (tensor == NULL)
    g_error ("%s", error->message);
  return tensor;
}

static WeftTensor *
make_fp8_block (void)
{
  g_autoptr (WeftTensor) codes = new_tensor (WEFT_DTYPE_F8_E4M3, (gint64[]){ N_ROWS, N_COLUMNS }, 2);
  g_autoptr (WeftTensor) scales = new_tensor (WEFT_DTYPE_F32, (gint64[]){ N_ROWS / 128, N_COLUMNS / 128 }, 2);

  return weft_tensor_dequantize (codes, scales, NULL, (gint64[]){ 128, 128 }, 2, WEFT_DTYPE_BF16, NULL);
}

static WeftTensor *
make_mxfp4 (void)
{
  g_autoptr (WeftTensor) words = new_tensor (WEFT_DTYPE_U8, (gint64[]){ N_ROWS, N_COLUMNS / 2 }, 2);
  g_autoptr (WeftTensor) scales = new_tensor (WEFT_DTYPE_F8_E8M0, (gint64[]){ N_ROWS, N_COLUMNS / 32 }, 2);
  g_autoptr (WeftTensor) table = weft_tensor_new_code_table (WEFT_DTYPE_F4, NULL);
  g_autoptr (WeftTensor) codes = weft_tensor_unpack (words, 4, WEFT_BIT_ORDER_DENSE, -1, N_COLUMNS, NULL);
  g_autoptr (WeftTensor) values = weft_tensor_lookup (codes, table, NULL);

  return weft_tensor_dequantize (values, scales, NULL, (gint64[]){ 1, 32 }, 2, WEFT_DTYPE_BF16, NULL);
}

static WeftTensor *
make_int4_group (void)
{
  g_autoptr (WeftTensor) words = new_tensor (WEFT_DTYPE_I32, (gint64[]){ N_ROWS, N_COLUMNS / 8 }, 2);
  g_autoptr (WeftTensor) scales = new_tensor (WEFT_DTYPE_BF16, (gint64[]){ N_ROWS, N_COLUMNS / 128 }, 2);
  g_autoptr (WeftTensor) zero = weft_tensor_new_constant (WEFT_DTYPE_F32, NULL, 0, 8, NULL);
  g_autoptr (WeftTensor) codes = weft_tensor_unpack (words, 4, WEFT_BIT_ORDER_DENSE, -1, N_COLUMNS, NULL);

  return weft_tensor_dequantize (codes, scales, zero, (gint64[]){ 1, 128 }, 2, WEFT_DTYPE_BF16, NULL);
}

static WeftTensor *
make_nf4 (void)
{
  const gint64 n_elements = N_ELEMENTS;
  g_autoptr (WeftTensor) bytes = new_tensor (WEFT_DTYPE_U8, (gint64[]){ n_elements / 2 }, 1);
  g_autoptr (WeftTensor) scales = new_tensor (WEFT_DTYPE_F32, (gint64[]){ n_elements / 64 }, 1);
  g_autoptr (WeftTensor) table = new_tensor (WEFT_DTYPE_F32, (gint64[]){ 16 }, 1);
  g_autoptr (WeftTensor) codes =
      weft_tensor_unpack (bytes, 4, WEFT_BIT_ORDER_HIGH_FIRST, -1, n_elements, NULL);
  g_autoptr (WeftTensor) values = weft_tensor_lookup (codes, table, NULL);

  return weft_tensor_dequantize (values, scales, NULL, (gint64[]){ 64 }, 1, WEFT_DTYPE_BF16, NULL);
}

static void
compute_scales (gconstpointer params, const gfloat *const *inputs, gsize n_values, gfloat *output)
{
  for (gsize i = 0; i < n_values; i++)
    output[i] = 448 / inputs[0][i];
}

/* The codes; their scales are computed once, in the first round. */
static WeftTensor *
make_codes (void)
{
  const gint64 block[] = { 128, 128 };
  g_autoptr (WeftTensor) dense = new_tensor (WEFT_DTYPE_BF16, (gint64[]){ N_ROWS, N_COLUMNS }, 2);
  g_autoptr (WeftTensor) magnitudes =
      weft_tensor_reduce_blocks (dense, WEFT_BLOCK_STATISTIC_MAGNITUDE, block, 2, NULL);
  g_autoptr (WeftTensor) once = weft_tensor_remember (magnitudes, NULL);
  g_autoptr (WeftTensor) scales = weft_tensor_compute (&once, 1, compute_scales, NULL, NULL, NULL);

  return weft_tensor_quantize (dense, scales, NULL, block, 2, WEFT_QUANTIZE_FLAGS_MULTIPLY,
                               WEFT_DTYPE_F8_E4M3, 8, NULL);
}

static const struct
{
  const gchar *name;
  WeftTensor *(*make) (void);
} cases[] = {
  { "fp8 block to BF16", make_fp8_block },    { "mxfp4 to BF16", make_mxfp4 },
  { "int4 group to BF16", make_int4_group },  { "nf4 to BF16", make_nf4 },
  { "BF16 to fp8 block, codes", make_codes },
};

static gint64
execute (WeftTensor *tensor, gpointer memory)
{
  const WeftTransfer transfer = { .tensor = tensor, .fd = -1, .memory = memory };
  const WeftTransferOptions options = { .struct_size = sizeof options };
  g_autoptr (GError) error = NULL;
  gint64 start = now ();

  if (!weft_transfer_execute (&transfer, 1, &options, NULL, NULL, &error))
    g_error ("%s", error->message);
  return now () - start;
}

int
main (int argc, char **argv)
{
  g_autofree guint8 *source = g_malloc (DENSE_BYTES);
  g_autofree guint8 *destination = g_malloc (DENSE_BYTES);

  memset (source, 1, DENSE_BYTES);
  memset (destination, 1, DENSE_BYTES);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autoptr (WeftTensor) tensor =
          argc < 2 || strstr (cases[i].name, argv[1]) != NULL ? cases[i].make () : NULL;
      gint64 best_kernel = G_MAXINT64, best_copy = G_MAXINT64;

      for (guint round = 0; tensor != NULL && round < N_ROUNDS; round++)
        {
          const gint64 kernel = execute (tensor, destination);
          const gint64 start = now ();
          gint64 copy;

          memcpy (destination, source, DENSE_BYTES);
          copy = now () - start;
          best_kernel = MIN (best_kernel, kernel);
          best_copy = MIN (best_copy, copy);
        }
      if (tensor != NULL)
        g_print ("%-26s %6.2f GB/s  %5.2f of memcpy\n", cases[i].name,
                 (gdouble) DENSE_BYTES / (gdouble) best_kernel, (gdouble) best_copy / (gdouble) best_kernel);
    }
  return 0;
}
