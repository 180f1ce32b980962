#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: examples-test MESON BUILD SOURCE [--bindings]

Installs the library into a scratch folder. There, and with nothing else of this tree, each example converts the golden
model `ernie4_5_vl_moe` and reverts it, with our op denied, or fuses the golden model `llama` and reverts it; those in C are
also built, and the op runs the conformance suite.
"""

import filecmp
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
        if "--bindings" in sys.argv:
            check_scripts(installed, scratch)


if __name__ == "__main__":
    main()
