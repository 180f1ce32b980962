# SPDX-License-Identifier: Apache-2.0
"""Anonymous memory stays within 64 MiB and 1 KiB a tensor, whatever the size of the checkpoint.

Two measures: RssAnon, sampled, which is the memory itself but may miss a short peak; and a run under RLIMIT_DATA, which
no peak escapes. That limit counts private writable mappings, touched or not, so the stacks of threads are kept small,
which would count with 8 MiB each. A cgroup is no measure of it: it counts the pages of the files as well."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

WEFT = os.environ["WEFT"]
MAKE_CHECKPOINT = os.environ["MAKE_CHECKPOINT"]
MIB = 1 << 20
SAMPLE_SECONDS = 0.005
STACK_BYTES = MIB
CHECKPOINT_BYTES = 600 * MIB
SKIPPED = 77

TURN = {"type": "Transpose", "dim0": 1, "dim1": 2}
RULES = [
    {"type": "WeightConverter", "source_patterns": [".experts.*.w1.weight", ".experts.*.w3.weight"],
     "target_patterns": [".experts.gate_up_proj"],
     "operations": [{"type": "MergeModulelist", "dim": 0}, {"type": "Concatenate", "dim": 1}, TURN]},
    {"type": "WeightConverter", "source_patterns": [".experts.*.w2.weight"], "target_patterns": [".experts.down_proj"],
     "operations": [{"type": "MergeModulelist", "dim": 0}, TURN]},
]
# what, checkpoint to make, options of the conversion
CASES = [
    ("merge", ["mixtral", "--layers", "3"], []),
    ("merge and transpose", ["mixtral", "--layers", "3"], ["--mapping", "rules.json"]),
    ("merge, transpose and cast", ["mixtral", "--layers", "3"], ["--mapping", "rules.json", "--dtype", "F32"]),
    ("one big tensor", ["mixtral", "--layers", "1", "--experts", "1", "--vocabulary", "140000"], ["--dtype", "F16"]),
    ("many tensors", ["tiny", "--layers", "12"], []),
]
# Three weights of 160 MiB.
BIG_WEIGHTS = ["llama", "--layers", "1", "--intermediate", "40960"]


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as status:
            return next((int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon:")), 0)
    except OSError:
        return 0


def limit_memory(n_bytes):
    resource.setrlimit(resource.RLIMIT_STACK, (STACK_BYTES, STACK_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (n_bytes, n_bytes))


class MemoryTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="weft-memory-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.made = {}
        with open(os.path.join(cls.scratch, "rules.json"), "w") as file:
            json.dump(RULES, file)

    def make(self, words):
        """A checkpoint, and how many tensors it holds."""
        if tuple(words) not in self.made:
            folder = os.path.join(self.scratch, f"source-{len(self.made)}")
            printed = subprocess.run([MAKE_CHECKPOINT, words[0], folder, *words[1:]], capture_output=True, text=True, check=True)
            self.made[tuple(words)] = (folder, int(printed.stdout.split()[0]))
        return self.made[tuple(words)]

    def start(self, folder, options, n_limit_bytes=None):
        output = os.path.join(self.scratch, "output")
        shutil.rmtree(output, ignore_errors=True)
        shutil.rmtree(output + ".weft-partial", ignore_errors=True)
        return subprocess.Popen([WEFT, "convert", folder, "-o", output, "--no-sync", "--quiet", *options], cwd=self.scratch,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                preexec_fn=(lambda: limit_memory(n_limit_bytes)) if n_limit_bytes else None)

    def assert_sampled_is_bounded(self, folder, n_tensors, options):
        peak = 0
        with self.start(folder, options) as running:
            while running.poll() is None:
                peak = max(peak, anonymous_bytes(running.pid))
                time.sleep(SAMPLE_SECONDS)
            self.assertEqual(running.returncode, 0, running.stderr.read())
        self.assertGreater(peak, 0)
        self.assertLessEqual(peak, 64 * MIB + 1024 * n_tensors)

    def assert_passes_under_a_limit(self, folder, n_tensors, options):
        with self.start(folder, options, 64 * MIB + 1024 * n_tensors) as running:
            _, errors = running.communicate(timeout=120)
        self.assertEqual(running.returncode, 0, errors)

    def test_sampled_memory_is_bounded(self):
        for what, words, options in CASES:
            with self.subTest(what=what):
                self.assert_sampled_is_bounded(*self.make(words), options)

    def test_conversions_pass_under_a_limit(self):
        for what, words, options in CASES:
            with self.subTest(what=what):
                self.assert_passes_under_a_limit(*self.make(words), options)

    def test_f63(self):
        """Neither dequantising nor quantising, whose scales are remembered, holds a weight or expands its scales."""
        dense, n_tensors = self.make(BIG_WEIGHTS)
        packed = os.path.join(self.scratch, "packed")
        for check in (self.assert_sampled_is_bounded, self.assert_passes_under_a_limit):
            with self.subTest(what="quantise", check=check.__name__):
                check(dense, n_tensors, ["--quantize", "fp8"])
        os.rename(os.path.join(self.scratch, "output"), packed)
        for check in (self.assert_sampled_is_bounded, self.assert_passes_under_a_limit):
            with self.subTest(what="dequantise", check=check.__name__):
                check(packed, n_tensors, ["--dequantize"])

    def test_the_limit_bites(self):
        what, words, options = CASES[2]
        with self.subTest(what=what), self.start(self.make(words)[0], options, 4 * MIB) as running:
            running.communicate(timeout=120)
            self.assertNotEqual(running.returncode, 0)


if __name__ == "__main__":
    if shutil.disk_usage(tempfile.gettempdir()).free < 8 * CHECKPOINT_BYTES or not anonymous_bytes("self"):
        print("there is too little room for temporary files, or /proc does not tell anonymous memory")
        sys.exit(SKIPPED)
    unittest.main()
