/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of the command: what a sub-command declares, and what it is given when it runs. tools/README.md shows how
 * to write one. */
#pragma once

#include <gio/gio.h>

#include "base/weft-error.h"
#include "checkpoint/weft-job.h"

/* Exit codes, the same for every sub-command. */
enum
{
  WEFT_COMMAND_DONE = 0,
  WEFT_COMMAND_FAILED = 1,
  WEFT_COMMAND_USAGE = 2,
  WEFT_COMMAND_DIFFERS = 3,
  WEFT_COMMAND_SIGNAL_BASE = 128,
};

typedef struct _WeftCommandCall WeftCommandCall;

/* A line that a user can copy, and what it does. */
typedef struct
{
  const gchar *task;
  const gchar *line;
} WeftCommandExample;

/* A sub-command: one constant in one file. Help, man page, completion and parsing are all made from it. */
typedef struct
{
  const gchar *name;
  const gchar *arguments;             /* what follows the name in the usage line, without the options */
  const gchar *summary;               /* one line, a verb first, no full stop */
  const gchar *description;           /* paragraphs, separated by an empty line */
  const gchar *differs;               /* when the exit code is WEFT_COMMAND_DIFFERS; NULL for never */
  guint min_arguments, max_arguments; /* how many positional arguments are right */
  const GOptionEntry *options;        /* arg_data is WEFT_COMMAND_OPTION (type, member) */
  gsize options_size;                 /* size of the structure that the options fill */
  const WeftCommandExample *examples; /* ends with an entry of NULLs */
  gint (*run) (WeftCommandCall *call, GError **error);
} WeftCommandEntry;

/* Where an option is stored: a member of the sub-command's own structure, which starts zeroed and whose strings the
 * frame frees. No option lives in a static variable, so a process may run commands one after the other. */
#define WEFT_COMMAND_OPTION(type, member) ((gpointer) (gsize) G_STRUCT_OFFSET (type, member))

/* One run of a sub-command. A run function gives back an exit code, or sets an error: the frame prints it and picks
 * the code (usage, cancelled or failed). */
struct _WeftCommandCall
{
  const WeftCommandEntry *entry;
  gpointer options;  /* the filled structure */
  gchar **arguments; /* the positional arguments, in file name encoding */
  guint n_arguments;
  gboolean is_quiet; /* print neither progress nor summaries */
  gboolean is_json;  /* standard output is one JSON value */
  GCancellable *cancellable;
  WeftJob *job; /* the processes that run this call together; NULL: this one alone */

  /*< private >*/
  gint64 progress_started; /* monotonic time in microseconds; 0 before the first byte */
  gint64 progress_drawn;
  gint64 progress_noted;
  gboolean has_result; /* a JSON value was printed: an error does not add another */
};

/* Every sub-command, in the order of the overview. */
extern const WeftCommandEntry *const weft_command_entries[];

const WeftCommandEntry *weft_command_entry_find (const gchar *name);

/* What the user did wrong: printed with a hint at the sub-command's help, exit code 2. */
void weft_command_set_usage_error (GError **error, const gchar *format, ...) G_GNUC_PRINTF (2, 3);
