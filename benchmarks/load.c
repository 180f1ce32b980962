/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: load [--cold] [--there] [--small-pages] ROUNDS FOLDER CONTESTANT...
 *
 * Brings a checkpoint into memory in several ways, each in turn, and prints the seconds of every round, by the clock and of the
 * processors, which neighbours disturb less:
 *   copy                       two threads copy a mapping of the files, whose pages are there
 *   prepare                    the loader opens the checkpoint and plans
 *   prepare+pread              the same, and loads
 *   pread, mmap, direct        the loader, once it has planned, by that backend; `pread:8:1024`: 8 reads of 1 MiB at once;
 *                              `pread@0/2`: the part of rank 0 of 2
 * The arena is fresh, so that its pages have to be given, large ones where the kernel has them and --small-pages does not
 * forbid it; with --there it has been used before. With --cold the page cache of the files is dropped first. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "weft.h"

#define CHUNK_BYTES ((gsize) 2 << 20)
#define N_COPY_THREADS 2

/* Seconds by the clock, and those that processors worked for this process. */
typedef struct
{
  gdouble elapsed;
  gdouble processor;
} Times;

typedef struct
{
  guint8 *mapping;
  gsize n_bytes;
} Mapping;

typedef struct
{
  const Mapping *mapping;
  guint8 *destination;
  gsize next;
} Copy;

typedef struct
{
  const gchar *folder;
  gboolean is_cold;
  WeftArena *arena;
} Setting;

static void
fail_on (const GError *error)
{
  if (error == NULL)
    return;
  g_printerr ("load: %s\n", error->message);
  exit (1);
}

static gdouble
get_seconds (struct timeval time)
{
  return (gdouble) time.tv_sec + (gdouble) time.tv_usec / G_USEC_PER_SEC;
}

static Times
get_times (void)
{
  struct rusage usage;

  getrusage (RUSAGE_SELF, &usage);
  return (Times){ (gdouble) g_get_monotonic_time () / G_USEC_PER_SEC,
                  get_seconds (usage.ru_utime) + get_seconds (usage.ru_stime) };
}

static Times
get_times_since (Times start)
{
  Times now = get_times ();

  return (Times){ now.elapsed - start.elapsed, now.processor - start.processor };
}

static void
clear_mapping (gpointer user_data)
{
  Mapping *mapping = user_data;

  munmap (mapping->mapping, mapping->n_bytes);
}

static GArray *
map_files (const gchar *folder)
{
  GArray *mappings = g_array_new (FALSE, FALSE, sizeof (Mapping));
  g_autoptr (GError) error = NULL;
  g_autoptr (GDir) dir = g_dir_open (folder, 0, &error);
  const gchar *name;

  fail_on (error);
  g_array_set_clear_func (mappings, clear_mapping);
  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (folder, name, NULL);
      gint fd = g_str_has_suffix (name, ".safetensors") ? open (path, O_RDONLY | O_CLOEXEC) : -1;
      struct stat status;
      Mapping mapping;

      if (fd < 0 || fstat (fd, &status) != 0)
        continue;
      mapping.n_bytes = (gsize) status.st_size;
      mapping.mapping = mmap (NULL, mapping.n_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0);
      if (mapping.mapping != MAP_FAILED)
        g_array_append_val (mappings, mapping);
      close (fd);
    }
  return mappings;
}

