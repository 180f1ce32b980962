/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of a folder make a checkpoint, and what the index must say. */
#include "fixture-private.h"

#include <sys/stat.h>
#include <unistd.h>

/* @files: one file a line. "NAME = tensors" is a shard, "NAME < text" any other file. @found: the names in order, or the
 * start of a message (after the path). */
typedef struct
{
  const gchar *name;
  const gchar *files;
  const gchar *open;
  const gchar *variant;
  const gchar *names;
  gint code;
  const gchar *message;
} Case;

#define INDEX(map) "model.safetensors.index.json < {\"metadata\":{},\"weight_map\":{" map "}}\n"
#define TWO_SHARDS "m-1.safetensors = a.10:1 b:2\nm-2.safetensors = a.9:1\n"

static const Case cases[] = {
  { "single-file", "x.safetensors = b:1 a:2\n", "x.safetensors", NULL, "a b", 0, NULL },
  { "folder", "model.safetensors = b:1 a:2\nother.safetensors = c:1\n", "", NULL, "a b", 0, NULL },
  { "natural-order", "model.safetensors = e.10.w:1 e.9.w:1 e.w:1 12:1 7:1 a.7:1 a.007:1\n", "", NULL,
    "7 12 a.007 a.7 e.9.w e.10.w e.w", 0, NULL },
  { "empty-file", "model.safetensors = \n", "", NULL, "", 0, NULL },
  { "index",
    TWO_SHARDS INDEX ("\"a.10\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\""),
    "", NULL, "a.9 a.10 b", 0, NULL },
  { "index-by-path",
    TWO_SHARDS INDEX ("\"a.10\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\""),
    "model.safetensors.index.json", NULL, "a.9 a.10 b", 0, NULL },
  { "single-before-index", "model.safetensors = z:1\n" TWO_SHARDS INDEX ("\"a.9\":\"m-2.safetensors\""), "",
    NULL, "z", 0, NULL },
  { "configured-file",
    "config.json < {\"transformers_weights\":\"w/x.safetensors\"}\nw/x.safetensors = q:1\nmodel.safetensors = z:1\n",
    "", NULL, "q", 0, NULL },
  { "configured-null", "config.json < {\"transformers_weights\":null}\nmodel.safetensors = z:1\n", "", NULL,
    "z", 0, NULL },
  { "configured-outside",
    "config.json < {\"transformers_weights\":\"../x.safetensors\"}\nmodel.safetensors = z:1\n", "", NULL,
    NULL, WEFT_ERROR_FORMAT, "inside the folder, found '../x.safetensors'" },
  { "configured-absolute",
    "config.json < {\"transformers_weights\":\"/x.safetensors\"}\nmodel.safetensors = z:1\n", "", NULL, NULL,
    WEFT_ERROR_FORMAT, "inside the folder, found '/x.safetensors'" },
  { "configured-absent",
    "config.json < {\"transformers_weights\":\"x.safetensors\"}\nmodel.safetensors = z:1\n", "", NULL, NULL,
    WEFT_ERROR_MISSING, "no file named x.safetensors" },
  { "configured-number", "config.json < {\"transformers_weights\":7}\nmodel.safetensors = z:1\n", "", NULL,
    NULL, WEFT_ERROR_FORMAT, "expected transformers_weights to name" },
  { "bad-config", "config.json < {\nmodel.safetensors = z:1\n", "", NULL, NULL, WEFT_ERROR_FORMAT,
    "config.json: no valid JSON" },
  { "variant", "model.fp16.safetensors = v:1\nmodel.safetensors = z:1\n", "", "fp16", "v", 0, NULL },
  { "variant-index",
    "m-1.safetensors = v:1\nmodel.safetensors.index.fp16.json < {\"metadata\":{},\"weight_map\":{\"v\":\"m-1.safetensors\"}}\n",
    "", "fp16", "v", 0, NULL },
  { "variant-absent", "model.safetensors = z:1\n", "", "fp16", NULL, WEFT_ERROR_CONFLICT,
    "no file named model.fp16.safetensors or model.safetensors.index.fp16.json" },
  { "only-file", "weights.safetensors = w:1\n", "", NULL, "w", 0, NULL },
  { "only-set", "x-00001-of-00002.safetensors = a:1\nx-00002-of-00002.safetensors = b:1\n", "", NULL, "a b",
    0, NULL },
  { "incomplete-set", "x-00001-of-00003.safetensors = a:1\nx-00002-of-00003.safetensors = b:1\n", "", NULL,
    NULL, WEFT_ERROR_CONFLICT,
    "it is not clear which of x-00001-of-00003.safetensors, x-00002-of-00003.safetensors to take" },
  { "two-candidates", "a.safetensors = a:1\nb.safetensors = b:1\n", "", NULL, NULL, WEFT_ERROR_CONFLICT,
    "which of a.safetensors, b.safetensors to take" },
  { "pickles", "pytorch_model.bin < x\nconfig.json < {}\n", "", NULL, NULL, WEFT_ERROR_UNSUPPORTED,
    "only pickle files (pytorch_model.bin), which can run code" },
  { "pickle-by-path", "pytorch_model.bin < x\n", "pytorch_model.bin", NULL, NULL, WEFT_ERROR_UNSUPPORTED,
    "a pickle file can run code" },
  { "other-json", "config.json < {}\n", "config.json", NULL, NULL, WEFT_ERROR_ARGUMENT,
    "found another JSON file" },
  { "nothing", "config.json < {}\n", "", NULL, NULL, WEFT_ERROR_MISSING,
    "no file named model.safetensors or model.safetensors.index.json" },
  { "no-such-path", "", "absent", NULL, NULL, WEFT_ERROR_MISSING, "cannot be opened" },
  { "bad-header", "model.safetensors < 1234567\n", "", NULL, NULL, WEFT_ERROR_FORMAT,
    "model.safetensors: byte 0: expected 8 bytes" },
  /* The index. */
  { "absent-shard",
    TWO_SHARDS INDEX (
        "\"a.10\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\",\"c\":\"m-3.safetensors\""),
    "", NULL, NULL, WEFT_ERROR_MISSING,
    "model.safetensors.index.json: the index names a file that is absent" },
  { "first-of-two-bad-shards",
    "m-1.safetensors = a:1\nm-2.safetensors < 1234567\nm-3.safetensors < 123\n" INDEX (
        "\"c\":\"m-3.safetensors\",\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\""),
    "", NULL, NULL, WEFT_ERROR_FORMAT, "m-2.safetensors: byte 0: expected 8 bytes" },
  { "name-in-two-shards",
    "m-1.safetensors = a:1\nm-2.safetensors = a:1 b:1\n" INDEX (
        "\"a\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\""),
    "", NULL, NULL, WEFT_ERROR_CONFLICT,
    "tensor 'a': expected each name in one shard, found it in m-1.safetensors and in m-2.safetensors" },
  { "stale-name",
    TWO_SHARDS INDEX (
        "\"a.10\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\",\"gone\":\"m-2.safetensors\""),
    "", NULL, NULL, WEFT_ERROR_MISSING,
    "tensor 'gone': expected it in m-2.safetensors, as the index says, found it in no file" },
  { "wrong-shard",
    TWO_SHARDS INDEX ("\"a.10\":\"m-1.safetensors\",\"b\":\"m-2.safetensors\",\"a.9\":\"m-2.safetensors\""),
    "", NULL, NULL, WEFT_ERROR_CONFLICT,
    "tensor 'b': expected it in m-2.safetensors, as the index says, found it in m-1.safetensors" },
  { "unlisted", TWO_SHARDS INDEX ("\"a.10\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\""), "", NULL, NULL,
    WEFT_ERROR_UNEXPECTED,
    "tensor 'b': expected every tensor of the shards in the index, found it only in m-1.safetensors; --lenient" },
  { "listed-twice",
    TWO_SHARDS INDEX (
        "\"a.10\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\",\"b\":\"m-1.safetensors\""),
    "", NULL, NULL, WEFT_ERROR_FORMAT, "tensor 'b': expected each name once in weight_map" },
  { "no-metadata", TWO_SHARDS "model.safetensors.index.json < {\"weight_map\":{\"b\":\"m-1.safetensors\"}}\n",
    "", NULL, NULL, WEFT_ERROR_FORMAT, "expected a member metadata" },
  { "no-weight-map", "model.safetensors.index.json < {\"metadata\":{}}\n", "", NULL, NULL, WEFT_ERROR_FORMAT,
    "expected a member weight_map" },
  { "empty-weight-map", INDEX (""), "", NULL, NULL, WEFT_ERROR_FORMAT, "at least one tensor" },
  { "path-upwards", INDEX ("\"a\":\"../m-1.safetensors\""), "", NULL, NULL, WEFT_ERROR_FORMAT,
    "tensor 'a': expected the plain name of a file beside the index, found '\"../m-1.safetensors'" },
  { "path-absolute", INDEX ("\"a\":\"/etc/passwd\""), "", NULL, NULL, WEFT_ERROR_FORMAT,
    "expected the plain name of a file" },
  { "path-dots", INDEX ("\"a\":\"..\""), "", NULL, NULL, WEFT_ERROR_FORMAT,
    "expected the plain name of a file" },
  { "path-empty", INDEX ("\"a\":\"\""), "", NULL, NULL, WEFT_ERROR_FORMAT,
    "expected the plain name of a file" },
  { "file-number", INDEX ("\"a\":1"), "", NULL, NULL, WEFT_ERROR_FORMAT,
    "expected a file name in quotes, found '1'" },
  { "index-is-list", "model.safetensors.index.json < []\n", "", NULL, NULL, WEFT_ERROR_FORMAT,
    "byte 0: expected a JSON object" },
  { "index-cut-off", "model.safetensors.index.json < {\"metadata\":{},\"weight_map\":{\"a\":\"m\n", "", NULL,
    NULL, WEFT_ERROR_FORMAT, "the end of a text" },
};

