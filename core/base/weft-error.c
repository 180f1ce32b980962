/* SPDX-License-Identifier: Apache-2.0 */
#include "base/weft-error.h"

/**
 * weft_error_quark:
 *
 * Returns: the quark of %WEFT_ERROR
 * Since: 1.0
 */
G_DEFINE_QUARK (weft-error-quark, weft_error)
