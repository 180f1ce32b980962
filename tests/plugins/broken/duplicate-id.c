/* SPDX-License-Identifier: Apache-2.0 */
/* Claims the id of another plugin. */
#include "broken-op.h"

BROKEN_OP (WeftIdentityTwin, weft_identity_twin)

BROKEN_DEFINE ("identity", NULL, WEFT_PLUGIN_OP ("IdentityTwin", WeftIdentityTwin, weft_identity_twin));
