/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-checkpoint.h"

#include <string.h>

#include "checkpoint/weft-checkpoint-files-private.h"
#include "checkpoint/weft-index-private.h"

struct _WeftCheckpoint
{
  GObject parent_instance;

  gchar *path;
  WeftCheckpointFiles *files;
  WeftIndex *index;
  GPtrArray *shards;
  WeftStateDict *state_dict;
  /* The shard of each tensor, by its position in the state dict; NULL if there is one shard only. */
  guint *tensor_shards;
  GStrv other_files;
  GStrv unused_files;
};

G_DEFINE_FINAL_TYPE (WeftCheckpoint, weft_checkpoint, G_TYPE_OBJECT)

static void
weft_checkpoint_finalize (GObject *object)
{
  WeftCheckpoint *self = WEFT_CHECKPOINT (object);

  g_free (self->path);
  g_clear_pointer (&self->files, weft_checkpoint_files_free);
  g_clear_pointer (&self->index, weft_index_free);
  g_ptr_array_unref (self->shards);
  g_object_unref (self->state_dict);
  g_free (self->tensor_shards);
  g_strfreev (self->other_files);
  g_strfreev (self->unused_files);
  G_OBJECT_CLASS (weft_checkpoint_parent_class)->finalize (object);
}

static void
weft_checkpoint_class_init (WeftCheckpointClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_checkpoint_finalize;
}

static void
weft_checkpoint_init (WeftCheckpoint *self)
{
  self->shards = g_ptr_array_new_with_free_func (g_object_unref);
  self->state_dict = weft_state_dict_new ();
}

static WeftShard *
get_shard (WeftCheckpoint *self, guint shard)
{
  return g_ptr_array_index (self->shards, shard);
}

/* The shard, among the first @n_shards, that holds a tensor of this name; for messages. */
static WeftShard *
find_shard_of (WeftCheckpoint *self, const gchar *name, guint n_shards)
{
  for (guint i = 0; i < n_shards; i++)
    for (guint j = 0; j < weft_shard_get_n_tensors (get_shard (self, i)); j++)
      if (strcmp (weft_shard_get_tensor_name (get_shard (self, i), j), name) == 0)
        return get_shard (self, i);
  return NULL;
}

static gint
compare_names (gconstpointer a, gconstpointer b, gpointer shard)
{
  return strcmp (weft_shard_get_tensor_name (shard, *(const guint *) a),
                 weft_shard_get_tensor_name (shard, *(const guint *) b));
}

/* The positions of a shard's tensors in the order of their names: the order in which names that natural order holds
 * for equal (`a.7`, `a.007`) keep. */
static guint *
order_by_name (WeftShard *shard)
{
  guint n_tensors = weft_shard_get_n_tensors (shard);
  guint *order = g_new (guint, MAX (n_tensors, 1));
  gboolean is_sorted = TRUE;

  for (guint i = 0; i < n_tensors; i++)
    {
      order[i] = i;
      is_sorted = is_sorted && (i == 0 || compare_names (&order[i - 1], &order[i], shard) <= 0);
    }
  if (!is_sorted)
    g_qsort_with_data (order, (gint) n_tensors, sizeof *order, compare_names, shard);
  return order;
}

static gboolean
add_tensors (WeftCheckpoint *self, guint n_before, WeftShard *shard, GError **error)
{
  g_autofree guint *order = order_by_name (shard);

  for (guint i = 0; i < weft_shard_get_n_tensors (shard); i++)
    {
      const gchar *name = weft_shard_get_tensor_name (shard, order[i]);
      g_autoptr (GError) local_error = NULL;
      WeftShard *other;

      if (weft_state_dict_add (self->state_dict, name, weft_shard_get_tensor (shard, order[i]), &local_error))
        continue;
      other = find_shard_of (self, name, n_before);
      if (other == NULL)
        g_propagate_error (error, g_steal_pointer (&local_error));
      else
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                     "%s: tensor '%s': expected each name in one shard, found it in %s and in %s", self->path,
                     name, weft_shard_get_file_name (other), weft_shard_get_file_name (shard));
      return FALSE;
    }
  return TRUE;
}

