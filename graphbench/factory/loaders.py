"""From configuration to what the training loop draws batches from."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from graphbench.blockwise.model import BlockwiseModel
from graphbench.blockwise.stored import StoredBlocks
from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.data.large.loader import NeighborLoader, PartitionLoader
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import UserError
from graphbench.factory.config_errors import config_errors
from graphbench.factory.model import build_model
from graphbench.factory.transforms import batch_transform
from graphbench.structures import DataInfo, DataLoaders

if TYPE_CHECKING:
    from lightning_fabric import Fabric


def check_samplers(config: Config, info: DataInfo, model: nn.Module) -> None:
    """Refuses ``train.sampler`` and ``val.sampler`` that do not go together, or with the model; needs no data.

    Args:
        config: a loaded configuration.
        info: facts of the data.
        model: of the configuration; its parameters need no values.

    Raises:
        UserError: naming both.
    """
    train, evaluation = config.tree.train.sampler, config.tree.val.sampler
    if evaluation != "full_batch" and train == "full_batch":
        raise UserError(
            f"{config.where('val.sampler')}: val.sampler {evaluation} is for graphs that are cut in training as well; "
            "set train.sampler to random_node or neighbor."
        )
    if train != "full_batch" and batch_transform(config) is not None:
        raise UserError(
            f"{config.where('dataset.distances')}: dataset.distances batch measures whole graphs, and train.sampler "
            f"{train} cuts them; set train.sampler to full_batch."
        )
    if evaluation == "blocks":
        if not isinstance(model, BlockwiseModel):
            raise UserError(
                f"{config.where('val.sampler')}: model.type {config.tree.model.type} cannot be evaluated block by "
                "block; set val.sampler to full_batch or random_node (the models gnn, GPSModel and TwoBranch can)."
            )
        with config_errors(config, "val.sampler"):
            _try_blocks(build_model(config, info))


def _try_blocks(model: nn.Module) -> None:
    """Compares a model block by block with its forward pass on a few nodes, so that nobody trains for hours in vain.

    Whatever reads further than it may gives other numbers here, also where it does not say so. Encoders are replaced
    by random columns: what they need is not known without data.

    Raises:
        ValueError: a part of the model cannot work in blocks.
    """
    tried: Any = copy.deepcopy(model).cpu()
    encoders = getattr(tried, "encoder", None), getattr(tried, "edge_encoder", None)
    if not isinstance(encoders[0], NodeEncoder):
        return  # a plug-in's own way to read features
    if encoders[0].contextual:
        name = next(iter(encoders[0].contextual))
        raise ValueError(f"{name} leaves something with the whole graph for the layers. Use val.sampler full_batch")
    random = np.random.default_rng(0)
    edge_index = np.array([[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 2, 2]])
    columns = [getattr(each, "dim", 0) for each in encoders]
    nodes, edges = (random.standard_normal(shape, dtype=np.float32) for shape in zip((7, 7), columns))
    store = GraphStore.from_arrays([7], [7], edge_index, x=nodes, edge_attr=edges, y=np.zeros(7), y_level="node")
    tried.encoder = NodeEncoder(None, {}, columns[0], False)
    if encoders[1] is not None:
        tried.edge_encoder = EdgeEncoder(None, {}, columns[1], False)
    tried.eval()
    with torch.no_grad():
        found = tried.forward_blockwise(StoredBlocks(store, max_nodes=2))
        expected = tried(store.gather([0]))
    if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())):
        raise ValueError(
            "block by block the layers give other predictions than for the whole graph: one of them reads further "
            "than along the incoming edges of a node. Use val.sampler full_batch"
        )


def build_loaders(config: Config, loaded: LoadedDataset, splits: Splits, seed: int, fabric: Fabric) -> DataLoaders:
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
        with config_errors(config, *keys, "train.batch_size", "dataset.split"):
            return GraphLoaders(
                loaded.store,
                splits,
                batch_size=train.batch_size,
                batching=train.batching,
                node_budget=train.node_budget,
                resident=train.resident,
                transductive=loaded.card.transductive,
                hide_edges=loaded.card.task == "link_pred",
                resample_negatives=config.tree.dataset.resample_negative,
                batch_transform=batch_transform(config),
                **place,
            )
    place |= {
        "parts": train.train_parts,
        "evaluation": config.tree.val.sampler,
        "blocks": lambda incoming: StoredBlocks(loaded.store, incoming=incoming, device=fabric.device),
    }
    with config_errors(config, "train.sampler", "train.train_parts", "train.neighbor_sizes", "val.sampler"):
        if sampler == "random_node":
            return PartitionLoader(loaded.store, splits, **place)
        return NeighborLoader(loaded.store, splits, sizes=train.neighbor_sizes, batch_size=train.batch_size, **place)
