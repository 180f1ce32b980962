/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-bit-packing-private.h"
#include "tensor/weft-vectorised-private.h"

#include <string.h>

/* That many codes of b bits fill b bytes. */
#define RUN_CODES 8
#define AWQ_CODES 8

static guint
greatest_common_divisor (guint a, guint b)
{
  return b == 0 ? a : greatest_common_divisor (b, a % b);
}

gboolean
weft_bit_packing_init (WeftBitPacking *self, guint bits, WeftBitOrder order, WeftDtype words, GError **error)
{
  guint word_bits = weft_dtype_get_bits (words);
  gboolean fits = bits >= 1 && bits <= 8;

  *self = (WeftBitPacking){ bits, word_bits, order };
  if (order == WEFT_BIT_ORDER_HIGH_FIRST)
    fits = fits && 8 % bits == 0;
  if (order == WEFT_BIT_ORDER_AWQ)
    fits = bits == 4 && word_bits == 32;
  if (!fits)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "packed codes: expected 1 to 8 bits a code (with the first code highest 1, 2, 4 or 8, in the order of "
          "AWQ 4 in words of 32), found %u bits in words of %u",
          bits, word_bits);
      return FALSE;
    }
  if (words <= WEFT_DTYPE_INVALID || word_bits % 8 != 0 || word_bits > 64 || words == WEFT_DTYPE_C64)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_DTYPE,
                   "packed codes: expected words of 8, 16, 32 or 64 bits, found %s",
                   weft_dtype_get_name (words));
      return FALSE;
    }
  self->period =
      word_bits / (order == WEFT_BIT_ORDER_PADDED ? bits : greatest_common_divisor (word_bits, bits));
  self->period_words = order == WEFT_BIT_ORDER_PADDED ? 1 : self->period * bits / word_bits;
  return TRUE;
}

gint64
weft_bit_packing_count_words (const WeftBitPacking *self, gint64 n_codes)
{
  gint64 rest = n_codes % self->period;
  gint64 rest_words = self->order == WEFT_BIT_ORDER_PADDED
                          ? rest > 0
                          : (rest * self->bits + self->word_bits - 1) / (gint64) self->word_bits;

  return n_codes / self->period * self->period_words + rest_words;
}

/* One after the other */

static WEFT_ALWAYS_INLINE guint64
load_run (const guint8 *bytes, guint bits)
{
  guint64 run = 0;

  for (guint i = 0; i < bits; i++)
    run |= (guint64) bytes[i] << (8 * i);
  return run;
}

static WEFT_ALWAYS_INLINE void
unpack_runs (const guint8 *restrict bytes, gsize n_runs, guint bits, guint8 *restrict codes)
{
  const guint8 mask = (guint8) ((1u << bits) - 1);

  for (gsize i = 0; i < n_runs; i++)
    {
      guint64 run = load_run (bytes + i * bits, bits);

      for (guint k = 0; k < RUN_CODES; k++)
        codes[i * RUN_CODES + k] = (guint8) (run >> (k * bits)) & mask;
    }
}

/* Codes that do not straddle bytes: @first is the shift of the first code of a byte, @step that between codes. */
static WEFT_ALWAYS_INLINE void
unpack_bytes (const guint8 *restrict bytes, gsize n_bytes, gint bits, gint first, gint step,
              guint8 *restrict codes)
{
  const gint n = 8 / bits;

  for (gsize i = 0; i < n_bytes; i++)
    for (gint k = 0; k < n; k++)
      codes[i * (gsize) n + (gsize) k] = (guint8) (bytes[i] >> (first + k * step)) & ((1 << bits) - 1);
}

