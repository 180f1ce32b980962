# SPDX-License-Identifier: Apache-2.0
"""Definitions that are easier to write than to find, by class; they are proven like the others.

They stand in the form of the data; a module "@Class" is the class of that name in the same family.
"""


def rhythm(count, first, middle, last, container="ModuleList"):
    """A list of which the first and the last entries differ from a rhythm between them."""
    return [{"name": "layers", "repeat": count, "index": "i", **entry} for entry in (*first, *middle, *last)]


MIMI_PERIOD = "(num_residual_layers + 2)"
MIMI_COUNT = f"len(upsampling_ratios) * {MIMI_PERIOD} + 3"
MIMI_LAST = f"i == len(upsampling_ratios) * {MIMI_PERIOD} + 2"
MIMI_ELU = f"i == len(upsampling_ratios) * {MIMI_PERIOD} + 1"
MIMI_INNER = f"0 < i <= len(upsampling_ratios) * {MIMI_PERIOD}"
MIMI_STAGE = f"((i - 1) // {MIMI_PERIOD})"
MIMI_PLACE = f"(i - 1) % {MIMI_PERIOD}"
MIMI_DOWN = f"upsampling_ratios[len(upsampling_ratios) - 1 - {MIMI_STAGE}]"

HAND = {
    "MimiEncoder": {
        "class": "MimiEncoder",
        "children": rhythm(
            MIMI_COUNT,
            [{"module": "@MimiConv1d", "with": {"in_channels": "audio_channels", "out_channels": "num_filters", "kernel_size": "kernel_size"}, "if": "i == 0"}],
            [
                {"module": "@MimiResnetBlock", "with": {"dim": f"num_filters * 2 ** {MIMI_STAGE}", "dilations": f"[dilation_growth_rate ** ({MIMI_PLACE}), 1]"},
                 "if": f"{MIMI_INNER} and {MIMI_PLACE} < num_residual_layers"},
                {"module": "ELU", "if": f"{MIMI_INNER} and {MIMI_PLACE} == num_residual_layers or {MIMI_ELU}"},
                {"module": "@MimiConv1d", "with": {"in_channels": f"num_filters * 2 ** {MIMI_STAGE}", "out_channels": f"num_filters * 2 ** {MIMI_STAGE} * 2", "kernel_size": f"{MIMI_DOWN} * 2", "stride": MIMI_DOWN},
                 "if": f"{MIMI_INNER} and {MIMI_PLACE} == num_residual_layers + 1"},
            ],
            [{"module": "@MimiConv1d", "with": {"in_channels": "num_filters * 2 ** len(upsampling_ratios)", "out_channels": "hidden_size", "kernel_size": "last_kernel_size"}, "if": MIMI_LAST}],
        ),
    },
    "MimiDecoder": {
        "class": "MimiDecoder",
        "children": rhythm(
            MIMI_COUNT,
            [{"module": "@MimiConv1d", "with": {"in_channels": "hidden_size", "out_channels": "num_filters * 2 ** len(upsampling_ratios)", "kernel_size": "kernel_size"}, "if": "i == 0"}],
            [
                {"module": "ELU", "if": f"{MIMI_INNER} and {MIMI_PLACE} == 0 or {MIMI_ELU}"},
                {"module": "@MimiConvTranspose1d",
                 "with": {"in_channels": f"num_filters * 2 ** (len(upsampling_ratios) - {MIMI_STAGE})", "out_channels": f"num_filters * 2 ** (len(upsampling_ratios) - {MIMI_STAGE} - 1)",
                          "kernel_size": f"upsampling_ratios[{MIMI_STAGE}] * 2", "stride": f"upsampling_ratios[{MIMI_STAGE}]"},
                 "if": f"{MIMI_INNER} and {MIMI_PLACE} == 1"},
                {"module": "@MimiResnetBlock", "with": {"dim": f"num_filters * 2 ** (len(upsampling_ratios) - {MIMI_STAGE} - 1)", "dilations": f"[dilation_growth_rate ** ({MIMI_PLACE} - 2), 1]"},
                 "if": f"{MIMI_INNER} and {MIMI_PLACE} > 1"},
            ],
            [{"module": "@MimiConv1d", "with": {"in_channels": "num_filters", "out_channels": "audio_channels", "kernel_size": "last_kernel_size"}, "if": MIMI_LAST}],
        ),
    },
}

