/* SPDX-License-Identifier: Apache-2.0 */
/* The sinks that stay in memory, and what the runner promises to every sink. */
#include "fixture-private.h"

/* The address sanitizer ends the program when too much memory is asked for, unless it is told not to. */
const char *__asan_default_options (void);

const char *
__asan_default_options (void)
{
  return "allocator_may_return_null=1";
}

/* Outputs with values: `a` is "xyz", `b` is [7, 8], `e` is empty. */
static WeftStateDict *
outputs_new (void)
{
  static const struct
  {
    const gchar *name;
    const gchar *bytes;
    gint64 size;
  } tensors[] = { { "a", "xyz", 3 }, { "b", "\7\10", 2 }, { "e", "", 0 } };
  WeftStateDict *outputs = weft_state_dict_new ();

  for (guint i = 0; i < G_N_ELEMENTS (tensors); i++)
    {
      g_autoptr (GBytes) bytes = g_bytes_new_static (tensors[i].bytes, (gsize) tensors[i].size);
      g_autoptr (GError) error = NULL;
      g_autoptr (WeftTensor) tensor =
          weft_tensor_new_from_bytes (WEFT_DTYPE_U8, &tensors[i].size, 1, bytes, &error);

      g_assert_no_error (error);
      g_assert_true (weft_state_dict_add (outputs, tensors[i].name, tensor, &error));
    }
  return outputs;
}