WEFT_VECTORISED static void
unpack_whole_runs (const WeftBitPacking *self, const guint8 *bytes, gsize n_runs, guint8 *codes)
{
  gsize n_bytes = n_runs * self->bits;
  gboolean is_high_first = self->order == WEFT_BIT_ORDER_HIGH_FIRST;

  switch (self->bits)
    {
    case 1:
      if (is_high_first)
        unpack_bytes (bytes, n_bytes, 1, 7, -1, codes);
      else
        unpack_bytes (bytes, n_bytes, 1, 0, 1, codes);
      break;
    case 2:
      if (is_high_first)
        unpack_bytes (bytes, n_bytes, 2, 6, -2, codes);
      else
        unpack_bytes (bytes, n_bytes, 2, 0, 2, codes);
      break;
    case 3:
      unpack_runs (bytes, n_runs, 3, codes);
      break;
    case 4:
      if (is_high_first)
        unpack_bytes (bytes, n_bytes, 4, 4, -4, codes);
      else
        unpack_bytes (bytes, n_bytes, 4, 0, 4, codes);
      break;
    case 5:
      unpack_runs (bytes, n_runs, 5, codes);
      break;
    case 6:
      unpack_runs (bytes, n_runs, 6, codes);
      break;
    case 7:
      unpack_runs (bytes, n_runs, 7, codes);
      break;
    default:
      memcpy (codes, bytes, n_bytes);
      break;
    }
}

/* The nibble that holds a code of eight. */
static WEFT_ALWAYS_INLINE gsize
get_awq_nibble (gsize code)
{
  return code / 2 + code % 2 * 4;
}

static void
unpack_words (const WeftBitPacking *self, const guint8 *words, gsize n_codes, guint8 *codes)
{
  const gsize word_bytes = self->word_bits / 8;
  const gsize n = (gsize) self->period;
  const guint8 mask = (guint8) ((1u << self->bits) - 1);

  for (gsize i = 0; i < n_codes; i += n)
    {
      guint64 word = load_run (words + i / n * word_bytes, (guint) word_bytes);

      for (gsize k = 0; k < MIN (n, n_codes - i); k++)
        {
          gsize place = self->order == WEFT_BIT_ORDER_AWQ ? get_awq_nibble (k) : k;

          codes[i + k] = (guint8) (word >> (place * self->bits)) & mask;
        }
    }
}

void
weft_bit_packing_unpack (const WeftBitPacking *self, const guint8 *words, gsize n_codes, guint8 *codes)
{
  gsize n_runs = n_codes / RUN_CODES;
  gsize n_rest = n_codes % RUN_CODES;
  guint8 rest[8] = { 0 };
  guint8 rest_codes[RUN_CODES];

  if (self->order == WEFT_BIT_ORDER_PADDED || self->order == WEFT_BIT_ORDER_AWQ)
    {
      unpack_words (self, words, n_codes, codes);
      return;
    }
  unpack_whole_runs (self, words, n_runs, codes);
  if (n_rest == 0)
    return;
  memcpy (rest, words + n_runs * self->bits, (n_rest * self->bits + 7) / 8);
  unpack_whole_runs (self, rest, 1, rest_codes);
  memcpy (codes + n_runs * RUN_CODES, rest_codes, n_rest);
}

/* The first bit of a code in its words, counted from the lowest of the first. */
static gsize
get_first_bit (const WeftBitPacking *self, gsize code)
{
  const gsize bit = code * self->bits;
  const gsize per_word = self->word_bits / self->bits;

  switch (self->order)
    {
    case WEFT_BIT_ORDER_PADDED:
      return code / per_word * self->word_bits + code % per_word * self->bits;
    case WEFT_BIT_ORDER_HIGH_FIRST:
      return bit / 8 * 8 + (8 - self->bits - bit % 8);
    case WEFT_BIT_ORDER_AWQ:
      return (code / AWQ_CODES * AWQ_CODES + get_awq_nibble (code % AWQ_CODES)) * self->bits;
    case WEFT_BIT_ORDER_DENSE:
    default:
      return bit;
    }
}

void
weft_bit_packing_pack (const WeftBitPacking *self, const guint8 *codes, gsize n_codes, guint8 *words)
{
  const guint mask = (1u << self->bits) - 1;

  memset (words, 0, (gsize) weft_bit_packing_count_words (self, (gint64) n_codes) * self->word_bits / 8);
  for (gsize i = 0; i < n_codes; i++)
    {
      gsize bit = get_first_bit (self, i);
      guint code = (codes[i] & mask) << bit % 8;

      words[bit / 8] |= (guint8) code;
      if (code > 0xff)
        words[bit / 8 + 1] |= (guint8) (code >> 8);
    }
}

