# SPDX-License-Identifier: Apache-2.0
"""Packed weights through the command: what is packed comes back from its dense values, the traps of the formats, and what
`--keep`, `--error-report` and a quantization_config do."""

import json
import math
import os
import random
import struct
import subprocess
import tempfile
import unittest
import xml.dom.minidom

import made_checkpoint

WEFT = os.environ["WEFT"]
Q_PROJ = "model.layers.0.self_attn.q_proj.weight"
EXPERTS = "model.layers.0.mlp.experts.down_proj"
FORMATS = {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "U8": "B", "F8_E4M3": "B", "U32": "I", "I8": "b"}


def pack(dtype, shape, values):
    return dtype, shape, struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values)


def floats(shape, *values):
    return pack("F32", shape, values)


def compressed(layout, bits, kind, strategy, is_symmetric=True, **more):
    weights = {"num_bits": bits, "type": kind, "symmetric": is_symmetric, "strategy": strategy, "dynamic": False, **more}
    return f"compressed-tensors/{layout}", {"format": layout, "weights": weights}


# Schemes, shapes, and what quantising the dense values of a packed weight gives: "bytes": the very parts; "values": parts of
# the same values, as there is a code for -0, or several scales for one weight; "near": the codes, and scales that are a rounding
# away. The others are in DRIFTING.
ROUND_TRIPS = {
    "affine-4": ("affine", {"bits": 4, "group_size": 64}, [6, 128], "bytes"),
    "affine-8": ("affine", {"bits": 8, "group_size": 32}, [6, 128], "bytes"),
    "nf4": ("bitsandbytes-4bit", {"quant_type": "nf4", "blocksize": 64, "double_quant": False}, [5, 26], "bytes"),
    "fp4": ("bitsandbytes-4bit", {"quant_type": "fp4", "blocksize": 64, "double_quant": False}, [5, 26], "values"),
    "bnb-int8": ("bitsandbytes-int8", {}, [7, 40], "bytes"),
    "fp8-block": ("fp8-block", {"weight_block_size": [16, 16]}, [40, 50], "near"),
    "fp8-ue8m0": ("fp8-block", {"weight_block_size": [16, 32], "scale_fmt": "ue8m0"}, [40, 50], "bytes"),
    "fp8-per-row": ("fp8-per-row", {}, [9, 33], "near"),
    "modelopt-nvfp4": ("modelopt-nvfp4", {"group_size": 16}, [6, 64], "near"),
    "mxfp4-experts": ("mxfp4-moe", {"block": 32}, [2, 64, 6], "values"),
    "ct-fp8-block": (*compressed("float-quantized", 8, "float", "block", block_structure=[16, 16]), [24, 40], "near"),
    "ct-fp8-channel": (*compressed("float-quantized", 8, "float", "channel"), [8, 24], "near"),
    "ct-fp8-tensor": (*compressed("float-quantized", 8, "float", "tensor"), [8, 24], "near"),
    "ct-mxfp4": (*compressed("mxfp4-pack-quantized", 4, "float", "group", group_size=32), [6, 64], "bytes"),
    "ct-mxfp8": (*compressed("mxfp8-quantized", 8, "float", "group", group_size=32), [6, 64], "values"),
    **{f"ct-int{bits}-{strategy}-asym": (
        *compressed(layout, bits, "int", strategy, False, **({"group_size": 32} if strategy == "group" else {})), [6, 64], "near")
       for layout, bits, strategy in (("pack-quantized", 3, "group"), ("pack-quantized", 4, "group"), ("int-quantized", 8, "channel"))},
    "ct-nvfp4": (*compressed("nvfp4-pack-quantized", 4, "float", "tensor_group", group_size=16), [6, 64], "near"),
    **{f"gguf-{name}": ("gguf", {"type": name}, [3, 256], "bytes")
       for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4", "BF16")},
}


# Schemes whose codes do not reach the magnitude that made the scale, so that the way there and back again is no identity:
# elements of a block, and the largest part of a block's magnitude that a value may move by. A magnitude m of symmetric
# integers of b bits is 2^b / 2 - 1/2 steps, which no code is: it becomes a half more or less, which is m / (2^b - 1).
# One of 7 steps, in MXFP6, is read as 3.5 of steps that are twice as large, where values below 1 have half of the places. The scales
# of double quantisation are codes of 8 bits themselves, up to 0.9 / 64 apart, around a mean that moves.
DRIFTING = {
    **{f"ct-int{bits}-{strategy}{name}": (
        *compressed(layout, bits, "int", strategy, **({"group_size": 32} if strategy == "group" else {})),
        [6, 64], {"group": 32, "channel": 64, "tensor": 6 * 64}[strategy], 1 / (2 ** bits - 1))
       for layout, bits, strategy, name in (("pack-quantized", 2, "group", ""), ("pack-quantized", 3, "group", ""),
                                            ("pack-quantized", 4, "group", ""), ("pack-quantized", 4, "channel", ""),
                                            ("pack-quantized", 8, "group", ""), ("int-quantized", 8, "channel", "-plain"),
                                            ("int-quantized", 8, "tensor", "-plain"))},
    "ct-mxfp6": (*compressed("mxfp6-pack-quantized", 6, "float", "group", group_size=32), [40, 64], 32, 1 / 56),
    "nf4-double": ("bitsandbytes-4bit", {"quant_type": "nf4", "blocksize": 64, "double_quant": True}, [60, 64], 60 * 64, 0.9 / 128),
}


def group(layout, bits, kind, strategy, is_symmetric=True, **more):
    _, parameters = compressed(layout, bits, kind, strategy, is_symmetric, **more)
    return {"quant_method": "compressed-tensors", "format": layout, "config_groups": {"g": {"targets": ["Linear"], **parameters}}}


def gptq(checkpoint_format, zero, **more):
    config = {"quant_method": "gptq", "bits": 4, "group_size": 4, "checkpoint_format": checkpoint_format, **more}
    zeros = -(0x100000000 - zero * 0x11111111) if zero > 7 else zero * 0x11111111
    return config, {"a.qweight": pack("I32", [1, 8], [-0x66666667] * 8), "a.qzeros": pack("I32", [2, 1], [zeros] * 2),
                    "a.scales": pack("F16", [2, 8], [1] * 8 + [2] * 8), "a.g_idx": pack("I32", [8], [0] * 4 + [1] * 4)}


def act_order():
    config, tensors = gptq("gptq_v2", 8, desc_act=True)
    return config, {**tensors, "a.g_idx": pack("I32", [8], [1, 0, 1, 0, 0, 0, 1, 1])}


NF4_MAP = [-1, 2, 2, 2, 2, 2, 2, 0, 2, 2, 2, 2, 0.5, 2, 2, 1]
NF4_STATE = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "float32", "shape": [1, 4]}).encode()
NVFP4 = {"a.weight_packed": pack("U8", [1, 8], [0x21] * 8), "a.weight_scale": pack("F8_E4M3", [1, 1], [0x48]),
         "a.weight_global_scale": floats([1], 2)}
MODELOPT = {"a.weight": pack("U8", [1, 8], [0x21] * 8), "a.weight_scale": pack("F8_E4M3", [1, 1], [0x48]),
            "a.weight_scale_2": floats([], 2)}
BLOCKS = {"x.experts.down_proj_blocks": pack("U8", [1, 1, 1, 16], [0x21] + [0] * 15)}
FP8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}



def bitsandbytes(state, parts):
    """Four codes of nf4, with members of the quant_state and with parts in the place of theirs."""
    text = json.dumps({**json.loads(NF4_STATE), **state}).encode()
    parts = {"absmax": floats([1], 1), "quant_map": floats([16], *NF4_MAP),
             "quant_state.bitsandbytes__nf4": pack("U8", [len(text)], text), **parts}
    return {"a.weight": pack("U8", [2, 1], [0xF0, 0x7C]), **{f"a.weight.{name}": part for name, part in parts.items()}}


