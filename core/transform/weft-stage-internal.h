/* SPDX-License-Identifier: Apache-2.0 */
/* A stage behind the model's mapping: a state dict goes through rules that each belong to a module (their scope), and
 * becomes another one; what meets no rule passes. The rules may be turned round. Internal to the library: not installed. */
#pragma once

#include "transform/weft-conversion-internal.h"

typedef struct
{
  WeftTransformList *rules;
  WeftStateDict *inputs;
  WeftStateDict *outputs;
  /* Of the inputs that meet a rule. */
  GPtrArray *conversions;
  /* For each output the conversion that makes it, or NULL if it passes. */
  GPtrArray *makers;
  /* For each output the position of its (first) source in the inputs. */
  GArray *origins;
  /* Conversions that failed (layer, then message), as texts. */
  GPtrArray *failures;
} WeftStage;

/* Runs @rules, each in its scope, on @inputs, and proves each conversion. @facts: the config. A conversion that fails is noted, its
 * sources are lost. Fails if two inputs claim one name, or if an op's inverse is wrong. */
WeftStage *weft_stage_run (WeftStateDict *inputs, WeftTransformList *rules, WeftOpContext *facts,
                           GError **error);
void weft_stage_free (WeftStage *self);

/* Where an output comes from in the inputs. */
guint weft_stage_get_origin (WeftStage *self, guint output);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftStage, weft_stage_free)
