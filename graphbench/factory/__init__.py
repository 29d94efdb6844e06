"""The only translator from configuration to objects.

Every component is built by :func:`graphbench.registry.construct`: what its own section of the configuration says,
else what the surroundings supply under the parameter's name (the dictionaries in these files), else the constructor's
default. Outside this package and ``config`` nothing reads a configuration.
"""

from graphbench.factory.config_errors import config_errors
from graphbench.factory.data import build_splits, dataset_builder, declared_info, encode, read_data
from graphbench.factory.loaders import build_loaders, check_samplers
from graphbench.factory.model import build_model, layer_names
from graphbench.factory.pretrained import INFERENCE_MODES, Pretrained, adopt_pretrained, load_pretrained
from graphbench.factory.training import (
    build_fabric,
    build_optimizer,
    build_reporters,
    build_schedule,
    build_settings,
    build_task,
)
from graphbench.factory.transforms import batch_transform, build_transforms

__all__ = [
    "INFERENCE_MODES",
    "Pretrained",
    "adopt_pretrained",
    "batch_transform",
    "build_fabric",
    "build_loaders",
    "build_model",
    "build_optimizer",
    "build_reporters",
    "build_schedule",
    "build_settings",
    "build_splits",
    "build_task",
    "build_transforms",
    "check_samplers",
    "config_errors",
    "dataset_builder",
    "declared_info",
    "encode",
    "layer_names",
    "load_pretrained",
    "read_data",
]
