/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-output-transaction-private.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "checkpoint/weft-checkpoint-files-private.h"
#include "checkpoint/weft-rank-folder.h"

#define PARTIAL_SUFFIX ".weft-partial"
#define OLD_SUFFIX ".weft-old"
#define JOURNAL_NAME ".weft-journal"
#define JOURNAL_TITLE "weft-journal 1 "
/* What a set keeps beside a member that is whole: its fingerprint. */
#define DONE_SUFFIX ".weft-done"
#define SET_FINGERPRINT "set"
/* How many new bytes make it worth to start writing to the disk. */
#define WRITEBACK_BYTES (32 * 1024 * 1024)
#define COPY_BUFFER_BYTES (256 * 1024)
#define COPY_RANGE_BYTES (1 << 30)
/* Folders that a tree walk keeps open. */
#define WALK_N_OPEN 16

/* A file that is being written. */
typedef struct
{
  gint fd;
  gchar *name;
  guint64 size;
  guint64 n_bytes_dirty;
  /* Others write to it as well. */
  gboolean is_part;
} OpenFile;

struct _WeftOutputTransaction
{
  /* Absolute, links resolved. */
  gchar *destination;
  gchar *partial;
  gchar *old;
  WeftOutputShape shape;
  gboolean replaces;
  WeftOutputFlags flags;

  gint journal_fd;
  /* Sizes of the files that an earlier run has finished, as text, by name. */
  GHashTable *finished;
  guint n_finished;
  /* What may go from a folder that is replaced: how each file was (struct stat), by relative name. */
  GHashTable *replaceable;
  gboolean keeps_old;
  /* Folders made below the partial one, to be synced. */
  GHashTable *folders;
  /* Names of files that the ranks of a job write and that are not finished. */
  GHashTable *reserved;
  WeftWriteback *writeback;

  GArray *open_files;
};

static gboolean
fail (GError **error, const gchar *path, const gchar *what)
{
  gint number = errno;

  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: %s: %s", path, what, g_strerror (number));
  return FALSE;
}

static gboolean
exists (const gchar *path)
{
  struct stat status;

  return lstat (path, &status) == 0;
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static gboolean
is_folder (const gchar *path)
{
  struct stat status;

  return lstat (path, &status) == 0 && S_ISDIR (status.st_mode);
}

static void
clear_open_file (gpointer file)
{
  g_free (((OpenFile *) file)->name);
}

static OpenFile *
find_open_file (WeftOutputTransaction *self, gint fd)
{
  OpenFile *file = (OpenFile *) (gpointer) self->open_files->data;

  while (file->fd != fd)
    file++;
  return file;
}

static void
forget_open_file (WeftOutputTransaction *self, OpenFile *file)
{
  g_array_remove_index (self->open_files, (guint) (file - (OpenFile *) (gpointer) self->open_files->data));
}

static void
close_journal (WeftOutputTransaction *self)
{
  if (self->journal_fd >= 0)
    close (self->journal_fd);
  self->journal_fd = -1;
}

/* An absolute path without links; the last part need not exist. */
static gchar *
resolve_destination (const gchar *path, GError **error)
{
  g_autofree gchar *absolute = g_canonicalize_filename (path, NULL);
  g_autofree gchar *parent = g_path_get_dirname (absolute);
  g_autofree gchar *name = g_path_get_basename (absolute);
  g_autofree gchar *resolved = realpath (path, NULL);
  g_autofree gchar *resolved_parent = NULL;

  if (resolved != NULL)
    return g_steal_pointer (&resolved);
  if (exists (absolute))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS, "%s: the output is a link to nowhere: remove it",
                   path);
      return NULL;
    }
  resolved_parent = realpath (parent, NULL);
  if (resolved_parent == NULL || !is_folder (resolved_parent))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "%s: the folder %s of the output does not exist: make it first", path, parent);
      return NULL;
    }
  return g_build_filename (resolved_parent, name, NULL);
}

/* Whether @folder holds a checkpoint, or those of ranks, so that outputs of several ranks may take its place. */
static gboolean
is_set_folder (const gchar *folder)
{
  g_auto (GStrv) ranks = weft_rank_folders_list (folder);

  for (guint i = 0; ranks[i] != NULL; i++)
    {
      g_autofree gchar *path = g_build_filename (folder, ranks[i], NULL);

      if (weft_checkpoint_files_is_folder (path))
        return TRUE;
    }
  return weft_checkpoint_files_is_folder (folder);
}

/* A destination that exists may be replaced if the caller said so and if it is what the new one will be. */
static gboolean
check_existing (WeftOutputTransaction *self, const gchar *path, GError **error)
{
  gboolean is_file = self->shape == WEFT_OUTPUT_SHAPE_FILE;
  struct stat status;

  if (lstat (self->destination, &status) != 0)
    return TRUE;
  self->replaces = TRUE;
  if ((self->flags & (WEFT_OUTPUT_FLAGS_FORCE | WEFT_OUTPUT_FLAGS_IN_PLACE)) == 0)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS,
                 "%s: the output exists: name another one, or use --force to replace it", path);
  else if (is_file ? !S_ISREG (status.st_mode) : !S_ISDIR (status.st_mode))
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS,
                 "%s: the output exists and is no %s, so that it is not replaced", path,
                 is_file ? "regular file" : "folder");
  else if (self->shape == WEFT_OUTPUT_SHAPE_SET
               ? !is_set_folder (self->destination)
               : !is_file && !weft_checkpoint_files_is_folder (self->destination))
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_EXISTS,
        "%s: the output exists and holds no checkpoint, so that it is not replaced: remove it yourself",
        path);
  else if (!is_file && exists (self->old))
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_EXISTS,
        "%s: what is left of a folder that was replaced would get this name, which is taken: look into it, then "
        "move it away or remove it",
        self->old);
  else
    return TRUE;
  return FALSE;
}

