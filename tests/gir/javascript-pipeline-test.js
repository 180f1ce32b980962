// SPDX-License-Identifier: Apache-2.0
// The main job from JavaScript: open, plan, execute, revert; and what a class of a script may be in it: op, rule, source.

import Gio from 'gi://Gio';
import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Json from 'gi://Json';
import System from 'system';
import Weft from 'gi://Weft?version=1.0';

import {equal, refuses, run} from './harness.js';

// Moves rows up. `wrong`: its inverse has the right shape and the wrong direction.
const RollOp = GObject.registerClass({
    Properties: {
        shift: GObject.ParamSpec.int('shift', 'Shift', 'Rows to move', GObject.ParamFlags.READWRITE, -8, 8, 1),
        wrong: GObject.ParamSpec.boolean('wrong', 'Wrong', 'Whether the inverse is wrong', GObject.ParamFlags.READWRITE, false),
    },
}, class RollOp extends Weft.ConversionOpsBase {
    vfunc_convert(inputs, context) {
        const [tensor] = inputs.tensors(context.get_source_pattern(0));
        const rows = tensor.get_dim(0);
        const cut = (this.shift + rows) % rows;

        return Weft.TensorGroups.from({
            [context.get_target_pattern(0)]: Weft.Tensor.concat([tensor.slice(0, cut, rows - cut), tensor.slice(0, 0, cut)], 0),
        });
    }

    vfunc_dup_inverse() {
        return new RollOp({shift: this.wrong ? this.shift : -this.shift, wrong: this.wrong});
    }
});

const FailingOp = GObject.registerClass(class FailingOp extends Weft.ConversionOpsBase {
    vfunc_convert(_inputs, _context) {
        throw new Error('no such luck');
    }
});

// The numbers from 0 on, as bytes. JavaScript itself would not survive to be called on another thread.
const CountingSource = GObject.registerClass(class CountingSource extends Weft.TensorSource {
    vfunc_read(offset, n_bytes) {
        return new GLib.Bytes(Uint8Array.from({length: n_bytes}, (_, position) => offset + position));
    }
});

const CountOp = GObject.registerClass(class CountOp extends Weft.ConversionOpsBase {
    vfunc_convert(inputs, context) {
        const [tensor] = inputs.tensors(context.get_source_pattern(0));
        const dims = [tensor.get_dim(0), tensor.get_dim(1)];

        return Weft.TensorGroups.from({
            [context.get_target_pattern(0)]: Weft.Tensor.new_from_source(tensor.get_dtype(), dims, new CountingSource()),
        });
    }
});
CountOp.set_traits(Weft.OpTraits.NEEDS_VALUES);

// A kind of rule: every name gets a prefix, or loses it.
const AddPrefix = GObject.registerClass({
    Properties: {
        prefix: GObject.ParamSpec.string('prefix', 'Prefix', 'What names begin with', GObject.ParamFlags.READWRITE, ''),
        removes: GObject.ParamSpec.boolean('removes', 'Removes', 'Whether it is removed', GObject.ParamFlags.READWRITE, false),
    },
}, class AddPrefix extends Weft.WeightTransformBase {
    vfunc_rename_key(key) {
        if (!this.removes)
            return [this.prefix + key, '^'];
        return key.startsWith(this.prefix) ? [key.slice(this.prefix.length), '^'] : [null, null];
    }

    vfunc_dup_inverse() {
        return new AddPrefix({prefix: this.prefix, removes: !this.removes});
    }
});

const registry = Weft.PluginRegistry.get_default();
for (const [name, op] of Object.entries({TestRoll: RollOp, TestFailing: FailingOp, TestCount: CountOp}))
    registry.register(Weft.FeatureKind.OP, name, op.$gtype);
registry.register(Weft.FeatureKind.TRANSFORM, 'TestAddPrefix', AddPrefix.$gtype);

const scratch = GLib.dir_make_tmp('weft-gjs-XXXXXX');
const sample = `${scratch}/sample`;
let outputs = 0;

function spawn(...words) {
    const [, , problems, status] = GLib.spawn_sync(null, words, null, GLib.SpawnFlags.SEARCH_PATH, null);

    equal(status, 0, `${words.join(' ')}: ${new TextDecoder().decode(problems)}`);
}

function newOutput() {
    return `${scratch}/output-${++outputs}`;
}

function plan(...rules) {
    const options = Weft.LoadOptions.new();

    if (rules.length > 0)
        options.set_mapping(Weft.mapping_new_from_json(Json.from_string(JSON.stringify(rules)), 'test', 'test'));
    return Weft.LoadPlan.new(Weft.Checkpoint.open(sample, null), options);
}

function converter(name, operation, parameters = {}) {
    return {type: 'WeightConverter', source_patterns: [name], target_patterns: [name], operations: [{type: operation, ...parameters}]};
}

function read(path, name) {
    return Weft.Checkpoint.open(path, null).get_state_dict().lookup(name).toArray();
}

function revertAndCompare(path) {
    const back = newOutput();

    Weft.RevertPlan.new(Weft.Checkpoint.open(path, null), null, Weft.RevertFlags.NONE)
        .execute(Weft.SafetensorsSink.new(back), null, null);
    spawn('diff', '-r', sample, back);
}

