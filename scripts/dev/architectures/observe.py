# SPDX-License-Identifier: Apache-2.0
"""Turns what a build left behind into observations: per constructor call its environment and what it made, in its own terms."""
import re

import torch
from torch import nn

import trace
from hand import RULES
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
        if name == "config" and self.args.get("config", "<config>") == "<config>":
            value = self.config
        elif name in self.args and self.args[name] != "<config>":
            value = self.args[name]
        elif self.config is not None and not name.startswith("_"):
            try:
                value = getattr(self.config, name)
            except Exception:
                value = self.by_rule(name)
            if not trace.is_config(value):
                value = plain(value) if not callable(value) else "<callable>"
        else:
            raise KeyError(name)
        self.cache[name] = value
        return value

    def by_rule(self, name):
        """A field that the class does not have, but files give: by the rule that was written for it."""
        rule = RULES.get(type(self.config).__name__, {}).get(name)
        if not isinstance(rule, dict) or "expression" not in rule:
            raise KeyError(name)
        return eval(rule["expression"], {}, self)

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
            if token[0] == "A" and depth < 8:  # an argument of a constructor further down
                fid, name = re.match(r"A(\d+)_(\w+)$", token).groups()
                other = trace.session.frames_by_id.get(int(fid))
                if other is not None:
                    e = other.arg_expressions.get(name)
                    e = repr(other.args.get(name)) if e is None else translate(e, depth + 1)
                    if e is not None:
                        return f"({e})"
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


def items_of(module, frame, translate, config_path, visited=None):
    """Children by name; one that is reached a second time is listed where it was reached first."""
    found = {}
    visited = set() if visited is None else visited
    for name, child in module._modules.items():
        if child is None or id(child) in visited:
            continue
        if type(child) in CONTAINERS or "_weft_frame" not in child.__dict__:
            visited.add(id(child))
            found[name] = node_of(child, frame, translate, config_path, visited)
        else:
            visited |= {id(m) for m in child.modules()}
            found[name] = node_of(child, frame, translate, config_path, visited)
    return found


def region(module):
    """{path: module} of what a constructor is answerable for: down to the modules that have a constructor call of their own."""
    found = {}

    def walk(m, path):
        for name, child in m._modules.items():
            if child is not None:
                full = f"{path}.{name}" if path else name
                found[full] = child
                if "_weft_frame" not in child.__dict__:
                    walk(child, full)

    walk(module, "")
    return found


def changes_below(module, frame, translate, config_path):
    """What this constructor did to modules that others had made: {path: node or None}, and replacements by class."""
    changed, replaced = {}, {}
    for path, m in module.named_modules():
        other = m.__dict__.get("_weft_frame")
        if not path or other is None or other is frame or other.region is None:
            continue
        now = region(m)
        before = other.region
        if now.keys() == before.keys() and all(now[k] is before[k] for k in now):
            continue
        for k in before:
            if k not in now:
                if not any(k.startswith(x.removeprefix(path + ".") + ".") for x in changed):
                    changed[f"{path}.{k}"] = None
            elif now[k] is not before[k] and not any(k.startswith(x[len(path) + 1:] + ".") for x in changed if x.startswith(path + ".")):
                old = before[k].__dict__.get("_weft_frame")
                new = now[k].__dict__.get("_weft_frame")
                if old is not None and new is not None and old.cls in trace.LEAVES and new.cls not in trace.LEAVES:
                    mark = (path.split(".")[0], old.cls.__name__, class_key(new.cls))
                    replaced.setdefault(mark, []).append((old.args, new.args))
                    CLASSES.setdefault(class_key(new.cls), new.cls)
                else:
                    changed[f"{path}.{k}"] = node_of(now[k], frame, translate, config_path)
        for k in now:
            if k not in before and not any(k.startswith(x[len(path) + 1:] + ".") for x in changed if x.startswith(path + ".")):
                changed[f"{path}.{k}"] = node_of(now[k], frame, translate, config_path)
        other.region = now
    return changed, replaced


