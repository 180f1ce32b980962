/* SPDX-License-Identifier: Apache-2.0 */
#include "mapping/weft-mapping-lint.h"

#include <string.h>

#include "mapping/weft-name-sampler-private.h"
#include "transform/weft-group-weight-rename.h"

/* Names made for one rule. */
#define N_NAMES_A_RULE 32

/* A renaming that matched, and what it made of the name. */
typedef struct
{
  guint rule;
  gchar *before;
  gchar *after;
  gchar *pattern;
} Step;

typedef struct
{
  WeftTransformList *list;
  guint n_rules;
  /* WeftWeightTransform, NULL where there is none. */
  GPtrArray *inverses;
  /* GPtrArray of names for each rule, made from its own pattern. */
  GPtrArray *samples;
  /* Published names to send through the list: a set, and in order. */
  GHashTable *key_set;
  GPtrArray *keys;
  /* GRegex by "rule pattern". */
  GHashTable *strict_patterns;
  /* Whether a rule matched a name where its turn came; for a converter, whether it was the first to match. */
  gboolean *has_fired;
  /* WeftLintFinding by what it is about; the shortest name is kept. */
  GHashTable *by_subject;
} Linter;

static void
step_clear (gpointer user_data)
{
  Step *step = user_data;

  g_free (step->before);
  g_free (step->after);
  g_free (step->pattern);
}

/* Arrays of what some rules have not. */
static void
unref_object (gpointer object)
{
  if (object != NULL)
    g_object_unref (object);
}

static void
linter_free (Linter *self)
{
  g_clear_object (&self->list);
  g_ptr_array_unref (self->inverses);
  g_ptr_array_unref (self->samples);
  g_ptr_array_unref (self->keys);
  g_hash_table_unref (self->key_set);
  g_hash_table_unref (self->strict_patterns);
  g_hash_table_unref (self->by_subject);
  g_free (self->has_fired);
  g_free (self);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Linter, linter_free)

static WeftWeightTransform *
get_rule (Linter *self, guint rule)
{
  return weft_transform_list_get_transform (self->list, rule);
}

static gboolean
is_converter (Linter *self, guint rule)
{
  return weft_transform_list_is_converter (self->list, rule);
}

/* What one rule makes of a name; NULL if it does not match. */
static gchar *
try_rule (WeftWeightTransform *rule, const gchar *name, gchar **pattern)
{
  g_autofree gchar *matched = NULL;
  gchar *renamed = weft_weight_transform_rename_key (rule, name, &matched, NULL);

  if (pattern != NULL)
    *pattern = g_steal_pointer (&matched);
  return renamed;
}

static gboolean
matches (Linter *self, guint rule, const gchar *name)
{
  g_autofree gchar *renamed = try_rule (get_rule (self, rule), name, NULL);

  return renamed != NULL;
}

static void
take_step (Linter *self, guint rule, gchar **name, GArray *steps)
{
  Step step = { .rule = rule };

  step.after = try_rule (get_rule (self, rule), *name, &step.pattern);
  if (step.after == NULL)
    return;
  step.before = *name;
  *name = g_strdup (step.after);
  g_array_append_val (steps, step);
}

static GArray *
steps_new (void)
{
  GArray *steps = g_array_new (FALSE, FALSE, sizeof (Step));

  g_array_set_clear_func (steps, step_clear);
  return steps;
}

/* Sends a key through all renamings, of which @moved (-1: none) has its turn right before @place. */
static gchar *
rename_key (Linter *self, const gchar *key, gint moved, guint place, GArray *steps)
{
  gchar *name = g_strdup (key);

  weft_transform_list_reset (self->list);
  for (guint i = 0; i < self->n_rules; i++)
    {
      if (moved >= 0 && i == place)
        take_step (self, (guint) moved, &name, steps);
      if (!is_converter (self, i) && (gint) i != moved)
        take_step (self, i, &name, steps);
    }
  return name;
}

