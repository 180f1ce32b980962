/* SPDX-License-Identifier: Apache-2.0 */
/* Query, key and value projections, which read the same input, as one: in three blocks, or interleaved, so that the queries, the key and
 * the value of each key-value group stand together, as Megatron wants them. */
#include <string.h>

#include "weft.h"

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
  gchar *layout;
} WeftQkv;

enum
{
  PROP_LAYOUT = 1,
};

static const gchar *const projections[] = { "q_proj", "k_proj", "v_proj" };

WEFT_DEFINE_FUSION (WeftQkv, weft_qkv)

static WeftTensorSpec *
find_part (WeftModule *module, guint projection, const gchar *tensor)
{
  g_autofree gchar *name = g_strdup_printf ("%s.%s", projections[projection], tensor);

  return weft_module_find_tensor (module, name);
}

/* Attention over other states than the queries' own cannot be one product. */
static gboolean
is_cross_attention (WeftModule *module)
{
  const gchar *name = weft_module_get_name (module);

  return name != NULL && (strstr (name, "cross") != NULL || strcmp (name, "encoder_attn") == 0);
}

/* All three have a weight over the same input, of one dtype, and all have a bias or none has. */
static gboolean
weft_qkv_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  guint n_biases = 0;
  WeftTensorSpec *first = find_part (module, 0, "weight");
  gint64 n_inputs = -1;

  for (guint i = 0; i < G_N_ELEMENTS (projections); i++)
    {
      WeftTensorSpec *weight = find_part (module, i, "weight");
      const WeftShape *shape = weight != NULL ? weft_tensor_spec_get_shape (weight) : NULL;

      if (shape == NULL || shape->rank != 2 || (n_inputs >= 0 && shape->dims[1] != n_inputs)
          || weft_tensor_spec_get_dtype (weight) != weft_tensor_spec_get_dtype (first))
        return FALSE;
      n_inputs = shape->dims[1];
      n_biases += find_part (module, i, "bias") != NULL;
    }
  return (n_biases == 0 || n_biases == G_N_ELEMENTS (projections)) && !is_cross_attention (module);
}

/* How many runs each projection is cut into: one, or the number of key-value heads. */
static gboolean
find_groups (WeftQkv *self, WeftFusionContext *context, gint64 *groups, GError **error)
{
  *groups = 1;
  if (strcmp (self->layout, "blocks") == 0)
    return TRUE;
  if (strcmp (self->layout, "interleaved") != 0)
    {
      g_set_error (error, WEFT_ERROR, WEFT_ERROR_ARGUMENT, "layout must be blocks or interleaved, found '%s'",
                   self->layout);
      return FALSE;
    }
  return weft_fusion_context_read_int (context, "num_key_value_heads", groups, NULL)
         || weft_fusion_context_read_int (context, "num_attention_heads", groups, error);
}

static gboolean
join (WeftTransformList *rules, WeftModule *module, const gchar *tensor, gint64 groups, GError **error)
{
  g_auto (GStrv) sources = g_new0 (gchar *, G_N_ELEMENTS (projections) + 1);
  g_autofree gchar *joined = g_strconcat ("^qkv_proj\\.", tensor, NULL);
  g_autoptr (GString) operations = g_string_new ("[{\"type\": \"Concatenate\", \"dim\": 0, \"sizes\": [");

  for (guint i = 0; i < G_N_ELEMENTS (projections); i++)
    {
      const WeftShape *shape = weft_tensor_spec_get_shape (find_part (module, i, tensor));

      sources[i] = g_strdup_printf ("^%s\\.%s", projections[i], tensor);
      g_string_append_printf (operations, "%s%" G_GINT64_FORMAT, i > 0 ? ", " : "", shape->dims[0]);
    }
  g_string_append_printf (operations, "], \"groups\": %" G_GINT64_FORMAT "}]", groups);
  return weft_fusion_append_converter (rules, (const gchar *const *) sources,
                                       (const gchar *const[]){ joined, NULL }, operations->str, error);
}

static WeftTransformList *
weft_qkv_make_transforms (WeftModuleFusionSpecBase *base, WeftFusionContext *context, GError **error)
{
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();
  WeftModule *module = weft_fusion_context_get_module (context);
  gint64 groups;

  if (!find_groups ((WeftQkv *) base, context, &groups, error)
      || !join (rules, module, "weight", groups, error)
      || (find_part (module, 0, "bias") != NULL && !join (rules, module, "bias", groups, error)))
    return NULL;
  return g_steal_pointer (&rules);
}

/* Whole groups can be cut off an interleaved projection; blocks are cut each on its own. */
static GVariant *
weft_qkv_list_parallel_styles (WeftModuleFusionSpecBase *base, WeftFusionContext *context)
{
  return g_variant_new_parsed (strcmp (((WeftQkv *) base)->layout, "blocks") == 0
                                   ? "{'qkv_proj': 'colwise_segments'}"
                                   : "{'qkv_proj': 'colwise'}");
}

static void
weft_qkv_set_property (GObject *object, guint id, const GValue *value, GParamSpec *pspec)
{
  WeftQkv *self = (WeftQkv *) object;

  g_free (self->layout);
  self->layout = g_value_dup_string (value);
}

static void
weft_qkv_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  g_value_set_string (value, ((WeftQkv *) object)->layout);
}

static void
weft_qkv_finalize (GObject *object)
{
  g_free (((WeftQkv *) object)->layout);
  G_OBJECT_CLASS (weft_qkv_parent_class)->finalize (object);
}

static void
weft_qkv_class_init (WeftQkvClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);

  object_class->set_property = weft_qkv_set_property;
  object_class->get_property = weft_qkv_get_property;
  object_class->finalize = weft_qkv_finalize;
  klass->parent_class.is_fusable = weft_qkv_is_fusable;
  klass->parent_class.make_transforms = weft_qkv_make_transforms;
  klass->parent_class.list_parallel_styles = weft_qkv_list_parallel_styles;
  g_object_class_install_property (
      object_class, PROP_LAYOUT,
      g_param_spec_string ("layout", "Layout", "blocks: query, key, value; interleaved: by key-value group",
                           "blocks", G_PARAM_READWRITE | G_PARAM_CONSTRUCT_ONLY | G_PARAM_STATIC_STRINGS));
}

WEFT_PLUGIN_DEFINE ("qkv", "Joins the query, key and value projections of attention", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN, WEFT_PLUGIN_FUSION ("qkv", WeftQkv, weft_qkv));
