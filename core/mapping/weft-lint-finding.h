/* SPDX-License-Identifier: Apache-2.0 */
/* One thing that is doubtful about a mapping, with a name that shows it. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

/**
 * WeftLintKind:
 * @WEFT_LINT_KIND_OVERLAP: two converters match one name; the first takes it
 * @WEFT_LINT_KIND_SHADOWED: earlier rules take every name that the rule matches
 * @WEFT_LINT_KIND_ORDER: two renamings give another name when their order is changed
 * @WEFT_LINT_KIND_IRREVERSIBLE: the inverse of a rule does not give back the name that the rule took
 * @WEFT_LINT_KIND_REWRITTEN_OUTPUT: a renaming changes a name that a converter makes
 * @WEFT_LINT_KIND_IDLE: a rule matches none of the names that are known
 * @WEFT_LINT_KIND_LOOSE_DOT: an unescaped dot matches something else than a dot
 *
 * Kinds of findings.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_LINT_KIND_OVERLAP,
  WEFT_LINT_KIND_SHADOWED,
  WEFT_LINT_KIND_ORDER,
  WEFT_LINT_KIND_IRREVERSIBLE,
  WEFT_LINT_KIND_REWRITTEN_OUTPUT,
  WEFT_LINT_KIND_IDLE,
  WEFT_LINT_KIND_LOOSE_DOT,
} WeftLintKind;

#define WEFT_TYPE_LINT_FINDING (weft_lint_finding_get_type ())

/**
 * WeftLintFinding:
 * @kind: what is doubtful
 * @rule: position of the rule in its list
 * @other: position of the rule that it is about as well, -1 for none
 * @pattern: (nullable): the source pattern that matched
 * @key: (nullable): a name that shows it, as it is published
 * @detail: what becomes of that name
 *
 * One finding. What the list makes of @key is what @detail says: nothing is reported that was not tried.
 *
 * Since: 1.0
 */
typedef struct
{
  WeftLintKind kind;
  guint rule;
  gint other;
  gchar *pattern;
  gchar *key;
  gchar *detail;
} WeftLintFinding;

WEFT_PUBLIC GType weft_lint_finding_get_type (void);
WEFT_PUBLIC WeftLintFinding *weft_lint_finding_copy (const WeftLintFinding *self);
WEFT_PUBLIC void weft_lint_finding_free (WeftLintFinding *self);

WEFT_PUBLIC const gchar *weft_lint_kind_get_name (WeftLintKind kind);
WEFT_PUBLIC const gchar *weft_lint_kind_get_reason (WeftLintKind kind);
WEFT_PUBLIC const gchar *weft_lint_kind_get_advice (WeftLintKind kind);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftLintFinding, weft_lint_finding_free)

G_END_DECLS
