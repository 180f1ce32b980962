/* SPDX-License-Identifier: Apache-2.0 */
/* Output appears whole or not at all, whatever happens on the way. */
#include "fixture-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Stands in for the C library's: the allocation after this many successful ones finds the disk full. */
static gint n_allocations_left = G_MAXINT;

int
fallocate (int fd, int mode, off_t offset, off_t length)
{
  if (n_allocations_left-- > 0)
    return (int) syscall (SYS_fallocate, fd, mode, offset, length);
  errno = ENOSPC;
  return -1;
}

/* Stands in for the C library's: a file system that cannot exchange two names, if that is wanted. */
static gboolean can_exchange = TRUE;

int
renameat2 (int from_folder, const char *from, int to_folder, const char *to, unsigned int flags)
{
  if ((flags & RENAME_EXCHANGE) == 0 || can_exchange)
    return (int) syscall (SYS_renameat2, from_folder, from, to_folder, to, flags);
  errno = EINVAL;
  return -1;
}

/* A source of two shards with an index, a config, and a file in a sub-folder; `out` is where outputs go. */
typedef struct
{
  gchar *folder;
  gchar *source_path;
  gchar *out;
  WeftCheckpoint *source;
} Fixture;

static void
fixture_open_source (Fixture *f)
{
  g_autoptr (GError) error = NULL;

  g_clear_object (&f->source);
  f->source = weft_checkpoint_open (f->source_path, NULL, &error);
  g_assert_no_error (error);
}

static void
fixture_set_up (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  static const gchar index[] =
      "{\"metadata\":{},\"weight_map\":{\"a\":\"s1.safetensors\",\"b\":\"s1.safetensors\",\"c\":\"s2.safetensors\"}}";

  n_allocations_left = G_MAXINT;
  can_exchange = TRUE;
  f->folder = g_strdup (g_getenv ("WEFT_TEST_FOLDER"));
  if (f->folder == NULL)
    f->folder = fixture_folder ();
  f->source_path = g_build_filename (f->folder, "source", NULL);
  f->out = g_build_filename (f->folder, "out", NULL);
  if (!g_file_test (f->source_path, G_FILE_TEST_EXISTS))
    {
      fixture_write_shard (f->source_path, "s1.safetensors", "a:3 b:70000");
      fixture_write_shard (f->source_path, "s2.safetensors", "c:5");
      fixture_write (f->source_path, "model.safetensors.index.json", index, -1);
      fixture_write (f->source_path, "config.json", "{\"old\":1}", -1);
      fixture_write (f->source_path, "sub/tokenizer.model", "tokens", -1);
    }
  fixture_open_source (f);
}

static void
fixture_tear_down (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_clear_object (&f->source);
  if (g_getenv ("WEFT_TEST_FOLDER") == NULL)
    fixture_remove_tree (f->folder);
  g_free (f->folder);
  g_free (f->source_path);
  g_free (f->out);
}

static WeftSafetensorsSink *
sink_new (Fixture *f, WeftOutputFlags flags)
{
  const guint shards[] = { 0, 0, 1 };
  WeftStateDict *outputs = weft_checkpoint_get_state_dict (f->source);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftShardLayout) layout =
      weft_shard_layout_new_assigned (outputs, shards, 3, NULL, NULL, &error);
  WeftSafetensorsSink *sink = weft_safetensors_sink_new_full (f->out, flags, &error);

  g_assert_no_error (error);
  weft_safetensors_sink_set_layout (sink, layout);
  weft_safetensors_sink_set_source (sink, f->source, &error);
  g_assert_no_error (error);
  return sink;
}

static gboolean
write_outputs (Fixture *f, WeftSafetensorsSink *sink, GError **error)
{
  return weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), NULL, NULL, NULL,
                          error);
}

/* The output is there, whole, and nothing else is. */
static void
check_output (Fixture *f)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (f->out, NULL, &error);
  g_autofree gchar *names = NULL;
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);

  g_assert_no_error (error);
  names = fixture_names (weft_checkpoint_get_state_dict (checkpoint));
  g_assert_cmpstr (names, ==, "a b c");
  for (guint i = 0; i < 3; i++)
    {
      WeftStateDict *source = weft_checkpoint_get_state_dict (f->source);
      g_autoptr (GBytes) expected = weft_tensor_read (weft_state_dict_get_tensor (source, i), NULL, &error);
      g_autoptr (GBytes) found = weft_tensor_read (
          weft_state_dict_get_tensor (weft_checkpoint_get_state_dict (checkpoint), i), NULL, &error);

      g_assert_no_error (error);
      g_assert_true (g_bytes_equal (expected, found));
    }
  g_assert_false (g_file_test (partial, G_FILE_TEST_EXISTS));
  g_assert_false (fixture_exists (f->out, ".weft-journal"));
}