WeftOutputTransaction *
weft_output_transaction_new (const gchar *path, WeftOutputShape shape, WeftOutputFlags flags, GError **error)
{
  g_autoptr (WeftOutputTransaction) self = g_new0 (WeftOutputTransaction, 1);

  self->journal_fd = -1;
  self->shape = shape;
  self->flags = flags;
  self->finished = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  self->folders = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->reserved = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  self->open_files = g_array_new (FALSE, FALSE, sizeof (OpenFile));
  g_array_set_clear_func (self->open_files, clear_open_file);
  self->destination = resolve_destination (path, error);
  self->replaceable = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  if (self->destination == NULL)
    return NULL;
  self->partial = g_strconcat (self->destination, PARTIAL_SUFFIX, NULL);
  self->old = g_strconcat (self->destination, OLD_SUFFIX, NULL);
  if (!check_existing (self, path, error))
    return NULL;
  return g_steal_pointer (&self);
}

void
weft_output_transaction_free (WeftOutputTransaction *self)
{
  weft_output_transaction_abandon (self);
  g_free (self->destination);
  g_free (self->partial);
  g_free (self->old);
  g_array_unref (self->open_files);
  g_hash_table_unref (self->finished);
  g_hash_table_unref (self->replaceable);
  g_hash_table_unref (self->folders);
  g_hash_table_unref (self->reserved);
  g_free (self);
}

static gboolean
is_inside (const gchar *path, const gchar *folder)
{
  gsize n_bytes = strlen (folder);

  return strncmp (path, folder, n_bytes) == 0 && (path[n_bytes] == '/' || g_str_has_suffix (folder, "/"));
}

static gboolean
is_same_file (const gchar *a, const gchar *b)
{
  struct stat a_status, b_status;

  return stat (a, &a_status) == 0 && stat (b, &b_status) == 0 && a_status.st_dev == b_status.st_dev
         && a_status.st_ino == b_status.st_ino;
}

gboolean
weft_output_transaction_guard_source (WeftOutputTransaction *self, const gchar *source_path, GError **error)
{
  g_autofree gchar *source = realpath (source_path, NULL);
  gboolean is_in_place = (self->flags & WEFT_OUTPUT_FLAGS_IN_PLACE) != 0;
  const gchar *relation = NULL;

  if (source == NULL)
    return fail (error, source_path, "cannot be resolved");
  if (strcmp (source, self->destination) == 0 || is_same_file (source, self->destination))
    relation = is_in_place ? NULL : "is the source; name another one, or use --in-place";
  else if (is_in_place)
    relation = "is not the source, as --in-place needs it to be";
  else if (is_inside (self->destination, source))
    relation = "lies inside the source; name one outside";
  else if (is_inside (source, self->destination))
    relation = "holds the source, which would be removed with it; name another one";
  if (relation == NULL)
    return TRUE;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "%s: the output %s (source: %s)", self->destination,
               relation, source);
  return FALSE;
}

static gint
remove_one (const gchar *path, G_GNUC_UNUSED const struct stat *status, G_GNUC_UNUSED gint type,
            G_GNUC_UNUSED struct FTW *walk)
{
  return remove (path);
}

static gboolean
remove_tree (const gchar *path, GError **error)
{
  if (nftw (path, remove_one, WALK_N_OPEN, FTW_DEPTH | FTW_PHYS) == 0)
    return TRUE;
  return fail (error, path, "cannot be removed");
}

/* Whether @name, in the partial folder of a set, belongs to one of its @members. */
static gboolean
is_of_member (const gchar *name, const gchar *const *members)
{
  for (guint i = 0; members[i] != NULL; i++)
    {
      gsize n_bytes = strlen (members[i]);

      if (strncmp (name, members[i], n_bytes) == 0
          && (name[n_bytes] == '\0' || strcmp (name + n_bytes, PARTIAL_SUFFIX) == 0
              || strcmp (name + n_bytes, DONE_SUFFIX) == 0))
        return TRUE;
    }
  return FALSE;
}

/* Empties the partial folder but for what belongs to @kept members, and for the journal, which holds the lock. */
static gboolean
clear_partial (WeftOutputTransaction *self, const gchar *const *kept, GError **error)
{
  g_autoptr (GError) local_error = NULL;
  g_autoptr (GDir) dir = g_dir_open (self->partial, 0, &local_error);
  const gchar *name;

  if (dir == NULL)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be listed: %s", self->partial,
                   local_error->message);
      return FALSE;
    }
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (self->partial, name, NULL);

      if (strcmp (name, JOURNAL_NAME) != 0 && !is_of_member (name, kept) && !remove_tree (path, error))
        return FALSE;
    }
  g_hash_table_remove_all (self->finished);
  return TRUE;
}

