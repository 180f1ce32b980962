/* SPDX-License-Identifier: Apache-2.0 */
/* The entry point of the command `weft`, callable from C and through introspection. */
#pragma once

#include "base/weft-macros.h"

G_BEGIN_DECLS

WEFT_PUBLIC gint weft_command_run (const gchar *const *arguments);

G_END_DECLS