static void
test_folder (Fixture *f, gconstpointer flags)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, (WeftOutputFlags) GPOINTER_TO_INT (flags));
  g_autoptr (GBytes) config = g_bytes_new_static ("{}", 2);
  g_autoptr (GBytes) found = NULL;
  g_autoptr (GBytes) tokens = NULL;
  struct stat status;
  mode_t mask = umask (027);

  g_assert_true (weft_safetensors_sink_add_text (sink, "config.json", config, &error));
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  umask (mask);
  check_output (f);
  found = fixture_read (f->out, "config.json");
  g_assert_true (g_bytes_equal (config, found));
  tokens = fixture_read (f->out, "sub/tokenizer.model");
  g_assert_cmpmem (g_bytes_get_data (tokens, NULL), g_bytes_get_size (tokens), "tokens", 6);
  g_assert_true (fixture_exists (f->out, "model-00002-of-00002.safetensors"));
  g_assert_false (fixture_exists (f->out, "s1.safetensors"));
  g_assert_cmpint (stat (f->out, &status), ==, 0);
  g_assert_cmpuint (status.st_mode & 0777, ==, 0750);
  {
    g_autofree gchar *shard = g_build_filename (f->out, "model-00001-of-00002.safetensors", NULL);

    g_assert_cmpint (stat (shard, &status), ==, 0);
    g_assert_cmpuint (status.st_mode & 0777, ==, 0640);
  }
}

static void
test_single_file (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  g_free (f->out);
  f->out = g_build_filename (f->folder, "x.safetensors", NULL);
  sink = weft_safetensors_sink_new (f->out, &error);
  g_assert_no_error (error);
  g_assert_true (weft_safetensors_sink_is_single_file (sink));
  g_assert_true (weft_safetensors_sink_set_source (sink, f->source, &error));
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  check_output (f);
  g_assert_true (g_file_test (f->out, G_FILE_TEST_IS_REGULAR));
}

static void
test_single_file_needs_one (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  g_free (f->out);
  f->out = g_build_filename (f->folder, "x.safetensors", NULL);
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);
  g_assert_false (write_outputs (f, sink, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_assert_nonnull (strstr (error->message, "laid out in 2 files"));
  g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
}

/* Without a layout and a source: the outputs alone, in one file. */
static void
test_defaults (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = weft_safetensors_sink_new (f->out, &error);

  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  check_output (f);
  g_assert_true (fixture_exists (f->out, "model.safetensors"));
  g_assert_false (fixture_exists (f->out, "config.json"));
}

static void
check_same_file (const gchar *folder, const gchar *other, const gchar *name)
{
  g_autoptr (GBytes) a = fixture_read (folder, name);
  g_autoptr (GBytes) b = fixture_read (other, name);

  g_assert_true (g_bytes_equal (a, b));
}

/* Recorded headers and index give the source back, byte for byte: not in our order, not padded, without metadata. */
static void
test_verbatim (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  static const gchar *const names[] = { "s1.safetensors", "s2.safetensors", NULL };
  g_autoptr (GPtrArray) headers = g_ptr_array_new_with_free_func ((GDestroyNotify) g_bytes_unref);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);
  g_autoptr (WeftShardLayout) layout = NULL;

  for (guint i = 0; i < 2; i++)
    g_ptr_array_add (headers, weft_shard_read_header (weft_checkpoint_get_shard (f->source, i), &error));
  layout = weft_shard_layout_new_verbatim (weft_checkpoint_get_state_dict (f->source), names, headers,
                                           weft_checkpoint_get_index_name (f->source),
                                           weft_checkpoint_get_index (f->source), &error);
  g_assert_no_error (error);
  weft_safetensors_sink_set_layout (sink, layout);
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  check_output (f);
  check_same_file (f->source_path, f->out, "s1.safetensors");
  check_same_file (f->source_path, f->out, "s2.safetensors");
  check_same_file (f->source_path, f->out, "model.safetensors.index.json");
  check_same_file (f->source_path, f->out, "config.json");
}

/* F58: one tensor of each dtype, one without elements, one scalar. */
static void
test_every_dtype (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (WeftStateDict) outputs = fixture_outputs (
      "BOOL[8] 0, F4[8] 1, F6_E2M3[8] 2, F6_E3M2[8] 3, U8[8] 4, I8[8] 5, F8_E5M2[8] 6, F8_E4M3[8] 7, "
      "F8_E4M3FNUZ[8] 8, F8_E5M2FNUZ[8] 9, I16[8] 10, U16[8] 11, F16[8] 12, BF16[8] 13, I32[8] 14, "
      "U32[8] 15, F32[8] 16, C64[8] 17, F64[8] 18, I64[8] 19, U64[8] 20, F32[0,3] 21, F32[] 22");
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = weft_safetensors_sink_new (f->out, &error);
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  WeftStateDict *found;

  g_assert_true (weft_sink_write (WEFT_SINK (sink), outputs, NULL, NULL, NULL, &error));
  g_assert_no_error (error);
  checkpoint = weft_checkpoint_open (f->out, NULL, &error);
  g_assert_no_error (error);
  found = weft_checkpoint_get_state_dict (checkpoint);
  g_assert_cmpuint (weft_state_dict_get_n_tensors (found), ==, 23);
  for (guint i = 0; i < 23; i++)
    {
      WeftTensor *written = weft_state_dict_get_tensor (outputs, i);
      WeftTensor *read = weft_state_dict_lookup (found, weft_state_dict_get_name (outputs, i));

      g_assert_cmpint (weft_tensor_get_dtype (read), ==, weft_tensor_get_dtype (written));
      g_assert_true (weft_shape_equal (weft_tensor_get_shape (read), weft_tensor_get_shape (written)));
    }
}

