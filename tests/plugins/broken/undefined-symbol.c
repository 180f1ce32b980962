/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a function that no library has. */
#include "broken-op.h"

void weft_no_such_function (void);

BROKEN_OP (WeftUndefinedSymbol, weft_undefined_symbol)

static gboolean
init (WeftPlugin *plugin, GError **error)
{
  weft_no_such_function ();
  return TRUE;
}

BROKEN_DEFINE ("undefined-symbol", init,
               WEFT_PLUGIN_OP ("UndefinedSymbol", WeftUndefinedSymbol, weft_undefined_symbol));
