/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of query and key projections between the two layouts of rotary embeddings: pairs side by side, or halves. */
#include "weft.h"

#include <string.h>

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gchar *subconfig_key;
  GStrv permute_layer_names;
  gboolean inverse;
  gchar *num_heads_attribute;
} WeftRopePermute;

typedef struct
{
  WeftConversionOpsBase parent_instance;
  gint64 dim;
  GStrv permute_layer_names;
  gboolean inverse;
} WeftRopeVisionUnfuse;

typedef WeftRopeVisionUnfuse WeftRopeVisionFuse;

WEFT_DEFINE_OP (WeftRopePermute, weft_rope_permute)
WEFT_DEFINE_OP (WeftRopeVisionUnfuse, weft_rope_vision_unfuse)
WEFT_DEFINE_OP (WeftRopeVisionFuse, weft_rope_vision_fuse)

#define VISION_CONFIG "vision_config"
#define NUM_HEADS "num_attention_heads"

/* The permutation */

/* A field of the sub-config if there is one, otherwise of the config. */
static gboolean
lookup_int (WeftOpContext *context, const gchar *subconfig_key, const gchar *field, gint64 *value)
{
  JsonNode *config = weft_op_context_get_config (context);
  g_autofree gchar *path = subconfig_key != NULL ? g_strconcat (subconfig_key, ".", field, NULL) : NULL;

  if (subconfig_key == NULL || weft_json_lookup (config, subconfig_key) == NULL)
    return weft_op_context_lookup_config_int (context, field, value);
  return weft_op_context_lookup_config_int (context, path, value);
}

/* Rows of one head, where the config tells: `head_dim`, and the hidden size over the (query) heads. Configs may hold a
 * `head_dim` that the model does not use, so both are possible. Returns how many there are. */
static guint
lookup_head_sizes (WeftOpContext *context, const gchar *subconfig_key, gint64 sizes[2])
{
  gint64 head_dim, hidden_size, n_heads;
  guint n_sizes = 0;

  if (lookup_int (context, subconfig_key, "head_dim", &head_dim) && head_dim > 0)
    sizes[n_sizes++] = head_dim;
  if (lookup_int (context, subconfig_key, "hidden_size", &hidden_size)
      && lookup_int (context, subconfig_key, NUM_HEADS, &n_heads) && n_heads > 0 && hidden_size >= n_heads
      && hidden_size % n_heads == 0 && (n_sizes == 0 || sizes[0] != hidden_size / n_heads))
    sizes[n_sizes++] = hidden_size / n_heads;
  return n_sizes;
}

static gboolean
is_product (gint64 n_rows, gint64 n_heads, const gint64 *sizes, guint n_sizes)
{
  for (guint i = 0; i < n_sizes; i++)
    if (n_rows % sizes[i] == 0 && n_rows / sizes[i] == n_heads)
      return TRUE;
  return FALSE;
}

/* Permuting keys with the number of query heads gives a wrong model and no error, so the rows are counted. */
static gboolean
check_rows (gint64 n_rows, gint64 n_heads, const gchar *attribute, WeftOpContext *context,
            const gchar *subconfig_key, GError **error)
{
  static const gchar *const attributes[] = { NUM_HEADS, "num_key_value_heads" };
  g_autoptr (GString) problem = NULL;
  gint64 sizes[2];
  guint n_sizes = lookup_head_sizes (context, subconfig_key, sizes);
  gint64 value;

  if (n_sizes == 0 || is_product (n_rows, n_heads, sizes, n_sizes))
    return TRUE;
  problem = g_string_new (NULL);
  g_string_append_printf (
      problem, "%" G_GINT64_FORMAT " rows are not %s (%" G_GINT64_FORMAT ") heads of %" G_GINT64_FORMAT,
      n_rows, attribute, n_heads, sizes[0]);
  if (n_sizes > 1)
    g_string_append_printf (problem, " or %" G_GINT64_FORMAT, sizes[1]);
  for (guint i = 0; i < G_N_ELEMENTS (attributes); i++)
    if (lookup_int (context, subconfig_key, attributes[i], &value)
        && is_product (n_rows, value, sizes, n_sizes))
      {
        g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                     "%s: set num_heads_attribute to '%s' (%" G_GINT64_FORMAT ")", problem->str,
                     attributes[i], value);
        return FALSE;
      }
  g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE, "%s", problem->str);
  return FALSE;
}

