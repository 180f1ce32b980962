/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-transform-list.h"

#include <string.h>

#include "transform/weft-group-weight-rename.h"
#include "transform/weft-prefix-change.h"
#include "transform/weft-renamed-key-private.h"
#include "transform/weft-weight-converter.h"
#include "transform/weft-weight-renaming.h"
#include "transform/weft-weight-transform-base-private.h"

typedef struct
{
  WeftWeightTransform *transform;
  WeftPattern *filter; /* (nullable): without a match of it the rule does nothing */
  gboolean is_converter;
} Rule;

struct _WeftTransformList
{
  GObject parent_instance;

  GArray *rules;
  gboolean is_inverse;
};

G_DEFINE_FINAL_TYPE (WeftTransformList, weft_transform_list, G_TYPE_OBJECT)

static void
clear_rule (gpointer rule)
{
  g_object_unref (((Rule *) rule)->transform);
}

static void
weft_transform_list_init (WeftTransformList *self)
{
  self->rules = g_array_new (FALSE, FALSE, sizeof (Rule));
  g_array_set_clear_func (self->rules, clear_rule);
}

static void
weft_transform_list_finalize (GObject *object)
{
  g_array_unref (WEFT_TRANSFORM_LIST (object)->rules);
  G_OBJECT_CLASS (weft_transform_list_parent_class)->finalize (object);
}

static void
weft_transform_list_class_init (WeftTransformListClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_transform_list_finalize;
}

/**
 * weft_transform_list_new:
 *
 * Returns: (transfer full): an empty list, for the load direction
 * Since: 1.0
 */
WeftTransformList *
weft_transform_list_new (void)
{
  return g_object_new (WEFT_TYPE_TRANSFORM_LIST, NULL);
}

/**
 * weft_transform_list_new_like:
 * @self: a list
 *
 * Returns: (transfer full): an empty list for the direction of @self
 * Since: 1.0
 */
WeftTransformList *
weft_transform_list_new_like (WeftTransformList *self)
{
  WeftTransformList *list = weft_transform_list_new ();

  list->is_inverse = self->is_inverse;
  return list;
}

static Rule *
get_rule (WeftTransformList *self, guint position)
{
  return &g_array_index (self->rules, Rule, position);
}

/**
 * weft_transform_list_insert:
 * @self: a list
 * @position: where, at most the number of rules
 * @transform: a rule that is prepared
 *
 * Since: 1.0
 */
void
weft_transform_list_insert (WeftTransformList *self, guint position, WeftWeightTransform *transform)
{
  Rule rule = { .transform = g_object_ref (transform) };

  rule.filter = weft_weight_transform_base_get_filter (transform);
  rule.is_converter = WEFT_IS_WEIGHT_CONVERTER (transform);
  g_array_insert_val (self->rules, MIN (position, self->rules->len), rule);
}

/**
 * weft_transform_list_append:
 * @self: a list
 * @transform: a rule that is prepared
 *
 * Since: 1.0
 */
void
weft_transform_list_append (WeftTransformList *self, WeftWeightTransform *transform)
{
  weft_transform_list_insert (self, self->rules->len, transform);
}

/**
 * weft_transform_list_append_renaming:
 * @self: a list
 * @source_pattern: a regular expression that finds a key
 * @target_pattern: what is written in place of what was found
 * @error: return location
 *
 * Appends a plain renaming.
 *
 * Returns: whether the patterns are valid
 * Errors: %WEFT_ERROR_PATTERN if they are not
 * Since: 1.0
 */
gboolean
weft_transform_list_append_renaming (WeftTransformList *self, const gchar *source_pattern,
                                     const gchar *target_pattern, GError **error)
{
  g_autoptr (WeftWeightTransform) renaming = weft_weight_renaming_new (
      (const gchar *const[]){ source_pattern, NULL }, (const gchar *const[]){ target_pattern, NULL }, error);

  if (renaming == NULL)
    return FALSE;
  weft_transform_list_append (self, renaming);
  return TRUE;
}

/**
 * weft_transform_list_remove:
 * @self: a list
 * @position: which rule
 *
 * Since: 1.0
 */
void
weft_transform_list_remove (WeftTransformList *self, guint position)
{
  g_return_if_fail (position < self->rules->len);
  g_array_remove_index (self->rules, position);
}

