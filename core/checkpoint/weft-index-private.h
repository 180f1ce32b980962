/* SPDX-License-Identifier: Apache-2.0 */
/* `model.safetensors.index.json`: which tensor lies in which file. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

/* A line of `weight_map`; @file is a position in the index's file names. */
typedef struct
{
  const gchar *name;
  guint file;
} WeftIndexEntry;

/* @file_names are sorted; @metadata is the object of that name. @text is the file, verbatim. */
typedef struct
{
  GBytes *text;
  JsonNode *metadata;
  GPtrArray *file_names;
  GArray *entries;
  GStringChunk *names;
} WeftIndex;

WeftIndex *weft_index_load (const gchar *path, GError **error);
void weft_index_free (WeftIndex *self);
/* Frees the entries once they are checked. */
void weft_index_forget_entries (WeftIndex *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftIndex, weft_index_free)

G_END_DECLS
