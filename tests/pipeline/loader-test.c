/* SPDX-License-Identifier: Apache-2.0 */
/* Loads into memory: the table before, the bytes after, each tensor told when it is whole, and what is refused. */
#include "made-checkpoint-private.h"

#define EXPERTS \
  "e.0.w1: F32[1,2] 1\ne.0.w3: F32[1,2] 3\ne.1.w1: F32[1,2] 5\ne.1.w3: F32[1,2] 7\nnone: F32[0]\nnorm: BF16[3] 9\n"
#define EXPERT_RULE \
  CONVERT ("'e.*.w1','e.*.w3'", "'gate_up'", OP_DIM ("MergeModulelist", 0) "," OP_DIM ("Concatenate", 1))

typedef struct
{
  gchar *folder;
  WeftLoader *loader;
} Fixture;

static void
fixture_set_up (Fixture *self, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftTransformList) mapping = made_mapping (EXPERT_RULE);

  self->folder = fixture_folder ();
  made_write (self->folder, "{}", EXPERTS);
  weft_load_options_set_mapping (options, mapping);
  self->loader = weft_loader_new (self->folder, options);
}

static void
fixture_tear_down (Fixture *self, G_GNUC_UNUSED gconstpointer user_data)
{
  g_clear_object (&self->loader);
  fixture_remove_tree (self->folder);
  g_free (self->folder);
}

/* `gate_up@0+32 none@64+0`: where each tensor lies. */
static gchar *
show_layout (WeftArenaLayout *layout)
{
  WeftStateDict *outputs = weft_arena_layout_get_outputs (layout);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    g_string_append_printf (text, "%s@%" G_GUINT64_FORMAT "+%" G_GUINT64_FORMAT " ",
                            weft_state_dict_get_name (outputs, i), weft_arena_layout_get_offset (layout, i),
                            weft_tensor_get_n_bytes (weft_state_dict_get_tensor (outputs, i)));
  g_string_append_printf (text, "= %" G_GUINT64_FORMAT, weft_arena_layout_get_n_bytes (layout));
  return g_string_free (text, FALSE);
}

static const struct
{
  guint64 alignment;
  const gchar *layout;
} layout_rows[] = {
  { 1, "gate_up@0+32 none@32+0 norm@32+6 = 38" },
  { 64, "gate_up@0+32 none@64+0 norm@64+6 = 70" },
  { 4096, "gate_up@0+32 none@4096+0 norm@4096+6 = 4102" },
};

static void
test_layout (Fixture *fixture, gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (GError) error = NULL;
  g_autofree gchar *found = NULL;

  weft_loader_set_alignment (fixture->loader, layout_rows[i].alignment);
  g_assert_nonnull (weft_loader_prepare (fixture->loader, NULL, &error));
  g_assert_no_error (error);
  found = show_layout (weft_loader_prepare (fixture->loader, NULL, &error));
  g_assert_cmpstr (found, ==, layout_rows[i].layout);
  g_assert_cmpuint (weft_loader_get_n_bytes_read (fixture->loader), ==, 0);
}

