/* SPDX-License-Identifier: Apache-2.0 */
/* A call that several processes run together, started by mpirun. Rank 0 speaks for all: the others print nothing. */
#pragma once

#include "checkpoint/weft-safetensors-sink.h"
#include "weft-command-entry.h"

/* Joins the job that this process was started in, and makes sure that all of its ranks were given the same; the frame leaves it when the call has ended. */
gboolean weft_command_join_job (WeftCommandCall *call, GError **error);
gboolean weft_command_speaks (const WeftCommandCall *call);

/* Makes the ranks of the call, if there are more, write to @sink together. */
void weft_command_share_sink (WeftCommandCall *call, WeftSafetensorsSink *sink);
/* Adds up what the ranks have moved, after they have written. */
void weft_command_sum_counters (WeftCommandCall *call, WeftTransferCounters *counters);

/* Waits for the other ranks, of which one may have failed: the exit code is then that of a failure everywhere. */
gint weft_command_end_job (WeftCommandCall *call, gint code, GError **error);
