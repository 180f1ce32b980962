/* SPDX-License-Identifier: Apache-2.0 */
/* Claims a GType that another plugin has. */
#include "broken-op.h"

BROKEN_OP (WeftIdentity, weft_identity)

BROKEN_DEFINE ("weft", NULL, WEFT_PLUGIN_OP ("OtherIdentity", WeftIdentity, weft_identity));
