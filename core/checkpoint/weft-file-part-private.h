/* SPDX-License-Identifier: Apache-2.0 */
/* How the files of an output are shared out among the ranks of a job. */
#pragma once

#include "checkpoint/weft-shard-layout.h"

G_BEGIN_DECLS

/* A run of tensors of one file that one rank writes: all bytes from @start to @end, the header included if it begins at 0. */
typedef struct
{
  guint rank;
  guint file;
  guint first_tensor;
  guint n_tensors;
  guint64 start;
  guint64 end;
} WeftFilePart;

/* The parts of all ranks, in the order of the output; by sizes alone, so that every rank gets the same. Whole files go, the
 * largest first, to the rank with the fewest bytes. If a rank would get more than a tenth above its share then, and
 * @takes_ranges, the output is cut at borders of tensors into one run of bytes for each rank instead. Files that are finished
 * (not 0 in @is_finished, which may be NULL) have no work in them and go to rank 0. */
GArray *weft_file_parts_share_out (WeftShardLayout *layout, const guint8 *is_finished, guint n_ranks,
                                   gboolean takes_ranges);

G_END_DECLS
