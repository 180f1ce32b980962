# SPDX-License-Identifier: Apache-2.0
"""Usage: engine.py [--torch] CHECKPOINT [RANK WORLD_SIZE]

The engine of ../engine in Python: loads into one mmap and prints, for each tensor, its SHA-256, bytes, dtype, shape and name.
With --torch the arrays become torch tensors by DLPack, without a copy, and the checksums are of those.
"""

import hashlib
import mmap
import sys

import gi

gi.require_version("Weft", "1.0")
from gi.repository import Weft  # noqa: E402

# Dtypes that numpy does not know come as their codes; torch gives them their names back.
TORCH_NAMES = {"BF16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}


def to_torch(array, dtype):
    import torch

    tensor = torch.from_dlpack(array)
    return tensor.view(getattr(torch, TORCH_NAMES[dtype])) if dtype in TORCH_NAMES else tensor


def content_of(tensor):
    import torch

    return tensor.contiguous().view(-1).view(torch.uint8).numpy()


def main(words):
    uses_torch = "--torch" in words
    words = [word for word in words if word != "--torch"]
    path, rank, world_size = words[0], *(int(word) for word in words[1:3] or (0, 1))
    loader = Weft.loader(path, tp_size=world_size, rank=rank)
    memory = mmap.mmap(-1, max(loader.n_bytes, 1))
    names = []
    arrays = loader.load_arrays(memory, loaded=names.append)
    outputs = loader.get_plan().get_outputs()
    for name, array in arrays.items():
        dtype = outputs.lookup(name).dtype
        content = content_of(to_torch(array, dtype)) if uses_torch else array.tobytes()
        print(hashlib.sha256(content).hexdigest(), array.nbytes, dtype, outputs.lookup(name).get_shape().to_string(), name, sep="\t")
    print(f"{len(names)} tensors, {loader.n_bytes} bytes in memory, {loader.get_n_bytes_read()} bytes read", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
