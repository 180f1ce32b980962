/* SPDX-License-Identifier: Apache-2.0 */
/* Help, man page and shell completion: all made from the entries of the sub-commands. */
#pragma once

#include "weft-command-entry.h"

/* Options that every sub-command has; they fill a #WeftCommandCommonOptions. */
typedef struct
{
  gboolean is_quiet;
  gboolean is_json;
  gboolean wants_help;
  gchar **arguments;
} WeftCommandCommonOptions;

extern const GOptionEntry weft_command_common_options[];

gchar *weft_command_help_overview (void);
gchar *weft_command_help_entry (const WeftCommandEntry *entry);

/* @format is man, bash, zsh, fish or markdown; NULL for any other. */
gchar *weft_command_help_format (const gchar *format);
