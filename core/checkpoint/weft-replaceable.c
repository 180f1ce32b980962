/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-replaceable-private.h"

static void
add_path (WeftOutputTransaction *transaction, const gchar *base, const gchar *path)
{
  g_autoptr (GFile) folder = g_file_new_for_path (base);
  g_autoptr (GFile) file = g_file_new_for_path (path);
  g_autofree gchar *name = g_file_get_relative_path (folder, file);

  if (name != NULL)
    weft_output_transaction_add_replaceable (transaction, name);
}

void
weft_replaceable_add_weights (WeftOutputTransaction *transaction, const gchar *base, WeftCheckpoint *old)
{
  const gchar *index_name = weft_checkpoint_get_index_name (old);
  g_autofree gchar *record =
      g_build_filename (weft_checkpoint_get_folder (old), WEFT_PROVENANCE_FILE_NAME, NULL);

  for (guint i = 0; i < weft_checkpoint_get_n_shards (old); i++)
    add_path (transaction, base,
              weft_file_get_path (weft_shard_get_file (weft_checkpoint_get_shard (old, i))));
  if (index_name != NULL)
    {
      const gchar *shard_path = weft_file_get_path (weft_shard_get_file (weft_checkpoint_get_shard (old, 0)));
      g_autofree gchar *beside = g_path_get_dirname (shard_path);
      g_autofree gchar *index_path = g_build_filename (beside, index_name, NULL);

      add_path (transaction, base, index_path);
    }
  add_path (transaction, base, record);
}
