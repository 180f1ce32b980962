/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-checkpoint.h"

#include <string.h>

#include "base/weft-text.h"
#include "checkpoint/weft-checkpoint-files-private.h"
#include "checkpoint/weft-index-private.h"
#include "tensor/weft-transfer.h"

struct _WeftCheckpoint
{
  GObject parent_instance;

  gchar *path;
  WeftCheckpointFiles *files;
  WeftIndex *index;
  GPtrArray *shards;
  WeftStateDict *state_dict;
  /* The shard of each tensor, by its position in the state dict. */
  guint *tensor_shards;
  GStrv other_files;
  GStrv unused_files;
  GStrv skipped_files;
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
  g_strfreev (self->skipped_files);
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

/* A tensor of a shard. */
typedef struct
{
  const gchar *name;
  guint shard;
  guint position;
  /* The bytes by which natural order compares, in a text of all. */
  gsize key;
  gsize key_length;
} Listed;

static gint
compare_names (gconstpointer a, gconstpointer b, G_GNUC_UNUSED gpointer user_data)
{
  return strcmp (((const Listed *) a)->name, ((const Listed *) b)->name);
}

static gint
compare_keys (gconstpointer a, gconstpointer b, gpointer keys)
{
  const Listed *listed_a = a;
  const Listed *listed_b = b;
  gint order = memcmp ((const guint8 *) keys + listed_a->key, (const guint8 *) keys + listed_b->key,
                       MIN (listed_a->key_length, listed_b->key_length));

  if (order != 0)
    return order;
  return (listed_a->key_length > listed_b->key_length) - (listed_a->key_length < listed_b->key_length);
}

/* Stable, and free if nothing is to be done, which is the rule for names in a file. */
static void
sort_listed (Listed *listed, guint n_listed, GCompareDataFunc compare, gpointer keys)
{
  gboolean is_sorted = TRUE;

  for (guint i = 1; i < n_listed && is_sorted; i++)
    is_sorted = compare (&listed[i - 1], &listed[i], keys) <= 0;
  if (!is_sorted)
    g_qsort_with_data (listed, (gint) n_listed, sizeof *listed, compare, keys);
}

/* All tensors, shard by shard and by name within a shard: the order that names keep which natural order holds for equal
 * (`a.7`, `a.007`). */
static GArray *
list_tensors (WeftCheckpoint *self)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (Listed));

  for (guint i = 0; i < self->shards->len; i++)
    {
      guint start = all->len;

      for (guint j = 0; j < weft_shard_get_n_tensors (get_shard (self, i)); j++)
        {
          Listed listed = { weft_shard_get_tensor_name (get_shard (self, i), j), i, j, 0, 0 };

          g_array_append_val (all, listed);
        }
      if (all->len > start)
        sort_listed (&g_array_index (all, Listed, start), all->len - start, compare_names, NULL);
    }
  return all;
}

/* Whether the index lists exactly these tensors, each in its shard. Its lines are nearly always sorted, so that looking
 * at the next name of the shard is enough; if not, check_index() finds out what is the matter. */
static gboolean
index_agrees (WeftCheckpoint *self, const GArray *all)
{
  g_autofree guint *next = g_new0 (guint, self->shards->len + 1);

  for (guint i = 0; i + 1 < self->shards->len; i++)
    next[i + 1] = next[i] + weft_shard_get_n_tensors (get_shard (self, i));
  if (self->index->entries->len != all->len)
    return FALSE;
  for (guint i = 0; i < all->len; i++)
    {
      const WeftIndexEntry *entry = &g_array_index (self->index->entries, WeftIndexEntry, i);
      const Listed *listed;

      if (next[entry->file] >= all->len)
        return FALSE;
      listed = &g_array_index (all, Listed, next[entry->file]++);
      if (listed->shard != entry->file || strcmp (listed->name, entry->name) != 0)
        return FALSE;
    }
  return TRUE;
}

/* Adds a tensor in its final place. */
static gboolean
add_tensor (WeftCheckpoint *self, const Listed *listed, GError **error)
{
  WeftShard *shard = get_shard (self, listed->shard);
  guint position = weft_state_dict_get_n_tensors (self->state_dict);

  self->tensor_shards[position] = listed->shard;
  if (weft_state_dict_add (self->state_dict, listed->name, weft_shard_get_tensor (shard, listed->position),
                           NULL))
    return TRUE;
  weft_state_dict_find (self->state_dict, listed->name, &position);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "%s: tensor '%s': expected each name in one shard, found it in %s and in %s", self->path,
               listed->name, weft_shard_get_file_name (get_shard (self, self->tensor_shards[position])),
               weft_shard_get_file_name (shard));
  return FALSE;
}

static void
sort_natural (GArray *all)
{
  g_autoptr (GByteArray) keys = g_byte_array_new ();

  for (guint i = 0; i < all->len; i++)
    {
      Listed *listed = &g_array_index (all, Listed, i);

      listed->key = keys->len;
      weft_text_append_natural_key (keys, listed->name);
      listed->key_length = keys->len - listed->key;
    }
  if (all->len > 0)
    sort_listed (&g_array_index (all, Listed, 0), all->len, compare_keys, keys->data);
}

static gboolean
add_tensors (WeftCheckpoint *self, GArray *all, GError **error)
{
  self->tensor_shards = g_new (guint, all->len + 1);
  sort_natural (all);
  for (guint i = 0; i < all->len; i++)
    if (!add_tensor (self, &g_array_index (all, Listed, i), error))
      return FALSE;
  return TRUE;
}

