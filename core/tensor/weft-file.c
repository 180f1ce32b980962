/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-file-private.h"
#include "tensor/weft-guard-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* What every disk takes as the unit of reads past the page cache, in files and in memory. */
#define DIRECT_ALIGNMENT 4096
/* Shorter reads are better off in the page cache, which reads ahead. */
#define MIN_DIRECT_BYTES (128 * 1024)
/* A read of the usual size, and a block at either end. */
#define DIRECT_WINDOW_BYTES (2 * 1024 * 1024 + 2 * DIRECT_ALIGNMENT)

struct _WeftFile
{
  gatomicrefcount ref_count;
  gchar *path;
  gint fd;
  /* The same file past the page cache; -1 for the other backends and where the file system refuses. */
  gint direct_fd;
  guint64 size;
  /* NULL but for the mmap backend. */
  const guint8 *mapping;
  guint64 n_bytes_read;
};

G_DEFINE_BOXED_TYPE (WeftFile, weft_file, weft_file_ref, weft_file_unref)

static WeftFile *
fail_to_open (const gchar *path, gint fd, const gchar *reason, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO, "%s: cannot be opened: %s", path, reason);
  if (fd >= 0)
    close (fd);
  return NULL;
}

/**
 * weft_file_open: (constructor)
 * @path: path of a regular file
 * @backend: how its bytes are read
 * @error: return location
 *
 * Returns: (transfer full): the open file
 * Errors: %WEFT_ERROR_IO if it cannot be opened or mapped, or is no regular file
 * Since: 1.0
 */
WeftFile *
weft_file_open (const gchar *path, WeftIoBackend backend, GError **error)
{
  WeftFile *self;
  struct stat status;
  gint fd = open (path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  gpointer mapping = NULL;

  if (fd < 0 || fstat (fd, &status) != 0)
    return fail_to_open (path, fd, g_strerror (errno), error);
  if (!S_ISREG (status.st_mode))
    return fail_to_open (path, fd, "it is no regular file", error);
  if (backend == WEFT_IO_BACKEND_MMAP && status.st_size > 0)
    {
      mapping = mmap (NULL, (gsize) status.st_size, PROT_READ, MAP_SHARED, fd, 0);
      if (mapping == MAP_FAILED)
        return fail_to_open (path, fd, g_strerror (errno), error);
    }
  self = g_new0 (WeftFile, 1);
  g_atomic_ref_count_init (&self->ref_count);
  self->path = g_strdup (path);
  self->fd = fd;
  self->direct_fd = backend == WEFT_IO_BACKEND_DIRECT ? open (path, O_RDONLY | O_CLOEXEC | O_DIRECT) : -1;
  self->size = (guint64) status.st_size;
  self->mapping = mapping;
  return self;
}

/**
 * weft_file_ref:
 * @self: a file
 *
 * Returns: (transfer full): @self with one more reference
 * Since: 1.0
 */
WeftFile *
weft_file_ref (WeftFile *self)
{
  g_atomic_ref_count_inc (&self->ref_count);
  return self;
}

/**
 * weft_file_unref:
 * @self: (transfer full): a file
 *
 * Gives one reference back; the last one closes the file.
 *
 * Since: 1.0
 */
void
weft_file_unref (WeftFile *self)
{
  if (!g_atomic_ref_count_dec (&self->ref_count))
    return;
  if (self->mapping != NULL)
    munmap ((gpointer) self->mapping, self->size);
  if (self->direct_fd >= 0)
    close (self->direct_fd);
  close (self->fd);
  g_free (self->path);
  g_free (self);
}

/**
 * weft_file_get_path:
 * @self: a file
 *
 * Returns: the path it was opened by
 * Since: 1.0
 */
const gchar *
weft_file_get_path (WeftFile *self)
{
  return self->path;
}

/**
 * weft_file_get_size:
 * @self: a file
 *
 * Returns: its size in bytes when it was opened
 * Since: 1.0
 */
guint64
weft_file_get_size (WeftFile *self)
{
  return self->size;
}

/**
 * weft_file_get_fd:
 * @self: a file
 *
 * Returns: its descriptor, which stays @self's
 * Since: 1.0
 */
gint
weft_file_get_fd (WeftFile *self)
{
  return self->fd;
}

/**
 * weft_file_get_n_bytes_read:
 * @self: a file
 *
 * Returns: how many bytes were read from it so far, headers and holes included
 * Since: 1.0
 */
guint64
weft_file_get_n_bytes_read (WeftFile *self)
{
  return __atomic_load_n (&self->n_bytes_read, __ATOMIC_RELAXED);
}

void
weft_file_count_bytes_read (WeftFile *self, guint64 n_bytes)
{
  __atomic_fetch_add (&self->n_bytes_read, n_bytes, __ATOMIC_RELAXED);
}

static gboolean
fail_short (WeftFile *self, guint64 offset, gsize n_bytes, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO,
               "%s: %" G_GSIZE_FORMAT " bytes at offset %" G_GUINT64_FORMAT
               " are not there; the file was %" G_GUINT64_FORMAT
               " bytes long when it was opened and has been truncated since",
               self->path, n_bytes, offset, self->size);
  return FALSE;
}

