# SPDX-License-Identifier: Apache-2.0
"""Proposes configs: the class's defaults made small, then random changes that the reference accepts."""
import ast
import copy
import inspect
import random
import re
import types
import typing

import trace
from trace import plain

LAYERS = re.compile(r"(^|_)(n_?layers?|depth|num_blocks|n_blocks|num_\w*layers?|\w*_layers)$|^(num_hidden_layers|encoder_layers|decoder_layers|layers|n_layer|num_layers|depth)$|(^|_)num_\w+_blocks$|_num_hidden_layers$|_layers$")
EXPERTS = re.compile(r"experts")
NEVER = re.compile(r"token_id|_token_index|token_index|dropout|initializer|_std$|_eps$|epsilon|return_|output_(attentions|hidden)|use_cache|problem_type|loss|coefficient|_coef|cost|temperature|top_p|num_beams|dtype|architectures|name_or_path|gradient_checkpointing|pruned|is_heterogeneous|attn_impl|experts_impl|^attribute_map|transformers_version|max_length|_id$|_ids$|pad_id|^stage_names$|^id2label$|^common_stride$")
ACTIVATIONS = ["gelu", "relu", "silu", "gelu_new", "quick_gelu", "tanh", "gelu_pytorch_tanh", "sigmoid", "mish", "leaky_relu", "linear"]


def annotation_kinds(annotation):
    """(types, literal values) of an annotation."""
    kinds, literals = set(), []
    todo = [annotation]
    while todo:
        a = todo.pop()
        origin = typing.get_origin(a)
        if origin in (typing.Union, types.UnionType):
            todo += typing.get_args(a)
        elif origin is typing.Literal:
            literals += typing.get_args(a)
        elif origin is typing.Annotated:
            todo.append(typing.get_args(a)[0])
        elif origin is not None:
            kinds.add((origin, tuple(typing.get_args(a))))
        else:
            kinds.add(a)
    return kinds, literals


_compared = {}


def compared_texts(module):
    """{field: texts it is compared with} in the source of a module; only used to propose values."""
    if module in _compared:
        return _compared[module]
    found = {}
    try:
        tree = ast.parse(inspect.getsource(module))
    except Exception:
        tree = ast.Module([], [])

    def name_of(n):
        if isinstance(n, ast.Attribute):
            return n.attr
        if isinstance(n, ast.Name):
            return n.id
        if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "getattr" and len(n.args) > 1 and isinstance(n.args[1], ast.Constant):
            return n.args[1].value
        if isinstance(n, ast.Subscript):
            return name_of(n.value)
        return None

    for n in ast.walk(tree):
        if isinstance(n, ast.Compare):
            sides = [n.left, *n.comparators]
            texts = []
            for s in sides:
                for c in [s, *getattr(s, "elts", [])]:
                    if isinstance(c, ast.Constant) and isinstance(c.value, str):
                        texts.append(c.value)
            for s in sides:
                field = name_of(s)
                if field and texts:
                    found.setdefault(field, set()).update(texts)
        elif isinstance(n, ast.Dict) and n.keys and all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in n.keys if k is not None):
            found.setdefault("<dict keys>", []).append([k.value for k in n.keys if k is not None]) if isinstance(found.get("<dict keys>", []), list) else None
    _compared[module] = found
    return found


