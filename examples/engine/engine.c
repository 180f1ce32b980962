/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: engine CHECKPOINT [RANK WORLD_SIZE [SHARED]]
 *
 * What an inference engine does when it starts: asks how much memory its weights take and where each will lie, allocates as it
 * likes, and has them loaded. Here the memory is the process's own, or that of a new file such as /dev/shm/weights, which
 * other processes map too. A line for each tensor: SHA-256, offset, bytes, dtype, shape, name. */
#include <stdio.h>
#include <sys/mman.h>
#include <weft.h>

static WeftLoader *
make_loader (const gchar *path, guint rank, guint world_size, GError **error)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

  if (!weft_load_options_set_parallel (options, world_size, 1, rank, error))
    return NULL;
  return weft_loader_new (path, options);
}

/* Called while other tensors are still on their way: an engine uploads it, or lets a layer begin to work. FALSE, with an error,
 * would stop the load. */
static gboolean
count_loaded (WeftLoader *loader, const gchar *name, guint64 offset, guint64 n_bytes, gpointer user_data,
              GError **error)
{
  (void) loader, (void) name, (void) offset, (void) n_bytes, (void) error;
  ++*(guint *) user_data;
  return TRUE;
}

static void
print_tensor (WeftArenaLayout *layout, guint position, const guint8 *memory)
{
  WeftStateDict *outputs = weft_arena_layout_get_outputs (layout);
  WeftTensor *tensor = weft_state_dict_get_tensor (outputs, position);
  guint64 offset = weft_arena_layout_get_offset (layout, position);
  guint64 n_bytes = weft_tensor_get_n_bytes (tensor);
  g_autofree gchar *checksum = g_compute_checksum_for_data (G_CHECKSUM_SHA256, memory + offset, n_bytes);
  g_autofree gchar *shape = weft_shape_to_string (weft_tensor_get_shape (tensor));

  printf ("%s\t%" G_GUINT64_FORMAT "\t%" G_GUINT64_FORMAT "\t%s\t%s\t%s\n", checksum, offset, n_bytes,
          weft_dtype_get_name (weft_tensor_get_dtype (tensor)), shape,
          weft_state_dict_get_name (outputs, position));
}

static gboolean
run (const gchar *path, guint rank, guint world_size, const gchar *shared, GError **error)
{
  g_autoptr (WeftLoader) loader = make_loader (path, rank, world_size, error);
  WeftArenaLayout *layout = loader != NULL ? weft_loader_prepare (loader, NULL, error) : NULL;
  g_autoptr (WeftArena) arena = NULL;
  guint64 n_bytes;
  gpointer memory = NULL;
  guint n_loaded = 0;

  if (layout == NULL)
    return FALSE;
  n_bytes = weft_arena_layout_get_n_bytes (layout);
  if (shared != NULL)
    arena = weft_arena_new_shared (shared, n_bytes, error);
  else
    {
      memory = mmap (NULL, MAX (n_bytes, 1), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED)
        g_error ("no memory");
      /* A few large pages are given faster than many small ones. */
      madvise (memory, MAX (n_bytes, 1), MADV_HUGEPAGE);
      arena = weft_arena_new_for_memory (memory, n_bytes);
    }
  weft_loader_set_loaded_func (loader, count_loaded, &n_loaded, NULL);
  if (arena == NULL || !weft_loader_load_into (loader, arena, NULL, error))
    return FALSE;
  for (guint i = 0; i < weft_state_dict_get_n_tensors (weft_arena_layout_get_outputs (layout)); i++)
    print_tensor (layout, i, weft_arena_get_memory (arena));
  fprintf (stderr, "%u tensors, %" G_GUINT64_FORMAT " bytes in memory, %" G_GUINT64_FORMAT " bytes read\n",
           n_loaded, n_bytes, weft_loader_get_n_bytes_read (loader));
  if (memory != NULL)
    munmap (memory, MAX (n_bytes, 1));
  return TRUE;
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;

  if (argc < 2 || argc == 3 || argc > 5)
    {
      fprintf (stderr, "Usage: engine CHECKPOINT [RANK WORLD_SIZE [SHARED]]\n");
      return 2;
    }
  if (run (argv[1], argc > 3 ? (guint) g_ascii_strtoull (argv[2], NULL, 10) : 0,
           argc > 3 ? (guint) g_ascii_strtoull (argv[3], NULL, 10) : 1, argc > 4 ? argv[4] : NULL, &error))
    return 0;
  fprintf (stderr, "engine: %s\n", error->message);
  return 1;
}
