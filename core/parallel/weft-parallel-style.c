/* SPDX-License-Identifier: Apache-2.0 */
#include "parallel/weft-parallel-style-private.h"

#include <string.h>

/* What a style does to the tensors of a layer: (out, in) weights, stacks (experts, out, in) of them, and their biases. */
typedef enum
{
  LAYOUT_WHOLE,
  LAYOUT_COLUMNS,
  LAYOUT_PACKED_COLUMNS,
  LAYOUT_SEGMENTED_COLUMNS,
  LAYOUT_ROWS,
  LAYOUT_PACKED_ROWS,
  LAYOUT_VOCABULARY,
  LAYOUT_FEATURES,
  LAYOUT_EXPERTS,
} Layout;

struct _WeftParallelStyle
{
  const gchar *name;
  Layout layout;
  WeftParallelKind kind;
};

static const WeftParallelStyle styles[] = {
  { "colwise", LAYOUT_COLUMNS, WEFT_PARALLEL_KIND_TENSOR },
  { "colwise_rep", LAYOUT_COLUMNS, WEFT_PARALLEL_KIND_TENSOR },
  { "colwise_gather_output", LAYOUT_COLUMNS, WEFT_PARALLEL_KIND_TENSOR },
  { "packed_colwise", LAYOUT_PACKED_COLUMNS, WEFT_PARALLEL_KIND_TENSOR },
  { "colwise_segments", LAYOUT_SEGMENTED_COLUMNS, WEFT_PARALLEL_KIND_TENSOR },
  { "rowwise", LAYOUT_ROWS, WEFT_PARALLEL_KIND_TENSOR },
  { "rowwise_rep", LAYOUT_ROWS, WEFT_PARALLEL_KIND_TENSOR },
  { "rowwise_split_input", LAYOUT_ROWS, WEFT_PARALLEL_KIND_TENSOR },
  { "packed_rowwise", LAYOUT_PACKED_ROWS, WEFT_PARALLEL_KIND_TENSOR },
  { "embedding_rowwise", LAYOUT_VOCABULARY, WEFT_PARALLEL_KIND_TENSOR },
  { "embedding_colwise", LAYOUT_FEATURES, WEFT_PARALLEL_KIND_TENSOR },
  { "grouped_gemm", LAYOUT_EXPERTS, WEFT_PARALLEL_KIND_EXPERT },
  { "ep_dispatch_experts", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_EXPERT },
  { "sequence_parallel", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "all_reduce", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "mla_kv_a_proj", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "replicated_with_grad_allreduce", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "moe_tp_experts", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "moe_identity_expert", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "local_params", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
  { "replicate", LAYOUT_WHOLE, WEFT_PARALLEL_KIND_TENSOR },
};

GStrv
weft_parallel_style_list_names (void)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();

  for (guint i = 0; i < G_N_ELEMENTS (styles); i++)
    g_strv_builder_add (builder, styles[i].name);
  return g_strv_builder_end (builder);
}

const WeftParallelStyle *
weft_parallel_style_find (const gchar *name, GError **error)
{
  g_auto (GStrv) names = NULL;
  g_autofree gchar *list = NULL;

  for (guint i = 0; i < G_N_ELEMENTS (styles); i++)
    if (strcmp (styles[i].name, name) == 0)
      return &styles[i];
  if (strcmp (name, "ep_router") == 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "the style 'ep_router' is no more; give the module of the experts 'ep_dispatch_experts'");
      return NULL;
    }
  names = weft_parallel_style_list_names ();
  list = g_strjoinv (", ", names);
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
               "'%s' is no style; styles are %s, or a placement such as shard:0", name, list);
  return NULL;
}

const gchar *
weft_parallel_style_get_name (const WeftParallelStyle *self)
{
  return self->name;
}

WeftParallelKind
weft_parallel_style_get_kind (const WeftParallelStyle *self)
{
  return self->kind;
}

gboolean
weft_parallel_style_is_even (const WeftParallelStyle *self)
{
  return self->layout == LAYOUT_EXPERTS;
}

static const gchar *
find_last_component (const gchar *name)
{
  const gchar *dot = strrchr (name, '.');

  return dot != NULL ? dot + 1 : name;
}

/* The biases of all experts, a row each. */
static gboolean
is_expert_bias (const gchar *name, const WeftShape *shape)
{
  return shape->rank == 2 && g_str_has_suffix (find_last_component (name), "bias");
}

/* Whether @name is `MODULE.PARAMETER` with a module, or is a parameter, of one of these names. */
static gboolean
is_of (const gchar *name, const gchar *const *modules)
{
  g_auto (GStrv) components = g_strsplit (name, ".", -1);
  guint n = g_strv_length (components);

  return g_strv_contains (modules, components[n - 1])
         || (n > 1 && g_strv_contains (modules, components[n - 2]));
}

