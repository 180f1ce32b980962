/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-rule-trial.h"

G_DEFINE_BOXED_TYPE (WeftRuleTrial, weft_rule_trial, weft_rule_trial_copy, weft_rule_trial_free)

/**
 * weft_rule_trial_copy:
 * @self: a trial
 *
 * Returns: (transfer full): a copy
 * Since: 1.0
 */
WeftRuleTrial *
weft_rule_trial_copy (const WeftRuleTrial *self)
{
  WeftRuleTrial *copy = g_new0 (WeftRuleTrial, 1);

  copy->transform = self->transform;
  copy->outcome = self->outcome;
  copy->before = g_strdup (self->before);
  copy->after = g_strdup (self->after);
  copy->source_pattern = g_strdup (self->source_pattern);
  return copy;
}

/**
 * weft_rule_trial_free:
 * @self: (transfer full): a trial
 *
 * Since: 1.0
 */
void
weft_rule_trial_free (WeftRuleTrial *self)
{
  g_free (self->before);
  g_free (self->after);
  g_free (self->source_pattern);
  g_free (self);
}
