# SPDX-License-Identifier: Apache-2.0
"""A small evaluator of the architecture data: what core/model does, in Python, to prove the data against the reference."""
import ast
import functools
import json
import os
import re

from learn import FUNCTIONS, Global


class Wrong(Exception):
    pass


@functools.lru_cache(maxsize=None)
def _compiled(expression):
    return compile(expression, "<expression>", "eval")


class Config:
    """A config.json (or a nested one) under the rules of its model type; fields are resolved when they are asked for."""

    def __init__(self, data, raw, model_type, over=None):
        self._data, self._type = data, model_type
        self._rules = data.config_rules(model_type)
        aliases = self._rules.get("aliases", {})
        self._raw = {aliases.get(k, k): v for k, v in raw.items()}
        self._aliases = aliases
        self._over = over or {}
        self._cache = {}
        self._busy = set()

    def with_set(self, changes):
        made = Config(self._data, self._raw, self._type, {**self._over, **{self._aliases.get(k, k): v for k, v in changes.items()}})
        return made

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        name = self._aliases.get(name, name)
        if name in self._over:
            return self._over[name]
        if name not in self._cache:
            if name in self._busy:
                raise Wrong(f"config field {name} of {self._type} depends on itself")
            self._busy.add(name)
            try:
                self._cache[name] = self._resolve(name)
            finally:
                self._busy.discard(name)
        return self._cache[name]

    def _resolve(self, name):
        if name == "raw":
            return Raw(self._raw)
        if name == "model_type":
            return self._data.file_of(self._type)["models"][self._type].get("model_type", self._type)
        nested = self._rules.get("configs", {}).get(name)
        if nested is not None:
            return self._nested(name, nested)
        rules = self._rules.get("fields", {})
        rule = rules.get(name)
        if isinstance(rule, dict) and "always" in rule:
            if "default" in rule:
                return evaluate(rule["always"], Scope(self, {"given": self._raw.get(name, rule["default"])}))
            return self.evaluate(rule["always"])
        if name in self._raw and (self._raw[name] is not None or not (isinstance(rule, dict) and "expression" in rule)):
            return self._raw[name]
        if isinstance(rule, dict) and ("expression" in rule or "absent" in rule):
            if "default" in rule and name not in self._raw:
                return rule["default"]
            return self.evaluate(rule["expression"] if "expression" in rule else rule["absent"])
        if name in rules:
            return rule["literal"] if isinstance(rule, dict) and "literal" in rule else rule
        common = self._data.common_fields.get(name)
        if isinstance(common, dict) and "expression" in common:
            return self.evaluate(common["expression"])
        if name in self._data.common_fields:
            return common
        raise AttributeError(f"config of {self._type} has no field {name}")

    def _nested(self, name, nested):
        raw = self._raw.get(name)
        if nested.get("derived"):
            return None if name in self._raw else Config(self._data, self._raw, nested["model_type"], {"model_type": self.model_type})
        if raw is None:
            if nested.get("null") and (name not in self._raw or True):
                return None
            raw = nested.get("default", {})
            if nested.get("flat"):
                raw = {**raw, **{k: v for k, v in self._raw.items() if k not in ("model_type", "architectures") and k not in self._rules["configs"]}}
            model_type = nested["model_type"]
        else:
            model_type = raw.get("model_type", nested.get("model_type")) if nested.get("auto") else nested["model_type"]
            if nested.get("merge"):
                raw = {**nested.get("default", {}), **raw}
        made = Config(self._data, raw, model_type)
        if "set" in nested:
            made = made.with_set({k: self.evaluate(e) for k, e in nested["set"].items()})
        return made

    def evaluate(self, expression):
        return evaluate(expression, Scope(self, {}))


class Raw:
    """config.json as it is; what is not there is None."""

    def __init__(self, raw):
        self._raw = raw

    def __getattr__(self, name):
        return self._raw.get(name)


