/* SPDX-License-Identifier: Apache-2.0 */
/* The command `weft`: finds the sub-command, parses its options, runs it, prints its error. */
#include <stdio.h>
#include <string.h>

#include "weft-command-help.h"
#include "weft-command-job.h"
#include "weft-command-output.h"
#include "weft-command-signal.h"
#include "weft-command.h"

const WeftCommandEntry *
weft_command_entry_find (const gchar *name)
{
  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    if (g_strcmp0 (weft_command_entries[i]->name, name) == 0)
      return weft_command_entries[i];
  return NULL;
}

void
weft_command_set_usage_error (GError **error, const gchar *format, ...)
{
  g_autofree gchar *message = NULL;
  va_list values;

  va_start (values, format);
  message = g_strdup_vprintf (format, values);
  va_end (values);
  g_set_error_literal (error, G_OPTION_ERROR, G_OPTION_ERROR_FAILED, message);
}

/* How many letters must be inserted, deleted or changed to make @b out of @a. */
static guint
edit_distance (const gchar *a, const gchar *b)
{
  gsize n = strlen (b);
  g_autofree guint *row = g_new (guint, n + 1);

  for (gsize j = 0; j <= n; j++)
    row[j] = (guint) j;
  for (gsize i = 0; a[i] != '\0'; i++)
    {
      guint diagonal = row[0];

      row[0] = (guint) i + 1;
      for (gsize j = 0; j < n; j++)
        {
          guint changed = diagonal + (a[i] != b[j] ? 1 : 0);

          diagonal = row[j + 1];
          row[j + 1] = MIN (changed, MIN (row[j], row[j + 1]) + 1);
        }
    }
  return row[n];
}

static const gchar *
nearest_command (const gchar *word)
{
  const gchar *nearest = NULL;
  guint least = 3;

  for (guint i = 0; weft_command_entries[i] != NULL; i++)
    {
      guint distance = edit_distance (word, weft_command_entries[i]->name);

      if (distance < least)
        {
          least = distance;
          nearest = weft_command_entries[i]->name;
        }
    }
  return nearest;
}

static gint
refuse_unknown_command (const gchar *word)
{
  const gchar *nearest = nearest_command (word);

  fprintf (stderr, "weft: there is no command '%s'", word);
  if (nearest != NULL)
    fprintf (stderr, "; did you mean 'weft %s'?", nearest);
  fputs ("\nTry: weft --help\n", stderr);
  return WEFT_COMMAND_USAGE;
}

/* The options of a table, pointing into @storage instead of holding offsets. */
static GOptionEntry *
place_options (const GOptionEntry *options, gpointer storage)
{
  GArray *placed = g_array_new (TRUE, TRUE, sizeof (GOptionEntry));

  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      g_array_append_val (placed, *option);
      g_array_index (placed, GOptionEntry, placed->len - 1).arg_data =
          (guint8 *) storage + GPOINTER_TO_SIZE (option->arg_data);
    }
  return (GOptionEntry *) (gpointer) g_array_free (placed, FALSE);
}

static void
clear_options (const GOptionEntry *options, gpointer storage)
{
  for (const GOptionEntry *option = options; option != NULL && option->long_name != NULL; option++)
    {
      gpointer *member = (gpointer *) (gpointer) ((guint8 *) storage + GPOINTER_TO_SIZE (option->arg_data));

      if (option->arg == G_OPTION_ARG_STRING || option->arg == G_OPTION_ARG_FILENAME)
        g_clear_pointer (member, g_free);
      else if (option->arg == G_OPTION_ARG_STRING_ARRAY || option->arg == G_OPTION_ARG_FILENAME_ARRAY)
        g_strfreev (g_steal_pointer ((GStrv *) member));
    }
}

static gboolean
parse_options (WeftCommandCall *call, const gchar *const *arguments, WeftCommandCommonOptions *common,
               GError **error)
{
  g_autoptr (GOptionContext) context = g_option_context_new (NULL);
  g_autofree GOptionEntry *own_options = place_options (call->entry->options, call->options);
  g_autofree GOptionEntry *common_options = place_options (weft_command_common_options, common);
  g_auto (GStrv) words = NULL;

  /* GOption takes the first word for the name of the program; here it is that of the sub-command. */
  words = g_strdupv ((GStrv) arguments);
  g_free (words[0]);
  words[0] = g_strdup ("weft");
  g_option_context_set_help_enabled (context, FALSE);
  g_option_context_add_main_entries (context, own_options, NULL);
  g_option_context_add_main_entries (context, common_options, NULL);
  if (!g_option_context_parse_strv (context, &words, error))
    {
      for (guint i = 1; arguments[i] != NULL; i++)
        call->is_json |= g_str_equal (arguments[i], "--json");
      return FALSE;
    }
  call->is_quiet = common->is_quiet;
  call->is_json = common->is_json;
  call->arguments = common->arguments;
  call->n_arguments = common->arguments != NULL ? g_strv_length (common->arguments) : 0;
  return TRUE;
}

