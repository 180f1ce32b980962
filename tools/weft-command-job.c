/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-job.h"

#include "weft-command-output.h"

gboolean
weft_command_join_job (WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftCommunicator) communicator = weft_communicator_open ("mpi", error);

  if (communicator == NULL)
    {
      g_prefix_error (error, "--mpi: ");
      return FALSE;
    }
  call->job = weft_job_new (communicator, call->cancellable);
  if (!weft_command_speaks (call))
    {
      call->is_quiet = TRUE;
      call->is_json = FALSE;
    }
  return TRUE;
}

gboolean
weft_command_speaks (const WeftCommandCall *call)
{
  return call->job == NULL || weft_job_get_rank (call->job) == 0;
}

void
weft_command_share_sink (WeftCommandCall *call, WeftSafetensorsSink *sink)
{
  if (call->job != NULL)
    weft_safetensors_sink_set_job (sink, call->job);
}

void
weft_command_sum_counters (WeftCommandCall *call, WeftTransferCounters *counters)
{
  guint64 values[] = { counters->n_bytes_kept, counters->n_bytes_read, counters->n_bytes_written };

  if (call->job == NULL)
    return;
  weft_job_sum (call->job, values, G_N_ELEMENTS (values));
  counters->n_bytes_kept = values[0];
  counters->n_bytes_read = values[1];
  counters->n_bytes_written = values[2];
}

gint
weft_command_end_job (WeftCommandCall *call, gint code, GError **error)
{
  if (*error == NULL && code == WEFT_COMMAND_DONE && weft_job_agree (call->job, error))
    return code;
  if (!weft_job_fail (call->job, error))
    {
      weft_command_print_error (call, *error);
      weft_job_abort (call->job);
    }
  return WEFT_COMMAND_FAILED;
}
