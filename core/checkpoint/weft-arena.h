/* SPDX-License-Identifier: Apache-2.0 */
/* One stretch of memory that many tensors are loaded into. */
#pragma once

#include <gio/gio.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_ARENA (weft_arena_get_type ())

/**
 * WeftArena:
 *
 * Memory of the caller (pinned, shared, of a device that maps it), or memory that Weft maps for scripts and short programs.
 * What is loaded into it stays there; nothing of it is given back before the arena and all bytes taken out of it are gone.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftArena, weft_arena, WEFT, ARENA, GObject)

WEFT_PUBLIC WeftArena *weft_arena_new (guint64 n_bytes, GError **error);
WEFT_PUBLIC WeftArena *weft_arena_new_shared (const gchar *path, guint64 n_bytes, GError **error);
WEFT_PUBLIC WeftArena *weft_arena_new_for_memory (gpointer memory, guint64 n_bytes);

WEFT_PUBLIC gpointer weft_arena_get_memory (WeftArena *self);
WEFT_PUBLIC guint64 weft_arena_get_n_bytes (WeftArena *self);
WEFT_PUBLIC GBytes *weft_arena_get_bytes (WeftArena *self, guint64 offset, guint64 n_bytes, GError **error);

G_END_DECLS
