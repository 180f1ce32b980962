# SPDX-License-Identifier: Apache-2.0
"""gate_up, qkv and rms_norm over models of eight query heads and two key-value heads: what is fused, its values against those of its
parts, every byte back, and a proof of that before any tensor is read."""

import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import made_checkpoint as made  # noqa: E402

WEFT = os.environ["WEFT"]
DTYPES = {"bfloat16": "BF16", "float32": "F32"}
N_QUERY_HEADS, N_GROUPS, HEAD, HIDDEN, INNER, N_LAYERS, VOCABULARY = 8, 2, 4, 32, 24, 2, 11
CONFIG = {"hidden_size": HIDDEN, "intermediate_size": INNER, "num_hidden_layers": N_LAYERS, "num_attention_heads": N_QUERY_HEADS,
          "num_key_value_heads": N_GROUPS, "head_dim": HEAD, "vocab_size": VOCABULARY, "dtype": "bfloat16"}
WEIGHTS, BIASES = ("weight",), ("bias", "weight")
NORMS = ("input_layernorm", "post_attention_layernorm")
GEMMA_NORMS = NORMS + ("pre_feedforward_layernorm", "post_feedforward_layernorm")
HEAD_NORMS = ("self_attn.q_norm", "self_attn.k_norm")
MLPS = ("layers.0.mlp", "layers.1.mlp")

# type, class, more config, tensors of each attention projection, gated modules, norms of a layer
KNOWN = [
    ("llama", "LlamaForCausalLM", {}, WEIGHTS, MLPS, NORMS),
    ("qwen2", "Qwen2ForCausalLM", {}, BIASES, MLPS, NORMS),
    ("qwen3", "Qwen3ForCausalLM", {}, WEIGHTS, MLPS, HEAD_NORMS + NORMS),
    ("mistral", "MistralForCausalLM", {}, WEIGHTS, MLPS, NORMS),
    ("gemma2", "Gemma2ForCausalLM", {}, WEIGHTS, MLPS, GEMMA_NORMS),
    # One dense layer, then one of experts, which the mapping stacks; the shared ones are gated like the dense ones.
    ("glm4_moe", "Glm4MoeForCausalLM", {"attention_bias": True, "n_routed_experts": 2, "moe_intermediate_size": 8}, BIASES,
     ("layers.0.mlp", "layers.1.mlp.shared_experts"), NORMS),
]
# Types that are not known: class prefix, tensors of each attention projection, modules of a layer that are norms.
MADE = [
    ("olmo2", "Olmo2", WEIGHTS, HEAD_NORMS + ("post_attention_layernorm", "post_feedforward_layernorm")),
    ("glm4", "Glm4", BIASES, NORMS + ("post_self_attn_layernorm", "post_mlp_layernorm")),
]


