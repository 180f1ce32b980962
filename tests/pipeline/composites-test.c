/* SPDX-License-Identifier: Apache-2.0 */
/* Composite models by name: which part's rules rename which tensors; and base models into models with a head, and back. */
#include "made-checkpoint-private.h"

#define PART(path, class_name, type, prefix) \
  ",{'fqn':'" path "','class':'" class_name "','model_type':'" type "','base_model_prefix':'" prefix "'}"
#define PARTS(root, type, prefix, more)                                                              \
  ",'sub_models':[{'fqn':'','class':'" root "','model_type':'" type "','base_model_prefix':'" prefix \
  "'}" more "]"

/* What is published, what the model gets; every byte comes back. */
static const struct
{
  const gchar *name;
  const gchar *model;
  const gchar *parts;
  const gchar *tensors;
  const gchar *published;
  const gchar *runtime;
} rows[] = {
  { "llava-with-siglip-and-llama", "LlavaForConditionalGeneration llava model",
    PARTS ("LlavaForConditionalGeneration", "llava", "model",
           PART ("model", "LlavaModel", "llava", "")
               PART ("model.vision_tower", "SiglipVisionModel", "siglip_vision_model", "vision_model")
                   PART ("model.language_model", "LlamaModel", "llama", "model")),
    "lm_head.weight: F32[1]\nmodel.language_model.embed_tokens.weight: F32[1]\n"
    "model.language_model.layers.0.mlp.up_proj.weight: F32[1]\nmodel.multi_modal_projector.linear_1.weight: F32[1]\n"
    "model.vision_tower.encoder.layers.0.mlp.fc1.weight: F32[1]\nmodel.vision_tower.post_layernorm.weight: F32[1]",
    "language_model.lm_head.weight: F32[1] 1\nlanguage_model.model.embed_tokens.weight: F32[1] 2\n"
    "language_model.model.layers.0.mlp.up_proj.weight: F32[1] 3\nmulti_modal_projector.linear_1.weight: F32[1] 4\n"
    "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight: F32[1] 5\n"
    "vision_tower.vision_model.post_layernorm.weight: F32[1] 6\n",
    "lm_head.weight: F32[1] 1\nmodel.language_model.embed_tokens.weight: F32[1] 2\n"
    "model.language_model.layers.0.mlp.up_proj.weight: F32[1] 3\nmodel.multi_modal_projector.linear_1.weight: F32[1] 4\n"
    "model.vision_tower.encoder.layers.0.mlp.fc1.weight: F32[1] 5\nmodel.vision_tower.post_layernorm.weight: F32[1] 6\n" },
  /* The DetrModel lies two levels down; its rules leave the head's tensors of the same spelling alone. */
  { "detr-for-segmentation", "DetrForSegmentation detr model",
    PARTS ("DetrForSegmentation", "detr", "model",
           PART ("detr", "DetrForObjectDetection", "detr", "model")
               PART ("detr.model", "DetrModel", "detr", "model")),
    "bbox_attention.q_proj.weight: F32[1]\nbbox_attention.out_proj.weight: F32[1]\n"
    "detr.class_labels_classifier.weight: F32[1]\ndetr.model.backbone.model.conv1.weight: F32[1]\n"
    "detr.model.encoder.layers.0.mlp.fc1.weight: F32[1]\ndetr.model.encoder.layers.0.self_attn.o_proj.weight: F32[1]\n"
    "mask_head.conv1.conv.weight: F32[1]",
    "bbox_attention.out_proj.weight: F32[1] 1\nbbox_attention.q_linear.weight: F32[1] 2\n"
    "detr.class_labels_classifier.weight: F32[1] 3\ndetr.model.backbone.conv_encoder.model.conv1.weight: F32[1] 4\n"
    "detr.model.encoder.layers.0.fc1.weight: F32[1] 5\ndetr.model.encoder.layers.0.self_attn.out_proj.weight: F32[1] 6\n"
    "mask_head.lay1.weight: F32[1] 7\n",
    "bbox_attention.out_proj.weight: F32[1] 1\nbbox_attention.q_proj.weight: F32[1] 2\n"
    "detr.class_labels_classifier.weight: F32[1] 3\ndetr.model.backbone.model.conv1.weight: F32[1] 4\n"
    "detr.model.encoder.layers.0.mlp.fc1.weight: F32[1] 5\ndetr.model.encoder.layers.0.self_attn.o_proj.weight: F32[1] 6\n"
    "mask_head.conv1.conv.weight: F32[1] 7\n" },
  /* The decoder has the rules of DetrModel under its own class name. */
  { "maskformer-detr-decoder", "MaskFormerForInstanceSegmentation maskformer model",
    PARTS ("MaskFormerForInstanceSegmentation", "maskformer", "model",
           PART ("model", "MaskFormerModel", "maskformer", "model")
               PART ("model.transformer_module.decoder", "MaskFormerDetrDecoder", "detr", "model")),
    "model.pixel_level_module.out_proj.weight: F32[1]\n"
    "model.transformer_module.decoder.layers.0.mlp.fc1.weight: F32[1]\n"
    "model.transformer_module.decoder.layers.0.self_attn.o_proj.weight: F32[1]",
    "model.pixel_level_module.out_proj.weight: F32[1] 1\nmodel.transformer_module.decoder.layers.0.fc1.weight: F32[1] 2\n"
    "model.transformer_module.decoder.layers.0.self_attn.out_proj.weight: F32[1] 3\n",
    "model.pixel_level_module.out_proj.weight: F32[1] 1\nmodel.transformer_module.decoder.layers.0.mlp.fc1.weight: F32[1] 2\n"
    "model.transformer_module.decoder.layers.0.self_attn.o_proj.weight: F32[1] 3\n" },
  { "gemma3/head", "Gemma3ForConditionalGeneration gemma3 model",
    PARTS ("Gemma3ForConditionalGeneration", "gemma3", "model",
           PART ("model", "Gemma3Model", "gemma3", "")
               PART ("model.vision_tower", "SiglipVisionModel", "siglip_vision_model", "vision_model")
                   PART ("model.language_model", "Gemma3TextModel", "gemma3_text", "model")),
    "lm_head.weight: F32[1]\nmodel.language_model.norm.weight: F32[1]\n"
    "model.multi_modal_projector.mm_input_projection_weight: F32[1]\nmodel.vision_tower.post_layernorm.weight: F32[1]",
    "language_model.lm_head.weight: F32[1] 1\nlanguage_model.model.norm.weight: F32[1] 2\n"
    "multi_modal_projector.mm_input_projection_weight: F32[1] 3\nvision_tower.vision_model.post_layernorm.weight: F32[1] 4\n",
    "lm_head.weight: F32[1] 1\nmodel.language_model.norm.weight: F32[1] 2\n"
    "model.multi_modal_projector.mm_input_projection_weight: F32[1] 3\nmodel.vision_tower.post_layernorm.weight: F32[1] 4\n" },
  /* The same checkpoint without its head: the rules are those of the class, not of the type. */
  { "gemma3/base", "Gemma3Model gemma3 -",
    PARTS ("Gemma3Model", "gemma3", "",
           PART ("vision_tower", "SiglipVisionModel", "siglip_vision_model", "vision_model")
               PART ("language_model", "Gemma3TextModel", "gemma3_text", "model")),
    "language_model.norm.weight: F32[1]\nmulti_modal_projector.mm_input_projection_weight: F32[1]\n"
    "vision_tower.post_layernorm.weight: F32[1]",
    "language_model.lm_head.weight: F32[1] 1\nlanguage_model.model.norm.weight: F32[1] 2\n"
    "multi_modal_projector.mm_input_projection_weight: F32[1] 3\nvision_tower.vision_model.post_layernorm.weight: F32[1] 4\n",
    "language_model.lm_head.weight: F32[1] 1\nlanguage_model.norm.weight: F32[1] 2\n"
    "multi_modal_projector.mm_input_projection_weight: F32[1] 3\nvision_tower.post_layernorm.weight: F32[1] 4\n" },
};

