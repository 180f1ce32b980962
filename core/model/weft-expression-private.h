/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions of architecture files: a small part of Python's expression syntax, so that a reader knows it. A compiled
 * expression is immutable and may be shared by threads. Everything is bounded: depth, steps, lengths; a number that does
 * not fit 64 bits is an error, not a wrong number. docs/architectures.md lists the language. */
#pragma once

#include "model/weft-value-private.h"

G_BEGIN_DECLS

typedef struct _WeftExpression WeftExpression;

/* Finds a field of a config. FALSE without an error: it has no such field. */
typedef gboolean (*WeftFindField) (GObject *config, const gchar *name, WeftValue *value, GError **error);

/* The names that an expression sees: those bound here, innermost first, then the fields of the config. */
typedef struct _WeftScope WeftScope;
struct _WeftScope
{
  const WeftScope *outer; /* (nullable) */
  const gchar *name;      /* (nullable): of the one value that is bound here */
  const WeftValue *value;
  GObject *config; /* (nullable): of the outermost scope */
  WeftFindField find_field;
};

WeftExpression *weft_expression_parse (const gchar *text, GError **error);
void weft_expression_free (WeftExpression *self);
const gchar *weft_expression_get_text (const WeftExpression *self);
gboolean weft_expression_evaluate (const WeftExpression *self, const WeftScope *scope, WeftValue *value,
                                   GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftExpression, weft_expression_free)

G_END_DECLS
