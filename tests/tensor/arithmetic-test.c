/* SPDX-License-Identifier: Apache-2.0 */
/* Scaling and shifting elements: one rounding, whole numbers exact, signs flipped exactly. */
#include "tensor/weft-arithmetic-private.h"
#include "tensor/weft-cast-private.h"

#include <math.h>
#include <string.h>

typedef gboolean (*Arithmetic) (WeftDtype dtype, const void *source, void *destination, gsize n_elements,
                                gdouble number);

static const struct
{
  Arithmetic compute;
  WeftDtype dtype;
  guint64 in;
  gdouble number;
  guint64 out;
  const gchar *why;
} cases[] = {
  { weft_scale_elements, WEFT_DTYPE_F32, 0x3f800000, 0.5, 0x3f000000, "1 * 0.5" },
  { weft_scale_elements, WEFT_DTYPE_F32, 0x40400000, 0.1, 0x3e99999a, "3 * 0.1f in F32" },
  { weft_scale_elements, WEFT_DTYPE_F64, 0x4008000000000000, 0.1, 0x3fd3333333333334, "3 * 0.1 in F64" },
  { weft_scale_elements, WEFT_DTYPE_BF16, 0x3f81, 1.00390625, 0x3f82, "1.0078125 * 1.00390625 rounded once" },
  { weft_scale_elements, WEFT_DTYPE_F16, 0x7bff, 2, 0x7c00, "overflow" },
  { weft_scale_elements, WEFT_DTYPE_F8_E4M3, 0x7e, 2, 0x7e, "saturates as the cast does" },
  { weft_scale_elements, WEFT_DTYPE_I8, 0x80, -1, 0x80, "-128 * -1 wraps" },
  { weft_scale_elements, WEFT_DTYPE_I8, 0xfd, 5, 0xf1, "-3 * 5" },
  { weft_scale_elements, WEFT_DTYPE_U8, 0x01, -1, 0xff, "wraps" },
  { weft_scale_elements, WEFT_DTYPE_I64, 0x0020000000000001, 3, 0x0060000000000003,
    "no detour through floats" },
  { weft_scale_elements, WEFT_DTYPE_U64, 2, 0x1p63, 0, "wraps" },
  { weft_shift_elements, WEFT_DTYPE_BF16, 0x3f80, 1, 0x4000, "1 + 1" },
  { weft_shift_elements, WEFT_DTYPE_BF16, 0x4380, 1, 0x4380, "256 + 1 is a tie and goes to even" },
  { weft_shift_elements, WEFT_DTYPE_F64, 0x3ff0000000000000, -1, 0, "1 - 1" },
  { weft_shift_elements, WEFT_DTYPE_I32, 0x7fffffff, 1, 0x80000000, "wraps" },
  { weft_shift_elements, WEFT_DTYPE_U16, 0x0000, -1, 0xffff, "wraps" },
  { weft_shift_elements, WEFT_DTYPE_I64, 0xffffffffffffffff, -0x1p63, 0x7fffffffffffffff, "wraps" },
};

static void
test_cases (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      guint64 out = 0;

      g_test_message ("%s: %s", weft_dtype_get_name (cases[i].dtype), cases[i].why);
      g_assert_true (cases[i].compute (cases[i].dtype, &cases[i].in, &out, 1, cases[i].number));
      g_assert_cmphex (out, ==, cases[i].out);
    }
}

static void
test_refused (void)
{
  static const struct
  {
    WeftDtype dtype;
    gdouble number;
  } refused[] = {
    { WEFT_DTYPE_BOOL, 1 },        { WEFT_DTYPE_C64, 1 },        { WEFT_DTYPE_F8_E8M0, 2 },
    { WEFT_DTYPE_I32, 0.5 },       { WEFT_DTYPE_U8, NAN },       { WEFT_DTYPE_I64, 0x1p64 },
    { WEFT_DTYPE_I64, -0x1.8p63 }, { WEFT_DTYPE_U64, INFINITY },
  };

  for (guint i = 0; i < G_N_ELEMENTS (refused); i++)
    {
      guint64 in = 1, out = 7;

      g_assert_false (weft_scale_elements (refused[i].dtype, &in, &out, 1, refused[i].number));
      g_assert_false (weft_shift_elements (refused[i].dtype, &in, &out, 1, refused[i].number));
      g_assert_cmpuint (out, ==, 7);
    }
}

/* Negating twice is the identity on bits, in place too, and once is what negation means. */
static void
test_negation (void)
{
  g_autoptr (GRand) random = g_rand_new_with_seed (3);

  for (guint dtype = WEFT_DTYPE_BOOL; dtype < WEFT_N_DTYPES; dtype++)
    {
      enum
      {
        N = 3000
      };
      gsize n_bytes = N * weft_dtype_get_bits (dtype) / 8;
      g_autofree guint8 *codes = g_malloc (n_bytes + 1), *negated = g_malloc (n_bytes + 1);
      g_autofree gdouble *before = g_new (gdouble, N), *after = g_new (gdouble, N);

      if (!weft_dtype_is_floating (dtype) || dtype == WEFT_DTYPE_F8_E8M0)
        continue;
      g_test_message ("%s", weft_dtype_get_name (dtype));
      for (gsize i = 0; i < n_bytes + 1; i++)
        codes[i] = (guint8) g_rand_int (random);
      g_assert_true (weft_scale_elements (dtype, codes + 1, negated, N, -1));
      weft_cast_lookup (dtype, WEFT_DTYPE_F64) (codes + 1, before, N);
      weft_cast_lookup (dtype, WEFT_DTYPE_F64) (negated, after, N);
      for (gsize i = 0; i < N; i++)
        g_assert_true (isnan (before[i]) ? isnan (after[i]) : before[i] == -after[i]);
      g_assert_true (weft_scale_elements (dtype, negated, negated, N, -1));
      g_assert_cmpmem (negated, n_bytes, codes + 1, n_bytes);
    }
}

/* Runs longer than a block, in place, of a packed dtype. */
static void
test_packed_run (void)
{
  guint8 f4[515];

  memset (f4, 0x12, sizeof f4); /* 1, 0.5 */
  g_assert_true (weft_scale_elements (WEFT_DTYPE_F4, f4, f4, 2 * sizeof f4, 2));
  for (gsize i = 0; i < sizeof f4; i++)
    g_assert_cmphex (f4[i], ==, 0x24); /* 2, 1 */
  g_assert_true (weft_shift_elements (WEFT_DTYPE_F4, f4, f4, 2 * sizeof f4, 1));
  for (gsize i = 0; i < sizeof f4; i++)
    g_assert_cmphex (f4[i], ==, 0x45); /* 3, 2 */
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/arithmetic/cases", test_cases);
  g_test_add_func ("/arithmetic/refused", test_refused);
  g_test_add_func ("/arithmetic/negation", test_negation);
  g_test_add_func ("/arithmetic/packed-run", test_packed_run);
  return g_test_run ();
}