/* Whether the journal that was opened and locked is still the one in the folder: another run may have ended meanwhile. */
static gboolean
is_current_journal (WeftOutputTransaction *self, const gchar *path)
{
  struct stat opened, current;

  return fstat (self->journal_fd, &opened) == 0 && lstat (path, &current) == 0
         && opened.st_ino == current.st_ino && opened.st_dev == current.st_dev;
}

/* A run that was killed before its journal was there has left an empty folder. */
static gboolean
is_empty_folder (const gchar *path)
{
  g_autoptr (GDir) folder = g_dir_open (path, 0, NULL);

  return folder != NULL && g_dir_read_name (folder) == NULL;
}

static gboolean
open_journal (WeftOutputTransaction *self, gboolean is_new, GError **error)
{
  g_autofree gchar *path = g_build_filename (self->partial, JOURNAL_NAME, NULL);
  gint creation = is_new || is_empty_folder (self->partial) ? O_CREAT : 0;
  gboolean is_locked;

  self->journal_fd = open (path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW | creation, 0666);
  if (self->journal_fd < 0 && errno == ENOENT)
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_EXISTS,
          "%s: expected the partial output of an earlier run, found a folder without its %s, which may be anything: look "
          "into it, then move it away or remove it",
          self->partial, JOURNAL_NAME);
      return FALSE;
    }
  if (self->journal_fd < 0)
    return fail (error, path, "cannot be opened");
  is_locked = flock (self->journal_fd, LOCK_EX | LOCK_NB) == 0;
  if (!is_locked && errno != EWOULDBLOCK)
    return fail (error, path, "cannot be locked");
  if (is_locked && is_current_journal (self, path))
    return TRUE;
  close (self->journal_fd);
  self->journal_fd = -1;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "%s: another run is writing this output: wait until it has ended", self->partial);
  return FALSE;
}

/* Takes over what an earlier run has finished, line by line; a last line without an end was cut off and does not count. */
static void
read_journal (WeftOutputTransaction *self, const gchar *fingerprint)
{
  g_autofree gchar *path = g_build_filename (self->partial, JOURNAL_NAME, NULL);
  g_autofree gchar *title = g_strconcat (JOURNAL_TITLE, fingerprint, NULL);
  g_autofree gchar *text = NULL;
  g_auto (GStrv) lines = NULL;

  if (!g_file_get_contents (path, &text, NULL, NULL))
    return;
  lines = g_strsplit (text, "\n", -1);
  if (lines[0] == NULL || strcmp (lines[0], title) != 0)
    return;
  for (guint i = 1; lines[i] != NULL && lines[i + 1] != NULL; i++)
    {
      gchar *space = strchr (lines[i], ' ');

      if (space != NULL)
        g_hash_table_insert (self->finished, g_strdup (space + 1),
                             g_strndup (lines[i], (gsize) (space - lines[i])));
    }
}

static gboolean
write_all (gint fd, const gchar *path, const gchar *bytes, gsize n_bytes, GError **error)
{
  while (n_bytes > 0)
    {
      gssize n = write (fd, bytes, n_bytes);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return fail (error, path, "cannot be written");
      bytes += n;
      n_bytes -= (gsize) n;
    }
  return TRUE;
}

static gboolean
start_journal (WeftOutputTransaction *self, const gchar *fingerprint, GError **error)
{
  g_autofree gchar *title = g_strconcat (JOURNAL_TITLE, fingerprint, "\n", NULL);

  if (ftruncate (self->journal_fd, 0) != 0)
    return fail (error, self->partial, "the journal cannot be emptied");
  return write_all (self->journal_fd, self->partial, title, strlen (title), error);
}

void
weft_output_transaction_join (WeftOutputTransaction *self)
{
  if ((self->flags & WEFT_OUTPUT_FLAGS_NO_SYNC) == 0)
    self->writeback = weft_writeback_new ();
}

/* Makes the partial folder, or takes over that of an earlier run, and locks it. */
static gboolean
take_partial (WeftOutputTransaction *self, gboolean *is_new, GError **error)
{
  *is_new = mkdir (self->partial, 0777) == 0;
  if (!*is_new && errno != EEXIST)
    return fail (error, self->partial, "cannot be made");
  if (!*is_new && !is_folder (self->partial))
    {
      g_set_error (
          error, WEFT_ERROR, WEFT_ERROR_EXISTS,
          "%s: the output is written in a folder of this name, found something else there: move it away or "
          "remove it",
          self->partial);
      return FALSE;
    }
  return open_journal (self, *is_new, error);
}

static const gchar *const no_members[] = { NULL };

gboolean
weft_output_transaction_begin (WeftOutputTransaction *self, const gchar *fingerprint, GError **error)
{
  gboolean is_new;

  if (!take_partial (self, &is_new, error))
    return FALSE;
  if (!is_new && (self->flags & WEFT_OUTPUT_FLAGS_RESUME) != 0)
    read_journal (self, fingerprint);
  if (g_hash_table_size (self->finished) == 0
      && (!clear_partial (self, no_members, error) || !start_journal (self, fingerprint, error)))
    return FALSE;
  weft_output_transaction_join (self);
  return TRUE;
}

