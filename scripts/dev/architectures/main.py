# SPDX-License-Identifier: Apache-2.0
"""The commands of derive-architectures."""
import ast
import hashlib
import inspect
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import torch

import reference
import trace
from trace import plain

import define
import evaluate
import family
import layers
import learn
import prove as proving
from hand import HAND
import sample


def known_configs(folder):
    """{model type: configs, nested ones too}"""
    found = {}

    def add(config):
        if isinstance(config, dict) and "model_type" in config and config not in found.setdefault(config["model_type"], []):
            found[config["model_type"]].append(config)
        for v in config.values():
            if isinstance(v, dict):
                add(v)

    if folder:
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name, "config.json")
            if os.path.exists(path):
                add(json.load(open(path)))
    return found


def outlines(options):
    """The models in each class on its default config, untraced: what families that are not derived yet are outlined with."""
    folder = os.path.join(options.cache, "outlines")
    os.makedirs(folder, exist_ok=True)
    reference.quiet()
    for name in options.names or list(reference.families()):
        path = os.path.join(folder, name + ".json")
        if options.skip_cached and (os.path.exists(path) or os.path.exists(os.path.join(options.cache, name + ".json"))):
            continue
        started = time.time()
        try:
            one = family.Family(name, known_configs(options.configs))
            one.outline()
            one.write_configs(COMMON, rounds=1)
        except Exception as e:
            print(f"{name}: {type(e).__name__}: {str(e)[:200]}", flush=True)
            continue
        json.dump({"file": one.file, "proof": {}, "unbuildable": one.unbuildable, "unexplained": {}, "outlines": one.outlines, **class_facts(one)}, open(path, "w"))
        print(f"{name}: {len(one.outlines)} of {len(one.classes)} classes outlined, {time.time() - started:.1f}s", flush=True)
        for c, e in one.unbuildable.items():
            print(f"    {c}: {e[:260]}")
    return 0


def class_facts(one):
    return {"configs": {c.__name__: family.config_key(k) for c, k in one.classes},
            "class_facts": {c.__name__: {"base_model_prefix": c.base_model_prefix or "", "bases": one.bases_of(c)} for c, _ in one.classes}}


class OutOfTime(BaseException):
    """No Exception: what learns takes those for an expression that cannot be had."""


def out_of_time(*_):
    raise OutOfTime("the family took too long")


def families(options):
    os.makedirs(options.cache, exist_ok=True)
    reference.start()
    bases = known_configs(options.configs)
    extra = set()
    fields_path = os.path.join(options.cache, "fields.txt")
    if os.path.exists(fields_path):
        extra |= set(open(fields_path).read().split())
    names = options.names or list(reference.families())
    for n, name in enumerate(names):
        path = os.path.join(options.cache, name + ".json")
        if options.skip_cached and os.path.exists(path):
            continue
        started = time.time()
        signal.signal(signal.SIGALRM, out_of_time)
        signal.alarm(int(options.limit))
        try:
            one = family.Family(name, bases)
            if not one.classes:
                continue
            one.observe(options.rounds, seconds=options.seconds)
            gathered = time.time()
            for turn in range(options.turns):  # what differs is learned from, until nothing does; the last proof is on configs never seen
                one.define()
                one.write()
                one.write_configs(extra | COMMON)
                learned = time.time()
                report = prove_family(one, options.unseen, 1000 + 100 * turn)
                if not any(r["seen"] for r in report.values()) or turn == options.turns - 1:
                    break
                for r in report.values():
                    for o in r["seen"]:
                        one.observations += o
            for r in report.values():
                del r["seen"]
        except (Exception, OutOfTime) as e:
            traceback.print_exc()
            print(f"{name}: {type(e).__name__}: {e}", flush=True)
            json.dump({"failed": f"{type(e).__name__}: {e}"[:300]}, open(path, "w"))
            continue
        finally:
            signal.alarm(0)
        out = {"file": one.file, "unbuildable": one.unbuildable, "unexplained": one.unexplained, "fields": getattr(one, "field_problems", {}), "proof": report,
               "attributes": sorted(one.config_fields()), "outlines": one.outlines, **class_facts(one)}
        json.dump(out, open(path, "w"))
        good = sum(1 for r in report.values() if not r["different"] and r["configs"])
        print(f"{name}: {len(one.classes)} classes, {len(one.defined)} defined, {good} proven, observed {gathered - started:.1f}s learned {learned - gathered:.1f}s proved {time.time() - learned:.1f}s", flush=True)
        for c, e in {**one.unbuildable, **one.unexplained}.items():
            print(f"    {c}: {e[:260]}")
        for c, e in getattr(one, "field_problems", {}).items():
            print(f"    config {c}: {str(e)[:260]}")
        for c, r in report.items():
            if r["different"]:
                print(f"    {c}: {r['different']}/{r['configs']} differ: {str(r['examples'][0])[:500]}", flush=True)
    return 0


