/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the mapping of a file that may shrink under our hands: SIGBUS becomes a result. */
#pragma once

#include <glib.h>

/* Copies out of a mapping; FALSE if it touched a page that is not there. */
gboolean weft_guard_copy (gpointer destination, gconstpointer source, gsize n_bytes);
