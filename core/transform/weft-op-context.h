/* SPDX-License-Identifier: Apache-2.0 */
/* What an op may ask about the conversion it is part of. Read-only while the op runs. */
#pragma once

#include <json-glib/json-glib.h>

#include "base/weft-shape.h"
#include "tensor/weft-state-dict.h"

G_BEGIN_DECLS

#define WEFT_TYPE_OP_CONTEXT (weft_op_context_get_type ())

/**
 * WeftOpContext:
 *
 * The patterns of the converter that runs an op, the name of the tensor it makes, the model's config and what is
 * known of the model's parameters.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftOpContext, weft_op_context, WEFT, OP_CONTEXT, GObject)

WEFT_PUBLIC WeftOpContext *weft_op_context_new (const gchar *const *source_patterns,
                                                const gchar *const *target_patterns);
WEFT_PUBLIC WeftOpContext *weft_op_context_new_with_sources (WeftOpContext *self,
                                                             const gchar *const *source_patterns);
WEFT_PUBLIC void weft_op_context_set_full_layer_name (WeftOpContext *self, const gchar *full_layer_name);
WEFT_PUBLIC void weft_op_context_set_config (WeftOpContext *self, JsonNode *config);
WEFT_PUBLIC void weft_op_context_share_parameters (WeftOpContext *self, WeftOpContext *other);
WEFT_PUBLIC void weft_op_context_set_state_dict (WeftOpContext *self, WeftStateDict *state_dict);
WEFT_PUBLIC void weft_op_context_add_parameter (WeftOpContext *self, const gchar *name,
                                                const WeftShape *shape, WeftDtype dtype);

WEFT_PUBLIC guint weft_op_context_get_n_source_patterns (WeftOpContext *self);
WEFT_PUBLIC const gchar *const *weft_op_context_get_source_patterns (WeftOpContext *self);
WEFT_PUBLIC const gchar *weft_op_context_get_source_pattern (WeftOpContext *self, guint position);
WEFT_PUBLIC guint weft_op_context_get_n_target_patterns (WeftOpContext *self);
WEFT_PUBLIC const gchar *const *weft_op_context_get_target_patterns (WeftOpContext *self);
WEFT_PUBLIC const gchar *weft_op_context_get_target_pattern (WeftOpContext *self, guint position);
WEFT_PUBLIC const gchar *weft_op_context_get_full_layer_name (WeftOpContext *self);
WEFT_PUBLIC JsonNode *weft_op_context_get_config (WeftOpContext *self);
WEFT_PUBLIC gboolean weft_op_context_lookup_config_int (WeftOpContext *self, const gchar *dotted_path,
                                                        gint64 *value);
WEFT_PUBLIC gboolean weft_op_context_lookup_text_config_int (WeftOpContext *self, const gchar *name,
                                                             gint64 *value);
WEFT_PUBLIC gboolean weft_op_context_has_parameters (WeftOpContext *self);
WEFT_PUBLIC WeftShape *weft_op_context_get_parameter_shape (WeftOpContext *self, const gchar *name);
WEFT_PUBLIC WeftDtype weft_op_context_get_parameter_dtype (WeftOpContext *self, const gchar *name);

G_END_DECLS
