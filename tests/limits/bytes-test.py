# SPDX-License-Identifier: Apache-2.0
"""The byte counter is true: what strace sees read from the source files is their headers and what the counter says, and
that is what is kept and holes under 4 KiB. So it is for each rank of a parallel load."""

import filecmp
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

WEFT = os.environ["WEFT"]
READ_SLICE = os.environ["READ_SLICE"]
HOLE_BYTES = 4096
SKIPPED = 77
# The leak sanitizer traces as well, and only one may.
TRACED_ENVIRONMENT = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")

CALLS = "pread64,preadv,preadv2,read,readv,copy_file_range,sendfile,splice,mmap"
CALL = re.compile(r"^(?:\[pid +)?(\d+)?\]? *(\w+)\((.*)$")
RESUMED = re.compile(r"^(?:\[pid +)?(\d+)?\]? *<\.\.\. (\w+) resumed>(.*)$")
RESULT = re.compile(r"= (\d+)(?:<[^>]*>)?$")

# A checkpoint, a file a line: names and shapes of bfloat16 tensors.
EXPERTS = [
    "experts.0.w1 1536 1024; experts.0.w2 1024 1536; experts.0.w3 1536 1024; experts.1.w1 1536 1024; norm 1024",
    "experts.1.w2 1024 1536; experts.1.w3 1536 1024; experts.2.w1 1536 1024; experts.2.w2 1024 1536; bias 3",
    "experts.2.w3 1536 1024; experts.3.w1 1536 1024; experts.3.w2 1024 1536; experts.3.w3 1536 1024; head 4097 33",
]
WIDE_EXPERTS = ["; ".join(f"experts.{i}.{w} 64 4096" for i in range(4) for w in ("w1", "w3"))]
CONVOLUTION = ["patch.proj 512 3 2 14 14; patch.bias 512; qkv 3072 1024"]

STACK = {"type": "MergeModulelist", "dim": 0}
JOIN = {"type": "Concatenate", "dim": 1}
TURN = {"type": "Transpose", "dim0": 1, "dim1": 2}


def converter(sources, targets, *operations):
    return {"type": "WeightConverter", "source_patterns": sources, "target_patterns": targets, "operations": list(operations)}


def gate_up(*operations):
    return converter(["experts.*.w1", "experts.*.w3"], ["experts.gate_up"], *operations)


DOWN = converter(["experts.*.w2"], ["experts.down"], STACK)

# what, checkpoint, rules, further options, holes that may be read through at most
CONVERSIONS = [
    ("rename", EXPERTS, [{"type": "WeightRenaming", "source_patterns": ["experts"], "target_patterns": ["blocks"]}], [], 0),
    ("merge", EXPERTS, [gate_up(STACK, JOIN), DOWN], [], 0),
    ("merge, transposed", EXPERTS, [gate_up(STACK, JOIN, TURN), converter(["experts.*.w2"], ["experts.down"], STACK, TURN)], [], 0),
    ("merge, cast", EXPERTS, [gate_up(STACK, JOIN), DOWN], ["--dtype", "F32"], 0),
    ("merge, no threads", EXPERTS, [gate_up(STACK, JOIN, TURN), DOWN], ["--threads", "0"], 0),
    ("split", CONVOLUTION, [converter(["qkv"], ["q", "k", "v"], {"type": "Chunk", "dim": 0})], [], 0),
    ("split, other axis", CONVOLUTION, [converter(["qkv"], ["q", "k"], {"type": "Chunk", "dim": 1})], [], 2 * 3072),
    ("interleave", CONVOLUTION, [converter(["qkv"], ["qkv"], {"type": "Interleave", "dim": 0})], [], 0),
    ("convolution", CONVOLUTION, [converter(["patch.proj"], ["patch.linear"],
                                            {"type": "Conv3dToLinear", "in_channels": 3, "kernel_size": [2, 14, 14]})], [], 0),
]

