/* SPDX-License-Identifier: Apache-2.0 */
/* Which modules of a skeleton a target fits. */
#pragma once

#include "fusion/weft-fusion-target-private.h"
#include "model/weft-module-tree.h"

/* The modules (WeftModule, one for all its paths) that a family fits, in the order of the skeleton. @n_candidates and @example (nullable, transfer
 * full): how many its patterns hit, and one that it does not fit. */
GPtrArray *weft_discovery_find_fusable (WeftModuleTree *tree, WeftFusionTarget *family, guint *n_candidates,
                                        gchar **example, GError **error);

/* The modules with a path that a glob of plan overrides matches. */
GPtrArray *weft_discovery_find_matching (WeftModuleTree *tree, const gchar *match);

/* The pattern of existing paths (numbers as `*`) that is most like @match, or NULL. */
gchar *weft_discovery_find_nearest (WeftModuleTree *tree, const gchar *match);

/* Whether @fqn is @match, where `*` stands for text within a component and `**` for any number of components. */
gboolean weft_discovery_matches (const gchar *match, const gchar *fqn);