gboolean
weft_output_transaction_begin_set (WeftOutputTransaction *self, const gchar *const *members, GError **error)
{
  gboolean is_resumed = (self->flags & WEFT_OUTPUT_FLAGS_RESUME) != 0;
  gboolean is_new;

  return take_partial (self, &is_new, error) && clear_partial (self, is_resumed ? members : no_members, error)
         && start_journal (self, SET_FINGERPRINT, error);
}

gchar *
weft_output_transaction_get_member_path (WeftOutputTransaction *self, const gchar *member)
{
  return g_build_filename (self->partial, member, NULL);
}

/* Appends a line for each file below @folder: its size and its name, which @prefix begins. In the order of names. */
static gboolean
list_files (GString *text, const gchar *folder, const gchar *prefix)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  const gchar *name;

  if (dir == NULL)
    return FALSE;
  while ((name = g_dir_read_name (dir)) != NULL)
    g_ptr_array_add (names, g_strdup (name));
  g_ptr_array_sort (names, compare_names);
  for (guint i = 0; i < names->len; i++)
    {
      g_autofree gchar *path = g_build_filename (folder, names->pdata[i], NULL);
      g_autofree gchar *relative = g_strconcat (prefix, names->pdata[i], NULL);
      g_autofree gchar *inner_prefix = g_strconcat (relative, "/", NULL);
      struct stat status;

      if (lstat (path, &status) != 0 || (S_ISDIR (status.st_mode) && !list_files (text, path, inner_prefix)))
        return FALSE;
      if (!S_ISDIR (status.st_mode))
        g_string_append_printf (text, "%" G_GUINT64_FORMAT " %s\n", (guint64) status.st_size, relative);
    }
  return TRUE;
}

/* What marks a member as done: its fingerprint, and its files as they are now, so that one which has lost a file or a part of one
 * since is made again. %NULL if its files cannot be told. */
static gchar *
make_mark (const gchar *path, const gchar *fingerprint)
{
  g_autoptr (GString) text = g_string_new (fingerprint);

  g_string_append_c (text, '\n');
  return list_files (text, path, "") ? g_strdup (text->str) : NULL;
}

gboolean
weft_output_transaction_take_member (WeftOutputTransaction *self, const gchar *member,
                                     const gchar *fingerprint, gboolean *is_done, GError **error)
{
  g_autofree gchar *path = weft_output_transaction_get_member_path (self, member);
  g_autofree gchar *done_path = g_strconcat (path, DONE_SUFFIX, NULL);
  g_autofree gchar *text = NULL;
  g_autofree gchar *mark = NULL;

  if (is_folder (path) && g_file_get_contents (done_path, &text, NULL, NULL))
    mark = make_mark (path, fingerprint);
  *is_done = mark != NULL && strcmp (text, mark) == 0;
  if (*is_done)
    return TRUE;
  if (unlink (done_path) != 0 && errno != ENOENT)
    return fail (error, done_path, "cannot be removed");
  return !exists (path) || remove_tree (path, error);
}

gboolean
weft_output_transaction_note_member (WeftOutputTransaction *self, const gchar *member,
                                     const gchar *fingerprint, GError **error)
{
  g_autofree gchar *name = g_strconcat (member, DONE_SUFFIX, NULL);
  g_autofree gchar *path = weft_output_transaction_get_member_path (self, name);
  g_autofree gchar *member_path = weft_output_transaction_get_member_path (self, member);
  g_autofree gchar *mark = make_mark (member_path, fingerprint);
  gint fd;
  gboolean ok;

  if (mark == NULL)
    return fail (error, member_path, "cannot be listed");
  fd = open (path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0)
    return fail (error, path, "cannot be made");
  ok = write_all (fd, path, mark, strlen (mark), error);
  if (ok && (self->flags & WEFT_OUTPUT_FLAGS_NO_SYNC) == 0 && fsync (fd) != 0)
    ok = fail (error, path, "cannot be brought to the disk");
  close (fd);
  return ok;
}

gboolean
weft_output_transaction_has_finished (WeftOutputTransaction *self, const gchar *name, guint64 size)
{
  g_autofree gchar *path = g_build_filename (self->partial, name, NULL);
  g_autofree gchar *size_text = g_strdup_printf ("%" G_GUINT64_FORMAT, size);
  struct stat status;

  return g_strcmp0 (g_hash_table_lookup (self->finished, name), size_text) == 0 && lstat (path, &status) == 0
         && S_ISREG (status.st_mode) && (guint64) status.st_size == size;
}

/* Makes room for the bytes from @start to @end of a file that will have @size bytes. File systems that cannot allocate say so;
 * then a full disk shows later. */
static gboolean
allocate (gint fd, const gchar *path, guint64 size, guint64 start, guint64 end, GError **error)
{
  gint result;

  if (start == end)
    return TRUE;
  do
    result = fallocate (fd, 0, (off_t) start, (off_t) (end - start));
  while (result != 0 && errno == EINTR);
  if (result == 0 || ((errno == EOPNOTSUPP || errno == ENOSYS) && ftruncate (fd, (off_t) size) == 0))
    return TRUE;
  result = errno;
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: %" G_GUINT64_FORMAT " bytes cannot be allocated: %s",
               path, end - start, g_strerror (result));
  return FALSE;
}

