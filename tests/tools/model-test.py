# SPDX-License-Identifier: Apache-2.0
"""weft model, and what plans take from config.json: --class, --like, --open."""

import json
import os
import subprocess
import tempfile
import unittest

WEFT, MAKE_SAMPLE = os.environ["WEFT"], os.environ["MAKE_SAMPLE"]
LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16", "hidden_size": 8, "intermediate_size": 12,
         "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 20, "tie_word_embeddings": True}


def run(*words, code=0):
    result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == code, (words, result.stderr)
    return result.stdout if code == 0 else result.stderr


class ModelTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = scratch.name
        self.config = os.path.join(self.folder, "config.json")
        self.write(LLAMA)

    def write(self, config):
        with open(self.config, "w", encoding="utf-8") as file:
            json.dump(config, file)

    def test_text(self):
        printed = run("model", self.folder)
        self.assertIn("0-2  3 x LlamaDecoderLayer", printed)
        self.assertIn("weight  BF16 (12, 8)", printed)
        # 20x8 embeddings, 3 layers of 2x8x8 + 2x4x8 + 3x12x8 + 2x8, a norm of 8; the tied head is not counted twice.
        self.assertIn(f"({20 * 8 + 3 * (2 * 64 + 2 * 32 + 3 * 96 + 16) + 8})", printed)
        self.assertIn("lm_head.weight is model.embed_tokens.weight", printed)
        outline = run("model", "--depth", "1", self.config)
        self.assertIn("model  LlamaModel", outline)
        self.assertNotIn("layers", outline)

    def test_json_is_a_module_tree(self):
        first = run("model", "--json", self.folder)
        path = os.path.join(self.folder, "tree.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(first)
        self.assertEqual(run("model", "--json", "--module-tree", path), first)
        self.assertEqual(json.loads(run("model", "--json", "--class", "LlamaModel", self.folder))["tensors"][0]["name"], "embed_tokens.weight")

    def test_lists(self):
        self.assertIn("LlamaForSequenceClassification\n", run("model", "--classes", self.folder))
        model_types = json.loads(run("model", "--model-types", "--json"))["model_types"]
        self.assertIn("llama", model_types)
        self.assertFalse([name for name in model_types if "/" in name])

    def test_refused(self):
        for words, code, part in (
                ([], 2, "give one of"), (["--like", "x", self.folder], 2, "give one of"), (["--depth", "-1", self.folder], 2, "--depth counts"),
                (["--class", "LlamaForCausalLn", self.folder], 1, "near names: 'LlamaForCausalLM'"), ([self.folder + "/no"], 1, "cannot be read")):
            with self.subTest(words=words):
                self.assertIn(part, run("model", *words, code=code))
        for config, part in (({"model_type": "lama", "hidden_size": 8}, "near names: 'llama'"), ({**LLAMA, "num_hidden_layers": "x"}, "config.json"),
                             ({**LLAMA, "hidden_size": -4}, "is negative"),
                             ({**LLAMA, "dtype": "floof"}, 'expected a floating dtype such as "bfloat16", found "floof"'), ({**LLAMA, "dtype": "int8"}, 'found "int8"'), ({**LLAMA, "num_attention_heads": 0}, "a division by zero")):
            with self.subTest(config=config):
                self.write(config)
                self.assertIn(part, run("model", self.folder, code=1))


class ExpectationsTest(unittest.TestCase):
    """A plan of the sample: a Mixtral whose config describes it."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = lambda name: os.path.join(scratch.name, name)
        subprocess.run([MAKE_SAMPLE, self.path("sample")], check=True, capture_output=True)

    def plan(self, *words):
        return json.loads(run("plan", "--json", self.path("sample"), *words))

    def names(self, *words):
        return {output["name"] for output in self.plan(*words)["outputs"]}

    def test_like(self):
        run("convert", self.path("sample"), "--open", "--no-sync", "-o", self.path("runtime"))
        self.assertEqual(self.names("--like", self.path("runtime")), self.names("--open"))
        self.assertEqual(self.plan("--like", self.path("runtime"))["report"]["missing"], [])

    def test_one_source(self):
        message = run("plan", self.path("sample"), "--open", "--class", "MixtralModel", code=2)
        self.assertIn("give one of them", message)

    def test_unknown_models_stay_open(self):
        path = self.path("sample/config.json")
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
        with open(path, "w", encoding="utf-8") as file:
            json.dump({**config, "model_type": "mixtrall"}, file)
        notes = [note for note in self.plan()["report"]["notes"] if note["name"] == "open mode"]
        self.assertEqual(len(notes), 1)
        self.assertIn("'mixtrall' is not known", json.dumps(notes))


if __name__ == "__main__":
    unittest.main()