# what, checkpoint, rules, output, axis, holes that may be read through at most
SLICES = [
    ("experts of a stack", EXPERTS, [gate_up(STACK, JOIN)], "experts.gate_up", 0, 0),
    ("half of a join", EXPERTS, [gate_up(STACK, JOIN)], "experts.gate_up", 1, 0),
    ("columns, holes of 1 KiB", EXPERTS, [gate_up(STACK, JOIN)], "experts.gate_up", 2, 8 * 1536),
    ("columns, holes of 4 KiB", WIDE_EXPERTS, [gate_up(STACK, JOIN)], "experts.gate_up", 2, 0),
    ("rows of a transpose", EXPERTS, [gate_up(STACK, JOIN, TURN)], "experts.gate_up", 1, 8 * 1536),
    ("rows of a transpose, holes of 4 KiB", WIDE_EXPERTS, [gate_up(STACK, JOIN, TURN)], "experts.gate_up", 1, 0),
    ("columns of a transpose", EXPERTS, [gate_up(STACK, JOIN, TURN)], "experts.gate_up", 2, 0),
    ("experts of a transpose", EXPERTS, [gate_up(STACK, JOIN, TURN)], "experts.gate_up", 0, 0),
    ("rows of a chunk", CONVOLUTION, [converter(["qkv"], ["q", "k", "v"], {"type": "Chunk", "dim": 0})], "k", 0, 0),
    ("a convolution's channels", CONVOLUTION,
     [converter(["patch.proj"], ["patch.linear"], {"type": "Conv3dToLinear", "in_channels": 3, "kernel_size": [2, 14, 14]})],
     "patch.linear", 1, 2 * 512),
]

GROUPED = {"experts.gate_up": "grouped_gemm", "experts.down": "grouped_gemm"}
FUSED_RULES = [gate_up(STACK, JOIN, TURN), converter(["experts.*.w2"], ["experts.down"], STACK, TURN)]
# What each rank of a fused, merged and transposed mixture of experts reads, and others. Here and in docs/parallel.md:
# what, checkpoint, rules, plan, option, ranks, bytes that all ranks hold, holes that a rank may read through at most
RANKS = [
    ("experts, stacked and joined", EXPERTS, [gate_up(STACK, JOIN), DOWN], GROUPED, "--ep-size", 4, 272456, 0),
    ("rows of gate and up", EXPERTS, [gate_up(STACK, JOIN)], {"experts.gate_up": "packed_colwise", "experts.*.w2": "colwise"}, "--tp-size", 3, 272456, 0),
    ("columns of down, 1 KiB apart", EXPERTS, [DOWN], {"experts.down": "rowwise", "experts.*": "replicate"}, "--tp-size", 3, 25438280, 4 * 1024),
    ("gate and up, stacked, joined and transposed", EXPERTS, FUSED_RULES, {"experts.gate_up": "strided:2:2", "experts.down": "shard:1"},
     "--tp-size", 2, 272456, 4 * 1024),
    ("experts, stacked, joined and transposed", EXPERTS, FUSED_RULES, GROUPED, "--ep-size", 2, 272456, 0),
    ("rows of a chunk of a fused tensor", CONVOLUTION, [converter(["qkv"], ["q", "k", "v"], {"type": "Chunk", "dim": 0})],
     {"q": "colwise", "k": "colwise", "v": "colwise", "patch.proj": "shard:0", "patch.bias": "colwise"}, "--tp-size", 4, 0, 0),
]


def write_checkpoint(folder, files):
    """Gives back the bytes of the headers, each with its length of 8 bytes before it, and of the elements."""
    header_bytes, element_bytes, weight_map = 0, 0, {}
    os.mkdir(folder)
    for number, line in enumerate(files, 1):
        name, header, offset = f"model-{number:05}-of-{len(files):05}.safetensors", {}, 0
        for entry in line.split("; "):
            key, *dims = entry.split(" ")
            n_bytes = 2
            for dim in dims:
                n_bytes *= int(dim)
            header[key] = {"dtype": "BF16", "shape": [int(dim) for dim in dims], "data_offsets": [offset, offset + n_bytes]}
            offset += n_bytes
            weight_map[key] = name
        text = json.dumps(header).encode()
        with open(os.path.join(folder, name), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + os.urandom(offset))
        header_bytes += 8 + len(text)
        element_bytes += offset
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": weight_map}, file)
    return header_bytes, element_bytes


def strace(words):
    """Standard output, and the lines of the trace."""
    with tempfile.NamedTemporaryFile("r") as trace:
        result = subprocess.run(["strace", "-f", "-y", "-e", f"trace={CALLS}", "-o", trace.name, *words],
                                capture_output=True, text=True, timeout=300, check=False, env=TRACED_ENVIRONMENT)
        if result.returncode != 0:
            raise AssertionError(f"{words} ended with {result.returncode}: {result.stderr}")
        return result.stdout, trace.read().split("\n")


