/* SPDX-License-Identifier: Apache-2.0 */
/* The rules that a caller gives in place of those that the model's type and class would find. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "pipeline/weft-load-options.h"

/* Key mapping, then mapping or the mapping of a model type, then (@with_legacy) the rules for old names. */
WeftTransformList *weft_caller_rules_assemble (WeftLoadOptions *options, WeftMappingRegistry *registry,
                                               gboolean with_legacy, GError **error);

/* Refuses rules of the caller that matched none of the keys of @checkpoint. @layout: what the keys may be in already. */
gboolean weft_caller_rules_check_used (WeftLoadOptions *options, WeftTransformList *rules,
                                       WeftCheckpoint *checkpoint, const gchar *layout, GError **error);

/* Whether a rule is the model's: neither of the key mapping nor for old names. */
gboolean weft_caller_rules_is_of_model (WeftWeightTransform *rule);
