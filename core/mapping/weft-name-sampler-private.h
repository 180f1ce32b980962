/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor names that a pattern was probably written for, made from the pattern itself. */
#pragma once

#include "transform/weft-weight-transform.h"

/* Texts that @regex may match, without what stands around a match. Look-arounds, word boundaries and references are
 * passed over, so whoever takes a text tries it. At most @n_max. */
GPtrArray *weft_sample_regex (const gchar *regex, guint n_max);

/* Whole names that @rule renames, in its scope; none for a rule without patterns. At most @n_max. */
GPtrArray *weft_sample_names (WeftWeightTransform *rule, guint n_max);
