"""Single graphs, as files and users give them, and their concatenation, as a store holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, overload, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store_tensors import Level
from graphbench.structures import Features, SparseRows


@runtime_checkable
class GraphObject(Protocol):
    """An object with the attributes of ``torch_geometric.data.Data``, of which ``edge_index`` has to be there."""

    edge_index: Any


@dataclass(frozen=True, eq=False)
class GraphRecord:
    """One graph.

    Attributes:
        edge_index: (2, E) source and target of every directed edge, None for a graph without edges.
        x: (n, F) node features, dense or sparse.
        edge_attr: (E, D) edge features.
        y: targets of the graph, or one row per node.
        num_nodes: n, where no other field has a row per node.
        edge_label_index: (2, P) pairs of nodes that are asked about.
        edge_label: (P,) or (P, T) their targets.
    """

    edge_index: Any = None
    x: Any = None
    edge_attr: Any = None
    y: Any = None
    num_nodes: int | None = None
    edge_label_index: Any = None
    edge_label: Any = None

    @classmethod
    def of(cls, graph: GraphLike) -> GraphRecord:
        """A graph in any form that is accepted."""
        if isinstance(graph, GraphRecord):
            return graph
        return cls(**{name: read_field(graph, name) for name in _FIELDS})

    def count_nodes(self, y_level: str) -> int | None:
        """n, None where no field tells."""
        if self.x is not None:
            return len(self.x)
        if self.num_nodes is not None:
            return int(self.num_nodes)
        return len(self.y) if y_level == "node" and self.y is not None else None


GraphLike = GraphRecord | Mapping[str, Any] | GraphObject
"""Graphs that :func:`concatenated` accepts: our records, dicts of tensors, PyG's ``Data``."""

_FEATURES = ("x", "edge_attr", "y")
_FIELDS = ("edge_index", *_FEATURES, "num_nodes", "edge_label_index", "edge_label")


def level_of(task: str) -> Level:
    """Level that has the targets in a task (``vocabulary.TASKS``)."""
    return "graph" if task == "graph" else "node" if task == "node" else "pair"


def targets_of_type(y: Tensor, task_type: str) -> Tensor:
    """Targets in the form of their task: (R, T) float32 of numbers and labels, else (R,) where there is one column."""
    if task_type in ("regression", "classification_multilabel"):
        y = y.to(torch.float32)
        return y.unsqueeze(1) if y.dim() == 1 else y
    return y.squeeze(1) if y.dim() == 2 and y.shape[1] == 1 else y


def read_field(graph: GraphLike, name: str) -> Any:
    """One field of a graph, None where it has no such field."""
    return graph.get(name) if isinstance(graph, Mapping) else getattr(graph, name, None)


def concatenated(graphs: Sequence[GraphLike], y_level: str) -> dict[str, Any]:
    """The arguments of :meth:`~graphbench.data.store.GraphStore.from_arrays` that describe some graphs.

    Args:
        graphs: see :class:`GraphRecord`.
        y_level: ``graph``, ``node`` or ``pair``: targets are :func:`asked_pairs`'.

    Raises:
        ValueError: a field is present in some graphs only, or the number of nodes cannot be known.
    """
    records = [GraphRecord.of(graph) for graph in graphs]
    fields = _FEATURES if y_level != "pair" else ("x", "edge_attr")
    _check_present(records, fields)
    edges = [_edges(record.edge_index, number) for number, record in enumerate(records)]
    sizes = [record.count_nodes(y_level) for record in records]
    if None in sizes:
        raise ValueError(
            f"graph {sizes.index(None)} has neither 'x' nor 'num_nodes': its number of nodes cannot be known"
        )
    present = [name for name in fields if records and getattr(records[0], name) is not None]
    return {
        "nodes": sizes,
        "edges": [edge_index.shape[1] for edge_index in edges],
        "edge_index": torch.cat(edges, dim=1) if edges else torch.empty(2, 0, dtype=torch.int64),
        **{name: _concatenated_field(records, name, y_level) for name in present},
    }


