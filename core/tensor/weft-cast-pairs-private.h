/* SPDX-License-Identifier: Apache-2.0 */
/* A WeftCastFunc carries no closure, so each pair of dtypes needs a function of its own: these macros make them all
 * out of one function that takes the pair as arguments. Private to the tensor room. */
#pragma once

#include "tensor/weft-cast-private.h"

/* Every dtype that is a real number. The list stands twice since a macro does not expand within itself. */
/* clang-format off */
#define WEFT_CAST_EACH_FROM(X, run)                           \
  X (run, BOOL) X (run, F4) X (run, F6_E2M3) X (run, F6_E3M2) \
  X (run, U8) X (run, I8) X (run, F8_E5M2) X (run, F8_E4M3)   \
  X (run, F8_E8M0) X (run, F8_E4M3FNUZ) X (run, F8_E5M2FNUZ)  \
  X (run, I16) X (run, U16) X (run, F16) X (run, BF16)        \
  X (run, I32) X (run, U32) X (run, F32)                      \
  X (run, F64) X (run, I64) X (run, U64)

#define WEFT_CAST_EACH_TO(X, run, from)                                               \
  X (run, from, BOOL) X (run, from, F4) X (run, from, F6_E2M3) X (run, from, F6_E3M2) \
  X (run, from, U8) X (run, from, I8) X (run, from, F8_E5M2) X (run, from, F8_E4M3)   \
  X (run, from, F8_E8M0) X (run, from, F8_E4M3FNUZ) X (run, from, F8_E5M2FNUZ)        \
  X (run, from, I16) X (run, from, U16) X (run, from, F16) X (run, from, BF16)        \
  X (run, from, I32) X (run, from, U32) X (run, from, F32)                            \
  X (run, from, F64) X (run, from, I64) X (run, from, U64)
/* clang-format on */

#define WEFT_CAST_DEFINE_PAIR(run, from, to)                                                   \
  static void run##_##from##_to_##to (const void *source, void *destination, gsize n_elements) \
  {                                                                                            \
    run (WEFT_DTYPE_##from, WEFT_DTYPE_##to, source, destination, n_elements);                 \
  }
#define WEFT_CAST_DEFINE_ROW(run, from) WEFT_CAST_EACH_TO (WEFT_CAST_DEFINE_PAIR, run, from)

#define WEFT_CAST_PAIR_CASE(run, from, to) \
  case WEFT_DTYPE_##to:                    \
    return run##_##from##_to_##to;
#define WEFT_CAST_ROW_CASE(run, from)                      \
  case WEFT_DTYPE_##from:                                  \
    switch (to)                                            \
      {                                                    \
        WEFT_CAST_EACH_TO (WEFT_CAST_PAIR_CASE, run, from) \
      default:                                             \
        return NULL;                                       \
      }

/* Defines `lookup (from, to)`, which returns functions that all call
 * `run (from, to, source, destination, n_elements)`; NULL for a dtype that is not a real number. */
#define WEFT_CAST_DEFINE_LOOKUP(lookup, run)                \
  WEFT_CAST_EACH_FROM (WEFT_CAST_DEFINE_ROW, run)           \
  static WeftCastFunc lookup (WeftDtype from, WeftDtype to) \
  {                                                         \
    switch (from)                                           \
      {                                                     \
        WEFT_CAST_EACH_FROM (WEFT_CAST_ROW_CASE, run)       \
      default:                                              \
        return NULL;                                        \
      }                                                     \
  }
