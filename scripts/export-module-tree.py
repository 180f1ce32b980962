#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: export-module-tree.py [--class NAME] [--trust-remote-code] DIR > tree.json

Writes the module tree of the model that DIR/config.json describes, for `weft --module-tree`: for models that Weft does not
know. Needs the Python libraries that have the model (transformers, with torch); builds the model without memory for its
weights, reads none, and writes facts only: class names, attributes, names, shapes and dtypes.
"""

import argparse
import inspect
import json
import sys

ATTRIBUTES = ("in_features", "out_features", "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups")


def dtype_name(dtype):
    return str(dtype).removeprefix("torch.")


def plain(value):
    return list(value) if isinstance(value, tuple) else value


def ancestors(module):
    return [base.__name__ for base in inspect.getmro(type(module))[1:] if base is not object]


def describe_module(fqn, module):
    entry = {"fqn": fqn, "class": type(module).__name__, "bases": ancestors(module)}
    attributes = {name: plain(getattr(module, name)) for name in ATTRIBUTES
                  if isinstance(getattr(module, name, None), (int, str, tuple, list))}
    if attributes:
        attributes["bias"] = getattr(module, "bias", None) is not None
        entry["attributes"] = attributes
    return entry


def list_modules(model):
    """Every path; one that leads to a module seen before names the first path."""
    seen, below_alias = {}, []
    for fqn, module in model.named_modules(remove_duplicate=False):
        if any(fqn.startswith(alias + ".") for alias in below_alias):
            continue
        if id(module) in seen:
            below_alias.append(fqn)
            yield {"fqn": fqn, "alias_of": seen[id(module)]}
        else:
            seen[id(module)] = fqn
            yield describe_module(fqn, module)


def list_tensors(model):
    state = model.state_dict()
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    for name, tensor in state.items():
        yield {"name": name, "shape": list(tensor.shape), "dtype": dtype_name(tensor.dtype), "persistent": True, "is_buffer": name not in parameters}
    for name, buffer in sorted(model.named_buffers(remove_duplicate=False)):
        if name not in state:
            yield {"name": name, "shape": list(buffer.shape), "dtype": dtype_name(buffer.dtype), "persistent": False, "is_buffer": True}


def list_sub_models(model, base):
    for fqn, module in model.named_modules():
        if isinstance(module, base) and getattr(module.config, "model_type", ""):
            yield {"fqn": fqn, "class": type(module).__name__, "model_type": module.config.model_type, "base_model_prefix": module.base_model_prefix or ""}


def dtype_plan(model, dtype):
    patterns = set(getattr(model, "_keep_in_fp32_modules", None) or []) if dtype == "float16" else set()
    if dtype in ("float16", "bfloat16"):
        patterns |= set(getattr(model, "_keep_in_fp32_modules_strict", None) or [])
    return {pattern: "float32" for pattern in sorted(patterns)}


def export(model, dtype, base):
    tree = {"class": type(model).__name__, "model_type": model.config.model_type, "base_model_prefix": model.base_model_prefix or "", "dtype": dtype,
            "dtype_plan": dtype_plan(model, dtype), "tied": dict(sorted((getattr(model, "all_tied_weights_keys", None) or {}).items()))}
    for member, attribute in (("ignore_on_load_missing", "_keys_to_ignore_on_load_missing"),
                              ("ignore_on_load_unexpected", "_keys_to_ignore_on_load_unexpected"), ("ignore_on_save", "_keys_to_ignore_on_save")):
        tree[member] = sorted(getattr(model, attribute, None) or [])
    for member, attribute in (("parallel_plan", "_tp_plan"), ("expert_plan", "_ep_plan")):
        plan = {name: style for name, style in (getattr(model, attribute, None) or {}).items() if isinstance(style, str)}
        if plan:
            tree[member] = plan
    tree["sub_models"] = list(list_sub_models(model, base))
    tree["modules"] = list(list_modules(model))
    tree["tensors"] = list(list_tensors(model))
    return tree


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[1])
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--class", dest="class_name", metavar="NAME", help="a class of the library, in place of the first of the config's architectures")
    parser.add_argument("--trust-remote-code", action="store_true", help="run model code that comes with the checkpoint")
    options = parser.parse_args()

    try:
        import torch
        import transformers
    except ImportError as problem:
        sys.exit(f"export-module-tree.py: {problem}; install the libraries that have the model")
    config = transformers.AutoConfig.from_pretrained(options.folder, trust_remote_code=options.trust_remote_code)
    name = options.class_name or (config.architectures or [None])[0]
    made_by = getattr(transformers, name, None) if name else None
    dtype = getattr(config, "dtype", None) or torch.float32
    with torch.device("meta"):
        if made_by is not None:
            model = made_by._from_config(config, dtype=dtype)
        else:
            model = transformers.AutoModel.from_config(config, dtype=dtype, trust_remote_code=options.trust_remote_code)
    json.dump(export(model, dtype_name(dtype), transformers.PreTrainedModel), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
