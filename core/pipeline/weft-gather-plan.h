/* SPDX-License-Identifier: Apache-2.0 */
/* The inverse of cutting: what ranks hold, joined into one checkpoint. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-sink.h"
#include "tensor/weft-transfer.h"

G_BEGIN_DECLS

#define WEFT_TYPE_GATHER_PLAN (weft_gather_plan_get_type ())

/**
 * WeftGatherPlan:
 *
 * Joins the parts that the ranks of one conversion hold, by what each of them recorded. The files that come out are those that
 * the conversion would have written without ranks, byte for byte, its record included.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftGatherPlan, weft_gather_plan, WEFT, GATHER_PLAN, GObject)

WEFT_PUBLIC WeftGatherPlan *weft_gather_plan_new (GPtrArray *checkpoints, GError **error);
WEFT_PUBLIC WeftStateDict *weft_gather_plan_get_outputs (WeftGatherPlan *self);
WEFT_PUBLIC guint weft_gather_plan_get_world_size (WeftGatherPlan *self);
WEFT_PUBLIC gboolean weft_gather_plan_check_replicas (WeftGatherPlan *self, GCancellable *cancellable,
                                                      GError **error);
WEFT_PUBLIC gboolean weft_gather_plan_execute (WeftGatherPlan *self, WeftSink *sink,
                                               WeftProgressFunc progress, gpointer user_data,
                                               GCancellable *cancellable, GError **error);
WEFT_PUBLIC gboolean weft_gather_plan_execute_full (WeftGatherPlan *self, WeftSink *sink,
                                                    const WeftTransferOptions *options,
                                                    WeftTransferCounters *counters, GCancellable *cancellable,
                                                    GError **error);

G_END_DECLS
