/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the rules of a replacement take exactly the tensors of the old module to those of the new one, and back. */
#pragma once

#include "model/weft-module.h"
#include "transform/weft-op-context.h"
#include "transform/weft-transform-list.h"

typedef struct
{
  WeftModule *module;
  WeftModule *replacement;
  const gchar *fqn;
  /* Relative to the module, without a scope. */
  WeftTransformList *rules;
  /* The config of the model. */
  WeftOpContext *facts;
  /* Who asked, for messages. */
  const gchar *origin;
} WeftSchemaCheck;

/* Adds what the rules take in and what they make, as full names -> @origin, to @taken and @made. A name that is there already
 * belongs to another replacement. */
gboolean weft_schema_check_run (const WeftSchemaCheck *self, GHashTable *taken, GHashTable *made,
                                GError **error);