HAND["MimiModel"] = {
    "class": "MimiModel",
    "children": [
        {"name": "encoder", "auto": "AutoModel", "config": "encoder_config", "if": "encoder_config is not None"},
        {"name": "decoder", "auto": "AutoModel", "config": "decoder_config", "if": "decoder_config is not None"},
        {"name": "quantizer", "module": "@MimiSplitResidualVectorQuantizer"},
    ],
}

# Nested configs that a class makes of its own fields.
DERIVED = {"MimiConfig": {"encoder_config": "mimi_encoder", "decoder_config": "mimi_decoder"}}

# Lists of names that are ignored, where they follow the config.
SHARED_FROM = "(num_hidden_layers - num_kv_shared_layers)"
SHARED_KEYS = f"['layers.' + str({SHARED_FROM} + k // 4) + '.self_attn.' + ['k_proj', 'v_proj', 'k_norm', 'v_norm'][k % 4] for k in range(4 * num_kv_shared_layers)]"
LISTS = {
    "BailingHybridModel": {"ignore_on_load_unexpected": r"['(^|\\.)layers\\.' + str(i) + '\\.' for i in range(num_hidden_layers, num_hidden_layers + num_mtp_layers)]"},
    **{f"{p}TextModel": {"ignore_on_load_unexpected": SHARED_KEYS} for p in ("Gemma3n", "Gemma4")},
}

# Configs to begin with, of classes whose defaults alone make no model.
SEEDS = {
    "DeformableDetrConfig": [{"use_timm_backbone": False, "backbone": None, "backbone_config": {"model_type": "resnet", "out_features": ["stage2", "stage3", "stage4"]}}],
    "Dots1Config": [{"num_local_experts": 4, "num_hidden_layers": 4, "first_k_dense_replace": 1}],
    "Emu3Config": [{"vocabulary_map": {"<image>": 1, "<|extra_200|>": 2}}],
    "EsmConfig": [{"vocab_size": 33}, {"vocab_size": 33, "is_folding_model": True, "num_hidden_layers": 2, "esmfold_config": {"trunk": {"num_blocks": 2}}}],
    "HunYuanVLTextConfig": [{"head_dim": 64}],
    "HunYuanVLConfig": [{"text_config": {"model_type": "hunyuan_vl_text", "head_dim": 64}}],
}

# Fields that a config class puts into one of its nested configs.
SETS = {
    "HunYuanVLConfig": {"vision_config": {"text_hidden_size": "text_config.hidden_size"}},
    "PI0Config": {"dit_config": {"vocab_size": "vlm_config.text_config.vocab_size"}},
}

# Rules for config fields.
RULES = {
    "HrmTextConfig": {
        "num_hidden_layers": {"default": 16, "always": "given if raw.num_layers_per_stack is not None else given * H_cycles * (L_cycles + 1)"},
        "num_layers_per_stack": {"expression": "raw.num_hidden_layers if raw.num_hidden_layers is not None else 16"},
    },
    "BailingHybridConfig": {"linear_head_dim": {"absent": "raw.head_dim if raw.head_dim is not None else 128"}},
    "OlmoHybridConfig": {
        "linear_key_head_dim": {"expression": "int(0.75 * hidden_size / linear_num_key_heads)"},
        "linear_value_head_dim": {"expression": "2 * linear_key_head_dim"},
    },
    "Sam3TrackerVideoConfig": {  # the image's size decides, whatever the file says
        "memory_attention_rope_feat_sizes": {
            "always": "[(raw.image_size if raw.image_size is not None else 1008) // vision_config.backbone_config.patch_size for i in range(2)]"},
    },
    "DoryConfig": {
        "num_hidden_layers": {"default": 36, "always": "given // 2 if raw.layer_types is not None and 'mlp' in raw.layer_types else given"},
        "layer_types": {
            "default": None,
            "always": "['full_attention' if (i + 1) % 4 == 0 else 'sliding_attention' for i in range(num_hidden_layers)] if given is None "
                      "else [given[2 * i] for i in range(len(given) // 2)] if 'mlp' in given else given",
        },
    },
}

for name, field in (("MambaConfig", "time_step_rank"), ("Mamba2Config", "time_step_rank"), ("FalconMambaConfig", "time_step_rank"), ("JambaConfig", "mamba_dt_rank"), ("ZambaConfig", "mamba_dt_rank"), ("RecurrentGemmaConfig", "time_step_rank")):
    RULES[name] = {field: {"default": "auto", "always": f"ceil(hidden_size / 16) if given == 'auto' else given"}}

