/* SPDX-License-Identifier: Apache-2.0 */
/* Access to file mappings that may shrink, or whose disk may fill, under our hands: SIGBUS becomes a result. */
#pragma once

#include <glib.h>

/* Runs @func; FALSE if it touched a page of a mapping that is not there. @func holds no lock and allocates nothing. */
typedef void (*WeftGuardFunc) (gpointer user_data);

gboolean weft_guard_run (WeftGuardFunc func, gpointer user_data);
gboolean weft_guard_copy (gpointer destination, gconstpointer source, gsize n_bytes);
