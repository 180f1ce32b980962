/* SPDX-License-Identifier: Apache-2.0 */
/* One rule tried on one key, for people who ask why. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

/**
 * WeftTrialOutcome:
 * @WEFT_TRIAL_OUTCOME_MATCHED: the rule matched
 * @WEFT_TRIAL_OUTCOME_NO_MATCH: no source of the rule matches the key
 * @WEFT_TRIAL_OUTCOME_OUT_OF_SCOPE: the key does not lie under the sub-model that the rule is for
 * @WEFT_TRIAL_OUTCOME_WAITING: a source matches, and the rule's guard has met no key
 * @WEFT_TRIAL_OUTCOME_NOT_TRIED: the key has met its one converter before
 *
 * What came of trying a rule.
 *
 * Since: 1.0
 */
typedef enum
{
  WEFT_TRIAL_OUTCOME_MATCHED,
  WEFT_TRIAL_OUTCOME_NO_MATCH,
  WEFT_TRIAL_OUTCOME_OUT_OF_SCOPE,
  WEFT_TRIAL_OUTCOME_WAITING,
  WEFT_TRIAL_OUTCOME_NOT_TRIED,
} WeftTrialOutcome;

#define WEFT_TYPE_RULE_TRIAL (weft_rule_trial_get_type ())

/**
 * WeftRuleTrial:
 * @transform: index of the rule in its list
 * @outcome: what came of it
 * @before: the name that the rule saw
 * @after: (nullable): the name that it made
 * @source_pattern: (nullable): the source pattern that matched
 *
 * One rule tried on one key.
 *
 * Since: 1.0
 */
typedef struct
{
  guint transform;
  WeftTrialOutcome outcome;
  gchar *before;
  gchar *after;
  gchar *source_pattern;
} WeftRuleTrial;

WEFT_PUBLIC GType weft_rule_trial_get_type (void);
WEFT_PUBLIC WeftRuleTrial *weft_rule_trial_copy (const WeftRuleTrial *self);
WEFT_PUBLIC void weft_rule_trial_free (WeftRuleTrial *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftRuleTrial, weft_rule_trial_free)

G_END_DECLS
