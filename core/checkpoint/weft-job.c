/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks tell each other how they are by sums, one after the other (rounds): each rank has words of its own in the
 * vector, which are zero in those of the others. A round never waits: work goes on while it is under way.
 *
 * The rule: what ranks decide together they decide by complete rounds alone, which every rank sees, the same and in the same order,
 * so that all come to the same verdict. Whatever happens to one rank meanwhile (a failure, a cancel) is put into its words when a round
 * begins, and counts for nobody, not even for itself, before that round is complete. An agreement is the first round in which every rank
 * has come to the step and none has failed or was cancelled. From the agreement to publish on (weft_job_commit()) no cancel is put
 * into words any more: what is there is not taken back. A rank that cannot keep to the rule, for it is cancelled and no round gets
 * complete, does not decide: it ends the job. */
#include "checkpoint/weft-job-private.h"

#include <string.h>
#include <xxhash.h>

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
  /* Works, and would rather not. */
  STATE_CANCELLED,
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
  /* The last agreement that a round has shown. */
  guint64 n_agreed;
  /* A cancel counts no more; when the agreement that is under way is reached it will not. */
  gboolean is_committed;
  gboolean is_committing;
  /* When this rank, which has failed or was cancelled, stops to wait for the others; 0 before. */
  gint64 stop_end;
  /* It did, and does not know what they have decided. */
  gboolean is_lost;
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
  /* A round that is under way may still be written to: what the others send comes in when it comes. */
  if (!self->is_under_way)
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

/* A cancel is told, and counts when all have heard it. */
static void
tell_cancel (WeftJob *self)
{
  if (!self->is_committed && self->own.state == STATE_WORKING
      && g_cancellable_is_cancelled (self->cancellable))
    self->own.state = STATE_CANCELLED;
}

static void
start_round (WeftJob *self)
{
  tell_cancel (self);
  self->own.n_parts = (guint64) g_atomic_int_get (&self->n_parts);
  memset (self->sent, 0, self->size * sizeof (Words));
  self->sent[self->rank] = self->own;
  self->round_started = g_get_monotonic_time ();
  self->is_under_way = TRUE;
  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)
      ->start_sum (self->communicator, (guint64 *) (gpointer) self->sent, self->size * N_WORDS);
}

/* Takes the words of a round that is complete. */
static void
hear (WeftJob *self)
{
  gboolean is_agreed = TRUE;

  memcpy (self->seen, self->sent, self->size * sizeof (Words));
  for (guint i = 0; i < self->size; i++)
    is_agreed &= self->seen[i].state == STATE_WORKING && self->seen[i].n_agreements >= self->own.n_agreements;
  if (!is_agreed)
    return;
  self->n_agreed = self->own.n_agreements;
  self->is_committed |= self->is_committing;
  self->is_committing = FALSE;
}

