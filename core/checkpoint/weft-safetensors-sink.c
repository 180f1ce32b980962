/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-safetensors-sink.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "checkpoint/weft-checkpoint-files-private.h"
#include "checkpoint/weft-file-part-private.h"
#include "checkpoint/weft-header-scanner-private.h"
#include "checkpoint/weft-job-private.h"
#include "checkpoint/weft-output-set-private.h"
#include "checkpoint/weft-replaceable-private.h"

struct _WeftSafetensorsSink
{
  GObject parent_instance;

  gchar *path;
  gboolean is_single_file;
  WeftOutputFlags flags;
  /* NULL before a member of a set is prepared, and if an earlier run has made all of it. */
  WeftOutputTransaction *transaction;
  /* The set that the output is a member of, NULL for none, and its name and fingerprint there. */
  WeftOutputSet *set;
  gchar *member;
  gchar *member_fingerprint;
  WeftCheckpoint *source;
  WeftShardLayout *layout;
  gchar *fingerprint;
  /* Of each batch the descriptor of its file. */
  GArray *fds;
  /* GBytes by name, to be written beside the weights. */
  GHashTable *texts;
  /* Names of files of the source that are not carried along. */
  GHashTable *left_out;
  guint n_resumed_files;
  guint64 n_resumed_bytes;
  /* Who else writes, NULL for nobody; the parts of the output of all ranks, and the positions of this one's. */
  WeftJob *job;
  GArray *parts;
  GArray *own_parts;
  /* For each file, not 0 if an earlier run has finished it. */
  guint8 *is_finished;
  /* What rank 0 has heard of: parts of each rank that are durable, and parts of each file that are not. */
  guint *n_heard_parts;
  guint *n_open_parts;
  GError *note_error;
  /* All that this rank has written is durable. */
  gboolean is_settled;
};

/* A name below the folder: no way up, not absolute, nothing hidden. */
static gboolean
is_inner_name (const gchar *name)
{
  g_auto (GStrv) parts = g_strsplit (name, "/", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] == '\0' || strcmp (parts[i], ".") == 0 || strcmp (parts[i], "..") == 0)
      return FALSE;
  return parts[0] != NULL;
}

/* The name of a file of weights in the output; a single file has the name that the caller gave. */
static gchar *
get_file_name (WeftSafetensorsSink *self, guint file)
{
  if (self->is_single_file)
    return g_path_get_basename (self->path);
  return g_strdup (weft_shard_layout_get_file_name (self->layout, file));
}

static gboolean
is_leader (WeftSafetensorsSink *self)
{
  return self->job == NULL || weft_job_get_rank (self->job) == 0;
}

static gboolean
check_layout (WeftSafetensorsSink *self, WeftStateDict *outputs, GError **error)
{
  if (self->layout == NULL)
    self->layout = weft_shard_layout_new_by_size (
        outputs, self->is_single_file ? G_MAXUINT64 : WEFT_DEFAULT_MAX_SHARD_BYTES, NULL, NULL, error);
  if (self->layout == NULL)
    return FALSE;
  g_return_val_if_fail (weft_shard_layout_get_outputs (self->layout) == outputs, FALSE);
  if (self->is_single_file && weft_shard_layout_get_n_files (self->layout) > 1)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "%s: the output is one file, but the tensors are laid out in %u files: name a folder, or raise "
          "--max-shard-size",
          self->path, weft_shard_layout_get_n_files (self->layout));
      return FALSE;
    }
  if ((self->flags & WEFT_OUTPUT_FLAGS_IN_PLACE) != 0 && self->source == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: --in-place needs to know the source",
                   self->path);
      return FALSE;
    }
  return TRUE;
}

/* Whether a file of that name is written anyway, so that the source's is not carried along. */
static gboolean
is_replaced (WeftSafetensorsSink *self, const gchar *name)
{
  if (g_hash_table_contains (self->texts, name) || g_hash_table_contains (self->left_out, name)
      || g_strcmp0 (name, weft_shard_layout_get_index_name (self->layout)) == 0)
    return TRUE;
  for (guint i = 0; i < weft_shard_layout_get_n_files (self->layout); i++)
    if (strcmp (name, weft_shard_layout_get_file_name (self->layout, i)) == 0)
      return TRUE;
  return FALSE;
}

static void
hash_text (XXH3_state_t *state, const gchar *text)
{
  XXH3_128bits_update (state, text, strlen (text) + 1);
}

static void
hash_bytes (XXH3_state_t *state, GBytes *bytes)
{
  gsize n_bytes;
  gconstpointer start = g_bytes_get_data (bytes, &n_bytes);

  if (n_bytes > 0)
    XXH3_128bits_update (state, start, n_bytes);
}

