/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-weight-transform-private.h"

#include <string.h>

#include "plugin/weft-plugin-registry.h"
#include "transform/weft-pattern-text-private.h"

G_DEFINE_INTERFACE (WeftWeightTransform, weft_weight_transform, G_TYPE_OBJECT)

static G_DEFINE_QUARK (weft - transform - state, weft_transform_state)

    static void weft_weight_transform_default_init (WeftWeightTransformInterface *iface)
{
}

static void
free_state (gpointer pointer)
{
  WeftTransformState *state = pointer;

  g_strfreev (state->written_sources);
  g_strfreev (state->written_targets);
  g_strfreev (state->sources);
  g_strfreev (state->targets);
  g_clear_pointer (&state->pattern, weft_pattern_unref);
  g_free (state->scope_prefix);
  g_free (state->base_model_prefix);
  g_free (state->origin);
  g_free (state->origin_path);
  g_free (state->origin_via);
  g_free (state);
}

/* weft_weight_transform_get_state: the state hangs on the instance, so that a class need not derive from ours. */
WeftTransformState *
weft_weight_transform_get_state (WeftWeightTransform *self)
{
  WeftTransformState *state = g_object_get_qdata (G_OBJECT (self), weft_transform_state_quark ());

  if (state == NULL)
    {
      state = g_new0 (WeftTransformState, 1);
      g_object_set_qdata_full (G_OBJECT (self), weft_transform_state_quark (), state, free_state);
    }
  return state;
}

/**
 * weft_weight_transform_prepare:
 * @self: a rule whose properties are set
 * @error: return location
 *
 * Checks the rule and compiles its patterns. The constructors of the library do so; after `g_object_new()` it is to be
 * called once. A prepared rule does not change.
 *
 * Returns: whether the rule is valid
 * Errors: %WEFT_ERROR_PATTERN if it is not
 * Since: 1.0
 */
gboolean
weft_weight_transform_prepare (WeftWeightTransform *self, GError **error)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);
  WeftWeightTransformInterface *iface = WEFT_WEIGHT_TRANSFORM_GET_IFACE (self);
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *name = NULL;

  if (state->is_prepared)
    return TRUE;
  state->is_prepared = iface->prepare == NULL || iface->prepare (self, &local_error);
  if (state->is_prepared)
    return TRUE;
  name = weft_weight_transform_describe (self);
  if (local_error == NULL)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN_CONTRACT, "%s: prepare failed without an error", name);
  else
    g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", name);
  return FALSE;
}

/* Values of all properties that make up the rule; the patterns change sides for the inverse. */
static void
collect_properties (WeftWeightTransform *self, gboolean is_inverse, GPtrArray *names, GArray *values)
{
  g_autofree GParamSpec **properties = NULL;
  guint n_properties;

  properties = g_object_class_list_properties (G_OBJECT_GET_CLASS (self), &n_properties);
  for (guint i = 0; i < n_properties; i++)
    {
      const gchar *name = properties[i]->name;
      GValue value = G_VALUE_INIT;

      /* What is searched in place of the sources is no part of the inverse, which writes the sources. */
      if ((properties[i]->flags & G_PARAM_READWRITE) != G_PARAM_READWRITE
          || (is_inverse && strcmp (name, "match-patterns") == 0))
        continue;
      g_value_init (&value, properties[i]->value_type);
      g_object_get_property (G_OBJECT (self), name, &value);
      if (is_inverse && strcmp (name, "source-patterns") == 0)
        name = "target-patterns";
      else if (is_inverse && strcmp (name, "target-patterns") == 0)
        name = "source-patterns";
      g_ptr_array_add (names, (gpointer) name);
      g_array_append_val (values, value);
    }
}

