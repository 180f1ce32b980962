/* SPDX-License-Identifier: Apache-2.0 */
/* Where each output lies in an arena: the table that an engine asks for before it allocates. */
#pragma once

#include "tensor/weft-state-dict.h"

G_BEGIN_DECLS

#define WEFT_TYPE_ARENA_LAYOUT (weft_arena_layout_get_type ())

/**
 * WeftArenaLayout:
 *
 * The outputs one after the other, in their order, each at an aligned offset. Known from headers alone.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftArenaLayout, weft_arena_layout, WEFT, ARENA_LAYOUT, GObject)

WEFT_PUBLIC WeftArenaLayout *weft_arena_layout_new (WeftStateDict *outputs, guint64 alignment,
                                                    GError **error);

WEFT_PUBLIC guint64 weft_arena_layout_get_n_bytes (WeftArenaLayout *self);
WEFT_PUBLIC guint64 weft_arena_layout_get_alignment (WeftArenaLayout *self);
WEFT_PUBLIC WeftStateDict *weft_arena_layout_get_outputs (WeftArenaLayout *self);
WEFT_PUBLIC guint64 weft_arena_layout_get_offset (WeftArenaLayout *self, guint position);

G_END_DECLS
