/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sub-commands, in the order of the overview. A new one adds one line to each list. */
#include "weft-command-entry.h"

extern const WeftCommandEntry weft_convert_command;
extern const WeftCommandEntry weft_revert_command;
extern const WeftCommandEntry weft_shard_command;
extern const WeftCommandEntry weft_gather_command;
extern const WeftCommandEntry weft_plan_command;
extern const WeftCommandEntry weft_explain_command;
extern const WeftCommandEntry weft_diff_command;
extern const WeftCommandEntry weft_verify_command;
extern const WeftCommandEntry weft_fusions_command;
extern const WeftCommandEntry weft_inspect_command;
extern const WeftCommandEntry weft_model_command;
extern const WeftCommandEntry weft_mappings_command;
extern const WeftCommandEntry weft_lint_command;
extern const WeftCommandEntry weft_op_command;
extern const WeftCommandEntry weft_cast_command;
extern const WeftCommandEntry weft_dequantize_command;
extern const WeftCommandEntry weft_quantize_command;
extern const WeftCommandEntry weft_plugins_command;

/* One a line, so that two new ones merge. */
/* clang-format off */
const WeftCommandEntry *const weft_command_entries[] = {
  &weft_convert_command,
  &weft_revert_command,
  &weft_shard_command,
  &weft_gather_command,
  &weft_plan_command,
  &weft_explain_command,
  &weft_diff_command,
  &weft_verify_command,
  &weft_inspect_command,
  &weft_model_command,
  &weft_mappings_command,
  &weft_lint_command,
  &weft_fusions_command,
  &weft_op_command,
  &weft_cast_command,
  &weft_dequantize_command,
  &weft_quantize_command,
  &weft_plugins_command,
  NULL,
};
/* clang-format on */
