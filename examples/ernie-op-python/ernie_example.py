# SPDX-License-Identifier: Apache-2.0
"""Experts of Ernie 4.5 VL. The checkpoint has one numbered list for each projection, text experts first, then vision
experts; the runtime wants one tensor for each of the two, the projections joined."""

import itertools

from gi.repository import GObject, Weft


def axis(default, blurb):
    return GObject.Property(type=int, default=default, minimum=-Weft.MAX_RANK, maximum=Weft.MAX_RANK - 1, blurb=blurb)


class ErnieOp(Weft.ConversionOpsBase):
    """The parameters, which are the same in both directions."""

    __gtype_name__ = "PythonErnieOp"
    stack_dim = axis(0, "Axis that a list of experts becomes")
    concat_dim = axis(1, "Axis on which projections are joined")


class ErnieFuse(ErnieOp):
    __gtype_name__ = "PythonErnieFuse"

    def do_convert(self, inputs, context):
        targets = context.get_target_patterns()
        outputs = Weft.TensorGroups()
        for part, target in enumerate(targets):
            projections = [self.stack_part(inputs, source, part, len(targets)) for source in context.get_source_patterns()]
            outputs[target] = Weft.Tensor.concat(projections, self.concat_dim)
        return outputs

    def stack_part(self, inputs, source, part, n_parts):
        experts = inputs.tensors(source)
        length, rest = divmod(len(experts), n_parts)
        if length == 0 or rest != 0:
            raise ValueError(f"'{source}' has {len(experts)} experts, expected a multiple of {n_parts}")
        return Weft.Tensor.stack(experts[part * length:(part + 1) * length], self.stack_dim)

    def do_dup_inverse(self):
        return ErnieSplit(stack_dim=self.stack_dim, concat_dim=self.concat_dim)


class ErnieSplit(ErnieOp):
    __gtype_name__ = "PythonErnieSplit"

    def do_convert(self, inputs, context):
        targets = context.get_target_patterns()
        outputs = Weft.TensorGroups()
        for part, target in enumerate(targets):
            number = itertools.count()
            for source in context.get_source_patterns():
                projections = Weft.op_split_evenly(inputs.tensors(source)[0], self.concat_dim, len(targets))
                for expert in Weft.op_unstack(projections[part], self.stack_dim):
                    outputs[Weft.op_expand_star(target, next(number))] = expert
        return outputs

    def do_dup_inverse(self):
        return ErnieFuse(stack_dim=self.stack_dim, concat_dim=self.concat_dim)


# Several sources make several targets; fusing needs whole lists, splitting numbers its outputs.
ErnieFuse.set_traits(Weft.OpTraits.MANY_TO_MANY | Weft.OpTraits.STACKS_LIST)
ErnieSplit.set_traits(Weft.OpTraits.MANY_TO_MANY | Weft.OpTraits.EXPANDS_STAR)

registry = Weft.PluginRegistry.get_default()
registry.register(Weft.FeatureKind.OP, "ErnieFuseAndSplitTextVisionExperts", ErnieFuse)
registry.register(Weft.FeatureKind.OP, "ErnieSplitAndDecoupleTextVisionExperts", ErnieSplit)
