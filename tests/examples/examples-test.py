#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: examples-test MESON BUILD SOURCE [--bindings]

Installs the library into a scratch folder. There, and with nothing else of this tree, each example converts the golden
model `ernie4_5_vl_moe` and reverts it, with our op denied, or fuses the golden model `llama` and reverts it; those in C are
also built, and the op runs the conformance suite. The engines load the golden model `mixtral`, whole and for one rank of two.
"""

import filecmp
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

MESON, BUILD, SOURCE = sys.argv[1:4]
MODEL = os.path.join(SOURCE, "tests", "golden", "models", "ernie4_5_vl_moe")
DENSE_MODEL = os.path.join(SOURCE, "tests", "golden", "models", "llama")
EXPERT_MODEL = os.path.join(SOURCE, "tests", "golden", "models", "mixtral")
sys.path.insert(0, os.path.join(SOURCE, "tests", "golden"))
sys.dont_write_bytecode = True

import compare  # noqa: E402


def run(*words, **options):
    print("+", *words, flush=True)
    subprocess.run(words, check=True, **options)


def find_folder(root, name):
    """The folder below root that holds a file with that name."""
    folders = [path for path, _, names in os.walk(root) if name in names]
    assert len(folders) == 1, (name, folders)
    return folders[0]


class Installed:
    """The library, installed below a root that is not its prefix, and the environment that finds it there."""

    def __init__(self, root):
        run(MESON, "install", "-C", BUILD, "--destdir", root, "--no-rebuild", "--quiet")
        self.root = root
        self.programs = find_folder(root, "weft")
        packages = find_folder(root, "weft-1.pc")
        for name in os.listdir(packages):
            self.move_prefix(os.path.join(packages, name))
        self.environment = dict(
            os.environ, PKG_CONFIG_PATH=packages, LD_LIBRARY_PATH=os.path.dirname(packages), WEFT_PLUGIN_DENY="ernie",
            WEFT_PLUGIN_SYSTEM_PATH=os.path.join(os.path.dirname(packages), "weft-1", "plugins"), PYTHONDONTWRITEBYTECODE="1")

    def move_prefix(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^prefix=", f"prefix={self.root}", text))

    def find_bindings(self):
        """Lets Python and JavaScript find the typelibs and the overrides."""
        overrides = os.path.dirname(os.path.dirname(find_folder(self.root, "Weft.py")))
        self.environment.update(GI_TYPELIB_PATH=find_folder(self.root, "Weft-1.0.typelib"), PYTHONPATH=overrides,
                                GJS_PATH=os.path.dirname(find_folder(self.root, "Weft.js")))

    def check_model(self, scratch, *command, **environment):
        """The command converts the golden model and takes it back, with the ops of the example."""
        environment = dict(self.environment, **environment)
        runtime, back = os.path.join(scratch, "runtime"), os.path.join(scratch, "back")
        original = os.path.join(MODEL, "original")
        run(*command, "convert", original, "--module-tree", os.path.join(MODEL, "skeleton.json"), "--dtype", "auto", "-o", runtime,
            env=environment)
        problem = compare.difference(compare.read_checkpoint(runtime), compare.read_file(os.path.join(MODEL, "runtime.safetensors")))
        assert problem is None, problem
        run(*command, "revert", runtime, "-o", back, env=environment)
        assert sorted(os.listdir(back)) == sorted(os.listdir(original))
        for name in os.listdir(original):
            assert filecmp.cmp(os.path.join(original, name), os.path.join(back, name), shallow=False), name
        shutil.rmtree(runtime)
        shutil.rmtree(back)


    def check_fusion(self, scratch, *command, **environment):
        """The command fuses the golden model with the family of the example; keys stand before values; and all comes back, also
        where the family is not there."""
        environment = dict(self.environment, **environment)
        fused, back = os.path.join(scratch, "fused"), os.path.join(scratch, "back")
        original = os.path.join(DENSE_MODEL, "original")
        run(*command, "convert", original, "--module-tree", os.path.join(DENSE_MODEL, "skeleton.json"), "--fusion", "kv", "-o", fused,
            env=environment)
        tensors, published = compare.read_checkpoint(fused), compare.read_checkpoint(original)
        for layer in (0, 1):
            module = f"model.layers.{layer}.self_attn."
            parts = [published[f"{module}{name}_proj.weight"].content for name in "kv"]
            assert tensors[f"{module}kv_proj.weight"].content == b"".join(parts)
            assert f"{module}k_proj.weight" not in tensors and f"{module}q_proj.weight" in tensors
        with open(os.path.join(fused, "config.json"), encoding="utf-8") as file:
            assert json.load(file)["fusion_config"] == {"kv": True}
        run(os.path.join(self.programs, "weft"), "revert", fused, "-o", back, env=self.environment)
        for name in os.listdir(original):
            assert filecmp.cmp(os.path.join(original, name), os.path.join(back, name), shallow=False), name
        shutil.rmtree(fused)
        shutil.rmtree(back)


def check_refused(installed):
    """Without an example there is no such op: the examples are what the rest of this test runs."""
    words = (os.path.join(installed.programs, "weft"), "plan", os.path.join(MODEL, "original"))
    refused = subprocess.run(words, env=installed.environment, capture_output=True, text=True, check=False)
    assert refused.returncode != 0 and "ErnieFuseAndSplitTextVisionExperts" in refused.stderr, refused


def check_c(installed, scratch):
    source = os.path.join(scratch, "ernie-op-c")
    plugins = os.path.join(source, "build")
    shutil.copytree(os.path.join(SOURCE, "examples", "ernie-op-c"), source, ignore=shutil.ignore_patterns("build"))
    for words in (["setup", "build"], ["compile", "-C", "build"], ["test", "-C", "build", "check"]):
        run(MESON, *words, cwd=source, env=installed.environment)
    installed.check_model(scratch, os.path.join(installed.programs, "weft"), WEFT_PLUGIN_PATH=plugins)


def check_fusion_in_c(installed, scratch):
    source = os.path.join(scratch, "kv-fusion-c")
    shutil.copytree(os.path.join(SOURCE, "examples", "kv-fusion-c"), source, ignore=shutil.ignore_patterns("build"))
    for words in (["setup", "build"], ["compile", "-C", "build"]):
        run(MESON, *words, cwd=source, env=installed.environment)
    installed.check_fusion(scratch, os.path.join(installed.programs, "weft"), WEFT_PLUGIN_PATH=os.path.join(source, "build"))


def slice_of(tensor, axis, groups, rank, world_size):
    """The part of a tensor that a rank holds, cut out of its bytes: `groups` stretches of the axis, of which it has a part each."""
    length = tensor.shape[axis] // groups // world_size
    outer, inner = 1, len(tensor.content)
    for extent in tensor.shape[:axis]:
        outer *= extent
    inner //= outer * tensor.shape[axis]
    content = b""
    for group in range(outer * groups):
        start = (group * world_size + rank) * length * inner
        content += tensor.content[start:start + length * inner]
    return content


def expected_of(name, whole, shape, rank, world_size):
    """What an engine must print of a tensor of that shape."""
    assert len(shape) == len(whole.shape), name
    axes = [axis for axis, extent in enumerate(shape) if extent != whole.shape[axis]]
    assert len(axes) <= 1, name
    if not axes:
        return whole.content
    assert shape[axes[0]] * world_size == whole.shape[axes[0]], name
    return slice_of(whole, axes[0], 2 if "gate_up" in name else 1, rank, world_size)


def check_engine(installed, *command):
    """What the engine prints is what another reader finds in the files."""
    golden = compare.read_file(os.path.join(EXPERT_MODEL, "runtime.safetensors"))
    n_memory, n_read = {}, {}
    for rank, world_size in ((0, 1), (0, 2), (1, 2)):
        words = (*command, os.path.join(EXPERT_MODEL, "original"), str(rank), str(world_size))
        print("+", *words, flush=True)
        printed = subprocess.run(words, env=installed.environment, capture_output=True, text=True, check=False)
        assert printed.returncode == 0, printed.stderr
        rows = [line.split("\t") for line in printed.stdout.splitlines()]
        assert sorted(row[-1] for row in rows) == sorted(golden)
        n_cut = 0
        for checksum, *_, n_bytes, dtype, shape, name in rows:
            dims = tuple(int(dim) for dim in re.findall(r"\d+", shape))
            content = expected_of(name, golden[name], dims, rank, world_size)
            assert (dtype, int(n_bytes), checksum) == (golden[name].dtype, len(content), hashlib.sha256(content).hexdigest()), name
            n_cut += dims != golden[name].shape
        assert n_cut == 0 if world_size == 1 else n_cut > len(rows) // 2, n_cut
        n_tensors, n_memory[rank, world_size], n_read[rank, world_size] = (int(number) for number in re.findall(r"\d+", printed.stderr))
        assert n_tensors == len(golden)
    # The holes that a rank reads through are nothing to a real model, and all of this one.
    assert n_read[0, 1] == sum(len(tensor.content) for tensor in golden.values()), n_read
    assert n_memory[0, 2] == n_memory[1, 2] < 0.7 * n_memory[0, 1], n_memory


def check_engine_in_c(installed, scratch):
    source = os.path.join(scratch, "engine")
    shutil.copytree(os.path.join(SOURCE, "examples", "engine"), source, ignore=shutil.ignore_patterns("build"))
    for words in (["setup", "build"], ["compile", "-C", "build"]):
        run(MESON, *words, cwd=source, env=installed.environment)
    check_engine(installed, os.path.join(source, "build", "engine"))
    shared = os.path.join(scratch, "shared")
    run(os.path.join(source, "build", "engine"), os.path.join(EXPERT_MODEL, "original"), "1", "2", shared, env=installed.environment,
        stdout=subprocess.DEVNULL)
    assert os.path.getsize(shared) > 0


def check_engine_scripts(installed):
    examples = os.path.join(SOURCE, "examples")
    check_engine(installed, sys.executable, os.path.join(examples, "engine-python", "engine.py"))
    if importlib.util.find_spec("torch") is not None:
        check_engine(installed, sys.executable, os.path.join(examples, "engine-python", "engine.py"), "--torch")
    if shutil.which("gjs") is not None:
        check_engine(installed, "gjs", "-m", os.path.join(examples, "engine-javascript", "engine.js"))


def check_scripts(installed, scratch):
    installed.find_bindings()
    for name, op, fusion in (("weft-python", "ernie-op-python/ernie_example.py", "kv-fusion-python/kv_example.py"),
                             ("weft-gjs", "ernie-op-javascript/ernie-example.js", "kv-fusion-javascript/kv-example.js")):
        wrapper = os.path.join(installed.programs, name)
        if not os.path.exists(wrapper):
            print(f"{op} and {fusion}: skipped, {name} was not built")
            continue
        installed.check_model(scratch, wrapper, "--plugin", os.path.join(SOURCE, "examples", op))
        installed.check_fusion(scratch, wrapper, "--plugin", os.path.join(SOURCE, "examples", fusion))


def main():
    with tempfile.TemporaryDirectory() as scratch:
        installed = Installed(os.path.join(scratch, "installed"))
        check_refused(installed)
        check_c(installed, scratch)
        check_fusion_in_c(installed, scratch)
        check_engine_in_c(installed, scratch)
        if "--bindings" in sys.argv:
            check_scripts(installed, scratch)
            check_engine_scripts(installed)


if __name__ == "__main__":
    main()
