/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of a plan, for those who apply them. */
#pragma once

#include "parallel/weft-parallel-plan.h"
#include "parallel/weft-parallel-style-private.h"

typedef struct
{
  gchar *pattern;
  /* NULL: @placement is written out. */
  const WeftParallelStyle *style;
  WeftPlacement *placement;
  gchar *text;
  WeftParallelKind kind;
  /* It came with the model: one that matches nothing is no fault. */
  gboolean is_shipped;
} WeftParallelRule;

const WeftParallelRule *weft_parallel_plan_get_rule (WeftParallelPlan *self, guint rule);
/* The rule for @name: of experts (@with_experts) before that of tensors. *@is_own: it is for this very name, not for the module around
 * it. */
const WeftParallelRule *weft_parallel_plan_lookup (WeftParallelPlan *self, gboolean with_experts,
                                                   const gchar *name, gboolean *is_own);
