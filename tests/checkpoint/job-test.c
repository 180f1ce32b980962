/* SPDX-License-Identifier: Apache-2.0 */
/* What ranks decide together, they decide the same, whatever happens to one of them in the middle. Ranks are threads here. */
#include "fixture-private.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#define N_RANKS 2
#define NFS_MAGIC 0x6969
#define MAX_VALUES 4096

/* What the ranks of a job share. */
typedef struct
{
  GMutex lock;
  GCond changed;
  /* The sum that is under way: who has put in its values, and who has taken them out. */
  guint64 values[MAX_VALUES];
  guint n_in, n_out;
  /* A broadcast: what is on its way. */
  guint8 *bytes;
  guint n_arrived;
} Shared;

#define TEST_TYPE_COMMUNICATOR (test_communicator_get_type ())
G_DECLARE_FINAL_TYPE (TestCommunicator, test_communicator, TEST, COMMUNICATOR, GObject)

struct _TestCommunicator
{
  GObject parent_instance;

  Shared *shared;
  guint rank;
  guint64 *values;
  gsize n_values;
  gboolean is_in;
  /* Cancelled as soon as the values of this rank are on their way. */
  GCancellable *cancelled_on_the_way;
};

static guint
get_rank (WeftCommunicator *communicator)
{
  return TEST_COMMUNICATOR (communicator)->rank;
}

static guint
get_size (G_GNUC_UNUSED WeftCommunicator *communicator)
{
  return N_RANKS;
}

static void
start_sum (WeftCommunicator *communicator, guint64 *values, gsize n_values)
{
  TestCommunicator *self = TEST_COMMUNICATOR (communicator);

  g_assert_cmpuint (n_values, <=, MAX_VALUES);
  self->values = values;
  self->n_values = n_values;
  self->is_in = FALSE;
}

/* Puts the values in when the sum before has been taken out by all. */
static void
put_in (TestCommunicator *self)
{
  Shared *shared = self->shared;

  if (shared->n_in == 0)
    memset (shared->values, 0, sizeof shared->values);
  for (gsize i = 0; i < self->n_values; i++)
    shared->values[i] += self->values[i];
  shared->n_in++;
  self->is_in = TRUE;
  if (self->cancelled_on_the_way != NULL)
    g_cancellable_cancel (self->cancelled_on_the_way);
}

static gboolean
test_sum (WeftCommunicator *communicator)
{
  TestCommunicator *self = TEST_COMMUNICATOR (communicator);
  Shared *shared = self->shared;
  gboolean is_done;

  g_mutex_lock (&shared->lock);
  if (!self->is_in && shared->n_out == 0)
    put_in (self);
  is_done = self->is_in && shared->n_in == N_RANKS;
  if (is_done)
    {
      memcpy (self->values, shared->values, self->n_values * sizeof *self->values);
      shared->n_out = (shared->n_out + 1) % N_RANKS;
      shared->n_in = shared->n_out == 0 ? 0 : shared->n_in;
    }
  g_mutex_unlock (&shared->lock);
  return is_done;
}

/* Waits until all ranks are here. */
static void
meet (Shared *shared, guint *n_arrived)
{
  guint end = (*n_arrived / N_RANKS + 1) * N_RANKS;

  (*n_arrived)++;
  g_cond_broadcast (&shared->changed);
  while (*n_arrived < end)
    g_cond_wait (&shared->changed, &shared->lock);
}

static void
broadcast (WeftCommunicator *communicator, guint root, gpointer bytes, gsize n_bytes)
{
  TestCommunicator *self = TEST_COMMUNICATOR (communicator);
  Shared *shared = self->shared;

  g_mutex_lock (&shared->lock);
  if (self->rank == root)
    shared->bytes = bytes;
  meet (shared, &shared->n_arrived);
  if (self->rank != root && n_bytes > 0)
    memcpy (bytes, shared->bytes, n_bytes);
  meet (shared, &shared->n_arrived);
  g_mutex_unlock (&shared->lock);
}

static void
abort_job (G_GNUC_UNUSED WeftCommunicator *communicator, G_GNUC_UNUSED gint exit_code)
{
  g_assert_not_reached ();
}

