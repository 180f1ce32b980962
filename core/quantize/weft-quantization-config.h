/* SPDX-License-Identifier: Apache-2.0 */
/* What a config says of the quantisation of its checkpoint, or what a caller asks for. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-dtype.h"

G_BEGIN_DECLS

#define WEFT_TYPE_QUANTIZATION_CONFIG (weft_quantization_config_get_type ())

/**
 * WeftQuantizationConfig:
 *
 * The `quantization_config` of a checkpoint, wherever in its `config.json` it stands; or the scheme and the parameters
 * that a caller wants a dense checkpoint quantised with. Read-only.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftQuantizationConfig, weft_quantization_config, WEFT, QUANTIZATION_CONFIG, GObject)

WEFT_PUBLIC WeftQuantizationConfig *weft_quantization_config_new (JsonNode *model_config);
WEFT_PUBLIC WeftQuantizationConfig *
weft_quantization_config_new_for_scheme (const gchar *scheme, JsonNode *parameters, JsonNode *model_config);
WEFT_PUBLIC void weft_quantization_config_add_metadata (WeftQuantizationConfig *self, const gchar *name,
                                                        const gchar *value);

/* What it is. */
WEFT_PUBLIC gboolean weft_quantization_config_is_there (WeftQuantizationConfig *self);
WEFT_PUBLIC const gchar *weft_quantization_config_get_path (WeftQuantizationConfig *self);
WEFT_PUBLIC const gchar *weft_quantization_config_get_method (WeftQuantizationConfig *self);
WEFT_PUBLIC const gchar *weft_quantization_config_get_scheme (WeftQuantizationConfig *self);
WEFT_PUBLIC JsonNode *weft_quantization_config_get_node (WeftQuantizationConfig *self);
WEFT_PUBLIC JsonNode *weft_quantization_config_get_model_config (WeftQuantizationConfig *self);
WEFT_PUBLIC WeftDtype weft_quantization_config_get_default_dtype (WeftQuantizationConfig *self);
WEFT_PUBLIC const gchar *weft_quantization_config_get_metadata (WeftQuantizationConfig *self,
                                                                const gchar *name);

/* Its fields, by dotted path. */
WEFT_PUBLIC JsonNode *weft_quantization_config_lookup (WeftQuantizationConfig *self,
                                                       const gchar *dotted_path);
WEFT_PUBLIC gboolean weft_quantization_config_lookup_int (WeftQuantizationConfig *self,
                                                          const gchar *dotted_path, gint64 *value);
WEFT_PUBLIC const gchar *weft_quantization_config_lookup_string (WeftQuantizationConfig *self,
                                                                 const gchar *dotted_path);
WEFT_PUBLIC gboolean weft_quantization_config_lookup_boolean (WeftQuantizationConfig *self,
                                                              const gchar *dotted_path, gboolean fallback);

/* The scheme. */
WEFT_PUBLIC gboolean weft_quantization_config_check_scheme (WeftQuantizationConfig *self,
                                                            const gchar *const *schemes, GError **error);

/* Modules that are left dense. */
WEFT_PUBLIC gboolean weft_quantization_config_is_module_skipped (WeftQuantizationConfig *self,
                                                                 const gchar *path);
WEFT_PUBLIC gboolean weft_quantization_config_check_entry (const gchar *entry, GError **error);
WEFT_PUBLIC gboolean weft_quantization_config_matches_module (const gchar *entry, const gchar *path);

G_END_DECLS
