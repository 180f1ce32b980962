/* SPDX-License-Identifier: Apache-2.0 */
/* Names that differ by numbers alone, as one row: 256 experts of 64 layers are one line to read. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_REPORT_ROW (weft_report_row_get_type ())

/**
 * WeftReportRow:
 * @pattern: the names, such as `model.layers.{0, 1, 3}.mlp.experts.{0...255}.w1`
 * @detail: (nullable): what is said of the last of them
 * @n_names: how many there are
 *
 * Findings of one kind whose names differ by numbers alone.
 *
 * Since: 1.0
 */
typedef struct
{
  gchar *pattern;
  gchar *detail;
  guint n_names;
} WeftReportRow;

WEFT_PUBLIC GType weft_report_row_get_type (void);
WEFT_PUBLIC WeftReportRow *weft_report_row_copy (const WeftReportRow *self);
WEFT_PUBLIC void weft_report_row_free (WeftReportRow *self);
WEFT_PUBLIC GPtrArray *weft_report_rows_new (const gchar *const *names, const gchar *const *details);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftReportRow, weft_report_row_free)

G_END_DECLS