/* The detail is taken. Of several names that show the same the shortest is kept, of equally long ones the first. */
static void
add_finding (Linter *self, WeftLintKind kind, guint rule, gint other, const gchar *pattern, const gchar *key,
             gchar *detail)
{
  g_autofree gchar *subject =
      g_strdup_printf ("%d %u %d %s", kind, rule, other, pattern != NULL ? pattern : "");
  WeftLintFinding *known = g_hash_table_lookup (self->by_subject, subject);
  WeftLintFinding *finding;

  if (known != NULL
      && (strlen (known->key) < strlen (key)
          || (strlen (known->key) == strlen (key) && strcmp (known->key, key) <= 0)))
    {
      g_free (detail);
      return;
    }
  finding = g_new0 (WeftLintFinding, 1);
  finding->kind = kind;
  finding->rule = rule;
  finding->other = other;
  finding->pattern = g_strdup (pattern);
  finding->key = g_strdup (key);
  finding->detail = detail;
  g_hash_table_insert (self->by_subject, g_steal_pointer (&subject), finding);
}

/* Renamings change nothing of a name if they run from its result backwards and forwards: finds what a name that rule
 * @rule sees was called before the renamings ahead of it. */
static gchar *
find_published (Linter *self, guint rule, const gchar *name)
{
  gchar *published = g_strdup (name);

  for (guint i = rule; i > 0; i--)
    {
      g_autofree gchar *earlier = NULL;
      g_autofree gchar *again = NULL;

      if (is_converter (self, i - 1) || self->inverses->pdata[i - 1] == NULL)
        continue;
      earlier = try_rule (self->inverses->pdata[i - 1], published, NULL);
      again = earlier != NULL ? try_rule (get_rule (self, i - 1), earlier, NULL) : NULL;
      if (again == NULL || strcmp (again, published) != 0)
        continue;
      g_free (published);
      published = g_steal_pointer (&earlier);
    }
  return published;
}

static void
add_key (Linter *self, const gchar *key)
{
  gchar *copy;

  if (*key == '\0' || g_hash_table_contains (self->key_set, key))
    return;
  copy = g_strdup (key);
  g_hash_table_add (self->key_set, copy);
  g_ptr_array_add (self->keys, copy);
}

static GStrv
dup_keys (Linter *self)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < self->keys->len; i++)
    g_strv_builder_add (builder, self->keys->pdata[i]);
  return g_strv_builder_end (builder);
}

/* Keys from the patterns themselves: what each rule was written for, as that rule sees it and as it was published. */
static void
make_keys (Linter *self)
{
  for (guint i = 0; i < self->n_rules; i++)
    {
      GPtrArray *samples = self->samples->pdata[i];

      for (guint k = 0; k < samples->len; k++)
        {
          g_autofree gchar *published =
              find_published (self, is_converter (self, i) ? self->n_rules : i, samples->pdata[k]);

          add_key (self, samples->pdata[k]);
          add_key (self, published);
        }
    }
}

static Linter *
linter_new (WeftTransformList *list, GError **error)
{
  g_autoptr (WeftTransformList) copy = weft_transform_list_copy (list, error);
  Linter *self;

  if (copy == NULL)
    return NULL;
  self = g_new0 (Linter, 1);
  self->list = g_steal_pointer (&copy);
  self->n_rules = weft_transform_list_get_n_transforms (list);
  self->inverses = g_ptr_array_new_with_free_func (unref_object);
  self->samples = g_ptr_array_new_with_free_func ((GDestroyNotify) g_ptr_array_unref);
  self->key_set = g_hash_table_new (g_str_hash, g_str_equal);
  self->keys = g_ptr_array_new_with_free_func (g_free);
  self->strict_patterns =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_regex_unref);
  self->by_subject =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) weft_lint_finding_free);
  self->has_fired = g_new0 (gboolean, MAX (self->n_rules, 1));
  for (guint i = 0; i < self->n_rules; i++)
    {
      g_ptr_array_add (self->inverses, weft_weight_transform_dup_inverse (get_rule (self, i), NULL));
      g_ptr_array_add (self->samples, weft_sample_names (get_rule (self, i), N_NAMES_A_RULE));
    }
  return self;
}