/* @out: where to write, below the folder; @existing: a file that is there before. */
typedef struct
{
  const gchar *name;
  const gchar *out;
  const gchar *existing;
  WeftOutputFlags flags;
  gint code;
  const gchar *message;
} RefusedCase;

static const RefusedCase refused_cases[] = {
  { "exists", "out", "out/config.json", WEFT_OUTPUT_FLAGS_NONE, WEFT_ERROR_EXISTS,
    "the output exists: name another one, or use --force" },
  { "exists-empty", "out", "out/x/y", WEFT_OUTPUT_FLAGS_NONE, WEFT_ERROR_EXISTS, "the output exists" },
  { "no-checkpoint", "out", "out/notes.txt", WEFT_OUTPUT_FLAGS_FORCE, WEFT_ERROR_EXISTS,
    "holds no checkpoint" },
  { "file-for-folder", "out", "out", WEFT_OUTPUT_FLAGS_FORCE, WEFT_ERROR_EXISTS, "is no folder" },
  { "no-parent", "no/out", NULL, WEFT_OUTPUT_FLAGS_NONE, WEFT_ERROR_MISSING,
    "does not exist: make it first" },
  { "is-source", "source", NULL, WEFT_OUTPUT_FLAGS_FORCE, WEFT_ERROR_ARGUMENT,
    "is the source; name another one, or use --in-place" },
  { "is-source-by-detour", "source/sub/..", NULL, WEFT_OUTPUT_FLAGS_FORCE, WEFT_ERROR_ARGUMENT,
    "is the source" },
  { "inside-source", "source/out", NULL, WEFT_OUTPUT_FLAGS_NONE, WEFT_ERROR_ARGUMENT,
    "lies inside the source" },
  { "file-inside-source", "source/out.safetensors", NULL, WEFT_OUTPUT_FLAGS_NONE, WEFT_ERROR_ARGUMENT,
    "lies inside the source" },
  { "is-a-shard", "source/s1.safetensors", NULL, WEFT_OUTPUT_FLAGS_FORCE, WEFT_ERROR_ARGUMENT,
    "lies inside the source" },
  { "holds-source", ".", "config.json", WEFT_OUTPUT_FLAGS_FORCE, WEFT_ERROR_ARGUMENT, "holds the source" },
  { "in-place-elsewhere", "out", "out/config.json", WEFT_OUTPUT_FLAGS_IN_PLACE, WEFT_ERROR_ARGUMENT,
    "is not the source, as --in-place needs" },
  { "in-place-nowhere", "out", NULL, WEFT_OUTPUT_FLAGS_IN_PLACE, WEFT_ERROR_ARGUMENT, "is not the source" },
};

