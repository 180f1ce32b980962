/* SPDX-License-Identifier: Apache-2.0 */
/* Key and value projections of attention as one: what a server that keeps keys and values apart from queries reads. */
#include <weft.h>

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
} WeftKvExample;

WEFT_DEFINE_FUSION (WeftKvExample, weft_kv_example)

static gboolean
has_same_shape (WeftModule *module, const gchar *a, const gchar *b)
{
  WeftTensorSpec *first = weft_module_find_tensor (module, a);
  WeftTensorSpec *second = weft_module_find_tensor (module, b);

  if (first == NULL || second == NULL)
    return first == second;
  return weft_shape_equal (weft_tensor_spec_get_shape (first), weft_tensor_spec_get_shape (second));
}

static gboolean
weft_kv_example_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  return weft_module_find_tensor (module, "k_proj.weight") != NULL
         && has_same_shape (module, "k_proj.weight", "v_proj.weight")
         && has_same_shape (module, "k_proj.bias", "v_proj.bias");
}

static gboolean
join (WeftTransformList *rules, const gchar *tensor, GError **error)
{
  g_autofree gchar *key = g_strconcat ("^k_proj\\.", tensor, NULL);
  g_autofree gchar *value = g_strconcat ("^v_proj\\.", tensor, NULL);
  g_autofree gchar *joined = g_strconcat ("^kv_proj\\.", tensor, NULL);

  return weft_fusion_append_converter (rules, (const gchar *const[]){ key, value, NULL },
                                       (const gchar *const[]){ joined, NULL },
                                       "[{\"type\": \"Concatenate\", \"dim\": 0}]", error);
}

static WeftTransformList *
weft_kv_example_make_transforms (WeftModuleFusionSpecBase *base, WeftFusionContext *context, GError **error)
{
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();

  if (!join (rules, "weight", error)
      || (weft_fusion_context_has_tensor (context, "k_proj.bias") && !join (rules, "bias", error)))
    return NULL;
  return g_steal_pointer (&rules);
}

static void
weft_kv_example_class_init (WeftKvExampleClass *klass)
{
  static const gchar *const patterns[] = { "attn$", NULL };

  klass->parent_class.is_fusable = weft_kv_example_is_fusable;
  klass->parent_class.make_transforms = weft_kv_example_make_transforms;
  weft_module_fusion_spec_base_class_set_target_patterns (&klass->parent_class, patterns);
}

WEFT_PLUGIN_DEFINE ("kv-example", "Joins key and value projections, from outside the tree", NULL, "1.0",
                    "Apache-2.0", "examples/kv-fusion-c of Weft",
                    WEFT_PLUGIN_FUSION ("kv", WeftKvExample, weft_kv_example));
