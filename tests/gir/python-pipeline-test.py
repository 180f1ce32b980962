# SPDX-License-Identifier: Apache-2.0
"""The main job from Python: open, plan, execute, revert; and what a class of a script may be in it: op, rule, source."""

import filecmp
import gc
import json
import mmap
import os
import subprocess
import sys
import tempfile
import threading
import unittest

import gi
import numpy

gi.require_version("Json", "1.0")
gi.require_version("Weft", "1.0")
from gi.repository import Gio, GLib, GObject, Json, Weft  # noqa: E402

MODELS = os.environ["MODELS"]
THREAD = threading.get_ident()


class RollOp(Weft.ConversionOpsBase):
    """Moves rows up. `wrong`: its inverse has the right shape and the wrong direction."""

    __gtype_name__ = "TestRollOp"
    shift = GObject.Property(type=int, default=1, minimum=-8, maximum=8, blurb="Rows to move")
    wrong = GObject.Property(type=bool, default=False, blurb="Whether the inverse is wrong")
    threads = set()

    def do_convert(self, inputs, context):
        RollOp.threads.add(threading.get_ident())
        (name,), (target,) = context.get_source_patterns(), context.get_target_patterns()
        (tensor,) = inputs.tensors(name)
        return Weft.TensorGroups({target: Weft.Tensor.concat([tensor[self.shift:], tensor[:self.shift]], 0)})

    def do_dup_inverse(self):
        return RollOp(shift=self.shift if self.wrong else -self.shift, wrong=self.wrong)


class FailingOp(Weft.ConversionOpsBase):
    __gtype_name__ = "TestPipelineFailingOp"

    def do_convert(self, inputs, context):
        raise ValueError("no such luck")


class CountingSource(Weft.TensorSource):
    """The numbers from 0 on, as bytes; or nothing but an exception."""

    __gtype_name__ = "TestCountingSource"
    fails = False
    threads = set()

    def do_read(self, offset, n_bytes):
        CountingSource.threads.add(threading.get_ident())
        if self.fails:
            raise OSError("the tape is torn")
        return GLib.Bytes(bytes((offset + position) % 256 for position in range(n_bytes)))


class CountOp(Weft.ConversionOpsBase):
    """Puts counted bytes in place of a tensor's."""

    __gtype_name__ = "TestCountOp"

    def do_convert(self, inputs, context):
        (tensor,) = inputs.tensors(context.get_source_patterns()[0])
        counted = Weft.Tensor.new_from_source(tensor.get_dtype(), tensor.shape, CountingSource())
        return Weft.TensorGroups({context.get_target_patterns()[0]: counted})


CountOp.set_traits(Weft.OpTraits.NEEDS_VALUES)


class AddPrefix(Weft.WeightTransformBase):
    """A kind of rule: every name gets a prefix, or loses it."""

    __gtype_name__ = "TestAddPrefix"
    prefix = GObject.Property(type=str, default="")
    removes = GObject.Property(type=bool, default=False)

    def do_rename_key(self, key):
        if key == "model.norm.weight" and self.prefix == "wrong.":
            raise ValueError("this name is not for you")
        if not self.removes:
            return self.prefix + key, "^"
        return (key[len(self.prefix):], "^") if key.startswith(self.prefix) else (None, None)

    def do_dup_inverse(self):
        return AddPrefix(prefix=self.prefix, removes=not self.removes)


def setUpModule():
    registry = Weft.PluginRegistry.get_default()
    for name, op in (("TestRoll", RollOp), ("TestPipelineFailing", FailingOp), ("TestCount", CountOp)):
        registry.register(Weft.FeatureKind.OP, name, op)
    registry.register(Weft.FeatureKind.TRANSFORM, "TestAddPrefix", AddPrefix)


def converter(name, operation, **parameters):
    return {"type": "WeightConverter", "source_patterns": [name], "target_patterns": [name],
            "operations": [{"type": operation, **parameters}]}


class PipelineTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = scratch.name
        self.sample = self.path("sample")
        subprocess.run([sys.executable, os.environ["MAKE_SAMPLE"], self.sample, "--shards", "2"], check=True)

    def path(self, name):
        return os.path.join(self.scratch, name)

    def write_mapping(self, *rules):
        with open(self.path("mapping.json"), "w", encoding="utf-8") as file:
            json.dump(rules, file)
        return self.path("mapping.json")

    def plan(self, *rules):
        options = Weft.LoadOptions()
        if rules:
            options.set_mapping(Weft.mapping_load(self.write_mapping(*rules)))
        return Weft.LoadPlan.new(Weft.Checkpoint.open(self.sample), options)

    def assert_error(self, code, text, function, *arguments):
        with self.assertRaisesRegex(GLib.Error, text) as raised:
            function(*arguments)
        self.assertTrue(raised.exception.matches(Weft.error_quark(), code), raised.exception)

    def revert(self, name):
        plan = Weft.RevertPlan.new(Weft.Checkpoint.open(self.path(name)), None, Weft.RevertFlags.NONE)
        plan.execute(Weft.SafetensorsSink.new(self.path("back")))
        for name in os.listdir(self.sample):
            self.assertTrue(filecmp.cmp(os.path.join(self.sample, name), os.path.join(self.path("back"), name), shallow=False), name)


class LoadTest(PipelineTest):
    def test_a_mapping_of_the_runtime_names(self):
        weights, published = Weft.load(self.sample), Weft.load(self.sample, convert=False)
        self.assertEqual(len(weights), len(list(weights)))
        self.assertEqual([name for name, array in weights.items() if array.shape != weights.tensor(name).shape], [])
        self.assertIn("lm_head.weight", weights)
        self.assertNotIn("lm_head", weights)
        with self.assertRaises(KeyError):
            weights["lm_head"]
        expert = "model.layers.0.block_sparse_moe.experts.1.w2.weight"
        self.assertEqual(weights["model.layers.0.mlp.experts.down_proj"][1].tolist(), published[expert].tolist())
        self.assertIn(expert, published)
        self.assertNotIn(expert, weights)

    def test_every_weight_is_the_golden_one(self):
        for model in ("mixtral", "llama", "ernie4_5_vl_moe"):
            folder = os.path.join(MODELS, model)
            weights = Weft.load(os.path.join(folder, "original"), dtype="auto", module_tree=os.path.join(folder, "skeleton.json"))
            golden = Weft.load(os.path.join(folder, "runtime.safetensors"), convert=False)
            self.assertEqual(sorted(weights), sorted(golden))
            for name, array in golden.items():
                self.assertTrue(numpy.array_equal(array.view("u1"), weights[name].view("u1")), name)

    def test_options(self):
        self.assertEqual(Weft.load(self.sample, dtype="float32")["model.norm.weight"].dtype, numpy.float32)
        renamed = Weft.load(self.sample, key_mapping={"^model.norm": "model.final_norm"}, is_open=True)
        self.assertIn("model.final_norm.weight", renamed)
        # What the model has under its published name keeps it.
        with self.assertRaisesRegex(GLib.GError, "matches no tensor"):
            Weft.load(self.sample, key_mapping={"^model.norm": "model.final_norm"})
        self.assertIn("norm.weight", Weft.load(self.sample, class_name="MixtralModel"))
        rules = self.write_mapping({"type": "WeightRenaming", "source_patterns": "^model", "target_patterns": "decoder"})
        self.assertIn("decoder.norm.weight", Weft.load(self.sample, mapping=rules))

    def test_a_tensor_is_read_when_touched(self):
        weights = Weft.load(self.sample)
        for name in os.listdir(self.sample):
            if name.endswith(".safetensors"):
                os.truncate(os.path.join(self.sample, name), 8)
        self.assertEqual(weights.tensor("lm_head.weight")[1:3].shape, (2, 16))
        self.assert_error(Weft.Error.IO, "safetensors", lambda: weights["lm_head.weight"])