static void
test_communicator_implement (WeftCommunicatorInterface *iface)
{
  iface->get_rank = get_rank;
  iface->get_size = get_size;
  iface->start_sum = start_sum;
  iface->test_sum = test_sum;
  iface->broadcast = broadcast;
  iface->abort = abort_job;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (TestCommunicator, test_communicator, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (WEFT_TYPE_COMMUNICATOR, test_communicator_implement))

static void
test_communicator_class_init (G_GNUC_UNUSED TestCommunicatorClass *klass)
{
}

static void
test_communicator_init (G_GNUC_UNUSED TestCommunicator *self)
{
}

/* One rank, and how it came out. */
typedef struct
{
  guint number;
  TestCommunicator *communicator;
  GCancellable *cancellable;
  WeftJob *job;
  const gchar *source;
  const gchar *output;
  gboolean ok;
  guint64 n_bytes_written;
  GError *error;
} Rank;

static Rank ranks[N_RANKS];
static Shared shared;

/* Stands in for the C library's: rank 1 has the file system of all mounted over a network. */
static GThread *network_thread;

int
statfs (const char *path, struct statfs *status)
{
  int result = (int) syscall (SYS_statfs, path, status);

  if (network_thread != NULL && g_thread_self () == network_thread)
    status->f_type = NFS_MAGIC;
  return result;
}

/* The same: while rank 0 gives the output its name, rank 1 is cancelled. */
static GCancellable *cancelled_by_rename;

int
renameat2 (int from_folder, const char *from, int to_folder, const char *to, unsigned int flags)
{
  int result = (int) syscall (SYS_renameat2, from_folder, from, to_folder, to, flags);

  if (cancelled_by_rename != NULL)
    g_cancellable_cancel (cancelled_by_rename);
  /* Long enough for rank 1 to see it. */
  g_usleep (50000);
  return result;
}

static void
run_ranks (GThreadFunc func)
{
  GThread *threads[N_RANKS];

  for (guint i = 0; i < N_RANKS; i++)
    threads[i] = g_thread_new ("rank", func, &ranks[i]);
  for (guint i = 0; i < N_RANKS; i++)
    g_thread_join (threads[i]);
}

static void
set_up (void)
{
  memset (&shared, 0, sizeof shared);
  for (guint i = 0; i < N_RANKS; i++)
    {
      Rank *rank = &ranks[i];

      memset (rank, 0, sizeof *rank);
      rank->number = i;
      rank->communicator = g_object_new (TEST_TYPE_COMMUNICATOR, NULL);
      rank->communicator->shared = &shared;
      rank->communicator->rank = i;
      rank->cancellable = g_cancellable_new ();
      rank->job = weft_job_new (WEFT_COMMUNICATOR (rank->communicator), rank->cancellable);
    }
}

static void
tear_down (void)
{
  for (guint i = 0; i < N_RANKS; i++)
    {
      g_clear_object (&ranks[i].job);
      g_clear_object (&ranks[i].communicator);
      g_clear_object (&ranks[i].cancellable);
      g_clear_error (&ranks[i].error);
    }
}

static gpointer
agree (gpointer user_data)
{
  Rank *rank = user_data;

  rank->ok = weft_job_agree (rank->job, &rank->error);
  if (!rank->ok)
    g_assert_true (weft_job_fail (rank->job, &rank->error));
  return NULL;
}

/* The round in which all have come to the step is the agreement; a cancel that comes after that is for the next. */
static void
test_cancelled_on_the_way (void)
{
  set_up ();
  ranks[1].communicator->cancelled_on_the_way = ranks[1].cancellable;
  run_ranks (agree);
  g_assert_true (ranks[0].ok == ranks[1].ok);
  tear_down ();
}

static void
test_cancelled_before (void)
{
  set_up ();
  g_cancellable_cancel (ranks[1].cancellable);
  run_ranks (agree);
  for (guint i = 0; i < N_RANKS; i++)
    {
      g_assert_false (ranks[i].ok);
      g_assert_error (ranks[i].error, WEFT_ERROR, WEFT_ERROR_CANCELLED);
      g_assert_cmpstr (ranks[i].error->message, ==, ranks[0].error->message);
    }
  tear_down ();
}

static gpointer
commit_and_agree (gpointer user_data)
{
  Rank *rank = user_data;

  g_assert_true (weft_job_commit (rank->job, &rank->error));
  g_cancellable_cancel (rank->cancellable);
  return agree (rank);
}

/* What all have agreed to publish is not taken back. */
static void
test_cancelled_after (void)
{
  set_up ();
  run_ranks (commit_and_agree);
  for (guint i = 0; i < N_RANKS; i++)
    g_assert_true (ranks[i].ok);
  tear_down ();
}

static gpointer
fail_in_rank_1 (gpointer user_data)
{
  Rank *rank = user_data;
  g_autofree gchar *long_text = g_malloc0 (40001);

  if (rank->number == 0)
    return agree (rank);
  /* A character of two bytes lies across any even limit. */
  long_text[0] = 'x';
  for (guint i = 1; i + 1 < 40000; i += 2)
    memcpy (long_text + i, "\xC3\xA9", 2);
  g_set_error_literal (&rank->error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE, long_text);
  g_assert_true (weft_job_fail (rank->job, &rank->error));
  return NULL;
}

/* The error of one rank is that of all, with its domain and code, and is text. */
static void
test_error_of_all (void)
{
  set_up ();
  run_ranks (fail_in_rank_1);
  for (guint i = 0; i < N_RANKS; i++)
    {
      g_assert_error (ranks[i].error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE);
      g_assert_true (g_utf8_validate (ranks[i].error->message, -1, NULL));
      g_assert_true (g_str_has_prefix (ranks[i].error->message, "rank 1 of 2: x\xC3\xA9"));
      g_assert_cmpstr (ranks[i].error->message, ==, ranks[0].error->message);
    }
  tear_down ();
}

/* What rank 0 and rank 1 say of two names, and what both are told; NULL: they may go on. */
static const struct
{
  const gchar *path;
  const gchar *values[N_RANKS][2];
  const gchar *message;
} same_cases[] = {
  { "equal", { { "2", NULL }, { "2", NULL } }, NULL },
  { "value", { { "2", NULL }, { "4", NULL } }, "rank 1 was given --size 4, rank 0 --size 2" },
  { "flag", { { "2", NULL }, { "2", "" } }, "rank 1 was given --flag, rank 0 no --flag" },
};

static guint same_case;

static gpointer
check_same (gpointer user_data)
{
  static const gchar *const names[] = { "--size", "--flag", NULL };
  Rank *rank = user_data;

  rank->ok = weft_job_check_same (rank->job, names, same_cases[same_case].values[rank->number], &rank->error);
  return NULL;
}

static void
test_same (gconstpointer number)
{
  same_case = GPOINTER_TO_UINT (number);
  set_up ();
  run_ranks (check_same);
  for (guint i = 0; i < N_RANKS; i++)
    {
      g_assert_true (ranks[i].ok == (same_cases[same_case].message == NULL));
      if (!ranks[i].ok)
        g_assert_nonnull (strstr (ranks[i].error->message, same_cases[same_case].message));
    }
  tear_down ();
}

static gpointer
write_together (gpointer user_data)
{
  Rank *rank = user_data;
  g_autoptr (WeftCheckpoint) source = weft_checkpoint_open (rank->source, NULL, &rank->error);
  g_autoptr (WeftSafetensorsSink) sink = weft_safetensors_sink_new (rank->output, &rank->error);
  WeftTransferCounters counters = { 0 };

  g_assert_no_error (rank->error);
  if (network_thread == NULL && rank->number == 1 && cancelled_by_rename == NULL)
    network_thread = g_thread_self ();
  weft_safetensors_sink_set_job (sink, rank->job);
  rank->ok = weft_sink_write (WEFT_SINK (sink), weft_checkpoint_get_state_dict (source), NULL, &counters,
                              rank->cancellable, &rank->error);
  rank->n_bytes_written = counters.n_bytes_written;
  return NULL;
}

/* Writes a checkpoint of two tensors of one size, in one file, by both ranks. */
static void
run_writers (gboolean is_cancelled)
{
  g_autofree gchar *folder = fixture_folder ();
  g_autofree gchar *source = g_build_filename (folder, "source", NULL);
  g_autofree gchar *output = g_build_filename (folder, "out", NULL);

  set_up ();
  fixture_write_shard (source, "model.safetensors", "a:70000 b:70000");
  for (guint i = 0; i < N_RANKS; i++)
    {
      ranks[i].source = source;
      ranks[i].output = output;
    }
  cancelled_by_rename = is_cancelled ? ranks[1].cancellable : NULL;
  run_ranks (write_together);
  cancelled_by_rename = NULL;
  network_thread = NULL;
  for (guint i = 0; i < N_RANKS; i++)
    {
      g_assert_no_error (ranks[i].error);
      g_assert_true (ranks[i].ok);
    }
  g_assert_true (fixture_exists (output, "model.safetensors"));
  fixture_remove_tree (folder);
}

/* A file system that one rank has over a network is not coherent for any of them: files stay whole. */
static void
test_network_of_one (void)
{
  run_writers (FALSE);
  g_assert_true (ranks[0].n_bytes_written == 0 || ranks[1].n_bytes_written == 0);
  g_assert_cmpuint (ranks[0].n_bytes_written + ranks[1].n_bytes_written, >, 0);
  tear_down ();
}

static void
test_cancelled_while_published (void)
{
  run_writers (TRUE);
  g_assert_true (ranks[0].n_bytes_written > 0 && ranks[1].n_bytes_written > 0);
  tear_down ();
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/job/cancelled/on-the-way", test_cancelled_on_the_way);
  g_test_add_func ("/job/cancelled/before", test_cancelled_before);
  g_test_add_func ("/job/cancelled/after", test_cancelled_after);
  g_test_add_func ("/job/cancelled/while-published", test_cancelled_while_published);
  g_test_add_func ("/job/error-of-all", test_error_of_all);
  g_test_add_func ("/job/network-of-one", test_network_of_one);
  for (guint i = 0; i < G_N_ELEMENTS (same_cases); i++)
    {
      g_autofree gchar *path = g_strconcat ("/job/same/", same_cases[i].path, NULL);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_same);
    }
  return g_test_run ();
}
