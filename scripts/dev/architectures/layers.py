# SPDX-License-Identifier: Apache-2.0
"""The layers of the tensor framework, written by hand: data/architectures/layers.json."""
import inspect

from torch import nn
from transformers.activations import ACT2CLS

import observe

WIDE = "{0} if is_list({0}) else [{1}]"


def conv(dims, transposed):
    spread = lambda name: WIDE.format(name, ", ".join([name] * dims))
    cls = f"Conv{'Transpose' if transposed else ''}{dims}d"
    kernel = [f"kernel_size[{k}]" for k in range(dims)]
    first = ["in_channels", "out_channels // groups"] if transposed else ["out_channels", "in_channels // groups"]
    return {
        "class": cls,
        "arguments": ["in_channels", "out_channels", "kernel_size", "stride=1", "padding=0", "dilation=1", "groups=1", "bias=True"] + (["output_padding=0"] if transposed else []),
        "attributes": {
            "kernel_size": spread("kernel_size"), "stride": spread("stride"), "padding": "padding if is_list(padding) or padding == 'same' or padding == 'valid' else [" + ", ".join(["padding"] * dims) + "]",
            "dilation": spread("dilation"), "groups": "groups", "in_channels": "in_channels", "out_channels": "out_channels", "bias": "bias",
        },
        "tensors": [{"name": "weight", "shape": first + kernel}, {"name": "bias", "shape": ["out_channels"], "if": "bias"}],
    }


def parametrized(dims):
    base = conv(dims, False)
    made = dict(base)
    made["class"] = f"ParametrizedConv{dims}d"
    made["arguments"] = base["arguments"] + ["dim=0"]
    shape = base["tensors"][0]["shape"]
    made["tensors"] = [base["tensors"][1]]
    norm = [f"{s} if dim == {k} else 1" for k, s in enumerate(shape)]
    made["children"] = [{"name": "parametrizations", "module": {"class": "ModuleDict", "children": [
        {"name": "weight", "module": {"class": "ParametrizationList", "bases": ["ModuleList", "Module"], "tensors": [{"name": "original0", "shape": norm}, {"name": "original1", "shape": shape}],
                                      "children": [{"name": "0", "module": {"class": "_WeightNorm"}}]}}]}}]
    made["bases"] = [f"Conv{dims}d", "_ConvNd", "Module"]
    return made


def norm(cls, affine="affine"):
    return {
        "class": cls, "arguments": ["num_features", "affine=" + ("True" if "Batch" in cls else "False"), "track_running_stats=" + ("True" if "Batch" in cls else "False")],
        "tensors": [
            {"name": "weight", "shape": ["num_features"], "if": "affine"}, {"name": "bias", "shape": ["num_features"], "if": "affine"},
            {"name": "running_mean", "shape": ["num_features"], "buffer": True, "if": "track_running_stats"},
            {"name": "running_var", "shape": ["num_features"], "buffer": True, "if": "track_running_stats"},
            {"name": "num_batches_tracked", "shape": [], "dtype": "int64", "buffer": True, "if": "track_running_stats"},
        ],
    }


def recurrent(cls, gates):
    suffixes = [("", "True"), ("_reverse", "bidirectional")]
    tensors = []
    for suffix, condition in suffixes:
        for name, shape, extra in (
            (f"weight_ih_l{{k}}{suffix}", [f"{gates} * hidden_size", "input_size if k == 0 else (proj_size if proj_size > 0 else hidden_size) * (2 if bidirectional else 1)"], None),
            (f"weight_hh_l{{k}}{suffix}", [f"{gates} * hidden_size", "proj_size if proj_size > 0 else hidden_size"], None),
            (f"bias_ih_l{{k}}{suffix}", [f"{gates} * hidden_size"], "bias"), (f"bias_hh_l{{k}}{suffix}", [f"{gates} * hidden_size"], "bias"),
            (f"weight_hr_l{{k}}{suffix}", ["proj_size", "hidden_size"], "proj_size > 0"),
        ):
            one = {"name": name, "shape": shape}
            conditions = [c for c in (condition if condition != "True" else None, extra) if c]
            if conditions:
                one["if"] = " and ".join(conditions)
            tensors.append(one)
    return {
        "class": cls, "arguments": ["input_size", "hidden_size", "num_layers=1", "bias=True", "bidirectional=False", "proj_size=0"],
        "tensors": [{"repeat": "num_layers", "index": "k", "tensors": tensors}],
    }


