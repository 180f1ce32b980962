# SPDX-License-Identifier: Apache-2.0
"""Models of the timm package that a wrapper class of the reference holds, by the name of their architecture. An architecture that is not here makes the model an unknown one."""

VITS = [["test_vit", 16, 64, 6, 160, 3]] + [
    [f"vit_{size}_patch{patch}_{image}", patch, width, depth, image, 4]
    for size, width, depth, patches in (("tiny", 192, 12, (16,)), ("small", 384, 12, (8, 16, 32)), ("base", 768, 12, (8, 16, 32)), ("large", 1024, 24, (16, 32)))
    for patch in patches for image in (224, 384) if patch > 8 or image == 224
]
RESNETS = [["resnet18", 2, 2, 2, 2], ["resnet34", 3, 4, 6, 3], ["resnet50", 3, 4, 6, 3], ["resnet101", 3, 4, 23, 3], ["resnet152", 3, 8, 36, 3]]


def argument(name, fallback):
    return {"always": f"raw.model_args[{name!r}] if raw.model_args is not None and {name!r} in raw.model_args else {fallback}"}


RULES = {
    "in_chans": argument("in_chans", 3),
    "resnet": {"always": f"[r for r in {RESNETS!r} if r[0] == architecture]"},
    "vit": {"always": f"[v for v in {VITS!r} if v[0] == architecture]"},
    "mobilenet": {"always": "architecture == 'mobilenetv5_300m_enc'"},
    "vit_patch": argument("patch_size", "vit[0][1]"), "vit_width": argument("embed_dim", "vit[0][2]"), "vit_depth": argument("depth", "vit[0][3]"),
    "vit_image": argument("img_size", "vit[0][4]"), "vit_ratio": argument("mlp_ratio", "vit[0][5]"),
}


def child(name, module, **arguments):
    return {"name": name, "module": module, **({"with": arguments} if arguments else {})}


def holds(name, cls, *children, **more):
    return {"name": name, "module": {"class": cls, "children": list(children), **more}}


def linear(name, inside, outside):
    return child(name, "Linear", in_features=inside, out_features=outside)


def convolution(name, inside, outside, kernel, stride=1, padding=0, groups=1, bias="False", same=False):
    """A convolution; same: its input is padded while it runs."""
    extents = {"in_channels": inside, "out_channels": outside, "kernel_size": kernel}
    if same:
        return {"name": name, "module": {
            "class": "Conv2dSame", "bases": ["Conv2d", "_ConvNd", "Module"],
            "attributes": {"in_channels": inside, "out_channels": outside, "kernel_size": f"[{kernel}, {kernel}]", "stride": f"[{stride}, {stride}]", "padding": "[0, 0]", "dilation": "[1, 1]", "groups": groups, "bias": bias},
            "tensors": [{"name": "weight", "shape": [outside, f"({inside}) // ({groups})", kernel, kernel]}, *([{"name": "bias", "shape": [outside]}] if bias == "True" else [])]}}
    return child(name, "Conv2d", **extents, stride=stride, padding=padding, groups=groups, bias=bias)


# --- vision transformers ---


def layer_norm(name, width):
    """A class of its own, of the same name as its base."""
    return {"name": name, "module": {"class": "LayerNorm", "bases": ["LayerNorm", "Module"], "tensors": [{"name": n, "shape": [width]} for n in ("weight", "bias")]}}


def transformer(classes):
    hidden = "int(vit_width * vit_ratio)"
    return {
        "class": "VisionTransformer",
        "tensors": [{"name": "cls_token", "shape": [1, 1, "vit_width"]}, {"name": "pos_embed", "shape": [1, "(vit_image // vit_patch) ** 2 + 1", "vit_width"]}],
        "children": [
            holds("patch_embed", "PatchEmbed", convolution("proj", "in_chans", "vit_width", "vit_patch", "vit_patch", bias="True"), child("norm", "Identity")),
            child("pos_drop", "Dropout"), child("patch_drop", "Identity"), child("norm_pre", "Identity"),
            {"name": "blocks", "repeat": "vit_depth", "container": "Sequential", "module": {"class": "Block", "children": [
                layer_norm("norm1", "vit_width"),
                holds("attn", "Attention", linear("qkv", "vit_width", "3 * vit_width"), child("q_norm", "Identity"), child("k_norm", "Identity"), child("attn_drop", "Dropout"), child("norm", "Identity"),
                      linear("proj", "vit_width", "vit_width"), child("proj_drop", "Dropout")),
                child("ls1", "Identity"), child("drop_path1", "Identity"),
                layer_norm("norm2", "vit_width"),
                holds("mlp", "Mlp", linear("fc1", "vit_width", hidden), child("act", "GELU"), child("drop1", "Dropout"), child("norm", "Identity"), linear("fc2", hidden, "vit_width"), child("drop2", "Dropout")),
                child("ls2", "Identity"), child("drop_path2", "Identity"),
            ]}},
            layer_norm("norm", "vit_width"), child("fc_norm", "Identity"), child("head_drop", "Dropout"),
            {**linear("head", "vit_width", classes), "if": f"{classes} > 0"}, {**child("head", "Identity"), "if": f"{classes} <= 0"},
        ],
    }


