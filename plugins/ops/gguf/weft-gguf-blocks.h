/* SPDX-License-Identifier: Apache-2.0 */
/* The block types of GGUF files: a row of a weight is a row of blocks, and a block is a few scales and many codes. Scales
 * are F16 and everything is little-endian. The layouts are those of ggml-common.h of the ggml project. */
#pragma once

#include "weft.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *name;
  gint64 number;                                                         /* that stands for it in files */
  gint64 n_elements;                                                     /* of a block */
  gint64 n_bytes;                                                        /* of a block */
  void (*decode) (const guint8 *block, WeftDtype dtype, gfloat *values); /* rounds to @dtype */
  void (*encode) (const gfloat *values, guint8 *block);                  /* into zeros; NULL: not known */
} WeftGgufBlockType;

/* The type that @number stands for, or is called @name; NULL if it is not known. */
const WeftGgufBlockType *weft_gguf_block_type_from_number (gint64 number);
const WeftGgufBlockType *weft_gguf_block_type_from_name (const gchar *name);

/* The values of @rows, which are U8 and whose last axis is whole blocks, in @dtype. */
WeftTensor *weft_gguf_blocks_dequantize (WeftTensor *rows, const WeftGgufBlockType *type, WeftDtype dtype,
                                         GError **error);

/* Blocks of @values, whose last axis is whole blocks of elements, as rows of U8. */
WeftTensor *weft_gguf_blocks_quantize (WeftTensor *values, const WeftGgufBlockType *type, GError **error);

G_END_DECLS
