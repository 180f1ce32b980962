# SPDX-License-Identifier: Apache-2.0
"""What the command does when something is wrong: a clear error, an exit code, nothing half written, the source untouched."""

import contextlib
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True

import made_checkpoint as made  # noqa: E402

WEFT = os.environ["WEFT"]
CONFIG = {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"]}
LAYER = "model.layers.0.block_sparse_moe"
N_ATTEMPTS = 4


def experts(numbers, shape=(4, 4)):
    return {f"{LAYER}.experts.{i}.{w}.weight": made.tensor("F32", shape, 10 * i + j)
            for i in numbers for j, w in enumerate(("w1", "w2", "w3"))}


class FailuresTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="weft-failures.")
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.source = os.path.join(self.root, "source")
        self.target = os.path.join(self.root, "target")

    def run_weft(self, *words, **options):
        return subprocess.run([WEFT, *words], capture_output=True, text=True, timeout=120, check=False, **options)

    def make_source(self, shards=None):
        made.write_folder(self.source, shards or [experts(range(3))], CONFIG)
        return made.read_folder(self.source)

    def test_converting_twice_is_reverted_twice(self):
        before = self.make_source()
        again, once, back = (os.path.join(self.root, name) for name in ("again", "once", "back"))
        rules = os.path.join(self.root, "rules.json")
        with open(rules, "w", encoding="utf-8") as file:
            json.dump([{"type": "WeightRenaming", "source_patterns": "^model.", "target_patterns": "^body."}], file)
        for words in (("convert", self.source, "-o", self.target), ("convert", self.target, "--mapping", rules, "-o", again),
                      ("revert", again, "-o", once), ("revert", once, "-o", back)):
            result = self.run_weft(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(made.read_folder(back), before)
        self.assertEqual(made.read_folder(once), made.read_folder(self.target))

    def test_no_threads(self):
        """Where no thread can be started all is done by the first one."""
        def leave_no_thread():
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
            if os.geteuid() == 0:  # whom no limit holds
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)

        self.make_source([experts([0, 1]), experts([2])])
        os.chmod(self.root, 0o777)
        # The leak checker needs a thread of its own.
        options = {"preexec_fn": leave_no_thread, "env": {**os.environ, "ASAN_OPTIONS": "detect_leaks=0"}}
        try:
            if self.run_weft("--version", **options).returncode != 0:
                self.skipTest("the command cannot be run by another user here")
        except (PermissionError, subprocess.SubprocessError):
            self.skipTest("the command cannot be run by another user here")
        for words in (("convert", self.source, "-o", self.target, "--threads", "4"), ("revert", self.target, "-o", os.path.join(self.root, "back"))):
            result = self.run_weft(*words, **options)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(made.read_folder(os.path.join(self.root, "back")), made.read_folder(self.source))

    def test_command_line_that_makes_no_sense(self):
        self.make_source()
        for words, message in (
                (("--model-type", "nosuch"), "there is no mapping 'nosuch'"),
                (("--strict", ""), "'' is nothing to be strict about"),
                (("--strict", "missing,nonsense"), "'nonsense' is nothing to be strict about"),
                (("--strict", "all", "--allow-missing"), "contradict each other"),
                (("--adapter-name", "x"), "--adapter-name goes with --base")):
            with self.subTest(words=words):
                result = self.run_weft("convert", self.source, "-o", self.target, *words)
                self.assertEqual(result.returncode, 2, result.stderr)
                self.assertIn(message, result.stderr)
                self.assertFalse(os.path.exists(self.target))

    def test_adapter_without_its_model(self):
        made.write_folder(self.source, [{"base_model.model.x.lora_A.weight": made.tensor("F32", (1, 1), 0)}])
        made.write_text(os.path.join(self.source, "adapter_config.json"), "{}")
        result = self.run_weft("convert", self.source, "-o", self.target)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--base", result.stderr)

    def test_adapter_of_a_model(self):
        base, back = os.path.join(self.root, "base"), os.path.join(self.root, "back")
        names = [f"base_model.model.model.layers.0.block_sparse_moe.experts.{i}.w2.lora_{matrix}.weight" for i in range(2) for matrix in "AB"]
        made.write_folder(base, [experts(range(2))], CONFIG)
        made.write_folder(self.source, [{name: made.tensor("F32", (1, 1), i) for i, name in enumerate(names)}])
        os.rename(os.path.join(self.source, "model.safetensors"), os.path.join(self.source, "adapter_model.safetensors"))
        made.write_text(os.path.join(self.source, "adapter_config.json"),
                        json.dumps({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["w2"]}))
        for words in (("convert", self.source, "--base", base, "--adapter-name", "mine", "-o", self.target), ("revert", self.target, "-o", back)):
            result = self.run_weft(*words)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(b"model.layers.0.mlp.experts.lora_B.mine.weight", made.read_folder(self.target)["adapter_model.safetensors"])
        self.assertEqual(made.read_folder(back), made.read_folder(self.source))

    def test_strict(self):
        self.make_source([{**experts(range(3)), "extra.weight": made.tensor("F32", (1,), 0)}])
        tree = os.path.join(self.root, "tree.json")
        shapes = {"gate_up_proj": [3, 8, 4], "down_proj": [3, 4, 4]}
        made.write_text(tree, json.dumps({"class": "MixtralForCausalLM", "model_type": "mixtral", "base_model_prefix": "model",
                                          "tensors": [{"name": f"model.layers.0.mlp.experts.{name}", "shape": shape, "dtype": "float32"}
                                                      for name, shape in shapes.items()]}))
        for words, code in (((), 0), (("--strict", "missing,ignored,unused,not-reversible,open"), 0), (("--strict", "unexpected"), 1),
                            (("--strict", "all"), 1), (("--drop-unexpected", "--strict", "not-reversible"), 1)):
            with self.subTest(words=words):
                result = self.run_weft("plan", "--json", self.source, "--module-tree", tree, *words)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual("'extra.weight'" in result.stderr, code == 1)

    def test_last_expert_is_missing(self):
        made.write_folder(self.source, [experts(range(3))], {**CONFIG, "num_local_experts": 4})
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), "experts 0-2", "the config speaks of 4")

    def test_model_without_a_mapping(self):
        made.write_folder(self.source, [{"a": made.tensor("F32", (2,), 1)}], {"model_type": "nonesuch"})
        result = self.run_weft("convert", self.source, "-o", self.target)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no mapping for this model type", result.stderr)

    def test_revert_compares_hashes(self):
        self.make_source()
        self.assertEqual(self.run_weft("convert", "--hash", self.source, "-o", self.target).returncode, 0)
        for edit, equal, other in ((False, 1, 0), (True, 0, 1)):
            back = os.path.join(self.root, f"back-{edit}")
            if edit:
                path = os.path.join(self.target, "model.safetensors")
                with open(path, "r+b") as file:
                    file.seek(-1, os.SEEK_END)
                    file.write(b"\x41")
            found = json.loads(self.run_weft("revert", "--json", self.target, "-o", back).stdout)
            self.assertEqual((found["files_with_equal_hash"], found["files_with_other_hash"]), (equal, other))

    def assert_refused(self, result, *parts, leaves_partial=False):
        self.assertEqual(result.returncode, 1, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertFalse(os.path.lexists(self.target))
        if not leaves_partial:
            self.assertFalse(os.path.lexists(self.target + ".weft-partial"))

    def test_names_do_not_drive_a_terminal(self):
        self.make_source([{"a\x1b[2J\nb": made.tensor("F32", (2,), 0)}])
        self.assertEqual(self.run_weft("inspect", "--names", self.source).stdout, "a\\x1b[2J\\x0ab\n")
        self.assertNotIn("\x1b", self.run_weft("inspect", self.source).stdout)
        planned = self.run_weft("plan", self.source)
        self.assertNotIn("\x1b", planned.stdout + planned.stderr)
        self.assertIn("a\\x1b[2J", planned.stdout)

    def test_dry_run_sums_up_as_plan_does(self):
        self.make_source()
        planned = self.run_weft("plan", self.source).stderr
        self.assertIn("9 tensors would become 2, ", planned)
        self.assertEqual(self.run_weft("convert", "--dry-run", self.source, "-o", self.target).stderr, planned)

    def test_missing_expert(self):
        before = self.make_source([experts([0, 2])])
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), "gate_up_proj",
                            "needs numbers 0-2", "1 is missing")
        self.assertEqual(made.read_folder(self.source), before)

    def test_plan_prints_one_document(self):
        """A plan with a report that stops the load is one JSON document, and an exit code."""
        self.make_source([experts([0, 2])])
        result = self.run_weft("plan", self.source, "--json")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(json.loads(result.stdout)["report"]["conversion_errors"]), 2)

    def test_no_plugins(self):
        before = self.make_source()
        result = self.run_weft("convert", self.source, "-o", self.target,
                               env={**os.environ, "WEFT_PLUGIN_SYSTEM_PATH": "", "WEFT_PLUGIN_PATH": "", "HOME": self.root,
                                    "XDG_DATA_HOME": self.root})
        self.assert_refused(result, "MergeModulelist")
        self.assertEqual(made.read_folder(self.source), before)

    def test_malformed_header(self):
        self.make_source()
        path = os.path.join(self.source, "model.safetensors")
        with open(path, "rb") as file:
            good = file.read()
        bad = {
            "cut off in the length": good[:5],
            "cut off in the header": good[:100],
            "cut off in the values": good[:-1],
            "a byte too many": good + b"x",
            "no JSON": struct.pack("<Q", 8) + b"[[[[[[[[" + good[16:],
            "an unknown dtype": good.replace(b'"F32"', b'"F33"', 1),
            "a shape that does not fit": good.replace(b"[4, 4]", b"[4, 5]", 1),
        }
        for what, content in bad.items():
            with self.subTest(what=what):
                with open(path, "wb") as file:
                    file.write(content)
                self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), path)
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), content)

    def test_unreadable_file(self):
        """A folder in the place of a file: root may read everything else."""
        self.make_source([experts([0]), experts([1])])
        path = os.path.join(self.source, "model-00002-of-00002.safetensors")
        os.remove(path)
        os.mkdir(path)
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), "model-00002-of-00002.safetensors")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_forbidden_file(self):
        self.make_source([experts([0]), experts([1])])
        path = os.path.join(self.source, "model-00002-of-00002.safetensors")
        os.chmod(path, 0)
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), path, "Permission denied")

    def test_unreadable_other_file(self):
        self.make_source()
        os.symlink("nowhere", os.path.join(self.source, "tokenizer.json"))
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target),
                            "tokenizer.json is a link to nowhere; remove it or bring its target back")

    def test_odd_config(self):
        self.make_source()
        path = os.path.join(self.source, "config.json")
        os.remove(path)
        for make, found in ((lambda: os.mkdir(path), "expected a regular file, found a folder"),
                            (lambda: os.symlink("nowhere", path), "expected a regular file, found a link to nowhere"),
                            (lambda: os.mkfifo(path), "expected a regular file, found something else"),
                            (lambda: made.write_text(path, "[1]"), "expected a JSON object, found an array"),
                            (lambda: made.write_text(path, "null"), "expected a JSON object, found null"),
                            (lambda: made.write_text(path, "3"), "expected a JSON object, found a single value")):
            with self.subTest(found=found):
                make()
                self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), path, found)
                (os.rmdir if os.path.isdir(path) else os.remove)(path)

    def add_foreign_files(self):
        """Things that are not the checkpoint's: they must be somewhere afterwards."""
        foreign = {"pytorch_model.bin": b"a", "model.gguf": b"b", "model-00003-of-00003.safetensors": b"c", ".git/HEAD": b"d"}
        for name, content in foreign.items():
            path = os.path.join(self.source, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(content)
        return foreign

    def test_files_left_behind_are_named(self):
        self.make_source([experts([0, 2]), experts([1])])
        self.add_foreign_files()
        for words in ([], ["--lenient"]):
            with self.subTest(words=words):
                target = self.target + "".join(words)
                result = self.run_weft("convert", self.source, "-o", target, *words)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn("3 entries: not carried along, holding weights that were not read: "
                              "model-00003-of-00003.safetensors, model.gguf, pytorch_model.bin\n", result.stderr)
                self.assertIn("1 entry: not carried along, being a folder of a tool, a link to a folder or no regular file: .git\n",
                              result.stderr)

    def test_many_files_left_behind(self):
        self.make_source()
        for i in range(9):
            made.write_text(os.path.join(self.source, f"old-{i}.pt"), "x")
        result = self.run_weft("convert", self.source, "-o", self.target)
        self.assertIn("9 entries: ", result.stderr)
        self.assertIn("old-4.pt, old-5.pt and 3 more\n", result.stderr)

    def test_in_place_keeps_foreign_files(self):
        self.make_source([experts([0, 2]), experts([1])])
        foreign = self.add_foreign_files()
        result = self.run_weft("convert", self.source, "--in-place", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        old = self.source + ".weft-old"
        self.assertIn(f"what else was in {self.source} is now in {old}\n", result.stderr)
        self.assertEqual(json.loads(result.stdout)["kept_path"], old)
        self.assertEqual(made.read_folder(old), foreign)
        self.assertFalse(foreign.keys() & made.read_folder(self.source).keys())
        before = made.read_folder(self.source)
        again = self.run_weft("revert", self.source, "--in-place")
        self.assertEqual(again.returncode, 1)
        self.assertIn(old, again.stderr)
        self.assertEqual(made.read_folder(self.source), before)

    def test_force_keeps_foreign_files(self):
        self.make_source()
        made.write_folder(self.target, [{"old": made.tensor("F32", (2,), 1)}], CONFIG)
        made.write_text(os.path.join(self.target, "notes.txt"), "mine")
        result = self.run_weft("convert", self.source, "-o", self.target, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("is now in " + self.target + ".weft-old", result.stderr)
        self.assertEqual(made.read_folder(self.target + ".weft-old"), {"notes.txt": b"mine"})

    def test_foreign_partial(self):
        self.make_source()
        partial = self.target + ".weft-partial"
        made.write_text(partial, "mine")
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), partial, "move it away or remove it",
                            leaves_partial=True)
        os.remove(partial)
        os.mkdir(partial)
        made.write_text(os.path.join(partial, "mine"), "mine")
        self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), partial, "move it away or remove it",
                            leaves_partial=True)

    def test_output_and_source(self):
        before = self.make_source()
        link = os.path.join(self.root, "link")
        os.symlink(self.source, link)
        inside = os.path.join(self.source, "out")
        for output, parts in {
                self.source: ["exists", "--force"],
                inside: ["lies inside the source"],
                os.path.join(link, "out"): ["lies inside the source"],
                os.path.join(self.root, "no", "such"): ["does not exist", "make it first"],
        }.items():
            with self.subTest(output=output):
                self.assert_refused(self.run_weft("convert", self.source, "-o", output), *parts)
        for output in (self.source, link, self.source + "/", self.source + "/../source"):
            with self.subTest(output=output):
                self.assert_refused(self.run_weft("convert", self.source, "-o", output, "--force"), "is the source", "--in-place")
        self.assertEqual(made.read_folder(self.source), before)

    def test_output_holds_source(self):
        outer = os.path.join(self.root, "outer")
        made.write_folder(outer, [experts([0])], CONFIG)
        self.source = os.path.join(outer, "source")
        before = self.make_source()
        self.assert_refused(self.run_weft("convert", self.source, "-o", outer, "--force"), "holds the source")
        self.assertEqual(made.read_folder(self.source), before)

    def test_existing_output(self):
        self.make_source()
        os.mkdir(self.target)
        with open(os.path.join(self.target, "letter.txt"), "w", encoding="utf-8") as file:
            file.write("mine")
        refused = self.run_weft("convert", self.source, "-o", self.target)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--force", refused.stderr)
        refused = self.run_weft("convert", self.source, "-o", self.target, "--force")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("holds no checkpoint", refused.stderr)
        self.assertEqual(made.read_folder(self.target), {"letter.txt": b"mine"})

    def test_force_exchanges_when_complete(self):
        self.make_source()
        made.write_folder(self.target, [{"old": made.tensor("F32", (2,), 1)}], CONFIG)
        old = made.read_folder(self.target)
        broken = os.path.join(self.root, "broken")
        made.write_folder(broken, [experts([1])], CONFIG)
        self.assertEqual(self.run_weft("convert", broken, "-o", self.target, "--force").returncode, 1)
        self.assertEqual(made.read_folder(self.target), old)
        result = self.run_weft("convert", self.source, "-o", self.target, "--force")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("weft-provenance.json", made.read_folder(self.target))
        self.assertEqual(sorted(os.listdir(self.root)), ["broken", "source", "target"])

    def test_in_place_and_back(self):
        before = self.make_source([experts([0, 2]), experts([1])])
        result = self.run_weft("convert", self.source, "--in-place")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotEqual(made.read_folder(self.source), before)
        result = self.run_weft("revert", self.source, "--in-place")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(made.read_folder(self.source), before)
        self.assertEqual(os.listdir(self.root), ["source"])

    def test_dry_run(self):
        before = self.make_source()
        self.assertEqual(self.run_weft("convert", self.source, "-o", self.target, "--dry-run").returncode, 0)
        self.assertEqual(os.listdir(self.root), ["source"])
        self.assertEqual(made.read_folder(self.source), before)

    @contextlib.contextmanager
    def full_disk(self):
        """A small file system of its own, where that can be mounted; else a limit on the size of files."""
        disk = os.path.join(self.root, "disk")
        os.mkdir(disk)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "weft-test", disk], capture_output=True,
                                 check=False).returncode == 0
        try:
            yield disk, mounted
        finally:
            if mounted:
                subprocess.run(["umount", disk], check=True)

    def test_full_disk(self):
        before = self.make_source([experts(range(2), (128, 128)), experts(range(2, 4), (128, 128))])
        with self.full_disk() as (disk, mounted):
            for words in ([], ["--no-sync"], ["--threads", "0"]):
                with self.subTest(words=words, mounted=mounted):
                    self.target = os.path.join(disk, "target")
                    limit = None if mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
                    # Python ignores the signal of this limit; the command shall see the error.
                    result = self.run_weft("convert", self.source, "-o", self.target, *words, preexec_fn=limit, restore_signals=False)
                    self.assert_refused(result, "No space left" if mounted else "File too large", leaves_partial=True)
                    self.assertEqual(made.read_folder(self.source), before)

    def test_full_disk_for_small_files(self):
        """There is room for the tensors, and none for a file beside them."""
        self.make_source()
        with open(os.path.join(self.source, "tokenizer.json"), "wb") as file:
            file.write(b"x" * 400000)
        with self.full_disk() as (disk, mounted):
            if not mounted:
                self.skipTest("no file system can be mounted")
            self.target = os.path.join(disk, "target")
            self.assert_refused(self.run_weft("convert", self.source, "-o", self.target), "tokenizer.json", "No space left",
                                leaves_partial=True)

    def test_resume_by_other_rules(self):
        """Files that were reverted by other rules are not kept, although all names and shapes are the same."""
        made.write_folder(self.source, [{"a.t": made.tensor("F32", (4, 4), 1)}, {"b.t": made.tensor("F32", (200, 200), 2)}])
        rules = {"turned": {"type": "WeightConverter", "source_patterns": ["w"], "target_patterns": ["t"],
                            "operations": [{"type": "Transpose"}]},
                 "renamed": {"type": "WeightRenaming", "source_patterns": ["w$"], "target_patterns": ["t$"]}}
        for name, rule in rules.items():
            with open(os.path.join(self.root, name), "w", encoding="utf-8") as file:
                json.dump([rule], file)
        words = ["revert", self.source, "--no-sync", "--mapping"]
        # There is room for the first file only.
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536))
        result = self.run_weft(*words, os.path.join(self.root, "turned"), "-o", self.target, preexec_fn=limit, restore_signals=False)
        self.assert_refused(result, "File too large", leaves_partial=True)
        self.assertIn("model-00001-of-00002.safetensors", os.listdir(self.target + ".weft-partial"))
        whole = os.path.join(self.root, "whole")
        for target, more in ((self.target, ["--resume"]), (whole, [])):
            result = self.run_weft(*words, os.path.join(self.root, "renamed"), "-o", target, *more)
            self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(made.read_folder(self.target), made.read_folder(whole))

    def start_and_stop(self, number, n_shards):
        """Stops a run after its first file, before its last; None if it was too quick."""
        journal = os.path.join(self.target + ".weft-partial", ".weft-journal")
        process = subprocess.Popen([WEFT, "convert", self.source, "-o", self.target, "--dtype", "F32", "--threads", "0", "--quiet"],
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError):
                with open(journal, encoding="utf-8") as file:
                    if file.read().count(".safetensors\n") >= 1:
                        process.send_signal(number)
                        break
            time.sleep(0.001)
        _, errors = process.communicate(timeout=60)
        if process.returncode == 0:
            shutil.rmtree(self.target)
            return None
        with open(journal, encoding="utf-8") as file:
            finished = [line.split(" ", 1)[1] for line in file.read().split("\n")[1:-1]]
        self.assertLess(len(finished), n_shards)
        return process.returncode, errors, finished

    def interrupt(self, number):
        for attempt in range(N_ATTEMPTS):
            n_shards = 8 * 2 ** attempt
            shutil.rmtree(self.source, ignore_errors=True)
            self.make_source([{f"w{i}": made.tensor("BF16", (1024, 1024), i)} for i in range(n_shards)])
            stopped = self.start_and_stop(number, n_shards)
            if stopped:
                return stopped
        self.fail("the run could not be stopped in its middle")
        return None

    def assert_resumes(self, finished):
        partial = self.target + ".weft-partial"
        before = made.read_folder(self.source)
        stamps = {name: os.stat(os.path.join(partial, name)).st_ino for name in finished}
        result = self.run_weft("convert", self.source, "-o", self.target, "--dtype", "F32", "--resume", "--json")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["files_resumed"], len(finished))
        self.assertEqual("kept from the interrupted run" in result.stderr, bool(finished))
        for name, stamp in stamps.items():
            self.assertEqual(os.stat(os.path.join(self.target, name)).st_ino, stamp)
        whole = os.path.join(self.root, "whole")
        self.assertEqual(self.run_weft("convert", self.source, "-o", whole, "--dtype", "F32").returncode, 0)
        self.assertEqual(made.read_folder(self.target), made.read_folder(whole))
        self.assertFalse(os.path.exists(partial))
        self.assertEqual(made.read_folder(self.source), before)

    def test_interrupted(self):
        code, errors, finished = self.interrupt(signal.SIGINT)
        self.assertEqual(code, 130, errors)
        self.assertFalse(os.path.exists(self.target))
        self.assert_resumes(finished)

    def test_terminated(self):
        code, errors, finished = self.interrupt(signal.SIGTERM)
        self.assertEqual(code, 143, errors)
        self.assert_resumes(finished)

    def test_killed(self):
        code, _, finished = self.interrupt(signal.SIGKILL)
        self.assertEqual(code, -signal.SIGKILL)
        self.assertFalse(os.path.exists(self.target))
        self.assert_resumes(finished)

    def test_killed_then_begun_anew(self):
        """Without --resume, and with another plan, nothing of the old run is kept."""
        for words in ([], ["--resume", "--max-shard-size", "3MB"]):
            with self.subTest(words=words):
                self.interrupt(signal.SIGKILL)
                whole = os.path.join(self.root, "whole")
                for target in (self.target, whole):
                    chosen = words if target == self.target else words[1:]
                    result = self.run_weft("convert", self.source, "-o", target, "--dtype", "F32", *chosen)
                    self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(made.read_folder(self.target), made.read_folder(whole))
                shutil.rmtree(self.target)
                shutil.rmtree(whole)

    def test_killed_and_the_source_changed(self):
        """Files of the old run are not mixed with those of another source."""
        self.interrupt(signal.SIGKILL)
        for name in sorted(os.listdir(self.source)):
            if name.endswith(".safetensors"):
                with open(os.path.join(self.source, name), "r+b") as file:
                    file.seek(-4, os.SEEK_END)
                    file.write(b"\0\0\0\0")
        self.assert_resumes([])


if __name__ == "__main__":
    unittest.main()
