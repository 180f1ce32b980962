/* SPDX-License-Identifier: Apache-2.0 */
/* Named groups of lazy tensors: what an op takes and what it gives. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

#define WEFT_TYPE_TENSOR_GROUPS (weft_tensor_groups_get_type ())

/**
 * WeftTensorGroups:
 *
 * An ordered map from a name (a pattern, or a full tensor name) to one tensor or to a list of tensors.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftTensorGroups, weft_tensor_groups, WEFT, TENSOR_GROUPS, GObject)

WEFT_PUBLIC WeftTensorGroups *weft_tensor_groups_new (void);
WEFT_PUBLIC void weft_tensor_groups_set (WeftTensorGroups *self, const gchar *name, WeftTensor *tensor);
WEFT_PUBLIC void weft_tensor_groups_append (WeftTensorGroups *self, const gchar *name, WeftTensor *tensor,
                                            const gchar *origin);
WEFT_PUBLIC void weft_tensor_groups_append_list (WeftTensorGroups *self, const gchar *name);
WEFT_PUBLIC guint weft_tensor_groups_get_n_groups (WeftTensorGroups *self);
WEFT_PUBLIC const gchar *weft_tensor_groups_get_name (WeftTensorGroups *self, guint group);
WEFT_PUBLIC gboolean weft_tensor_groups_is_list (WeftTensorGroups *self, guint group);
WEFT_PUBLIC guint weft_tensor_groups_get_n_tensors (WeftTensorGroups *self, guint group);
WEFT_PUBLIC WeftTensor *weft_tensor_groups_get_tensor (WeftTensorGroups *self, guint group, guint position);
WEFT_PUBLIC const gchar *weft_tensor_groups_get_origin (WeftTensorGroups *self, guint group, guint position);
WEFT_PUBLIC gboolean weft_tensor_groups_find (WeftTensorGroups *self, const gchar *name, guint *group);

G_END_DECLS
