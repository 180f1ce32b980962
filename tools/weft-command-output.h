/* SPDX-License-Identifier: Apache-2.0 */
/* What a sub-command prints: results on standard output, everything else on standard error. */
#pragma once

#include <json-glib/json-glib.h>

#include "weft-command-entry.h"

/* Standard output, for results only. Text is UTF-8. Names come from files that others wrote: control characters but
 * newline and tab are printed as \xNN, here and on standard error, so that none drives a terminal. */
void weft_command_print (const gchar *format, ...) G_GNUC_PRINTF (1, 2);

/* The text with all its control characters as \xNN, for a place where it is one line. */
gchar *weft_command_escape_line (const gchar *text);

void weft_command_print_json (JsonNode *node);
gboolean weft_command_flush (GError **error);

/* Standard error, unless the call is quiet. */
void weft_command_note (WeftCommandCall *call, const gchar *format, ...) G_GNUC_PRINTF (2, 3);

/* A #WeftProgressFunc whose user data is the call: a bar where standard error is a terminal, else nothing. */
void weft_command_progress (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data);
void weft_command_progress_end (WeftCommandCall *call);

/* Prints an error as `weft COMMAND: sentence`, and as JSON on standard output if the call speaks JSON. */
void weft_command_print_error (WeftCommandCall *call, const GError *error);
