"""Batches of fixed capacity, cut out of a store by operations on the device alone.

:class:`BatchAssembler` computes from graph numbers, a tensor, what :meth:`GraphStore.gather` computes on the host from
sizes it can read: no value comes to the host and no shape depends on one, so that the assembly can be part of a CUDA
graph (:mod:`graphbench.train.captured_step`) and runs on a CPU for tests.

Rows of padding repeat the first row of the store: categories that exist and numbers that are finite, so that what
layers compute on padding is finite, and its gradient 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphbench.data.row_selection import widened
from graphbench.data.store import GraphStore
from graphbench.structures import EdgeSet, GraphBatch, SparseRows
from graphbench.structures.capacity import BatchCounts, Capacity, CapacityPairs, CapacityRagged, RealRows


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a concatenated tensor that belong to the graphs of a batch, and padding behind them.

    Attributes:
        index: (R,) int64 row of the store; 0 for padding.
        owner: (R,) int64 place of the graph in the batch; the last one for padding.
        offsets: (B+1,) int64, first row of every graph and the total.
        counts: (B,) int64.
        real: (R,) bool.
    """

    index: Tensor
    owner: Tensor
    offsets: Tensor
    counts: Tensor
    real: Tensor

    def take(self, tensor: Tensor, dim: int = 0) -> Tensor:
        """(R, ...) these rows."""
        return tensor.index_select(dim, self.index)


class BatchAssembler:
    """Assembles padded batches from a store.

    Args:
        store: the graphs, on the device of the batches.

    Raises:
        ValueError: :func:`why_not` says why.
    """

    def __init__(self, store: GraphStore) -> None:
        reason = why_not(store)
        if reason is not None:
            raise ValueError(reason)
        self._store = store
        self._node_ptr = store.node_ptr.to(store.device)
        self._edge_ptr = store.edge_ptr.to(store.device)
        self._has_pairs = store.pairs is not None or bool(store.pair_pe)
        self._pair_ptr = torch.from_numpy(store.pair_ptr).to(store.device) if self._has_pairs else None
        self._edge_set_ptr = {name: edges.ptr.to(store.device) for name, edges in store.edge_sets.items()}
        self._sizes = store.sizes.numpy()
        self.max_size = max(1, store.max_nodes())

    @property
    def device(self) -> torch.device:
        """Of the batches."""
        return self._store.device

    def counts(self, graphs: np.ndarray) -> BatchCounts:
        """What some graphs hold together, known on the host."""
        sizes, store = self._sizes[graphs], self._store
        return BatchCounts(
            graphs=len(graphs),
            nodes=int(sizes.sum()),
            edges=int(store.edge_counts.numpy()[graphs].sum()),
            pairs=int((sizes * sizes).sum()) if self._has_pairs else 0,
            taps=int(np.unique(sizes).sum()),
            edge_sets={
                name: int((edges.ptr.numpy()[graphs + 1] - edges.ptr.numpy()[graphs]).sum())
                for name, edges in store.edge_sets.items()
            },
        )

    def assemble(self, numbers: Tensor, capacity: Capacity) -> GraphBatch:
        """The given graphs as a padded batch; nothing is read on the host.

        Args:
            numbers: (B,) int64 graph numbers on the device, ``NO_GRAPH`` behind the last one.
            capacity: of the batch, which the graphs fit.
        """
        store, present = self._store, numbers >= 0
        graphs = numbers.clamp(min=0)
        nodes = _rows(self._node_ptr, graphs, present, capacity.nodes)
        edges = _rows(self._edge_ptr, graphs, present, capacity.edges)
        padding = capacity.nodes - nodes.offsets[-1:]
        place = torch.arange(capacity.padding_graphs, device=numbers.device)
        padding_sizes = (padding - place * capacity.max_size).clamp(0, capacity.max_size)
        ptr = torch.cat([nodes.offsets, nodes.offsets[-1:] + padding_sizes.cumsum(0)])
        ragged = CapacityRagged(ptr, capacity)
        pairs = None if self._pair_ptr is None else _rows(self._pair_ptr, graphs, present, capacity.pairs)
        sets = {
            name: _rows(self._edge_set_ptr[name], graphs, present, capacity.edge_sets[name]) for name in store.edge_sets
        }
        assert not isinstance(store.x, SparseRows)  # refused by the constructor
        return GraphBatch(
            ragged=ragged,
            edge_index=_ends(store.edge_index, edges, nodes, padding),
            x=None if store.x is None else widened(nodes.take(store.x)),
            edge_attr=None if store.edge_attr is None else widened(edges.take(store.edge_attr)),
            y=None if store.y is None else widened(self._targets(store.y, graphs, nodes, sets, capacity)),
            pe={name: nodes.take(value) for name, value in store.pe.items()},
            edge_pe={name: edges.take(value) for name, value in store.edge_pe.items()},
            pair_pe={name: pairs.take(value) for name, value in store.pair_pe.items()} if pairs else {},
            edge_sets={
                name: EdgeSet(
                    _ends(store.edge_sets[name].index, rows, nodes, padding),
                    # The last padding graph owns the padding.
                    torch.cat(
                        [
                            rows.offsets,
                            rows.offsets[-1:].expand(capacity.padding_graphs - 1),
                            torch.full_like(rows.offsets[-1:], capacity.edge_sets[name]),
                        ]
                    ),
                    _taken(rows, store.edge_sets[name].attr),
                )
                for name, rows in sets.items()
            },
            pairs=CapacityPairs(pairs.take(store.pairs), ragged) if pairs and store.pairs is not None else None,
            real_graphs=present.sum(),
        )

    def real_targets(self, batch: GraphBatch) -> RealRows | None:
        """The rows of ``batch.y`` that count, of an assembled batch."""
        level = self._store.y_level
        return batch.real_pairs_of("label") if level == "pair" else batch.real(level)

    def target_rows(self, counts: BatchCounts) -> int:
        """Rows of ``y`` of so many graphs, nodes, ..."""
        level = self._store.y_level
        return {"graph": counts.graphs, "node": counts.nodes, "pair": counts.edge_sets.get("label", 0)}[level]

    def _targets(
        self, y: Tensor, graphs: Tensor, nodes: _Rows, sets: Mapping[str, _Rows], capacity: Capacity
    ) -> Tensor:
        if self._store.y_level == "node":
            return nodes.take(y)
        if self._store.y_level == "pair":
            return sets["label"].take(y)
        return y.index_select(0, torch.cat([graphs, graphs.new_zeros(capacity.padding_graphs)]))


