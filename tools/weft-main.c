/* SPDX-License-Identifier: Apache-2.0 */
/* The program `weft`. */
#include <locale.h>

#include "weft-command.h"

int
main (int argc, char **argv)
{
  /* Only the encoding of the command line: numbers stay as JSON writes them. */
  setlocale (LC_CTYPE, "");
  return weft_command_run ((const gchar *const *) argv + (argc > 0 ? 1 : 0));
}