COMMON = {"hidden_size", "vocab_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads", "head_dim", "tie_word_embeddings", "intermediate_size", "num_channels", "image_size", "patch_size",
          "is_encoder_decoder", "d_model", "hidden_sizes", "depths", "embed_dim", "out_features", "out_indices", "stage_names", "max_position_embeddings", "is_decoder", "add_cross_attention", "projection_dim", "embedding_size"}


class Memory(evaluate.Data):
    """Data of one family that is not written yet; other families come from the cache."""

    def __init__(self, name, file, cache):
        self.name, self.cache = name, cache
        self.layers = layers_json({"quiet": quiet_names([file])})
        self.parts = {}
        self.files = {name: file}
        self.common_fields = self.layers["config"]["fields"]
        self.where = {m: name for m in file["models"]}

    def file_of(self, model_type):
        if model_type in self.where:
            return self.files[self.where[model_type]]
        folder = reference.configuration_auto.model_type_to_module_name(model_type)
        if folder not in self.files:
            path = os.path.join(self.cache, folder + ".json")
            if not os.path.exists(path):
                raise evaluate.Wrong(f"no architecture data for model type {model_type}")
            found = json.load(open(path))
            if "file" not in found:
                raise evaluate.Wrong(f"no architecture data for model type {model_type}")
            self.files[folder] = found["file"]
            for m in found["file"]["models"]:
                self.where.setdefault(m, folder)
            for n, d in layers.quiet(quiet_names([found["file"]])).items():
                self.layers["modules"].setdefault(n, d)
        if model_type not in self.files[folder]["models"]:
            raise evaluate.Wrong(f"no architecture data for model type {model_type}")
        return self.files[folder]


def quiet_names(files):
    """Layers that children name and nobody defines."""
    found = set()

    def walk(node, file):
        if isinstance(node, dict):
            m = node.get("module")
            if isinstance(m, str) and m not in file["modules"]:
                found.add(m)
            for v in node.values():
                walk(v, file)
        elif isinstance(node, list):
            for v in node:
                walk(v, file)

    for f in files:
        walk(f, f)
    return found


def layers_json(extra):
    table, definitions = layers.activations()
    own = layers.layers()
    modules = {**definitions, **layers.quiet(n for n in extra["quiet"] if n not in own), **own}
    return {
        "config": {"fields": {"num_labels": {"expression": "len(id2label) if id2label is not None else 2"}, "id2label": None, "is_encoder_decoder": False, "tie_word_embeddings": False,
                              "chunk_size_feed_forward": 0}},
        "bases": extra.get("bases", {}),
        "activations": table,
        "modules": dict(sorted(modules.items())),
    }