# --- residual networks ---


def resnet(classes):
    deep = "architecture not in ['resnet18', 'resnet34']"
    norm = lambda name, width: child(name, "BatchNorm2d", num_features=width)
    stride = lambda k: f"2 if {k} > 0 and i == 0 else 1"

    def stage(k):
        width = 64 * 2**k
        before = f"({width} if i > 0 else {max(width // 2, 64)})"
        wide_before = f"({4 * width} if i > 0 else {64 if k == 0 else 2 * width})"
        down = lambda inside, outside: {**holds("downsample", "Sequential", convolution("0", inside, outside, 1, 1 if k == 0 else 2), norm("1", outside))}
        basic = {"class": "BasicBlock", "children": [
            convolution("conv1", before, width, 3, stride(k), 1), norm("bn1", width), child("drop_block", "Identity"), child("act1", "ReLU"), child("aa", "Identity"),
            convolution("conv2", width, width, 3, 1, 1), norm("bn2", width), child("act2", "ReLU"),
            *([{**down(width // 2, width), "if": "i == 0"}] if k > 0 else []),
        ]}
        bottleneck = {"class": "Bottleneck", "children": [
            convolution("conv1", wide_before, width, 1), norm("bn1", width), child("act1", "ReLU"),
            convolution("conv2", width, width, 3, stride(k), 1), norm("bn2", width), child("drop_block", "Identity"), child("act2", "ReLU"), child("aa", "Identity"),
            convolution("conv3", width, 4 * width, 1), norm("bn3", 4 * width), child("act3", "ReLU"),
            {**down(64 if k == 0 else 2 * width, 4 * width), "if": "i == 0"},
        ]}
        each = {"name": f"layer{k + 1}", "repeat": f"resnet[0][{k + 1}]", "index": "i", "container": "Sequential"}
        return [{**each, "module": basic, "when": f"not ({deep})"}, {**each, "module": bottleneck, "when": deep}]

    last = f"(2048 if {deep} else 512)"
    return {
        "class": "ResNet",
        "children": [
            convolution("conv1", "in_chans", 64, 7, 2, 3), norm("bn1", 64), child("act1", "ReLU"), child("maxpool", "MaxPool2d"),
            *(entry for k in range(4) for entry in stage(k)),
            holds("global_pool", "SelectAdaptivePool2d", child("pool", "AdaptiveAvgPool2d"), child("flatten", "Flatten")),
            {**linear("fc", last, classes), "if": f"{classes} > 0"}, {**child("fc", "Identity"), "if": f"{classes} <= 0"},
        ],
    }


# --- the encoder of MobileNet V5 ---


def scale(name, width):
    return {"name": name, "module": {"class": "LayerScale2d", "tensors": [{"name": "gamma", "shape": [width]}]}}


def plain_norm(name, width):
    return {"name": name, "module": {"class": "RmsNorm2d", "tensors": [{"name": "weight", "shape": [width]}]}}


def norm_and_activation(name, width, active):
    return {"name": name, "module": {"class": "RmsNormAct2d", "bases": ["RmsNorm2d", "Module"], "tensors": [{"name": "weight", "shape": [width]}],
                                     "children": [child("drop", "Identity"), child("act", "GELU" if active else "Identity")]}}


def convolved(name, inside, outside, kernel, active, stride=1, groups=1, bias="False", same=False):
    return holds(name, "ConvNormAct", convolution("conv", inside, outside, kernel, stride, 0 if same else kernel // 2, groups, bias, same), norm_and_activation("bn", outside, active))


def inverted(inside, outside, inner, first=None, middle=None, scaled=True):
    """An inverted residual block; first and middle: kernels of its depthwise convolutions, the one in the middle with stride 2."""
    return {"class": "UniversalInvertedResidual", "children": [
        convolved("dw_start", inside, inside, first, False, groups=inside) if first else child("dw_start", "Identity"),
        convolved("pw_exp", inside, inner, 1, True),
        convolved("dw_mid", inner, inner, middle, True, 2, inner, same=True) if middle else child("dw_mid", "Identity"),
        child("se", "Identity"),
        convolved("pw_proj", inner, outside, 1, False),
        child("dw_end", "Identity"), scale("layer_scale", outside) if scaled else child("layer_scale", "Identity"), child("drop_path", "Identity"),
    ]}


def edge(inside, inner, stride):
    return {"class": "EdgeResidual", "children": [
        convolution("conv_exp", inside, inner, 3, stride, 0 if stride == 2 else 1, same=stride == 2), norm_and_activation("bn1", inner, True), child("aa", "Identity"), child("se", "Identity"),
        convolution("conv_pwl", inner, 128, 1), norm_and_activation("bn2", 128, False), child("drop_path", "Identity"),
    ]}


def attention(width, heads, head, reduced):
    part = lambda name: holds(name, "Sequential", *([convolution("down_conv", width, width, 3, 2, groups=width, same=True), plain_norm("norm", width)] if reduced else []), convolution("proj", width, head, 1))
    return {"class": "MobileAttention", "children": [
        norm_and_activation("norm", width, False),
        holds("attn", "MultiQueryAttention2d", holds("query", "Sequential", convolution("proj", width, heads * head, 1)), part("key"), part("value"), child("attn_drop", "Dropout"),
              holds("output", "Sequential", convolution("proj", heads * head, width, 1), child("drop", "Dropout"))),
        scale("layer_scale", width), child("drop_path", "Identity"),
    ]}


def mobilenet():
    alternating = lambda first, width, wide, heads, reduced, head, early: [
        *first,
        {"module": attention(width, heads, head, reduced), "if": f"i > {early} and (i - {early}) % 2 == 1"},
        {"module": inverted(width, width, wide), "if": f"i > {early} and (i - {early}) % 2 == 0"},
    ]
    stages = [
        (3, [{"module": edge(64, 256, 2), "if": "i == 0"}, {"module": edge(128, 512, 1), "if": "i > 0"}]),
        (5, [{"module": inverted(128, 256, 768, 3, 5), "if": "i == 0"}, {"module": inverted(256, 256, 1024, 5), "if": "i % 2 == 1"}, {"module": inverted(256, 256, 1024, 3), "if": "i > 0 and i % 2 == 0"}]),
        (37, alternating([{"module": inverted(256, 640, 1536, 5, 5), "if": "i == 0"}, {"module": inverted(640, 640, 2560, 5), "if": "0 < i < 8"}, {"module": inverted(640, 640, 640), "if": "i == 8"}],
                         640, 1280, 12, True, 64, 8)),
        (39, alternating([{"module": inverted(640, 1280, 3840, 5, 5), "if": "i == 0"}], 1280, 2560, 16, False, 96, 0)),
    ]
    listed = [{"name": str(k), "repeat": count, "index": "i", "container": "Sequential", **entry} for k, (count, entries) in enumerate(stages) for entry in entries]
    return {
        "class": "MobileNetV5Encoder",
        "children": [
            convolved("conv_stem", "in_chans", 64, 3, True, 2, bias="True", same=True),
            {"name": "blocks", "module": {"class": "Sequential", "children": listed}},
            holds("msfa", "MobileNetV5MultiScaleFusionAdapter", {"name": "ffn", "module": inverted(1920, 2048, 3840, scaled=False)}, plain_norm("norm", 2048)),
        ],
    }


def wrapper(cls, classes):
    """classes: how many the model tells apart, an expression; 0 for a model without a head, which an encoder is only."""
    encoders = [{"name": "timm_model", "module": mobilenet(), "if": "mobilenet"}] if classes == "0" else []
    return {
        "class": cls,
        "children": [
            *encoders,
            {"name": "timm_model", "module": transformer(classes), "if": "len(vit) > 0"},
            {"name": "timm_model", "module": resnet(classes), "if": "len(resnet) > 0"},
            {"name": "timm_model", "auto": "AutoArchitecture", "if": f"{'not mobilenet and ' if encoders else ''}len(vit) == 0 and len(resnet) == 0"},
        ],
    }
