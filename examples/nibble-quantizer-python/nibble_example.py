# SPDX-License-Identifier: Apache-2.0
"""A format that Weft does not know: two codes a byte, the first in the low nibble, 8 for zero, and a scale for each row."""

from gi.repository import Weft


class NibbleQuantizer(Weft.QuantizerBase):
    __gtype_name__ = "PythonNibbleQuantizer"

    def do_configure(self, config):
        self.add_part(Weft.ROLE_CODES, ".weight", ".nibbles")
        self.add_part("scale", ".weight", ".row_scale")
        self.dtype = config.get_default_dtype()
        return True

    def do_describe(self, weight):
        packed = weight.require_tensor(Weft.ROLE_CODES)
        weight.require_tensor("scale")
        weight.set_packed("nibbles, scale per row", [packed.get_dim(0), 2 * packed.get_dim(1)], self.dtype)
        weight.set_block(Weft.ROLE_CODES, 1, 2)
        weight.set_block("scale", 1, 0)
        return True

    def do_dequantize(self, weight, dtype):
        packed = weight.get_tensor(Weft.ROLE_CODES)
        codes = packed.unpack(4, Weft.BitOrder.DENSE, -1, 2 * packed.get_dim(1))
        eight = Weft.Tensor.new_constant(Weft.Dtype.F32, [], 8)
        return codes.dequantize(weight.get_tensor("scale"), eight, [1, 0], dtype)


Weft.PluginRegistry.get_default().register(Weft.FeatureKind.QUANTIZER, "nibble", NibbleQuantizer)
