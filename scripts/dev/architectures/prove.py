# SPDX-License-Identifier: Apache-2.0
"""Compares the data's trees with the reference's, on configs that the data was not derived from."""
import copy
import json
import random

import torch
from torch import nn
from transformers import PreTrainedModel

import evaluate
import observe
import trace
from trace import plain

FACTS = ("ties", "ignore_on_load_missing", "ignore_on_load_unexpected", "ignore_on_save", "keep_in_fp32", "keep_in_fp32_strict")


def reference_tree(module):
    """(modules, tensors) of a reference model, in its own order."""
    modules, persistent, others = [], [], []
    default = torch.get_default_dtype()
    for path, m in module.named_modules():
        modules.append((path, m))
        for name, p in m._parameters.items():
            if p is not None:
                persistent.append((f"{path}.{name}" if path else name, list(p.shape), p.dtype, True, False))
        for name, b in m._buffers.items():
            if b is not None:
                stays = name not in m._non_persistent_buffers_set
                (persistent if stays else others).append((f"{path}.{name}" if path else name, list(b.shape), b.dtype, stays, True))
    return modules, persistent + sorted(others, key=lambda t: t[0])


def differences(module, root, default=torch.bfloat16, limit=3):
    """Texts that say where the tree of the data is not the reference's."""
    found = []
    modules, tensors = reference_tree(module)
    mine_modules, mine_tensors = evaluate.flat(root)
    theirs = [(p, type(m).__name__) for p, m in modules]
    mine = [(p, n.cls) for p, n in mine_modules]
    if theirs != mine:
        a, b = dict(theirs), dict(mine)
        for p in a:
            if p not in b:
                found.append(f"module {p} ({a[p]}) is missing")
            elif a[p] != b[p]:
                found.append(f"module {p} is {a[p]}, not {b[p]}")
        found += [f"module {p} ({b[p]}) is not in the reference" for p in b if p not in a]
        if not found:
            k = next(k for k, (x, y) in enumerate(zip(theirs, mine)) if x != y)
            found.append(f"module order: {theirs[k][0]} before {mine[k][0]}")
        return found[:limit]
    for (p, m), (_, n) in zip(modules, mine_modules):
        bases = [c.__name__ for c in type(m).__mro__[1:-1]]
        if type(m).__name__.startswith("Parametriz"):
            continue
        if bases != n.bases:
            found.append(f"module {p}: bases {bases} not {n.bases}")
        attributes = {k: v for k, (v, _) in observe.attributes_of(m, lambda e: e).items()}
        if attributes != n.attributes:
            found.append(f"module {p}: attributes {attributes} not {n.attributes}")
        if isinstance(m, PreTrainedModel):
            if n.model is None:
                found.append(f"module {p} is a model")
            else:
                found += facts(p, m, n)
    dtypes = lambda d: None if d == default else str(d).removeprefix("torch.")
    theirs = [(n, s, dtypes(d), stays, b) for n, s, d, stays, b in tensors]
    mine = [(n, s, d, stays, b) for n, s, d, stays, b in mine_tensors]
    if theirs != mine:
        a, b = {t[0]: t for t in theirs}, {t[0]: t for t in mine}
        for n in a:
            if n not in b:
                found.append(f"tensor {n} {a[n][1]} is missing")
            elif a[n] != b[n]:
                found.append(f"tensor {n}: {a[n][1:]} not {b[n][1:]}")
        found += [f"tensor {n} is not in the reference" for n in b if n not in a]
        if not found:
            found.append("order of tensors")
    return found[:limit]


def facts(path, module, node):
    entry = node.file["classes"][node.model]
    found = []
    frame = module.__dict__.get("_weft_frame")
    if entry.get("base_model_prefix", "") != (module.base_model_prefix or ""):
        found.append(f"module {path}: base prefix {module.base_model_prefix!r} not {entry.get('base_model_prefix')!r}")
    model_type = node.config.model_type if node.config is not None else None
    if getattr(module.config, "model_type", None) != model_type:
        found.append(f"module {path}: model type {getattr(module.config, 'model_type', None)!r} not {model_type!r}")
    own = frame.exit_state.facts if frame is not None and frame.exit_state is not None else {}
    for name in FACTS:
        if name not in own:
            continue
        value = evaluate.fact(node, name)
        if value != own[name]:
            found.append(f"module {path}: {name} {own[name]} not {value}")
    tie = bool(getattr(module.config, "tie_word_embeddings", False))
    if own.get("ties"):
        try:
            mine = bool(node.config.tie_word_embeddings)
        except AttributeError:
            mine = False
        if mine != tie:
            found.append(f"module {path}: tie_word_embeddings is {tie}, not {mine}")
    return found


def prove_class(data, file, cls, config_class, key, sampler, bases, configs, strength=(0.15, 0.3, 0.5, 0.4, 0.25)):
    """(configs tried, differences [(text, config)])"""
    tried, wrong = 0, []

    def build(config):
        return trace.build(cls, config)

    for n in range(configs):
        sampler.base = dict(bases[n % len(bases)])
        result, changes = sampler.attempt(build, strength[n % len(strength)])
        if result is None:
            sampler.base = dict(bases[0])
            result, changes = sampler.attempt(build, 0.08, tries=12)
        if result is None:
            continue
        module, session = result
        raw = json.loads(json.dumps(plain(sampler.last)))
        raw = {k: v for k, v in raw.items()}
        raw.setdefault("model_type", config_class.model_type)
        raw.setdefault("dtype", "bfloat16")  # as it is built
        try:
            saved = {**json.loads(sampler.make(changes).to_json_string(use_diff=False)), "dtype": "bfloat16"}
        except Exception:
            saved = None
        tried += 1
        try:
            config = evaluate.Config(data, raw, key)
            found = differences(module, data.build(file, cls.__name__, config))
            if not found and saved is not None:  # the same config as the reference writes it
                found = [f"as saved: {t}" for t in differences(module, data.build(file, cls.__name__, evaluate.Config(data, saved, key)))]
        except evaluate.Wrong as e:
            found = [str(e)[:300]]
        except Exception as e:
            found = [f"{type(e).__name__}: {e}"[:300]]
        if found:
            wrong.append((found, {str(k): v for k, v in changes.items()}, [f.exit_state for f in session.frames if f.exit_state is not None]))
    return tried, wrong