def prove_family(one, configs, seed=1000):
    data = Memory(one.folder, one.file, CACHE[0])
    report, counted = {}, {}
    for n, (cls, config_class) in enumerate(one.defined):
        known = one.samplers.get(config_class)
        sampler = sample.Sampler(config_class, [*one.modules, sys.modules[config_class.__module__]], seed + n)
        sampler.start()
        sampler.base, sampler.relevant, sampler.fails, sampler.tries = dict(known.works.get(cls, known.base)), known.relevant, dict(known.fails), dict(known.tries)
        bases = [sampler.base, *map(family.flattened, known.seeds[:2])]
        siblings = sum(1 for _, c in one.defined if c is config_class)
        count = configs if counted.get(config_class, 0) < 1 else max(1, -(-configs // siblings))
        counted[config_class] = counted.get(config_class, 0) + 1
        tried, wrong = proving.prove_class(data, one.file, cls, config_class, family.config_key(config_class), sampler, bases, count)
        learnable = not any("no architecture data" in t for found, _, _ in wrong for t in found)
        report[cls.__name__] = {"seen": [o for _, _, o in wrong] if learnable else [], "configs": tried, "different": len(wrong), "examples": [(f, c) for f, c, _ in wrong[:2]]}
    return report


def part_digests(parts):
    """{digest: name} of the shared parts."""
    import write as writing

    file, cache = {"modules": parts}, {}
    # A name that is taken was given a number; the definition does not know it.
    plainly = lambda name, text: re.sub(r"^\S+", re.sub(r"\.\d+$", "", name), text, count=1)
    return {plainly(name, writing.digest(file, name, cache)): name for name in parts}


def use_parts(file, known):
    """Takes what is shared already from the parts."""
    import write as writing

    cache = {}
    gone = {name: known[text] for name in file["modules"] for text in [writing.digest(file, name, cache)] if text in known}
    for owner in (file["modules"], file["classes"]):
        for r in writing.references(owner):
            r["module"] = gone.get(r["module"], r["module"])
    file["modules"] = {n: d for n, d in file["modules"].items() if n not in gone}


def write_some(options):
    """Writes the families that are named, of a cache that has perhaps only these; all others stay as they are."""
    import write as writing

    reference.start()
    read = lambda name: json.load(open(os.path.join(options.out, name + ".json")))
    at_record = os.path.join(os.path.dirname(options.out), "..", "docs", "architecture-coverage.json")
    index, all_layers, parts, summary = read("index"), read("layers"), read("parts")["modules"], json.load(open(at_record))
    known, trusted = part_digests(parts), set(open(options.trust).read().split()) if options.trust else set()
    for folder in options.names:
        found = json.load(open(os.path.join(options.cache, folder + ".json")))
        file, old = found["file"], read(folder)
        checked = {m: c for m, c in current_checks(options, {folder: found}).items() if m in file["models"]}
        outline_different(found, checked)
        outline_without_rule(folder, found)
        outline_coincidences(folder, found)
        states = outline_unproven(found, trusted)
        without_objects({folder: file})
        complete_fields({folder: file})
        failed = []
        writing.shorten_all(file, all_layers["bases"], failed)
        if failed:
            print("bases that do not fit the table:", failed[:3])
        use_parts(file, known)
        drop_unused(file)
        quiet = [n for n in quiet_names([file]) if n not in parts and n not in all_layers["modules"]]
        all_layers["modules"] = dict(sorted({**all_layers["modules"], **layers.quiet(quiet)}.items()))
        for name, model_types in list(index["classes"].items()):
            index["classes"][name] = [m for m in model_types if m not in old["models"]]
        for name in file["classes"]:
            long = file["prefix"] + name[1:] if name.startswith("$") else name
            index["classes"].setdefault(long, []).extend(sorted(m for m in file["models"] if model_of(found, long, m)))
        index["classes"] = {n: t for n, t in sorted(index["classes"].items()) if t or n not in {old["prefix"] + c[1:] if c.startswith("$") else c for c in old["classes"]} - {
            file["prefix"] + c[1:] if c.startswith("$") else c for c in file["classes"]}}
        index["model_types"] = dict(sorted({**index["model_types"], **{m: folder for m in file["models"]}}.items()))
        writing.put(os.path.join(options.out, folder + ".json"), file)
        count_again(summary, folder, found, states)
        for m, one in checked.items():
            if not one["differences"] and summary["checked_with_weft"]["outlined_as_different"].pop(m, None):
                summary["checked_with_weft"]["model_types"] += 1
                summary["checked_with_weft"]["configs"] += one["configs"]
        print(folder, {n: s for n, (s, _) in states.items() if s != "proven"})
    writing.put(os.path.join(options.out, "layers.json"), all_layers)
    writing.put(os.path.join(options.out, "index.json"), index)
    writing.put(at_record, summary)
    return 0


def count_again(summary, folder, found, states):
    """The coverage after one family was written anew."""
    old = summary["not_proven"].pop(folder, {})
    now = {n: (s, r) for n, (s, r) in states.items() if s in ("outline", "golden")}
    golden = lambda reason: "equal to the golden skeleton" in reason
    for name in sorted(set(old) - set(now)):
        summary["classes_as_golden_only" if golden(old[name]) else "classes_outlined"] -= 1
        if states.get(name, ("",))[0] == "proven":
            summary["classes_proven"] += 1
            summary["configs_tried"] += found["proof"][name]["configs"]
    for name in sorted(set(now) - set(old)):
        summary["classes_proven"] -= 1
        summary["classes_as_golden_only" if now[name][0] == "golden" else "classes_outlined"] += 1
    if now:
        summary["not_proven"] = dict(sorted({**summary["not_proven"], folder: {n: r for n, (_, r) in now.items()}}.items()))
    n_types = len(reference.families()[folder])
    if bool(old) != bool(now):
        summary["types_proven"] += n_types if old else -n_types
        summary["types_outlined"] -= n_types if old else -n_types


CACHE = [os.path.expanduser("~/.cache/weft-architectures")]


def write(options):
    import write as writing

    if options.names:
        return write_some(options)
    reference.start()
    files, found_of, types, covered = {}, {}, {}, {}
    trusted = set(open(options.trust).read().split()) if options.trust else set()
    for folder, names in reference.families().items():
        for path in (os.path.join(options.cache, folder + ".json"), os.path.join(options.cache, "outlines", folder + ".json")):
            found = json.load(open(path)) if os.path.exists(path) else {}
            if "file" in found:
                files[folder], found_of[folder] = found["file"], found
                break
    checked = current_checks(options, found_of)
    for folder, found in found_of.items():
        outline_different(found, {m: c for m, c in checked.items() if m in found["file"]["models"]})
        outline_without_rule(folder, found)
        outline_coincidences(folder, found)
        covered[folder] = outline_unproven(found, trusted)
    without_objects(files)
    complete_fields(files)
    table = {"PreTrainedModel": [c.__name__ for c in reference.PreTrainedModel.__mro__[1:-1]], "GenerationMixin": [c.__name__ for c in reference.transformers.GenerationMixin.__mro__[1:-1]]}
    all_layers = layers_json({"quiet": quiet_names(files.values()), "bases": table})
    failed = []
    for name, f in files.items():
        if name in found_of:
            writing.shorten_all(f, table, failed)
    if failed:
        print("bases that do not fit the table:", failed[:3])
    parts = writing.share(files)
    for old in os.listdir(options.out) if os.path.isdir(options.out) else []:
        os.remove(os.path.join(options.out, old))
    for folder, f in files.items():
        for m in f["models"]:
            if m in types:
                print(f"model type {m} in {folder} and {types[m]}")
            types[m] = folder
        writing.put(os.path.join(options.out, folder + ".json"), f)
    writing.put(os.path.join(options.out, "layers.json"), all_layers)
    writing.put(os.path.join(options.out, "parts.json"), {"modules": parts})
    classes = {}
    for folder, f in files.items():
        for name in f["classes"]:
            long = f["prefix"] + name[1:] if name.startswith("$") else name
            classes.setdefault(long, []).extend(sorted(m for m in f["models"] if model_of(found_of.get(folder), long, m)))
    writing.put(os.path.join(options.out, "index.json"), {"model_types": dict(sorted(types.items())), "classes": dict(sorted(classes.items()))})
    names = sorted([*files, "index", "layers", "parts"])
    with open(options.out.rstrip("/") + ".gresource.xml", "w") as out:
        out.write('<?xml version="1.0" encoding="UTF-8"?>\n<gresources>\n  <gresource prefix="/weft">\n')
        out.write("".join(f'    <file compressed="true">architectures/{n}.json</file>\n' for n in names))
        out.write("  </gresource>\n</gresources>\n")
    summary = coverage(covered, found_of)
    record = os.path.join(os.path.dirname(options.out), "..", "docs", "architecture-coverage.json")
    summary["checked_with_weft"] = checked_summary(checked, types)
    writing.put(record, summary)
    print(f"{len(files)} families, {len(types)} model types, {len(parts)} shared parts")
    print({k: v for k, v in summary.items() if isinstance(v, int)})
    return 0


def configs(options):
    """Derives the rules of configs again, of families whose modules are known."""
    reference.start()
    for name in options.names:
        path = os.path.join(options.cache, name + ".json")
        found = json.load(open(path))
        one = family.Family(name, {})
        one.file = found["file"]
        one.defined = [(c, k) for c, k in one.classes if c.__name__ in found["proof"]]
        before = {m: e["config"]["fields"] for m, e in one.file["models"].items()}
        one.write_configs(set(found.get("attributes", [])) | COMMON, rounds=60)
        found["fields"] = getattr(one, "field_problems", {})
        for m, e in one.file["models"].items():
            for f, rule in e["config"]["fields"].items():
                if before.get(m, {}).get(f) != rule:
                    print(f"{m}.{f}: {str(before.get(m, {}).get(f))[:120]} -> {str(rule)[:160]}", flush=True)
        json.dump(found, open(path, "w"))
    return 0


def model_of(found, cls, model_type):
    """Whether a class is built on the config of a model type."""
    configs = (found or {}).get("configs") or {}
    if cls in configs:
        return configs[cls] == model_type
    return found is None or len(found["file"]["models"]) == 1


def without_objects(files):
    """Rules that give whole objects only repeat what the class has by default."""
    for f in files.values():
        for entry in f["models"].values():
            fields = entry["config"]["fields"]
            for name, rule in list(fields.items()):
                text = rule.get("expression") or rule.get("always") or rule.get("absent") if isinstance(rule, dict) else None
                if text and "{" in text:
                    try:
                        fields[name] = {"literal": ast.literal_eval(text)}
                    except (ValueError, SyntaxError):
                        del fields[name]


def complete_fields(files):
    """Families look into nested configs of other families: their fields need a rule there too."""
    import defaults

    names = set()
    for f in files.values():
        for made in f["modules"].values():
            for e in define.expressions(made):
                names |= family.attributes_in(e)
    for folder, f in files.items():
        try:
            classes = {family.config_key(c): c for c in reference.configuration_classes(folder).values()}
        except Exception:
            continue
        for key, entry in f["models"].items():
            if key not in classes:
                continue
            try:
                default = classes[key]()
            except Exception:
                continue
            for name, spec in (getattr(classes[key], "sub_configs_defaults", None) or {}).items():
                one = entry["config"].get("configs", {}).get(name)
                given = {k: plain(v) for k, v in spec.init_kwargs.items() if defaults.is_json(plain(v)) and k != "model_type"}
                if one is not None and given and not one.get("null"):
                    one["default"] = {**given, **one.get("default", {})}
            nested = defaults.nested(classes[key], default)
            for name, one in entry["config"].get("configs", {}).items():
                if one.get("merge") and not nested.get(name, {}).get("merge"):
                    del one["merge"]
            fields = entry["config"]["fields"]
            for name in sorted(names - set(fields) - set(entry["config"].get("configs", {})) - set(entry["config"].get("aliases", {}))):
                value = default.__dict__.get(name, defaults.MISSING)
                if value is not defaults.MISSING and not trace.is_config(value) and defaults.is_json(plain(value)) and family.COMMON_RULES.get(name, defaults.MISSING) != plain(value):
                    value = plain(value)
                    fields[name] = {"literal": value} if isinstance(value, dict) else value
            entry["config"]["fields"] = dict(sorted(fields.items()))


CHECKED = "checked.json"  # in the cache: what `check` found, by model type


def mark_of(path):
    """Tells whether a file is still the one that was checked."""
    return hashlib.sha256(open(path, "rb").read()).hexdigest()[:16] if os.path.exists(path) else ""


def checks(options):
    path = os.path.join(options.cache, CHECKED)
    return json.load(open(path)) if os.path.exists(path) else {}


def current_checks(options, found_of):
    """What `check` found of the data that stands in the cache now."""
    return {m: c for m, c in checks(options).items() if c["derived"] == mark_of(os.path.join(options.cache, c["family"] + ".json"))}


def outline_different(found, checked):
    """A class that `check` found different (or of which it is known) is as good as not proven, and so are those of its model type and those that hold one of them."""
    configs = found.get("configs") or {}
    bad = {c for c, key in configs.items() for m, one in checked.items() if one["differences"] and key == m}
    for name, proof in found["proof"].items():
        holds = {o["class"] for o in found.get("outlines", {}).get(name, ())}
        if name in bad or holds & bad:
            reason = next((one["differences"][0] for one in checked.values() if one["differences"]), "")
            proof["different"], proof["examples"] = max(1, proof["different"]), [[[reason], {}]]


def is_required(config_class, field):
    """Whether the reference has no default for a field, so that it fails on configs without."""
    try:
        return config_class is not None and not hasattr(config_class(), field)
    except Exception:
        return False


def outline_without_rule(folder, found):
    """A class that uses a config field of which no rule is known is right on some configs only; but one that the reference itself does not know must stand in
    each config."""
    used = set()
    for made in found["file"]["modules"].values():
        for e in define.expressions(made):
            used |= define.names_in(e) | family.attributes_in(e)
    for name, problems in (found.get("fields") or {}).items():
        config_class = reference.configuration_classes(folder).get(name)
        unknown = sorted(f for f, reason in problems.items() if f in used and not reason.endswith("an object") and not (reason.endswith("nothing observed") and is_required(config_class, f)))
        if unknown and config_class is not None:
            outline_different(found, {family.config_key(config_class): {"differences": [f"no rule is known for the config field {', '.join(unknown)}"]}})


ODD_NUMBER = re.compile(r"(?:==|!=) (\d+)\b")


def compared_numbers(folder):
    return {c.value for module in reference.modeling_modules(folder) for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Compare)
            for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, int)}


