/* SPDX-License-Identifier: Apache-2.0 */
/* The config of a model: what `config.json` says, and what it leaves out. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-dtype.h"
#include "base/weft-error.h"

G_BEGIN_DECLS

#define WEFT_TYPE_MODEL_CONFIG (weft_model_config_get_type ())

/**
 * WeftModelConfig:
 *
 * The content of a `config.json`, or of a config nested in one. Where Weft knows the model type, a field that was left out
 * has its default, and a field may be asked for by any of the names that configs of that type use. Immutable; it may be
 * used by several threads.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftModelConfig, weft_model_config, WEFT, MODEL_CONFIG, GObject)

WEFT_PUBLIC WeftModelConfig *weft_model_config_load (const gchar *path, GError **error);
WEFT_PUBLIC WeftModelConfig *weft_model_config_new (JsonNode *root, const gchar *where, GError **error);

WEFT_PUBLIC const gchar *weft_model_config_get_where (WeftModelConfig *self);
WEFT_PUBLIC const gchar *weft_model_config_get_model_type (WeftModelConfig *self);
WEFT_PUBLIC const gchar *weft_model_config_get_architecture (WeftModelConfig *self);
WEFT_PUBLIC WeftDtype weft_model_config_get_dtype (WeftModelConfig *self);
WEFT_PUBLIC JsonNode *weft_model_config_to_json (WeftModelConfig *self);

WEFT_PUBLIC WeftModelConfig *weft_model_config_get_nested (WeftModelConfig *self, const gchar *name,
                                                           GError **error);
WEFT_PUBLIC JsonNode *weft_model_config_lookup (WeftModelConfig *self, const gchar *path, GError **error);
WEFT_PUBLIC gboolean weft_model_config_get_int (WeftModelConfig *self, const gchar *path, gint64 *value,
                                                GError **error);

G_END_DECLS
