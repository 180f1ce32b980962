# SPDX-License-Identifier: Apache-2.0
"""Checkpoint folders for tests of the command: tensors are (dtype, shape, bytes) by name."""

import json
import os
import struct

WIDTHS = {"F32": 4, "BF16": 2, "U8": 1}


def tensor(dtype, shape, seed):
    """Bytes that differ from tensor to tensor and from place to place; as BF16 and F32 they are ordinary numbers."""
    n_elements = 1
    for extent in shape:
        n_elements *= extent
    period = [struct.pack("<f", seed + i % 251 + 1)[-WIDTHS[dtype]:] for i in range(min(n_elements, 251))]
    values = b"".join(period)
    return dtype, list(shape), (values * (n_elements * WIDTHS[dtype] // max(len(values), 1) + 1))[:n_elements * WIDTHS[dtype]]


def write_file(path, tensors):
    header, offset = {}, 0
    for name, (dtype, shape, values) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(values)]}
        offset += len(values)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, values in tensors.values():
            file.write(values)


def write_folder(folder, shards, config=None):
    """One file, or several with an index."""
    os.makedirs(folder)
    weight_map = {}
    for i, tensors in enumerate(shards):
        name = "model.safetensors" if len(shards) == 1 else f"model-{i + 1:05}-of-{len(shards):05}.safetensors"
        write_file(os.path.join(folder, name), tensors)
        weight_map.update(dict.fromkeys(tensors, name))
    if len(shards) > 1:
        with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
            json.dump({"metadata": {}, "weight_map": weight_map}, file)
    if config is not None:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)


def write_text(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read_folder(folder):
    """Each file's bytes by its relative name."""
    files = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                files[os.path.relpath(path, folder)] = file.read()
    return files


def read_tensors(folder):
    """(dtype, shape, bytes) of each tensor of a folder, by name."""
    tensors = {}
    for name, file in read_folder(folder).items():
        if name.endswith(".safetensors"):
            length = struct.unpack_from("<Q", file)[0]
            for key, entry in json.loads(file[8:8 + length]).items():
                if key != "__metadata__":
                    begin, end = entry["data_offsets"]
                    tensors[key] = (entry["dtype"], entry["shape"], file[8 + length + begin:8 + length + end])
    return tensors
