// SPDX-License-Identifier: Apache-2.0
// Key and value projections of attention as one: what a server that keeps keys and values apart from queries reads.

import GObject from 'gi://GObject';
import Weft from 'gi://Weft?version=1.0';

function shapeOf(module, name) {
    return module.find_tensor(name)?.get_shape().to_string();
}

const KeyValue = GObject.registerClass({GTypeName: 'JavaScriptKeyValue'}, class extends Weft.ModuleFusionSpecBase {
    vfunc_is_fusable(module) {
        const [key, value, keyBias, valueBias] = ['k_proj.weight', 'v_proj.weight', 'k_proj.bias', 'v_proj.bias']
            .map(name => shapeOf(module, name));

        return key !== undefined && key === value && keyBias === valueBias;
    }

    vfunc_make_transforms(context) {
        const rules = Weft.TransformList.new();

        for (const tensor of ['weight', 'bias']) {
            if (context.has_tensor(`k_proj.${tensor}`)) {
                Weft.fusion_append_converter(rules, [`^k_proj\\.${tensor}`, `^v_proj\\.${tensor}`], [`^kv_proj\\.${tensor}`],
                    '[{"type": "Concatenate", "dim": 0}]');
            }
        }
        return rules;
    }
});

KeyValue.set_target_patterns(['attn$']);

Weft.PluginRegistry.get_default().register(Weft.FeatureKind.FUSION, 'kv', KeyValue.$gtype);
