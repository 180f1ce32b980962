/* SPDX-License-Identifier: Apache-2.0 */
/* Dtype conversion: chosen values, every code of the narrow dtypes and random ones of the wide against the plain
 * definition, and the claim of what is widening. */
#include "tensor/weft-cast-private.h"

#include <string.h>

#define N_RANDOM 8192

/* One code to one code. What the format's own documents or hardware decide is said in the last column. */
static const struct
{
  WeftDtype from;
  guint64 in;
  WeftDtype to;
  guint64 out;
  const gchar *why;
} chosen[] = {
  { WEFT_DTYPE_F32, 0x3f800000, WEFT_DTYPE_BF16, 0x3f80, "1" },
  { WEFT_DTYPE_F32, 0x3f808000, WEFT_DTYPE_BF16, 0x3f80, "a tie goes to the even code below" },
  { WEFT_DTYPE_F32, 0x3f818000, WEFT_DTYPE_BF16, 0x3f82, "a tie goes to the even code above" },
  { WEFT_DTYPE_F32, 0x7f7fffff, WEFT_DTYPE_BF16, 0x7f80, "overflow gives infinity" },
  { WEFT_DTYPE_F32, 0x7f800001, WEFT_DTYPE_BF16, 0x7fc0, "a NaN whose payload is cut off stays a NaN" },
  { WEFT_DTYPE_BF16, 0xff81, WEFT_DTYPE_F32, 0xff810000, "a signalling NaN stays as it is" },
  { WEFT_DTYPE_F16, 0x0001, WEFT_DTYPE_F32, 0x33800000, "the smallest subnormal, 2^-24" },
  { WEFT_DTYPE_F16, 0x7c01, WEFT_DTYPE_F32, 0x7f802000, "a signalling NaN stays as it is" },
  { WEFT_DTYPE_F32, 0x477fefff, WEFT_DTYPE_F16, 0x7bff, "just under 65520" },
  { WEFT_DTYPE_F32, 0x477ff000, WEFT_DTYPE_F16, 0x7c00, "65520 rounds to infinity" },
  { WEFT_DTYPE_F32, 0x33000000, WEFT_DTYPE_F16, 0x0000, "2^-25 is a tie with zero" },
  { WEFT_DTYPE_F32, 0x43e00000, WEFT_DTYPE_F8_E4M3, 0x7e, "448, the largest" },
  { WEFT_DTYPE_F32, 0xff800000, WEFT_DTYPE_F8_E4M3, 0xfe, "infinity saturates" },
  { WEFT_DTYPE_F32, 0xffc00000, WEFT_DTYPE_F8_E4M3, 0xff, "NaN" },
  { WEFT_DTYPE_F32, 0x47700000, WEFT_DTYPE_F8_E5M2, 0x7c, "61440, a tie between the largest and infinity" },
  { WEFT_DTYPE_F32, 0x80000000, WEFT_DTYPE_F8_E4M3FNUZ, 0x00, "no negative zero" },
  { WEFT_DTYPE_F32, 0x7f800000, WEFT_DTYPE_F8_E4M3FNUZ, 0x80, "infinity gives NaN" },
  { WEFT_DTYPE_F8_E8M0, 0x00, WEFT_DTYPE_F32, 0x00400000, "2^-127" },
  { WEFT_DTYPE_F8_E8M0, 0xff, WEFT_DTYPE_BF16, 0x7fc0, "NaN" },
  { WEFT_DTYPE_F32, 0x3fc00000, WEFT_DTYPE_F8_E8M0, 0x80, "1.5 goes up to 2" },
  { WEFT_DTYPE_F32, 0x3fbfffff, WEFT_DTYPE_F8_E8M0, 0x7f, "just under 1.5 goes down to 1" },
  { WEFT_DTYPE_F64, 0x3ff0100000100000, WEFT_DTYPE_BF16, 0x3f80, "1 + 2^-8 + 2^-32 rounds twice" },
  { WEFT_DTYPE_F64, 0x7ff0000000000001, WEFT_DTYPE_F32, 0x7fc00000, "a NaN whose payload is cut off" },
  { WEFT_DTYPE_F64, 0x0000000000000001, WEFT_DTYPE_BOOL, 1, "the smallest F64 is not zero" },
  { WEFT_DTYPE_F32, 0x7fc00000, WEFT_DTYPE_BOOL, 1, "NaN is true" },
  { WEFT_DTYPE_F16, 0x8000, WEFT_DTYPE_BOOL, 0, "-0 is false" },
  { WEFT_DTYPE_BOOL, 0x02, WEFT_DTYPE_F32, 0x3f800000, "any true is 1" },
  { WEFT_DTYPE_BOOL, 0x02, WEFT_DTYPE_BOOL, 0x02, "nothing is converted" },
  { WEFT_DTYPE_F32, 0xbfffffff, WEFT_DTYPE_I8, 0xff, "-1.9999999 is cut to -1" },
  { WEFT_DTYPE_F32, 0x7fc00000, WEFT_DTYPE_I32, 0, "NaN" },
  { WEFT_DTYPE_F32, 0x7f800000, WEFT_DTYPE_I64, G_MAXINT64, "infinity saturates" },
  { WEFT_DTYPE_F64, 0x43f0000000000000, WEFT_DTYPE_U64, G_MAXUINT64, "2^64 saturates" },
  { WEFT_DTYPE_F64, 0x43e0000000000000, WEFT_DTYPE_U64, 0x8000000000000000, "2^63" },
  { WEFT_DTYPE_I32, 0xfffffeff, WEFT_DTYPE_I8, 0xff, "narrowing keeps the low bits" },
  { WEFT_DTYPE_I8, 0x80, WEFT_DTYPE_U64, 0xffffffffffffff80, "the sign is extended" },
  { WEFT_DTYPE_U64, G_MAXUINT64, WEFT_DTYPE_F32, 0x5f800000, "2^64" },
  { WEFT_DTYPE_I64, 0x0101000000000001, WEFT_DTYPE_BF16, 0x5b80, "integers round twice, too" },
  { WEFT_DTYPE_C64, 0x7f80000100000003, WEFT_DTYPE_C64, 0x7f80000100000003, "nothing is converted" },
};