static void
test_refused (Fixture *f, gconstpointer user_data)
{
  const RefusedCase *c = user_data;
  g_autofree gchar *out = g_build_filename (f->folder, c->out, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  if (c->existing != NULL)
    fixture_write (f->folder, c->existing, "{}", -1);
  sink = weft_safetensors_sink_new_full (out, c->flags, &error);
  if (sink != NULL)
    g_assert_false (weft_safetensors_sink_set_source (sink, f->source, &error));
  g_assert_error (error, WEFT_ERROR, c->code);
  if (strstr (error->message, c->message) == NULL)
    g_error ("expected '%s' in '%s'", c->message, error->message);
  if (c->existing != NULL)
    g_assert_true (fixture_exists (f->folder, c->existing));
  g_assert_true (fixture_exists (f->source_path, "s1.safetensors"));
}

/* Links do not hide that output and source are one, nor that shards lie in the output. */
static void
test_links (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *alias = g_build_filename (f->folder, "alias", NULL);
  g_autofree gchar *inside = g_build_filename (alias, "out", NULL);
  g_autofree gchar *hub = g_build_filename (f->folder, "hub", NULL);
  g_autofree gchar *hub_shard = g_build_filename (hub, "model.safetensors", NULL);
  g_autofree gchar *shard = g_build_filename (f->source_path, "s1.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) same = NULL;
  g_autoptr (WeftSafetensorsSink) below = NULL;
  g_autoptr (WeftSafetensorsSink) blobs = NULL;
  g_autoptr (WeftCheckpoint) linked = NULL;

  g_assert_cmpint (symlink (f->source_path, alias), ==, 0);
  g_assert_cmpint (g_mkdir (hub, 0777), ==, 0);
  g_assert_cmpint (symlink (shard, hub_shard), ==, 0);
  same = weft_safetensors_sink_new_full (alias, WEFT_OUTPUT_FLAGS_FORCE, &error);
  g_assert_no_error (error);
  g_assert_false (weft_safetensors_sink_set_source (same, f->source, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_clear_error (&error);
  below = weft_safetensors_sink_new (inside, &error);
  g_assert_no_error (error);
  g_assert_false (weft_safetensors_sink_set_source (below, f->source, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_clear_error (&error);
  linked = weft_checkpoint_open (hub, NULL, &error);
  g_assert_no_error (error);
  blobs = weft_safetensors_sink_new_full (f->source_path, WEFT_OUTPUT_FLAGS_FORCE, &error);
  g_assert_no_error (error);
  g_assert_false (weft_safetensors_sink_set_source (blobs, linked, &error));
  g_assert_nonnull (strstr (error->message, "holds the source"));
}

/* @files: what there is in the old folder beside the checkpoint of two shards; @kept: which of them are left in
 * `.weft-old`. */
typedef struct
{
  const gchar *name;
  WeftOutputFlags flags;
  const gchar *files;
  const gchar *kept;
} KeptCase;

static const KeptCase kept_cases[] = {
  { "force/nothing", WEFT_OUTPUT_FLAGS_FORCE, "", "" },
  { "force/same-name", WEFT_OUTPUT_FLAGS_FORCE, "sub/tokenizer.model weft-provenance.json", "" },
  { "force/other-format", WEFT_OUTPUT_FLAGS_FORCE, "pytorch_model.bin model.gguf",
    "pytorch_model.bin model.gguf" },
  { "force/unlisted-shard", WEFT_OUTPUT_FLAGS_FORCE, "model-00001-of-00002.safetensors",
    "model-00001-of-00002.safetensors" },
  { "force/notes", WEFT_OUTPUT_FLAGS_FORCE, "notes.txt sub/notes.txt", "notes.txt sub/notes.txt" },
  { "force/hidden", WEFT_OUTPUT_FLAGS_FORCE, ".git/HEAD sub/tokenizer.model", ".git/HEAD" },
  { "in-place/nothing", WEFT_OUTPUT_FLAGS_IN_PLACE, "", "" },
  { "in-place/carried", WEFT_OUTPUT_FLAGS_IN_PLACE, "notes.txt sub/deep/notes.txt weft-provenance.json", "" },
  { "in-place/other-format", WEFT_OUTPUT_FLAGS_IN_PLACE, "pytorch_model.bin sub/model.gguf",
    "pytorch_model.bin sub/model.gguf" },
  { "in-place/unlisted-shard", WEFT_OUTPUT_FLAGS_IN_PLACE, "model-00001-of-00002.safetensors",
    "model-00001-of-00002.safetensors" },
  { "in-place/hidden", WEFT_OUTPUT_FLAGS_IN_PLACE, ".git/HEAD notes.txt", ".git/HEAD" },
  { "in-place/nested-record", WEFT_OUTPUT_FLAGS_IN_PLACE, "sub/weft-provenance.json",
    "sub/weft-provenance.json" },
};

/* Puts a copy of the source where the output goes, or lets the output be the source. */
static void
make_old (Fixture *f, WeftOutputFlags flags)
{
  static const gchar *const names[] = { "s1.safetensors", "s2.safetensors", "model.safetensors.index.json",
                                        "config.json" };

  if (flags == WEFT_OUTPUT_FLAGS_IN_PLACE)
    {
      g_free (f->out);
      f->out = g_strdup (f->source_path);
      return;
    }
  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GBytes) bytes = fixture_read (f->source_path, names[i]);

      fixture_write (f->out, names[i], g_bytes_get_data (bytes, NULL), (gssize) g_bytes_get_size (bytes));
    }
}

static void
collect_files (const gchar *folder, const gchar *prefix, GPtrArray *files)
{
  g_autofree gchar *path = g_build_filename (folder, prefix, NULL);
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *relative = *prefix == '\0' ? g_strdup (name) : g_build_filename (prefix, name, NULL);
      g_autofree gchar *full = g_build_filename (folder, relative, NULL);

      if (g_file_test (full, G_FILE_TEST_IS_DIR))
        collect_files (folder, relative, files);
      else
        g_ptr_array_add (files, g_steal_pointer (&relative));
    }
}

static gint
compare_texts (gconstpointer a, gconstpointer b)
{
  return strcmp (*(const gchar *const *) a, *(const gchar *const *) b);
}

static gchar *
sort_words (const gchar *words)
{
  g_auto (GStrv) parts = g_strsplit (words, " ", -1);

  qsort (parts, g_strv_length (parts), sizeof (gchar *), compare_texts);
  return g_strjoinv (" ", parts);
}

static gchar *
list_files (const gchar *folder)
{
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);

  collect_files (folder, "", files);
  g_ptr_array_sort (files, compare_texts);
  g_ptr_array_add (files, NULL);
  return g_strjoinv (" ", (gchar **) files->pdata);
}

static void
test_kept (Fixture *f, gconstpointer user_data)
{
  const KeptCase *c = user_data;
  g_auto (GStrv) names = g_strsplit (c->files, " ", -1);
  g_autofree gchar *expected = sort_words (c->kept);
  g_autofree gchar *old = NULL;
  g_autofree gchar *found = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  make_old (f, c->flags);
  for (guint i = 0; names[i] != NULL; i++)
    fixture_write (f->out, names[i], names[i], -1);
  fixture_open_source (f);
  sink = sink_new (f, c->flags);
  g_assert_null (weft_safetensors_sink_get_kept_path (sink));
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  check_output (f);
  old = g_strconcat (f->out, ".weft-old", NULL);
  found = list_files (old);
  g_assert_cmpstr (found, ==, expected);
  g_assert_cmpstr (weft_safetensors_sink_get_kept_path (sink), ==, *c->kept == '\0' ? NULL : old);
  g_assert_cmpint (g_file_test (old, G_FILE_TEST_EXISTS), ==, *c->kept != '\0');
}

/* What is no file is kept too; and a file that somebody changes while we work. */
static void
edit_config (gsize position, gpointer user_data)
{
  if (position == 0)
    fixture_write (user_data, "config.json", "{\"edited\":1}", -1);
}

static void
test_kept_oddities (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  WeftTransferOptions options = { .struct_size = sizeof options, .completed = edit_config };
  g_autofree gchar *fifo = g_build_filename (f->source_path, "fifo", NULL);
  g_autofree gchar *empty = g_build_filename (f->source_path, "empty", NULL);
  g_autofree gchar *link = g_build_filename (f->source_path, "link", NULL);
  g_autofree gchar *elsewhere = g_build_filename (f->folder, "elsewhere", NULL);
  g_autofree gchar *old = g_strconcat (f->source_path, ".weft-old", NULL);
  g_autofree gchar *old_empty = g_build_filename (old, "empty", NULL);
  g_autofree gchar *files = NULL;
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  fixture_write (f->folder, "elsewhere/notes.txt", "x", -1);
  g_assert_cmpint (mkfifo (fifo, 0666), ==, 0);
  g_assert_cmpint (g_mkdir (empty, 0777), ==, 0);
  g_assert_cmpint (symlink (elsewhere, link), ==, 0);
  make_old (f, WEFT_OUTPUT_FLAGS_IN_PLACE);
  fixture_open_source (f);
  options.completed_data = f->source_path;
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_IN_PLACE);
  g_assert_true (weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), &options,
                                  NULL, NULL, &error));
  g_assert_no_error (error);
  check_output (f);
  files = list_files (old);
  g_assert_cmpstr (files, ==, "config.json fifo link/notes.txt");
  g_assert_true (g_file_test (old_empty, G_FILE_TEST_IS_DIR));
  g_assert_true (fixture_exists (f->folder, "elsewhere/notes.txt"));
}