/* A file that was written anew since has another time. */
static void
hash_status (XXH3_state_t *state, const gchar *path, const struct stat *status)
{
  guint64 size = (guint64) status->st_size;

  hash_text (state, path);
  XXH3_128bits_update (state, &size, sizeof size);
  XXH3_128bits_update (state, &status->st_mtim, sizeof status->st_mtim);
}

static void
hash_shard (XXH3_state_t *state, WeftShard *shard)
{
  WeftFile *file = weft_shard_get_file (shard);
  struct stat status = { .st_size = (off_t) weft_file_get_size (file) };

  if (fstat (weft_file_get_fd (file), &status) != 0)
    memset (&status.st_mtim, 0, sizeof status.st_mtim);
  hash_status (state, weft_file_get_path (file), &status);
}

/* The small files, which a member that is done is not asked for again. */
static void
hash_other_files (WeftSafetensorsSink *self, XXH3_state_t *state)
{
  const gchar *folder = self->source != NULL ? weft_checkpoint_get_folder (self->source) : NULL;
  const gchar *const *others = folder != NULL ? weft_checkpoint_get_other_files (self->source) : NULL;
  g_autoptr (GList) names = g_list_sort (g_hash_table_get_keys (self->texts), (GCompareFunc) strcmp);

  for (GList *name = names; name != NULL; name = name->next)
    {
      hash_text (state, name->data);
      hash_bytes (state, g_hash_table_lookup (self->texts, name->data));
    }
  for (guint i = 0; others != NULL && others[i] != NULL; i++)
    {
      g_autofree gchar *path = g_build_filename (folder, others[i], NULL);
      struct stat status;

      if (!is_replaced (self, others[i]) && stat (path, &status) == 0)
        hash_status (state, path, &status);
    }
}

/* What must be equal for a file of an earlier run to be kept, and on all ranks: the caller's fingerprint, the layout, the
 * source's files. */
static XXH128_hash_t
compute_fingerprint (WeftSafetensorsSink *self)
{
  XXH3_state_t *state = XXH3_createState ();
  XXH128_hash_t hash;

  XXH3_128bits_reset (state);
  hash_text (state, self->fingerprint == NULL ? "" : self->fingerprint);
  for (guint i = 0; i < weft_shard_layout_get_n_files (self->layout); i++)
    {
      hash_text (state, weft_shard_layout_get_file_name (self->layout, i));
      hash_bytes (state, weft_shard_layout_get_header (self->layout, i));
    }
  for (guint i = 0; self->source != NULL && i < weft_checkpoint_get_n_shards (self->source); i++)
    hash_shard (state, weft_checkpoint_get_shard (self->source, i));
  if (self->set != NULL)
    hash_other_files (self, state);
  hash = XXH3_128bits_digest (state);
  XXH3_freeState (state);
  return hash;
}

static gboolean
copy_other_files (WeftSafetensorsSink *self, GError **error)
{
  const gchar *const *names = weft_checkpoint_get_other_files (self->source);
  const gchar *folder = weft_checkpoint_get_folder (self->source);

  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree gchar *path = g_build_filename (folder, names[i], NULL);

      if (!is_replaced (self, names[i])
          && !weft_output_transaction_copy_file (self->transaction, names[i], path, error))
        return FALSE;
    }
  return TRUE;
}

/* Of the source itself: what was read, and what is carried along. */
static void
add_replaceable_of_source (WeftSafetensorsSink *self)
{
  const gchar *const *names = weft_checkpoint_get_other_files (self->source);

  weft_replaceable_add_weights (self->transaction, weft_checkpoint_get_folder (self->source), self->source);
  for (guint i = 0; names[i] != NULL; i++)
    weft_output_transaction_add_replaceable (self->transaction, names[i]);
}

/* Of another checkpoint: its weights, if it can be read, and files that the output has too. */
static gboolean
add_replaceable_of_other (WeftSafetensorsSink *self, const gchar *folder, GError **error)
{
  g_autoptr (WeftCheckpoint) old = weft_checkpoint_open_full (folder, NULL, WEFT_IO_BACKEND_PREAD,
                                                              WEFT_CHECKPOINT_FLAGS_LENIENT, NULL, NULL);
  g_auto (GStrv) others = NULL;
  g_auto (GStrv) weights = NULL;
  g_auto (GStrv) skipped = NULL;

  if (old != NULL)
    weft_replaceable_add_weights (self->transaction, folder, old);
  if (!weft_checkpoint_files_list (folder, &others, &weights, &skipped, error))
    return FALSE;
  for (guint i = 0; others[i] != NULL; i++)
    if (g_hash_table_contains (self->texts, others[i])
        || (self->source != NULL
            && g_strv_contains (weft_checkpoint_get_other_files (self->source), others[i])))
      weft_output_transaction_add_replaceable (self->transaction, others[i]);
  return TRUE;
}