def make_tree(model_type, prefix, biases, norms):
    """A decoder of the usual shape; OLMo 2 norms all heads at once, before they are cut."""
    modules = [{"fqn": "", "class": f"{prefix}ForCausalLM"}, {"fqn": "model", "class": f"{prefix}Model"}, {"fqn": "model.layers", "class": "ModuleList"},
               {"fqn": "model.norm", "class": f"{prefix}RMSNorm"}]
    shapes = {"model.embed_tokens.weight": [VOCABULARY, HIDDEN], "model.norm.weight": [HIDDEN], "lm_head.weight": [VOCABULARY, HIDDEN]}
    for layer in (f"model.layers.{i}" for i in range(N_LAYERS)):
        modules += [{"fqn": layer, "class": f"{prefix}DecoderLayer"}, {"fqn": f"{layer}.self_attn", "class": f"{prefix}Attention"},
                    {"fqn": f"{layer}.mlp", "class": f"{prefix}MLP"}]
        for name, n_heads in (("q", N_QUERY_HEADS), ("k", N_GROUPS), ("v", N_GROUPS)):
            modules.append({"fqn": f"{layer}.self_attn.{name}_proj", "class": "Linear"})
            for tensor in biases:
                shapes[f"{layer}.self_attn.{name}_proj.{tensor}"] = [n_heads * HEAD, HIDDEN][:1 + (tensor == "weight")]
        shapes[f"{layer}.self_attn.o_proj.weight"] = [HIDDEN, N_QUERY_HEADS * HEAD]
        for name, shape in (("gate", [INNER, HIDDEN]), ("up", [INNER, HIDDEN]), ("down", [HIDDEN, INNER])):
            shapes[f"{layer}.mlp.{name}_proj.weight"] = shape
        for name in norms:
            modules.append({"fqn": f"{layer}.{name}", "class": f"{prefix}RMSNorm"})
            shapes[f"{layer}.{name}.weight"] = [N_GROUPS * HEAD if name.endswith("k_norm") else HIDDEN]
    return {"class": f"{prefix}ForCausalLM", "model_type": model_type, "base_model_prefix": "model", "modules": modules,
            "tensors": [{"name": name, "shape": shape, "dtype": "bfloat16"} for name, shape in shapes.items()]}


