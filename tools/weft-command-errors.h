/* SPDX-License-Identifier: Apache-2.0 */
/* What quantizing costs: for each weight how far its codes are from its values. */
#pragma once

#include "pipeline/weft-load-plan.h"
#include "weft-command-entry.h"

/* A table; JSON or an SVG plot, if @path ends in `.json` or `.svg`. */
gboolean weft_command_write_errors (WeftLoadPlan *plan, const gchar *path, WeftCommandCall *call,
                                    GError **error);
