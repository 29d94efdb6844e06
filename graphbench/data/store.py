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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from graphbench.data.graph_records import GraphLike, columns, concatenated
from graphbench.data.row_selection import GraphSelection, RowSelection, to_device, widened
from graphbench.data.stored_pairs import StoredEdges, StoredHops
from graphbench.structures import Features, GraphBatch, PairBlocks, Ragged, SparseRows

Indices = Sequence[int] | np.ndarray | Tensor

Level = Literal["graph", "node", "pair"]
"""What a row of targets belongs to."""


@dataclass(frozen=True, eq=False)
class GraphStore:
    """G graphs with N nodes and E directed edges in all. Empty graphs are legal.

    Attributes:
        node_ptr: (G+1,) int64, first node of every graph and the total, on the host.
        edge_ptr: (G+1,) int64, first edge of every graph and the total, on the host.
        edge_index: (2, E) integer, source and target, numbered from 0 inside each graph, edges grouped by graph.
        x: (N, F) node features, sparse rows where almost all of them are zeros, or None.
        edge_attr: (E, D) edge features, or None.
        y: targets, one row per graph, per node or per pair of ``edge_sets["label"]``, or None.
        y_level: what a row of ``y`` belongs to.
        pe: node-wise encodings by name, each (N, ...).
        edge_pe: edge-wise encodings by name, each (E, ...).
        pair_pe: encodings of all pairs by name, each (sum of n_g^2, ...), row-major per graph.
        edge_sets: further pairs of nodes by name.
        pairs: (sum of n_g^2,) uint8 shortest-path distances of all pairs, row-major per graph, or None.
        hops: near nodes of every node, for graphs too large for all pairs, or None.
        computed: names of the edge sets that a transform made, which are no part of the data.
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    edge_index: Tensor
    x: Features | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    y_level: Level = "graph"
    pe: Mapping[str, Tensor] = field(default_factory=dict)
    edge_pe: Mapping[str, Tensor] = field(default_factory=dict)
    pair_pe: Mapping[str, Tensor] = field(default_factory=dict)
    edge_sets: Mapping[str, StoredEdges] = field(default_factory=dict)
    pairs: Tensor | None = None
    hops: StoredHops | None = None
    computed: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        """Refuses tensors whose lengths disagree and edges that leave their graph."""
        nodes, edges = int(self.node_ptr[-1]), int(self.edge_ptr[-1])
        pairs = int(self.sizes.square().sum())
        rows = {"x": nodes, "edge_attr": edges, "y": self._targets(), "pairs": pairs}
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
        if self.hops is not None and len(self.hops.row_ptr) != nodes + 1:
            raise ValueError(f"hops must have one list per node ({nodes}), received {len(self.hops.row_ptr) - 1}")
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
        x: np.ndarray | Features | None = None,
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
            x=None if x is None else columns(x),
            edge_attr=None if edge_attr is None else columns(edge_attr),
            y=None if y is None else torch.as_tensor(y).contiguous(),
            y_level=y_level,
        )

    @classmethod
    def from_graphs(cls, graphs: Sequence[GraphLike], y_level: Level = "graph") -> GraphStore:
        """Builds a store from single graphs: records, PyG ``Data`` objects or dicts of tensors with PyG's names.

        Args:
            graphs: see :class:`~graphbench.data.graph_records.GraphRecord`.
            y_level: ``graph``: the ``y`` of a graph is one row of targets, whatever its shape; an integer class
                becomes (G,), floats (G, T). ``node``: one row per node.

        Raises:
            ValueError: a field is present in some graphs only, or the number of nodes cannot be known.
        """
        return cls.from_arrays(**concatenated(graphs, y_level), y_level=y_level)

    def with_encodings(
        self,
        *,
        pe: Mapping[str, Tensor] | None = None,
        edge_pe: Mapping[str, Tensor] | None = None,
        pair_pe: Mapping[str, Tensor] | None = None,
        edge_sets: Mapping[str, StoredEdges] | None = None,
        pairs: Tensor | None = None,
        hops: StoredHops | None = None,
    ) -> GraphStore:
        """The same graphs with further computed numbers; the fingerprint stays the same."""
        added = self.replace(
            pe={**self.pe, **(pe or {})},
            edge_pe={**self.edge_pe, **(edge_pe or {})},
            pair_pe={**self.pair_pe, **(pair_pe or {})},
            edge_sets={**self.edge_sets, **(edge_sets or {})},
            pairs=self.pairs if pairs is None else pairs,
            hops=self.hops if hops is None else hops,
            computed=self.computed | frozenset(edge_sets or ()),
        )
        return self._hand_down(added)

    def with_features(self, x: Features) -> GraphStore:
        """The same graphs with their node features held in another form; a known fingerprint stays the same."""
        return self._hand_down(self.replace(x=x))

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
        chosen = GraphSelection(_int64(range(self.num_graphs) if graphs is None else graphs).numpy(), self.device)
        nodes, edges = chosen.rows(self.node_ptr.numpy()), chosen.rows(self.edge_ptr.numpy())
        degree = torch.bincount(edges.take_nodes(self.edge_index[1], nodes.offsets[:-1]), minlength=nodes.total)
        return tuple(torch.bincount(degree).tolist())

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over everything but the encodings: equal for equal content, on any machine."""
        return digest(self.tensors())

    def tensors(self) -> dict[str, Tensor]:
        """The stored graphs as named tensors (encodings left out), for saving. Inverse: :meth:`from_tensors`."""
        named = {"node_ptr": self.node_ptr, "edge_ptr": self.edge_ptr, "edge_index": self.edge_index}
        optional = {**_named(self.x), "edge_attr": self.edge_attr, f"y_{self.y_level}": self.y}
        for name, each in self.edge_sets.items():
            if name not in self.computed:
                optional |= {f"{part}.{name}": getattr(each, part) for part in ("ptr", "index", "attr")}
        return named | {name: value for name, value in optional.items() if value is not None}

    @classmethod
    def from_tensors(cls, named: Mapping[str, Tensor], fingerprint: str | None = None) -> GraphStore:
        """The store that :meth:`tensors` described.

        Args:
            named: the tensors.
            fingerprint: of that store, where it is known; else it is computed when it is asked for.
        """
        level = next((each for each in get_args(Level) if f"y_{each}" in named), "graph")
        named, x = _features(named)
        fields = {"y" if name.startswith("y_") else name: value for name, value in named.items() if "." not in name}
        edge_sets = {
            name.removeprefix("index."): StoredEdges(
                named[name.replace("index.", "ptr.", 1)], value, named.get(name.replace("index.", "attr.", 1))
            )
            for name, value in named.items()
            if name.startswith("index.")
        }
        store = cls(**fields, x=x, y_level=level, edge_sets=edge_sets)
        return store if fingerprint is None else store.with_fingerprint(fingerprint)

    def with_fingerprint(self, fingerprint: str) -> GraphStore:
        """Itself, where the fingerprint is known already (from a cache) and need not be computed from every number."""
        self.__dict__["fingerprint"] = fingerprint
        return self

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
        index = _int64(graphs).numpy()
        if len(index) and (index.min() < 0 or index.max() >= self.num_graphs):
            raise IndexError(
                f"graph numbers must lie in 0 .. {self.num_graphs - 1}, received {index.min()} .. {index.max()}"
            )
        choice = GraphSelection(index, self.device)
        nodes, edges = choice.rows(self.node_ptr.numpy()), choice.rows(self.edge_ptr.numpy())
        first_node, sizes = nodes.offsets[:-1], tuple(nodes.counts.tolist())
        pairs = choice.rows(self._pair_ptr) if self.pairs is not None or self.pair_pe else None
        return GraphBatch(
            ragged=Ragged(to_device(nodes.offsets, self.device), sizes),
            edge_index=edges.take_nodes(self.edge_index, first_node),
            x=_take(self.x, nodes),
            edge_attr=_take(self.edge_attr, edges),
            y=None if self.y is None else widened(self._rows_of_targets(choice, nodes).take(self.y)),
            pe={name: nodes.take(value) for name, value in self.pe.items()},
            edge_pe={name: edges.take(value) for name, value in self.edge_pe.items()},
            pair_pe={name: pairs.take(value) for name, value in self.pair_pe.items()} if pairs else {},
            edge_sets={name: each.gather(choice, first_node) for name, each in self.edge_sets.items()},
            pairs=PairBlocks(pairs.take(self.pairs), sizes) if pairs and self.pairs is not None else None,
            hops=None if self.hops is None else self.hops.gather(choice.rows(self._hop_ptr), nodes),
        )

    def _rows_of_targets(self, choice: GraphSelection, nodes: RowSelection) -> RowSelection:
        if self.y_level == "pair":
            return self.edge_sets["label"].rows(choice)
        return nodes if self.y_level == "node" else choice.each()

    @cached_property
    def _pair_ptr(self) -> np.ndarray:
        return _offsets(self.sizes.square()).numpy()

    @cached_property
    def _hop_ptr(self) -> np.ndarray:
        assert self.hops is not None
        return self.hops.row_ptr.cpu()[self.node_ptr].numpy()

    # ------------------------------------------------------------------ where it lies

    @property
    def device(self) -> torch.device:
        """Where the graphs lie; ``node_ptr``, ``edge_ptr`` and other offsets per graph are always on the host."""
        return self.edge_index.device

    @property
    def nbytes(self) -> int:
        """Bytes of everything that :meth:`to` moves."""
        return sum(each.numel() * each.element_size() for each in self._movable())

    def _movable(self) -> Iterator[Tensor]:
        sets = [each for stored in self.edge_sets.values() for each in (stored.index, stored.attr)]
        hops = () if self.hops is None else (self.hops.row_ptr, self.hops.col, self.hops.hop)
        named = (self.edge_index, *_named(self.x).values(), self.edge_attr, self.y, self.pairs)
        groups = (*self.pe.values(), *self.edge_pe.values(), *self.pair_pe.values())
        return (each for each in (*named, *groups, *sets, *hops) if each is not None)

    def to(self, device: torch.device | str) -> GraphStore:
        """The same graphs on another device, where :meth:`gather` then builds its batches."""
        non_blocking = torch.device(device).type != "cpu"  # what comes back to the host is read at once

        def each(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: part.to(device, non_blocking=non_blocking) for name, part in value.items()}
            return None if value is None else value.to(device, non_blocking=non_blocking)

        moved = ("edge_index", "x", "edge_attr", "y", "pe", "edge_pe", "pair_pe", "edge_sets", "pairs", "hops")
        store = self.replace(**{name: each(getattr(self, name)) for name in moved})
        return self._hand_down(store)

    def _hand_down(self, store: GraphStore) -> GraphStore:
        """Gives another store of the same graphs what is known about them already."""
        store.__dict__.update({name: self.__dict__[name] for name in _KNOWN if name in self.__dict__})
        return store


