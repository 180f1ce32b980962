/* SPDX-License-Identifier: Apache-2.0 */
/* A value of an expression: what JSON can hold, or the config of a model. A plain structure that owns a reference; it must
 * be cleared. Lists are immutable once another value refers to them. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

typedef enum
{
  WEFT_VALUE_NULL,
  WEFT_VALUE_BOOLEAN,
  WEFT_VALUE_INTEGER,
  WEFT_VALUE_REAL,
  WEFT_VALUE_TEXT,
  WEFT_VALUE_LIST,
  WEFT_VALUE_OBJECT,
  WEFT_VALUE_CONFIG,
} WeftValueKind;

typedef struct
{
  WeftValueKind kind;
  union
  {
    gboolean boolean;
    gint64 integer;
    gdouble real;
    gchar *text;        /* a GRefString */
    GArray *list;       /* of WeftValue */
    JsonObject *object; /* of the config file, immutable */
    GObject *config;
  } of;
} WeftValue;

#define WEFT_VALUE_INIT     \
  {                         \
    .kind = WEFT_VALUE_NULL \
  }

WeftValue weft_value_boolean (gboolean boolean);
WeftValue weft_value_integer (gint64 integer);
WeftValue weft_value_real (gdouble real);
WeftValue weft_value_text (const gchar *text, gssize length);
/* An empty list, to be filled by weft_value_append() before anything else refers to it. */
WeftValue weft_value_list (void);
void weft_value_append (WeftValue *list, const WeftValue *element);
WeftValue weft_value_config (GObject *config);
WeftValue weft_value_from_json (JsonNode *node);
JsonNode *weft_value_to_json (const WeftValue *self);

WeftValue weft_value_copy (const WeftValue *self);
void weft_value_clear (WeftValue *self);

gboolean weft_value_is_number (const WeftValue *self);
/* The value as a number; 0 for what is none. */
gdouble weft_value_get_real (const WeftValue *self);
gboolean weft_value_is_true (const WeftValue *self);
gboolean weft_value_equal (const WeftValue *self, const WeftValue *other);
const gchar *weft_value_kind_get_name (WeftValueKind kind);
/* For messages and for keys of caches: short ones in full. */
gchar *weft_value_to_string (const WeftValue *self);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (WeftValue, weft_value_clear)

G_END_DECLS
