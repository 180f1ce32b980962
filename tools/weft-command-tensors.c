/* SPDX-License-Identifier: Apache-2.0 */
#include "weft-command-tensors.h"

#include "checkpoint/weft-checkpoint.h"
#include "checkpoint/weft-safetensors-sink.h"
#include "weft-command-output.h"

WeftStateDict *
weft_command_open_tensors (const gchar *path, WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftCheckpoint) checkpoint = weft_checkpoint_open (path, call->cancellable, error);

  return checkpoint != NULL ? g_object_ref (weft_checkpoint_get_state_dict (checkpoint)) : NULL;
}

/* Writes all tensors to one new file. It gets its name when it is complete and on the disk; an existing file stays. */
gboolean
weft_command_write_tensors (const gchar *path, WeftStateDict *tensors, WeftCommandCall *call, GError **error)
{
  g_autoptr (WeftSafetensorsSink) sink =
      weft_safetensors_sink_new_full (path, WEFT_OUTPUT_FLAGS_SINGLE_FILE, error);
  WeftTransferOptions options = { .struct_size = sizeof options,
                                  .n_threads = weft_transfer_get_default_n_threads (),
                                  .progress = weft_command_progress,
                                  .progress_data = call };
  gboolean is_written =
      sink != NULL && weft_sink_write (WEFT_SINK (sink), tensors, &options, NULL, call->cancellable, error);

  weft_command_progress_end (call);
  return is_written;
}