/* Makes the folders of a relative name, outermost first. */
static gboolean
make_folders (WeftOutputTransaction *self, const gchar *name, GError **error)
{
  for (const gchar *slash = strchr (name, '/'); slash != NULL; slash = strchr (slash + 1, '/'))
    {
      g_autofree gchar *folder = g_strndup (name, (gsize) (slash - name));
      g_autofree gchar *path = g_build_filename (self->partial, folder, NULL);

      if (mkdir (path, 0777) != 0 && errno != EEXIST)
        return fail (error, path, "cannot be made");
      g_hash_table_add (self->folders, g_steal_pointer (&folder));
    }
  return TRUE;
}

static void
take_file (WeftOutputTransaction *self, gint fd, const gchar *name, guint64 size, gboolean is_part)
{
  OpenFile file = { .fd = fd, .name = g_strdup (name), .size = size, .is_part = is_part };

  g_array_append_val (self->open_files, file);
}

/* Makes a file that is not there; what an earlier run has left under its name goes. */
static gint
make_file (WeftOutputTransaction *self, const gchar *name, const gchar *path, GError **error)
{
  gint fd;

  if (!make_folders (self, name, error))
    return -1;
  if (unlink (path) != 0 && errno != ENOENT)
    {
      fail (error, path, "cannot be removed");
      return -1;
    }
  fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0)
    fail (error, path, "cannot be made");
  return fd;
}

gint
weft_output_transaction_create_file (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                     GError **error)
{
  g_autofree gchar *path = g_build_filename (self->partial, name, NULL);
  gint fd = make_file (self, name, path, error);

  if (fd < 0)
    return -1;
  take_file (self, fd, name, size, FALSE);
  return allocate (fd, path, size, 0, size, error) ? fd : -1;
}

gboolean
weft_output_transaction_takes_ranges (WeftOutputTransaction *self)
{
  /* Two machines that write to one page of a file may lose bytes of each other on these. */
  static const guint32 incoherent[] = {
    NFS_SUPER_MAGIC, SMB_SUPER_MAGIC,  CIFS_SUPER_MAGIC, SMB2_SUPER_MAGIC,
    AFS_SUPER_MAGIC, CODA_SUPER_MAGIC, V9FS_MAGIC,       FUSE_SUPER_MAGIC
  };
  struct statfs status;

  if (statfs (self->partial, &status) != 0)
    return FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (incoherent); i++)
    if ((guint32) status.f_type == incoherent[i])
      return FALSE;
  return TRUE;
}

gboolean
weft_output_transaction_reserve_file (WeftOutputTransaction *self, const gchar *name, GError **error)
{
  g_autofree gchar *path = g_build_filename (self->partial, name, NULL);
  gint fd = make_file (self, name, path, error);

  if (fd < 0)
    return FALSE;
  g_hash_table_add (self->reserved, g_strdup (name));
  if (close (fd) != 0)
    return fail (error, path, "cannot be closed");
  return TRUE;
}

gint
weft_output_transaction_open_part (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                   guint64 start, guint64 end, GError **error)
{
  g_autofree gchar *path = g_build_filename (self->partial, name, NULL);
  gint fd = open (path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);

  if (fd < 0 && errno == ENOENT)
    g_set_error (
        error, WEFT_ERROR, WEFT_ERROR_MISSING,
        "%s: rank 0 has made this file, and it is not there: the output must be on a file system that all "
        "ranks share",
        path);
  else if (fd < 0)
    fail (error, path, "cannot be opened");
  if (fd < 0)
    return -1;
  take_file (self, fd, name, size, TRUE);
  return allocate (fd, path, size, start, end, error) ? fd : -1;
}

void
weft_output_transaction_note_written (WeftOutputTransaction *self, gint fd, guint64 n_bytes)
{
  OpenFile *file = find_open_file (self, fd);

  file->n_bytes_dirty += n_bytes;
  if (self->writeback == NULL || file->n_bytes_dirty < WRITEBACK_BYTES)
    return;
  file->n_bytes_dirty = 0;
  weft_writeback_start (self->writeback, fd);
}

/* Gives an open file away: to be synced, if that is wanted; then @durable is called, if it is not NULL. */
static gboolean
close_file (WeftOutputTransaction *self, gint fd, WeftDurableFunc durable, gpointer user_data, GError **error)
{
  OpenFile *file = find_open_file (self, fd);
  g_autofree gchar *path = g_build_filename (self->partial, file->name, NULL);

  forget_open_file (self, file);
  if (self->writeback != NULL)
    weft_writeback_finish_file (self->writeback, fd, path, durable, user_data);
  else if (close (fd) != 0)
    return fail (error, path, "cannot be closed");
  else if (durable != NULL)
    durable (user_data);
  return TRUE;
}

gboolean
weft_output_transaction_note_finished (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                       GError **error)
{
  g_autofree gchar *line = g_strdup_printf ("%" G_GUINT64_FORMAT " %s\n", size, name);

  self->n_finished++;
  g_hash_table_remove (self->reserved, name);
  if (self->writeback == NULL)
    return write_all (self->journal_fd, self->partial, line, strlen (line), error);
  weft_writeback_note (self->writeback, self->journal_fd, self->partial, line);
  return TRUE;
}

gboolean
weft_output_transaction_finish_file (WeftOutputTransaction *self, gint fd, GError **error)
{
  const OpenFile *file = find_open_file (self, fd);
  g_autofree gchar *name = g_strdup (file->name);
  guint64 size = file->size;

  return close_file (self, fd, NULL, NULL, error)
         && weft_output_transaction_note_finished (self, name, size, error);
}