static void
write_files (const gchar *folder, const gchar *files)
{
  g_auto (GStrv) lines = g_strsplit (files, "\n", -1);

  for (guint i = 0; lines[i] != NULL && *lines[i] != '\0'; i++)
    {
      gchar *space = strchr (lines[i], ' ');
      g_autofree gchar *name = g_strndup (lines[i], (gsize) (space - lines[i]));

      if (space[1] == '=')
        fixture_write_shard (folder, name, space + 3);
      else
        fixture_write (folder, name, space + 3, -1);
    }
}

static void
test_case (gconstpointer user_data)
{
  const Case *c = user_data;
  g_autofree gchar *folder = fixture_folder ();
  g_autofree gchar *path = g_build_filename (folder, c->open, NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;

  write_files (folder, c->files);
  checkpoint = weft_checkpoint_open_full (path, c->variant, WEFT_IO_BACKEND_PREAD, WEFT_CHECKPOINT_FLAGS_NONE,
                                          NULL, &error);
  if (c->names != NULL)
    {
      g_autofree gchar *names = NULL;

      g_assert_no_error (error);
      names = fixture_names (weft_checkpoint_get_state_dict (checkpoint));
      g_assert_cmpstr (names, ==, c->names);
    }
  else
    {
      g_assert_null (checkpoint);
      g_assert_error (error, WEFT_ERROR, c->code);
      g_assert_true (g_str_has_prefix (error->message, folder));
      if (strstr (error->message, c->message) == NULL)
        g_error ("expected '%s' in '%s'", c->message, error->message);
    }
  fixture_remove_tree (folder);
}

static void
test_lenient (void)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autofree gchar *names = NULL;

  write_files (folder, TWO_SHARDS INDEX ("\"a.10\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\""));
  checkpoint = weft_checkpoint_open_full (folder, NULL, WEFT_IO_BACKEND_MMAP, WEFT_CHECKPOINT_FLAGS_LENIENT,
                                          NULL, &error);
  g_assert_no_error (error);
  names = fixture_names (weft_checkpoint_get_state_dict (checkpoint));
  g_assert_cmpstr (names, ==, "a.9 a.10 b");
  fixture_remove_tree (folder);
}