/* What two rules make of a name, one after the other. */
static gchar *
apply_both (Linter *self, guint first, guint second, const gchar *name)
{
  g_autofree gchar *once = NULL;
  gchar *twice;

  weft_transform_list_reset (self->list);
  once = try_rule (get_rule (self, first), name, NULL);
  twice = try_rule (get_rule (self, second), once != NULL ? once : name, NULL);
  if (twice != NULL)
    return twice;
  return once != NULL ? g_steal_pointer (&once) : g_strdup (name);
}

/* How two renamings get in each other's way. */
static const gchar *
describe_order (Linter *self, const Step *step, guint later)
{
  gboolean matches_before = matches (self, later, step->before);
  gboolean matches_after = matches (self, later, step->after);

  if (matches_before && !matches_after)
    return "the earlier one takes what the later one would take as well";
  return matches_before ? "both change it" : "the earlier one makes what the later one looks for";
}

/* The order of two rules matters if they alone give another name the other way round, and the whole list does so too. */
static void
check_order_of (Linter *self, const gchar *key, const gchar *result, const Step *step, guint later)
{
  g_autofree gchar *in_order = apply_both (self, step->rule, later, step->before);
  g_autofree gchar *reversed = apply_both (self, later, step->rule, step->before);
  g_autoptr (GArray) steps = steps_new ();
  g_autofree gchar *other_result = NULL;

  if (strcmp (in_order, reversed) == 0)
    return;
  other_result = rename_key (self, key, (gint) later, step->rule, steps);
  if (strcmp (result, other_result) != 0)
    add_finding (self, WEFT_LINT_KIND_ORDER, later, (gint) step->rule, NULL, key,
                 g_strdup_printf ("%s: it becomes '%s'; with rule %u before rule %u it would become '%s'",
                                  describe_order (self, step, later), result, later, step->rule,
                                  other_result));
}

static void
check_order (Linter *self, const gchar *key, const gchar *result, GArray *steps)
{
  for (guint i = 0; i < steps->len; i++)
    {
      const Step *step = &g_array_index (steps, Step, i);

      for (guint later = step->rule + 1; later < self->n_rules && strcmp (step->before, step->after) != 0;
           later++)
        if (!is_converter (self, later))
          check_order_of (self, key, result, step, later);
    }
}

/* Groups keep a guard that the keys before have set: one name alone says nothing about their inverse. */
static gboolean
is_guarded (Linter *self, guint rule)
{
  return WEFT_IS_GROUP_WEIGHT_RENAME (get_rule (self, rule));
}

static void
check_inverse_of_renaming (Linter *self, const gchar *key, const Step *step)
{
  WeftWeightTransform *inverse = self->inverses->pdata[step->rule];
  g_autofree gchar *back = inverse != NULL ? try_rule (inverse, step->after, NULL) : NULL;
  const gchar *name = back != NULL ? back : step->after;

  if (is_guarded (self, step->rule) || strcmp (name, step->before) == 0)
    return;
  add_finding (self, WEFT_LINT_KIND_IRREVERSIBLE, step->rule, -1, step->pattern, key,
               g_strdup_printf ("the rule makes '%s' of '%s', and its inverse makes '%s' of that",
                                step->after, step->before, name));
}

/* The pattern as it is searched, each dot that stands for itself escaped or not. */
static gchar *
write_regex (const gchar *pattern, gboolean escapes_dots)
{
  GString *regex = g_string_new (NULL);
  g_autoptr (GString) translated = g_string_new (pattern);
  gboolean is_in_class = FALSE;
  gsize length;

  g_string_replace (translated, "*.", ".*\\.", 0);
  for (const gchar *at = translated->str; *at != '\0'; at++)
    {
      is_in_class = *at == '[' || (is_in_class && *at != ']');
      if (*at == '\\' && at[1] != '\0')
        g_string_append_c (regex, *at++);
      else if (*at == '.' && escapes_dots && !is_in_class
               && strchr ("*+?{", at[1] != '\0' ? at[1] : '.') == NULL)
        g_string_append_c (regex, '\\');
      g_string_append_c (regex, *at);
    }
  length = strlen (pattern);
  if (length > 0 && g_ascii_isalnum (pattern[length - 1]))
    g_string_append (regex, "(?!\\w)");
  return g_string_free (regex, FALSE);
}