static gboolean
open_shard (WeftCheckpoint *self, const gchar *path, WeftIoBackend backend, GError **error)
{
  g_autoptr (WeftShard) shard = NULL;

  if (self->index != NULL && !g_file_test (path, G_FILE_TEST_EXISTS))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING, "%s: the index names a file that is absent: %s",
                   self->files->index_path, path);
      return FALSE;
    }
  shard = weft_shard_open (path, backend, error);
  if (shard == NULL || !add_tensors (self, self->shards->len, shard, error))
    return FALSE;
  g_ptr_array_add (self->shards, g_steal_pointer (&shard));
  return TRUE;
}

static gboolean
open_shards (WeftCheckpoint *self, WeftIoBackend backend, GCancellable *cancellable, GError **error)
{
  for (guint i = 0; i < self->files->shard_paths->len; i++)
    {
      if (g_cancellable_is_cancelled (cancellable))
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "%s: opening was cancelled", self->path);
          return FALSE;
        }
      if (!open_shard (self, g_ptr_array_index (self->files->shard_paths, i), backend, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
load_index (WeftCheckpoint *self, GError **error)
{
  g_autofree gchar *folder = NULL;

  if (self->files->index_path == NULL)
    return TRUE;
  self->index = weft_index_load (self->files->index_path, error);
  if (self->index == NULL)
    return FALSE;
  folder = g_path_get_dirname (self->files->index_path);
  for (guint i = 0; i < self->index->file_names->len; i++)
    g_ptr_array_add (self->files->shard_paths,
                     g_build_filename (folder, g_ptr_array_index (self->index->file_names, i), NULL));
  return TRUE;
}

static void
note_tensor_shards (WeftCheckpoint *self)
{
  if (self->shards->len == 1)
    return;
  self->tensor_shards = g_new0 (guint, MAX (weft_state_dict_get_n_tensors (self->state_dict), 1));
  for (guint i = 0; i < self->shards->len; i++)
    for (guint j = 0; j < weft_shard_get_n_tensors (get_shard (self, i)); j++)
      {
        guint position = 0;

        weft_state_dict_find (self->state_dict, weft_shard_get_tensor_name (get_shard (self, i), j),
                              &position);
        self->tensor_shards[position] = i;
      }
}

/* One line of the index: the tensor is there, in the file that the line names, and no other line has it. The shards are
 * in the order of the index's file names. */
static gboolean
check_index_entry (WeftCheckpoint *self, const WeftIndexEntry *entry, gboolean *is_listed, GError **error)
{
  const gchar *file_name = g_ptr_array_index (self->index->file_names, entry->file);
  guint position = 0;

  if (!weft_state_dict_find (self->state_dict, entry->name, &position))
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_MISSING,
        "%s: tensor '%s': expected it in %s, as the index says, found it in no file; the index is stale",
        self->files->index_path, entry->name, file_name);
  else if (weft_checkpoint_get_tensor_shard (self, position) != entry->file)
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
        "%s: tensor '%s': expected it in %s, as the index says, found it in %s", self->files->index_path,
        entry->name, file_name,
        weft_shard_get_file_name (get_shard (self, weft_checkpoint_get_tensor_shard (self, position))));
  else if (is_listed[position])
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FORMAT,
                 "%s: tensor '%s': expected each name once in weight_map, found it twice",
                 self->files->index_path, entry->name);
  else
    return is_listed[position] = TRUE;
  return FALSE;
}

static gboolean
check_index (WeftCheckpoint *self, WeftCheckpointFlags flags, GError **error)
{
  guint n_tensors = weft_state_dict_get_n_tensors (self->state_dict);
  g_autofree gboolean *is_listed = g_new0 (gboolean, MAX (n_tensors, 1));

  for (guint i = 0; i < self->index->entries->len; i++)
    if (!check_index_entry (self, &g_array_index (self->index->entries, WeftIndexEntry, i), is_listed, error))
      return FALSE;
  for (guint i = 0; i < n_tensors && (flags & WEFT_CHECKPOINT_FLAGS_LENIENT) == 0; i++)
    if (!is_listed[i])
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_UNEXPECTED,
            "%s: tensor '%s': expected every tensor of the shards in the index, found it only in %s; --lenient takes it "
            "all the same",
            self->files->index_path, weft_state_dict_get_name (self->state_dict, i),
            weft_shard_get_file_name (get_shard (self, weft_checkpoint_get_tensor_shard (self, i))));
        return FALSE;
      }
  weft_index_forget_entries (self->index);
  return TRUE;
}