def asked_pairs(graphs: Sequence[GraphLike]) -> tuple[Tensor, Tensor, Tensor | None] | None:
    """Pairs of nodes that graphs ask about: number per graph (G,), pairs (2, P) and targets (P, ...).

    Returns:
        None where no graph has ``edge_label_index``; targets None where none has ``edge_label``.

    Raises:
        ValueError: some graphs have them, or numbers of pairs and targets differ.
    """
    records = [GraphRecord.of(graph) for graph in graphs]
    _check_present(records, ("edge_label_index", "edge_label"))
    if not records or records[0].edge_label_index is None:
        return None
    pairs = [_edges(record.edge_label_index, number, "edge_label_index") for number, record in enumerate(records)]
    counts = torch.tensor([each.shape[1] for each in pairs])
    if records[0].edge_label is None:
        return counts, torch.cat(pairs, dim=1), None
    targets = [_tensor(record.edge_label, "edge_label", number) for number, record in enumerate(records)]
    for number, (asked, target) in enumerate(zip(pairs, targets, strict=True)):
        if target.dim() == 0 or len(target) != asked.shape[1]:
            raise ValueError(
                f"graph {number} has {asked.shape[1]} pairs (edge_label_index) and 'edge_label' of shape "
                f"{tuple(target.shape)}"
            )
    return counts, torch.cat(pairs, dim=1), torch.cat(targets)


def _check_present(records: Sequence[GraphRecord], fields: Sequence[str]) -> None:
    for name in fields:
        missing = [number for number, record in enumerate(records) if getattr(record, name) is None]
        if missing and len(missing) < len(records):
            raise ValueError(f"'{name}' is missing in {len(missing)} of {len(records)} graphs, first in {missing[0]}")


@overload
def columns(values: np.ndarray | Tensor) -> Tensor: ...


@overload
def columns(values: np.ndarray | Features) -> Features: ...


def columns(values: np.ndarray | Features) -> Features:
    """(R, C), one column where there is one dimension."""
    if isinstance(values, SparseRows):
        return values
    tensor = torch.as_tensor(values)
    return (tensor.unsqueeze(1) if tensor.dim() == 1 else tensor).contiguous()


def _concatenated_field(records: Sequence[GraphRecord], name: str, y_level: str) -> Features:
    values = [_tensor(getattr(record, name), name, number) for number, record in enumerate(records)]
    if name == "y":
        return torch.cat(values) if y_level == "node" else _graph_targets(values)
    widths = [value.shape[1] if value.dim() > 1 else 1 for value in values]
    other = next((number for number, width in enumerate(widths) if width != widths[0]), None)
    if other is not None:
        raise ValueError(f"'{name}' has {widths[0]} columns in graph 0 and {widths[other]} in graph {other}")
    if name == "x" and any(value.layout != torch.strided for value in values):
        return SparseRows.cat([SparseRows.of(value) for value in values])
    joined = torch.cat([columns(value) for value in values])
    if joined.is_complex():
        raise ValueError(f"'{name}' holds complex numbers; write real and imaginary parts as columns")
    if not bool(torch.isfinite(joined).all()):
        number = next(number for number, value in enumerate(values) if not bool(torch.isfinite(value).all()))
        count = int((~torch.isfinite(values[number])).sum())
        raise ValueError(f"'{name}' of graph {number} has {count} values that are nan or infinite")
    return joined


def _tensor(value: Any, name: str, number: int) -> Tensor:
    """The values alone: a store holds data, also of features that are another model's outputs and ask for gradients."""
    try:
        return torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:  # texts, ragged lists
        raise ValueError(
            f"'{name}' of graph {number} cannot be made a tensor: {error}; write numbers, of classes 0, 1, ..."
        ) from error


def _edges(edge_index: Any, number: int, name: str = "edge_index") -> Tensor:
    if edge_index is None:
        return torch.empty(2, 0, dtype=torch.int64)
    given = torch.as_tensor(edge_index)
    tensor = given.to(torch.int64)
    if given.dtype == torch.bool or (given.is_floating_point() and not bool((given == tensor).all())):
        received = "true and false" if given.dtype == torch.bool else "fractions"
        raise ValueError(f"{name} of graph {number} must hold whole numbers, received {received}")
    if tensor.dim() != 2 or tensor.shape[0] != 2:
        raise ValueError(f"{name} of graph {number} must have shape (2, edges), received {tuple(tensor.shape)}")
    return tensor


def _graph_targets(values: list[Tensor]) -> Tensor:
    """One row per graph; (G,) for integers, which are classes."""
    other = next((number for number, value in enumerate(values) if value.numel() != values[0].numel()), None)
    if other is not None:
        raise ValueError(f"'y' has {values[0].numel()} values in graph 0 and {values[other].numel()} in graph {other}")
    rows = torch.stack([value.reshape(-1) for value in values])
    return rows.squeeze(1) if rows.shape[1] == 1 and not rows.is_floating_point() else rows