static void
test_kept_without_exchange (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  static const KeptCase cases[] = {
    { "nothing", WEFT_OUTPUT_FLAGS_IN_PLACE, "", "" },
    { "other-format", WEFT_OUTPUT_FLAGS_IN_PLACE, "model.gguf", "model.gguf" },
  };

  can_exchange = FALSE;
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    test_kept (f, &cases[i]);
}

/* Somebody takes the name for what is left while we work: both folders stay, and the error says where the old one is. */
static void
take_old_name (G_GNUC_UNUSED gsize position, gpointer user_data)
{
  fixture_write (user_data, "theirs", "x", -1);
}

static void
test_old_raced (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *old = g_strconcat (f->out, ".weft-old", NULL);
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .completed = take_old_name,
                                  .completed_data = old };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  make_old (f, WEFT_OUTPUT_FLAGS_FORCE);
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_FORCE);
  g_assert_false (weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), &options,
                                   NULL, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
  g_assert_nonnull (strstr (error->message, partial));
  g_clear_object (&sink);
  g_assert_true (fixture_exists (f->out, "model-00001-of-00002.safetensors"));
  g_assert_true (fixture_exists (partial, "s1.safetensors"));
  g_assert_true (fixture_exists (old, "theirs"));
}

/* The name for what is left is free before anything is done. */
static void
test_old_taken (Fixture *f, gconstpointer flags)
{
  g_autoptr (GError) error = NULL;

  make_old (f, (WeftOutputFlags) GPOINTER_TO_INT (flags));
  {
    g_autofree gchar *old = g_strconcat (f->out, ".weft-old", NULL);

    fixture_write (old, "mine", "x", -1);
    g_assert_null (
        weft_safetensors_sink_new_full (f->out, (WeftOutputFlags) GPOINTER_TO_INT (flags), &error));
    g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
    g_assert_nonnull (strstr (error->message, "move it away or remove it"));
    g_assert_true (fixture_exists (old, "mine"));
  }
  g_assert_true (fixture_exists (f->out, "s1.safetensors"));
}

static void
test_dangling_link (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *link = g_build_filename (f->source_path, "merges.txt", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  g_assert_cmpint (symlink ("nowhere", link), ==, 0);
  fixture_open_source (f);
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);
  g_assert_false (write_outputs (f, sink, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_MISSING);
  g_assert_nonnull (
      strstr (error->message, "merges.txt is a link to nowhere; remove it or bring its target back"));
  g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
}

/* The old checkpoint leaves the output as a whole: no stale shard or index stays (F57). */
static void
test_force (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  fixture_write (f->out, "config.json", "{}", -1);
  fixture_write (f->out, "model-00003-of-00003.safetensors", "old", -1);
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_FORCE);
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  check_output (f);
  g_assert_false (fixture_exists (f->out, "model-00003-of-00003.safetensors"));
}