static WeftTensor *
permute_rows (WeftTensor *tensor, gboolean inverse, const gchar *attribute, const gchar *subconfig_key,
              WeftOpContext *context, GError **error)
{
  gint64 n_heads = 1;
  gint64 n_rows, half;

  if (weft_tensor_get_rank (tensor) < 1 || weft_tensor_get_rank (tensor) > 2)
    return weft_tensor_ref (tensor);
  lookup_int (context, subconfig_key, attribute, &n_heads);
  n_rows = weft_tensor_get_dim (tensor, 0);
  if (!check_rows (n_rows, n_heads, attribute, context, subconfig_key, error))
    return NULL;
  if (n_heads < 1 || n_heads > G_MAXINT32 || n_rows % (2 * n_heads) != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_SHAPE,
                   "%" G_GINT64_FORMAT " rows do not divide by 2 x %" G_GINT64_FORMAT " heads (%s)", n_rows,
                   n_heads, attribute);
      return NULL;
    }
  half = n_rows / n_heads / 2;
  return weft_op_transpose_within_axis (tensor, 0, n_heads, inverse ? 2 : half, inverse ? half : 2, 1, error);
}

/* Whether the names to permute, or their absence, say that this entry is one. */
static gboolean
is_named (const gchar *const *names, const gchar *entry)
{
  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    if (strstr (entry, names[i]) != NULL)
      return TRUE;
  return names == NULL;
}

/* PermuteForRope */

static WeftTensorGroups *
weft_rope_permute_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                           GError **error)
{
  WeftRopePermute *self = (WeftRopePermute *) base;
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  guint n_sources = weft_op_context_get_n_source_patterns (context);

  if (n_sources > 1 && n_targets > 1)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT,
                   "expected one source or one target pattern, found %u and %u", n_sources, n_targets);
      return NULL;
    }
  for (guint i = 0; i < weft_tensor_groups_get_n_groups (inputs); i++)
    {
      const gchar *entry = weft_tensor_groups_get_name (inputs, i);
      const gchar *name =
          n_sources <= 1 && n_targets == 1 ? weft_op_context_get_target_pattern (context, 0) : entry;
      gboolean is_permuted = is_named ((const gchar *const *) self->permute_layer_names, entry);
      WeftTensor *tensor = is_permuted ? weft_op_get_tensor (inputs, i, error) : NULL;
      g_autoptr (WeftTensor) permuted = NULL;

      if (!is_permuted)
        {
          weft_op_copy_group (outputs, name, inputs, i);
          continue;
        }
      if (tensor != NULL)
        permuted = permute_rows (tensor, self->inverse, self->num_heads_attribute, self->subconfig_key,
                                 context, error);
      if (permuted == NULL || !weft_op_add_output (outputs, name, permuted, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftConversionOpsBase *
weft_rope_permute_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  WeftRopePermute *self = (WeftRopePermute *) base;

  return g_object_new (weft_rope_permute_get_type (), "subconfig-key", self->subconfig_key,
                       "permute-layer-names", self->permute_layer_names, "inverse", !self->inverse,
                       "num-heads-attribute", self->num_heads_attribute, NULL);
}

static void
weft_rope_permute_class_init (WeftRopePermuteClass *klass)
{
  WeftConversionOpsBaseClass *base_class = &klass->parent_class;

  base_class->convert = weft_rope_permute_convert;
  base_class->dup_inverse = weft_rope_permute_dup_inverse;
  base_class->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_string (base_class, "subconfig-key", "Sub-config",
                            "Part of the config that holds the number of heads", NULL,
                            G_STRUCT_OFFSET (WeftRopePermute, subconfig_key));
  weft_op_class_add_strings (base_class, "permute-layer-names", "Layers",
                             "Only entries whose name contains one of these",
                             G_STRUCT_OFFSET (WeftRopePermute, permute_layer_names));
  weft_op_class_add_boolean (base_class, "inverse", "Inverse", "From halves to pairs", FALSE,
                             G_STRUCT_OFFSET (WeftRopePermute, inverse));
  weft_op_class_add_string (base_class, "num-heads-attribute", "Number of heads",
                            "Field of the config that holds the number of heads", NUM_HEADS,
                            G_STRUCT_OFFSET (WeftRopePermute, num_heads_attribute));
  weft_op_class_set_parameter_flags (base_class, "num-heads-attribute", WEFT_OP_PARAMETER_FLAGS_EXTENSION);
}

/* VisionUnfuseAndPermuteForRope, VisionFuseAndPermuteForRope */

/* @tensor, permuted if @name says so. */
static WeftTensor *
permute_if_named (WeftRopeVisionUnfuse *self, const gchar *name, WeftTensor *tensor, WeftOpContext *context,
                  GError **error)
{
  if (!is_named ((const gchar *const *) self->permute_layer_names, name))
    return weft_tensor_ref (tensor);
  return permute_rows (tensor, self->inverse, NUM_HEADS, VISION_CONFIG, context, error);
}

static WeftTensorGroups *
weft_rope_vision_unfuse_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs,
                                 WeftOpContext *context, GError **error)
{
  WeftRopeVisionUnfuse *self = (WeftRopeVisionUnfuse *) base;
  g_autoptr (WeftTensorGroups) outputs = weft_tensor_groups_new ();
  guint n_targets = weft_op_context_get_n_target_patterns (context);
  WeftTensor *fused = weft_op_get_only_tensor (inputs, error);
  g_autoptr (GPtrArray) parts =
      fused != NULL ? weft_op_split_evenly (fused, (gint) self->dim, n_targets, error) : NULL;

  if (parts == NULL)
    return NULL;
  for (guint i = 0; i < n_targets; i++)
    {
      const gchar *name = weft_op_context_get_target_pattern (context, i);
      g_autoptr (WeftTensor) permuted = permute_if_named (self, name, parts->pdata[i], context, error);

      if (permuted == NULL || !weft_op_add_output (outputs, name, permuted, error))
        return NULL;
    }
  return g_steal_pointer (&outputs);
}

static WeftTensorGroups *
weft_rope_vision_fuse_convert (WeftConversionOpsBase *base, WeftTensorGroups *inputs, WeftOpContext *context,
                               GError **error)
{
  WeftRopeVisionFuse *self = (WeftRopeVisionFuse *) base;
  g_autoptr (GPtrArray) parts = g_ptr_array_new_with_free_func ((GDestroyNotify) weft_tensor_unref);
  g_autoptr (WeftTensor) fused = NULL;
  const gchar *name = weft_op_get_only_target (context, error);

  for (guint i = 0; name != NULL && i < weft_op_context_get_n_source_patterns (context); i++)
    {
      guint group;
      WeftTensor *part = weft_op_find_source (inputs, context, i, &group, error)
                             ? weft_op_get_tensor (inputs, group, error)
                             : NULL;
      WeftTensor *permuted =
          part != NULL
              ? permute_if_named (self, weft_tensor_groups_get_name (inputs, group), part, context, error)
              : NULL;

      if (permuted == NULL)
        return NULL;
      g_ptr_array_add (parts, permuted);
    }
  fused = name != NULL
              ? weft_tensor_concat ((WeftTensor **) parts->pdata, parts->len, (gint) self->dim, error)
              : NULL;
  return fused != NULL ? weft_op_new_output (name, fused) : NULL;
}

static WeftConversionOpsBase *
invert_vision_op (WeftConversionOpsBase *base, GType type)
{
  WeftRopeVisionUnfuse *self = (WeftRopeVisionUnfuse *) base;

  return g_object_new (type, "dim", self->dim, "permute-layer-names", self->permute_layer_names, "inverse",
                       !self->inverse, NULL);
}

static WeftConversionOpsBase *
weft_rope_vision_unfuse_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return invert_vision_op (base, weft_rope_vision_fuse_get_type ());
}

