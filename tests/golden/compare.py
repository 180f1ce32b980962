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


def difference(found, expected, rule=None):
    """What differs between two mappings of tensors, as a sentence; None if nothing does."""
    missing = [name for name in expected if name not in found]
    extra = [name for name in found if name not in expected]
    if missing or extra:
        return f"names differ: missing {missing[:4]}, unexpected {extra[:4]}"
    for name, wanted in expected.items():
        have = found[name]
        if have.dtype != wanted.dtype or have.shape != wanted.shape:
            return f"'{name}' is {have.dtype} {list(have.shape)}, expected {wanted.dtype} {list(wanted.shape)}"
        if have.content == wanted.content:
            continue
        position = elements_differ(have, wanted, rule or {})
        if position is not None:
            return f"'{name}' differs at element {position}"
    return None
