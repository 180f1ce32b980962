/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks tell each other how they are by sums, one after the other (rounds): each rank has words of its own in the
 * vector, which are zero in those of the others. Every rank sees the same rounds in the same order and decides by them alone,
 * so that all decide the same. A round never waits: work goes on while it is under way. */
#include "checkpoint/weft-job-private.h"

#include <string.h>

/* How often rounds begin while ranks work, and how long a rank rests that only waits, in microseconds. */
#define ROUND_MICROSECONDS 20000
#define MIN_REST_MICROSECONDS 200
#define MAX_REST_MICROSECONDS 10000
/* How long a rank that has failed waits for the others to stop. */
#define STOP_MICROSECONDS (10 * G_USEC_PER_SEC)
#define MAX_MESSAGE_BYTES 16384

typedef enum
{
  STATE_WORKING,
  /* With an error of its own; because of another rank. */
  STATE_FAILED,
  STATE_STOPPED,
} State;

/* The words of one rank. */
typedef struct
{
  guint64 state;
  /* How many agreements it has come to. */
  guint64 n_agreements;
  guint64 n_bytes;
  guint64 n_parts;
  guint64 fingerprint;
} Words;

#define N_WORDS (sizeof (Words) / sizeof (guint64))

struct _WeftJob
{
  GObject parent_instance;

  WeftCommunicator *communicator;
  GCancellable *cancellable;
  guint rank, size;
  Words own;
  gint n_parts;
  /* Of each rank: those of the round that is under way, and those of the last one that is done. */
  Words *sent;
  Words *seen;
  gboolean is_under_way;
  gint64 round_started;
  gint64 rest;
  /* When this rank, which has failed, stops to wait for the others; 0 before. */
  gint64 stop_end;
  void (*listener) (gpointer user_data);
  gpointer listener_data;
  /* All ranks have stopped after a failure: there are no more rounds. */
  gboolean is_closed;
};

G_DEFINE_FINAL_TYPE (WeftJob, weft_job, G_TYPE_OBJECT)

static void
weft_job_finalize (GObject *object)
{
  WeftJob *self = WEFT_JOB (object);

  g_clear_object (&self->communicator);
  g_clear_object (&self->cancellable);
  g_free (self->sent);
  g_free (self->seen);
  G_OBJECT_CLASS (weft_job_parent_class)->finalize (object);
}

static void
weft_job_class_init (WeftJobClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_job_finalize;
}

static void
weft_job_init (WeftJob *self)
{
  self->rest = MIN_REST_MICROSECONDS;
}

/**
 * weft_job_new:
 * @communicator: the processes that work together
 * @cancellable: (nullable): ends waiting for others
 *
 * Returns: (transfer full): the job, which nobody has failed
 * Since: 1.0
 */
WeftJob *
weft_job_new (WeftCommunicator *communicator, GCancellable *cancellable)
{
  WeftCommunicatorInterface *iface = WEFT_COMMUNICATOR_GET_IFACE (communicator);
  WeftJob *self = g_object_new (WEFT_TYPE_JOB, NULL);

  self->communicator = g_object_ref (communicator);
  self->cancellable = cancellable != NULL ? g_object_ref (cancellable) : NULL;
  self->rank = iface->get_rank (communicator);
  self->size = iface->get_size (communicator);
  self->sent = g_new0 (Words, self->size);
  self->seen = g_new0 (Words, self->size);
  return self;
}

/**
 * weft_job_get_rank:
 * @self: a job
 *
 * Returns: the number of this process, from 0. Rank 0 does what only one process can do
 * Since: 1.0
 */
guint
weft_job_get_rank (WeftJob *self)
{
  g_return_val_if_fail (WEFT_IS_JOB (self), 0);
  return self->rank;
}

/**
 * weft_job_get_size:
 * @self: a job
 *
 * Returns: how many processes work together
 * Since: 1.0
 */
guint
weft_job_get_size (WeftJob *self)
{
  g_return_val_if_fail (WEFT_IS_JOB (self), 0);
  return self->size;
}

static void
start_round (WeftJob *self)
{
  self->own.n_parts = (guint64) g_atomic_int_get (&self->n_parts);
  memset (self->sent, 0, self->size * sizeof (Words));
  self->sent[self->rank] = self->own;
  self->round_started = g_get_monotonic_time ();
  self->is_under_way = TRUE;
  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)
      ->start_sum (self->communicator, (guint64 *) (gpointer) self->sent, self->size * N_WORDS);
}

/* Goes on with the round that is under way. Whether it is done. */
static gboolean
finish_round (WeftJob *self)
{
  if (!WEFT_COMMUNICATOR_GET_IFACE (self->communicator)->test_sum (self->communicator))
    return FALSE;
  memcpy (self->seen, self->sent, self->size * sizeof (Words));
  self->is_under_way = FALSE;
  if (self->listener != NULL)
    self->listener (self->listener_data);
  return TRUE;
}