def outline_coincidences(folder, found):
    """A condition on a number that the source never compares with held for the configs that were seen, and says nothing of others."""
    import write as writing

    modules = found["file"]["modules"]
    numbers = [(n, e, {int(x) for x in ODD_NUMBER.findall(e) if int(x) > learn.SMALL})
               for n, d in modules.items() if d["class"].replace("$", found["file"]["prefix"]) not in HAND for e in define.expressions(d)]
    known = compared_numbers(folder) if any(x for _, _, x in numbers) else set()
    odd = {n: e for n, e, x in numbers if x - known}
    for cls, entry in found["file"]["classes"].items():
        reached, todo = set(), [entry["module"]]
        while todo:
            name = todo.pop()
            if name in modules and name not in reached:
                reached.add(name)
                todo += [r["module"] for r in writing.references(modules[name])]
        proof = found["proof"].get(cls.replace("$", found["file"]["prefix"]) if cls.startswith("$") else cls)
        if proof and odd.keys() & reached:
            name = sorted(odd.keys() & reached)[0]
            proof["different"], proof["examples"] = max(1, proof["different"]), [[[f"{name}: a condition that no source has: {odd[name][:100]}"], {}]]


def checked_summary(checked, types):
    good = {m: c for m, c in checked.items() if m in types and not c["differences"]}
    bad = {m: re.sub(r"/\S*/config.json", "config.json", c["differences"][0]).strip()[:160] for m, c in sorted(checked.items()) if c["differences"]}
    return {"model_types": len(good), "configs": sum(c["configs"] for c in good.values()), "differences": sum(len(c["differences"]) for c in good.values()), "outlined_as_different": bad}