/* weft_weight_transform_clone: a new rule, not yet prepared, with the properties, the scope and the origin of @self. */
WeftWeightTransform *
weft_weight_transform_clone (WeftWeightTransform *self, gboolean is_inverse)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);
  g_autoptr (GPtrArray) names = g_ptr_array_new ();
  g_autoptr (GArray) values = g_array_new (FALSE, FALSE, sizeof (GValue));
  WeftWeightTransform *clone;
  WeftTransformState *clone_state;

  g_array_set_clear_func (values, (GDestroyNotify) g_value_unset);
  collect_properties (self, is_inverse, names, values);
  clone = WEFT_WEIGHT_TRANSFORM (g_object_new_with_properties (G_OBJECT_TYPE (self), names->len,
                                                               (const gchar **) names->pdata,
                                                               (const GValue *) (gpointer) values->data));
  clone_state = weft_weight_transform_get_state (clone);
  clone_state->scope_prefix = g_strdup (state->scope_prefix);
  clone_state->base_model_prefix = g_strdup (state->base_model_prefix);
  clone_state->origin = g_strdup (state->origin);
  clone_state->origin_index = state->origin_index;
  clone_state->origin_path = g_strdup (state->origin_path);
  clone_state->origin_via = g_strdup (state->origin_via);
  clone_state->is_inverse = is_inverse ? !state->is_inverse : state->is_inverse;
  if (!is_inverse && state->pattern != NULL)
    {
      clone_state->sources = g_strdupv (state->sources);
      clone_state->pattern = weft_pattern_ref (state->pattern);
    }
  return clone;
}

/**
 * weft_weight_transform_copy:
 * @self: a rule
 * @error: return location
 *
 * A copy with the same patterns, scope and origin that has learnt nothing.
 *
 * Returns: (transfer full): the copy
 * Errors: those of the rule's class
 * Since: 1.0
 */
WeftWeightTransform *
weft_weight_transform_copy (WeftWeightTransform *self, GError **error)
{
  g_autoptr (WeftWeightTransform) copy = weft_weight_transform_clone (self, FALSE);

  return weft_weight_transform_prepare (copy, error) ? g_steal_pointer (&copy) : NULL;
}

/* weft_weight_transform_try: renames without noting that the rule was used. */
gchar *
weft_weight_transform_try (WeftWeightTransform *self, const gchar *key, gchar **source_pattern,
                           GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autofree gchar *pattern = NULL;
  g_autofree gchar *renamed =
      WEFT_WEIGHT_TRANSFORM_GET_IFACE (self)->rename_key (self, key, &pattern, &local_error);

  if (local_error != NULL)
    {
      g_autofree gchar *name = weft_weight_transform_describe (self);

      g_propagate_prefixed_error (error, g_steal_pointer (&local_error), "%s: ", name);
      return NULL;
    }
  if (renamed == NULL)
    return NULL;
  if (source_pattern != NULL)
    *source_pattern =
        pattern != NULL ? g_steal_pointer (&pattern) : g_strdup (weft_weight_transform_get_kind (self));
  return g_steal_pointer (&renamed);
}

/**
 * weft_weight_transform_rename_key:
 * @self: a rule
 * @key: a tensor name
 * @source_pattern: (out) (optional) (nullable) (transfer full): the source pattern that matched
 * @error: return location
 *
 * Renames one key. The rule is marked as used if it matched, even if the new name is the old one.
 *
 * Returns: (transfer full) (nullable): the new key, or %NULL if the rule does not match (no error is set then)
 * Errors: %WEFT_ERROR_FORMAT if @key is not UTF-8, and those of the rule's class
 * Since: 1.0
 */
gchar *
weft_weight_transform_rename_key (WeftWeightTransform *self, const gchar *key, gchar **source_pattern,
                                  GError **error)
{
  g_autofree gchar *renamed = NULL;

  if (source_pattern != NULL)
    *source_pattern = NULL;
  renamed = weft_weight_transform_try (self, key, source_pattern, error);
  if (renamed != NULL)
    weft_weight_transform_set_used (self, TRUE);
  return g_steal_pointer (&renamed);
}

/**
 * weft_weight_transform_dup_inverse:
 * @self: a rule
 * @error: return location
 *
 * Makes the rule for the other direction: targets become sources, ops are reversed; scope and origin stay.
 *
 * Returns: (transfer full): the inverse, that has learnt nothing
 * Errors: %WEFT_ERROR_NOT_REVERSIBLE if there is none
 * Since: 1.0
 */
