/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of a plan: dense outputs become packed weights; and what the output's config says of packed weights. */
#pragma once

#include "pipeline/weft-load-plan-private.h"

/* Packs the outputs that the plan's options ask for. */
gboolean weft_quantize_stage_run (WeftLoadPlan *plan, GError **error);

/* The config of the output: @text (NULL: that of the source) with what is true of packed weights; NULL without an error if
 * that changes nothing. */
gchar *weft_quantize_stage_edit_config (WeftLoadPlan *plan, const gchar *text, GError **error);

/* What says of an output without a config how its weights are packed, as JSON text; NULL without an error if they are not. */
gchar *weft_quantize_stage_dup_header_config (WeftLoadPlan *plan, GError **error);

/* What ModelOpt says in a file of its own, for an output that is packed still; NULL without an error if that changes nothing. */
gchar *weft_quantize_stage_edit_modelopt (WeftLoadPlan *plan, GError **error);

/* A config without every word of quantization. */
gchar *weft_quantize_stage_clean_config (const gchar *text, const gchar *where, GError **error);
