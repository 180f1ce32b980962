/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/weft-json.h"
#include "base/weft-text.h"
#include "weft-command-output.h"
#include "weft-enums.h"

#define BAR_CELLS 30
#define REDRAW_MICROSECONDS 100000
#define NOTE_MICROSECONDS (10 * G_USEC_PER_SEC)

/* How many bytes a control character at @text has, 0 if there is none. Those of C1 are two in UTF-8. */
static guint
measure_control (const gchar *text)
{
  const guchar *bytes = (const guchar *) text;

  if (bytes[0] == 0xC2 && bytes[1] >= 0x80 && bytes[1] <= 0x9F)
    return 2;
  return bytes[0] < 0x20 || bytes[0] == 0x7F ? 1 : 0;
}

/* The text with its control characters, but those in @kept, as \xNN. */
static gchar *
escape_controls (const gchar *text, const gchar *kept)
{
  GString *escaped = g_string_sized_new (strlen (text));

  for (const gchar *c = text; *c != '\0'; c++)
    {
      guint n_bytes = strchr (kept, *c) == NULL ? measure_control (c) : 0;

      if (n_bytes == 0)
        g_string_append_c (escaped, *c);
      for (guint i = 0; i < n_bytes; i++)
        g_string_append_printf (escaped, "\\x%02x", (guint) (guchar) c[i]);
      c += n_bytes > 0 ? n_bytes - 1 : 0;
    }
  return g_string_free (escaped, FALSE);
}

gchar *
weft_command_escape_line (const gchar *text)
{
  return escape_controls (text, "");
}

static void G_GNUC_PRINTF (2, 0) print_escaped (FILE *stream, const gchar *format, va_list values)
{
  g_autofree gchar *text = g_strdup_vprintf (format, values);
  g_autofree gchar *escaped = escape_controls (text, "\n\t");

  fputs (escaped, stream);
}

void
weft_command_print (const gchar *format, ...)
{
  va_list values;

  va_start (values, format);
  print_escaped (stdout, format, values);
  va_end (values);
}

void
weft_command_print_json (JsonNode *node)
{
  g_autofree gchar *text = weft_json_to_text (node, TRUE);

  /* Its strings are escaped already, in the way of JSON. */
  fputs (text, stdout);
  fputc ('\n', stdout);
}

/* A result that did not reach its reader is a failure, however late it shows. */
gboolean
weft_command_flush (GError **error)
{
  gboolean is_whole;

  errno = 0;
  is_whole = fflush (stdout) == 0 && !ferror (stdout);
  if (!is_whole)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "standard output cannot be written: %s",
                 errno != 0 ? g_strerror (errno) : "an earlier write failed");
  clearerr (stdout);
  return is_whole;
}

void
weft_command_note (WeftCommandCall *call, const gchar *format, ...)
{
  va_list values;

  if (call->is_quiet)
    return;
  va_start (values, format);
  print_escaped (stderr, format, values);
  va_end (values);
  fputc ('\n', stderr);
}

static void
draw_progress (WeftCommandCall *call, guint64 n_bytes_done, guint64 n_bytes_total, gint64 now)
{
  gdouble fraction = n_bytes_total > 0 ? (gdouble) n_bytes_done / (gdouble) n_bytes_total : 1.0;
  gdouble seconds = MAX ((gdouble) (now - call->progress_started) / G_USEC_PER_SEC, 1e-3);
  guint n_full = (guint) (CLAMP (fraction, 0.0, 1.0) * BAR_CELLS);
  g_autofree gchar *total = weft_text_format_size (n_bytes_total);
  g_autofree gchar *speed = weft_text_format_size ((guint64) ((gdouble) n_bytes_done / seconds));
  gchar bar[BAR_CELLS + 1];

  memset (bar, ' ', BAR_CELLS);
  memset (bar, '#', n_full);
  bar[BAR_CELLS] = '\0';
  fprintf (stderr, "\r[%s] %3.0f%% of %s, %s/s\033[K", bar, fraction * 100.0, total, speed);
  fflush (stderr);
}

/* Where mpirun passes on what ranks print there is no terminal: then a line now and then. */
static void
note_progress (WeftCommandCall *call, guint64 n_bytes_done, guint64 n_bytes_total, gint64 now)
{
  g_autofree gchar *total = weft_text_format_size (n_bytes_total);

  if (now - MAX (call->progress_started, call->progress_noted) < NOTE_MICROSECONDS || n_bytes_total == 0)
    return;
  call->progress_noted = now;
  weft_command_note (call, "%.0f%% of %s", 100.0 * (gdouble) n_bytes_done / (gdouble) n_bytes_total, total);
}

void
weft_command_progress (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data)
{
  WeftCommandCall *call = user_data;
  gboolean is_terminal = isatty (STDERR_FILENO) == 1;
  gint64 now = g_get_monotonic_time ();

  /* What this process does alone stops too when another of its job has failed. */
  if (call->job != NULL && !weft_job_poll (call->job, NULL))
    g_cancellable_cancel (call->cancellable);
  if (call->is_quiet || (!is_terminal && call->job == NULL))
    return;
  if (call->progress_started == 0)
    call->progress_started = now;
  if (!is_terminal)
    {
      note_progress (call, n_bytes_done, n_bytes_total, now);
      return;
    }
  if (now - call->progress_drawn < REDRAW_MICROSECONDS && n_bytes_done < n_bytes_total)
    return;
  call->progress_drawn = now;
  draw_progress (call, n_bytes_done, n_bytes_total, now);
}

/* Wipes the bar, so that what follows starts on a clean line. */
void
weft_command_progress_end (WeftCommandCall *call)
{
  if (call->progress_drawn != 0)
    fprintf (stderr, "\r\033[K");
  call->progress_started = 0;
  call->progress_drawn = 0;
}

static const gchar *
error_code_nick (const GError *error)
{
  g_autoptr (GEnumClass) codes = NULL;
  GEnumValue *code;

  if (error->domain == G_OPTION_ERROR)
    return "usage";
  if (error->domain != WEFT_ERROR)
    return "failed";
  codes = g_type_class_ref (WEFT_TYPE_ERROR);
  code = g_enum_get_value (codes, error->code);
  return code != NULL ? code->value_nick : "failed";
}

static void
print_error_as_json (const GError *error)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();
  g_autoptr (JsonNode) root = NULL;

  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "error");
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "code");
  json_builder_add_string_value (builder, error_code_nick (error));
  json_builder_set_member_name (builder, "message");
  json_builder_add_string_value (builder, error->message);
  json_builder_end_object (builder);
  json_builder_end_object (builder);
  root = json_builder_get_root (builder);
  weft_command_print_json (root);
}

void
weft_command_print_error (WeftCommandCall *call, const GError *error)
{
  g_autofree gchar *message = escape_controls (error->message, "\n\t");

  weft_command_progress_end (call);
  fflush (stdout);
  fprintf (stderr, "weft %s: %s\n", call->entry->name, message);
  if (error->domain == G_OPTION_ERROR)
    fprintf (stderr, "Try: weft %s --help\n", call->entry->name);
  if (call->is_json && !call->has_result)
    print_error_as_json (error);
}
