"""From configuration to the loaders of one large graph."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from graphbench import registry
from graphbench.blockwise.model import BlockwiseModel
from graphbench.blockwise.stored import StoredBlocks
from graphbench.config import Config
from graphbench.config.schema import SCHEMA
from graphbench.data.builder import LoadedDataset
from graphbench.data.files.roots import Roots
from graphbench.data.large.clusters import Clusters
from graphbench.data.large.context import SamplerContext
from graphbench.data.large.incoming_edges import IncomingEdges
from graphbench.data.large.loader import LargeLoader, LoaderOptions, SamplingLoader
from graphbench.data.large.pair_loader import PairLoader
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


def sampler_class(config: Config, key: str = "train.sampler") -> type[LargeLoader] | None:
    """The sampler that a key names; None for ``full_batch`` and ``blocks``, which sample nothing."""
    name = config.value(key)
    return None if name in SCHEMA[key].extra else registry.lookup(registry.SAMPLERS, name, config.where(key))


def build_large_loader(config: Config, loaded: LoadedDataset, splits: Splits, process: LoaderProcess) -> SamplingLoader:
    """The loader that ``train.sampler`` names, one that samples.

    Args:
        config: a loaded configuration.
        loaded: one graph.
        splits: splits of this run.
        process: process of the training that the batches are for.
    """
    train, store = config.tree.train, loaded.store
    sampler, evaluation = sampler_class(config), sampler_class(config, "val.sampler")
    assert sampler is not None
    options = LoaderOptions(
        process,
        config.tree.val.sampler,
        train.train_parts,
        blocks=partial(_blocks, store, process),
        exact=_exact_evaluation(config, loaded),
    )
    keys = ("train.sampler", "train.train_parts", "train.neighbor_sizes", "train.clustering", "val.sampler")
    with config_errors(config, f"train.{train.sampler}", *keys):
        if store.y_level == "pair":
            sizes, batch_size = train.neighbor_sizes, train.batch_size
            return PairLoader(store, splits, options, sampler=train.sampler, sizes=sizes, batch_size=batch_size)
        if any(each is not None and each.needs_clusters for each in (sampler, evaluation)):
            cache, how = Roots.from_environment(config.tree.dataset.dir).cache, {"method": train.clustering}
            clusters = Clusters.cached(cache, store, train.train_parts, seed=process.seed, **how)
            options = replace(options, clusters=clusters)
        context = SamplerContext(
            store=store,
            splits=splits,
            options=options,
            batch_size=train.batch_size,
            sizes=train.neighbor_sizes,
            walk_length=train.walk_length,
            iterations=train.iter_per_epoch,
            coverage=train.sample_coverage,
        )
        return registry.construct(sampler, config.component_args("train", train.sampler), context)


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
