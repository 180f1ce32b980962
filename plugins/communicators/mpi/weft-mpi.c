/* SPDX-License-Identifier: Apache-2.0 */
/* The processes that `mpirun` has started, over MPI. What goes wrong before the communicator is there is an error of opening it; an
 * error of MPI after that ends the job. */
#include <mpi.h>
#include <stdlib.h>

#include "weft.h"

/* MPI counts bytes in an int. */
#define MAX_MESSAGE_BYTES (1 << 30)

#define WEFT_TYPE_MPI_COMMUNICATOR (weft_mpi_communicator_get_type ())
G_DECLARE_FINAL_TYPE (WeftMpiCommunicator, weft_mpi_communicator, WEFT, MPI_COMMUNICATOR, GObject)

struct _WeftMpiCommunicator
{
  GObject parent_instance;

  /* Its own, so that messages of the program that we run in are not mixed with ours. */
  MPI_Comm comm;
  MPI_Request sum;
};

static guint
weft_mpi_communicator_get_rank (WeftCommunicator *communicator)
{
  gint rank = 0;

  MPI_Comm_rank (WEFT_MPI_COMMUNICATOR (communicator)->comm, &rank);
  return (guint) rank;
}

static guint
weft_mpi_communicator_get_size (WeftCommunicator *communicator)
{
  gint size = 1;

  MPI_Comm_size (WEFT_MPI_COMMUNICATOR (communicator)->comm, &size);
  return (guint) size;
}

static void
weft_mpi_communicator_start_sum (WeftCommunicator *communicator, guint64 *values, gsize n_values)
{
  WeftMpiCommunicator *self = WEFT_MPI_COMMUNICATOR (communicator);

  MPI_Iallreduce (MPI_IN_PLACE, values, (gint) n_values, MPI_UINT64_T, MPI_SUM, self->comm, &self->sum);
}

static gboolean
weft_mpi_communicator_test_sum (WeftCommunicator *communicator)
{
  gint is_done = 0;

  MPI_Test (&WEFT_MPI_COMMUNICATOR (communicator)->sum, &is_done, MPI_STATUS_IGNORE);
  return is_done != 0;
}

static void
weft_mpi_communicator_broadcast (WeftCommunicator *communicator, guint root, gpointer bytes, gsize n_bytes)
{
  WeftMpiCommunicator *self = WEFT_MPI_COMMUNICATOR (communicator);

  for (gsize at = 0; at < n_bytes; at += MAX_MESSAGE_BYTES)
    MPI_Bcast ((guint8 *) bytes + at, (gint) MIN (n_bytes - at, MAX_MESSAGE_BYTES), MPI_BYTE, (gint) root,
               self->comm);
}

static void
weft_mpi_communicator_abort (WeftCommunicator *communicator, gint exit_code)
{
  MPI_Abort (WEFT_MPI_COMMUNICATOR (communicator)->comm, exit_code);
}

static void
weft_mpi_communicator_implement (WeftCommunicatorInterface *iface)
{
  iface->get_rank = weft_mpi_communicator_get_rank;
  iface->get_size = weft_mpi_communicator_get_size;
  iface->start_sum = weft_mpi_communicator_start_sum;
  iface->test_sum = weft_mpi_communicator_test_sum;
  iface->broadcast = weft_mpi_communicator_broadcast;
  iface->abort = weft_mpi_communicator_abort;
}

static gboolean
fail (GError **error, const gchar *what)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_PLUGIN, "MPI cannot be used: %s", what);
  return FALSE;
}

/* MPI starts and ends once in the life of a process, so that it ends with the process: others may want to use it. */
static void
end_mpi (void)
{
  gint is_finalized = 0;

  MPI_Finalized (&is_finalized);
  if (!is_finalized)
    MPI_Finalize ();
}

/* Starts MPI, unless the program that we run in has. *@provided: what may be called from which thread. */
static gboolean
start_mpi (gint *provided, GError **error)
{
  gint is_initialized = 0, is_finalized = 0;

  MPI_Initialized (&is_initialized);
  MPI_Finalized (&is_finalized);
  if (is_finalized)
    return fail (error, "this process has ended it (MPI_Finalize), and it starts once");
  if (is_initialized)
    return MPI_Query_thread (provided) == MPI_SUCCESS
           || fail (error, "it does not tell its level of threads");
  if (MPI_Init_thread (NULL, NULL, MPI_THREAD_FUNNELED, provided) != MPI_SUCCESS)
    return fail (error, "it does not start (MPI_Init_thread)");
  return atexit (end_mpi) == 0 || fail (error, "its end cannot be arranged (atexit)");
}

static gboolean
weft_mpi_communicator_join (GInitable *initable, G_GNUC_UNUSED GCancellable *cancellable, GError **error)
{
  WeftMpiCommunicator *self = WEFT_MPI_COMMUNICATOR (initable);
  gint provided = MPI_THREAD_SINGLE;

  if (!start_mpi (&provided, error))
    return FALSE;
  if (provided < MPI_THREAD_FUNNELED)
    return fail (error, "it lets no process have threads (MPI_THREAD_FUNNELED is needed)");
  if (MPI_Comm_dup (MPI_COMM_WORLD, &self->comm) != MPI_SUCCESS)
    return fail (error, "no communicator can be made (MPI_Comm_dup)");
  if (MPI_Comm_set_errhandler (self->comm, MPI_ERRORS_ARE_FATAL) != MPI_SUCCESS)
    return fail (error, "errors cannot be made to end the job (MPI_Comm_set_errhandler)");
  return TRUE;
}

static void
weft_mpi_communicator_initable (GInitableIface *iface)
{
  iface->init = weft_mpi_communicator_join;
}

G_DEFINE_DYNAMIC_TYPE_EXTENDED (WeftMpiCommunicator, weft_mpi_communicator, G_TYPE_OBJECT, G_TYPE_FLAG_FINAL,
                                G_IMPLEMENT_INTERFACE_DYNAMIC (G_TYPE_INITABLE,
                                                               weft_mpi_communicator_initable)
                                    G_IMPLEMENT_INTERFACE_DYNAMIC (WEFT_TYPE_COMMUNICATOR,
                                                                   weft_mpi_communicator_implement))

static void
weft_mpi_communicator_finalize (GObject *object)
{
  WeftMpiCommunicator *self = WEFT_MPI_COMMUNICATOR (object);
  gint is_finalized = 0;

  MPI_Finalized (&is_finalized);
  if (!is_finalized && self->comm != MPI_COMM_NULL)
    MPI_Comm_free (&self->comm);
  G_OBJECT_CLASS (weft_mpi_communicator_parent_class)->finalize (object);
}

static void
weft_mpi_communicator_class_init (WeftMpiCommunicatorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = weft_mpi_communicator_finalize;
}

static void
weft_mpi_communicator_class_finalize (G_GNUC_UNUSED WeftMpiCommunicatorClass *klass)
{
}

static void
weft_mpi_communicator_init (WeftMpiCommunicator *self)
{
  self->comm = MPI_COMM_NULL;
  self->sum = MPI_REQUEST_NULL;
}

WEFT_PLUGIN_DEFINE ("mpi", "The processes of an MPI job", NULL, PACKAGE_VERSION, "Apache-2.0", PACKAGE_ORIGIN,
                    WEFT_PLUGIN_FEATURE (WEFT_FEATURE_KIND_COMMUNICATOR, "mpi", WeftMpiCommunicator,
                                         weft_mpi_communicator));
