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
        part = edge_index[:, first : first + piece]
        doubled[:, first : first + part.shape[1]] = part
        doubled[:, listed + first : listed + first + part.shape[1]] = part.flip(0)
    buffer.release()
    # Grouped by their second row: with both directions listed, that is the source of the edges written.
    grouped = IncomingEdges.of(doubled, num_nodes, numbered=False)
    del doubled, buffer
    total = sum(len(code) for _, code in _distinct(grouped, num_nodes, piece))
    written = create(path, (2, total), np.int32)
    done = 0
    for first, code in _distinct(grouped, num_nodes, piece):
        until = done + len(code)
        written[0, done:until] = first + torch.div(code, num_nodes, rounding_mode="floor").numpy()
        written[1, done:until] = (code % num_nodes).numpy()
        done = until
        report(done, total)
    written.flush()


def _distinct(grouped: IncomingEdges, num_nodes: int, piece: int) -> Iterator[tuple[int, Tensor]]:
    """Ranges of nodes: first node, and the sorted codes (node - first) * N + neighbour of their distinct edges."""
    ptr, first = grouped.ptr, 0
    while first < num_nodes:
        last = int(torch.searchsorted(ptr, ptr[first] + piece, right=True)) - 1
        last = min(max(last, first + 1), num_nodes)
        counts = ptr[first : last + 1].diff()
        row = torch.repeat_interleave(torch.arange(last - first), counts)
        column = grouped.source[int(ptr[first]) : int(ptr[last])].to(torch.int64)
        yield first, (row * num_nodes + column).sort().values.unique_consecutive()
        first = last
