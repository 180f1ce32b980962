# SPDX-License-Identifier: Apache-2.0
"""`weft quantize` and `weft dequantize` as a user types them: what comes out holds, or nothing comes out."""

import json
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
NAME = "model.layers.0.mlp.up_proj.weight"
INT4 = json.dumps({"weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32}})


def text(value):
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(name, values=b""):
    """One tensor of 32 elements as Q4_0, behind metadata."""
    head = b"GGUF" + struct.pack("<IQQ", 3, 1, 1 if values else 0) + values
    head += text(name) + struct.pack("<IQIQ", 1, 32, 2, 0)
    return head + bytes(-len(head) % 32) + bytes(range(18))


def gguf_model(architecture, tensors, numbers):
    """F32 tensors of one axis or more, behind the names that a file of the architecture has for its numbers."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1 + len(numbers)) + text("general.architecture")
    head += struct.pack("<I", 8) + text(architecture)
    for name, number in numbers.items():
        head += text(f"{architecture}.{name}") + struct.pack("<II", 4, number)
    content = b""
    for name, (shape, values) in tensors.items():
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), 0, len(content))
        content += struct.pack(f"<{len(values)}f", *values)
        content += bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + content


# What a file of an architecture calls a tensor, its values, and what becomes of it. Rows of queries and keys of `llama` are pairs
# side by side in the file: of a head of 4 rows the first, third, second and fourth.
GGUF_MODELS = {
    "llama": ({"token_embd.weight": ([1, 2], [1, 2]), "blk.1.attn_q.weight": ([8, 1], range(8)), "blk.1.attn_k.weight": ([4, 1], range(4)),
               "blk.1.attn_v.weight": ([2], [1, 2]), "blk.1.attn_output.weight": ([1], [3]), "blk.1.ffn_norm.weight": ([1], [4]),
               "blk.1.ffn_gate_inp.weight": ([2, 1], [5, 6]), "blk.1.ffn_gate_exps.weight": ([2, 1, 1], [1, 2]),
               "blk.1.ffn_up_exps.weight": ([2, 1, 1], [3, 4]), "blk.1.ffn_down_exps.weight": ([2, 1, 1], [5, 6])},
              {"model.embed_tokens.weight": [1, 2], "model.layers.1.self_attn.q_proj.weight": [0, 2, 1, 3, 4, 6, 5, 7],
               "model.layers.1.self_attn.k_proj.weight": [0, 2, 1, 3], "model.layers.1.self_attn.v_proj.weight": [1, 2],
               "model.layers.1.self_attn.o_proj.weight": [3], "model.layers.1.post_attention_layernorm.weight": [4],
               "model.layers.1.mlp.gate.weight": [5, 6], "model.layers.1.mlp.experts.gate_up_proj": [1, 3, 2, 4],
               "model.layers.1.mlp.experts.down_proj": [5, 6]}),
    "qwen2": ({"output.weight": ([1], [1]), "output_norm.weight": ([1], [2]), "blk.0.attn_q.bias": ([4], range(4)), "blk.0.attn_norm.weight": ([1], [3])},
              {"lm_head.weight": [1], "model.norm.weight": [2], "model.layers.0.self_attn.q_proj.bias": [0, 1, 2, 3],
               "model.layers.0.input_layernorm.weight": [3]}),
    "qwen3": ({"blk.0.attn_q_norm.weight": ([1], [1]), "blk.0.attn_k_norm.weight": ([1], [2]), "blk.0.ffn_down.weight": ([1], [3])},
              {"model.layers.0.self_attn.q_norm.weight": [1], "model.layers.0.self_attn.k_norm.weight": [2],
               "model.layers.0.mlp.down_proj.weight": [3]}),
    "qwen3moe": ({"blk.0.ffn_gate_exps.weight": ([1, 1, 1], [1]), "blk.0.ffn_up_exps.weight": ([1, 1, 1], [2]), "blk.0.attn_k_norm.weight": ([1], [3])},
                 {"model.layers.0.mlp.experts.gate_up_proj": [1, 2], "model.layers.0.self_attn.k_norm.weight": [3]}),
    "strange": ({"blk.0.attn_q.weight": ([1], [1])}, {"blk.0.attn_q.weight": [1]}),
}


class QuantizeTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-quantize.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.source, self.out, self.back = (os.path.join(self.root, name) for name in ("source", "out", "back"))
        self.gguf_file = os.path.join(self.root, "model.gguf")

    def weft(self, *words, code=0):
        result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, code, result.stdout + result.stderr)
        self.assertNotIn("CRITICAL", result.stderr)
        return result

    def make(self, shape=(32, 64), config=None, dtype="BF16"):
        made.write_folder(self.source, [{NAME: made.tensor(dtype, shape, 1)}], config or {"torch_dtype": "bfloat16"})

    def test_output_is_what_its_record_says(self):
        self.make()
        for i, words in enumerate((("fp8-block",), ("fp8-per-row",), ("compressed-tensors/pack-quantized", "-p", INT4),
                                   ("bitsandbytes-int8",), ("gguf", "-p", '{"type": "Q8_0"}'))):
            out, report = f"{self.out}{i}", os.path.join(self.root, f"{i}.json")
            self.weft("quantize", self.source, "-o", out, "--error-report", report, "-s", *words)
            self.weft("verify", out)
            with open(report, encoding="utf-8") as file:
                self.assertIn(NAME, json.dumps(json.load(file)))
            self.weft("dequantize", out, "-o", f"{self.back}{i}", "-d", "BF16")
            self.assertIn("equal", self.weft("diff", "--names", self.source, f"{self.back}{i}").stderr)

    def test_error_report_as_table_and_plot(self):
        self.make()
        for ending, found in (("svg", "</svg>"), ("txt", NAME)):
            report = os.path.join(self.root, "report." + ending)
            self.weft("quantize", self.source, "-o", self.out, "--force", "--error-report", report, "-s", "fp8-block")
            with open(report, encoding="utf-8") as file:
                self.assertIn(found, file.read())

    def test_source_is_converted_again(self):
        self.make()
        self.weft("quantize", self.source, "-s", "fp8-block", "-o", self.out)
        self.weft("verify", self.out, "--source", self.source, "--open", "--quantize", "fp8-block")
        self.weft("dequantize", self.out, "-o", self.back)
        self.weft("verify", self.back, "--source", self.out, "--open", "--dequantize")
        self.weft("verify", self.back, "--source", self.out, "--open", code=3)

    def test_packed_input(self):
        self.make()
        self.weft("quantize", self.source, "-s", "fp8-block", "-o", self.out)
        self.weft("quantize", self.out, "-s", "fp8-per-row", "-o", self.back, code=1)
        self.assertFalse(os.path.exists(self.back))
        self.weft("quantize", self.out, "-s", "fp8-per-row", "-o", self.back, "--dequantize")

    def explain(self, key, *words):
        result = self.weft("explain", "--json", "--open", self.source, key, *words)
        self.assertEqual(result.stderr, "")
        return json.loads(result.stdout)

    def test_plan_and_explain(self):
        codes, scale = ("model.a.weight", "model.a.weight_scale_inv")
        parts = {codes: ("F8_E4M3", [2, 2], b"abcd"), scale: made.tensor("F32", [1, 1], 1)}
        made.write_folder(self.source, [parts], {"quantization_config": {"quant_method": "fp8"}})
        planned = json.loads(self.weft("plan", "--json", "--open", self.source, "--dequantize").stdout)
        self.assertEqual([(output["name"], output["dtype"]) for output in planned["outputs"]], [(codes, "BF16")])
        # A companion has the history of its weight, and a dequantized weight all of its parts.
        for key in (codes, scale):
            history = self.explain(key, "--dequantize", "--quantize", "fp8-per-row")
            self.assertEqual([(source["key"], source["role"]) for source in history["sources"]], [(codes, "codes"), (scale, "scale")])
            self.assertEqual([part["name"] for part in history["packed"]], [codes, "model.a.weight_scale"])
        kept = self.explain(scale)
        self.assertEqual([source["key"] for source in kept["sources"]], [scale])
        self.assertNotIn("packed", kept)

    def test_keep_that_cannot_be_read(self):
        self.make()
        words = ("--quantize", "fp8-block", "--keep", "re:(")
        self.assertIn("--keep: 're:('", self.weft("convert", self.source, *words, "-o", self.out, code=2).stderr)

    def test_refused(self):
        self.make((7, 31))
        nvfp4 = self.weft("quantize", self.source, "-s", "modelopt-nvfp4", "-o", self.out, code=1)
        self.assertIn("would be read as (7, 32)", nvfp4.stderr)
        nothing = self.weft("quantize", self.source, "-s", "fp8-block", "--keep", "re:.*", "-o", self.out, code=1)
        self.assertIn("packs no weight", nothing.stderr)
        self.assertFalse(os.path.exists(self.out))

    def test_codes_that_nothing_explains(self):
        for i, config in enumerate(({"quantization_config": "fp8"}, {"quantization_config": ["fp8"]}, {})):
            folder = f"{self.source}{i}"
            made.write_folder(folder, [{NAME: ("F8_E4M3", [2, 2], b"abcd")}], config)
            self.assertIn("quantization_config", self.weft("dequantize", folder, "-o", self.out, code=1).stderr)
            self.assertFalse(os.path.exists(self.out))

    def write_gguf(self, *words):
        with open(self.gguf_file, "wb") as file:
            file.write(gguf(*words))

    def test_gguf_is_not_written(self):
        self.write_gguf("w")
        self.assertIn("lose their types", self.weft("convert", self.gguf_file, "-o", self.out, code=1).stderr)
        self.assertIn("not reversible", self.weft("dequantize", self.gguf_file, "-o", self.out).stderr)
        self.weft("revert", self.out, "-o", self.back, code=1)

    def test_folder_of_gguf(self):
        """One file, or all of a set, opens as the folder of its weights; of several it is not clear which is meant."""
        os.mkdir(self.source)
        for names in (["a.gguf"], ["a-00001-of-00002.gguf", "a-00002-of-00002.gguf"], ["a.gguf", "b.gguf"]):
            for old in os.listdir(self.source):
                os.remove(os.path.join(self.source, old))
            for i, name in enumerate(names):
                self.gguf_file = os.path.join(self.source, name)
                self.write_gguf(f"w{i}")
            result = self.weft("dequantize", self.source, "-o", self.out, "--force", code=names[-1] == "b.gguf")
            self.assertIn("a.gguf, b.gguf" if names[-1] == "b.gguf" else f"{len(names)} tensors became {len(names)}", result.stderr)

    def convert_gguf(self, architecture, tensors, numbers, code=0):
        with open(self.gguf_file, "wb") as file:
            file.write(gguf_model(architecture, tensors, numbers))
        return self.weft("convert", self.gguf_file, "--dequantize", "-o", self.out, "--force", code=code)

    def test_names_of_gguf(self):
        for architecture, (tensors, expected) in GGUF_MODELS.items():
            with self.subTest(architecture=architecture):
                result = self.convert_gguf(architecture, tensors, {"attention.head_count": 2, "attention.head_count_kv": 1})
                self.assertEqual("no rules are known" in result.stderr, architecture == "strange")
                self.weft("convert", self.out, "--open", "-o", self.back + ".safetensors", "--force")
                with open(self.back + ".safetensors", "rb") as file:
                    content = file.read()
                start = 8 + struct.unpack("<Q", content[:8])[0]
                found = {name: [struct.unpack("<f", content[start + i:start + i + 4])[0] for i in range(*entry["data_offsets"], 4)]
                         for name, entry in json.loads(content[8:start]).items() if name != "__metadata__"}
                self.assertEqual(found, expected)

    def test_heads_of_gguf(self):
        tensors = GGUF_MODELS["llama"][0]
        self.assertIn("llama.attention.head_count", self.convert_gguf("llama", tensors, {}, code=1).stderr)
        # Keys have as many heads as queries where nothing is said of them: one here, whose halves are the rows 0 and 2, 1 and 3.
        self.convert_gguf("llama", {"blk.0.attn_k.weight": ([4, 1], range(4))}, {"attention.head_count": 1})

    def test_gguf_tensor_with_a_name_of_metadata(self):
        self.write_gguf("format")
        self.weft("dequantize", self.gguf_file, "-o", self.out, code=1)

    def test_gguf_with_more_values_than_memory_is_for(self):
        for kind, n_bytes in ((8, 8), (6, 4), (0, 1)):
            self.write_gguf("w", text("a") + struct.pack("<IIQ", 9, kind, 1 << 23) + bytes(n_bytes << 23))
            self.assertIn("expected up to", self.weft("inspect", self.gguf_file, code=1).stderr)


if __name__ == "__main__":
    unittest.main()
