"""The only translator from configuration to objects.

Every component is built by :func:`graphbench.registry.construct`: what its own section of the configuration says,
else what the surroundings supply under the parameter's name (the dictionaries in these files), else the constructor's
default. Outside this package and ``config`` nothing reads a configuration.
"""

from graphbench.build.blame import blame
from graphbench.build.data import declared_info, encode, family, read_data, splits
from graphbench.build.encoders import measure, transforms
from graphbench.build.loaders import check_samplers, loaders
from graphbench.build.model import layer_names, model
from graphbench.build.pretrained import INFERENCE_MODES, Pretrained, adopt_pretrained, load_pretrained
from graphbench.build.training import fabric, optimizer, reporters, schedule, settings, task

__all__ = [
    "INFERENCE_MODES",
    "Pretrained",
    "adopt_pretrained",
    "blame",
    "check_samplers",
    "declared_info",
    "encode",
    "fabric",
    "family",
    "layer_names",
    "load_pretrained",
    "loaders",
    "measure",
    "model",
    "optimizer",
    "read_data",
    "reporters",
    "schedule",
    "settings",
    "splits",
    "task",
    "transforms",
]
