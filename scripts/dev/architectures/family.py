# SPDX-License-Identifier: Apache-2.0
"""One family: observe, define, write, prove."""
import ast
import json
import re
import time

import torch
from transformers import PreTrainedModel
from transformers.models.auto import auto_factory
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

import defaults
import define
import observe
import reference
import sample
import trace
from hand import CONFIGS, DERIVED, LISTS, RULES, SEEDS, SETS
from trace import plain
from define import names_in, names_used
from learn import Problem, Unexplained

ROLES = {}


def role_of(auto):
    if auto == "AutoModel":
        return "model"
    text = auto.removeprefix("Auto").removeprefix("ModelFor")
    text = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", text).lower()
    return text


def auto_classes():
    """{config class name: {role: model class name}}"""
    found = {}
    todo = [auto_factory._BaseAutoModelClass]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        mapping = getattr(cls, "_model_mapping", None)
        if mapping is None or not cls.__name__.startswith("Auto"):
            continue
        for model_type, name in mapping._model_mapping.items():
            config = CONFIG_MAPPING_NAMES.get(model_type)
            if config:
                found.setdefault(config, {})[role_of(cls.__name__)] = name[0] if isinstance(name, (tuple, list)) else name
    return found


_auto = None


def auto_of(config_class):
    global _auto
    if _auto is None:
        _auto = auto_classes()
    return _auto.get(config_class.__name__, {})


def config_key(cls):
    """The name of a config class in the data: its model type, with its class name where that is not the registered one."""
    model_type = cls.model_type
    if CONFIG_MAPPING_NAMES.get(model_type) == cls.__name__:
        return model_type
    if model_type and model_type not in CONFIG_MAPPING_NAMES:
        return model_type + "/" + cls.__name__
    return f"{model_type or cls.__module__.split('.')[-2]}/{cls.__name__}"


def prefix_of(classes):
    votes = {}
    for cls, _ in classes:
        for base in cls.__mro__:
            if base.__name__.endswith("PreTrainedModel") and base.__name__ != "PreTrainedModel":
                p = base.__name__.removesuffix("PreTrainedModel")
                votes[p] = votes.get(p, 0) + 1
                break
    return max(sorted(votes), key=votes.get) if votes else ""


