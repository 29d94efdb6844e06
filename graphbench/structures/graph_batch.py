"""One ragged batch of graphs: the only thing that flows from the loader to the head.

Worked example: a triangle and a single edge, batched::

    ptr          [0, 3, 5]                      first node of every graph
    batch        [0, 0, 0, 1, 1]                graph of every node
    edge_index   [[0, 1, 1, 2, 2, 0, 3, 4],     sources, numbered through the batch
                  [1, 0, 2, 1, 0, 2, 4, 3]]     targets; messages go from row 0 to row 1
    x            (5, F)    edge_attr (8, D)    y (2,) for a graph task, (5,) for a node task

Nothing writes onto a batch: layers take it beside the hidden state and return new tensors. What several layers
derive from it (degrees, normalised adjacency) is computed once by ``batch.derived``; what encoders and layers compute
for later layers (an embedded encoding, a bias of pairs, virtual nodes) travels in ``state``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor

from graphbench.structures.adjacency import Adjacency, LoopedAdjacency, adjacency, in_pieces
from graphbench.structures.capacity import Level, RealRows
from graphbench.structures.edge_set import EdgeSet
from graphbench.structures.layer_state import LayerState
from graphbench.structures.memo import Memo
from graphbench.structures.pairs import HopNeighbors, PairBlocks
from graphbench.structures.ragged import Ragged
from graphbench.structures.sparse_rows import Features
from graphbench.structures.two_hops import two_hop_edges

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class GraphBatch(Memo):
    """A batch of G graphs with N nodes and E directed edges in all; one big graph is a batch of one.

    Attributes:
        ragged: the partition of the nodes into graphs.
        edge_index: (2, E) int64, source and target, edges grouped by graph.
        x: (N, F) node features: floating (as sparse rows where almost all are zeros), or int64 categories; None where
            a data set has none.
        edge_attr: (E, D) edge features: floating, or int64 categories; None where a data set has none.
        y: targets; (G, ...) for graph tasks, (N, ...) for node tasks, (P, ...) for tasks about pairs of nodes, which
            are ``edge_sets["label"]``.
        pe: node-wise encodings by name, each (N, ...).
        edge_pe: edge-wise encodings by name, each (E, ...).
        pair_pe: encodings of all ordered pairs of nodes of a graph by name, each (sum of n_g^2, ...), in the order of
            :class:`~graphbench.structures.PairBlocks`.
        edge_sets: further pairs of nodes by name, e.g. ``"expander"``.
        pairs: distances of all pairs, or None.
        hops: k-hop neighbour lists, or None.
        edge_order: (2, E) int64 numbers of the edges sorted by target and by source, where the data have them.
        state: values that encoders and layers computed for later layers; set with :meth:`with_state`.
        real_graphs: () int64, number of real graphs of a batch of fixed capacity
            (:mod:`graphbench.structures.capacity`), the first ones; None where all are.
    """

    ragged: Ragged
    edge_index: Tensor
    x: Features | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    pe: Mapping[str, Tensor] = field(default_factory=dict)
    edge_pe: Mapping[str, Tensor] = field(default_factory=dict)
    pair_pe: Mapping[str, Tensor] = field(default_factory=dict)
    edge_sets: Mapping[str, EdgeSet] = field(default_factory=dict)
    pairs: PairBlocks | None = None
    hops: HopNeighbors | None = None
    edge_order: Tensor | None = None
    state: LayerState = field(default_factory=LayerState)
    real_graphs: Tensor | None = None

    def __repr__(self) -> str:
        """Counts, and the shapes of what there is."""
        named = {"x": self.x, "edge_attr": self.edge_attr, "y": self.y, **self.pe, **self.edge_pe, **self.pair_pe}
        shapes = [f"{name}={tuple(value.shape)}" for name, value in named.items() if value is not None]
        counts = f"graphs={self.num_graphs}, nodes={self.num_nodes}, edges={self.num_edges}"
        return f"GraphBatch({', '.join([counts, *shapes])})"

    @property
    def batch(self) -> Tensor:
        """(N,) int64, the graph of every node, PyTorch Geometric's ``batch``: ``to_dense_batch(h, batch.batch)``."""
        return self.ragged.graph_id

    @property
    def ptr(self) -> Tensor:
        """(G+1,) int64, first node of every graph and their total, PyTorch Geometric's ``ptr``."""
        return self.ragged.ptr

    @property
    def num_graphs(self) -> int:
        """G."""
        return self.ragged.num_graphs

    @property
    def num_nodes(self) -> int:
        """N."""
        return self.ragged.num_rows

    @property
    def num_edges(self) -> int:
        """E, directed."""
        return self.edge_index.shape[1]

    @property
    def device(self) -> torch.device:
        """Device of its tensors."""
        return self.ragged.device

    def real(self, level: Level) -> RealRows | None:
        """The rows that are no padding, for what is computed over all rows of a batch; None where all rows are real.

        Args:
            level: kind of the rows.
        """
        return None if self.real_graphs is None else self.derived(real_rows, level)

    def real_pairs_of(self, name: str) -> RealRows | None:
        """Real pairs of an edge set, by its key in ``edge_sets``; None where all are real."""
        return None if self.real_graphs is None else self.derived(_real_of_edge_set, name)

    def adjacency(self, *, norm: Literal["sym", "row", "none"] = "none", self_loops: bool = False) -> Adjacency:
        """The edges sorted by target and by source, built on first use and kept with the batch.

        Args:
            norm: weights of the edges: ``sym`` D^-1/2 A D^-1/2, ``row`` D^-1 A, ``none`` 1.
            self_loops: give every node exactly one self loop.
        """
        return self.derived(adjacency_of, norm, self_loops)

    def two_hop_adjacency(
        self,
        *,
        direct: bool,
        norm: Literal["sym", "row", "none"] = "none",
        self_loops: bool = False,
        squarings: int = 1,
    ) -> Adjacency:
        """The adjacency over pairs of nodes joined by a path of two edges; built on first use and kept.

        Args:
            direct: whether pairs that an edge joins as well belong to it.
            norm: normalisation, see :meth:`adjacency`.
            self_loops: whether self loops are added, see :meth:`adjacency`.
            squarings: how often edges are replaced by the pairs at one or two of them; 2: one to four edges, of which
                the last step follows ``direct``.
        """
        return self.derived(_two_hop_adjacency, direct, norm, self_loops, squarings)

    def replace(self, **changes: Any) -> GraphBatch:
        """A copy with some fields exchanged; derived values start afresh, and other edges have another order."""
        if "edge_index" in changes:
            changes.setdefault("edge_order", None)
        return dataclasses.replace(self, **changes)

    def with_state(self, state: LayerState | None = None, **changes: Any) -> GraphBatch:
        """Batch with another ``state``; derived values stay shared, because they do not depend on it.

        Args:
            state: default: the present one.
            changes: fields of :class:`LayerState` to exchange.
        """
        new = dataclasses.replace(self, state=dataclasses.replace(state or self.state, **changes))
        new.share_derived(self)
        return new

    def on_edges(self, name: str) -> GraphBatch:
        """The batch seen by a layer that works on an edge set: its pairs and attributes in place of the edges.

        Args:
            name: key of ``edge_sets``.

        Raises:
            ValueError: no such edge set; the message lists what there is.
        """
        if name not in self.edge_sets:
            raise ValueError(
                f"a layer reads the edge set '{name}'; the batch has {', '.join(self.edge_sets) or 'no edge sets'}"
            )
        return self.derived(_on_edges, name).with_state(self.state)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> GraphBatch:
        """Batch on another device (itself, derived values kept, where it already is there)."""
        if self.device == torch.device(device):
            return self
        return self._map(lambda each: each.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> GraphBatch:
        """Batch in page-locked memory."""
        return self._map(lambda each: each.pin_memory())

    def _map(self, function: Callable[[Any], Any]) -> GraphBatch:
        # `state` belongs to one forward pass on one device and is left behind.
        def each(value: Any) -> Any:
            return None if value is None else function(value)

        return GraphBatch(
            ragged=function(self.ragged),
            edge_index=function(self.edge_index),
            x=each(self.x),
            edge_attr=each(self.edge_attr),
            y=each(self.y),
            pe={name: function(value) for name, value in self.pe.items()},
            edge_pe={name: function(value) for name, value in self.edge_pe.items()},
            pair_pe={name: function(value) for name, value in self.pair_pe.items()},
            edge_sets={name: function(value) for name, value in self.edge_sets.items()},
            pairs=each(self.pairs),
            hops=each(self.hops),
            edge_order=each(self.edge_order),
            real_graphs=each(self.real_graphs),
        )


def real_rows(batch: GraphBatch, level: Level) -> RealRows:
    """Real rows of a padded batch, which :meth:`GraphBatch.real` keeps."""
    assert batch.real_graphs is not None
    if level == "graph":
        return RealRows.first(batch.real_graphs, batch.num_graphs)
    if level == "node":
        return RealRows.first(batch.ragged.ptr.index_select(0, batch.real_graphs.view(1))[0], batch.num_nodes)
    if level == "pair":
        return RealRows.first(
            batch.ragged.pair_ptr.index_select(0, batch.real_graphs.view(1))[0], batch.ragged.num_pairs
        )
    # Padding edges join padding nodes.
    nodes: RealRows = batch.derived(real_rows, "node")
    return RealRows(nodes.mask.index_select(0, batch.edge_index[1]))


def _real_of_edge_set(batch: GraphBatch, name: str) -> RealRows:
    assert batch.real_graphs is not None
    pairs = batch.edge_sets[name]
    return RealRows.first(pairs.ptr.index_select(0, batch.real_graphs.view(1))[0], pairs.num_pairs)


def adjacency_of(batch: GraphBatch, norm: Literal["sym", "row", "none"], self_loops: bool) -> Adjacency:
    """Adjacency that :meth:`GraphBatch.adjacency` keeps."""
    order = batch.edge_order

    def make() -> Adjacency:
        return adjacency(batch.edge_index, batch.num_nodes, norm=norm, self_loops=self_loops, order=order)

    if batch.device.type != "cpu" and batch.num_graphs > 1 and norm == "sym" and self_loops and order is not None:
        return LoopedAdjacency(batch.adjacency(), make)
    found = make()
    # One large graph on a GPU may have hubs, whose lists are cut; many small graphs have none.
    return found if batch.device.type == "cpu" or batch.num_graphs > 1 else in_pieces(found)


def _two_hop_adjacency(
    batch: GraphBatch, direct: bool, norm: Literal["sym", "row", "none"], self_loops: bool, squarings: int
) -> Adjacency:
    pairs = batch.edge_index
    for _ in range(squarings - 1):
        pairs = two_hop_edges(pairs, batch.num_nodes, direct=True)
    pairs = two_hop_edges(pairs, batch.num_nodes, direct=direct)
    return adjacency(pairs, batch.num_nodes, norm=norm, self_loops=self_loops)


def _on_edges(batch: GraphBatch, name: str) -> GraphBatch:
    edges = batch.edge_sets[name]
    return batch.replace(edge_index=edges.index, edge_attr=edges.attr, edge_pe={}, state=LayerState())
