# SPDX-License-Identifier: Apache-2.0
"""Definitions that are easier to write than to find, by class; they are proven like the others.

They stand in the form of the data; a module "@Class" is the class of that name in the same family.
"""
import wrapped


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

HAND["MimiResidualVectorQuantizer"] = {
    "class": "MimiResidualVectorQuantizer",
    "arguments": ["num_quantizers=None"],
    "children": [
        {"name": "layers", "repeat": "num_quantizers", "module": "@MimiVectorQuantization"},
        *({"name": name, "module": "Conv1d", "with": {"in_channels": inside, "out_channels": outside, "kernel_size": 1, "bias": "False"}, "if": "vector_quantization_hidden_dimension != hidden_size"}
          for name, inside, outside in (("input_proj", "hidden_size", "vector_quantization_hidden_dimension"), ("output_proj", "vector_quantization_hidden_dimension", "hidden_size"))),
    ],
}

# Nested configs that a class makes of its own fields.
DERIVED = {"MimiConfig": {"encoder_config": "mimi_encoder", "decoder_config": "mimi_decoder"}}

# Nested configs that a class has under some conditions only; who looks at them meets the conditions.
CONFIGS = {"EsmConfig": {"esmfold_config": {"model_type": "esm/EsmFoldConfig"}}, "WavTokenizerConfig": {"encoder_config": {"model_type": "wavtokenizer_encoder", "flat": True}}}

# Lists of names that are ignored, where they follow the config.
SHARED_FROM = "(num_hidden_layers - num_kv_shared_layers)"
SHARED_KEYS = f"['layers.' + str({SHARED_FROM} + k // 4) + '.self_attn.' + ['k_proj', 'v_proj', 'k_norm', 'v_norm'][k % 4] for k in range(4 * num_kv_shared_layers)]"
LISTS = {
    "BailingHybridModel": {"ignore_on_load_unexpected": r"['(^|\\.)layers\\.' + str(i) + '\\.' for i in range(num_hidden_layers, num_hidden_layers + num_mtp_layers)]"},
    **{f"{p}TextModel": {"ignore_on_load_unexpected": SHARED_KEYS} for p in ("Gemma3n", "Gemma4")},
}

OMNI_TALKER = {"spatial_merge_size": 2, "text_config": {"num_hidden_layers": 3, "num_experts": 4, "shared_expert_intermediate_size": 768}, "code_predictor_config": {"num_hidden_layers": 2}}

# Configs to begin with, of classes whose defaults alone make no model.
SEEDS = {
    "DeformableDetrConfig": [{"use_timm_backbone": False, "backbone": None, "backbone_config": {"model_type": "resnet", "out_features": ["stage2", "stage3", "stage4"]}}],
    "DetrConfig": [
        {"use_timm_backbone": False, "backbone": None, "d_model": d, "encoder_attention_heads": 8, "decoder_attention_heads": 8, "encoder_layers": 2, "decoder_layers": 2,
         "backbone_config": {"model_type": "resnet", "out_features": ["stage1", "stage2", "stage3", "stage4"]}} for d in (64, 256)
    ],
    "Dots1Config": [{"num_local_experts": 4, "num_hidden_layers": 4, "first_k_dense_replace": 1}],
    "Emu3Config": [{"vocabulary_map": {"<image>": 1, "<|extra_200|>": 2}}],
    "Dots3NoteTextConfig": [{"num_hidden_layers": 5}],
    "Dots3NoteVisionConfig": [{"num_hidden_layers": 4, "pyramid_num_routed": [-1, 4, 6, 4]}, {"num_hidden_layers": 3, "mlp_layer_types": ["sparse", "dense", "sparse"], "num_local_experts": 6}],
    "Dots3NoteConfig": [{"text_config": {"num_hidden_layers": 3}, "vision_config": {"num_hidden_layers": 3, "pyramid_num_routed": [-1, 4, 6]}, "audio_config": {"num_hidden_layers": 2}}],
    "EsmConfig": [{"vocab_size": 33}, {"vocab_size": 33, "is_folding_model": True, "num_hidden_layers": 2, "esmfold_config": {"trunk": {"num_blocks": 2}}}],
    "Gemma4UnifiedConfig": [{"vision_config": {"model_type": "gemma4_unified_vision"}, "audio_config": {"model_type": "gemma4_unified_audio"}, "text_config": {"model_type": "gemma4_unified_text", "num_hidden_layers": 6}}],
    "Gemma3nConfig": [{"text_config": {"num_hidden_layers": 5, "num_kv_shared_layers": 2}, "audio_config": {"conf_num_hidden_layers": 2}}],
    "HunYuanVLTextConfig": [{"head_dim": 64}],
    "HunYuanVLConfig": [{"text_config": {"model_type": "hunyuan_vl_text", "head_dim": 64}}],
    "TimmWrapperConfig": [{"architecture": a} for a in ("resnet18", "vit_tiny_patch16_224", "resnet50", "vit_base_patch32_224", "mobilenetv5_300m_enc", "resnet101", "vit_small_patch8_224")],
    "InklingTextConfig": [
        {"num_hidden_layers": 4, "layer_types": ["hybrid", "hybrid_sliding", "hybrid", "hybrid_sliding"], "mlp_layer_types": ["dense", "sparse", "dense", "sparse"], "n_routed_experts": 8,
         "num_attention_heads": 16, "num_key_value_heads": 4}],
    "InklingConfig": [
        {"text_config": {"num_hidden_layers": 3, "layer_types": ["hybrid", "hybrid_sliding", "hybrid"], "mlp_layer_types": ["dense", "sparse", "sparse"], "n_routed_experts": 8, "num_key_value_heads": 4}}],
    "Qwen3OmniMoeTalkerTextConfig": [{"num_hidden_layers": 3, "num_experts": 4, "shared_expert_intermediate_size": 768}],
    "Qwen3OmniMoeTalkerConfig": [OMNI_TALKER],
    "Qwen3OmniMoeConfig": [
        {"thinker_config": {"text_config": {"num_hidden_layers": 2, "num_experts": 4}, "vision_config": {"depth": 2, "deepstack_visual_indexes": [0, 1]}, "audio_config": {"encoder_layers": 2}},
         "talker_config": OMNI_TALKER},
    ],
}

# Fields that a config class puts into one of its nested configs.
SETS = {
    "InklingConfig": {
        "audio_config": {"text_hidden_size": "text_config.hidden_size"},
        "vision_config": {"text_hidden_size": "text_config.hidden_size", "is_half": "raw.dtype == 'bfloat16' or raw.torch_dtype == 'bfloat16'"}},
    "HunYuanVLConfig": {"vision_config": {"text_hidden_size": "text_config.hidden_size"}},
    "PI0Config": {"dit_config": {"vocab_size": "vlm_config.text_config.vocab_size"}},
}