def layers():
    made = {
        "Linear": {
            "class": "Linear", "arguments": ["in_features", "out_features", "bias=True"],
            "attributes": {"in_features": "in_features", "out_features": "out_features", "bias": "True if bias else False"},
            "tensors": [{"name": "weight", "shape": ["out_features", "in_features"]}, {"name": "bias", "shape": ["out_features"], "if": "bias"}],
        },
        "Embedding": {"class": "Embedding", "arguments": ["num_embeddings", "embedding_dim"], "tensors": [{"name": "weight", "shape": ["num_embeddings", "embedding_dim"]}]},
        "GroupNorm": {
            "class": "GroupNorm", "arguments": ["num_groups", "num_channels", "affine=True"],
            "tensors": [{"name": "weight", "shape": ["num_channels"], "if": "affine"}, {"name": "bias", "shape": ["num_channels"], "if": "affine"}],
        },
        "Bilinear": {
            "class": "Bilinear", "arguments": ["in1_features", "in2_features", "out_features", "bias=True"],
            "tensors": [{"name": "weight", "shape": ["out_features", "in1_features", "in2_features"]}, {"name": "bias", "shape": ["out_features"], "if": "bias"}],
        },
        "PReLU": {"class": "PReLU", "arguments": ["num_parameters=1"], "tensors": [{"name": "weight", "shape": ["num_parameters"]}]},
        "MultiheadAttention": {
            "class": "MultiheadAttention", "arguments": ["embed_dim", "num_heads", "bias=True", "add_bias_kv=False", "kdim=None", "vdim=None"],
            "tensors": [
                {"name": "q_proj_weight", "shape": ["embed_dim", "embed_dim"], "if": "kdim is not None and kdim != embed_dim"},
                {"name": "k_proj_weight", "shape": ["embed_dim", "kdim"], "if": "kdim is not None and kdim != embed_dim"},
                {"name": "v_proj_weight", "shape": ["embed_dim", "vdim"], "if": "kdim is not None and kdim != embed_dim"},
                {"name": "in_proj_weight", "shape": ["3 * embed_dim", "embed_dim"], "if": "kdim is None or kdim == embed_dim"},
                {"name": "in_proj_bias", "shape": ["3 * embed_dim"], "if": "bias"},
                {"name": "bias_k", "shape": [1, 1, "embed_dim"], "if": "add_bias_kv"}, {"name": "bias_v", "shape": [1, 1, "embed_dim"], "if": "add_bias_kv"},
            ],
            "children": [{"name": "out_proj", "module": {
                "class": "NonDynamicallyQuantizableLinear", "bases": ["Linear", "Module"], "attributes": {"in_features": "embed_dim", "out_features": "embed_dim", "bias": "bias"},
                "tensors": [{"name": "weight", "shape": ["embed_dim", "embed_dim"]}, {"name": "bias", "shape": ["embed_dim"], "if": "bias"}]}}],
        },
        "LSTM": recurrent("LSTM", 4), "GRU": recurrent("GRU", 3),
    }
    shape = "[normalized_shape[0]] if is_list(normalized_shape) else [normalized_shape]"
    for cls, biased in (("LayerNorm", True), ("RMSNorm", False)):
        one = {"class": cls, "arguments": ["normalized_shape", "elementwise_affine=True"] + (["bias=True"] if biased else [])}
        extent = "normalized_shape[0] if is_list(normalized_shape) else normalized_shape"
        one["tensors"] = [{"name": "weight", "shape": [extent], "if": "elementwise_affine"}]
        if biased:
            one["tensors"].append({"name": "bias", "shape": [extent], "if": "elementwise_affine and bias"})
        made[cls] = one
    for dims in (1, 2, 3):
        made[f"Conv{dims}d"] = conv(dims, False)
        made[f"ConvTranspose{dims}d"] = conv(dims, True)
        made[f"ParametrizedConv{dims}d"] = parametrized(dims)
        made[f"BatchNorm{dims}d"] = norm(f"BatchNorm{dims}d")
    for dims in (1, 2):
        made[f"InstanceNorm{dims}d"] = norm(f"InstanceNorm{dims}d")
    for name, one in made.items():
        cls = getattr(nn, name, None)
        bases = [c.__name__ for c in cls.__mro__[1:-1]] if cls is not None else one.get("bases")
        if bases and bases != ["Module"]:
            made[name] = {"class": one["class"], "bases": bases, **{k: v for k, v in one.items() if k not in ("class", "bases")}}
    return made


def activations():
    """({text: definition name}, {name: definition}) of the activations that a config can name; those with parameters are left out."""
    table, definitions = {}, {}
    for text, value in sorted(ACT2CLS.items()):
        cls = value[0] if isinstance(value, tuple) else value
        if cls.__name__ in ("XIELUActivation", "PReLU"):
            continue
        table[text] = cls.__name__
        definitions[cls.__name__] = {"class": cls.__name__}
        bases = [c.__name__ for c in cls.__mro__[1:-1]]
        if bases != ["Module"]:
            definitions[cls.__name__]["bases"] = bases
    return table, definitions


def quiet(names):
    """Layers without tensors that families name."""
    made = {}
    for name in sorted(names):
        cls = getattr(nn, name, None)
        if inspect.isclass(cls):
            made[name] = {"class": name}
            bases = [c.__name__ for c in cls.__mro__[1:-1]]
            if bases != ["Module"]:
                made[name]["bases"] = bases
    return made
