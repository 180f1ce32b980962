/* SPDX-License-Identifier: Apache-2.0 */
/* Names that a mistyped one may stand for. */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The three nearest of @names, as `'a', 'b', 'c'`; nearest first. */
gchar *weft_near_names (const gchar *name, const gchar *const *names);

G_END_DECLS
