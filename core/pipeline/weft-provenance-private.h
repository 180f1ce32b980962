/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a conversion (weft-provenance.json in its output): source headers and index verbatim, the rules, and
 * which tensors met where. It holds names, shapes and rules, never the bytes of a tensor. */
#pragma once

#include "transform/weft-conversion-internal.h"
#include "pipeline/weft-load-plan.h"

/* The newest version of the record that this library reads and the one it writes. */
#define WEFT_PROVENANCE_VERSION 1

/* What stands in its place, under the same name, in the folder of a rank. */
#define WEFT_SLICE_FORMAT "weft-slice"

/* A stage behind the conversions: what it took in, as far as a conversion met it, and how. */
typedef struct
{
  WeftStateDict *inputs;
  GPtrArray *conversions;
} WeftRecordedStage;

typedef struct
{
  /* Header-only tensors in the order of the plan. */
  WeftStateDict *published;
  GStrv file_names;
  /* GBytes, the JSON of each header with its padding. */
  GPtrArray *headers;
  /* Hex digests, or NULL where none was taken. */
  GPtrArray *hashes;
  /* The record that the source itself had, as text, if it was the output of a conversion. */
  gchar *previous;
  /* Name of a file beside the weights that was written in another form -> GBytes, its text. */
  GHashTable *replaced_files;
  gchar *index_name;
  GBytes *index;
  GPtrArray *conversions;
  /* WeftRecordedStage, in the order they were run. */
  GPtrArray *stages;
  /* The published tensors are dense values of packed ones, and stand in no header. */
  gboolean is_dequantized;
  /* Outputs were packed after their conversion. */
  gboolean is_quantized;
  /* Of the text of the record. */
  gchar *checksum;
} WeftProvenance;

GBytes *weft_provenance_write (WeftLoadPlan *plan, GCancellable *cancellable, GError **error);
/* The path of the record beside the weights; NULL if there is none, and for a single file. */
gchar *weft_provenance_find (WeftCheckpoint *checkpoint);
WeftProvenance *weft_provenance_load (const gchar *path, GError **error);
void weft_provenance_free (WeftProvenance *self);

/* The hash of what an XXH3_state_t has seen, as the record writes it. */
gchar *weft_provenance_format_hash (gconstpointer state);
/* XXH3 (128 bits) of a file, written that way. */
gchar *weft_provenance_hash_file (WeftFile *file, GCancellable *cancellable, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftProvenance, weft_provenance_free)
