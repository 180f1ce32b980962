/* SPDX-License-Identifier: Apache-2.0 */
/* One rank of a conversion, as a program of its own would write it against the library: run-rank SRC DST TASK.
 * Tasks: `progress` checks what is reported on the way; `die` has rank 1 killed when a quarter of all bytes are there; `die-late`
 * has it killed when the journal names a finished file; `twice` opens MPI, leaves it and opens it again; `full-N` lets rank N write no file above 64 KiB, as on a full disk. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "weft.h"

typedef struct
{
  const gchar *task;
  gchar *journal;
  guint rank;
  guint64 n_bytes_done;
  guint64 n_bytes_total;
  gboolean is_backward;
} Watch;

static gboolean
has_finished_file (const gchar *journal)
{
  g_autofree gchar *text = NULL;

  return g_file_get_contents (journal, &text, NULL, NULL) && strstr (text, ".safetensors\n") != NULL;
}

static void
on_progress (guint64 n_bytes_done, guint64 n_bytes_total, gpointer user_data)
{
  Watch *watch = user_data;

  watch->is_backward |= n_bytes_done < watch->n_bytes_done;
  watch->n_bytes_done = n_bytes_done;
  watch->n_bytes_total = n_bytes_total;
  if (watch->rank != 1)
    return;
  if (strcmp (watch->task, "die") == 0 && n_bytes_done >= n_bytes_total / 4)
    raise (SIGKILL);
  if (strcmp (watch->task, "die-late") != 0)
    return;
  /* Rank 0 is done with its first file long before. */
  g_usleep (2000);
  if (has_finished_file (watch->journal))
    raise (SIGKILL);
}

/* After MPI has made its own files. */
static void
limit_files (const Watch *watch)
{
  const struct rlimit limit = { 65536, 65536 };
  g_autofree gchar *own_task = g_strdup_printf ("full-%u", watch->rank);

  signal (SIGXFSZ, SIG_IGN);
  if (strcmp (watch->task, own_task) == 0)
    setrlimit (RLIMIT_FSIZE, &limit);
}

static gboolean
convert (const gchar *source, const gchar *output, WeftJob *job, Watch *watch, GError **error)
{
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = 1,
                                  .tile_bytes = 4096,
                                  .progress = on_progress,
                                  .progress_data = watch };
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (source, NULL, error);
  g_autoptr (WeftLoadPlan) plan = checkpoint != NULL ? weft_load_plan_new (checkpoint, NULL, error) : NULL;
  g_autoptr (WeftSafetensorsSink) sink = plan != NULL ? weft_safetensors_sink_new (output, error) : NULL;

  if (sink == NULL)
    return FALSE;
  weft_safetensors_sink_set_job (sink, job);
  return weft_load_plan_execute_full (plan, WEFT_SINK (sink), &options, NULL, NULL, error);
}

/* A process may come and go. */
static WeftCommunicator *
open_mpi (const gchar *task, GError **error)
{
  g_autoptr (WeftCommunicator) first =
      strcmp (task, "twice") == 0 ? weft_communicator_open ("mpi", error) : NULL;

  if (strcmp (task, "twice") == 0 && first == NULL)
    return NULL;
  g_clear_object (&first);
  return weft_communicator_open ("mpi", error);
}

int
main (int argc, char **argv)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (WeftCommunicator) communicator = open_mpi (argc == 4 ? argv[3] : "", &error);
  g_autoptr (WeftJob) job = NULL;
  g_autofree gchar *journal = NULL;
  Watch watch = { .task = argc == 4 ? argv[3] : "" };

  if (argc != 4 || communicator == NULL)
    {
      fprintf (stderr, "run-rank SRC DST TASK: %s\n",
               error != NULL ? error->message : "three words are needed");
      return 2;
    }
  job = weft_job_new (communicator, NULL);
  journal = g_strconcat (argv[2], ".weft-partial/.weft-journal", NULL);
  watch.journal = journal;
  watch.rank = weft_job_get_rank (job);
  limit_files (&watch);
  if (!convert (argv[1], argv[2], job, &watch, &error))
    {
      if (!weft_job_fail (job, &error))
        weft_job_abort (job);
      fprintf (stderr, "%s\n", error->message);
      return 1;
    }
  /* Every rank has heard of all bytes when the output is there. */
  if (watch.is_backward || watch.n_bytes_total == 0 || watch.n_bytes_done != watch.n_bytes_total)
    {
      fprintf (stderr, "rank %u: progress ended with %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT "%s\n",
               watch.rank, watch.n_bytes_done, watch.n_bytes_total,
               watch.is_backward ? ", and went back" : "");
      return 3;
    }
  return 0;
}