def join_rows(parts, n_groups):
    """The first 1/n of the rows of each part, then the second, ..."""
    rows = [values[group * len(values) // n_groups:(group + 1) * len(values) // n_groups] for group in range(n_groups) for _, _, values in parts]
    shape = [sum(shape[0] for _, shape, _ in parts)] + parts[0][1][1:]
    return parts[0][0], shape, b"".join(rows)


def fuse(plain, attention, gated, n_groups):
    """What fusing by hand gives."""
    fused = dict(plain)
    joins = [(f"model.layers.{i}.self_attn", ("q", "k", "v"), "qkv_proj", attention, n_groups) for i in range(N_LAYERS)]
    joins += [(f"model.{module}", ("gate", "up"), "gate_up_proj", WEIGHTS, 1) for module in gated]
    for module, parts, joined, tensors, n in joins:
        for tensor in tensors:
            fused[f"{module}.{joined}.{tensor}"] = join_rows([fused.pop(f"{module}.{part}_proj.{tensor}") for part in parts], n)
    return fused


class FusionModelsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-fusion-models.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.root, *names)

    def weft(self, *words):
        result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def write_published(self, model_type, config, tree):
        """Random-looking tensors of all the model's names, through the way back of its mapping."""
        tensors = {tensor["name"]: made.tensor(DTYPES[tensor["dtype"]], tensor["shape"], seed)
                   for seed, tensor in enumerate(tree["tensors"]) if tensor.get("persistent", True) and tensor["name"] not in tree.get("tied", {})}
        made.write_folder(self.path(model_type, "runtime"), [tensors], config)
        self.weft("revert", "--quiet", self.path(model_type, "runtime"), "-o", self.path(model_type, "published"), *self.tree_words(model_type))

    def tree_words(self, model_type):
        path = self.path(model_type + ".json")
        return ("--module-tree", path) if os.path.exists(path) else ()

    def check_classes(self, model_type, published, words, norms):
        plan = json.loads(self.weft("fusions", published, "--plan", "--json", *words))
        replaced = {module["fqns"][0] for module in plan["modules"] if module["target"] == "rms_norm"}
        self.assertEqual(replaced, {"model.norm"} | {f"model.layers.{i}.{norm}" for i in range(N_LAYERS) for norm in norms})
        style = "colwise" if any("interleaved" in word for word in words) else "colwise_segments"
        self.assertEqual({plan["parallel_styles"][f"model.layers.{i}.self_attn.qkv_proj"] for i in range(N_LAYERS)}, {style})
        self.assertEqual(plan["parallel_styles"]["model.layers.0.mlp.gate_up_proj"], "packed_colwise")

    def check_fused(self, model_type, layout, attention, gated, norms):
        published, out, back = (self.path(model_type, name) for name in ("published", layout, layout + "-back"))
        words = ("--fusion", "gate_up", "--fusion", f'qkv={{"layout": "{layout}"}}', "--fusion", "rms_norm", *self.tree_words(model_type))
        plan = json.loads(self.weft("plan", published, "--json", *words))
        self.assertEqual((plan["reversible"], {output["reversible"] for output in plan["outputs"]}), (True, {"exact"}))
        self.check_classes(model_type, published, words, norms)
        self.weft("convert", "--quiet", published, "-o", out, *words)
        plain = made.read_tensors(self.path(model_type, "plain"))
        self.assertEqual(made.read_tensors(out), fuse(plain, attention, gated, N_GROUPS if layout == "interleaved" else 1))
        self.assertEqual({output["name"] for output in plan["outputs"]}, set(made.read_tensors(out)))
        self.weft("revert", "--quiet", out, "-o", back)
        self.assertEqual(made.read_folder(back), made.read_folder(published))
        # Nor is the record needed.
        os.remove(os.path.join(out, "weft-provenance.json"))
        self.weft("revert", "--quiet", out, "-o", back + "-by-mapping", *self.tree_words(model_type))
        self.assertEqual(made.read_tensors(back + "-by-mapping"), made.read_tensors(published))

    def check_model(self, model_type, config, tree, attention, gated, norms):
        self.write_published(model_type, config, tree)
        self.weft("convert", "--quiet", self.path(model_type, "published"), "-o", self.path(model_type, "plain"), *self.tree_words(model_type))
        for layout in ("blocks", "interleaved"):
            with self.subTest(model_type=model_type, layout=layout):
                self.check_fused(model_type, layout, attention, gated, norms)

    def test_known(self):
        for model_type, name, more, attention, gated, norms in KNOWN:
            config = {"architectures": [name], "model_type": model_type, **CONFIG, **more}
            made.write_text(self.path("config.json"), json.dumps(config))
            tree = json.loads(self.weft("model", "--json", self.path("config.json")))
            self.check_model(model_type, config, tree, attention, gated, norms)

    def test_made(self):
        for model_type, prefix, attention, norms in MADE:
            tree = make_tree(model_type, prefix, attention, norms)
            made.write_text(self.path(model_type + ".json"), json.dumps(tree))
            config = {"architectures": [prefix + "ForCausalLM"], "model_type": model_type, **CONFIG}
            self.check_model(model_type, config, tree, attention, MLPS, norms)

    def test_proof_reads_no_tensor(self):
        """Of terabytes that are a hole in a file, where reading would outlast the test."""
        tree = make_tree("glm4", "Glm4", BIASES, MADE[1][3])
        header, n_bytes = {}, 0
        for tensor in tree["tensors"]:
            tensor["shape"] = [extent << 14 for extent in tensor["shape"]]
            size = 2 * math.prod(tensor["shape"])
            header[tensor["name"]] = {"dtype": "BF16", "shape": tensor["shape"], "data_offsets": [n_bytes, n_bytes + size]}
            n_bytes += size
        text = json.dumps(header).encode()
        made.write_text(self.path("glm4.json"), json.dumps(tree))
        os.mkdir(self.path("hole"))
        made.write_text(self.path("hole", "config.json"), json.dumps({"model_type": "glm4", **CONFIG}))
        with open(self.path("hole", "model.safetensors"), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            file.truncate(8 + len(text) + n_bytes)
        plan = json.loads(self.weft("plan", self.path("hole"), "--json", "--fusion", "gate_up", "--fusion", 'qkv={"layout": "interleaved"}',
                                    *self.tree_words("glm4")))
        self.assertGreater(plan["bytes"], 1 << 42)
        self.assertEqual((plan["reversible"], {output["reversible"] for output in plan["outputs"]}), (True, {"exact"}))


if __name__ == "__main__":
    unittest.main()
