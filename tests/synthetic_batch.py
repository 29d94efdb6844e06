"""A small batch with the columns, categories and targets that a data set's facts promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from graphbench.data.store import GraphStore, StoredEdges
from graphbench.structures import DataInfo, GraphBatch
from graphbench.transforms.algorithms.cache import apply

SIZES = [7, 1, 12, 5]


def batch_like(info: DataInfo, transforms: Mapping[str, Any], cache_dir: Path) -> GraphBatch:
    """Four graphs (one for a transductive task is as good as four) with features and targets as ``info`` says."""
    return store_like(info, transforms, cache_dir, SIZES).gather(range(len(SIZES)))


def store_like(
    info: DataInfo, transforms: Mapping[str, Any], cache_dir: Path, sizes: Sequence[int], rings: int | None = None
) -> GraphStore:
    """Graphs of the given sizes with features, targets and encodings as ``info`` and ``transforms`` say.

    Args:
        info: facts of a data set.
        transforms: of the encoders.
        cache_dir: of the transforms.
        sizes: nodes per graph.
        rings: None for one ring per graph; else a chain closed to a ring of six after every so many nodes, as in
            molecules.
    """
    edges = [_ring(n) if rings is None else _molecule(n, rings) for n in sizes]
    counts = [each.shape[1] for each in edges]
    index = torch.cat(edges, dim=1)
    level = {"graph": "graph", "node": "node", "link_pred": "pair", "edge": "pair"}[info.task]
    store = GraphStore.from_arrays(
        sizes,
        counts,
        index,
        x=_features(sum(sizes), info.node_in, info.vocabularies.get("node")),
        edge_attr=_features(sum(counts), info.edge_in, info.vocabularies.get("edge")),
    )
    if level == "pair":  # the edges are as good a question as any
        store = store.replace(edge_sets={"label": StoredEdges(store.edge_ptr, index)})
    rows = {"graph": len(sizes), "node": sum(sizes), "pair": sum(counts)}[level]
    return apply(store.replace(y=_targets(rows, info), y_level=level), transforms, cache_dir)


def _ring(n: int) -> Tensor:
    if n == 1:
        return torch.empty(2, 0, dtype=torch.int64)
    node = torch.arange(n)
    return torch.cat([torch.stack([node, (node + 1) % n]), torch.stack([(node + 1) % n, node])], dim=1)


def _molecule(n: int, rings: int) -> Tensor:
    node, start = torch.arange(n), torch.arange(0, n - 5, rings)
    one = torch.cat([node[:-1], start])
    other = torch.cat([node[1:], start + 5])
    return torch.cat([torch.stack([one, other]), torch.stack([other, one])], dim=1)


def _features(rows: int, columns: int, vocabulary: tuple[int, ...] | None) -> Tensor | None:
    if not columns:
        return None
    if vocabulary:
        return torch.stack([torch.randint(size, (rows,)) for size in vocabulary], dim=1)
    return torch.rand(rows, columns)


def _targets(rows: int, info: DataInfo) -> Tensor:
    if info.task_type == "regression":
        return torch.randn(rows, info.out_dim)
    if info.task_type == "classification_multilabel":
        return torch.randint(2, (rows, info.out_dim)).float()
    if info.task_type == "subtoken_prediction":
        return torch.randint(info.out_dim, (rows, 5))
    return torch.arange(rows) % max(info.out_dim, 2)