WeftWeightTransform *
weft_weight_transform_dup_inverse (WeftWeightTransform *self, GError **error)
{
  WeftWeightTransformInterface *iface = WEFT_WEIGHT_TRANSFORM_GET_IFACE (self);
  g_autoptr (GError) local_error = NULL;
  g_autoptr (WeftWeightTransform) inverse = NULL;
  g_autofree gchar *name = NULL;

  inverse = iface->dup_inverse != NULL ? iface->dup_inverse (self, &local_error) : NULL;
  if (inverse != NULL && weft_weight_transform_prepare (inverse, &local_error))
    return g_steal_pointer (&inverse);
  name = weft_weight_transform_describe (self);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_NOT_REVERSIBLE, "%s: cannot be reversed: %s", name,
               local_error != NULL ? local_error->message : "its class has no inverse");
  return NULL;
}

/**
 * weft_weight_transform_reset:
 * @self: a rule
 *
 * Forgets what was learnt from keys.
 *
 * Since: 1.0
 */
void
weft_weight_transform_reset (WeftWeightTransform *self)
{
  WeftWeightTransformInterface *iface = WEFT_WEIGHT_TRANSFORM_GET_IFACE (self);

  weft_weight_transform_get_state (self)->is_used = FALSE;
  if (iface->reset != NULL)
    iface->reset (self);
}

/**
 * weft_weight_transform_get_kind:
 * @self: a rule
 *
 * Returns: the name of its kind, as in the JSON member `type`, such as `WeightRenaming`
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_kind (WeftWeightTransform *self)
{
  const gchar *feature = weft_feature_get_name (G_OBJECT_TYPE (self));
  const gchar *name = G_OBJECT_TYPE_NAME (self);

  if (feature != NULL)
    return feature;
  return g_str_has_prefix (name, "Weft") ? name + strlen ("Weft") : name;
}

static const gchar *const *
list_or_empty (GStrv list)
{
  static const gchar *const empty[] = { NULL };

  return list != NULL ? (const gchar *const *) list : empty;
}

/**
 * weft_weight_transform_get_source_patterns:
 * @self: a rule
 *
 * Returns: (transfer none) (array zero-terminated=1): the sources as they are matched, regular expressions
 * Since: 1.0
 */
const gchar *const *
weft_weight_transform_get_source_patterns (WeftWeightTransform *self)
{
  return list_or_empty (weft_weight_transform_get_state (self)->sources);
}

/**
 * weft_weight_transform_get_target_patterns:
 * @self: a rule
 *
 * Returns: (transfer none) (array zero-terminated=1): the targets as they are put into names
 * Since: 1.0
 */
const gchar *const *
weft_weight_transform_get_target_patterns (WeftWeightTransform *self)
{
  return list_or_empty (weft_weight_transform_get_state (self)->targets);
}

/**
 * weft_weight_transform_get_written_sources:
 * @self: a rule
 *
 * Returns: (transfer none) (array zero-terminated=1): the sources as they were written
 * Since: 1.0
 */
const gchar *const *
weft_weight_transform_get_written_sources (WeftWeightTransform *self)
{
  return list_or_empty (weft_weight_transform_get_state (self)->written_sources);
}

/**
 * weft_weight_transform_get_written_targets:
 * @self: a rule
 *
 * Returns: (transfer none) (array zero-terminated=1): the targets as they were written
 * Since: 1.0
 */
const gchar *const *
weft_weight_transform_get_written_targets (WeftWeightTransform *self)
{
  return list_or_empty (weft_weight_transform_get_state (self)->written_targets);
}

/**
 * weft_weight_transform_get_regex:
 * @self: a rule
 *
 * Returns: (transfer none) (nullable): the regular expression of all sources, or %NULL if the rule has none
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_regex (WeftWeightTransform *self)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);

  return state->pattern != NULL ? weft_pattern_get_text (state->pattern) : NULL;
}

static void
append_quoted (GString *text, const gchar *const *patterns)
{
  for (guint i = 0; patterns[i] != NULL; i++)
    g_string_append_printf (text, "%s'%s'", i > 0 ? ", " : "", patterns[i]);
}

/**
 * weft_weight_transform_describe:
 * @self: a rule
 *
 * Returns: (transfer full): the rule for a message, such as `mixtral, rule 0: WeightRenaming 'a' -> 'b'`
 * Since: 1.0
 */