def count_read(lines, folder):
    """The bytes that calls took out of the safetensors files of a folder. A call that another thread interrupts stands
    in two lines, the file in the first and the result in the second."""
    pending, total = {}, 0
    for line in lines:
        resumed, call = RESUMED.match(line), CALL.match(line)
        if resumed:
            name, is_source = resumed.group(2), pending.pop(resumed.group(1), False)
        elif call:
            # The file that is read is the first argument; where it is mapped, the only one.
            name, first = call.group(2), call.group(3) if call.group(2) == "mmap" else call.group(3).split(",")[0]
            is_source = f"<{folder}/" in first and ".safetensors>" in first
            if line.endswith("<unfinished ...>"):
                pending[call.group(1)] = is_source
                continue
        else:
            continue
        result = RESULT.search(line)
        if is_source and name == "mmap":
            raise AssertionError(f"a source is mapped, which no trace can count: {line}")
        if is_source and result:
            total += int(result.group(1))
    return total


class BytesTest(unittest.TestCase):
    def setUp(self):
        self.scratch = os.path.realpath(tempfile.mkdtemp(prefix="weft-bytes-"))
        self.addCleanup(shutil.rmtree, self.scratch)
        self.made = {}

    def make(self, files):
        key = "\n".join(files)
        if key not in self.made:
            folder = os.path.join(self.scratch, f"source-{len(self.made)}")
            self.made[key] = (folder, *write_checkpoint(folder, files))
        return self.made[key]

    def write_rules(self, rules):
        path = os.path.join(self.scratch, "rules.json")
        with open(path, "w") as file:
            json.dump(rules, file)
        return path

    def test_conversions_read_each_byte_once(self):
        for number, (what, files, rules, options, n_holes) in enumerate(CONVERSIONS):
            with self.subTest(what=what):
                folder, header_bytes, element_bytes = self.make(files)
                output = os.path.join(self.scratch, f"output-{number}")
                printed, lines = strace([WEFT, "convert", folder, "-o", output, "--no-sync", "--quiet", "--json",
                                         "--mapping", self.write_rules(rules), *options])
                counters = json.loads(printed)
                self.assertEqual(counters["bytes_kept"], element_bytes)
                self.assertGreaterEqual(counters["bytes_read"], element_bytes)
                self.assertLessEqual(counters["bytes_read"], element_bytes + n_holes * (HOLE_BYTES - 1))
                # The record that the output carries holds the headers again, without their lengths.
                headers = header_bytes + header_bytes - 8 * len(files)
                self.assertEqual(count_read(lines, folder), headers + counters["bytes_read"])

    def test_slices_read_what_they_keep(self):
        for what, files, rules, output, axis, n_holes in SLICES:
            for rank in (0, 1):
                with self.subTest(what=what, rank=rank):
                    folder, header_bytes, _ = self.make(files)
                    printed, lines = strace([READ_SLICE, folder, self.write_rules(rules), output, str(axis), str(rank), "2"])
                    n_bytes, kept, read = map(int, printed.split())
                    self.assertEqual(kept, n_bytes)
                    self.assertGreaterEqual(read, kept)
                    self.assertLessEqual(read, kept + n_holes * (HOLE_BYTES - 1))
                    self.assertEqual(count_read(lines, folder), header_bytes + read)

    def test_ranks_read_what_they_keep(self):
        table = []
        for number, (what, files, rules, plan, option, world_size, n_replicated, n_holes) in enumerate(RANKS):
            with self.subTest(what=what):
                folder, header_bytes, element_bytes = self.make(files)
                ranks = [self.read_rank(f"{number}-{rank}", folder, rules, plan, option, world_size, rank, 2 * header_bytes - 8 * len(files))
                         for rank in range(world_size)]
                for n_bytes, kept, read in ranks:
                    self.assertEqual(kept, n_bytes)
                    self.assertGreaterEqual(read, kept)
                    self.assertLessEqual(read, kept + n_holes * (HOLE_BYTES - 1))
                # Together they keep each byte once, but for what all of them hold.
                self.assertEqual(sum(kept for _, kept, _ in ranks), element_bytes + (world_size - 1) * n_replicated)
                table.append(f"| {what} | {world_size} | {max(kept for _, kept, _ in ranks):,} | {max(read for _, _, read in ranks):,} |")
        with open(os.environ["PAGE"], encoding="utf-8") as page:
            self.assertIn("\n".join(table), page.read())

    def read_rank(self, name, folder, rules, plan, option, world_size, rank, header_bytes):
        """What the files of a rank hold, and what the counters say of it; strace saw as much, and the headers."""
        output, plan_path = os.path.join(self.scratch, f"rank-{name}"), os.path.join(self.scratch, "plan.json")
        with open(plan_path, "w") as file:
            json.dump(plan, file)
        printed, lines = strace([WEFT, "convert", folder, "-o", output, "--no-sync", "--quiet", "--json", "--mapping", self.write_rules(rules),
                                 "--plan", plan_path, option, str(world_size), "--tp-rank", str(rank)])
        counters = json.loads(printed)
        self.assertEqual(count_read(lines, folder), header_bytes + counters["bytes_read"])
        return counters["bytes_written"], counters["bytes_kept"], counters["bytes_read"]

    def test_a_mapping_is_not_read_through(self):
        """Rows of 1 KiB that holes of 1 KiB divide: the same files by both backends, and no hole by a mapping."""
        folder, _, _ = self.make(EXPERTS)
        counters, rules, plan = {}, self.write_rules([DOWN]), os.path.join(self.scratch, "plan.json")
        with open(plan, "w") as file:
            json.dump({"experts.down": "rowwise", "experts.*": "replicate"}, file)
        for io in ("pread", "mmap"):
            counters[io] = json.loads(subprocess.run(
                [WEFT, "convert", folder, "-o", os.path.join(self.scratch, io), "--no-sync", "--quiet", "--json", "--mapping", rules, "--plan", plan,
                 "--tp-size", "3", "--tp-rank", "1", "--io", io], capture_output=True, text=True, check=True).stdout)
        self.assertGreater(counters["pread"]["bytes_read"], counters["pread"]["bytes_kept"])
        self.assertEqual(counters["mmap"]["bytes_read"], counters["mmap"]["bytes_kept"])
        self.assertEqual(counters["mmap"]["bytes_kept"], counters["pread"]["bytes_kept"])
        folders = [os.path.join(self.scratch, io) for io in counters]
        names = [name for name in sorted(os.listdir(folders[0])) if name.endswith(".safetensors")]
        self.assertEqual(filecmp.cmpfiles(*folders, names, shallow=False), (names, [], []))

    def test_golden_ranks(self):
        """Tiny tensors lie in one hole: what is read of a file is the headers and what the counter says."""
        golden = os.path.join(os.environ["GOLDEN"], "parallel")
        for case in sorted(os.listdir(golden)):
            folder, plan = os.path.join(golden, case), os.path.join(self.scratch, "plan.json")
            with open(os.path.join(folder, "plan.json")) as file:
                asked = json.load(file)
            if asked["kind"] != "tp" or "converters" in asked or "dtype" in asked or "match-nothing" in case:
                continue
            with open(plan, "w") as file:
                json.dump(asked["plan"], file)
            with open(os.path.join(folder, "model.safetensors"), "rb") as file:
                n_header = 8 + struct.unpack("<Q", file.read(8))[0]
            for n in asked["world_sizes"]:
                with self.subTest(case=case, n=n):
                    printed, lines = strace([WEFT, "shard", os.path.join(folder, "model.safetensors"), "--plan", plan, "-n", str(n), "--no-sync",
                                             "--quiet", "--json", "-o", os.path.join(self.scratch, f"{case}-{n}")])
                    ranks = json.loads(printed)
                    for rank in ranks:
                        self.assertEqual(rank["bytes_kept"], rank["bytes_written"])
                    self.assertEqual(count_read(lines, os.path.realpath(folder)), n * (2 * n_header - 8) + sum(rank["bytes_read"] for rank in ranks))


if __name__ == "__main__":
    if shutil.which("strace") is None or subprocess.run(["strace", "-f", "true"], capture_output=True, check=False).returncode != 0:
        print("strace is absent or may not trace here")
        sys.exit(SKIPPED)
    unittest.main()
