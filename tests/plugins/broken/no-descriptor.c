/* SPDX-License-Identifier: Apache-2.0 */
/* A shared object that is no plugin. */
#include "base/weft-macros.h"

WEFT_PUBLIC int weft_broken_answer (void);

int
weft_broken_answer (void)
{
  return 42;
}
