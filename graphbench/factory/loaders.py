"""From configuration to the loaders of the training loop."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from graphbench import registry
from graphbench.blockwise.model import BlockwiseModel
from graphbench.blockwise.stored import StoredBlocks
from graphbench.config import Config
from graphbench.contract import ReadsTargets
from graphbench.data.builder import LoadedDataset
from graphbench.data.large.clusters import Clusters
from graphbench.data.large.loader import SamplingLoader
from graphbench.data.large.neighbor_loader import NeighborLoader
from graphbench.data.large.pair_loader import PairLoader
from graphbench.data.large.partition_loader import ClusterLoader, PartitionLoader
from graphbench.data.large.saint_loader import SaintLoader
from graphbench.data.large.seed_loader import SeedLoader
from graphbench.data.loading.loader import GraphLoaders
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import UserError
from graphbench.factory.config_errors import config_errors
from graphbench.factory.model import build_model
from graphbench.factory.task import build_task
from graphbench.factory.transforms import batch_transform
from graphbench.models.contract import EncodedModel, Model
from graphbench.structures import DataInfo, DataLoaders
from graphbench.structures.known_targets import KNOWN

if TYPE_CHECKING:
    from graphbench.train.fabric import Fabric


def check_samplers(config: Config, info: DataInfo, model: Model) -> None:
    """Refuses ``train.sampler`` and ``val.sampler`` that do not fit each other or the model; needs no data.

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
            "set train.sampler to one that cuts them, e.g. random_node or neighbor."
        )
    if info.task != "link_pred" and evaluation == "neighbor":
        raise UserError(f"{config.where('val.sampler')}: val.sampler neighbor is for link tasks; use blocks.")
    if info.task == "link_pred" and not {train, evaluation} <= {"full_batch", "neighbor"}:
        raise UserError(
            f"{config.where('train.sampler')}: in link tasks train.sampler and val.sampler are full_batch or neighbor; "
            f"received {train} and {evaluation}."
        )
    if train != "full_batch" and batch_transform(config) is not None:
        raise UserError(
            f"{config.where('dataset.distances')}: dataset.distances batch measures whole graphs, and train.sampler "
            f"{train} cuts them; set train.sampler to full_batch."
        )
    if train.startswith("saint") and config.tree.train.sample_coverage:
        obstacle = build_task(config, info).weight_obstacle()
        if obstacle is not None:
            raise UserError(
                f"{config.where('train.sample_coverage')}: GraphSAINT's normalisation weights the loss of every node, "
                f"and {obstacle}; set train.sample_coverage to 0, or model.loss_fun to another loss."
            )
    if evaluation == "blocks":
        if not isinstance(model, BlockwiseModel):
            raise UserError(
                f"{config.where('val.sampler')}: model.type {config.tree.model.type} cannot be evaluated block by "
                f"block; set val.sampler to full_batch or random_node ({_names_of_blockwise()} can)."
            )
        with config_errors(config, "val.sampler"):
            _check_blockwise(build_model(config, info))


def _names_of_blockwise() -> str:
    able = [component for component in registry.components("models") if issubclass(component, BlockwiseModel)]
    return ", ".join(component.registered_name for component in able)


