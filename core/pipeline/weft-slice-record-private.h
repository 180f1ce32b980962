/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a rank's folder (its weft-provenance.json): which slices of which whole it holds, and all that is needed to
 * write the files of the whole again: their headers and index verbatim, and the record that the whole has. */
#pragma once

#include "checkpoint/weft-checkpoint.h"
#include "parallel/weft-slice-internal.h"
#include "pipeline/weft-load-plan-private.h"

typedef struct
{
  guint rank;
  guint world_size;
  /* SHA-256 of the file. */
  gchar *checksum;
  /* Of the whole: names and headers (GBytes, the JSON with its padding) of its files, its index and its record, if it has them. */
  GStrv file_names;
  GPtrArray *headers;
  gchar *index_name;
  GBytes *index;
  GBytes *provenance;
  /* The tensors that the headers list, without values. */
  WeftStateDict *tensors;
  /* Name -> WeftSlice of those that the rank holds a part of; others that it has are whole. */
  GHashTable *slices;
} WeftSliceRecord;

/* What is written in place of a record of the conversion. */
GBytes *weft_slice_record_write (WeftLoadPlan *plan, GCancellable *cancellable, GError **error);
/* The record at @path. */
WeftSliceRecord *weft_slice_record_load (const gchar *path, GError **error);
void weft_slice_record_free (WeftSliceRecord *self);
/* Whether two records are of the same whole. */
gboolean weft_slice_record_is_of_same_whole (const WeftSliceRecord *self, const WeftSliceRecord *other);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftSliceRecord, weft_slice_record_free)
