/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a safetensors file, read strictly in one pass. The rules and the order in which they are checked are
 * those of the format's reference reader (0.8), except that duplicate names and entries in array form are refused. */
#pragma once

#include "base/weft-dtype.h"

G_BEGIN_DECLS

/* Bytes of the length field before the JSON. */
#define WEFT_HEADER_LENGTH_BYTES 8
/* The longest JSON, inclusive. */
#define WEFT_HEADER_MAX_BYTES 100000000
/* The size of the data section is unknown: do not check that the tensors end there. */
#define WEFT_HEADER_ANY_SIZE G_MAXUINT64

/* One tensor. @begin and @end count from the start of the data section; @position is where its name stands in the
 * JSON; its extents are dims[dims_start ... dims_start + rank - 1] of the header. */
typedef struct
{
  const gchar *name;
  guint64 begin;
  guint64 end;
  guint32 position;
  guint32 dims_start;
  guint8 rank;
  guint8 dtype;
} WeftHeaderEntry;

/* @entries are in the order of their bytes. @metadata is NULL if the file has none. */
typedef struct
{
  GArray *entries;
  GArray *dims;
  GHashTable *metadata;
  GStringChunk *texts;
} WeftHeader;

gboolean weft_header_read_length (const guint8 *bytes, guint64 file_size, const gchar *where, gsize *n_bytes,
                                  GError **error);
WeftHeader *weft_header_scan (const gchar *json, gsize n_bytes, guint64 data_size, const gchar *where,
                              GError **error);
void weft_header_free (WeftHeader *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftHeader, weft_header_free)

G_END_DECLS