def _check_blockwise(model: Model) -> None:
    """Compares a model block by block with its forward pass on a few nodes, before anything is trained.

    Layers that read more than the edges into a node give other numbers here. Encoders are replaced by random columns,
    because their inputs are not known without data; models that have no encoders are not compared.

    Raises:
        ValueError: the model cannot be evaluated in blocks.
    """
    if not isinstance(model, EncodedModel) or not isinstance(model, BlockwiseModel):
        return
    random = np.random.default_rng(0)
    edge_index = np.array([[0, 1, 2, 3, 4, 0, 5], [1, 2, 3, 4, 0, 2, 2]])
    dim = model.encoder.dim
    dim_edge = 0 if model.edge_encoder is None else model.edge_encoder.dim
    x = random.standard_normal((7, dim), dtype=np.float32)
    edge_attr = random.standard_normal((7, dim_edge), dtype=np.float32)
    store = GraphStore.from_arrays([7], [7], edge_index, x=x, edge_attr=edge_attr, y=np.zeros(7), y_level="node")
    model.encoder = NodeEncoder(None, {}, dim, False, batch_encoders=model.encoder.batch_encoders)
    if model.edge_encoder is not None:
        model.edge_encoder = EdgeEncoder(None, {}, dim_edge, False)
    model.eval()
    with torch.no_grad():
        blockwise = model.forward_blockwise(StoredBlocks(store, max_nodes=2))
        expected = model(store.gather([0]))
    if not torch.allclose(blockwise, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max())):
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
        fabric: device of the batches, number of processes and rank of this one.
    """
    loaded = _with_known_targets(config, loaded, splits)
    train = config.tree.train
    sampler = train.sampler
    process: dict[str, Any] = {
        "seed": seed,
        "device": fabric.device,
        "rank": fabric.global_rank,
        "world_size": fabric.world_size,
    }
    if sampler == "full_batch":
        keys = ("dataset.resample_negative", "train.node_budget", "train.batching", "train.resident")
        filled = {"node_budget": "train.node_budget", "eval_node_budget": "val.node_budget"}
        with config_errors(config, *keys, "train.batch_size", "dataset.split", filled=filled):
            return GraphLoaders(
                loaded.store,
                splits,
                batch_size=train.batch_size,
                batching=train.batching,
                node_budget=train.node_budget,
                eval_node_budget=config.tree.val.node_budget,
                resident=train.resident,
                transductive=loaded.card.transductive,
                hide_edges=loaded.card.task == "link_pred",
                resample_negatives=config.tree.dataset.resample_negative,
                batch_transform=batch_transform(config),
                **process,
            )
    return _large_loader(config, loaded.store, splits, process)


def _large_loader(config: Config, store: GraphStore, splits: Splits, process: dict[str, Any]) -> SamplingLoader:
    train = config.tree.train
    options = {
        **process,
        "parts": train.train_parts,
        "evaluation": config.tree.val.sampler,
        "blocks": lambda incoming: StoredBlocks(store, incoming=incoming, device=process["device"]),
    }
    keys = ("train.sampler", "train.train_parts", "train.neighbor_sizes", "train.clustering", "val.sampler")
    with config_errors(config, *keys):
        if store.y_level == "pair" and train.sampler == "neighbor":
            return PairLoader(store, splits, sizes=train.neighbor_sizes, batch_size=train.batch_size, **options)
        if "cluster" in (train.sampler, config.tree.val.sampler):
            ends, seed = store.edge_index, process["seed"]
            found = Clusters.of(ends, store.num_nodes, train.train_parts, method=train.clustering, seed=seed)
            options["clusters"] = found
        if train.sampler == "random_node":
            return PartitionLoader(store, splits, **options)
        if train.sampler == "cluster":
            return ClusterLoader(store, splits, batch_size=train.batch_size, **options)
        if train.sampler == "neighbor":
            return NeighborLoader(store, splits, sizes=train.neighbor_sizes, batch_size=train.batch_size, **options)
        if train.sampler == "seeds":
            return SeedLoader(store, splits, batch_size=train.batch_size, **options)
        return SaintLoader(
            store,
            splits,
            sampler=train.sampler,
            batch_size=train.batch_size,
            walk_length=train.walk_length,
            iterations=train.iter_per_epoch,
            coverage=train.sample_coverage,
            **options,
        )


def _with_known_targets(config: Config, loaded: LoadedDataset, splits: Splits) -> LoadedDataset:
    """The data, with a column that names the training nodes where the model reads their targets."""
    store, model = loaded.store, registry.lookup("models", config.tree.model.type)
    if not (issubclass(model, ReadsTargets) and loaded.card.transductive and store.y_level == "node"):
        return loaded
    known = torch.zeros(store.num_nodes, dtype=torch.bool)
    known[splits.train] = True
    return replace(loaded, store=store.replace(pe={**store.pe, KNOWN: known}))
