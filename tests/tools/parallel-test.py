# SPDX-License-Identifier: Apache-2.0
"""What ranks hold, from the command line: all at once and one alone, fused and packed, joined, and told in advance."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import made_checkpoint as made

WEFT, MAKE_SAMPLE = os.environ["WEFT"], os.environ["MAKE_SAMPLE"]

# Words, exit code, and what standard error says.
REFUSED = [
    ("plan model --tp-rank 0", 2, "a rank or a plan needs the number of ranks"),
    ("plan model --tp-size -1", 2, "--tp-size and --ep-size are numbers of ranks"),
    ("plan model --tp-size 2 --tp-rank x", 2, "'x' is no rank"),
    ("convert model --tp-size 2", 2, "the parts of all ranks need a folder to go to"),
    ("convert model --tp-size 2 -o out.safetensors", 2, "name one rank to make a file"),
    ("shard model -o out", 2, "how many ranks there are is needed"),
    ("shard model -n 2x -o out", 2, "'2x' is no number of ranks"),
    ("gather model", 2, "where the whole goes is needed"),
    ("plan model --tp-size 2 --tp-rank 2", 1, "there is no rank 2 among 2"),
    ("plan model --tp-size 2 --ep-size 3", 1, "experts over 3 ranks and tensors over 2 do not make one mesh"),
    ("plan model --tp-size 100000", 1, "expected from 1 to 65536 ranks"),
    ("plan model --tp-size 2 --plan none.json", 1, "none.json"),
    ("plan model --ep-size 3", 1, "4 experts cannot be spread evenly over 3 ranks"),
    ("plan packed --tp-size 8", 1, "sizes that would do: 2, 4"),
    ("convert packed --tp-size 8 -o out", 1, "sizes that would do: 2, 4"),
    ("gather model -o out", 1, "has no record (weft-provenance.json) of what it holds"),
    ("revert ranks/rank-00000-of-00002 -o out", 1, "join them first (`weft gather`)"),
    ("gather ranks/rank-00000-of-00002 -o out", 1, "1 of 2 ranks are given, give the others too"),
]


class ParallelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="weft-parallel-")
        subprocess.run([sys.executable, MAKE_SAMPLE, "model", "--layers", "1", "--hidden", "512", "--intermediate", "512"],
                       cwd=cls.folder, check=True, capture_output=True)
        cls.run_weft("convert model -o whole")
        cls.run_weft("convert model --quantize fp8-block -o packed")
        cls.run_weft("convert model --tp-size 2 -o ranks")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def run_weft(cls, words, code=0):
        command, *rest = words.split()
        writes = command in ("convert", "shard", "gather") and "-o" in rest
        result = subprocess.run([WEFT, command, *rest, *(["--no-sync"] if writes else [])], cwd=cls.folder, capture_output=True, text=True,
                                timeout=120, check=False)
        if result.returncode != code:
            raise AssertionError(f"weft {words} ended with {result.returncode}: {result.stderr}")
        return result

    def require_same(self, one, other):
        self.assertEqual(made.read_folder(os.path.join(self.folder, one)), made.read_folder(os.path.join(self.folder, other)))

    def test_refused(self):
        for words, code, message in REFUSED:
            with self.subTest(words=words):
                self.assertIn(message, self.run_weft(words, code).stderr)
                self.assertFalse(os.path.exists(os.path.join(self.folder, "out")))

    def test_joined(self):
        """Whatever a rank's part is made of: a merge, a fusion, codes that are made on the way, codes that are there."""
        self.run_weft("convert model --fusion qkv -o fused")
        for number, (words, whole) in enumerate((
                ("convert model --tp-size 2", "whole"), ("convert model --ep-size 4", "whole"), ("convert model --tp-size 2 --ep-size 4", "whole"),
                ("convert model --fusion qkv --tp-size 4", "fused"), ("shard fused -n 2", "fused"), ("shard packed -n 4", "packed"),
                ("convert model --quantize fp8-block --tp-size 2", "packed"), ("shard model -n 2", "model"), ("shard whole -n 3", "whole"))):
            with self.subTest(words=words):
                self.run_weft(f"{words} -o parts-{number}")
                self.run_weft(f"gather parts-{number} -o joined-{number}")
                self.require_same(f"joined-{number}", whole)

    def test_one_rank(self):
        self.run_weft("convert model --tp-size 2 --tp-rank 1 -o one")
        self.require_same("one", "ranks/rank-00001-of-00002")
        self.run_weft("convert model --tp-size 2 --tp-rank 1 --max-shard-size 5GB -o one.safetensors")
        named = json.loads(self.run_weft("inspect --json one.safetensors").stdout)
        self.assertEqual(len(named), len(json.loads(self.run_weft("inspect --json one").stdout)))

    def test_told(self):
        parallel = json.loads(self.run_weft("plan model --tp-size 3 --json").stdout)["parallel"]
        self.assertEqual([parallel[name] for name in ("world_size", "tp_size", "ep_size", "rank")], [3, 3, 1, 0])
        self.assertEqual(len(parallel["ranks"]), 3)
        self.assertEqual(parallel["styles"]["model.layers.0.mlp.experts.gate_up_proj"], "packed_colwise")
        # 512 rows in three parts of 171 lack one.
        self.assertEqual(parallel["padding"]["model.layers.0.self_attn.q_proj.weight"], 512)
        results = json.loads(self.run_weft("convert model --tp-size 3 --json -o three").stdout)
        self.assertEqual([result["bytes_kept"] for result in results], [rank["bytes"] for rank in parallel["ranks"]])
        told = self.run_weft("plan model --tp-size 3").stderr
        self.assertIn("rank 2: ", told)
        self.assertIn("model.layers.0.self_attn.q_proj.weight is cut uneven", told)

    def test_existing(self):
        self.run_weft("convert model --tp-size 2 -o again")
        self.assertIn("exists", self.run_weft("convert model --tp-size 2 -o again", 1).stderr)
        self.run_weft("convert model --tp-size 2 -o again --force")
        self.require_same("again", "ranks")

    def test_published_names(self):
        """Rules of the runtime's names leave published experts whole: that is said."""
        self.assertIn("model.layers.*.mlp.experts.gate_up_proj: the model's own plan has this rule", self.run_weft("shard model -n 2 -o published").stderr)


if __name__ == "__main__":
    unittest.main()