/* Whether a weight file of the folder is one that was opened. */
static gboolean
is_used (WeftCheckpoint *self, const gchar *relative)
{
  g_autofree gchar *path = g_build_filename (self->files->folder, relative, NULL);

  return g_strcmp0 (path, self->files->index_path) == 0
         || g_ptr_array_find_with_equal_func (self->files->shard_paths, path, g_str_equal, NULL);
}

static gboolean
list_files (WeftCheckpoint *self, GError **error)
{
  g_autoptr (GStrvBuilder) unused = g_strv_builder_new ();
  g_auto (GStrv) weights = NULL;

  if (self->files->folder != NULL)
    {
      if (!weft_checkpoint_files_list (self->files->folder, &self->other_files, &weights, error))
        return FALSE;
      for (guint i = 0; weights[i] != NULL; i++)
        if (!is_used (self, weights[i]))
          g_strv_builder_add (unused, weights[i]);
    }
  else
    self->other_files = g_new0 (gchar *, 1);
  self->unused_files = g_strv_builder_end (unused);
  return TRUE;
}

/**
 * weft_checkpoint_open:
 * @path: a folder, a `.safetensors` file or a `.safetensors.index.json`
 * @cancellable: (nullable): to stop between files
 * @error: return location
 *
 * Opens a checkpoint strictly and reads its files with pread(2); see weft_checkpoint_open_full().
 *
 * Returns: (transfer full): the open checkpoint
 * Errors: those of weft_checkpoint_open_full()
 * Since: 1.0
 */
WeftCheckpoint *
weft_checkpoint_open (const gchar *path, GCancellable *cancellable, GError **error)
{
  return weft_checkpoint_open_full (path, NULL, WEFT_IO_BACKEND_PREAD, WEFT_CHECKPOINT_FLAGS_NONE,
                                    cancellable, error);
}

/**
 * weft_checkpoint_open_full:
 * @path: a folder, a `.safetensors` file or a `.safetensors.index.json`
 * @variant: (nullable): V of `model.V.safetensors` and `model.safetensors.index.V.json`
 * @backend: how bytes of the files are read
 * @flags: how strictly
 * @cancellable: (nullable): to stop between files
 * @error: return location
 *
 * Opens a checkpoint. In a folder the weights are the first of: the file that the config's `transformers_weights` names;
 * `model.safetensors`; `model.safetensors.index.json`; or else the only index, the only safetensors file or the only
 * complete set `NAME-00001-of-0000N.safetensors`.
 *
 * Returns: (transfer full): the open checkpoint
 * Errors: %WEFT_ERROR_MISSING if there are no weights, a shard is absent or a file lacks a tensor that the index lists;
 *   %WEFT_ERROR_CONFLICT if a name is in two shards or in another one than the index says, or if it is not clear which
 *   files to take; %WEFT_ERROR_UNEXPECTED if the index does not list a tensor; %WEFT_ERROR_UNSUPPORTED for pickle
 *   files; %WEFT_ERROR_FORMAT if a header, the index or the config breaks its format; %WEFT_ERROR_IO;
 *   %WEFT_ERROR_CANCELLED
 * Since: 1.0
 */
WeftCheckpoint *
weft_checkpoint_open_full (const gchar *path, const gchar *variant, WeftIoBackend backend,
                           WeftCheckpointFlags flags, GCancellable *cancellable, GError **error)
{
  g_autoptr (WeftCheckpoint) self = g_object_new (WEFT_TYPE_CHECKPOINT, NULL);

  g_return_val_if_fail (path != NULL, NULL);
  self->path = g_strdup (path);
  self->files = weft_checkpoint_files_find (path, variant, error);
  if (self->files == NULL || !load_index (self, error) || !open_shards (self, backend, cancellable, error))
    return NULL;
  weft_state_dict_sort_natural (self->state_dict);
  note_tensor_shards (self);
  if (self->index != NULL && !check_index (self, flags, error))
    return NULL;
  if (!list_files (self, error))
    return NULL;
  return g_steal_pointer (&self);
}

/**
 * weft_checkpoint_get_path:
 * @self: a checkpoint
 *
 * Returns: (type filename): the path that was opened
 * Since: 1.0
 */
