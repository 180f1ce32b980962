/* SPDX-License-Identifier: Apache-2.0 */
/* The class that rules derive from: it matches the sources in scope and writes the target. */
#pragma once

#include "transform/weft-weight-transform.h"

G_BEGIN_DECLS

#define WEFT_TYPE_WEIGHT_TRANSFORM_BASE (weft_weight_transform_base_get_type ())

/**
 * WeftWeightTransformBase:
 *
 * The class that rules derive from, in C, Python and JavaScript. As it is, it renames by its patterns; a class
 * overrides what is different for its kind. Properties that a class adds are members of its JSON form.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_DERIVABLE_TYPE (WeftWeightTransformBase, weft_weight_transform_base, WEFT, WEIGHT_TRANSFORM_BASE,
                          GObject)

/**
 * WeftWeightTransformBaseClass:
 * @parent_class: the parent
 * @prepare: checks the rule and compiles its patterns
 * @rename_key: renames one key
 * @accept_branch: whether the source at an index may fire now
 * @resolve_capture: the text that is written for a capture
 * @dup_inverse: the rule for the other direction, not yet prepared
 * @reset: forgets what was learnt from keys
 * @targets_are_paired: whether a source writes the target at its own index, not the first one
 *
 * The class structure of #WeftWeightTransformBase.
 *
 * Since: 1.0
 */
struct _WeftWeightTransformBaseClass
{
  GObjectClass parent_class;

  /**
   * WeftWeightTransformBaseClass::prepare:
   * @self: a rule
   * @error: return location
   *
   * Returns: whether the rule is valid
   */
  gboolean (*prepare) (WeftWeightTransformBase *self, GError **error);

  /**
   * WeftWeightTransformBaseClass::rename_key:
   * @self: a rule
   * @key: a tensor name
   * @source_pattern: (out) (nullable) (transfer full): the source pattern that matched
   * @error: return location
   *
   * Returns: (transfer full) (nullable): the new key, or %NULL if the rule does not match
   */
  gchar *(*rename_key) (WeftWeightTransformBase *self, const gchar *key, gchar **source_pattern,
                        GError **error);

  /**
   * WeftWeightTransformBaseClass::accept_branch:
   * @self: a rule
   * @branch: index of the source that matched
   *
   * Returns: whether it may fire now
   */
  gboolean (*accept_branch) (WeftWeightTransformBase *self, guint branch);

  /**
   * WeftWeightTransformBaseClass::resolve_capture:
   * @self: a rule
   * @capture: the text that was captured
   * @number: the number of the capture, from 1
   * @error: return location
   *
   * Returns: (transfer full): the text to write in its place
   */
  gchar *(*resolve_capture) (WeftWeightTransformBase *self, const gchar *capture, guint number,
                             GError **error);

  /**
   * WeftWeightTransformBaseClass::dup_inverse:
   * @self: a rule
   * @error: return location
   *
   * Returns: (transfer full) (nullable): the rule for the other direction
   */
  WeftWeightTransformBase *(*dup_inverse) (WeftWeightTransformBase *self, GError **error);

  /**
   * WeftWeightTransformBaseClass::reset:
   * @self: a rule
   */
  void (*reset) (WeftWeightTransformBase *self);

  gboolean targets_are_paired;

  /*< private >*/
  gpointer reserved[8];
};

WEFT_PUBLIC gboolean weft_weight_transform_base_is_inverse (WeftWeightTransformBase *self);

G_END_DECLS
