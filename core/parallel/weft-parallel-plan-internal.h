/* SPDX-License-Identifier: Apache-2.0 */
/* What other rooms put into a plan. Internal to the library: not installed. */
#pragma once

#include "parallel/weft-parallel-plan.h"

/* Adds styles (a{ss}, from paths of modules and tensors) that came with the model. */
gboolean weft_parallel_plan_add_styles (WeftParallelPlan *self, GVariant *styles, GError **error);
