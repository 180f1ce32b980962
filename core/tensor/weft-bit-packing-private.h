/* SPDX-License-Identifier: Apache-2.0 */
/* Where codes of a few bits lie in words, and the loops that move them. Private to the tensor room. */
#pragma once

#include "tensor/weft-tensor-packing.h"

typedef struct
{
  guint bits;
  guint word_bits;
  WeftBitOrder order;
  /* The smallest number of codes that fills whole words, and those words. What follows works on codes from such a border
   * on. */
  gint64 period;
  gint64 period_words;
} WeftBitPacking;

gboolean weft_bit_packing_init (WeftBitPacking *self, guint bits, WeftBitOrder order, WeftDtype words,
                                GError **error);

gint64 weft_bit_packing_count_words (const WeftBitPacking *self, gint64 n_codes);

/* Codes that lie one after the other in words that do. */
void weft_bit_packing_unpack (const WeftBitPacking *self, const guint8 *words, gsize n_codes, guint8 *codes);
void weft_bit_packing_pack (const WeftBitPacking *self, const guint8 *codes, gsize n_codes, guint8 *words);

/* Codes that lie one below the other, in rows of @n_columns words: row @row of the codes. Packing adds to words that were
 * zero. */
void weft_bit_packing_unpack_row (const WeftBitPacking *self, const guint8 *words, gsize n_columns,
                                  gint64 row, gsize first_column, gsize n_codes, guint8 *codes);
void weft_bit_packing_pack_row (const WeftBitPacking *self, const guint8 *codes, gsize n_columns, gint64 row,
                                guint8 *words);
