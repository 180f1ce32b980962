/* SPDX-License-Identifier: Apache-2.0 */
/* How the list of rules fills a renamed key. */
#pragma once

#include "transform/weft-renamed-key.h"

G_BEGIN_DECLS

WeftRenamedKey *weft_renamed_key_new (const gchar *key);
void weft_renamed_key_take_step (WeftRenamedKey *self, guint transform, gchar *pattern, gchar *name);
void weft_renamed_key_take_conversion (WeftRenamedKey *self, guint transform, gchar *pattern, gchar *name);
void weft_renamed_key_take_name (WeftRenamedKey *self, gchar *name);
void weft_renamed_key_keep (WeftRenamedKey *self, const gchar *key);

G_END_DECLS
