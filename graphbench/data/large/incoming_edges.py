"""The edges of one large graph sorted by target, in memory that does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from graphbench.data.large.arrays import allocate, buffer_tensor

CHUNK = 2**22
"""Edges that are looked at at a time."""


@dataclass(frozen=True, eq=False)
class IncomingEdges:
    """Incoming edges of every node; edges with one target keep the order they were given in.

    Worked example, the edges 0->1, 2->0, 2->1: ``ptr`` [0, 1, 3, 3], ``source`` [2, 0, 2], ``edge`` [1, 0, 2].

    Attributes:
        ptr: (N+1,) int64, first edge of every node and the total.
        source: (E,) int32, where each edge comes from.
        edge: (E,) int64, its number in the order given, or None when not asked for.
        loops: (N,) int32, self loops of every node.
    """

    ptr: Tensor
    source: Tensor
    edge: Tensor | None
    loops: Tensor

    @classmethod
    def of(cls, edge_index: Tensor, num_nodes: int, *, numbered: bool) -> IncomingEdges:
        """Sorts edges by target in two sweeps: into ranges of targets that fit in memory, then range by range.

        Args:
            edge_index: (2, E) integer, source and target; may be mapped from a file.
            num_nodes: N, below 2^31.
            numbered: keep the number of every edge.

        Raises:
            ValueError: an edge names a node that is not there.
        """
        ptr, loops = _count(edge_index, num_nodes)
        total = edge_index.shape[1]
        buffers = [allocate((total,), torch.int32), allocate((total,), torch.int32)]
        if numbered:
            buffers.append(allocate((total,), torch.int64))
        source, target, *edge = map(buffer_tensor, buffers)
        # Every range has about CHUNK edges; one node with more of them is a range of its own.
        starts = torch.searchsorted(ptr, torch.arange(0, max(total, 1), CHUNK), right=True).sub_(1).unique()
        cursor = ptr[starts].tolist()
        for first, last, s, t in _chunks(edge_index):
            part = torch.searchsorted(starts, t, right=True).sub_(1).to(torch.int16)
            order = part.argsort(stable=True)
            counts = torch.bincount(part, minlength=starts.numel()).tolist()
            columns = [s[order], t[order]] + ([torch.arange(first, last)[order]] if edge else [])
            taken = 0
            for number, count in enumerate(counts):
                for to, values in zip((source, target, *edge), columns):
                    to[cursor[number] : cursor[number] + count] = values[taken : taken + count]
                cursor[number] += count
                taken += count
        edges = [*ptr[starts].tolist(), total]
        for first, last in pairwise(edges):
            order = target[first:last].argsort(stable=True)
            for column in (source, *edge):
                column[first:last] = column[first:last][order]
        for buffer in buffers:
            buffer.release()
        return cls(ptr, source, edge[0] if edge else None, loops)


def _count(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    degree, loops = (torch.zeros(num_nodes, dtype=torch.int32) for _ in range(2))
    for first, _, s, t in _chunks(edge_index):
        outside = (s < 0) | (s >= num_nodes) | (t < 0) | (t >= num_nodes)
        if bool(outside.any()):
            bad = int(outside.nonzero()[0])
            raise ValueError(
                f"edge {first + bad} is {int(s[bad])} -> {int(t[bad])}, but nodes are numbered 0 .. {num_nodes - 1}"
            )
        degree.index_add_(0, t, torch.ones_like(t, dtype=torch.int32))
        around = t[s == t]
        loops.index_add_(0, around, torch.ones_like(around, dtype=torch.int32))
    ptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    torch.cumsum(degree, 0, out=ptr[1:])
    return ptr, loops


def _chunks(edge_index: Tensor) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    for first in range(0, edge_index.shape[1], CHUNK):
        last = min(first + CHUNK, edge_index.shape[1])
        source, target = (end[first:last].to(torch.int64).contiguous() for end in edge_index)
        yield first, last, source, target
