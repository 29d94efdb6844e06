"""Edge lists that may be larger than memory: both directions of every edge, each once, written to a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.large.arrays import allocate, buffer_tensor, create
from graphbench.data.large.incoming_edges import CHUNK, IncomingEdges


def write_undirected(edge_index: Tensor, num_nodes: int, path: Path, piece: int = CHUNK) -> None:
    """Writes what :func:`~graphbench.data.edge_lists.to_undirected` gives, in memory that does not grow with the edges.

    Every edge and its reverse are sorted into ranges of sources; inside a range, equal edges are neighbours. The
    disk (``$TMPDIR``) holds 32 bytes per listed edge besides the result: both directions, before and after sorting.

    Args:
        edge_index: (2, E) integer, may be mapped from a file.
        num_nodes: nodes of the graph, below 2^31.
        path: the ``.npy`` file to be written, (2, distinct edges) int32, sorted by source and target.
        piece: edges looked at at a time.

    Raises:
        ValueError: an edge names a node that is not there.
        RunFailed: the disk is full.
    """
    listed = edge_index.shape[1]
    buffer = allocate((2, 2 * listed), torch.int32)
    doubled = buffer_tensor(buffer)
    for first in range(0, listed, piece):
        last = min(first + piece, listed)
        for row in range(2):
            part = edge_index[row, first:last]
            doubled[row, first:last] = part
            doubled[1 - row, listed + first : listed + last] = part
    buffer.release()
    # Grouped by their second row: with both directions listed, that is the source of the edges written.
    grouped = IncomingEdges.of(doubled, num_nodes, numbered=False)
    del doubled, buffer
    ptr, target = grouped.ptr.numpy(), grouped.source.numpy()
    _drop_repeated(ptr, target, piece)
    total = int(ptr[-1])
    written = create(path, (2, total), np.int32)
    for nodes, edges in _ranges(ptr, piece):
        source = np.arange(nodes.start, nodes.stop, dtype=np.int32)
        written[0, edges] = source.repeat(np.diff(ptr[nodes.start : nodes.stop + 1]))
        written[1, edges] = target[edges]
        report(edges.stop, total)
    written.flush()


def _drop_repeated(ptr: np.ndarray, target: np.ndarray, piece: int) -> None:
    """Sorts the targets of every source and keeps one of each, moved to the front of ``target``; all of it in place.

    A range is one array of codes, source and target in an integer, which is sorted where it lies: sorts that leave
    their input as it is, or return an order, take several times as much memory.

    Args:
        ptr: (N+1,) int64, first edge of every source and the total; afterwards those that are kept.
        target: (E,) int32, of every edge.
        piece: edges of a range.
    """
    kept = 0
    for nodes, edges in list(_ranges(ptr, piece)):
        ends = ptr[nodes.start + 1 : nodes.stop + 1]
        code = np.arange(len(ends)).repeat(np.diff(ends, prepend=edges.start))
        code <<= 31
        code |= target[edges]
        code.sort()
        is_first = np.ones(len(code), dtype=bool)
        np.not_equal(code[1:], code[:-1], out=is_first[1:])
        code = code[is_first]
        target[kept : kept + len(code)] = code & (2**31 - 1)
        code >>= 31
        np.cumsum(np.bincount(code, minlength=len(ends)), out=ends)
        ends += kept
        kept += len(code)


def _ranges(ptr: np.ndarray, piece: int) -> Iterator[tuple[slice, slice]]:
    """Ranges of nodes with at most ``piece`` edges, or of one node with more; and their edges."""
    first, num_nodes = 0, len(ptr) - 1
    while first < num_nodes:
        last = int(ptr.searchsorted(ptr[first] + piece, side="right")) - 1
        last = min(max(last, first + 1), num_nodes)
        yield slice(first, last), slice(int(ptr[first]), int(ptr[last]))
        first = last
