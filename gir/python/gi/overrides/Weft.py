# SPDX-License-Identifier: Apache-2.0
"""Weft in Python: tensors as numpy arrays, checkpoints and groups of tensors as mappings, exceptions of a class as errors."""

import collections.abc
import ctypes
import functools
import json
import operator
import os

from gi.module import get_introspection_module
from gi.overrides import override
from gi.repository import GLib, Json

Weft = get_introspection_module("Weft")
__all__ = []

# Dtypes that numpy knows. BF16 and the 8-bit floats come as their codes (uint16, uint8): no value is changed on the
# way, and `tensor.numpy("F32")` gives values. Dtypes below one byte come packed, as one row of bytes.
_NUMPY_DTYPES = {
    "BOOL": "?", "U8": "u1", "I8": "i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4", "U64": "<u8",
    "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8", "BF16": "<u2",
    "F8_E5M2": "u1", "F8_E4M3": "u1", "F8_E8M0": "u1", "F8_E4M3FNUZ": "u1", "F8_E5M2FNUZ": "u1",
}

_glib = ctypes.CDLL("libglib-2.0.so.0")
_glib.g_bytes_get_data.restype = ctypes.c_void_p
_glib.g_bytes_get_data.argtypes = [ctypes.c_void_p, ctypes.c_void_p]


def _buffer_of(content):
    """The memory of a GLib.Bytes, which it keeps alive. `get_data()` would copy; PyGObject hashes a boxed by its address."""
    buffer = (ctypes.c_ubyte * content.get_size()).from_address(_glib.g_bytes_get_data(hash(content), None) or 0)
    buffer.owner = content
    return buffer