/* What is known of the shards, the index, the config and the other files. */
static void
test_parts (void)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autofree gchar *target = g_build_filename (folder, "blobs/abc", NULL);
  g_autofree gchar *link = g_build_filename (folder, "tokenizer.json", NULL);
  g_autofree gchar *broken = g_build_filename (folder, "broken", NULL);
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (GBytes) header = NULL;
  g_autofree gchar *others = NULL;
  g_autofree gchar *unused = NULL;
  g_autofree gchar *skipped = NULL;
  WeftShard *shard;

  write_files (
      folder,
      TWO_SHARDS INDEX (
          "\"a.10\":\"m-1.safetensors\",\"b\":\"m-1.safetensors\",\"a.9\":\"m-2.safetensors\"") "config.json < {\"model_type\":\"x\"}\nblobs/abc < {}\nold.safetensors = z:1\npytorch_model.bin < x\n"
                                                                                                ".git/HEAD < x\n.gitattributes < x\nweft-provenance.json < {}\nsub/deep/a.txt < x\nsub/m.pth < x\n");
  g_assert_cmpint (symlink (target, link), ==, 0);
  g_assert_cmpint (symlink ("/nonexistent", broken), ==, 0);
  checkpoint = weft_checkpoint_open (folder, NULL, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_checkpoint_get_n_shards (checkpoint), ==, 2);
  g_assert_cmpuint (weft_checkpoint_get_tensor_shard (checkpoint, 0), ==, 1);
  g_assert_cmpuint (weft_checkpoint_get_tensor_shard (checkpoint, 1), ==, 0);
  g_assert_cmpuint (weft_checkpoint_get_tensor_shard (checkpoint, 2), ==, 0);
  g_assert_cmpstr (weft_checkpoint_get_index_name (checkpoint), ==, "model.safetensors.index.json");
  g_assert_true (
      g_str_has_prefix (g_bytes_get_data (weft_checkpoint_get_index (checkpoint), NULL), "{\"metadata\":{}"));
  g_assert_true (JSON_NODE_HOLDS_OBJECT (weft_checkpoint_get_index_metadata (checkpoint)));
  g_assert_nonnull (weft_json_lookup (weft_checkpoint_get_config (checkpoint), "model_type"));
  others = g_strjoinv (" ", (GStrv) weft_checkpoint_get_other_files (checkpoint));
  g_assert_cmpstr (others, ==, ".gitattributes blobs/abc broken config.json sub/deep/a.txt tokenizer.json");
  unused = g_strjoinv (" ", (GStrv) weft_checkpoint_get_unused_files (checkpoint));
  g_assert_cmpstr (unused, ==, "old.safetensors pytorch_model.bin sub/m.pth");
  skipped = g_strjoinv (" ", (GStrv) weft_checkpoint_get_skipped_files (checkpoint));
  g_assert_cmpstr (skipped, ==, ".git");
  shard = weft_checkpoint_get_shard (checkpoint, 0);
  g_assert_cmpstr (weft_shard_get_file_name (shard), ==, "m-1.safetensors");
  g_assert_cmpuint (weft_shard_get_n_tensors (shard), ==, 2);
  g_assert_cmpstr (weft_shard_get_tensor_name (shard, 1), ==, "b");
  g_assert_null (weft_shard_get_metadata (shard));
  header = weft_shard_read_header (shard, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (weft_shard_get_tensor_offset (shard, 1), ==, 8 + g_bytes_get_size (header) + 1);
  fixture_remove_tree (folder);
}

