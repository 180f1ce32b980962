/* SPDX-License-Identifier: Apache-2.0 */
/* The conformance suite of plugins, on top of GTest. */
#pragma once

#include <weft.h>

G_BEGIN_DECLS

WEFT_PUBLIC void weft_check_add_op (const gchar *name);
WEFT_PUBLIC void weft_check_add_ops (const gchar *plugin_id);
WEFT_PUBLIC gint weft_check_run (const gchar *const *names);

G_END_DECLS