# The vision tower of Inkling plans its extents by an optimal assignment; these are the plans of two sizes, as [input, output] of each layer.
INKLING_DEFAULT = [[3, 3]] * 4 + [[75, 128]] + [[128, 128]] * 5 + [[512, 320]] + [[320, 320]] * 2 + [[1280, 1216]] + [[1216, 1216]] * 3 + [[4864, 4800]] + [[4800, 4800]] * 2 + [[9600, 614400]] + [[614400, 614400]] * 3
RULES["InklingVisionConfig"] = {
    "plan": {"always": f"{INKLING_DEFAULT!r} if patch_size == 40 and temporal_patch_size == 2 and num_hidden_layers == 24 and num_channels == 3 "
                       f"else [[48, 64], [128, 0]] if patch_size == 4 and temporal_patch_size == 2 and num_hidden_layers == 2 and num_channels == 3 else []"},
}
HAND["InklingVisionModel"] = {
    "class": "InklingVisionModel",
    "children": [
        {"name": "encoder_layers", "repeat": "num_hidden_layers", "index": "i", "module": "@InklingVisionEncoderLayer",
         "with": {"input_dim": "plan[i][0]", "output_dim": "text_hidden_size if i == num_hidden_layers - 1 else plan[i][1]", "add_norm": "i != num_hidden_layers - 1"}},
        {"name": "final_norm", "module": "@InklingRMSNorm", "with": {"hidden_size": "text_hidden_size"}},
    ],
}


def linear(name, inside, outside, bias):
    return {"name": name, "module": "Linear", "with": {"in_features": inside, "out_features": outside, "bias": bias}}


HEADS = "layer_heads[layer_idx]"
RULES["Dots3NoteTextConfig"] = {
    "layer_heads": {"always": "[raw.per_layer_config[str(i)]['num_attention_heads'] if raw.per_layer_config is not None and str(i) in raw.per_layer_config "
                              "and 'num_attention_heads' in raw.per_layer_config[str(i)] else num_attention_heads for i in range(num_hidden_layers)]"},
}
HAND["Dots3NoteTextAttention"] = {
    "class": "Dots3NoteTextAttention",
    "arguments": ["layer_idx"],
    "children": [
        linear("q_a_proj", "hidden_size", "q_lora_rank", "attention_bias"),
        {"name": "q_a_layernorm", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "q_lora_rank"}},
        linear("q_b_proj", "q_lora_rank", f"{HEADS} * (qk_nope_head_dim + qk_rope_head_dim)", "False"),
        linear("kv_a_proj_with_mqa", "hidden_size", "kv_lora_rank + qk_rope_head_dim", "attention_bias"),
        {"name": "kv_a_layernorm", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "kv_lora_rank"}},
        linear("kv_b_proj", "kv_lora_rank", f"{HEADS} * (qk_nope_head_dim + v_head_dim)", "False"),
        linear("o_proj", f"{HEADS} * v_head_dim", "hidden_size", "attention_bias"),
        {"name": "k_rope_only_layernorm", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "qk_rope_head_dim"}},
        linear("g_proj", "hidden_size", HEADS, "False"),
        {"name": "indexer", "module": "@Dots3NoteTextIndexer", "if": "layer_types[layer_idx] == 'indexed_attention'"},
    ],
}
HAND["Dots3NoteVisionMoE"] = {
    "class": "Dots3NoteVisionMoE",
    "tensors": [{"name": "e_score_correction_bias", "shape": ["num_local_experts"], "dtype": "float32", "buffer": True}],
    "children": [{"name": "experts", "module": "@Dots3NoteExperts"}, {"name": "gate", "module": "@Dots3NoteVisionTopKRouter"}],
}
HAND["Dots3NoteVisionBlock"] = {
    "class": "Dots3NoteVisionBlock",
    "bases": ["GradientCheckpointingLayer", "Module"],
    "arguments": ["layer_idx"],
    "children": [
        {"name": "norm1", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "hidden_size"}},
        {"name": "attn", "module": "@Dots3NoteVisionAttention"},
        {"name": "norm2", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "hidden_size"}},
        {"name": "mlp", "module": "@Dots3NoteVisionMoE", "if": "mlp_layer_types[layer_idx] == 'sparse'"},
        {"name": "mlp", "module": "@Dots3NoteVisionMLP", "if": "mlp_layer_types[layer_idx] != 'sparse'"},
    ],
}
HAND["Dots3NoteTextRotaryEmbedding"] = {
    "class": "Dots3NoteTextRotaryEmbedding",
    "tensors": [
        {"name": f"{t}_attention_{n}", "shape": ["qk_rope_head_dim // 2"], "dtype": "float32", "buffer": True, "persistent": False, "if": f"'{t}_attention' in layer_types"}
        for t in ("indexed", "sliding") for n in ("inv_freq", "original_inv_freq")
    ],
}