/* What all shards are opened with. */
typedef struct
{
  WeftCheckpoint *checkpoint;
  WeftIoBackend backend;
  GCancellable *cancellable;
} Opening;

typedef struct
{
  const gchar *path;
  WeftShard *shard;
  GError *error;
} Opened;

static void
open_shard (gpointer user_data, gpointer opening_data)
{
  Opened *opened = user_data;
  const Opening *opening = opening_data;
  const WeftCheckpoint *checkpoint = opening->checkpoint;

  if (g_cancellable_is_cancelled (opening->cancellable))
    g_set_error (&opened->error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "%s: opening was cancelled",
                 checkpoint->path);
  else if (checkpoint->index != NULL && !g_file_test (opened->path, G_FILE_TEST_EXISTS))
    g_set_error (&opened->error, WEFT_ERROR, WEFT_ERROR_MISSING,
                 "%s: the index names a file that is absent: %s", checkpoint->files->index_path,
                 opened->path);
  else
    opened->shard = weft_shard_open (opened->path, opening->backend, &opened->error);
}

/* Headers are scanned side by side; the first shard that fails gives the error. */
static gboolean
open_shards (WeftCheckpoint *self, WeftIoBackend backend, GCancellable *cancellable, GError **error)
{
  Opening opening = { self, backend, cancellable };
  guint n_shards = self->files->shard_paths->len;
  guint n_threads = MIN (weft_transfer_get_default_n_threads (), n_shards);
  g_autofree Opened *opened = g_new0 (Opened, n_shards + 1);
  GThreadPool *pool =
      n_threads > 1 ? g_thread_pool_new (open_shard, &opening, (gint) n_threads, TRUE, NULL) : NULL;
  gboolean ok = TRUE;

  if (pool != NULL && g_thread_pool_get_num_threads (pool) == 0)
    g_thread_pool_free (g_steal_pointer (&pool), TRUE, TRUE);
  for (guint i = 0; i < n_shards; i++)
    {
      opened[i].path = g_ptr_array_index (self->files->shard_paths, i);
      if (pool != NULL)
        g_thread_pool_push (pool, &opened[i], NULL);
      else
        open_shard (&opened[i], &opening);
    }
  if (pool != NULL)
    g_thread_pool_free (pool, FALSE, TRUE);
  for (guint i = 0; i < n_shards; i++)
    {
      if (opened[i].shard != NULL)
        g_ptr_array_add (self->shards, opened[i].shard);
      else if (ok)
        g_propagate_error (error, opened[i].error);
      else
        g_error_free (opened[i].error);
      ok = ok && opened[i].shard != NULL;
    }
  return ok;
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
  return TRUE;
}

/* Makes the state dict out of the shards, and holds it against the index. */
static gboolean
merge_shards (WeftCheckpoint *self, WeftCheckpointFlags flags, GError **error)
{
  g_autoptr (GArray) all = list_tensors (self);
  gboolean is_checked = self->index == NULL || index_agrees (self, all);

  if (!add_tensors (self, all, error) || !(is_checked || check_index (self, flags, error)))
    return FALSE;
  if (self->index != NULL)
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
      if (!weft_checkpoint_files_list (self->files->folder, &self->other_files, &weights,
                                       &self->skipped_files, error))
        return FALSE;
      for (guint i = 0; weights[i] != NULL; i++)
        if (!is_used (self, weights[i]))
          g_strv_builder_add (unused, weights[i]);
    }
  else
    {
      self->other_files = g_new0 (gchar *, 1);
      self->skipped_files = g_new0 (gchar *, 1);
    }
  self->unused_files = g_strv_builder_end (unused);
  return TRUE;
}

/**
 * weft_checkpoint_open:
 * @path: a folder, a `.safetensors` file, a `.safetensors.index.json` or a `.gguf` file
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
 * @path: a folder, a `.safetensors` file, a `.safetensors.index.json` or a `.gguf` file
 * @variant: (nullable): V of `model.V.safetensors` and `model.safetensors.index.V.json`
 * @backend: how bytes of the files are read
 * @flags: how strictly
 * @cancellable: (nullable): to stop between files
 * @error: return location
 *
 * Opens a checkpoint. In a folder the weights are the first of: the file that the config's `transformers_weights` names;
 * `model.safetensors`; `model.safetensors.index.json`; or else the only index, the only safetensors file or the only
 * complete set `NAME-00001-of-0000N.safetensors`; or else, with the same, of `.gguf` files.
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
  if (!merge_shards (self, flags, error) || !list_files (self, error))
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
  return self->tensor_shards[position];
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

/**
 * weft_checkpoint_get_skipped_files:
 * @self: a checkpoint
 *
 * What else lies in the folder and is not carried along: folders of tools such as `.git`, links to folders, special files.
 *
 * Returns: (transfer none) (array zero-terminated=1) (element-type filename): paths relative to the folder, sorted; what is in
 *   such a folder is not listed
 * Since: 1.0
 */
const gchar *const *
weft_checkpoint_get_skipped_files (WeftCheckpoint *self)
{
  g_return_val_if_fail (WEFT_IS_CHECKPOINT (self), NULL);
  return (const gchar *const *) self->skipped_files;
}