static void
test_chosen (void)
{
  for (guint i = 0; i < G_N_ELEMENTS (chosen); i++)
    {
      guint64 fast = 0, plain = 0;

      g_test_message ("%s to %s: %s", weft_dtype_get_name (chosen[i].from),
                      weft_dtype_get_name (chosen[i].to), chosen[i].why);
      weft_cast_lookup (chosen[i].from, chosen[i].to) (&chosen[i].in, &fast, 1);
      weft_cast_lookup_plain (chosen[i].from, chosen[i].to) (&chosen[i].in, &plain, 1);
      g_assert_cmphex (fast, ==, chosen[i].out);
      g_assert_cmphex (plain, ==, chosen[i].out);
    }
}

/* Codes of sub-byte dtypes are packed from the lowest bits on. */
static void
test_packed (void)
{
  static const guint8 f4[] = { 0x21, 0xf7 }, f6[] = { 0x01, 0xf4, 0xff };
  static const gfloat f4_values[] = { 0.5f, 1, 6, -6 }, f6_values[] = { 0.125f, 2, -7.5f, -7.5f };
  gfloat wide[4];
  guint8 packed[3];

  weft_cast_lookup (WEFT_DTYPE_F4, WEFT_DTYPE_F32) (f4, wide, 4);
  g_assert_cmpmem (wide, sizeof wide, f4_values, sizeof f4_values);
  weft_cast_lookup (WEFT_DTYPE_F32, WEFT_DTYPE_F4) (wide, packed, 4);
  g_assert_cmpmem (packed, sizeof f4, f4, sizeof f4);

  weft_cast_lookup (WEFT_DTYPE_F6_E2M3, WEFT_DTYPE_F32) (f6, wide, 4);
  g_assert_cmpmem (wide, sizeof wide, f6_values, sizeof f6_values);
  weft_cast_lookup (WEFT_DTYPE_F32, WEFT_DTYPE_F6_E2M3) (wide, packed, 4);
  g_assert_cmpmem (packed, sizeof f6, f6, sizeof f6);
}

/* Numbers of any magnitude, with few bits set as often as with many, so that ties are among them. */
static guint64
random_code (GRand *random, WeftDtype dtype)
{
  guint64 code = (guint64) g_rand_int (random) << 32 | g_rand_int (random);
  guint n_cleared = (guint) g_rand_int_range (random, 0, 60), bits = weft_dtype_get_bits (dtype);
  guint64 exponent = (guint64) g_rand_int_range (random, -45, 40);

  code = code >> n_cleared << n_cleared;
  if (dtype == WEFT_DTYPE_F64 && n_cleared % 4 != 0)
    return (code & 0x800fffffffffffff) | (exponent + 1023) << 52;
  if (dtype == WEFT_DTYPE_F32 && n_cleared % 4 != 0)
    return (code >> 32 & 0x807fffff) | (exponent + 127) << 23;
  return code >> (n_cleared % 2 == 0 ? 64 - bits : (guint) g_rand_int_range (random, 0, 64));
}

/* All codes of a dtype of up to 16 bits, each once; random ones of a wider dtype. */
static GByteArray *
make_codes (WeftDtype dtype, gsize *n_elements)
{
  guint bits = weft_dtype_get_bits (dtype);
  GByteArray *codes = g_byte_array_new ();
  g_autoptr (GRand) random = g_rand_new_with_seed (bits);

  *n_elements = bits <= 16 ? (gsize) 1 << bits : N_RANDOM;
  g_byte_array_set_size (codes, (guint) (*n_elements * bits / 8));
  memset (codes->data, 0, codes->len);
  for (gsize i = 0; i < *n_elements; i++)
    {
      guint64 code = bits <= 16 ? i : random_code (random, dtype);

      if (bits >= 8)
        memcpy (codes->data + i * bits / 8, &code, bits / 8);
      else
        for (gsize bit = i * bits; bit < (i + 1) * bits; bit++)
          codes->data[bit / 8] |= (guint8) ((code >> (bit - i * bits) & 1) << bit % 8);
    }
  return codes;
}

