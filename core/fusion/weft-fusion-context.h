/* SPDX-License-Identifier: Apache-2.0 */
/* What a fusion may ask about the module that it replaces, and about the model. Read-only. */
#pragma once

#include <json-glib/json-glib.h>

#include "model/weft-module.h"

G_BEGIN_DECLS

#define WEFT_TYPE_FUSION_CONTEXT (weft_fusion_context_get_type ())

/**
 * WeftFusionContext:
 *
 * The module that is replaced, as it was, its path, and the config of the model.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftFusionContext, weft_fusion_context, WEFT, FUSION_CONTEXT, GObject)

WEFT_PUBLIC WeftFusionContext *weft_fusion_context_new (WeftModule *module, const gchar *fqn,
                                                        JsonNode *config, const gchar *where);

WEFT_PUBLIC WeftModule *weft_fusion_context_get_module (WeftFusionContext *self);
WEFT_PUBLIC const gchar *weft_fusion_context_get_fqn (WeftFusionContext *self);
WEFT_PUBLIC JsonNode *weft_fusion_context_get_config (WeftFusionContext *self);
WEFT_PUBLIC const gchar *weft_fusion_context_get_where (WeftFusionContext *self);
WEFT_PUBLIC JsonNode *weft_fusion_context_lookup (WeftFusionContext *self, const gchar *dotted_path);
WEFT_PUBLIC gboolean weft_fusion_context_read_int (WeftFusionContext *self, const gchar *dotted_path,
                                                   gint64 *value, GError **error);
WEFT_PUBLIC gboolean weft_fusion_context_has_tensor (WeftFusionContext *self, const gchar *name);

G_END_DECLS
