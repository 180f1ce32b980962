# SPDX-License-Identifier: Apache-2.0
"""`weft lint` as a user types it: what it takes, what it prints, its exit codes."""

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


def rename(source, target):
    return {"type": "WeightRenaming", "source_patterns": source, "target_patterns": target}


class LintTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-lint.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def write(self, name, content):
        path = os.path.join(self.root, name)
        made.write_text(path, json.dumps(content))
        return path

    def lint(self, *words, code):
        result = subprocess.run([WEFT, "lint", *words], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def test_file(self):
        path = self.write("mine.json", [rename("^lm\\.head", "head"), rename("^lm", "model.lm")])
        result = self.lint(path, code=3)
        self.assertIn("order  rule 1: mine[1] '^lm' -> 'model.lm'", result.stdout)
        self.assertIn("with rule 0: mine[0] '^lm\\.head' -> 'head'", result.stdout)
        self.assertIn("example: lm.head\n", result.stdout)
        self.assertIn("it becomes 'head'; with rule 1 before rule 0 it would become 'model.lm.head'", result.stdout)
        self.assertIn("renamings see what earlier ones have made", result.stdout)
        found = json.loads(self.lint(path, "--json", code=3).stdout)
        self.assertEqual([(f["mapping"], f["kind"], f["rule"], f["other"], f["key"]) for f in found],
                         [(path, "order", 1, 0, "lm.head")])
        self.assertLessEqual({"detail", "reason", "advice", "pattern"}, set(found[0]))

    def test_nothing_found(self):
        self.assertEqual(self.lint(self.write("mine.json", [rename("^a\\.", "b.")]), code=0).stdout, "")
        self.assertEqual(json.loads(self.lint("mixtral", "--json", code=0).stdout), [])

    def test_checkpoint(self):
        folder = os.path.join(self.root, "checkpoint")
        made.write_folder(folder, [{"model.layers.0.block_sparse_moe.gate.weight": made.tensor("F32", (2,), 1)}],
                          {"model_type": "mixtral"})
        found = json.loads(self.lint(folder, "--json", code=3).stdout)
        self.assertEqual([(f["kind"], f["rule"]) for f in found], [("idle", 1), ("idle", 2)])

    def test_module_tree_finds_idle_rules(self):
        tree = self.write("tree.json", {"class": "My", "model_type": "mine", "base_model_prefix": "model", "tensors": [
            {"name": "model.b.w", "shape": [1], "dtype": "F32", "persistent": True, "is_buffer": False}]})
        path = self.write("mine.json", [rename("^model\\.a\\.", "model.b."), rename("^model\\.q\\.", "model.r.")])
        found = json.loads(self.lint(path, "-t", tree, "--json", code=3).stdout)
        self.assertEqual([(f["kind"], f["rule"]) for f in found], [("idle", 1)])

    def test_known_models_need_every_rule_of_theirs(self):
        self.assertEqual(json.loads(self.lint("mixtral", "--known", "--json", code=0).stdout), [])
        path = self.write("mixtral.json", [rename("\\.block_sparse_moe\\.", ".mlp."), rename("\\.no_such_part\\.", ".part.")])
        found = json.loads(self.lint(path, "--known", "--json", code=3).stdout)
        self.assertEqual([(f["kind"], f["rule"]) for f in found], [("idle", 1)])

    def test_summary(self):
        self.assertRegex(self.lint("--all", "--summary", code=3).stdout, r"(?m)^\d+ order: ")

    def test_wrong_order_is_refused_when_read(self):
        path = self.write("mine.json", [
            {"type": "WeightConverter", "source_patterns": "e.*.w", "target_patterns": "e.up",
             "operations": [{"type": "MergeModulelist", "dim": 0}]},
            rename("\\.up", ".raised")])
        self.assertIn("renamings run before converters", self.lint(path, code=1).stderr)

    def test_wrong_command_lines(self):
        for words, code, message in ((("no-such-thing",), 1, "is no mapping, no mapping file and no checkpoint"),
                                     ((), 2, "or give --all"), (("mixtral", "--all"), 2, "or give --all"),
                                     (("mixtral", "-t", "/no/such.json"), 1, "/no/such.json")):
            with self.subTest(words=words):
                self.assertIn(message, self.lint(*words, code=code).stderr)


if __name__ == "__main__":
    unittest.main()
