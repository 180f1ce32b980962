/* SPDX-License-Identifier: Apache-2.0 */
/* Loading as one call: a checkpoint as the runtime wants it, in memory of the caller. */
#pragma once

#include "checkpoint/weft-arena-layout.h"
#include "checkpoint/weft-arena.h"
#include "pipeline/weft-load-plan.h"

G_BEGIN_DECLS

#define WEFT_TYPE_LOADER (weft_loader_get_type ())

/**
 * WeftLoader:
 *
 * Opens a checkpoint, plans what the runtime gets out of it, says how much memory that takes and where each tensor lies in
 * it, and fills it. Settings are made before weft_loader_prepare(), callbacks are called on the thread that loads.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftLoader, weft_loader, WEFT, LOADER, GObject)

/**
 * WeftLoadedFunc:
 * @loader: who loads
 * @name: the name of a tensor whose bytes are all there
 * @offset: where they begin in the arena
 * @n_bytes: how many
 * @user_data: data of the caller
 * @error: return location
 *
 * Called once for each tensor, as they are completed, which is in no certain order. If it fails, the load stops with its error,
 * and it is not called again.
 *
 * Returns: whether the load is to go on
 * Errors: its own; they become those of the load
 * Since: 1.0
 */
typedef gboolean (*WeftLoadedFunc) (WeftLoader *loader, const gchar *name, guint64 offset, guint64 n_bytes,
                                    gpointer user_data, GError **error);

WEFT_PUBLIC WeftLoader *weft_loader_new (const gchar *path, WeftLoadOptions *options);
WEFT_PUBLIC WeftLoader *weft_loader_new_for_plan (WeftLoadPlan *plan);

WEFT_PUBLIC void weft_loader_set_io_backend (WeftLoader *self, WeftIoBackend io_backend);
WEFT_PUBLIC void weft_loader_set_alignment (WeftLoader *self, guint64 alignment);
WEFT_PUBLIC void weft_loader_set_queue (WeftLoader *self, guint depth, guint64 read_bytes);
WEFT_PUBLIC void weft_loader_set_loaded_func (WeftLoader *self, WeftLoadedFunc func, gpointer user_data,
                                              GDestroyNotify destroy);
WEFT_PUBLIC void weft_loader_set_progress_func (WeftLoader *self, WeftProgressFunc func, gpointer user_data,
                                                GDestroyNotify destroy);

WEFT_PUBLIC WeftArenaLayout *weft_loader_prepare (WeftLoader *self, GCancellable *cancellable,
                                                  GError **error);
WEFT_PUBLIC gboolean weft_loader_load_into (WeftLoader *self, WeftArena *arena, GCancellable *cancellable,
                                            GError **error);
WEFT_PUBLIC WeftArena *weft_loader_load (WeftLoader *self, GCancellable *cancellable, GError **error);

WEFT_PUBLIC WeftLoadPlan *weft_loader_get_plan (WeftLoader *self);
WEFT_PUBLIC guint64 weft_loader_get_n_bytes_read (WeftLoader *self);

G_END_DECLS
