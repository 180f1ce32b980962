/* SPDX-License-Identifier: Apache-2.0 */
/* The way back: a runtime checkpoint into its published layout. */
#pragma once

#include "pipeline/weft-load-plan.h"

G_BEGIN_DECLS

#define WEFT_TYPE_REVERT_PLAN (weft_revert_plan_get_type ())

/**
 * WeftRevertPlan:
 *
 * The inverse of a load, run on the tensors that are there. With the record that Weft left in the checkpoint, names,
 * order, shards and bytes come back as they were published; without it, the model's mapping decides the names.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftRevertPlan, weft_revert_plan, WEFT, REVERT_PLAN, GObject)

/**
 * WeftRevertFlags:
 * @WEFT_REVERT_FLAGS_NONE: use the record if there is one; refuse what has no exact inverse
 * @WEFT_REVERT_FLAGS_IGNORE_PROVENANCE: go by the model's mapping, as if there were no record
 * @WEFT_REVERT_FLAGS_ALLOW_LOSSY: take the nearest inverse of conversions that have no exact one
 *
 * How to go back.
 *
 * Since: 1.0
 */
typedef enum /*< flags >*/
{
  WEFT_REVERT_FLAGS_NONE = 0,
  WEFT_REVERT_FLAGS_IGNORE_PROVENANCE = 1 << 0,
  WEFT_REVERT_FLAGS_ALLOW_LOSSY = 1 << 1,
} WeftRevertFlags;

WEFT_PUBLIC WeftRevertPlan *weft_revert_plan_new (WeftCheckpoint *checkpoint, WeftLoadOptions *options,
                                                  WeftRevertFlags flags, GError **error);
WEFT_PUBLIC WeftStateDict *weft_revert_plan_get_outputs (WeftRevertPlan *self);
WEFT_PUBLIC gboolean weft_revert_plan_has_provenance (WeftRevertPlan *self);
WEFT_PUBLIC WeftLoadReport *weft_revert_plan_get_report (WeftRevertPlan *self);
WEFT_PUBLIC gboolean weft_revert_plan_execute (WeftRevertPlan *self, WeftSink *sink,
                                               WeftProgressFunc progress, gpointer user_data,
                                               GCancellable *cancellable, GError **error);
WEFT_PUBLIC gboolean weft_revert_plan_execute_full (WeftRevertPlan *self, WeftSink *sink,
                                                    const WeftTransferOptions *options,
                                                    WeftTransferCounters *counters, GCancellable *cancellable,
                                                    GError **error);
WEFT_PUBLIC gboolean weft_revert_plan_compare_hashes (WeftRevertPlan *self, const gchar *folder,
                                                      guint *n_equal, guint *n_different,
                                                      GCancellable *cancellable, GError **error);

G_END_DECLS
