/* SPDX-License-Identifier: Apache-2.0 */
/* Full names of what a converter's last op gives. */
#pragma once

#include "base/weft-error.h"

G_BEGIN_DECLS

WEFT_PUBLIC GStrv weft_transform_expand_names (const gchar *full_layer_name, const gchar *const *names,
                                               GError **error);

G_END_DECLS
