/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/weft-model-config.h"

G_BEGIN_DECLS

/* The dtype that a config calls @name; `auto` is none. FALSE if weights cannot be of it. @where: what messages call the config. */
gboolean weft_model_config_read_dtype (const gchar *name, const gchar *where, WeftDtype *dtype,
                                       GError **error);

G_END_DECLS