def repeats_below(module):
    """{path: None} of modules that stand at an earlier place too, where no constructor further down could know: a runtime lists them once."""
    seen, found = set(), {}

    def walk(m, path, owners):
        for name, child in m._modules.items():
            full = f"{path}.{name}" if path else name
            if child is None:
                continue
            if id(child) in seen:
                if owners and not any(id(child) in owner for owner in owners):
                    found[full] = None
                continue
            seen.add(id(child))
            for owner in owners:
                owner.add(id(child))
            walk(child, full, [*owners, set()] if "_weft_frame" in child.__dict__ else owners)

    walk(module, "", [])
    return found


def float_types(module):
    return {p.dtype for p in module.parameters() if p.dtype.is_floating_point}


def starred(module, changed):
    """Takes changes inside of lists out of changed: {path with a star: (list of (index, node or None) for the whole list)}."""
    groups = {}
    for path in [p for p in changed if re.search(r"(^|\.)\d+(\.|$)", p) and "." in p]:
        parts = path.split(".")
        at = next(k for k, x in enumerate(parts) if x.isdigit())
        if at == 0:
            continue
        pattern = ".".join([*parts[:at], "*", *parts[at + 1:]])
        groups.setdefault(pattern, {})[int(parts[at])] = changed.pop(path) or {"kind": "removed", "cls": "removed"}
    made = {}
    for pattern, found in groups.items():
        box = module.get_submodule(pattern.split(".*")[0])
        made[pattern] = [(k, found.get(k)) for k in range(len(box._modules))]
    return made


def node_of(child, frame, translate, config_path, visited=None):
    own = child.__dict__.get("_weft_frame")
    CLASSES.setdefault(class_key(type(child)), type(child))
    if type(child) in CONTAINERS:
        return {"kind": "box", "cls": type(child).__name__, "tensors": tensors_of(child, translate), "items": items_of(child, frame, translate, config_path, visited), "id": id(child)}
    if own is None:
        return {"kind": "inline", "cls": type(child).__name__, "key": class_key(type(child)), "tensors": tensors_of(child, translate),
                "items": items_of(child, frame, translate, config_path, visited), "id": id(child)}
    node = {"kind": "module", "key": class_key(own.cls), "cls": type(child).__name__, "id": id(child), "auto": None, "config": None, "sets": {}, "args": {}}
    if type(child) is not own.cls and hasattr(child, "parametrizations"):
        node["kind"] = "parametrized"
        node["dim"] = getattr(child.parametrizations.weight[0], "dim", 0) if hasattr(child.parametrizations, "weight") else None
    node["foreign"] = own.parent is not frame
    first = next((p.dtype for p in child.parameters() if p.dtype.is_floating_point), None)
    now = float_types(child) if first not in (None, torch.get_default_dtype()) else ()
    if len(now) == 1 and now != own.float_types and now != {torch.get_default_dtype()}:
        node["dtype"] = str(next(iter(now))).removeprefix("torch.")  # converted after it was made
    for name, value in own.args.items():
        if value == "<config>" or trace.is_config(value):
            continue
        e = own.arg_expressions.get(name)
        node["args"][name] = (value, translate(e) if e is not None and not node["foreign"] else None)
    node["defaulted"] = {name for name in own.args if own.arg_expressions.get(name) is None}
    if type(child) is nn.Linear and (child.bias is not None) != bool(plain(own.args.get("bias", True))):  # given, or taken away, after it was made
        node["args"]["bias"] = (child.bias is not None, None)
        node["defaulted"].discard("bias")
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
    frame.float_types = float_types(module)
    frame.region = region(module)
    CLASSES.setdefault(class_key(frame.cls), frame.cls)
    translate, config_path = translator(frame)
    made = Observation()
    made.key = class_key(frame.cls)
    made.env = Env(frame.config_snapshot if frame.own_config is not None else None, frame.args)
    made.tensors = tensors_of(module, translate)
    made.items = items_of(module, frame, translate, config_path)
    changed, made.replaced = changes_below(module, frame, translate, config_path)
    changed.update(repeats_below(module))
    made.starred = starred(module, changed)
    for path, node in changed.items():
        made.items[path] = node if node is not None else {"kind": "removed", "cls": "removed"}
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
