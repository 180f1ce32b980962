/* SPDX-License-Identifier: Apache-2.0 */
/* Several outputs that come to their place together, as folders in one. */
#pragma once

#include "checkpoint/weft-safetensors-sink.h"

G_BEGIN_DECLS

WEFT_PUBLIC WeftOutputSet *weft_output_set_new (const gchar *path, const gchar *const *members,
                                                WeftOutputFlags flags, GError **error);
WEFT_PUBLIC gboolean weft_output_set_begin (WeftOutputSet *self, GError **error);
WEFT_PUBLIC gboolean weft_output_set_publish (WeftOutputSet *self, GError **error);
WEFT_PUBLIC const gchar *weft_output_set_get_kept_path (WeftOutputSet *self);

G_END_DECLS
