# SPDX-License-Identifier: Apache-2.0
"""Kinds of failure with memory: what a conversion holds does not grow with what it converts."""

import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
sys.dont_write_bytecode = True

import made_checkpoint as made  # noqa: E402

WEFT = os.environ["WEFT"]
MIB = 1024 * 1024
# Beyond what a run with next to no tensor needs: tiles of all threads, and windows of mapped output.
BOUND = 64 * MIB


def peak_bytes(words):
    """Runs the command; the most memory that it had at once, mapped files included."""
    child = os.posix_spawn(WEFT, [WEFT, *words], os.environ)
    _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status) != 0:
        raise AssertionError(f"weft {' '.join(words)} failed")
    return usage.ru_maxrss * 1024


class MemoryTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-memory.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def peak(self, name, tensors, words):
        source = os.path.join(self.root, name)
        made.write_folder(source, [tensors], {"model_type": "mixtral"})
        return peak_bytes(["convert", source, "-o", source + ".out", "--quiet", "--no-sync", "--drop-unexpected", *words])

    def assert_bounded(self, tensors, little, words):
        size = sum(len(values) for _, _, values in tensors.values())
        grown = self.peak("big", tensors, words) - self.peak("little", little, words)
        self.assertGreater(size, 3 * BOUND)
        self.assertLess(grown, BOUND, f"{size} bytes of tensors need {grown} bytes more than next to none")

    @staticmethod
    def experts(rows, columns):
        return {f"l.block_sparse_moe.experts.{i}.{w}.weight": made.tensor("BF16", (rows, columns), i)
                for i in range(8) for w in ("w1", "w3")}

    def test_f62(self):
        """Merging does not hold the group that it merges, with a cast or without."""
        for words in ([], ["--dtype", "F32"]):
            with self.subTest(words=words):
                self.assert_bounded(self.experts(4096, 1600), self.experts(4, 4), words)
                shutil.rmtree(self.root)

    def test_f63(self):
        """Casting does not hold the tensor that it casts."""
        self.assert_bounded({"w": made.tensor("F32", (8192, 6400), 1)}, {"w": made.tensor("F32", (4, 4), 1)},
                            ["--dtype", "BF16"])


if __name__ == "__main__":
    unittest.main()
