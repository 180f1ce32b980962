/* SPDX-License-Identifier: Apache-2.0 */
/* A sink that keeps each output in memory of its own. */
#pragma once

#include "checkpoint/weft-sink.h"

G_BEGIN_DECLS

#define WEFT_TYPE_MEMORY_SINK (weft_memory_sink_get_type ())

/**
 * WeftMemorySink:
 *
 * Holds the bytes of each output, row-major and little-endian.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftMemorySink, weft_memory_sink, WEFT, MEMORY_SINK, GObject)

WEFT_PUBLIC WeftMemorySink *weft_memory_sink_new (void);
WEFT_PUBLIC GBytes *weft_memory_sink_lookup (WeftMemorySink *self, const gchar *name);

G_END_DECLS
