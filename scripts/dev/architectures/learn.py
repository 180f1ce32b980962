# SPDX-License-Identifier: Apache-2.0
"""Finds the smallest expression that explains what was observed, over everything that was observed.

A traced expression is only a candidate: what counts is that it gives the observed value in every observation.
"""
import ast
import builtins
import math
import re

import trace


class Unexplained(Exception):
    pass


def is_list(value):
    return isinstance(value, (list, tuple))


FUNCTIONS = {
    "len": len, "min": min, "max": max, "abs": abs, "int": int, "round": round, "ceil": math.ceil, "floor": math.floor, "sum": sum, "any": any, "all": all,
    "range": range, "is_list": is_list, "str": str,
    "True": True, "False": False, "None": None, "true": True, "false": False, "null": None, "__builtins__": {},
}

class Global(dict):
    """Globals for expressions with a comprehension, whose inner names Python does not look up among the locals."""

    def __init__(self, env):
        dict.__init__(self, FUNCTIONS)
        self.env = env

    def __missing__(self, name):
        return self.env[name]


_code = {}
_values = {}
MISSING = object()


def compiled(expression):
    code = _code.get(expression)
    if code is None:
        try:
            code = compile(re.sub(r"\bR(\d+)\b", r"\1", expression), "<expression>", "eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            code = False
        _code[expression] = code
    return code


def evaluate(expression, env):
    """The value, or MISSING where it cannot be had."""
    code = compiled(expression)
    if code is False:
        return MISSING
    try:
        value = eval(code, Global(env) if " for " in expression else FUNCTIONS, env)
    except Exception:
        return MISSING
    return trace.plain(value) if not isinstance(value, (int, float, str, bool, type(None))) or isinstance(value, (trace.TInt, trace.TFloat)) else value


def split_list(e, count):
    """The expressions of the elements of a list expression."""
    try:
        tree = ast.parse(re.sub(r"\bR(\d+)\b", r"\1", e), mode="eval").body if e else None
    except SyntaxError:
        tree = None
    if isinstance(tree, ast.List) and len(tree.elts) == count:
        return [ast.unparse(x) for x in tree.elts]
    return [None] * count


def near(a, b):
    if a is MISSING:
        return False
    if isinstance(b, list):
        return isinstance(a, list) and len(a) == len(b) and all(near(x, y) for x, y in zip(a, b))
    return isinstance(a, (int, float)) and abs(a - b) < 1e-4 and (a > 0) == (b > 0)


def same(a, b):
    if isinstance(a, bool) or isinstance(b, bool):
        return isinstance(a, bool) and isinstance(b, bool) and a == b
    if type(a) is not type(b) and not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        return False
    return a == b


def whole(a, b):
    """Whether a stands for b where b is an extent: 2.0 is none."""
    return same(a, b) and not (isinstance(a, float) and isinstance(b, int))


def tidy(expression):
    if expression is None:
        return None
    try:
        tree = ast.parse(re.sub(r"\bR(\d+)\b", r"\1", expression), mode="eval")
    except SyntaxError:
        return expression
    return ast.unparse(_Tidy().visit(tree))


class _Tidy(ast.NodeTransformer):
    def visit_BinOp(self, node):
        self.generic_visit(node)
        left, right = node.left, node.right

        def number(n, v):
            return isinstance(n, ast.Constant) and n.value == v and not isinstance(n.value, bool)

        if isinstance(node.op, (ast.Add, ast.Sub)) and number(right, 0):
            return left
        if isinstance(node.op, ast.Add) and number(left, 0):
            return right
        if isinstance(node.op, ast.Mult) and number(right, 1):
            return left
        if isinstance(node.op, ast.Mult) and number(left, 1):
            return right
        if isinstance(node.op, ast.FloorDiv) and number(right, 1):
            return left
        if all(isinstance(n, ast.Constant) and isinstance(n.value, int) and not isinstance(n.value, bool) for n in (left, right)):
            value = evaluate(ast.unparse(node), {})
            if isinstance(value, int) and value >= 0:
                return ast.Constant(value)
        return node


LOOP = re.compile(r"\bR(\d+)\b|\[(\d+)\]")


def abstractions(expression, env):
    """The expression, its loop numbers replaced by loop variables that have the same value here."""
    if expression is None or not env.loops:
        return [expression]
    matches = list(LOOP.finditer(expression))
    if not matches or len(matches) > 6:
        return [expression]
    results = {expression}
    for name, value in reversed(env.loops.items()):
        def replace(match, exact=True):
            found = int(match.group(1) if match.group(1) is not None else match.group(2))
            difference = found - value
            text = name if difference == 0 else f"({name} {'+' if difference > 0 else '-'} {abs(difference)})"
            return text if match.group(1) is not None else f"[{text}]"

        results.add(LOOP.sub(replace, expression))
        for one in matches:  # only one of them
            results.add(expression[: one.start()] + replace(one) + expression[one.end():])
    return sorted(results, key=lambda e: ("R" in e, len(e)))


def literal(value):
    return repr(value)


SKIP = {
    "model_type", "name_or_path", "gradient_checkpointing", "base_model_tp_plan", "base_model_ep_plan", "base_model_pp_plan", "base_model_fsdp_plan", "auto_map", "dtype",
    "sub_configs", "to_dict", "dict_dtype_to_str", "quantization_config", "get_text_config", "attribute_map", "to_diff_dict", "pad_token_id",
    "bos_token_id", "eos_token_id", "initializer_range", "torch_dtype", "decoder_start_token_id", "architectures", "return_dict", "use_return_dict", "label2id",
    "output_attentions", "output_hidden_states", "has_no_defaults_at_init", "keys_to_ignore_at_inference", "generator", "is_heterogeneous", "transformers_version",
    "chunk_size_feed_forward", "problem_type", "sub_configs_defaults", "get_text_config_dict", "eps", "rms_norm_eps", "layer_norm_eps", "device",
    "attention_dropout", "use_cache", "per_layer_config",
}


class Problem:
    """All observations of one definition (or of one list in it)."""

    def __init__(self, observations, accessed=(), conditions=()):
        self.observations = observations  # [(env, pool)]
        self.accessed = accessed
        self.conditions = conditions
        self._names = None
        self.wide = False

    def names(self):
        """Names whose values may explain something: {name: [values]}."""
        if self._names is None:
            names = {}
            envs = [env for env, _ in self.observations]
            candidates = list(dict.fromkeys([*(k for env in envs for k in env.loops), *(k for env in envs for k in env.args if k != "config"), *sorted(self.accessed)]))
            for name in candidates:
                if name.rsplit(".", 1)[-1] in SKIP or name in ("device", "dtype"):
                    continue
                values = [evaluate(name, env) for env in envs]
                if any(isinstance(v, str) and v.startswith("<") for v in values if v is not MISSING):
                    continue
                if all(v is MISSING for v in values):
                    continue
                names[name] = values
            self._names = names
        return self._names

    def subset(self, keep):
        made = Problem([self.observations[k] for k in keep], self.accessed, self.conditions)
        if self._names is not None:
            made._names = {n: [v[k] for k in keep] for n, v in self._names.items()}
        return made

    def atoms(self):
        """{mask: predicate}; a mask has bit k set where the predicate holds in observation k; simplest first."""
        count = len(self.observations)
        full = (1 << count) - 1
        found = {}

        def add(expression, truth=None):
            mask = 0
            if truth is None:
                for k, (env, _) in enumerate(self.observations):
                    value = evaluate(expression, env)
                    if value is MISSING:
                        return
                    if value:
                        mask |= 1 << k
            else:
                for k, value in enumerate(truth):
                    if value:
                        mask |= 1 << k
            if mask not in (0, full) and mask not in found:
                found[mask] = expression

        last = []

        def late(expression, truth):  # a large number is hardly ever the reason
            last.append((expression, truth))

        names = self.names()
        varied = {n: v for n, v in names.items() if any(not same(x, v[0]) for x in v[1:])}
        for n, values in varied.items():
            if all(isinstance(v, bool) for v in values if v is not MISSING) and MISSING not in values:
                add(n, values)
        loops = set().union(*[set(env.loops) for env, _ in self.observations]) if self.observations else set()
        arguments = set().union(*[set(env.args) for env, _ in self.observations]) if self.observations else set()
        ints = {n: v for n, v in names.items() if all(isinstance(x, int) and not isinstance(x, bool) for x in v)}
        lists = {n: v for n, v in names.items() if all(isinstance(x, list) for x in v)}
        halves = {n: v for n, v in names.items() if any(isinstance(x, list) for x in v) and n not in lists}
        indices = [n for n in ints if n in loops or (n in arguments and max(ints[n]) < 200 and n in varied)]
        for i in indices:
            for n in lists:
                add(f"{n}[{i}]") if all(len(v) > x >= 0 and isinstance(v[x], bool) for v, x in zip(lists[n], ints[i])) else None
                texts = {v[x] for v, x in zip(lists[n], ints[i]) if len(v) > x >= 0 and isinstance(v[x], str)}
                for text in sorted(texts):
                    add(f"{n}[{i}] == {text!r}")
                if all(len(v) > x >= 0 and isinstance(v[x], int) and not isinstance(v[x], bool) for v, x in zip(lists[n], ints[i])):
                    add(f"{n}[{i}] > 0")
                    add(f"{n}[{i}] > 1")
                add(f"{i} in {n}")
                add(f"{i} < len({n}) - 1")
                add(f"{i} == len({n}) - 1")
            for n in halves:
                if not any(isinstance(x, bool) or isinstance(x, (int, str)) for x in halves[n]):
                    add(f"{n} is not None and {i} in {n}")
                    add(f"{n} is None or {i} in {n}")
        for c in sorted(self.conditions, key=len):
            for env, _ in self.observations[:1]:
                for variant in abstractions(c, env):
                    if variant and not re.search(r"== \d{3,}", variant):
                        add(variant)
        for n, values in varied.items():
            if any(v is None for v in values):
                add(f"{n} is not None", [v is not None for v in values])
                for c in sorted({v for v in values if isinstance(v, int) and not isinstance(v, bool)})[:5]:
                    (add if c <= SMALL else late)(f"{n} == {c}", [v == c and not isinstance(v, bool) for v in values])
            texts = sorted({v for v in values if isinstance(v, str)})
            for text in texts[:12]:
                add(f"{n} == {text!r}", [v == text for v in values])
        for n, values in varied.items():
            if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
                add(f"{n} > 0")
                add(f"{n} > 1")
                for c in sorted(set(values))[:5]:
                    (add if c <= SMALL else late)(f"{n} == {c}", [v == c for v in values])
            elif all(isinstance(v, (int, float, bool, list)) or v is None for v in values):
                add(n)
            if all(isinstance(v, (int, float)) for v in values):
                add(f"{n} > 0")
        for i in indices:
            for f in ints:
                if f == i:
                    continue
                add(f"{i} < {f}")
                add(f"{i} == {f} - 1")
                add(f"{i} < {f} - 1")
                add(f"{i} <= {f}")
                if all(v > 0 for v in ints[f]):
                    add(f"({i} + 1) % {f} == 0")
                    add(f"{i} % {f} == 0")
            few = [n for n in ints if n not in indices and 0 <= min(ints[n]) and max(ints[n]) <= 64][:10]
            for f in few:
                for g in few:
                    if f != g and all(x < y for x, y in zip(ints[g], ints[f])):
                        add(f"{i} % {f} == {g}")
            add(f"{i} % 2 == 0")
            for c in (2, 3, 4, 5, 6, 7, 8):
                add(f"({i} + 1) % {c} == 0")
                add(f"{i} % {c} == 0")
            for c in range(6):
                add(f"{i} < {c}")
                add(f"{i} == {c}")
        small = [n for n in ints if n in varied][:14]
        for a in small:
            for b in small:
                if a < b and a not in indices and b not in indices:
                    add(f"{a} == {b}")
                    add(f"{a} < {b}")
                    add(f"{b} < {a}")
        for n, values in names.items():
            if n in lists and n in varied:
                add(f"len({n}) > 0")
                for text in sorted({x for v in values for x in v if isinstance(x, str)})[:12]:
                    add(f"{text!r} in {n}")
            elif n in varied and all(isinstance(v, dict) for v in values):
                for text in sorted({x for v in values for x in v if isinstance(x, str)})[:30]:
                    add(f"{text!r} in {n}")
        for n, values in varied.items():
            kinds = {type(v) for v in values}
            if bool in kinds and (str in kinds or type(None) in kinds or list in kinds or int in kinds):
                add(n)
        for expression, truth in last:
            add(expression, truth)
        return found

    def predicate(self, true, false, atoms=None, quick=False):
        """The smallest predicate that holds on mask true and fails on mask false."""
        if not false:
            return "True"
        if not true:
            return "False"
        atoms = self.atoms() if atoms is None else atoms
        care = true | false
        useful = {}
        for mask, e in atoms.items():
            cut = mask & care
            if cut == true:
                return e
            if cut not in (0, care) and cut not in useful:
                useful[cut] = e
        for mask, e in atoms.items():
            if (mask & care) == false:
                return negate(e)
        literals = []
        for cut, e in useful.items():
            literals.append((cut, e, weight(e)))
            literals.append((care & ~cut, negate(e), weight(e) + 1))
        literals = sorted(literals, key=lambda x: x[2])[: 60 if quick else 160]
        # both of two, either of two
        wide = [(m, e) for m, e, _ in literals if m & true == true]  # holds wherever it must
        narrow = [(m, e) for m, e, _ in literals if m & false == 0]  # fails wherever it must
        for a in range(len(wide)):
            for b in range(a + 1, len(wide)):
                if wide[a][0] & wide[b][0] & false == 0:
                    return f"({wide[a][1]}) and ({wide[b][1]})"
        for a in range(len(narrow)):
            for b in range(a + 1, len(narrow)):
                if (narrow[a][0] | narrow[b][0]) & true == true:
                    return f"({narrow[a][1]}) or ({narrow[b][1]})"
        if quick:
            raise Unexplained("no simple condition")
        if len(wide) <= 40:
            for a in range(len(wide)):
                for b in range(a + 1, len(wide)):
                    both = wide[a][0] & wide[b][0] & false
                    for c in range(b + 1, len(wide)):
                        if both & wide[c][0] == 0:
                            return f"({wide[a][1]}) and ({wide[b][1]}) and ({wide[c][1]})"
        if len(narrow) <= 40:
            for a in range(len(narrow)):
                for b in range(a + 1, len(narrow)):
                    both = true & ~(narrow[a][0] | narrow[b][0])
                    for c in range(b + 1, len(narrow)):
                        if both & ~narrow[c][0] == 0:
                            return f"({narrow[a][1]}) or ({narrow[b][1]}) or ({narrow[c][1]})"
        # a decision tree of limited depth
        tree = self._tree(true, false, literals, 4)
        if tree is None:
            raise Unexplained(f"no condition over {len(atoms)} candidates tells {bin(true).count('1')} from {bin(false).count('1')} observations")
        return tree

    def _tree(self, true, false, literals, depth):
        if not false:
            return "True"
        if not true:
            return "False"
        for m, e, _ in literals:
            if m & true == true and m & false == 0:
                return e
        if depth == 0:
            return None
        best = None
        for m, e, size in literals:
            left = (true & m, false & m)
            right = (true & ~m, false & ~m)
            if not (left[0] | left[1]) or not (right[0] | right[1]):
                continue
            score = min(bin(left[0]).count("1"), bin(left[1]).count("1")) + min(bin(right[0]).count("1"), bin(right[1]).count("1"))
            pure = (not left[0] or not left[1]) + (not right[0] or not right[1])
            key = (score - 0.5 * pure, size)
            if best is None or key < best[0]:
                best = (key, m, e)
        if best is None:
            return None
        _, m, e = best
        left = self._tree(true & m, false & m, literals, depth - 1)
        right = self._tree(true & ~m, false & ~m, literals, depth - 1)
        if left is None or right is None:
            return None
        if left == "True" and right == "False":
            return e
        if left == "True":
            return f"({e}) or ({right})"
        if right == "False":
            return f"({e}) and ({left})"
        if left == "False":
            return f"({negate(e)}) and ({right})"
        if right == "True":
            return f"({negate(e)}) or ({left})"
        return f"({left}) if ({e}) else ({right})"

    # --- values ----------------------------------------------------------------------------------------------------------------------------

    def value(self, slots, kind="number"):
        """An expression for slots [(value, traced expression or None)], one an observation."""
        values = [v for v, _ in slots]
        exprs = {}
        for (env, _), (_, e) in zip(self.observations, slots):
            if e is not None:
                for variant in abstractions(e, env):
                    exprs[variant] = exprs.get(variant, 0) + 1
        constant = all(same(v, values[0]) for v in values)
        if constant and (isinstance(values[0], (bool, str, list, dict)) or values[0] is None) and not any(_symbolic(e) for e in exprs):
            return literal(values[0])
        candidates = sorted(exprs, key=lambda e: (-exprs[e] if not constant else 0, "R" in e, len(e)))
        candidates += [f"int({e})" for e in candidates if "/" in e or "." in e]

        def holds(e):
            mask = 0
            for k, (env, _) in enumerate(self.observations):
                found = evaluate(e, env)
                if found is not MISSING and whole(found, values[k]):
                    mask |= 1 << k
            return mask

        full = (1 << len(values)) - 1
        masks = {}
        for e in candidates[:60]:
            mask = masks[e] = holds(e)
            if mask == full and (_symbolic(e) or constant):
                return tidy(e)
        if constant:
            return literal(values[0])
        for name, found in self.names().items():
            mask = 0
            for k, v in enumerate(found):
                if v is not MISSING and whole(v, values[k]):
                    mask |= 1 << k
            if mask == full:
                return name
            if mask:
                masks.setdefault(name, mask)
        distinct = []
        for v in values:
            if not any(same(v, d) for d in distinct):
                distinct.append(v)
        if all(isinstance(v, bool) for v in values):
            return tidy(self.predicate(sum(1 << k for k, v in enumerate(values) if v), sum(1 << k for k, v in enumerate(values) if not v)))
        if all(isinstance(v, int) for v in values):
            pool = {}
            for k, (env, seen) in enumerate(self.observations):
                for v, e in seen:
                    if v == values[k]:
                        for variant in abstractions(e, env):
                            if _symbolic(variant):
                                pool[variant] = pool.get(variant, 0) + 1
            for e in sorted(pool, key=lambda e: (-pool[e], len(e)))[:80]:
                mask = holds(e)
                if mask == full:
                    return tidy(e)
                masks[e] = mask
            for e in self.compositions(values):
                return tidy(e)
        if all(isinstance(v, float) or v == 0 for v in values) or all(isinstance(v, list) and all(isinstance(x, float) for x in v) for v in values):
            for e in self.ramps(values):
                return tidy(e)
        if len(distinct) <= 6:
            for d in distinct:
                masks.setdefault(literal(d), sum(1 << k for k, v in enumerate(values) if same(v, d)))
        try:
            return tidy(self._choose(masks, full, 3))
        except Unexplained:
            if all(isinstance(v, int) and not isinstance(v, bool) for v in values) and not self.wide:
                return self.widened().value(slots, kind)
            if all(isinstance(v, list) for v in values) and any(values):
                return self.elements(slots)
            raise

    def widened(self):
        """The same problem with all fields of the config and of its nested configs at hand."""
        config = self.observations[0][0].config
        names = set(self.accessed)
        if config is not None:
            for f, v in config.__dict__.items():
                if f.startswith("_"):
                    continue
                if trace.is_config(v):
                    names |= {f"{f}.{g}" for g, w in v.__dict__.items() if not g.startswith("_") and (w is None or isinstance(w, (int, list, str)))}
                elif v is None or isinstance(v, (int, list, str)):
                    names.add(f)
        made = Problem(self.observations, names, self.conditions)
        made.wide = True
        return made

    def elements(self, slots):
        """A list whose length and elements have expressions of their own."""
        length = self.value([(len(v), None) for v, _ in slots])
        rows, items = [], []
        loop = next(n for n in ("n", "m", "o") if n not in self.observations[0][0].loops)
        for (env, pool), (v, e) in zip(self.observations, slots):
            parts = split_list(e, len(v))
            for k, x in enumerate(v):
                rows.append((env.with_loop(loop, k), pool))
                items.append((x, parts[k]))
        return f"[{Problem(rows[:400], self.accessed, self.conditions).value(items[:400])} for {loop} in range({length})]"

    def compositions(self, values):
        """Short arithmetic over the integers at hand that gives the values."""
        ints = {}
        for n, v in self.names().items():
            if all(isinstance(x, int) and not isinstance(x, bool) for x in v):
                ints[n] = v
            elif all(isinstance(x, list) for x in v):
                ints[f"len({n})"] = [len(x) for x in v]
                if all(len(x) > 0 and isinstance(x[0], int) for x in v):
                    for k, text in ((0, "[0]"), (1, "[1]"), (2, "[2]"), (-1, "[-1]")):
                        if all(len(x) > abs(k) and isinstance(x[k], int) for x in v):
                            ints[f"{n}{text}"] = [x[k] for x in v]
                    if all(isinstance(y, int) for x in v for y in x):
                        ints[f"sum({n})"] = [sum(x) for x in v]
        single = [("{0}", lambda a: a)]
        for c in (1, 2, 3, 4, 5, 6, 8):
            single += [(f"{{0}} + {c}", lambda a, c=c: a + c), (f"{{0}} - {c}", lambda a, c=c: a - c), (f"{c} * {{0}}", lambda a, c=c: a * c), (f"{{0}} // {c}", lambda a, c=c: a // c)]
        single += [("2 * {0} - 1", lambda a: 2 * a - 1), ("2 * {0} + 1", lambda a: 2 * a + 1), ("{0} ** 2", lambda a: a * a), ("{0} ** 4", lambda a: a ** 4), ("(2 * {0} - 1) ** 2", lambda a: (2 * a - 1) ** 2), ("(2 * {0} - 1) ** 2 + 3", lambda a: (2 * a - 1) ** 2 + 3), ("{0} ** 2 + 1", lambda a: a * a + 1), ("({0} + 1) // 2", lambda a: (a + 1) // 2), ("2 ** {0}", lambda a: 2 ** a if 0 <= a < 40 else None)]
        for text, function in single:
            for n, v in ints.items():
                if [function(x) for x in v] == values:
                    yield text.format(n)
        pairs = [
            ("{0} * {1}", lambda a, b: a * b, True), ("{0} + {1}", lambda a, b: a + b, True), ("{0} // {1}", lambda a, b: a // b if b else None, False), ("{0} - {1}", lambda a, b: a - b, False),
            ("{0} // {1} // 2", lambda a, b: a // b // 2 if b else None, False), ("{0} // {1} // 4", lambda a, b: a // b // 4 if b else None, False), ("{0} // {1} // 8", lambda a, b: a // b // 8 if b else None, False), ("{0} * {1} * 2", lambda a, b: 2 * a * b, True), ("({0} // {1}) ** 2", lambda a, b: (a // b) ** 2 if b else None, False),
            ("({0} // {1}) ** 2 + 1", lambda a, b: (a // b) ** 2 + 1 if b else None, False), ("{0} + 2 * {1}", lambda a, b: a + 2 * b, False), ("{0} + {1} + 1", lambda a, b: a + b + 1, True),
            ("{0} ** 2 * {1}", lambda a, b: a * a * b, False), ("{0} * {1} + 1", lambda a, b: a * b + 1, True), ("max({0}, {1})", max, True), ("min({0}, {1})", min, True),
            ("({0} * {1}) ** 2", lambda a, b: (a * b) ** 2, True), ("(2 * {0} - 1) * (2 * {1} - 1)", lambda a, b: (2 * a - 1) * (2 * b - 1), True), ("(2 * {0} - 1) * (2 * {1} - 1) + 3", lambda a, b: (2 * a - 1) * (2 * b - 1) + 3, True),
            ("({0} * {1} + 1)", lambda a, b: a * b + 1, True), ("{0} * {1} // 2", lambda a, b: a * b // 2, True), ("{0} * ({1} + 1)", lambda a, b: a * (b + 1), False), ("{0} * {1} ** 2", lambda a, b: a * b * b, False), ("{0} ** 2 // {1} ** 2", lambda a, b: a * a // (b * b) if b else None, False),
            ("{0} - {1} + 1", lambda a, b: a - b + 1, False), ("{0} * 2 ** {1}", lambda a, b: a * 2 ** b if 0 <= b < 30 else None, False), ("{0} // 2 ** {1}", lambda a, b: a // 2 ** b if 0 <= b < 30 else None, False),
        ]
        items = list(ints.items())
        for text, function, symmetric in pairs:
            for a, (n, v) in enumerate(items):
                for b, (m, w) in enumerate(items):
                    if n == m or (symmetric and b < a):
                        continue
                    if function(v[0], w[0]) == values[0] and [function(x, y) for x, y in zip(v, w)] == values:
                        yield text.format(n, m)

    def ramps(self, values):
        """Rates that grow evenly over the layers of all stages; only whether they are 0 matters for the tree."""
        names = self.names()
        rates = [n for n, v in names.items() if all(isinstance(x, float) or x == 0 for x in v if not isinstance(x, bool)) and not any(isinstance(x, (bool, list, str)) or x is None for x in v)]
        rates = [n for n in rates if any(isinstance(x, float) for x in names[n])]
        ints = [n for n, v in names.items() if all(isinstance(x, int) and not isinstance(x, bool) for x in v)]
        lists = [n for n, v in names.items() if all(isinstance(x, list) and x and all(isinstance(y, int) for y in x) for x in v)]
        loops = [n for n in ints if n in self.observations[0][0].loops or n in self.observations[0][0].args]
        counts = [(f"sum({n})", n) for n in lists] + [(n, None) for n in ints if n not in loops]
        places = [(i, None) for i in loops] + [(f"(sum({n}[:{i}]) + {j})", n) for n in lists for i in loops for j in loops if i != j]
        for r in rates:
            if isinstance(values[0], list):
                forms = [f"[{r} * (sum({n}[:{i}]) + k) / max(sum({n}) - 1, 1) for k in range({n}[{i}])]" for n in lists for i in loops]
                forms += [f"[{r} * k / max({c} - 1, 1) for k in range({c})]" for c, _ in counts]
            else:
                forms = [f"{r} * {p} / max({c} - 1, 1)" for p, a in places for c, b in counts if a is None or a == b] + [f"{r} * ({p} + 1) / {c}" for p, a in places for c, b in counts if a is None or a == b]
            for e in forms:
                if all(near(evaluate(e, env), v) for (env, _), v in zip(self.observations, values)):
                    yield e

    def _choose(self, masks, full, depth):
        """e1 if p else e2, out of expressions that hold on parts."""
        ranked = sorted(((m, e) for e, m in masks.items() if m), key=lambda x: (-bin(x[0]).count("1"), not _symbolic(x[1]), len(x[1])))[:40]
        for m, e in ranked:
            if m == full:
                return e
        if depth == 0 or not ranked:
            raise Unexplained("no expression explains the values")
        atoms = self.atoms()
        calls = 0
        for a in range(len(ranked)):
            for b in range(a + 1, len(ranked)):
                (m1, e1), (m2, e2) = ranked[a], ranked[b]
                if m1 | m2 == full:
                    calls += 1
                    try:
                        p = self.predicate(full & ~m2, full & ~m1, atoms, quick=calls > 6)
                    except Unexplained:
                        continue
                    if p == "True":
                        return e1
                    if p == "False":
                        return e2
                    return f"({e1}) if ({p}) else ({e2})"
        for m, e in ranked[:5]:
            rest = [k for k in range(len(self.observations)) if not m >> k & 1]
            part = self.subset(rest)
            squeezed = {x: sum(1 << i for i, k in enumerate(rest) if masks[x] >> k & 1) for x in masks}
            try:
                other = part._choose(squeezed, (1 << len(rest)) - 1, depth - 1)
                # where does `other` hold in all observations?
                mask = 0
                for k, (env, _) in enumerate(self.observations):
                    found = evaluate(other, env)
                    mine = evaluate(e, env)
                    if m >> k & 1 and found is not MISSING and same(found, mine):
                        mask |= 1 << k
                p = self.predicate(m & ~mask, full & ~m, atoms)
            except Unexplained:
                continue
            return f"({e}) if ({p}) else ({other})"
        raise Unexplained("no expression explains the values")


_NAME = re.compile(r"[A-Za-z_]\w*")
SMALL = 8


def weight(e):
    """How unlikely a condition is to be the reason: names it takes, numbers nobody would write, fields that happen to be ordered."""
    bare = re.sub(r"'[^']*'", "", e)
    large = sum(1 for n in re.findall(r"\b\d+\b", bare) if int(n) > SMALL)
    return 4 * len(_NAME.findall(bare)) + 40 * large + 6 * ("<" in bare) + len(e) / 20


def _symbolic(e):
    return any(n not in FUNCTIONS and not re.match(r"^R\d+$", n) for n in _NAME.findall(re.sub(r"'[^']*'", "", e)))


def negate(e):
    if e in ("True", "False"):
        return "False" if e == "True" else "True"
    if e.startswith("not ("):
        return e[5:-1]
    for a, b in ((" is not None", " is None"), (" is None", " is not None"), (" == ", " != "), (" != ", " == "), (" not in ", " in "), (" in ", " not in ")):
        if a in e and " and " not in e and " or " not in e:
            return e.replace(a, b, 1)
    match = re.match(r"^(\S+) < (\S+)$", e)
    if match:
        return f"{match.group(1)} >= {match.group(2)}"
    match = re.match(r"^(\S+) > 0$", e)
    if match:
        return f"{match.group(1)} <= 0"
    if re.match(r"^[\w.]+$", e):
        return f"not {e}"
    return f"not ({e})"
