/* SPDX-License-Identifier: Apache-2.0 */
/* Renamings that would put their target where it is already: `head` -> `lm_head` makes `lm_lm_head` of `lm_head`. A model's
 * own names tell such keys apart; where they are not known, the load stops. */
#pragma once

#include "tensor/weft-state-dict.h"
#include "transform/weft-transform-list.h"

gboolean weft_repeated_rename_refuse (WeftTransformList *rules, WeftStateDict *published, GError **error);
