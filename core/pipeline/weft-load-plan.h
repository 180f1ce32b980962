/* SPDX-License-Identifier: Apache-2.0 */
/* A load: what the runtime gets out of a checkpoint, and by which rules. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-sink.h"
#include "fusion/weft-replacement-executor.h"
#include "pipeline/weft-load-options.h"
#include "pipeline/weft-load-report.h"
#include "quantize/weft-quantizer.h"

G_BEGIN_DECLS

#define WEFT_TYPE_LOAD_PLAN (weft_load_plan_get_type ())

/**
 * WeftLoadPlan:
 *
 * Compiled once, from headers and config; immutable. It knows each output, what it is made of, and whether the way back is
 * exact.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftLoadPlan, weft_load_plan, WEFT, LOAD_PLAN, GObject)

WEFT_PUBLIC WeftLoadPlan *weft_load_plan_new (WeftCheckpoint *checkpoint, WeftLoadOptions *options,
                                              GError **error);
WEFT_PUBLIC gboolean weft_load_plan_execute (WeftLoadPlan *self, WeftSink *sink, WeftProgressFunc progress,
                                             gpointer user_data, GCancellable *cancellable, GError **error);
WEFT_PUBLIC gboolean weft_load_plan_execute_full (WeftLoadPlan *self, WeftSink *sink,
                                                  const WeftTransferOptions *options,
                                                  WeftTransferCounters *counters, GCancellable *cancellable,
                                                  GError **error);

WEFT_PUBLIC WeftCheckpoint *weft_load_plan_get_checkpoint (WeftLoadPlan *self);
WEFT_PUBLIC WeftLoadOptions *weft_load_plan_get_options (WeftLoadPlan *self);
WEFT_PUBLIC WeftStateDict *weft_load_plan_get_outputs (WeftLoadPlan *self);
WEFT_PUBLIC WeftStateDict *weft_load_plan_get_whole_outputs (WeftLoadPlan *self);
WEFT_PUBLIC WeftLoadReport *weft_load_plan_get_report (WeftLoadPlan *self);
WEFT_PUBLIC WeftTransformList *weft_load_plan_get_transforms (WeftLoadPlan *self);
WEFT_PUBLIC WeftModuleTree *weft_load_plan_get_module_tree (WeftLoadPlan *self);
WEFT_PUBLIC WeftReplacementExecutor *weft_load_plan_get_fusion (WeftLoadPlan *self);
WEFT_PUBLIC WeftQuantizer *weft_load_plan_get_quantizer (WeftLoadPlan *self);
WEFT_PUBLIC guint weft_load_plan_get_n_quantized (WeftLoadPlan *self);
WEFT_PUBLIC WeftPackedWeight *weft_load_plan_get_quantized (WeftLoadPlan *self, guint position);
WEFT_PUBLIC gboolean weft_load_plan_is_open (WeftLoadPlan *self);
WEFT_PUBLIC gboolean weft_load_plan_is_reversible (WeftLoadPlan *self);
WEFT_PUBLIC gboolean weft_load_plan_check (WeftLoadPlan *self, GError **error);
WEFT_PUBLIC WeftLoadReport *weft_load_plan_check_values (WeftLoadPlan *self, GCancellable *cancellable,
                                                         GError **error);
WEFT_PUBLIC gchar *weft_load_plan_describe_output (WeftLoadPlan *self, guint position);
WEFT_PUBLIC JsonNode *weft_load_plan_to_json (WeftLoadPlan *self);
WEFT_PUBLIC JsonNode *weft_load_plan_explain (WeftLoadPlan *self, const gchar *key, GError **error);

G_END_DECLS