class Scope:
    def __init__(self, config, names):
        self.config, self.names = config, names

    def __getitem__(self, name):
        if name in self.names:
            return self.names[name]
        if name == "config":
            return self.config
        if self.config is not None:
            try:
                return getattr(self.config, name)
            except AttributeError as e:
                raise KeyError(str(e)) from None
        raise KeyError(name)


def evaluate(expression, scope):
    if not isinstance(expression, str):
        return expression
    try:
        return eval(_compiled(expression), Global(scope) if " for " in expression else FUNCTIONS, scope)
    except Wrong:
        raise
    except Exception as e:
        raise Wrong(f"{expression}: {type(e).__name__}: {e}") from None


class Data:
    def __init__(self, folder):
        self.folder = folder
        self.layers = json.load(open(os.path.join(folder, "layers.json")))
        self.parts = {}
        for name in sorted(os.listdir(folder)):
            if name.startswith("parts") and name.endswith(".json"):
                self.parts.update(json.load(open(os.path.join(folder, name)))["modules"])
        self.index = json.load(open(os.path.join(folder, "index.json")))
        self.files = {}
        self.common_fields = self.layers["config"]["fields"]

    def bases(self, file, names):
        """A class's ancestors; those that many share stand for their own ancestors too."""
        found = []
        for name in names:
            found += [file.get("prefix", "") + name[1:] if name.startswith("$") else name, *self.layers["bases"].get(name, [])]
        return found

    def file_of(self, model_type):
        name = self.index["model_types"].get(model_type)
        if name is None:
            raise Wrong(f"no architecture data for model type {model_type}")
        if name not in self.files:
            self.files[name] = json.load(open(os.path.join(self.folder, name + ".json")))
        return self.files[name]

    def config_rules(self, model_type):
        return self.file_of(model_type)["models"][model_type].get("config", {})

    def tree(self, config_json, cls, model_type=None):
        """(modules, tensors, facts) of class cls on a config.json."""
        model_type = model_type or config_json["model_type"]
        file = self.file_of(model_type)
        config = Config(self, config_json, model_type)
        return self.build(file, cls, config)

    def build(self, file, cls, config):
        builder = Builder(self)
        prefix = file.get("prefix", "")
        key = next((k for k in file["classes"] if k.replace("$", prefix, 1) == cls), None)
        if key is None:
            raise Wrong(f"no class {cls}")
        root = builder.model(file, key, config, {}, "")
        return root


class Node:
    __slots__ = ("names", "cls", "bases", "attributes", "tensors", "children", "model", "file", "config", "definition")

    def __init__(self, cls):
        self.cls, self.bases, self.attributes, self.tensors, self.children, self.model, self.file, self.config = cls, None, {}, [], {}, None, None, None


