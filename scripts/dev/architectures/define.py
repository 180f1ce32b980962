# SPDX-License-Identifier: Apache-2.0
"""Makes definitions (the JSON form of docs/architectures.md) out of observations."""
import ast
import inspect
import json
import random
import re

from transformers.activations import ACT2CLS

import observe
import trace
from hand import CHILDREN, HAND
from learn import FUNCTIONS, MISSING, Problem, Unexplained, evaluate, literal, same, tidy

LAYER_ARGUMENTS = {
    "Linear": ["in_features", "out_features", "bias"],
    "Embedding": ["num_embeddings", "embedding_dim"],
    "LayerNorm": ["normalized_shape", "elementwise_affine", "bias"],
    "RMSNorm": ["normalized_shape", "elementwise_affine"],
    "GroupNorm": ["num_groups", "num_channels", "affine"],
    "Conv1d": ["in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "bias"],
    "ConvTranspose1d": ["in_channels", "out_channels", "kernel_size", "stride", "padding", "output_padding", "groups", "bias", "dilation"],
    "BatchNorm1d": ["num_features", "affine", "track_running_stats"],
    "MultiheadAttention": ["embed_dim", "num_heads", "bias", "add_bias_kv", "kdim", "vdim"],
    "LSTM": ["input_size", "hidden_size", "num_layers", "bias", "bidirectional", "proj_size"],
    "Bilinear": ["in1_features", "in2_features", "out_features", "bias"],
    "PReLU": ["num_parameters"],
}
for same_as, names in {"Conv1d": ["Conv2d", "Conv3d"], "ConvTranspose1d": ["ConvTranspose2d", "ConvTranspose3d"], "BatchNorm1d": ["BatchNorm2d", "BatchNorm3d", "InstanceNorm1d", "InstanceNorm2d"], "LSTM": ["GRU"]}.items():
    for n in names:
        LAYER_ARGUMENTS[n] = LAYER_ARGUMENTS[same_as]

ACTIVATION_CLASS = {}
for text, value in ACT2CLS.items():
    cls = value[0] if isinstance(value, tuple) else value
    ACTIVATION_CLASS[text] = cls.__name__

LOOPS = ["i", "j", "k", "l", "m"]


def is_layer(key):
    return key.startswith("torch.nn.modules.") and key.rsplit(".", 1)[-1] in LAYER_ARGUMENTS


def holds_nothing(node):
    if node.get("key", "").startswith("transformers.activations.") and node["cls"] in ACTIVATION_CLASS.values() and node["cls"] != "XIELUActivation":
        return True
    return node["kind"] in ("inline", "module") and (node["kind"] == "module" and node["key"].startswith("torch.nn.modules") and not is_layer(node["key"]) or node["kind"] == "inline" and not node["tensors"] and not node["items"])


_TEXT = re.compile(r"'(?:[^'\\]|\\.)*'")


def names_in(expression):
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return set()
    bound = {g.target.id for n in ast.walk(tree) if isinstance(n, (ast.ListComp, ast.GeneratorExp)) for g in n.generators if isinstance(g.target, ast.Name)}
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} - set(FUNCTIONS) - bound