/* Says what may go of a folder that is replaced, before anything is copied: what changes after that stays. */
static gboolean
add_replaceable (WeftSafetensorsSink *self, GError **error)
{
  const gchar *replaced = weft_output_transaction_get_replaced (self->transaction);

  if (replaced == NULL)
    return TRUE;
  if ((self->flags & WEFT_OUTPUT_FLAGS_IN_PLACE) == 0)
    return add_replaceable_of_other (self, replaced, error);
  if (weft_checkpoint_get_folder (self->source) != NULL)
    add_replaceable_of_source (self);
  return TRUE;
}

/* The small files come first: they are on their way to the disk while the weights are written. */
static gboolean
write_other_files (WeftSafetensorsSink *self, GError **error)
{
  GHashTableIter iter;
  gpointer name, text;

  if (self->is_single_file)
    return TRUE;
  if (self->source != NULL && !copy_other_files (self, error))
    return FALSE;
  g_hash_table_iter_init (&iter, self->texts);
  while (g_hash_table_iter_next (&iter, &name, &text))
    if (!weft_output_transaction_add_text (self->transaction, name, text, error))
      return FALSE;
  return TRUE;
}

static gchar *
format_fingerprint (XXH128_hash_t hash)
{
  return g_strdup_printf ("%016" G_GINT64_MODIFIER "x%016" G_GINT64_MODIFIER "x", (guint64) hash.high64,
                          (guint64) hash.low64);
}

/* The output comes to be: its folder, and what an earlier run has left of it. */
static gboolean
begin (WeftSafetensorsSink *self, XXH128_hash_t hash, GError **error)
{
  g_autofree gchar *fingerprint = format_fingerprint (hash);

  if (!weft_output_transaction_begin (self->transaction, fingerprint, error)
      || !add_replaceable (self, error))
    return FALSE;
  for (guint i = 0; i < weft_shard_layout_get_n_files (self->layout); i++)
    {
      g_autofree gchar *name = get_file_name (self, i);
      guint64 size = weft_shard_layout_get_file_size (self->layout, i);

      self->is_finished[i] = weft_output_transaction_has_finished (self->transaction, name, size);
      if (!self->is_finished[i] && self->job != NULL
          && !weft_output_transaction_reserve_file (self->transaction, name, error))
        return FALSE;
    }
  return TRUE;
}

/* Notes the files of which all parts are durable. A rank finishes its parts in their order, so their number says which. */
static void
note_finished_files (gpointer user_data)
{
  WeftSafetensorsSink *self = user_data;
  g_autofree guint *n_seen = g_new0 (guint, weft_job_get_size (self->job));

  for (guint i = 0; i < self->parts->len; i++)
    {
      const WeftFilePart *part = &g_array_index (self->parts, WeftFilePart, i);
      g_autofree gchar *name = get_file_name (self, part->file);
      guint position = n_seen[part->rank];

      if (self->is_finished[part->file])
        continue;
      n_seen[part->rank]++;
      if (position < self->n_heard_parts[part->rank]
          || position >= weft_job_get_n_parts (self->job, part->rank) || --self->n_open_parts[part->file] > 0
          || self->note_error != NULL)
        continue;
      (void) weft_output_transaction_note_finished (
          self->transaction, name, weft_shard_layout_get_file_size (self->layout, part->file),
          &self->note_error);
    }
  for (guint i = 0; i < weft_job_get_size (self->job); i++)
    self->n_heard_parts[i] = weft_job_get_n_parts (self->job, i);
}

/* Whether the file system of every rank lets files be cut: they may have it mounted in different ways. */
static gboolean
can_cut_everywhere (WeftSafetensorsSink *self)
{
  guint64 n_refusals = !weft_output_transaction_takes_ranges (self->transaction);

  weft_job_sum (self->job, &n_refusals, 1);
  return n_refusals == 0;
}

/* Makes sure that all ranks are about to write the same, then lets rank 0 begin. @takes_ranges: whether files may be cut. */
static gboolean
begin_together (WeftSafetensorsSink *self, XXH128_hash_t hash, gboolean *takes_ranges, GError **error)
{
  weft_job_begin_output (self->job);
  weft_job_set_fingerprint (self->job, (guint64) hash.low64);
  if (!weft_job_agree (self->job, error) || !weft_job_check_fingerprints (self->job, error))
    return FALSE;
  if (!is_leader (self))
    weft_output_transaction_join (self->transaction);
  else if (!begin (self, hash, error))
    return FALSE;
  if (!weft_job_agree (self->job, error))
    return FALSE;
  *takes_ranges = can_cut_everywhere (self);
  weft_job_broadcast (self->job, self->is_finished, weft_shard_layout_get_n_files (self->layout));
  return TRUE;
}