spawn('/usr/bin/python3', GLib.getenv('MAKE_SAMPLE'), sample, '--shards', '2');
const status = run({
    'there and back'() {
        const output = newOutput();
        const calls = [];

        equal(plan().is_reversible(), true, 'reversible');
        plan().execute(Weft.SafetensorsSink.new(output), (done, total) => calls.push([done, total]), null);
        equal(calls.at(-1)[0], calls.at(-1)[1], 'bytes at the end');
        equal(calls.every(([done], i) => i === 0 || done >= calls[i - 1][0]), true, 'progress');
        equal(read(output, 'model.layers.0.mlp.experts.down_proj').length, read(output, 'model.layers.0.mlp.experts.gate_up_proj').length / 2,
            'experts');
        revertAndCompare(output);
    },

    'two layouts are equal, and an edit is found'() {
        const output = newOutput();
        const rules = Weft.TransformList.new();

        plan().execute(Weft.SafetensorsSink.new(output), null, null);
        const comparison = Weft.Comparison.new(Weft.Checkpoint.open(sample, null), Weft.Checkpoint.open(output, null), null,
            Weft.ComparisonFlags.NONE);

        comparison.execute(null, null);
        equal(comparison.is_equal(), true, 'equal');
        equal(comparison.list_differences().length, 0, 'differences');
        const verification = Weft.Verification.new(output, null);

        verification.check_round_trip(Weft.Checkpoint.open(sample, null), null, true, null);
        equal(verification.has_passed(), true, 'passed');
        rules.append_renaming('^lm\\.head', 'head');
        rules.append_renaming('^lm', 'model.lm');
        equal(Weft.mapping_lint(rules, null, null).map(finding => finding.key), ['lm.head'], 'lint');
    },

    'errors'() {
        const cancellable = new Gio.Cancellable();
        const output = newOutput();

        refuses(() => Weft.SafetensorsSink.new(sample), Weft.Error.EXISTS, 'sample: the output exists');
        refuses(() => Weft.Checkpoint.open(`${scratch}/nothing`, null), Weft.Error.MISSING, 'nothing: cannot be opened');
        refuses(() => plan().execute(Weft.SafetensorsSink.new(output), () => cancellable.cancel(), cancellable),
            Weft.Error.CANCELLED, 'cancel');
        equal(GLib.file_test(output, GLib.FileTest.EXISTS), false, 'output of a cancelled run');
    },

    'an op there and back'() {
        const output = newOutput();
        const published = [...read(sample, 'lm_head.weight')];

        plan(converter('lm_head.weight', 'TestRoll', {shift: 3})).execute(Weft.SafetensorsSink.new(output), null, null);
        equal(read(output, 'lm_head.weight'), [...published.slice(3 * 16), ...published.slice(0, 3 * 16)], 'rolled');
        revertAndCompare(output);
    },

    'a wrong inverse is refused from headers'() {
        refuses(() => plan(converter('lm_head.weight', 'TestRoll', {wrong: true})), Weft.Error.NOT_REVERSIBLE, 'wrong inverse');
    },

    'an exception names the tensor'() {
        refuses(() => plan(converter('lm_head.weight', 'TestFailing')).check(), undefined, 'no such luck');
        refuses(() => plan(converter('lm_head.weight', 'TestFailing')).check(), undefined, 'lm_head.weight');
    },

    'a source is read on our thread while the pool works'() {
        const sink = Weft.MemorySink.new();

        plan(converter('lm_head.weight', 'TestCount')).execute(sink, null, null);
        equal(sink.lookup('lm_head.weight').toArray().every((byte, position) => byte === position % 256), true, 'counted');
        equal(sink.lookup('model.embed_tokens.weight').get_size(), 2 * 32 * 16, 'bytes of another tensor');
    },

    'into one arena'() {
        const loader = Weft.Loader.new(sample, null);
        const shared = newOutput();
        const names = [];
        const arrays = loader.loadArrays({loaded: name => names.push(name)});

        System.gc();
        equal(names.sort(), Object.keys(arrays).sort(), 'names');
        equal(arrays['lm_head.weight'], read(sample, 'lm_head.weight'), 'values');
        const again = loader.loadArrays({arena: Weft.Arena.new_shared(shared, loader.prepare(null).get_n_bytes())});

        equal(again['lm_head.weight'], arrays['lm_head.weight'], 'shared values');
        refuses(() => Weft.Arena.new_shared(shared, 1), Weft.Error.EXISTS, 'cannot be made');
        refuses(() => loader.loadArrays({arena: Weft.Arena.new(3)}), Weft.Error.ARGUMENT, 'found 3 bytes');
    },

    'what a callback throws stops the load'() {
        const loader = Weft.Loader.new(sample, null);
        const names = [];

        refuses(() => loader.loadArrays({loaded: name => {
            names.push(name);
            throw new RangeError('the device is full');
        }}), undefined, 'the device is full');
        equal(names.length, 1, 'calls');
        equal(Object.keys(loader.loadArrays()).length > 1, true, 'loads again');
    },

    'a kind of rule'() {
        const output = newOutput();

        plan({type: 'TestAddPrefix', prefix: 'wrapped.'}).execute(Weft.SafetensorsSink.new(output), null, null);
        equal(Weft.Checkpoint.open(output, null).get_state_dict().find('wrapped.lm_head.weight')[0], true, 'renamed');
        revertAndCompare(output);
    },
});
spawn('rm', '-r', scratch);
System.exit(status);
