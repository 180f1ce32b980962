/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/weft-arena.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct _WeftArena
{
  GObject parent_instance;

  guint8 *memory;
  guint64 n_bytes;
  gboolean is_mapped;
};

G_DEFINE_FINAL_TYPE (WeftArena, weft_arena, G_TYPE_OBJECT)

static void
weft_arena_finalize (GObject *object)
{
  WeftArena *self = WEFT_ARENA (object);

  if (self->is_mapped)
    munmap (self->memory, MAX (self->n_bytes, 1));
  G_OBJECT_CLASS (weft_arena_parent_class)->finalize (object);
}

static void
weft_arena_class_init (WeftArenaClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_arena_finalize;
}

static void
weft_arena_init (G_GNUC_UNUSED WeftArena *self)
{
}

/* A size from outside: failing to get it is an error, not the end of the program. */
static WeftArena *
map_memory (const gchar *name, guint64 n_bytes, gint flags, gint fd, GError **error)
{
  gpointer memory = n_bytes <= G_MAXSSIZE
                        ? mmap (NULL, MAX (n_bytes, 1), PROT_READ | PROT_WRITE, flags, fd, 0)
                        : MAP_FAILED;
  WeftArena *self;

  if (memory == MAP_FAILED)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT,
                   "%s: %" G_GUINT64_FORMAT " bytes of memory cannot be had", name, n_bytes);
      return NULL;
    }
  self = g_object_new (WEFT_TYPE_ARENA, NULL);
  self->memory = memory;
  self->n_bytes = n_bytes;
  self->is_mapped = TRUE;
  return self;
}

/**
 * weft_arena_new: (constructor)
 * @n_bytes: its size in bytes
 * @error: return location
 *
 * Maps memory of this process, zeroed. Large pages are asked for, so that few faults come between the bytes.
 *
 * Returns: (transfer full): the arena; its memory begins at a page
 * Errors: %WEFT_ERROR_LIMIT if there is not that much memory
 * Since: 1.0
 */
WeftArena *
weft_arena_new (guint64 n_bytes, GError **error)
{
  WeftArena *self = map_memory ("arena", n_bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1, error);

  /* A kernel without large pages gives small ones. */
  if (self != NULL)
    (void) madvise (self->memory, MAX (n_bytes, 1), MADV_HUGEPAGE);
  return self;
}

/**
 * weft_arena_new_shared: (constructor)
 * @path: path of a file to make, such as `/dev/shm/weights`: its memory is what all processes that map it share
 * @n_bytes: its size in bytes
 * @error: return location
 *
 * Makes a file and maps it. The file stays when the arena is gone; whoever uses it last removes it.
 *
 * Returns: (transfer full): the arena; its memory begins at a page
 * Errors: %WEFT_ERROR_EXISTS if there is something at @path, %WEFT_ERROR_IO if the file cannot be made as large,
 *   %WEFT_ERROR_LIMIT if it cannot be mapped
 * Since: 1.0
 */
WeftArena *
weft_arena_new_shared (const gchar *path, guint64 n_bytes, GError **error)
{
  gint fd = open (path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  /* Room that is there now: a page that cannot be had later would be a signal. */
  gint reason = fd < 0 ? errno : posix_fallocate (fd, 0, (off_t) MIN (MAX (n_bytes, 1), G_MAXINT64));
  WeftArena *self = NULL;

  if (reason != 0)
    g_set_error (error, WEFT_ERROR, fd < 0 && reason == EEXIST ? WEFT_ERROR_EXISTS : WEFT_ERROR_IO,
                 "%s: a file of %" G_GUINT64_FORMAT " bytes to share cannot be made: %s", path, n_bytes,
                 g_strerror (reason));
  else
    self = map_memory (path, n_bytes, MAP_SHARED, fd, error);
  if (fd >= 0)
    close (fd);
  if (fd >= 0 && self == NULL)
    unlink (path);
  return self;
}

/**
 * weft_arena_new_for_memory: (constructor)
 * @memory: where it begins
 * @n_bytes: its size in bytes
 *
 * Lets memory of the caller be loaded into, however it came about. It stays the caller's, and must outlive the arena.
 *
 * Returns: (transfer full): the arena
 * Since: 1.0
 */
WeftArena *
weft_arena_new_for_memory (gpointer memory, guint64 n_bytes)
{
  WeftArena *self;

  g_return_val_if_fail (memory != NULL || n_bytes == 0, NULL);
  self = g_object_new (WEFT_TYPE_ARENA, NULL);
  self->memory = memory;
  self->n_bytes = n_bytes;
  return self;
}

/**
 * weft_arena_get_memory:
 * @self: an arena
 *
 * Returns: (transfer none) (nullable): where it begins
 * Since: 1.0
 */
gpointer
weft_arena_get_memory (WeftArena *self)
{
  g_return_val_if_fail (WEFT_IS_ARENA (self), NULL);
  return self->memory;
}

/**
 * weft_arena_get_n_bytes:
 * @self: an arena
 *
 * Returns: its size in bytes
 * Since: 1.0
 */
guint64
weft_arena_get_n_bytes (WeftArena *self)
{
  g_return_val_if_fail (WEFT_IS_ARENA (self), 0);
  return self->n_bytes;
}

/**
 * weft_arena_get_bytes:
 * @self: an arena
 * @offset: where the bytes begin in it
 * @n_bytes: how many
 * @error: return location
 *
 * A part of the arena without a copy, which keeps the arena. It shows what is loaded into that part later, too.
 *
 * Returns: (transfer full): the bytes
 * Errors: %WEFT_ERROR_ARGUMENT if they leave the arena
 * Since: 1.0
 */
GBytes *
weft_arena_get_bytes (WeftArena *self, guint64 offset, guint64 n_bytes, GError **error)
{
  g_return_val_if_fail (WEFT_IS_ARENA (self), NULL);
  if (offset <= self->n_bytes && n_bytes <= self->n_bytes - offset)
    return g_bytes_new_with_free_func (self->memory + offset, (gsize) n_bytes, g_object_unref,
                                       g_object_ref (self));
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "arena: expected a part of its %" G_GUINT64_FORMAT " bytes, found %" G_GUINT64_FORMAT
               " bytes at offset %" G_GUINT64_FORMAT,
               self->n_bytes, n_bytes, offset);
  return NULL;
}
