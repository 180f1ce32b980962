/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that fills buffers of the caller: an engine's weights, in their final place. */
#pragma once

#include "checkpoint/weft-arena-layout.h"
#include "checkpoint/weft-arena.h"
#include "checkpoint/weft-sink.h"

G_BEGIN_DECLS

#define WEFT_TYPE_BUFFER_SINK (weft_buffer_sink_get_type ())

/**
 * WeftBufferSink:
 *
 * Writes each output into the buffer that the caller gave for its name. There must be a buffer for every output and an
 * output for every buffer.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftBufferSink, weft_buffer_sink, WEFT, BUFFER_SINK, GObject)

WEFT_PUBLIC WeftBufferSink *weft_buffer_sink_new (void);
WEFT_PUBLIC gboolean weft_buffer_sink_add (WeftBufferSink *self, const gchar *name, gpointer buffer,
                                           guint64 n_bytes, GError **error);
WEFT_PUBLIC gboolean weft_buffer_sink_add_arena (WeftBufferSink *self, WeftArena *arena,
                                                 WeftArenaLayout *layout, GError **error);

G_END_DECLS
