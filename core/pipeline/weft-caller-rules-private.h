/* SPDX-License-Identifier: Apache-2.0 */
/* The list of rules of a load: those of the model, or those that a caller gives in their place. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "pipeline/weft-load-options.h"

/* The model as the options give it, or as @config (nullable) says. NULL without an error: nothing is known.
 * @where: what messages call the config. @open_reason: (out) (optional): why its tensors are not known, if there is a reason. */
WeftModuleTree *weft_caller_find_model (WeftLoadOptions *options, JsonNode *config, const gchar *where,
                                        gchar **open_reason, GError **error);

/* Where mappings are looked up. */
WeftMappingRegistry *weft_caller_find_registry (WeftLoadOptions *options, GError **error);

/* All rules of a load in their order, copies of the caller's own. @tree: nullable. */
WeftTransformList *weft_caller_find_rules (WeftLoadOptions *options, WeftMappingRegistry *registry,
                                           WeftModuleTree *tree, GError **error);

/* Key mapping, then mapping or the mapping of a model type, then (@with_legacy) the rules for old names. */
WeftTransformList *weft_caller_rules_assemble (WeftLoadOptions *options, WeftMappingRegistry *registry,
                                               gboolean with_legacy, GError **error);

/* Refuses rules of the caller that matched none of the keys of @checkpoint. @layout: what the keys may be in already. */
gboolean weft_caller_rules_check_used (WeftLoadOptions *options, WeftTransformList *rules,
                                       WeftCheckpoint *checkpoint, const gchar *layout, GError **error);

/* Whether a rule is the model's: neither of the key mapping nor for old names. */
gboolean weft_caller_rules_is_of_model (WeftWeightTransform *rule);

/* Whether a rule of the model comes from the caller or the user, not with Weft. */
gboolean weft_caller_rules_is_given (WeftLoadOptions *options, WeftMappingRegistry *registry,
                                     WeftWeightTransform *rule);
