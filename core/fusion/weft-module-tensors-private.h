/* SPDX-License-Identifier: Apache-2.0 */
/* The tensors of a module as lazy tensors without values, for trying rules on them. */
#pragma once

#include "model/weft-module.h"
#include "tensor/weft-state-dict.h"

/* The persistent tensors at and below @module, under names relative to it with @prefix (may be empty) and a dot before. */
WeftStateDict *weft_module_tensors_to_state_dict (WeftModule *module, const gchar *prefix, GError **error);

/* @prefix and @name joined by a dot. */
gchar *weft_module_tensors_join (const gchar *prefix, const gchar *name);
