/* SPDX-License-Identifier: Apache-2.0 */
/* The compiled sources of a rule: which of them matches a key, and where. */
#pragma once

#include "transform/weft-plain-matcher-private.h"

G_BEGIN_DECLS

/* Where a pattern matched: the source's index in its list, and the spans of the match (entry 0) and of the captures
 * inside that source, in bytes; unset ones are -1. */
typedef struct
{
  guint branch;
  WeftPatternSpan captures[WEFT_PATTERN_N_CAPTURES];
} WeftPatternMatch;

typedef struct _WeftPattern WeftPattern;

WeftPattern *weft_pattern_new (const gchar *const *sources, GError **error);
WeftPattern *weft_pattern_ref (WeftPattern *self);
void weft_pattern_unref (WeftPattern *self);
const gchar *weft_pattern_get_text (const WeftPattern *self);
guint weft_pattern_get_n_captures (const WeftPattern *self, guint branch);
gboolean weft_pattern_is_plain (const WeftPattern *self);
gboolean weft_pattern_may_match (const WeftPattern *self, const gchar *key);
gboolean weft_pattern_search (WeftPattern *self, const gchar *text, WeftPatternMatch *match, GError **error);
gboolean weft_pattern_search_regex (WeftPattern *self, const gchar *text, WeftPatternMatch *match,
                                    GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftPattern, weft_pattern_unref)

G_END_DECLS