class Builder:
    def __init__(self, data):
        self.data = data

    def name(self, file, text):
        return file.get("prefix", "") + text[1:] if text.startswith("$") else text

    def model(self, file, key, config, arguments, path):
        entry = file["classes"][key]
        if "module" not in entry:
            raise Wrong(f"{path}: {key} is only outlined")
        node = self.definition(file, self.find(file, entry["module"]), config, arguments, path)
        node.cls = self.name(file, key)
        node.bases = self.data.bases(file, entry["bases"])
        return node

    def find(self, file, name):
        for place in (file["modules"], self.data.parts, self.data.layers["modules"]):
            if name in place:
                return place[name]
        raise Wrong(f"no module definition {name}")

    def definition(self, file, definition, config, given, path):
        names = {}
        for a in definition.get("arguments", []):
            name, _, default = a.partition("=")
            if name in given:
                names[name] = given[name]
            elif default:
                names[name] = evaluate(default, Scope(None, {}))
            else:
                raise Wrong(f"{path}: argument {name} is missing")
        return self.fill(file, definition, Scope(config, names), path)

    def fill(self, file, definition, scope, path):
        cls = self.name(file, definition["class"])
        node = Node(cls)
        node.names = scope.names
        node.bases = self.data.bases(file, definition.get("bases", ["Module"]))
        key = definition["class"]
        if key in file["classes"]:
            node.model, node.file, node.config = key, file, scope.config
            node.bases = self.data.bases(file, file["classes"][key]["bases"])
        inner = Scope(scope.config, dict(scope.names))
        for name, e in definition.get("attributes", {}).items():
            node.attributes[name] = inner.names[name] = evaluate(e, inner)
        self.tensors(node, definition.get("tensors", []), inner, path)
        for child in definition.get("children", []):
            self.child(file, node, child, inner, path)
        return node

    def tensors(self, node, tensors, scope, path):
        for t in tensors:
            if "repeat" in t:
                for k in range(evaluate(t["repeat"], scope)):
                    self.tensors(node, t["tensors"], Scope(scope.config, {**scope.names, t["index"]: k}), path)
                continue
            if "if" in t and not evaluate(t["if"], scope):
                continue
            shape = [evaluate(s, scope) for s in t["shape"]]
            name = re.sub(r"\{(\w+)\}", lambda m: str(scope.names[m.group(1)]), t["name"])
            if any(not isinstance(s, int) or isinstance(s, bool) for s in shape):
                raise Wrong(f"{path}.{name}: shape {shape} of {t['shape']}")
            node.tensors.append((name, shape, t.get("dtype"), t.get("persistent", True), t.get("buffer", False)))

    def child(self, file, parent, child, scope, path):
        name = child["name"]
        if ".*." in name:  # in every member of a list
            before, after = name.split(".*.")
            box = parent
            for part in before.split("."):
                if part not in box.children:
                    return
                box = box.children[part]
            for k in list(box.children):
                self.child(file, box, {**{x: v for x, v in child.items() if x != "index"}, "name": f"{k}.{after}"}, Scope(scope.config, {**scope.names, child["index"]: int(k)}), path)
            return
        if "." in name:  # in a module further down
            *inner, name = name.split(".")
            for part in inner:
                if part not in parent.children:
                    raise Wrong(f"{path}: no module {child['name']}")
                parent = parent.children[part]
            path = ".".join([path, *inner]) if path else ".".join(inner)
        if child.get("remove"):
            if "if" not in child or evaluate(child["if"], scope):
                parent.children.pop(name, None)
            return
        if "repeat" in child:
            if "when" in child and not evaluate(child["when"], scope):
                return
            if name not in parent.children:
                parent.children[name] = Node(child.get("container", "ModuleList"))
                parent.children[name].bases = ["Module"]
            self.repeat(file, parent.children[name], child, scope, f"{path}.{name}")
            return
        if "if" in child and not evaluate(child["if"], scope):
            return
        made = self.one(file, child, scope, f"{path}.{name}" if path else name)
        if "dtype" in child:
            self.convert(made, child["dtype"])
        for cls, other in child.get("replace", {}).items():
            if "if" not in other or evaluate(other["if"], scope):
                self.replace(file, made, cls, other, path)
        parent.children[name] = made

    def convert(self, node, dtype):
        node.tensors = [(n, s, d or dtype, p, b) for n, s, d, p, b in node.tensors]
        for c in node.children.values():
            self.convert(c, dtype)

    def replace(self, file, node, cls, other, path):
        for name, c in node.children.items():
            if c.cls == cls:
                scope = Scope(None, c.names)
                node.children[name] = self.definition(file, self.find(file, other["module"]), None, {k: evaluate(v, scope) for k, v in other.get("with", {}).items()}, path)
            else:
                self.replace(file, c, cls, other, path)

    def repeat(self, file, box, child, scope, path):
        count = evaluate(child["repeat"], scope)
        for k in range(count):
            inner = Scope(scope.config, {**scope.names, child["index"]: k} if "index" in child else scope.names)
            if "if" in child and not evaluate(child["if"], inner):
                continue
            made = self.one(file, child, inner, f"{path}.{k}")
            if "dtype" in child:
                self.convert(made, child["dtype"])
            box.children[str(k)] = made
        if "if" in child:
            box.children = dict(sorted(box.children.items(), key=lambda x: int(x[0])))

    def one(self, file, child, scope, path):
        config = scope.config
        if "config" in child:
            config = evaluate(child["config"], scope)
        if "set" in child:
            config = config.with_set({k: evaluate(v, scope) for k, v in child["set"].items()})
        if "activation" in child:
            text = evaluate(child["activation"], scope)
            cls = self.data.layers["activations"].get(text)
            if cls is None:
                raise Wrong(f"{path}: unknown activation {text}")
            return self.definition(file, self.data.layers["modules"][cls], None, {}, path)
        if "auto" in child:
            if config is None:
                raise Wrong(f"{path}: its config is null")
            other = self.data.file_of(config._type)
            cls = other["models"][config._type].get("auto", {}).get(child["auto"])
            if cls is None:
                raise Wrong(f"{path}: no {child['auto']} class for {config._type}")
            return self.model(other, cls, config, self.arguments(child, scope), path)
        module = child["module"]
        if isinstance(module, str):
            return self.definition(file, self.find(file, module), config, self.arguments(child, scope), path)
        if "items" in module:
            box = Node(module["class"])
            box.bases = ["Module"]
            self.repeat(file, box, module["items"], scope, path)
            return box
        return self.fill(file, module, Scope(config, scope.names), path)

    def arguments(self, child, scope):
        return {k: evaluate(v, scope) for k, v in child.get("with", {}).items()}


