"""Batches of fixed capacity, cut out of a store by operations on the device alone.

:class:`BatchAssembler` computes from graph numbers, a tensor, what :meth:`GraphStore.gather` computes on the host from
sizes it can read: no value comes to the host and no shape depends on one, so that the assembly can be part of a CUDA
graph (:mod:`graphbench.train.captured_step`) and runs on a CPU for tests.

Rows of padding repeat the first row of the store: categories that exist and numbers that are finite, so that what
layers compute on padding is finite, and its gradient 0.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.ops.batch_rows import Field, RowCapacity, batch_rows
from graphbench.structures import EdgeSet, GraphBatch, SparseRows
from graphbench.structures.adjacency import Adjacency, Csr
from graphbench.structures.capacity import BatchCounts, Capacity, CapacityRagged, Level, RealRows
from graphbench.structures.capacity_pairs import CapacityPairs
from graphbench.structures.graph_batch import adjacency_of, real_rows

_NODES, _EDGES = 0, 1
"""Kinds of rows that every store has."""


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
        self._has_pairs = store.pairs is not None or bool(store.pair_pe)
        offsets = [store.node_ptr, store.edge_ptr, *(edges.ptr.cpu() for edges in store.edge_sets.values())]
        if self._has_pairs:
            offsets.append(torch.from_numpy(store.pair_ptr))
        self._ptr = torch.stack([each.to(torch.int64) for each in offsets]).to(store.device, non_blocking=True)
        self._fields = self._named_fields()
        self._sizes = store.sizes.numpy()
        self._edge_counts = store.edge_counts.numpy()
        self._set_ptr = {name: edges.ptr.cpu().numpy() for name, edges in store.edge_sets.items()}
        self.max_size = max(1, store.max_nodes())

    @property
    def device(self) -> torch.device:
        """Device of the batches."""
        return self._store.device

    def counts(self, graphs: np.ndarray) -> BatchCounts:
        """Counts of some graphs together, known on the host."""
        sizes = self._sizes[graphs]
        return BatchCounts(
            graphs=len(graphs),
            nodes=int(sizes.sum()),
            edges=int(self._edge_counts[graphs].sum()),
            pairs=int((sizes * sizes).sum()) if self._has_pairs else 0,
            taps=int(np.unique(sizes).sum()),
            edge_sets={name: int((ptr[graphs + 1] - ptr[graphs]).sum()) for name, ptr in self._set_ptr.items()},
        )

    def assemble(self, numbers: Tensor, capacity: Capacity) -> GraphBatch:
        """The given graphs as a padded batch; nothing is read on the host.

        Args:
            numbers: (B,) int64 graph numbers on the device, ``NO_GRAPH`` behind the last one.
            capacity: capacity of the batch, which the graphs fit.
        """
        store = self._store
        rows = (capacity.nodes, capacity.edges, *(capacity.edge_sets[name] for name in store.edge_sets))
        if self._has_pairs:
            rows = (*rows, capacity.pairs)
        shape = RowCapacity(rows, capacity.padding_graphs, capacity.max_size)
        padded = batch_rows(numbers, self._ptr, list(self._fields.values()), shape)
        found = dict(zip(self._fields, padded.fields, strict=True))
        ragged = CapacityRagged(padded.offsets[_NODES], capacity)
        pairs = found.get(("pairs", ""))
        batch = GraphBatch(
            ragged=ragged,
            edge_index=found["edge_index", ""],
            x=found.get(("x", "")),
            edge_attr=found.get(("edge_attr", "")),
            y=found.get(("y", "")),
            pe={name: found["pe", name] for name in store.pe},
            edge_pe={name: found["edge_pe", name] for name in store.edge_pe},
            pair_pe={name: found["pair_pe", name] for name in store.pair_pe},
            edge_sets={
                name: EdgeSet(found["set", name], padded.offsets[self._set_level(name)], found.get(("set attr", name)))
                for name in store.edge_sets
            },
            pairs=None if pairs is None else CapacityPairs(pairs, ragged),
            edge_order=found.get(("edge_order", "")),
            real_graphs=padded.num_graphs,
        )
        first = padded.offsets[:, len(numbers)]  # of padding
        batch.keep(RealRows(padded.real_graphs, padded.num_graphs), real_rows, "graph")
        for level, kind in self._levels().items():
            batch.keep(RealRows(padded.real[kind], first[kind]), real_rows, level)
        if padded.lists is not None and batch.edge_order is not None:
            (ptr, other), entry = padded.lists, batch.edge_order
            by_target, by_source = (Csr(ptr[line], entry[line], other[line]) for line in range(2))
            source, target = batch.edge_index
            batch.keep(
                Adjacency(batch.num_nodes, source, target, by_target, by_source, None), adjacency_of, "none", False
            )
        return batch

    def real_targets(self, batch: GraphBatch) -> RealRows | None:
        """The rows of ``batch.y`` that count, of an assembled batch."""
        level = self._store.y_level
        return batch.real_pairs_of("label") if level == "pair" else batch.real(level)

    def target_rows(self, counts: BatchCounts) -> int:
        """Rows of ``y`` of so many graphs, nodes, ..."""
        level = self._store.y_level
        return {"graph": counts.graphs, "node": counts.nodes, "pair": counts.edge_sets.get("label", 0)}[level]

    def _levels(self) -> dict[Level, int]:
        """Kinds of rows by what a batch calls them."""
        levels: dict[Level, int] = {"node": _NODES, "edge": _EDGES}
        return levels | {"pair": 2 + len(self._store.edge_sets)} if self._has_pairs else levels

    def _set_level(self, name: str) -> int:
        return 2 + list(self._store.edge_sets).index(name)

    def _named_fields(self) -> dict[tuple[str, str], Field]:
        """Fields that are gathered, by (field of a batch, name in it)."""
        store, pair_level = self._store, 2 + len(self._store.edge_sets)
        assert not isinstance(store.x, SparseRows)  # refused by the constructor
        fields: dict[tuple[str, str], Field | None] = {
            ("edge_index", ""): Field(store.edge_index, "ends", _EDGES),
            ("edge_order", ""): None if store.edge_order is None else Field(store.edge_order, "order", _EDGES),
            ("x", ""): _values(store.x, _NODES, widen=True),
            ("edge_attr", ""): _values(store.edge_attr, _EDGES, widen=True),
            ("pairs", ""): None if store.pairs is None else _values(store.pairs, pair_level),
        }
        fields |= {("pe", name): _values(value, _NODES) for name, value in store.pe.items()}
        fields |= {("edge_pe", name): _values(value, _EDGES) for name, value in store.edge_pe.items()}
        fields |= {("pair_pe", name): _values(value, pair_level) for name, value in store.pair_pe.items()}
        for name, edges in store.edge_sets.items():
            fields["set", name] = Field(edges.index, "ends", self._set_level(name))
            fields["set attr", name] = _values(edges.attr, self._set_level(name), widen=True)
        if store.y is not None and store.y_level == "graph":
            fields["y", ""] = Field(store.y.contiguous(), "graphs", widen=True)
        elif store.y is not None:
            level = _NODES if store.y_level == "node" else self._set_level("label")
            fields["y", ""] = _values(store.y, level, widen=True)
        return {name: field for name, field in fields.items() if field is not None}


def _values(source: Tensor | None, level: int, *, widen: bool = False) -> Field | None:
    return None if source is None else Field(source.contiguous(), "values", level, widen)


def why_not(store: GraphStore) -> str | None:
    """Why batches of a store cannot be assembled on the device; None where they can."""
    if isinstance(store.x, SparseRows):
        return "sparse node features have no fixed capacity"
    if store.hops is not None:
        return "lists of neighbours within some hops have no fixed capacity"
    if not store.num_nodes:
        return "the graphs have no nodes"
    return None
