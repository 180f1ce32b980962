// SPDX-License-Identifier: Apache-2.0
// Weft from JavaScript: arrays, groups, an op as a class, and what becomes of its exceptions.

import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import System from 'system';
import Weft from 'gi://Weft?version=1.0';

import {equal, refuses, run} from './harness.js';

const NegateOp = GObject.registerClass({
    Properties: {
        factor: GObject.ParamSpec.double('factor', 'Factor', 'What to multiply with', GObject.ParamFlags.READWRITE, -10, 10, -1),
    },
}, class NegateOp extends Weft.ConversionOpsBase {
    vfunc_convert(inputs, _context) {
        return inputs.map(tensor => tensor.scale(this.factor));
    }

    vfunc_dup_inverse() {
        return new NegateOp({factor: 1 / this.factor});
    }
});
NegateOp.set_traits(Weft.OpTraits.NEEDS_VALUES);

const FailingOp = GObject.registerClass(class FailingOp extends Weft.ConversionOpsBase {
    vfunc_convert(_inputs, _context) {
        throw new Error('seven experts do not divide by two');
    }

    vfunc_dup_inverse() {
        return this.no_such_method();
    }
});

const SilentOp = GObject.registerClass(class SilentOp extends Weft.ConversionOpsBase {
    vfunc_convert(_inputs, _context) {
        return null;
    }

    vfunc_dup_inverse() {
        return null;
    }
});

// Fails with an error of Weft, as ops in C do.
const OverruledOp = GObject.registerClass(class OverruledOp extends Weft.ConversionOpsBase {
    vfunc_convert(inputs, _context) {
        return inputs.map(tensor => tensor.reshape([7]));
    }
});

function tensorOf(...values) {
    return Weft.Tensor.new_from_bytes(Weft.Dtype.F32, [values.length],
        new GLib.Bytes(new Uint8Array(new Float32Array(values).buffer)));
}

const context = Weft.OpContext.new(['a'], ['b']);
const registry = Weft.PluginRegistry.get_default();
for (const [name, op] of Object.entries({TestNegate: NegateOp, TestFailing: FailingOp, TestSilent: SilentOp, TestOverruled: OverruledOp}))
    registry.register(Weft.FeatureKind.OP, name, op.$gtype);

System.exit(run({
    'a tensor is a typed array'() {
        equal(tensorOf(1, 2).toArray(), [1, 2], 'values');
        equal(tensorOf(1, -2).cast(Weft.Dtype.BF16).toArray(), [0x3f80, 0xc000], 'codes');
    },

    'layout'() {
        const [first, second] = tensorOf(1, 2, 3).split(0, [1, 2]);

        equal(Weft.Tensor.concat([second, first], 0).toArray(), [2, 3, 1], 'parts');
        equal(tensorOf(1, 2).unstack(0).map(part => part.toArray()), [[1], [2]], 'elements');
        equal(tensorOf(1, 2, 3).slice(0, 1, 2).toArray(), [2, 3], 'slice');
    },

    'a class is an op'() {
        const op = Weft.op('TestNegate');
        const result = op.convert(Weft.TensorGroups.from({a: tensorOf(1, 2), c: [tensorOf(3)]}), context);

        equal(result.lookup('a').toArray(), [-1, -2], 'a');
        equal(result.lookup('c')[0].toArray(), [-3], 'c');
        equal(result.tensors('a').length, 1, 'tensors of a');
        equal(result.lookup('d'), undefined, 'd');
        equal(op.dup_inverse() instanceof NegateOp, true, 'inverse');
        equal(op.get_traits(), Weft.OpTraits.NEEDS_VALUES, 'traits');
        equal(op.get_thread_policy(), Weft.ThreadPolicy.OWNER, 'policy');
        equal(Weft.op('TestSilent').get_traits(), Weft.OpTraits.NONE, 'traits of another class');
    },

    'parameters are checked'() {
        equal(Weft.op('TestNegate', {factor: 3}).factor, 3, 'factor');
        refuses(() => Weft.op('TestNegate', {factor: 11}), Weft.Error.ARGUMENT, 'factor');
        refuses(() => Weft.op('TestNegate', {faktor: 1}), Weft.Error.ARGUMENT, 'faktor');
        refuses(() => Weft.op('NoSuchOp'), Weft.Error.MISSING, 'NoSuchOp');
    },

    'an exception becomes an error'() {
        const op = Weft.op('TestFailing');

        refuses(() => op.convert(Weft.TensorGroups.from({a: tensorOf(1)}), context), undefined,
            'TestFailing: seven experts do not divide by two');
        refuses(() => op.dup_inverse(), undefined, 'no_such_method');
    },

    'an error of Weft keeps its code'() {
        const op = Weft.op('TestOverruled');

        refuses(() => op.convert(Weft.TensorGroups.from({a: tensorOf(1)}), context), Weft.Error.SHAPE, 'TestOverruled: ');
        refuses(() => op.dup_inverse(), Weft.Error.NOT_REVERSIBLE, 'no inverse');
    },

    'null breaks the contract'() {
        const op = Weft.op('TestSilent');

        refuses(() => op.convert(Weft.TensorGroups.from({a: tensorOf(1)}), context), Weft.Error.PLUGIN_CONTRACT,
            'convert returned NULL without an error');
        refuses(() => op.dup_inverse(), Weft.Error.PLUGIN_CONTRACT, 'dup_inverse returned NULL without an error');
    },

    'ops of ours by name'() {
        const merged = Weft.op('MergeModulelist').convert(Weft.TensorGroups.from({a: [tensorOf(1, 2), tensorOf(3, 4)]}), context);
        const op = Weft.op('Interleave', {dim: 0});
        const there = op.convert(Weft.TensorGroups.from({a: tensorOf(0, 1, 2, 3)}), context);
        const back = op.dup_inverse().convert(Weft.TensorGroups.from({b: there.lookup('b')}), Weft.OpContext.new(['b'], ['a']));

        equal(merged.lookup('b').toArray(), [1, 2, 3, 4], 'merged');
        equal(there.lookup('b').toArray(), [0, 2, 1, 3], 'interleaved');
        equal(back.lookup('a').toArray(), [0, 1, 2, 3], 'restored');
    },
}));