/* The axis that holds what a layer gives out; -1: it has none of its own on each rank. */
static gint
find_out_axis (const gchar *name, const WeftShape *shape)
{
  if (is_expert_bias (name, shape))
    return 1;
  return shape->rank == 1 ? 0 : (gint) shape->rank - 2;
}

/* The axis that holds what a layer takes in. A bias is added once, after the sum over ranks. */
static gint
find_in_axis (const gchar *name, const WeftShape *shape, gboolean is_packed)
{
  if (is_expert_bias (name, shape)
      || (shape->rank == 1 && (is_packed || strcmp (find_last_component (name), "bias") == 0)))
    return -1;
  return (gint) shape->rank - 1;
}

/* With more ranks than key and value heads, several ranks hold the same head, each a whole one. */
static WeftPlacement *
place_columns (const gchar *name, const WeftShape *shape, const WeftHeads *heads, guint n_ranks)
{
  static const gchar *const kv_modules[] = { "k_proj", "v_proj", "key", "value", "k", "v", NULL };
  gint axis = find_out_axis (name, shape);
  gint64 n = shape->dims[axis];
  g_autoptr (GArray) segments = NULL;
  WeftSegment segment = { n, 1, TRUE };

  if (heads->n_kv_heads <= 0 || heads->n_kv_heads >= n_ranks || n == 0 || n % heads->n_kv_heads != 0
      || !is_of (name, kv_modules))
    return weft_placement_new_shard (axis, 1);
  segment.unit = n / heads->n_kv_heads;
  segments = g_array_new (FALSE, FALSE, sizeof (WeftSegment));
  g_array_append_val (segments, segment);
  return weft_placement_new_segments (axis, g_steal_pointer (&segments));
}

/* Query, key and value one after the other, each cut on its own. */
static WeftPlacement *
place_segments (const gchar *name, const WeftShape *shape, const WeftHeads *heads, guint n_ranks,
                GError **error)
{
  gint axis = find_out_axis (name, shape);
  gint64 n = shape->dims[axis];
  gint64 n_rows = heads->n_heads > 0 && heads->n_kv_heads > 0 && heads->n_heads < G_MAXINT32
                          && heads->n_kv_heads < G_MAXINT32
                      ? heads->n_heads + 2 * heads->n_kv_heads
                      : 0;
  g_autoptr (GArray) segments = g_array_new (FALSE, FALSE, sizeof (WeftSegment));
  gint64 head_dim;

  if (n_rows == 0 || n % n_rows != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "colwise_segments cuts query, key and value each on its own, and %" G_GINT64_FORMAT
                   " rows are not those of %" G_GINT64_FORMAT " query and %" G_GINT64_FORMAT
                   " key and value heads (num_attention_heads and num_key_value_heads of the config)",
                   n, heads->n_heads, heads->n_kv_heads);
      return NULL;
    }
  head_dim = n / n_rows;
  for (guint i = 0; i < 3; i++)
    {
      gboolean spreads = i > 0 && heads->n_kv_heads < n_ranks;
      WeftSegment segment = { (i == 0 ? heads->n_heads : heads->n_kv_heads) * head_dim, 1, spreads };

      if (spreads)
        segment.unit = MAX (head_dim, 1);
      g_array_append_val (segments, segment);
    }
  return weft_placement_new_segments (axis, g_steal_pointer (&segments));
}

WeftPlacement *
weft_parallel_style_place (const WeftParallelStyle *self, const gchar *name, const WeftShape *shape,
                           const WeftHeads *heads, guint n_ranks, GError **error)
{
  if (shape->rank == 0)
    return weft_placement_new_whole ();
  switch (self->layout)
    {
    case LAYOUT_COLUMNS:
      return place_columns (name, shape, heads, n_ranks);
    case LAYOUT_PACKED_COLUMNS:
      return weft_placement_new_shard (find_out_axis (name, shape), 2);
    case LAYOUT_SEGMENTED_COLUMNS:
      return place_segments (name, shape, heads, n_ranks, error);
    case LAYOUT_ROWS:
      return weft_placement_new_shard (find_in_axis (name, shape, FALSE), 1);
    case LAYOUT_PACKED_ROWS:
      return weft_placement_new_shard (find_in_axis (name, shape, TRUE), 2);
    case LAYOUT_FEATURES:
      if (shape->rank > 1)
        return weft_placement_new_shard (1, 1);
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "embedding_colwise cuts axis 1, and the tensor has one axis");
      return NULL;
    case LAYOUT_VOCABULARY:
    case LAYOUT_EXPERTS:
      return weft_placement_new_shard (0, 1);
    case LAYOUT_WHOLE:
    default:
      return weft_placement_new_whole ();
    }
}