class Definer:
    """The definitions of one family."""

    def __init__(self, observations, limit=140):
        self.by_key = {}
        for o in observations:
            self.by_key.setdefault(o.key, []).append(o)
        self.limit = limit
        self.definitions = {}  # key: definition
        self.failed = {}
        self.used = {}  # key: argument names that the definition uses
        self.names = {}
        self.inlines = {}

    # --- names ---

    def name_of(self, key):
        name = key.rsplit(".", 1)[-1]
        for other, taken in self.names.items():
            if taken == name and other != key:
                name = name + "2"
        self.names.setdefault(key, name)
        return self.names[key]

    # --- one class ---

    def define(self, key):
        """Learns the definition of a class; raises Unexplained."""
        if key in self.failed:
            raise Unexplained(self.failed[key])
        if key in self.definitions:
            return self.definitions[key]
        observations = self.by_key.get(key)
        if not observations:
            raise Unexplained(f"{key} was never observed")
        self.definitions[key] = {}
        try:
            name = key.rsplit(".", 1)[-1]
            made = self.by_hand(key, HAND[name]) if name in HAND else self._define(key, self.distinct(observations))
        except Unexplained as e:
            del self.definitions[key]
            self.failed[key] = f"{key.rsplit('.', 1)[-1]}: {e}" if key.rsplit(".", 1)[-1] not in str(e) else str(e)
            raise Unexplained(self.failed[key]) from None
        self.definitions[key].update(made)
        return self.definitions[key]

    def by_hand(self, key, written):
        """A definition that was written, its "@Class" resolved."""
        made = self.resolved(written)
        self.used[key] = {a.partition("=")[0] for a in made.get("arguments", [])}
        return made

    def resolved(self, written):
        made = json.loads(json.dumps(written))
        keys = {k.rsplit(".", 1)[-1]: k for k in self.by_key}
        todo = [made]
        while todo:
            node = todo.pop()
            if isinstance(node, dict):
                if isinstance(node.get("module"), str) and node["module"].startswith("@"):
                    other = keys[node["module"][1:]]
                    self.define(other)
                    node["module"] = "@" + other
                    for name in list(node.get("with", {})):  # the other definition may have no use for it
                        if name not in self.used.get(other, ()):
                            del node["with"][name]
                todo += list(node.values())
            elif isinstance(node, list):
                todo += node
        return made

    def distinct(self, observations):
        seen, kept = {}, []
        for o in observations:
            config = id(o.env.config)
            mark = repr((sorted((k, v) for k, v in o.env.args.items() if not trace.is_config(v)), self.config_mark(o), [(t["name"], t["shape"], t["dtype"]) for t in o.tensors], shape_of(o.items)))
            if mark in seen:
                continue
            seen[mark] = config
            kept.append(o)
        if len(kept) > self.limit:
            rng = random.Random(1)
            by_shape = {}
            for o in kept:
                by_shape.setdefault(repr([t["name"] for t in o.tensors]) + repr(names_of(o.items)), []).append(o)
            part = []
            for group in by_shape.values():
                part += rng.sample(group, min(len(group), max(6, self.limit // len(by_shape))))
            kept = part
        return kept

    def config_mark(self, o):
        return [(n, repr(evaluate(n, o.env))[:200]) for n in sorted(o.accessed)]

    def _define(self, key, observations):
        accessed = set().union(*[o.accessed for o in observations])
        conditions = set().union(*[o.conditions for o in observations])
        problem = Problem([(o.env, o.pool) for o in observations], accessed, conditions)
        cls = observe.CLASSES[key]
        made = {"class": key.rsplit(".", 1)[-1]}
        bases = [c.__name__ for c in cls.__mro__[1:-1]]
        if bases != ["Module"]:
            made["bases"] = bases
        attributes = {}
        for name in observations[0].attributes:
            attributes[name] = problem.value([o.attributes[name] for o in observations])
        if attributes:
            made["attributes"] = attributes
        tensors = self.tensors(problem, [o.tensors for o in observations])
        if tensors:
            made["tensors"] = tensors
        children = self.children(problem, [o.items for o in observations], CHILDREN.get(made["class"], {}))
        if children:
            made["children"] = children
        for name, e in attributes.items():  # an attribute hides the argument of its name
            if e == f"[{name}]":
                for part in ("tensors", "children"):
                    if part in made:
                        made[part] = with_first(made[part], name)
        self.replacements(problem, observations, made)
        self.stars(problem, observations, made)
        argument_names = set().union(*[set(o.env.args) for o in observations]) - {"config"}
        used = names_used(made) & argument_names
        self.used[key] = used
        if used:
            made = {"class": made["class"], "arguments": self.arguments(cls, used), **{k: v for k, v in made.items() if k != "class"}}
        return made

    def stars(self, problem, observations, made):
        """Modules that this constructor put into, or took out of, the members of lists that others had made."""
        for pattern in sorted({p for o in observations for p in o.starred}):
            taken = set().union(*[set(o.env.args) for o in observations]) | problem.accessed
            loop = next(n for n in LOOPS if n not in taken)
            rows, items = [], []
            for o in observations:
                for k, node in o.starred.get(pattern, ()):
                    rows.append((o.env.with_loop(loop, k), o.pool))
                    items.append({pattern: node} if node is not None else {})
            for entry in self.children(Problem(rows, problem.accessed, problem.conditions), items):
                made.setdefault("children", []).append({"name": entry.pop("name"), "index": loop, **entry})

    def replacements(self, problem, observations, made):
        """Layers below a child that this constructor exchanged for a class of its own."""
        marks = sorted({m for o in observations for m in o.replaced})
        for mark in marks:
            child, old, key = mark
            self.define(key)
            pairs = [p for o in observations for p in o.replaced.get(mark, ())]
            arguments = {}
            for name in sorted(self.used.get(key, ())):
                same_as = next((n for n in pairs[0][0] if all(same(a.get(n), b.get(name)) for a, b in pairs)), None)
                values = {repr(b.get(name)) for _, b in pairs}
                if len(values) == 1:
                    arguments[name] = values.pop()
                elif same_as:
                    arguments[name] = same_as
                else:
                    raise Unexplained(f"{old} is replaced, argument {name} cannot be told")
            one = {"module": "@" + key}
            if arguments:
                one["with"] = arguments
            condition = self.condition(problem, [k for k, o in enumerate(observations) if mark in o.replaced])
            if condition != "True":
                one["if"] = condition
            for entry in made.get("children", []):
                if entry["name"] == child:
                    entry.setdefault("replace", {})[old] = one

    def arguments(self, cls, used):
        """Arguments in the constructor's order, with their defaults."""
        signature = trace._signature(cls)
        parameters = signature.parameters if signature is not None else {}
        made = []
        for name in sorted(used, key=lambda n: list(parameters).index(n) if n in parameters else 99):
            default = parameters[name].default if name in parameters else inspect.Parameter.empty
            if default is inspect.Parameter.empty or isinstance(trace.plain(default), str) and trace.plain(default).startswith("<"):
                made.append(name)
            else:
                made.append(f"{name}={trace.plain(default)!r}")
        return made

    # --- tensors ---

    def tensors(self, problem, lists):
        by_name = [{t["name"]: t for t in tensors} for tensors in lists]
        found = []
        free = {t["name"] for tensors in lists for t in tensors if not t["persistent"]}
        for name in merged([[t["name"] for t in tensors] for tensors in lists], free):
            variants = {}
            for k, tensors in enumerate(by_name):
                if name in tensors:
                    t = tensors[name]
                    variants.setdefault((len(t["shape"]), t["dtype"], t["persistent"], t["buffer"]), []).append(k)
            for (rank, dtype, persistent, is_buffer), where in variants.items():
                condition = self.condition(problem, where)
                part = problem.subset(where)
                shape = []
                for d in range(rank):
                    try:
                        shape.append(part.value([(by_name[k][name]["shape"][d], by_name[k][name]["exprs"][d]) for k in where]))
                    except Unexplained as e:
                        raise Unexplained(f"tensor {name}, dimension {d}: {e}") from None
                one = {"name": name, "shape": [number_or_text(s) for s in shape]}
                if dtype is not None:
                    one["dtype"] = dtype
                if is_buffer:
                    one["buffer"] = True
                if not persistent:
                    one["persistent"] = False
                if condition != "True":
                    one["if"] = condition
                found.append(one)
        return found

    def condition(self, problem, where):
        count = len(problem.observations)
        if len(where) == count:
            return "True"
        true = sum(1 << k for k in where)
        try:
            return tidy(problem.predicate(true, ((1 << count) - 1) & ~true))
        except Unexplained:
            if problem.wide:
                raise
            return tidy(problem.widened().predicate(true, ((1 << count) - 1) & ~true))

    # --- children ---

    def children(self, problem, lists, written={}):
        found = []
        for name in merged([list(items) for items in lists]):
            if name in written:
                found += self.resolved(written[name])
                continue
            nodes = {k: items[name] for k, items in enumerate(lists) if name in items}
            try:
                found += self.child(problem, name, nodes)
            except Unexplained as e:
                raise Unexplained(f"child {name}: {e}") from None
        return found

    def child(self, problem, name, nodes):
        """The entries for a name: one a variant."""
        entries = []
        if re.search(r"\.\d+\.", "." + name + ".") and "." in name:
            raise Unexplained(f"{name} is changed from outside, in a list")
        for variant, where in self.variants(problem, nodes):
            condition = self.condition(problem, where)
            part = problem.subset(where)
            for entry in self.variant(part, variant, [nodes[k] for k in where]):
                entry = {"name": name, **entry}
                if condition != "True":
                    if "repeat" in entry:
                        entry["when"] = condition
                    elif "if" in entry:
                        entry["if"] = f"({condition}) and ({entry['if']})"
                    else:
                        entry["if"] = condition
                entries.append(entry)
        return entries

    def variants(self, problem, nodes):
        """[(kind, where)]; a family of activation classes that follow a config field is one."""
        groups = {}
        quiet = [k for k, n in nodes.items() if holds_nothing(n)]
        if quiet and len({nodes[k]["cls"] for k in quiet}) >= 1:
            part = problem.subset(quiet)
            classes = [nodes[k]["cls"] for k in quiet]
            best = None
            for n, values in part.names().items():
                matching = [k for k, v, c in zip(quiet, values, classes) if isinstance(v, str) and ACTIVATION_CLASS.get(v) == c]
                clash = [k for k, v, c in zip(quiet, values, classes) if isinstance(v, str) and v in ACTIVATION_CLASS and ACTIVATION_CLASS[v] != c]
                varied = len({nodes[k]["cls"] for k in matching})
                if matching and (not clash or varied > 2) and (best is None or (len(matching), varied) > best[0]):
                    best = ((len(matching), varied), n, matching)
            if best is not None and (len(best[2]) == len(quiet) or best[0][1] > 1):
                groups[("activation", best[1])] = best[2]
        done = set(k for w in groups.values() for k in w)
        for k, node in nodes.items():
            if k in done:
                continue
            if node["auto"] if "auto" in node else None:
                kind = ("auto", node["auto"])
            elif holds_nothing(node):
                kind = ("quiet", node["cls"], node["key"])
            elif node["kind"] == "module":
                kind = ("module", node["key"])
            elif node["kind"] == "parametrized":
                kind = ("parametrized", node["key"])
            elif node["kind"] == "box":
                kind = ("box", node["cls"])
            elif node["kind"] == "removed":
                kind = ("removed",)
            else:
                kind = ("inline", node["key"])
            groups.setdefault(kind, []).append(k)
        return list(groups.items())

    def variant(self, problem, variant, nodes):
        kind = variant[0]
        if kind == "activation":
            return [{"activation": variant[1]}]
        if kind == "quiet":
            cls = observe.CLASSES.get(variant[2])
            made = {"module": {"class": variant[1]}}
            bases = [c.__name__ for c in cls.__mro__[1:-1]]
            if bases != ["Module"] and not variant[2].startswith("torch."):
                made["module"]["bases"] = bases
            elif variant[2].startswith("torch."):
                made["module"] = variant[1]
            return [made]
        if kind == "removed":
            return [{"remove": True}]
        if kind == "auto":
            made = {"auto": variant[1], **self.dtype_of(nodes)}
            made.update(self.config_of(problem, nodes, None))
            return [made]
        if kind in ("module", "parametrized"):
            return [self.module(problem, variant[1], nodes, kind)]
        if kind == "box":
            return self.box(problem, variant[1], nodes)
        if kind == "inline":
            made = {"class": nodes[0]["cls"]}
            cls = observe.CLASSES.get(variant[1])
            if cls is not None:
                bases = [c.__name__ for c in cls.__mro__[1:-1]]
                if bases != ["Module"]:
                    made["bases"] = bases
            tensors = self.tensors(problem, [n["tensors"] for n in nodes])
            if tensors:
                made["tensors"] = tensors
            children = self.children(problem, [n["items"] for n in nodes])
            if children:
                made["children"] = children
            return [{"module": made}]
        raise Unexplained(f"a {kind}")

    def config_of(self, problem, nodes, key):
        made = {}
        paths = [n["config"] for n in nodes]
        if any(p is None for p in paths):
            if all(n.get("config_class") is None for n in nodes):
                return made
            raise Unexplained("the config of a child is not one of its parent's")
        if len(set(paths)) == 1:
            if paths[0]:
                made["config"] = paths[0]
        else:
            choices = [(p or "config", None) for p in paths]
            made["config"] = self.choose(problem, [c for c, _ in choices])
        fields = sorted({f for n in nodes for f in n["sets"]})
        if fields:
            wanted = self.fields_used(key) if key is not None else None
            sets = {}
            for f in fields:
                if f in trace.Session.NOISE or f in ("use_cache", "gradient_checkpointing") or (wanted is not None and f not in wanted):
                    continue
                slots = []
                name = "num_labels" if f == "id2label" else f
                for (env, _), n in zip(problem.observations, nodes):
                    if f in n["sets"] and f == "id2label":  # what `num_labels = n` sets
                        n_labels = len(n["sets"][f][0])
                        slots.append((n_labels, str(n_labels)))
                    elif f in n["sets"]:
                        slots.append(n["sets"][f])
                    else:
                        path = n["config"]
                        e = f"{path}.{name}" if path else name
                        value = evaluate(e, env)
                        if value is MISSING:
                            raise Unexplained(f"field {f} is set in some observations only")
                        slots.append((value, e))
                sets[name] = problem.value(slots)
            if sets:
                made["set"] = sets
        return made

    def choose(self, problem, texts):
        distinct = list(dict.fromkeys(texts))
        if len(distinct) == 1:
            return distinct[0]
        count = len(texts)
        result = distinct[-1]
        for t in distinct[:-1]:
            true = sum(1 << k for k, x in enumerate(texts) if x == t)
            p = tidy(problem.predicate(true, ((1 << count) - 1) & ~true))
            result = f"{t} if {p} else {result}"
        return result

    def fields_used(self, key, seen=None):
        """Config fields that a definition and those below it use."""
        seen = set() if seen is None else seen
        if key in seen:
            return set()
        seen.add(key)
        found = set()
        for o in self.by_key.get(key, ())[:40]:
            found |= {a.split(".")[-1] for a in o.accessed}
            todo = list(o.items.values())
            while todo:
                node = todo.pop()
                if node["kind"] in ("box", "inline"):
                    todo += list(node["items"].values())
                else:
                    found |= self.fields_used(node["key"], seen)
        return found

    def module(self, problem, key, nodes, kind):
        made = {"module": None}
        if is_layer(key):
            name = key.rsplit(".", 1)[-1]
            made["module"] = name if kind == "module" else "Parametrized" + name
            wanted = LAYER_ARGUMENTS[name]
        else:
            self.define(key)
            made["module"] = "@" + key
            wanted = None
        arguments = {}
        used = wanted if wanted is not None else sorted(self.used.get(key, ()))
        if wanted is None and not self.definitions[key]:
            used = sorted(set().union(*[set(n["args"]) for n in nodes]))  # a class that holds itself
        for name in used:
            if not any(name in n["args"] for n in nodes):
                continue
            if not all(name in n["args"] for n in nodes):
                raise Unexplained(f"argument {name} is given in some observations only")
            if any(n["args"][name][0] == "<config>" for n in nodes):
                arguments[name] = self.choose(problem, [n["args"][name][1] or "None" for n in nodes])
                continue
            slots = [n["args"][name] for n in nodes]
            if wanted is not None and all(name in n["defaulted"] for n in nodes):
                continue  # the layer's own default
            try:
                e = problem.value(slots)
            except Unexplained as error:
                raise Unexplained(f"argument {name}: {error}") from None
            arguments[name] = e
        made.update(self.dtype_of(nodes))
        if kind == "parametrized":
            arguments["dim"] = problem.value([(n["dim"], None) for n in nodes])
        if arguments:
            made["with"] = {n: number_or_text(e) for n, e in arguments.items()}
        if any(n.get("config_class") for n in nodes):
            made.update(self.config_of(problem, nodes, key))
        return made

    def dtype_of(self, nodes):
        """What a child was converted to after it was made."""
        types = {n.get("dtype") for n in nodes}
        if len(types) > 1:
            raise Unexplained("its dtype follows the config")
        return {} if types == {None} else {"dtype": types.pop()}

    # --- lists ---

    def box(self, problem, cls, nodes):
        lists = [list(n["items"]) for n in nodes]
        if any(n["tensors"] for n in nodes):
            made = {"class": cls, "tensors": self.tensors(problem, [n["tensors"] for n in nodes])}
            return [{"module": made}]
        numbered = all(names == [str(k) for k in range(len(names))] for names in lists)
        lengths = [len(names) for names in lists]
        if not any(lengths):
            return [{"module": {"class": cls}}]
        plainly = None
        if numbered and (len(set(lengths)) > 1 or lengths[0] > 4) or numbered and cls == "ModuleList" and lengths[0] > 1:
            try:
                return self.repeated(problem, cls, nodes, lengths)
            except Unexplained as e:
                plainly = e
                if max(lengths) > 40 or len(set(lengths)) > 3:  # place by place it would hold for the lengths seen only
                    raise
        try:
            children = self.children(problem, [n["items"] for n in nodes])
        except Unexplained as e:
            raise Unexplained(f"{plainly or ''} / {e}") from None
        return [{"module": {"class": cls, "children": children}}]

    def repeated(self, problem, cls, nodes, lengths):
        length = problem.value([(n, None) for n in lengths])
        taken = set().union(*[set(env.args) | set(env.loops) for env, _ in problem.observations]) | problem.accessed
        loop = next(n for n in LOOPS if n not in taken)
        observations, items = [], []
        for (env, pool), node in zip(problem.observations, nodes):
            for k, item in enumerate(node["items"].values()):
                observations.append((env.with_loop(loop, k), pool))
                items.append({"*": item})
        if len(observations) > 260:
            keep = sorted(random.Random(1).sample(range(len(observations)), 260))
            observations, items = [observations[k] for k in keep], [items[k] for k in keep]
        inner = Problem(observations, problem.accessed, problem.conditions)
        entries = self.children(inner, items)
        found = []
        for e in entries:
            made = {"repeat": number_or_text(length), "index": loop}
            if cls != "ModuleList":
                made["container"] = cls
            if "repeat" in e:  # a list of lists
                e = {"module": {"class": e.pop("container", "ModuleList"), "children": None}, "inner": e}
                inner_entry = e.pop("inner")
                inner_entry.pop("name")
                e["module"] = {"class": e["module"]["class"], "items": {k: v for k, v in inner_entry.items() if k != "when"}}
                if "when" in inner_entry:
                    e["if"] = inner_entry["when"]
                e["name"] = "*"
            e.pop("name")
            if not names_used({"x": e}) & {loop}:
                made.pop("index")
            found.append({**made, **e})
        return found


def with_first(node, name):
    """Every use of name in the expressions of node becomes name[0]."""
    if isinstance(node, dict):
        return {k: (re.sub(rf"(?<![\w.]){name}\b(?!\[)", f"{name}[0]", v) if isinstance(v, str) and k not in ("name", "class", "module", "index", "dtype", "auto", "container") else with_first(v, name)) for k, v in node.items()}
    if isinstance(node, list):
        return [re.sub(rf"(?<![\w.]){name}\b(?!\[)", f"{name}[0]", v) if isinstance(v, str) else with_first(v, name) for v in node]
    return node


def shape_of(items):
    return [(n, i["cls"], [(a, v[0] if not trace.is_config(v[0]) else 0) for a, v in i.get("args", {}).items()], shape_of(i["items"]) if "items" in i else (), i.get("config"), [(f, v[0]) for f, v in i.get("sets", {}).items()]) for n, i in items.items()]


def names_of(items):
    return [(n, i["cls"], names_of(i["items"]) if "items" in i else ()) for n, i in items.items()]


def merged(orders, free=()):
    """One order that all given orders agree with; names in free may stand in any."""
    if free:
        try:
            return merged(orders)
        except Unexplained:
            every = list(dict.fromkeys(n for o in orders for n in o))
            return merged([[n for n in o if n not in free] for o in orders]) + sorted(n for n in every if n in free)
    result = []
    for order in sorted({tuple(o) for o in orders}, key=len, reverse=True):
        position = 0
        for name in order:
            if name in result:
                at = result.index(name)
                if at < position:
                    raise Unexplained(f"order of {name} differs between configs")
                position = at + 1
            else:
                result.insert(position, name)
                position += 1
    for order in orders:
        at = [result.index(n) for n in order]
        if at != sorted(at):
            raise Unexplained("order of children differs between configs")
    return result


def number_or_text(e):
    return int(e) if isinstance(e, str) and re.match(r"^-?\d+$", e) else e


EXPRESSION_KEYS = {"if", "when", "repeat", "config", "activation", "keys"}


def expressions(node):
    """All expressions of a definition."""
    if isinstance(node, dict):
        for k, v in node.items():
            if k in EXPRESSION_KEYS and isinstance(v, str):
                yield v
            elif k in ("with", "attributes", "set") and isinstance(v, dict):
                yield from (x for x in v.values() if isinstance(x, str))
            elif k == "shape":
                yield from (x for x in v if isinstance(x, str))
            elif isinstance(v, (dict, list)):
                yield from expressions(v)
    elif isinstance(node, list):
        for v in node:
            yield from expressions(v)


def names_used(node):
    found = set()
    for e in expressions(node):
        found |= names_in(e)
    return found