/* One step of the rounds, without waiting. Whether a round was completed by it. */
static gboolean
advance (WeftJob *self)
{
  if (!self->is_under_way)
    start_round (self);
  return finish_round (self);
}

static void
take_rest (WeftJob *self)
{
  g_usleep ((gulong) self->rest);
  self->rest = MIN (self->rest * 2, MAX_REST_MICROSECONDS);
}

/* The first rank that has @state, or the size of the job. */
static guint
find_state (WeftJob *self, State state)
{
  guint rank = 0;

  while (rank < self->size && self->seen[rank].state != state)
    rank++;
  return rank;
}

/* Whether work can go on. The error of a rank that failed itself is told later, by weft_job_fail(). */
static gboolean
check_others (WeftJob *self, GError **error)
{
  guint failed = find_state (self, STATE_FAILED);

  if (failed < self->size)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "rank %u of %u has failed", failed, self->size);
  else if (g_cancellable_is_cancelled (self->cancellable))
    g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED, "the job was cancelled");
  else
    return TRUE;
  return FALSE;
}

/**
 * weft_job_poll:
 * @self: a job
 * @error: return location
 *
 * Looks, without waiting, whether the job goes on. It is called often by a rank that does work of its own; a sink that has the job
 * does so by itself.
 *
 * Returns: whether no rank has failed, as far as is known here
 * Errors: %WEFT_ERROR_FAILED if one has, %WEFT_ERROR_CANCELLED; weft_job_fail() is to be called then
 * Since: 1.0
 */
gboolean
weft_job_poll (WeftJob *self, GError **error)
{
  g_return_val_if_fail (WEFT_IS_JOB (self) && !self->is_closed, FALSE);
  if (self->is_under_way || g_get_monotonic_time () - self->round_started >= ROUND_MICROSECONDS)
    (void) advance (self);
  return check_others (self, error);
}

gboolean
weft_job_rest (WeftJob *self, GError **error)
{
  (void) advance (self);
  take_rest (self);
  return check_others (self, error);
}

static gboolean
have_all_agreed (WeftJob *self)
{
  for (guint i = 0; i < self->size; i++)
    if (self->seen[i].n_agreements < self->own.n_agreements)
      return FALSE;
  return TRUE;
}

void
weft_job_begin_agreement (WeftJob *self)
{
  self->own.n_agreements++;
  self->rest = MIN_REST_MICROSECONDS;
}

gboolean
weft_job_wait_for_agreement (WeftJob *self, gboolean *is_agreed, GError **error)
{
  gboolean is_new = advance (self);

  *is_agreed = is_new && find_state (self, STATE_FAILED) == self->size && have_all_agreed (self);
  if (*is_agreed)
    return TRUE;
  if (!is_new)
    take_rest (self);
  return check_others (self, error);
}

/**
 * weft_job_agree:
 * @self: a job
 * @error: return location
 *
 * Waits until every rank has come to this step. Ranks come to the same steps in the same order.
 *
 * Returns: whether all ranks go on from here
 * Errors: %WEFT_ERROR_FAILED if one has failed, %WEFT_ERROR_CANCELLED; weft_job_fail() is to be called then
 * Since: 1.0
 */
gboolean
weft_job_agree (WeftJob *self, GError **error)
{
  gboolean is_agreed = FALSE;

  g_return_val_if_fail (WEFT_IS_JOB (self) && !self->is_closed, FALSE);
  weft_job_begin_agreement (self);
  while (!is_agreed)
    if (!weft_job_wait_for_agreement (self, &is_agreed, error))
      return FALSE;
  return TRUE;
}

/* Rounds until no rank works any more. */
static gboolean
wait_for_stop (WeftJob *self)
{
  gboolean has_told = FALSE;

  if (self->stop_end == 0)
    self->stop_end = g_get_monotonic_time () + STOP_MICROSECONDS;
  self->rest = MIN_REST_MICROSECONDS;
  while (!has_told || find_state (self, STATE_WORKING) < self->size)
    {
      if (g_get_monotonic_time () > self->stop_end)
        return FALSE;
      if (!advance (self))
        take_rest (self);
      else
        has_told = self->seen[self->rank].state != STATE_WORKING;
    }
  return TRUE;
}