_KNOWN = ("fingerprint", "sizes", "edge_counts", "_pair_ptr")


def digest(tensors: Mapping[str, Tensor]) -> str:
    """sha256 over names, types, shapes and bytes of some tensors."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].detach().cpu().contiguous()
        total.update(f"{name}:{value.dtype}:{tuple(value.shape)};".encode())
        total.update(memoryview(value.reshape(-1).view(torch.uint8).numpy()) if value.numel() else b"")
    return total.hexdigest()


_SPARSE = ("ptr", "column", "value")


def _named(x: Features | None) -> dict[str, Tensor | None]:
    """Node features as named tensors."""
    if not isinstance(x, SparseRows):
        return {"x": x}
    return {"x_width": torch.tensor(x.width), **{f"x_{part}": getattr(x, part) for part in _SPARSE}}


def _features(named: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], Features | None]:
    """Inverse of :func:`_named`: the tensors left over, and the node features."""
    rest = dict(named)
    if "x_width" not in rest:
        return rest, rest.pop("x", None)
    width = int(rest.pop("x_width"))
    return rest, SparseRows(*(rest.pop(f"x_{part}") for part in _SPARSE), width)


def _take(tensor: Features | None, rows: RowSelection) -> Features | None:
    return None if tensor is None else widened(rows.take(tensor))


def _int64(values: Indices | range) -> Tensor:
    if isinstance(values, range):
        return torch.arange(values.start, values.stop, values.step)
    return torch.as_tensor(values, dtype=torch.int64).reshape(-1)


def _offsets(counts: Tensor) -> Tensor:
    ptr = torch.zeros(counts.numel() + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=ptr[1:])
    return ptr
