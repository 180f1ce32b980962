# SPDX-License-Identifier: Apache-2.0
"""Families of fusions on models as their configs describe them, with 8 query heads and 2 key-value heads: where they fit, that the plan
proves the way back, and that it is exact."""

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
N_LAYERS = 2
SIZES = {"hidden_size": 16, "intermediate_size": 6, "num_hidden_layers": N_LAYERS, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 2,
         "vocab_size": 11}
FUSIONS = ("--fusion", "gate_up", "--fusion", "rms_norm", "--fusion")
GATE_UP, QKV = "model.layers.1.mlp.gate_up_proj.weight", "model.layers.1.self_attn.qkv_proj.weight"

# Model type, class, further fields, further tensors of a fused layer.
MODELS = (
    ("llama", "LlamaForCausalLM", {}, ()),
    ("llama", "LlamaForCausalLM", {"attention_bias": True, "mlp_bias": True}, ("mlp.gate_up_proj.bias", "self_attn.qkv_proj.bias")),
    ("qwen2", "Qwen2ForCausalLM", {}, ("self_attn.qkv_proj.bias",)),
    ("qwen3", "Qwen3ForCausalLM", {}, ()),
    ("mistral", "MistralForCausalLM", {}, ()),
    ("gemma2", "Gemma2ForCausalLM", {}, ()),
    ("olmo2", "Olmo2ForCausalLM", {}, ()),
    ("glm4_moe", "Glm4MoeForCausalLM", {"first_k_dense_replace": N_LAYERS, "attention_bias": True}, ("self_attn.qkv_proj.bias",)),
)


def make_olmo2(llama):
    """The module tree of an OLMo 2, whose architecture is not shipped: norms behind the blocks, and of queries and keys."""
    tree = json.loads(json.dumps(llama).replace("Llama", "Olmo2").replace("input_layernorm", "post_feedforward_layernorm"))
    tree["model_type"] = "olmo2"
    for layer in range(N_LAYERS):
        for name, size in (("q_norm", 16), ("k_norm", 4)):
            fqn = f"model.layers.{layer}.self_attn.{name}"
            tree["modules"].append({"fqn": fqn, "class": "Olmo2RMSNorm"})
            tree["tensors"].append({"name": fqn + ".weight", "shape": [size], "dtype": "bfloat16"})
    return tree


class FusedModelsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-fused.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def weft(self, *words):
        result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False, cwd=self.root)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def make(self, name, config):
        os.makedirs(os.path.join(self.root, "config"), exist_ok=True)
        is_olmo2 = config["model_type"] == "olmo2"
        known = {**config, "model_type": "llama", "architectures": ["LlamaForCausalLM"]} if is_olmo2 else config
        made.write_text(os.path.join(self.root, "config", "config.json"), json.dumps(known))
        tree = json.loads(self.weft("model", "--json", "config/config.json"))
        tree = make_olmo2(tree) if is_olmo2 else tree
        made.write_text(os.path.join(self.root, "tree.json"), json.dumps(tree))
        tied = tree.get("tied", {})
        tensors = {tensor["name"]: made.tensor("BF16", tensor["shape"], seed) for seed, tensor in enumerate(tree["tensors"])
                   if tensor.get("persistent", True) and tensor["name"] not in tied}
        made.write_folder(os.path.join(self.root, name), [tensors], config)
        return tensors

    def check_families(self, name, words):
        found = {row["name"]: row["modules"] for row in json.loads(self.weft("fusions", name, *words, "--json"))}
        layers = [f"model.layers.{i}" for i in range(N_LAYERS)]
        self.assertEqual(found["gate_up"], [layer + ".mlp" for layer in layers])
        self.assertEqual(found["qkv"], [layer + ".self_attn" for layer in layers])
        self.assertTrue({layer + ".post_attention_layernorm" for layer in layers} <= set(found["rms_norm"]), found["rms_norm"])

    def test_models(self):
        for i, (model_type, class_name, fields, more) in enumerate(MODELS):
            for layout in ("blocks", "interleaved"):
                with self.subTest(model_type=model_type, fields=fields, layout=layout):
                    name, fusions = f"{i}-{layout}", (*FUSIONS, f'qkv={{"layout": "{layout}"}}')
                    tensors = self.make(name, {"model_type": model_type, "architectures": [class_name], **SIZES, **fields})
                    words = ("--module-tree", "tree.json") if model_type == "olmo2" else ()
                    self.check_families(name, words)
                    plan = json.loads(self.weft("plan", name, "--json", "--strict", "not-reversible", *words, *fusions))
                    shapes = {output["name"]: output["shape"] for output in plan["outputs"]}
                    self.assertEqual((shapes[GATE_UP], shapes[QKV]), ([12, 16], [24, 16]))
                    self.assertTrue({f"model.layers.{layer}.{tensor}" for layer in range(N_LAYERS) for tensor in more} <= set(shapes))
                    self.assertLess(len(shapes), len(tensors))
                    self.weft("convert", name, *words, *fusions, "-o", name + "-out", "--no-sync")
                    self.weft("revert", name + "-out", "-o", name + "-back", "--no-sync")
                    self.assertEqual(made.read_folder(os.path.join(self.root, name + "-back")), made.read_folder(os.path.join(self.root, name)))


if __name__ == "__main__":
    unittest.main()
