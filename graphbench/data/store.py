"""All graphs of a data set as one set of concatenated tensors plus offsets.

Worked example: a triangle and a single edge::

    node_ptr    [0, 3, 5]        edge_ptr  [0, 6, 8]
    edge_index  [[0, 1, 1, 2, 2, 0, 0, 1],      numbered inside each graph, so that any subset of the graphs
                 [1, 0, 2, 1, 0, 2, 1, 0]]      becomes a batch by adding one offset per graph
    store.gather([1, 0])     the edge first, then the triangle: edges (0,1), (1,0), (2,3), ...

Integers may be stored narrow (uint8 categories, int32 edges); a batch always holds int64.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from graphbench.structures import EdgeSet, GraphBatch, PairBlocks, Ragged

Indices = Sequence[int] | np.ndarray | Tensor


Level = Literal["graph", "node", "pair"]
"""What a row of targets belongs to."""


@dataclass(frozen=True, eq=False)
class StoredEdges:
    """Pairs of nodes of all graphs besides their edges; see :class:`~graphbench.structures.EdgeSet`.

    Attributes:
        ptr: (G+1,) int64, first pair of every graph and the total.
        index: (2, M) integer, numbered from 0 inside each graph, grouped by graph.
        attr: (M, ...) what is known about each pair, or None.
    """

    ptr: Tensor
    index: Tensor
    attr: Tensor | None = None

    def __post_init__(self) -> None:
        """Refuses offsets that do not cover the pairs."""
        total = int(self.ptr[-1])
        if self.index.shape != (2, total) or (self.attr is not None and self.attr.shape[0] != total):
            raise ValueError(
                f"offsets of {total} pairs do not fit an index of shape {tuple(self.index.shape)}"
                + ("" if self.attr is None else f" with {self.attr.shape[0]} attributes")
            )

    @property
    def num_pairs(self) -> int:
        """M."""
        return self.index.shape[1]

    def gather(self, graphs: Tensor, first_node: Tensor) -> EdgeSet:
        """The pairs of some graphs of a batch.

        Args:
            graphs: (B,) int64 graph numbers.
            first_node: (B,) int64, number of the first node of each graph in the batch.
        """
        ptr = _offsets(self.ptr.diff()[graphs])
        rows = _Rows.of(self.ptr, graphs, ptr)
        index = rows.take(self.index, dim=1).to(torch.int64)
        shift = torch.repeat_interleave(first_node, rows.counts, output_size=rows.total)
        return EdgeSet(index + shift, ptr, _take(self.attr, rows))


@dataclass(frozen=True, eq=False)
class GraphStore:
    """G graphs with N nodes and E directed edges in all, on the host. Empty graphs are legal.

    Attributes:
        node_ptr: (G+1,) int64, first node of every graph and the total.
        edge_ptr: (G+1,) int64, first edge of every graph and the total.
        edge_index: (2, E) integer, source and target, numbered from 0 inside each graph, edges grouped by graph.
        x: (N, F) node features, or None.
        edge_attr: (E, D) edge features, or None.
        y: targets, one row per graph, per node or per pair of ``edge_sets["label"]``, or None.
        y_level: what a row of ``y`` belongs to.
        pe: node-wise encodings by name, each (N, ...).
        edge_pe: edge-wise encodings by name, each (E, ...).
        pair_pe: encodings of all pairs by name, each (sum of n_g^2, ...), row-major per graph.
        edge_sets: further pairs of nodes by name.
        pairs: (sum of n_g^2,) uint8 shortest-path distances of all pairs, row-major per graph, or None.
        computed: names of the edge sets that a transform made, which are no part of the data.
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    edge_index: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    y_level: Level = "graph"
    pe: Mapping[str, Tensor] = field(default_factory=dict)
    edge_pe: Mapping[str, Tensor] = field(default_factory=dict)
    pair_pe: Mapping[str, Tensor] = field(default_factory=dict)
    edge_sets: Mapping[str, StoredEdges] = field(default_factory=dict)
    pairs: Tensor | None = None
    computed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuses tensors whose lengths disagree and edges that leave their graph."""
        nodes, edges = int(self.node_ptr[-1]), int(self.edge_ptr[-1])
        rows = {"x": nodes, "edge_attr": edges, "y": self._targets()}
        pairs = int(self.sizes.square().sum())
        rows["pairs"] = pairs
        for name, expected in rows.items():
            value = getattr(self, name)
            if value is not None and value.shape[0] != expected:
                raise ValueError(f"{name} must have {expected} rows, received {value.shape[0]}")
        for group, expected in ((self.pe, nodes), (self.edge_pe, edges), (self.pair_pe, pairs)):
            for name, value in group.items():
                if value.shape[0] != expected:
                    raise ValueError(f"encoding '{name}' must have {expected} rows, received {value.shape[0]}")
        for name, each in self.edge_sets.items():
            if each.ptr.shape != self.node_ptr.shape:
                raise ValueError(
                    f"edge set '{name}' must have one entry per graph ({self.num_graphs}), received {len(each.ptr) - 1}"
                )
        if self.node_ptr.shape != self.edge_ptr.shape or self.edge_index.shape != (2, edges):
            raise ValueError(
                f"offsets {tuple(self.node_ptr.shape)} and {tuple(self.edge_ptr.shape)} and edge_index "
                f"{tuple(self.edge_index.shape)} do not describe the same graphs"
            )

    def _targets(self) -> int:
        """Rows that ``y`` has to have."""
        if self.y_level == "pair":
            if "label" not in self.edge_sets:
                raise ValueError("targets of pairs need the pairs they belong to, edge_sets['label']")
            return self.edge_sets["label"].num_pairs
        return self.num_graphs if self.y_level == "graph" else self.num_nodes

    # ------------------------------------------------------------------ construction

    @classmethod
    def from_arrays(
        cls,
        nodes: Indices,
        edges: Indices,
        edge_index: np.ndarray | Tensor,
        *,
        x: np.ndarray | Tensor | None = None,
        edge_attr: np.ndarray | Tensor | None = None,
        y: np.ndarray | Tensor | None = None,
        y_level: Level = "graph",
    ) -> GraphStore:
        """Builds a store from concatenated arrays and the sizes of the graphs.

        Args:
            nodes: (G,) nodes per graph.
            edges: (G,) directed edges per graph.
            edge_index: (2, E) graph-local source and target, edges grouped by graph.
            x: (N, F) or (N,), optional.
            edge_attr: (E, D) or (E,), optional.
            y: one row per graph or per node, optional.
            y_level: what a row of ``y`` belongs to.

        Raises:
            ValueError: lengths disagree, or an edge names a node its graph does not have.
        """
        sizes, counts = _int64(nodes), _int64(edges)
        index = torch.as_tensor(edge_index)
        if index.numel():
            limit = torch.repeat_interleave(sizes, counts)
            if limit.shape[0] == index.shape[1] and (bool((index >= limit).any()) or int(index.min()) < 0):
                graph = torch.repeat_interleave(torch.arange(len(counts)), counts)
                bad = int(((index >= limit) | (index < 0)).any(0).nonzero()[0])
                raise ValueError(
                    f"graph {int(graph[bad])} has {int(limit[bad])} nodes, but an edge {index[:, bad].tolist()}; "
                    "node numbers count from 0 inside each graph"
                )
        return cls(
            node_ptr=_offsets(sizes),
            edge_ptr=_offsets(counts),
            edge_index=index.to(torch.int32).contiguous(),
            x=_columns(x),
            edge_attr=_columns(edge_attr),
            y=None if y is None else torch.as_tensor(y).contiguous(),
            y_level=y_level,
        )

    @classmethod
    def from_graphs(cls, graphs: Sequence[Any], y_level: Level = "graph") -> GraphStore:
        """Builds a store from single graphs: PyG ``Data`` objects or dicts of tensors with PyG's names.

        Args:
            graphs: each with ``edge_index`` (2, E) and optionally ``x``, ``edge_attr``, ``y``, ``num_nodes``.
            y_level: ``graph``: the ``y`` of a graph is one row of targets, whatever its shape; an integer class
                becomes (G,), floats (G, T). ``node``: one row per node.

        Raises:
            ValueError: a field is present in some graphs only, or the number of nodes cannot be known.
        """
        names = ("x", "edge_attr", "y")
        read = [{name: _get(graph, name) for name in (*names, "edge_index", "num_nodes")} for graph in graphs]
        for name in names:
            missing = [i for i, graph in enumerate(read) if graph[name] is None]
            if missing and len(missing) < len(read):
                raise ValueError(f"'{name}' is missing in {len(missing)} of {len(read)} graphs, first in {missing[0]}")
        edge_index = [_edges(graph["edge_index"]) for graph in read]
        nodes = [_count_nodes(i, graph, y_level) for i, graph in enumerate(read)]

        def cat(name: str) -> Tensor | None:
            if not read or read[0][name] is None:
                return None
            values = [torch.as_tensor(graph[name]) for graph in read]
            if name != "y":
                return torch.cat([_columns(value) for value in values])
            return torch.cat(values) if y_level == "node" else _stack_targets(values)

        return cls.from_arrays(
            nodes,
            [each.shape[1] for each in edge_index],
            torch.cat(edge_index, dim=1) if read else torch.empty(2, 0, dtype=torch.int64),
            x=cat("x"),
            edge_attr=cat("edge_attr"),
            y=cat("y"),
            y_level=y_level,
        )

    def with_encodings(
        self,
        *,
        pe: Mapping[str, Tensor] | None = None,
        edge_pe: Mapping[str, Tensor] | None = None,
        pair_pe: Mapping[str, Tensor] | None = None,
        edge_sets: Mapping[str, StoredEdges] | None = None,
        pairs: Tensor | None = None,
    ) -> GraphStore:
        """The same graphs with further computed numbers; the fingerprint stays the same."""
        added = self.replace(
            pe={**self.pe, **(pe or {})},
            edge_pe={**self.edge_pe, **(edge_pe or {})},
            pair_pe={**self.pair_pe, **(pair_pe or {})},
            edge_sets={**self.edge_sets, **(edge_sets or {})},
            pairs=self.pairs if pairs is None else pairs,
            computed=self.computed | frozenset(edge_sets or ()),
        )
        if "fingerprint" in self.__dict__:
            added.__dict__["fingerprint"] = self.fingerprint
        return added

    def replace(self, **changes: Any) -> GraphStore:
        """A copy with some fields exchanged."""
        return dataclasses.replace(self, **changes)

    # ------------------------------------------------------------------ facts

    @property
    def num_graphs(self) -> int:
        """G, empty graphs included."""
        return self.node_ptr.numel() - 1

    @property
    def num_nodes(self) -> int:
        """N."""
        return int(self.node_ptr[-1])

    @property
    def num_edges(self) -> int:
        """E, directed."""
        return int(self.edge_ptr[-1])

    @cached_property
    def sizes(self) -> Tensor:
        """(G,) int64, nodes per graph."""
        return self.node_ptr.diff()

    @cached_property
    def edge_counts(self) -> Tensor:
        """(G,) int64, directed edges per graph."""
        return self.edge_ptr.diff()

    def max_nodes(self, graphs: Indices | None = None) -> int:
        """Nodes of the largest of the given graphs (default: of all)."""
        sizes = self.sizes if graphs is None else self.sizes[_int64(graphs)]
        return int(sizes.max()) if sizes.numel() else 0

    def degree_histogram(self, graphs: Indices | None = None) -> tuple[int, ...]:
        """Entry d is the number of nodes with d incoming edges, over the given graphs (default: all)."""
        batch = self.gather(range(self.num_graphs) if graphs is None else graphs)
        degree = torch.bincount(batch.edge_index[1], minlength=batch.num_nodes)
        return tuple(torch.bincount(degree).tolist())

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over everything but the encodings: equal for equal content, on any machine."""
        return digest(self.tensors())

    def tensors(self) -> dict[str, Tensor]:
        """The stored graphs as named tensors (encodings left out), for saving. Inverse: :meth:`from_tensors`."""
        named = {"node_ptr": self.node_ptr, "edge_ptr": self.edge_ptr, "edge_index": self.edge_index}
        optional = {"x": self.x, "edge_attr": self.edge_attr, f"y_{self.y_level}": self.y}
        for name, each in self.edge_sets.items():
            if name not in self.computed:
                optional |= {f"{part}.{name}": getattr(each, part) for part in ("ptr", "index", "attr")}
        return named | {name: value for name, value in optional.items() if value is not None}

    @classmethod
    def from_tensors(cls, named: Mapping[str, Tensor]) -> GraphStore:
        """The store that :meth:`tensors` described."""
        level = next((each for each in get_args(Level) if f"y_{each}" in named), "graph")
        fields = {"y" if name.startswith("y_") else name: value for name, value in named.items() if "." not in name}
        edge_sets = {
            name.removeprefix("index."): StoredEdges(
                named[name.replace("index.", "ptr.", 1)], value, named.get(name.replace("index.", "attr.", 1))
            )
            for name, value in named.items()
            if name.startswith("index.")
        }
        return cls(**fields, y_level=level, edge_sets=edge_sets)

    # ------------------------------------------------------------------ batching

    def gather(self, graphs: Indices) -> GraphBatch:
        """The given graphs as one batch, in the given order, repetitions allowed. No loop over graphs.

        Neighbouring graphs (one big graph above all) are cut out as views instead of being copied; nothing may
        write onto a batch.

        Args:
            graphs: graph numbers, 0 .. G-1.

        Raises:
            IndexError: a number is out of range.
        """
        index = _int64(graphs)
        if index.numel() and (int(index.min()) < 0 or int(index.max()) >= self.num_graphs):
            raise IndexError(f"graph numbers must lie in 0 .. {self.num_graphs - 1}, received {_range(index)}")
        ptr = _offsets(self.sizes[index])
        sizes = ptr.diff()
        nodes = _Rows.of(self.node_ptr, index, ptr)
        edges = _Rows.of(self.edge_ptr, index, _offsets(self.edge_counts[index]))
        targets: Tensor | _Rows = index if self.y_level == "graph" else nodes
        if self.y_level == "pair":
            asked = self.edge_sets["label"].ptr
            targets = _Rows.of(asked, index, _offsets(asked.diff()[index]))
        edge_index = edges.take(self.edge_index, dim=1).to(torch.int64)
        if index.numel() > 1:
            edge_index = edge_index + torch.repeat_interleave(ptr[:-1], edges.counts, output_size=edges.total)
        return GraphBatch(
            ragged=Ragged(ptr, tuple(sizes.tolist())),
            edge_index=edge_index,
            x=_take(self.x, nodes),
            edge_attr=_take(self.edge_attr, edges),
            y=_take(self.y, targets),
            pe={name: nodes.take(value) for name, value in self.pe.items()},
            edge_pe={name: edges.take(value) for name, value in self.edge_pe.items()},
            edge_sets={name: each.gather(index, ptr[:-1]) for name, each in self.edge_sets.items()},
            **self._pairs(index, sizes),
        )

    def _pairs(self, graphs: Tensor, sizes: Tensor) -> dict[str, Any]:
        """The fields of a batch that have one row per pair."""
        if self.pairs is None and not self.pair_pe:
            return {}
        rows = _Rows.of(self._pair_ptr, graphs, _offsets(sizes.square()))
        return {
            "pairs": None if self.pairs is None else PairBlocks(rows.take(self.pairs), tuple(sizes.tolist())),
            "pair_pe": {name: rows.take(value) for name, value in self.pair_pe.items()},
        }

    @cached_property
    def _pair_ptr(self) -> Tensor:
        return _offsets(self.sizes.square())