class Tensor(Weft.Tensor):
    """A lazy tensor. Nothing is read before `numpy()`."""

    @property
    def dtype(self):
        """The name of the dtype, as safetensors spells it."""
        return Weft.dtype_get_name(self.get_dtype())

    @property
    def shape(self):
        return tuple(self.get_dim(axis) for axis in range(self.get_rank()))

    def numpy(self, dtype=None):
        """The elements as a read-only array, without a copy; with `dtype` (a safetensors name), cast to it first."""
        import numpy

        tensor = self
        if dtype is not None and dtype != self.dtype:
            wanted = Weft.dtype_from_any_name(dtype)
            if wanted == Weft.Dtype.INVALID:
                raise ValueError(f"'{dtype}' is no dtype")
            tensor = self.cast(wanted)
        if tensor.get_n_bytes() == 0:
            array = tensor._view(numpy.empty(0, "u1"))
        else:
            array = tensor._view(numpy.frombuffer(_buffer_of(tensor.read(None)), "u1"))
        array.flags.writeable = False
        return array

    def _view(self, codes):
        """Bytes as an array of the tensor's dtype and shape."""
        dtype = _NUMPY_DTYPES.get(self.dtype)
        return codes if dtype is None else codes.view(dtype).reshape(self.shape)

    def __getitem__(self, index):
        """`tensor[2, 0:8]`: still lazy, and reading it reads only what it keeps. Steps are not for it."""
        tensor, axis = self, 0
        for item in index if isinstance(index, tuple) else (index,):
            if axis >= tensor.get_rank():
                raise IndexError(f"{self!r} has no axis {axis}")
            length = tensor.get_dim(axis)
            if isinstance(item, slice):
                start, stop, step = item.indices(length)
                if step != 1:
                    raise IndexError(f"a slice of a lazy tensor has no step, found {step}")
                tensor, axis = tensor.slice(axis, start, max(stop - start, 0)), axis + 1
                continue
            position = operator.index(item)
            if not -length <= position < length:
                raise IndexError(f"index {position} is outside of axis {axis} of {self!r}")
            tensor = tensor.slice(axis, position % length, 1).squeeze(axis)
        return tensor

    def __array__(self, dtype=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __dlpack__(self, **arguments):
        """For `torch.from_dlpack` and its like, which want memory that may be written to. Codes come as with `numpy()`."""
        return self.numpy().copy().__dlpack__(**arguments)

    def __dlpack_device__(self):
        return 1, 0  # the processor's memory

    def __repr__(self):
        return f"<Weft.Tensor {self.dtype} {list(self.shape)}>"


Tensor = override(Tensor)
__all__.append("Tensor")


class TensorGroups(Weft.TensorGroups):
    """What an op takes and gives: a mapping from a name to a tensor or a list of tensors."""

    def __init__(self, groups=()):
        super().__init__()
        for name, value in dict(groups).items():
            self[name] = value

    def __len__(self):
        return self.get_n_groups()

    def __bool__(self):
        return True

    def __iter__(self):
        return iter([self.get_name(group) for group in range(self.get_n_groups())])

    keys = __iter__

    def __contains__(self, name):
        return self.find(name)[0]

    def __getitem__(self, name):
        found, group = self.find(name)
        if not found:
            raise KeyError(name)
        return self._tensors(group) if self.is_list(group) else self.get_tensor(group, 0)

    def _tensors(self, group):
        return [self.get_tensor(group, position) for position in range(self.get_n_tensors(group))]

    def __setitem__(self, name, value):
        if not isinstance(value, (list, tuple)):
            self.set(name, value)
            return
        self.append_list(name)
        for tensor in value:
            self.append(name, tensor, None)

    def items(self):
        return [(name, self[name]) for name in self]

    def tensors(self, name):
        """The tensors of a group as a list, also where it is one tensor."""
        found, group = self.find(name)
        if not found:
            raise KeyError(name)
        return self._tensors(group)

    def map(self, function):
        """The same groups, with `function (tensor)` in place of each tensor."""
        result = Weft.TensorGroups.new()
        for group in range(self.get_n_groups()):
            name = self.get_name(group)
            if self.is_list(group):
                result.append_list(name)
            for position in range(self.get_n_tensors(group)):
                tensor = function(self.get_tensor(group, position))
                if self.is_list(group):
                    result.append(name, tensor, self.get_origin(group, position))
                else:
                    result.set(name, tensor)
        return result


TensorGroups = override(TensorGroups)
__all__.append("TensorGroups")


def _raise_as_error(function):
    """PyGObject hands on a GLib.Error of a virtual method and only prints any other exception."""

    @functools.wraps(function)
    def call(*arguments):
        try:
            return function(*arguments)
        except GLib.Error:
            raise
        except Exception as exception:
            text = f"{type(exception).__name__}: {exception}"
            raise GLib.Error.new_literal(Weft.error_quark(), text, Weft.Error.FAILED) from exception

    return call


class _ExceptionsAsErrors:
    """For a class that scripts derive from: an exception of a virtual method becomes an error with its text."""

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        for name, function in list(vars(cls).items()):
            if name.startswith("do_") and callable(function):
                setattr(cls, name, _raise_as_error(function))


class ConversionOpsBase(Weft.ConversionOpsBase, _ExceptionsAsErrors):
    """The class that an op derives from."""


class WeightTransformBase(Weft.WeightTransformBase, _ExceptionsAsErrors):
    """The class that a kind of rule derives from."""


class ModuleFusionSpecBase(Weft.ModuleFusionSpecBase, _ExceptionsAsErrors):
    """The class that a family of fusions derives from."""


class ModuleReplacementBase(Weft.ModuleReplacementBase, _ExceptionsAsErrors):
    """The class that a target of plan overrides derives from."""


class QuantizerBase(Weft.QuantizerBase, _ExceptionsAsErrors):
    """The class that a quantisation method derives from."""


class TensorSource(Weft.TensorSource, _ExceptionsAsErrors):
    """The class that a source of elements derives from."""


ConversionOpsBase, WeightTransformBase, TensorSource = map(override, (ConversionOpsBase, WeightTransformBase, TensorSource))
ModuleFusionSpecBase, ModuleReplacementBase = map(override, (ModuleFusionSpecBase, ModuleReplacementBase))
QuantizerBase = override(QuantizerBase)
__all__ += ["ConversionOpsBase", "WeightTransformBase", "TensorSource", "ModuleFusionSpecBase", "ModuleReplacementBase", "QuantizerBase"]


def op(name, **parameters):
    """A registered op: `Weft.op("Transpose", dim0=1, dim1=2)`. Parameters are written as in JSON."""
    return Weft.op_new(name, Json.from_string(json.dumps(parameters)).get_object(), None)


__all__.append("op")


def _make_execute(base):
    def execute(self, sink, progress=None, cancellable=None):
        """Moves the bytes, once. `progress (n_bytes_done, n_bytes_total)` is called as they arrive."""
        report = None if progress is None else lambda n_bytes_done, n_bytes_total, _: progress(n_bytes_done, n_bytes_total)
        return base.execute(self, sink, report, None, cancellable)

    return execute


class LoadPlan(Weft.LoadPlan):
    """What the runtime gets out of a checkpoint."""

    execute = _make_execute(Weft.LoadPlan)


class RevertPlan(Weft.RevertPlan):
    """The way back."""

    execute = _make_execute(Weft.RevertPlan)


LoadPlan, RevertPlan = override(LoadPlan), override(RevertPlan)
__all__ += ["LoadPlan", "RevertPlan"]


class Weights(collections.abc.Mapping):
    """A mapping from names to arrays. An array is read when its name is looked up, and not kept."""

    def __init__(self, state_dict):
        self._state_dict = state_dict

    def tensor(self, name):
        """The lazy tensor: slice it, and only the slice is read."""
        tensor = self._state_dict.lookup(name)
        if tensor is None:
            raise KeyError(name)
        return tensor

    def __getitem__(self, name):
        return self.tensor(name).numpy()

    def __contains__(self, name):
        return self._state_dict.lookup(name) is not None

    def __iter__(self):
        return (self._state_dict.get_name(position) for position in range(len(self)))

    def __len__(self):
        return self._state_dict.get_n_tensors()

    def __repr__(self):
        return f"<Weft.Weights of {len(self)} tensors>"


def _make_options(dtype=None, key_mapping=None, mapping=None, module_tree=None, model_type=None, class_name=None, is_open=False,
                  fusion=None, plan_overrides=None, dequantize=False, quantize=None, tp_size=1, ep_size=1, rank=0, parallel_plan=None):
    options = Weft.LoadOptions.new()
    options.set_model_type(model_type)
    options.set_class_name(class_name)
    options.set_flags(Weft.LoadFlags.OPEN if is_open else Weft.LoadFlags.NONE)
    options.set_is_dequantized(dequantize)
    if quantize is not None:
        options.set_quantization(quantize, None)
    if dtype is not None:
        options.set_dtype(dtype)
    for source, target in dict(key_mapping or {}).items():
        options.add_key_mapping(source, target)
    if mapping is not None:
        options.set_mapping(Weft.mapping_load(os.fspath(mapping)))
    if module_tree is not None:
        options.set_module_tree(Weft.ModuleTree.load(os.fspath(module_tree)))
    if fusion is not None:
        options.set_fusion_config(Json.from_string(json.dumps(fusion)), "fusion")
    if plan_overrides is not None:
        options.set_plan_overrides(Weft.PlanOverrides.load(os.fspath(plan_overrides)))
    options.set_parallel(tp_size, ep_size, rank)
    if parallel_plan is not None:
        options.set_parallel_plan(Weft.ParallelPlan.load(os.fspath(parallel_plan)))
    return options


def load(path, *, convert=True, **options):
    """The weights of a checkpoint (a file, an index or a folder) as the runtime has them, read when touched.

    convert: False gives them as they were published, and nothing below applies
    dtype: a dtype to cast to, or "auto"
    key_mapping: a mapping of patterns to their replacements, applied to names first
    mapping: a file of rules to use instead of those that Weft has for the model
    module_tree: a file that says what the runtime's model looks like
    model_type: a model type to use instead of that of config.json
    class_name: a class of the model's family to load into, instead of that of config.json
    is_open: True does not look at what config.json says of names and shapes
    fusion: a mapping of families of fusions to True, False or their options, instead of what config.json stores
    plan_overrides: a file that says which modules are replaced, by path
    dequantize: True makes packed weights dense
    quantize: a scheme that dense weights are packed with
    tp_size, ep_size, rank: what one rank of several holds: tensors are cut over tp_size ranks, experts spread over ep_size
    parallel_plan: a file that says how tensors are cut, merged over the model's own plan
    """
    checkpoint = Weft.Checkpoint.open(os.fspath(path), None)
    if not convert:
        return Weights(checkpoint.get_state_dict())
    plan = Weft.LoadPlan.new(checkpoint, _make_options(**options))
    plan.check()
    return Weights(plan.get_outputs())


class Loader(Weft.Loader):
    """Loads a checkpoint into one stretch of memory: yours, or memory that comes with the arrays. `Weft.loader` makes one."""

    @property
    def n_bytes(self):
        """How much memory it takes. The first look opens the checkpoint and plans the load."""
        return self.prepare(None).get_n_bytes()

    def _load_into(self, arena, loaded, cancellable):
        raised = []

        def report(_loader, name, _offset, _n_bytes, _):
            # Only a GLib.Error would get through: others are kept here.
            try:
                loaded(name)
            except BaseException as error:
                raised.append(error)
            return not raised

        self.set_loaded_func(None if loaded is None else report, None)
        try:
            self.load_into(arena, cancellable)
        except GLib.Error:
            if not raised:
                raise
        if raised:
            raise raised[0]

    def load_arrays(self, memory=None, *, loaded=None, cancellable=None):
        """A dict of names and arrays, which may be written to, over one stretch of memory, without a copy.

        memory: what to load into: anything with a buffer that may be written to, such as an mmap, shared memory or an array,
            of at least `n_bytes` bytes, beginning at a multiple of the alignment
        loaded: called with the name of each tensor when all of it is there, in no certain order; what it raises stops the load
        cancellable: a Gio.Cancellable that stops the load
        """
        import numpy

        layout = self.prepare(cancellable)
        if memory is None:
            arena = Weft.Arena.new(layout.get_n_bytes())
            memory = _buffer_of(arena.get_bytes(0, layout.get_n_bytes())) if layout.get_n_bytes() > 0 else bytearray(0)
            codes = numpy.frombuffer(memory, "u1")
        else:
            codes = numpy.frombuffer(memory, "u1")
            if not codes.flags.writeable:
                raise TypeError("the memory to load into may only be read")
            arena = Weft.Arena.new_for_memory(codes.ctypes.data, codes.nbytes)
        self._load_into(arena, loaded, cancellable)
        outputs, arrays = layout.get_outputs(), {}
        for position in range(outputs.get_n_tensors()):
            tensor, offset = outputs.get_tensor(position), layout.get_offset(position)
            arrays[outputs.get_name(position)] = tensor._view(codes[offset:offset + tensor.get_n_bytes()])
        return arrays


Loader = override(Loader)
_IO_BACKENDS = {"pread": Weft.IoBackend.PREAD, "mmap": Weft.IoBackend.MMAP, "direct": Weft.IoBackend.DIRECT}


def loader(path, *, io="pread", alignment=64, queue=None, **options):
    """A Weft.Loader of a checkpoint.

    io: how files are read: "pread", "mmap" or "direct" (past the page cache)
    alignment: what the offset of each tensor is a multiple of, in bytes
    queue: how many reads are under way at once, and the bytes of one: (8, 1 << 20)

    All options of `Weft.load` but `convert` apply.
    """
    if io not in _IO_BACKENDS:
        raise ValueError(f"'{io}' is no way to read files; io is one of {', '.join(_IO_BACKENDS)}")
    loader = Weft.Loader.new(os.fspath(path), _make_options(**options))
    loader.set_io_backend(_IO_BACKENDS[io])
    loader.set_alignment(alignment)
    if queue is not None:
        loader.set_queue(*queue)
    return loader


__all__ += ["Weights", "load", "Loader", "loader"]
