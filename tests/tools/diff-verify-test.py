# SPDX-License-Identifier: Apache-2.0
"""`weft diff` and `weft verify` as a user types them: exit codes, what is printed, and that nothing is written."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import made_checkpoint as made  # noqa: E402

WEFT = os.environ["WEFT"]
CONFIG = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
LAYER = "model.layers.0.block_sparse_moe"


def published(seed=0):
    return {f"{LAYER}.experts.{i}.{w}.weight": made.tensor("BF16", (4, 4), seed + 10 * i + j)
            for i in range(12) for j, w in enumerate(("w1", "w2", "w3"))}


class DiffVerifyTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-diff.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.source, self.out, self.back = (os.path.join(self.root, name) for name in ("source", "out", "back"))
        made.write_folder(self.source, [published()], CONFIG)

    def weft(self, *words, code=0):
        result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def convert(self, *words):
        self.weft("convert", self.source, "-o", self.out, "--no-sync", *words)

    def test_first_example(self):
        self.convert()
        self.weft("revert", self.out, "-o", self.back, "--no-sync")
        result = self.weft("diff", self.source, self.back)
        self.assertEqual(result.stdout, "")
        self.assertIn("equal: 36 tensors compared", result.stderr)
        self.weft("diff", "--bytes", self.source, self.back)

    def test_why_a_layout_is_not_to_be_had(self):
        self.convert()
        record = os.path.join(self.out, "weft-provenance.json")
        with open(record, encoding="utf-8") as file:
            text = file.read()
        made.write_text(record, text.replace("MergeModulelist", "NoSuchOp"))
        with open(os.path.join(self.out, "model.safetensors"), "r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\0")
        result = self.weft("diff", self.source, self.out, code=3)
        self.assertIn("B cannot be compared as reverted: ", result.stderr)
        self.assertIn("NoSuchOp", result.stderr)

    def test_both_layouts_are_equal(self):
        self.convert()
        for words in ((self.source, self.out), (self.out, self.source)):
            self.assertIn("the layouts are not the same", self.weft("diff", *words).stderr)
        found = json.loads(self.weft("diff", "--json", self.source, self.out).stdout)
        self.assertEqual((found["equal"], found["layouts"]), (True, ["stored", "reverted"]))
        os.remove(os.path.join(self.out, "weft-provenance.json"))
        self.weft("diff", self.source, self.out)
        found = json.loads(self.weft("diff", "--bytes", "--json", self.source, self.out, code=3).stdout)
        self.assertEqual([file["name"] for file in found["file"]], ["model.safetensors"])

    def test_values_are_found_and_grouped(self):
        made.write_folder(self.back, [published(seed=1)], CONFIG)
        result = self.weft("diff", self.source, self.back, code=3)
        self.assertEqual(len(result.stdout.splitlines()), 3, result.stdout)
        self.assertIn("experts.{0...11}.w1.weight (12; the worst:): ", result.stdout)
        found = json.loads(self.weft("diff", "--json", self.source, self.back, code=3).stdout)
        self.assertEqual(len(found["values"]), 36)
        self.assertEqual(found["values"][0]["n_elements"], 16)
        self.assertEqual(found["values"][0]["first_index"], [0, 0])
        self.assertEqual(found["values"][0]["largest"], 1.0)
        self.weft("diff", "--names", self.source, self.back)

    def test_names_read_no_tensor(self):
        other = published(seed=1)
        other["extra"] = made.tensor("F32", (2,), 1)
        del other[f"{LAYER}.experts.3.w2.weight"]
        made.write_folder(self.back, [other], CONFIG)
        self.assertEqual(self.weft("diff", "--names", self.source, self.back, code=3).stdout,
                         f"ONLY IN A  {LAYER}.experts.3.w2.weight\nONLY IN B  extra\n")

    def test_metadata_and_config_are_told(self):
        made.write_folder(self.back, [published()], dict(CONFIG, hidden_size=7))
        self.assertIn("config.json is not the same", self.weft("diff", self.source, self.back).stderr)

    def test_wrong_command_lines(self):
        for words, code, message in (
                (("diff", self.source), 2, "an argument is missing"),
                (("diff", self.source, self.source, "--names", "--bytes"), 2, "choose one"),
                (("diff", self.source, "/no/such/folder"), 1, "/no/such/folder"),
                (("verify", self.source, "--bytes"), 2, "--bytes goes with --round-trip"),
                (("verify", "/no/such/folder"), 1, "there is no such file or folder"),
                (("verify", self.source, "--source", "/no/such/folder"), 1, "/no/such/folder")):
            with self.subTest(words=words):
                self.assertIn(message, self.weft(*words, code=code).stderr)

    def test_verify_passes_and_writes_nothing(self):
        self.convert("--hash")
        before = made.read_folder(self.root)
        for words, checks in (((), ["files", "record", "hashes"]),
                              (("--source", self.source), ["files", "record", "source"]),
                              (("--round-trip", self.source), ["files", "record", "round trip: headers", "round trip: files"]),
                              (("--round-trip", self.source, "--bytes"),
                               ["files", "record", "round trip: bytes", "round trip: files"])):
            found = json.loads(self.weft("verify", self.out, "--json", *words).stdout)
            self.assertTrue(found["passed"])
            self.assertEqual([check["check"] for check in found["checks"]], checks)
            self.assertEqual({check["outcome"] for check in found["checks"]}, {"passed"})
        self.assertEqual(made.read_folder(self.root), before)

    def test_verify_finds_a_flipped_bit(self):
        self.convert("--hash")
        path = os.path.join(self.out, "model.safetensors")
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))
        self.assertIn("FAILED   hashes: model.safetensors", self.weft("verify", self.out, code=3).stdout)
        self.weft("verify", self.out, "--round-trip", self.source)
        result = self.weft("verify", self.out, "--round-trip", self.source, "--bytes", code=3)
        self.assertIn("FAILED   round trip: bytes", result.stdout)
        self.assertIn("1 of 16 elements", result.stdout)

    def test_a_missing_op_is_no_fault_of_the_files(self):
        self.convert()
        environment = dict(os.environ, WEFT_PLUGIN_SYSTEM_PATH="")
        result = subprocess.run([WEFT, "verify", self.out], capture_output=True, text=True, timeout=120, check=False,
                                env=environment)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("op 'MergeModulelist' is unknown", result.stderr)

    def test_verify_takes_the_options_of_convert(self):
        self.convert("--dtype", "F32")
        self.weft("verify", self.out, "--source", self.source, code=3)
        self.weft("verify", self.out, "--source", self.source, "--dtype", "F32")


if __name__ == "__main__":
    unittest.main()
