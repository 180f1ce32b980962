# SPDX-License-Identifier: Apache-2.0
"""Key and value projections of attention as one: what a server that keeps keys and values apart from queries reads."""

from gi.repository import Weft


class KeyValue(Weft.ModuleFusionSpecBase):
    __gtype_name__ = "PythonKeyValue"

    def do_is_fusable(self, module):
        shapes = [self.shape(module, name) for name in ("k_proj.weight", "v_proj.weight", "k_proj.bias", "v_proj.bias")]
        return shapes[0] is not None and shapes[0] == shapes[1] and shapes[2] == shapes[3]

    @staticmethod
    def shape(module, name):
        spec = module.find_tensor(name)
        return spec and spec.get_shape().to_string()

    def do_make_transforms(self, context):
        rules = Weft.TransformList.new()
        for tensor in ("weight", "bias"):
            if context.has_tensor(f"k_proj.{tensor}"):
                Weft.fusion_append_converter(rules, [rf"^k_proj\.{tensor}", rf"^v_proj\.{tensor}"], [rf"^kv_proj\.{tensor}"],
                                             '[{"type": "Concatenate", "dim": 0}]')
        return rules


KeyValue.set_target_patterns(["attn$"])

Weft.PluginRegistry.get_default().register(Weft.FeatureKind.FUSION, "kv", KeyValue)
