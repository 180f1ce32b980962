/* SPDX-License-Identifier: Apache-2.0 */
/* What did not go as the model wants: tensors missing, unexpected, of another shape, failed; and notes. */
#pragma once

#include <json-glib/json-glib.h>

#include "pipeline/weft-report-row.h"

G_BEGIN_DECLS

#define WEFT_TYPE_LOAD_REPORT (weft_load_report_get_type ())

/**
 * WeftLoadReport:
 *
 * Findings of a load plan, in the order of their names.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftLoadReport, weft_load_report, WEFT, LOAD_REPORT, GObject)

/**
 * WeftFinding:
 * @WEFT_FINDING_MISSING: the model has the tensor, the checkpoint gives none
 * @WEFT_FINDING_UNEXPECTED: the checkpoint has the tensor, the model does not
 * @WEFT_FINDING_MISMATCHED: the shapes differ
 * @WEFT_FINDING_FAILED: a conversion failed
 * @WEFT_FINDING_NOT_REVERSIBLE: a conversion has no exact inverse
 * @WEFT_FINDING_IGNORED: missing or unexpected, and the model says that this is no fault
 * @WEFT_FINDING_TIED: the model has the tensor under two names
 * @WEFT_FINDING_UNUSED: a rule of the model's mapping that no tensor met
 * @WEFT_FINDING_NOTE: something worth knowing
 *
 * Kinds of findings.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_FINDING_MISSING,
  WEFT_FINDING_UNEXPECTED,
  WEFT_FINDING_MISMATCHED,
  WEFT_FINDING_FAILED,
  WEFT_FINDING_NOT_REVERSIBLE,
  WEFT_FINDING_IGNORED,
  WEFT_FINDING_TIED,
  WEFT_FINDING_UNUSED,
  WEFT_FINDING_NOTE,
} WeftFinding;

WEFT_PUBLIC WeftLoadReport *weft_load_report_new (void);
WEFT_PUBLIC void weft_load_report_add (WeftLoadReport *self, WeftFinding kind, const gchar *name,
                                       const gchar *detail);
WEFT_PUBLIC guint weft_load_report_count (WeftLoadReport *self, WeftFinding kind);
WEFT_PUBLIC const gchar *weft_load_report_get_name (WeftLoadReport *self, WeftFinding kind, guint position);
WEFT_PUBLIC const gchar *weft_load_report_get_detail (WeftLoadReport *self, WeftFinding kind, guint position);
WEFT_PUBLIC const gchar *weft_load_report_get_kind_name (WeftFinding kind);
WEFT_PUBLIC void weft_load_report_set_title (WeftLoadReport *self, const gchar *title);
WEFT_PUBLIC const gchar *weft_load_report_get_title (WeftLoadReport *self);
WEFT_PUBLIC GPtrArray *weft_load_report_merge (WeftLoadReport *self, WeftFinding kind);
WEFT_PUBLIC JsonNode *weft_load_report_to_json (WeftLoadReport *self);
WEFT_PUBLIC gchar *weft_load_report_to_text (WeftLoadReport *self, guint n_lines, gboolean with_harmless);

G_END_DECLS
