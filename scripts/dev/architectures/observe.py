"""Turns what a build left behind into observations: per constructor call its environment and what it made, in its own terms."""
import re

import torch
from torch import nn

import trace
from trace import CONTAINERS, expression_of, plain

NAME = re.compile(r"\b(C\d+_\w+|A\d+_\w+)\b")


class Env:
    """The names an expression may use: arguments and loop indices first, then the fields of the config."""

    def __init__(self, config, args, loops=()):
        self.config, self.args, self.loops = config, args, dict(loops)
        self.cache = {}

    def __getitem__(self, name):
        if name in self.loops:
            return self.loops[name]
        if name in self.cache:
            return self.cache[name]
        if name == "config" and "config" not in self.args:
            value = self.config
        elif name in self.args and self.args[name] != "<config>":
            value = self.args[name]
        elif self.config is not None and not name.startswith("_"):
            try:
                value = getattr(self.config, name)
            except AttributeError:
                raise KeyError(name) from None
            if not trace.is_config(value):
                value = plain(value) if not callable(value) else "<callable>"
        else:
            raise KeyError(name)
        self.cache[name] = value
        return value

    def with_loop(self, name, value):
        made = Env(self.config, self.args, {**self.loops, name: value})
        made.cache = self.cache
        return made


class Observation:
    pass


def class_key(cls):
    return f"{cls.__module__}.{cls.__qualname__}"


CLASSES = {}


def _paths(frame):
    """Config id -> path of that config in the frame's terms."""
    found = {}

    def walk(registered, path):
        if registered.cid in found:
            return
        found[registered.cid] = path
        for field, value in registered.config.__dict__.items():
            if trace.is_config(value) and not field.startswith("_"):
                known = trace.session.configs.get(id(value))
                if known is not None:
                    walk(known, f"{path}.{field}" if path else field)

    if frame.own_config is not None:
        walk(frame.own_config, "")
    for name, registered in frame.configs:
        walk(registered, name)
    return found


def translator(frame):
    paths = _paths(frame)
    by_cid = trace.session.by_cid
    shadow = set(frame.args) - {"config"}
    own = f"A{frame.id}_"

    def field_of(cid, field, depth=0):
        if cid in paths:
            path = paths[cid]
            if path:
                return f"{path}.{field}"
            return f"config.{field}" if field in shadow else field
        registered = by_cid.get(cid)
        if registered is None or registered.base is None or depth > 5:
            return None
        if field in registered.sets:
            return translate(registered.sets[field][1], depth + 1)
        return field_of(registered.base.cid, field, depth + 1)

    def translate(e, depth=0):
        if e is None:
            return None
        failed = False

        def leaf(match):
            nonlocal failed
            token = match.group(1)
            if token.startswith(own):
                return token[len(own):]
            if token[0] == "C":
                cid, field = re.match(r"C(\d+)_(\w+)$", token).groups()
                named = field_of(int(cid), field, depth)
                if named is not None:
                    return named
            failed = True
            return "_"

        made = NAME.sub(leaf, e)
        return None if failed else made

    def config_path(registered):
        """(path, sets) that make this config out of one the frame knows."""
        sets = {}
        while registered is not None:
            if registered.cid in paths:
                return paths[registered.cid], sets
            for field, (value, e) in registered.sets.items():
                sets.setdefault(field, (value, translate(e)))
            registered = registered.base
        return None, None

    return translate, config_path


def _dtype(tensor, default):
    return None if tensor.dtype == default else str(tensor.dtype).removeprefix("torch.")


def tensors_of(module, translate):
    found = []
    default = torch.get_default_dtype()
    for name, p in module._parameters.items():
        if p is not None:
            found.append(_tensor(name, p, False, True, default, translate))
    for name, b in module._buffers.items():
        if b is not None:
            found.append(_tensor(name, b, True, name not in module._non_persistent_buffers_set, default, translate))
    return found


def _tensor(name, tensor, is_buffer, persistent, default, translate):
    weft = getattr(tensor, "_weft", None)
    if weft is not None and len(weft) != tensor.dim():
        weft = None
    return {
        "name": name, "shape": list(tensor.shape), "exprs": [translate(e) for e in weft] if weft else [None] * tensor.dim(),
        "dtype": _dtype(tensor, default), "persistent": persistent, "buffer": is_buffer, "id": id(tensor),
    }


ATTRIBUTES = {
    nn.Linear: ["in_features", "out_features", "bias"],
    nn.modules.conv._ConvNd: ["kernel_size", "stride", "padding", "dilation", "groups", "in_channels", "out_channels", "bias"],
}