gboolean
weft_output_transaction_finish_part (WeftOutputTransaction *self, gint fd, WeftDurableFunc durable,
                                     gpointer user_data, GError **error)
{
  return close_file (self, fd, durable, user_data, error);
}

gboolean
weft_output_transaction_is_idle (WeftOutputTransaction *self)
{
  return self->writeback == NULL || weft_writeback_is_idle (self->writeback);
}

gboolean
weft_output_transaction_settle (WeftOutputTransaction *self, GError **error)
{
  if (self->writeback == NULL)
    return TRUE;
  if (!weft_writeback_wait (self->writeback, error))
    return FALSE;
  g_clear_pointer (&self->writeback, weft_writeback_free);
  self->writeback = weft_writeback_new ();
  return TRUE;
}

gboolean
weft_output_transaction_check_file (WeftOutputTransaction *self, const gchar *name, guint64 size,
                                    GError **error)
{
  g_autofree gchar *path = g_build_filename (self->partial, name, NULL);
  gint fd = open (path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat status = { 0 };
  gboolean ok = fd >= 0 && fstat (fd, &status) == 0;

  if (!ok)
    fail (error, path, "cannot be looked at");
  if (fd >= 0)
    close (fd);
  if (ok && (guint64) status.st_size != size)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO,
                 "%s: expected the %" G_GUINT64_FORMAT
                 " bytes that the ranks have written, found %" G_GUINT64_FORMAT
                 ": the output must be on a file system that all ranks share",
                 path, size, (guint64) status.st_size);
  return ok && (guint64) status.st_size == size;
}

static gboolean
write_open_file (WeftOutputTransaction *self, gint fd, const gchar *bytes, gsize n_bytes, GError **error)
{
  g_autofree gchar *path = g_build_filename (self->partial, find_open_file (self, fd)->name, NULL);

  return write_all (fd, path, bytes, n_bytes, error);
}

gboolean
weft_output_transaction_add_text (WeftOutputTransaction *self, const gchar *name, GBytes *text,
                                  GError **error)
{
  gsize n_bytes;
  const gchar *bytes = g_bytes_get_data (text, &n_bytes);
  gint fd = weft_output_transaction_create_file (self, name, 0, error);

  return fd >= 0 && write_open_file (self, fd, bytes, n_bytes, error)
         && close_file (self, fd, NULL, NULL, error);
}

static gboolean
copy_with_buffer (WeftOutputTransaction *self, gint fd, gint source, const gchar *source_path, GError **error)
{
  g_autofree gchar *buffer = g_malloc (COPY_BUFFER_BYTES);
  gssize n;

  while ((n = read (source, buffer, COPY_BUFFER_BYTES)) != 0)
    {
      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        return fail (error, source_path, "cannot be read");
      if (!write_open_file (self, fd, buffer, (gsize) n, error))
        return FALSE;
    }
  return TRUE;
}

/* What the kernel does not copy, for whatever reason, is copied by hand from there on. */
static gboolean
copy_open_file (WeftOutputTransaction *self, gint fd, gint source, const gchar *source_path, GError **error)
{
  gssize n;

  do
    n = copy_file_range (source, NULL, fd, NULL, COPY_RANGE_BYTES, 0);
  while (n > 0 || (n < 0 && errno == EINTR));
  return copy_with_buffer (self, fd, source, source_path, error);
}

gboolean
weft_output_transaction_copy_file (WeftOutputTransaction *self, const gchar *name, const gchar *source_path,
                                   GError **error)
{
  gint source = open (source_path, O_RDONLY | O_CLOEXEC);
  gint fd;
  gboolean ok;

  if (source < 0 && errno == ENOENT && exists (source_path))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_MISSING,
                   "%s is a link to nowhere; remove it or bring its target back", source_path);
      return FALSE;
    }
  if (source < 0)
    return fail (error, source_path, "cannot be opened");
  fd = weft_output_transaction_create_file (self, name, 0, error);
  ok = fd >= 0 && copy_open_file (self, fd, source, source_path, error)
       && close_file (self, fd, NULL, NULL, error);
  close (source);
  return ok;
}

