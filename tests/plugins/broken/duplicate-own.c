/* SPDX-License-Identifier: Apache-2.0 */
/* Lists one op twice. */
#include "broken-op.h"

BROKEN_OP (WeftDuplicateOwn, weft_duplicate_own)

BROKEN_DEFINE ("duplicate-own", NULL, WEFT_PLUGIN_OP ("DuplicateOwn", WeftDuplicateOwn, weft_duplicate_own),
               WEFT_PLUGIN_OP ("DuplicateOwn", WeftDuplicateOwn, weft_duplicate_own));
