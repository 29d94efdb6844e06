"""A training put together from its configuration, for runs and for programs that do its steps themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn
from torch.optim import Optimizer

from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.data.splits import Splits
from graphbench.factory.data import build_splits, read_data
from graphbench.factory.loaders import build_loaders
from graphbench.factory.model import build_model
from graphbench.factory.pretrained import Pretrained, load_pretrained
from graphbench.factory.split_data import data_of_split, shared_data
from graphbench.factory.task import build_task
from graphbench.factory.training import build_fabric, build_optimizer
from graphbench.structures import DataInfo, DataLoaders
from graphbench.tasks.task import Task
from graphbench.train.fabric import Fabric
from graphbench.train.seeding import seed_everything


@dataclass(frozen=True)
class Parts:
    """Parts of a training.

    Attributes:
        config: configuration of the training.
        fabric: launched.
        loaded: the data with encodings.
        splits: splits of the seed.
        info: facts about the data.
        model: model with fresh parameters, or those of a pretrained run.
        task: loss and metrics.
        optimizer: optimizer of the model's parameters.
        loaders: loaders of the batches.
        pretrained: source of the parameters; None: they are fresh.
    """

    config: Config
    fabric: Fabric
    loaded: LoadedDataset
    splits: Splits
    info: DataInfo
    model: nn.Module
    task: Task
    optimizer: Optimizer
    loaders: DataLoaders
    pretrained: Pretrained | None


def build_parts(
    config: Config,
    *,
    seed: int = 0,
    read: Callable[[Config], LoadedDataset] = read_data,
) -> Parts:
    """Reads the data and builds everything, the model on the device; nothing is written.

    Args:
        config: a loaded configuration.
        seed: seed of split, batches and parameters.
        read: function that gives the data, without encodings.
    """
    fabric = build_fabric(config)
    fabric.launch()
    loaded = shared_data(config, read(config))
    return assemble(config, fabric, loaded, build_splits(config, loaded, seed), seed)


def assemble(
    config: Config,
    fabric: Fabric,
    loaded: LoadedDataset,
    splits: Splits,
    seed: int,
    *,
    run_id: int | None = None,
    progress: Callable[[str], None] | None = None,
) -> Parts:
    """Parts of a training, made from the data; what takes longest, the batches, comes last.

    Args:
        config: configuration of the training.
        fabric: launched.
        loaded: data from :func:`~graphbench.factory.split_data.shared_data`.
        splits: splits of the seed.
        seed: seed of batches and parameters.
        run_id: run below ``pretrained.dir`` that the model starts from; None: fresh parameters in any case.
        progress: called with a line of text before encodings of a split are computed.
    """
    loaded = data_of_split(config, loaded, splits, progress)
    info = loaded.card.info(loaded.store, splits.train)
    seed_everything(seed)
    model = build_model(config, info)
    pretrained = None if run_id is None else load_pretrained(config, model, run_id)
    fabric.place(model)  # before the optimiser: states that begin with it are of the parameters' type and device
    task, optimizer = build_task(config, info), build_optimizer(config, model)
    loaders = build_loaders(config, loaded, splits, seed, fabric)
    return Parts(config, fabric, loaded, splits, info, model, task, optimizer, loaders, pretrained)
