# SPDX-License-Identifier: Apache-2.0
"""Weft from Python: arrays, groups, an op as a class, and what becomes of its exceptions."""

import ctypes
import gc
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
        raise Weft.op("Transpose", dim0=0).no_such_member


class SilentOp(Weft.ConversionOpsBase):
    __gtype_name__ = "TestSilentOp"
    result = None

    def do_convert(self, inputs, context):
        return self.result

    def do_dup_inverse(self):
        return self.result


class OverruledOp(Weft.ConversionOpsBase):
    """Fails with an error of Weft, as ops in C do."""

    __gtype_name__ = "TestOverruledOp"

    def do_convert(self, inputs, context):
        return inputs.map(lambda tensor: tensor.reshape([7]))


class KeepingOp(Weft.ConversionOpsBase):
    """Keeps all that it is given."""

    __gtype_name__ = "TestKeepingOp"
    kept = None

    def do_convert(self, inputs, context):
        KeepingOp.kept = (inputs, context, inputs["a"])
        return inputs


# What an op of ours cannot be made without.
REQUIRED = {
    "Dequantize": {"types": {"w": "Q8_0"}},
    "GgufDequantize": {"ggml_types": {"w": "Q8_0"}},
    "Cast": {"dtype": "F32"}, "Conv3dToLinear": {"in_channels": 3, "kernel_size": [2, 2, 2]},
    "LinearToConv3d": {"in_channels": 3, "kernel_size": [2, 2, 2]}, "PermuteInputFeatures": {"permutation": [1, 0]},
    "PermuteRows": {"permutation": [1, 0]}, "TiledToGroupedInputs": {"heads_per_k": 2, "num_k_heads": 2},
    "TiledToGroupedRows": {"heads_per_k": 2, "num_k_heads": 2}, "Unsqueeze": {"dim": 0},
}


def tensor_of(values, dtype="F32"):
    array = numpy.asarray(values, dtype="<f4")
    tensor = Weft.Tensor.new_from_bytes(Weft.Dtype.F32, list(array.shape), GLib.Bytes(array.tobytes()))
    return tensor if dtype == "F32" else tensor.cast(Weft.dtype_from_name(dtype))


def groups_of(**groups):
    return Weft.TensorGroups(groups)


class TensorTest(unittest.TestCase):
    def test_values(self):
        tensor = tensor_of([[1, 2, 3], [4, 5, 6]])
        self.assertEqual((tensor.dtype, tensor.shape), ("F32", (2, 3)))
        self.assertEqual(tensor.numpy().tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(tensor.permute([1, 0]).numpy().tolist(), [[1, 4], [2, 5], [3, 6]])
        self.assertEqual(numpy.asarray(tensor).sum(), 21)

    def test_an_array_is_the_memory_that_was_read(self):
        array = tensor_of([[1, 2], [3, 4]]).numpy()
        self.assertFalse(array.flags.writeable)
        buffer = array
        while isinstance(buffer, numpy.ndarray):
            self.assertFalse(buffer.flags.owndata)
            buffer = buffer.base
        content = buffer.owner
        self.assertIsInstance(content, GLib.Bytes)
        get_address = ctypes.CDLL("libglib-2.0.so.0").g_bytes_get_data
        get_address.restype, get_address.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]
        self.assertEqual(array.ctypes.data, get_address(hash(content), None))
        self.assertEqual(content.get_data(), array.tobytes())

    def test_an_array_outlives_its_tensor(self):
        arrays = [tensor_of([number] * 1000).numpy() for number in range(100)]
        self.assertEqual([int(array.sum()) for array in arrays], [1000 * number for number in range(100)])

    def test_index(self):
        values = numpy.arange(24, dtype="<f4").reshape(2, 3, 4)
        tensor = tensor_of(values)
        for index in (0, -1, slice(None), slice(1, 1), (1, 2), (slice(None), slice(-2, None)), (0, slice(0, 9), 3), (1, 2, 3)):
            with self.subTest(index=index):
                self.assertEqual(tensor[index].numpy().tolist(), values[index].tolist())
        for index in (2, -3, (0, 0, 0, 0), slice(0, 2, 2)):
            with self.subTest(index=index), self.assertRaises(IndexError):
                tensor[index]

    def test_layout(self):
        rows = tensor_of([[1, 2], [3, 4], [5, 6]])
        self.assertEqual([part.numpy().tolist() for part in rows.unstack(0)], [[1, 2], [3, 4], [5, 6]])
        first, second = rows.split(0, [1, 2])
        self.assertEqual(Weft.Tensor.concat([second, first], 0).numpy().tolist(), [[3, 4], [5, 6], [1, 2]])
        self.assertEqual(Weft.Tensor.stack([first, first], 0).shape, (2, 1, 2))

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


class GroupsTest(unittest.TestCase):
    def test_groups_are_a_mapping(self):
        groups = groups_of(a=tensor_of([1]), b=[tensor_of([2]), tensor_of([3])])
        self.assertEqual(list(groups), ["a", "b"])
        self.assertEqual([isinstance(value, list) for _, value in groups.items()], [False, True])
        self.assertEqual([len(groups.tensors(name)) for name in groups], [1, 2])
        self.assertIn("a", groups)
        self.assertNotIn("c", groups)
        with self.assertRaises(KeyError):
            groups["c"]


class OpTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        registry = Weft.PluginRegistry.get_default()
        for op in (NegateOp, FailingOp, SilentOp, OverruledOp, KeepingOp):
            registry.register(Weft.FeatureKind.OP, op.__gtype_name__.removesuffix("Op"), op)
        cls.context = Weft.OpContext.new(["a"], ["b"])

    def assert_error(self, code, text, function, *arguments):
        with self.assertRaisesRegex(GLib.Error, text) as raised:
            function(*arguments)
        self.assertTrue(raised.exception.matches(Weft.error_quark(), code), raised.exception)

    def test_a_class_is_an_op(self):
        op = Weft.op("TestNegate")
        result = op.convert(groups_of(a=tensor_of([1, 2]), b=[tensor_of([3])]), self.context)
        self.assertEqual(result["a"].numpy().tolist(), [-1, -2])
        self.assertEqual(result["b"][0].numpy().tolist(), [-3])
        self.assertIsInstance(op.dup_inverse(), NegateOp)
        self.assertEqual(op.dup_inverse().dup_inverse().factor, -1.0)

    def test_class_facts(self):
        op = Weft.op("TestNegate")
        self.assertEqual((op.get_traits(), op.get_thread_policy()), (Weft.OpTraits.NEEDS_VALUES, Weft.ThreadPolicy.OWNER))
        self.assertEqual(Weft.op("TestSilent").get_traits(), Weft.OpTraits.NONE)

    def test_parameters_are_checked(self):
        self.assertEqual(Weft.op("TestNegate", factor=3).factor, 3.0)
        self.assert_error(Weft.Error.ARGUMENT, "factor", lambda: Weft.op("TestNegate", factor=11))
        self.assert_error(Weft.Error.ARGUMENT, "faktor", lambda: Weft.op("TestNegate", faktor=1))
        self.assert_error(Weft.Error.MISSING, "NoSuchOp", lambda: Weft.op("NoSuchOp"))

    def test_exceptions_become_errors(self):
        op = Weft.op("TestFailing")
        self.assert_error(Weft.Error.FAILED, "TestFailing: ValueError: seven experts do not divide by two",
                          op.convert, groups_of(a=tensor_of([1])), self.context)
        self.assert_error(Weft.Error.FAILED, "TestFailing: AttributeError: .*no_such_member", op.dup_inverse)

    def test_an_error_of_weft_keeps_its_code(self):
        self.assert_error(Weft.Error.SHAPE, "TestOverruled: ", Weft.op("TestOverruled").convert, groups_of(a=tensor_of([1])), self.context)
        self.assert_error(Weft.Error.NOT_REVERSIBLE, "no inverse", Weft.op("TestOverruled").dup_inverse)

    def test_none_breaks_the_contract(self):
        op = Weft.op("TestSilent")
        for op.result in (None, {"b": tensor_of([1])}, self.context):
            self.assert_error(Weft.Error.PLUGIN_CONTRACT, "convert returned NULL without an error",
                              op.convert, groups_of(a=tensor_of([1])), self.context)
            self.assert_error(Weft.Error.PLUGIN_CONTRACT, "dup_inverse returned NULL without an error", op.dup_inverse)
        op.result = Weft.TensorGroups()
        self.assert_error(Weft.Error.PLUGIN_CONTRACT, "no output", op.convert, groups_of(a=tensor_of([1])), self.context)

    def test_a_virtual_method_may_keep_what_it_is_given(self):
        Weft.op("TestKeeping").convert(groups_of(a=tensor_of([1, 2])), Weft.OpContext.new(["a"], ["b"]))
        gc.collect()
        inputs, context, tensor = KeepingOp.kept
        self.assertEqual((tensor.numpy().tolist(), inputs["a"].numpy().tolist()), ([1, 2], [1, 2]))
        self.assertEqual(context.get_target_patterns(), ["b"])

    def test_ops_of_ours_by_name(self):
        there, back = Weft.OpContext.new(["a"], ["b"]), Weft.OpContext.new(["b"], ["a"])
        for op, parameters, values, expected in (
                ("Transpose", {"dim0": 1, "dim1": 2}, [[[1, 2], [3, 4]]], [[[1, 3], [2, 4]]]),
                ("Interleave", {"dim": 0}, [0, 1, 2, 3, 4, 5], [0, 2, 4, 1, 3, 5])):
            with self.subTest(op=op):
                op = Weft.op(op, **parameters)
                result = op.convert(groups_of(a=tensor_of(values)), there)
                self.assertEqual(result["b"].numpy().tolist(), expected)
                restored = op.dup_inverse().convert(groups_of(b=result["b"]), back)
                self.assertEqual(restored["a"].numpy().tolist(), values)

    def test_every_op_can_be_made_by_name(self):
        names = Weft.PluginRegistry.get_default().list_names(Weft.FeatureKind.OP)
        self.assertGreater(len(names), 20)
        for name in names:
            with self.subTest(name=name):
                self.assertEqual(Weft.op(name, **REQUIRED.get(name, {})).get_name(), name)


NegateOp.set_traits(Weft.OpTraits.NEEDS_VALUES)

if __name__ == "__main__":
    unittest.main()