static GRegex *
get_regex (Linter *self, const gchar *pattern, gboolean escapes_dots)
{
  g_autofree gchar *subject = g_strdup_printf ("%d %s", escapes_dots, pattern);
  GRegex *regex = g_hash_table_lookup (self->strict_patterns, subject);

  if (regex == NULL)
    {
      g_autofree gchar *text = write_regex (pattern, escapes_dots);

      regex = g_regex_new (text, 0, 0, NULL);
      if (regex != NULL)
        g_hash_table_insert (self->strict_patterns, g_steal_pointer (&subject), regex);
    }
  return regex;
}

static gboolean
searches (Linter *self, const gchar *pattern, gboolean escapes_dots, const gchar *text)
{
  GRegex *regex = get_regex (self, pattern, escapes_dots);

  return regex != NULL && g_regex_match (regex, text, 0, NULL);
}

static void
check_dots (Linter *self, const gchar *key, guint rule, const gchar *pattern, const gchar *name)
{
  gsize consumed = 0;

  if (pattern == NULL || !weft_weight_transform_enter_scope (get_rule (self, rule), name, &consumed)
      || !searches (self, pattern, FALSE, name + consumed) || searches (self, pattern, TRUE, name + consumed))
    return;
  add_finding (self, WEFT_LINT_KIND_LOOSE_DOT, rule, -1, pattern, key,
               g_strdup_printf ("'%s' matches '%s', and would not if its dots were dots", pattern, name));
}

/* Whether @name holds @part, whose stars stand for one part of a name. */
static gboolean
holds (const gchar *name, const gchar *part)
{
  g_autofree gchar *escaped = g_regex_escape_string (part, -1);
  g_autoptr (GString) text = g_string_new (escaped);
  g_autoptr (GRegex) regex = NULL;

  g_string_replace (text, "\\*", "[^.]+", 0);
  regex = g_regex_new (text->str, 0, 0, NULL);
  return regex != NULL && g_regex_match (regex, name, 0, NULL);
}

/* What the inverse of a converter writes for the source that matched. */
static gchar *
write_source (Linter *self, guint rule, const gchar *pattern, const gchar *made)
{
  const gchar *const *sources = weft_weight_transform_get_source_patterns (get_rule (self, rule));
  g_auto (GStrv) written = weft_weight_transform_resolve_targets (self->inverses->pdata[rule], made, NULL);

  for (guint i = 0; written != NULL && sources[i] != NULL && written[i] != NULL; i++)
    if (strcmp (sources[i], pattern) == 0)
      return g_strdup (written[i]);
  return NULL;
}

static void
check_inverse_of_converter (Linter *self, const gchar *key, guint rule, const gchar *pattern,
                            const gchar *name)
{
  g_autofree gchar *made = try_rule (get_rule (self, rule), name, NULL);
  g_autofree gchar *written = NULL;

  if (self->inverses->pdata[rule] == NULL)
    {
      g_autoptr (GError) reason = NULL;
      g_autoptr (WeftWeightTransform) inverse =
          weft_weight_transform_dup_inverse (get_rule (self, rule), &reason);

      if (inverse == NULL)
        add_finding (self, WEFT_LINT_KIND_IRREVERSIBLE, rule, -1, NULL, key, g_strdup (reason->message));
      return;
    }
  written = write_source (self, rule, pattern, made);
  if (written == NULL)
    add_finding (
        self, WEFT_LINT_KIND_IRREVERSIBLE, rule, -1, pattern, key,
        g_strdup_printf ("the converter makes '%s' of '%s', which its inverse does not match", made, name));
  else if (!holds (name, written))
    add_finding (self, WEFT_LINT_KIND_IRREVERSIBLE, rule, -1, pattern, key,
                 g_strdup_printf ("the converter takes '%s', and its inverse writes '%s'", name, written));
}

