"""Graphs one by one (PyG ``Data`` objects, dicts of tensors) behind each other, as a store holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphbench.structures import Features, SparseRows

_ROWS = ("x", "edge_attr", "y")


def concatenated(graphs: Sequence[Any], y_level: str) -> dict[str, Any]:
    """The arguments of :meth:`~graphbench.data.store.GraphStore.from_arrays` that describe some graphs.

    Args:
        graphs: each with ``edge_index`` (2, E) and optionally ``x``, ``edge_attr``, ``y``, ``num_nodes``.
        y_level: ``graph`` or ``node``.

    Raises:
        ValueError: a field is present in some graphs only, or the number of nodes cannot be known.
    """
    read = [{name: _get(graph, name) for name in (*_ROWS, "edge_index", "num_nodes")} for graph in graphs]
    for name in _ROWS:
        missing = [i for i, graph in enumerate(read) if graph[name] is None]
        if missing and len(missing) < len(read):
            raise ValueError(f"'{name}' is missing in {len(missing)} of {len(read)} graphs, first in {missing[0]}")
    edge_index = [_edges(graph["edge_index"]) for graph in read]

    def cat(name: str) -> Features:
        values = [torch.as_tensor(graph[name]) for graph in read]
        if name == "x" and any(value.layout != torch.strided for value in values):
            return SparseRows.cat([SparseRows.of(value) for value in values])
        if name != "y":
            return torch.cat([columns(value) for value in values])
        return torch.cat(values) if y_level == "node" else _stack_targets(values)

    return {
        "nodes": [_count_nodes(i, graph, y_level) for i, graph in enumerate(read)],
        "edges": [each.shape[1] for each in edge_index],
        "edge_index": torch.cat(edge_index, dim=1) if read else torch.empty(2, 0, dtype=torch.int64),
        **{name: cat(name) for name in _ROWS if read and read[0][name] is not None},
    }


def columns(values: np.ndarray | Features) -> Features:
    """(R, C), one column where there is one dimension."""
    if isinstance(values, SparseRows):
        return values
    tensor = torch.as_tensor(values)
    return (tensor.unsqueeze(1) if tensor.dim() == 1 else tensor).contiguous()


def _get(graph: Any, name: str) -> Any:
    return graph.get(name) if isinstance(graph, Mapping) else getattr(graph, name, None)


def _edges(edge_index: Any) -> Tensor:
    if edge_index is None:
        return torch.empty(2, 0, dtype=torch.int64)
    tensor = torch.as_tensor(edge_index).to(torch.int64)
    if tensor.dim() != 2 or tensor.shape[0] != 2:
        raise ValueError(f"edge_index must have shape (2, edges), received {tuple(tensor.shape)}")
    return tensor


def _count_nodes(number: int, graph: Mapping[str, Any], y_level: str) -> int:
    if graph["x"] is not None:
        return len(graph["x"])
    if graph["num_nodes"] is not None:
        return int(graph["num_nodes"])
    if y_level == "node" and graph["y"] is not None:
        return len(graph["y"])
    raise ValueError(f"graph {number} has neither 'x' nor 'num_nodes': its number of nodes cannot be known")


def _stack_targets(values: list[Tensor]) -> Tensor:
    rows = torch.stack([value.reshape(-1) for value in values])
    return rows.squeeze(1) if rows.shape[1] == 1 and not rows.is_floating_point() else rows
