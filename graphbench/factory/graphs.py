"""Graphs of users as the models of a configuration read them, without a data set around them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphbench.config import Config
from graphbench.data.graph_forms import graph_list
from graphbench.data.graph_records import GraphLike, GraphRecord, level_of, targets_of_type
from graphbench.data.sparse_features import with_sparse_features
from graphbench.data.store import GraphStore
from graphbench.errors import UserError
from graphbench.factory.transforms import batch_transform, build_transforms
from graphbench.structures import GraphBatch
from graphbench.transforms.algorithms.cache import apply


def batch_of(config: Config, graphs: Any) -> GraphBatch:
    """The batch of some graphs, with the encodings that the model of a configuration reads.

    What ``collate_fn`` of a data loader can call. Encodings are computed anew with every call; batches of a whole data
    set come from ``graphbench.encode(config, graphbench.read_data(config)).store.gather``, which has them.

    Args:
        config: a loaded configuration.
        graphs: a PyTorch Geometric ``Batch``, or what :func:`~graphbench.data.graph_forms.graph_list` takes (``Data``
            objects, dicts of tensors, ...); targets ``y`` may be missing.

    Raises:
        UserError: they are no graphs, or do not fit each other.
    """
    from torch_geometric.data import Batch  # a second, and only who has such graphs needs it

    if not isinstance(config, Config):
        raise TypeError(f"batch_of takes what load_config returns, received {type(config).__name__}")
    graphs, dataset = graphs.to_data_list() if isinstance(graphs, Batch) else graphs, config.tree.dataset
    store = store_of(graphs, dataset.task)
    if store.y is not None:
        store = store.replace(y=targets_of_type(store.y, dataset.task_type))
    store = encode_store(config, store)
    return gather(config, store, range(store.num_graphs))


def store_of(graphs: Any, task: str = "graph", *, targets: bool = True, what: str = "graphs") -> GraphStore:
    """A store of graphs, without encodings.

    Args:
        graphs: see :func:`~graphbench.data.graph_forms.graph_list`.
        task: what targets are of (``dataset.task``).
        targets: False: leave out all but nodes, edges and their features.
        what: beginning of messages.

    Raises:
        UserError: they are no graphs, or do not fit each other.
    """
    try:
        listed = graph_list(graphs)
        listed = listed if targets else list(map(_without_targets, listed))
        return GraphStore.from_graphs(listed, level_of(task))
    except (TypeError, ValueError, RuntimeError) as error:
        raise UserError(f"{what}: {error}.") from error


def _without_targets(graph: GraphLike) -> GraphRecord:
    record = GraphRecord.of(graph)
    return replace(record, y=None, edge_label=None, num_nodes=record.count_nodes("node"))


def encode_store(config: Config, store: GraphStore) -> GraphStore:
    """The store with features and encodings as the model reads them, computed anew."""
    store = with_sparse_features(store, config.tree.dataset.sparse_features)
    with tempfile.TemporaryDirectory() as cache:
        return apply(store, build_transforms(config), cache)


def gather(config: Config, store: GraphStore, graphs: Sequence[int]) -> GraphBatch:
    """A batch of encoded graphs by their numbers, with what is computed for every batch (``dataset.distances``)."""
    batch = store.gather(graphs)
    per_batch = batch_transform(config)
    return batch if per_batch is None else per_batch(batch)
