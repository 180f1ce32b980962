# SPDX-License-Identifier: Apache-2.0
"""Weft from Python: arrays, groups, an op as a class, and what becomes of its exceptions."""

import os
import subprocess
import sys
import tempfile
import unittest

import gi
import numpy

gi.require_version("Weft", "1.0")
from gi.repository import GLib, GObject, Weft  # noqa: E402


class NegateOp(Weft.ConversionOpsBase):
    __gtype_name__ = "TestNegateOp"
    factor = GObject.Property(type=float, default=-1.0, minimum=-10.0, maximum=10.0, blurb="What to multiply with",
                              flags=GObject.ParamFlags.READWRITE | GObject.ParamFlags.CONSTRUCT)

    def do_convert(self, inputs, context):
        return inputs.map(lambda tensor: tensor.scale(self.factor))

    def do_dup_inverse(self):
        return NegateOp(factor=1.0 / self.factor)


class FailingOp(Weft.ConversionOpsBase):
    __gtype_name__ = "TestFailingOp"

    def do_convert(self, inputs, context):
        raise ValueError("seven experts do not divide by two")

    def do_dup_inverse(self):
        return None


def tensor_of(values, dtype="F32"):
    array = numpy.asarray(values, dtype="<f4")
    tensor = Weft.Tensor.new_from_bytes(Weft.Dtype.F32, list(array.shape), GLib.Bytes(array.tobytes()))
    return tensor if dtype == "F32" else tensor.cast(Weft.dtype_from_name(dtype))


def groups_of(**groups):
    result = Weft.TensorGroups.new()
    for name, value in groups.items():
        result[name] = value
    return result


class TensorTest(unittest.TestCase):
    def test_values(self):
        tensor = tensor_of([[1, 2, 3], [4, 5, 6]])
        self.assertEqual((tensor.dtype, tensor.shape), ("F32", (2, 3)))
        self.assertEqual(tensor.numpy().tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(tensor.permute([1, 0]).numpy().tolist(), [[1, 4], [2, 5], [3, 6]])
        self.assertEqual(numpy.asarray(tensor).sum(), 21)

    def test_an_array_is_a_read_only_view_that_outlives_the_tensor(self):
        array = tensor_of([1, 2]).numpy()
        self.assertFalse(array.flags.owndata)
        self.assertFalse(array.flags.writeable)
        self.assertEqual(array.tolist(), [1, 2])

    def test_dtypes_that_numpy_lacks_come_as_codes(self):
        tensor = tensor_of([1, -2], "BF16")
        self.assertEqual(tensor.numpy().tolist(), [0x3F80, 0xC000])
        self.assertEqual(tensor.numpy("F32").tolist(), [1, -2])
        self.assertEqual(tensor_of([1, -2], "F8_E4M3").numpy().tolist(), [0x38, 0xC0])
        with self.assertRaises(ValueError):
            tensor.numpy("F33")

    def test_empty_and_scalar(self):
        self.assertEqual(tensor_of(numpy.zeros((0, 3))).numpy().shape, (0, 3))
        self.assertEqual(tensor_of(2.5).numpy().shape, ())
        self.assertEqual(float(tensor_of(2.5).numpy()), 2.5)


class LoadTest(unittest.TestCase):
    def test_a_checkpoint_is_a_mapping(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = os.path.join(scratch, "sample")
            subprocess.run([sys.executable, os.environ["MAKE_SAMPLE"], folder, "--shards", "2"], check=True)
            weights = Weft.load(folder)
            self.assertEqual(len(weights), len(list(weights)))
            self.assertEqual(weights["model.norm.weight"].shape, (16,))
            self.assertIn("lm_head.weight", weights)
            self.assertNotIn("lm_head", weights)
            self.assertEqual(weights.tensor("lm_head.weight").slice(0, 1, 2).shape, (2, 16))
            with self.assertRaises(KeyError):
                weights["lm_head"]
            with self.assertRaises(GLib.Error):
                Weft.load(os.path.join(scratch, "nothing"))


class OpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        registry = Weft.PluginRegistry.get_default()
        registry.register(Weft.FeatureKind.OP, "TestNegate", NegateOp)
        registry.register(Weft.FeatureKind.OP, "TestFailing", FailingOp)
        cls.context = Weft.OpContext.new(["a"], ["b"])

    def test_groups_are_a_mapping(self):
        groups = groups_of(a=tensor_of([1]), b=[tensor_of([2]), tensor_of([3])])
        self.assertEqual(list(groups), ["a", "b"])
        self.assertEqual([len(value) if isinstance(value, list) else 0 for _, value in groups.items()], [0, 2])
        self.assertIn("a", groups)
        self.assertNotIn("c", groups)
        with self.assertRaises(KeyError):
            groups["c"]

    def test_a_class_is_an_op(self):
        op = Weft.op_new("TestNegate", None, None)
        result = op.convert(groups_of(a=tensor_of([1, 2]), b=[tensor_of([3])]), self.context)
        self.assertEqual(result["a"].numpy().tolist(), [-1, -2])
        self.assertEqual(result["b"][0].numpy().tolist(), [-3])
        self.assertIsInstance(op.dup_inverse(), NegateOp)

    def test_exceptions_become_errors(self):
        op = Weft.op_new("TestFailing", None, None)
        with self.assertRaisesRegex(GLib.Error, "ValueError: seven experts do not divide by two"):
            op.convert(groups_of(a=tensor_of([1])), self.context)
        with self.assertRaises(GLib.Error):
            op.dup_inverse()

    def test_an_op_of_ours_by_name(self):
        op = Weft.op_new("MergeModulelist", None, None)
        result = op.convert(groups_of(a=[tensor_of([1, 2]), tensor_of([3, 4])]), self.context)
        self.assertEqual(result["b"].numpy().tolist(), [[1, 2], [3, 4]])


if __name__ == "__main__":
    unittest.main()