/* F55: the source is read to its end before it goes. */
static void
test_in_place (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;

  g_free (f->out);
  f->out = g_strdup (f->source_path);
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_IN_PLACE);
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  check_output (f);
  g_assert_false (fixture_exists (f->out, "s1.safetensors"));
  g_assert_true (fixture_exists (f->out, "sub/tokenizer.model"));
}

static void
test_full_disk (Fixture *f, gconstpointer n_before)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  g_autoptr (WeftSafetensorsSink) again = NULL;
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  WeftTransferCounters counters = { 0 };

  fixture_write (f->out, "config.json", "{\"kept\":1}", -1);
  sink = sink_new (f, WEFT_OUTPUT_FLAGS_FORCE);
  n_allocations_left = GPOINTER_TO_INT (n_before);
  g_assert_false (write_outputs (f, sink, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
  g_assert_nonnull (strstr (error->message, "cannot be allocated: No space left on device"));
  g_assert_true (fixture_exists (f->out, "config.json"));
  g_assert_false (fixture_exists (f->out, "model-00001-of-00002.safetensors"));
  g_assert_true (fixture_exists (f->source_path, "s2.safetensors"));
  /* Nothing is done: nothing is left. One file is done: it can be resumed, the other one is gone. */
  g_assert_cmpint (g_file_test (partial, G_FILE_TEST_EXISTS), ==, GPOINTER_TO_INT (n_before) > 0);
  g_assert_false (fixture_exists (partial, "model-00002-of-00002.safetensors"));
  g_clear_error (&error);
  n_allocations_left = G_MAXINT;
  again = sink_new (f, WEFT_OUTPUT_FLAGS_FORCE | WEFT_OUTPUT_FLAGS_RESUME);
  g_assert_true (weft_sink_write (WEFT_SINK (again), weft_checkpoint_get_state_dict (f->source), NULL,
                                  &counters, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (counters.n_bytes_written, ==, GPOINTER_TO_INT (n_before) > 0 ? 5 : 70008);
  check_output (f);
}

/* The source loses bytes after it was opened. */
static void
test_source_cut_off (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *shard = g_build_filename (f->source_path, "s2.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);

  g_assert_cmpint (truncate (shard, 20), ==, 0);
  g_assert_false (write_outputs (f, sink, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
  g_assert_nonnull (strstr (error->message, "s2.safetensors"));
  g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
}

static void
test_cancelled (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);

  g_cancellable_cancel (cancellable);
  g_assert_false (weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), NULL, NULL,
                                   cancellable, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
  g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
}

/* Somebody else makes the output while we work: theirs stays. */
static void
make_output (G_GNUC_UNUSED gsize position, gpointer user_data)
{
  fixture_write (user_data, "theirs", "x", -1);
}

static void
remove_output (Fixture *f)
{
  g_autofree gchar *theirs = g_build_filename (f->out, "theirs", NULL);

  g_assert_cmpint (g_unlink (theirs), ==, 0);
  g_assert_cmpint (g_rmdir (f->out), ==, 0);
}

static void
test_raced (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .completed = make_output,
                                  .completed_data = f->out };
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);
  g_autoptr (WeftSafetensorsSink) again = NULL;

  g_assert_false (weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), &options,
                                   NULL, NULL, &error));
  g_clear_object (&sink);
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
  g_assert_true (fixture_exists (f->out, "theirs"));
  g_assert_false (fixture_exists (f->out, "config.json"));
  /* Nothing of the work is lost: once theirs is out of the way, only the name is missing. */
  remove_output (f);
  again = sink_new (f, WEFT_OUTPUT_FLAGS_RESUME);
  g_clear_error (&error);
  g_assert_true (write_outputs (f, again, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (weft_safetensors_sink_get_n_resumed_files (again), ==, 2);
  check_output (f);
}

static const gchar *const members[] = { "rank-00000-of-00002", "rank-00001-of-00002", NULL };

/* Writes both members of a set; how many of their files an earlier run has made. */
static guint
write_members (Fixture *f, WeftOutputSet *set)
{
  guint n_resumed = 0;

  for (guint i = 0; members[i] != NULL; i++)
    {
      g_autoptr (WeftSafetensorsSink) sink = weft_safetensors_sink_new_in_set (set, members[i]);
      g_autoptr (GError) error = NULL;

      g_assert_true (write_outputs (f, sink, &error));
      g_assert_no_error (error);
      n_resumed += weft_safetensors_sink_get_n_resumed_files (sink);
    }
  return n_resumed;
}

static void
test_raced_set (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftOutputSet) set = weft_output_set_new (f->out, members, WEFT_OUTPUT_FLAGS_NONE, &error);
  guint n_files;

  g_assert_no_error (error);
  g_assert_true (weft_output_set_begin (set, &error));
  g_assert_cmpuint (write_members (f, set), ==, 0);
  fixture_write (f->out, "theirs", "", 0);
  g_assert_false (weft_output_set_publish (set, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
  g_clear_object (&set);
  g_clear_error (&error);
  g_assert_true (fixture_exists (partial, "rank-00001-of-00002.weft-done"));
  remove_output (f);
  set = weft_output_set_new (f->out, members, WEFT_OUTPUT_FLAGS_RESUME, &error);
  g_assert_true (weft_output_set_begin (set, &error));
  n_files = write_members (f, set);
  g_assert_cmpuint (n_files, >=, 2);
  g_assert_true (weft_output_set_publish (set, &error));
  g_assert_no_error (error);
  g_assert_true (fixture_exists (f->out, "rank-00001-of-00002/model.safetensors"));
  g_assert_false (fixture_exists (f->out, "rank-00001-of-00002.weft-done"));
  g_assert_false (fixture_exists (f->out, ".weft-journal"));
  g_assert_false (g_file_test (partial, G_FILE_TEST_EXISTS));
}

/* A process whose folder is not marked as done may have failed. */
static void
test_unmarked_member (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  g_autofree gchar *mark = g_build_filename (partial, "rank-00001-of-00002.weft-done", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftOutputSet) set = weft_output_set_new (f->out, members, WEFT_OUTPUT_FLAGS_NONE, &error);

  g_assert_true (weft_output_set_begin (set, &error));
  write_members (f, set);
  g_assert_cmpint (g_unlink (mark), ==, 0);
  g_assert_false (weft_output_set_publish (set, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
  g_assert_nonnull (strstr (error->message, "marked as done"));
  g_assert_true (fixture_exists (partial, "rank-00000-of-00002.weft-done"));
  g_assert_true (fixture_exists (partial, ".weft-journal"));
  g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
}

static void
test_locked (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  g_autofree gchar *journal = g_build_filename (partial, ".weft-journal", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_RESUME);
  gint fd;

  fixture_write (partial, ".weft-journal", "", 0);
  fd = open (journal, O_RDWR | O_CLOEXEC);
  g_assert_cmpint (flock (fd, LOCK_EX), ==, 0);
  g_assert_false (write_outputs (f, sink, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT);
  g_assert_true (g_file_test (journal, G_FILE_TEST_EXISTS));
  close (fd);
}

static void
test_foreign_partial (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);

  fixture_write (partial, "mine", "x", -1);
  g_assert_false (write_outputs (f, sink, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
  g_assert_nonnull (strstr (error->message, "found a folder without its .weft-journal"));
  g_assert_true (fixture_exists (partial, "mine"));
}

/* What a run leaves that was killed before its journal was there. */
static void
test_empty_partial (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_RESUME);

  g_assert_cmpint (g_mkdir (partial, 0700), ==, 0);
  g_assert_true (write_outputs (f, sink, &error));
  g_assert_no_error (error);
  g_assert_false (g_file_test (partial, G_FILE_TEST_EXISTS));
}

/* Ends the program, as a kill would, once the first file is done. */
static void
die_in_second_file (guint64 n_bytes_done, G_GNUC_UNUSED guint64 n_bytes_total,
                    G_GNUC_UNUSED gpointer user_data)
{
  if (n_bytes_done > 70003)
    _exit (9);
}

static void
test_killed (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  WeftTransferOptions options = { .struct_size = sizeof options, .progress = die_in_second_file };
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NO_SYNC);

  weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), &options, NULL, NULL, NULL);
}

/* @flags of the second run; whether it finds the source changed; whether it keeps the first file. */
typedef struct
{
  const gchar *name;
  WeftOutputFlags flags;
  gboolean changes_source;
  gboolean keeps_file;
} ResumeCase;

static const ResumeCase resume_cases[] = {
  { "resumed", WEFT_OUTPUT_FLAGS_RESUME, FALSE, TRUE },
  { "other-source", WEFT_OUTPUT_FLAGS_RESUME, TRUE, FALSE },
  { "from-scratch", WEFT_OUTPUT_FLAGS_NONE, FALSE, FALSE },
};

static void
count_completed (gsize position, gpointer user_data)
{
  ((guint *) user_data)[position]++;
}

static void
test_resume (Fixture *f, gconstpointer user_data)
{
  const ResumeCase *c = user_data;
  const struct timespec times[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
  guint n_completed[3] = { 0 };
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .completed = count_completed,
                                  .completed_data = n_completed };
  g_autofree gchar *partial = g_strconcat (f->out, ".weft-partial", NULL);
  g_autofree gchar *first = g_build_filename (partial, "model-00001-of-00002.safetensors", NULL);
  g_autofree gchar *shard = g_build_filename (f->source_path, "s1.safetensors", NULL);
  g_autofree gchar *published = g_build_filename (f->out, "model-00001-of-00002.safetensors", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftSafetensorsSink) sink = NULL;
  WeftTransferCounters counters = { 0 };
  struct stat before, after;

  g_setenv ("WEFT_TEST_FOLDER", f->folder, TRUE);
  g_test_trap_subprocess ("/safetensors-sink/subprocess/killed", 0, G_TEST_SUBPROCESS_DEFAULT);
  g_unsetenv ("WEFT_TEST_FOLDER");
  g_test_trap_assert_failed ();
  g_assert_false (g_file_test (f->out, G_FILE_TEST_EXISTS));
  g_assert_cmpint (stat (first, &before), ==, 0);
  if (c->changes_source)
    {
      g_assert_cmpint (utimensat (AT_FDCWD, shard, times, 0), ==, 0);
      fixture_open_source (f);
    }
  sink = sink_new (f, c->flags);
  g_assert_true (weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (f->source), &options,
                                  &counters, NULL, &error));
  g_assert_no_error (error);
  check_output (f);
  g_assert_cmpint (stat (published, &after), ==, 0);
  g_assert_cmpint (before.st_mtim.tv_sec == after.st_mtim.tv_sec
                       && before.st_mtim.tv_nsec == after.st_mtim.tv_nsec,
                   ==, c->keeps_file);
  g_assert_cmpuint (counters.n_bytes_written, ==, c->keeps_file ? 5 : 70008);
  g_assert_cmpuint (weft_safetensors_sink_get_n_resumed_files (sink), ==, c->keeps_file ? 1 : 0);
  g_assert_cmpuint (weft_safetensors_sink_get_n_resumed_bytes (sink), ==,
                    c->keeps_file ? (guint64) after.st_size : 0);
  for (guint i = 0; i < 3; i++)
    g_assert_cmpuint (n_completed[i], ==, 1);
}

static void
test_text_names (Fixture *f, G_GNUC_UNUSED gconstpointer user_data)
{
  static const gchar *const names[] = { "", "/x", "../x", "a/../x", "a//x", "." };
  g_autoptr (WeftSafetensorsSink) sink = sink_new (f, WEFT_OUTPUT_FLAGS_NONE);
  g_autoptr (GBytes) text = g_bytes_new_static ("x", 1);

  for (guint i = 0; i < G_N_ELEMENTS (names); i++)
    {
      g_autoptr (GError) error = NULL;

      g_assert_false (weft_safetensors_sink_add_text (sink, names[i], text, &error));
      g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
    }
}

#define ADD(path, user_data, func) \
  g_test_add ("/safetensors-sink/" path, Fixture, user_data, fixture_set_up, func, fixture_tear_down)

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  ADD ("folder/synced", GINT_TO_POINTER (WEFT_OUTPUT_FLAGS_NONE), test_folder);
  ADD ("folder/not-synced", GINT_TO_POINTER (WEFT_OUTPUT_FLAGS_NO_SYNC), test_folder);
  ADD ("single-file", NULL, test_single_file);
  ADD ("single-file-needs-one", NULL, test_single_file_needs_one);
  ADD ("defaults", NULL, test_defaults);
  ADD ("verbatim", NULL, test_verbatim);
  ADD ("every-dtype", NULL, test_every_dtype);
  for (guint i = 0; i < G_N_ELEMENTS (refused_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/safetensors-sink/refused/", refused_cases[i].name, NULL);
      g_test_add (path, Fixture, &refused_cases[i], fixture_set_up, test_refused, fixture_tear_down);
    }
  ADD ("links", NULL, test_links);
  for (guint i = 0; i < G_N_ELEMENTS (kept_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/safetensors-sink/kept/", kept_cases[i].name, NULL);
      g_test_add (path, Fixture, &kept_cases[i], fixture_set_up, test_kept, fixture_tear_down);
    }
  ADD ("kept-oddities", NULL, test_kept_oddities);
  ADD ("kept-without-exchange", NULL, test_kept_without_exchange);
  ADD ("old-raced", NULL, test_old_raced);
  ADD ("old-taken/force", GINT_TO_POINTER (WEFT_OUTPUT_FLAGS_FORCE), test_old_taken);
  ADD ("old-taken/in-place", GINT_TO_POINTER (WEFT_OUTPUT_FLAGS_IN_PLACE), test_old_taken);
  ADD ("dangling-link", NULL, test_dangling_link);
  ADD ("force", NULL, test_force);
  ADD ("in-place", NULL, test_in_place);
  ADD ("full-disk/first-file", GINT_TO_POINTER (0), test_full_disk);
  ADD ("full-disk/second-file", GINT_TO_POINTER (1), test_full_disk);
  ADD ("source-cut-off", NULL, test_source_cut_off);
  ADD ("cancelled", NULL, test_cancelled);
  ADD ("raced", NULL, test_raced);
  ADD ("raced-set", NULL, test_raced_set);
  ADD ("unmarked-member", NULL, test_unmarked_member);
  ADD ("locked", NULL, test_locked);
  ADD ("foreign-partial", NULL, test_foreign_partial);
  ADD ("empty-partial", NULL, test_empty_partial);
  ADD ("subprocess/killed", NULL, test_killed);
  for (guint i = 0; i < G_N_ELEMENTS (resume_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/safetensors-sink/resume/", resume_cases[i].name, NULL);
      g_test_add (path, Fixture, &resume_cases[i], fixture_set_up, test_resume, fixture_tear_down);
    }
  ADD ("text-names", NULL, test_text_names);
  return g_test_run ();
}
