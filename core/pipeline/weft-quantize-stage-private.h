/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of a plan: dense outputs become packed weights; and what the output's config says of packed weights. */
#pragma once

#include "checkpoint/weft-safetensors-sink.h"
#include "pipeline/weft-load-plan-private.h"

/* Packs the outputs that the plan's options ask for. */
gboolean weft_quantize_stage_run (WeftLoadPlan *plan, GError **error);

/* Writes the config of the output to @sink if it is not that of the source; @original is what it was then, for the record. */
gboolean weft_quantize_stage_write_config (WeftLoadPlan *plan, WeftSafetensorsSink *sink, gchar **original,
                                           GError **error);
