/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-file-part-private.h"

typedef struct
{
  guint file;
  guint64 n_bytes;
} Load;

static gint
compare_loads (gconstpointer a, gconstpointer b)
{
  const Load *left = a, *right = b;

  if (left->n_bytes != right->n_bytes)
    return left->n_bytes > right->n_bytes ? -1 : 1;
  return left->file < right->file ? -1 : 1;
}

/* The files that are still to be written, the largest first. */
static GArray *
list_loads (WeftShardLayout *layout, const guint8 *is_finished)
{
  GArray *loads = g_array_new (FALSE, FALSE, sizeof (Load));

  for (guint i = 0; i < weft_shard_layout_get_n_files (layout); i++)
    {
      Load load = { .file = i, .n_bytes = weft_shard_layout_get_file_size (layout, i) };

      if (is_finished == NULL || !is_finished[i])
        g_array_append_val (loads, load);
    }
  g_array_sort (loads, compare_loads);
  return loads;
}

static guint
find_least (const guint64 *n_bytes, guint n_ranks)
{
  guint least = 0;

  for (guint i = 1; i < n_ranks; i++)
    if (n_bytes[i] < n_bytes[least])
      least = i;
  return least;
}

/* Gives each file to a rank. Whether no rank has more than a tenth above its share. */
static gboolean
assign_files (GArray *loads, guint n_ranks, guint *ranks)
{
  g_autofree guint64 *n_bytes = g_new0 (guint64, n_ranks);
  guint64 total = 0, most = 0;

  for (guint i = 0; i < loads->len; i++)
    {
      const Load *load = &g_array_index (loads, Load, i);
      guint rank = find_least (n_bytes, n_ranks);

      ranks[load->file] = rank;
      n_bytes[rank] += load->n_bytes;
      total += load->n_bytes;
      most = MAX (most, n_bytes[rank]);
    }
  return most <= total / n_ranks + total / n_ranks / 10;
}

static void
append_file (GArray *parts, WeftShardLayout *layout, guint file, guint rank)
{
  WeftFilePart part = {
    .rank = rank,
    .file = file,
    .n_tensors = weft_shard_layout_get_n_tensors (layout, file),
    .end = weft_shard_layout_get_file_size (layout, file),
  };

  g_array_append_val (parts, part);
}

/* Cuts a file that begins at @position of the output. A tensor goes to the rank whose run has its middle. */
static void
append_cut_file (GArray *parts, WeftShardLayout *layout, guint file, guint64 position, guint64 share)
{
  WeftStateDict *outputs = weft_shard_layout_get_outputs (layout);

  append_file (parts, layout, file, (guint) (position / share));
  for (guint i = 0; i < weft_shard_layout_get_n_tensors (layout, file); i++)
    {
      WeftFilePart *last = &g_array_index (parts, WeftFilePart, parts->len - 1);
      WeftTensor *tensor =
          weft_state_dict_get_tensor (outputs, weft_shard_layout_get_tensor (layout, file, i));
      guint64 offset = weft_shard_layout_get_tensor_offset (layout, file, i);
      guint rank = (guint) ((position + offset + weft_tensor_get_n_bytes (tensor) / 2) / share);
      WeftFilePart next = { .rank = rank,
                            .file = file,
                            .first_tensor = i,
                            .n_tensors = last->n_tensors - (i - last->first_tensor),
                            .start = offset,
                            .end = last->end };

      if (i == 0)
        last->rank = rank;
      if (rank == last->rank)
        continue;
      last->n_tensors = i - last->first_tensor;
      last->end = offset;
      g_array_append_val (parts, next);
    }
}

GArray *
weft_file_parts_share_out (WeftShardLayout *layout, const guint8 *is_finished, guint n_ranks,
                           gboolean takes_ranges)
{
  guint n_files = weft_shard_layout_get_n_files (layout);
  GArray *parts = g_array_new (FALSE, TRUE, sizeof (WeftFilePart));
  g_autoptr (GArray) loads = list_loads (layout, is_finished);
  g_autofree guint *ranks = g_new0 (guint, MAX (n_files, 1));
  gboolean is_cut = !assign_files (loads, n_ranks, ranks) && takes_ranges;
  guint64 total = 0, position = 0;

  for (guint i = 0; i < loads->len; i++)
    total += g_array_index (loads, Load, i).n_bytes;
  for (guint i = 0; i < n_files; i++)
    if (!is_cut || (is_finished != NULL && is_finished[i]))
      append_file (parts, layout, i, ranks[i]);
    else
      {
        append_cut_file (parts, layout, i, position, total / n_ranks + 1);
        position += weft_shard_layout_get_file_size (layout, i);
      }
  return parts;
}
