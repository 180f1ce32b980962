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

  gchar *title;
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

  g_free (self->title);
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
  static const gchar *const names[N_KINDS] = {
    "missing", "unexpected",   "mismatched", "conversion_errors", "not_reversible", "ignored",
    "tied",    "unused_rules", "notes"
  };

  return names[kind];
}

/**
 * weft_load_report_set_title:
 * @self: a report
 * @title: what stands above it, such as the class of the model and the path of the checkpoint
 *
 * Since: 1.0
 */
void
weft_load_report_set_title (WeftLoadReport *self, const gchar *title)
{
  g_free (self->title);
  self->title = g_strdup (title);
}

/**
 * weft_load_report_get_title:
 * @self: a report
 *
 * Returns: (transfer none) (nullable): what stands above it
 * Since: 1.0
 */
const gchar *
weft_load_report_get_title (WeftLoadReport *self)
{
  return self->title;
}

/**
 * weft_load_report_merge:
 * @self: a report
 * @kind: a kind of finding
 *
 * Returns: (transfer container) (element-type WeftReportRow): its findings, those whose names differ by numbers alone as one row
 * Since: 1.0
 */
GPtrArray *
weft_load_report_merge (WeftLoadReport *self, WeftFinding kind)
{
  GArray *findings = get_findings (self, kind);
  g_autofree const gchar **names = g_new0 (const gchar *, findings->len + 1);
  g_autofree const gchar **details = g_new0 (const gchar *, findings->len + 1);

  for (guint i = 0; i < findings->len; i++)
    {
      const Finding *finding = &g_array_index (findings, Finding, i);

      names[i] = finding->name;
      details[i] = finding->detail != NULL ? finding->detail : "";
    }
  return weft_report_rows_new (names, details);
}

static void
add_finding (JsonBuilder *builder, const gchar *name, const gchar *detail)
{
  json_builder_begin_object (builder);
  json_builder_set_member_name (builder, "name");
  json_builder_add_string_value (builder, name);
  if (detail != NULL)
    {
      json_builder_set_member_name (builder, "detail");
      json_builder_add_string_value (builder, detail);
    }
  json_builder_end_object (builder);
}

static void
add_rows (JsonBuilder *builder, WeftLoadReport *self, WeftFinding kind)
{
  g_autoptr (GPtrArray) rows = weft_load_report_merge (self, kind);

  for (guint i = 0; i < rows->len; i++)
    {
      const WeftReportRow *row = rows->pdata[i];

      json_builder_begin_object (builder);
      json_builder_set_member_name (builder, "pattern");
      json_builder_add_string_value (builder, row->pattern);
      json_builder_set_member_name (builder, "status");
      json_builder_add_string_value (builder, weft_load_report_get_kind_name (kind));
      json_builder_set_member_name (builder, "count");
      json_builder_add_int_value (builder, row->n_names);
      json_builder_end_object (builder);
    }
}

/* What is about tensors, in the order of the table. */
static const WeftFinding table_kinds[] = { WEFT_FINDING_UNEXPECTED,     WEFT_FINDING_MISSING,
                                           WEFT_FINDING_MISMATCHED,     WEFT_FINDING_FAILED,
                                           WEFT_FINDING_NOT_REVERSIBLE, WEFT_FINDING_IGNORED,
                                           WEFT_FINDING_TIED,           WEFT_FINDING_UNUSED };

/**
 * weft_load_report_to_json:
 * @self: a report
 *
 * Returns: (transfer full): an object with an array for each kind of finding, of objects with `name` and `detail`; and `table`, an
 *   array of objects with `pattern`, `status` (the name of the kind) and `count`, in which names that differ by numbers alone
 *   are one
 * Since: 1.0
 */
JsonNode *
weft_load_report_to_json (WeftLoadReport *self)
{
  g_autoptr (JsonBuilder) builder = json_builder_new ();

  json_builder_begin_object (builder);
  for (guint kind = 0; kind < N_KINDS; kind++)
    {
      GArray *findings = get_findings (self, kind);

      json_builder_set_member_name (builder, weft_load_report_get_kind_name (kind));
      json_builder_begin_array (builder);
      for (guint i = 0; i < findings->len; i++)
        add_finding (builder, g_array_index (findings, Finding, i).name,
                     g_array_index (findings, Finding, i).detail);
      json_builder_end_array (builder);
    }
  json_builder_set_member_name (builder, "table");
  json_builder_begin_array (builder);
  for (guint i = 0; i < G_N_ELEMENTS (table_kinds); i++)
    add_rows (builder, self, table_kinds[i]);
  json_builder_end_array (builder);
  json_builder_end_object (builder);
  return json_builder_get_root (builder);
}

/* The rows of one kind, up to @n_lines of them. */
static void
append_rows (GString *text, WeftLoadReport *self, WeftFinding kind, guint n_lines)
{
  static const gchar *const statuses[] = { "MISSING",        "UNEXPECTED", "MISMATCH", "CONVERSION",
                                           "NOT REVERSIBLE", "ignored",    "tied",     "unused" };
  g_autoptr (GPtrArray) rows = weft_load_report_merge (self, kind);

  for (guint i = 0; i < MIN (n_lines, rows->len); i++)
    {
      const WeftReportRow *row = rows->pdata[i];

      g_string_append_printf (text, "%-14s  %s", statuses[kind], row->pattern);
      if (row->n_names > 1)
        g_string_append_printf (text, " (%u)", row->n_names);
      g_string_append_printf (text, "%s%s\n", row->detail != NULL ? ": " : "",
                              row->detail != NULL ? row->detail : "");
    }
  if (rows->len > n_lines)
    g_string_append_printf (text, "%-14s  ... and %u more\n", statuses[kind], rows->len - n_lines);
}

static void
append_notes (GString *text, WeftLoadReport *self, guint n_lines)
{
  GArray *notes = get_findings (self, WEFT_FINDING_NOTE);

  for (guint i = 0; i < MIN (n_lines, notes->len); i++)
    {
      const Finding *note = &g_array_index (notes, Finding, i);

      g_string_append_printf (text, "%-14s  %s: %s\n", "note", note->name,
                              note->detail != NULL ? note->detail : "");
    }
  if (notes->len > n_lines)
    g_string_append_printf (text, "%-14s  ... and %u more\n", "note", notes->len - n_lines);
}

/**
 * weft_load_report_to_text:
 * @self: a report
 * @n_lines: how many rows of each kind are shown before the rest is counted
 * @with_harmless: whether what is no fault is shown too: ignored and tied tensors, rules without a use
 *
 * Returns: (transfer full): the report for a person: a row for tensors whose names differ by numbers alone, and the notes; empty if
 *   there is nothing to report
 * Since: 1.0
 */
gchar *
weft_load_report_to_text (WeftLoadReport *self, guint n_lines, gboolean with_harmless)
{
  g_autoptr (GString) text = g_string_new (NULL);

  for (guint i = 0; i < G_N_ELEMENTS (table_kinds); i++)
    if (with_harmless || table_kinds[i] <= WEFT_FINDING_NOT_REVERSIBLE)
      append_rows (text, self, table_kinds[i], n_lines);
  if (text->len > 0 && self->title != NULL)
    {
      g_string_prepend_c (text, '\n');
      g_string_prepend (text, self->title);
    }
  append_notes (text, self, n_lines);
  return g_string_free (g_steal_pointer (&text), FALSE);
}
