/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/weft-file-private.h"
#include "tensor/weft-guard-private.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct _WeftFile
{
  gatomicrefcount ref_count;
  gchar *path;
  gint fd;
  guint64 size;
  /* NULL for the pread backend. */
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

/* Reads into a list of buffers, one after the other in the file. @vectors is used up. */
static gboolean
read_by_pread (WeftFile *self, guint64 offset, struct iovec *vectors, guint n_vectors, GError **error)
{
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
      weft_file_count_bytes_read (self, (guint64) n);
      offset += (guint64) n;
      for (; n_vectors > 0 && (gsize) n >= vectors[0].iov_len; vectors++, n_vectors--)
        n -= (gssize) vectors[0].iov_len;
      if (n_vectors > 0)
        {
          vectors[0].iov_base = (guint8 *) vectors[0].iov_base + n;
          vectors[0].iov_len -= (gsize) n;
        }
    }
  return TRUE;
}

gboolean
weft_file_read_vectors (WeftFile *self, guint64 offset, struct iovec *vectors, guint n_vectors,
                        GError **error)
{
  guint64 n_bytes = 0;

  for (guint i = 0; i < n_vectors; i++)
    n_bytes += vectors[i].iov_len;
  if (n_bytes == 0)
    return TRUE;
  if (offset > self->size || n_bytes > self->size - offset)
    return fail_short (self, offset, n_bytes, error);
  if (self->mapping == NULL)
    return read_by_pread (self, offset, vectors, n_vectors, error);
  for (guint i = 0; i < n_vectors; i++)
    {
      if (!weft_guard_copy (vectors[i].iov_base, self->mapping + offset, vectors[i].iov_len))
        return fail_short (self, offset, vectors[i].iov_len, error);
      offset += vectors[i].iov_len;
    }
  weft_file_count_bytes_read (self, n_bytes);
  return TRUE;
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

  return weft_file_read_vectors (self, offset, &vector, 1, error);
}