HAND["VisionEncoderDecoderModel"] = {
    "class": "VisionEncoderDecoderModel",
    "children": [
        {"name": "encoder", "auto": "AutoModel", "config": "encoder"},
        {"name": "decoder", "auto": "AutoModelForCausalLM", "config": "decoder"},
        {**linear("enc_to_dec_proj", "encoder.hidden_size", "decoder.hidden_size", "True"), "if": "encoder.hidden_size != decoder.hidden_size"},
    ],
}

QUERY_LAYER = {n: n for n in ("d_model", "nhead", "dim_feedforward", "activation")}
HAND["OneFormerTransformerDecoderQueryTransformer"] = {  # a list of copies of a layer that is an argument
    "class": "OneFormerTransformerDecoderQueryTransformer",
    "arguments": ["d_model", "nhead", "num_decoder_layers", "dim_feedforward", "activation"],
    "children": [{"name": "decoder", "module": {"class": "OneFormerTransformerDecoderQueryTransformerDecoder", "children": [
        {"name": "layers", "repeat": "num_decoder_layers", "module": "@OneFormerTransformerDecoderQueryTransformerDecoderLayer", "with": QUERY_LAYER},
        {"name": "norm", "module": "LayerNorm", "with": {"normalized_shape": "d_model"}},
    ]}}],
}



def prediction_block(cls, place):
    """A linear layer and an activation that is an argument; the last one of a head has none."""
    return {"class": cls, "children": [
        linear("0", f"input_dim if {place} == 0 else hidden_dim", f"output_dim if {place} == num_layers - 1 else hidden_dim", "True"),
        {"name": "1", "module": "ReLU", "if": f"{place} < num_layers - 1"},
        {"name": "1", "module": "Identity", "if": f"{place} == num_layers - 1"},
    ]}


PREDICTION_ARGUMENTS = ["input_dim", "hidden_dim", "output_dim", "num_layers=3"]
HAND["OneFormerMLPPredictionHead"] = {
    "class": "OneFormerMLPPredictionHead",
    "arguments": PREDICTION_ARGUMENTS,
    "children": [{"name": "layers", "repeat": "num_layers", "index": "i", "container": "Sequential", "module": prediction_block("PredictionBlock", "i")}],
}
for head, block in (("MaskformerMLPPredictionHead", "PredictionBlock"), ("Mask2FormerMLPPredictionHead", "Mask2FormerPredictionBlock")):
    HAND[head] = {"class": head, "arguments": PREDICTION_ARGUMENTS,
                  "children": [{"name": str(k), "module": prediction_block(block, k), "if": f"num_layers > {k}"} for k in range(3)]}

# What a backbone of a segmentation model gives: the widths of the stages that its config asks for.
STAGE_WIDTHS = ("([backbone_config.embed_dim] + [backbone_config.embed_dim * 2 ** s for s in range(len(backbone_config.depths))]"
                " if backbone_config.model_type in ['swin', 'maskformer-swin', 'dinat', 'focalnet'] else [backbone_config.embedding_size] + backbone_config.hidden_sizes)")
BACKBONE_WIDTHS = f"[{STAGE_WIDTHS}[o] for o in backbone_config.out_indices]"


def convolution_and_norm(inside, outside, more, activation=()):
    return {"class": "Sequential", "children": [
        {"name": "0", "module": "Conv2d", "with": {"in_channels": inside, "out_channels": outside, **more}},
        {"name": "1", "module": "GroupNorm", "with": {"num_groups": 32, "num_channels": outside}},
        *activation,
    ]}


