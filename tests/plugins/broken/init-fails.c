/* SPDX-License-Identifier: Apache-2.0 */
/* Cannot start, and says why. */
#include "broken-op.h"

BROKEN_OP (WeftInitFails, weft_init_fails)

static gboolean
init (WeftPlugin *plugin, GError **error)
{
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_FAILED, "the moon is down");
  return FALSE;
}

BROKEN_DEFINE ("init-fails", init, WEFT_PLUGIN_OP ("InitFails", WeftInitFails, weft_init_fails));
