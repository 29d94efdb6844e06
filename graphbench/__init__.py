"""graphbench: a config-driven benchmark framework for graph transformers.

A few functions are enough to use it from Python; they are imported when they are asked for::

    config = graphbench.load_config("configs/quickstart.yaml", {"optim.max_epoch": 2})
    model = graphbench.build_model(config)
    line = graphbench.run(config)
    loaded = graphbench.encode(config, graphbench.read_data(config))

``graphbench.nn`` has the layers on plain tensors, for models of PyTorch Geometric; ``graphbench.ops`` what they
compute, as functions. docs/python-api.md and docs/layers.md have the examples.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphbench import nn, ops
    from graphbench.config import Config, load_config
    from graphbench.experiment import run
    from graphbench.factory.data import encode, read_data
    from graphbench.factory.graphs import batch_of
    from graphbench.models.contract import Model
    from graphbench.predict import load_run
    from graphbench.structures import DataInfo

# Huge pages for tensors of 2 MiB and more (docs/performance.md); PyTorch reads it before its first allocation.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
# A thread that waits for others computes for milliseconds before it sleeps, and on a shared machine it computes on the
# core that one of them is waiting for (docs/performance.md). OpenMP reads this when PyTorch is imported.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "10000")

__version__ = "0.1.0"
__all__ = ["batch_of", "build_model", "encode", "load_config", "load_run", "nn", "ops", "read_data", "run"]

_HOMES = {
    "load_config": "graphbench.config",
    "run": "graphbench.experiment",
    "load_run": "graphbench.predict",
    "batch_of": "graphbench.factory.graphs",
    "read_data": "graphbench.factory.data",
    "encode": "graphbench.factory.data",
}
_PACKAGES = ("nn", "ops")


def build_model(config: Config, info: DataInfo | None = None) -> Model:
    """The model of a configuration, with fresh parameters.

    Args:
        config: configuration from ``load_config``.
        info: facts about the data; default: what the data set declares, and only where it declares nothing, what
            its data says.

    Returns:
        A module that takes a :class:`~graphbench.structures.GraphBatch`.

    Raises:
        UserError: something in the configuration does not fit, or data is needed and not there.
    """
    from graphbench.factory import model
    from graphbench.factory.data import declared_info, read_data

    if info is None:
        info = declared_info(config)
    if info is None:
        loaded = read_data(config)
        info = loaded.card.info(loaded.store)
    return model.build_model(config, info)


def __getattr__(name: str) -> Any:
    """Imports the home of a function, or a package, when it is asked for first: importing this one costs nothing."""
    if name in _PACKAGES:
        return importlib.import_module(f"graphbench.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = globals()[name] = getattr(importlib.import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """Names that are there only when they are asked for, too."""
    return sorted({*globals(), *__all__})
