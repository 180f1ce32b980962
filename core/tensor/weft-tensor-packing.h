/* SPDX-License-Identifier: Apache-2.0 */
/* Codes of a few bits in words, and what codes stand for: lazy, and fused by what computes with them. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

/**
 * WeftBitOrder:
 * @WEFT_BIT_ORDER_DENSE: a stream of bits, lowest first; a code may straddle two words
 * @WEFT_BIT_ORDER_PADDED: as many codes a word as fit whole, lowest bits first; the bits left over are unused
 * @WEFT_BIT_ORDER_HIGH_FIRST: in each byte the first code has the highest bits (bitsandbytes); 1, 2, 4 or 8 bits a code
 * @WEFT_BIT_ORDER_AWQ: nibble n of a 32-bit word holds code 0 2 4 6 1 3 5 7 [n] of its eight; 4 bits a code
 *
 * How codes lie in words.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_BIT_ORDER_DENSE,
  WEFT_BIT_ORDER_PADDED,
  WEFT_BIT_ORDER_HIGH_FIRST,
  WEFT_BIT_ORDER_AWQ,
} WeftBitOrder;

WEFT_PUBLIC WeftTensor *weft_tensor_unpack (WeftTensor *self, guint bits, WeftBitOrder order, gint axis,
                                            gint64 n_codes, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_pack (WeftTensor *self, guint bits, WeftBitOrder order, gint axis,
                                          WeftDtype words, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_new_code_table (WeftDtype dtype, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_lookup (WeftTensor *self, WeftTensor *table, GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_unpack_floats (WeftTensor *self, WeftDtype dtype, gint64 n_columns,
                                                   GError **error);
WEFT_PUBLIC WeftTensor *weft_tensor_expand_bitmask (WeftTensor *self, WeftTensor *bitmask,
                                                    WeftTensor *row_offsets, gint64 n_columns,
                                                    GError **error);

G_END_DECLS
