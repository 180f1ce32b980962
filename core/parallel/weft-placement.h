/* SPDX-License-Identifier: Apache-2.0 */
/* How a tensor is spread over the ranks of a mesh. */
#pragma once

#include "tensor/weft-tensor.h"

G_BEGIN_DECLS

#define WEFT_TYPE_PLACEMENT (weft_placement_get_type ())

/**
 * WeftPlacement:
 *
 * For each dimension of a mesh of ranks, outermost first, which axis of a tensor it cuts and how. A cut is made on what the cuts
 * before it leave. One with fewer cuts than the mesh has dimensions cuts over the innermost ones. Immutable.
 *
 * Since: 1.0
 */
typedef struct _WeftPlacement WeftPlacement;

WEFT_PUBLIC GType weft_placement_get_type (void);
WEFT_PUBLIC WeftPlacement *weft_placement_new (const gchar *text, GError **error);
WEFT_PUBLIC WeftPlacement *weft_placement_copy (const WeftPlacement *self);
WEFT_PUBLIC void weft_placement_free (WeftPlacement *self);
WEFT_PUBLIC WeftTensor *weft_placement_cut (const WeftPlacement *self, WeftTensor *tensor, const guint *mesh,
                                            gsize n_mesh, guint rank, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftPlacement, weft_placement_free)

G_END_DECLS
