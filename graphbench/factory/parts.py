"""A training put together from its configuration, for programs that do its steps themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.data.splits import Splits
from graphbench.factory.data import build_splits, encode, read_data
from graphbench.factory.loaders import build_loaders
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.training import build_fabric, build_optimizer
from graphbench.structures import DataInfo, DataLoaders
from graphbench.tasks.task import Task
from graphbench.train.fabric import Fabric
from graphbench.train.seeding import seed_everything


@dataclass(frozen=True)
class Parts:
    """What a training is made of.

    Attributes:
        config: of all of it.
        fabric: launched.
        loaded: the data with encodings.
        splits: of the seed.
        info: what the data look like.
        loaders: of the batches.
        model: with fresh parameters, on the device.
        task: loss and metrics.
        optimizer: of the model's parameters.
    """

    config: Config
    fabric: Fabric
    loaded: LoadedDataset
    splits: Splits
    info: DataInfo
    loaders: DataLoaders
    model: nn.Module
    task: Task
    optimizer: Optimizer


def build_parts(
    config: Config,
    *,
    seed: int = 0,
    read: Callable[[Config], LoadedDataset] = read_data,
    at_most: Mapping[str, int] | None = None,
) -> Parts:
    """Reads the data and builds everything; nothing is written.

    Args:
        config: a loaded configuration.
        seed: of split, batches and parameters.
        read: gives the data, without encodings.
        at_most: examples of each part of the split; None: all.
    """
    fabric = build_fabric(config)
    fabric.launch()
    loaded = encode(config, read(config))
    splits = build_splits(config, loaded, seed)
    if at_most is not None:
        splits = Splits.of(*(rows[: at_most[name]] for name, rows in splits.parts().items()))
    info = loaded.card.info(loaded.store, None if loaded.card.transductive else splits.train)
    loaders = build_loaders(config, loaded, splits, seed, fabric)
    seed_everything(seed)
    model = build_model(config, info).to(fabric.device)
    task, optimizer = build_task(config, info), build_optimizer(config, model)
    return Parts(config, fabric, loaded, splits, info, loaders, model, task, optimizer)
