/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a way back, for those who check it. */
#pragma once

#include "checkpoint/weft-shard-layout.h"
#include "pipeline/weft-provenance-private.h"
#include "pipeline/weft-revert-plan.h"

/* NULL without a record. */
const WeftProvenance *weft_revert_plan_get_provenance (WeftRevertPlan *self);
/* Whether all published tensors come back, and nothing else: then the published files do, byte for byte. */
gboolean weft_revert_plan_is_complete (WeftRevertPlan *self);
/* The files that reverting writes. */
WeftShardLayout *weft_revert_plan_lay_out (WeftRevertPlan *self, GError **error);
