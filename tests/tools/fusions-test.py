# SPDX-License-Identifier: Apache-2.0
"""Fusions as a user types them: families and where they fit, a config that stores them, and what is said of a wrong one."""

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
SHAPES = {f"layers.{layer}.mlp.{name}_proj.weight": [4, 2] for layer in (0, 1) for name in ("gate", "up")}
FUSED = ["layers.0.mlp.gate_up_proj.weight", "layers.1.mlp.gate_up_proj.weight"]


class FusionsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-fusions.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.write("tree.json", {"class": "Tiny", "model_type": "tiny",
                                 "tensors": [{"name": name, "shape": shape, "dtype": "float32"} for name, shape in SHAPES.items()]})

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, content):
        made.write_text(self.path(name), content if isinstance(content, str) else json.dumps(content))

    def make(self, name, **config):
        tensors = {key: made.tensor("F32", shape, seed) for seed, (key, shape) in enumerate(SHAPES.items())}
        made.write_folder(self.path(name), [tensors], {"model_type": "tiny", **config})
        return self.path(name)

    def weft(self, command, folder, *words, code=0):
        result = subprocess.run([WEFT, command, folder, "--module-tree", "tree.json", *words], capture_output=True, text=True, timeout=120,
                                check=False, cwd=self.root)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        return result

    def names(self, folder, *words):
        return [output["name"] for output in json.loads(self.weft("plan", folder, "--json", *words).stdout)["outputs"]]

    def test_families(self):
        listed = subprocess.run([WEFT, "fusions"], capture_output=True, text=True, timeout=120, check=True).stdout
        self.assertEqual([line.split()[0] for line in listed.splitlines()], ["gate_up", "moe_experts", "patch_embeddings", "qkv", "rms_norm"])
        found = {row["name"]: row for row in json.loads(self.weft("fusions", self.make("m"), "--json").stdout)}
        self.assertEqual(found["gate_up"]["modules"], ["layers.0.mlp", "layers.1.mlp"])
        self.assertEqual((found["qkv"]["modules"], found["gate_up"]["reason"]), ([], None))
        self.assertIn("fits no module of this model", found["qkv"]["reason"])

    def test_plan(self):
        plan = json.loads(self.weft("fusions", self.make("m"), "--plan", "--json", "--fusion", "gate_up").stdout)
        self.assertEqual([module["fqns"] for module in plan["modules"]], [["layers.0.mlp"], ["layers.1.mlp"]])
        self.assertEqual(plan["modules"][0]["origin"], "fusion 'gate_up' (--fusion)")
        self.assertEqual([rule["scope"] for rule in plan["rules"]], ["layers.0.mlp", "layers.1.mlp"])
        self.assertEqual(plan["parallel_styles"]["layers.1.mlp.gate_up_proj"], "packed_colwise")
        tree = json.loads(self.weft("fusions", self.path("m"), "--tree", "--fusion", "gate_up").stdout)
        self.assertEqual([tensor["name"] for tensor in tree["tensors"]], FUSED)

    def test_unknown_modules(self):
        made.write_folder(self.path("unknown"), [{"a.weight": made.tensor("F32", [1], 0)}], {"model_type": "unheard-of", "fusion_config": {"gate_up": True}})
        for words, code, text in (((), 1, "what modules the model has is not known"), (("--tree",), 1, "what modules the model has is not known"),
                                  (("--plan",), 0, "what the runtime expects is not known: nothing is fused"),
                                  (("--fusion", "qkv"), 2, "goes with --plan or --tree")):
            with self.subTest(words=words):
                result = subprocess.run([WEFT, "fusions", self.path("unknown"), *words], capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(text, result.stderr)

    def test_stored(self):
        stored = self.make("stored", fusion_config={"gate_up": True})
        self.assertEqual(self.names(stored), FUSED)
        self.assertEqual(self.names(stored, "--no-fusion"), sorted(SHAPES))
        self.write("off.json", {})
        self.assertEqual(self.names(stored, "--fusion-config", "off.json"), sorted(SHAPES))
        by_path = self.make("by-path", parallelism={"tp": 2, "plan_overrides": [{"match": "layers.1.mlp", "replace_module": {"_target_": "gate_up"}}]})
        self.assertEqual(self.names(by_path), sorted(SHAPES)[:2] + FUSED[1:])
        self.assertEqual(self.names(by_path, "--no-fusion"), sorted(SHAPES))
        broken = self.make("broken", parallelism={"plan_overrides": "all"})
        self.assertIn("expected a list of entries", self.weft("plan", broken, code=1).stderr)
        self.assertIn("expected a list of entries", self.weft("plan", broken, "--fusion", "gate_up", code=1).stderr)
        self.assertEqual(self.names(broken, "--no-fusion"), sorted(SHAPES))

    def test_config_of_the_output(self):
        source = self.make("source", eps=1e-06, parallelism={"tp": 2})
        self.write("o.yaml", "- match: layers.1.mlp\n  replace_module: {_target_: gate_up}\n")
        self.weft("convert", source, "--plan-overrides", "o.yaml", "-o", "out")
        with open(self.path("out/config.json"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("1e-06", text)
        self.assertEqual(json.loads(text)["parallelism"], {"tp": 2, "plan_overrides": [
            {"match": "layers.1.mlp", "replace_module": {"_target_": "gate_up"}}]})
        self.weft("revert", self.path("out"), "-o", "back")
        self.assertEqual(made.read_folder(self.path("back")), made.read_folder(source))

    def test_wrong(self):
        self.write("bad.yaml", "- match: layers.*.mpl\n  replace_module:\n    _target_: gate_up\n")
        self.write("list.json", ["gate_up"])
        for name, config, words, code, text in (
                ("misspelt", {"fusion_config": {"gate_upp": True}}, (), 1, "misspelt/config.json: fusion_config.gate_upp: "),
                ("yes", {"fusion_config": {"gate_up": "yes"}}, (), 1, 'fusion_config.gate_up: expected true, false or a map of options, found "yes"'),
                ("option", {}, ("--fusion", 'qkv={"layot": "blocks"}'), 1, "fusion_config.qkv: qkv: parameter 'layot' is unknown, expected one of: layout"),
                ("json", {}, ("--fusion", "qkv={layout}"), 2, "--fusion qkv: "),
                ("nameless", {}, ("--fusion", "=true"), 2, "names no family"),
                ("both", {}, ("--no-fusion", "--fusion", "qkv"), 2, "--no-fusion goes without --fusion"),
                ("nothing-fits", {}, ("--fusion", "qkv"), 1, "family 'qkv' fits no module of this model"),
                ("path", {}, ("--plan-overrides", "bad.yaml"), 1, "bad.yaml:1:3: entry 1: 'layers.*.mpl' matches no module (nearest: 'layers.*.mlp')"),
                ("no-map", {}, ("--fusion-config", "list.json"), 1, "list.json: fusion_config must be a map")):
            with self.subTest(name=name):
                result = self.weft("convert", self.make(name, **config), *words, "-o", "out", code=code)
                self.assertIn(text, result.stderr)
                self.assertFalse(os.path.exists(self.path("out")) or os.path.exists(self.path("out.weft-partial")))


if __name__ == "__main__":
    unittest.main()
