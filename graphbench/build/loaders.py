"""From configuration to what the training loop draws batches from."""

from __future__ import annotations

from typing import Any

from lightning_fabric import Fabric
from torch import nn

from graphbench.build.blame import blame
from graphbench.config import Config
from graphbench.data.family import LoadedDataset
from graphbench.data.large_loader import LargeLoader, NeighborLoader, PartitionLoader
from graphbench.data.loader import Loaders
from graphbench.data.splits import Splits
from graphbench.errors import UserError


def check_samplers(config: Config, model: nn.Module) -> None:
    """Refuses ``train.sampler`` and ``val.sampler`` that do not go together, or with the model; needs no data.

    Raises:
        UserError: naming both.
    """
    train, evaluation = config.tree.train.sampler, config.tree.val.sampler
    if evaluation != "full_batch" and train == "full_batch":
        raise UserError(
            f"{config.where('val.sampler')}: val.sampler {evaluation} is for graphs that are cut in training as well; "
            "set train.sampler to random_node or neighbor."
        )
    if evaluation == "blocks" and not hasattr(model, "in_blocks"):
        raise UserError(
            f"{config.where('val.sampler')}: model.type {config.tree.model.type} cannot be evaluated block by block; "
            "set val.sampler to full_batch or random_node (model TwoBranch can)."
        )


def loaders(config: Config, loaded: LoadedDataset, splits: Splits, seed: int, fabric: Fabric) -> Loaders | LargeLoader:
    """The loader that ``train.sampler`` names.

    Args:
        config: a loaded configuration.
        loaded: the data, with encodings.
        splits: of this run.
        seed: of the shuffling, together with the epoch.
        fabric: says on which device batches are wanted, and which share of them is this process's.
    """
    train, sampler = config.tree.train, config.tree.train.sampler
    place: dict[str, Any] = {
        "seed": seed,
        "device": fabric.device,
        "rank": fabric.global_rank,
        "world_size": fabric.world_size,
    }
    if sampler == "full_batch":
        keys = ("dataset.resample_negative", "train.node_budget", "train.batching", "train.resident")
        with blame(config, *keys, "train.batch_size", "dataset.split"):
            return Loaders(
                loaded.store,
                splits,
                batch_size=train.batch_size,
                batching=train.batching,
                node_budget=train.node_budget,
                resident=train.resident,
                transductive=loaded.card.transductive,
                hide_edges=loaded.card.task == "link_pred",
                resample_negatives=config.tree.dataset.resample_negative,
                **place,
            )
    place |= {"parts": train.train_parts, "evaluation": config.tree.val.sampler}
    with blame(config, "train.sampler", "train.train_parts", "train.neighbor_sizes", "val.sampler"):
        if sampler == "random_node":
            return PartitionLoader(loaded.store, splits, **place)
        return NeighborLoader(loaded.store, splits, sizes=train.neighbor_sizes, batch_size=train.batch_size, **place)
