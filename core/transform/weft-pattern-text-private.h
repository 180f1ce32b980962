/* SPDX-License-Identifier: Apache-2.0 */
/* The written forms of a rule's patterns and what they are normalised to, as text only. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

gchar *weft_pattern_normalise_target (const gchar *written, gchar **captured);
gboolean weft_pattern_normalise (const gchar *const *written_sources, const gchar *const *written_targets,
                                 GStrv *sources, GStrv *targets, GError **error);
guint weft_pattern_highest_reference (const gchar *pattern);
gchar *weft_pattern_longest_literal (const gchar *pattern);
gchar *weft_pattern_anchored_literal (const gchar *pattern);

G_END_DECLS
