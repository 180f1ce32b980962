/* SPDX-License-Identifier: Apache-2.0 */
/* A list of experts as two tensors: gate and up projections joined and stacked, down projections stacked. */
#include <stdlib.h>
#include <string.h>

#include "weft.h"

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
} WeftMoeExperts;

WEFT_DEFINE_FUSION (WeftMoeExperts, weft_moe_experts)

/* How the projections of an expert are called: gate, up, down. */
static const gchar *const spellings[][3] = { { "gate_proj", "up_proj", "down_proj" }, { "w1", "w3", "w2" } };

static WeftTensorSpec *
find_weight (WeftModule *module, guint expert, const gchar *projection)
{
  g_autofree gchar *name = g_strdup_printf ("%u.%s.weight", expert, projection);

  return weft_module_find_tensor (module, name);
}

/* Every expert has the projection, of the same shape and dtype. */
static gboolean
is_in_all (WeftModule *module, guint n_experts, const gchar *projection)
{
  WeftTensorSpec *first = find_weight (module, 0, projection);

  for (guint i = 0; first != NULL && i < n_experts; i++)
    {
      WeftTensorSpec *weight = find_weight (module, i, projection);

      if (weight == NULL || weft_tensor_spec_get_dtype (weight) != weft_tensor_spec_get_dtype (first)
          || !weft_shape_equal (weft_tensor_spec_get_shape (weight), weft_tensor_spec_get_shape (first)))
        return FALSE;
    }
  return first != NULL && weft_tensor_spec_get_shape (first)->rank == 2;
}

static const gchar *const *
find_spelling (WeftModule *module)
{
  guint n_experts = weft_module_get_n_children (module);

  for (guint i = 0; i < G_N_ELEMENTS (spellings); i++)
    if (is_in_all (module, n_experts, spellings[i][0]) && is_in_all (module, n_experts, spellings[i][1])
        && is_in_all (module, n_experts, spellings[i][2]))
      return spellings[i];
  return NULL;
}

/* A list with nothing in it but experts that have nothing but these weights. */
static gboolean
weft_moe_experts_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  guint n_experts = weft_module_get_n_children (module);
  g_auto (GStrv) tensors = NULL;

  for (guint i = 0; i < n_experts; i++)
    {
      g_autofree gchar *number = g_strdup_printf ("%u", i);

      if (strcmp (weft_module_get_child_name (module, i), number) != 0)
        return FALSE;
    }
  if (n_experts < 2 || find_spelling (module) == NULL)
    return FALSE;
  tensors = weft_module_list_tensors (module);
  return g_strv_length (tensors) == 3 * n_experts;
}

static gchar *
weft_moe_experts_make_fused_class (WeftModuleFusionSpecBase *base, const gchar *class_name, GError **error)
{
  return g_strdup ("FusedExperts");
}

static WeftTransformList *
weft_moe_experts_make_transforms (WeftModuleFusionSpecBase *base, WeftFusionContext *context, GError **error)
{
  const gchar *const *names = find_spelling (weft_fusion_context_get_module (context));
  g_autofree gchar *gate = g_strdup_printf ("*.%s.weight", names[0]);
  g_autofree gchar *up = g_strdup_printf ("*.%s.weight", names[1]);
  g_autofree gchar *down = g_strdup_printf ("*.%s.weight", names[2]);
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();

  if (!weft_fusion_append_converter (
          rules, (const gchar *const[]){ gate, up, NULL }, (const gchar *const[]){ "^gate_up_proj", NULL },
          "[{\"type\": \"MergeModulelist\", \"dim\": 0}, {\"type\": \"Concatenate\", \"dim\": 1}]", error)
      || !weft_fusion_append_converter (rules, (const gchar *const[]){ down, NULL },
                                        (const gchar *const[]){ "^down_proj", NULL },
                                        "[{\"type\": \"MergeModulelist\", \"dim\": 0}]", error))
    return NULL;
  return g_steal_pointer (&rules);
}

static GVariant *
weft_moe_experts_list_parallel_styles (WeftModuleFusionSpecBase *base, WeftFusionContext *context)
{
  return g_variant_new_parsed ("{'gate_up_proj': 'packed_colwise', 'down_proj': 'rowwise'}");
}

static void
weft_moe_experts_class_init (WeftMoeExpertsClass *klass)
{
  static const gchar *const patterns[] = { "(^|\\.)experts$", NULL };

  klass->parent_class.is_fusable = weft_moe_experts_is_fusable;
  klass->parent_class.make_fused_class = weft_moe_experts_make_fused_class;
  klass->parent_class.make_transforms = weft_moe_experts_make_transforms;
  klass->parent_class.list_parallel_styles = weft_moe_experts_list_parallel_styles;
  weft_module_fusion_spec_base_class_set_target_patterns (&klass->parent_class, patterns);
}

WEFT_PLUGIN_DEFINE ("moe-experts", "Stacks lists of experts", NULL, PACKAGE_VERSION, "Apache-2.0",
                    PACKAGE_ORIGIN, WEFT_PLUGIN_FUSION ("moe_experts", WeftMoeExperts, weft_moe_experts));