# What a format gets wrong most easily: config, tensors, and the dense values, which must begin so.
TRAPS = {
    "low nibble first: MXFP4": ({"quant_method": "mxfp4"}, {**BLOCKS, "x.experts.down_proj_scales": pack("U8", [1, 1, 1], [121])},
                                [0.0078125, 0.015625, 0]),
    "high nibble first: bitsandbytes": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"a.weight": pack("U8", [2, 1], [0xF0, 0x7C]), "a.weight.absmax": floats([1], 1), "a.weight.quant_map": floats([16], *NF4_MAP),
         "a.weight.quant_state.bitsandbytes__nf4": pack("U8", [len(NF4_STATE)], NF4_STATE)},
        [1, -1, 0, 0.5]),
    "columns of a word: AWQ": (
        {"quant_method": "awq", "bits": 4, "group_size": 1, "version": "gemm"},
        {"a.qweight": pack("I32", [1, 1], [0x76543210]), "a.qzeros": pack("I32", [1, 1], [0]), "a.scales": pack("F16", [1, 8], [1] * 8)},
        [0, 4, 1, 5, 2, 6, 3, 7]),
    "what the config says of one module: MLX": (
        {"quant_method": "mlx", "bits": 4, "group_size": 8, "a": {"bits": 8, "group_size": 4}},
        {"a.weight": pack("U32", [1, 1], [0x04030201]), "a.scales": floats([1, 1], 2), "a.biases": floats([1, 1], 1)}, [3, 5, 7, 9]),
    "rows of a byte: BitNet": (
        {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline"},
        {"a.weight": pack("U8", [2, 1], [0b01101000, 0b10010001])}, [-1, 0, 1, -1, 1, 0, 0, 1]),
    "zeros less 1: GPTQ v1": (*gptq("gptq", 7), [1, 1, 1, 1, 2, 2, 2, 2]),
    "zeros as they are: GPTQ v2": (*gptq("gptq_v2", 8), [1, 1, 1, 1, 2, 2, 2, 2]),
    "zeros of a symmetric weight tell the version: GPTQ v1": (*gptq(None, 7, sym=True), [1, 1, 1, 1, 2, 2, 2, 2]),
    "zeros of a symmetric weight tell the version: GPTQ v2": (*gptq(None, 8, sym=True), [1, 1, 1, 1, 2, 2, 2, 2]),
    "other zeros are those of the first version: GPTQ": (*gptq(None, 8), [0, 0, 0, 0, 0, 0, 0, 0]),
    "activation order: GPTQ": (*act_order(), [2, 1, 2, 1, 1, 1, 2, 2]),
    "ragged blocks: 8 scales for 1000 rows are blocks of 128": (
        FP8, {"a.weight": pack("F8_E4M3", [1000, 1], [0x38] * 1000), "a.weight_scale_inv": floats([8, 1], *range(1, 9))},
        [1] * 128 + [2] * 128 + [3] * 128),
    "ragged groups: 2 groups of 4 for 6 columns": (
        group("pack-quantized", 4, "int", "group", group_size=4),
        {"a.weight_packed": pack("I32", [1, 1], [0x00999999]), "a.weight_scale": floats([1, 2], 1, 2), "a.weight_shape": pack("I64", [2], [1, 6])},
        [1, 1, 1, 1, 2, 2]),
    "a global scale that divides: compressed-tensors": (
        group("nvfp4-pack-quantized", 4, "float", "tensor_group", group_size=16), NVFP4, [1, 2]),
    "a global scale that multiplies: ModelOpt": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, MODELOPT, [4, 8]),
    "weight_scale_inv multiplies": (FP8, {"a.weight": pack("F8_E4M3", [1, 2], [0x38, 0x40]), "a.weight_scale_inv": floats([1, 1], 4)}, [4, 8]),
    "codes that straddle words: int3": (
        group("pack-quantized", 3, "int", "channel"),
        {"a.weight_packed": pack("I32", [1, 4], struct.unpack("<4i", struct.pack("<4I", 0x88FAC688, 0xC688FAC6, 0xFAC688FA, 5))),
         "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 33])},
        list(range(-4, 4)) * 4 + [1]),
    "zero points packed down the rows": (
        group("pack-quantized", 4, "int", "channel", is_symmetric=False),
        {"a.weight_packed": pack("I32", [2, 1], [9, 9]), "a.weight_scale": floats([2, 1], 1, 1),
         "a.weight_zero_point": pack("I32", [1, 1], [0x78]), "a.weight_shape": pack("I64", [2], [2, 1])},
        [1, 2]),
    "a scale without axes": ({"quant_method": "fp8", "weight_block_size": None},
                             {"a.weight": pack("F8_E4M3", [1, 2], [0x38, 0x40]), "a.weight_scale": floats([], 4)}, [4, 8]),
    "exponents as bytes": (FP8, {"a.weight": pack("F8_E4M3", [1, 1], [0x38]), "a.weight_scale_inv": pack("U8", [1, 1], [130])}, [8]),
    "the exponent 255 is no number": (
        FP8, {"a.weight": pack("F8_E4M3", [1, 1], [0x38]), "a.weight_scale_inv": pack("U8", [1, 1], [255])}, [math.nan]),
}

def gptq_that_says(checkpoint_format, zero):
    config, tensors = gptq(checkpoint_format, zero, sym=True)
    return tensors, {"quantization_config": config}


PLAIN_FP8 = {"a.weight": pack("F8_E4M3", [1, 2], [0x38, 0x40])}
FP8_MOE = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "quantization_config": {**FP8, "weight_block_size": [1, 2]}}


def experts(*lacking):
    """Two experts of a Mixtral in FP8, with a scale for each row but for those that are @lacking."""
    tensors = {}
    for expert in range(2):
        for i, name in enumerate(("w1", "w2", "w3")):
            key = f"model.layers.0.block_sparse_moe.experts.{expert}.{name}.weight"
            tensors[key] = pack("F8_E4M3", [2, 2], [0x38, 0x40, 0x40, 0x38])
            if f"{expert}.{name}" not in lacking:
                tensors[key + "_scale_inv"] = floats([2, 1], 10 * expert + i + 1, 10 * expert + i + 2)
    return tensors


# Tensors, config, words of the command, and what the refusal says.
REFUSED = {
    "codes without a scale and a config": (PLAIN_FP8, {}, ("convert", "--dtype", "bfloat16"), "'a.weight' is stored as F8_E4M3"),
    "codes without a scale, dequantised": (PLAIN_FP8, {}, ("dequantize",), "'a.weight' is stored as F8_E4M3"),
    "codes without a scale, of a method": (PLAIN_FP8, {"quantization_config": FP8}, ("dequantize",), "has no scale"),
    "codes of another method": (PLAIN_FP8, {"quantization_config": {"quant_method": "awq", "bits": 4}},
                                ("convert", "--dtype", "bfloat16"), "'a.weight' is stored as F8_E4M3"),
    "a method that nobody knows": (PLAIN_FP8, {"quantization_config": {"quant_method": "made-up"}}, ("dequantize",), "'made-up'"),
    "a grid that is not the config's": (
        {**PLAIN_FP8, "a.weight_scale_inv": floats([3, 3], *range(9))}, {"quantization_config": FP8}, ("dequantize",), "(3, 3)"),
    "a GPTQ file that is v2 and says v1": (*gptq_that_says("gptq", 8), ("dequantize",), "'gptq'|'gptq_v2'|checkpoint_format"),
    "a GPTQ file that is v1 and says v2": (*gptq_that_says("gptq_v2", 7), ("dequantize",), "'gptq_v2'|'gptq'|checkpoint_format"),
    "packed weights that are quantised": (
        {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1], 2)}, {"quantization_config": FP8}, ("convert", "--quantize", "fp8"),
        "--dequantize"),
    "a scheme that nobody registered": ({"a.weight": floats([2, 2], 1, 2, 3, 4)}, {}, ("quantize", "--scheme", "fp9"), "'fp9'"),
    "experts of which one has no scale": (experts("1.w3"), FP8_MOE, ("convert", "--open", "--dequantize"), "experts.1.w3.weight"),
    "experts of which none has a scale": (
        experts(*(f"{i}.{name}" for i in range(2) for name in ("w1", "w2", "w3"))), FP8_MOE, ("convert", "--open", "--dequantize"), "has no scale"),
    "experts of which one is not packed": (
        {**experts("1.w2"), "model.layers.0.block_sparse_moe.experts.1.w2.weight": floats([2, 2], 1, 2, 3, 4)}, FP8_MOE,
        ("convert", "--open"), "is not packed as the other weights are"),
    "packed weights of a file": (
        {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1], 2)}, {}, ("quantize", "--scheme", "fp8"), "--dequantize"),
}