static void
test_composite (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  g_autoptr (WeftModuleTree) tree = made_model (rows[i].model, rows[i].tensors, rows[i].parts);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

  weft_load_options_set_module_tree (options, tree);
  made_assert_round_trip (NULL, rows[i].published, options, rows[i].runtime);
}

#define CUSTOM_CONFIG                                         \
  "{'model_type':'mixtral','architectures':['XForCausalLM']," \
  "'auto_map':{'AutoModelForCausalLM':'modeling_x.XForCausalLM'}}"
#define CUSTOM_PUBLISHED                                              \
  "model.layers.0.block_sparse_moe.experts.0.w2.weight: F32[1,1] 1\n" \
  "model.layers.0.block_sparse_moe.gate.weight: F32[1] 2\n"

/* Code that comes with a checkpoint may mean something else by `mixtral`: no shipped rule, until the user registers one. */
static void
test_custom_code (void)
{
  g_autoptr (WeftMappingRegistry) shipped = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftMappingRegistry) registry = weft_mapping_registry_new_shipped ();
  g_autoptr (WeftTransformList) mixtral = weft_mapping_registry_lookup (shipped, "mixtral", NULL);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  gboolean is_noted = FALSE;

  made_folders_init (&folders);
  made_write (folders.published, CUSTOM_CONFIG, CUSTOM_PUBLISHED);
  checkpoint = made_open (folders.published);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  for (guint i = 0; i < weft_load_report_count (weft_load_plan_get_report (plan), WEFT_FINDING_NOTE); i++)
    is_noted |= strcmp (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_NOTE, i),
                        "XForCausalLM")
                == 0;
  g_assert_true (is_noted);
  made_assert_round_trip (CUSTOM_CONFIG, CUSTOM_PUBLISHED, options, CUSTOM_PUBLISHED);
  weft_mapping_registry_register (registry, "XForCausalLM", mixtral, FALSE, &error);
  g_assert_no_error (error);
  weft_load_options_set_registry (options, registry);
  made_assert_round_trip (
      CUSTOM_CONFIG, CUSTOM_PUBLISHED, options,
      "model.layers.0.mlp.experts.down_proj: F32[1,1,1] 1\nmodel.layers.0.mlp.gate.weight: F32[1] 2\n");
}

