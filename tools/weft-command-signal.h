/* SPDX-License-Identifier: Apache-2.0 */
/* SIGINT and SIGTERM cancel the running sub-command, so that it can leave things tidy; a second one ends at once. */
#pragma once

#include <gio/gio.h>

typedef struct _WeftCommandSignal WeftCommandSignal;

WeftCommandSignal *weft_command_signal_new (GCancellable *cancellable);

/* The signal that arrived, or 0. */
gint weft_command_signal_get (void);
void weft_command_signal_free (WeftCommandSignal *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftCommandSignal, weft_command_signal_free)