# Tensors that do not go together, or not with their config, and what the refusal names.
CONTRADICTIONS = {
    "fp8: a grid that is not the config's": (FP8, {**PLAIN_FP8, "a.weight_scale_inv": floats([3, 3], *range(9))}, "(3, 3)"),
    "fp8: a scale of other axes": (FP8, {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1, 2], 1, 2)}, "(1, 1, 2)"),
    "fp8: no number of a block": ({**FP8, "weight_block_size": [0, 128]}, PLAIN_FP8, "weight_block_size"),
    "mxfp4: scales of other blocks": ({"quant_method": "mxfp4"}, {**BLOCKS, "x.experts.down_proj_scales": pack("U8", [1, 1, 2], [1, 2])}, "(1, 1, 2)"),
    "gptq: groups that are not the config's": (gptq("gptq", 7, group_size=8)[0], {k: v for k, v in gptq("gptq", 7)[1].items() if k != "a.g_idx"}, "a.weight"),
    "gptq: columns of the scales": (gptq("gptq", 7)[0], {**gptq("gptq", 7)[1], "a.scales": pack("F16", [2, 4], [1] * 8)}, "a.weight"),
    "gptq: an index that is no group": (gptq("gptq", 7)[0], {**gptq("gptq", 7)[1], "a.g_idx": pack("I32", [8], [0] * 7 + [2])}, "a.weight"),
    "gptq: bits": ({**gptq("gptq", 7)[0], "bits": 5}, gptq("gptq", 7)[1], "found 5"),
    "awq: groups that are not the config's": (
        {"quant_method": "awq", "bits": 4, "group_size": 4, "version": "gemm"},
        {"a.qweight": pack("I32", [4, 1], [0] * 4), "a.qzeros": pack("I32", [4, 1], [0] * 4), "a.scales": pack("F16", [4, 8], [1] * 32)}, "a.weight"),
    "mlx: bits that give other columns": (
        {"group_size": 32, "bits": 8, "quant_method": "mlx"},
        {"a.weight": pack("U32", [1, 4], [0] * 4), "a.scales": floats([1, 1], 1), "a.biases": floats([1, 1], 0)}, "a.weight"),
    "bitsandbytes: a shape of more elements": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"a.weight": pack("U8", [1, 1], [0]), "a.weight.absmax": floats([1], 1), "a.weight.quant_map": floats([16], *NF4_MAP),
         "a.weight.quant_state.bitsandbytes__nf4": pack("U8", [len(NF4_STATE)], NF4_STATE)}, "a.weight"),
    "bitsandbytes: absmax of other blocks": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"a.weight": pack("U8", [2, 1], [0] * 2), "a.weight.absmax": floats([2], 1, 1), "a.weight.quant_map": floats([16], *NF4_MAP),
         "a.weight.quant_state.bitsandbytes__nf4": pack("U8", [len(NF4_STATE)], NF4_STATE)}, "a.weight"),
    "bitsandbytes: SCB of other rows": (
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        {"a.weight": pack("I8", [2, 2], [1] * 4), "a.SCB": floats([3], 1, 2, 3)}, "a.weight"),
    "compressed-tensors: groups that are not the config's": (
        group("pack-quantized", 4, "int", "group", group_size=4),
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 8])}, "a.weight"),
    "compressed-tensors: a shape of more columns": (
        group("pack-quantized", 4, "int", "channel"),
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 9])}, "a.weight"),
    "compressed-tensors: a scale of whole numbers": (
        group("pack-quantized", 4, "int", "channel"),
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": pack("I32", [1, 1], [1]), "a.weight_shape": pack("I64", [2], [1, 8])}, "a.weight"),
    "compressed-tensors: a format that is no group's": (
        {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {}},
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 8])}, "a.weight"),
    "compressed-tensors: a format that nobody knows": (
        group("marlin-24", 4, "int", "channel"),
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 8])}, "'marlin-24' is not known"),
    "compressed-tensors: no zero points of what is not symmetric": (
        group("pack-quantized", 4, "int", "channel", is_symmetric=False),
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 8])}, "no zero points"),
    "gptq: words that are numbers": (gptq("gptq", 7)[0], {**gptq("gptq", 7)[1], "a.qweight": floats([1, 8], *range(8))}, "found F32"),
    "bitsandbytes: magnitudes that are codes, and nobody says so": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True},
        {"a.weight": pack("U8", [2, 1], [0xF0, 0x7C]), "a.weight.absmax": pack("U8", [1], [1]), "a.weight.quant_map": floats([16], *NF4_MAP),
         "a.weight.nested_absmax": floats([1], 1), "a.weight.nested_quant_map": floats([256], *range(256)),
         "a.weight.quant_state.bitsandbytes__nf4": pack("U8", [len(NF4_STATE)], NF4_STATE)}, "found only nested_absmax"),
    "mlx: bits of one module": (
        {"group_size": 32, "bits": 4, "quant_method": "mlx", "a": {"bits": 9}},
        {"a.weight": pack("U32", [1, 4], [0] * 4), "a.scales": floats([1, 1], 1), "a.biases": floats([1, 1], 0)}, "says of 'a'"),
    "mlx: a text for the bits of one module": (
        {"group_size": 32, "bits": 4, "quant_method": "mlx", "a": {"bits": "4"}},
        {"a.weight": pack("U32", [1, 4], [0] * 4), "a.scales": floats([1, 1], 1), "a.biases": floats([1, 1], 0)}, "says of 'a'"),
    "mlx: words that are signed": (
        {"group_size": 32, "bits": 4, "quant_method": "mlx"},
        {"a.weight": pack("I32", [1, 4], [0] * 4), "a.scales": floats([1, 1], 1), "a.biases": floats([1, 1], 0)}, "words of U32 beside 'a.scales', found I32"),
    "fp8: two scales": (
        FP8, {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1], 2), "a.weight_scale": floats([1, 1], 3)}, "'a.weight_scale_inv' and 'a.weight_scale' are both"),
    **{f"bitsandbytes: {name}": (
        {"quant_method": "bitsandbytes", "load_in_4bit": True}, bitsandbytes(state, parts), found)
       for name, state, parts, found in (
           ("a map of other codes", {}, {"quant_map": floats([15], *NF4_MAP[:15])}, "its quant_map to be 16 elements of F32"),
           ("magnitudes that are no numbers", {}, {"absmax": pack("I32", [1], [1])}, "its absmax to be 1 elements of F32"),
           ("a text for a number", {"blocksize": "64"}, {}, "expected 'blocksize' of its quant_state to be a whole number above 0, found \"64\""),
           ("no blocks", {"blocksize": 0}, {}, "expected 'blocksize'"),
           ("a shape of texts", {"shape": ["4"]}, {}, "expected 'shape'"),
           ("a type that is not its name's", {"quant_type": "fp4"}, {}, "says quant_type 'fp4'"),
           ("a text for an offset", {"nested_blocksize": 256, "nested_offset": "0"}, {}, "expected 'nested_offset' of its quant_state to be a number"),
           ("an offset that is no number of F32", {"nested_blocksize": 256, "nested_offset": 1e300}, {}, "to fit F32"))},
    "compressed-tensors: a text for a number": (
        group("pack-quantized", "4", "int", "channel"),
        {"a.weight_packed": pack("I32", [1, 1], [0]), "a.weight_scale": floats([1, 1], 1), "a.weight_shape": pack("I64", [2], [1, 8])}, "'num_bits' in 'weights'"),
    "compressed-tensors: bits that the format has not": (
        group("mxfp4-pack-quantized", 8, "float", "group", group_size=32),
        {"a.weight_packed": pack("U8", [1, 32], [0] * 32), "a.weight_scale": pack("U8", [1, 1], [127])}, "mxfp4-pack-quantized has weights of type float"),
    "compressed-tensors: groups that are a list": (
        {"quant_method": "compressed-tensors", "config_groups": [1]}, {"a.weight_packed": pack("I32", [1, 1], [0])}, "expected 'config_groups' to be an object"),
    **{f"compressed-tensors: {name}": (group("nvfp4-pack-quantized", 4, "float", "tensor_group", group_size=16), {**NVFP4, **parts}, found)
       for name, parts, found in (
           ("a global scale of 0", {"a.weight_global_scale": floats([1], 0)}, "to be above 0, found 0"),
           ("a global scale of whole numbers", {"a.weight_global_scale": pack("I32", [1], [2])}, "found 1 elements of I32"),
           ("two global scales", {"a.weight_global_scale": floats([2], 1, 2)}, "found 2 elements of F32"))},
    "compressed-tensors: no global scale": (
        group("nvfp4-pack-quantized", 4, "float", "tensor_group", group_size=16),
        {name: part for name, part in NVFP4.items() if "global" not in name}, "has no global_scale"),
    "modelopt: NVFP4 that is called FP8": ({"quant_method": "modelopt", "quant_algo": "FP8"}, MODELOPT, "'a.weight' is stored as NVFP4"),
    "modelopt: groups that NVFP4 has not": ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 32}, MODELOPT, "config says 32"),
    "modelopt: a global scale of whole numbers": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"}, {**MODELOPT, "a.weight_scale_2": pack("I32", [1], [1])}, "global_scale in F32, found I32"),
    "modelopt: scales of other groups": (
        {"quant_method": "modelopt", "quant_algo": "NVFP4"}, {**MODELOPT, "a.weight_scale": pack("F8_E4M3", [1, 3], [0x48] * 3)}, "a.weight"),
    "modelopt: an algorithm that nobody knows": ({"quant_method": "modelopt", "quant_algo": "NVFP5"}, MODELOPT, "NVFP5"),
}

