# SPDX-License-Identifier: Apache-2.0
"""Conversions over the ranks of an MPI job on this machine: the same bytes as one process, and nothing half written."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.environ["MADE_CHECKPOINT_FOLDER"])
import made_checkpoint as made  # noqa: E402

WEFT, RUN_RANK = os.environ["WEFT"], os.environ["RUN_RANK"]
SKIPPED = 77
# One machine, no network, more ranks than processors.
SETTINGS = {"OMPI_MCA_btl": "self,vader", "OMPI_MCA_pml": "ob1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMPI_MCA_plm_rsh_agent": "/bin/false",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def mixtral(n_layers, n_experts, hidden):
    """Tensors of a Mixtral checkpoint by name, layer by layer."""
    layers = []
    for layer in range(n_layers):
        prefix, tensors = f"model.layers.{layer}.", {}
        for name, shape in (("input_layernorm", [hidden]), ("self_attn.q_proj", [hidden, hidden]),
                            ("self_attn.k_proj", [hidden // 2, hidden]), ("self_attn.v_proj", [hidden // 2, hidden]),
                            ("self_attn.o_proj", [hidden, hidden]), ("post_attention_layernorm", [hidden]),
                            ("block_sparse_moe.gate", [n_experts, hidden])):
            tensors[f"{prefix}{name}.weight"] = made.tensor("BF16", shape, len(tensors) + 7 * layer)
        for expert in range(n_experts):
            for name, shape in (("w1", [2 * hidden, hidden]), ("w2", [hidden, 2 * hidden]), ("w3", [2 * hidden, hidden])):
                tensors[f"{prefix}block_sparse_moe.experts.{expert}.{name}.weight"] = made.tensor("BF16", shape, len(tensors))
        layers.append(tensors)
    layers[0]["model.embed_tokens.weight"] = made.tensor("BF16", [32, hidden], 3)
    layers[-1]["model.norm.weight"] = made.tensor("BF16", [hidden], 5)
    layers[-1]["lm_head.weight"] = made.tensor("BF16", [32, hidden], 4)
    return layers


def config(n_layers, n_experts, hidden):
    return {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "hidden_size": hidden,
            "intermediate_size": 2 * hidden, "num_attention_heads": 4, "num_key_value_heads": 2,
            "num_hidden_layers": n_layers, "num_local_experts": n_experts, "vocab_size": 32, "tie_word_embeddings": False}


def mpirun(*jobs, **options):
    """Runs one program or, given several (number of ranks, words), different ones as one job."""
    words = ["mpirun"]
    for n_ranks, program in jobs:
        words += ([":"] if len(words) > 1 else []) + ["-n", str(n_ranks), *program]
    environment = dict(os.environ, **SETTINGS, **options.pop("environment", {}))
    return subprocess.run(words, capture_output=True, text=True, timeout=90, check=False, env=environment,
                          stdin=subprocess.DEVNULL, **options)


class MpiTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.source, self.target = self.path("source"), self.path("target")
        made.write_folder(self.source, mixtral(3, 2, 64), config(3, 2, 64))
        made.write_text(os.path.join(self.source, "tokenizer.json"), "{}")

    def path(self, name):
        return os.path.join(self.root, name)

    def convert(self, n_ranks, *words, command="convert"):
        return mpirun((n_ranks, [WEFT, command, "--mpi", *words]))

    def convert_alone(self, *words, command="convert"):
        subprocess.run([WEFT, command, *words], check=True, capture_output=True, timeout=60)

    def check_same(self, folder, other):
        self.assertEqual(sorted(made.read_folder(folder)), sorted(made.read_folder(other)))
        self.assertEqual(made.read_folder(folder), made.read_folder(other))

    def check_failed(self, result, *parts):
        """A failure is told once, by rank 0, and leaves no output."""
        self.assertNotEqual(result.returncode, 0, result.stderr)
        for part in parts:
            self.assertIn(part, result.stderr)
        self.assertEqual(result.stderr.count("weft convert:"), 1 if parts else 0, result.stderr)
        self.assertFalse(os.path.exists(self.target))

    def test_same_bytes_as_one_process(self):
        # Three files of about one size, for fewer ranks and for more; one file for all, cut at tensors; many files.
        for name, words, sizes in (("by source", [], (1, 2, 3, 4)), ("one file", ["--max-shard-size", "1GB"], (2, 4)),
                                   ("small files", ["--max-shard-size", "100KB"], (2, 3))):
            alone = self.path(f"alone {name}")
            self.convert_alone(self.source, "-o", alone, *words)
            for n_ranks in sizes:
                with self.subTest(name=name, n_ranks=n_ranks):
                    target = self.path(f"{n_ranks} ranks {name}")
                    result = self.convert(n_ranks, self.source, "-o", target, *words)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.check_same(alone, target)
                    self.assertFalse(os.path.exists(target + ".weft-partial"))
                    self.assertEqual(result.stderr.count("tensors became"), 1)

    def test_one_file_and_way_back(self):
        single, alone = self.path("single.safetensors"), self.path("alone.safetensors")
        self.convert_alone(self.source, "-o", alone, "--max-shard-size", "1GB")
        self.assertEqual(self.convert(3, self.source, "-o", single, "--max-shard-size", "1GB").returncode, 0)
        with open(single, "rb") as left, open(alone, "rb") as right:
            self.assertEqual(left.read(), right.read())
        self.convert_alone(self.source, "-o", self.target, "--hash")
        result = self.convert(2, self.target, "-o", self.path("back"), "--json", command="revert")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(json.loads(result.stdout)["files_with_equal_hash"], 3)
        self.check_same(self.source, self.path("back"))

    def test_counters_are_those_of_all(self):
        alone = subprocess.run([WEFT, "convert", "--json", self.source, "-o", self.path("alone")], check=True,
                               capture_output=True, text=True, timeout=60)
        result = self.convert(3, self.source, "-o", self.target, "--json", "--no-sync")
        self.assertEqual(result.returncode, 0, result.stderr)
        for name in ("bytes_kept", "bytes_read", "bytes_written", "tensors"):
            self.assertEqual(json.loads(result.stdout)[name], json.loads(alone.stdout)[name], name)

    def test_progress_is_that_of_all(self):
        result = mpirun((3, [RUN_RANK, self.source, self.target, "progress"]))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_force_and_in_place(self):
        self.convert_alone(self.source, "-o", self.path("alone"))
        self.convert_alone(self.source, "-o", self.target, "--max-shard-size", "100KB")
        result = self.convert(2, self.source, "-o", self.target)
        self.assertEqual(result.returncode, 1)
        self.assertIn("the output exists", result.stderr)
        self.assertEqual(self.convert(2, self.source, "-o", self.target, "--force").returncode, 0)
        self.check_same(self.path("alone"), self.target)
        self.assertEqual(self.convert(2, self.source, "--in-place").returncode, 0)
        self.check_same(self.path("alone"), self.source)
        self.assertEqual(sorted(os.listdir(self.root)), ["alone", "source", "target"])

    def test_folders_of_tensor_parallel_ranks(self):
        self.convert_alone(self.source, "-o", self.path("alone"), "--tp-size", "4")
        self.assertEqual(self.convert(3, self.source, "-o", self.target, "--tp-size", "4").returncode, 0)
        self.check_same(self.path("alone"), self.target)
        one = self.path("one")
        self.assertEqual(self.convert(2, self.source, "-o", one, "--tp-size", "4", "--tp-rank", "1").returncode, 0)
        self.check_same(self.path("alone/rank-00001-of-00004"), one)

    def test_source_that_one_rank_cannot_read(self):
        other = self.path("other")
        shutil.copytree(self.source, other)
        os.remove(os.path.join(other, "model-00002-of-00003.safetensors"))
        # A program of its own, for the command compares first what its ranks were given.
        result = mpirun((1, [RUN_RANK, self.source, self.target, ""]), (1, [RUN_RANK, other, self.target, ""]))
        self.check_failed(result)
        self.assertEqual(result.stderr.count("rank 1 of 2: "), 2, result.stderr)
        self.assertIn("model-00002-of-00003.safetensors", result.stderr)
        self.assertFalse(os.path.exists(self.target + ".weft-partial"))

    def test_plans_that_differ(self):
        made.write_folder(self.path("other"), mixtral(3, 2, 64), config(3, 2, 64))
        result = mpirun((1, [RUN_RANK, self.source, self.target, ""]), (1, [RUN_RANK, self.path("other"), self.target, ""]))
        self.check_failed(result)
        self.assertEqual(result.stderr.count("the plan of rank 1 is not that of rank 0"), 2, result.stderr)
        self.assertFalse(os.path.exists(self.target + ".weft-partial"))

    def test_ranks_that_were_given_different_things(self):
        """Nothing is made, whether one output is shared out or each rank makes folders of its own."""
        shutil.copytree(self.source, self.path("other"))
        plans = [self.path(f"plan-{number}.json") for number in range(2)]
        for plan, axis in zip(plans, ("0", "1")):
            made.write_text(plan, json.dumps({"model.layers.*.self_attn.q_proj.weight": f"shard:{axis}"}))
        for name, first, second, told in (
                ("options", ["--tp-size", "2"], ["--tp-size", "4"], "rank 1 was given --tp-size 4, rank 0 --tp-size 2"),
                ("option of one", ["--tp-size", "2"], ["--tp-size", "2", "--dequantize"], "rank 1 was given --dequantize, rank 0 no --dequantize"),
                ("whole", [], ["--dtype", "F32"], "rank 1 was given --dtype F32, rank 0 no --dtype"),
                ("plan", ["--tp-size", "2", "--plan", plans[0]], ["--tp-size", "2", "--plan", plans[1]], "rank 1 was given --plan "),
                ("output", ["--tp-size", "2"], ["--tp-size", "2", "-o", self.path("elsewhere")], f"rank 1 was given --output {self.path('elsewhere')}, "),
                ("source", ["--tp-size", "2"], [self.path("other"), "--tp-size", "2"], "rank 1 was given SRC ")):
            with self.subTest(name=name):
                second = [*([] if name == "source" else [self.source]), *second]
                result = mpirun((1, [WEFT, "convert", "--mpi", "-o", self.target, self.source, *first]),
                                (1, [WEFT, "convert", "--mpi", "-o", self.target, *second]))
                self.check_failed(result, told)
                self.assertEqual([entry for entry in os.listdir(self.root) if entry.startswith(("target", "elsewhere"))], [])

    def test_own_matters_may_differ(self):
        """What decides nothing of the output is each rank's own."""
        self.convert_alone(self.source, "-o", self.path("alone"))
        result = mpirun((1, [WEFT, "convert", "--mpi", "-o", self.target, self.source, "--threads", "1"]),
                        (1, [WEFT, "convert", "--mpi", "-o", self.target, self.source, "--io", "mmap", "--quiet"]))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same(self.path("alone"), self.target)

    def test_all_ranks_or_none(self):
        """A run of which one process fails leaves no folder of ranks, and is taken up."""
        self.convert_alone(self.source, "-o", self.path("alone"), "--tp-size", "4")
        partial = self.target + ".weft-partial"
        in_the_way = os.path.join(partial, "rank-00003-of-00004.weft-partial")
        os.mkdir(partial)
        made.write_text(os.path.join(partial, ".weft-journal"), "")
        made.write_text(in_the_way, "")
        result = self.convert(2, self.source, "-o", self.target, "--tp-size", "4", "--resume")
        self.check_failed(result, "rank 1 of 2: ", "found something else there")
        os.remove(in_the_way)
        self.assertTrue(os.path.exists(self.target + ".weft-partial"))
        result = self.convert(2, self.source, "-o", self.target, "--tp-size", "4", "--resume")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check_same(self.path("alone"), self.target)
        self.assertFalse(os.path.exists(self.target + ".weft-partial"))

    def test_usage_error_of_all(self):
        """The exit code is that of the error, not of the job."""
        result = self.convert(2, self.source, "-o", self.target, "--dtype", "F99")
        self.assertIn("F99", result.stderr)
        self.assertEqual(result.returncode, 2, result.stderr)

    def test_opened_twice(self):
        result = mpirun((2, [RUN_RANK, self.source, self.target, "twice"]))
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_full_disk_of_one_rank(self):
        for full in (0, 1):
            with self.subTest(full=full):
                result = mpirun((2, [RUN_RANK, self.source, self.target, f"full-{full}"]))
                self.check_failed(result)
                # Every rank stops, with the error of the one whose disk is full.
                self.assertEqual(result.stderr.count(f"rank {full} of 2: "), 2, result.stderr)
                self.assertEqual(result.stderr.count("bytes cannot be allocated: File too large"), 2, result.stderr)
                shutil.rmtree(self.target + ".weft-partial", ignore_errors=True)

    def test_killed_rank(self):
        for task in ("die", "die-late"):
            with self.subTest(task=task):
                result = mpirun((2, [RUN_RANK, self.source, self.target, task]))
                self.check_failed(result)
                self.assertTrue(os.path.exists(self.target + ".weft-partial"))
                result = self.convert(2, self.source, "-o", self.target, "--resume", "--json")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertGreaterEqual(json.loads(result.stdout)["files_resumed"], 1 if task == "die-late" else 0)
                self.convert_alone(self.source, "-o", self.path(task))
                self.check_same(self.path(task), self.target)
                shutil.rmtree(self.target)

    def test_module_that_is_not_installed(self):
        result = subprocess.run([WEFT, "convert", "--mpi", self.source, "-o", self.target], capture_output=True, text=True,
                                timeout=60, check=False, env=dict(os.environ, WEFT_PLUGIN_SYSTEM_PATH=self.root))
        self.check_failed(result, "--mpi: communicators/weft-mpi.so is not installed")

    def test_library_and_command_link_no_mpi(self):
        for word in (WEFT, os.path.join(os.path.dirname(WEFT), "..", "core", "libweft-1.so.0")):
            linked = subprocess.run(["ldd", word], capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertIn("libglib", linked)
            self.assertNotIn("libmpi", linked)


if __name__ == "__main__":
    if shutil.which("mpirun") is None or not os.path.exists(os.environ["MPI_MODULE"]):
        print("skipped: Weft was built without MPI, or mpirun is not installed (Debian: libopenmpi-dev, openmpi-bin)")
        sys.exit(SKIPPED)
    unittest.main()
