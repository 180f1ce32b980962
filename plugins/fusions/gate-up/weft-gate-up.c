/* SPDX-License-Identifier: Apache-2.0 */
/* The two projections of a gated MLP, which read the same input, as one: gate rows, then up rows. */
#include "weft.h"

typedef struct
{
  WeftModuleFusionSpecBase parent_instance;
} WeftGateUp;

WEFT_DEFINE_FUSION (WeftGateUp, weft_gate_up)

/* Both have the tensor with the same shape, or neither has it. */
static gboolean
agree (WeftModule *module, const gchar *gate, const gchar *up)
{
  WeftTensorSpec *gate_spec = weft_module_find_tensor (module, gate);
  WeftTensorSpec *up_spec = weft_module_find_tensor (module, up);

  if (gate_spec == NULL || up_spec == NULL)
    return gate_spec == up_spec;
  return weft_shape_equal (weft_tensor_spec_get_shape (gate_spec), weft_tensor_spec_get_shape (up_spec))
         && weft_tensor_spec_get_dtype (gate_spec) == weft_tensor_spec_get_dtype (up_spec);
}

static gboolean
weft_gate_up_is_fusable (WeftModuleFusionSpecBase *base, WeftModule *module, GError **error)
{
  WeftTensorSpec *gate = weft_module_find_tensor (module, "gate_proj.weight");

  return gate != NULL && weft_tensor_spec_get_shape (gate)->rank == 2
         && agree (module, "gate_proj.weight", "up_proj.weight")
         && agree (module, "gate_proj.bias", "up_proj.bias");
}

static gboolean
join (WeftTransformList *rules, const gchar *tensor, GError **error)
{
  g_autofree gchar *gate = g_strconcat ("^gate_proj\\.", tensor, NULL);
  g_autofree gchar *up = g_strconcat ("^up_proj\\.", tensor, NULL);
  g_autofree gchar *joined = g_strconcat ("^gate_up_proj\\.", tensor, NULL);

  return weft_fusion_append_converter (rules, (const gchar *const[]){ gate, up, NULL },
                                       (const gchar *const[]){ joined, NULL },
                                       "[{\"type\": \"Concatenate\", \"dim\": 0}]", error);
}

static WeftTransformList *
weft_gate_up_make_transforms (WeftModuleFusionSpecBase *base, WeftFusionContext *context, GError **error)
{
  g_autoptr (WeftTransformList) rules = weft_transform_list_new ();

  if (!join (rules, "weight", error)
      || (weft_fusion_context_has_tensor (context, "gate_proj.bias") && !join (rules, "bias", error)))
    return NULL;
  return g_steal_pointer (&rules);
}

static GVariant *
weft_gate_up_list_parallel_styles (WeftModuleFusionSpecBase *base, WeftFusionContext *context)
{
  return g_variant_new_parsed ("{'gate_up_proj': 'packed_colwise'}");
}

static void
weft_gate_up_class_init (WeftGateUpClass *klass)
{
  klass->parent_class.is_fusable = weft_gate_up_is_fusable;
  klass->parent_class.make_transforms = weft_gate_up_make_transforms;
  klass->parent_class.list_parallel_styles = weft_gate_up_list_parallel_styles;
}

WEFT_PLUGIN_DEFINE ("gate-up", "Joins the gate and up projections of gated MLPs", NULL, PACKAGE_VERSION,
                    "Apache-2.0", PACKAGE_ORIGIN, WEFT_PLUGIN_FUSION ("gate_up", WeftGateUp, weft_gate_up));
