/* SPDX-License-Identifier: Apache-2.0 */
#include "transform/weft-weight-transform-base.h"

#include <string.h>

#include "transform/weft-pattern-text-private.h"
#include "transform/weft-weight-transform-base-private.h"

typedef struct
{
  GStrv source_patterns;
  GStrv target_patterns;
  GStrv match_patterns;
} WeftWeightTransformBasePrivate;

enum
{
  PROP_SOURCE_PATTERNS = 1,
  PROP_TARGET_PATTERNS,
  PROP_MATCH_PATTERNS,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static gboolean
call_prepare (WeftWeightTransform *self, GError **error)
{
  return WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->prepare (WEFT_WEIGHT_TRANSFORM_BASE (self), error);
}

static gchar *
call_rename_key (WeftWeightTransform *self, const gchar *key, gchar **source_pattern, GError **error)
{
  return WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->rename_key (WEFT_WEIGHT_TRANSFORM_BASE (self), key,
                                                                  source_pattern, error);
}

static WeftWeightTransform *
call_dup_inverse (WeftWeightTransform *self, GError **error)
{
  return (WeftWeightTransform *) WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->dup_inverse (
      WEFT_WEIGHT_TRANSFORM_BASE (self), error);
}

static void
call_reset (WeftWeightTransform *self)
{
  WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->reset (WEFT_WEIGHT_TRANSFORM_BASE (self));
}

static void
weft_weight_transform_base_iface_init (WeftWeightTransformInterface *iface)
{
  iface->prepare = call_prepare;
  iface->rename_key = call_rename_key;
  iface->dup_inverse = call_dup_inverse;
  iface->reset = call_reset;
}

G_DEFINE_TYPE_WITH_CODE (WeftWeightTransformBase, weft_weight_transform_base, G_TYPE_OBJECT,
                         G_ADD_PRIVATE (WeftWeightTransformBase)
                             G_IMPLEMENT_INTERFACE (WEFT_TYPE_WEIGHT_TRANSFORM,
                                                    weft_weight_transform_base_iface_init))

static void
weft_weight_transform_base_init (WeftWeightTransformBase *self)
{
}

static void
weft_weight_transform_base_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  WeftWeightTransformBasePrivate *priv =
      weft_weight_transform_base_get_instance_private (WEFT_WEIGHT_TRANSFORM_BASE (object));

