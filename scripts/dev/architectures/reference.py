# SPDX-License-Identifier: Apache-2.0
"""What the reference has: families, their configs and classes; the same order on every run."""
import importlib
import inspect
import os
import warnings

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
warnings.filterwarnings("ignore")

import torch  # noqa: E402
import transformers  # noqa: E402
from torch import nn  # noqa: E402
from transformers import PreTrainedConfig, PreTrainedModel  # noqa: E402
from transformers.models.auto import auto_factory, configuration_auto  # noqa: E402

import observe  # noqa: E402
import trace  # noqa: E402

LAYER_CLASSES = [
    nn.Linear, nn.Embedding, nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d,
    nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.InstanceNorm1d, nn.InstanceNorm2d, nn.MultiheadAttention, nn.LSTM, nn.GRU, nn.Bilinear, nn.PReLU,
]


def without_tensors():
    """The layers of torch.nn that hold nothing: activations, dropouts, poolings."""
    found = []
    for name, cls in vars(nn).items():
        if inspect.isclass(cls) and issubclass(cls, nn.Module) and cls not in LAYER_CLASSES and cls not in trace.CONTAINERS and cls is not nn.Module:
            if name.startswith(("Transformer", "RNN", "LSTM", "GRU", "Parameter", "Lazy", "SyncBatch", "BatchNorm", "InstanceNorm", "EmbeddingBag", "Adaptive", "Bilinear", "CrossMap", "Container")) and not name.startswith(("AdaptiveAvg", "AdaptiveMax")):
                continue
            found.append(cls)
    return found


def quiet():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    trace.Config = PreTrainedConfig


def start():
    quiet()
    importlib.import_module("transformers.modeling_rope_utils")
    leaves = set(LAYER_CLASSES) | set(without_tensors())
    trace.arm(PreTrainedConfig, PreTrainedModel, auto_factory._BaseAutoModelClass, leaves, observe.observe)


def families():
    """{family folder: [model types]}"""
    found = {}
    for model_type in configuration_auto.CONFIG_MAPPING_NAMES:
        folder = configuration_auto.model_type_to_module_name(model_type)
        found.setdefault(folder, []).append(model_type)
    return dict(sorted(found.items()))


def modeling_modules(folder):
    package = os.path.join(os.path.dirname(transformers.__file__), "models", folder)
    names = sorted(n[:-3] for n in os.listdir(package) if n.startswith("modeling_") and n.endswith(".py")) if os.path.isdir(package) else []
    names = [n for n in names if not n.startswith(("modeling_tf_", "modeling_flax_"))]
    found = [importlib.import_module(f"transformers.models.{folder}.{n}") for n in names]
    for module in found:
        if hasattr(module, "get_sinusoid_encoding_table"):  # a loop over each number of the table, which is no tensor of the model
            module.get_sinusoid_encoding_table = lambda n_position, d_hid: torch.empty(1, n_position, d_hid)
    return found


def configuration_classes(folder):
    package = os.path.join(os.path.dirname(transformers.__file__), "models", folder)
    found = {}
    if os.path.isdir(package):
        for n in sorted(os.listdir(package)):
            if n.startswith("configuration_") and n.endswith(".py"):
                module = importlib.import_module(f"transformers.models.{folder}.{n[:-3]}")
                for name, cls in vars(module).items():
                    if inspect.isclass(cls) and issubclass(cls, PreTrainedConfig) and cls.__module__ == module.__name__:
                        found[name] = cls
    return found


def model_classes(folder):
    """[(class, config class)] of all models of a family, base classes first as they stand in the module."""
    found = []
    if not modeling_modules(folder):  # a config that is built with another family's classes
        import family

        for config_class in configuration_classes(folder).values():
            for name in sorted(set(family.auto_of(config_class).values())):
                cls = getattr(transformers, name, None)
                if inspect.isclass(cls) and issubclass(cls, PreTrainedModel):
                    found.append((cls, config_class))
        return found
    for module in modeling_modules(folder):
        for name, cls in vars(module).items():
            if inspect.isclass(cls) and issubclass(cls, PreTrainedModel) and cls.__module__ == module.__name__ and not name.endswith("PreTrainedModel"):
                if getattr(cls, "config_class", None) is not None:
                    found.append((cls, cls.config_class))
    return found