def fact(node, name):
    """Ties or a list of names of a model, for its config."""
    value = node.file["classes"][node.model].get(name, {} if name == "ties" else [])
    if isinstance(value, list) and value and isinstance(value[0], dict):
        scope = Scope(node.config, {})
        value = next((v["value"] for v in value if evaluate(v["if"], scope)), {} if name == "ties" else [])
    if name != "ties" and isinstance(value, dict):
        value = sorted(evaluate(value["expression"], Scope(node.config, {})))
    return value


def models(node, path="", found=None):
    """[(path, node)] of the models in walk order."""
    found = [] if found is None else found
    if node.model is not None:
        found.append((path, node))
    for name, c in node.children.items():
        models(c, f"{path}.{name}" if path else name, found)
    return found


def tied(root):
    """{target: source} of a tree: every model adds its own, its children's come after."""

    def own(node):
        try:
            if not node.config.tie_word_embeddings:
                return {}
        except AttributeError:
            return {}
        ties = fact(node, "ties")
        plain = r"^[A-Za-z0-9_\.]+(weight|bias)$"
        if all(re.search(plain, k) for k in ties) and all(re.search(plain, v) for v in ties.values()):
            return dict(ties)
        names = sorted(t[0] for t in flat(node)[1])
        found = {}
        for target, source in ties.items():
            targets = sorted(n for n in names if re.search("^" + target, n))
            sources = sorted(n for n in names if re.search("^" + source, n))
            if not sources or not targets or len(targets) % len(sources):
                raise Wrong(f"tie {target}: {source} has {len(targets)} targets and {len(sources)} sources")
            for k, t in enumerate(targets):
                s = sources[k % len(sources)]
                found[t] = found.get(s, s)
        return found

    def walk(node):
        found = own(node) if node.model is not None else {}
        for name, c in node.children.items():
            if c.model is not None:
                found.update({f"{name}.{k}": f"{name}.{v}" for k, v in walk(c).items()})
        return found

    return walk(root)


def united(root, name):
    """A list of a model and of its children that are models, as the reference gathers it."""
    found = set(fact(root, name))
    for child, c in root.children.items():
        if c.model is not None:
            found |= {f"{child}.{k}" if name == "ignore_on_save" else k for k in united(c, name)}
    return found


def flat(node):
    """Modules and tensors in the reference's order."""
    modules, persistent, others = [], [], []

    def walk(n, path):
        modules.append((path, n))
        for name, shape, dtype, stays, is_buffer in n.tensors:
            full = f"{path}.{name}" if path else name
            (persistent if stays else others).append((full, shape, dtype, stays, is_buffer))
        for name, c in n.children.items():
            walk(c, f"{path}.{name}" if path else name)

    walk(node, "")
    return modules, persistent + sorted(others)