/* Ten families: the prefix of the base model, two of its tensors, one of the head. */
static const struct
{
  const gchar *base;
  const gchar *head;
  const gchar *type;
  const gchar *prefix;
  const gchar *first;
  const gchar *second;
  const gchar *of_head;
} families[] = {
  { "LlamaModel", "LlamaForCausalLM", "llama", "model", "embed_tokens.weight",
    "layers.0.self_attn.q_proj.weight", "lm_head.weight" },
  { "Qwen3Model", "Qwen3ForCausalLM", "qwen3", "model", "layers.0.self_attn.q_norm.weight", "norm.weight",
    "lm_head.weight" },
  { "MixtralModel", "MixtralForCausalLM", "mixtral", "model", "layers.0.mlp.gate.weight", "norm.weight",
    "lm_head.weight" },
  { "GPT2Model", "GPT2LMHeadModel", "gpt2", "transformer", "h.0.attn.c_attn.weight", "wte.weight",
    "lm_head.weight" },
  { "GPTNeoXModel", "GPTNeoXForCausalLM", "gpt_neox", "gpt_neox", "embed_in.weight",
    "layers.0.attention.query_key_value.weight", "embed_out.weight" },
  { "BertModel", "BertForMaskedLM", "bert", "bert", "embeddings.word_embeddings.weight",
    "encoder.layer.0.attention.self.query.weight", "cls.predictions.bias" },
  { "FalconModel", "FalconForCausalLM", "falcon", "transformer", "h.0.mlp.dense_4h_to_h.weight",
    "word_embeddings.weight", "lm_head.weight" },
  { "MambaModel", "MambaForCausalLM", "mamba", "backbone", "embeddings.weight", "layers.0.mixer.A_log",
    "lm_head.weight" },
  { "ViTModel", "ViTForImageClassification", "vit", "vit", "embeddings.cls_token", "layernorm.weight",
    "classifier.weight" },
  { "Wav2Vec2Model", "Wav2Vec2ForCTC", "wav2vec2", "wav2vec2", "feature_projection.projection.weight",
    "masked_spec_embed", "lm_head.weight" },
};

