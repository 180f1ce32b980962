/* SPDX-License-Identifier: Apache-2.0 */
/* Claims an op that another plugin has. */
#include "broken-op.h"

BROKEN_OP (WeftDuplicateFeature, weft_duplicate_feature)

BROKEN_DEFINE ("duplicate-feature", NULL,
               WEFT_PLUGIN_OP ("Identity", WeftDuplicateFeature, weft_duplicate_feature));