# Scheme, parameters, shape and values, and the parts that they give: bytes, or numbers.
WRITTEN = {
    "blocks of fp8": ("fp8-block", {"weight_block_size": [2, 2]}, [4, 2], [1, -2, 4, .5, 0, 0, 0, 0],
                      {"weight": bytes([0x6E, 0xF6, 0x7E, 0x66, 0, 0, 0, 0]), "weight_scale_inv": [1 / 112, 1]}),
    "a power of two that is rounded up": ("fp8-block", {"weight_block_size": [2, 2], "scale_fmt": "ue8m0"}, [2, 2], [3] * 4,
                                          {"weight": bytes([0x7C] * 4), "weight_scale_inv": bytes([120])}),
    "a row of zeros": ("fp8-per-row", {}, [3, 2], [1, -448, 0, 0, 2, 1],
                       {"weight": bytes([0x38, 0xFE, 0, 0, 0x7E, 0x76]), "weight_scale": [1, 1 / 448, 2 / 448]}),
    "the last block is cut short": ("fp8-block", {"weight_block_size": [2, 2]}, [3, 3], [1, 1, 2, 1, 1, 2, 4, 4, 8],
                                    {"weight": bytes([0x7E] * 9), "weight_scale_inv": [1 / 448, 2 / 448, 4 / 448, 8 / 448]}),
    "the first code is the high nibble": (
        "bitsandbytes-4bit", {"quant_type": "nf4", "blocksize": 64, "double_quant": False}, [2, 2], [1, -1, 0, .5], {"weight": bytes([0xF0, 0x7C])}),
    "the first code is the low nibble": ("affine", {"bits": 4, "group_size": 32}, [1, 32], [0, 1, 2, 15] + [0] * 28,
                                         {"weight": bytes([0x10, 0xF2] + [0] * 14), "scales": [1], "biases": [0]}),
}


CT_PACK = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}

