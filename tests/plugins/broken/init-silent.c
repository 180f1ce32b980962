/* SPDX-License-Identifier: Apache-2.0 */
/* Cannot start, and does not say why. */
#include "broken-op.h"

BROKEN_OP (WeftInitSilent, weft_init_silent)

static gboolean
init (WeftPlugin *plugin, GError **error)
{
  return FALSE;
}

BROKEN_DEFINE ("init-silent", init, WEFT_PLUGIN_OP ("InitSilent", WeftInitSilent, weft_init_silent));