/**
 * weft_transform_list_append_list:
 * @self: a list
 * @other: another, whose rules are shared
 *
 * Since: 1.0
 */
void
weft_transform_list_append_list (WeftTransformList *self, WeftTransformList *other)
{
  for (guint i = 0; i < other->rules->len; i++)
    weft_transform_list_append (self, get_rule (other, i)->transform);
}

/**
 * weft_transform_list_copy:
 * @self: a list
 * @error: return location
 *
 * Returns: (transfer full): a list of copies, that have learnt nothing
 * Errors: those of weft_weight_transform_copy()
 * Since: 1.0
 */
WeftTransformList *
weft_transform_list_copy (WeftTransformList *self, GError **error)
{
  g_autoptr (WeftTransformList) copy = weft_transform_list_new ();

  copy->is_inverse = self->is_inverse;
  for (guint i = 0; i < self->rules->len; i++)
    {
      g_autoptr (WeftWeightTransform) transform =
          weft_weight_transform_copy (get_rule (self, i)->transform, error);

      if (transform == NULL)
        return NULL;
      weft_transform_list_append (copy, transform);
    }
  return g_steal_pointer (&copy);
}

/**
 * weft_transform_list_get_n_transforms:
 * @self: a list
 *
 * Returns: the number of rules
 * Since: 1.0
 */
guint
weft_transform_list_get_n_transforms (WeftTransformList *self)
{
  return self->rules->len;
}

/**
 * weft_transform_list_get_transform:
 * @self: a list
 * @position: which rule
 *
 * Returns: (transfer none): the rule
 * Since: 1.0
 */
WeftWeightTransform *
weft_transform_list_get_transform (WeftTransformList *self, guint position)
{
  g_return_val_if_fail (position < self->rules->len, NULL);
  return get_rule (self, position)->transform;
}

/**
 * weft_transform_list_is_converter:
 * @self: a list
 * @position: which rule
 *
 * Returns: whether the rule is a #WeftWeightConverter; every other kind is a renaming
 * Since: 1.0
 */
gboolean
weft_transform_list_is_converter (WeftTransformList *self, guint position)
{
  g_return_val_if_fail (position < self->rules->len, FALSE);
  return get_rule (self, position)->is_converter;
}

/* Tries one rule on the current name. */
static gboolean
try_rule (WeftTransformList *self, guint position, WeftRenamedKey *key, gboolean *has_matched, GError **error)
{
  Rule *rule = get_rule (self, position);
  g_autoptr (GError) local_error = NULL;
  gchar *pattern = NULL;
  gchar *name;

  *has_matched = FALSE;
  if (rule->filter != NULL && !weft_pattern_may_match (rule->filter, weft_renamed_key_get_name (key)))
    return TRUE;
  name = weft_weight_transform_try (rule->transform, weft_renamed_key_get_name (key), &pattern, &local_error);
  if (local_error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&local_error));
      return FALSE;
    }
  if (name == NULL)
    return TRUE;
  if (rule->is_converter)
    weft_renamed_key_take_conversion (key, position, pattern, name);
  else
    weft_renamed_key_take_step (key, position, pattern, name);
  *has_matched = TRUE;
  return TRUE;
}

static gboolean
try_renamings (WeftTransformList *self, WeftRenamedKey *key, GError **error)
{
  gboolean has_matched;

  for (guint i = 0; i < self->rules->len; i++)
    if (!get_rule (self, i)->is_converter && !try_rule (self, i, key, &has_matched, error))
      return FALSE;
  return TRUE;
}

static gboolean
try_converters (WeftTransformList *self, WeftRenamedKey *key, GError **error)
{
  gboolean has_matched = FALSE;

  for (guint i = 0; i < self->rules->len && !has_matched; i++)
    if (get_rule (self, i)->is_converter && !try_rule (self, i, key, &has_matched, error))
      return FALSE;
  return TRUE;
}

static void
mark_used (WeftTransformList *self, const WeftRenamedKey *key)
{
  for (guint i = 0; i < weft_renamed_key_get_n_steps (key); i++)
    weft_weight_transform_set_used (get_rule (self, weft_renamed_key_get_step_transform (key, i))->transform,
                                    TRUE);
}

/**
 * weft_transform_repair_prefix:
 * @key: a tensor name
 * @base_model_prefix: (nullable): the base model prefix of the model
 * @model_keys: (nullable) (element-type utf8 utf8): the names that the model knows, as keys
 *
 * Adds or removes the base model prefix if that makes a name that the model knows. A name that it knows stays as it is.
 *
 * Returns: (transfer full): the name
 * Since: 1.0
 */
