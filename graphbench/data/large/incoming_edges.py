"""The edges of one large graph sorted by target, in memory that does not grow with their number."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
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
        for first in range(0, total, CHUNK):
            _group(edge_index[:, first : first + CHUNK], first, starts.to(torch.int32), cursor, (source, target, *edge))
        for first, last in pairwise([*ptr[starts].tolist(), total]):
            order = stable_order(target[first:last])
            for column in (source, *edge):
                column[first:last] = column[first:last][order]
        for buffer in buffers:
            buffer.release()
        return cls(ptr, source, edge[0] if edge else None, loops)

    def numbers_of(self, entries: np.ndarray) -> Tensor | None:
        """(e,) numbers, in the order given, of edges of this list; None when not asked for."""
        return None if self.edge is None else self.edge[torch.from_numpy(entries)]


def _group(part: Tensor, first: int, starts: Tensor, cursor: list[int], to: tuple[Tensor, ...]) -> None:
    """Appends edges to the ranges of their targets.

    Args:
        part: (2, e) of them.
        first: number of the first.
        starts: (R,) int32, first node of every range.
        cursor: place of the next edge of every range; moved on.
        to: sources, targets and, where kept, numbers of all edges.
    """
    source, target = part.to(torch.int32).contiguous()
    number = torch.searchsorted(starts, target, right=True, out_int32=True).sub_(1)
    counts = torch.bincount(number, minlength=len(starts)).tolist()
    order = stable_order(number)
    for column, values in zip(to, (source, target, order)):
        ordered = values[order] if values is not order else order.add_(first)
        for begin, rows in zip(cursor, ordered.split(counts), strict=True):
            column[begin : begin + len(rows)] = rows
    cursor[:] = map(operator.add, cursor, counts)


def stable_order(keys: Tensor) -> Tensor:
    """Result of ``keys.argsort(stable=True)`` in a third of its memory: key and place in one integer, sorted.

    Args:
        keys: (E,) int32, from 0 on, fewer than 2^32.
    """
    code = keys.numpy().astype(np.int64)
    bits = len(code).bit_length()
    code <<= bits
    code |= np.arange(len(code), dtype=np.uint32)
    code.sort()
    code &= (1 << bits) - 1
    return torch.from_numpy(code)


def _count(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor]:
    degree, loops = (torch.zeros(num_nodes, dtype=torch.int32) for _ in range(2))
    for first in range(0, edge_index.shape[1], CHUNK):
        part = edge_index[:, first : first + CHUNK]
        outside = ((part < 0) | (part >= num_nodes)).any(0)
        if bool(outside.any()):
            bad = int(outside.nonzero()[0])
            s, t = part[:, bad].tolist()
            raise ValueError(f"edge {first + bad} is {s} -> {t}, but nodes are numbered 0 .. {num_nodes - 1}")
        source, target = part.to(torch.int32)
        degree.index_add_(0, target, torch.ones_like(target))
        around = target[source == target]
        loops.index_add_(0, around, torch.ones_like(around))
    ptr = torch.zeros(num_nodes + 1, dtype=torch.int64)
    torch.cumsum(degree, 0, out=ptr[1:])
    return ptr, loops
