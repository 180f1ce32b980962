/* SPDX-License-Identifier: Apache-2.0 */
/* Whole paths through the rules: a published checkpoint, what the runtime gets, and every byte back. */
#include "made-checkpoint-private.h"

static const struct
{
  const gchar *name;
  const gchar *config;
  /* Class, type and base prefix of the model with its tensors and more members; or NULL for open mode. */
  const gchar *model;
  const gchar *model_tensors;
  const gchar *model_members;
  const gchar *mapping;
  const gchar *published;
  const gchar *runtime;
} rows[] = {
  /* No mapping for class or type: keys pass; only rules for old names can fire. */
  { "dense", "{'model_type':'llama','architectures':['LlamaForCausalLM']}", NULL, NULL, NULL, NULL,
    "model.layers.0.LayerNorm.gamma: F32[1] 1\n"
    "model.layers.0.LayerNorm.gamma2: F32[1] 2\n"
    "model.layers.0.self_attn.q_proj.weight: BF16[2,2] 3\n"
    "lm_head.weight: F32[1,2] 7\n",
    "lm_head.weight: F32[1,2] 7 8\n"
    "model.layers.0.LayerNorm.gamma2: F32[1] 2\n"
    "model.layers.0.LayerNorm.weight: F32[1] 1\n"
    "model.layers.0.self_attn.q_proj.weight: BF16[2,2] 3 4 5 6\n" },
  /* A rename, then one converter on its result; the reversed converter first, then the reversed rename. */
  { "order", NULL, NULL, NULL, NULL,
    RENAME ("^old_prefix", "encoder") "," CONVERT (
        "'attn.qkv_proj.weight'", "'attn.q_proj.weight','attn.k_proj.weight','attn.v_proj.weight'",
        OP_DIM ("Chunk", 0)),
    "old_prefix.attn.qkv_proj.weight: F32[3,1] 1\n"
    "old_prefix.norm: F32[1] 9\n",
    "encoder.attn.k_proj.weight: F32[1,1] 2\n"
    "encoder.attn.q_proj.weight: F32[1,1] 1\n"
    "encoder.attn.v_proj.weight: F32[1,1] 3\n"
    "encoder.norm: F32[1] 9\n" },
  /* Unscoped rules of the root; scoped ones of the tower, which do not touch the language model. */
  { "llava", NULL, "LlavaForConditionalGeneration llava model",
    "model.vision_tower.embeddings.weight: F32[1]\n"
    "model.multi_modal_projector.linear_1.weight: F32[1]\n"
    "model.language_model.vision_model.norm.weight: F32[1]\n"
    "model.language_model.norm.weight: F32[1]\n"
    "lm_head.weight: F32[1]\n",
    ",'sub_models':[{'fqn':'','class':'LlavaForConditionalGeneration','model_type':'llava','base_model_prefix':'model'},"
    "{'fqn':'model','class':'LlavaModel','model_type':'llava','base_model_prefix':'model'},"
    "{'fqn':'model.vision_tower','class':'SiglipVisionModel','model_type':'siglip_vision_model','base_model_prefix':'vision_model'},"
    "{'fqn':'model.language_model','class':'LlamaModel','model_type':'llama','base_model_prefix':'model'}]",
    NULL,
    "language_model.lm_head.weight: F32[1] 1\n"
    "language_model.norm.weight: F32[1] 2\n"
    "language_model.vision_model.norm.weight: F32[1] 3\n"
    "multi_modal_projector.linear_1.weight: F32[1] 4\n"
    "vision_tower.vision_model.embeddings.weight: F32[1] 5\n",
    "lm_head.weight: F32[1] 1\n"
    "model.language_model.norm.weight: F32[1] 2\n"
    "model.language_model.vision_model.norm.weight: F32[1] 3\n"
    "model.multi_modal_projector.linear_1.weight: F32[1] 4\n"
    "model.vision_tower.embeddings.weight: F32[1] 5\n" },
  /* The root by type, unscoped; the inner model by class; the type's wide list is not applied again. */
  { "gemma3", NULL, "Gemma3ForConditionalGeneration gemma3 model",
    "model.vision_tower.embeddings.weight: F32[1]\n"
    "model.language_model.layers.0.weight: F32[1]\n"
    "lm_head.weight: F32[1]\n",
    ",'sub_models':[{'fqn':'','class':'Gemma3ForConditionalGeneration','model_type':'gemma3','base_model_prefix':'model'},"
    "{'fqn':'model','class':'Gemma3Model','model_type':'gemma3','base_model_prefix':'model'},"
    "{'fqn':'model.vision_tower','class':'SiglipVisionModel','model_type':'siglip_vision_model','base_model_prefix':'vision_model'},"
    "{'fqn':'model.language_model','class':'Gemma3TextModel','model_type':'gemma3_text','base_model_prefix':'model'}]",
    NULL,
    "language_model.lm_head.weight: F32[1] 1\n"
    "language_model.model.layers.0.weight: F32[1] 2\n"
    "vision_tower.vision_model.embeddings.weight: F32[1] 3\n",
    "lm_head.weight: F32[1] 1\n"
    "model.language_model.layers.0.weight: F32[1] 2\n"
    "model.vision_tower.embeddings.weight: F32[1] 3\n" },
  /* The inner class as root: its own list alone. */
  { "gemma3-base", NULL, "Gemma3Model gemma3 model", "language_model.layers.0.weight: F32[1]\n", NULL, NULL,
    "language_model.model.layers.0.weight: F32[1] 2\n", "language_model.layers.0.weight: F32[1] 2\n" },
  /* The root by class, the base model by class under its scope. */
  { "detr", NULL, "DetrForSegmentation detr detr",
    "detr.model.backbone.conv.weight: F32[1]\n"
    "detr.model.decoder.layers.0.mlp.fc1.weight: F32[1]\n"
    "detr.model.decoder.layers.0.self_attn.o_proj.weight: F32[1]\n"
    "mask_head.conv1.conv.weight: F32[1]\n"
    "mask_head.conv1.norm.weight: F32[1]\n"
    "mask_head.out_proj.weight: F32[1]\n",
    ",'sub_models':[{'fqn':'','class':'DetrForSegmentation','model_type':'detr','base_model_prefix':'detr'},"
    "{'fqn':'detr','class':'DetrForObjectDetection','model_type':'detr','base_model_prefix':'model'},"
    "{'fqn':'detr.model','class':'DetrModel','model_type':'detr','base_model_prefix':'model'}]",
    NULL,
    "detr.model.backbone.conv_encoder.conv.weight: F32[1] 1\n"
    "detr.model.decoder.layers.0.fc1.weight: F32[1] 2\n"
    "detr.model.decoder.layers.0.self_attn.out_proj.weight: F32[1] 3\n"
    "mask_head.gn1.weight: F32[1] 4\n"
    "mask_head.lay1.weight: F32[1] 5\n"
    "mask_head.out_proj.weight: F32[1] 6\n",
    "detr.model.backbone.conv.weight: F32[1] 1\n"
    "detr.model.decoder.layers.0.mlp.fc1.weight: F32[1] 2\n"
    "detr.model.decoder.layers.0.self_attn.o_proj.weight: F32[1] 3\n"
    "mask_head.conv1.conv.weight: F32[1] 5\n"
    "mask_head.conv1.norm.weight: F32[1] 4\n"
    "mask_head.out_proj.weight: F32[1] 6\n" },
  /* m:n: the list of experts is cut in two runs, each stacked; going back numbers them through. */
  { "ernie", "{'model_type':'ernie4_5_vl_moe','architectures':['Ernie4_5_VLMoeForConditionalGeneration']}",
    NULL, NULL, NULL, NULL,
    "model.layers.1.mlp.experts.0.down_proj.weight: F32[1,2] 0\n"
    "model.layers.1.mlp.experts.1.down_proj.weight: F32[1,2] 10\n"
    "model.layers.1.mlp.experts.2.down_proj.weight: F32[1,2] 20\n"
    "model.layers.1.mlp.experts.3.down_proj.weight: F32[1,2] 30\n"
    "model.layers.1.mlp.experts.0.gate_proj.weight: F32[1,1] 40\n"
    "model.layers.1.mlp.experts.1.gate_proj.weight: F32[1,1] 41\n"
    "model.layers.1.mlp.experts.0.up_proj.weight: F32[1,1] 50\n"
    "model.layers.1.mlp.experts.1.up_proj.weight: F32[1,1] 51\n"
    "model.layers.1.mlp.gate.weight: F32[1,2] 60\n"
    "model.layers.1.mlp.gate.weight_1: F32[1,2] 70\n",
    "model.language_model.layers.1.mlp.text_moe.experts.down_proj: F32[2,1,2] 0 1 10 11\n"
    "model.language_model.layers.1.mlp.text_moe.experts.gate_up_proj: F32[1,2,1] 40 50\n"
    "model.language_model.layers.1.mlp.text_moe.gate.weight: F32[2,1] 60 61\n"
    "model.language_model.layers.1.mlp.vision_moe.experts.down_proj: F32[2,1,2] 20 21 30 31\n"
    "model.language_model.layers.1.mlp.vision_moe.experts.gate_up_proj: F32[1,2,1] 41 51\n"
    "model.language_model.layers.1.mlp.vision_moe.gate.weight: F32[2,1] 70 71\n" },
};

