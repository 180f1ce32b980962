# SPDX-License-Identifier: Apache-2.0
"""The samples of the README and of the pages of docs/, run as a reader would."""

import json
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

DOCS, WEFT = os.environ["DOCS"], os.environ["WEFT"]
WEFT_PYTHON, WEFT_GJS = os.environ.get("WEFT_PYTHON"), os.environ.get("WEFT_GJS")
GJS = shutil.which("gjs")


def blocks(page, language):
    with open(os.path.join(DOCS, page), encoding="utf-8") as file:
        return re.findall(rf"^```{language}\n(.*?)^```$", file.read(), re.M | re.S)


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def write_tensor(path, name, values, shape=None):
    content = struct.pack(f"<{len(values)}f", *values)
    header = json.dumps({name: {"dtype": "F32", "shape": shape or [len(values)], "data_offsets": [0, len(content)]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + content)


def read_values(path):
    with open(path, "rb") as file:
        content = file.read()
    start = 8 + struct.unpack("<Q", content[:8])[0]
    return list(struct.unpack(f"<{(len(content) - start) // 4}f", content[start:]))


class SamplesTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.folder = self.scratch.name
        write(self.path("request.json"), blocks("write-an-op.md", "json")[0])
        write_tensor(self.path("in.safetensors"), "w", [1.0, -2.0])

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_words(self, *words, **options):
        result = subprocess.run(words, capture_output=True, text=True, cwd=self.folder, timeout=120, check=False, **options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    @unittest.skipUnless(WEFT_PYTHON, "no bindings")
    def test_quantizer(self):
        """Two codes a byte: 10 and 9 of a row of scale 1, 0 and 7 of a row of scale 2, less 8."""
        write(self.path("nibble.py"), blocks("write-a-quantizer.md", "python")[0])
        os.mkdir(self.path("packed"))
        write(self.path("packed/config.json"), '{"quantization_config": {"quant_method": "nibble"}}')
        content = struct.pack("<2f", 1, 2) + bytes([0x9A, 0x70])
        header = json.dumps({"a.row_scale": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
                             "a.nibbles": {"dtype": "U8", "shape": [2, 1], "data_offsets": [8, 10]}}).encode()
        with open(self.path("packed/model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + content)
        self.run_words(sys.executable, WEFT_PYTHON, "--plugin", "nibble.py", "dequantize", "packed", "--dtype", "F32", "-o", "dense")
        self.assertEqual(read_values(self.path("dense/model.safetensors")), [2, 1, -16, -2])
        self.check_quantizing()

    def test_packed_weights(self):
        """The commands of the page, one after the other."""
        os.mkdir(self.path("my-model"))
        write(self.path("my-model/config.json"), '{"model_type": "made-up", "torch_dtype": "float32"}')
        write_tensor(self.path("my-model/model.safetensors"), "model.layers.0.mlp.up_proj.weight", range(1, 65), [8, 8])
        for line in blocks("packed-weights.md", "console")[0].splitlines():
            self.run_words(WEFT, *shlex.split(line.removeprefix("$ weft ")))
        with open(self.path("errors.svg"), encoding="utf-8") as file:
            self.assertIn("</svg>", file.read())

    def check_quantizing(self):
        """A row of [7, -3] of scale 1, and one of [-14, 2] of scale 2."""
        with open(self.path("nibble.py"), "a", encoding="utf-8") as file:
            file.write(blocks("write-a-quantizer.md", "python")[1])
        write_tensor(self.path("dense/model.safetensors"), "a.weight", [7, -3, -14, 2], [2, 2])
        command = blocks("write-a-quantizer.md", "console")[1].removeprefix("$ weft-python ").split()
        self.run_words(sys.executable, WEFT_PYTHON, *command)
        with open(self.path("packed-again/config.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["quantization_config"]["quant_method"], "nibble")
        self.run_words(sys.executable, WEFT_PYTHON, "--plugin", "nibble.py", "dequantize", "packed-again", "--dtype", "F32", "-o", "again")
        self.assertEqual(read_values(self.path("again/model.safetensors")), [7, -3, -14, 2])

    def test_op_in_c(self):
        write(self.path("my-scale.c"), blocks("write-an-op.md", "c")[0])
        build = next(line for line in blocks("write-an-op.md", "sh")[0].split("\n") if line.startswith("cc "))
        self.run_words("sh", "-ec", build)
        environment = {**os.environ, "WEFT_PLUGIN_PATH": self.folder}
        self.assertIn("my-scale", self.run_words(WEFT, "plugins", "my-scale", env=environment))
        self.assertIn("factor", self.run_words(WEFT, "op", "MyScale", env=environment))
        self.run_words(WEFT, "op", "MyScale", "--params", "request.json", "in.safetensors", "-o", "out.safetensors",
                       env=environment)
        self.assertEqual(read_values(self.path("out.safetensors")), [3.0, -6.0])

    def check_script(self, *weft):
        """The op, registered by the script that the words of `weft` run, does as the page says."""
        self.assertIn("factor", self.run_words(*weft, "op", "MyScale"))
        self.run_words(*weft, "op", "MyScale", "--params", "request.json", "in.safetensors", "-o", "out.safetensors")
        self.assertEqual(read_values(self.path("out.safetensors")), [3.0, -6.0])

    @unittest.skipUnless(WEFT_PYTHON, "built without introspection")
    def test_op_in_python(self):
        write(self.path("my_scale.py"), blocks("write-an-op.md", "python")[0])
        self.check_script(sys.executable, WEFT_PYTHON, "--plugin", "my_scale.py")

    @unittest.skipUnless(WEFT_GJS and GJS, "built without introspection, or no gjs")
    def test_op_in_javascript(self):
        write(self.path("my-scale.js"), blocks("write-an-op.md", "js")[0])
        self.check_script(GJS, "-m", WEFT_GJS, "--plugin", "my-scale.js")

    def check_broken_script(self, name, text, reason, *weft):
        write(self.path(name), text)
        result = subprocess.run([*weft, "--plugin", name, "--version"], capture_output=True, text=True, cwd=self.folder,
                                timeout=120, check=False)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f": {name}: {reason}", result.stderr)

    @unittest.skipUnless(WEFT_PYTHON, "built without introspection")
    def test_broken_script_in_python(self):
        for text, reason in (("raise SystemExit(0)", "SystemExit: 0"), ("def (", "SyntaxError: "), ("1 / 0", "ZeroDivisionError: ")):
            with self.subTest(text=text):
                self.check_broken_script("broken.py", text, reason, sys.executable, WEFT_PYTHON)

    @unittest.skipUnless(WEFT_GJS and GJS, "built without introspection, or no gjs")
    def test_broken_script_in_javascript(self):
        for text, reason in (("throw new Error('no')", "Error: no"), ("function (", "SyntaxError: ")):
            with self.subTest(text=text):
                self.check_broken_script("broken.js", text, reason, GJS, "-m", WEFT_GJS)

    @unittest.skipUnless(WEFT_PYTHON, "built without introspection")
    def test_readme_in_python(self):
        op, load = blocks("../README.md", "python")
        write(self.path("negate.py"), op)
        request = {"op": "Negate", "params": {}, "source_patterns": ["w"], "target_patterns": ["w"],
                   "inputs": [{"key": "w", "list": False, "tensors": ["w"]}]}
        write(self.path("negate.json"), json.dumps(request))
        self.run_words(sys.executable, WEFT_PYTHON, "--plugin", "negate.py", "op", "Negate", "--params", "negate.json",
                       "in.safetensors", "-o", "out.safetensors")
        self.assertEqual(read_values(self.path("out.safetensors")), [-1.0, 2.0])
        self.run_words(sys.executable, os.environ["MAKE_SAMPLE"], "Mixtral-8x7B")
        write(self.path("load.py"), f"{load}print(len(weights), codes.dtype, values.dtype, values.shape)\n")
        self.assertEqual(self.run_words(sys.executable, "load.py"), "21 uint16 float32 (16,)\n")

    @unittest.skipUnless(WEFT_PYTHON, "built without introspection")
    def test_edited_list(self):
        write_tensor(self.path("model.safetensors"), "value_head.weight", [1.0])
        os.remove(self.path("in.safetensors"))
        write(self.path("config.json"), '{"model_type": "llama"}')
        write(self.path("head.py"), "import gi\ngi.require_version('Weft', '1.0')\nfrom gi.repository import Weft\n"
                                    "checkpoint = Weft.Checkpoint.open('.')\n" + blocks("load-report.md", "python")[0]
              + "print(plan.get_outputs().get_name(0), plan.get_report().get_name(Weft.Finding.MISSING, 0))\n")
        self.assertEqual(self.run_words(sys.executable, "head.py"), "v_head.weight v_head.bias\n")

    def run_console(self, text):
        """The lines of a block that begin with `$`, as a reader would type them."""
        environment = {**os.environ, "PATH": f"{os.path.dirname(WEFT)}:{os.environ['PATH']}"}
        for line in re.findall(r"^\$ (.*)$", text, re.M):
            self.run_words("bash", "-ec", line, env=environment)

    def test_parallel_page(self):
        """Ranks are made, joined to what one run writes, and taken back; the plan of the page fits the model of the page."""
        self.run_words(sys.executable, os.environ["MAKE_SAMPLE"], "Mixtral-8x7B")
        write(self.path("plan.json"), blocks("parallel.md", "json")[0])
        first, second = blocks("parallel.md", "console")
        self.run_console(first)
        self.run_words(WEFT, "convert", "Mixtral-8x7B", "-o", "whole")
        self.run_words("diff", "-r", "whole", "runtime")
        self.run_words("diff", "-r", "Mixtral-8x7B", "published")
        self.run_words("diff", "-r", "ranks/rank-00001-of-00004", "rank1")
        self.run_console(second)
        self.run_words(WEFT, "gather", "halves", "-o", "joined")
        self.run_words("diff", "-r", "runtime", "joined")
        styles = self.run_words(WEFT, "inspect", "half", "--json")
        self.assertIn("gate_up_proj", styles)

    @unittest.skipUnless(WEFT_PYTHON, "no bindings")
    def test_parallel_in_python(self):
        self.run_words(sys.executable, os.environ["MAKE_SAMPLE"], "Mixtral-8x7B", "--hidden", "32")
        write(self.path("rank.py"), "import gi\ngi.require_version('Weft', '1.0')\nfrom gi.repository import Weft\n" + blocks("parallel.md", "python")[0])
        self.assertEqual(self.run_words(sys.executable, "rank.py"), "[16, 32] [32, 32]\n")

    @unittest.skipIf(os.environ.get("SANITIZED"), "a program without the sanitizer cannot load a library that has it")
    def test_engine_in_c(self):
        write(self.path("engine.c"), blocks("load-into-an-engine.md", "c")[0])
        self.run_words("sh", "-ec", blocks("load-into-an-engine.md", "sh")[0])
        self.assertEqual(self.run_words(self.path("engine"), "in.safetensors"), "w: 8 bytes at 0\n")

    @unittest.skipUnless(WEFT_PYTHON, "built without introspection")
    def test_engine_in_python(self):
        self.run_words(sys.executable, os.environ["MAKE_SAMPLE"], "Mixtral-8x7B")
        write(self.path("engine.py"), blocks("load-into-an-engine.md", "python")[0] + "print(len(arrays), norm.dtype, norm.shape)\n")
        lines = self.run_words(sys.executable, "engine.py").splitlines()
        self.assertEqual((len(set(lines[:-1])), lines[-1]), (21, "21 uint16 (16,)"))

    @unittest.skipUnless(WEFT_GJS and GJS, "built without introspection, or no gjs")
    def test_engine_in_javascript(self):
        self.run_words(sys.executable, os.environ["MAKE_SAMPLE"], "Mixtral-8x7B")
        write(self.path("engine.js"), blocks("load-into-an-engine.md", "js")[0] + "print(Object.keys(arrays).length, norm.length);\n")
        lines = self.run_words(GJS, "-m", "engine.js").splitlines()
        self.assertEqual((len(set(lines[:-1])), lines[-1]), (21, "21 16"))

    def make_model(self):
        """Two layers with keys and values, and the tree that says so."""
        os.mkdir(self.path("my-model"))
        tensors = {f"layers.{layer}.attn.{name}_proj.weight": [1, 2] for layer in (0, 1) for name in "kv"}
        tensors.update({f"layers.{layer}.norm.weight": [2] for layer in (0, 1)})
        header = {name: {"dtype": "F32", "shape": shape, "data_offsets": [8 * i, 8 * i + 8]} for i, (name, shape) in enumerate(tensors.items())}
        text = json.dumps(header).encode()
        with open(self.path("my-model/model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + struct.pack(f"<{2 * len(tensors)}f", *range(2 * len(tensors))))
        write(self.path("my-model/config.json"), "{}")
        modules = [("", "Tiny"), ("layers", "ModuleList")]
        for layer in (0, 1):
            modules += [(f"layers.{layer}", "Layer"), (f"layers.{layer}.attn", "Attention"), (f"layers.{layer}.attn.k_proj", "Linear"),
                        (f"layers.{layer}.attn.v_proj", "Linear"), (f"layers.{layer}.norm", "TinyRMSNorm")]
        write(self.path("tree.json"), json.dumps({
            "class": "Tiny", "model_type": "tiny", "modules": [{"fqn": fqn, "class": class_name} for fqn, class_name in modules],
            "tensors": [{"name": name, "shape": shape, "dtype": "float32"} for name, shape in tensors.items()]}))

    def check_fused(self, *weft, **options):
        """my_kv fits the model, joins keys and values, and all comes back."""
        self.run_words(*weft, "convert", "my-model", "--module-tree", "tree.json", "--fusion", "my_kv", "-o", "out", **options)
        plan = json.loads(self.run_words(*weft, "plan", "--json", "out", "--module-tree", "tree.json", **options))
        self.assertEqual([output["name"] for output in plan["outputs"]],
                         ["layers.0.attn.kv_proj.weight", "layers.0.norm.weight", "layers.1.attn.kv_proj.weight", "layers.1.norm.weight"])
        self.assertTrue(plan["reversible"])
        self.run_words(WEFT, "revert", "out", "-o", "back")
        for name in ("model.safetensors", "config.json"):
            with open(self.path(f"my-model/{name}"), "rb") as published, open(self.path(f"back/{name}"), "rb") as reverted:
                self.assertEqual(published.read(), reverted.read())

    def test_fusion_in_c(self):
        self.make_model()
        write(self.path("my-kv.c"), blocks("write-a-fusion.md", "c")[0])
        build = next(line for line in blocks("write-a-fusion.md", "sh")[0].split("\n") if line.startswith("cc "))
        self.run_words("sh", "-ec", build)
        environment = {**os.environ, "WEFT_PLUGIN_PATH": self.folder}
        self.assertIn("my_kv  (plugin my-kv)\n    layers.0.attn\n    layers.1.attn\n",
                      self.run_words(WEFT, "fusions", "my-model", "--module-tree", "tree.json", env=environment))
        self.check_fused(WEFT, env=environment)
        write(self.path("overrides.yaml"), blocks("write-a-fusion.md", "yaml")[0])
        words = ("fusions", "--plan", "my-model", "--module-tree", "tree.json", "--plan-overrides", "overrides.yaml")
        self.assertEqual([line.split("  ")[:2] for line in self.run_words(WEFT, *words, env=environment).splitlines()],
                         [[f"layers.{layer}.{name}", f"{old} -> Fused{old}"] for layer in (0, 1)
                          for name, old in (("attn", "Attention"), ("norm", "TinyRMSNorm"))])

    @unittest.skipUnless(WEFT_PYTHON, "built without introspection")
    def test_fusion_in_python(self):
        self.make_model()
        write(self.path("my_kv.py"), blocks("write-a-fusion.md", "python")[0])
        self.check_fused(sys.executable, WEFT_PYTHON, "--plugin", "my_kv.py")

    @unittest.skipUnless(WEFT_GJS and GJS, "built without introspection, or no gjs")
    def test_fusion_in_javascript(self):
        self.make_model()
        write(self.path("my-kv.js"), blocks("write-a-fusion.md", "js")[0])
        self.check_fused(GJS, "-m", WEFT_GJS, "--plugin", "my-kv.js")

    def test_module_tree(self):
        write(self.path("tree.json"), blocks("module-tree.md", "json")[0])
        for name, n_elements, mismatched in (("model.norm.weight", 16, []), ("norm.weight", 16, []),
                                             ("model.norm.weight", 8, ["model.norm.weight"])):
            with self.subTest(name=name, n_elements=n_elements):
                write_tensor(self.path("model.safetensors"), name, [1.0] * n_elements)
                result = subprocess.run((WEFT, "plan", "--json", "--module-tree", "tree.json", "model.safetensors"),
                                        capture_output=True, text=True, cwd=self.folder, timeout=120, check=False)
                self.assertEqual(result.returncode, 1, result.stderr)
                plan = json.loads(result.stdout)
                self.assertEqual([output["name"] for output in plan["outputs"]], ["model.norm.weight"])
                found = {kind: [finding["name"] for finding in plan["report"][kind]] for kind in ("missing", "mismatched")}
                self.assertEqual(found, {"missing": ["lm_head.weight", "model.embed_tokens.weight"], "mismatched": mismatched})

    def test_mapping(self):
        samples = [json.loads(block) for block in blocks("write-a-mapping.md", "json")]
        converters = next(sample for sample in samples if "MergeModulelist" in json.dumps(sample))
        write(self.path("mymodel.json"), json.dumps(samples[0] + converters))
        keys = ("decoder.layers.1.norm.weight\ndecoder.layers.1.experts.0.w3.weight\n"
                "decoder.layers.1.experts.0.w3.weight_scale\n")
        words = (WEFT, "mappings", "mymodel", "--mapping", "mymodel.json", "--apply")
        self.assertEqual([line.split("\t")[1:] for line in self.run_words(*words, input=keys).splitlines()],
                         [["model.decoder.layers.1.norm.weight", ""],
                          ["model.decoder.layers.1.experts.gate_up_proj", ".experts.*.w3.weight"],
                          ["model.decoder.layers.1.experts.0.w3.weight_scale", ""]])
        back = self.run_words(*words, "--reverse", input="model.decoder.layers.1.norm.weight\n")
        self.assertEqual(back.split("\t")[1], "decoder.layers.1.norm.weight")


if __name__ == "__main__":
    unittest.main()
