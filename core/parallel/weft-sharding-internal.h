/* SPDX-License-Identifier: Apache-2.0 */
/* A plan applied to the tensors of a model: what each of several ranks holds. Internal to the library: not installed. */
#pragma once

#include "parallel/weft-parallel-plan.h"
#include "parallel/weft-slice-internal.h"
#include "quantize/weft-packed-weights.h"

/* Sizes of a mesh, outermost first: tensors are cut over the innermost @tp_size ranks, experts over the innermost @ep_size; a placement that
 * the plan writes out is cut over @sizes. */
#define WEFT_MAX_MESH 4

typedef struct
{
  guint sizes[WEFT_MAX_MESH];
  guint n_sizes;
  guint tp_size;
  guint ep_size;
} WeftMesh;

guint weft_mesh_get_world_size (const WeftMesh *self);

typedef struct _WeftSharding WeftSharding;

/* What a rank holds in all, in bytes; and what it lacks of the rank that holds most. */
typedef struct
{
  guint64 n_bytes;
  guint n_tensors;
} WeftRankShare;

/* @packed: (nullable): the packed weights among @tensors. @tree: (nullable): the model. @has_names: a rule may also be for a tensor that
 * the model has and @tensors lack. @config: (nullable): its config. */
WeftSharding *weft_sharding_new (WeftStateDict *tensors, WeftPackedWeights *packed, WeftParallelPlan *plan,
                                 const WeftMesh *mesh, WeftModuleTree *tree, gboolean has_names,
                                 JsonNode *config, GError **error);
void weft_sharding_free (WeftSharding *self);

const WeftMesh *weft_sharding_get_mesh (WeftSharding *self);
/* What @rank holds of a tensor; @is_owned: FALSE for an expert that is another rank's. */
gboolean weft_sharding_find_slice (WeftSharding *self, guint position, guint rank, WeftSlice *slice,
                                   gboolean *is_owned, GError **error);
/* The style of a tensor, as its rule has it; NULL: no rule is for it. */
const gchar *weft_sharding_get_style (WeftSharding *self, guint position);
WeftRankShare weft_sharding_count_share (WeftSharding *self, guint rank);
/* Elements that all ranks together would need more, if each held as much of the tensor as the one that holds most. */
gint64 weft_sharding_count_padding (WeftSharding *self, guint position);
/* What a person should know: pairs of a name and a sentence. */
GPtrArray *weft_sharding_get_notes (WeftSharding *self);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (WeftSharding, weft_sharding_free)