def pixel_decoder(prefix, width, mask_width, strides):
    """Adapters for the levels of a feature pyramid that are finer than the transformer's three."""
    levels = f"min(len(feature_channels), len([k for k in range(8) if common_stride * 2 ** (k + 1) <= min({strides}[max(len({strides}) - 3, 0):])]))"
    level = lambda k: (
        {"name": f"adapter_{k + 1}", "module": convolution_and_norm(f"feature_channels[{k}]", width, {"kernel_size": 1, "bias": "False"}), "if": f"{levels} > {k}"},
        {"name": f"layer_{k + 1}", "if": f"{levels} > {k}",
         "module": convolution_and_norm(width, width, {"kernel_size": 3, "stride": 1, "padding": 1, "bias": "False"}, [{"name": "2", "module": "ReLU"}])},
    )
    return {
        "class": prefix + "PixelDecoder",
        "arguments": ["feature_channels"],
        "tensors": [{"name": "level_embed", "shape": [3, width]}],
        "children": [
            {"name": "position_embedding", "module": f"@{prefix}SinePositionEmbedding"},
            {"name": "input_projections", "repeat": "min(3, len(feature_channels))", "index": "i",
             "module": convolution_and_norm("feature_channels[len(feature_channels) - 1 - i]", width, {"kernel_size": 1})},
            {"name": "encoder", "module": f"@{prefix}PixelDecoderEncoderOnly"},
            {"name": "mask_projection", "module": "Conv2d", "with": {"in_channels": width, "out_channels": mask_width, "kernel_size": 1, "stride": 1, "padding": 0}},
            *(entry for k in range(3) for entry in level(k)),
        ],
    }


for prefix, extents in (("OneFormer", ("conv_dim", "mask_dim", "strides")), ("Mask2Former", ("feature_size", "mask_feature_size", "feature_strides"))):
    HAND[prefix + "PixelDecoder"] = pixel_decoder(prefix, *extents)
    HAND[prefix + "PixelLevelModule"] = {
        "class": prefix + "PixelLevelModule",
        "children": [
            {"name": "encoder", "auto": "AutoBackbone", "config": "backbone_config"},
            {"name": "decoder", "module": f"@{prefix}PixelDecoder", "with": {"feature_channels": BACKBONE_WIDTHS}},
        ],
    }

def stage_norms(norm, argument, width):
    """A norm for each stage that is asked for, under the stage's name; width of stage k, of which 0 is the stem."""
    return {"name": "hidden_states_norms", "module": {"class": "ModuleDict", "children": [
        {"name": f"stage{k}" if k else "stem", "module": norm, "with": {argument: width(max(k - 1, 0))}, "if": f"'{f'stage{k}' if k else 'stem'}' in out_features"} for k in range(9)]}}


for prefix, parts, norms in (
    ("Swin", [{"name": "swin", "module": "@SwinModel", "with": {"add_pooling_layer": "False"}}], stage_norms("LayerNorm", "normalized_shape", lambda k: f"embed_dim * {2 ** k}")),
    ("Dinat", [{"name": "embeddings", "module": "@DinatEmbeddings"}, {"name": "encoder", "module": "@DinatEncoder"}],
     stage_norms("LayerNorm", "normalized_shape", lambda k: f"embed_dim * {2 ** k}")),
    ("Hiera", [{"name": "embeddings", "module": "@HieraEmbeddings", "with": {"is_mae": "False"}}, {"name": "encoder", "module": "@HieraEncoder"}],
     stage_norms("LayerNorm", "normalized_shape", lambda k: f"int(embed_dim * embed_dim_multiplier ** {k})")),
    *((p, [{"name": "embeddings", "module": f"@{p}Embeddings"}, {"name": "encoder", "module": f"@{p}Encoder"}], stage_norms(f"@{p}LayerNorm", "normalized_shape", lambda k: f"hidden_sizes[{k}]"))
      for p in ("ConvNext", "ConvNextV2")),
):
    HAND[prefix + "Backbone"] = {"class": prefix + "Backbone", "children": [*parts, norms]}