/* Gives every rank the error of the first one that failed by itself. */
static void
share_error (WeftJob *self, GError **error)
{
  WeftCommunicatorInterface *iface = WEFT_COMMUNICATOR_GET_IFACE (self->communicator);
  guint root = find_state (self, STATE_FAILED);
  guint64 code_and_size[2] = { WEFT_ERROR_FAILED, 0 };
  g_autofree gchar *message = NULL;

  if (root == self->size)
    return;
  if (root == self->rank && error != NULL && *error != NULL)
    {
      code_and_size[0] = (*error)->domain == WEFT_ERROR ? (guint64) (*error)->code : WEFT_ERROR_FAILED;
      code_and_size[1] = MIN (strlen ((*error)->message), MAX_MESSAGE_BYTES);
    }
  iface->broadcast (self->communicator, root, code_and_size, sizeof code_and_size);
  message = g_malloc0 (code_and_size[1] + 1);
  if (root == self->rank && code_and_size[1] > 0)
    memcpy (message, (*error)->message, code_and_size[1]);
  iface->broadcast (self->communicator, root, message, code_and_size[1]);
  if (error == NULL)
    return;
  g_clear_error (error);
  if (self->size > 1)
    g_set_error (error, WEFT_ERROR, (gint) code_and_size[0], "rank %u of %u: %s", root, self->size, message);
  else
    g_set_error_literal (error, WEFT_ERROR, (gint) code_and_size[0], message);
}

/**
 * weft_job_fail: (skip)
 * @self: a job
 * @error: (inout) (optional) (nullable): why this rank cannot go on; afterwards the error of the job, the same on every rank
 *
 * Tells all ranks that this one has failed, and waits until they have stopped. Does nothing if that is done already.
 *
 * Returns: whether all ranks have stopped; if not (one is busy, or gone), weft_job_abort() ends them
 * Since: 1.0
 */
gboolean
weft_job_fail (WeftJob *self, GError **error)
{
  g_return_val_if_fail (WEFT_IS_JOB (self), FALSE);
  if (self->is_closed)
    return TRUE;
  self->own.state = find_state (self, STATE_FAILED) < self->size ? STATE_STOPPED : STATE_FAILED;
  if (!wait_for_stop (self))
    return FALSE;
  self->is_closed = TRUE;
  share_error (self, error);
  return TRUE;
}

/**
 * weft_job_abort:
 * @self: a job
 *
 * Ends all processes of the job at once, this one too.
 *
 * Since: 1.0
 */
void
weft_job_abort (WeftJob *self)
{
  g_return_if_fail (WEFT_IS_JOB (self));
  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)->abort (self->communicator, 1);
}

/**
 * weft_job_sum: (skip)
 * @self: a job
 * @values: (array length=n_values): numbers of this rank; afterwards the sums over all ranks
 * @n_values: how many, the same on every rank
 *
 * Adds up numbers of all ranks. It is called by all right after they have agreed.
 *
 * Since: 1.0
 */
void
weft_job_sum (WeftJob *self, guint64 *values, gsize n_values)
{
  WeftCommunicatorInterface *iface = WEFT_COMMUNICATOR_GET_IFACE (self->communicator);

  g_return_if_fail (WEFT_IS_JOB (self) && !self->is_under_way && !self->is_closed);
  iface->start_sum (self->communicator, values, n_values);
  self->rest = MIN_REST_MICROSECONDS;
  while (!iface->test_sum (self->communicator))
    take_rest (self);
}

void
weft_job_set_n_bytes (WeftJob *self, guint64 n_bytes)
{
  self->own.n_bytes = n_bytes;
}

void
weft_job_add_part (WeftJob *self)
{
  g_atomic_int_inc (&self->n_parts);
}

guint64
weft_job_get_n_bytes (WeftJob *self)
{
  guint64 n_bytes = 0;

  for (guint i = 0; i < self->size; i++)
    n_bytes += self->seen[i].n_bytes;
  return n_bytes;
}

guint
weft_job_get_n_parts (WeftJob *self, guint rank)
{
  return (guint) self->seen[rank].n_parts;
}

void
weft_job_set_fingerprint (WeftJob *self, guint64 fingerprint)
{
  self->own.fingerprint = fingerprint;
}

gboolean
weft_job_check_fingerprints (WeftJob *self, GError **error)
{
  for (guint i = 1; i < self->size; i++)
    if (self->seen[i].fingerprint != self->seen[0].fingerprint)
      {
        g_set_error (
            error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
            "the plan of rank %u is not that of rank 0: options, Weft with its data and plugins, and the "
            "files of the source (path, size and time) must be the same for every rank",
            i);
        return FALSE;
      }
  return TRUE;
}

void
weft_job_set_listener (WeftJob *self, void (*listener) (gpointer user_data), gpointer user_data)
{
  self->listener = listener;
  self->listener_data = user_data;
}

void
weft_job_broadcast (WeftJob *self, gpointer bytes, gsize n_bytes)
{
  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)->broadcast (self->communicator, 0, bytes, n_bytes);
}
