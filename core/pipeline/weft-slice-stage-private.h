/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of a plan: outputs become the slices of them that one rank holds. */
#pragma once

#include "pipeline/weft-load-plan-private.h"

/* Cuts the outputs, if the plan's options ask for the part of a rank. */
gboolean weft_slice_stage_run (WeftLoadPlan *plan, GError **error);

/* What each rank holds, in bytes, and what is uneven; NULL if nothing is cut. */
JsonNode *weft_slice_stage_to_json (WeftLoadPlan *plan);