class Family:
    def __init__(self, folder, bases=None, log=print):
        self.folder = folder
        self.log = log
        self.classes = reference.model_classes(folder)
        self.modules = reference.modeling_modules(folder)
        self.configs = reference.configuration_classes(folder)
        self.bases = bases or {}  # {model type: [config dicts that are known to work]}
        self.observations = []
        self.samplers = {}
        self.unbuildable = {}
        self.fields = {}
        self.prefix = prefix_of(self.classes)
        self.outlines = {}  # {class: its sub-models on the first config}

    # --- observing ---

    def wanted(self, cls):
        return not cls.__module__.startswith("torch.")

    def builder(self, cls):
        def build(config):
            module, session = trace.build(cls, config, wanted=self.wanted)
            seen = [f.exit_state for f in session.frames if f.exit_state is not None]
            return module, session, seen

        return build

    def observe(self, rounds=26, seed=0, seconds=60):
        by_config = {}
        for cls, config_class in self.classes:
            by_config.setdefault(config_class, []).append(cls)
        for config_class, classes in by_config.items():
            started = time.time()
            sampler = self.sampler(config_class, seed)
            if sampler is None:
                for cls in classes:
                    self.unbuildable[cls.__name__] = "its config cannot be made without arguments"
                continue
            relevant = set()
            working = []
            for cls in classes:
                sampler.base = dict(sampler.small)
                result, changes = self.first(sampler, cls)
                if result is None:
                    self.unbuildable[cls.__name__] = f"{type(changes).__name__}: {str(changes)[:200]}"
                    continue
                working.append(cls)
                self.keep(result, relevant)
            sampler.relevant = sorted(relevant)
            if not working:
                continue
            base = dict(sampler.base)
            for known in sampler.seeds[:2]:
                sampler.base = flattened(known)
                for cls in working[:4]:
                    try:
                        self.keep(self.builder(cls)(sampler.make({})), relevant)
                    except Exception:
                        continue
                result, changes = sampler.attempt(self.builder(working[0]), 0.2)
                if result is not None:
                    self.keep(result, relevant)
            sampler.base = base
            total = max(rounds, 2 * len(working) + 6)
            for k in range(total):
                if time.time() - started > seconds and k >= 2 * len(working) + 6:
                    break
                cls = working[k % len(working)]
                sampler.base = dict(sampler.works[cls])
                result, changes = sampler.attempt(self.builder(cls), (0.15, 0.3, 0.5)[k % 3])
                if result is not None:
                    before = len(relevant)
                    self.keep(result, relevant)
                    if len(relevant) != before:
                        sampler.relevant = sorted(relevant)
            # every field that matters once by itself
            sampler.base = dict(sampler.works[working[0]])
            for key in sampler.relevant:
                if time.time() - started > seconds * 1.5:
                    break
                options = sampler.proposals(key, sampler.base.get(key, sampler.fields.get(key)))
                if sampler.tries.get(key, 0) - sampler.fails.get(key, 0) >= 3 or not options:
                    continue
                for value in options[:1]:
                    try:
                        changes = sampler.refit({key: value})
                        self.keep(self.builder(working[0])(sampler.make(changes)), relevant)
                    except Exception:
                        sampler.note({key: value}, True)

    def sampler(self, config_class, seed):
        made = sample.Sampler(config_class, [*self.modules, __import__("sys").modules[config_class.__module__]], seed)
        try:
            made.start()
        except Exception as e:
            self.log(f"  {config_class.__name__}: {e!r:.200}")
            return None
        made.seeds = [*SEEDS.get(config_class.__name__, []), *self.bases.get(config_class.model_type, [])]
        made.read_more(SEEDS.get(config_class.__name__, []))
        self.samplers.setdefault(config_class, made)
        return made

    def first(self, sampler, cls):
        """The class on the config's defaults made small, on its defaults, or on a config that is known to work."""
        error = None
        for base in (sampler.base, {}, *map(flattened, sampler.seeds)):
            try:
                sampler.works[cls] = sampler.base = dict(base)
                return self.builder(cls)(sampler.make({})), {}
            except Exception as e:
                error = error or e
        sampler.works[cls] = sampler.base = dict(sampler.small)
        for strength in (0.5, 0.3, 0.6, 0.4, 0.3, 0.5, 0.2, 0.7):
            result, found = sampler.attempt(self.builder(cls), strength, tries=5)
            if result is not None:
                sampler.works[cls] = {**sampler.small, **found}
                return result, {}
        return None, error

    def outline(self):
        """Only which models stand in the classes, on default configs."""
        self.file = {"prefix": self.prefix, "models": {}, "classes": {}, "modules": {}}
        self.defined = []
        samplers = {}
        for cls, config_class in self.classes:
            if config_class not in samplers:
                samplers[config_class] = self.sampler(config_class, 0)
            sampler = samplers[config_class]
            if sampler is None:
                self.unbuildable[cls.__name__] = "its config cannot be made without arguments"
                continue
            error = None
            for fields in ({}, *map(flattened, sampler.seeds)):
                try:
                    with torch.device("meta"):
                        self.note_models(cls(sampler.make(fields)))
                    break
                except Exception as e:
                    error = e
            if cls.__name__ not in self.outlines:
                self.unbuildable[cls.__name__] = f"{type(error).__name__}: {str(error)[:200]}"

    def note_models(self, module):
        if type(module).__name__ not in self.outlines:
            self.outlines[type(module).__name__] = [
                {"path": path, "class": type(m).__name__, "model_type": m.config.model_type, "base_model_prefix": m.base_model_prefix or ""}
                for path, m in module.named_modules() if isinstance(m, PreTrainedModel)]

    def keep(self, result, relevant):
        module, session, seen = result
        self.observations += seen
        self.note_models(module)
        relevant |= {(p, f) for p, f in session.looked_at}
        del module

    # --- writing ---

    def define(self):
        self.definer = define.Definer(self.observations)
        self.unexplained = {}
        self.defined = []
        for cls, config_class in self.classes:
            if cls.__name__ in self.unbuildable:
                continue
            key = observe.class_key(cls)
            try:
                self.definer.define(key)
                self.facts(key)
                self.defined.append((cls, config_class))
            except Unexplained as e:
                self.unexplained[cls.__name__] = str(e)[:300]

    def facts(self, key):
        return facts_of(self.definer, key)

    def short(self, name):
        return "$" + name[len(self.prefix):] if self.prefix and name.startswith(self.prefix) else name

    def write(self):
        """The family's file as a dict."""
        modules, wanted = {}, []
        for cls, _ in self.defined:
            wanted.append(observe.class_key(cls))
        done = set()
        while wanted:
            key = wanted.pop(0)
            if key in done:
                continue
            done.add(key)
            made = self.rename(self.definer.definitions[key], wanted)
            modules[self.definition_name(key)] = made
        models_of = {observe.class_key(c) for c, _ in self.classes}
        classes = {}
        for key in done:
            cls = observe.CLASSES[key]
            if issubclass(cls, PreTrainedModel):
                name = self.definition_name(key)
                made = modules[name]
                entry = {"module": name, "base_model_prefix": cls.base_model_prefix or "", "bases": self.bases_of(cls)}
                made.pop("bases", None)
                try:
                    entry.update(self.facts(key))
                except Unexplained as e:
                    self.log(f"  facts of {cls.__name__}: {e}")
                plan = getattr(cls, "_tp_plan", None)
                if plan:
                    entry["parallel_plan"] = jsonable(plan)
                plan = getattr(cls, "_ep_plan", None)
                if plan:
                    entry["expert_plan"] = jsonable(plan)
                classes[self.short(cls.__name__)] = entry
        for name, made in modules.items():
            if "bases" in made:
                made["bases"] = [self.short(b) for b in made["bases"]]
        self.file = {"prefix": self.prefix, "models": {}, "classes": dict(sorted(classes.items())), "modules": dict(sorted(modules.items()))}
        return self.file

    def bases_of(self, cls):
        return [self.short(c.__name__) for c in cls.__mro__[1:-1]]

    def definition_name(self, key):
        return self.short(self.definer.name_of(key))

    def rename(self, node, wanted):
        if isinstance(node, dict):
            made = {}
            for k, v in node.items():
                if k == "module" and isinstance(v, str) and v.startswith("@"):
                    wanted.append(v[1:])
                    made[k] = self.definition_name(v[1:])
                elif k == "class":
                    made[k] = self.short(v)
                elif k == "auto":
                    made[k] = role_of(v)
                else:
                    made[k] = self.rename(v, wanted)
            return made
        if isinstance(node, list):
            return [self.rename(v, wanted) for v in node]
        return node

    # --- config rules ---

    def config_fields(self, extra=()):
        """Fields that expressions of this family use; {config class name or '': names}"""
        names = set()
        for made in self.file["modules"].values():
            used = names_used(made) - {a.partition("=")[0] for a in made.get("arguments", [])}
            names |= used
            for e in define.expressions(made):
                names |= attributes_in(e)
        for entry in self.file["classes"].values():
            for e in fact_conditions(entry):
                names |= names_in(e) | attributes_in(e)
        names -= set(define.LOOPS) | {"config"}
        return names | set(extra)

    def write_configs(self, extra, rounds=50, again=True):
        used = self.config_fields(extra)
        todo = dict(self.configs)
        for _, config_class in self.classes:
            todo.setdefault(config_class.__name__, config_class)
        done = {}
        for name, cls in todo.items():
            if cls.__module__.split(".")[-2] != self.folder:
                continue
            key = config_key(cls)
            try:
                default = cls()
            except Exception:
                continue
            entry = self.config_entry(cls, default, used, rounds)
            if cls.model_type != key:
                entry["model_type"] = cls.model_type
            done[key] = entry
        self.file["models"] = dict(sorted(done.items()))
        more = {n for e in done.values() for rule in e["config"]["fields"].values() if isinstance(rule, dict) for k in ("expression", "always", "absent") if k in rule for n in attributes_in(rule[k])}
        if again and more - used:  # rules that look into nested configs
            self.write_configs(set(extra) | more, rounds, again=False)

    def config_entry(self, cls, default, used, rounds):
        sampler = self.samplers.get(cls)
        if sampler is None or not sampler.base:
            sampler = self.sampler(cls, 0)
        observed = defaults.Fields(cls)
        if sampler is not None:
            observe_config(sampler, observed, used, rounds)
        rules, config = {}, {}
        nested = defaults.nested(cls, default)
        wanted = set(used)
        for rule in RULES.get(cls.__name__, {}).values():  # what the written rules look at
            for k in ("expression", "always", "absent"):
                if isinstance(rule, dict) and k in rule:
                    wanted |= names_in(rule[k]) & set(default.__dict__)
        problems, skipped = {}, set()
        for _ in range(4):
            for field in sorted(wanted - set(rules) - set(problems) - skipped):
                skipped.add(field)
                field = cls.attribute_map.get(field, field)
                if field in nested or field in rules or field in ("num_labels", "id2label"):
                    continue
                try:
                    rule = observed.rule(field)
                except Unexplained as e:
                    problems[field] = str(e)
                    continue
                if rule is None and field not in default.__dict__:
                    continue
                if isinstance(rule, dict) and not {"expression", "always", "absent"} & set(rule):
                    rule = {"literal": rule}
                if rule is defaults.MISSING or (not isinstance(rule, dict) and not defaults.is_json(rule)):
                    continue
                if rule == COMMON_RULES.get(field, defaults.MISSING):
                    continue
                rules[field] = rule
                if isinstance(rule, dict):
                    for k in ("expression", "always", "absent"):
                        if k in rule:
                            wanted |= names_in(rule[k]) - {"i"}
        try:
            if default.num_labels != 2 and default.num_labels is not None:
                rules["num_labels"] = {"expression": f"len(id2label) if id2label is not None else {int(default.num_labels)}"}
        except Exception:
            pass
        for f, rule in RULES.get(cls.__name__, {}).items():
            rules[f] = rule
            problems.pop(f, None)
        config["fields"] = dict(sorted(rules.items()))
        if problems:
            self.field_problems = getattr(self, "field_problems", {})
            self.field_problems[cls.__name__] = problems
            for f in problems:  # the default itself is better than nothing
                value = observed.result(observed.default, f)
                if value is not defaults.MISSING and defaults.is_json(value):
                    config["fields"][f] = value if not isinstance(value, dict) else {"literal": value}
        if cls.attribute_map:
            config["aliases"] = dict(sorted(cls.attribute_map.items()))
        if nested:
            config["configs"] = {}
            for name, entry in nested.items():
                one = {}
                if entry["class"] is not None:
                    one["model_type"] = config_key(entry["class"])
                for k in ("auto", "null", "merge", "flat", "default"):
                    if entry.get(k):
                        one[k] = entry[k]
                config["configs"][name] = one
        for name, entry in nested.items():  # fields that the parent puts into a nested config
            if entry["class"] is None or name not in config.get("configs", {}):
                continue
            try:
                alone = entry["class"]().__dict__
            except Exception:
                continue
            for f in sorted(used - set(alone) - set(entry["class"].attribute_map)):
                rows = [(getattr(c, name).__dict__[f], c) for _, c in observed.seen if trace.is_config(getattr(c, name, None)) and f in getattr(c, name).__dict__]
                if len(rows) < 5 or any(not isinstance(plain(v), (int, float, str)) for v, _ in rows):
                    continue
                for other in sorted(rows[0][1].__dict__):
                    if all(plain(c.__dict__.get(other)) == plain(v) and not isinstance(c.__dict__.get(other), bool) for v, c in rows):
                        config["configs"][name].setdefault("set", {})[f] = other
                        value = default.__dict__.get(other)
                        if other not in config["fields"] and defaults.is_json(plain(value)):
                            config["fields"][other] = plain(value)
                        break
        for name, sets in SETS.get(cls.__name__, {}).items():
            config["configs"][name].setdefault("set", {}).update(sets)
        for name, one in CONFIGS.get(cls.__name__, {}).items():
            config.setdefault("configs", {})[name] = one
            config["fields"].pop(name, None)
        for name, model_type in DERIVED.get(cls.__name__, {}).items():
            config.setdefault("configs", {})[name] = {"model_type": model_type, "derived": True}
        made = {"config": config}
        autos = auto_of(cls)
        known = {c.__name__ for c, _ in self.defined}
        autos = {r: self.short(n) for r, n in sorted(autos.items()) if n in known and (r in ROLES_USED or r in ("model", "causal_lm", "backbone"))}
        if autos:
            made["auto"] = autos
        if getattr(cls, "base_model_tp_plan", None):
            made["parallel_plan"] = jsonable(cls.base_model_tp_plan)
        if getattr(cls, "base_model_ep_plan", None):
            made["expert_plan"] = jsonable(cls.base_model_ep_plan)
        return made


