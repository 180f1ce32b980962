/* SPDX-License-Identifier: Apache-2.0 */
/* Names whose absence, or presence, a model calls no fault: regular expressions that are searched in them. */
#pragma once

#include "base/weft-error.h"

/* @patterns: nullable. @where: what messages call the list. */
GPtrArray *weft_ignore_list_new (const gchar *const *patterns, const gchar *where, GError **error);
gboolean weft_ignore_list_has (GPtrArray *list, const gchar *name);
