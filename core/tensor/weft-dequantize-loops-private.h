/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops of dequantising: a run of codes of one row at a time. Private to the tensor room. */
#pragma once

#include "base/weft-dtype.h"

/* A run fits the first level cache in all its forms. */
#define WEFT_RUN_ELEMENTS 512

typedef enum
{
  WEFT_SCALING_MULTIPLY, /* (code - shift) * scale */
  WEFT_SCALING_DIVIDE,   /* code / scale */
  WEFT_SCALING_AFFINE,   /* code * scale + shift */
} WeftScaling;

/* Computes @values in place, each step rounded to F32. */
void weft_scale_run (WeftScaling scaling, gfloat *values, gsize n_values, gfloat scale, gfloat shift);
void weft_scale_run_each (WeftScaling scaling, gfloat *values, gsize n_values, const gfloat *scales,
                          const gfloat *shifts);

/* Looks up codes below 16 in a table of as many elements of 16 bits. */
void weft_lookup_run_16 (const guint8 *codes, gsize n_codes, const guint16 *table, guint16 *elements);
