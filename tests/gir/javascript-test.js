// SPDX-License-Identifier: Apache-2.0
// Weft from JavaScript: arrays, groups, an op as a class, and what becomes of its exceptions.

import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import System from 'system';
import Weft from 'gi://Weft?version=1.0';

const NegateOp = GObject.registerClass(class NegateOp extends Weft.ConversionOpsBase {
    vfunc_convert(inputs, _context) {
        return inputs.map(tensor => tensor.scale(-1));
    }

    vfunc_dup_inverse() {
        return new NegateOp();
    }
});

const FailingOp = GObject.registerClass(class FailingOp extends Weft.ConversionOpsBase {
    vfunc_convert(_inputs, _context) {
        throw new Error('seven experts do not divide by two');
    }
});

function tensorOf(...values) {
    return Weft.Tensor.new_from_bytes(Weft.Dtype.F32, [values.length],
        new GLib.Bytes(new Uint8Array(new Float32Array(values).buffer)));
}

function equal(found, expected, what) {
    if (`${found}` !== `${expected}`)
        throw new Error(`${what}: found ${found}, expected ${expected}`);
}

function errorOf(action) {
    try {
        action();
    } catch (error) {
        return error.message;
    }
    return 'no error';
}

const context = Weft.OpContext.new(['a'], ['b']);
const registry = Weft.PluginRegistry.get_default();
registry.register(Weft.FeatureKind.OP, 'TestNegate', NegateOp.$gtype);
registry.register(Weft.FeatureKind.OP, 'TestFailing', FailingOp.$gtype);

const tests = {
    'a tensor is a typed array'() {
        equal(tensorOf(1, 2).toArray(), [1, 2], 'values');
        equal(tensorOf(1, -2).cast(Weft.Dtype.BF16).toArray(), [0x3f80, 0xc000], 'codes');
    },

    'a class is an op'() {
        const inputs = Weft.TensorGroups.new();
        inputs.set('a', tensorOf(1, 2));
        inputs.append('c', tensorOf(3), null);
        const result = Weft.op_new('TestNegate', null, null).convert(inputs, context);

        equal(result.lookup('a').toArray(), [-1, -2], 'a');
        equal(result.lookup('c')[0].toArray(), [-3], 'c');
        equal(result.lookup('d'), undefined, 'd');
        equal(Weft.op_new('TestNegate', null, null).dup_inverse() instanceof NegateOp, true, 'inverse');
    },

    'an exception becomes an error'() {
        const message = errorOf(() => Weft.op_new('TestFailing', null, null).convert(Weft.TensorGroups.new(), context));

        equal(message.includes('seven experts do not divide by two'), true, message);
    },

    'an op of ours by name'() {
        const inputs = Weft.TensorGroups.new();
        inputs.append('a', tensorOf(1, 2), null);
        inputs.append('a', tensorOf(3, 4), null);
        const result = Weft.op_new('MergeModulelist', null, null).convert(inputs, context);

        equal(result.lookup('b').toArray(), [1, 2, 3, 4], 'merged');
    },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
    try {
        test();
        print(`ok ${name}`);
    } catch (error) {
        failed++;
        print(`not ok ${name}: ${error}`);
    }
}
System.exit(failed > 0 ? 1 : 0);
