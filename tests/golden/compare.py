# SPDX-License-Identifier: Apache-2.0
"""Reads safetensors files and compares their tensors, with the standard library only."""

import json
import os
import struct
from typing import NamedTuple


class Tensor(NamedTuple):
    dtype: str
    shape: tuple
    content: bytes


# dtype: bytes an element, bits of the mantissa, bits of the exponent, has infinities.
FLOATS = {
    "F64": (8, 52, 11, True), "F32": (4, 23, 8, True), "F16": (2, 10, 5, True), "BF16": (2, 7, 8, True),
    "F8_E5M2": (1, 2, 5, True), "F8_E4M3": (1, 3, 4, False),
}


def read_file(path):
    """name: Tensor"""
    with open(path, "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: Tensor(entry["dtype"], tuple(entry["shape"]),
                         content[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]])
            for name, entry in header.items()}


def read_checkpoint(path):
    """The tensors of a file, or of all shards of a folder."""
    if os.path.isfile(path):
        return read_file(path)
    tensors = {}
    for name in sorted(os.listdir(path)):
        if name.endswith(".safetensors"):
            tensors.update(read_file(os.path.join(path, name)))
    return tensors


def codes_of(tensor, size):
    return [int.from_bytes(tensor.content[i:i + size], "little") for i in range(0, len(tensor.content), size)]


def is_nan(code, dtype):
    if dtype == "F8_E8M0":
        return code == 0xFF
    if dtype.endswith("FNUZ"):
        return code == 0x80
    _, mantissa, exponent, has_infinities = FLOATS[dtype]
    magnitude = code & ((1 << (mantissa + exponent)) - 1)
    infinity = ((1 << exponent) - 1) << mantissa
    return magnitude > infinity if has_infinities else magnitude == (1 << (mantissa + exponent)) - 1


def steps_apart(a, b, dtype):
    """How many representable numbers lie from a to b."""
    _, mantissa, exponent, _ = FLOATS[dtype]
    sign = 1 << (mantissa + exponent)
    first, second = (code if code < sign else sign - code for code in (a, b))
    return abs(first - second)


def elements_differ(found, expected, rule):
    """The position of the first element that breaks the rule, or None."""
    dtype = expected.dtype
    if dtype not in FLOATS and not dtype.startswith("F8_"):
        return 0
    size = FLOATS[dtype][0] if dtype in FLOATS else 1
    steps = rule.get("ulp", 0) if rule.get("mode") == "ulp" else 0
    for position, (a, b) in enumerate(zip(codes_of(found, size), codes_of(expected, size))):
        if a == b:
            continue
        if rule.get("nan") == "any" and is_nan(a, dtype) and is_nan(b, dtype):
            continue
        if rule.get("zero_sign") == "ignored" and {a, b} == {0, 1 << (8 * size - 1)}:
            continue
        if steps and dtype in FLOATS and not is_nan(a, dtype) and not is_nan(b, dtype) and steps_apart(a, b, dtype) <= steps:
            continue
        return position
    return None


def nibbles_differ(found, expected):
    """Codes 0 and 8 of E2M1 are both zero."""
    for position, (a, b) in enumerate(zip(found.content, expected.content)):
        for shift in (0, 4):
            x, y = a >> shift & 15, b >> shift & 15
            if x != y and {x, y} != {0, 8}:
                return position
    return None


def codes_apart(found, expected, rule):
    """Whole codes that may be a step or so apart in some of the places."""
    apart = [abs(a - b) for a, b in zip(found.content, expected.content)]
    places = sum(step > 0 for step in apart)
    if max(apart) > rule["max_step"] or places > rule["max_fraction"] * len(apart):
        return next(position for position, step in enumerate(apart) if step)
    return None


def numbers_apart(found, expected, rule):
    """F32 numbers that may differ a little in proportion."""
    count = len(expected.content) // 4
    pairs = zip(struct.unpack(f"<{count}f", found.content), struct.unpack(f"<{count}f", expected.content))
    bound = rule.get("rel", rule.get("relative", rule.get("max", 1e-6)))
    return next((position for position, (a, b) in enumerate(pairs) if abs(a - b) > bound * abs(b)), None)


def is_close_json(found, expected, bound):
    if isinstance(expected, dict):
        return isinstance(found, dict) and list(sorted(found)) == list(sorted(expected)) \
            and all(is_close_json(found[name], expected[name], bound) for name in expected)
    if isinstance(expected, list):
        return isinstance(found, list) and len(found) == len(expected) \
            and all(is_close_json(a, b, bound) for a, b in zip(found, expected))
    if isinstance(expected, float) or isinstance(found, float):
        return abs(found - expected) <= bound * abs(expected)
    return found == expected


def tensor_differs(have, wanted, rule):
    """What breaks the rule of one tensor, or None. Shapes are not compared for JSON text."""
    if rule.get("mode") == "json":
        same = have.dtype == wanted.dtype and is_close_json(json.loads(have.content), json.loads(wanted.content), rule["rel"])
        return None if same else "is another JSON text"
    if have.dtype != wanted.dtype or have.shape != wanted.shape:
        return f"is {have.dtype} {list(have.shape)}, expected {wanted.dtype} {list(wanted.shape)}"
    if have.content == wanted.content:
        return None
    if rule.get("zero_nibble_sign") == "ignored":
        position = nibbles_differ(have, wanted)
    elif rule.get("mode") == "codes":
        position = codes_apart(have, wanted, rule)
    elif rule.get("mode") == "relative":
        position = numbers_apart(have, wanted, rule)
    else:
        position = elements_differ(have, wanted, rule)
    return None if position is None else f"differs at element {position}"


def difference(found, expected, rule=None, rules_of_tensors=None):
    """What differs between two mappings of tensors, as a sentence; None if nothing does."""
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    if missing or extra:
        return f"names differ: missing {missing[:4]}, unexpected {extra[:4]}"
    for name, wanted in expected.items():
        problem = tensor_differs(found[name], wanted, (rules_of_tensors or {}).get(name, rule or {}))
        if problem:
            return f"'{name}' {problem}"
    return None
