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
    ("plan model --tp-size 0", 2, "--tp-size and --ep-size are numbers of ranks"),
    ("convert model --tp-size=0 -o out", 2, "'0' is no number of ranks"),
    ("convert model --tp-size 2 --ep-size 0 -o out", 2, "'0' is no number of ranks"),
    ("convert model --tp-size 99999999999 -o out", 2, "'99999999999' is no number of ranks"),
    ("plan model --tp-size 2 --tp-rank x", 2, "'x' is no rank"),
    ("convert model --tp-size 2", 2, "the parts of all ranks need a folder to go to"),
    ("convert model --tp-size 2 -o out.safetensors", 2, "name one rank to make a file"),
    ("shard model -o out", 2, "how many ranks there are is needed"),
    ("shard model -n 2x -o out", 2, "'2x' is no number of ranks"),
    ("shard model -n 99999 -o out", 2, "'99999' is no number of ranks, from 1 to 65536"),
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

    def test_existing_of_others(self):
        """A folder is replaced with --force if it holds ranks or a checkpoint, and what else is in it stays."""
        out = os.path.join(self.folder, "mixed")
        self.run_weft("convert model --tp-size 4 -o mixed")
        with open(os.path.join(out, "notes.txt"), "w", encoding="utf-8") as file:
            file.write("mine")
        self.assertIn("exists", self.run_weft("convert model --tp-size 2 -o mixed", 1).stderr)
        self.assertEqual(len(os.listdir(out)), 5)
        self.assertIn("mixed.weft-old", self.run_weft("convert model --tp-size 2 -o mixed --force").stderr)
        self.require_same("mixed", "ranks")
        self.assertEqual(made.read_folder(out + ".weft-old"), {"notes.txt": b"mine"})
        for folder, words in (("models", "somebody/model.safetensors"), ("empty", None)):
            os.makedirs(os.path.join(self.folder, folder, *([os.path.dirname(words)] if words else [])))
            if words:
                shutil.copy(os.path.join(out, "rank-00000-of-00002", sorted(os.listdir(os.path.join(out, "rank-00000-of-00002")))[0]),
                            os.path.join(self.folder, folder, words))
            for force in ("", " --force"):
                self.assertIn("exists", self.run_weft(f"convert model --tp-size 2 -o {folder}{force}", 1).stderr)
            self.assertTrue(os.path.isdir(os.path.join(self.folder, folder)))

    def test_source_inside(self):
        """The whole folder is kept from the source, not only that of one rank."""
        self.run_weft("convert model --tp-size 2 -o nest")
        shutil.copytree(os.path.join(self.folder, "model"), os.path.join(self.folder, "nest", "model"))
        self.assertIn("holds the source", self.run_weft("convert nest/model --tp-size 2 -o nest --force", 1).stderr)
        self.assertIn("lies inside the source", self.run_weft("convert model --tp-size 2 -o model/ranks", 1).stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "model", "ranks.weft-partial")))

    def test_refused_plan(self):
        for words in ("--plan none.json", "--tp-size 3 --ep-size 2"):
            self.run_weft(f"convert model --tp-size 2 -o never {words}", 1)
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("never")], [])

    def interrupt(self, out):
        """Stops when the first rank is whole: something has the name that the second one is written under."""
        partial = os.path.join(self.folder, out + ".weft-partial")
        os.makedirs(partial)
        made.write_text(os.path.join(partial, ".weft-journal"), "")
        made.write_text(os.path.join(partial, "rank-00001-of-00002.weft-partial"), "in the way")
        failed = self.run_weft(f"convert model --tp-size 2 -o {out} --resume", 1).stderr
        self.assertIn("found something else there", failed)
        self.assertFalse(os.path.exists(os.path.join(self.folder, out)))
        os.remove(os.path.join(partial, "rank-00001-of-00002.weft-partial"))
        return partial

    def test_all_or_none(self):
        """All ranks appear at once; one that an interrupted run has made is kept by --resume, if it is of the same plan."""
        partial = self.interrupt("late")
        self.assertEqual(sorted(os.listdir(partial)), [".weft-journal", "rank-00000-of-00002", "rank-00000-of-00002.weft-done"])
        self.assertIn("what an interrupted run has left", self.run_weft("gather late.weft-partial -o out", 1).stderr)
        first = os.stat(os.path.join(partial, "rank-00000-of-00002")).st_ino
        results = json.loads(self.run_weft("convert model --tp-size 2 -o late --resume --json").stdout)
        self.assertEqual([result["files_resumed"] > 0 for result in results], [True, False])
        self.assertEqual(os.stat(os.path.join(self.folder, "late", "rank-00000-of-00002")).st_ino, first)
        self.require_same("late", "ranks")
        self.assertFalse(os.path.exists(partial))

    def test_resumed_after_damage(self):
        """A rank that an earlier run has made is kept only as it was made, and of the files that there are now."""
        rank = os.path.join(self.folder, "damaged.weft-partial", "rank-00000-of-00002")
        config = os.path.join(self.folder, "model", "config.json")
        weights = os.path.join(rank, min(name for name in os.listdir(os.path.join(self.folder, "ranks", "rank-00000-of-00002")) if name.endswith(".safetensors")))
        damages = {
            "cut": lambda: os.truncate(weights, os.path.getsize(weights) - 1),
            "gone": lambda: os.remove(os.path.join(rank, "config.json")),
            "more": lambda: made.write_text(os.path.join(rank, "more"), ""),
            "source": lambda: os.utime(config, (1, 1)),
        }
        for name, damage in damages.items():
            with self.subTest(name=name):
                self.interrupt("damaged")
                damage()
                results = json.loads(self.run_weft("convert model --tp-size 2 -o damaged --resume --json").stdout)
                self.assertEqual([result["files_resumed"] for result in results], [0, 0])
                self.require_same("damaged", "ranks")
                shutil.rmtree(os.path.join(self.folder, "damaged"))

    def test_resumed_with_another_plan(self):
        for words in ("--dtype F32", "--tp-size 4"):
            with self.subTest(words=words):
                self.interrupt("other")
                results = json.loads(self.run_weft(f"convert model --tp-size 2 {words} -o other --resume --json").stdout)
                self.assertEqual([result["files_resumed"] for result in results], [0] * len(results))
                self.run_weft(f"convert model --tp-size 2 {words} -o fresh")
                self.require_same("other", "fresh")
                shutil.rmtree(os.path.join(self.folder, "other"))
                shutil.rmtree(os.path.join(self.folder, "fresh"))

    def test_gather_of_leftovers(self):
        """Only exact names are ranks: what a run has left would be joined as holes."""
        for number, (name, message) in enumerate((
                ("rank-00001-of-00002.weft-partial", "found rank-00001-of-00002.weft-partial"),
                ("rank-00001-of-00002.weft-old", "found rank-00001-of-00002.weft-old"),
                ("rank-1-of-2", "found rank-1-of-2"),
                ("rank-00000-of-00003", "holds what ranks of 2 and of 3 have"))):
            with self.subTest(name=name):
                shutil.copytree(os.path.join(self.folder, "ranks"), os.path.join(self.folder, f"left-{number}"))
                os.mkdir(os.path.join(self.folder, f"left-{number}", name))
                self.assertIn(message, self.run_weft(f"gather left-{number} -o out", 1).stderr)
        made.write_text(os.path.join(self.folder, "left-0", "rank-00000-of-00002", ".weft-journal"), "")
        os.rmdir(os.path.join(self.folder, "left-0", "rank-00001-of-00002.weft-partial"))
        self.assertIn("finish it with --resume, or remove it", self.run_weft("gather left-0 -o out", 1).stderr)
        self.assertIn("finish it with --resume, or remove it", self.run_weft("gather left-0/rank-00000-of-00002 ranks/rank-00001-of-00002 -o out", 1).stderr)

    def test_records_that_tell_of_no_checkpoint(self):
        """What ranks say of the whole, each the same, has to be a checkpoint that can be opened."""
        def rename(record):
            record["files"][0]["name"] = "config.json"

        def empty_index(record):
            record["index"]["text"] = "{}"

        def rename_index(record):
            record["index"]["name"] = "notes.json"

        cases = {
            "file": (rename, "'index' names other files than 'files' does"),
            "index": (empty_index, "'index' is no index of the tensors"),
            "index-name": (rename_index, "'index' is no index of the tensors"),
            "no-index": (lambda record: record.pop("index"), "without an 'index' one file is expected"),
            "provenance": (lambda record: record.update(provenance="[1]"), "'provenance' is no JSON object"),
        }
        for name, (edit, message) in cases.items():
            with self.subTest(name=name):
                edited = os.path.join(self.folder, f"edited-{name}")
                shutil.copytree(os.path.join(self.folder, "ranks"), edited)
                for rank in os.listdir(edited):
                    path = os.path.join(edited, rank, "weft-provenance.json")
                    with open(path, encoding="utf-8") as file:
                        record = json.load(file)
                    edit(record)
                    made.write_text(path, json.dumps(record))
                self.assertIn(message, self.run_weft(f"gather edited-{name} -o never", 1).stderr)
                self.assertFalse(os.path.exists(os.path.join(self.folder, "never")))

    def test_published_names(self):
        """Rules of the runtime's names leave published experts whole: that is said."""
        self.assertIn("model.layers.*.mlp.experts.gate_up_proj: the model's own plan has this rule", self.run_weft("shard model -n 2 -o published").stderr)


if __name__ == "__main__":
    unittest.main()
