/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel that scales codes has to know of those that unpack them and look them up, to do all in one pass. Private
 * to the tensor room. */
#pragma once

#include "tensor/weft-bit-packing-private.h"
#include "tensor/weft-kernel.h"

typedef struct
{
  WeftBitPacking packing;
  guint axis;
} WeftUnpacking;

/* The words that @self unpacks and how, or %NULL if it is anything but the whole output of weft_tensor_unpack(). */
WeftTensor *weft_tensor_peek_words (WeftTensor *self, const WeftUnpacking **unpacking);

/* The codes that @self looks up in @table, or %NULL if it is anything but the whole output of weft_tensor_lookup(). */
WeftTensor *weft_tensor_peek_codes (WeftTensor *self, WeftTensor **table);

/* The region of the words that a region of the codes needs, which begins on a whole period. */
void weft_unpacking_get_word_region (const WeftUnpacking *self, const WeftRegion *codes, WeftRegion *words);