static void
count_bytes_read (WeftFile *self, guint64 n_bytes, guint64 *n_bytes_read)
{
  weft_file_count_bytes_read (self, n_bytes);
  *n_bytes_read += n_bytes;
}

/* The next @n_bytes of a list of buffers are filled. */
static void
advance (struct iovec **vectors, guint *n_vectors, gsize n_bytes)
{
  for (; *n_vectors > 0 && n_bytes >= (*vectors)->iov_len; (*vectors)++, (*n_vectors)--)
    n_bytes -= (*vectors)->iov_len;
  if (*n_vectors == 0)
    return;
  if ((*vectors)->iov_base != NULL)
    (*vectors)->iov_base = (guint8 *) (*vectors)->iov_base + n_bytes;
  (*vectors)->iov_len -= n_bytes;
}

/* Reads into a list of buffers, one after the other in the file. @vectors is used up. */
static gboolean
read_by_pread (WeftFile *self, guint64 offset, struct iovec *vectors, guint n_vectors, guint64 *n_bytes_read,
               GError **error)
{
  guint8 hole[WEFT_HOLE_BYTES];

  for (guint i = 0; i < n_vectors; i++)
    if (vectors[i].iov_base == NULL)
      vectors[i].iov_base = hole;
  while (n_vectors > 0)
    {
      gssize n = preadv (self->fd, vectors, (gint) n_vectors, (off_t) offset);

      if (n < 0 && errno == EINTR)
        continue;
      if (n < 0)
        {
          g_set_error (error, WEFT_ERROR, WEFT_ERROR_IO,
                       "%s: reading at offset %" G_GUINT64_FORMAT " failed: %s", self->path, offset,
                       g_strerror (errno));
          return FALSE;
        }
      if (n == 0)
        return fail_short (self, offset, vectors[0].iov_len, error);
      count_bytes_read (self, (guint64) n, n_bytes_read);
      offset += (guint64) n;
      advance (&vectors, &n_vectors, (gsize) n);
    }
  return TRUE;
}

static void
scatter (const guint8 *bytes, gsize n_bytes, struct iovec **vectors, guint *n_vectors)
{
  while (n_bytes > 0)
    {
      gsize n = MIN (n_bytes, (*vectors)->iov_len);

      if ((*vectors)->iov_base != NULL)
        memcpy ((*vectors)->iov_base, bytes, n);
      advance (vectors, n_vectors, n);
      bytes += n;
      n_bytes -= n;
    }
}

/* The buffer of a thread that the disk writes to: destinations are seldom aligned as their bytes are in the file. */
static guint8 *
get_window (void)
{
  static GPrivate window = G_PRIVATE_INIT (g_aligned_free);

  if (g_private_get (&window) == NULL)
    g_private_set (&window, g_aligned_alloc (1, DIRECT_WINDOW_BYTES, DIRECT_ALIGNMENT));
  return g_private_get (&window);
}

