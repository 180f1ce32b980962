/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-errors.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>

#include "base/weft-json.h"

/* Extents of the plot, in SVG units: a bar a tensor. */
#define BAR_HEIGHT 14
#define BAR_GAP 4
#define NAME_WIDTH 420
#define PLOT_WIDTH 480
#define MARGIN 24
/* The longest bar, if no error is larger. */
#define LEAST_SCALE_DB 20.0
#define NOT_FINITE "not finite"

typedef struct
{
  const gchar *name;
  gdouble max_abs;
  gdouble relative_rms;
  /* Infinite for a weight that comes back exactly, and infinitely far below 0 for one with a value that is not finite. */
  gdouble sqnr;
} Row;

static gboolean
is_finite (const Row *row)
{
  return isfinite (row->max_abs);
}

static GArray *
measure (WeftLoadPlan *plan, WeftCommandCall *call, GError **error)
{
  g_autoptr (GArray) rows = g_array_new (FALSE, FALSE, sizeof (Row));

  for (guint i = 0; i < weft_load_plan_get_n_quantized (plan); i++)
    {
      WeftPackedWeight *weight = weft_load_plan_get_quantized (plan, i);
      Row row = { .name = weft_packed_weight_get_name (weight) };

      if (!weft_quantizer_measure (weft_load_plan_get_quantizer (plan), weight, &row.max_abs,
                                   &row.relative_rms, &row.sqnr, call->cancellable, error))
        {
          g_prefix_error (error, "'%s': ", row.name);
          return NULL;
        }
      g_array_append_val (rows, row);
    }
  return g_steal_pointer (&rows);
}

/* @format is that of the number alone. */
static void
append_number (GString *text, const gchar *before, const gchar *format, gdouble number, const gchar *after)
{
  gchar digits[G_ASCII_DTOSTR_BUF_SIZE];

  g_string_append (text, before);
  g_string_append (text, g_ascii_formatd (digits, sizeof digits, format, number));
  g_string_append (text, after);
}

static gchar *
make_table (GArray *rows)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%-64s %12s %12s %10s\n", "weight", "max abs", "rel. RMS", "SQNR dB");
  for (guint i = 0; i < rows->len; i++)
    {
      const Row *row = &g_array_index (rows, Row, i);

      g_string_append_printf (text, "%-64s", row->name);
      append_number (text, " ", "%12.4g", row->max_abs, "");
      append_number (text, " ", "%12.4g", row->relative_rms, "");
      append_number (text, " ", "%10.2f", row->sqnr, is_finite (row) ? "\n" : "  " NOT_FINITE "\n");
    }
  return g_string_free (text, FALSE);
}

/* JSON has no infinity, and no NaN. */
static void
append_member (GString *json, const gchar *before, const gchar *format, gdouble number, const gchar *after)
{
  if (isfinite (number))
    append_number (json, before, format, number, after);
  else
    g_string_append_printf (json, "%snull%s", before, after);
}

static gchar *
make_json (GArray *rows)
{
  GString *text = g_string_new ("[");

  for (guint i = 0; i < rows->len; i++)
    {
      const Row *row = &g_array_index (rows, Row, i);

      g_string_append (text, i > 0 ? ",\n  {\"name\": " : "\n  {\"name\": ");
      weft_json_append_text (text, row->name, FALSE);
      append_member (text, ", \"max_abs\": ", "%.9g", row->max_abs, "");
      append_member (text, ", \"relative_rms\": ", "%.9g", row->relative_rms, "");
      append_member (text, ", \"sqnr_db\": ", "%.6g", row->sqnr, "");
      g_string_append (text, is_finite (row) ? ", \"is_finite\": true}" : ", \"is_finite\": false}");
    }
  g_string_append (text, "\n]\n");
  return g_string_free (text, FALSE);
}

static void
append_bar (GString *text, const Row *row, guint i, gdouble scale_db)
{
  guint y = MARGIN + i * (BAR_HEIGHT + BAR_GAP);
  gdouble shown = CLAMP (row->sqnr, 0, scale_db);
  g_autofree gchar *name = g_markup_escape_text (row->name, -1);

  g_string_append_printf (text, "<text x=\"%d\" y=\"%u\" text-anchor=\"end\">%s</text>\n", NAME_WIDTH - 8,
                          y + BAR_HEIGHT - 3, name);
  g_string_append_printf (text, "<rect x=\"%d\" y=\"%u\" height=\"%d\" width=\"", NAME_WIDTH, y, BAR_HEIGHT);
  append_number (text, "", "%.1f", shown / scale_db * PLOT_WIDTH, "\" fill=\"#4878a8\"/>\n");
  g_string_append_printf (text, "<text y=\"%u\" x=\"", y + BAR_HEIGHT - 3);
  append_number (text, "", "%.1f", NAME_WIDTH + shown / scale_db * PLOT_WIDTH + 6, "\">");
  if (is_finite (row))
    append_number (text, "", "%.2f", row->sqnr, "</text>\n");
  else
    g_string_append (text, NOT_FINITE "</text>\n");
}

static gchar *
make_plot (GArray *rows)
{
  GString *text = g_string_new (NULL);
  gdouble scale_db = LEAST_SCALE_DB;

  for (guint i = 0; i < rows->len; i++)
    if (isfinite (g_array_index (rows, Row, i).sqnr))
      scale_db = MAX (scale_db, g_array_index (rows, Row, i).sqnr);
  g_string_append_printf (text,
                          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
                          "font-family=\"sans-serif\" font-size=\"11\">\n"
                          "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                          "<text x=\"%d\" y=\"16\">signal to quantization noise ratio, dB</text>\n",
                          NAME_WIDTH + PLOT_WIDTH + 80, rows->len * (BAR_HEIGHT + BAR_GAP) + 2 * MARGIN,
                          NAME_WIDTH);
  for (guint i = 0; i < rows->len; i++)
    append_bar (text, &g_array_index (rows, Row, i), i, scale_db);
  g_string_append (text, "</svg>\n");
  return g_string_free (text, FALSE);
}

gboolean
weft_command_check_errors (const gchar *path, const gchar *output, GError **error)
{
  g_autofree gchar *folder = output != NULL ? g_strconcat (output, G_DIR_SEPARATOR_S, NULL) : NULL;
  gboolean is_new = !g_file_test (path, G_FILE_TEST_EXISTS);
  FILE *file;

  if (folder != NULL && g_str_has_prefix (path, folder))
    return TRUE;
  file = fopen (path, "ab");
  if (file == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: the error report cannot be written: %s", path,
                   g_strerror (errno));
      return FALSE;
    }
  fclose (file);
  if (is_new)
    (void) g_remove (path);
  return TRUE;
}

gboolean
weft_command_write_errors (WeftLoadPlan *plan, const gchar *path, WeftCommandCall *call, GError **error)
{
  g_autoptr (GArray) rows = measure (plan, call, error);
  g_autofree gchar *text = NULL;
  g_autoptr (GError) cause = NULL;

  if (rows == NULL)
    return FALSE;
  text = g_str_has_suffix (path, ".json")  ? make_json (rows)
         : g_str_has_suffix (path, ".svg") ? make_plot (rows)
                                           : make_table (rows);
  if (g_file_set_contents (path, text, -1, &cause))
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be written: %s", path, cause->message);
  return FALSE;
}
