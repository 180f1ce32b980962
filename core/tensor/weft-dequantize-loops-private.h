/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of dequantising, and of quantising where they are like those: a run of codes of one row at a time. Private to the tensor room. */
#pragma once

#include <string.h>

#include "base/weft-dtype.h"

/* A run fits the first level cache in all its forms. */
#define WEFT_RUN_ELEMENTS 512
#define WEFT_NIBBLE_ENTRIES 16

typedef enum
{
  WEFT_SCALING_MULTIPLY, /* (code - shift) * scale */
  WEFT_SCALING_DIVIDE,   /* code / scale */
  WEFT_SCALING_AFFINE,   /* code * scale + shift */
} WeftScaling;

/* The scales and shifts of the blocks that a run goes through. A step of 0 means one for all. */
typedef struct
{
  WeftScaling scaling;
  const gfloat *scales;
  const gfloat *shifts;
  gsize scale_step;
  gsize shift_step;
  /* Elements of a block, and those left in the first. */
  gsize block;
  gsize first;
} WeftBlockRun;

/* Walks the blocks of a run: the next @n elements, from @at on, have @scale and @shift. */
#define WEFT_FOR_EACH_BLOCK(run, n_elements)                                                   \
  for (gsize at = 0, block_index = 0, n = MIN ((run)->first, (n_elements)); at < (n_elements); \
       at += n, block_index++, n = MIN ((run)->block, (n_elements) -at))

#define WEFT_BLOCK_SCALE(run) ((run)->scales[block_index * (run)->scale_step])
#define WEFT_BLOCK_SHIFT(run) ((run)->shifts[block_index * (run)->shift_step])

/* Every step is rounded to F32. In place; for blocks of one element as well. */
void weft_scale_run (const WeftBlockRun *run, gfloat *values, gsize n_values);

/* Decodes, scales and rounds in one pass. NULL if there is no such loop for a pair of dtypes. */
typedef void (*WeftDequantizeFunc) (const WeftBlockRun *run, const void *codes, gsize n_codes,
                                    void *elements);
WeftDequantizeFunc weft_dequantize_lookup (WeftDtype code_dtype, WeftDtype dtype);

/* Scales and rounds to codes in one pass, without shifts. NULL if there is no such loop for a pair of dtypes. */
typedef void (*WeftQuantizeFunc) (const WeftBlockRun *run, const void *elements, gsize n_elements,
                                  guint8 *codes);
WeftQuantizeFunc weft_quantize_lookup (WeftDtype dtype, WeftDtype code_dtype);

/* Codes below 16 to BF16 or F16: the results of all codes of a block are computed, and then looked up. */
void weft_dequantize_nibbles (const WeftBlockRun *run, const gfloat table[WEFT_NIBBLE_ENTRIES],
                              const guint8 *codes, gsize n_codes, WeftDtype dtype, guint16 *elements);

#if defined(__x86_64__)
gboolean weft_dequantize_has_avx2 (void);
void weft_dequantize_nibbles_avx2 (const WeftBlockRun *run, const gfloat *table, const guint8 *codes,
                                   gsize n_codes, WeftDtype dtype, guint16 *elements);

/* For a scale below 2^119 in magnitude. */
void weft_scale_e4m3_to_bf16_avx2 (const guint8 *codes, gsize n_codes, gfloat scale, guint16 *elements);

void weft_quantize_bf16_to_e4m3_avx2 (const WeftBlockRun *run, const void *elements, gsize n_elements,
                                      guint8 *codes);
#endif