static void
share_out (WeftSafetensorsSink *self, gboolean takes_ranges)
{
  guint rank = self->job != NULL ? weft_job_get_rank (self->job) : 0;
  guint size = self->job != NULL ? weft_job_get_size (self->job) : 1;

  self->parts = weft_file_parts_share_out (self->layout, self->is_finished, size, takes_ranges);
  self->own_parts = g_array_new (FALSE, FALSE, sizeof (guint));
  self->n_heard_parts = g_new0 (guint, size);
  self->n_open_parts = g_new0 (guint, MAX (weft_shard_layout_get_n_files (self->layout), 1));
  for (guint i = 0; i < self->parts->len; i++)
    {
      const WeftFilePart *part = &g_array_index (self->parts, WeftFilePart, i);

      self->n_open_parts[part->file]++;
      if (part->rank == rank)
        g_array_append_val (self->own_parts, i);
    }
  if (self->job != NULL && is_leader (self))
    weft_job_set_listener (self->job, note_finished_files, self);
}

/* A member of a set is there from an earlier run, or comes to be as any output does. */
static gboolean
begin_member (WeftSafetensorsSink *self, XXH128_hash_t hash, GError **error)
{
  WeftOutputTransaction *set = weft_output_set_get_transaction (self->set);
  g_autofree gchar *path = weft_output_transaction_get_member_path (set, self->member);
  gboolean is_done;

  self->member_fingerprint = format_fingerprint (hash);
  if (!weft_output_transaction_take_member (set, self->member, self->member_fingerprint, &is_done, error))
    return FALSE;
  if (is_done)
    {
      memset (self->is_finished, TRUE, weft_shard_layout_get_n_files (self->layout));
      return TRUE;
    }
  self->transaction = weft_output_transaction_new (path, WEFT_OUTPUT_SHAPE_FOLDER, self->flags, error);
  return self->transaction != NULL && begin (self, hash, error);
}

/* Whether an earlier run has made all of the member. */
static gboolean
is_done_member (WeftSafetensorsSink *self)
{
  return self->set != NULL && self->transaction == NULL;
}

static gboolean
weft_safetensors_sink_prepare (WeftSink *sink, WeftStateDict *outputs, guint *n_batches, GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);
  gboolean takes_ranges = FALSE;
  XXH128_hash_t hash;

  if (!check_layout (self, outputs, error))
    return FALSE;
  hash = compute_fingerprint (self);
  self->is_finished = g_new0 (guint8, MAX (weft_shard_layout_get_n_files (self->layout), 1));
  if (self->set != NULL   ? !begin_member (self, hash, error)
      : self->job != NULL ? !begin_together (self, hash, &takes_ranges, error)
                          : !begin (self, hash, error))
    return FALSE;
  share_out (self, takes_ranges);
  *n_batches = self->own_parts->len;
  g_array_set_size (self->fds, *n_batches);
  return !is_leader (self) || is_done_member (self) || write_other_files (self, error);
}

static const WeftFilePart *
get_own_part (WeftSafetensorsSink *self, guint batch)
{
  return &g_array_index (self->parts, WeftFilePart, g_array_index (self->own_parts, guint, batch));
}

static void
append_transfers (WeftSafetensorsSink *self, const WeftFilePart *part, gint fd, GArray *transfers)
{
  WeftStateDict *outputs = weft_shard_layout_get_outputs (self->layout);

  for (guint i = part->first_tensor; i < part->first_tensor + part->n_tensors; i++)
    {
      guint position = weft_shard_layout_get_tensor (self->layout, part->file, i);
      WeftTransfer transfer = {
        .tensor = weft_state_dict_get_tensor (outputs, position),
        .fd = fd,
        .offset = weft_shard_layout_get_tensor_offset (self->layout, part->file, i),
        .name = weft_state_dict_get_name (outputs, position),
      };

      g_array_append_val (transfers, transfer);
    }
}