static WeftConversionOpsBase *
weft_rope_vision_fuse_dup_inverse (WeftConversionOpsBase *base, GError **error)
{
  return invert_vision_op (base, weft_rope_vision_unfuse_get_type ());
}

static void
add_vision_parameters (WeftConversionOpsBaseClass *klass, gboolean is_inverse)
{
  klass->thread_policy = WEFT_THREAD_POLICY_ANY;
  weft_op_class_add_int (klass, "dim", "Axis", "Axis of the fused projection", -WEFT_MAX_RANK,
                         WEFT_MAX_RANK - 1, 0, G_STRUCT_OFFSET (WeftRopeVisionUnfuse, dim));
  weft_op_class_add_strings (klass, "permute-layer-names", "Layers",
                             "Only entries whose name contains one of these",
                             G_STRUCT_OFFSET (WeftRopeVisionUnfuse, permute_layer_names));
  weft_op_class_add_boolean (klass, "inverse", "Inverse", "From halves to pairs", is_inverse,
                             G_STRUCT_OFFSET (WeftRopeVisionUnfuse, inverse));
}

static void
weft_rope_vision_unfuse_class_init (WeftRopeVisionUnfuseClass *klass)
{
  klass->parent_class.convert = weft_rope_vision_unfuse_convert;
  klass->parent_class.dup_inverse = weft_rope_vision_unfuse_dup_inverse;
  add_vision_parameters (&klass->parent_class, FALSE);
}

static void
weft_rope_vision_fuse_class_init (WeftRopeVisionFuseClass *klass)
{
  klass->parent_class.convert = weft_rope_vision_fuse_convert;
  klass->parent_class.dup_inverse = weft_rope_vision_fuse_dup_inverse;
  add_vision_parameters (&klass->parent_class, TRUE);
}

WEFT_PLUGIN_DEFINE (
    "rope", "Reorders the rows of attention projections for rotary embeddings", NULL, PACKAGE_VERSION,
    "Apache-2.0", PACKAGE_ORIGIN, WEFT_PLUGIN_OP ("PermuteForRope", WeftRopePermute, weft_rope_permute),
    WEFT_PLUGIN_OP ("VisionUnfuseAndPermuteForRope", WeftRopeVisionUnfuse, weft_rope_vision_unfuse),
    WEFT_PLUGIN_OP ("VisionFuseAndPermuteForRope", WeftRopeVisionFuse, weft_rope_vision_fuse));
