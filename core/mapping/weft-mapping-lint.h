/* SPDX-License-Identifier: Apache-2.0 */
/* What is doubtful about a list of rules: found by sending names through it. */
#pragma once

#include <gio/gio.h>

#include "mapping/weft-lint-finding.h"
#include "transform/weft-transform-list.h"

G_BEGIN_DECLS

WEFT_PUBLIC GPtrArray *weft_mapping_lint (WeftTransformList *list, const gchar *const *keys,
                                          GCancellable *cancellable, GError **error);
WEFT_PUBLIC GPtrArray *weft_mapping_lint_idle (WeftTransformList *list, const gchar *const *keys,
                                               GCancellable *cancellable, GError **error);
WEFT_PUBLIC GStrv weft_mapping_sample_names (WeftTransformList *list, GError **error);
WEFT_PUBLIC GStrv weft_mapping_guess_published (WeftTransformList *list, const gchar *const *runtime_names,
                                                GError **error);

G_END_DECLS
