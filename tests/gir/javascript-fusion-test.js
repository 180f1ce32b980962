// SPDX-License-Identifier: Apache-2.0
// Fusions from JavaScript: a family as a class, its errors, and that nothing of a failed plan is left.

import GLib from 'gi://GLib';
import GObject from 'gi://GObject';
import Json from 'gi://Json?version=1.0';
import System from 'system';
import Weft from 'gi://Weft?version=1.0';

import {equal, refuses, run} from './harness.js';

const MODEL = GLib.build_filenamev([GLib.getenv('MODELS'), 'llama']);

const Family = GObject.registerClass({
    Properties: {
        fault: GObject.ParamSpec.string('fault', 'Fault', 'What goes wrong', GObject.ParamFlags.READWRITE, ''),
    },
}, class Family extends Weft.ModuleFusionSpecBase {
    vfunc_is_fusable(module) {
        if (this.fault === 'is_fusable')
            throw new Error('cannot tell a key from a value');
        return module.find_tensor('k_proj.weight') !== null && module.find_tensor('v_proj.weight') !== null;
    }

    vfunc_make_transforms(context) {
        const rules = Weft.TransformList.new();

        if (this.fault === 'make_transforms' && context.get_fqn().includes('layers.1'))
            throw new Error('no rules for it');
        if (this.fault === 'nothing')
            return null;
        Weft.fusion_append_converter(rules, ['^k_proj\\.weight', '^v_proj\\.weight'], ['^kv_proj\\.weight'],
            '[{"type": "Concatenate", "dim": 0}]');
        return rules;
    }
});

Weft.PluginRegistry.get_default().register(Weft.FeatureKind.FUSION, 'test_kv', Family.$gtype);

function node(value) {
    return Json.from_string(JSON.stringify(value));
}

function makeExecutor() {
    const tree = Weft.ModuleTree.load(GLib.build_filenamev([MODEL, 'skeleton.json']));

    return Weft.ReplacementExecutor.new(tree, node({}), 'config.json');
}

function fuse(executor, options) {
    executor.apply(executor.compile_fusions(node({test_kv: options}), 'test', Weft.FusionOrigin.ASKED));
}

function show(executor) {
    return [executor.get_tree().to_json(), executor.to_json()].map(json => Json.to_string(json, false)).join();
}

System.exit(run({
    family() {
        const executor = makeExecutor();

        fuse(executor, true);
        const module = executor.get_tree().find_module('model.layers.1.self_attn');
        equal(module.get_class_name(), 'FusedLlamaAttention', 'class');
        equal(module.find_tensor('kv_proj.weight').get_shape().to_string(), '(32, 16)', 'shape');
    },

    errorsLeaveNothing() {
        const executor = makeExecutor();
        const before = show(executor);

        for (const [fault, text] of [['is_fusable', 'cannot tell a key from a value'], ['make_transforms', 'no rules for it'],
            ['nothing', 'make_transforms returned NULL without an error']]) {
            refuses(() => fuse(executor, {fault}), undefined, text);
            equal(show(executor), before, fault);
        }
    },
}));