static void
test_path (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftLoadOptions) options =
      made_options (rows[i].mapping, rows[i].model, rows[i].model_tensors, rows[i].model_members);

  made_assert_round_trip (rows[i].config, rows[i].published, options, rows[i].runtime);
}

#define N_EXPERTS 12

/* Twelve experts, so that the order of their numbers is not the order of their names. */
static void
test_mixtral (void)
{
  g_autoptr (GString) published = g_string_new ("model.layers.0.block_sparse_moe.gate.weight: F32[1] 999\n");
  g_autoptr (GString) gate_up = g_string_new ("model.layers.0.mlp.experts.gate_up_proj: F32[12,4,1]");
  g_autoptr (GString) down = g_string_new ("model.layers.0.mlp.experts.down_proj: F32[12,1,2]");
  g_autofree gchar *runtime = NULL;

  for (gint i = N_EXPERTS - 1; i >= 0; i--)
    g_string_append_printf (published,
                            "model.layers.0.block_sparse_moe.experts.%d.w1.weight: F32[2,1] %d\n"
                            "model.layers.0.block_sparse_moe.experts.%d.w2.weight: F32[1,2] %d\n"
                            "model.layers.0.block_sparse_moe.experts.%d.w3.weight: F32[2,1] %d\n",
                            i, 100 + 2 * i, i, 200 + 2 * i, i, 300 + 2 * i);
  /* Gate rows first in each expert; slot 10 holds expert 10. */
  for (gint i = 0; i < N_EXPERTS; i++)
    {
      g_string_append_printf (gate_up, " %d %d %d %d", 100 + 2 * i, 101 + 2 * i, 300 + 2 * i, 301 + 2 * i);
      g_string_append_printf (down, " %d %d", 200 + 2 * i, 201 + 2 * i);
    }
  runtime = g_strdup_printf ("%s\n%s\nmodel.layers.0.mlp.gate.weight: F32[1] 999\n", down->str, gate_up->str);
  made_assert_round_trip ("{'model_type':'mixtral','architectures':['MixtralForCausalLM']}", published->str,
                          NULL, runtime);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/walkthroughs/%s", rows[i].name);

      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_path);
    }
  g_test_add_func ("/walkthroughs/mixtral", test_mixtral);
  return g_test_run ();
}
