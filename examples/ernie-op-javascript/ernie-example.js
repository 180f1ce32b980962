// SPDX-License-Identifier: Apache-2.0
// Experts of Ernie 4.5 VL. The checkpoint has one numbered list for each projection, text experts first, then vision
// experts; the runtime wants one tensor for each of the two, the projections joined.

import GObject from 'gi://GObject';
import Weft from 'gi://Weft?version=1.0';

function axis(name, initial, blurb) {
    return GObject.ParamSpec.int(name, name, blurb, GObject.ParamFlags.READWRITE, -Weft.MAX_RANK, Weft.MAX_RANK - 1, initial);
}

// The parameters, which are the same in both directions.
const ErnieOp = GObject.registerClass({
    GTypeName: 'JavaScriptErnieOp',
    Properties: {
        'stack-dim': axis('stack-dim', 0, 'Axis that a list of experts becomes'),
        'concat-dim': axis('concat-dim', 1, 'Axis on which projections are joined'),
    },
}, class extends Weft.ConversionOpsBase {
    get dimensions() {
        return {stack_dim: this.stack_dim, concat_dim: this.concat_dim};
    }
});

const ErnieFuse = GObject.registerClass({GTypeName: 'JavaScriptErnieFuse'}, class extends ErnieOp {
    vfunc_convert(inputs, context) {
        const targets = context.get_target_patterns();
        const outputs = Weft.TensorGroups.new();

        targets.forEach((target, part) => {
            const projections = context.get_source_patterns().map(
                source => this.stackPart(inputs, source, part, targets.length));
            outputs.set(target, Weft.Tensor.concat(projections, this.concat_dim));
        });
        return outputs;
    }

    stackPart(inputs, source, part, nParts) {
        const experts = inputs.tensors(source);
        const length = experts.length / nParts;

        if (length === 0 || !Number.isInteger(length))
            throw new Error(`'${source}' has ${experts.length} experts, expected a multiple of ${nParts}`);
        return Weft.Tensor.stack(experts.slice(part * length, (part + 1) * length), this.stack_dim);
    }

    vfunc_dup_inverse() {
        return new ErnieSplit(this.dimensions);
    }
});

const ErnieSplit = GObject.registerClass({GTypeName: 'JavaScriptErnieSplit'}, class extends ErnieOp {
    vfunc_convert(inputs, context) {
        const targets = context.get_target_patterns();
        const outputs = Weft.TensorGroups.new();

        targets.forEach((target, part) => {
            let number = 0;

            for (const source of context.get_source_patterns()) {
                const projections = Weft.op_split_evenly(inputs.tensors(source)[0], this.concat_dim, targets.length);

                for (const expert of Weft.op_unstack(projections[part], this.stack_dim))
                    outputs.set(Weft.op_expand_star(target, number++), expert);
            }
        });
        return outputs;
    }

    vfunc_dup_inverse() {
        return new ErnieFuse(this.dimensions);
    }
});

// Several sources make several targets; fusing needs whole lists, splitting numbers its outputs.
ErnieFuse.set_traits(Weft.OpTraits.MANY_TO_MANY | Weft.OpTraits.STACKS_LIST);
ErnieSplit.set_traits(Weft.OpTraits.MANY_TO_MANY | Weft.OpTraits.EXPANDS_STAR);

const registry = Weft.PluginRegistry.get_default();
registry.register(Weft.FeatureKind.OP, 'ErnieFuseAndSplitTextVisionExperts', ErnieFuse.$gtype);
registry.register(Weft.FeatureKind.OP, 'ErnieSplitAndDecoupleTextVisionExperts', ErnieSplit.$gtype);