class LoaderTest(PipelineTest):
    def assert_loaded(self, arrays):
        weights = Weft.load(self.sample)
        self.assertEqual(list(arrays), list(weights))
        for name, array in arrays.items():
            self.assertEqual((array.dtype, array.shape), (weights[name].dtype, weights[name].shape))
            self.assertTrue(numpy.array_equal(array, weights[name]), name)
            self.assertEqual(array.ctypes.data % 64, 0)

    def test_in_memory_that_comes_with_it(self):
        for io in ("pread", "mmap", "direct"):
            names = []
            arrays = Weft.loader(self.sample, io=io, queue=(3, 1 << 16)).load_arrays(loaded=names.append)
            gc.collect()
            self.assert_loaded(arrays)
            self.assertEqual(sorted(names), sorted(arrays))
            arrays["model.norm.weight"][0] = 1

    def test_in_memory_of_the_caller(self):
        loader = Weft.loader(self.sample, dtype="F32")
        memory = mmap.mmap(-1, loader.n_bytes)
        arrays = loader.load_arrays(memory)
        content = arrays["lm_head.weight"].tobytes()
        self.assertEqual(arrays["lm_head.weight"].dtype, numpy.float32)
        self.assertNotEqual(bytes(memory).find(content), -1)
        self.assert_loaded(Weft.loader(self.sample).load_arrays(memory))

    def test_shared(self):
        loader = Weft.loader(self.sample)
        loader.load_into(Weft.Arena.new_shared(self.path("shared"), loader.n_bytes), None)
        layout = loader.prepare(None)
        position = layout.get_outputs().find("lm_head.weight")[1]
        content = Weft.load(self.sample)["lm_head.weight"].tobytes()
        with open(self.path("shared"), "rb") as file:
            file.seek(layout.get_offset(position))
            self.assertEqual(file.read(len(content)), content)

    def test_stopped_by_callback(self):
        for raised in (KeyError("the device is full"), KeyboardInterrupt(), GLib.Error("busy", "some-domain", 3)):
            names = []

            def loaded(name):
                names.append(name)
                raise raised

            loader = Weft.loader(self.sample)
            with self.assertRaises(type(raised)) as caught:
                loader.load_arrays(loaded=loaded)
            self.assertIs(caught.exception, raised)
            self.assertEqual(len(names), 1)
            self.assert_loaded(loader.load_arrays())

    def test_stopped_by_callback_of_the_library(self):
        loader = Weft.loader(self.sample)
        loader.set_loaded_func(lambda *arguments: False, None)
        self.assert_error(Weft.Error.CANCELLED, "returned FALSE", lambda: loader.load(None))

    def test_refused(self):
        loader = Weft.loader(self.sample)
        memory = mmap.mmap(-1, loader.n_bytes + 8)
        self.assert_error(Weft.Error.ARGUMENT, "multiple of 64", loader.load_arrays, memoryview(memory)[8:])
        self.assert_error(Weft.Error.ARGUMENT, "found 3 bytes", loader.load_arrays, memoryview(memory)[:3])
        self.assertRaises(TypeError, loader.load_arrays, bytes(loader.n_bytes))
        self.assertRaises(ValueError, Weft.loader, self.sample, io="tape")
        cancellable = Gio.Cancellable()
        cancellable.cancel()
        self.assert_error(Weft.Error.CANCELLED, "cancel", lambda: loader.load_arrays(cancellable=cancellable))

    def test_dlpack(self):
        arrays, weights = Weft.loader(self.sample, dtype="F32").load_arrays(), Weft.load(self.sample, dtype="F32")
        name = "model.norm.weight"
        shared = numpy.from_dlpack(arrays[name])
        self.assertEqual(shared.ctypes.data, arrays[name].ctypes.data)
        self.assertEqual(numpy.from_dlpack(weights.tensor(name)).tolist(), arrays[name].tolist())


