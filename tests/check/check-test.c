/* SPDX-License-Identifier: Apache-2.0 */
/* Every registered op keeps the promises of ops. With arguments: the ops of these plugins only. */
#include "weft-check.h"

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (int i = 1; i < argc; i++)
    weft_check_add_ops (argv[i]);
  if (argc == 1)
    weft_check_add_ops (NULL);
  return g_test_run ();
}
