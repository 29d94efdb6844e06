"""From configuration to the loaders of one large graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from graphbench.blockwise.model import BlockwiseModel
from graphbench.blockwise.stored import StoredBlocks
from graphbench.config import Config
from graphbench.data.builder import LoadedDataset
from graphbench.data.files.roots import Roots
from graphbench.data.large.clusters import Clusters
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.loader import LoaderOptions, SamplingLoader
from graphbench.data.large.neighbor_loader import NeighborLoader, ShadowLoader
from graphbench.data.large.pair_loader import PairLoader
from graphbench.data.large.partition_loader import ClusterLoader, PartitionLoader
from graphbench.data.large.saint_loader import SaintLoader
from graphbench.data.large.seed_loader import SeedLoader
from graphbench.data.loading.process import LoaderProcess
from graphbench.data.splits import Splits
from graphbench.data.store import GraphStore
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.factory.config_errors import config_errors
from graphbench.factory.layers import model_class
from graphbench.factory.model import build_model
from graphbench.models.contract import EncodedModel, Model

WHOLE = 2**22
"""Nodes and edges up to which an approximate evaluation is measured against a model that needs the graph as a whole."""


def build_large_loader(config: Config, loaded: LoadedDataset, splits: Splits, process: LoaderProcess) -> SamplingLoader:
    """The loader that ``train.sampler`` names, one that cuts the graph.

    Args:
        config: a loaded configuration.
        loaded: one graph.
        splits: splits of this run.
        process: process of the training that the batches are for.
    """
    train, evaluation, store = config.tree.train, config.tree.val.sampler, loaded.store
    options = LoaderOptions(
        process,
        evaluation,
        train.train_parts,
        blocks=partial(_blocks, store, process),
        exact=_exact_evaluation(config, loaded),
    )
    sampled = {"sizes": train.neighbor_sizes, "batch_size": train.batch_size}
    keys = ("train.sampler", "train.train_parts", "train.neighbor_sizes", "train.clustering", "val.sampler")
    with config_errors(config, *keys):
        if store.y_level == "pair":
            return PairLoader(store, splits, options, sampler=train.sampler, **sampled)
        if "cluster" in (train.sampler, evaluation):
            cache, how = Roots.from_environment(config.tree.dataset.dir).cache, {"method": train.clustering}
            clusters = Clusters.cached(cache, store, train.train_parts, seed=process.seed, **how)
            options = replace(options, clusters=clusters)
        if train.sampler == "random_node":
            return PartitionLoader(store, splits, options)
        if train.sampler == "cluster":
            return ClusterLoader(store, splits, options, batch_size=train.batch_size)
        if train.sampler in ("neighbor", "shadow"):
            loader = NeighborLoader if train.sampler == "neighbor" else ShadowLoader
            return loader(store, splits, options, **sampled)
        if train.sampler == "seeds":
            return SeedLoader(store, splits, options, batch_size=train.batch_size)
        return SaintLoader(
            store,
            splits,
            options,
            sampler=train.sampler,
            batch_size=train.batch_size,
            walk_length=train.walk_length,
            iterations=train.iter_per_epoch,
            coverage=train.sample_coverage,
        )


def _blocks(store: GraphStore, process: LoaderProcess, incoming: IncomingEdges) -> StoredBlocks:
    rank, world_size = process.rank, process.world_size
    return StoredBlocks(store, device=process.device, incoming=incoming, rank=rank, world_size=world_size)


def _exact_evaluation(config: Config, loaded: LoadedDataset) -> str | None:
    """Exact evaluation that an approximate one is measured against; None: it is not, or nothing fits."""
    store = loaded.store
    if not config.tree.val.measure_error or config.tree.val.sampler in ("full_batch", "blocks"):
        return None
    if store.y_level == "node" and issubclass(model_class(config), BlockwiseModel):
        try:
            check_blockwise(build_model(config, loaded.card.info(store, None)))
        except ValueError:  # a layer that reads the graph as a whole
            pass
        else:
            return "blocks"
    return "full_batch" if store.num_nodes + store.num_edges <= WHOLE else None


def check_blockwise(model: Model) -> None:
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
