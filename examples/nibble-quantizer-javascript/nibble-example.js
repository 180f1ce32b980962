// SPDX-License-Identifier: Apache-2.0
// A format that Weft does not know: two codes a byte, the first in the low nibble, 8 for zero, and a scale for each row.

import GObject from 'gi://GObject';
import Weft from 'gi://Weft?version=1.0';

const NibbleQuantizer = GObject.registerClass({GTypeName: 'JavaScriptNibbleQuantizer'}, class extends Weft.QuantizerBase {
    vfunc_configure(config) {
        this.add_part(Weft.ROLE_CODES, '.weight', '.nibbles');
        this.add_part('scale', '.weight', '.row_scale');
        this.dense_dtype = config.get_default_dtype();
        return true;
    }

    vfunc_describe(weight) {
        const packed = weight.require_tensor(Weft.ROLE_CODES);

        weight.require_tensor('scale');
        weight.set_packed('nibbles, scale per row', [packed.get_dim(0), 2 * packed.get_dim(1)], this.dense_dtype);
        weight.set_block(Weft.ROLE_CODES, 1, 2);
        weight.set_block('scale', 1, 0);
        return true;
    }

    vfunc_dequantize(weight, dtype) {
        const packed = weight.get_tensor(Weft.ROLE_CODES);
        const codes = packed.unpack(4, Weft.BitOrder.DENSE, -1, 2 * packed.get_dim(1));
        const eight = Weft.Tensor.new_constant(Weft.Dtype.F32, [], 8);

        return codes.dequantize(weight.get_tensor('scale'), eight, [1, 0], dtype);
    }
});

Weft.PluginRegistry.get_default().register(Weft.FeatureKind.QUANTIZER, 'nibble', NibbleQuantizer.$gtype);
