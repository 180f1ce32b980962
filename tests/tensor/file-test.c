/* SPDX-License-Identifier: Apache-2.0 */
/* Every backend gives the bytes of the file, wherever a read begins and ends, and counts what it took. */
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

#include "weft.h"

#define FILE_BYTES ((gsize) 5 * 1024 * 1024 + 123)
#define BLOCK_BYTES 4096

typedef struct
{
  gchar *folder;
  gchar *path;
  guint8 *bytes;
} Fixture;

static void
fixture_set_up (Fixture *self, gconstpointer parent)
{
  g_autofree gchar *template = g_build_filename (parent, "weft-file-XXXXXX", NULL);
  g_autoptr (GError) error = NULL;

  self->folder = g_mkdtemp (g_steal_pointer (&template));
  if (self->folder == NULL)
    return;
  self->path = g_build_filename (self->folder, "file", NULL);
  self->bytes = g_malloc (FILE_BYTES);
  for (gsize i = 0; i < FILE_BYTES; i++)
    self->bytes[i] = (guint8) g_test_rand_int ();
  g_file_set_contents (self->path, (const gchar *) self->bytes, (gssize) FILE_BYTES, &error);
  g_assert_no_error (error);
}

static void
fixture_tear_down (Fixture *self, G_GNUC_UNUSED gconstpointer parent)
{
  if (self->folder != NULL)
    {
      g_remove (self->path);
      g_rmdir (self->folder);
    }
  g_free (self->folder);
  g_free (self->path);
  g_free (self->bytes);
}

static const struct
{
  guint64 offset;
  gsize n_bytes;
} reads[] = {
  { 0, 0 },
  { 0, 1 },
  { 4095, 2 },
  { 0, 128 * 1024 },
  { 1, 128 * 1024 },
  { 4096, 1024 * 1024 },
  { 4095, 2 * 1024 * 1024 + 2 },
  { 10864, 5 * 1024 * 1024 - 10864 },
  { 7, FILE_BYTES - 7 },
  { 0, FILE_BYTES },
  { FILE_BYTES - 128 * 1024, 128 * 1024 },
  { FILE_BYTES, 0 },
};

static void
test_equal_bytes (Fixture *fixture, G_GNUC_UNUSED gconstpointer parent)
{
  g_autofree guint8 *buffer = g_malloc (FILE_BYTES);

  if (fixture->folder == NULL)
    {
      g_test_skip ("there is no such folder");
      return;
    }
  for (guint backend = WEFT_IO_BACKEND_PREAD; backend <= WEFT_IO_BACKEND_DIRECT; backend++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftFile) file = weft_file_open (fixture->path, backend, &error);

      g_assert_no_error (error);
      for (guint i = 0; i < G_N_ELEMENTS (reads); i++)
        {
          guint64 before = weft_file_get_n_bytes_read (file);
          guint64 n_read;

          memset (buffer, 0, FILE_BYTES);
          g_assert_true (weft_file_read (file, reads[i].offset, buffer, reads[i].n_bytes, &error));
          g_assert_no_error (error);
          g_assert_cmpmem (buffer, reads[i].n_bytes, fixture->bytes + reads[i].offset, reads[i].n_bytes);
          /* A direct read takes a whole block at either end of each of its windows, of which there are at most three. */
          n_read = weft_file_get_n_bytes_read (file) - before;
          g_assert_cmpuint (n_read, >=, reads[i].n_bytes);
          g_assert_cmpuint (n_read, <=,
                            reads[i].n_bytes + (backend == WEFT_IO_BACKEND_DIRECT ? 6 * BLOCK_BYTES : 0));
        }
    }
}

static void
test_truncated (Fixture *fixture, G_GNUC_UNUSED gconstpointer parent)
{
  g_autofree guint8 *buffer = g_malloc (FILE_BYTES);

  for (guint backend = WEFT_IO_BACKEND_PREAD; backend <= WEFT_IO_BACKEND_DIRECT; backend++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftFile) file = NULL;

      g_file_set_contents (fixture->path, (const gchar *) fixture->bytes, (gssize) FILE_BYTES, &error);
      g_assert_no_error (error);
      file = weft_file_open (fixture->path, backend, &error);
      g_assert_no_error (error);
      g_assert_cmpint (truncate (fixture->path, 3 * 1024 * 1024 + 5), ==, 0);
      g_assert_false (weft_file_read (file, 0, buffer, FILE_BYTES, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
      g_assert_nonnull (strstr (error->message, "has been truncated"));
    }
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  /* A disk; and memory, which older kernels do not read past the page cache. */
  g_test_add ("/file/equal-bytes/disk", Fixture, "/var/tmp", fixture_set_up, test_equal_bytes,
              fixture_tear_down);
  g_test_add ("/file/equal-bytes/memory", Fixture, "/dev/shm", fixture_set_up, test_equal_bytes,
              fixture_tear_down);
  g_test_add ("/file/truncated", Fixture, g_get_tmp_dir (), fixture_set_up, test_truncated,
              fixture_tear_down);
  return g_test_run ();
}
