/* SPDX-License-Identifier: Apache-2.0 */
/* The main job as the first page shows it, written as a user writes it: only the public header, links and errors. */
#include <weft.h>

static void
count_bytes (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data)
{
  guint64 *n_bytes = user_data;

  g_assert_cmpuint (n_bytes_done, <=, n_bytes_total);
  *n_bytes = n_bytes_done;
}

static gboolean
convert (const gchar *source, const gchar *destination, guint64 *n_bytes, GCancellable *cancellable,
         GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (source, cancellable, error);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftLoadPlan) plan = checkpoint != NULL ? weft_load_plan_new (checkpoint, options, error) : NULL;
  g_autoptr (WeftSafetensorsSink) sink = plan != NULL ? weft_safetensors_sink_new (destination, error) : NULL;

  return sink != NULL
         && weft_load_plan_execute (plan, WEFT_SINK (sink), count_bytes, n_bytes, cancellable, error);
}

static gboolean
revert (const gchar *source, const gchar *destination, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (source, NULL, error);
  g_autoptr (WeftRevertPlan) plan =
      checkpoint != NULL ? weft_revert_plan_new (checkpoint, NULL, WEFT_REVERT_FLAGS_NONE, error) : NULL;
  g_autoptr (WeftSafetensorsSink) sink = plan != NULL ? weft_safetensors_sink_new (destination, error) : NULL;

  return sink != NULL && weft_revert_plan_execute (plan, WEFT_SINK (sink), NULL, NULL, NULL, error);
}

static void
assert_same_file (const gchar *a, const gchar *b)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *left = NULL;
  g_autofree gchar *right = NULL;
  gsize n_left, n_right;

  g_file_get_contents (a, &left, &n_left, &error);
  g_assert_no_error (error);
  g_file_get_contents (b, &right, &n_right, &error);
  g_assert_no_error (error);
  g_assert_cmpmem (left, n_left, right, n_right);
}

static void
test_there_and_back (void)
{
  const gchar *model = g_getenv ("MODEL");
  g_autoptr (GError) error = NULL;
  g_autofree gchar *scratch = g_dir_make_tmp ("weft-first-steps-XXXXXX", &error);
  g_autofree gchar *original = g_build_filename (model, "original", NULL);
  g_autofree gchar *out = g_build_filename (scratch, "out", NULL);
  g_autofree gchar *back = g_build_filename (scratch, "back", NULL);
  g_autofree gchar *published = g_build_filename (original, "model.safetensors", NULL);
  g_autofree gchar *reverted = g_build_filename (back, "model.safetensors", NULL);
  guint64 n_bytes = 0;

  g_assert_true (convert (original, out, &n_bytes, NULL, &error));
  g_assert_no_error (error);
  g_assert_cmpuint (n_bytes, >, 0);
  g_assert_true (revert (out, back, &error));
  g_assert_no_error (error);
  assert_same_file (published, reverted);

  /* An output that exists is refused. */
  g_assert_false (convert (original, out, &n_bytes, NULL, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_EXISTS);
  g_test_message ("%s", error->message);
}

static void
test_cancelled (void)
{
  g_autoptr (GError) error = NULL;
  g_autofree gchar *original = g_build_filename (g_getenv ("MODEL"), "original", NULL);
  g_autoptr (GCancellable) cancellable = g_cancellable_new ();
  guint64 n_bytes = 0;

  g_cancellable_cancel (cancellable);
  g_assert_false (convert (original, "/nowhere/out", &n_bytes, cancellable, &error));
  g_assert_error (error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/first-steps/there-and-back", test_there_and_back);
  g_test_add_func ("/first-steps/cancelled", test_cancelled);
  return g_test_run ();
}