class MainJobTest(PipelineTest):
    def test_there_and_back(self):
        plan, calls = self.plan(), []
        self.assertTrue(plan.is_reversible())
        plan.execute(Weft.SafetensorsSink.new(self.path("out")), lambda *arguments: calls.append((threading.get_ident(), *arguments)))
        self.assertEqual({thread for thread, _, _ in calls}, {THREAD})
        done = [n_bytes for _, n_bytes, _ in calls]
        self.assertEqual((done, done[-1]), (sorted(done), calls[-1][2]))
        self.assertIn("model.layers.0.mlp.experts.gate_up_proj", Weft.load(self.path("out"), convert=False))
        self.revert("out")

    def test_into_memory(self):
        plan, sink = self.plan(), Weft.MemorySink.new()
        plan.execute(sink)
        outputs = plan.get_outputs()
        for position in range(outputs.get_n_tensors()):
            content = sink.lookup(outputs.get_name(position))
            self.assertEqual(content.get_data(), outputs.get_tensor(position).numpy().tobytes())

    def test_an_edited_list(self):
        checkpoint, options = Weft.Checkpoint.open(self.sample), Weft.LoadOptions()
        rules = options.assemble(checkpoint.get_config(), "config.json")
        origins = {(rules.get_transform(i).get_origin(), rules.get_transform(i).get_origin_via()) for i in range(rules.get_n_transforms())}
        self.assertEqual(origins, {("mixtral", "model_type"), ("legacy", None)})
        rules.append_operation(Weft.op_new("Transpose", Json.from_string('{"dim0": 1, "dim1": 2}').get_object(), "test"))
        rules.append_renaming("lm_head", "head")
        options.set_transforms(rules)
        name = "model.layers.0.mlp.experts.down_proj"
        plain, edited = (Weft.LoadPlan.new(checkpoint, chosen).get_outputs() for chosen in (None, options))
        values = plain.lookup(name).numpy()
        self.assertTrue(numpy.array_equal(edited.lookup(name).numpy(), values.transpose(0, 2, 1)))
        self.assertIsNotNone(edited.lookup("head.weight"))
        options.set_target_names(["head.weight", "no_such_name"])
        report = Weft.LoadPlan.new(checkpoint, options).get_report()
        self.assertEqual((report.count(Weft.Finding.MISSING), report.get_name(Weft.Finding.MISSING, 0)), (1, "no_such_name"))
        self.assertIn("model.layers.{0, 1}.block_sparse_moe.experts.{0, 1, 2, 3}.w1.weight", [row.pattern for row in report.merge(Weft.Finding.UNEXPECTED)])

    def test_errors(self):
        self.assert_error(Weft.Error.EXISTS, "sample: the output exists", Weft.SafetensorsSink.new, self.sample)
        self.assert_error(Weft.Error.MISSING, "nothing: cannot be opened", Weft.Checkpoint.open, self.path("nothing"))
        with open(self.path("broken.safetensors"), "wb") as file:
            file.write(b"\x02" + bytes(7) + b"[]")
        self.assert_error(Weft.Error.FORMAT, "broken.safetensors", Weft.Checkpoint.open, self.path("broken.safetensors"))
        cancellable = Gio.Cancellable()
        cancellable.cancel()
        self.assert_error(Weft.Error.CANCELLED, "cancel", self.plan().execute, Weft.SafetensorsSink.new(self.path("out")), None,
                          cancellable)
        self.assertFalse(os.path.exists(self.path("out")))

    def test_cancelled_on_the_way(self):
        cancellable = Gio.Cancellable()
        self.assert_error(Weft.Error.CANCELLED, "cancel", self.plan().execute, Weft.SafetensorsSink.new(self.path("out")),
                          lambda n_bytes_done, n_bytes_total: cancellable.cancel(), cancellable)
        self.assertFalse(os.path.exists(self.path("out")))


class ChecksTest(PipelineTest):
    def convert(self):
        self.plan().execute(Weft.SafetensorsSink.new(self.path("checked")))
        return self.path("checked")

    def test_two_layouts_are_equal(self):
        comparison = Weft.Comparison.new(Weft.Checkpoint.open(self.sample), Weft.Checkpoint.open(self.convert()), None,
                                         Weft.ComparisonFlags.NONE)
        comparison.execute()
        self.assertTrue(comparison.is_equal())
        self.assertEqual([comparison.get_layout(False), comparison.get_layout(True)], ["stored", "reverted"])
        self.assertEqual(comparison.list_differences(), [])

    def test_differences(self):
        sides = []
        for values in ([1, 2, 3], [1, 5, 3]):
            side = Weft.StateDict.new()
            side.add("x", Weft.Tensor.new_from_bytes(Weft.Dtype.U8, [3], GLib.Bytes(bytes(values))))
            side.add(f"only in {values[1]}", Weft.Tensor.new_constant(Weft.Dtype.F32, [1], 0))
            sides.append(side)
        comparison = Weft.Comparison.new_of_state_dicts(*sides)
        comparison.execute()
        found = comparison.list_differences()
        self.assertEqual([(difference.kind, difference.name) for difference in found], [
            (Weft.DifferenceKind.ONLY_IN_A, "only in 2"), (Weft.DifferenceKind.ONLY_IN_B, "only in 5"),
            (Weft.DifferenceKind.VALUES, "x")])
        self.assertEqual((found[2].n_different, found[2].first, found[2].largest), (1, 1, 3.0))

    def test_verify(self):
        verification = Weft.Verification.new(self.convert(), None)
        verification.check_record()
        verification.check_round_trip(Weft.Checkpoint.open(self.sample), None, True, None)
        self.assertTrue(verification.has_passed())
        self.assertEqual([verification.get_check_outcome(i) for i in range(verification.get_n_checks())],
                         [Weft.CheckOutcome.PASSED] * 4)

    def test_lint(self):
        rules = Weft.TransformList.new()
        rules.append_renaming(r"^lm\.head", "head")
        rules.append_renaming("^lm", "model.lm")
        (finding,) = Weft.mapping_lint(rules, None)
        self.assertEqual((finding.kind, finding.rule, finding.other, finding.key), (Weft.LintKind.ORDER, 1, 0, "lm.head"))
        self.assertEqual(Weft.mapping_lint(rules, ["other"]), [])


