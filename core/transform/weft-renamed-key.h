/* SPDX-License-Identifier: Apache-2.0 */
/* What a list of rules made of one key, and how. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_RENAMED_KEY (weft_renamed_key_get_type ())

/**
 * WeftRenamedKey:
 *
 * The new name of a key, the rules that made it, and the converter that it meets.
 *
 * Since: 1.0
 */
typedef struct _WeftRenamedKey WeftRenamedKey;

WEFT_PUBLIC GType weft_renamed_key_get_type (void);
WEFT_PUBLIC WeftRenamedKey *weft_renamed_key_copy (const WeftRenamedKey *self);
WEFT_PUBLIC void weft_renamed_key_free (WeftRenamedKey *self);

WEFT_PUBLIC const gchar *weft_renamed_key_get_name (const WeftRenamedKey *self);
WEFT_PUBLIC gint weft_renamed_key_get_converter (const WeftRenamedKey *self);
WEFT_PUBLIC const gchar *weft_renamed_key_get_converter_pattern (const WeftRenamedKey *self);
WEFT_PUBLIC const gchar *weft_renamed_key_get_converter_input (const WeftRenamedKey *self);
WEFT_PUBLIC guint weft_renamed_key_get_n_steps (const WeftRenamedKey *self);
WEFT_PUBLIC guint weft_renamed_key_get_step_transform (const WeftRenamedKey *self, guint step);
WEFT_PUBLIC const gchar *weft_renamed_key_get_step_pattern (const WeftRenamedKey *self, guint step);
WEFT_PUBLIC gboolean weft_renamed_key_is_kept (const WeftRenamedKey *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftRenamedKey, weft_renamed_key_free)

G_END_DECLS
