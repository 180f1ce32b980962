/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends that small commands share: tensors of a file or folder, and one file that is written. */
#pragma once

#include "tensor/weft-state-dict.h"
#include "weft-command-entry.h"

WeftStateDict *weft_command_open_tensors (const gchar *path, WeftCommandCall *call, GError **error);
gboolean weft_command_write_tensors (const gchar *path, WeftStateDict *tensors, WeftCommandCall *call,
                                     GError **error);
