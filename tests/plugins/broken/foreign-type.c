/* SPDX-License-Identifier: Apache-2.0 */
/* A GType whose name may be anybody's. */
#include "broken-op.h"

BROKEN_OP (WeftSomething, weft_something)

BROKEN_DEFINE ("foreign-type", NULL, WEFT_PLUGIN_OP ("Something", WeftSomething, weft_something));