def why_not(store: GraphStore) -> str | None:
    """Why batches of a store cannot be assembled on the device; None where they can."""
    if isinstance(store.x, SparseRows):
        return "sparse node features have no fixed capacity"
    if store.hops is not None:
        return "lists of neighbours within some hops have no fixed capacity"
    if not store.num_nodes:
        return "the graphs have no nodes"
    return None


def _rows(ptr: Tensor, graphs: Tensor, present: Tensor, total: int) -> _Rows:
    first = ptr.index_select(0, graphs)
    counts = (ptr.index_select(0, graphs + 1) - first) * present
    offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    row = torch.arange(total, device=ptr.device)
    owner = torch.searchsorted(offsets[1:], row, right=True).clamp(max=len(graphs) - 1)
    real = row < offsets[-1]
    index = (first - offsets[:-1]).index_select(0, owner) + row
    return _Rows(index.masked_fill(~real, 0), owner, offsets, counts, real)


def _ends(stored: Tensor, rows: _Rows, nodes: _Rows, padding: Tensor) -> Tensor:
    """(2, R) ends of pairs, numbered through the batch; padding pairs are loops at padding nodes, one after another."""
    shifted = rows.take(stored, dim=1).to(torch.int64) + nodes.offsets.index_select(0, rows.owner)
    spread = torch.arange(len(rows.index), device=stored.device).remainder(padding) + nodes.offsets[-1:]
    return torch.where(rows.real, shifted, spread)


def _taken(rows: _Rows, attr: Tensor | None) -> Tensor | None:
    return None if attr is None else widened(rows.take(attr))