ROLES_USED = {"model", "causal_lm", "backbone", "image_text_to_text", "seq2seq_lm", "conditional_generation", "text_encoding", "audio_tokenization", "vision2_seq", "vision_2_seq", "keypoint_detection", "object_detection", "ctc", "depth_estimation", "text_to_waveform", "multimodal_lm", "audio_frame_classification"}


def attributes_in(expression):
    try:
        tree = ast.parse(expression, mode="eval")
    except SyntaxError:
        return set()
    return {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}


def jsonable(value):
    if isinstance(value, dict):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def flattened(config, path=()):
    found = {}
    for k, v in config.items():
        if isinstance(v, dict) and (k.endswith("_config") or k in ("encoder", "decoder", "vision", "text")) and k not in ("quantization_config",):
            found[path, k] = {"model_type": v["model_type"]} if "model_type" in v else {}
            found.update({p: x for p, x in flattened(v, path + (k,)).items() if p[1] != "model_type" or True})
        elif k not in ("architectures", "transformers_version", "dtype", "torch_dtype", "auto_map", "quantization_config", "num_labels", "label2id") and not (k == "model_type" and not path):
            found[path, k] = v
    return found


def fact_conditions(entry):
    for v in entry.values():
        if isinstance(v, dict) and isinstance(v.get("expression"), str):
            yield v["expression"]
        if isinstance(v, list):
            for x in v:
                if isinstance(x, dict) and "if" in x:
                    yield x["if"]