class ClassesTest(PipelineTest):
    def test_an_op_there_and_back(self):
        RollOp.threads.clear()
        plan = self.plan(converter("lm_head.weight", "TestRoll", shift=3))
        self.assertTrue(plan.is_reversible())
        plan.execute(Weft.SafetensorsSink.new(self.path("out")))
        rolled = Weft.load(self.path("out"), convert=False)["lm_head.weight"]
        self.assertEqual(rolled.tolist(), numpy.roll(Weft.load(self.sample, convert=False)["lm_head.weight"], -3, 0).tolist())
        self.revert("out")
        self.assertEqual(RollOp.threads, {THREAD})

    def test_the_owner_is_the_thread_that_calls(self):
        def convert():
            RollOp.threads.clear()
            CountingSource.threads.clear()
            self.plan(converter("lm_head.weight", "TestRoll"), converter("model.norm.weight", "TestCount")).execute(Weft.MemorySink.new())

        thread = threading.Thread(target=convert)
        thread.start()
        thread.join()
        self.assertEqual((RollOp.threads, CountingSource.threads), ({thread.ident}, {thread.ident}))

    def test_a_wrong_inverse_is_refused_from_headers(self):
        self.assert_error(Weft.Error.NOT_REVERSIBLE, "lm_head.weight.*wrong inverse",
                          self.plan, converter("lm_head.weight", "TestRoll", wrong=True))

    def test_an_exception_names_the_tensor(self):
        plan = self.plan(converter("lm_head.weight", "TestPipelineFailing"))
        self.assert_error(Weft.Error.FAILED, "lm_head.weight.*ValueError: no such luck", plan.check)

    def test_a_source_is_read_on_our_thread_while_the_pool_works(self):
        CountingSource.threads.clear()
        plan, sink = self.plan(converter("lm_head.weight", "TestCount")), Weft.MemorySink.new()
        plan.execute(sink)
        content = sink.lookup("lm_head.weight").get_data()
        self.assertEqual(content, bytes(position % 256 for position in range(len(content))))
        self.assertEqual(CountingSource.threads, {THREAD})
        embedding = Weft.load(self.sample, convert=False)["model.embed_tokens.weight"]
        self.assertEqual(sink.lookup("model.embed_tokens.weight").get_data(), embedding.tobytes())

    def test_a_source_that_fails(self):
        CountingSource.fails = True
        self.addCleanup(setattr, CountingSource, "fails", False)
        plan = self.plan(converter("lm_head.weight", "TestCount"))
        self.assert_error(Weft.Error.FAILED, "OSError: the tape is torn", plan.execute, Weft.MemorySink.new())

    def test_a_kind_of_rule(self):
        plan = self.plan({"type": "TestAddPrefix", "prefix": "wrapped."})
        plan.execute(Weft.SafetensorsSink.new(self.path("out")))
        names = list(Weft.load(self.path("out"), convert=False))
        self.assertTrue(names and all(name.startswith("wrapped.") for name in names))
        self.revert("out")

    def test_an_exception_of_a_rule(self):
        self.assert_error(Weft.Error.FAILED, "ValueError: this name is not for you",
                          lambda: self.plan({"type": "TestAddPrefix", "prefix": "wrong."}).check())


if __name__ == "__main__":
    unittest.main()