/* What became of a key when the renamings were through: which converter takes it, and which ones would. */
static void
check_converters (Linter *self, const gchar *key, const gchar *name)
{
  gint first = -1;

  for (guint i = 0; i < self->n_rules; i++)
    {
      g_autofree gchar *pattern = NULL;
      g_autofree gchar *made = is_converter (self, i) ? try_rule (get_rule (self, i), name, &pattern) : NULL;

      if (made == NULL)
        continue;
      check_dots (self, key, i, pattern, name);
      check_inverse_of_converter (self, key, i, pattern, name);
      if (first < 0)
        {
          first = (gint) i;
          self->has_fired[i] = TRUE;
          continue;
        }
      add_finding (
          self, WEFT_LINT_KIND_OVERLAP, i, first, NULL, key,
          g_strdup_printf ("as '%s' it fits rule %d and rule %u; rule %d takes it", name, first, i, first));
    }
}

static void
check_key (Linter *self, const gchar *key)
{
  g_autoptr (GArray) steps = steps_new ();
  g_autofree gchar *name = rename_key (self, key, -1, 0, steps);

  for (guint i = 0; i < steps->len; i++)
    {
      const Step *step = &g_array_index (steps, Step, i);

      self->has_fired[step->rule] = TRUE;
      check_inverse_of_renaming (self, key, step);
      check_dots (self, key, step->rule, step->pattern, step->before);
    }
  check_order (self, key, name, steps);
  check_converters (self, key, name);
}

/* Which earlier renaming makes a name that @rule matches into one that it does not; -1 for none. */
static gint
find_taker (Linter *self, guint rule, const gchar *name, gchar **made)
{
  g_autoptr (GArray) steps = steps_new ();

  g_free (rename_key (self, name, -1, 0, steps));
  for (guint i = 0; i < steps->len; i++)
    {
      const Step *step = &g_array_index (steps, Step, i);

      if ((step->rule > rule && !is_converter (self, rule)) || !matches (self, rule, step->before)
          || matches (self, rule, step->after))
        continue;
      *made = g_strdup (step->after);
      return (gint) step->rule;
    }
  return -1;
}

/* A rule that no name reached, though there are names that it matches. */
static void
check_shadowed (Linter *self, guint rule)
{
  GPtrArray *samples = self->samples->pdata[rule];

  for (guint i = 0; !self->has_fired[rule] && !is_guarded (self, rule) && i < samples->len; i++)
    {
      const gchar *name = samples->pdata[i];
      g_autofree gchar *made = NULL;
      gint taker = find_taker (self, rule, name, &made);

      if (taker >= 0)
        add_finding (
            self, WEFT_LINT_KIND_SHADOWED, rule, taker, NULL, name,
            g_strdup_printf ("the rule matches it, but rule %d makes '%s' of it first", taker, made));
    }
}

/* A converter that overlaps and never comes first is shadowed. */
static void
promote_overlaps (Linter *self)
{
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->by_subject);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    {
      WeftLintFinding *finding = value;

      if (finding->kind == WEFT_LINT_KIND_OVERLAP && !self->has_fired[finding->rule])
        finding->kind = WEFT_LINT_KIND_SHADOWED;
    }
}

static void
check_outputs (Linter *self)
{
  for (guint i = 0; i < self->n_rules; i++)
    for (guint k = i + 1; is_converter (self, i) && k < self->n_rules; k++)
      {
        g_autofree gchar *name =
            is_converter (self, k) ? NULL : weft_transform_list_find_rewritten_output (self->list, i, k);
        g_autofree gchar *renamed = name != NULL ? try_rule (get_rule (self, k), name, NULL) : NULL;

        if (renamed != NULL)
          add_finding (self, WEFT_LINT_KIND_REWRITTEN_OUTPUT, k, (gint) i, NULL, name,
                       g_strdup_printf ("rule %u makes '%s', of which the renaming would make '%s'", i, name,
                                        renamed));
      }
}