gchar *
weft_transform_repair_prefix (const gchar *key, const gchar *base_model_prefix, GHashTable *model_keys)
{
  gsize length = base_model_prefix != NULL ? strlen (base_model_prefix) : 0;
  g_autofree gchar *longer = NULL;

  if (length == 0 || model_keys == NULL || g_hash_table_contains (model_keys, key))
    return g_strdup (key);
  if (strncmp (key, base_model_prefix, length) == 0 && key[length] == '.'
      && g_hash_table_contains (model_keys, key + length + 1))
    return g_strdup (key + length + 1);
  longer = g_strconcat (base_model_prefix, ".", key, NULL);
  return g_hash_table_contains (model_keys, longer) ? g_steal_pointer (&longer) : g_strdup (key);
}

/**
 * weft_transform_list_rename_key:
 * @self: a list
 * @key: a tensor name
 * @base_model_prefix: (nullable): the base model prefix of the model
 * @model_keys: (nullable) (element-type utf8 utf8): the names that the model knows, as keys; %NULL if they are not known
 * @error: return location
 *
 * Sends one key through the list and marks the rules that it met as used. In the load direction, with @model_keys, the
 * base model prefix is repaired afterwards; and if the model knows @key and not the new name, @key is kept and no rule
 * counts as used.
 *
 * In the save direction a key that meets a converter meets no renaming: its outputs do, by
 * weft_transform_list_rename_output().
 *
 * Returns: (transfer full): the new name and how it came about
 * Errors: those of weft_weight_transform_rename_key()
 * Since: 1.0
 */
WeftRenamedKey *
weft_transform_list_rename_key (WeftTransformList *self, const gchar *key, const gchar *base_model_prefix,
                                GHashTable *model_keys, GError **error)
{
  g_autoptr (WeftRenamedKey) renamed = weft_renamed_key_new (key);

  if (self->is_inverse)
    {
      if (!try_converters (self, renamed, error)
          || (weft_renamed_key_get_converter (renamed) < 0 && !try_renamings (self, renamed, error)))
        return NULL;
      mark_used (self, renamed);
      return g_steal_pointer (&renamed);
    }
  if (!try_renamings (self, renamed, error) || !try_converters (self, renamed, error))
    return NULL;
  if (model_keys != NULL && !g_hash_table_contains (model_keys, weft_renamed_key_get_name (renamed)))
    {
      weft_renamed_key_take_name (renamed, weft_transform_repair_prefix (weft_renamed_key_get_name (renamed),
                                                                         base_model_prefix, model_keys));
      if (!g_hash_table_contains (model_keys, weft_renamed_key_get_name (renamed))
          && g_hash_table_contains (model_keys, key))
        weft_renamed_key_keep (renamed, key);
    }
  mark_used (self, renamed);
  return g_steal_pointer (&renamed);
}

/**
 * weft_transform_list_rename_output:
 * @self: a list
 * @name: the name of a tensor that a converter made
 * @error: return location
 *
 * Applies all renamings, as is due to the outputs of a converter in the save direction.
 *
 * Returns: (transfer full): the new name
 * Errors: those of weft_weight_transform_rename_key()
 * Since: 1.0
 */
gchar *
weft_transform_list_rename_output (WeftTransformList *self, const gchar *name, GError **error)
{
  g_autoptr (WeftRenamedKey) renamed = weft_renamed_key_new (name);

  if (!try_renamings (self, renamed, error))
    return NULL;
  mark_used (self, renamed);
  return g_strdup (weft_renamed_key_get_name (renamed));
}

/* Why a rule that did not match did not. */
static WeftTrialOutcome
judge_miss (WeftWeightTransform *transform, const gchar *key)
{
  WeftTransformState *state = weft_weight_transform_get_state (transform);
  WeftPatternMatch match;
  gsize consumed;

  if (!weft_weight_transform_enter_scope (transform, key, &consumed))
    return WEFT_TRIAL_OUTCOME_OUT_OF_SCOPE;
  if (WEFT_IS_GROUP_WEIGHT_RENAME (transform)
      && !weft_group_weight_rename_is_active (WEFT_GROUP_WEIGHT_RENAME (transform))
      && weft_pattern_search (state->pattern, key + consumed, &match, NULL))
    return WEFT_TRIAL_OUTCOME_WAITING;
  return WEFT_TRIAL_OUTCOME_NO_MATCH;
}