static gboolean
check_arguments (WeftCommandCall *call, GError **error)
{
  if (call->n_arguments < call->entry->min_arguments)
    weft_command_set_usage_error (error, "an argument is missing; expected: weft %s %s", call->entry->name,
                                  call->entry->arguments);
  else if (call->n_arguments > call->entry->max_arguments)
    weft_command_set_usage_error (error, "'%s' is an argument too many; expected: weft %s %s",
                                  call->arguments[call->entry->max_arguments], call->entry->name,
                                  call->entry->arguments);
  else
    return TRUE;
  return FALSE;
}

static gint
exit_code_of_error (const GError *error)
{
  gint signal_number = weft_command_signal_get ();
  gboolean is_cancelled = g_error_matches (error, WEFT_ERROR, WEFT_ERROR_CANCELLED)
                          || g_error_matches (error, G_IO_ERROR, G_IO_ERROR_CANCELLED);

  if (error->domain == G_OPTION_ERROR)
    return WEFT_COMMAND_USAGE;
  if (is_cancelled && signal_number != 0)
    return WEFT_COMMAND_SIGNAL_BASE + signal_number;
  return WEFT_COMMAND_FAILED;
}

static gint
run_call (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftCommandSignal) signals = NULL;
  gint code;

  if (!check_arguments (call, error))
    return WEFT_COMMAND_USAGE;
  signals = weft_command_signal_new (call->cancellable);
  code = call->entry->run (call, error);
  weft_command_progress_end (call);
  if (*error == NULL)
    weft_command_flush (error);
  if (call->job != NULL)
    code = weft_command_end_job (call, code, error);
  return *error != NULL ? exit_code_of_error (*error) : code;
}

static gint
run_entry (const WeftCommandEntry *entry, const gchar *const *arguments)
{
  g_autofree gpointer options = g_malloc0 (MAX (entry->options_size, 1));
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;
  WeftCommandCall call = { .entry = entry, .options = options, .cancellable = cancellable };
  WeftCommandCommonOptions common = { FALSE };
  gint code = WEFT_COMMAND_USAGE;

  if (!parse_options (&call, arguments, &common, &error))
    code = exit_code_of_error (error);
  else if (common.wants_help)
    {
      g_autofree gchar *help = weft_command_help_entry (entry);

      weft_command_print ("%s", help);
      code = weft_command_flush (&error) ? WEFT_COMMAND_DONE : WEFT_COMMAND_FAILED;
    }
  else
    code = run_call (&call, &error);
  if (error != NULL && weft_command_speaks (&call))
    weft_command_print_error (&call, error);
  fflush (stdout);
  g_clear_object (&call.job);
  clear_options (entry->options, options);
  clear_options (weft_command_common_options, &common);
  return code;
}

/* `weft help`, `weft help COMMAND`, and `weft help --format=man` for the build. */
static gint
run_help (const gchar *word)
{
  const WeftCommandEntry *entry = word != NULL ? weft_command_entry_find (word) : NULL;
  g_autofree gchar *text = NULL;

  if (word == NULL)
    text = weft_command_help_overview ();
  else if (g_str_has_prefix (word, "--format="))
    text = weft_command_help_format (word + strlen ("--format="));
  else if (entry != NULL)
    text = weft_command_help_entry (entry);
  if (text == NULL)
    return refuse_unknown_command (word);
  weft_command_print ("%s", text);
  return fflush (stdout) == 0 ? WEFT_COMMAND_DONE : WEFT_COMMAND_FAILED;
}

/**
 * weft_command_run:
 * @arguments: (array zero-terminated=1): the words that would follow `weft` on a command line
 *
 * Runs the command `weft` in this process. Results go to standard output, messages to standard error. While it runs,
 * SIGINT and SIGTERM cancel it; afterwards they act as before. Plugin classes that the process has registered can be
 * used by it, which is how a class written in Python or JavaScript takes part. One call at a time.
 *
 * Returns: the exit code: 0 done, 1 failed or refused, 2 the command line is wrong, 3 there is a difference,
 *   128 + n ended by signal n
 * Since: 1.0
 */
gint
weft_command_run (const gchar *const *arguments)
{
  const gchar *word = arguments != NULL ? arguments[0] : NULL;
  const WeftCommandEntry *entry;

  if (word == NULL)
    {
      g_autofree gchar *overview = weft_command_help_overview ();

      fputs (overview, stderr);
      return WEFT_COMMAND_USAGE;
    }
  if (g_str_equal (word, "--version"))
    {
      weft_command_print ("weft %s\n", WEFT_VERSION);
      return fflush (stdout) == 0 ? WEFT_COMMAND_DONE : WEFT_COMMAND_FAILED;
    }
  if (g_str_equal (word, "--help") || g_str_equal (word, "-h") || g_str_equal (word, "help"))
    return run_help (arguments[1]);
  entry = weft_command_entry_find (word);
  return entry != NULL ? run_entry (entry, arguments) : refuse_unknown_command (word);
}