static gint
compare_findings (gconstpointer a, gconstpointer b)
{
  const WeftLintFinding *finding_a = *(const WeftLintFinding *const *) a;
  const WeftLintFinding *finding_b = *(const WeftLintFinding *const *) b;

  if (finding_a->rule != finding_b->rule)
    return finding_a->rule < finding_b->rule ? -1 : 1;
  if (finding_a->kind != finding_b->kind)
    return finding_a->kind < finding_b->kind ? -1 : 1;
  if (finding_a->other != finding_b->other)
    return finding_a->other < finding_b->other ? -1 : 1;
  return g_strcmp0 (finding_a->pattern, finding_b->pattern);
}

static GPtrArray *
list_findings (Linter *self)
{
  GPtrArray *findings = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_lint_finding_free);
  GHashTableIter iter;
  gpointer value;

  g_hash_table_iter_init (&iter, self->by_subject);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    g_ptr_array_add (findings, weft_lint_finding_copy (value));
  g_ptr_array_sort (findings, compare_findings);
  return findings;
}

static gboolean
is_cancelled (GCancellable *cancellable, GError **error)
{
  if (!g_cancellable_is_cancelled (cancellable))
    return FALSE;
  g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "cancelled");
  return TRUE;
}

/**
 * weft_mapping_lint:
 * @list: rules for the load direction
 * @keys: (nullable) (array zero-terminated=1): published names, such as those of a checkpoint
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Sends names through the rules and reports what is doubtful: converters that overlap, rules that others shadow, renamings
 * whose order matters, rules that do not reverse, renamings of what a converter makes, dots that match something else than
 * dots. Without @keys the names are made from the patterns, each rule's own. Nothing is reported that a name does not show.
 *
 * Returns: (transfer container) (element-type WeftLintFinding): what was found, by rule
 * Errors: those of weft_transform_list_copy(), %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
GPtrArray *
weft_mapping_lint (WeftTransformList *list, const gchar *const *keys, GCancellable *cancellable,
                   GError **error)
{
  g_autoptr (Linter) self = linter_new (list, error);

  if (self == NULL)
    return NULL;
  if (keys == NULL)
    make_keys (self);
  for (guint i = 0; keys != NULL && keys[i] != NULL; i++)
    add_key (self, keys[i]);
  for (guint i = 0; i < self->keys->len; i++)
    {
      if (is_cancelled (cancellable, error))
        return NULL;
      check_key (self, self->keys->pdata[i]);
    }
  for (guint i = 0; keys == NULL && i < self->n_rules; i++)
    check_shadowed (self, i);
  if (keys == NULL)
    promote_overlaps (self);
  check_outputs (self);
  return list_findings (self);
}

/**
 * weft_mapping_sample_names:
 * @list: rules for the load direction
 * @error: return location
 *
 * Names that the rules were written for, made from their patterns: as each rule sees them, and as they were published if
 * earlier rules have changed them. They are made up, but the rules do match them.
 *
 * Returns: (transfer full): the names
 * Errors: those of weft_transform_list_copy()
 * Since: 1.0
 */
GStrv
weft_mapping_sample_names (WeftTransformList *list, GError **error)
{
  g_autoptr (Linter) self = linter_new (list, error);

  if (self == NULL)
    return NULL;
  make_keys (self);
  return dup_keys (self);
}

