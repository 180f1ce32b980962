# SPDX-License-Identifier: Apache-2.0
"""Fusions from Python: a family and a replacement as classes, their errors, and that nothing of a failed plan is left."""

import json
import os
import unittest

import gi

gi.require_version("Json", "1.0")
gi.require_version("Weft", "1.0")
from gi.repository import GLib, GObject, Json, Weft  # noqa: E402

MODEL = os.path.join(os.environ["MODELS"], "llama")
JOIN = '[{"type": "Concatenate", "dim": 0}]'


class Family(Weft.ModuleFusionSpecBase):
    """Joins keys and values; `fault` names what goes wrong in the second layer."""

    __gtype_name__ = "TestFamily"
    fault = GObject.Property(type=str, default="", blurb="What goes wrong")

    def do_is_fusable(self, module):
        if self.fault == "is_fusable" and "layers.1" in module.get_fqn():
            raise ValueError("cannot tell a key from a value")
        return bool(module.find_tensor("k_proj.weight") and module.find_tensor("v_proj.weight"))

    def do_make_fused_class(self, class_name):
        if self.fault == "make_fused_class":
            raise ValueError("no name for it")
        return f"KeyValue{class_name}"

    def do_make_transforms(self, context):
        is_second = "layers.1" in context.get_fqn()
        if self.fault == "nothing" and is_second:
            return None
        rules = Weft.TransformList.new()
        sources = [r"^k_proj\.weight", r"^v_proj\.weight"]
        if self.fault == "list" and is_second:
            return [rules]
        if self.fault == "unknown op" and is_second:
            Weft.fusion_append_converter(rules, sources, [r"^kv_proj\.weight"], '[{"type": "Glue"}]')
        if self.fault == "unreadable config" and is_second:
            context.read_int("no_such_field")
        Weft.fusion_append_converter(rules, sources, [r"^kv_proj\.weight"], JOIN)
        return rules


class Replacement(Weft.ModuleReplacementBase):
    """Takes the place of norms, whose tensors stay."""

    __gtype_name__ = "TestReplacement"
    fault = GObject.Property(type=str, default="", blurb="What goes wrong")

    def do_replace(self, module, fqn, context):
        if self.fault == "replace" and "layers.1" in fqn:
            raise KeyError(fqn)
        if self.fault == "renames" and "layers.1" in fqn:
            copy = module.copy()
            copy.replace_tensor("weight", "scale", module.find_tensor("weight"))
            return copy
        copy = module.copy()
        copy.set_class_name("FastNorm", [module.get_class_name()])
        return copy


Replacement.set_module_types(["LlamaRMSNorm"])

registry = Weft.PluginRegistry.get_default()
registry.register(Weft.FeatureKind.FUSION, "test_kv", Family)
registry.register(Weft.FeatureKind.REPLACEMENT, "FastNorm", Replacement)


def node(value):
    return Json.from_string(json.dumps(value))


class FusionTest(unittest.TestCase):
    def setUp(self):
        tree = Weft.ModuleTree.load(os.path.join(MODEL, "skeleton.json"))
        self.executor = Weft.ReplacementExecutor.new(tree, node({}), "config.json")

    def show(self):
        return [Json.to_string(self.executor.get_tree().to_json(), False), Json.to_string(self.executor.to_json(), False),
                self.executor.list_replaced(), self.executor.get_patch_mapping().list_names()]

    def fuse(self, **options):
        config = node({"test_kv": options or True})
        self.executor.apply(self.executor.compile_fusions(config, "test", Weft.FusionOrigin.ASKED))

    def override(self, **options):
        entry = {"match": "model.layers.*.input_layernorm", "replace_module": {"_target_": "runtime.FastNorm", **options}}
        overrides = Weft.PlanOverrides.new_from_json(node([entry]), "test")
        self.executor.apply(self.executor.compile_overrides(overrides))

    def test_family(self):
        self.fuse()
        module = self.executor.get_tree().find_module("model.layers.1.self_attn")
        self.assertEqual(module.get_class_name(), "KeyValueLlamaAttention")
        self.assertEqual(module.find_tensor("kv_proj.weight").get_shape().to_string(), "(32, 16)")
        self.assertEqual(self.executor.get_transforms().get_n_transforms(), 2)

    def test_replacement(self):
        self.override()
        module = self.executor.get_tree().find_module("model.layers.0.input_layernorm")
        self.assertEqual((module.get_class_name(), module.is_a("LlamaRMSNorm")), ("FastNorm", True))

    def test_errors_leave_nothing(self):
        before = self.show()
        for action, fault, text in (
                (self.fuse, "is_fusable", "runtime/test_kv: ValueError: cannot tell a key from a value"),
                (self.fuse, "make_fused_class", "runtime/test_kv: ValueError: no name for it"),
                (self.fuse, "nothing", "runtime/test_kv: make_transforms returned NULL without an error"),
                (self.fuse, "unknown op", "op 'Glue' is unknown"),
                (self.fuse, "unreadable config", "config.json: 'no_such_field' must be a whole number, found nothing"),
                (self.override, "replace", "runtime/FastNorm: KeyError: 'model.layers.1.input_layernorm'"),
                (self.override, "renames", "'weight' vanishes, and there is no rule that takes it anywhere")):
            with self.subTest(fault=fault):
                with self.assertRaises(GLib.Error) as caught:
                    action(fault=fault)
                self.assertIn(text, caught.exception.message)
                self.assertEqual(self.show(), before)

    def test_load(self):
        weights = Weft.load(os.path.join(MODEL, "original"), module_tree=os.path.join(MODEL, "skeleton.json"), fusion={"test_kv": True})
        self.assertEqual(weights["model.layers.0.self_attn.kv_proj.weight"].shape, (32, 16))
        self.assertNotIn("model.layers.0.self_attn.k_proj.weight", weights)


if __name__ == "__main__":
    unittest.main()
