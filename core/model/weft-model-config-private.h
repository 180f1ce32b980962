/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "model/weft-architecture-private.h"
#include "model/weft-model-config-internal.h"

G_BEGIN_DECLS

/* @architecture: (nullable): what is known of its model type; without it every field is what the file says */
WeftModelConfig *weft_model_config_new_for_architecture (JsonObject *object, const gchar *where,
                                                         WeftArchitecture *architecture, GError **error);
WeftArchitecture *weft_model_config_get_known_architecture (WeftModelConfig *self);
/* The same config with other values for some fields. */
WeftModelConfig *weft_model_config_change (WeftModelConfig *self, const gchar *const *names,
                                           const WeftValue *values);
/* The dtype that the config names; %WEFT_DTYPE_INVALID if it names none. */
gboolean weft_model_config_find_dtype (WeftModelConfig *self, WeftDtype *dtype, GError **error);
/* A #WeftFindField. */
gboolean weft_model_config_find_field (GObject *config, const gchar *name, WeftValue *value, GError **error);

G_END_DECLS
