/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping/weft-lint-finding.h"

G_DEFINE_BOXED_TYPE (WeftLintFinding, weft_lint_finding, weft_lint_finding_copy, weft_lint_finding_free)

static const struct
{
  const gchar *name;
  const gchar *reason;
  const gchar *advice;
} kinds[] = {
  [WEFT_LINT_KIND_OVERLAP] = { "overlap",
                               "a name meets one converter, the first that matches: the other one lacks what it was to collect",
                               "narrow the pattern that takes too much, or put the special converter before the general one" },
  [WEFT_LINT_KIND_SHADOWED] = { "shadowed", "the rule never does anything: earlier rules take its names",
                                "remove it, or move it before the rule that takes its names" },
  [WEFT_LINT_KIND_ORDER] = { "order",
                             "renamings see what earlier ones have made: moving one changes what a name becomes",
                             "keep them in this order; if it is not meant, anchor the patterns so that one name meets one rule" },
  [WEFT_LINT_KIND_IRREVERSIBLE] = { "irreversible",
                                    "reverting without a record runs the inverses of the rules, which write another name here",
                                    "capture what varies in one group, write one rule a source, and leave wildcards out; with a "
                                    "record (weft-provenance.json) names come back all the same" },
  [WEFT_LINT_KIND_REWRITTEN_OUTPUT] = { "rewritten-output",
                                        "renamings run before converters, so what a converter makes keeps its name when loading, "
                                        "and loses it when saving",
                                        "write the final name as the converter's target" },
  [WEFT_LINT_KIND_IDLE] = { "idle", "the rule matches none of the names that are known",
                            "remove it if it is for a layout that nobody publishes any more; check its spelling" },
  [WEFT_LINT_KIND_LOOSE_DOT] = { "loose-dot",
                                 "a dot in a pattern is any character, and here it matches one that is no dot",
                                 "write '\\.'" },
};

/**
 * weft_lint_finding_copy:
 * @self: a finding
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftLintFinding *
weft_lint_finding_copy (const WeftLintFinding *self)
{
  WeftLintFinding *copy = g_new (WeftLintFinding, 1);

  *copy = *self;
  copy->pattern = g_strdup (self->pattern);
  copy->key = g_strdup (self->key);
  copy->detail = g_strdup (self->detail);
  return copy;
}

/**
 * weft_lint_finding_free:
 * @self: (transfer full): a finding
 *
 * Since: 1.0
 */
void
weft_lint_finding_free (WeftLintFinding *self)
{
  g_free (self->pattern);
  g_free (self->key);
  g_free (self->detail);
  g_free (self);
}

/**
 * weft_lint_kind_get_name:
 * @kind: a kind of finding
 *
 * Returns: its name, such as `overlap`
 * Since: 1.0
 */
const gchar *
weft_lint_kind_get_name (WeftLintKind kind)
{
  return kinds[kind].name;
}

/**
 * weft_lint_kind_get_reason:
 * @kind: a kind of finding
 *
 * Returns: why it matters
 * Since: 1.0
 */
const gchar *
weft_lint_kind_get_reason (WeftLintKind kind)
{
  return kinds[kind].reason;
}

/**
 * weft_lint_kind_get_advice:
 * @kind: a kind of finding
 *
 * Returns: what to do
 * Since: 1.0
 */
const gchar *
weft_lint_kind_get_advice (WeftLintKind kind)
{
  return kinds[kind].advice;
}
