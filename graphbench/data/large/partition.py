"""Training on random parts of one large graph (SGFormer, https://arxiv.org/abs/2306.10759, section 4.3).

Every epoch the nodes are divided at random into parts of equal size; a batch is a part with the edges inside it. All
edges are looked at once per epoch, in pieces, whatever the number of parts; memory is that of the edges kept, E / parts
on average.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from graphbench.data.large.subgraph import has_edge_rows, subgraph
from graphbench.data.store import GraphStore
from graphbench.structures import GraphBatch

CHUNK = 2**22
"""Edges that are looked at at a time."""

MAX_PARTS = 2**15 - 1


@dataclass(frozen=True, eq=False)
class Partition:
    """Nodes in disjoint parts.

    Attributes:
        part: (N,) int16 (int32 for more than 2^15 - 1 parts), the part of every node.
        nodes: (N,) int32, the nodes of part 0, of part 1, ..., ascending inside a part (files are read forwards).
        ptr: (K+1,) int64, first entry of every part in ``nodes`` and the total.
    """

    part: Tensor
    nodes: Tensor
    ptr: Tensor

    @classmethod
    def draw(cls, num_nodes: int, parts: int, rng: np.random.Generator) -> Partition:
        """A uniform random partition into ``parts`` parts whose sizes differ by at most one.

        Raises:
            ValueError: more parts than nodes, or than 16 bits can number.
        """
        if not 1 <= parts <= min(num_nodes, MAX_PARTS):
            raise ValueError(
                f"train.train_parts must lie in 1 .. {min(num_nodes, MAX_PARTS)} for {num_nodes} nodes; "
                f"received {parts}"
            )
        ptr = torch.arange(parts + 1) * num_nodes // parts
        part = torch.repeat_interleave(torch.arange(parts, dtype=torch.int16), ptr.diff(), output_size=num_nodes)
        part = torch.from_numpy(rng.permutation(part.numpy()))
        return cls(part, torch.from_numpy(np.argsort(part.numpy(), kind="stable").astype(np.int32)), ptr)

    @classmethod
    def of_parts(cls, part: Tensor, parts: int) -> Partition:
        """The partition with given parts.

        Args:
            part: (N,) integer, the part of every node.
            parts: K.
        """
        ptr = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(part, minlength=parts).cumsum(0)])
        narrow = torch.int16 if parts <= MAX_PARTS else torch.int32
        return cls(part.to(narrow), part.argsort(stable=True).to(torch.int32), ptr)

    @property
    def parts(self) -> int:
        """K."""
        return self.ptr.numel() - 1

    def batches(self, store: GraphStore, numbers: Iterable[int] | None = None) -> Iterator[GraphBatch]:
        """The subgraphs induced by the parts; edges keep their order, features are read part by part.

        Args:
            store: one graph.
            numbers: numbers of the parts, default all of them.
        """
        local = torch.empty_like(self.nodes)  # number of every node in its part
        sizes = self.ptr.diff()
        within = torch.arange(local.numel()) - torch.repeat_interleave(self.ptr[:-1], sizes, output_size=local.numel())
        local[self.nodes] = within.to(torch.int32)
        del within
        part, edge_index, edges = self._inner(store, local)
        ends = [0, *torch.bincount(part, minlength=self.parts).cumsum(0).tolist()]
        chosen = range(self.parts) if numbers is None else numbers
        for number in chosen:
            kept = slice(ends[number], ends[number + 1])
            yield subgraph(store, self.of(number), edge_index[:, kept], None if edges is None else edges[kept])

    def of(self, number: int) -> Tensor:
        """(n,) int32, the nodes of a part."""
        return self.nodes[self.ptr[number] : self.ptr[number + 1]]

    def _inner(self, store: GraphStore, local: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Edges inside parts, grouped by part: part (e,), ends in numbers of the part (2, e), numbers (e,) or None."""
        numbered = has_edge_rows(store)
        parts, ends, numbers = [], [], []
        for first in range(0, store.num_edges, CHUNK):
            edge_index = store.edge_index[:, first : first + CHUNK].to(torch.int64)
            source, target = self.part[edge_index[0]], self.part[edge_index[1]]
            inner = (source == target).nonzero().squeeze(1)
            parts.append(source[inner])
            ends.append(local[edge_index[:, inner]])
            numbers.append(inner + first if numbered else inner[:0])
        part = torch.cat(parts) if parts else self.part[:0]
        order = part.argsort(stable=True)
        edge_index = torch.cat(ends, dim=1)[:, order] if ends else torch.empty(2, 0, dtype=torch.int64)
        return part[order], edge_index, torch.cat([*numbers, order[:0]])[order] if numbered else None
