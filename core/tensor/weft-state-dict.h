/* SPDX-License-Identifier: Apache-2.0 */
/* An ordered map from tensor name to lazy tensor: what every stage of a conversion takes and gives. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

#define WEFT_TYPE_STATE_DICT (weft_state_dict_get_type ())

/**
 * WeftStateDict:
 *
 * An ordered map from tensor name to lazy tensor. Iteration is in insertion order until it is sorted.
 *
 * Since: 1.0
 */
WEFT_PUBLIC
G_DECLARE_FINAL_TYPE (WeftStateDict, weft_state_dict, WEFT, STATE_DICT, GObject)

WEFT_PUBLIC WeftStateDict *weft_state_dict_new (void);
WEFT_PUBLIC gboolean weft_state_dict_add (WeftStateDict *self, const gchar *name, WeftTensor *tensor,
                                          GError **error);
WEFT_PUBLIC guint weft_state_dict_get_n_tensors (WeftStateDict *self);
WEFT_PUBLIC const gchar *weft_state_dict_get_name (WeftStateDict *self, guint position);
WEFT_PUBLIC WeftTensor *weft_state_dict_get_tensor (WeftStateDict *self, guint position);
WEFT_PUBLIC WeftTensor *weft_state_dict_lookup (WeftStateDict *self, const gchar *name);
WEFT_PUBLIC gboolean weft_state_dict_find (WeftStateDict *self, const gchar *name, guint *position);
WEFT_PUBLIC void weft_state_dict_sort_natural (WeftStateDict *self);

G_END_DECLS