/**
 * weft_mapping_lint_idle:
 * @list: rules for the load direction
 * @keys: (array zero-terminated=1): published names
 * @cancellable: (nullable): stops the work
 * @error: return location
 *
 * Returns: (transfer container) (element-type WeftLintFinding): the rules that match none of the names where their turn
 *   comes
 * Errors: those of weft_transform_list_copy(), %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
GPtrArray *
weft_mapping_lint_idle (WeftTransformList *list, const gchar *const *keys, GCancellable *cancellable,
                        GError **error)
{
  g_autoptr (Linter) self = linter_new (list, error);

  if (self == NULL)
    return NULL;
  for (guint i = 0; keys[i] != NULL; i++)
    {
      g_autoptr (GArray) steps = steps_new ();
      g_autofree gchar *name = rename_key (self, keys[i], -1, 0, steps);

      if (is_cancelled (cancellable, error))
        return NULL;
      for (guint k = 0; k < steps->len; k++)
        self->has_fired[g_array_index (steps, Step, k).rule] = TRUE;
      for (guint k = 0; k < self->n_rules; k++)
        self->has_fired[k] = self->has_fired[k] || (is_converter (self, k) && matches (self, k, name));
    }
  for (guint i = 0; i < self->n_rules; i++)
    if (!self->has_fired[i] && !is_guarded (self, i))
      add_finding (self, WEFT_LINT_KIND_IDLE, i, -1, NULL, "",
                   g_strdup_printf ("none of the %u names that are known", g_strv_length ((GStrv) keys)));
  return list_findings (self);
}

/* The name with its numbers left out: one of each such shape is enough. */
static gchar *
make_shape (const gchar *name)
{
  g_auto (GStrv) parts = g_strsplit (name, ".", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    if (*parts[i] != '\0' && strspn (parts[i], "0123456789") == strlen (parts[i]))
      parts[i][0] = '\0';
  return g_strjoinv (".", parts);
}

/* What the sources of a converter would be called if it made @name. */
static void
add_sources (Linter *self, guint rule, const gchar *name)
{
  g_autofree gchar *first = NULL;
  g_auto (GStrv) written = NULL;

  if (self->inverses->pdata[rule] == NULL)
    return;
  first = try_rule (self->inverses->pdata[rule], name, NULL);
  written =
      first != NULL ? weft_weight_transform_resolve_targets (self->inverses->pdata[rule], name, NULL) : NULL;
  for (guint i = 0; written != NULL && written[i] != NULL; i++)
    {
      g_autoptr (GString) source = g_string_new (first);
      g_autofree gchar *published = NULL;

      g_string_replace (source, written[0], written[i], 1);
      g_string_replace (source, "*", "0", 0);
      published = find_published (self, self->n_rules, source->str);
      add_key (self, source->str);
      add_key (self, published);
    }
}

/* What a name was called before each of the renamings that may have made it. */
static void
add_origins (Linter *self, guint rule, const gchar *name)
{
  WeftWeightTransform *inverse = self->inverses->pdata[rule];
  g_autofree gchar *earlier = inverse != NULL ? try_rule (inverse, name, NULL) : NULL;
  g_autofree gchar *published = earlier != NULL ? find_published (self, rule, earlier) : NULL;

  if (published != NULL)
    {
      add_key (self, earlier);
      add_key (self, published);
    }
}

/**
 * weft_mapping_guess_published:
 * @list: rules for the load direction
 * @runtime_names: (array zero-terminated=1): names that the rules lead to
 * @error: return location
 *
 * What names may have been published as, if they were converted by these rules: each as it is, and through the inverses of
 * the rules. Names that differ by numbers alone are taken once.
 *
 * Returns: (transfer full): names to lint by
 * Errors: those of weft_transform_list_copy()
 * Since: 1.0
 */
GStrv
weft_mapping_guess_published (WeftTransformList *list, const gchar *const *runtime_names, GError **error)
{
  g_autoptr (Linter) self = linter_new (list, error);
  g_autoptr (GHashTable) shapes = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);

  if (self == NULL)
    return NULL;
  for (guint i = 0; runtime_names[i] != NULL; i++)
    {
      g_autofree gchar *published = find_published (self, self->n_rules, runtime_names[i]);

      if (!g_hash_table_add (shapes, make_shape (runtime_names[i])))
        continue;
      add_key (self, runtime_names[i]);
      add_key (self, published);
      for (guint k = 0; k < self->n_rules; k++)
        if (is_converter (self, k))
          add_sources (self, k, runtime_names[i]);
        else
          add_origins (self, k, runtime_names[i]);
    }
  return dup_keys (self);
}