class Sampler:
    def __init__(self, config_class, modules, seed=0):
        self.config_class = config_class
        self.random = random.Random(seed)
        self.fields = {}  # (path, field): default value
        self.annotations = {}
        self.texts = {}
        for m in modules:
            for field, texts in compared_texts(m).items():
                if field != "<dict keys>":
                    self.texts.setdefault(field, set()).update(texts)
        self.tables = [t for m in modules for t in compared_texts(m).get("<dict keys>", [])]
        self.base = {}
        self.works = {}  # {class: the base on which it can be built}
        self.fails = {}
        self.tries = {}
        self.relevant = None  # [(path, field)] that a constructor looked at

    def make(self, changes):
        """The config object for {(path, field): value}."""
        nested = {}
        for (path, field), value in {**self.base, **changes}.items():
            place = nested
            for part in path:
                place = place.setdefault(part, {})
                if not isinstance(place, dict):
                    break
            else:
                if isinstance(place.get(field), dict) and isinstance(value, dict) and field in place:
                    place[field].update(copy.deepcopy(value))
                else:
                    place[field] = copy.deepcopy(value)
        self.last = copy.deepcopy(nested)
        for path, default in self.nested_types.items():
            place = nested
            for part in path:
                place = place.get(part) if isinstance(place, dict) else None
            if isinstance(place, dict) and "model_type" not in place and default:
                place["model_type"] = default
        return self.config_class(**nested)

    def start(self):
        """Reads the defaults; true if the class can be made without arguments."""
        self.nested_types = {}
        config = self.config_class()
        self.read(config, ())
        for key in list(self.fields):
            value = self.fields[key]
            if LAYERS.search(key[1]) and isinstance(value, int) and not isinstance(value, bool) and value > 3:
                self.base[key] = 3
            elif EXPERTS.search(key[1]) and isinstance(value, int) and not isinstance(value, bool) and value > 8 and "per_tok" not in key[1]:
                self.base[key] = 8
        kept = {}
        for key, value in self.base.items():  # only what the class accepts
            kept[key] = value
        self.base = kept
        try:
            self.make({})
        except Exception:
            self.base = {}
            for key, value in kept.items():
                self.base[key] = value
                try:
                    self.make({})
                except Exception:
                    del self.base[key]
        self.small = dict(self.base)
        return config

    def read_more(self, seeds):
        """Nested configs that only some configs have."""
        for seed in seeds:
            try:
                config = self.config_class(**copy.deepcopy(seed))
            except Exception:
                continue
            for name, value in config.__dict__.items():
                if trace.is_config(value) and (name,) not in self.nested_types and not name.startswith("_"):
                    self.nested_types[(name,)] = getattr(value, "model_type", None)
                    self.read(value, (name,))

    def read(self, config, path):
        hints = {}
        for owner in reversed(type(config).__mro__):
            hints.update(getattr(owner, "__annotations__", {}))
        for field, value in config.__dict__.items():
            if field.startswith("_"):
                continue
            if trace.is_config(value):
                self.nested_types[path + (field,)] = getattr(value, "model_type", None)
                if len(path) < 3:
                    self.read(value, path + (field,))
                continue
            self.fields[path, field] = plain(value)
            self.annotations[path, field] = hints.get(field)

    def proposals(self, key, current):
        """Values to try instead of current."""
        path, field = key
        r = self.random
        if field == "num_labels":
            return [1, 3, 5]
        if field in ("out_features", "out_indices"):
            names = self.fields.get((path, "stage_names"))
            if not names:
                return []
            picked = sorted(r.sample(range(len(names)), r.randint(1, len(names) - 1)))
            return [picked if field == "out_indices" else [names[i] for i in picked]]
        if NEVER.search(field) and not isinstance(current, list):
            return []
        annotation = self.annotations.get(key)
        if isinstance(annotation, str):
            annotation = None
        kinds, literals = annotation_kinds(annotation) if annotation is not None else (set(), [])
        simple = {k for k in kinds if isinstance(k, type)}
        found = []
        if isinstance(current, bool):
            found = [not current] * 3
        elif isinstance(current, int):
            if LAYERS.search(field):
                found = [1, 2, 3, 4, 5]
            elif EXPERTS.search(field):
                found = [4, 6, 8] if "per_tok" not in field else [2]
            elif current <= 0:
                found = [1, 2, 3]
            elif current <= 8:
                found = [current + 1, current + 2, current * 2, 1, 2, 3]
            else:
                found = [current * 2, current * 3, current * 5]
                if current % 2 == 0:
                    found += [current // 2, current + current // 2]
                if current > 500 or "vocab" in field:
                    found += [current + 1, current + 7]
            if type(None) in simple:
                found.append(None)
            if bool in simple:
                found += [True, False]
        elif isinstance(current, float):
            found = [current * 2, current / 2] if re.search(r"ratio|factor|mult|expan|width|scale", field) else []
            if type(None) in simple:
                found.append(None)
        elif isinstance(current, str):
            if current in ACTIVATIONS or field.endswith(("_act", "activation", "act_fn", "activation_function", "hidden_act")):
                found = ACTIVATIONS[:]
            else:
                found = [t for t in sorted(self.texts.get(field, ())) if t] + [x for x in literals if isinstance(x, str)]
                for table in self.tables:
                    if current in table:
                        found += table
            for owner in (self.config_class, *self.config_class.__mro__[1:-1]):
                for table in vars(owner).values():
                    if isinstance(table, (list, tuple)) and current in table:
                        found += [x for x in table if isinstance(x, str)]
            if not [f for f in found if f != current] and self.texts.get(field):
                found.append("another")
            if type(None) in simple and (found or "act" in field):
                found.append(None)
        elif isinstance(current, list):
            if current and all(isinstance(v, str) for v in current):
                known = sorted(set(current) | {t for t in self.texts.get(field, ())})
                if len(known) > 1:
                    for _ in range(3):
                        found.append([r.choice(known) for _ in current])
            elif current and all(isinstance(v, int) and not isinstance(v, bool) for v in current):
                found = [[v * 2 for v in current], [v + 1 for v in current], [v * 3 for v in current]]
                if len(current) > 1:
                    found += [[current[0]] * len(current), [r.choice(current) for _ in current]]
                    found += [current[:-1], current + current[-1:], [current[-1], *current[:-1]]] if not field.endswith("_size") else []
                if field in ("mlp_only_layers",) or "layer" in field:
                    found += [[0], [1], [0, 2], []]
            elif current and all(isinstance(v, bool) for v in current):
                found = [[r.random() < 0.5 for _ in current] for _ in range(3)]
            elif not current:
                found = [[0], [1], [0, 2]] if not any(isinstance(k, tuple) and str in k[1] for k in kinds) else []
        elif current is None:
            for k in kinds:
                if k is int:
                    found += [8, 16, 32, 3]
                elif k is bool:
                    found += [True, False]
                elif k is float:
                    found += [0.5]
                elif isinstance(k, tuple) and k[0] is list and int in k[1]:
                    found += [[0], [1], [0, 2]]
            found += [x for x in literals if x is not None]
            found += sorted(self.texts.get(field, ()))
        elif isinstance(current, dict):
            if "partial_rotary_factor" in current:
                found = [{**current, "partial_rotary_factor": 0.5}]
            elif "rope_theta" in current:
                found = [{**current, "partial_rotary_factor": 0.5}] if r.random() < 0.3 else []
        return [f for f in found if f != current or isinstance(f, bool) != isinstance(current, bool)]

    def random_changes(self, strength):
        keys = [k for k in (self.relevant or self.fields) if k in self.fields or k[1] == "num_labels"]
        changes = {}
        lists = {}
        for key in keys:
            value = self.fields.get(key)
            if isinstance(value, list) and len(value) > 1 and not key[1].endswith("_size") and all(isinstance(v, (int, float, list, str)) for v in value):
                lists.setdefault(len(value), []).append(key)
        for key in keys:
            fails, tries = self.fails.get(key, 0), self.tries.get(key, 0)
            trust = 1.0 if tries < 3 else max(0.08, 1 - fails / tries)
            if self.random.random() < strength * trust:
                options = self.proposals(key, self.base.get(key, self.fields.get(key)))
                if options:
                    changes[key] = self.random.choice(options)
        for length, members in lists.items():  # lists of one length change it together
            if len(members) > 1 and self.random.random() < 0.4:
                new = self.random.choice([length - 1, length + 1])
                for key in members:
                    v = changes.get(key, self.fields[key])
                    if isinstance(v, list) and v:
                        v = (v + v[-1:])[: new] if len(v) < new else v[:new]
                        changes[key] = v
        return changes

    def refit(self, changes):
        for path, field in list(changes):
            if field == "out_features" and (path, "out_indices") in changes:
                del changes[path, field]
        return self.refit_texts(changes)

    def refit_texts(self, changes):
        """Per-layer lists of texts follow the number of layers that the other changes give."""
        texts = {k: v for k, v in changes.items() if isinstance(v, list) and v and all(isinstance(x, str) for x in v)}
        if not texts:
            return changes
        rest = {k: v for k, v in changes.items() if k not in texts}
        try:
            config = self.make(rest)
        except Exception:
            return changes
        for (path, field), value in texts.items():
            place = config
            for part in path:
                place = getattr(place, part, None)
            current = plain(getattr(place, field, None))
            if isinstance(current, list):
                known = sorted(set(value) | {x for x in current if isinstance(x, str)})
                rest[path, field] = [self.random.choice(known) for _ in current]
        return rest

    def note(self, changes, failed):
        for key in changes:
            self.tries[key] = self.tries.get(key, 0) + 1
            if failed and len(changes) <= 3:
                self.fails[key] = self.fails.get(key, 0) + 1

    def attempt(self, build, strength, tries=8):
        """Calls build(config) on changed configs until one works: (result, changes)."""
        error = None
        changes = self.random_changes(strength)
        for _ in range(tries):
            try:
                changes = self.refit(changes)
                config = self.make(changes)
                result = build(config)
                self.note(changes, False)
                return result, changes
            except Exception as e:  # the reference refuses: try with less
                error = e
                self.note(changes, True)
                if not changes:
                    break
                keep = [k for k in changes if self.random.random() < 0.6]
                if len(keep) == len(changes):
                    keep = keep[:-1]
                changes = {k: changes[k] for k in keep}
        return None, error
