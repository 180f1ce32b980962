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
/* Takes @fd, syncs and closes it; then, if @journal_fd is not -1, appends @line to the journal. */
void weft_writeback_finish_file (WeftWriteback *self, gint fd, const gchar *path, gint journal_fd,
                                 const gchar *line);
/* Waits until all that was queued is on the disk. Nothing may be queued afterwards. */
gboolean weft_writeback_wait (WeftWriteback *self, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftWriteback, weft_writeback_free)

G_END_DECLS