static gboolean
sync_folder (WeftOutputTransaction *self, const gchar *path, GError **error)
{
  gint fd;
  gboolean ok;

  if ((self->flags & WEFT_OUTPUT_FLAGS_NO_SYNC) != 0)
    return TRUE;
  fd = open (path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  /* Some file systems cannot sync a folder; they have nothing to be lost then. */
  ok = fd >= 0 && (fsync (fd) == 0 || errno == EINVAL);
  if (!ok)
    fail (error, path, "the folder cannot be brought to the disk");
  if (fd >= 0)
    close (fd);
  return ok;
}

static gboolean
sync_folders (WeftOutputTransaction *self, GError **error)
{
  GHashTableIter iter;
  gpointer folder;

  g_hash_table_iter_init (&iter, self->folders);
  while (g_hash_table_iter_next (&iter, &folder, NULL))
    {
      g_autofree gchar *path = g_build_filename (self->partial, folder, NULL);

      if (!sync_folder (self, path, error))
        return FALSE;
    }
  return sync_folder (self, self->partial, error);
}

/* Renames onto a name that must be free. */
static gboolean
rename_to_free (const gchar *from, const gchar *to, GError **error)
{
  if (renameat2 (AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
    return TRUE;
  if ((errno == EINVAL || errno == ENOSYS) && !exists (to))
    {
      if (rename (from, to) == 0)
        return TRUE;
    }
  else if (errno == EEXIST || exists (to))
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS,
                   "%s: the output has come to exist meanwhile; what was written stays in %s", to, from);
      return FALSE;
    }
  return fail (error, to, "cannot be renamed to");
}

/* Puts the new folder in the place of the old one, which gets a name of its own. From then on nothing of the old one is taken
 * for a partial output, whatever fails. */
static gboolean
exchange (WeftOutputTransaction *self, GError **error)
{
  gint number;

  if (renameat2 (AT_FDCWD, self->partial, AT_FDCWD, self->destination, RENAME_EXCHANGE) == 0)
    {
      close_journal (self);
      if (renameat2 (AT_FDCWD, self->partial, AT_FDCWD, self->old, RENAME_NOREPLACE) == 0)
        return TRUE;
      number = errno;
      g_set_error (error, WEFT_ERROR, number == EEXIST ? WEFT_ERROR_EXISTS : WEFT_ERROR_IO,
                   "%s: the new output is complete; the old one is %s now and cannot be renamed to %s: %s",
                   self->destination, self->partial, self->old, g_strerror (number));
      return FALSE;
    }
  if (errno != EINVAL && errno != ENOSYS)
    return fail (error, self->destination, "cannot be exchanged");
  if (!rename_to_free (self->destination, self->old, error))
    return FALSE;
  if (rename_to_free (self->partial, self->destination, error))
    return TRUE;
  if (rename (self->old, self->destination) != 0)
    g_prefix_error (error, "%s: the old output is %s now: ", self->destination, self->old);
  return FALSE;
}

/* The folder that the file was written in is of no use afterwards. */
static gboolean
publish_file (WeftOutputTransaction *self, GError **error)
{
  g_autofree gchar *name = g_path_get_basename (self->destination);
  g_autofree gchar *path = g_build_filename (self->partial, name, NULL);

  if (!self->replaces)
    {
      if (!rename_to_free (path, self->destination, error))
        return FALSE;
    }
  else if (rename (path, self->destination) != 0)
    return fail (error, self->destination, "cannot be replaced");
  return remove_tree (self->partial, error);
}

/* The one moment in which the output comes to exist. */
static gboolean
rename_into_place (WeftOutputTransaction *self, GError **error)
{
  if (self->shape == WEFT_OUTPUT_SHAPE_FILE)
    return publish_file (self, error);
  if (self->replaces)
    return exchange (self, error);
  return rename_to_free (self->partial, self->destination, error);
}

const gchar *
weft_output_transaction_get_replaced (WeftOutputTransaction *self)
{
  return self->replaces && self->shape != WEFT_OUTPUT_SHAPE_FILE ? self->destination : NULL;
}

/* The path of a file in a folder, how it is, and whether it is there. What links to folders lead to is not the folder's. */
static gboolean
look_at (const gchar *folder, const gchar *name, gchar **path, struct stat *status)
{
  for (const gchar *slash = strchr (name, '/'); slash != NULL; slash = strchr (slash + 1, '/'))
    {
      g_autofree gchar *inner = g_strndup (name, (gsize) (slash - name));
      g_autofree gchar *inner_path = g_build_filename (folder, inner, NULL);

      if (!is_folder (inner_path))
        return FALSE;
    }
  *path = g_build_filename (folder, name, NULL);
  return lstat (*path, status) == 0 && (S_ISREG (status->st_mode) || S_ISLNK (status->st_mode));
}

void
weft_output_transaction_add_replaceable (WeftOutputTransaction *self, const gchar *name)
{
  g_autofree gchar *path = NULL;
  struct stat status;

  if (look_at (self->destination, name, &path, &status))
    g_hash_table_insert (self->replaceable, g_strdup (name), g_memdup2 (&status, sizeof status));
}

void
weft_output_transaction_keep (WeftOutputTransaction *self, const gchar *name)
{
  g_hash_table_remove (self->replaceable, name);
}

static gboolean
is_unchanged (const struct stat *a, const struct stat *b)
{
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size
         && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Removes the folders that a file was in, innermost first, as long as they are empty. */
static void
remove_empty_parents (const gchar *folder, const gchar *name)
{
  g_autofree gchar *inner = g_strdup (name);
  gchar *slash;

  while ((slash = strrchr (inner, '/')) != NULL)
    {
      g_autofree gchar *path = NULL;

      *slash = '\0';
      path = g_build_filename (folder, inner, NULL);
      if (rmdir (path) != 0)
        return;
    }
}

/* Removes from the old folder what is accounted for, file by file. Whatever else is in it stays, and keeps the folder. */
static void
prune_old (WeftOutputTransaction *self)
{
  GHashTableIter iter;
  gpointer name, known;

  g_hash_table_iter_init (&iter, self->replaceable);
  while (g_hash_table_iter_next (&iter, &name, &known))
    {
      g_autofree gchar *path = NULL;
      struct stat status;

      if (look_at (self->old, name, &path, &status) && is_unchanged (&status, known) && unlink (path) == 0)
        remove_empty_parents (self->old, name);
    }
  self->keeps_old = rmdir (self->old) != 0;
}

const gchar *
weft_output_transaction_get_kept_path (WeftOutputTransaction *self)
{
  return self->keeps_old ? self->old : NULL;
}

/* Takes a file of Weft's own out of the partial folder; its bytes are kept. */
static gboolean
set_aside (GHashTable *own_files, const gchar *path, GError **error)
{
  gchar *text;
  gsize n_bytes;

  if (!g_file_get_contents (path, &text, &n_bytes, NULL))
    return fail (error, path, "cannot be read");
  g_hash_table_insert (own_files, g_strdup (path), g_bytes_new_take (text, n_bytes));
  return unlink (path) == 0 || fail (error, path, "cannot be removed");
}

/* After a failure the partial folder is once more what can be taken up. */
static void
put_back (GHashTable *own_files)
{
  GHashTableIter iter;
  gpointer path, bytes;

  g_hash_table_iter_init (&iter, own_files);
  while (g_hash_table_iter_next (&iter, &path, &bytes))
    {
      gsize n_bytes;
      const gchar *text = g_bytes_get_data (bytes, &n_bytes);

      g_file_set_contents (path, text, (gssize) n_bytes, NULL);
    }
}

/* Nothing of Weft's own may be in the folder when it comes to its place. */
static gboolean
publish (WeftOutputTransaction *self, GHashTable *own_files, GError **error)
{
  g_autofree gchar *journal = g_build_filename (self->partial, JOURNAL_NAME, NULL);

  return set_aside (own_files, journal, error) && sync_folders (self, error)
         && rename_into_place (self, error);
}

static gboolean
set_marks_aside (WeftOutputTransaction *self, const gchar *const *members, GHashTable *own_files,
                 GError **error)
{
  for (guint i = 0; members[i] != NULL; i++)
    {
      g_autofree gchar *path = weft_output_transaction_get_member_path (self, members[i]);
      g_autofree gchar *done_path = g_strconcat (path, DONE_SUFFIX, NULL);

      if (!is_folder (path) || !exists (done_path))
        {
          g_set_error (
              error, WEFT_ERROR, WEFT_ERROR_IO,
              "%s: expected what a process of this run has written and marked as done, found no such folder: the "
              "output must be on a file system that all of them share",
              path);
          return FALSE;
        }
      if (!set_aside (own_files, done_path, error))
        return FALSE;
    }
  return TRUE;
}

gboolean
weft_output_transaction_publish_set (WeftOutputTransaction *self, const gchar *const *members, GError **error)
{
  g_autoptr (GHashTable) own_files =
      g_hash_table_new_full (g_str_hash, g_str_equal, g_free, (GDestroyNotify) g_bytes_unref);
  g_autofree gchar *parent = g_path_get_dirname (self->destination);

  if (self->writeback != NULL && !weft_writeback_wait (self->writeback, error))
    return FALSE;
  if (!set_marks_aside (self, members, own_files, error) || !publish (self, own_files, error))
    {
      /* A journal that was let go of says that the folder is the old output by now. */
      if (self->journal_fd >= 0)
        put_back (own_files);
      return FALSE;
    }
  close_journal (self);
  if (!sync_folder (self, parent, error))
    return FALSE;
  if (weft_output_transaction_get_replaced (self) != NULL)
    prune_old (self);
  return TRUE;
}

gboolean
weft_output_transaction_publish (WeftOutputTransaction *self, GError **error)
{
  return weft_output_transaction_publish_set (self, no_members, error);
}

/* Files that are not finished are of no use. Those that the ranks of a job write are removed by rank 0. */
static void
remove_unfinished (WeftOutputTransaction *self)
{
  GHashTableIter iter;
  gpointer name;

  for (guint i = 0; i < self->open_files->len; i++)
    {
      const OpenFile *file = &g_array_index (self->open_files, OpenFile, i);

      close (file->fd);
      if (!file->is_part)
        g_hash_table_add (self->reserved, g_strdup (file->name));
    }
  g_array_set_size (self->open_files, 0);
  g_hash_table_iter_init (&iter, self->reserved);
  while (g_hash_table_iter_next (&iter, &name, NULL))
    {
      g_autofree gchar *path = g_build_filename (self->partial, name, NULL);

      unlink (path);
    }
  g_hash_table_remove_all (self->reserved);
}

/* Whether there is something of a member of a set: one that is whole, or a part that can be taken up. */
static gboolean
has_members (WeftOutputTransaction *self)
{
  g_autoptr (GDir) dir = self->shape == WEFT_OUTPUT_SHAPE_SET ? g_dir_open (self->partial, 0, NULL) : NULL;
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    if (strcmp (name, JOURNAL_NAME) != 0)
      return TRUE;
  return FALSE;
}

void
weft_output_transaction_abandon (WeftOutputTransaction *self)
{
  /* What is finished gets to the disk and into the journal, so that it can be taken up. */
  if (self->writeback != NULL)
    weft_writeback_wait (self->writeback, NULL);
  g_clear_pointer (&self->writeback, weft_writeback_free);
  remove_unfinished (self);
  if (self->journal_fd < 0)
    return;
  if (self->n_finished == 0 && g_hash_table_size (self->finished) == 0 && !has_members (self))
    remove_tree (self->partial, NULL);
  close_journal (self);
}