static void
assert_loaded (const guint8 *memory)
{
  static const gfloat gate_up[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
  /* 9, 10, 11 */
  static const guint16 norm[] = { 0x4110, 0x4120, 0x4130 };

  g_assert_cmpmem (memory, sizeof gate_up, gate_up, sizeof gate_up);
  g_assert_cmpmem (memory + 64, sizeof norm, norm, sizeof norm);
}

typedef struct
{
  const guint8 *memory;
  GHashTable *names;
  guint64 n_bytes_done;
  guint n_destroyed;
} Seen;

static gboolean
see_loaded (WeftLoader *loader, const gchar *name, guint64 offset, guint64 n_bytes, gpointer user_data,
            G_GNUC_UNUSED GError **error)
{
  Seen *seen = user_data;

  g_assert_true (WEFT_IS_LOADER (loader));
  g_assert_true (g_hash_table_add (seen->names, g_strdup (name)));
  if (strcmp (name, "norm") == 0)
    {
      g_assert_cmpuint (offset, ==, 64);
      g_assert_cmpuint (n_bytes, ==, 6);
      /* All of it is there: the last element is. */
      g_assert_cmpmem (seen->memory + offset + 4, 2, "\x30\x41", 2);
    }
  return TRUE;
}

static void
see_progress (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data)
{
  Seen *seen = user_data;

  g_assert_cmpuint (n_bytes_total, ==, 38);
  seen->n_bytes_done = n_bytes_done;
}

static void
count_destroyed (gpointer user_data)
{
  ((Seen *) user_data)->n_destroyed++;
}

/* Memory of the caller, through every backend, with a deep queue and with none. */
static void
test_into_memory_of_the_caller (Fixture *fixture, gconstpointer backend)
{
  guint8 *memory = g_aligned_alloc (1, 80, 64);
  g_autoptr (WeftArena) arena = weft_arena_new_for_memory (memory, 80);
  g_autoptr (GHashTable) names = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, NULL);
  Seen seen = { .memory = memory, .names = names };
  g_autoptr (GError) error = NULL;

  memset (memory, 0xAA, 80);
  weft_loader_set_io_backend (fixture->loader, GPOINTER_TO_INT (backend));
  weft_loader_set_queue (fixture->loader, GPOINTER_TO_INT (backend) == WEFT_IO_BACKEND_PREAD ? 0 : 8, 0);
  weft_loader_set_loaded_func (fixture->loader, see_loaded, &seen, count_destroyed);
  weft_loader_set_progress_func (fixture->loader, see_progress, &seen, count_destroyed);
  g_assert_true (weft_loader_load_into (fixture->loader, arena, NULL, &error));
  g_assert_no_error (error);
  assert_loaded (memory);
  g_assert_cmpuint (memory[70], ==, 0xAA);
  g_assert_cmpuint (g_hash_table_size (names), ==, 3);
  g_assert_cmpuint (seen.n_bytes_done, ==, 38);
  g_assert_cmpuint (weft_loader_get_n_bytes_read (fixture->loader), ==, 38);
  weft_loader_set_loaded_func (fixture->loader, NULL, NULL, NULL);
  g_assert_cmpuint (seen.n_destroyed, ==, 1);
  g_clear_object (&fixture->loader);
  g_assert_cmpuint (seen.n_destroyed, ==, 2);
  g_clear_object (&arena);
  g_aligned_free (memory);
}

static void
test_in_one_call (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftArena) arena = weft_loader_load (fixture->loader, NULL, &error);
  g_autoptr (WeftArena) again = NULL;
  g_autoptr (GBytes) bytes = NULL;

  g_assert_no_error (error);
  g_assert_cmpuint (weft_arena_get_n_bytes (arena), ==, 70);
  assert_loaded (weft_arena_get_memory (arena));
  bytes = weft_arena_get_bytes (arena, 64, 6, &error);
  g_assert_no_error (error);
  /* Bytes keep the arena that they are of. */
  g_clear_object (&arena);
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), 2, "\x10\x41", 2);
  again = weft_loader_load (fixture->loader, NULL, &error);
  assert_loaded (weft_arena_get_memory (again));
  g_assert_nonnull (weft_loader_get_plan (fixture->loader));
}