def outline_unproven(found, trusted=()):
    """Replaces classes that are not proven by outlines, which only tell the sub-models; {class: (state, reason)}."""
    file, prefix, states = found["file"], found["file"]["prefix"], {}
    short = lambda n: "$" + n[len(prefix):] if prefix and n.startswith(prefix) else n
    long = lambda n: prefix + n[1:] if n.startswith("$") else n
    facts = found.get("class_facts") or {long(c): {"base_model_prefix": e["base_model_prefix"], "bases": [long(b) for b in e["bases"]]} for c, e in file["classes"].items()}
    names = set(facts)
    for name in sorted(names):
        proof = found["proof"].get(name)
        key = short(name)
        if proof and proof["configs"] and not proof["different"]:
            states[name] = ("proven", "")
            continue
        if name in trusted and key in file["classes"]:
            states[name] = ("golden", "differs on some unseen configs, or was not tried on any; equal to the golden skeleton")
            continue
        if key in file["classes"] and name not in found["proof"]:
            states[name] = ("part", "only as a part of another class: " + found["unbuildable"].get(name, found["unexplained"].get(name, ""))[:120])
            continue
        reason = found["unbuildable"].get(name) or found["unexplained"].get(name) or (str(proof["examples"][0][0][0]) if proof and proof["examples"] else "never built")
        states[name] = ("outline", reason[:160])
        outline = found.get("outlines", {}).get(name)
        entry = file["classes"].setdefault(key, {"module": key, **{k: ([short(b) for b in v] if k == "bases" else v) for k, v in facts[name].items()}})
        entry["outline"] = [{k: (short(v) if k == "class" else v) for k, v in o.items()} for o in outline[1:]] if outline else []
        entry.pop("module", None)
    drop_unused(file)
    return states