# Rules for config fields.
RULES = {
    "HrmTextConfig": {
        "num_hidden_layers": {"default": 16, "always": "given if raw.num_layers_per_stack is not None else given * H_cycles * (L_cycles + 1)"},
        "num_layers_per_stack": {"expression": "raw.num_hidden_layers if raw.num_hidden_layers is not None else 16"},
    },
    **{name: {"head_dim": {"expression": "hidden_size // num_attention_heads"}} for name in ("ApertusConfig", "Ernie4_5_VLMoeTextConfig")},  # read from the file, if it stands there
    "BailingHybridConfig": {"linear_head_dim": {"absent": "raw.head_dim if raw.head_dim is not None else 128"}},
    "JambaConfig": {
        "layers_block_type": {"always": "['attention' if i % attn_layer_period == attn_layer_offset else 'mamba' for i in range(num_hidden_layers)]"},
        "layers_num_experts": {"always": "[num_experts if i % expert_layer_period == expert_layer_offset else 1 for i in range(num_hidden_layers)]"},
    },
    "Llama4TextConfig": {"moe_layers": {"expression": "[i for i in range(num_hidden_layers) if i % interleave_moe_layer_step == interleave_moe_layer_step - 1]"}},
    "AlignVisionConfig": {"num_hidden_layers": {"always": "sum([ceil(depth_coefficient * n) for n in num_block_repeats])"}},
    "EfficientLoFTRConfig": {
        "stage_block_out_channels": {"always": "[[out_features[s] for k in range(stage_num_blocks[s])] for s in range(len(stage_num_blocks))]"},
        "stage_block_in_channels": {"always": "[[([1] + out_features)[s] if k == 0 else out_features[s] for k in range(stage_num_blocks[s])] for s in range(len(stage_num_blocks))]"},
    },
    "GemmaConfig": {"hidden_act": {"default": "gelu_pytorch_tanh", "always": "'gelu_pytorch_tanh' if given == 'gelu' else given"}},
    **{name: {"indexer_types": {"expression": "['full' if i == 0 or (i - 1) % 4 == 0 else 'shared' for i in range(num_hidden_layers)]"}} for name in ("HYV4Config", "HYV4VLTextConfig")},
    "LaraMiniConfig": {
        "layer_types": {"expression": "[['linear_attention', 'sliding_attention', 'linear_attention', 'full_attention', 'sliding_attention'][i % 5] for i in range(num_hidden_layers)]"}},
    "Lfm2Config": {"full_attn_idxs": {"expression": "[i for i in range(num_hidden_layers)]"}},
    "PvtV2Config": {"stage_names": {"always": "['stage' + str(i + 1) for i in range(len(depths))]"}},
    "Sapiens2HeadConfig": {
        f"{part}_kernel_sizes": {"expression": f"[{part}_kernel_size for i in range(len({part}_out_channels))] if {part}_out_channels is not None else None"}
        for part in ("upsample", "conv", "scale_conv")
    },
    "Sapiens2Config": {
        "num_key_value_heads_per_layer": {
            "expression": "[num_attention_heads if i < num_first_full_attention_layers or i >= num_hidden_layers - num_last_full_attention_layers "
                          "else num_key_value_attention_heads for i in range(num_hidden_layers)]"},
    },
    **{f"{name}Config": {
        "dense_act_fn": {"absent": "'gelu_new' if feed_forward_proj == 'gated-gelu' else feed_forward_proj[6:] if feed_forward_proj[0:6] == 'gated-' else feed_forward_proj"},
        "is_gated_act": {"absent": "feed_forward_proj[0:6] == 'gated-'"},
    } for name in ("T5", "MT5", "UMT5", "LongT5")},
    "UdopConfig": {"dense_act_fn": {"absent": "feed_forward_proj[6:] if feed_forward_proj[0:6] == 'gated-' else feed_forward_proj"}, "is_gated_act": {"absent": "feed_forward_proj[0:6] == 'gated-'"}},
    "Pop2PianoConfig": {"is_gated_act": {"absent": "feed_forward_proj[0:6] == 'gated-'"}},
    "SwitchTransformersConfig": {
        f"{side}_sparse_step": {"absent": f"{count} // num_sparse_{side}_layers if num_sparse_{side}_layers > 0 else {count}"} for side, count in (("encoder", "num_layers"), ("decoder", "num_decoder_layers"))
    },
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
    RULES.setdefault(name, {})[field] = {"default": "auto", "always": f"ceil(hidden_size / 16) if given == 'auto' else given"}

# The vision tower of Inkling folds a patch by the largest prime factors first, and takes for each layer the fold that is nearest to an even growth.
INKLING_FOLDS = "[d for d in range(2, {0} + 1) if {0} % d == 0 and min([q for q in primes if d % q == 0]) >= max([1] + [q for q in primes if {0} // d % q == 0])]"
INKLING_PLACE = "len([k for k in range(len(fold_areas) - 1) if 2 * growth[i] > fold_logs[k] + fold_logs[k + 1] + 0.000001])"
# With fewer layers than folds it takes the assignment of the least cost; logarithms come from small powers.
INKLING_CHOICES = "[[j for j in range(len(fold_areas)) if c // 2 ** (len(fold_areas) - 1 - j) % 2 == 1] for c in range(2 ** len(fold_areas))]"
INKLING_COST = "sum([abs(growth[k] - fold_logs[c[k]]) for k in range(num_hidden_layers + 1)])"


def in_bfloat16(e):
    """What is left of a number from 0 up to 16 in that type, in which the reference computes the growth if the model has it."""
    text = "round(v * 1024) / 1024"
    for least, parts in ((0.25, 512), (0.5, 256), (1, 128), (2, 64), (4, 32), (8, 16)):
        text = f"round(v * {parts}) / {parts} if v >= {least} else {text}"
    return f"[{text} for v in [{e}]][0]"


RULES["InklingVisionConfig"] = {
    "primes": {"always": "[q for q in range(2, max(patch_size, temporal_patch_size) + 1) if len([r for r in range(2, q) if q % r == 0]) == 0]"},
    "folds": {"always": INKLING_FOLDS.format("patch_size")},
    "time_folds": {"always": INKLING_FOLDS.format("temporal_patch_size")},
    "fold_areas": {"always": "[1] + [d * d for d in folds] + [patch_size * patch_size * t for t in time_folds]"},
    "fold_widths": {"always": "[num_channels] + [(d * d * num_channels + 63) // 64 * 64 for d in folds] + [patch_size * patch_size * num_channels * t * 64 for t in time_folds]"},
    "patch_values": {"always": "patch_size * patch_size * temporal_patch_size * num_channels"},
    "patch_log": {"always": "(patch_values ** 0.00001 - patch_values ** -0.00001) * 50000"},
    "is_half": {"always": "raw.dtype == 'bfloat16' or raw.torch_dtype == 'bfloat16'"},
    "growth_end": {"always": in_bfloat16("patch_log")},
    "growth_step": {"always": in_bfloat16("growth_end / num_hidden_layers")},
    "growth": {"always": "[patch_log * k / num_hidden_layers for k in range(num_hidden_layers + 1)] if not is_half else "
                         f"[{in_bfloat16('growth_step * k')} if k < (num_hidden_layers + 1) // 2 else {in_bfloat16('growth_end - ' + in_bfloat16('growth_step * (num_hidden_layers - k)'))} "
                         "for k in range(num_hidden_layers + 1)]"},
    "fold_logs": {"always": "[(a ** 0.00001 - a ** -0.00001) * 50000 for a in fold_areas]"},
    "fold_choices": {"always": f"[c for c in {INKLING_CHOICES} if len(c) == num_hidden_layers + 1] if num_hidden_layers < len(fold_areas) and len(fold_areas) <= 12 else []"},
    "fold_costs": {"always": f"[{INKLING_COST} for c in fold_choices]"},
    "plan": {"always": f"[0] + [{INKLING_PLACE} for i in range(1, num_hidden_layers)] + [len(fold_areas) - 1] if num_hidden_layers >= len(fold_areas) "
                       "else [k if k < num_hidden_layers - 1 else num_hidden_layers for k in range(num_hidden_layers + 1)] "
                       "if num_hidden_layers == len(fold_areas) - 1 and growth[num_hidden_layers - 1] >= fold_logs[-1] - 0.000001 "
                       "else [0] + [fold_choices[c] for c in range(len(fold_choices)) if fold_costs[c] <= min(fold_costs) + 0.000001][-1][1:num_hidden_layers] + [len(fold_areas) - 1]"},
}
RULES["InklingTextConfig"] = {
    "layer_types": {"expression": "['hybrid_sliding' if (i in raw.local_layer_ids if raw.local_layer_ids is not None else (i + 1) % 6 != 0) else 'hybrid' for i in range(num_hidden_layers)]"},
    "mlp_layer_types": {"expression": "['dense' if i < (raw.dense_mlp_idx if raw.dense_mlp_idx is not None else 0) else 'sparse' for i in range(num_hidden_layers)]"},
    # Where a file has the width of dense layers, the other one is that of the experts.
    "intermediate_size": {"default": 24576, "always": "raw.dense_intermediate_size if raw.dense_intermediate_size is not None else given"},
    "moe_intermediate_size": {
        "default": 3072, "always": "given if raw.dense_intermediate_size is None else raw.intermediate_size if raw.intermediate_size is not None else 24576"},
}
HAND["InklingVisionModel"] = {
    "class": "InklingVisionModel",
    "children": [
        {"name": "encoder_layers", "repeat": "num_hidden_layers", "index": "i", "module": "@InklingVisionEncoderLayer",
         "with": {"input_dim": "fold_widths[plan[i]] * (fold_areas[plan[i + 1]] // fold_areas[plan[i]])",
                  "output_dim": "text_hidden_size if i == num_hidden_layers - 1 else fold_widths[plan[i + 1]]", "add_norm": "i != num_hidden_layers - 1"}},
        {"name": "final_norm", "module": "@InklingRMSNorm", "with": {"hidden_size": "text_hidden_size"}},
    ],
}


def linear(name, inside, outside, bias):
    return {"name": name, "module": "Linear", "with": {"in_features": inside, "out_features": outside, "bias": bias}}


INKLING = {name: f"({sliding} if layer_types[layer_idx] == 'hybrid_sliding' else {full})" for name, sliding, full in (
    ("head", "swa_head_dim", "head_dim"), ("heads", "swa_num_attention_heads", "num_attention_heads"), ("pairs", "swa_num_key_value_heads", "num_key_value_heads"),
    ("extent", "sliding_window_size", "rel_extent"))}
INKLING_QUERIES, INKLING_KEYS = f"{INKLING['heads']} * {INKLING['head']}", f"{INKLING['pairs']} * {INKLING['head']}"
HAND["InklingAttention"] = {
    "class": "InklingAttention",
    "arguments": ["layer_idx"],
    "children": [
        linear("q_proj", "hidden_size", INKLING_QUERIES, "False"), linear("k_proj", "hidden_size", INKLING_KEYS, "False"), linear("v_proj", "hidden_size", INKLING_KEYS, "False"),
        linear("r_proj", "hidden_size", f"{INKLING['heads']} * d_rel", "False"), linear("o_proj", INKLING_QUERIES, "hidden_size", "False"),
        *({"name": n, "module": "@InklingShortConvolution", "dtype": "float32", "with": {"hidden_size": INKLING_KEYS, "conv_kernel_size": "conv_kernel_size"}} for n in ("k_sconv", "v_sconv")),
        *({"name": n, "module": "@InklingRMSNorm", "with": {"hidden_size": INKLING["head"]}} for n in ("q_norm", "k_norm")),
        {"name": "rel_logits_proj", "module": "@InklingRelativeLogits", "with": {"d_rel": "d_rel", "rel_extent": INKLING["extent"]}},
    ],
}


def of_layer(field, fallback):
    """The value that `per_layer_config` gives a field in layer i; its keys may be filled up with zeros."""
    keys = f"[k for k in [str(i), '0' + str(i), '00' + str(i)] if k in raw.per_layer_config and {field!r} in raw.per_layer_config[k]]"
    return f"raw.per_layer_config[{keys}[0]][{field!r}] if len({keys}) > 0 else {fallback}"


def in_layers(field, default):
    """The values of a field in all layers; default: where there is no `per_layer_config`."""
    return f"[{of_layer(field, field)} for i in range(num_hidden_layers)] if raw.per_layer_config is not None else [{default} for i in range(num_hidden_layers)]"


DOTS3_SLIDING = {"num_attention_heads": "64", "q_lora_rank": "1024", "kv_lora_rank": "1024", "head_dim": "256", "qk_nope_head_dim": "192", "v_head_dim": "128"}
DOTS3_GIVEN = {f: f"(raw.swa_{f} if raw.swa_{f} is not None else {d})" for f, d in DOTS3_SLIDING.items()}
DOTS3_GIVEN["qk_rope_head_dim"] = f"(raw.swa_qk_rope_head_dim if raw.swa_qk_rope_head_dim is not None else {DOTS3_GIVEN['head_dim']} - {DOTS3_GIVEN['qk_nope_head_dim']})"
DOTS3_INDEXED = "raw.use_dsa == True or raw.use_dsa is None and raw.per_layer_config is None"
RULES["Dots3NoteTextConfig"] = {
    **{"layer_" + f: {"always": in_layers(f, f"{g} if layer_types[i] == 'sliding_attention' else {f}")} for f, g in DOTS3_GIVEN.items()},
    "kv_lora_rank": 512, "num_attention_heads": 128, "qk_nope_head_dim": 128,
    "num_key_value_heads": {"default": 128, "expression": "num_attention_heads"},
    "layer_types": {
        "default": None,
        "always": "[('full_attention' if raw.use_dsa == False else 'indexed_attention') if raw.use_sliding_window == False or i < 2 or i % 4 == 1 else 'sliding_attention' "
                  "for i in range(num_hidden_layers)] if given is None "
                  f"else ['indexed_attention' if t == 'full_attention' else t for t in given] if {DOTS3_INDEXED} "
                  "else ['full_attention' if t == 'indexed_attention' else t for t in given] if raw.use_dsa == False else given",
    },
    "mlp_layer_types": {
        "expression": "['sparse' if i >= (raw.first_k_dense_replace if raw.first_k_dense_replace is not None else 1) and "
                      "(raw.moe_layer_freq[i] if is_list(raw.moe_layer_freq) else i % (raw.moe_layer_freq if raw.moe_layer_freq is not None else 1) == 0) "
                      "else 'dense' for i in range(num_hidden_layers)]",
    },
    "shared_experts_intermediate_size": {"default": 1536, "always": "raw.moe_shared_expert_intermediate_size if raw.moe_shared_expert_intermediate_size is not None else given"},
}
DOTS3_PYRAMID = "(raw.pyramid_num_routed if raw.pyramid_num_routed is not None else [-1 if k < 25 else min(4 * (k - 24), 64) for k in range(42)])"
DOTS3_PLAINLY = "raw.pyramid_num_routed is None and raw.mlp_layer_types is not None"
RULES["Dots3NoteVisionConfig"] = {
    "hidden_size": {"default": 1536, "always": "raw.embed_dim if raw.embed_dim is not None else given"},
    "num_attention_heads": {"default": 24, "always": "raw.num_heads if raw.num_heads is not None else given"},
    "attention_bias": {"default": False, "always": "raw.use_bias if raw.use_bias is not None else given"},
    "num_local_experts": 64,
    "mlp_layer_types": {"default": None, "always": f"given if {DOTS3_PLAINLY} else ['sparse' if k > 0 else 'dense' for k in {DOTS3_PYRAMID}]"},
    "layer_experts": {"always": f"[{of_layer('num_local_experts', 'num_local_experts')} for i in range(num_hidden_layers)] if raw.per_layer_config is not None "
                                f"else [num_local_experts for i in range(num_hidden_layers)] if {DOTS3_PLAINLY} else {DOTS3_PYRAMID}"},
}
DOTS3_WHISPER = {"d_model": "hidden_size", "encoder_attention_heads": "num_attention_heads", "encoder_layers": "num_hidden_layers", "encoder_ffn_dim": "intermediate_size", "num_mel_bins": "feature_size",
                 "max_source_positions": "max_position_embeddings"}
DOTS3_AUDIO = {"hidden_size": 1280, "num_attention_heads": 20, "num_hidden_layers": 32, "intermediate_size": 5120, "feature_size": 128, "max_position_embeddings": 6000}
RULES["Dots3NoteAudioConfig"] = {
    **{f: {"default": DOTS3_AUDIO[f], "always": f"raw.whisper_config[{n!r}] if raw.whisper_config is not None and {n!r} in raw.whisper_config else given"} for n, f in DOTS3_WHISPER.items()},
    "adapter_input_size": {"default": 1280, "always": "raw.whisper_adapter_in_dim if raw.whisper_adapter_in_dim is not None else given"},
    "adapter_out_dim": {"default": 5120, "always": "raw.whisper_adapter_out_dim if raw.whisper_adapter_out_dim is not None else raw.adapter_output_size if raw.adapter_output_size is not None else given"},
}
DOTS3 = {f: f"layer_{f}[layer_idx]" for f in DOTS3_GIVEN}
HAND["Dots3NoteTextIndexer"] = {
    "class": "Dots3NoteTextIndexer",
    "arguments": ["q_lora_rank"],
    "children": [
        linear("wq_b", "q_lora_rank", "index_n_heads * index_head_dim", "False"),
        linear("wk", "hidden_size", "index_head_dim", "False"),
        {"name": "k_norm", "module": "LayerNorm", "with": {"normalized_shape": "index_head_dim"}},
        linear("weights_proj", "hidden_size", "index_n_heads", "False"),
    ],
}
HAND["Dots3NoteTextAttention"] = {
    "class": "Dots3NoteTextAttention",
    "arguments": ["layer_idx"],
    "children": [
        linear("q_a_proj", "hidden_size", DOTS3["q_lora_rank"], "attention_bias"),
        {"name": "q_a_layernorm", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": DOTS3["q_lora_rank"]}},
        linear("q_b_proj", DOTS3["q_lora_rank"], f"{DOTS3['num_attention_heads']} * ({DOTS3['qk_nope_head_dim']} + {DOTS3['qk_rope_head_dim']})", "False"),
        linear("kv_a_proj_with_mqa", "hidden_size", f"{DOTS3['kv_lora_rank']} + {DOTS3['qk_rope_head_dim']}", "attention_bias"),
        {"name": "kv_a_layernorm", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": DOTS3["kv_lora_rank"]}},
        linear("kv_b_proj", DOTS3["kv_lora_rank"], f"{DOTS3['num_attention_heads']} * ({DOTS3['qk_nope_head_dim']} + {DOTS3['v_head_dim']})", "False"),
        linear("o_proj", f"{DOTS3['num_attention_heads']} * {DOTS3['v_head_dim']}", "hidden_size", "attention_bias"),
        {"name": "k_rope_only_layernorm", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": DOTS3["qk_rope_head_dim"]}},
        linear("g_proj", "hidden_size", DOTS3["num_attention_heads"], "False"),
        {"name": "indexer", "module": "@Dots3NoteTextIndexer", "with": {"q_lora_rank": DOTS3["q_lora_rank"]}, "if": "layer_types[layer_idx] == 'indexed_attention'"},
    ],
}
HAND["Dots3NoteVisionMoE"] = {
    "class": "Dots3NoteVisionMoE",
    "arguments": ["layer_idx"],
    "tensors": [{"name": "e_score_correction_bias", "shape": ["layer_experts[layer_idx]"], "dtype": "float32", "buffer": True}],
    "children": [{"name": n, "module": m, "set": {"num_local_experts": "layer_experts[layer_idx]"}} for n, m in (("experts", "@Dots3NoteExperts"), ("gate", "@Dots3NoteVisionTopKRouter"))],
}
HAND["Dots3NoteVisionBlock"] = {
    "class": "Dots3NoteVisionBlock",
    "bases": ["GradientCheckpointingLayer", "Module"],
    "arguments": ["layer_idx"],
    "children": [
        {"name": "norm1", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "hidden_size"}},
        {"name": "attn", "module": "@Dots3NoteVisionAttention"},
        {"name": "norm2", "module": "@Dots3NoteRMSNorm", "with": {"hidden_size": "hidden_size"}},
        {"name": "mlp", "module": "@Dots3NoteVisionMoE", "with": {"layer_idx": "layer_idx"}, "if": "mlp_layer_types[layer_idx] == 'sparse'"},
        {"name": "mlp", "module": "@Dots3NoteVisionMLP", "if": "mlp_layer_types[layer_idx] != 'sparse'"},
    ],
}
DOTS3_FIRST = "[k for k in range(num_hidden_layers) if layer_types[k] == '{0}_attention'][0]"
DOTS3_ROTARY = f"(int(layer_head_dim[{DOTS3_FIRST}] * (layer_qk_rope_head_dim[{DOTS3_FIRST}] / layer_head_dim[{DOTS3_FIRST}])) + 1) // 2"
HAND["Dots3NoteTextRotaryEmbedding"] = {
    "class": "Dots3NoteTextRotaryEmbedding",
    "tensors": [
        {"name": f"{t}_attention_{n}", "shape": [DOTS3_ROTARY.format(t)], "dtype": "float32", "buffer": True, "persistent": False, "if": f"'{t}_attention' in layer_types"}
        for t in ("full", "indexed", "sliding") for n in ("inv_freq", "original_inv_freq")
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


STAGE_CHANNELS = "([backbone_config.embedding_size] + backbone_config.hidden_sizes)[backbone_config.out_indices[{}]]"


def input_projections(first, count):
    """One projection for each stage of the backbone from the one that is numbered first on."""
    return [{"name": "encoder_input_proj", "repeat": count, "index": "i", "module": projection("encoder_hidden_dim", STAGE_CHANNELS.format(f"i + {first}" if first else "i"), 1, {})}]


DECODER_PROJECTIONS = [next(c for c in detr_with_projections("RTDetr", False)["children"] if c["name"] == "decoder_input_proj")]
LAST_EVALUATED = "(eval_idx if eval_idx >= 0 else decoder_layers + eval_idx)"
POWERS_OF_TWO = "len([k for k in range(32) if 2 ** (k + 1) <= {}])"


def heads_of_layers(prefix):
    width = f"d_model if i <= {LAST_EVALUATED} else round(layer_scale * d_model)"
    return {
        prefix + "class_embed": [{"name": prefix + "class_embed", "repeat": "decoder_layers", "module": "Linear", "with": {"in_features": "d_model", "out_features": "num_labels"}}],
        prefix + "bbox_embed": [{"name": prefix + "bbox_embed", "repeat": f"max(decoder_layers, {LAST_EVALUATED} + 1)", "index": "i", "module": "@DFineMLP",
                                 "with": {"act": "'relu'", "hidden_dim": width, "input_dim": width, "num_layers": 3, "output_dim": "4 * (max_num_bins + 1)"}}],
    }


POINTS = "(sum(decoder_n_points) if is_list(decoder_n_points) else decoder_n_points * num_feature_levels)"
HAND["DFineMultiscaleDeformableAttention"] = {
    "class": "DFineMultiscaleDeformableAttention",
    "tensors": [{"name": "num_points_scale", "shape": [POINTS], "dtype": "float32", "buffer": True}],
    "children": [linear("sampling_offsets", "d_model", f"decoder_attention_heads * {POINTS} * 2", "True"), linear("attention_weights", "d_model", f"decoder_attention_heads * {POINTS}", "True")],
}
LEVELS, WIDER = "max(len(decoder_in_channels), num_feature_levels)", "i < len(decoder_in_channels)"
# Children of definitions that are derived but for them: {class: {name: entries}}.
CHILDREN = {
    "PPDocLayoutV4EncoderLayer": {"mlp": [{"name": "mlp", "module": "@PPDocLayoutV4MLP", "with": {
        "activation_function": "encoder_activation_function", "hidden_size": "encoder_hidden_dim", "intermediate_size": "encoder_ffn_dim"}}]},
    "DFineDecoder": {
        "layers": [{"name": "layers", "repeat": f"decoder_layers + max(decoder_layers - {LAST_EVALUATED} - 1, 0)", "module": "@DFineDecoderLayer"}],
        "lqe_layers": [{"name": "lqe_layers", "repeat": "decoder_layers", "module": "@DFineLQE"}],
    },
    "DFineForObjectDetection": {**heads_of_layers(""), **heads_of_layers("model.decoder.")},
    "DFineHybridEncoder": {"aifi": [{"name": "aifi", "repeat": "len(encode_proj_layers)", "module": "@DFineAIFILayer"}]},
    "Emu3VQVAEEncoder": {"time_conv": [
        {"name": "time_conv", "repeat": POWERS_OF_TWO.format("temporal_downsample_factor"), "module": "@Emu3VQVAETemporalDownsample",
         "with": {name: "latent_channels if not double_latent else 2 * latent_channels" for name in ("in_channel", "out_channel")}}]},
    "Emu3VQVAEDecoder": {"time_conv": [
        {"name": "time_conv", "repeat": POWERS_OF_TWO.format("temporal_downsample_factor"), "module": "@Emu3VQVAETemporalUpsample",
         "with": {"in_channel": "latent_channels", "out_channel": "latent_channels"}}]},
    "PPDocLayoutV3ScaleHead": {"layers": [
        {"name": "layers", "repeat": f"max(1, {POWERS_OF_TWO.format('fpn_stride / base_stride')}) * (1 if fpn_stride == base_stride else 2)", "index": "i", "if": "i % 2 == 0",
         "module": "@PPDocLayoutV3ConvLayer", "with": {"activation": "'silu'", "dilation": 1, "groups": 1, "in_channels": "in_channels if i == 0 else feature_channels",
                                                       "kernel_size": 3, "out_channels": "feature_channels", "stride": 1}},
        {"name": "layers", "repeat": f"max(1, {POWERS_OF_TWO.format('fpn_stride / base_stride')}) * (1 if fpn_stride == base_stride else 2)", "index": "i", "if": "i % 2 == 1", "module": "Upsample"},
    ]},
    "DFineModel": {
        "encoder_input_proj": input_projections(0, "len(decoder_in_channels)"),
        "decoder_input_proj": [
            {"name": "decoder_input_proj", "repeat": LEVELS, "index": "i", "if": "d_model == decoder_in_channels[-1]", "module": "Identity"},
            {"name": "decoder_input_proj", "repeat": LEVELS, "index": "i", "if": "d_model != decoder_in_channels[-1]",
             "module": projection("d_model", "decoder_in_channels[-1]", f"1 if {WIDER} else 3", {"stride": f"1 if {WIDER} else 2", "padding": f"0 if {WIDER} else 1"})},
        ],
    },
    "PPDocLayoutV3Model": {"encoder_input_proj": input_projections(1, "len(backbone_config.out_indices) - 1"), "decoder_input_proj": DECODER_PROJECTIONS},
    "PPDocLayoutV4Model": {"encoder_input_proj": input_projections(0, "len(backbone_config.out_indices)"), "decoder_input_proj": DECODER_PROJECTIONS},
}
MAP_CHANNELS, FUSED_CHANNELS = "([backbone_config.num_channels] + convstream_hidden_sizes)", "([hidden_size] + fusion_hidden_sizes)"
QUERY_HEADS = "num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim)"
CHILDREN |= {
    "VitMatteConvStream": {"convs": [{"name": "convs", "repeat": "len(convstream_hidden_sizes)", "index": "i", "module": "@VitMatteBasicConv3x3", "with": {
        "in_channels": MAP_CHANNELS + "[i]", "out_channels": "convstream_hidden_sizes[i]", "padding": 1, "stride": 2}}]},
    "VitMatteDetailCaptureModule": {"fusion_blocks": [{"name": "fusion_blocks", "repeat": "len(fusion_hidden_sizes)", "index": "i", "module": "@VitMatteFusionBlock", "with": {
        "in_channels": f"{FUSED_CHANNELS}[i] + {MAP_CHANNELS}[len(convstream_hidden_sizes) - i]", "out_channels": "fusion_hidden_sizes[i]"}}]},
    "CHMv2ReassembleStage": {"layers": [{"name": "layers", "repeat": "min(len(post_process_channels), len(reassemble_factors))", "index": "i", "module": "@CHMv2ReassembleLayer", "with": {
        "channels": "post_process_channels[i]", "factor": "reassemble_factors[i]"}}]},
    "TapasEmbeddings": {f"token_type_embeddings_{k}": [{
        "name": f"token_type_embeddings_{k}", "module": "Embedding", "with": {"num_embeddings": f"type_vocab_sizes[{k}]", "embedding_dim": "hidden_size"},
        "if": f"len(type_vocab_sizes) > {k}"}] for k in range(12)},
    "KimiLinearAttention": {
        "q_proj": [
            {**linear("q_proj", "hidden_size", QUERY_HEADS, "False"), "if": "q_lora_rank is None"},
            {**linear("q_a_proj", "hidden_size", "q_lora_rank", "attention_bias"), "if": "q_lora_rank is not None"},
            {"name": "q_a_layernorm", "module": "@KimiLinearRMSNorm", "with": {"hidden_size": "q_lora_rank"}, "if": "q_lora_rank is not None"},
            {**linear("q_b_proj", "q_lora_rank", QUERY_HEADS, "False"), "if": "q_lora_rank is not None"},
        ],
        "q_a_proj": [], "q_a_layernorm": [], "q_b_proj": [],
        "kv_a_proj_with_mqa": [linear("kv_a_proj_with_mqa", "hidden_size", "kv_lora_rank + qk_rope_head_dim", "attention_bias")],
        "o_proj": [linear("o_proj", "num_attention_heads * v_head_dim", "hidden_size", "attention_bias")],
    },
    "Glm5NextTextAttention": {"indexer": [{"name": "indexer", "module": "@Glm5NextTextIndexer", "if": "config.indexer_types[layer_idx] != 'shared'"}]},
}
RULES["Glm5NextTextConfig"] = {"indexer_types": {"expression": (
    "raw.index_topk_pattern if is_list(raw.index_topk_pattern)"
    " else ['full' if raw.index_topk_pattern[i:i + 1] == 'F' else 'shared' for i in range(len(raw.index_topk_pattern))] if raw.index_topk_pattern is not None"
    " else ['full' if max(i - (raw.index_skip_topk_offset if raw.index_skip_topk_offset is not None else 2) + 1, 0)"
    " % max(raw.index_topk_freq if raw.index_topk_freq is not None else 1, 1) == 0 else 'shared' for i in range(num_hidden_layers)]")}}

for prefix, label_embedding in (("RTDetr", False), ("RTDetrV2", False), ("PPDocLayoutV2", True)):
    HAND[prefix + "Model"] = detr_with_projections(prefix, label_embedding)

# Extents of Gemma 4's layers that `per_layer_config` may change, as lists: the whole config has one value for each only.
GEMMA4_RULES = {
    "head_dim": 256,
    "layer_types": {
        "default": None,
        "always": "['sliding_attention' if (i + 1) % 6 != 0 and i < num_hidden_layers - 1 else 'full_attention' for i in range(num_hidden_layers)] if given is None "
                  "else given[0:len(given) - 1] + ['full_attention'] if len(given) > 0 else given",
    },
    "layer_head_dims": {"always": in_layers("head_dim", "head_dim if layer_types[i] != 'full_attention' else raw.global_head_dim if raw.global_head_dim is not None else 512")},
    "layer_key_value_heads": {"always": in_layers(
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

# The part of a head that is rotated stands inside of rope_parameters, an object of which the class fills in what a file leaves out.
RULES["Mistral4Config"] = {
    "head_dim": {"absent": "qk_nope_head_dim + qk_rope_head_dim"},
    "rotated": {"always": "raw.rope_parameters['partial_rotary_factor'] if raw.rope_parameters is not None and 'partial_rotary_factor' in raw.rope_parameters "
                          "else qk_rope_head_dim / (qk_nope_head_dim + qk_rope_head_dim)"},
}
RULES["DeepseekV4Config"] = {
    "partial_rotary_factor": {"default": None, "always": "given if given is not None else raw.qk_rope_head_dim / head_dim if raw.qk_rope_head_dim is not None else 0.125"},
    "layer_types": {
        "default": None,
        "always": "(given if given is not None else ['sliding_attention' if r == 0 else 'compressed_sparse_attention' if r == 4 else 'heavily_compressed_attention' for r in raw.compress_ratios] "
                  "if raw.compress_ratios is not None else ['heavily_compressed_attention' if i < 2 or i % 2 == 0 else 'compressed_sparse_attention' for i in range(num_hidden_layers)])"
                  "[0:num_hidden_layers]"},
    "mlp_layer_types": {
        "default": None,
        "always": "(given if given is not None else ['hash_moe' if i < (raw.num_hash_layers if raw.num_hash_layers is not None else 3) else 'moe' for i in range(num_hidden_layers)])"
                  "[0:num_hidden_layers]"},
}
for field, kind, legacy, default in (("sparse_rate", "compressed_sparse_attention", "compress_rate_csa", 4), ("heavy_rate", "heavily_compressed_attention", "compress_rate_hca", 128)):
    RULES["DeepseekV4Config"][field] = {"always": f"raw.{legacy} if raw.{legacy} is not None else raw.compress_rates['{kind}'] if raw.compress_rates is not None else {default}"}
for kind in ("main", "compress"):
    RULES["DeepseekV4Config"][f"{kind}_rotated"] = {
        "always": f"raw.rope_parameters['{kind}']['partial_rotary_factor'] if raw.rope_parameters is not None and 'main' in raw.rope_parameters and 'compress' in raw.rope_parameters "
                  f"and 'partial_rotary_factor' in raw.rope_parameters['{kind}'] else partial_rotary_factor"}


def rotary(name, factors):
    """Rotary frequencies of a share of the head, one pair of tensors a kind of attention."""
    return {"class": name, "tensors": [
        {"name": f"{kind}{part}inv_freq", "shape": [f"(int(head_dim * {factor}) + 1) // 2"], "dtype": "float32", "buffer": True, "persistent": False}
        for kind, factor in factors for part in ("", "original_")]}


HAND["Mistral4RotaryEmbedding"] = rotary("Mistral4RotaryEmbedding", [("", "rotated")])
HAND["DeepseekV4RotaryEmbedding"] = rotary("DeepseekV4RotaryEmbedding", [("main_", "main_rotated"), ("compress_", "compress_rotated")])


def compressor(name, rate, dim, width, further):
    return {
        "class": name,
        "tensors": [{"name": "position_bias", "shape": [rate, width], "dtype": "float32"}],
        "children": [
            linear("kv_proj", "hidden_size", width, "False"),
            linear("gate_proj", "hidden_size", width, "False"),
            {"name": "kv_norm", "module": "@DeepseekV4RMSNorm", "dtype": "float32", "with": {"hidden_size": dim}},
            *further,
        ],
    }


ROTARY = {"name": "rotary_emb", "module": "@DeepseekV4RotaryEmbedding"}
HAND["DeepseekV4HCACompressor"] = compressor("DeepseekV4HCACompressor", "heavy_rate", "head_dim", "head_dim", [ROTARY])
HAND["DeepseekV4CSACompressor"] = compressor("DeepseekV4CSACompressor", "sparse_rate", "head_dim", "2 * head_dim", [ROTARY, {"name": "indexer", "module": "@DeepseekV4Indexer"}])
HAND["DeepseekV4Indexer"] = compressor("DeepseekV4Indexer", "sparse_rate", "index_head_dim", "2 * index_head_dim", [
    linear("q_b_proj", "q_lora_rank", "index_n_heads * index_head_dim", "False"), ROTARY, {"name": "scorer", "module": "@DeepseekV4IndexerScorer"}])


def longt5_layer(name, condition, arguments):
    return {"name": "layer", "repeat": "3 if is_decoder else 2", "index": "i", "module": f"@LongT5{name}", "with": {a: a for a in arguments}, "if": condition}


HAND["LongT5Block"] = {
    "class": "LongT5Block",
    "bases": ["GradientCheckpointingLayer", "Module"],
    "arguments": ["has_relative_attention_bias=False"],
    "children": [
        longt5_layer("LayerSelfAttention", "i == 0 and is_decoder", ["has_relative_attention_bias"]),
        longt5_layer("LayerLocalSelfAttention", "i == 0 and not is_decoder and encoder_attention_type == 'local'", ["has_relative_attention_bias"]),
        longt5_layer("LayerTransientGlobalSelfAttention", "i == 0 and not is_decoder and encoder_attention_type != 'local'", ["has_relative_attention_bias"]),
        longt5_layer("LayerCrossAttention", "i == 1 and is_decoder", []),
        longt5_layer("LayerFF", "i == 2 or (i == 1 and not is_decoder)", []),
    ],
}

SPARSE_STEP = "(decoder_sparse_step if is_decoder else encoder_sparse_step)"
HAND["SwitchTransformersStack"] = {
    "class": "SwitchTransformersStack",
    "children": [
        {"name": "embed_tokens", "module": "Embedding", "with": {"num_embeddings": "vocab_size", "embedding_dim": "d_model"}},
        {"name": "block", "repeat": "num_layers", "index": "i", "module": "@SwitchTransformersBlock",
         "with": {"has_relative_attention_bias": "i == 0", "is_sparse": f"{SPARSE_STEP} > 0 and (i % {SPARSE_STEP} == 1 or {SPARSE_STEP} == 1)"}},
        {"name": "final_layer_norm", "module": "@SwitchTransformersLayerNorm", "with": {"hidden_size": "d_model"}},
        {"name": "dropout", "module": "Dropout"},
    ],
}


def norm(name, condition):
    return {"name": name, "module": "LayerNorm", "with": {"normalized_shape": "hidden_size"}, "if": condition}


FALCON_TWO = "(num_ln_in_parallel_attn == 2 or (num_ln_in_parallel_attn is None and new_decoder_architecture))"
HAND["FalconDecoderLayer"] = {
    "class": "FalconDecoderLayer",
    "bases": ["GradientCheckpointingLayer", "Module"],
    "children": [
        {"name": "self_attention", "module": "@FalconAttention"},
        {"name": "mlp", "module": "@FalconMLP"},
        norm("ln_attn", f"parallel_attn and {FALCON_TWO}"),
        norm("ln_mlp", f"parallel_attn and {FALCON_TWO}"),
        norm("post_attention_layernorm", "not parallel_attn"),
        norm("input_layernorm", f"not (parallel_attn and {FALCON_TWO})"),
    ],
}

HAND["CanineEmbeddings"] = {
    "class": "CanineEmbeddings",
    "tensors": [{"name": "position_ids", "shape": [1, "max_position_embeddings"], "dtype": "int64", "buffer": True, "persistent": False}],
    "children": [
        *({"name": f"HashBucketCodepointEmbedder_{k}", "module": "Embedding", "with": {"num_embeddings": "num_hash_buckets", "embedding_dim": "hidden_size // num_hash_functions"}, "if": f"num_hash_functions > {k}"}
          for k in range(64)),
        {"name": "char_position_embeddings", "module": "Embedding", "with": {"num_embeddings": "num_hash_buckets", "embedding_dim": "hidden_size"}},
        {"name": "token_type_embeddings", "module": "Embedding", "with": {"num_embeddings": "type_vocab_size", "embedding_dim": "hidden_size"}},
        {"name": "LayerNorm", "module": "LayerNorm", "with": {"normalized_shape": "hidden_size"}},
        {"name": "dropout", "module": "Dropout"},
    ],
}


SHUFFLES = "head_config.use_pixel_shuffle"


def sapiens2_convs(name, outer, count, given):
    """A list of layers, each from the width of the one before it; the first from `outer`."""
    widths = f"head_config.{given}_out_channels"
    return {"name": name, "repeat": f"min(len({widths}), len(head_config.{given}_kernel_sizes))", "index": "i", "module": "@Sapiens2ConvLayer", "with": {
        "in_channels": f"{outer} if i == 0 else {widths}[i - 1]", "out_channels": f"{widths}[i]", "kernel_size": f"head_config.{given}_kernel_sizes[i]", **count}}


HAND["Sapiens2Head"] = {
    "class": "Sapiens2Head",
    "children": [
        {"name": "input_conv", "module": "@Sapiens2ConvLayer", "with": {"in_channels": "hidden_size", "out_channels": "hidden_size", "kernel_size": 3, "padding": 1}, "if": SHUFFLES},
        {"name": "input_conv", "module": "Identity", "if": f"not {SHUFFLES}"},
        sapiens2_convs("upsample_layers", "hidden_size", {
            "stride": f"1 if {SHUFFLES} else 2", "padding": f"(head_config.upsample_kernel_sizes[i] - 1) // 2 if {SHUFFLES} else 1", "bias": f"True if {SHUFFLES} else False",
            "pixel_shuffle": f"True if {SHUFFLES} else False", "convolution_transpose": f"not {SHUFFLES}"}, "upsample"),
        sapiens2_convs("conv_layers", "head_config.upsample_out_channels[-1]", {"padding": f"(head_config.conv_kernel_sizes[i] - 1) // 2 if {SHUFFLES} else 0"}, "conv"),
        {"name": "predictor", "module": "Conv2d", "with": {
            "in_channels": "head_config.conv_out_channels[-1] if head_config.conv_out_channels else head_config.upsample_out_channels[-1] if head_config.upsample_out_channels else hidden_size",
            "out_channels": "num_labels", "kernel_size": 1}},
    ],
}


def rt_detr_conv(name, inside, outside, kernel, stride, activation):
    return {"name": name, "module": "@RTDetrResNetConvLayer", "with": {"in_channels": inside, "out_channels": outside, "kernel_size": kernel, "stride": stride, "activation": activation}}


def rt_detr_layer(name, arguments, plain, pooled, convolutions):
    """A residual layer whose shortcut is a convolution, one after a pooling, or nothing."""
    shortcut = {"module": "@RTDetrResNetShortCut", "with": {"in_channels": "in_channels", "out_channels": "out_channels", "stride": "stride"}}
    after_pooling = {"name": "1", "module": "@RTDetrResNetShortCut", "with": {"in_channels": "in_channels", "out_channels": "out_channels", "stride": 1}}
    return {
        "class": name,
        "arguments": arguments,
        "children": [
            {"name": "shortcut", **shortcut, "if": plain},
            {"name": "shortcut", "module": {"class": "Sequential", "children": [{"name": "0", "module": "AvgPool2d"}, after_pooling]}, "if": pooled},
            {"name": "shortcut", "module": "Identity", "if": f"not ({plain}) and not ({pooled})"},
            {"name": "layer", "module": {"class": "Sequential", "children": convolutions}},
            {"name": "activation", "activation": "hidden_act"},
        ],
    }


HAND["RTDetrResNetBasicLayer"] = rt_detr_layer(
    "RTDetrResNetBasicLayer", ["in_channels", "out_channels", "stride=1", "should_apply_shortcut=False"],
    "should_apply_shortcut and in_channels == out_channels", "should_apply_shortcut and in_channels != out_channels",
    [rt_detr_conv("0", "in_channels", "out_channels", 3, "stride", "'relu'"), rt_detr_conv("1", "out_channels", "out_channels", 3, 1, "None")])
HAND["RTDetrResNetBottleNeckLayer"] = rt_detr_layer(
    "RTDetrResNetBottleNeckLayer", ["in_channels", "out_channels", "stride=1"],
    "stride != 2 and (in_channels != out_channels or stride != 1)", "stride == 2",
    [rt_detr_conv("0", "in_channels", "out_channels // 4", 1, "stride if downsample_in_bottleneck else 1", "'relu'"),
     rt_detr_conv("1", "out_channels // 4", "out_channels // 4", 3, "1 if downsample_in_bottleneck else stride", "'relu'"),
     rt_detr_conv("2", "out_channels // 4", "out_channels", 1, 1, "None")])


def speech_convolution(prefix, kind, inside, outside, normalisation):
    """A layer of the convolutions that speech models begin with."""
    first = {"name": "conv", "module": "Conv1d", "with": {"in_channels": inside, "out_channels": outside, "kernel_size": "conv_kernel[layer_id]", "stride": "conv_stride[layer_id]", "bias": "conv_bias"}}
    last = {"name": "activation", "activation": "feat_extract_activation"}
    return {"class": f"{prefix}{kind}ConvLayer", "arguments": ["layer_id=0"], "bases": ["GradientCheckpointingLayer", "Module"], "children": [first, *normalisation, last]}


BEFORE = "conv_dim[layer_id - 1] if layer_id > 0 else 1"
for prefix in ("Wav2Vec2", "Hubert", "WavLM", "UniSpeech", "UniSpeechSat", "Wav2Vec2Conformer", "SEW", "SEWD"):
    HAND[f"{prefix}LayerNormConvLayer"] = speech_convolution(prefix, "LayerNorm", BEFORE, "conv_dim[layer_id]", [
        {"name": "layer_norm", "module": "LayerNorm", "with": {"normalized_shape": "conv_dim[layer_id]", "elementwise_affine": "True"}}])
    HAND[f"{prefix}NoLayerNormConvLayer"] = speech_convolution(prefix, "NoLayerNorm", BEFORE, "conv_dim[layer_id]", [])

POWERS = "max([k for k in range(17) if 2 ** k <= subsampling_factor])"
PARAKEET = f"2 + 3 * max({POWERS} - 1, 0)"


def parakeet_layer(condition, module, **arguments):
    return {"name": "layers", "repeat": PARAKEET, "index": "i", "module": module, **({"with": arguments} if arguments else {}), "if": condition}


WINDOW = {"kernel_size": "subsampling_conv_kernel_size", "stride": "subsampling_conv_stride", "padding": "(subsampling_conv_kernel_size - 1) // 2"}
HAND["ParakeetEncoderSubsamplingConv2D"] = {
    "class": "ParakeetEncoderSubsamplingConv2D",
    "children": [
        parakeet_layer("i == 0", "Conv2d", in_channels=1, out_channels="subsampling_conv_channels", **WINDOW),
        parakeet_layer("i > 1 and i % 3 == 2", "Conv2d", in_channels="subsampling_conv_channels", out_channels="subsampling_conv_channels", groups="subsampling_conv_channels", **WINDOW),
        parakeet_layer("i > 1 and i % 3 == 0", "Conv2d", in_channels="subsampling_conv_channels", out_channels="subsampling_conv_channels", kernel_size=1),
        parakeet_layer("i % 3 == 1", "ReLU"),
        linear("linear", f"subsampling_conv_channels * (num_mel_bins // subsampling_conv_stride ** {POWERS})", "hidden_size", "True"),
    ],
}

HAND["MusicFlamingoRotaryEmbedding"] = rotary("MusicFlamingoRotaryEmbedding", [("", "rope_parameters['partial_rotary_factor']")])
HAND["MusicFlamingoRotaryEmbedding"]["tensors"].append(
    {"name": "position_angles", "shape": ["int(max_position_embeddings)", "2 * ((int(head_dim * rope_parameters['partial_rotary_factor']) + 1) // 2)"], "dtype": "float32", "buffer": True, "persistent": False})


WAV_PERIOD = "(num_residual_layers + 2)"
WAV_INNER = f"0 < i <= len(upsampling_ratios) * {WAV_PERIOD}"
WAV_STAGE, WAV_PLACE, WAV_END = f"((i - 1) // {WAV_PERIOD})", f"(i - 1) % {WAV_PERIOD}", f"i == len(upsampling_ratios) * {WAV_PERIOD}"
WAV_DOWN, WAV_WIDTH, WAV_WIDEST = f"upsampling_ratios[len(upsampling_ratios) - 1 - {WAV_STAGE}]", f"num_filters * 2 ** {WAV_STAGE}", "num_filters * 2 ** len(upsampling_ratios)"
wav_convolution = lambda inside, outside, kernel, more: {
    "module": "@WavTokenizerConv1d", "with": {"in_channels": inside, "out_channels": outside, "kernel_size": kernel, "stride": 1, "dilation": 1, **more}}
HAND["WavTokenizerEncoder"] = {
    "class": "WavTokenizerEncoder",
    "children": rhythm(
        f"len(upsampling_ratios) * {WAV_PERIOD} + 4",
        [{**wav_convolution("audio_channels", "num_filters", "kernel_size", {}), "if": "i == 0"}],
        [
            {"module": "@WavTokenizerResnetBlock", "with": {"dim": WAV_WIDTH, "dilations": f"[dilation_growth_rate ** ({WAV_PLACE}), 1]"}, "if": f"{WAV_INNER} and {WAV_PLACE} < num_residual_layers"},
            {"module": "ELU", "if": f"{WAV_INNER} and {WAV_PLACE} == num_residual_layers or {WAV_END} + 2"},
            {**wav_convolution(WAV_WIDTH, f"{WAV_WIDTH} * 2", f"{WAV_DOWN} * 2", {"stride": WAV_DOWN}), "if": f"{WAV_INNER} and {WAV_PLACE} == num_residual_layers + 1"},
            {"module": "@WavTokenizerLSTM", "with": {"dimension": WAV_WIDEST}, "if": f"{WAV_END} + 1"},
        ],
        [{**wav_convolution(WAV_WIDEST, "hidden_size", "last_kernel_size", {}), "if": f"{WAV_END} + 3"}],
    ),
}
RULES["WavTokenizerConfig"] = RULES["WavTokenizerEncoderConfig"] = {
    "n_fft": {"always": "4 * " + " * ".join(f"(upsampling_ratios[{k}] if len(upsampling_ratios) > {k} else 1)" for k in range(8))},
}
HAND["WavTokenizerModel"] = {
    "class": "WavTokenizerModel",
    "children": [
        {"name": "encoder_model", "module": "@WavTokenizerEncoderModel", "config": "encoder_config"},
        {"name": "backbone", "module": "@WavTokenizerVocosBackbone"},
        {"name": "head", "module": "@WavTokenizerISTFTHead"},
    ],
}

# The vocoders of Qwen's omni models.
VGAN = "Qwen2_5Omni"
HAND[VGAN + "AntiAliasedActivation1d"] = {
    "class": VGAN + "AntiAliasedActivation1d",
    "arguments": ["in_features"],
    "children": [
        {"name": "act", "module": f"@{VGAN}SnakeBeta", "with": {"in_features": "in_features"}},
        *({"name": n.lower(), "module": {"class": f"{VGAN}{n}1d", "tensors": [{"name": "filter", "shape": [1, 1, 12], "dtype": "float32", "buffer": True, "persistent": False}]}} for n in ("UpSample", "DownSample")),
    ],
}
vgan_convolution = lambda k, dilation: {
    "name": str(k), "module": "Conv1d",
    "with": {"in_channels": "channels", "out_channels": "channels", "kernel_size": "kernel_size", "stride": 1, "padding": f"int((kernel_size * {dilation} - {dilation}) / 2)", "dilation": dilation}}
HAND[VGAN + "AMPBlock"] = {
    "class": VGAN + "AMPBlock",
    "arguments": ["channels", "kernel_size", "dilation"],
    "children": [
        {"name": "convs1", "module": {"class": "ModuleList", "children": [vgan_convolution(k, f"dilation[{k}]") for k in range(3)]}},
        {"name": "convs2", "module": {"class": "ModuleList", "children": [vgan_convolution(k, "1") for k in range(3)]}},
        {"name": "activations", "repeat": 6, "module": f"@{VGAN}AntiAliasedActivation1d", "with": {"in_features": "channels"}},
    ],
}
RULES[VGAN + "TextConfig"] = {"head_dim": {"expression": "hidden_size // num_attention_heads"}}
HAND[VGAN + "Attention"] = {
    "class": VGAN + "Attention",
    "children": [
        linear("q_proj", "hidden_size", "num_attention_heads * head_dim", "True"),
        *(linear(n, "hidden_size", "num_key_value_heads * head_dim", "True") for n in ("k_proj", "v_proj")),
        linear("o_proj", "num_attention_heads * head_dim", "hidden_size", "False"),
    ],
}
HAND[VGAN + "RotaryEmbedding"] = {
    "class": VGAN + "RotaryEmbedding",
    "tensors": [{"name": n, "shape": ["(head_dim + 1) // 2"], "dtype": "float32", "buffer": True, "persistent": False} for n in ("inv_freq", "original_inv_freq")],
}
VGAN_LAYERS, VGAN_BLOCKS = "min(len(upsample_rates), len(upsample_kernel_sizes))", "min(len(resblock_kernel_sizes), len(resblock_dilation_sizes))"
HAND[VGAN + "Token2WavBigVGANModel"] = {
    "class": VGAN + "Token2WavBigVGANModel",
    "children": [
        {"name": "conv_pre", "module": "Conv1d", "with": {"in_channels": "mel_dim", "out_channels": "upsample_initial_channel", "kernel_size": 7, "stride": 1, "padding": 3}},
        {"name": "ups", "repeat": VGAN_LAYERS, "index": "i", "module": {"class": "ModuleList", "children": [{
            "name": "0", "module": "ConvTranspose1d",
            "with": {"in_channels": "upsample_initial_channel // 2 ** i", "out_channels": "upsample_initial_channel // 2 ** (i + 1)", "kernel_size": "upsample_kernel_sizes[i]", "stride": "upsample_rates[i]",
                     "padding": "(upsample_kernel_sizes[i] - upsample_rates[i]) // 2"}}]}},
        {"name": "resblocks", "repeat": f"len(upsample_rates) * {VGAN_BLOCKS}", "index": "i", "module": f"@{VGAN}AMPBlock",
         "with": {"channels": f"upsample_initial_channel // 2 ** (i // {VGAN_BLOCKS} + 1)", "kernel_size": f"resblock_kernel_sizes[i % {VGAN_BLOCKS}]", "dilation": f"resblock_dilation_sizes[i % {VGAN_BLOCKS}]"}},
        {"name": "activation_post", "module": f"@{VGAN}AntiAliasedActivation1d", "with": {"in_features": "upsample_initial_channel // 2 ** len(upsample_rates)"}},
        {"name": "conv_post", "module": "Conv1d",
         "with": {"in_channels": "upsample_initial_channel // 2 ** len(upsample_rates)", "out_channels": 1, "kernel_size": 7, "stride": 1, "padding": 3, "bias": "False"}},
    ],
}
OMNI = "Qwen3OmniMoe"
RULES[OMNI + "Code2WavConfig"] = {"head_dim": {"expression": "hidden_size // num_attention_heads"}}
HAND[OMNI + "RotaryEmbedding"] = {
    "class": OMNI + "RotaryEmbedding",
    "tensors": [{"name": n, "shape": ["(head_dim + 1) // 2"], "dtype": "float32", "buffer": True, "persistent": False} for n in ("inv_freq", "original_inv_freq")],
}
omni_convolution = lambda inside, outside: {"module": f"@{OMNI}CausalConvNet", "with": {"in_channels": inside, "out_channels": outside, "kernel_size": 7, "dilation": 1, "stride": 1, "groups": 1}}
HAND[OMNI + "Code2WavDecoderBlock"] = {
    "class": OMNI + "Code2WavDecoderBlock",
    "arguments": ["layer_idx"],
    "children": [{"name": "block", "module": {"class": "ModuleList", "children": [
        {"name": "0", "module": f"@{OMNI}SnakeBeta", "with": {"in_features": "decoder_dim // 2 ** layer_idx"}},
        {"name": "1", "module": f"@{OMNI}CausalTransConvNet",
         "with": {"in_channels": "decoder_dim // 2 ** layer_idx", "out_channels": "decoder_dim // 2 ** (layer_idx + 1)", "kernel_size": "2 * upsample_rates[layer_idx]", "stride": "upsample_rates[layer_idx]"}},
        *({"name": str(k + 2), "module": f"@{OMNI}Code2WavDecoderResidualUnit", "with": {"dim": "decoder_dim // 2 ** (layer_idx + 1)", "dilation": 3 ** k}} for k in range(3)),
    ]}}],
}
HAND[OMNI + "Code2Wav"] = {
    "class": OMNI + "Code2Wav",
    "tensors": [{"name": "code_offset", "shape": [1, "num_quantizers", 1], "dtype": "int64", "buffer": True, "persistent": False}],
    "children": [
        {"name": "pre_transformer", "module": f"@{OMNI}Code2WavTransformerModel"},
        {"name": "code_embedding", "module": "Embedding", "with": {"num_embeddings": "codebook_size * num_quantizers", "embedding_dim": "hidden_size"}},
        {"name": "upsample", "repeat": "len(upsampling_ratios)", "index": "i", "module": {"class": "ModuleList", "children": [
            {"name": "0", "module": f"@{OMNI}CausalTransConvNet",
             "with": {"in_channels": "hidden_size", "out_channels": "hidden_size", "kernel_size": "upsampling_ratios[i]", "stride": "upsampling_ratios[i]"}},
            {"name": "1", "module": f"@{OMNI}ConvNeXtBlock", "with": {"dim": "hidden_size"}},
        ]}},
        *({"name": "decoder", "repeat": "len(upsample_rates) + 3", "index": "i", **entry} for entry in (
            {**omni_convolution("hidden_size", "decoder_dim"), "if": "i == 0"},
            {"module": f"@{OMNI}Code2WavDecoderBlock", "with": {"layer_idx": "i - 1"}, "if": "0 < i <= len(upsample_rates)"},
            {"module": f"@{OMNI}SnakeBeta", "with": {"in_features": "decoder_dim // 2 ** len(upsample_rates)"}, "if": "i == len(upsample_rates) + 1"},
            {**omni_convolution("decoder_dim // 2 ** len(upsample_rates)", "1"), "if": "i == len(upsample_rates) + 2"},
        )),
    ],
}

# ESMFold keeps its language model in half precision unless told otherwise.
FOLD = "esmfold_config.trunk"
HAND["EsmForProteinFolding"] = {
    "class": "EsmForProteinFolding",
    "tensors": [{"name": "esm_s_combine", "shape": ["num_hidden_layers + 1"]}, {"name": "af2_to_esm", "shape": [22], "dtype": "int64", "buffer": True}],
    "children": [
        {"name": "esm", "module": "@EsmModel", "with": {"add_pooling_layer": "False"}, "dtype": "float16", "if": "esmfold_config.fp16_esm"},
        {"name": "esm", "module": "@EsmModel", "with": {"add_pooling_layer": "False"}, "if": "not esmfold_config.fp16_esm"},
        {"name": "esm_s_mlp", "module": {"class": "Sequential", "children": [
            {"name": "0", "module": "LayerNorm", "with": {"normalized_shape": "hidden_size"}},
            linear("1", "hidden_size", FOLD + ".sequence_state_dim", "True"), {"name": "2", "module": "ReLU"},
            linear("3", FOLD + ".sequence_state_dim", FOLD + ".sequence_state_dim", "True")]}},
        {"name": "embedding", "module": "Embedding", "with": {"num_embeddings": 23, "embedding_dim": FOLD + ".sequence_state_dim"}, "if": "esmfold_config.embed_aa"},
        {"name": "trunk", "module": "@EsmFoldingTrunk", "config": FOLD},
        linear("distogram_head", FOLD + ".pairwise_state_dim", 64, "True"), linear("ptm_head", FOLD + ".pairwise_state_dim", 64, "True"), linear("lm_head", FOLD + ".sequence_state_dim", 23, "True"),
        {"name": "lddt_head", "module": {"class": "Sequential", "children": [
            {"name": "0", "module": "LayerNorm", "with": {"normalized_shape": FOLD + ".structure_module.sequence_dim"}},
            linear("1", FOLD + ".structure_module.sequence_dim", "esmfold_config.lddt_head_hid_dim", "True"),
            linear("2", "esmfold_config.lddt_head_hid_dim", "esmfold_config.lddt_head_hid_dim", "True"), linear("3", "esmfold_config.lddt_head_hid_dim", 1850, "True")]}},
    ],
}

# Wrapped models of timm.
RULES["TimmWrapperConfig"] = {
    **wrapped.RULES,
    "architecture": "resnet50",
    "num_labels": {"always": "raw.num_classes if raw.num_classes is not None else raw.num_labels if raw.num_labels is not None else len(raw.label_names) if raw.label_names is not None else 2"},
}
RULES["Gemma3nTextConfig"] = {
    "intermediate_size": {"default": 16384, "always": "given if is_list(given) else [given for i in range(num_hidden_layers)]"},
    # Where more layers share than there are, as the reference counts it: the last of each type among the first ones does not.
    "kv_sharing_modes": {"always": f"[None if i < {SHARED_FROM} or {SHARED_FROM} < 0 and i < num_hidden_layers + {SHARED_FROM} and layer_types[i] not in layer_types[i + 1:num_hidden_layers + {SHARED_FROM}] "
                                   "else 'reuse' for i in range(num_hidden_layers)]"},
}
RULES["Gemma3nVisionConfig"] = {**wrapped.RULES, "architecture": "mobilenetv5_300m_enc"}
HAND["TimmWrapperModel"] = wrapped.wrapper("TimmWrapperModel", "0")
HAND["TimmWrapperForImageClassification"] = wrapped.wrapper("TimmWrapperForImageClassification", "num_labels")
HAND["Gemma3nModel"] = {
    "class": "Gemma3nModel",
    "children": [
        {"name": "vision_tower", "module": "@TimmWrapperModel", "config": "vision_config"},
        {"name": "language_model", "auto": "AutoModel", "config": "text_config"},
        {"name": "audio_tower", "auto": "AutoModel", "config": "audio_config"},
        {"name": "embed_vision", "module": "@Gemma3nMultimodalEmbedder", "config": "vision_config", "with": {"text_config": "text_config"}},
        {"name": "embed_audio", "module": "@Gemma3nMultimodalEmbedder", "config": "audio_config", "with": {"text_config": "text_config"}},
    ],
}
HAND["Gemma3nMultimodalEmbedder"] = {
    "class": "Gemma3nMultimodalEmbedder",
    "arguments": ["text_config"],
    "children": [
        {"name": "embedding", "module": "Embedding", "with": {"num_embeddings": "vocab_size", "embedding_dim": "hidden_size"}},
        *({"name": n, "module": "@Gemma3nRMSNorm", "with": {"dim": "hidden_size"}} for n in ("hard_embedding_norm", "soft_embedding_norm")),
        linear("embedding_projection", "hidden_size", "text_config.hidden_size", "False"),
        {"name": "embedding_post_projection_norm", "module": "@Gemma3nRMSNorm", "with": {"dim": "text_config.hidden_size", "with_scale": "False"}},
    ],
}

# A branch that defaults do not have. Each of its convolutions halves the sides of the map, odd kernels upwards; halves of halves are one division.
SCALE_SIZES = "head_config.scale_conv_kernel_sizes"
SCALE_SIDE = ("(({size} if is_list({size}) else [{size}, {size}])[{axis}] // ({patch} if is_list({patch}) else [{patch}, {patch}])[{axis}]"
              " + sum([{kernels}[i] % 2 * 2 ** i for i in range(len({kernels}))])) // 2 ** len({kernels})")
SCALE_AREA = " * ".join("(" + SCALE_SIDE.format(size="image_size", patch="patch_size", axis=axis, kernels=SCALE_SIZES) + ")" for axis in (0, 1))
RULES["Sapiens2HeadConfig"] = {
    "scale_final_input_size": None, "scale_final_hidden_sizes": None,
    **{f"{name}_kernel_sizes": {"expression": f"[{name}_kernel_size for i in range(len({name}_out_channels))] if {name}_out_channels is not None else None"}
       for name in ("conv", "scale_conv", "upsample")},
}
RULES["Sapiens2Config"] = {
    "out_features": {"expression": "[stage_names[i] for i in raw.out_indices] if raw.out_indices is not None else [stage_names[-1]]"},
    "out_indices": {"expression": "[i for i in range(len(stage_names)) if stage_names[i] in raw.out_features] if raw.out_features is not None else [len(stage_names) - 1]"},
    "num_key_value_heads_per_layer": {"expression": "[num_attention_heads if i < num_first_full_attention_layers or i >= num_hidden_layers - num_last_full_attention_layers"
                                                    " else num_key_value_attention_heads for i in range(num_hidden_layers)]"},
}
SAPIENS_CONVOLUTION = {"in_channels": "in_channels", "out_channels": "out_channels * scale_factor ** 2 if pixel_shuffle else out_channels", "kernel_size": "kernel_size",
                       "stride": "stride", "padding": "padding", "groups": "groups", "bias": "bias"}
HAND["Sapiens2ConvLayer"] = {
    "class": "Sapiens2ConvLayer",
    "arguments": ["in_channels", "out_channels", "kernel_size=1", "stride=1", "padding=0", "groups=1", "activation='silu'", "bias=True", "convolution_transpose=False", "pixel_shuffle=False",
                  "scale_factor=2"],
    "children": [
        {"name": "convolution", "module": "ConvTranspose2d", "with": SAPIENS_CONVOLUTION, "if": "convolution_transpose"},
        {"name": "convolution", "module": "Conv2d", "with": SAPIENS_CONVOLUTION, "if": "not convolution_transpose"},
        {"name": "norm", "module": "InstanceNorm2d", "with": {"num_features": "out_channels"}},
        {"name": "act_fn", "activation": "activation"},
        {"name": "pixel_shuffle", "module": "PixelShuffle", "if": "pixel_shuffle"},
        {"name": "pixel_shuffle", "module": "Identity", "if": "not pixel_shuffle"},
    ],
}
SCALE_HIDDEN = "head_config.scale_final_hidden_sizes"
SCALE_INSIDE = f"head_config.scale_final_input_size if head_config.scale_final_input_size is not None else {SCALE_AREA} * head_config.scale_conv_out_channels[-1]"
HAND["Sapiens2ForPointmapEstimation"] = {
    "class": "Sapiens2ForPointmapEstimation",
    "children": [
        {"name": "model", "module": "@Sapiens2Model"},
        {"name": "decode_head", "module": "@Sapiens2Head"},
        {"name": "scale_head", "if": "head_config is not None and head_config.scale_conv_out_channels is not None", "module": {"class": "Sapiens2PointmapScaleHead", "children": [
            {"name": "conv_layers", "repeat": f"min(len(head_config.scale_conv_out_channels), len({SCALE_SIZES}))", "index": "i", "module": "@Sapiens2ConvLayer",
             "with": {"in_channels": "hidden_size if i == 0 else head_config.scale_conv_out_channels[i - 1]", "out_channels": "head_config.scale_conv_out_channels[i]",
                      "kernel_size": f"{SCALE_SIZES}[i]", "stride": 2, "padding": f"({SCALE_SIZES}[i] - 1) // 2"}},
            {"name": "predictor", "module": {"class": "Sapiens2PointmapFinalLayer", "children": [
                {"name": "flatten", "module": "Flatten"},
                *({"name": name, "module": {"class": "Sapiens2PointmapFinalLayerBlock", "children": [
                    {"name": "layers", "module": {"class": "ModuleList", "children": [linear("0", inside, outside, "True"), {"name": "1", "activation": "hidden_act"}]}}]}}
                  for name, inside, outside in (("block1", SCALE_INSIDE, SCALE_HIDDEN + "[0]"), ("block2", SCALE_HIDDEN + "[0]", SCALE_HIDDEN + "[1]"))),
                linear("proj", SCALE_HIDDEN + "[1]", 1, "True")]}},
        ]}},
        {"name": "scale_head", "module": "Identity", "if": "head_config is None or head_config.scale_conv_out_channels is None"},
    ],
}
