/* SPDX-License-Identifier: Apache-2.0 */
/* What most ops ask of their inputs and do with their outputs, with errors that name the gap. */
#pragma once

#include "tensor/weft-tensor-groups.h"
#include "transform/weft-op-context.h"

G_BEGIN_DECLS

/* Inputs. */
WEFT_PUBLIC WeftTensor *weft_op_get_tensor (WeftTensorGroups *inputs, guint group, GError **error);
WEFT_PUBLIC WeftTensor *weft_op_get_only_tensor (WeftTensorGroups *inputs, GError **error);
WEFT_PUBLIC gboolean weft_op_find_source (WeftTensorGroups *inputs, WeftOpContext *context,
                                          guint source_pattern, guint *group, GError **error);

/* Layout. */
WEFT_PUBLIC WeftTensor *weft_op_transpose_within_axis (WeftTensor *tensor, gint axis, gint64 n_blocks,
                                                       gint64 n_rows, gint64 n_columns, gint64 run,
                                                       GError **error);
WEFT_PUBLIC GPtrArray *weft_op_split_evenly (WeftTensor *tensor, gint axis, gint64 n_parts, GError **error);
WEFT_PUBLIC GPtrArray *weft_op_unstack (WeftTensor *tensor, gint axis, GError **error);

/* Names of outputs. */
WEFT_PUBLIC const gchar *weft_op_get_only_target (WeftOpContext *context, GError **error);
WEFT_PUBLIC const gchar *weft_op_get_output_name (WeftOpContext *context, GError **error);
WEFT_PUBLIC gchar *weft_op_expand_star (const gchar *pattern, guint number);
WEFT_PUBLIC WeftTensorGroups *weft_op_new_output (const gchar *name, WeftTensor *tensor);
WEFT_PUBLIC gboolean weft_op_add_output (WeftTensorGroups *outputs, const gchar *name, WeftTensor *tensor,
                                         GError **error);
WEFT_PUBLIC void weft_op_copy_group (WeftTensorGroups *outputs, const gchar *name, WeftTensorGroups *inputs,
                                     guint group);

G_END_DECLS
