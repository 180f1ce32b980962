/* SPDX-License-Identifier: Apache-2.0 */
/* Which files make a checkpoint: where its weights are, and what else lies in the folder. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-error.h"

G_BEGIN_DECLS

/* Where the weights of a checkpoint are. Either @index_path is set, or @shard_paths has at least one path. @folder is
 * NULL if a single file was named: then nothing else belongs to it. @config is NULL if there is no config.json. */
typedef struct
{
  gchar *folder;
  gchar *index_path;
  GPtrArray *shard_paths;
  JsonNode *config;
} WeftCheckpointFiles;

WeftCheckpointFiles *weft_checkpoint_files_find (const gchar *path, const gchar *variant, GError **error);
void weft_checkpoint_files_free (WeftCheckpointFiles *self);

/* Whether a file of this name holds weights (or lists files that do), in whatever format. */
gboolean weft_checkpoint_files_is_weight (const gchar *name);
/* Whether there is a checkpoint in this folder, by the names in it. */
gboolean weft_checkpoint_files_is_folder (const gchar *path);
/* Paths, relative to @folder and sorted, of what is in it and in its sub-folders: files to carry along, weight files, and what
 * is neither: folders of tools, links to folders, special files. Symbolic links to files count as files. */
gboolean weft_checkpoint_files_list (const gchar *folder, GStrv *others, GStrv *weights, GStrv *skipped,
                                     GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftCheckpointFiles, weft_checkpoint_files_free)

G_END_DECLS
