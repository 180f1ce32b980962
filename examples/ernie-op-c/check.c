/* SPDX-License-Identifier: Apache-2.0 */
#include <weft-check.h>

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  weft_check_add_op ("ErnieFuseAndSplitTextVisionExperts");
  weft_check_add_op ("ErnieSplitAndDecoupleTextVisionExperts");
  return g_test_run ();
}