/* One below the other */

#define DEFINE_ROW_LOOPS(name, Word)                                                                    \
  WEFT_VECTORISED static void unpack_row_##name (const Word *restrict low, const Word *restrict high,   \
                                                 guint shift, guint mask, gsize n_codes,                \
                                                 guint8 *restrict codes)                                \
  {                                                                                                     \
    const guint width = 8 * sizeof (Word);                                                              \
    if (high == NULL)                                                                                   \
      for (gsize i = 0; i < n_codes; i++)                                                               \
        codes[i] = (guint8) ((low[i] >> shift) & mask);                                                 \
    else                                                                                                \
      for (gsize i = 0; i < n_codes; i++)                                                               \
        codes[i] = (guint8) (((low[i] >> shift) | (high[i] << (width - shift))) & mask);                \
  }                                                                                                     \
  WEFT_VECTORISED static void pack_row_##name (Word *restrict low, Word *restrict high, guint shift,    \
                                               guint mask, gsize n_codes, const guint8 *restrict codes) \
  {                                                                                                     \
    const guint width = 8 * sizeof (Word);                                                              \
    for (gsize i = 0; i < n_codes; i++)                                                                 \
      low[i] |= (Word) ((Word) (codes[i] & mask) << shift);                                             \
    if (high != NULL)                                                                                   \
      for (gsize i = 0; i < n_codes; i++)                                                               \
        high[i] |= (Word) ((Word) (codes[i] & mask) >> (width - shift));                                \
  }

DEFINE_ROW_LOOPS (u8, WeftAnyU8)
DEFINE_ROW_LOOPS (u16, WeftAnyU16)
DEFINE_ROW_LOOPS (u32, WeftAnyU32)
DEFINE_ROW_LOOPS (u64, WeftAnyU64)

/* Calls a row loop with the row of words that holds the low bits of row @row of the codes, and the next if they reach into
 * it. Bytes of a word count from its lowest, so that the first code of HIGH_FIRST has the highest bits of the lowest byte. */
#define CALL_ROW_LOOP(loop, name, Word)                                                                   \
  loop##name ((Word *) (gpointer) (words) + word * n_columns + first_column,                              \
              is_straddling ? (Word *) (gpointer) (words) + (word + 1) * n_columns + first_column : NULL, \
              shift, mask, n_codes, codes)

#define ROW_PLACE                                                      \
  const gsize bit = get_first_bit (self, (gsize) row);                 \
  const gsize word = bit / self->word_bits;                            \
  const guint shift = (guint) (bit % self->word_bits);                 \
  const gboolean is_straddling = shift + self->bits > self->word_bits; \
  const guint mask = (1u << self->bits) - 1

void
weft_bit_packing_unpack_row (const WeftBitPacking *self, const guint8 *words, gsize n_columns, gint64 row,
                             gsize first_column, gsize n_codes, guint8 *codes)
{
  ROW_PLACE;

  if (self->word_bits == 8)
    CALL_ROW_LOOP (unpack_row_, u8, WeftAnyU8);
  else if (self->word_bits == 16)
    CALL_ROW_LOOP (unpack_row_, u16, WeftAnyU16);
  else if (self->word_bits == 32)
    CALL_ROW_LOOP (unpack_row_, u32, WeftAnyU32);
  else
    CALL_ROW_LOOP (unpack_row_, u64, WeftAnyU64);
}

void
weft_bit_packing_pack_row (const WeftBitPacking *self, const guint8 *codes, gsize n_columns, gint64 row,
                           guint8 *words)
{
  const gsize first_column = 0, n_codes = n_columns;
  ROW_PLACE;

  if (self->word_bits == 8)
    CALL_ROW_LOOP (pack_row_, u8, WeftAnyU8);
  else if (self->word_bits == 16)
    CALL_ROW_LOOP (pack_row_, u16, WeftAnyU16);
  else if (self->word_bits == 32)
    CALL_ROW_LOOP (pack_row_, u32, WeftAnyU32);
  else
    CALL_ROW_LOOP (pack_row_, u64, WeftAnyU64);
}