def drop_unused(file):
    """Definitions that no class reaches any more."""
    import write as writing

    wanted, todo = set(), [e["module"] for e in file["classes"].values() if "module" in e]
    while todo:
        name = todo.pop()
        if name in wanted or name not in file["modules"]:
            continue
        wanted.add(name)
        todo += [r["module"] for r in writing.references(file["modules"][name])]
    file["modules"] = {n: d for n, d in file["modules"].items() if n in wanted}
    file["classes"] = dict(sorted(file["classes"].items()))


def coverage(covered, found_of):
    types = {}
    for folder, names in reference.families().items():
        for m in names:
            types[m] = folder
    counts = {"model_types": len(types), "types_proven": 0, "types_outlined": 0, "types_without_data": 0, "classes_proven": 0, "classes_as_golden_only": 0, "classes_part": 0, "classes_outlined": 0, "configs_tried": 0, "differences": 0}
    not_proven = {}
    for folder, states in covered.items():
        for name, (state, reason) in states.items():
            counts[{"proven": "classes_proven", "golden": "classes_as_golden_only", "part": "classes_part", "outline": "classes_outlined"}[state]] += 1
            if state in ("outline", "golden"):
                not_proven.setdefault(folder, {})[name] = reason
            proof = found_of[folder]["proof"].get(name)
            if proof and state == "proven":
                counts["configs_tried"] += proof["configs"]
                counts["differences"] += proof["different"]
    for m, folder in types.items():
        states = covered.get(folder)
        if states is None:
            counts["types_without_data"] += 1
        elif any(s in ("outline", "golden") for s, _ in states.values()):
            counts["types_outlined"] += 1
        else:
            counts["types_proven"] += 1
    return {"reference": f"transformers {reference.transformers.__version__}", **counts, "not_proven": dict(sorted(not_proven.items()))}


