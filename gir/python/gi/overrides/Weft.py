# SPDX-License-Identifier: Apache-2.0
"""Weft in Python: tensors as numpy arrays, groups of tensors as mappings, exceptions of an op as errors."""

import collections.abc
import ctypes
import functools

from gi.module import get_introspection_module
from gi.overrides import override
from gi.repository import GLib

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
        array_dtype = _NUMPY_DTYPES.get(tensor.dtype)
        shape = tensor.shape if array_dtype is not None else (tensor.get_n_bytes(),)
        if tensor.get_n_bytes() == 0:
            array = numpy.empty(shape, array_dtype or "u1")
        else:
            array = numpy.frombuffer(_buffer_of(tensor.read(None)), array_dtype or "u1").reshape(shape)
        array.flags.writeable = False
        return array

    def __array__(self, dtype=None):
        array = self.numpy()
        return array if dtype is None else array.astype(dtype)

    def __repr__(self):
        return f"<Weft.Tensor {self.dtype} {list(self.shape)}>"


Tensor = override(Tensor)
__all__.append("Tensor")


class TensorGroups(Weft.TensorGroups):
    """What an op takes and gives: a mapping from a name to a tensor or a list of tensors."""

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
        tensors = [self.get_tensor(group, position) for position in range(self.get_n_tensors(group))]
        return tensors if self.is_list(group) else tensors[0]

    def __setitem__(self, name, value):
        if not isinstance(value, (list, tuple)):
            self.set(name, value)
            return
        self.append_list(name)
        for tensor in value:
            self.append(name, tensor, None)

    def items(self):
        return [(name, self[name]) for name in self]

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


class ConversionOpsBase(Weft.ConversionOpsBase):
    """The class that an op written in Python derives from."""

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        for name, function in list(vars(cls).items()):
            if name.startswith("do_") and callable(function):
                setattr(cls, name, _raise_as_error(function))


ConversionOpsBase = override(ConversionOpsBase)
__all__.append("ConversionOpsBase")


class Weights(collections.abc.Mapping):
    """Names and arrays of a state dict. An array is read when its name is looked up, and not kept."""

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


def load(path):
    """The weights of a checkpoint (a file, an index or a folder) under their published names, read when touched."""
    return Weights(Weft.Checkpoint.open(str(path), None).get_state_dict())


__all__ += ["Weights", "load"]
