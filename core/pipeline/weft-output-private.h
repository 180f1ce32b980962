/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan tells a file sink before it writes: shards, record, fingerprint. */
#pragma once

#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-load-plan.h"
#include "transform/weft-op-context.h"

/* Checks what is reversible on a condition, then lays out the files and records the conversion. */
gboolean weft_output_prepare (WeftLoadPlan *plan, WeftSafetensorsSink *sink, GCancellable *cancellable,
                              GError **error);

/* The files of all that the ranks of a plan hold together. */
WeftShardLayout *weft_output_lay_out_whole (WeftLoadPlan *plan, GError **error);

/* The published tensors as the parameters that inverse ops ask for. */
WeftOpContext *weft_make_published_facts (WeftStateDict *published, JsonNode *config);