# Masks are halved until one pixel stands for a whole total stride.
DOWNSAMPLINGS = "len([k for k in range(1, 16) if mask_downsampler_stride ** k <= mask_downsampler_total_stride])"
for prefix in ("Sam3TrackerVideo", "Sam2Video", "EdgeTamVideo"):
    HAND[prefix + "MaskDownSampler"] = {
        "class": prefix + "MaskDownSampler",
        "children": [
            {"name": "layers", "repeat": DOWNSAMPLINGS, "index": "i", "module": f"@{prefix}MaskDownSamplerLayer",
             "with": {"in_channels": "mask_downsampler_stride ** (2 * i)", "out_channels": "mask_downsampler_stride ** (2 * i + 2)"}},
            {"name": "activation", "activation": "mask_downsampler_hidden_act"},
            {"name": "final_conv", "module": "Conv2d",
             "with": {"in_channels": f"mask_downsampler_stride ** (2 * {DOWNSAMPLINGS})", "out_channels": "mask_downsampler_embed_dim", "kernel_size": 1}},
        ],
    }

# MaskFormer gives a Swin config to its own Swin backbone, with all four stages.
MASKFORMER_WIDTHS = f"[{STAGE_WIDTHS}[o] for o in ([1, 2, 3, 4] if backbone_config.model_type == 'swin' else backbone_config.out_indices)]"
HAND["MaskFormerSwinEncoder"] = {
    "class": "MaskFormerSwinEncoder",
    "children": [{"name": "layers", "repeat": "len(depths)", "index": "i", "module": "@MaskFormerSwinStage",
                  "with": {"dim": "embed_dim * 2 ** i", "depth": "depths[i]", "num_heads": "num_heads[i]", "stage": "i"}}],
}
HAND["MaskFormerSwinStage"] = {
    "class": "MaskFormerSwinStage",
    "bases": ["GradientCheckpointingLayer", "Module"],
    "arguments": ["dim", "depth", "num_heads", "stage"],
    "children": [
        {"name": "blocks", "repeat": "depth", "index": "j", "module": "@MaskFormerSwinLayer",
         "with": {"dim": "dim", "num_heads": "num_heads", "drop_path_rate": "drop_path_rate * (stage + j)"}},  # rates grow from 0
        {"name": "downsample", "module": "@MaskFormerSwinPatchMerging", "with": {"dim": "dim"}, "if": "stage < len(depths) - 1"},
    ],
}
HAND["MaskFormerPixelLevelModule"] = {
    "class": "MaskFormerPixelLevelModule",
    "children": [
        {"name": "encoder", "module": "@MaskFormerSwinBackbone", "config": "backbone_config",
         "set": {"out_indices": "[1, 2, 3, 4]", "out_features": "['stage1', 'stage2', 'stage3', 'stage4']"},
         "if": "backbone_config.model_type == 'swin'"},
        {"name": "encoder", "auto": "AutoBackbone", "config": "backbone_config", "if": "backbone_config.model_type != 'swin'"},
        {"name": "decoder", "module": "@MaskFormerPixelDecoder",
         "with": {"in_features": f"{MASKFORMER_WIDTHS}[-1]", "lateral_widths": f"{MASKFORMER_WIDTHS}[:-1]", "feature_size": "fpn_feature_size", "mask_feature_size": "mask_feature_size"}},
    ],
}
HAND["MaskFormerTransformerModule"] = {
    "class": "MaskFormerTransformerModule",
    "arguments": ["in_features"],
    "children": [
        {"name": "position_embedder", "module": "@MaskFormerSinePositionEmbedding"},
        {"name": "queries_embedder", "module": "Embedding", "with": {"num_embeddings": "decoder_config.num_queries", "embedding_dim": "decoder_config.hidden_size"}},
        {"name": "input_projection", "module": "Conv2d", "with": {"in_channels": "in_features", "out_channels": "decoder_config.hidden_size", "kernel_size": 1},
         "if": "in_features != decoder_config.hidden_size"},
        {"name": "decoder", "module": "@MaskFormerDetrDecoder", "config": "decoder_config"},
    ],
}
HAND["MaskFormerLoss"] = {  # its matcher is the model's own
    "class": "MaskFormerLoss",
    "arguments": ["num_labels"],
    "tensors": [{"name": "empty_weight", "shape": ["num_labels + 1"], "buffer": True}],
}
HAND["OneFormerLoss"] = {
    "class": "OneFormerLoss",
    "arguments": ["num_classes", "contrastive_temperature"],
    "tensors": [{"name": "logit_scale", "shape": [], "dtype": "float64", "if": "contrastive_temperature is not None"}, {"name": "empty_weight", "shape": ["num_classes + 1"], "buffer": True}],
}
HAND["MaskFormerModel"] = {
    "class": "MaskFormerModel",
    "children": [
        {"name": "pixel_level_module", "module": "@MaskFormerPixelLevelModule"},
        {"name": "transformer_module", "module": "@MaskFormerTransformerModule", "with": {"in_features": f"{MASKFORMER_WIDTHS}[-1]"}},
    ],
}

