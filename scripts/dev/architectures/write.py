# SPDX-License-Identifier: Apache-2.0
"""Writes data/architectures: definitions that several families share go into parts.json."""
import json
import os

WIDTH = 150


def dump(value, indent=0, lead=0):
    """JSON with what fits on one line on one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent + lead <= WIDTH or not isinstance(value, (dict, list)) or not value:
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        lines = [f"{pad}{json.dumps(k)}: {dump(v, indent + 2, len(k) + 4)}" for k, v in value.items()]
        return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"
    if all(not isinstance(v, (dict, list)) for v in value):
        lines, line = [], pad
        for k, v in enumerate(value):
            text = json.dumps(v, ensure_ascii=False) + ("," if k < len(value) - 1 else "")
            if len(line) + len(text) + 1 > WIDTH and line.strip():
                lines.append(line.rstrip())
                line = pad
            line += text + " "
        lines.append(line.rstrip())
        return "[\n" + "\n".join(lines) + "\n" + " " * indent + "]"
    return "[\n" + ",\n".join(pad + dump(v, indent + 2) for v in value) + "\n" + " " * indent + "]"


def references(node):
    """All module names in a definition, with the dict that holds them."""
    if isinstance(node, dict):
        if isinstance(node.get("module"), str):
            yield node
        for v in node.values():
            yield from references(v)
    elif isinstance(node, list):
        for v in node:
            yield from references(v)


def digest(file, name, cache, busy=()):
    """A text that is equal for equal definitions, whatever file they stand in."""
    if name not in file["modules"]:
        return "layer " + name
    if name in busy:
        return "itself " + name
    if name not in cache:
        made = json.loads(json.dumps(file["modules"][name]))
        for r in references(made):
            r["module"] = digest(file, r["module"], cache, (*busy, name))
        text = name + " " + json.dumps(made, sort_keys=True)
        if busy and "itself" in text:
            return text
        cache[name] = text
    return cache[name]


def share(files, least=3):
    """Moves definitions that at least so many families have into a dict of parts."""
    where = {}
    digests = {}
    for family, file in files.items():
        cache = digests[family] = {}
        for name in file["modules"]:
            where.setdefault(digest(file, name, cache), []).append((family, name))
    parts, names = {}, {}
    shared = {t: w for t, w in where.items() if len({f for f, _ in w}) >= least and "itself" not in t}
    taken = {n for f in files.values() for n in f["modules"]}
    for text, members in sorted(shared.items(), key=lambda x: (x[1][0][1], -len(x[1]), x[0])):
        base = members[0][1]
        names[text] = base
        k = 1
        while names[text] in parts or (k > 1 and names[text] in taken):
            k += 1
            names[text] = f"{base}.{k}"
        parts[names[text]] = text
    result = {}
    for text, members in shared.items():
        family, name = members[0]
        made = json.loads(json.dumps(files[family]["modules"][name]))
        for r in references(made):
            r["module"] = names.get(digests[family].get(r["module"], ""), r["module"])
        result[names[text]] = made
    for family, file in files.items():
        gone = {n: names[t] for n, t in digests[family].items() if t in names}
        for owner in (file["modules"], file["classes"]):
            for r in references(owner):
                r["module"] = gone.get(r["module"], r["module"])
        for n in gone:
            del file["modules"][n]
    return dict(sorted(result.items()))


def shorten(bases, table):
    made, k = [], 0
    while k < len(bases):
        made.append(bases[k])
        tail = table.get(bases[k])
        if tail is not None:
            if bases[k + 1 : k + 1 + len(tail)] != tail:
                return None
            k += len(tail)
        k += 1
    return made


def shorten_all(node, table, failed):
    if isinstance(node, dict):
        if "bases" in node:
            short = shorten(node["bases"], table)
            if short is None:
                failed.append(node["bases"])
            else:
                node["bases"] = short
        for v in node.values():
            shorten_all(v, table, failed)
    elif isinstance(node, list):
        for v in node:
            shorten_all(v, table, failed)


def put(path, value):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(dump(value) + "\n")
