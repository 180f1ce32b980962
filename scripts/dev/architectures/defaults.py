# SPDX-License-Identifier: Apache-2.0
"""What a config class makes of the fields that a config.json leaves out, sets to null or spells in another way."""
import json
import random

import trace
from define import names_in
from learn import FUNCTIONS, MISSING, Problem, Unexplained, evaluate, literal, same, tidy
from evaluate import Raw
from observe import Env
from trace import plain


def is_json(value):
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return not (isinstance(value, str) and value.startswith("<"))


BACKBONE = {
    "stage_names": [f"['stem'] + ['stage' + str(i + 1) for i in range({n})]" for n in ("len(depths)", "num_hidden_layers", "len(hidden_sizes)", "len(layers)", "num_stages", "len(backbone_channels)", "len(encoder_hidden_sizes)", "len(stage_out_channels)", "len(stage_hidden_channels)", "len(layer_dims)", "len(decoder_depths)")],
    "out_features": ["[stage_names[i] for i in raw.out_indices] if raw.out_indices is not None else [stage_names[-1]]"],
    "out_indices": ["[i for i in range(len(stage_names)) if stage_names[i] in raw.out_features] if raw.out_features is not None else [len(stage_names) - 1]"],
}


class Fields:
    """Observed constructions of one config class: what was given, what came out."""

    def __init__(self, config_class):
        self.config_class = config_class
        self.traced = {}
        self.seen = []  # (given {field: value}, config)
        self.default = config_class()

    def add(self, given, config, traced=None):
        snapshot = trace.session_snapshot(config)
        snapshot_traced = {}
        if traced is not None:
            for f, v in traced.__dict__.items():
                if not f.startswith("_") and isinstance(v, (trace.TInt, trace.TFloat, trace.TList)) and same(plain(v), plain(config.__dict__.get(f))):
                    snapshot_traced[f] = trace.expression_of(v)
        self.traced[id(snapshot)] = snapshot_traced
        self.seen.append((given, snapshot))

    def result(self, config, field):
        try:
            value = getattr(config, field)
        except Exception:  # absent, or different from layer to layer
            return MISSING
        return plain(value) if not trace.is_config(value) else MISSING

    def rule(self, field):
        """The JSON rule for a field: a literal, {"expression"}, {"default", "expression"} or {"always"}; None if the class does not have it."""
        results = [self.result(c, field) for _, c in self.seen]
        if all(r is MISSING for r in results):
            return None
        default = self.result(self.default, field)
        own = field in self.default.__dict__
        rows = [(g, c, r) for (g, c), r in zip(self.seen, results) if r is not MISSING]
        absent = [(g, c, r) for g, c, r in rows if field not in g]
        null = [(g, c, r) for g, c, r in rows if field in g and g[field] is None]
        given = [(g, c, r) for g, c, r in rows if field in g and g[field] is not None]
        if field in ("out_features", "out_indices") and (null or absent):
            return {"expression": self.learn(field, [(c, r) for _, c, r in absent + null])}
        if any(not same(g[field], r) and plain(g[field]) != r for g, c, r in given) and field != "rope_parameters" and own:
            return {"default": default, "always": self.learn(field, [(c, r) for _, c, r in rows], [g.get(field, default) for g, _, _ in rows])}
        if not own and not given:
            return {"always": self.learn(field, [(c, r) for _, c, r in rows])}
        constant = all(same(r, default) for _, _, r in absent) and default is not MISSING and is_json(default)
        null_stays = all(r is None for _, _, r in null)
        if constant and (null_stays or not null) and not (default is None and null and not null_stays):
            return default
        if constant and not null_stays:
            if default is None:
                return {"expression": self.learn(field, [(c, r) for _, c, r in absent + null])}
            return {"default": default, "expression": self.learn(field, [(c, r) for _, c, r in null])}
        if null_stays and null:
            return {"absent": self.learn(field, [(c, r) for _, c, r in absent])}
        return {"expression": self.learn(field, [(c, r) for _, c, r in absent + null])}

    def learn(self, field, rows, given=None):
        names = {n for _, c in self.seen[:5] for n in c.__dict__ if not n.startswith("_") and n != field and not trace.is_config(c.__dict__[n])}
        names |= {f"{n}.{m}" for _, c in self.seen[:2] for n, v in c.__dict__.items() if trace.is_config(v) and not n.startswith("_") for m in v.__dict__ if not m.startswith("_") and isinstance(v.__dict__[m], (int, str, list)) and not isinstance(v.__dict__[m], bool)} if len(names) < 25 or field in ("hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "tie_word_embeddings") else set()
        if field == "num_labels":
            names.add("id2label")
        if field == "tie_word_embeddings":
            names |= {f"{n}.{field}" for _, c in self.seen[:2] for n, v in c.__dict__.items() if trace.is_config(v) and hasattr(v, field)}
        for e in BACKBONE.get(field, ()):  # the two name the same stages
            if all(r is MISSING or same(evaluate(e, Env(c, {"raw": Raw(g), "given": g.get(field)})), r) for g, c in self.seen for r in [self.result(c, field)] if g.get(field) is None and hasattr(c, "stage_names")):
                return e
        unique, kept = set(), []
        for k, (c, r) in enumerate(rows):
            env = Env(c, {} if given is None else {"given": given[k]})
            e = self.traced.get(id(c), {}).get(field)
            mark = repr((r, e, [(n, evaluate(n, env)) for n in sorted(names)]))
            if mark not in unique:
                unique.add(mark)
                kept.append((env, r, e if e != field else None))
        kept = kept[:90]
        if not kept:
            raise Unexplained(f"config field {field}: nothing observed")
        problem = Problem([(env, []) for env, _, _ in kept], names)
        values = [r for _, r, _ in kept]
        if all(isinstance(v, list) for v in values):
            for n in sorted(names):
                lists = [evaluate(n, env) for env, _, _ in kept]
                if all(isinstance(x, list) and x[::-1] == v for x, v in zip(lists, values)) and len({repr(v) for v in values}) > 1:
                    return f"[{n}[len({n}) - 1 - i] for i in range(len({n}))]"
        if values and all(isinstance(v, dict) for v in values):
            raise Unexplained(f"config field {field}: an object")
        if all(isinstance(v, list) for v in values) and len({repr(v) for v in values}) > 2 and not any(e for _, _, e in kept) and any(isinstance(x, str) for v in values for x in v):
            try:
                return self.list_rule(field, problem, values)
            except Unexplained:
                pass
        try:
            return problem.value([(v, e) for _, v, e in kept])
        except Unexplained:
            if all(isinstance(v, list) for v in values):
                return self.list_rule(field, problem, values)
            raise Unexplained(f"config field {field}: no expression gives its default") from None

    def list_rule(self, field, problem, values):
        try:
            length = problem.value([(len(v), None) for v in values])
            observations, items = [], []
            for (env, _), v in zip(problem.observations, values):
                for k, item in enumerate(v):
                    observations.append((env.with_loop("i", k), []))
                    items.append(item)
            if len(items) > 240:
                keep = sorted(random.Random(1).sample(range(len(items)), 240))
                observations, items = [observations[k] for k in keep], [items[k] for k in keep]
            inner = Problem(observations, problem.accessed)
            element = inner.value([(i, None) for i in items])
        except Unexplained as e:
            raise Unexplained(f"config field {field}: {e}") from None
        return tidy(f"[{element} for i in range({length})]")


def takes_flat(config_class, name):
    """Whether the fields of a nested config may stand in the outer one, if the nested one is absent."""
    try:
        n_layers = getattr(config_class(), name).num_hidden_layers
        return getattr(config_class(num_hidden_layers=n_layers + 1), name).num_hidden_layers == n_layers + 1
    except Exception:
        return False


def nested(config_class, default):
    """Nested configs of a class: {name: {"model_type", "class", "auto", "default", "null", "flat"}}."""
    found = {}
    specs = getattr(config_class, "sub_configs_defaults", {}) or {}
    names = list(specs) + [n for n, v in default.__dict__.items() if trace.is_config(v) and n not in specs and not n.startswith("_")]
    for name in names:
        value = default.__dict__.get(name)
        spec = specs.get(name)
        entry = {}
        cls = type(value) if trace.is_config(value) else None
        if spec is not None and cls is None:
            try:
                cls = spec.config_class if spec.config_class.__name__ != "AutoConfig" else spec.get_config_class(None)
            except Exception:
                cls = None
        entry["class"] = cls
        entry["auto"] = spec is not None and spec.config_class.__name__ == "AutoConfig"
        if value is None:
            entry["null"] = True
        elif cls is not None:
            try:
                plain_default = cls()
                differing = {}
                for f, v in value.__dict__.items():
                    if f.startswith("_") or trace.is_config(v) or f in trace.Session.NOISE:
                        continue
                    if plain(v) != plain(plain_default.__dict__.get(f, MISSING) if f in plain_default.__dict__ else "<absent>") and is_json(plain(v)):
                        differing[f] = plain(v)
                if spec is not None:  # also those that happen to be the class's own
                    differing = {**{k: plain(v) for k, v in spec.init_kwargs.items() if is_json(plain(v)) and k != "model_type"}, **differing}
                if differing:
                    entry["default"] = differing
            except Exception:
                pass
            entry["flat"] = takes_flat(config_class, name)
        if entry.get("default"):
            given = {"model_type": cls.model_type} if cls.model_type else {}
            try:
                made = getattr(config_class(**{name: given}), name)
                told = {f: v for f, v in entry["default"].items() if isinstance(v, (int, list))}
                if told and all(plain(made.__dict__.get(f)) == v for f, v in told.items()):
                    entry["merge"] = True
            except Exception:
                pass
        found[name] = entry
    return found