static gboolean
write_at (gint fd, gconstpointer bytes, gsize n_bytes, off_t offset, const gchar *name, GError **error)
{
  const gchar *at = bytes;

  while (n_bytes > 0)
    {
      gssize n = pwrite (fd, at, n_bytes, offset);
      gint number = errno;

      if (n < 0 && number == EINTR)
        continue;
      if (n < 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: the header cannot be written: %s", name,
                       g_strerror (number));
          return FALSE;
        }
      at += n;
      offset += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
write_header (WeftSafetensorsSink *self, guint file, gint fd, const gchar *name, GError **error)
{
  gsize n_bytes;
  gconstpointer json = g_bytes_get_data (weft_shard_layout_get_header (self->layout, file), &n_bytes);
  guint64 length = GUINT64_TO_LE ((guint64) n_bytes);

  return write_at (fd, &length, sizeof length, 0, name, error)
         && write_at (fd, json, n_bytes, WEFT_HEADER_LENGTH_BYTES, name, error);
}

static gint
open_part (WeftSafetensorsSink *self, const WeftFilePart *part, const gchar *name, GError **error)
{
  guint64 size = weft_shard_layout_get_file_size (self->layout, part->file);

  if (self->job == NULL)
    return weft_output_transaction_create_file (self->transaction, name, size, error);
  return weft_output_transaction_open_part (self->transaction, name, size, part->start, part->end, error);
}

/* A batch is a file, or what this rank writes of it. */
static gboolean
weft_safetensors_sink_begin_batch (WeftSink *sink, guint batch, GArray *transfers, gboolean *is_filled,
                                   GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);
  const WeftFilePart *part = get_own_part (self, batch);
  g_autofree gchar *name = get_file_name (self, part->file);
  gint fd = -1;

  *is_filled = self->is_finished[part->file] != 0;
  if (!*is_filled)
    {
      fd = open_part (self, part, name, error);
      if (fd < 0 || (part->start == 0 && !write_header (self, part->file, fd, name, error)))
        return FALSE;
    }
  else
    {
      self->n_resumed_files++;
      self->n_resumed_bytes += weft_shard_layout_get_file_size (self->layout, part->file);
    }
  g_array_index (self->fds, gint, batch) = fd;
  append_transfers (self, part, fd, transfers);
  return TRUE;
}

static void
weft_safetensors_sink_filled (WeftSink *sink, guint batch, guint64 n_bytes)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);

  weft_output_transaction_note_written (self->transaction, g_array_index (self->fds, gint, batch), n_bytes);
}

static void
on_durable (gpointer user_data)
{
  weft_job_add_part (user_data);
}

static gboolean
weft_safetensors_sink_end_batch (WeftSink *sink, guint batch, GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);
  gint fd = g_array_index (self->fds, gint, batch);

  if (self->job == NULL)
    return weft_output_transaction_finish_file (self->transaction, fd, error);
  return weft_output_transaction_finish_part (self->transaction, fd, on_durable, self->job, error);
}

static gboolean
weft_safetensors_sink_poll (WeftSink *sink, guint64 *n_bytes_done, GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);

  if (self->job == NULL)
    return TRUE;
  weft_job_set_n_bytes (self->job, *n_bytes_done);
  if (!weft_job_poll (self->job, error))
    return FALSE;
  *n_bytes_done = MAX (*n_bytes_done, weft_job_get_n_bytes (self->job));
  return TRUE;
}

/* The index comes last: whoever sees it sees all that it names. */
static gboolean
publish (WeftSafetensorsSink *self, GError **error)
{
  const gchar *index_name = weft_shard_layout_get_index_name (self->layout);

  if (index_name != NULL && !self->is_single_file
      && !weft_output_transaction_add_text (self->transaction, index_name,
                                            weft_shard_layout_get_index (self->layout), error))
    return FALSE;
  return weft_output_transaction_publish (self->transaction, error);
}

/* Rank 0: whether all files are there, and noted, that the ranks say they have written. */
static gboolean
check_files (WeftSafetensorsSink *self, GError **error)
{
  for (guint i = 0; i < weft_shard_layout_get_n_files (self->layout); i++)
    {
      g_autofree gchar *name = get_file_name (self, i);

      if (!weft_output_transaction_check_file (self->transaction, name,
                                               weft_shard_layout_get_file_size (self->layout, i), error))
        return FALSE;
    }
  if (self->note_error == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&self->note_error));
  return FALSE;
}

/* Until all ranks have their parts on the disk. */
static gboolean
weft_safetensors_sink_wait (WeftSink *sink, guint64 *n_bytes_done, gboolean *is_over, GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);

  *is_over = self->job == NULL;
  if (*is_over)
    return TRUE;
  if (!self->is_settled && !weft_output_transaction_is_idle (self->transaction))
    return weft_job_rest (self->job, error) && weft_safetensors_sink_poll (sink, n_bytes_done, error);
  if (!self->is_settled)
    {
      if (!weft_output_transaction_settle (self->transaction, error))
        return FALSE;
      self->is_settled = TRUE;
      weft_job_begin_agreement (self->job, TRUE);
    }
  if (!weft_job_wait_for_agreement (self->job, is_over, error))
    return FALSE;
  *n_bytes_done = MAX (*n_bytes_done, weft_job_get_n_bytes (self->job));
  return TRUE;
}