static gboolean
add_trials (WeftTransformList *self, gboolean of_converters, WeftRenamedKey *key, GPtrArray *trials,
            GError **error)
{
  for (guint i = 0; i < self->rules->len; i++)
    {
      Rule *rule = get_rule (self, i);
      WeftRuleTrial *trial;
      gboolean has_matched = FALSE;
      gboolean is_tried = weft_renamed_key_get_converter (key) < 0;

      if (rule->is_converter != of_converters)
        continue;
      trial = g_new0 (WeftRuleTrial, 1);
      trial->transform = i;
      trial->before = g_strdup (weft_renamed_key_get_name (key));
      g_ptr_array_add (trials, trial);
      if (is_tried && !try_rule (self, i, key, &has_matched, error))
        return FALSE;
      if (!is_tried)
        trial->outcome = WEFT_TRIAL_OUTCOME_NOT_TRIED;
      else if (!has_matched)
        trial->outcome = judge_miss (rule->transform, trial->before);
      else
        {
          trial->outcome = WEFT_TRIAL_OUTCOME_MATCHED;
          trial->after = g_strdup (weft_renamed_key_get_name (key));
          trial->source_pattern =
              g_strdup (weft_renamed_key_get_step_pattern (key, weft_renamed_key_get_n_steps (key) - 1));
        }
    }
  return TRUE;
}

/**
 * weft_transform_list_explain_key:
 * @self: a list
 * @key: a tensor name
 * @error: return location
 *
 * Sends a key through the list, rule by rule, in the order in which they are tried. No rule is marked as used; guards are
 * as the keys before have left them.
 *
 * Returns: (transfer container) (element-type WeftRuleTrial): what came of each rule
 * Errors: those of weft_weight_transform_rename_key()
 * Since: 1.0
 */
GPtrArray *
weft_transform_list_explain_key (WeftTransformList *self, const gchar *key, GError **error)
{
  g_autoptr (GPtrArray) trials = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_rule_trial_free);
  g_autoptr (WeftRenamedKey) renamed = weft_renamed_key_new (key);

  if (!add_trials (self, self->is_inverse, renamed, trials, error)
      || !add_trials (self, !self->is_inverse, renamed, trials, error))
    return NULL;
  return g_steal_pointer (&trials);
}

/**
 * weft_transform_list_reset:
 * @self: a list
 *
 * Lets every rule forget what it learnt from keys.
 *
 * Since: 1.0
 */
void
weft_transform_list_reset (WeftTransformList *self)
{
  for (guint i = 0; i < self->rules->len; i++)
    weft_weight_transform_reset (get_rule (self, i)->transform);
}

/**
 * weft_transform_list_dup_inverse:
 * @self: a list
 * @flags: which rules are reversed
 * @error: return location
 *
 * Makes the list for the other direction: each rule reversed, in reversed order.
 *
 * Returns: (transfer full): the inverse
 * Errors: %WEFT_ERROR_NOT_REVERSIBLE if a rule has no inverse
 * Since: 1.0
 */
WeftTransformList *
weft_transform_list_dup_inverse (WeftTransformList *self, WeftInverseFlags flags, GError **error)
{
  g_autoptr (WeftTransformList) inverse = weft_transform_list_new ();

  inverse->is_inverse = !self->is_inverse;
  for (guint i = self->rules->len; i > 0; i--)
    {
      WeftWeightTransform *transform = get_rule (self, i - 1)->transform;
      g_autoptr (WeftWeightTransform) reversed = NULL;

      if ((flags & WEFT_INVERSE_FLAGS_ONLY_USED) != 0 && !weft_weight_transform_get_used (transform))
        continue;
      if ((flags & WEFT_INVERSE_FLAGS_NO_PREFIX_CHANGE) != 0 && WEFT_IS_PREFIX_CHANGE (transform))
        continue;
      reversed = weft_weight_transform_dup_inverse (transform, error);
      if (reversed == NULL)
        return NULL;
      weft_transform_list_append (inverse, reversed);
    }
  return g_steal_pointer (&inverse);
}

/**
 * weft_transform_list_is_inverse:
 * @self: a list
 *
 * Returns: whether the list is for the save direction
 * Since: 1.0
 */