gchar *
weft_weight_transform_describe (WeftWeightTransform *self)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);
  g_autoptr (GString) text = g_string_new (NULL);

  if (state->origin != NULL)
    g_string_append_printf (text, "%s, rule %u: ", state->origin, state->origin_index);
  g_string_append (text, weft_weight_transform_get_kind (self));
  if (state->written_sources != NULL && state->written_targets != NULL)
    {
      g_string_append_c (text, ' ');
      append_quoted (text, list_or_empty (state->written_sources));
      g_string_append (text, " -> ");
      append_quoted (text, list_or_empty (state->written_targets));
    }
  if (state->scope_prefix != NULL)
    g_string_append_printf (text, " in scope '%s'", state->scope_prefix);
  return g_string_free (g_steal_pointer (&text), FALSE);
}

/**
 * weft_weight_transform_set_scope:
 * @self: a rule
 * @scope_prefix: (nullable): the path of the sub-model that the rule is for; empty for the base model itself; %NULL for
 *   the whole key
 * @base_model_prefix: (nullable): the root's base model prefix, that may stand before @scope_prefix
 *
 * Since: 1.0
 */
void
weft_weight_transform_set_scope (WeftWeightTransform *self, const gchar *scope_prefix,
                                 const gchar *base_model_prefix)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);

  g_free (state->scope_prefix);
  state->scope_prefix = g_strdup (scope_prefix);
  g_free (state->base_model_prefix);
  state->base_model_prefix = g_strdup (base_model_prefix);
}

/**
 * weft_weight_transform_get_scope_prefix:
 * @self: a rule
 *
 * Returns: (transfer none) (nullable): the scope; an empty one is not the same as %NULL
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_scope_prefix (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->scope_prefix;
}

/**
 * weft_weight_transform_get_base_model_prefix:
 * @self: a rule
 *
 * Returns: (transfer none) (nullable): the base model prefix that may stand before the scope
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_base_model_prefix (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->base_model_prefix;
}

/* Moves @rest past `prefix.`; an empty or absent prefix is passed at once. */
static gboolean
skip_prefix (const gchar **rest, const gchar *prefix)
{
  gsize length = prefix != NULL ? strlen (prefix) : 0;

  if (length == 0)
    return TRUE;
  if (strncmp (*rest, prefix, length) != 0 || (*rest)[length] != '.')
    return FALSE;
  *rest += length + 1;
  return TRUE;
}

/**
 * weft_weight_transform_enter_scope:
 * @self: a rule
 * @key: a tensor name
 * @consumed: (out): the length in bytes of the part of @key that the scope takes
 *
 * Whether @key lies in the scope of the rule. The rule sees only what follows the part taken.
 *
 * Returns: whether it does
 * Since: 1.0
 */
gboolean
weft_weight_transform_enter_scope (WeftWeightTransform *self, const gchar *key, gsize *consumed)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);
  const gchar *rest = key;

  *consumed = 0;
  if (state->scope_prefix == NULL)
    return TRUE;
  if (!(skip_prefix (&rest, state->base_model_prefix) && skip_prefix (&rest, state->scope_prefix)))
    {
      rest = key;
      if (!skip_prefix (&rest, state->scope_prefix))
        return FALSE;
    }
  *consumed = (gsize) (rest - key);
  return TRUE;
}

/**
 * weft_weight_transform_set_origin:
 * @self: a rule
 * @entry: what the rule comes from: the name of a mapping, or `key_mapping`
 * @position: its index there
 *
 * Notes where the rule comes from, for messages.
 *
 * Since: 1.0
 */
void
weft_weight_transform_set_origin (WeftWeightTransform *self, const gchar *entry, guint position)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);

  g_free (state->origin);
  state->origin = g_strdup (entry);
  state->origin_index = position;
}

/**
 * weft_weight_transform_get_origin:
 * @self: a rule
 *
 * Returns: (transfer none) (nullable): the name of the mapping that the rule comes from
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_origin (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->origin;
}

/**
 * weft_weight_transform_get_origin_index:
 * @self: a rule
 *
 * Returns: the index of the rule in the mapping that it comes from
 * Since: 1.0
 */
guint
weft_weight_transform_get_origin_index (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->origin_index;
}

/**
 * weft_weight_transform_set_origin_model:
 * @self: a rule
 * @path: (nullable): path of the sub-model that the rule was found for; empty for the model itself
 * @via: (nullable): how its mapping was found: `class` or `model_type`
 *
 * Notes for which part of a model the rule is in its list.
 *
 * Since: 1.0
 */
