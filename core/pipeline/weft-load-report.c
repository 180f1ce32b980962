/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/weft-load-report.h"

#include "base/weft-text.h"

#define N_KINDS (WEFT_FINDING_NOTE + 1)

typedef struct
{
  gchar *name;
  gchar *detail;
} Finding;

struct _WeftLoadReport
{
  GObject parent_instance;

  GArray *findings[N_KINDS];
  gboolean is_sorted[N_KINDS];
};

G_DEFINE_FINAL_TYPE (WeftLoadReport, weft_load_report, G_TYPE_OBJECT)

static void
finding_clear (gpointer user_data)
{
  Finding *finding = user_data;

  g_free (finding->name);
  g_free (finding->detail);
}

static void
weft_load_report_finalize (GObject *object)
{
  WeftLoadReport *self = WEFT_LOAD_REPORT (object);

  for (guint i = 0; i < N_KINDS; i++)
    g_array_unref (self->findings[i]);
  G_OBJECT_CLASS (weft_load_report_parent_class)->finalize (object);
}

static void
weft_load_report_class_init (WeftLoadReportClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_load_report_finalize;
}

static void
weft_load_report_init (WeftLoadReport *self)
{
  for (guint i = 0; i < N_KINDS; i++)
    {
      self->findings[i] = g_array_new (FALSE, FALSE, sizeof (Finding));
      g_array_set_clear_func (self->findings[i], finding_clear);
    }
}

/**
 * weft_load_report_new:
 *
 * Returns: (transfer full): an empty report
 * Since: 1.0
 */
WeftLoadReport *
weft_load_report_new (void)
{
  return g_object_new (WEFT_TYPE_LOAD_REPORT, NULL);
}

/**
 * weft_load_report_add:
 * @self: a report
 * @kind: a kind of finding
 * @name: the tensor, or what a note is about
 * @detail: (nullable): a sentence
 *
 * Since: 1.0
 */
void
weft_load_report_add (WeftLoadReport *self, WeftFinding kind, const gchar *name, const gchar *detail)
{
  Finding finding = { g_strdup (name), g_strdup (detail) };

  g_array_append_val (self->findings[kind], finding);
  self->is_sorted[kind] = FALSE;
}

static gint
compare_findings (gconstpointer a, gconstpointer b)
{
  return weft_text_compare_natural (((const Finding *) a)->name, ((const Finding *) b)->name);
}

/* Findings of a kind in the order of their names. */
static GArray *
get_findings (WeftLoadReport *self, guint kind)
{
  if (!self->is_sorted[kind])
    g_array_sort (self->findings[kind], compare_findings);
  self->is_sorted[kind] = TRUE;
  return self->findings[kind];
}

/**
 * weft_load_report_count:
 * @self: a report
 * @kind: a kind of finding
 *
 * Returns: how many there are
 * Since: 1.0
 */
guint
weft_load_report_count (WeftLoadReport *self, WeftFinding kind)
{
  return self->findings[kind]->len;
}

/**
 * weft_load_report_get_name:
 * @self: a report
 * @kind: a kind of finding
 * @position: which of them
 *
 * Returns: (transfer none) (nullable): the tensor it is about
 * Since: 1.0
 */
const gchar *
weft_load_report_get_name (WeftLoadReport *self, WeftFinding kind, guint position)
{
  return position < self->findings[kind]->len
             ? g_array_index (get_findings (self, kind), Finding, position).name
             : NULL;
}

/**
 * weft_load_report_get_detail:
 * @self: a report
 * @kind: a kind of finding
 * @position: which of them
 *
 * Returns: (transfer none) (nullable): the sentence about it
 * Since: 1.0
 */
const gchar *
weft_load_report_get_detail (WeftLoadReport *self, WeftFinding kind, guint position)
{
  return position < self->findings[kind]->len
             ? g_array_index (get_findings (self, kind), Finding, position).detail
             : NULL;
}

/**
 * weft_load_report_get_kind_name:
 * @kind: a kind of finding
 *
 * Returns: its name in JSON, such as `missing`
 * Since: 1.0
 */
const gchar *
weft_load_report_get_kind_name (WeftFinding kind)
{
  static const gchar *const names[N_KINDS] = { "missing",           "unexpected",     "mismatched",
                                               "conversion_errors", "not_reversible", "notes" };

  return names[kind];
}

/**
 * weft_load_report_to_json:
 * @self: a report
 *
 * Returns: (transfer full): an object with an array for each kind of finding, of objects with `name` and `detail`
 * Since: 1.0
 */
JsonNode *
weft_load_report_to_json (WeftLoadReport *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      json_builder_set_member_name (builder, weft_load_report_get_kind_name (kind));
      json_builder_begin_array (builder);
      for (guint i = 0; i < self->findings[kind]->len; i++)
        {
          const Finding *finding = &g_array_index (get_findings (self, kind), Finding, i);

          json_builder_begin_object (builder);
          json_builder_set_member_name (builder, "name");
          json_builder_add_string_value (builder, finding->name);
          if (finding->detail != NULL)
            {
              json_builder_set_member_name (builder, "detail");
              json_builder_add_string_value (builder, finding->detail);
            }
          json_builder_end_object (builder);
        }
      json_builder_end_array (builder);
    }
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

/**
 * weft_load_report_to_text:
 * @self: a report
 * @n_lines: how many findings of each kind are shown before the rest is counted
 *
 * Returns: (transfer full): the report for a person; empty if there is nothing to report
 * Since: 1.0
 */
gchar *
weft_load_report_to_text (WeftLoadReport *self, guint n_lines)
{
  static const gchar *const titles[N_KINDS] = { "MISSING",    "UNEXPECTED",     "MISMATCH",
                                                "CONVERSION", "NOT REVERSIBLE", "note" };
  GString *text = g_string_new (NULL);

  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      for (guint i = 0; i < MIN (n_lines, self->findings[kind]->len); i++)
        {
          const Finding *finding = &g_array_index (get_findings (self, kind), Finding, i);

          g_string_append_printf (text, "%-14s  %s%s%s\n", titles[kind], finding->name,
                                  finding->detail != NULL ? ": " : "",
                                  finding->detail != NULL ? finding->detail : "");
        }
      if (self->findings[kind]->len > n_lines)
        g_string_append_printf (text, "%-14s  ... and %u more\n", titles[kind],
                                self->findings[kind]->len - n_lines);
    }
  return g_string_free (text, FALSE);
}