static gboolean
weft_safetensors_sink_finish (WeftSink *sink, GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);

  if (is_done_member (self))
    return TRUE;
  if (self->set != NULL)
    return publish (self, error)
           && weft_output_transaction_note_member (weft_output_set_get_transaction (self->set), self->member,
                                                   self->member_fingerprint, error);
  if (self->job == NULL)
    return publish (self, error);
  weft_job_set_listener (self->job, NULL, NULL);
  if (is_leader (self) && (!check_files (self, error) || !publish (self, error)))
    return FALSE;
  return weft_job_agree (self->job, error);
}

static void
weft_safetensors_sink_fail (WeftSink *sink, GError **error)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);

  if (self->job != NULL)
    (void) weft_job_fail (self->job, error);
}

static void
weft_safetensors_sink_abandon (WeftSink *sink)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (sink);

  if (self->job != NULL)
    weft_job_set_listener (self->job, NULL, NULL);
  if (self->transaction != NULL)
    weft_output_transaction_abandon (self->transaction);
}

static void
weft_safetensors_sink_implement (WeftSinkInterface *iface)
{
  iface->prepare = weft_safetensors_sink_prepare;
  iface->begin_batch = weft_safetensors_sink_begin_batch;
  iface->filled = weft_safetensors_sink_filled;
  iface->poll = weft_safetensors_sink_poll;
  iface->end_batch = weft_safetensors_sink_end_batch;
  iface->wait = weft_safetensors_sink_wait;
  iface->finish = weft_safetensors_sink_finish;
  iface->fail = weft_safetensors_sink_fail;
  iface->abandon = weft_safetensors_sink_abandon;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (WeftSafetensorsSink, weft_safetensors_sink, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (WEFT_TYPE_SINK, weft_safetensors_sink_implement))

static void
weft_safetensors_sink_finalize (GObject *object)
{
  WeftSafetensorsSink *self = WEFT_SAFETENSORS_SINK (object);

  g_clear_pointer (&self->transaction, weft_output_transaction_free);
  g_clear_object (&self->set);
  g_free (self->member);
  g_free (self->member_fingerprint);
  g_clear_object (&self->source);
  g_clear_object (&self->layout);
  g_free (self->path);
  g_free (self->fingerprint);
  g_array_unref (self->fds);
  g_hash_table_unref (self->texts);
  g_hash_table_unref (self->left_out);
  g_clear_object (&self->job);
  g_clear_pointer (&self->parts, g_array_unref);
  g_clear_pointer (&self->own_parts, g_array_unref);
  g_free (self->is_finished);
  g_free (self->n_heard_parts);
  g_free (self->n_open_parts);
  g_clear_error (&self->note_error);
  G_OBJECT_CLASS (weft_safetensors_sink_parent_class)->finalize (object);
}

static void
weft_safetensors_sink_class_init (WeftSafetensorsSinkClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_safetensors_sink_finalize;
}

static void
weft_safetensors_sink_init (WeftSafetensorsSink *self)
{
  self->fds = g_array_new (FALSE, TRUE, sizeof (gint));
  self->left_out = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->texts = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_bytes_unref);
}

/**
 * weft_safetensors_sink_new:
 * @path: (type filename): a folder that does not exist yet, or a file name that ends in `.safetensors`
 * @error: return location
 *
 * Returns: (transfer full): a sink that changes nothing before it is written to
 * Errors: those of weft_safetensors_sink_new_full()
 * Since: 1.0
 */
WeftSafetensorsSink *
weft_safetensors_sink_new (const gchar *path, GError **error)
{
  return weft_safetensors_sink_new_full (path, WEFT_OUTPUT_FLAGS_NONE, error);
}

/**
 * weft_safetensors_sink_new_full:
 * @path: (type filename): a folder, or a file name that ends in `.safetensors` (any name with
 *   %WEFT_OUTPUT_FLAGS_SINGLE_FILE)
 * @flags: how the output comes to its place
 * @error: return location
 *
 * While it is being written the output lies in a folder @path with `.weft-partial` appended.
 *
 * Returns: (transfer full): a sink that changes nothing before it is written to
 * Errors: %WEFT_ERROR_EXISTS if the output exists and is not to be replaced, or is no checkpoint; %WEFT_ERROR_MISSING if
 *   the folder of the output does not exist; %WEFT_ERROR_ARGUMENT if the name is that of a GGUF file
 * Since: 1.0
 */
