/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a checkpoint is one of the model that its config speaks of, and what it might be if it is not. */
#pragma once

#include "mapping/weft-mapping-registry.h"
#include "model/weft-module-tree.h"
#include "tensor/weft-state-dict.h"

/* Of @n_published tensors @n_known are the model's, which give @n_given of its @n_expected: so few that it is another one. */
gboolean weft_fit_is_too_small (guint n_published, guint n_known, guint n_expected, guint n_given);

/* What fits the names best: the model under another prefix, one of its sub-models, or a shipped mapping. A sentence, or NULL if
 * nothing does. */
gchar *weft_fit_describe_nearest (WeftStateDict *published, WeftModuleTree *tree,
                                  WeftMappingRegistry *registry);
