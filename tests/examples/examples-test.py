#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: examples-test MESON BUILD EXAMPLES

Installs the library into a scratch folder, builds each example against that and nothing else, runs its tests, and runs
the conformance suite with the example's ops in place of ours.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile

# Folder of an example -> the plugin of ours that it replaces, and its own id.
EXAMPLES = {"ernie-op-c": ("ernie", "ernie-example")}


def install(meson, build, scratch):
    """Installs into scratch and lets the pkg-config files say so. Returns their folder."""
    subprocess.run([meson, "install", "-C", build, "--destdir", scratch, "--no-rebuild", "--quiet"], check=True)
    folders = [path for path, _, names in os.walk(scratch) if "weft-1.pc" in names]
    assert len(folders) == 1, folders
    for name in os.listdir(folders[0]):
        path = os.path.join(folders[0], name)
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(re.sub(r"(?m)^prefix=", f"prefix={scratch}", text))
    return folders[0]


def main():
    meson, build, examples = sys.argv[1:]
    with tempfile.TemporaryDirectory() as scratch:
        packages = install(meson, build, os.path.join(scratch, "installed"))
        environment = dict(os.environ, PKG_CONFIG_PATH=packages, LD_LIBRARY_PATH=os.path.dirname(packages))
        for name, (replaced, own) in EXAMPLES.items():
            source = os.path.join(scratch, name)
            shutil.copytree(os.path.join(examples, name), source, ignore=shutil.ignore_patterns("build"))
            for words in (["setup", "build"], ["compile", "-C", "build"], ["test", "-C", "build"]):
                subprocess.run([meson, *words], cwd=source, env=environment, check=True)
            subprocess.run([os.path.join(build, "tests", "check", "check-test"), own], check=True, env=dict(
                environment, WEFT_PLUGIN_PATH=os.path.join(source, "build"), WEFT_PLUGIN_DENY=replaced))


if __name__ == "__main__":
    main()