WeftSafetensorsSink *
weft_safetensors_sink_new_full (const gchar *path, WeftOutputFlags flags, GError **error)
{
  g_autoptr (WeftSafetensorsSink) self = g_object_new (WEFT_TYPE_SAFETENSORS_SINK, NULL);

  g_return_val_if_fail (path != NULL, NULL);
  if ((flags & WEFT_OUTPUT_FLAGS_SINGLE_FILE) == 0 && g_str_has_suffix (path, ".gguf")
      && !g_file_test (path, G_FILE_TEST_IS_DIR))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
          "%s: safetensors are written, not GGUF: name a folder, or a file that ends with .safetensors",
          path);
      return NULL;
    }
  self->path = g_strdup (path);
  self->flags = flags;
  self->is_single_file =
      (flags & WEFT_OUTPUT_FLAGS_SINGLE_FILE) != 0
      || (g_str_has_suffix (path, ".safetensors") && !g_file_test (path, G_FILE_TEST_IS_DIR));
  self->transaction = weft_output_transaction_new (
      path, self->is_single_file ? WEFT_OUTPUT_SHAPE_FILE : WEFT_OUTPUT_SHAPE_FOLDER, flags, error);
  return self->transaction == NULL ? NULL : g_steal_pointer (&self);
}

/**
 * weft_safetensors_sink_new_in_set:
 * @set: a set that has begun
 * @member: (type filename): the name of one of its members
 *
 * The output is a folder in the set, and comes to its place with the others. One process writes it, without a job.
 *
 * Returns: (transfer full): a sink that changes nothing before it is written to
 * Since: 1.0
 */
WeftSafetensorsSink *
weft_safetensors_sink_new_in_set (WeftOutputSet *set, const gchar *member)
{
  WeftSafetensorsSink *self;

  g_return_val_if_fail (WEFT_IS_OUTPUT_SET (set) && member != NULL, NULL);
  self = g_object_new (WEFT_TYPE_SAFETENSORS_SINK, NULL);
  self->path = weft_output_transaction_get_member_path (weft_output_set_get_transaction (set), member);
  self->flags = weft_output_set_get_member_flags (set);
  self->set = g_object_ref (set);
  self->member = g_strdup (member);
  return self;
}

/**
 * weft_safetensors_sink_is_single_file:
 * @self: a sink
 *
 * Returns: whether the output is one file and not a folder
 * Since: 1.0
 */
gboolean
weft_safetensors_sink_is_single_file (WeftSafetensorsSink *self)
{
  g_return_val_if_fail (WEFT_IS_SAFETENSORS_SINK (self), FALSE);
  return self->is_single_file;
}

/* The output is to stay away from the source: of a member, the whole set is. */
static gboolean
guard_source (WeftSafetensorsSink *self, const gchar *path, GError **error)
{
  return weft_output_transaction_guard_source (
      self->set != NULL ? weft_output_set_get_transaction (self->set) : self->transaction, path, error);
}

/**
 * weft_safetensors_sink_set_source:
 * @self: a sink
 * @source: the checkpoint that the outputs come from
 * @error: return location
 *
 * Makes sure that writing cannot harm the source. Its other files (config, tokenizer, ...) are carried along to a folder.
 *
 * Returns: whether the output is apart from the source, or is to be exchanged for it
 * Errors: %WEFT_ERROR_ARGUMENT if the output is the source, lies in it or holds it; %WEFT_ERROR_IO
 * Since: 1.0
 */
gboolean
weft_safetensors_sink_set_source (WeftSafetensorsSink *self, WeftCheckpoint *source, GError **error)
{
  const gchar *folder;

  g_return_val_if_fail (WEFT_IS_SAFETENSORS_SINK (self) && WEFT_IS_CHECKPOINT (source), FALSE);
  folder = weft_checkpoint_get_folder (source);
  if (!guard_source (self, folder != NULL ? folder : weft_checkpoint_get_path (source), error))
    return FALSE;
  /* Shards may be links to files elsewhere. */
  for (guint i = 0;
       (self->flags & WEFT_OUTPUT_FLAGS_IN_PLACE) == 0 && i < weft_checkpoint_get_n_shards (source); i++)
    {
      WeftFile *file = weft_shard_get_file (weft_checkpoint_get_shard (source, i));

      if (!guard_source (self, weft_file_get_path (file), error))
        return FALSE;
    }
  g_set_object (&self->source, source);
  return TRUE;
}

/**
 * weft_safetensors_sink_set_layout:
 * @self: a sink
 * @layout: where each output goes; made for the outputs that will be written
 *
 * Without a layout, files are filled in the order of the outputs up to #WEFT_DEFAULT_MAX_SHARD_BYTES, without metadata.
 *
 * Since: 1.0
 */
void
weft_safetensors_sink_set_layout (WeftSafetensorsSink *self, WeftShardLayout *layout)
{
  g_return_if_fail (WEFT_IS_SAFETENSORS_SINK (self) && WEFT_IS_SHARD_LAYOUT (layout));
  g_set_object (&self->layout, layout);
}