def check(options):
    """Compares what the command tells of a model with the reference, on configs that the data was not derived from; `write` outlines what differs."""
    reference.quiet()
    data = evaluate.Data(options.out)
    seeds = known_configs(options.configs)
    tried, bad = {}, 0
    for model_type in options.names or data.index["model_types"]:
        if "/" in model_type or model_type not in data.index["model_types"]:
            continue
        found = check_type(options, data, seeds, model_type)
        if not found:
            continue
        tried[model_type] = len(found)
        differences = [f"{cls}: {f[:600]}" for cls, f in found if f]
        bad += len(differences)
        for d in differences:
            print(f"{model_type}: {d}", flush=True)
        folder = data.index["model_types"][model_type]
        record = {**checks(options), model_type: {"family": folder, "derived": mark_of(os.path.join(options.cache, folder + ".json")), "configs": len(found), "differences": differences}}
        json.dump(record, open(os.path.join(options.cache, CHECKED), "w"))
    print(f"{len(tried)} model types, {sum(tried.values())} configs, {bad} differences")
    return 1 if bad else 0


def check_type(options, data, seeds, model_type):
    """[(class, difference or an empty text)] of the largest class of a model type that is known in full."""
    folder, file = data.index["model_types"][model_type], data.file_of(model_type)
    try:
        one = family.Family(folder, seeds, log=lambda text: None)
    except Exception:
        return []
    short = lambda c: "$" + c.__name__.removeprefix(file["prefix"]) if file["prefix"] and c.__name__.startswith(file["prefix"]) else c.__name__
    classes = [(c, k) for c, k in one.classes if family.config_key(k) == model_type and "module" in file["classes"].get(short(c), {})]
    if not classes:
        return []
    cls, config_class = classes[-1]
    sampler = one.sampler(config_class, options.seed)
    if sampler is None:
        return []
    found = []
    for base in (sampler.small, {}, *map(family.flattened, sampler.seeds)):
        sampler.base = dict(base)
        found = [weft_differences(options.with_weft, cls, sampler, strength) for _, strength in zip(range(options.unseen), itertools.cycle((0.1, 0.2, 0.3)))]
        found = [(cls.__name__, f) for f in found if f is not None]
        if found:
            break
    return found


def build_plainly(cls, config):
    """The model without being watched, or an error of the reference."""
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device("meta"):
            return cls(config)
    finally:
        torch.set_default_dtype(old)


def ask_weft(program, cls, sampler, given):
    with tempfile.TemporaryDirectory() as folder:
        config = {**json.loads(json.dumps(plain(given))), "model_type": sampler.config_class.model_type, "architectures": [cls.__name__], "dtype": "bfloat16"}
        json.dump(config, open(os.path.join(folder, "config.json"), "w"))
        return subprocess.run([program, "model", "--json", folder], capture_output=True, text=True)


