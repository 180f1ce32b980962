/* SPDX-License-Identifier: Apache-2.0 */
/* The styles of plans: names for how a layer's tensors are placed, by their axes and names. */
#pragma once

#include "model/weft-module-tree.h"
#include "parallel/weft-placement-private.h"

typedef struct _WeftParallelStyle WeftParallelStyle;

/* Heads of the attention that a tensor belongs to; 0: not known. */
typedef struct
{
  gint64 n_heads;
  gint64 n_kv_heads;
} WeftHeads;

/* A style of the table, or NULL with an error that names the nearest ones. A placement such as `shard:0` is no style. */
const WeftParallelStyle *weft_parallel_style_find (const gchar *name, GError **error);
const gchar *weft_parallel_style_get_name (const WeftParallelStyle *self);
/* Which mesh it cuts over. */
WeftParallelKind weft_parallel_style_get_kind (const WeftParallelStyle *self);
/* Whether all of its tensors have to be cut evenly: experts. */
gboolean weft_parallel_style_is_even (const WeftParallelStyle *self);
GStrv weft_parallel_style_list_names (void);

/* Where it puts a tensor. @n_ranks: how many cut it. */
WeftPlacement *weft_parallel_style_place (const WeftParallelStyle *self, const gchar *name,
                                          const WeftShape *shape, const WeftHeads *heads, guint n_ranks,
                                          GError **error);