COMMON_RULES = {"id2label": None, "is_encoder_decoder": False, "tie_word_embeddings": False, "chunk_size_feed_forward": 0}  # also in layers.json
FACTS = ("ties", "ignore_on_load_missing", "ignore_on_load_unexpected", "ignore_on_save", "keep_in_fp32", "keep_in_fp32_strict")


def facts_of(definer, key):
    """Ties and lists of a class; where they follow the config: a list of {"if", "value"}."""
    observations = [o for o in definer.by_key[key] if o.facts]
    made = {}
    for name in FACTS:
        written = LISTS.get(key.rsplit(".", 1)[-1], {}).get(name)
        if written is not None:
            made[name] = {"expression": written}
            continue
        values = [o.facts[name] for o in observations]
        texts = [json.dumps(v, sort_keys=False) for v in values]
        distinct = list(dict.fromkeys(texts))
        if len(distinct) <= 1:
            if values and values[0]:
                made[name] = values[0]
            continue
        accessed = set().union(*[o.accessed for o in observations])
        problem = Problem([(o.env, o.pool) for o in observations], accessed, set())
        options = []
        for t in distinct:
            true = sum(1 << k for k, x in enumerate(texts) if x == t)
            p = define.tidy(problem.predicate(true, ((1 << len(texts)) - 1) & ~true))
            if json.loads(t):
                options.append({"if": p, "value": json.loads(t)})
        made[name] = options
    return made


