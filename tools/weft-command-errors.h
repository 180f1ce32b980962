/* SPDX-License-Identifier: Apache-2.0 */
/* What quantizing costs: for each weight how far its codes are from its values. */
#pragma once

#include "pipeline/weft-load-plan.h"
#include "weft-command-entry.h"

/* Whether a report can be written: told before the work is done. What stands in @output, a folder to be made, is written into it. */
gboolean weft_command_check_errors (const gchar *path, const gchar *output, GError **error);

/* A table; JSON or an SVG plot, if @path ends in `.json` or `.svg`. */
gboolean weft_command_write_errors (WeftLoadPlan *plan, const gchar *path, WeftCommandCall *call,
                                    GError **error);
