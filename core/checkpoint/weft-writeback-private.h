/* SPDX-License-Identifier: Apache-2.0 */
/* Brings written files to the disk on a thread of its own, while the next file is being written. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

typedef struct _WeftWriteback WeftWriteback;

WeftWriteback *weft_writeback_new (void);
/* Waits as well. */
void weft_writeback_free (WeftWriteback *self);

/* Starts to write what is dirty in @fd, which must stay open until weft_writeback_finish_file(). */
void weft_writeback_start (WeftWriteback *self, gint fd);
/* Takes @fd, syncs and closes it. @durable, if not NULL, is called on the thread when the file is on the disk. */
typedef void (*WeftDurableFunc) (gpointer user_data);
void weft_writeback_finish_file (WeftWriteback *self, gint fd, const gchar *path, WeftDurableFunc durable,
                                 gpointer user_data);
/* Appends @line to the journal when all that was queued before is on the disk. */
void weft_writeback_note (WeftWriteback *self, gint journal_fd, const gchar *path, const gchar *line);
gboolean weft_writeback_is_idle (WeftWriteback *self);
/* Waits until all that was queued is on the disk. Nothing may be queued afterwards. */
gboolean weft_writeback_wait (WeftWriteback *self, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftWriteback, weft_writeback_free)

G_END_DECLS
