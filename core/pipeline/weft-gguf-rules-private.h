/* SPDX-License-Identifier: Apache-2.0 */
/* What a GGUF file says of its model, for a plan: its own names of tensors, and the numbers that ops ask a config for. */
#pragma once

#include "pipeline/weft-load-plan-private.h"

/* The rules of the file's architecture after those of the caller; notes an architecture that has none. */
WeftTransformList *weft_gguf_rules_assemble (WeftLoadPlan *plan, WeftGgufFile *file, GError **error);
/* Stands for a config.json, where there is none. */
JsonNode *weft_gguf_rules_dup_config (WeftGgufFile *file);
