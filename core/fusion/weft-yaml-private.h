/* SPDX-License-Identifier: Apache-2.0 */
/* YAML as JSON nodes that know their line and column. JSON text is YAML too. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

typedef struct
{
  JsonNode *root;
  /* JsonNode -> its place, from 1. */
  GHashTable *places;
} WeftYaml;

typedef struct
{
  guint line;
  guint column;
} WeftYamlPlace;

/* Reads a file with one document. Errors begin with the path, the line and the column. */
WeftYaml *weft_yaml_load (const gchar *path, GError **error);
WeftYaml *weft_yaml_parse (const gchar *text, gsize length, const gchar *where, GError **error);
void weft_yaml_free (WeftYaml *self);

/* Where a node of the document stands; FALSE for any other node. */
gboolean weft_yaml_find_place (WeftYaml *self, JsonNode *node, WeftYamlPlace *place);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftYaml, weft_yaml_free)