# Schemes of which finite values come back finite, whatever they are.
FINITE = {
    "fp8-block": ("fp8-block", {"weight_block_size": [1, 32]}),
    "fp8-block, powers of two": ("fp8-block", {"weight_block_size": [1, 32], "scale_fmt": "ue8m0"}),
    "fp8-per-row": ("fp8-per-row", {}), "modelopt-nvfp4": ("modelopt-nvfp4", {}), "bitsandbytes-4bit": ("bitsandbytes-4bit", {}),
    "bitsandbytes-int8": ("bitsandbytes-int8", {}), "affine": ("affine", {"group_size": 32}),
    **{f"gguf {name}": ("gguf", {"type": name}) for name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")},
    **{f"{layout}, {strategy}{'' if is_symmetric else ', asymmetric'}": compressed(layout, bits, kind, strategy, is_symmetric, **more)
       for layout, bits, kind, strategy, is_symmetric, more in (
           ("float-quantized", 8, "float", "channel", True, {}), ("pack-quantized", 4, "int", "group", True, {"group_size": 32}),
           ("pack-quantized", 4, "int", "group", False, {"group_size": 32}), ("nvfp4-pack-quantized", 4, "float", "tensor_group", True, {"group_size": 16}),
           ("mxfp4-pack-quantized", 4, "float", "group", True, {"group_size": 32}), ("mxfp8-quantized", 8, "float", "group", True, {"group_size": 32}))},
}

# A scheme and its parameters that are no scheme, and what is said.
NO_SCHEMES = {
    "a name that is misspelled": ("fp8-block", {"weight_block_sise": [16, 16]}, "no parameter 'weight_block_sise'; it has scale_fmt, weight_block_size"),
    "a parameter of another scheme": ("fp8-per-row", {"weight_block_size": [16, 16]}, "it has none"),
    "a text for a number": ("affine", {"bits": "four"}, "expected 'bits' to be a whole number"),
    "a real number": ("affine", {"group_size": 32.0}, "expected 'group_size' to be a whole number"),
    "a number for a text": ("gguf", {"type": 5}, "expected 'type' to be a text"),
    "a value that is not one of two": ("fp8-block", {"scale_fmt": "foo"}, "'float' or 'ue8m0'"),
    "a scheme of fp8 that is none": ("fp8-foo", {}, "there is fp8, fp8-block, fp8-per-row"),
    "a scheme of bitsandbytes that is none": ("bitsandbytes-5bit", {}, "there is bitsandbytes"),
    "a scheme of modelopt that is read only": ("modelopt-fp8", {}, "there is modelopt"),
    "other groups than the format has": ("modelopt-nvfp4", {"group_size": 32}, "group_size of 16"),
    "a format that is none": ("compressed-tensors/foo", {"weights": CT_PACK}, "no format 'foo'"),
    "two formats": ("compressed-tensors/pack-quantized", {"format": "int-quantized", "weights": CT_PACK}, "says 'int-quantized'"),
    "floats in a format of integers": ("compressed-tensors/pack-quantized", {"weights": {**CT_PACK, "type": "float"}}, "type int"),
    "integers in a format of floats": ("compressed-tensors/float-quantized", {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}, "type float"),
    "bits that the format has not": ("compressed-tensors/float-quantized", {"weights": {"num_bits": 4, "type": "float", "strategy": "channel"}}, "8 to 8 bits"),
    "groups that the format has not": ("compressed-tensors/mxfp4-pack-quantized", {"weights": {**CT_PACK, "type": "float", "group_size": 16}}, "groups of 32"),
    "zero points that cannot be read": ("compressed-tensors/pack-quantized", {"weights": {"num_bits": 4, "type": "int", "strategy": "tensor", "symmetric": False}}, "a.weight"),
    "a member that weights have not": ("compressed-tensors/pack-quantized", {"weights": {**CT_PACK, "grup_size": 32}}, "no 'grup_size'"),
    "a member of another type": ("compressed-tensors/pack-quantized", {"weights": {**CT_PACK, "symmetric": 1}}, "'symmetric'"),
}


class QuantizersTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.n_folders = 0

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def new_path(self):
        self.n_folders += 1
        return self.path(str(self.n_folders))

    def make(self, tensors, config):
        folder = self.new_path()
        made_checkpoint.write_folder(folder, [tensors], config)
        return folder

    def weft(self, *words, code=0):
        result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(result.returncode, code, f"{words}: {result.stderr}")
        return result

    def convert(self, command, source, *words):
        target = self.new_path()
        self.weft(command, source, *words, "--no-sync", "-o", target)
        return target

    @staticmethod
    def read(folder):
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            content = file.read()
        start = 8 + struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:start])
        return {name: (entry["dtype"], entry["shape"], content[start + entry["data_offsets"][0]:start + entry["data_offsets"][1]])
                for name, entry in header.items() if name != "__metadata__"}

    @staticmethod
    def read_config(folder, name="config.json"):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            return json.load(file)

    def read_values(self, folder, name):
        dtype, _, content = self.read(folder)[name]
        self.assertEqual(dtype, "F32")
        return list(struct.unpack(f"<{len(content) // 4}f", content))

    def make_random(self, shape, seed, name=None):
        source, n_elements = random.Random(seed), math.prod(shape)
        values = [source.gauss(0, 1) * 10 ** source.uniform(-2, 1) for _ in range(n_elements)]
        name = name or (EXPERTS if len(shape) == 3 else Q_PROJ)
        return {name: floats(shape, *values)}

    def require_near(self, found, expected, name):
        """Scales in F32, a rounding apart; all others equal."""
        if found == expected:
            return
        self.assertEqual((found[0], found[1]), ("F32", expected[1]), name)
        for a, b in zip(*(struct.unpack(f"<{len(part[2]) // 4}f", part[2]) for part in (found, expected))):
            self.assertAlmostEqual(a, b, delta=abs(b) * 2 ** -22, msg=name)

    def test_packed_comes_back(self):
        for name, (scheme, parameters, shape, claim) in ROUND_TRIPS.items():
            for seed in range(2):
                with self.subTest(name=name, seed=seed):
                    source = self.make(self.make_random(shape, seed), {"torch_dtype": "float32"})
                    words = ("--scheme", scheme, "--params", json.dumps(parameters))
                    packed = self.convert("quantize", source, *words)
                    dense = self.convert("dequantize", packed, "--dtype", "float32")
                    again = self.convert("quantize", dense, *words)
                    if claim == "values":
                        again, packed = self.convert("dequantize", again, "--dtype", "float32"), dense
                    found, expected = self.read(again), self.read(packed)
                    self.assertEqual(list(found), list(expected))
                    for key in expected:
                        if claim == "near":
                            self.require_near(found[key], expected[key], key)
                        else:
                            self.assertEqual(found[key], expected[key], key)

    def test_packed_drifts(self):
        """What is no identity is near, block by block, and not always the same."""
        for name, (scheme, parameters, shape, n_block, part) in DRIFTING.items():
            n_moved = 0
            for seed in range(3):
                with self.subTest(name=name, seed=seed):
                    source = self.make(self.make_random(shape, seed), {"torch_dtype": "float32"})
                    words, values = ("--scheme", scheme, "--params", json.dumps(parameters)), []
                    for _ in range(2):
                        source = self.convert("dequantize", self.convert("quantize", source, *words), "--dtype", "float32")
                        values.append(self.read_values(source, Q_PROJ))
                    for start in range(0, len(values[0]), n_block):
                        block, again = (part_of[start:start + n_block] for part_of in values)
                        moved = max(abs(a - b) for a, b in zip(block, again))
                        self.assertLessEqual(moved, max(map(abs, block)) * part * (1 + 1e-4))
                        n_moved += moved > 0
            self.assertGreater(n_moved, 0, name)

    def test_traps(self):
        for name, (quantization, tensors, expected) in TRAPS.items():
            with self.subTest(trap=name):
                source = self.make(tensors, {"torch_dtype": "float32", "quantization_config": quantization})
                target = self.convert("dequantize", source, "--dtype", "float32")
                self.assertNotIn("quantization_config", self.read_config(target))
                found = self.read_values(target, *self.read(target))[:len(expected)]
                self.assertEqual([str(value) for value in found], [str(float(value)) for value in expected])

    def test_exponents_that_are_no_numbers(self):
        scales = [127, 255, 255]
        tensors = {"a.weight": pack("F8_E4M3", [3, 1], [0x38] * 3), "a.weight_scale_inv": pack("U8", [3, 1], scales)}
        source = self.make(tensors, {"quantization_config": {**FP8, "weight_block_size": [1, 1]}})
        result = self.weft("dequantize", "--json", source, "-o", self.new_path())
        self.assertIn("2 of its exponents are 255, which is no number", result.stderr)
        self.assertIn("a.weight_scale_inv", json.dumps(json.loads(result.stdout)["value_report"]))

    def test_refused(self):
        for name, (tensors, config, (command, *words), part) in REFUSED.items():
            with self.subTest(name=name):
                target = self.new_path()
                result = self.weft(command, self.make(tensors, config), *words, "-o", target, code=1)
                for found in part.split("|"):
                    self.assertIn(found, result.stderr)
                self.assertFalse(os.path.exists(target))

    def test_contradictions(self):
        for name, (quantization, tensors, part) in CONTRADICTIONS.items():
            with self.subTest(name=name):
                target = self.new_path()
                source = self.make(tensors, {"torch_dtype": "float32", "quantization_config": quantization})
                self.assertIn(part, self.weft("dequantize", source, "-o", target, code=1).stderr)
                self.assertFalse(os.path.exists(target))

    def test_written(self):
        for name, (scheme, parameters, shape, values, expected) in WRITTEN.items():
            with self.subTest(name=name):
                source = self.make({"a.weight": floats(shape, *values)}, {"torch_dtype": "float32"})
                found = self.read(self.convert("quantize", source, "--scheme", scheme, "--params", json.dumps(parameters)))
                for ending, part in expected.items():
                    _, _, content = found[f"a.{ending}"]
                    if isinstance(part, list):
                        part = floats([len(part)], *part)[2]
                    self.assertEqual(content, part, ending)

    def test_finite_stays_finite(self):
        rows = {"zeros": [0] * 32, "tiny and zeros": [1e-39] + [0] * 31, "small and zeros": [1e-37] + [0] * 31, "the least": [2 ** -149] + [0] * 31,
                "large": [1e30, -1e30] * 16}
        for name, (scheme, parameters) in FINITE.items():
            for row, values in rows.items():
                with self.subTest(name=name, row=row):
                    source = self.make({"a.weight": floats([1, 32], *values)}, {"torch_dtype": "float32"})
                    packed = self.convert("quantize", source, "--scheme", scheme, "--params", json.dumps(parameters), "--error-report", self.path("e.json"))
                    found = self.read_values(self.convert("dequantize", packed, "--dtype", "float32"), "a.weight")
                    self.assertTrue(all(map(math.isfinite, found)), found)
                    self.assertTrue(self.read_config(self.folder.name, "e.json")[0]["is_finite"])
                    for a, b in zip(found, values):
                        self.assertLessEqual(abs(a), 2 * abs(b) if max(values) > 1 else max(map(abs, values)) * 1.1)

    def test_a_range_that_is_no_number(self):
        """The largest values become smaller ones at worst, or infinite, which the report says; none is NaN."""
        for name, (scheme, parameters) in FINITE.items():
            with self.subTest(name=name):
                source = self.make({"a.weight": floats([1, 32], *[3.3e38, -3.3e38, 0, 0] * 8)}, {"torch_dtype": "float32"})
                packed = self.convert("quantize", source, "--scheme", scheme, "--params", json.dumps(parameters), "--error-report", self.path("e.json"))
                found = self.read_values(self.convert("dequantize", packed, "--dtype", "float32"), "a.weight")
                self.assertFalse(any(map(math.isnan, found)), found)
                row, = self.read_config(self.folder.name, "e.json")
                self.assertEqual(row["is_finite"], all(map(math.isfinite, found)))
                self.assertEqual(row["max_abs"] is None, not row["is_finite"])

    def test_infinite_errors_are_told(self):
        source = self.make({"a.weight": floats([1, 32], *[3.3e38] * 32)}, {"torch_dtype": "float32"})
        for ending in ("txt", "svg"):
            self.convert("quantize", source, "--scheme", "fp8-block", "--params", '{"scale_fmt": "ue8m0"}',
                         "--error-report", self.path("e." + ending))
            with open(self.path("e." + ending), encoding="utf-8") as file:
                self.assertIn("not finite", file.read())

    def test_values_that_are_not_finite(self):
        for name, (scheme, parameters) in FINITE.items():
            for value in (math.nan, math.inf, -math.inf):
                with self.subTest(name=name, value=value):
                    source = self.make({"a.weight": floats([2, 32], *[1.0] * 40, value, *[1.0] * 23)}, {"torch_dtype": "float32"})
                    target = self.new_path()
                    result = self.weft("quantize", source, "--scheme", scheme, "--params", json.dumps(parameters), "-o", target, code=1)
                    self.assertIn("'a.weight' is NaN or infinite at (1, 8)", result.stderr)
                    self.assertFalse(os.path.exists(target))

    def test_no_schemes(self):
        source = self.make({"a.weight": floats([32, 32], *[1.0] * 1024)}, {"torch_dtype": "float32"})
        for name, (scheme, parameters, part) in NO_SCHEMES.items():
            with self.subTest(name=name):
                target = self.new_path()
                self.assertIn(part, self.weft("quantize", source, "--scheme", scheme, "--params", json.dumps(parameters), "-o", target, code=1).stderr)
                self.assertFalse(os.path.exists(target))

    def test_keep_that_matches_nothing(self):
        source = self.make({"m.layers.1.up.weight": floats([2, 2], 1, 2, 3, 4)}, {"torch_dtype": "float32"})
        for entry in ("nosuch", "", "layers.1"):
            with self.subTest(entry=entry):
                self.assertIn(f"'{entry}'", self.weft("quantize", source, "-s", "fp8-block", "--keep", entry, "-o", self.new_path(), code=1).stderr)
        # A head that a model may have, and has not.
        self.convert("quantize", source, "-s", "fp8-block", "--keep", "lm_head")

    def test_what_is_packed(self):
        shapes = {"l.0.mixer.conv1d.weight": [8, 1, 4], "audio.conv1.weight": [8, 4, 3], "encoder.embeddings.weight": [8, 32], "pos_embed.weight": [8, 32],
                  "shared.weight": [8, 32], "score.weight": [2, 32], "lm_head.weight": [8, 32], "norm.weight": [32], "l.0.up.bias": [32],
                  "l.0.empty.weight": [0, 32]}
        packed = {"l.0.up.weight": [8, 32], "l.0.gate_proj.weight": [8, 32]}
        tensors = {name: floats(shape, *[1.0] * math.prod(shape)) for name, shape in {**shapes, **packed}.items()}
        source = self.make(tensors, {"torch_dtype": "float32"})
        for scheme, parameters in FINITE.values():
            with self.subTest(scheme=scheme, parameters=parameters):
                found = self.read(self.convert("quantize", source, "--scheme", scheme, "--params", json.dumps(parameters)))
                for name in shapes:
                    self.assertEqual(found[name], tensors[name], name)
                for name in packed:
                    self.assertNotEqual(found.get(name), tensors[name], name)

    def test_classes_tell_what_is_linear(self):
        source = self.make({f"{name}.weight": floats([2, 2], 1, 2, 3, 4) for name in ("a.up", "a.table", "a.normal")}, {"torch_dtype": "float32", "model_type": "tiny"})
        classes = {"a.up": "Linear", "a.table": "Embedding", "a.normal": "Linear"}
        tree = {"class": "Tiny", "model_type": "tiny",
                "modules": [{"fqn": "", "class": "Tiny"}, {"fqn": "a", "class": "Block"}, *({"fqn": name, "class": kind} for name, kind in classes.items())],
                "tensors": [{"name": f"{name}.weight", "shape": [2, 2], "dtype": "float32"} for name in classes]}
        made_checkpoint.write_text(self.path("tree.json"), json.dumps(tree))
        found = self.read(self.convert("convert", source, "--module-tree", self.path("tree.json"), "--quantize", "fp8-block"))
        self.assertEqual({name: part[0] for name, part in found.items() if name.endswith("weight")},
                         {"a.up.weight": "F8_E4M3", "a.table.weight": "F32", "a.normal.weight": "F8_E4M3"})

    def test_bytes_that_are_no_blocks(self):
        """A tensor that stays as it is is not read as codes."""
        plain = {"a.mask": pack("U8", [1, 68], range(68)), "a.odd": pack("U8", [1, 67], range(67)), "b.weight": pack("U8", [2, 34], range(68)),
                 "c.weight": pack("F8_E4M3", [1, 2], [1, 2])}
        source = self.make({"a.weight": floats([1, 32], *range(32)), **plain}, {"torch_dtype": "float32"})
        for scheme, parameters in (("gguf", {"type": "Q8_0"}), ("fp8-block", {})):
            with self.subTest(scheme=scheme):
                packed = self.convert("quantize", source, "-s", scheme, "-p", json.dumps(parameters))
                dense = self.read(self.convert("dequantize", packed))
                self.assertEqual({name: dense[name] for name in plain}, plain)
                self.assertEqual(dense["a.weight"][1], [1, 32])

    def test_stacked_experts_that_a_scheme_does_not_take(self):
        source = self.make({"l.0.mlp.experts.up": floats([2, 4, 32], *[1.0] * 256), "a.weight": floats([1, 32], *[1.0] * 32)}, {"torch_dtype": "float32"})
        for scheme, parameters in (("bitsandbytes-4bit", {}), ("affine", {"group_size": 32}), FINITE["float-quantized, channel"], ("modelopt-nvfp4", {})):
            with self.subTest(scheme=scheme):
                words = ("quantize", source, "-s", scheme, "-p", json.dumps(parameters))
                result = self.weft(*words, "-o", self.new_path(), code=1)
                self.assertNotIn("CRITICAL", result.stderr)
                self.assertIn("--keep '*experts*'", result.stderr)
                self.convert(*words[:2], *words[2:], "--keep", "*experts*")

    def test_stacked_scales_without_axes(self):
        """Scales of one element are stacked to one axis, or shared; ranks get theirs, and dense values are the same in any order."""
        expert = "model.layers.0.block_sparse_moe.experts"
        tensors = {}
        for number in range(2):
            for name, scale in (("w1", 2), ("w2", 1 + number), ("w3", 2)):
                tensors.update({f"{expert}.{number}.{name}.weight": pack("U8", [32, 16], [(number * 7 + i) % 256 for i in range(512)]),
                                f"{expert}.{number}.{name}.weight_scale": pack("F8_E4M3", [32, 2], [0x30 + i % 24 for i in range(64)]),
                                f"{expert}.{number}.{name}.weight_scale_2": floats([], scale)})
        source = self.make(tensors, {"model_type": "mixtral", "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})
        packed = self.convert("convert", source, "--open")
        experts = "model.layers.0.mlp.experts"
        self.assertEqual({name: part[1] for name, part in self.read(packed).items() if name.endswith("_scale_2")},
                         {f"{experts}.down_proj_scale_2": [2], f"{experts}.gate_up_proj_scale_2": []})
        self.assertEqual(self.read(self.convert("dequantize", packed)), self.read(self.convert("convert", source, "--open", "--dequantize")))
        for gate_up, down in (("packed_colwise", "rowwise"), ("grouped_gemm", "grouped_gemm")):
            made_checkpoint.write_text(self.path("plan.json"), json.dumps({experts.replace("0", "*") + ".gate_up_proj": gate_up, experts.replace("0", "*") + ".down_proj": down}))
            for rank in "01":
                with self.subTest(gate_up=gate_up, rank=rank):
                    words = ("--open", "--plan", self.path("plan.json"), "--tp-size", "2", "--tp-rank", rank)
                    dense = self.read(self.convert("convert", source, "--dequantize", *words))
                    self.assertEqual(self.read(self.convert("dequantize", self.convert("convert", source, *words))), dense)

    def test_lists_of_modules_that_are_none(self):
        for name, value, message in (("modules_to_not_convert", "lm_head", "modules_to_not_convert: expected a list of names of modules, found String"),
                                     ("ignore", {"lm_head": True}, "ignore: expected a list of names of modules, found"),
                                     ("modules_to_not_convert", ["lm_head", 1], "modules_to_not_convert[1]: expected the name of a module, found Integer")):
            with self.subTest(name=name, value=value):
                source = self.make({"lm_head.weight": floats([2, 2], 1, 2, 3, 4)}, {"quantization_config": {**FP8, name: value}})
                self.assertIn(message, self.weft("convert", source, "--open", "-o", self.new_path(), code=1).stderr)
        source = self.make({"lm_head.weight": floats([2, 2], 1, 2, 3, 4)}, {"quantization_config": {**FP8, "modules_to_not_convert": None}})
        self.convert("convert", source, "--open")

    def test_gguf_is_not_written(self):
        source = self.make({"a.weight": floats([2, 2], 1, 2, 3, 4)}, {})
        target = self.path("model.gguf")
        self.assertIn("safetensors are written, not GGUF", self.weft("convert", source, "--open", "-o", target, code=1).stderr)
        self.assertFalse(os.path.exists(target))

    def test_number_of_a_module_goes_whole(self):
        """A scale that a method leaves beside dense values, as BitNet's, is no row of its module."""
        source = self.make({"a.weight": floats([4, 2], *range(8)), "a.bias": floats([4], *range(4)), "a.weight_scale": floats([1], 2)}, {})
        made_checkpoint.write_text(self.path("plan.json"), json.dumps({"a": "colwise"}))
        for rank in "01":
            found = self.read(self.convert("convert", source, "--open", "--plan", self.path("plan.json"), "--tp-size", "2", "--tp-rank", rank))
            self.assertEqual({name: part[1] for name, part in found.items()}, {"a.weight": [2, 2], "a.bias": [2], "a.weight_scale": [1]})

    def test_one_file_tells_its_scheme(self):
        """There is no config beside it: the header says how it is packed, of what is packed and of what is carried, and no longer of dense values."""
        tensors = {**self.make_random([4, 64], 0), "lm_head.weight": floats([1, 64], *range(64))}
        packed = self.convert("quantize", self.make(tensors, {"torch_dtype": "float32"}), "--scheme", "affine")
        dense = self.read(self.convert("dequantize", packed))
        file, carried, folder, again = (self.path(name) for name in ("a.safetensors", "b.safetensors", "folder", "c.safetensors"))
        self.weft("quantize", self.make(tensors, {"torch_dtype": "float32"}), "--scheme", "affine", "--no-sync", "-o", file)
        self.weft("convert", packed, "--open", "--no-sync", "-o", carried)
        self.weft("convert", file, "--open", "--no-sync", "-o", folder)
        for source in (file, carried, folder):
            with self.subTest(source=source):
                self.assertIn("1 packed weights, by the method mlx", self.weft("inspect", "--packed", source).stderr)
                self.weft("dequantize", source, "--no-sync", "--force", "-o", again)
                os.makedirs(self.path("read"), exist_ok=True)
                os.replace(again, self.path("read/model.safetensors"))
                self.assertEqual(self.read(self.path("read")), dense)
                with open(self.path("read/model.safetensors"), "rb") as written:
                    self.assertNotIn(b"quantization_config", written.read())
        self.weft("revert", folder, "--no-sync", "-o", again)
        with open(again, "rb") as one, open(file, "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_config_under_any_name(self):
        """A sub-config may be called anything: it is found, and goes when the weights are dense, with every other byte left."""
        for name in ("text_config", "a.b", "a..b.", "a\\", "a\\.b", "\u00e4", 'a"b'):
            with self.subTest(name=name):
                tensors = {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1], 2)}
                source = self.make(tensors, {name: {"x": 1, "quantization_config": FP8}, "a": {"b": {"quantization": 3}}})
                target = self.convert("dequantize", source)
                self.assertEqual(self.read_config(target), {name: {"x": 1}, "a": {"b": {"quantization": 3}}})

    def test_headers_that_say_what_is_no_config(self):
        for text, part in (("{", "no valid JSON"), ("[]", "expected an object, found a list"), ('{"quant_method": "made-up"}', "'made-up'"),
                           ('{"quant_method": 3}', "expected 'quant_method' to be a text")):
            with self.subTest(text=text):
                path = os.path.join(self.make(PLAIN_FP8, {}), "model.safetensors")
                with open(path, "rb") as file:
                    content = file.read()
                start = 8 + struct.unpack("<Q", content[:8])[0]
                header = json.dumps({**json.loads(content[8:start]), "__metadata__": {"quantization_config": text}}).encode()
                with open(path, "wb") as file:
                    file.write(struct.pack("<Q", len(header)) + header + content[start:])
                message = self.weft("inspect", "--packed", path, code=1).stderr
                self.assertIn("the header's quantization_config", message)
                self.assertIn(part, message)

    def test_error_report_that_cannot_be_written(self):
        source = self.make({"a.weight": floats([1, 2], 1, 2)}, {"torch_dtype": "float32"})
        for report in (self.folder.name, self.path("nonexistent/e.svg")):
            target = self.new_path()
            self.assertIn(report, self.weft("quantize", source, "-s", "fp8-block", "-o", target, "--error-report", report, code=1).stderr)
            self.assertFalse(os.path.exists(target))
        target = self.new_path()
        self.weft("quantize", source, "-s", "fp8-block", "-o", target, "--error-report", os.path.join(target, "e.svg"))
        self.assertTrue(os.path.exists(os.path.join(target, "e.svg")))

    def test_outputs_of_one_conversion_that_differ(self):
        """One of two halves is packed: each output counts for itself."""
        source = self.make({"a.qk.weight": floats([2, 2], 1, 2, 3, 4)}, {"torch_dtype": "float32"})
        rules = [{"type": "WeightConverter", "source_patterns": ["qk.weight"], "target_patterns": ["q.weight", "k.weight"],
                  "operations": [{"type": "Chunk", "dim": 0}]}]
        made_checkpoint.write_text(self.path("rules.json"), json.dumps(rules))
        found = self.read(self.convert("convert", source, "--mapping", self.path("rules.json"), "--quantize", "fp8-per-row", "--keep", "k"))
        self.assertEqual({name: part[0] for name, part in found.items()}, {"a.q.weight": "F8_E4M3", "a.q.weight_scale": "F32", "a.k.weight": "F32"})
        self.assertEqual(found["a.k.weight"], floats([1, 2], 3, 4))

    def test_dense_values_go_back_to_published_names(self):
        """Dequantizing does not forget the mapping."""
        source = self.make(experts(), FP8_MOE)
        dense = self.convert("convert", source, "--open", "--dequantize", "--dtype", "float32")
        back = self.convert("revert", dense, "--lossy")
        self.assertEqual(self.read(back), self.read(self.convert("dequantize", source, "--dtype", "float32")))
        self.assertNotIn("quantization_config", self.read_config(back))

    def test_codes_are_kept_where_nobody_asks(self):
        target = self.convert("convert", self.make(PLAIN_FP8, {}))
        self.assertEqual(self.read(target), PLAIN_FP8)

    def test_recognised_by_names(self):
        tensors = {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1], 4), "norm.weight": floats([1], 7)}
        target = self.convert("dequantize", self.make(tensors, {}), "--dtype", "float32")
        self.assertEqual({name: self.read_values(target, name) for name in self.read(target)}, {"a.weight": [4, 8], "norm.weight": [7]})

    def test_recognised_by_the_file_of_modelopt(self):
        tensors = {**PLAIN_FP8, "a.weight_scale": floats([], 4), "old.weight": floats([1, 1], 7)}
        source = self.make(tensors, {"torch_dtype": "float32"})
        said = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["old"]}}
        made_checkpoint.write_text(os.path.join(source, "hf_quant_config.json"), json.dumps(said))
        self.assertEqual(json.loads(self.weft("inspect", "--packed", "--json", source).stdout)[0]["name"], "a.weight")
        dense = self.convert("dequantize", source)
        self.assertEqual(self.read_values(dense, "a.weight"), [4, 8])
        self.assertFalse(os.path.exists(os.path.join(dense, "hf_quant_config.json")))
        renamed = self.convert("convert", source, "--key-mapping", "^old=new")
        self.assertEqual(self.read_config(renamed, "hf_quant_config.json")["quantization"]["exclude_modules"], ["new"])
        back = self.convert("revert", renamed)
        self.assertEqual(made_checkpoint.read_folder(back), made_checkpoint.read_folder(source))

    def test_f47_stale_block_size(self):
        """What was said of the blocks is not true of rows."""
        tensors = {"a.weight": pack("F8_E4M3", [2, 2], [0x38, 0x40, 0x48, 0x50]), "a.weight_scale_inv": floats([1, 1], 2)}
        source = self.make(tensors, {"torch_dtype": "float32", "text_config": {"quantization_config": FP8}})
        rows = self.convert("convert", source, "--dequantize", "--quantize", "fp8-per-row")
        config = self.read_config(rows)
        self.assertEqual(config["text_config"], {})
        self.assertIsNone(config["quantization_config"].get("weight_block_size"))
        self.assertEqual(self.read_values(self.convert("dequantize", rows, "--dtype", "float32"), "a.weight"), [2, 4, 8, 16])

    def test_keep(self):
        tensors = {f"{name}.weight": self.make_random([4, 16], 1, "x")["x"] for name in ("model.a.up", "model.a.down", "model.b.up", "lm_head")}
        source = self.make(tensors, {"torch_dtype": "float32"})
        # What a caller names takes the place of what is left dense by itself.
        for words, dense in (((), {"lm_head"}), (("--keep", "model.a.up"), {"model.a.up"}),
                             (("--keep", "lm_head", "--keep", "model.*.up"), {"lm_head", "model.a.up", "model.b.up"})):
            with self.subTest(words=words):
                packed = self.convert("convert", source, "--quantize", "fp8-per-row", *words)
                found = self.read(packed)
                self.assertEqual({name for name in tensors if found[name][0] == "F32"}, {f"{name}.weight" for name in dense})
                self.assertEqual(set(self.read_config(packed)["quantization_config"]["modules_to_not_convert"]), dense)

    def test_lists_of_modules_are_renamed(self):
        tensors = {**PLAIN_FP8, "a.weight_scale_inv": floats([1, 1], 2), "old.head.weight": floats([1, 1], 7)}
        for name in ("modules_to_not_convert", "ignored_layers"):
            with self.subTest(name=name):
                source = self.make(tensors, {"quantization_config": {**FP8, name: ["old.head"]}})
                target = self.convert("convert", source, "--key-mapping", "^old=new")
                self.assertEqual(self.read_config(target)["quantization_config"], {**FP8, name: ["new.head"]})
                back = self.convert("revert", target)
                self.assertEqual(made_checkpoint.read_folder(back), made_checkpoint.read_folder(source))

    def test_fusion_of_packed_weights_is_refused(self):
        tensors = {}
        for name in ("gate", "up"):
            tensors[f"layers.0.mlp.{name}_proj.weight"] = PLAIN_FP8["a.weight"]
            tensors[f"layers.0.mlp.{name}_proj.weight_scale_inv"] = floats([1, 1], 2)
        source = self.make(tensors, {"model_type": "tiny", "quantization_config": FP8})
        tree = {"class": "Tiny", "model_type": "tiny",
                "tensors": [{"name": name, "shape": [1, 2], "dtype": "float32"} for name in tensors if name.endswith("weight")]}
        made_checkpoint.write_text(self.path("tree.json"), json.dumps(tree))
        words = ("--module-tree", self.path("tree.json"), "--fusion", "gate_up", "--dtype", "float32")
        result = self.weft("convert", source, *words, "-o", self.path("fused"), code=1)
        self.assertIn("its weights are packed (fp8), and fused modules have dense ones; --dequantize", result.stderr)
        fused = self.convert("convert", source, *words, "--dequantize")
        self.assertEqual(self.read_values(fused, "layers.0.mlp.gate_up_proj.weight"), [2, 4, 2, 4])

    def test_error_report(self):
        values = [1, -448, 3.3, 100]
        source = self.make({Q_PROJ: floats([2, 2], *values)}, {"torch_dtype": "float32"})
        for name in ("errors.json", "errors.txt", "errors.svg"):
            packed = self.convert("convert", source, "--quantize", "fp8-per-row", "--error-report", self.path(name))
        dense = self.read_values(self.convert("dequantize", packed, "--dtype", "float32"), Q_PROJ)
        exact = struct.unpack("<4f", floats([4], *values)[2])
        noise = [a - b for a, b in zip(exact, dense)]
        signal = sum(value ** 2 for value in exact)
        rms = math.sqrt(sum(value ** 2 for value in noise) / signal)
        self.assertGreater(rms, 0)
        row, = self.read_config(self.folder.name, "errors.json")
        self.assertEqual(row["name"], Q_PROJ)
        self.assertAlmostEqual(row["max_abs"], max(map(abs, noise)), places=5)
        self.assertAlmostEqual(row["relative_rms"], rms, places=5)
        self.assertAlmostEqual(row["sqnr_db"], -20 * math.log10(rms), places=2)
        with open(self.path("errors.txt"), encoding="utf-8") as file:
            heading, line = file.read().splitlines()
        self.assertEqual(heading.split(), ["weight", "max", "abs", "rel.", "RMS", "SQNR", "dB"])
        self.assertEqual((line.split()[0], line.split()[3]), (Q_PROJ, f"{-20 * math.log10(rms):.2f}"))
        plot = xml.dom.minidom.parse(self.path("errors.svg"))
        self.assertIn(Q_PROJ, [text.firstChild.data for text in plot.getElementsByTagName("text")])
        self.assertEqual(len(plot.getElementsByTagName("rect")), 2)


if __name__ == "__main__":
    unittest.main()
