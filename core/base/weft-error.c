/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-error.h"

/**
 * weft_error_quark:
 *
 * Returns: the quark of %WEFT_ERROR
 * Since: 1.0
 */
GQuark
weft_error_quark (void)
{
  return g_quark_from_static_string ("weft-error-quark");
}