gboolean
weft_transform_list_is_inverse (WeftTransformList *self)
{
  return self->is_inverse;
}

/* A name such as the converter makes: its target somewhere inside of a longer one. */
static gchar *
make_sample (const gchar *target, gsize *start)
{
  g_autoptr (GString) sample = g_string_new (target[0] == '.' ? "x" : "x.");

  *start = sample->len;
  g_string_append (sample, target);
  g_string_replace (sample, "*", "0", 0);
  for (gchar digit = '1'; digit <= '9'; digit++)
    g_string_replace (sample, (const gchar[]){ '\\', digit, '\0' }, "0", 0);
  return g_string_free (g_steal_pointer (&sample), FALSE);
}

/* Whether a renaming changes text inside of the target at @start of @sample. */
static gboolean
rewrites (WeftWeightTransform *renaming, const gchar *sample, gsize start)
{
  WeftPattern *pattern = weft_weight_transform_base_get_filter (renaming);
  WeftPatternMatch match;
  g_autofree gchar *renamed = NULL;

  if (pattern == NULL || !weft_pattern_search (pattern, sample, &match, NULL)
      || match.captures[0].start < (gssize) start)
    return FALSE;
  renamed = weft_weight_transform_try (renaming, sample, NULL, NULL);
  weft_weight_transform_reset (renaming);
  return renamed != NULL && strcmp (renamed, sample) != 0;
}

/* The target of a converter that a renaming would change, or NULL; @sample: a name with that target in it. */
static const gchar *
find_rewritten_target (WeftTransformList *self, guint converter, guint renaming, gchar **sample)
{
  const gchar *const *targets =
      weft_weight_transform_get_target_patterns (get_rule (self, converter)->transform);

  for (guint i = 0; targets[i] != NULL; i++)
    {
      gsize start;

      *sample = make_sample (targets[i], &start);
      if (rewrites (get_rule (self, renaming)->transform, *sample, start))
        return targets[i];
      g_clear_pointer (sample, g_free);
    }
  return NULL;
}

/**
 * weft_transform_list_find_rewritten_output:
 * @self: a list, for the load direction
 * @converter: position of a converter
 * @renaming: position of a renaming
 *
 * Returns: (transfer full) (nullable): a name such as the converter makes, of which the renaming would change a part that the
 *   converter writes; %NULL if there is none
 * Since: 1.0
 */
gchar *
weft_transform_list_find_rewritten_output (WeftTransformList *self, guint converter, guint renaming)
{
  gchar *sample = NULL;

  g_return_val_if_fail (converter < self->rules->len && renaming < self->rules->len, NULL);
  g_return_val_if_fail (get_rule (self, converter)->is_converter && !get_rule (self, renaming)->is_converter,
                        NULL);
  find_rewritten_target (self, converter, renaming, &sample);
  return sample;
}

static gboolean
check_converter_order (WeftTransformList *self, guint position, GError **error)
{
  for (guint k = position + 1; k < self->rules->len; k++)
    {
      g_autofree gchar *sample = NULL;
      const gchar *target =
          get_rule (self, k)->is_converter ? NULL : find_rewritten_target (self, position, k, &sample);

      if (target == NULL)
        continue;
      g_autofree gchar *renaming_name = weft_weight_transform_describe (get_rule (self, k)->transform);
      g_autofree gchar *converter_name =
          weft_weight_transform_describe (get_rule (self, position)->transform);

      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_PATTERN,
          "%s: would rename '%s', which is made by %s; renamings run before converters, so write the final name "
          "as the converter's target, or put the renaming before it if it is meant for the published names",
          renaming_name, target, converter_name);
      return FALSE;
    }
  return TRUE;
}

/**
 * weft_transform_list_check_order:
 * @self: a list as written, for the load direction
 * @error: return location
 *
 * Checks that no renaming behind a converter is meant for the names that the converter makes: renamings always run first,
 * and on save last, so such a rule would never do what it says.
 *
 * Returns: whether the order is sound
 * Errors: %WEFT_ERROR_PATTERN if it is not
 * Since: 1.0
 */
gboolean
weft_transform_list_check_order (WeftTransformList *self, GError **error)
{
  for (guint i = 0; i < self->rules->len; i++)
    if (get_rule (self, i)->is_converter && !check_converter_order (self, i, error))
      return FALSE;
  return TRUE;
}
