# SPDX-License-Identifier: Apache-2.0
"""A base model's checkpoint read as a model with a head, and one with a head read as the base model: the base prefix comes or goes, what one
side alone has is told and kept, and reverting gives every file back. All that is known of the models is their config.json."""

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
DTYPES = {"bfloat16": "BF16", "float32": "F32"}
DECODER = {"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 11}
ENCODER = {"hidden_size": 16, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 11, "max_position_embeddings": 12}

# type, base class, class with a head, config, what the base model is called in the other, what only the base and what only the other has
FAMILIES = [
    ("bert", "BertModel", "BertForMaskedLM", ENCODER, "bert", ("pooler.",), ("cls.",)),
    ("distilbert", "DistilBertModel", "DistilBertForSequenceClassification", {"dim": 16, "hidden_dim": 8, "n_layers": 2, "n_heads": 2, "vocab_size": 11}, "distilbert",
     (), ("pre_classifier.", "classifier.")),
    ("gemma2", "Gemma2Model", "Gemma2ForSequenceClassification", DECODER, "model", (), ("score.",)),
    ("gpt2", "GPT2Model", "GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 11, "n_positions": 12, "tie_word_embeddings": False}, "transformer",
     (), ("lm_head.",)),
    ("llama", "LlamaModel", "LlamaForCausalLM", DECODER, "model", (), ("lm_head.",)),
    ("mixtral", "MixtralModel", "MixtralForCausalLM", {**DECODER, "num_local_experts": 3}, "model", (), ("lm_head.",)),
    ("qwen2", "Qwen2Model", "Qwen2ForTokenClassification", DECODER, "model", (), ("score.",)),
    ("roberta", "RobertaModel", "RobertaForQuestionAnswering", ENCODER, "roberta", ("pooler.",), ("qa_outputs.",)),
    ("vit", "ViTModel", "ViTForImageClassification", {**ENCODER, "image_size": 8, "patch_size": 4}, "vit", ("pooler.",), ("classifier.",)),
    ("whisper", "WhisperModel", "WhisperForConditionalGeneration",
     {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "vocab_size": 11,
      "num_mel_bins": 4, "max_source_positions": 6, "max_target_positions": 6, "tie_word_embeddings": False, "pad_token_id": 0}, "model", (), ("proj_out.",)),
]


class BaseHeadTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-base-head.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def weft(self, *words):
        result = subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(result.returncode, 0, " ".join(words) + "\n" + result.stdout + result.stderr)
        return result.stdout

    def make(self, model_type, class_name, config):
        """A runtime checkpoint of a class, numbered through, and the published one that it is reverted to."""
        runtime, published = (os.path.join(self.root, f"{class_name}-{kind}") for kind in ("runtime", "published"))
        config = {"model_type": model_type, "architectures": [class_name], "dtype": "float32", **config}
        made.write_folder(runtime, [{}], config)
        tree = json.loads(self.weft("model", "--json", runtime))
        shutil.rmtree(runtime)
        tensors = {tensor["name"]: made.tensor(DTYPES[tensor["dtype"]], tensor["shape"], seed)
                   for seed, tensor in enumerate(tree["tensors"]) if tensor["persistent"] and tensor["dtype"] in DTYPES and tensor["name"] not in tree["tied"]}
        made.write_folder(runtime, [tensors], config)
        self.weft("revert", "--quiet", runtime, "-o", published)
        return published, tensors

    def check(self, published, class_name, expected, missing):
        """Reads a checkpoint as another class: the tensors that come out, what is told to be missing, and all files back."""
        out, back = (f"{published}-{kind}" for kind in ("out", "back"))
        report = json.loads(self.weft("plan", published, "--class", class_name, "--allow-missing", "--json"))["report"]
        self.assertTrue(all(row["name"].startswith(missing) for row in report["missing"]), report["missing"])
        self.assertEqual(bool(report["missing"]), bool(missing))
        self.weft("convert", "--quiet", published, "-o", out, "--class", class_name, "--allow-missing")
        self.assertEqual(made.read_tensors(out), expected)
        self.weft("revert", "--quiet", out, "-o", back)
        self.assertEqual(made.read_folder(back), made.read_folder(published))

    def test_families(self):
        for model_type, base, head, config, prefix, base_only, head_only in FAMILIES:
            with self.subTest(model_type, classes=(base, head)):
                published, tensors = self.make(model_type, base, config)
                self.check(published, head, {name if name.startswith(base_only or ("-",)) else f"{prefix}.{name}": tensor for name, tensor in tensors.items()}, head_only)
                published, tensors = self.make(model_type, head, config)
                self.assertTrue(any(name.startswith(head_only) for name in tensors))
                self.check(published, base, {name.removeprefix(prefix + "."): tensor for name, tensor in tensors.items()}, base_only)


if __name__ == "__main__":
    unittest.main()
