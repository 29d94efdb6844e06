"""A small batch with the columns, categories and targets that a data set's facts promise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.structures import DataInfo, GraphBatch

SIZES = [7, 1, 12, 5]


def batch_like(info: DataInfo, transforms: Mapping[str, Any]) -> GraphBatch:
    """Four graphs (one for a transductive task is as good as four) with features and targets as ``info`` says."""
    edges = [_ring(n) for n in SIZES]
    num_edges = sum(each.shape[1] for each in edges)
    num_nodes = sum(SIZES)
    rows = len(SIZES) if info.task == "graph" else num_nodes
    store = GraphStore.from_arrays(
        SIZES,
        [each.shape[1] for each in edges],
        torch.cat(edges, dim=1),
        x=_features(num_nodes, info.node_in, info.vocabularies.get("node")),
        edge_attr=_features(num_edges, info.edge_in, info.vocabularies.get("edge")),
        y=_targets(rows, info),
        y_level="graph" if info.task == "graph" else "node",
    )
    encoded = {f"{name}.{key}": v for name, transform in transforms.items() for key, v in transform(store).items()}
    return store.with_encodings(pe=encoded).gather(range(len(SIZES)))


def _ring(n: int) -> Tensor:
    if n == 1:
        return torch.empty(2, 0, dtype=torch.int64)
    node = torch.arange(n)
    return torch.cat([torch.stack([node, (node + 1) % n]), torch.stack([(node + 1) % n, node])], dim=1)


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
    return torch.arange(rows) % max(info.out_dim, 2)