  switch (id)
    {
    case PROP_SOURCE_PATTERNS:
      priv->source_patterns = g_value_dup_boxed (value);
      break;
    case PROP_TARGET_PATTERNS:
      priv->target_patterns = g_value_dup_boxed (value);
      break;
    case PROP_MATCH_PATTERNS:
      priv->match_patterns = g_value_dup_boxed (value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
weft_weight_transform_base_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  WeftWeightTransformBasePrivate *priv =
      weft_weight_transform_base_get_instance_private (WEFT_WEIGHT_TRANSFORM_BASE (object));

  switch (id)
    {
    case PROP_SOURCE_PATTERNS:
      g_value_set_boxed (value, priv->source_patterns);
      break;
    case PROP_TARGET_PATTERNS:
      g_value_set_boxed (value, priv->target_patterns);
      break;
    case PROP_MATCH_PATTERNS:
      g_value_set_boxed (value, priv->match_patterns);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
weft_weight_transform_base_finalize (GObject *object)
{
  WeftWeightTransformBasePrivate *priv =
      weft_weight_transform_base_get_instance_private (WEFT_WEIGHT_TRANSFORM_BASE (object));

  g_strfreev (priv->source_patterns);
  g_strfreev (priv->target_patterns);
  g_strfreev (priv->match_patterns);
  G_OBJECT_CLASS (weft_weight_transform_base_parent_class)->finalize (object);
}

/* A source can write a target only if it captures all that the target refers to. */
static gboolean
check_references (WeftTransformState *state, gboolean are_paired, GError **error)
{
  for (guint i = 0; state->sources[i] != NULL; i++)
    for (guint k = 0; state->targets[k] != NULL; k++)
      {
        guint wanted = weft_pattern_highest_reference (state->targets[k]);
        guint found = weft_pattern_get_n_captures (state->pattern, i);

        if ((are_paired && i != k) || wanted <= found)
          continue;
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN,
                     "target '%s' refers to capture %u and source '%s' has %u; add the group to the source",
                     state->written_targets[k], wanted, state->sources[i], found);
        return FALSE;
      }
  return TRUE;
}

/* A class without patterns, that overrides `rename_key`, need not set any. JavaScript makes two empty lists of that. */
static gboolean
has_patterns (WeftWeightTransformBasePrivate *priv)
{
  return priv->source_patterns != NULL && priv->target_patterns != NULL
         && (priv->source_patterns[0] != NULL || priv->target_patterns[0] != NULL);
}

static gboolean
weft_weight_transform_base_real_prepare (WeftWeightTransformBase *self, GError **error)
{
  WeftWeightTransformBasePrivate *priv = weft_weight_transform_base_get_instance_private (self);
  WeftTransformState *state = weft_weight_transform_get_state (WEFT_WEIGHT_TRANSFORM (self));

  if (has_patterns (priv)
      && !weft_weight_transform_set_all_patterns (
          WEFT_WEIGHT_TRANSFORM (self), (const gchar *const *) priv->source_patterns,
          (const gchar *const *) priv->target_patterns, (const gchar *const *) priv->match_patterns, error))
    return FALSE;
  return state->pattern == NULL
         || check_references (state, WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->targets_are_paired, error);
}

static gboolean
append_capture (WeftWeightTransformBase *self, GString *name, const gchar *text,
                const WeftPatternMatch *match, guint number, GError **error)
{
  WeftPatternSpan span = match->captures[number];
  g_autofree gchar *capture = NULL;
  g_autofree gchar *resolved = NULL;

  /* A group that took no part, as in `(a)?`, is empty. */
  if (span.start < 0)
    return TRUE;
  capture = g_strndup (text + span.start, (gsize) (span.end - span.start));
  resolved = WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->resolve_capture (self, capture, number, error);
  if (resolved == NULL)
    return FALSE;
  g_string_append (name, resolved);
  return TRUE;
}

static gboolean
append_target (WeftWeightTransformBase *self, GString *name, const gchar *target, const gchar *text,
               const WeftPatternMatch *match, GError **error)
{
  const gchar *slash;

  while ((slash = strchr (target, '\\')) != NULL)
    {
      gboolean is_reference = slash[1] >= '1' && slash[1] <= '9';

      g_string_append_len (name, target, slash - target + !is_reference);
      target = slash + 1 + is_reference;
      if (is_reference && !append_capture (self, name, text, match, (guint) (slash[1] - '0'), error))
        return FALSE;
    }
  g_string_append (name, target);
  return TRUE;
}

static gchar *
weft_weight_transform_base_real_rename_key (WeftWeightTransformBase *self, const gchar *key,
                                            gchar **source_pattern, GError **error)
{
  WeftWeightTransformBaseClass *klass = WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self);
  WeftTransformState *state = weft_weight_transform_get_state (WEFT_WEIGHT_TRANSFORM (self));
  g_autoptr (GString) name = NULL;
  WeftPatternMatch match;
  const gchar *rest;
  gsize consumed;

  if (state->pattern == NULL
      || !weft_weight_transform_enter_scope (WEFT_WEIGHT_TRANSFORM (self), key, &consumed))
    return NULL;
  rest = key + consumed;
  if (!weft_pattern_search (state->pattern, rest, &match, error)
      || !klass->accept_branch (self, match.branch))
    return NULL;
  name = g_string_sized_new (strlen (key) + 32);
  g_string_append_len (name, key, (gssize) consumed + match.captures[0].start);
  if (!append_target (self, name, state->targets[klass->targets_are_paired ? match.branch : 0], rest, &match,
                      error))
    return NULL;
  g_string_append (name, rest + match.captures[0].end);
  *source_pattern = g_strdup (state->sources[match.branch]);
  return g_string_free (g_steal_pointer (&name), FALSE);
}

static gboolean
weft_weight_transform_base_real_accept_branch (WeftWeightTransformBase *self, guint branch)
{
  return TRUE;
}

static gchar *
weft_weight_transform_base_real_resolve_capture (WeftWeightTransformBase *self, const gchar *capture,
                                                 guint number, GError **error)
{
  return g_strdup (capture);
}

static WeftWeightTransformBase *
weft_weight_transform_base_real_dup_inverse (WeftWeightTransformBase *self, GError **error)
{
  return WEFT_WEIGHT_TRANSFORM_BASE (weft_weight_transform_clone (WEFT_WEIGHT_TRANSFORM (self), TRUE));
}

static void
weft_weight_transform_base_real_reset (WeftWeightTransformBase *self)
{
}

static void
weft_weight_transform_base_class_init (WeftWeightTransformBaseClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->set_property = weft_weight_transform_base_set_property;
  object_class->get_property = weft_weight_transform_base_get_property;
  object_class->finalize = weft_weight_transform_base_finalize;
  klass->prepare = weft_weight_transform_base_real_prepare;
  klass->rename_key = weft_weight_transform_base_real_rename_key;
  klass->accept_branch = weft_weight_transform_base_real_accept_branch;
  klass->resolve_capture = weft_weight_transform_base_real_resolve_capture;
  klass->dup_inverse = weft_weight_transform_base_real_dup_inverse;
  klass->reset = weft_weight_transform_base_real_reset;

  /**
   * WeftWeightTransformBase:source-patterns:
   *
   * The sources as they were written.
   *
   * Since: 1.0
   */
  properties[PROP_SOURCE_PATTERNS] =
      g_param_spec_boxed ("source-patterns", "Source patterns", "Regular expressions that find a key",
                          G_TYPE_STRV, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  /**
   * WeftWeightTransformBase:target-patterns:
   *
   * The targets as they were written.
   *
   * Since: 1.0
   */
  properties[PROP_TARGET_PATTERNS] =
      g_param_spec_boxed ("target-patterns", "Target patterns", "What is written in place of what was found",
                          G_TYPE_STRV, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);

  /**
   * WeftWeightTransformBase:match-patterns:
   *
   * What is searched in place of the sources, one for each, where the sources are written as the inverse is to write them
   * back and are too loose to be searched. %NULL in nearly all rules.
   *
   * Since: 1.0
   */
  properties[PROP_MATCH_PATTERNS] = g_param_spec_boxed (
      "match-patterns", "Match patterns", "Regular expressions to search in place of the sources",
      G_TYPE_STRV, G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS);
  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

/**
 * weft_weight_transform_base_is_inverse:
 * @self: a rule
 *
 * Returns: whether the rule was made by weft_weight_transform_dup_inverse(), not read from a mapping
 * Since: 1.0
 */
gboolean
weft_weight_transform_base_is_inverse (WeftWeightTransformBase *self)
{
  return weft_weight_transform_get_state (WEFT_WEIGHT_TRANSFORM (self))->is_inverse;
}

/* weft_weight_transform_base_take_written: other patterns for a rule that is not prepared yet. */
void
weft_weight_transform_base_take_written (WeftWeightTransformBase *self, GStrv sources, GStrv targets)
{
  WeftWeightTransformBasePrivate *priv = weft_weight_transform_base_get_instance_private (self);

  g_strfreev (priv->source_patterns);
  priv->source_patterns = sources;
  g_strfreev (priv->target_patterns);
  priv->target_patterns = targets;
}

/* weft_weight_transform_base_refuse_stars: a `*` in a name that no op numbers would merge every layer into one tensor.
 * An inverse may hold one: there it is the source's own wildcard, and whoever saves under such a name finds out. */
gboolean
weft_weight_transform_base_refuse_stars (WeftWeightTransformBase *self, GError **error)
{
  WeftTransformState *state = weft_weight_transform_get_state (WEFT_WEIGHT_TRANSFORM (self));

  for (guint i = 0; state->targets[i] != NULL && !state->is_inverse; i++)
    if (strchr (state->targets[i], '*') != NULL)
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_PATTERN,
            "target '%s' holds a '*' that no operation replaces by a number; capture the number in the source, as "
            "'layers.(\\d+).', and write '\\1' in the target",
            state->written_targets[i]);
        return FALSE;
      }
  return TRUE;
}

/* weft_weight_transform_base_get_filter: the pattern without which @self renames no key, or %NULL if its class may
 * rename by something else. */
WeftPattern *
weft_weight_transform_base_get_filter (WeftWeightTransform *self)
{
  if (!WEFT_IS_WEIGHT_TRANSFORM_BASE (self)
      || WEFT_WEIGHT_TRANSFORM_BASE_GET_CLASS (self)->rename_key
             != weft_weight_transform_base_real_rename_key)
    return NULL;
  return weft_weight_transform_get_state (self)->pattern;
}

/**
 * weft_weight_transform_resolve_targets:
 * @self: a rule
 * @key: a tensor name
 * @error: return location
 *
 * The targets with the captures that @key gives put in: what the outputs of a converter are called before they get the
 * text around the match back. A `*` stays.
 *
 * Returns: (transfer full): the targets
 * Errors: %WEFT_ERROR_PATTERN if @key does not match the rule
 * Since: 1.0
 */
GStrv
weft_weight_transform_resolve_targets (WeftWeightTransform *self, const gchar *key, GError **error)
{
  WeftTransformState *state = weft_weight_transform_get_state (self);
  g_autoptr (GStrvBuilder) targets = g_strv_builder_new ();
  g_autoptr (GError) local_error = NULL;
  WeftPatternMatch match;
  gsize consumed;

  if (!WEFT_IS_WEIGHT_TRANSFORM_BASE (self) || state->pattern == NULL
      || !weft_weight_transform_enter_scope (self, key, &consumed)
      || !weft_pattern_search (state->pattern, key + consumed, &match, &local_error))
    {
      g_autofree gchar *name = weft_weight_transform_describe (self);

      g_set_error (error, WEFT_ERROR, WEFT_ERROR_PATTERN, "%s: '%s' does not match%s%s", name, key,
                   local_error != NULL ? ": " : "", local_error != NULL ? local_error->message : "");
      return NULL;
    }
  for (guint i = 0; state->targets[i] != NULL; i++)
    {
      g_autoptr (GString) target = g_string_new (NULL);

      if (!append_target (WEFT_WEIGHT_TRANSFORM_BASE (self), target, state->targets[i], key + consumed,
                          &match, error))
        return NULL;
      g_strv_builder_add (targets, target->str);
    }
  return g_strv_builder_end (targets);
}
