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

# Rules for config fields.
RULES = {
    "HrmTextConfig": {
        "num_hidden_layers": {"default": 16, "always": "given if raw.num_layers_per_stack is not None else given * H_cycles * (L_cycles + 1)"},
        "num_layers_per_stack": {"expression": "raw.num_hidden_layers if raw.num_hidden_layers is not None else 16"},
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


HAND["RTDetrModel"] = {
    "class": "RTDetrModel",
    "children": [
        {"name": "backbone", "module": "@RTDetrConvEncoder"},
        {"name": "encoder_input_proj", "repeat": "len(backbone_config.out_indices)", "index": "i",
         "module": projection("encoder_hidden_dim", "([backbone_config.embedding_size] + backbone_config.hidden_sizes)[backbone_config.out_indices[i]]", 1, {})},
        {"name": "encoder", "module": "@RTDetrHybridEncoder"},
        {"name": "denoising_class_embed", "module": "Embedding", "with": {"num_embeddings": "num_labels + 1", "embedding_dim": "d_model"}, "if": "num_denoising > 0"},
        {"name": "weight_embedding", "module": "Embedding", "with": {"num_embeddings": "num_queries", "embedding_dim": "d_model"}, "if": "learn_initial_query"},
        {"name": "enc_output", "module": {"class": "Sequential", "children": [linear("0", "d_model", "d_model", "True"), {"name": "1", "module": "LayerNorm", "with": {"normalized_shape": "d_model"}}]}},
        linear("enc_score_head", "d_model", "num_labels", "True"),
        {"name": "enc_bbox_head", "module": "@RTDetrMLPPredictionHead", "with": {"input_dim": "d_model", "d_model": "d_model", "hidden_dim": "d_model", "output_dim": 4, "num_layers": 3}},
        {"name": "decoder_input_proj", "repeat": "max(len(decoder_in_channels), num_feature_levels)", "index": "i",
         "module": projection("d_model", "decoder_in_channels[min(i, len(decoder_in_channels) - 1)] if i <= len(decoder_in_channels) else d_model",
                              "1 if i < len(decoder_in_channels) else 3",
                              {"stride": "1 if i < len(decoder_in_channels) else 2", "padding": "0 if i < len(decoder_in_channels) else 1"})},
        {"name": "decoder", "module": "@RTDetrDecoder"},
    ],
}

# Extents of Gemma 4's layers that `per_layer_config` may change, as lists: the whole config has one value for each only.
LAYER_OWN = "raw.per_layer_config[str(i)][{0!r}] if str(i) in raw.per_layer_config and {0!r} in raw.per_layer_config[str(i)] else {0}"
LAYER_SETS = "[" + LAYER_OWN + " for i in range(num_hidden_layers)] if raw.per_layer_config is not None else [{1} for i in range(num_hidden_layers)]"
RULES["Gemma4UnifiedTextConfig"] = {
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
GEMMA4_OWN = "layer_idx < num_hidden_layers - num_kv_shared_layers"
HAND["Gemma4UnifiedTextAttention"] = {
    "class": "Gemma4UnifiedTextAttention",
    "arguments": ["layer_idx"],
    "children": [
        linear("q_proj", "hidden_size", f"num_attention_heads * {GEMMA4_HEAD}", "attention_bias"),
        {"name": "q_norm", "module": "@Gemma4UnifiedRMSNorm", "with": {"dim": GEMMA4_HEAD}},
        {"name": "k_norm", "module": "@Gemma4UnifiedRMSNorm", "with": {"dim": GEMMA4_HEAD}, "if": GEMMA4_OWN},
        {"name": "v_norm", "module": "@Gemma4UnifiedRMSNorm", "with": {"dim": GEMMA4_HEAD, "with_scale": "False"}, "if": GEMMA4_OWN},
        {**linear("k_proj", "hidden_size", GEMMA4_PAIRS, "attention_bias"), "if": GEMMA4_OWN},
        {**linear("v_proj", "hidden_size", GEMMA4_PAIRS, "attention_bias"), "if": f"{GEMMA4_OWN} and not (attention_k_eq_v and layer_types[layer_idx] != 'sliding_attention')"},
        linear("o_proj", f"num_attention_heads * {GEMMA4_HEAD}", "hidden_size", "attention_bias"),
    ],
}
HAND["Gemma4UnifiedTextRotaryEmbedding"] = {
    "class": "Gemma4UnifiedTextRotaryEmbedding",
    "tensors": [
        {"name": f"{t}_attention_{n}", "shape": [f"[layer_head_dims[i] for i in range(num_hidden_layers) if layer_types[i] == '{t}_attention'][0] // 2"],
         "dtype": "float32", "buffer": True, "persistent": False, "if": f"'{t}_attention' in layer_types"}
        for t in ("full", "sliding") for n in ("inv_freq", "original_inv_freq")
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
