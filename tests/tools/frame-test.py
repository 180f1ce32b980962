# SPDX-License-Identifier: Apache-2.0
"""The frame of the command: overview, help, completion, and what it says to a wrong command line."""

import json
import os
import subprocess
import tempfile
import unittest

WEFT = os.environ["WEFT"]

# words, exit code, part of standard output, part of standard error
CASES = [
    ([], 2, "", "Usage: weft COMMAND"),
    (["--help"], 0, "Usage: weft COMMAND", ""),
    (["-h"], 0, "Exit codes:", ""),
    (["help"], 0, "Commands:", ""),
    (["--version"], 0, "weft 1.", ""),
    (["inspct"], 2, "", "did you mean 'weft inspect'?"),
    (["no-such-thing-at-all"], 2, "", "there is no command 'no-such-thing-at-all'\nTry: weft --help"),
    (["help", "inspect"], 0, "Usage: weft inspect", ""),
    (["inspect", "--help"], 0, "Examples:", ""),
    (["inspect"], 2, "", "an argument is missing"),
    (["inspect", "a", "b"], 2, "", "'b' is an argument too many"),
    (["inspect", "--no-such-option", "a"], 2, "", "Unknown option --no-such-option\nTry: weft inspect --help"),
    (["inspect", "--json", "--no-such-option"], 2, '"code" : "usage"', "Unknown option"),
    (["inspect", "/no/such/file"], 1, "", "/no/such/file"),
    (["inspect", "--json", "/no/such/file"], 1, '"error"', "/no/such/file"),
    (["convert", "a", "-o", "b", "--max-shard-size", "nonsense"], 2, "", "--max-shard-size: 'nonsense' is no size"),
    (["convert", "a", "-o", "b", "--max-shard-size", "0"], 2, "", "--max-shard-size 0 leaves no room"),
    (["convert", "a", "-o", ""], 2, "", "--output '' names no folder or file"),
    (["plan", "a", "-d", "nope"], 2, "", "--dtype: 'nope' cannot be asked for"),
    (["plan", "a", "-k", "(=x"], 2, "", "--key-mapping: key mapping '(' -> 'x'"),
    (["cast", "a", "-d", "BF16", "-o", ""], 2, "", "--dtype and --output are needed"),
    (["inspect", "/no/\x1b[2J\x9b\x7f"], 1, "", "/no/\\x1b[2J\\xc2\\x9b\\x7f"),
]


def run(words, **options):
    return subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=60, check=False, **options)


class FrameTest(unittest.TestCase):
    def test_table(self):
        for words, code, output, errors in CASES:
            with self.subTest(words=words):
                result = run(words)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertIn(output, result.stdout)
                self.assertIn(errors, result.stderr)
                self.assertEqual(result.stderr == "", code == 0)

    def test_every_command_teaches(self):
        overview = run(["--help"]).stdout.split("Commands:\n")[1].split("\n\n")[0]
        for command in [line.split()[0] for line in overview.split("\n")]:
            with self.subTest(command=command):
                text = run([command, "--help"]).stdout
                for part in (f"Usage: weft {command}", "Options:", "--json", "Examples:", "Exit codes:"):
                    self.assertIn(part, text)
                self.assertLessEqual(max(map(len, text.split("\n"))), 120)
                for format_name in ("man", "bash", "zsh", "fish", "markdown"):
                    self.assertIn(command, run(["help", f"--format={format_name}"]).stdout)

    def test_keys_as_json(self):
        result = run(["mappings", "mixtral", "--apply", "--json"], input="a\nx.block_sparse_moe.gate.weight\n")
        self.assertEqual(json.loads(result.stdout),
                         [{"key": "a", "result": "a", "converter": None},
                          {"key": "x.block_sparse_moe.gate.weight", "result": "x.mlp.gate.weight", "converter": None}])

    def test_mapping_of_another_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "my2.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write("[]")
            result = run(["mappings", "mymodel", "--mapping", path])
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"no mapping 'mymodel'; {path} holds 'my2'", result.stderr)

    def test_broken_plugin_has_its_path_for_a_name(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "broken.so")
            with open(path, "w", encoding="utf-8") as file:
                file.write("no ELF")
            environment = {**os.environ, "WEFT_PLUGIN_PATH": folder, "WEFT_PLUGIN_SYSTEM_PATH": ""}
            result = run(["plugins", "--failed"], env=environment)
            self.assertEqual((result.returncode, result.stdout.split()[:2]), (3, [path, "failed"]))
            self.assertIn("no ELF file", run(["plugins", path], env=environment).stdout)
            found = json.loads(run(["plugins", "--json"], env=environment).stdout)[0]
            self.assertEqual((found["id"], found["path"], found["abi"]), (None, path, None))

    def test_full_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            result = subprocess.run([WEFT, "--version"], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual(result.returncode, 1)

    def test_bash_completion_offers_commands_and_options(self):
        script = run(["help", "--format=bash"]).stdout
        probe = script + '\nCOMP_WORDS=(weft insp); COMP_CWORD=1; _weft; echo "${COMPREPLY[@]}"\n' \
                         'COMP_WORDS=(weft inspect --js); COMP_CWORD=2; _weft; echo "${COMPREPLY[@]}"\n'
        result = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
        self.assertEqual(result.stdout, "inspect\n--json\n")


if __name__ == "__main__":
    unittest.main()