def observe_config(sampler, observed, used, rounds):
    """Constructs the config with random fields given, null or left out."""
    cls = sampler.config_class
    rng = sampler.random
    relevant = sampler.relevant
    keys = [k for k in sampler.fields if k[0] == () and (k[1] in used or k in (relevant or ()) or isinstance(sampler.fields[k], (int, list)) or sampler.fields[k] is None)]
    keys = [k for k in keys if not sample.NEVER.search(k[1]) or (k[1] in used and k[1] != "stage_names")]
    inject_config(cls)
    for n in range(rounds):
        changes = {}
        if n % 2 == 0 and n:  # lists of one length together
            sampler.relevant, kept = keys, sampler.relevant
            changes = sampler.random_changes(0.25)
            sampler.relevant = kept
        for key in keys:
            if rng.random() < (0.0 if n == 0 else 0.3):
                options = sampler.proposals(key, sampler.fields[key])
                if sample.LAYERS.search(key[1]) and isinstance(sampler.fields[key], int) and rng.random() < 0.6:
                    options = [7, 9, 12, 13, 24, 30]
                if options:
                    changes.setdefault(key, rng.choice(options))
                elif sampler.fields[key] is not None:
                    changes.setdefault(key, sampler.fields[key])
            elif rng.random() < 0.06 and n:
                changes[key] = None
        if n % 3:
            for key in sampler.fields:
                if key[0] and rng.random() < (0.6 if key[1] == "tie_word_embeddings" else 0.15):
                    options = sampler.proposals(key, sampler.fields[key])
                    if options:
                        changes[key] = rng.choice(options)
        base, sampler.base = sampler.base, {} if n % 2 else sampler.base
        for _ in range(5):
            try:
                config = sampler.make(changes)
                given = {k: v for k, v in sampler.last.items()}
                observed.add({cls.attribute_map.get(k, k): v for k, v in given.items()}, config, traced_config(sampler, given))
                if n % 4 == 0:  # as it is saved
                    saved = json.loads(config.to_json_string(use_diff=False))
                    observed.add({cls.attribute_map.get(k, k): v for k, v in saved.items()}, cls.from_dict(json.loads(json.dumps(saved))))
                break
            except Exception:
                if not changes:
                    break
                changes = {k: v for k, v in changes.items() if rng.random() < 0.5}
        sampler.base = base


def inject_config(cls):
    import sys

    module = sys.modules[cls.__module__]
    for key, value in trace.TRACED.items():
        vars(module).setdefault(key, value)


def traced_config(sampler, given):
    """The same config made of numbers that carry the names of their fields."""
    cls = sampler.config_class
    arguments = {}
    for (path, field), value in sampler.fields.items():
        if path == () and field in cls.__dataclass_fields__ and field not in given and isinstance(value, (int, float, list)) and not isinstance(value, bool) and not sample.NEVER.search(field):
            arguments[field] = trace.wrap(value, field)
    for field, value in given.items():
        arguments[field] = trace.wrap(value, field) if isinstance(value, (int, float, list)) and not isinstance(value, bool) else json.loads(json.dumps(plain(value)))
    try:
        return cls(**arguments)
    except Exception:
        return None