static void
test_shared (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *path = g_build_filename (fixture->folder, "shared", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (GError) refusal = NULL;
  g_autoptr (WeftArena) arena = weft_arena_new_shared (path, 70, &error);
  g_autoptr (GBytes) seen = NULL;

  g_assert_no_error (error);
  g_assert_true (weft_loader_load_into (fixture->loader, arena, NULL, &error));
  g_assert_no_error (error);
  seen = fixture_read (fixture->folder, "shared");
  g_assert_cmpuint (g_bytes_get_size (seen), ==, 70);
  assert_loaded (g_bytes_get_data (seen, NULL));
  g_assert_null (weft_arena_new_shared (path, 70, &refusal));
  g_assert_error (refusal, WEFT_ERROR, WEFT_ERROR_EXISTS);
}

/* A plan of whatever was opened; and two kinds of memory in one load. */
static void
test_two_arenas (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (WeftCheckpoint) checkpoint = made_open (fixture->folder);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftLoadPlan) plan = weft_load_plan_new (checkpoint, NULL, &error);
  g_autoptr (WeftStateDict) experts = weft_state_dict_new ();
  g_autoptr (WeftArenaLayout) layout = NULL;
  g_autoptr (WeftArena) arena = NULL;
  g_autoptr (WeftBufferSink) sink = weft_buffer_sink_new ();
  WeftStateDict *outputs = weft_load_plan_get_outputs (plan);
  guint16 norm[3];
  guint8 none;

  for (guint i = 0; i < weft_state_dict_get_n_tensors (outputs); i++)
    if (weft_state_dict_get_name (outputs, i)[0] == 'e')
      weft_state_dict_add (experts, weft_state_dict_get_name (outputs, i),
                           weft_state_dict_get_tensor (outputs, i), &error);
  layout = weft_arena_layout_new (experts, 8, &error);
  arena = weft_arena_new (weft_arena_layout_get_n_bytes (layout), &error);
  g_assert_true (weft_buffer_sink_add_arena (sink, arena, layout, &error));
  g_assert_true (weft_buffer_sink_add (sink, "norm", norm, sizeof norm, &error));
  g_assert_true (weft_buffer_sink_add (sink, "none", &none, 0, &error));
  g_assert_true (weft_load_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmphex (norm[2], ==, 0x4130);
  g_assert_cmpfloat (((const gfloat *) weft_arena_get_memory (arena))[7], ==, 8);
  g_assert_false (weft_buffer_sink_add_arena (sink, arena, layout, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
}

static void
test_refused (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree guint8 *memory = g_malloc0 (256);
  guint8 *aligned = memory + (-GPOINTER_TO_SIZE (memory) & 63);
  g_autoptr (WeftArena) small = weft_arena_new_for_memory (aligned, 69);
  g_autoptr (WeftArena) crooked = weft_arena_new_for_memory (aligned + 8, 70);
  g_autoptr (WeftArena) large = NULL;
  g_autoptr (GBytes) outside = NULL;
  g_autoptr (GError) error = NULL;

  g_assert_false (weft_loader_load_into (fixture->loader, small, NULL, &error));
  made_assert_message (error, "arena: expected 70 bytes that begin at a multiple of 64|found 69 bytes");
  g_clear_error (&error);
  g_assert_false (weft_loader_load_into (fixture->loader, crooked, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_clear_error (&error);
  large = weft_arena_new (G_MAXUINT64, &error);
  g_assert_null (large);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_clear_error (&error);
  outside = weft_arena_get_bytes (small, 60, G_MAXUINT64, &error);
  g_assert_null (outside);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
}

static void
test_refused_alignment (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  static const guint64 alignments[] = { 0, 3, 48, G_MAXUINT64 };

  for (guint i = 0; i < G_N_ELEMENTS (alignments); i++)
    {
      g_autoptr (GError) error = NULL;

      weft_loader_set_alignment (fixture->loader, alignments[i]);
      g_assert_null (weft_loader_prepare (fixture->loader, NULL, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
    }
}

/* What a plan refuses is refused before memory is asked for; so is a layout beyond all addresses. */
static void
test_refused_plan (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  const gint64 dims[] = { G_MAXINT64 / 16 };
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftLoader) loader = weft_loader_new (fixture->folder, options);
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (GError) error = NULL;
  const gchar *const wanted[] = { "lm_head.weight", NULL };

  weft_load_options_set_target_names (options, wanted);
  g_assert_null (weft_loader_prepare (loader, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  g_clear_error (&error);
  for (guint i = 0; i < 17; i++)
    {
      const gchar name[] = { (gchar) ('a' + (gchar) i), '\0' };
      g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_U8, dims, 1, &error);

      g_assert_no_error (error);
      weft_state_dict_add (outputs, name, tensor, &error);
    }
  g_assert_null (weft_arena_layout_new (outputs, 64, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  made_assert_message (error, "tensor 'q'");
}

static void
cancel (G_GNUC_UNUSED guint64 n_bytes_done, G_GNUC_UNUSED guint64 n_bytes_total, gpointer user_data)
{
  g_cancellable_cancel (user_data);
}

static void
test_cancelled (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (WeftArena) arena = NULL;
  g_autoptr (GError) error = NULL;

  weft_loader_set_queue (fixture->loader, 0, 0);
  weft_loader_set_progress_func (fixture->loader, cancel, g_object_ref (cancellable), g_object_unref);
  arena = weft_loader_load (fixture->loader, cancellable, &error);
  g_assert_null (arena);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
}

typedef struct
{
  guint n_calls;
  guint fails_at;
  gboolean has_error;
} Refusal;

static gboolean
refuse_loaded (G_GNUC_UNUSED WeftLoader *loader, G_GNUC_UNUSED const gchar *name,
               G_GNUC_UNUSED guint64 offset, G_GNUC_UNUSED guint64 n_bytes, gpointer user_data,
               GError **error)
{
  Refusal *refusal = user_data;

  if (++refusal->n_calls < refusal->fails_at)
    return TRUE;
  if (refusal->has_error)
    g_set_error_literal (error, G_IO_ERROR, G_IO_ERROR_BUSY, "the device is busy");
  return FALSE;
}

/* An error of the callback is that of the load, from the first tensor to the last, and ends its calls; the loader stays as it was. */
static void
test_stopped_by_callback (Fixture *fixture, G_GNUC_UNUSED gconstpointer user_data)
{
  for (guint n_threads = 0; n_threads <= 2; n_threads += 2)
    for (guint fails_at = 1; fails_at <= 4; fails_at++)
      {
        Refusal refusal = { .fails_at = fails_at, .has_error = fails_at != 2 };
        g_autoptr (GCancellable) cancellable = g_cancellable_new ();
        g_autoptr (WeftArena) arena = NULL;
        g_autoptr (GError) error = NULL;

        weft_loader_set_queue (fixture->loader, n_threads, 0);
        weft_loader_set_loaded_func (fixture->loader, refuse_loaded, &refusal, NULL);
        arena = weft_loader_load (fixture->loader, cancellable, &error);
        g_assert_cmpuint (refusal.n_calls, ==, MIN (fails_at, 3));
        g_assert_false (g_cancellable_is_cancelled (cancellable));
        if (fails_at > 3)
          {
            g_assert_no_error (error);
            assert_loaded (weft_arena_get_memory (arena));
            continue;
          }
        g_assert_null (arena);
        if (refusal.has_error)
          g_assert_error (error, G_IO_ERROR, G_IO_ERROR_BUSY);
        else
          g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
      }
}

static void
add (const gchar *name, gconstpointer user_data, void (*test) (Fixture *, gconstpointer))
{
  g_autofree gchar *path = g_strconcat ("/loader/", name, NULL);

  g_test_add (path, Fixture, user_data, fixture_set_up, test, fixture_tear_down);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  add ("layout/packed", GUINT_TO_POINTER (0), test_layout);
  add ("layout/64", GUINT_TO_POINTER (1), test_layout);
  add ("layout/page", GUINT_TO_POINTER (2), test_layout);
  add ("memory-of-the-caller/pread", GINT_TO_POINTER (WEFT_IO_BACKEND_PREAD), test_into_memory_of_the_caller);
  add ("memory-of-the-caller/mmap", GINT_TO_POINTER (WEFT_IO_BACKEND_MMAP), test_into_memory_of_the_caller);
  add ("memory-of-the-caller/direct", GINT_TO_POINTER (WEFT_IO_BACKEND_DIRECT),
       test_into_memory_of_the_caller);
  add ("one-call", NULL, test_in_one_call);
  add ("shared", NULL, test_shared);
  add ("two-arenas", NULL, test_two_arenas);
  add ("refused", NULL, test_refused);
  add ("refused-alignment", NULL, test_refused_alignment);
  add ("refused-plan", NULL, test_refused_plan);
  add ("cancelled", NULL, test_cancelled);
  add ("stopped-by-callback", NULL, test_stopped_by_callback);
  return g_test_run ();
}
