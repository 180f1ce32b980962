/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a checkpoint is one of the model that its config speaks of, and what it might be if it is not. */
#pragma once

#include "mapping/weft-mapping-registry.h"
#include "model/weft-module-tree.h"
#include "tensor/weft-state-dict.h"

/* Whether so few of @n_all match that they do so by chance. */
gboolean weft_fit_is_chance (guint n_matching, guint n_all);

/* What fits the names best: the model under another prefix, one of its sub-models, or a shipped mapping. A sentence, or NULL if
 * nothing does. */
gchar *weft_fit_describe_nearest (WeftStateDict *published, WeftModuleTree *tree,
                                  WeftMappingRegistry *registry);