/* Goes on with the round that is under way. Whether it is done. */
static gboolean
finish_round (WeftJob *self)
{
  if (!WEFT_COMMUNICATOR_GET_IFACE (self->communicator)->test_sum (self->communicator))
    return FALSE;
  hear (self);
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

/* Whether work can go on, by the last round. The error of a rank that failed itself is told later, by weft_job_fail(). */
static gboolean
check_others (WeftJob *self, GError **error)
{
  guint failed = find_state (self, STATE_FAILED);

  if (failed < self->size)
    g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "rank %u of %u has failed", failed, self->size);
  else if (find_state (self, STATE_CANCELLED) < self->size)
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

void
weft_job_begin_agreement (WeftJob *self, gboolean commits)
{
  self->own.n_agreements++;
  self->is_committing = commits;
  self->rest = MIN_REST_MICROSECONDS;
}

/* A rank that was cancelled waits for a round no longer than one that has failed. */
static gboolean
check_patience (WeftJob *self, gboolean is_new, GError **error)
{
  if (is_new || self->is_committed || !g_cancellable_is_cancelled (self->cancellable))
    {
      self->stop_end = 0;
      return TRUE;
    }
  if (self->stop_end == 0)
    self->stop_end = g_get_monotonic_time () + STOP_MICROSECONDS;
  self->is_lost = g_get_monotonic_time () > self->stop_end;
  if (self->is_lost)
    g_set_error_literal (error, WEFT_ERROR, WEFT_ERROR_CANCELLED,
                         "the job was cancelled, and other ranks do not answer");
  return !self->is_lost;
}

gboolean
weft_job_wait_for_agreement (WeftJob *self, gboolean *is_agreed, GError **error)
{
  /* Another step of the rounds may have shown it already: then there is no more to be heard of it. */
  gboolean is_new = self->n_agreed < self->own.n_agreements && advance (self);

  *is_agreed = self->n_agreed == self->own.n_agreements;
  if (*is_agreed)
    return TRUE;
  if (!is_new)
    take_rest (self);
  return check_others (self, error) && check_patience (self, is_new, error);
}

static gboolean
agree (WeftJob *self, gboolean commits, GError **error)
{
  gboolean is_agreed = FALSE;

  weft_job_begin_agreement (self, commits);
  while (!is_agreed)
    if (!weft_job_wait_for_agreement (self, &is_agreed, error))
      return FALSE;
  return TRUE;
}

/**
 * weft_job_agree:
 * @self: a job
 * @error: return location
 *
 * Waits until every rank has come to this step. Ranks come to the same steps in the same order.
 *
 * Returns: whether all ranks go on from here; every rank gets the same answer
 * Errors: %WEFT_ERROR_FAILED if one has failed, %WEFT_ERROR_CANCELLED; weft_job_fail() is to be called then
 * Since: 1.0
 */
gboolean
weft_job_agree (WeftJob *self, GError **error)
{
  g_return_val_if_fail (WEFT_IS_JOB (self) && !self->is_closed, FALSE);
  return agree (self, FALSE, error);
}

/**
 * weft_job_commit:
 * @self: a job
 * @error: return location
 *
 * As weft_job_agree(), before something is published: once all have agreed no cancel is honoured any more, for what is there is
 * not taken back. A sink with the job does so by itself; one that begins another output ends it.
 *
 * Returns: whether all ranks go on from here
 * Errors: as weft_job_agree()
 * Since: 1.0
 */
gboolean
weft_job_commit (WeftJob *self, GError **error)
{
  g_return_val_if_fail (WEFT_IS_JOB (self) && !self->is_closed, FALSE);
  return agree (self, TRUE, error);
}

static gboolean
is_anyone_working (WeftJob *self)
{
  return find_state (self, STATE_WORKING) < self->size || find_state (self, STATE_CANCELLED) < self->size;
}

/* Rounds until no rank works any more. */
static gboolean
wait_for_stop (WeftJob *self)
{
  gboolean has_told = FALSE;

  if (self->stop_end == 0)
    self->stop_end = g_get_monotonic_time () + STOP_MICROSECONDS;
  self->rest = MIN_REST_MICROSECONDS;
  while (!has_told || is_anyone_working (self))
    {
      if (g_get_monotonic_time () > self->stop_end)
        return FALSE;
      if (!advance (self))
        take_rest (self);
      else
        has_told = self->seen[self->rank].state == (guint64) self->own.state;
    }
  return TRUE;
}

/* An error on its way from one rank to the others: its code, and the sizes of the texts that follow. */
typedef struct
{
  guint64 code;
  guint64 n_domain_bytes;
  guint64 n_message_bytes;
} ErrorHead;

/* A text of @root for every rank; @text: on @root, the text. */
static gchar *
share_text (WeftJob *self, guint root, const gchar *text, guint64 n_bytes)
{
  gchar *shared = g_malloc0 (n_bytes + 1);

  if (text != NULL)
    memcpy (shared, text, n_bytes);
  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)->broadcast (self->communicator, root, shared, n_bytes);
  return shared;
}

/* How much of @text is told: all, or whole characters up to the limit. */
static guint64
measure_text (const gchar *text)
{
  const gchar *end;

  if (strlen (text) <= MAX_MESSAGE_BYTES)
    return strlen (text);
  (void) g_utf8_validate (text, MAX_MESSAGE_BYTES, &end);
  return (guint64) (end - text);
}