def attributes_of(module, translate):
    for kind, names in ATTRIBUTES.items():
        if isinstance(module, kind):
            found = {}
            for name in names:
                value = getattr(module, name, None)
                if name == "bias":
                    found[name] = (value is not None, None)
                elif isinstance(value, str):
                    found[name] = (value, None)
                else:
                    found[name] = (plain(value), translate(expression_of(value)))
            return found
    return {}


def items_of(module, frame, translate, config_path):
    found = {}
    for name, child in module._modules.items():
        if child is not None:
            found[name] = node_of(child, frame, translate, config_path)
    return found


def node_of(child, frame, translate, config_path):
    own = child.__dict__.get("_weft_frame")
    CLASSES.setdefault(class_key(type(child)), type(child))
    if type(child) in CONTAINERS:
        return {"kind": "box", "cls": type(child).__name__, "tensors": tensors_of(child, translate), "items": items_of(child, frame, translate, config_path), "id": id(child)}
    if own is None:
        return {"kind": "inline", "cls": type(child).__name__, "key": class_key(type(child)), "tensors": tensors_of(child, translate),
                "items": items_of(child, frame, translate, config_path), "id": id(child)}
    node = {"kind": "module", "key": class_key(own.cls), "cls": type(child).__name__, "id": id(child), "auto": None, "config": None, "sets": {}, "args": {}}
    if type(child) is not own.cls and hasattr(child, "parametrizations"):
        node["kind"] = "parametrized"
        node["dim"] = getattr(child.parametrizations.weight[0], "dim", 0) if hasattr(child.parametrizations, "weight") else None
    node["foreign"] = own.parent is not frame
    for name, value in own.args.items():
        if value == "<config>" or trace.is_config(value):
            continue
        e = own.arg_expressions.get(name)
        node["args"][name] = (value, translate(e) if e is not None and not node["foreign"] else None)
    node["defaulted"] = {name for name in own.args if own.arg_expressions.get(name) is None}
    if own.own_config is not None:
        path, sets = config_path(own.own_config)
        node["config"], node["sets"] = path, sets or {}
        node["config_class"] = type(own.own_config.config).__name__
        node["model_type"] = getattr(own.own_config.config, "model_type", "")
        for name, registered in own.configs:
            path, sets = config_path(registered)
            node["args"][name] = ("<config>", path if path else "config" if path == "" else None)
    if own.auto is not None:
        node["auto"] = own.auto[0]
    return node


def observe(frame):
    """Called when a constructor returns."""
    if frame.cls in trace.LEAVES:
        return None
    module = frame.module
    CLASSES.setdefault(class_key(frame.cls), frame.cls)
    translate, config_path = translator(frame)
    made = Observation()
    made.key = class_key(frame.cls)
    made.env = Env(frame.config_snapshot if frame.own_config is not None else None, frame.args)
    made.tensors = tensors_of(module, translate)
    made.items = items_of(module, frame, translate, config_path)
    made.attributes = attributes_of(module, translate)
    made.accessed = set()
    paths = _paths(frame)
    for cid, path in paths.items():
        registered = trace.session.by_cid[cid]
        for field in frame.accessed.get(id(registered.config), ()):
            made.accessed.add(f"{path}.{field}" if path else f"config.{field}" if field in frame.args and field != "config" else field)
    made.conditions = {c for c in map(translate, frame.conditions) if c}
    pool = {}
    for value, e in frame.pool:
        pool.setdefault((value, e), None)
    made.pool = []
    for value, e in list(pool)[:400]:
        e = translate(e)
        if e is not None:
            made.pool.append((value, e))
    made.facts = {}
    if frame.post_init is not None:
        own = frame.post_init
        made.facts = {
            "ties": own["_tied_weights_keys"] or {},
            "ignore_on_load_missing": sorted(own["_keys_to_ignore_on_load_missing"] or []),
            "ignore_on_load_unexpected": sorted(own["_keys_to_ignore_on_load_unexpected"] or []),
            "ignore_on_save": sorted(own["_keys_to_ignore_on_save"] or []),
            "keep_in_fp32": sorted(own["_keep_in_fp32_modules"] or []),
            "keep_in_fp32_strict": sorted(own["_keep_in_fp32_modules_strict"] or []),
        }
    made.base_prefix = getattr(module, "base_model_prefix", None)
    made.config_class = type(frame.own_config.config).__name__ if frame.own_config is not None else None
    made.model_type = getattr(frame.own_config.config, "model_type", None) if frame.own_config is not None else None
    return made