void
weft_weight_transform_set_origin_model (WeftWeightTransform *self, const gchar *path, const gchar *via)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);

  g_free (state->origin_path);
  state->origin_path = g_strdup (path);
  g_free (state->origin_via);
  state->origin_via = g_strdup (via);
}

/**
 * weft_weight_transform_get_origin_path:
 * @self: a rule
 *
 * Returns: (transfer none) (nullable): path of the sub-model that the rule was found for, or %NULL if it is not for one
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_origin_path (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->origin_path;
}

/**
 * weft_weight_transform_get_origin_via:
 * @self: a rule
 *
 * Returns: (transfer none) (nullable): how the mapping of the rule was found: `class` or `model_type`
 * Since: 1.0
 */
const gchar *
weft_weight_transform_get_origin_via (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->origin_via;
}

/**
 * weft_weight_transform_get_used:
 * @self: a rule
 *
 * Returns: whether a key matched the rule since it was made, copied or reset
 * Since: 1.0
 */
gboolean
weft_weight_transform_get_used (WeftWeightTransform *self)
{
  return weft_weight_transform_get_state (self)->is_used;
}

/**
 * weft_weight_transform_set_used:
 * @self: a rule
 * @used: whether a key matched it
 *
 * Since: 1.0
 */
void
weft_weight_transform_set_used (WeftWeightTransform *self, gboolean used)
{
  weft_weight_transform_get_state (self)->is_used = used;
}

/* weft_weight_transform_set_all_patterns: weft_weight_transform_set_patterns(), and expressions to search in place of the
 * sources, or %NULL. */
gboolean
weft_weight_transform_set_all_patterns (WeftWeightTransform *self, const gchar *const *sources,
                                        const gchar *const *targets, const gchar *const *match_patterns,
                                        GError **error)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);
  g_auto (GStrv) new_sources = NULL;
  g_auto (GStrv) new_targets = NULL;

  g_return_val_if_fail (!state->is_prepared, FALSE);
  g_strfreev (state->written_sources);
  state->written_sources = g_strdupv ((gchar **) sources);
  g_strfreev (state->written_targets);
  state->written_targets = g_strdupv ((gchar **) targets);
  if (sources[0] == NULL || targets[0] == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "no %s patterns; write at least one",
                   sources[0] == NULL ? "source" : "target");
      return FALSE;
    }
  if (match_patterns != NULL
      && g_strv_length ((gchar **) match_patterns) != g_strv_length ((gchar **) sources))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                   "%u match patterns and %u sources; write one for each source",
                   g_strv_length ((gchar **) match_patterns), g_strv_length ((gchar **) sources));
      return FALSE;
    }
  if (!weft_pattern_normalise (sources, targets, &new_sources, &new_targets, error))
    return FALSE;
  if (match_patterns != NULL)
    {
      g_strfreev (new_sources);
      new_sources = g_strdupv ((gchar **) match_patterns);
    }
  /* A copy shares the compiled pattern of its original. */
  if (state->pattern == NULL
      || !g_strv_equal (list_or_empty (state->sources), (const gchar *const *) new_sources))
    {
      g_clear_pointer (&state->pattern, weft_pattern_unref);
      state->pattern = weft_pattern_new ((const gchar *const *) new_sources, error);
      if (state->pattern == NULL)
        return FALSE;
    }
  g_strfreev (state->sources);
  state->sources = g_steal_pointer (&new_sources);
  g_strfreev (state->targets);
  state->targets = g_steal_pointer (&new_targets);
  return TRUE;
}

/**
 * weft_weight_transform_set_patterns:
 * @self: a rule that is being prepared
 * @sources: (array zero-terminated=1): sources as written
 * @targets: (array zero-terminated=1): targets as written
 * @error: return location
 *
 * Normalises both lists and compiles the sources. For implementers, from `prepare`.
 *
 * Returns: whether the patterns are valid
 * Errors: %WEFT_ERROR_PATTERN if they are not
 * Since: 1.0
 */
gboolean
weft_weight_transform_set_patterns (WeftWeightTransform *self, const gchar *const *sources,
                                    const gchar *const *targets, GError **error)
{
  return weft_weight_transform_set_all_patterns (self, sources, targets, NULL, error);
}