HAND["Tipsv2DptReadoutProjectLayer"] = {
    "class": "Tipsv2DptReadoutProjectLayer",
    "arguments": ["in_dim", "out_dim"],
    "children": [{"name": "layers", "module": {"class": "ModuleList", "children": [linear("0", "in_dim", "out_dim", "True"), {"name": "1", "activation": "readout_activation"}]}}],
}
HAND["ShieldGemma2ForImageClassification"] = {"class": "ShieldGemma2ForImageClassification", "children": [{"name": "model", "module": "@Gemma3ForConditionalGeneration"}]}


def projection(width, channels, kernel, more):
    return {"class": "Sequential", "children": [
        {"name": "0", "module": "Conv2d", "with": {"in_channels": channels, "out_channels": width, "kernel_size": kernel, **more, "bias": "False"}},
        {"name": "1", "module": "BatchNorm2d", "with": {"num_features": width}},
    ]}



def detr_with_projections(prefix, label_embedding):
    """RT-DETR and what was made of it: one projection for each stage of the backbone and one for each level of the decoder."""
    labels = "num_labels" if label_embedding else "num_labels + 1"
    return {
        "class": prefix + "Model",
        "children": [
            {"name": "backbone", "module": f"@{prefix}ConvEncoder"},
            {"name": "encoder_input_proj", "repeat": "len(backbone_config.out_indices)", "index": "i",
             "module": projection("encoder_hidden_dim", "([backbone_config.embedding_size] + backbone_config.hidden_sizes)[backbone_config.out_indices[i]]", 1, {})},
            {"name": "encoder", "module": f"@{prefix}HybridEncoder"},
            {"name": "denoising_class_embed", "module": "Embedding", "with": {"num_embeddings": labels, "embedding_dim": "d_model"}, "if": "num_denoising > 0"},
            {"name": "weight_embedding", "module": "Embedding", "with": {"num_embeddings": "num_queries", "embedding_dim": "d_model"}, "if": "learn_initial_query"},
            {"name": "enc_output", "module": {"class": "Sequential", "children": [linear("0", "d_model", "d_model", "True"), {"name": "1", "module": "LayerNorm", "with": {"normalized_shape": "d_model"}}]}},
            linear("enc_score_head", "d_model", "num_labels", "True"),
            {"name": "enc_bbox_head", "module": f"@{prefix}MLPPredictionHead", "with": {"input_dim": "d_model", "d_model": "d_model", "hidden_dim": "d_model", "output_dim": 4, "num_layers": 3}},
            {"name": "decoder_input_proj", "repeat": "max(len(decoder_in_channels), num_feature_levels)", "index": "i",
             "module": projection("d_model", "decoder_in_channels[min(i, len(decoder_in_channels) - 1)] if i <= len(decoder_in_channels) else d_model",
                                  "1 if i < len(decoder_in_channels) else 3",
                                  {"stride": "1 if i < len(decoder_in_channels) else 2", "padding": "0 if i < len(decoder_in_channels) else 1"})},
            {"name": "decoder", "module": f"@{prefix}Decoder"},
            *([{"name": "denoising_class_embed", "module": "Embedding", "with": {"num_embeddings": labels, "embedding_dim": "d_model"}, "if": "num_denoising <= 0"}] if label_embedding else []),
        ],
    }


for prefix, label_embedding in (("RTDetr", False), ("RTDetrV2", False), ("PPDocLayoutV2", True)):
    HAND[prefix + "Model"] = detr_with_projections(prefix, label_embedding)

