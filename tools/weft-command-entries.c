/* SPDX-License-Identifier: Apache-2.0 */
/* The list of sub-commands, in the order of the overview. A new one adds one line to each list. */
#include "weft-command-entry.h"

const WeftCommandEntry *const weft_command_entries[] = {
  NULL,
};