/* The checkpoint of the base model in the model with a head, and back: only names change, the head is what is missing. */
static void
test_base_into_head (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  const gchar *first = families[i].first, *second = families[i].second, *prefix = families[i].prefix;
  g_autofree gchar *model = g_strdup_printf ("%s %s %s", families[i].head, families[i].type, prefix);
  g_autofree gchar *tensors = g_strdup_printf ("%s.%s: F32[1]\n%s.%s: F32[1]\n%s: F32[1]", prefix, first,
                                               prefix, second, families[i].of_head);
  g_autofree gchar *published = g_strdup_printf ("%s: F32[1] 1\n%s: F32[1] 2\n", first, second);
  g_autofree gchar *runtime =
      g_strdup_printf ("%s.%s: F32[1] 1\n%s.%s: F32[1] 2\n", prefix, first, prefix, second);
  g_autofree gchar *message = g_strdup_printf ("'%s' is missing", families[i].of_head);
  g_autoptr (WeftModuleTree) tree = made_model (model, tensors, NULL);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();

  weft_load_options_set_module_tree (options, tree);
  made_assert_refused (NULL, published, options, WEFT_ERROR_MISSING, message);
  weft_load_options_set_flags (options, WEFT_LOAD_FLAGS_ALLOW_MISSING);
  made_assert_round_trip (NULL, published, options, runtime);
}

/* The checkpoint of the model with a head in the base model: the head is not known to it, and carried along. */
static void
test_head_into_base (gconstpointer position)
{
  guint i = GPOINTER_TO_UINT (position);
  const gchar *first = families[i].first, *second = families[i].second, *prefix = families[i].prefix;
  g_autofree gchar *model = g_strdup_printf ("%s %s %s", families[i].base, families[i].type, prefix);
  g_autofree gchar *tensors = g_strdup_printf ("%s: F32[1]\n%s: F32[1]", first, second);
  g_autofree gchar *published = g_strdup_printf ("%s: F32[1] 3\n%s.%s: F32[1] 1\n%s.%s: F32[1] 2\n",
                                                 families[i].of_head, prefix, first, prefix, second);
  g_auto (MadeFolders) folders = { 0 };
  g_autoptr (WeftModuleTree) tree = made_model (model, tensors, NULL);
  g_autoptr (WeftLoadOptions) options = weft_load_options_new ();
  g_autoptr (WeftCheckpoint) checkpoint = NULL;
  g_autoptr (WeftLoadPlan) plan = NULL;
  g_autoptr (GError) error = NULL;
  WeftStateDict *outputs;

  made_folders_init (&folders);
  made_write (folders.published, NULL, published);
  checkpoint = made_open (folders.published);
  weft_load_options_set_module_tree (options, tree);
  plan = weft_load_plan_new (checkpoint, options, &error);
  g_assert_no_error (error);
  outputs = weft_load_plan_get_outputs (plan);
  g_assert_cmpuint (weft_state_dict_get_n_tensors (outputs), ==, 3);
  g_assert_nonnull (weft_state_dict_lookup (outputs, first));
  g_assert_nonnull (weft_state_dict_lookup (outputs, second));
  g_assert_cmpuint (weft_load_report_count (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED), ==,
                    1);
  g_assert_cmpstr (weft_load_report_get_name (weft_load_plan_get_report (plan), WEFT_FINDING_UNEXPECTED, 0),
                   ==, families[i].of_head);
  made_convert (folders.published, folders.runtime, options, &error);
  g_assert_no_error (error);
  made_revert (folders.runtime, folders.back, NULL, WEFT_REVERT_FLAGS_NONE, &error);
  g_assert_no_error (error);
  made_assert_same_folder (folders.published, folders.back);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (rows); i++)
    {
      g_autofree gchar *path = g_strdup_printf ("/composites/%s", rows[i].name);
      g_test_add_data_func (path, GUINT_TO_POINTER (i), test_composite);
    }
  for (guint i = 0; i < G_N_ELEMENTS (families); i++)
    {
      g_autofree gchar *into_head = g_strdup_printf ("/composites/base-into-head/%s", families[i].type);
      g_autofree gchar *into_base = g_strdup_printf ("/composites/head-into-base/%s", families[i].type);

      g_test_add_data_func (into_head, GUINT_TO_POINTER (i), test_base_into_head);
      g_test_add_data_func (into_base, GUINT_TO_POINTER (i), test_head_into_base);
    }
  g_test_add_func ("/composites/custom-code", test_custom_code);
  return g_test_run ();
}