@dataclass(frozen=True)
class _Rows:
    """Rows of a concatenated tensor that belong to some graphs: a slice where they are contiguous."""

    counts: Tensor
    total: int
    span: tuple[int, int] | None
    rows: Tensor | None

    @classmethod
    def of(cls, ptr: Tensor, graphs: Tensor, out_ptr: Tensor) -> _Rows:
        total = int(out_ptr[-1])
        if graphs.numel() == 0:
            return cls(out_ptr.diff(), 0, (0, 0), None)
        first, last = int(graphs[0]), int(graphs[-1])
        if last - first + 1 == graphs.numel() and bool((graphs.diff() == 1).all()):
            return cls(out_ptr.diff(), total, (int(ptr[first]), int(ptr[last + 1])), None)
        counts = out_ptr.diff()
        rows = torch.repeat_interleave(ptr[graphs] - out_ptr[:-1], counts, output_size=total)
        return cls(counts, total, None, rows + torch.arange(total))

    def take(self, tensor: Tensor, dim: int = 0) -> Tensor:
        if self.span is not None:
            return tensor.narrow(dim, self.span[0], self.span[1] - self.span[0])
        assert self.rows is not None
        return tensor.index_select(dim, self.rows)


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, types, shapes and bytes of some tensors."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
        total.update(memoryview(value.reshape(-1).view(torch.uint8).numpy()) if value.numel() else b"")
    return total.hexdigest()


def _take(tensor: Tensor | None, rows: _Rows | Tensor) -> Tensor | None:
    if tensor is None:
        return None
    chosen = rows.take(tensor) if isinstance(rows, _Rows) else tensor.index_select(0, rows)
    narrow = not chosen.is_floating_point() and chosen.dtype not in (torch.int64, torch.bool)
    return chosen.to(torch.int64) if narrow else chosen


def _int64(values: Indices | range) -> Tensor:
    if isinstance(values, range):
        return torch.arange(values.start, values.stop, values.step)
    return torch.as_tensor(values, dtype=torch.int64).reshape(-1)


def _range(index: Tensor) -> str:
    return f"{int(index.min())} .. {int(index.max())}"


def _offsets(counts: Tensor) -> Tensor:
    ptr = torch.zeros(counts.numel() + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=ptr[1:])
    return ptr


def _columns(values: np.ndarray | Tensor | None) -> Any:
    if values is None:
        return None
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
