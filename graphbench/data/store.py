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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.gather import gather, sorted_edges
from graphbench.data.graph_records import GraphLike, asked_pairs, columns, concatenated
from graphbench.data.row_selection import GraphSelection
from graphbench.data.store_checks import check_ends, check_lengths
from graphbench.data.store_tensors import Level, digest, named_features, named_tensors, store_fields
from graphbench.data.stored_pairs import StoredEdges, StoredHops
from graphbench.structures import Features, GraphBatch

Indices = Sequence[int] | np.ndarray | Tensor

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class GraphStore:
    """G graphs with N nodes and E directed edges in all. Empty graphs are legal.

    Attributes:
        node_ptr: (G+1,) int64, first node of every graph and the total, on the host.
        edge_ptr: (G+1,) int64, first edge of every graph and the total, on the host.
        edge_index: (2, E) integer, source and target, numbered from 0 inside each graph, edges grouped by graph.
        x: (N, F) node features, sparse rows where almost all of them are zeros, or None.
        edge_attr: (E, D) edge features, or None.
        y: targets, one row per graph, per node or per pair of ``edge_sets["label"]``, or None.
        y_level: kind of the rows of ``y``: ``graph``, ``node`` or ``pair``.
        pe: node-wise encodings by name, each (N, ...).
        edge_pe: edge-wise encodings by name, each (E, ...).
        pair_pe: encodings of all pairs by name, each (sum of n_g^2, ...), row-major per graph.
        edge_sets: further pairs of nodes by name.
        pairs: (sum of n_g^2,) uint8 shortest-path distances of all pairs, row-major per graph, or None.
        hops: nodes within some hops of every node, for graphs too large for all pairs, or None.
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
    _cache: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuses tensors whose lengths disagree."""
        check_lengths(self)

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
            y_level: kind of the rows of ``y``: ``graph``, ``node`` or ``pair``.

        Raises:
            ValueError: lengths disagree, or an edge names a node its graph does not have.
        """
        sizes, counts = _int64(nodes), _int64(edges)
        index = torch.as_tensor(edge_index)
        check_ends(index, sizes, counts)
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
                becomes (G,), floats (G, T). ``node``: one row per node. ``pair``: ``edge_label``, one row per pair in
                ``edge_label_index``.

        Raises:
            ValueError: a field is present in some graphs only, or the number of nodes cannot be known; no pairs.
        """
        if y_level != "pair":
            return cls.from_arrays(**concatenated(graphs, y_level), y_level=y_level)
        asked = asked_pairs(graphs)
        if asked is None:
            raise ValueError("the graphs ask about no pairs of nodes ('edge_label_index')")
        counts, index, y = asked
        store = cls.from_arrays(**concatenated(graphs, y_level))
        check_ends(index, store.sizes, counts, "a pair (edge_label_index)")
        pairs = StoredEdges(_offsets(counts), index.to(torch.int32))
        return store.replace(edge_sets={"label": pairs}, y=y, y_level="pair")

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
        """Store of the same graphs with further computed numbers; the fingerprint stays the same."""
        return self._of_same_graphs(
            pe={**self.pe, **(pe or {})},
            edge_pe={**self.edge_pe, **(edge_pe or {})},
            pair_pe={**self.pair_pe, **(pair_pe or {})},
            edge_sets={**self.edge_sets, **(edge_sets or {})},
            pairs=self.pairs if pairs is None else pairs,
            hops=self.hops if hops is None else hops,
            computed=self.computed | frozenset(edge_sets or ()),
        )

    def with_features(self, x: Features) -> GraphStore:
        """Store of the same graphs with node features in another form; a known fingerprint stays the same."""
        return self._of_same_graphs(x=x)

    def with_fingerprint(self, fingerprint: str) -> GraphStore:
        """Store of the same graphs, whose fingerprint is known already (from a cache) and need not be computed."""
        store = self._of_same_graphs()
        store._cache["fingerprint"] = fingerprint
        return store

    def replace(self, **changes: Any) -> GraphStore:
        """A copy with some fields exchanged."""
        return dataclasses.replace(self, **changes)

    def _of_same_graphs(self, **changes: Any) -> GraphStore:
        """A copy with fields exchanged that do not alter the graphs: what is known about these stays known."""
        store = self.replace(**changes)
        store._cache.update({name: value for name, value in self._cache.items() if name in _OF_THE_GRAPHS})
        return store

    def _once(self, name: str, compute: Callable[[], T]) -> T:
        """A value that is computed when it is first asked for."""
        if name not in self._cache:
            self._cache[name] = compute()
        return self._cache[name]

    def __repr__(self) -> str:
        """Counts, and the shapes of what there is."""
        shapes = [f"{name}={tuple(value.shape)}" for name, value in self.tensors().items() if not name.endswith("ptr")]
        counts = f"graphs={self.num_graphs}, nodes={self.num_nodes}, edges={self.num_edges}"
        return f"GraphStore({', '.join([counts, *shapes])})"

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

    @property
    def sizes(self) -> Tensor:
        """(G,) int64, nodes per graph."""
        return self._once("sizes", self.node_ptr.diff)

    @property
    def edge_counts(self) -> Tensor:
        """(G,) int64, directed edges per graph."""
        return self._once("edge_counts", self.edge_ptr.diff)

    def max_nodes(self, graphs: Indices | None = None) -> int:
        """Nodes of the largest of the given graphs (default: of all)."""
        sizes = self.sizes if graphs is None else self.sizes[_int64(graphs)]
        return int(sizes.max()) if sizes.numel() else 0

    def nodes_of(self, graphs: Indices) -> tuple[Tensor, Tensor]:
        """Number of the graph of every node of the given graphs, and that of the node inside it: (R,) int64 each."""
        numbers = _int64(graphs)
        counts = self.sizes[numbers]
        first = counts.cumsum(0) - counts
        return numbers.repeat_interleave(counts), torch.arange(int(counts.sum())) - first.repeat_interleave(counts)

    def pairs_of(self, graphs: Indices) -> tuple[Tensor, Tensor]:
        """Number of the graph of every labelled pair of the given graphs, and that of the pair among all: (R,) each."""
        numbers, ptr = _int64(graphs), self.edge_sets["label"].ptr
        counts = ptr.diff()[numbers]
        first = counts.cumsum(0) - counts
        return numbers.repeat_interleave(counts), torch.arange(int(counts.sum())) + (
            ptr[numbers] - first
        ).repeat_interleave(counts)

    def degree_histogram(self, graphs: Indices | None = None) -> tuple[int, ...]:
        """Entry d is the number of nodes with d incoming edges, over the given graphs (default: all)."""
        chosen = GraphSelection(_int64(range(self.num_graphs) if graphs is None else graphs).numpy(), self.device)
        nodes, edges = chosen.rows(self.node_ptr.numpy()), chosen.rows(self.edge_ptr.numpy())
        degree = torch.bincount(edges.take_nodes(self.edge_index[1], nodes.offsets[:-1]), minlength=nodes.total)
        return tuple(torch.bincount(degree).tolist())

    @property
    def fingerprint(self) -> str:
        """sha256 over everything but the encodings: equal for equal content, on any machine."""
        return self._once("fingerprint", lambda: digest(self.tensors()))

    def tensors(self) -> dict[str, Tensor]:
        """The stored graphs as named tensors (encodings left out), for saving. Inverse: :meth:`from_tensors`."""
        return named_tensors(self)

    @classmethod
    def from_tensors(cls, named: Mapping[str, Tensor]) -> GraphStore:
        """The store that :meth:`tensors` described."""
        return cls(**store_fields(named))

    def gather(self, graphs: Indices) -> GraphBatch:
        """The given graphs as one batch, in the given order, repetitions allowed. No loop over graphs.

        Neighbouring graphs (one big graph above all) are cut out as views instead of being copied; nothing may
        write onto a batch.

        Args:
            graphs: graph numbers, 0 .. G-1.

        Raises:
            IndexError: a number is out of range.
        """
        return gather(self, _int64(graphs).numpy())

    @property
    def pair_ptr(self) -> np.ndarray:
        """(G+1,) int64, first pair of nodes of every graph and the total."""
        return self._once("pair_ptr", lambda: _offsets(self.sizes.square()).numpy())

    @property
    def hop_ptr(self) -> np.ndarray:
        """(G+1,) int64, first entry of every graph in ``hops`` and the total."""
        assert self.hops is not None
        row_ptr = self.hops.row_ptr
        return self._once("hop_ptr", lambda: row_ptr.cpu()[self.node_ptr].numpy())

    @property
    def device(self) -> torch.device:
        """Device of the graphs; ``node_ptr``, ``edge_ptr`` and other offsets per graph are always on the host."""
        return self.edge_index.device

    @property
    def edge_order(self) -> Tensor | None:
        """(2, E) int32 edges of every graph sorted by target and by source; on a device only, where sorting is slow."""
        return self._cache.get("edge_order")

    @property
    def nbytes(self) -> int:
        """Bytes of everything that :meth:`to` moves."""
        encodings = (*self.pe.values(), *self.edge_pe.values(), *self.pair_pe.values())
        features = (*named_features(self.x).values(), self.edge_attr, self.y)
        moved = (self.edge_index, *features, *encodings, self.pairs, self.hops, *self.edge_sets.values())
        order = 2 * self.num_edges * torch.int32.itemsize
        return sum(values.nbytes for values in moved if values is not None) + order

    def is_kept_on(self, device: torch.device) -> bool:
        """Whether :meth:`kept_on` costs nothing."""
        return f"kept on {device}" in self._cache

    def kept_on(self, device: torch.device) -> GraphStore:
        """Store of the same graphs on another device, moved once: the loaders of several seeds share it."""

        def moved() -> GraphStore:
            store = self.to(device)
            if device.type == "cuda":
                torch.cuda.synchronize(device)  # other seeds read it on other streams
            return store

        return self._once(f"kept on {device}", moved)

    def to(self, device: torch.device | str) -> GraphStore:
        """Store of the same graphs on another device, where :meth:`gather` then builds its batches."""
        non_blocking = torch.device(device).type != "cpu"  # what comes back to the host is read at once

        def moved(value: Any) -> Any:
            if isinstance(value, Mapping):
                return {name: tensor.to(device, non_blocking=non_blocking) for name, tensor in value.items()}
            return None if value is None else value.to(device, non_blocking=non_blocking)

        store = self._of_same_graphs(**{name: moved(getattr(self, name)) for name in _MOVABLE})
        if non_blocking:
            store._cache["edge_order"] = moved(self._once("edge_order_on_host", lambda: sorted_edges(self)))
        return store


# Computed values that depend on nothing but the graphs themselves, and the fields that move between devices.
_OF_THE_GRAPHS = ("fingerprint", "sizes", "edge_counts", "pair_ptr")
_MOVABLE = ("edge_index", "x", "edge_attr", "y", "pe", "edge_pe", "pair_pe", "edge_sets", "pairs", "hops")


def _int64(values: Indices | range) -> Tensor:
    if isinstance(values, range):
        return torch.arange(values.start, values.stop, values.step)
    return torch.as_tensor(values, dtype=torch.int64).reshape(-1)


def _offsets(counts: Tensor) -> Tensor:
    ptr = torch.zeros(counts.numel() + 1, dtype=torch.int64)
    torch.cumsum(counts, 0, out=ptr[1:])
    return ptr