/**
 * weft_safetensors_sink_set_fingerprint:
 * @self: a sink
 * @fingerprint: a text that differs whenever the bytes of an output would
 *
 * Files of an interrupted run are kept only if the fingerprint, the layout and the source's files are the same.
 *
 * Since: 1.0
 */
void
weft_safetensors_sink_set_fingerprint (WeftSafetensorsSink *self, const gchar *fingerprint)
{
  g_return_if_fail (WEFT_IS_SAFETENSORS_SINK (self) && fingerprint != NULL);
  g_free (self->fingerprint);
  self->fingerprint = g_strdup (fingerprint);
}

/**
 * weft_safetensors_sink_set_job:
 * @self: a sink that nothing has been written to
 * @job: the processes that write the output together
 *
 * Shares the writing out: every rank writes the same outputs to a sink of the same path, on a file system that all have in common, and
 * each moves the bytes of its part. Whole files go to ranks by their size; where that is uneven, and the file system can take
 * it, files are cut at borders of tensors. Rank 0 does the rest, and publishes when all ranks are done. Each rank calls
 * weft_job_fail() when it cannot go on.
 *
 * Since: 1.0
 */
void
weft_safetensors_sink_set_job (WeftSafetensorsSink *self, WeftJob *job)
{
  g_return_if_fail (WEFT_IS_SAFETENSORS_SINK (self) && WEFT_IS_JOB (job) && self->set == NULL);
  g_set_object (&self->job, job);
}

/**
 * weft_safetensors_sink_add_text:
 * @self: a sink
 * @name: (type filename): a name relative to the output folder
 * @text: the content of the file
 * @error: return location
 *
 * Writes a file beside the weights, such as a changed `config.json`; it replaces one that the source carries along. An
 * output that is one file has no files beside it.
 *
 * Returns: whether @name stays inside the output folder
 * Errors: %WEFT_ERROR_ARGUMENT if it does not
 * Since: 1.0
 */
gboolean
weft_safetensors_sink_add_text (WeftSafetensorsSink *self, const gchar *name, GBytes *text, GError **error)
{
  g_return_val_if_fail (WEFT_IS_SAFETENSORS_SINK (self) && name != NULL && text != NULL, FALSE);
  if (!is_inner_name (name))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "%s: expected a name inside the output folder, found '%s'", self->path, name);
      return FALSE;
    }
  g_hash_table_insert (self->texts, g_strdup (name), g_bytes_ref (text));
  return TRUE;
}

/**
 * weft_safetensors_sink_get_kept_path:
 * @self: a sink that was written to
 *
 * A folder that is replaced loses the weights that were read (in place) or were its own, the record beside them, and the
 * other files that the output has too. With anything else in it, it stays under another name.
 *
 * Returns: (type filename) (nullable): the folder with what is left of the one that was replaced, `DST.weft-old`, or %NULL if
 *   nothing is left
 * Since: 1.0
 */
const gchar *
weft_safetensors_sink_get_kept_path (WeftSafetensorsSink *self)
{
  g_return_val_if_fail (WEFT_IS_SAFETENSORS_SINK (self), NULL);
  return self->transaction != NULL ? weft_output_transaction_get_kept_path (self->transaction) : NULL;
}

/**
 * weft_safetensors_sink_get_n_resumed_files:
 * @self: a sink that was written to
 *
 * Returns: how many files of weights were kept from an interrupted run
 * Since: 1.0
 */
guint
weft_safetensors_sink_get_n_resumed_files (WeftSafetensorsSink *self)
{
  g_return_val_if_fail (WEFT_IS_SAFETENSORS_SINK (self), 0);
  return self->n_resumed_files;
}

/**
 * weft_safetensors_sink_get_n_resumed_bytes:
 * @self: a sink that was written to
 *
 * Returns: the size of the files that were kept from an interrupted run, in bytes
 * Since: 1.0
 */
guint64
weft_safetensors_sink_get_n_resumed_bytes (WeftSafetensorsSink *self)
{
  g_return_val_if_fail (WEFT_IS_SAFETENSORS_SINK (self), 0);
  return self->n_resumed_bytes;
}

/**
 * weft_safetensors_sink_leave_out:
 * @self: a sink
 * @name: (type filename): a name relative to the source's folder
 *
 * Does not carry a file along that the source has beside its weights, as one that is not true of the output.
 *
 * Since: 1.0
 */
void
weft_safetensors_sink_leave_out (WeftSafetensorsSink *self, const gchar *name)
{
  g_return_if_fail (WEFT_IS_SAFETENSORS_SINK (self) && name != NULL);
  g_hash_table_add (self->left_out, g_strdup (name));
}