static void
test_memory (void)
{
  g_autoptr (WeftStateDict) outputs = outputs_new ();
  g_autoptr (WeftMemorySink) sink = weft_memory_sink_new ();
  g_autoptr (GError) error = NULL;
  GBytes *bytes;

  g_assert_null (weft_memory_sink_lookup (sink, "a"));
  g_assert_true (weft_sink_write (WEFT_SINK (sink), outputs, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  bytes = weft_memory_sink_lookup (sink, "a");
  g_assert_cmpmem (g_bytes_get_data (bytes, NULL), g_bytes_get_size (bytes), "xyz", 3);
  g_assert_cmpuint (GPOINTER_TO_SIZE (g_bytes_get_data (bytes, NULL)) % 64, ==, 0);
  g_assert_cmpuint (g_bytes_get_size (weft_memory_sink_lookup (sink, "e")), ==, 0);
  g_assert_null (weft_memory_sink_lookup (sink, "c"));
}

static void
test_memory_too_large (void)
{
  const gint64 dims[] = { G_MAXINT64 / 16 };
  g_autoptr (WeftStateDict) outputs = weft_state_dict_new ();
  g_autoptr (WeftMemorySink) sink = weft_memory_sink_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_U8, dims, 1, &error);

  weft_state_dict_add (outputs, "huge", tensor, &error);
  g_assert_no_error (error);
  g_assert_false (weft_sink_write (WEFT_SINK (sink), outputs, NULL, NULL, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_assert_nonnull (strstr (error->message, "tensor 'huge'"));
}

/* A tensor that cannot be read fails the whole; nothing half written can be looked up. */
static void
test_memory_abandoned (void)
{
  const gint64 dims[] = { 4 };
  g_autoptr (WeftStateDict) outputs = outputs_new ();
  g_autoptr (WeftMemorySink) sink = weft_memory_sink_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftTensor) tensor = weft_tensor_new_unreadable (WEFT_DTYPE_U8, dims, 1, &error);

  weft_state_dict_add (outputs, "unreadable", tensor, &error);
  g_assert_false (weft_sink_write (WEFT_SINK (sink), outputs, NULL, NULL, NULL, &error));
  g_assert_nonnull (error);
  g_assert_null (weft_memory_sink_lookup (sink, "a"));
}

static void
test_buffer (void)
{
  g_autoptr (WeftStateDict) outputs = outputs_new ();
  g_autoptr (WeftBufferSink) sink = weft_buffer_sink_new ();
  g_autoptr (GError) error = NULL;
  gchar a[5] = "....", b[2] = "..", e[1] = ".";

  g_assert_true (weft_buffer_sink_add (sink, "a", a, 3, &error));
  g_assert_true (weft_buffer_sink_add (sink, "b", b, 2, &error));
  g_assert_true (weft_buffer_sink_add (sink, "e", e, 0, &error));
  g_assert_true (weft_sink_write (WEFT_SINK (sink), outputs, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpmem (a, 5, "xyz.", 5);
  g_assert_cmpmem (b, 2, "\7\10", 2);
  g_assert_cmpint (e[0], ==, '.');
}

/* @buffers: "a:3 b:2" */
typedef struct
{
  const gchar *name;
  const gchar *buffers;
  gint code;
  const gchar *message;
} BufferCase;

static const BufferCase buffer_cases[] = {
  { "missing", "a:3 e:0", WEFT_ERROR_MISSING, "tensor 'b': expected a buffer of 2 bytes, found none" },
  { "too-small", "a:3 b:1 e:0", WEFT_ERROR_SHAPE,
    "tensor 'b': expected a buffer of 2 bytes, found one of 1 bytes" },
  { "too-large", "a:3 b:3 e:0", WEFT_ERROR_SHAPE, "found one of 3 bytes" },
  { "unexpected", "a:3 b:2 e:0 z:1", WEFT_ERROR_UNEXPECTED, "tensor 'z': expected an output for the buffer" },
  { "twice", "a:3 a:3", WEFT_ERROR_CONFLICT, "tensor 'a': expected one buffer" },
};

static void
test_buffer_refused (gconstpointer user_data)
{
  const BufferCase *c = user_data;
  g_autoptr (WeftStateDict) outputs = outputs_new ();
  g_autoptr (WeftBufferSink) sink = weft_buffer_sink_new ();
  g_auto (GStrv) buffers = g_strsplit (c->buffers, " ", -1);
  g_autoptr (GError) error = NULL;
  gchar memory[4] = "...";
  gboolean ok = TRUE;

  for (guint i = 0; ok && buffers[i] != NULL; i++)
    {
      gchar name[2] = { buffers[i][0], '\0' };

      ok = weft_buffer_sink_add (sink, name, memory, g_ascii_strtoull (buffers[i] + 2, NULL, 10), &error);
    }
  g_assert_false (ok && weft_sink_write (WEFT_SINK (sink), outputs, NULL, NULL, NULL, &error));
  g_assert_error (error, WEFT_ERROR, c->code);
  g_assert_nonnull (strstr (error->message, c->message));
  g_assert_cmpstr (memory, ==, "...");
}

typedef struct
{
  guint64 n_bytes_done;
  guint64 n_bytes_total;
  guint n_completed[3];
} Seen;

static void
see_progress (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data)
{
  Seen *seen = user_data;

  g_assert_cmpuint (n_bytes_done, >=, seen->n_bytes_done);
  seen->n_bytes_done = n_bytes_done;
  seen->n_bytes_total = n_bytes_total;
}

static void
see_completed (gsize position, gpointer user_data)
{
  ((Seen *) user_data)->n_completed[position]++;
}

/* Progress and completion speak of the outputs, although each file is a batch of its own. */
static void
test_callbacks (void)
{
  const guint shards[] = { 2, 1, 0 };
  Seen seen = { 0 };
  WeftTransferOptions options = {
    .struct_size = sizeof options,
    .progress = see_progress,
    .progress_data = &seen,
    .completed = see_completed,
    .completed_data = &seen,
  };
  g_autofree gchar *folder = fixture_folder ();
  g_autofree gchar *out = g_build_filename (folder, "out", NULL);
  g_autoptr (WeftStateDict) outputs = outputs_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout =
      weft_shard_layout_new_assigned (outputs, shards, 3, NULL, NULL, &error);
  g_autoptr (WeftSafetensorsSink) sink = weft_safetensors_sink_new (out, &error);

  weft_safetensors_sink_set_layout (sink, layout);
  g_assert_true (weft_sink_write (WEFT_SINK (sink), outputs, &options, NULL, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (seen.n_bytes_done, ==, 5);
  g_assert_cmpuint (seen.n_bytes_total, ==, 5);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (seen.n_completed[i], ==, 1);
  fixture_remove_tree (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/sink/memory", test_memory);
  g_test_add_func ("/sink/memory-too-large", test_memory_too_large);
  g_test_add_func ("/sink/memory-abandoned", test_memory_abandoned);
  g_test_add_func ("/sink/buffer", test_buffer);
  for (guint i = 0; i < G_N_ELEMENTS (buffer_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/sink/buffer/", buffer_cases[i].name, NULL);
      g_test_add_data_func (path, &buffer_cases[i], test_buffer_refused);
    }
  g_test_add_func ("/sink/callbacks", test_callbacks);
  return g_test_run ();
}