def weft_differences(program, cls, sampler, strength):
    """None if no config could be built, else a text: empty where the command agrees."""
    module, _ = sampler.attempt(lambda config: build_plainly(cls, config), strength)
    if module is None:
        return None
    run = ask_weft(program, cls, sampler, sampler.last)
    if "says nothing of a model" in run.stderr:  # weft takes no config of which it knows no size: as the reference saves it
        run = ask_weft(program, cls, sampler, json.loads(module.config.to_json_string(use_diff=False)))
    if run.returncode:
        return run.stderr or run.stdout
    told = json.loads(run.stdout)
    modules, tensors = proving.reference_tree(module)
    models = [(p, m) for p, m in modules if isinstance(m, reference.PreTrainedModel)]
    pairs = [
        ([(p, type(m).__name__) for p, m in modules], [(m["fqn"], m["class"]) for m in told["modules"]]),
        ([(n, s, str(d).removeprefix("torch."), stays) for n, s, d, stays, _ in tensors], [(t["name"], t["shape"], t["dtype"], t["persistent"]) for t in told["tensors"]]),
        ([(p, type(m).__name__, m.config.model_type or "", m.base_model_prefix or "") for p, m in models],
         [(m["fqn"], m["class"], m["model_type"], m["base_model_prefix"]) for m in told["sub_models"]]),
        (sorted((getattr(module, "all_tied_weights_keys", None) or {}).items()), sorted(told["tied"].items())),
    ]
    for theirs, mine in pairs:
        if theirs != mine:
            return f"{[x for x in theirs if x not in mine][:2] or 'order'}, not {[x for x in mine if x not in theirs][:2]}"
    return ""


def golden(options):
    folder = options.names[0]
    wanted = set(options.names[1:])
    data = evaluate.Data(options.out)
    good, bad = 0, []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name, "skeleton.json")
        if not os.path.exists(path) or (wanted and name not in wanted):
            continue
        skeleton = json.load(open(path))
        config = json.load(open(os.path.join(folder, name, "config.json")))
        try:
            found = golden_differences(data, skeleton, config)
        except evaluate.Wrong as e:
            found = [str(e)]
        except Exception as e:
            found = [f"{type(e).__name__}: {e}"]
        if found:
            bad.append(name)
            print(f"{name}: {'; '.join(found)[:400]}")
        else:
            good += 1
    print(f"{good} equal, {len(bad)} not: {' '.join(bad)}")
    return 1 if bad else 0


def golden_differences(data, skeleton, config):
    root = data.tree(config, skeleton["class"], skeleton["model_type"])
    modules, tensors = evaluate.flat(root)
    found = []
    theirs = [(m["fqn"], m["class"]) for m in skeleton["modules"]]
    mine = [(p, n.cls) for p, n in modules]
    if theirs != mine:
        only = [x for x in theirs if x not in set(mine)][:3], [x for x in mine if x not in set(theirs)][:3]
        found.append(f"modules: {only}")
    dtype = skeleton["dtype"]
    theirs = [(t["name"], t["shape"], t["dtype"], t["persistent"], t["is_buffer"]) for t in skeleton["tensors"]]
    mine = [(n, s, d or dtype, p, b) for n, s, d, p, b in tensors]
    if theirs != mine:
        only = [x for x in theirs if x not in mine][:3], [x for x in mine if x not in theirs][:3]
        found.append(f"tensors: {only}")
    theirs = [(m["fqn"], m["class"], m["model_type"], m["base_model_prefix"]) for m in skeleton["sub_models"]]
    mine = [(p, n.cls, n.config.model_type, n.file["classes"][n.model].get("base_model_prefix", "")) for p, n in evaluate.models(root)]
    if theirs != mine:
        found.append(f"sub-models: {[x for x in theirs if x not in mine][:3]} {[x for x in mine if x not in theirs][:3]}")
    ties = evaluate.tied(root)
    if ties != skeleton["tied"]:
        found.append(f"tied: {skeleton['tied']} not {ties}")
    for name in ("ignore_on_load_missing", "ignore_on_load_unexpected", "ignore_on_save"):
        if sorted(evaluate.united(root, name)) != sorted(skeleton[name]):
            found.append(f"{name}: {skeleton[name]} not {evaluate.united(root, name)}")
    plan = {}
    for name in sorted(evaluate.united(root, "keep_in_fp32_strict") | (evaluate.united(root, "keep_in_fp32") if dtype == "float16" else set())):
        plan[name] = "float32"
    if sorted(plan) != sorted(skeleton["dtype_plan"]):
        found.append(f"dtype plan: {skeleton['dtype_plan']} not {plan}")
    return found