static void
test_values (gconstpointer backend)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (GBytes) values = NULL;

  write_files (folder, "model.safetensors = a:3 b:2\n");
  checkpoint = weft_checkpoint_open_full (folder, NULL, GPOINTER_TO_INT (backend), WEFT_CHECKPOINT_FLAGS_NONE,
                                          NULL, &error);
  g_assert_no_error (error);
  values = weft_tensor_read (weft_state_dict_lookup (weft_checkpoint_get_state_dict (checkpoint), "b"), NULL,
                             &error);
  g_assert_no_error (error);
  g_assert_cmpmem (g_bytes_get_data (values, NULL), g_bytes_get_size (values), "bb", 2);
  fixture_remove_tree (folder);
}

/* Valid in the format, for there are no bytes; beyond what a tensor of ours can say. */
static void
test_dim_limit (void)
{
  static const gchar json[] =
      "{\"a\":{\"dtype\":\"I32\",\"shape\":[0,9223372036854775808,4],\"data_offsets\":[0,0]}}";
  g_autofree gchar *folder = fixture_folder ();
  g_autoptr (GString) file = g_string_new (NULL);
  guint64 length = GUINT64_TO_LE ((guint64) sizeof json - 1);
  g_autoptr (GError) error = NULL;

  g_string_append_len (file, (const gchar *) &length, sizeof length);
  g_string_append (file, json);
  fixture_write (folder, "model.safetensors", file->str, (gssize) file->len);
  g_assert_null (weft_checkpoint_open (folder, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_LIMIT);
  g_assert_nonnull (
      strstr (error->message, "tensor 'a': expected dims below 2^63, found 9223372036854775808"));
  fixture_remove_tree (folder);
}

/* Opening a pipe would wait for a writer. */
static void
test_pipe (void)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autofree gchar *path = g_build_filename (folder, "model.safetensors.index.json", NULL);
  g_autoptr (GError) error = NULL;

  g_assert_cmpint (mkfifo (path, 0666), ==, 0);
  g_assert_null (weft_checkpoint_open (path, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT);
  g_clear_error (&error);
  g_assert_null (weft_checkpoint_open (folder, NULL, &error));
  g_assert_nonnull (error);
  fixture_remove_tree (folder);
}

static void
test_cancelled (void)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  g_autoptr (GError) error = NULL;

  write_files (folder, "model.safetensors = a:3\n");
  g_cancellable_cancel (cancellable);
  g_assert_null (weft_checkpoint_open (folder, cancellable, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
  fixture_remove_tree (folder);
}

static void
test_unreadable (void)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autofree gchar *path = g_build_filename (folder, "model.safetensors", NULL);
  g_autoptr (GError) error = NULL;

  if (geteuid () == 0)
    {
      g_test_skip ("the super-user can read every file");
      fixture_remove_tree (folder);
      return;
    }
  write_files (folder, "model.safetensors = a:3\n");
  g_assert_cmpint (g_chmod (path, 0), ==, 0);
  g_assert_null (weft_checkpoint_open (folder, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_IO);
  fixture_remove_tree (folder);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/checkpoint/open/", cases[i].name, NULL);
      g_test_add_data_func (path, &cases[i], test_case);
    }
  g_test_add_func ("/checkpoint/lenient", test_lenient);
  g_test_add_func ("/checkpoint/parts", test_parts);
  g_test_add_data_func ("/checkpoint/values/pread", GINT_TO_POINTER (WEFT_IO_BACKEND_PREAD), test_values);
  g_test_add_data_func ("/checkpoint/values/direct", GINT_TO_POINTER (WEFT_IO_BACKEND_DIRECT), test_values);
  g_test_add_data_func ("/checkpoint/values/mmap", GINT_TO_POINTER (WEFT_IO_BACKEND_MMAP), test_values);
  g_test_add_func ("/checkpoint/dim-limit", test_dim_limit);
  g_test_add_func ("/checkpoint/pipe", test_pipe);
  g_test_add_func ("/checkpoint/cancelled", test_cancelled);
  g_test_add_func ("/checkpoint/unreadable", test_unreadable);
  return g_test_run ();
}