/* Gives every rank the error of the first one that failed by itself, domain and code included. */
static void
share_error (WeftJob *self, GError **error)
{
  guint root = find_state (self, STATE_FAILED);
  const GError *own = root == self->rank && error != NULL ? *error : NULL;
  const gchar *own_domain = own != NULL ? g_quark_to_string (own->domain) : NULL;
  ErrorHead head = { .code = WEFT_ERROR_FAILED };
  g_autofree gchar *domain = NULL;
  g_autofree gchar *message = NULL;
  GQuark quark;

  if (root == self->size)
    return;
  if (own != NULL)
    head = (ErrorHead){ (guint64) own->code, strlen (own_domain), measure_text (own->message) };
  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)->broadcast (self->communicator, root, &head, sizeof head);
  domain = share_text (self, root, own_domain, head.n_domain_bytes);
  message = share_text (self, root, own != NULL ? own->message : NULL, head.n_message_bytes);
  if (error == NULL)
    return;
  quark = *domain != '\0' ? g_quark_from_string (domain) : WEFT_ERROR;
  g_clear_error (error);
  if (self->size > 1)
    g_set_error (error, quark, (gint) head.code, "rank %u of %u: %s", root, self->size, message);
  else
    g_set_error_literal (error, quark, (gint) head.code, message);
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
  if (self->is_lost || !wait_for_stop (self))
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

void
weft_job_begin_output (WeftJob *self)
{
  self->is_committed = FALSE;
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

static guint64
hash_claim (const gchar *name, const gchar *value)
{
  g_autofree gchar *text = g_strconcat (name, value != NULL ? "=" : NULL, value, NULL);

  return XXH3_64bits (text, strlen (text));
}

/* The value that rank @root has for a claim, "" for none. */
static gchar *
share_value (WeftJob *self, guint root, const gchar *name, const gchar *value)
{
  g_autofree gchar *own = value == NULL    ? g_strconcat ("no ", name, NULL)
                          : *value == '\0' ? g_strdup (name)
                                           : g_strconcat (name, " ", value, NULL);
  guint64 n_bytes = root == self->rank ? measure_text (own) : 0;

  WEFT_COMMUNICATOR_GET_IFACE (self->communicator)
      ->broadcast (self->communicator, root, &n_bytes, sizeof n_bytes);
  return share_text (self, root, root == self->rank ? own : NULL, n_bytes);
}

/* The first of @n claims that rank 0 and another rank differ in: its number, or @n. */
static guint
find_difference (WeftJob *self, guint64 *hashes, guint n, guint *other)
{
  weft_job_sum (self, hashes, (gsize) self->size * n);
  for (guint i = 0; i < n; i++)
    for (*other = 1; *other < self->size; (*other)++)
      if (hashes[(gsize) *other * n + i] != hashes[i])
        return i;
  return n;
}

/**
 * weft_job_check_same: (skip)
 * @self: a job
 * @names: (array zero-terminated=1): what ranks must have in common, such as `--tp-size`
 * @values: (array): for each name the value of this rank as text, %NULL for none
 * @error: return location
 *
 * Compares what decides the outcome, before anything is made. All ranks call it.
 *
 * Returns: whether every rank has the same names and values
 * Errors: %WEFT_ERROR_CONFLICT on every rank, naming the first difference; those of weft_job_agree()
 * Since: 1.0
 */
gboolean
weft_job_check_same (WeftJob *self, const gchar *const *names, const gchar *const *values, GError **error)
{
  guint n = names != NULL ? g_strv_length ((GStrv) names) : 0;
  g_autofree gchar *all_names = n > 0 ? g_strjoinv ("\n", (GStrv) names) : NULL;
  g_autofree guint64 *hashes = NULL;
  g_autofree gchar *first = NULL;
  g_autofree gchar *second = NULL;
  guint other, found;

  g_return_val_if_fail (WEFT_IS_JOB (self) && n > 0 && values != NULL, FALSE);
  if (!weft_job_agree (self, error))
    return FALSE;
  hashes = g_new0 (guint64, (gsize) self->size * n);
  hashes[self->rank] = hash_claim (all_names, NULL);
  if (find_difference (self, hashes, 1, &other) == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
                   "all ranks must do the same: rank %u runs another command or version than rank 0", other);
      return FALSE;
    }
  memset (hashes, 0, (gsize) self->size * n * sizeof *hashes);
  for (guint i = 0; i < n; i++)
    hashes[(gsize) self->rank * n + i] = hash_claim (names[i], values[i]);
  found = find_difference (self, hashes, n, &other);
  if (found == n)
    return TRUE;
  first = share_value (self, 0, names[found], values[found]);
  second = share_value (self, other, names[found], values[found]);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_CONFLICT,
               "all ranks must do the same: rank %u was given %s, rank 0 %s", other, second, first);
  return FALSE;
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