static void
test_fast_is_plain (void)
{
  for (guint from = WEFT_DTYPE_BOOL; from < WEFT_N_DTYPES; from++)
    {
      gsize n_elements;
      g_autoptr (GByteArray) codes = make_codes (from, &n_elements);

      for (guint to = WEFT_DTYPE_BOOL; to < WEFT_N_DTYPES; to++)
        {
          WeftCastFunc fast = weft_cast_lookup (from, to), plain = weft_cast_lookup_plain (from, to);
          gsize width = weft_dtype_get_bits (to), n_bytes = n_elements * width / 8;
          g_autofree guint8 *fast_result = g_malloc0 (n_bytes), *plain_result = g_malloc0 (n_bytes);

          g_assert_true ((fast == NULL) == ((from == WEFT_DTYPE_C64) != (to == WEFT_DTYPE_C64)));
          g_assert_true ((plain == NULL) == (fast == NULL));
          if (fast == NULL)
            continue;
          fast (codes->data, fast_result, n_elements);
          plain (codes->data, plain_result, n_elements);
          for (gsize i = 0; i < n_bytes; i++)
            if (fast_result[i] != plain_result[i])
              g_error ("%s to %s: element %" G_GSIZE_FORMAT " differs", weft_dtype_get_name (from),
                       weft_dtype_get_name (to), i * 8 / width);
        }
    }
}

/* Runs of any length at any address: nothing beyond the run is written, and its ends are like its middle. */
static void
test_ends (void)
{
  for (guint from = WEFT_DTYPE_BOOL; from < WEFT_N_DTYPES; from++)
    for (guint to = WEFT_DTYPE_BOOL; to < WEFT_N_DTYPES; to++)
      {
        WeftCastFunc fast = weft_cast_lookup (from, to), plain = weft_cast_lookup_plain (from, to);
        gsize n_all;
        g_autoptr (GByteArray) codes = make_codes (from, &n_all);

        for (gsize n = 0; fast != NULL && n <= 40 && n <= n_all; n += 4)
          {
            guint8 fast_result[8 * 40 + 16], plain_result[8 * 40 + 16], source[8 * 40 + 1];

            memset (fast_result, 0xa5, sizeof fast_result);
            memset (plain_result, 0xa5, sizeof plain_result);
            memcpy (source + 1, codes->data, n * weft_dtype_get_bits (from) / 8);
            fast (source + 1, fast_result + 3, n);
            plain (source + 1, plain_result + 3, n);
            g_assert_cmpmem (fast_result, sizeof fast_result, plain_result, sizeof plain_result);
          }
      }
}

/* Whether all values survive there and back, and mean the same while they are there. */
static gboolean
survives (WeftDtype from, WeftDtype to)
{
  gsize n_elements;
  g_autoptr (GByteArray) codes = make_codes (from, &n_elements);
  g_autofree guint8 *there = g_malloc0 (n_elements * 8), *back = g_malloc0 (n_elements * 8);
  g_autofree gdouble *before = g_new0 (gdouble, n_elements), *after = g_new0 (gdouble, n_elements);

  weft_cast_lookup (from, to) (codes->data, there, n_elements);
  weft_cast_lookup (to, from) (there, back, n_elements);
  weft_cast_lookup (from, WEFT_DTYPE_F64) (codes->data, before, n_elements);
  weft_cast_lookup (to, WEFT_DTYPE_F64) (there, after, n_elements);
  return memcmp (codes->data, back, codes->len) == 0
         && memcmp (before, after, n_elements * sizeof (gdouble)) == 0;
}

/* The claim is neither more nor less than what is so; a difference that F64 cannot tell is one between integers of
 * 64 bits, where equal bits decide. */
static void
test_widening (void)
{
  for (guint from = WEFT_DTYPE_BOOL; from < WEFT_N_DTYPES; from++)
    for (guint to = WEFT_DTYPE_BOOL; to < WEFT_N_DTYPES; to++)
      {
        gboolean claimed = weft_cast_is_widening (from, to);

        g_test_message ("%s to %s", weft_dtype_get_name (from), weft_dtype_get_name (to));
        if (from == WEFT_DTYPE_C64 || to == WEFT_DTYPE_C64)
          g_assert_cmpint (claimed, ==, from == to);
        else
          g_assert_cmpint (claimed, ==, survives (from, to));
      }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/cast/chosen", test_chosen);
  g_test_add_func ("/cast/packed", test_packed);
  g_test_add_func ("/cast/fast-is-plain", test_fast_is_plain);
  g_test_add_func ("/cast/ends", test_ends);
  g_test_add_func ("/cast/widening", test_widening);
  return g_test_run ();
}