# Extents of Gemma 4's layers that `per_layer_config` may change, as lists: the whole config has one value for each only.
LAYER_OWN = "raw.per_layer_config[str(i)][{0!r}] if str(i) in raw.per_layer_config and {0!r} in raw.per_layer_config[str(i)] else {0}"
LAYER_SETS = "[" + LAYER_OWN + " for i in range(num_hidden_layers)] if raw.per_layer_config is not None else [{1} for i in range(num_hidden_layers)]"
GEMMA4_RULES = {
    "head_dim": 256,
    "layer_types": {
        "default": None,
        "always": "['sliding_attention' if (i + 1) % 6 != 0 and i < num_hidden_layers - 1 else 'full_attention' for i in range(num_hidden_layers)] if given is None "
                  "else given[0:len(given) - 1] + ['full_attention'] if len(given) > 0 else given",
    },
    "layer_head_dims": {"always": LAYER_SETS.format("head_dim", "head_dim if layer_types[i] != 'full_attention' else raw.global_head_dim if raw.global_head_dim is not None else 512")},
    "layer_key_value_heads": {"always": LAYER_SETS.format(
        "num_key_value_heads", "raw.num_global_key_value_heads if layer_types[i] == 'full_attention' and attention_k_eq_v and raw.num_global_key_value_heads is not None else num_key_value_heads")},
}
GEMMA4_HEAD, GEMMA4_PAIRS = "layer_head_dims[layer_idx]", "layer_key_value_heads[layer_idx] * layer_head_dims[layer_idx]"
GEMMA4_WIDE = "intermediate_size * (2 if use_double_wide_mlp and layer_idx >= num_hidden_layers - num_kv_shared_layers else 1)"
GEMMA4_OWN = "layer_idx < num_hidden_layers - num_kv_shared_layers"
for prefix in ("Gemma4", "Gemma4Unified"):
    RULES[prefix + "TextConfig"] = GEMMA4_RULES
    HAND[prefix + "TextAttention"] = {
        "class": prefix + "TextAttention",
        "arguments": ["layer_idx"],
        "children": [
            linear("q_proj", "hidden_size", f"num_attention_heads * {GEMMA4_HEAD}", "attention_bias"),
            {"name": "q_norm", "module": f"@{prefix}RMSNorm", "with": {"dim": GEMMA4_HEAD}},
            {"name": "k_norm", "module": f"@{prefix}RMSNorm", "with": {"dim": GEMMA4_HEAD}, "if": GEMMA4_OWN},
            {"name": "v_norm", "module": f"@{prefix}RMSNorm", "with": {"dim": GEMMA4_HEAD, "with_scale": "False"}, "if": GEMMA4_OWN},
            {**linear("k_proj", "hidden_size", GEMMA4_PAIRS, "attention_bias"), "if": GEMMA4_OWN},
            {**linear("v_proj", "hidden_size", GEMMA4_PAIRS, "attention_bias"), "if": f"{GEMMA4_OWN} and not (attention_k_eq_v and layer_types[layer_idx] != 'sliding_attention')"},
            linear("o_proj", f"num_attention_heads * {GEMMA4_HEAD}", "hidden_size", "attention_bias"),
        ],
    }
    HAND[prefix + "TextRotaryEmbedding"] = {
        "class": prefix + "TextRotaryEmbedding",
        "tensors": [
            {"name": f"{t}_attention_{n}", "shape": [f"[layer_head_dims[i] for i in range(num_hidden_layers) if layer_types[i] == '{t}_attention'][0] // 2"],
             "dtype": "float32", "buffer": True, "persistent": False, "if": f"'{t}_attention' in layer_types"}
            for t in ("full", "sliding") for n in ("inv_freq", "original_inv_freq")
        ],
    }
HAND["Gemma4TextMLP"] = {
    "class": "Gemma4TextMLP",
    "arguments": ["layer_idx"],
    "children": [
        *(linear(name, *extents, "False") for name, extents in (("gate_proj", ("hidden_size", GEMMA4_WIDE)), ("up_proj", ("hidden_size", GEMMA4_WIDE)), ("down_proj", (GEMMA4_WIDE, "hidden_size")))),
        {"name": "act_fn", "activation": "hidden_activation"},
    ],
}
HAND["Gemma4UnifiedModel"] = {
    "class": "Gemma4UnifiedModel",
    "children": [
        {"name": "language_model", "auto": "AutoModel", "config": "text_config"},
        {"name": "embed_vision", "module": "@Gemma4UnifiedVisionEmbedder", "with": {"text_config": "text_config"}, "config": "vision_config", "if": "vision_config is not None"},
        {"name": "embed_audio", "module": "@Gemma4UnifiedMultimodalEmbedder", "with": {"text_config": "text_config"}, "config": "audio_config", "if": "audio_config is not None"},
    ],
}