const gchar *
weft_checkpoint_get_path (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return self->path;
}

/**
 * weft_checkpoint_get_folder:
 * @self: a checkpoint
 *
 * Returns: (type filename) (nullable): the folder that the checkpoint is, or %NULL if it is a single safetensors file
 * Since: 1.0
 */
const gchar *
weft_checkpoint_get_folder (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return self->files->folder;
}

/**
 * weft_checkpoint_get_state_dict:
 * @self: a checkpoint
 *
 * Returns: (transfer none): the tensors of all shards in natural order of their names; do not change it
 * Since: 1.0
 */
WeftStateDict *
weft_checkpoint_get_state_dict (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return self->state_dict;
}

/**
 * weft_checkpoint_get_config:
 * @self: a checkpoint
 *
 * Returns: (transfer none) (nullable): the root of the `config.json` beside the weights, or %NULL if there is none
 * Since: 1.0
 */
JsonNode *
weft_checkpoint_get_config (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return self->files->config;
}

/**
 * weft_checkpoint_get_n_shards:
 * @self: a checkpoint
 *
 * Returns: the number of safetensors files, at least 1
 * Since: 1.0
 */
guint
weft_checkpoint_get_n_shards (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), 0);
  return self->shards->len;
}

/**
 * weft_checkpoint_get_shard:
 * @self: a checkpoint
 * @shard: which one, in the order of the file names
 *
 * Returns: (transfer none): the open file
 * Since: 1.0
 */
WeftShard *
weft_checkpoint_get_shard (WeftCheckpoint *self, guint shard)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self) && shard < self->shards->len, NULL);
  return get_shard (self, shard);
}

/**
 * weft_checkpoint_get_tensor_shard:
 * @self: a checkpoint
 * @position: a position in the state dict
 *
 * Returns: the number of the shard that holds that tensor
 * Since: 1.0
 */
guint
weft_checkpoint_get_tensor_shard (WeftCheckpoint *self, guint position)
{
  g_return_val_if_fail (
      WEFT_IS_CHECKPOINT (self) && position < weft_state_dict_get_n_tensors (self->state_dict), 0);
  return self->tensor_shards == NULL ? 0 : self->tensor_shards[position];
}

/**
 * weft_checkpoint_get_index:
 * @self: a checkpoint
 *
 * Returns: (transfer none) (nullable): the text of the index, verbatim, or %NULL if there is none
 * Since: 1.0
 */
GBytes *
weft_checkpoint_get_index (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return self->index == NULL ? NULL : self->index->text;
}

/**
 * weft_checkpoint_get_index_name:
 * @self: a checkpoint
 *
 * Returns: (nullable): the file name of the index, or %NULL if there is none
 * Since: 1.0
 */
const gchar *
weft_checkpoint_get_index_name (WeftCheckpoint *self)
{
  const gchar *slash;

  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  if (self->index == NULL)
    return NULL;
  slash = strrchr (self->files->index_path, '/');
  return slash == NULL ? self->files->index_path : slash + 1;
}

/**
 * weft_checkpoint_get_index_metadata:
 * @self: a checkpoint
 *
 * Returns: (transfer none) (nullable): the object `metadata` of the index, or %NULL if there is no index
 * Since: 1.0
 */
JsonNode *
weft_checkpoint_get_index_metadata (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return self->index == NULL ? NULL : self->index->metadata;
}

/**
 * weft_checkpoint_get_other_files:
 * @self: a checkpoint
 *
 * Files of the folder and its sub-folders that a converted checkpoint needs too: config, tokenizer, and so on.
 *
 * Returns: (transfer none) (array zero-terminated=1) (element-type filename): paths relative to the folder, sorted; none
 *   if a single safetensors file was opened
 * Since: 1.0
 */
const gchar *const *
weft_checkpoint_get_other_files (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return (const gchar *const *) self->other_files;
}

/**
 * weft_checkpoint_get_unused_files:
 * @self: a checkpoint
 *
 * Weight files of the folder that are no part of this checkpoint: other variants, other formats, leftovers.
 *
 * Returns: (transfer none) (array zero-terminated=1) (element-type filename): paths relative to the folder, sorted
 * Since: 1.0
 */
const gchar *const *
weft_checkpoint_get_unused_files (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return (const gchar *const *) self->unused_files;
}