static void
drop_cache (const gchar *folder)
{
  g_autoptr (GDir) dir = g_dir_open (folder, 0, NULL);
  const gchar *name;

  while ((name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *path = g_build_filename (folder, name, NULL);
      gint fd = open (path, O_RDONLY | O_CLOEXEC);

      if (fd < 0)
        continue;
      (void) posix_fadvise (fd, 0, 0, POSIX_FADV_DONTNEED);
      close (fd);
    }
}

static gpointer
copy_chunks (gpointer user_data)
{
  Copy *copy = user_data;
  gsize at;

  while ((at = __atomic_fetch_add (&copy->next, CHUNK_BYTES, __ATOMIC_RELAXED)) < copy->mapping->n_bytes)
    memcpy (copy->destination + at, copy->mapping->mapping + at,
            MIN (CHUNK_BYTES, copy->mapping->n_bytes - at));
  return NULL;
}

static Times
run_copy (const Setting *setting)
{
  g_autoptr (GArray) mappings = map_files (setting->folder);
  g_autoptr (WeftArena) arena = NULL;
  g_autoptr (GError) error = NULL;
  guint64 n_bytes = 0;
  Times start;
  guint8 *destination;

  for (guint i = 0; i < mappings->len; i++)
    n_bytes += g_array_index (mappings, Mapping, i).n_bytes;
  start = get_times ();
  arena = setting->arena != NULL ? g_object_ref (setting->arena) : weft_arena_new (n_bytes, &error);
  fail_on (error);
  destination = weft_arena_get_memory (arena);
  for (guint i = 0; i < mappings->len; i++)
    {
      Copy copy = { &g_array_index (mappings, Mapping, i), destination, 0 };
      GThread *threads[N_COPY_THREADS];

      for (guint j = 0; j < N_COPY_THREADS; j++)
        threads[j] = g_thread_new ("copy", copy_chunks, &copy);
      for (guint j = 0; j < N_COPY_THREADS; j++)
        g_thread_join (threads[j]);
      destination += copy.mapping->n_bytes;
    }
  return get_times_since (start);
}

/* `@0/2` */
static WeftLoadOptions *
make_options (const gchar *contestant)
{
  g_autoptr (GError) error = NULL;
  WeftLoadOptions *options = weft_load_options_new ();
  const gchar *rank = strchr (contestant, '@');
  const gchar *world_size = rank != NULL ? strchr (rank, '/') : NULL;

  if (world_size != NULL)
    (void) weft_load_options_set_parallel (options, (guint) g_ascii_strtoull (world_size + 1, NULL, 10), 1,
                                           (guint) g_ascii_strtoull (rank + 1, NULL, 10), &error);
  fail_on (error);
  return options;
}

/* `pread:8:1024@0/2` */
static WeftLoader *
make_loader (const Setting *setting, const gchar *contestant)
{
  g_auto (GStrv) parts = g_strsplit (contestant, "@", 2);
  g_auto (GStrv) words = g_strsplit (parts[0], ":", 3);
  g_autoptr (WeftLoadOptions) options = make_options (contestant);
  guint n_words = g_strv_length (words);
  WeftLoader *loader = weft_loader_new (setting->folder, options);

  if (strcmp (words[0], "mmap") == 0)
    weft_loader_set_io_backend (loader, WEFT_IO_BACKEND_MMAP);
  else if (strcmp (words[0], "direct") == 0)
    weft_loader_set_io_backend (loader, WEFT_IO_BACKEND_DIRECT);
  if (n_words > 1)
    weft_loader_set_queue (loader, (guint) g_ascii_strtoull (words[1], NULL, 10),
                           n_words > 2 ? g_ascii_strtoull (words[2], NULL, 10) * 1024 : 0);
  return loader;
}

static Times
run_loader (const Setting *setting, const gchar *contestant)
{
  gboolean is_timed_from_opening = g_str_has_prefix (contestant, "prepare");
  const gchar *backend =
      g_str_has_prefix (contestant, "prepare+") ? contestant + strlen ("prepare+") : contestant;
  g_autoptr (WeftLoader) loader = make_loader (setting, backend);
  g_autoptr (WeftArena) arena = NULL;
  g_autoptr (GError) error = NULL;
  Times start;

  start = get_times ();
  (void) weft_loader_prepare (loader, NULL, &error);
  fail_on (error);
  if (strcmp (contestant, "prepare") == 0)
    return get_times_since (start);
  if (setting->is_cold)
    drop_cache (setting->folder);
  if (!is_timed_from_opening)
    start = get_times ();
  if (setting->arena != NULL)
    (void) weft_loader_load_into (loader, setting->arena, NULL, &error);
  else
    arena = weft_loader_load (loader, NULL, &error);
  fail_on (error);
  return get_times_since (start);
}

/* Room for the files, headers included, every page given. */
static WeftArena *
make_used_arena (const gchar *folder)
{
  g_autoptr (GArray) mappings = map_files (folder);
  g_autoptr (GError) error = NULL;
  WeftArena *arena;
  guint64 n_bytes = 0;

  for (guint i = 0; i < mappings->len; i++)
    n_bytes += g_array_index (mappings, Mapping, i).n_bytes + CHUNK_BYTES;
  arena = weft_arena_new (n_bytes, &error);
  fail_on (error);
  memset (weft_arena_get_memory (arena), 1, n_bytes);
  return arena;
}

int
main (int argc, char **argv)
{
  Setting setting = { 0 };
  gboolean is_there = FALSE;
  gint first = 1;

  for (; first < argc && g_str_has_prefix (argv[first], "--"); first++)
    {
      setting.is_cold |= strcmp (argv[first], "--cold") == 0;
      is_there |= strcmp (argv[first], "--there") == 0;
      if (strcmp (argv[first], "--small-pages") == 0)
        (void) prctl (PR_SET_THP_DISABLE, 1, 0, 0, 0);
    }
  if (argc - first < 3)
    {
      g_printerr ("Usage: load [--cold] [--there] [--small-pages] ROUNDS FOLDER CONTESTANT...\n");
      return 2;
    }
  setting.folder = argv[first + 1];
  setting.arena = is_there ? make_used_arena (setting.folder) : NULL;
  for (gint64 round = g_ascii_strtoll (argv[first], NULL, 10); round > 0; round--)
    for (gint i = first + 2; i < argc; i++)
      {
        Times times = strcmp (argv[i], "copy") == 0 ? run_copy (&setting) : run_loader (&setting, argv[i]);

        g_print ("%s %.6f %.6f\n", argv[i], times.elapsed, times.processor);
      }
  g_clear_object (&setting.arena);
  return 0;
}
