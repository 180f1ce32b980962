#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Usage: quantizer-examples-test EXAMPLES C-PLUGINS WEFT-PYTHON WEFT-GJS

The quantizer of a stranger, in C, Python and JavaScript: a checkpoint of a format that Weft does not know is dequantized, follows
rules as it is, and is refused without its scale and without the quantizer."""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

EXAMPLES, C_PLUGINS, WEFT_PYTHON, WEFT_GJS = sys.argv[1:5]
WEFT = os.environ["WEFT"]
COMMANDS = {
    "none": ([WEFT], {}),
    "c": ([WEFT], {"WEFT_PLUGIN_PATH": C_PLUGINS}),
    "python": ([sys.executable, WEFT_PYTHON, "--plugin", os.path.join(EXAMPLES, "nibble-quantizer-python", "nibble_example.py")], {}),
    "javascript": ([shutil.which("gjs") or "gjs", "-m", WEFT_GJS, "--plugin",
                    os.path.join(EXAMPLES, "nibble-quantizer-javascript", "nibble-example.js")], {}),
}


def write_checkpoint(folder, names):
    tensors = {"nibbles": ("U8", [2, 1], bytes([0x9A, 0x70])), "row_scale": ("F32", [2, 1], struct.pack("<2f", 1, 2))}
    header, content = {}, b""
    for name in names:
        dtype, shape, values = tensors[name]
        header[f"a.{name}"] = {"dtype": dtype, "shape": shape, "data_offsets": [len(content), len(content) + len(values)]}
        content += values
    text = json.dumps(header).encode()
    os.makedirs(folder)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + content)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"quantization_config": {"quant_method": "nibble"}}, file)


def read_tensors(folder):
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        content = file.read()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    return {name: content[8 + length:][slice(*entry["data_offsets"])] for name, entry in header.items()}


class QuantizerTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.source, self.output = os.path.join(scratch.name, "packed"), os.path.join(scratch.name, "out")

    def run_weft(self, language, *words):
        command, environment = COMMANDS[language]
        return subprocess.run([*command, *words], capture_output=True, text=True, timeout=60, check=False,
                              env=dict(os.environ, **environment))

    def languages(self):
        return [language for language in ("c", "python", "javascript") if language != "javascript" or shutil.which("gjs")]

    def test_dense_values(self):
        write_checkpoint(self.source, ("row_scale", "nibbles"))
        for language in self.languages():
            with self.subTest(language):
                output = self.output + language
                result = self.run_weft(language, "dequantize", self.source, "--dtype", "F32", "--no-sync", "-o", output)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(struct.unpack("<4f", read_tensors(output)["a.weight"]), (2, 1, -16, -2))

    def test_carried(self):
        write_checkpoint(self.source, ("row_scale", "nibbles"))
        for language in self.languages():
            with self.subTest(language):
                output = self.output + language
                result = self.run_weft(language, "convert", self.source, "--key-mapping", "^a=b", "--no-sync", "-o", output)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(sorted(read_tensors(output)), ["b.nibbles", "b.row_scale"])

    def test_without_scale(self):
        write_checkpoint(self.source, ("nibbles",))
        for language in self.languages():
            with self.subTest(language):
                result = self.run_weft(language, "dequantize", self.source, "-o", self.output)
                self.assertEqual(result.returncode, 1)
                self.assertIn("nibble: ", result.stderr)
                self.assertIn("'a.weight' is stored as U8 and has no scale", result.stderr)

    def test_without_quantizer(self):
        write_checkpoint(self.source, ("row_scale", "nibbles"))
        result = self.run_weft("none", "dequantize", self.source, "-o", self.output)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no plugin knows the quant_method 'nibble'", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