/* Reads whole units of the disk, the first and the last with what lies around. Where the disk does not go along, and at an end
 * that comes too soon, the page cache serves the rest, or says what is wrong. */
static gboolean
read_directly (WeftFile *self, guint64 offset, guint64 n_bytes, struct iovec *vectors, guint n_vectors,
               guint64 *n_bytes_read, GError **error)
{
  const guint8 *window = get_window ();

  while (n_bytes > 0)
    {
      gsize before = offset % DIRECT_ALIGNMENT;
      gsize wanted = (gsize) MIN (before + n_bytes, DIRECT_WINDOW_BYTES);
      gsize rounded = (wanted + DIRECT_ALIGNMENT - 1) / DIRECT_ALIGNMENT * DIRECT_ALIGNMENT;
      gssize n = pread (self->direct_fd, (gpointer) window, rounded, (off_t) (offset - before));
      gsize n_kept;

      if (n < 0 && errno == EINTR)
        continue;
      if (n <= (gssize) before)
        return read_by_pread (self, offset, vectors, n_vectors, n_bytes_read, error);
      count_bytes_read (self, (guint64) n, n_bytes_read);
      n_kept = MIN ((gsize) n, wanted) - before;
      scatter (window + before, n_kept, &vectors, &n_vectors);
      offset += n_kept;
      n_bytes -= n_kept;
    }
  return TRUE;
}

/* Copies what is wanted. A hole is not touched, so that it costs nothing. */
static gboolean
copy_from_mapping (WeftFile *self, guint64 offset, const struct iovec *vectors, guint n_vectors,
                   guint64 *n_bytes_read, GError **error)
{
  guint64 n_bytes_copied = 0;

  for (guint i = 0; i < n_vectors; i++)
    {
      const struct iovec *vector = &vectors[i];

      if (vector->iov_base != NULL)
        {
          if (!weft_guard_copy (vector->iov_base, self->mapping + offset, vector->iov_len))
            return fail_short (self, offset, vector->iov_len, error);
          n_bytes_copied += vector->iov_len;
        }
      offset += vector->iov_len;
    }
  count_bytes_read (self, n_bytes_copied, n_bytes_read);
  return TRUE;
}

gboolean
weft_file_read_vectors (WeftFile *self, guint64 offset, struct iovec *vectors, guint n_vectors,
                        guint64 *n_bytes_read, GError **error)
{
  guint64 n_bytes = 0;

  for (guint i = 0; i < n_vectors; i++)
    n_bytes += vectors[i].iov_len;
  if (n_bytes == 0)
    return TRUE;
  if (offset > self->size || n_bytes > self->size - offset)
    return fail_short (self, offset, n_bytes, error);
  if (self->mapping != NULL)
    return copy_from_mapping (self, offset, vectors, n_vectors, n_bytes_read, error);
  if (self->direct_fd >= 0 && n_bytes >= MIN_DIRECT_BYTES)
    return read_directly (self, offset, n_bytes, vectors, n_vectors, n_bytes_read, error);
  return read_by_pread (self, offset, vectors, n_vectors, n_bytes_read, error);
}

/**
 * weft_file_read: (skip)
 * @self: a file
 * @offset: position of the first byte
 * @buffer: where @n_bytes bytes go
 * @n_bytes: how many bytes
 * @error: return location
 *
 * Reads exactly @n_bytes bytes. Safe from any thread.
 *
 * Returns: whether all bytes were read
 * Errors: %WEFT_ERROR_IO if they were not, also when the file has been truncated since it was opened
 * Since: 1.0
 */
gboolean
weft_file_read (WeftFile *self, guint64 offset, gpointer buffer, gsize n_bytes, GError **error)
{
  struct iovec vector = { buffer, n_bytes };
  guint64 n_bytes_read = 0;

  return weft_file_read_vectors (self, offset, &vector, 1, &n_bytes_read, error);
}
