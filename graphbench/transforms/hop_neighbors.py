"""k-hop neighbour lists of all nodes, for distance masks on graphs too large for n x n blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.structures.pairs import LONGEST
from graphbench.transforms.base import Level, Transform

_WORK = 1 << 22  # edges that the sources of one block may walk in one step, about (16 bytes each)


@register("HopNeighbors")
class HopNeighbors(Transform):
    r"""All nodes within ``cutoff`` hops of every node, and how many hops away they are.

    .. math:: N_i = \{ j : d_{ij} \le c \}, \qquad d_{ij} = \min \{ k : (A^k)_{ij} > 0 \}, \quad d_{ii} = 0

    A: adjacency as stored: a directed edge is walked from source to target only, unless ``undirected``.

    Args:
        cutoff: c, 1 .. 253.
        undirected: edges are walked both ways.

    Returns:
        ``row_ptr`` (N+1,) int64, ``col`` (P,) int32 numbered inside each graph, ascending in every row, and ``hop``
        (P,) uint8. Every node lists itself at hop 0.

    Raises:
        ValueError: the cut-off is out of range.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("row_ptr", "col", "hop")
    level: Level = "hops"

    def __init__(self, cutoff: int = 1, undirected: bool = False) -> None:
        if not 1 <= cutoff <= LONGEST:
            raise ValueError(f"cutoff must lie in 1 .. {LONGEST}, received {cutoff}")
        self.cutoff = cutoff
        self.undirected = undirected

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Lists of all graphs of a store."""
        first = np.repeat(store.node_ptr.numpy()[:-1], store.sizes.numpy())
        counts, cols, hops = [np.zeros(1, dtype=np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.uint8)]
        for start, hops_plus_one in self._blocks(_adjacency(store, self.undirected)):
            count = np.diff(hops_plus_one.indptr)
            counts.append(count.astype(np.int64))
            cols.append((hops_plus_one.indices - np.repeat(first[start : start + len(count)], count)).astype(np.int32))
            hops.append((hops_plus_one.data - 1).astype(np.uint8))
        return {
            "row_ptr": torch.from_numpy(np.cumsum(np.concatenate(counts))),
            "col": torch.from_numpy(np.concatenate(cols)),
            "hop": torch.from_numpy(np.concatenate(hops)),
        }

    def _blocks(self, adjacency: sp.csr_array) -> Iterator[tuple[int, sp.csr_array]]:
        """First source and the hops + 1 (rows, N) from some sources after the other, columns ascending."""
        total, start, width = adjacency.shape[0], 0, 1024
        degree = np.diff(adjacency.indptr)
        while start < total:
            rows = min(width, total - start)
            reached = _ones(np.arange(start, start + rows), total)
            hops_plus_one = reached.astype(np.int16)
            walked = 1
            for hop in range(1, self.cutoff + 1):
                walked = max(walked, int(degree[reached.indices].sum()))
                reached = reached @ adjacency  # booleans: or of ands
                reached = reached > hops_plus_one.astype(bool)
                if not reached.nnz:
                    break
                hops_plus_one = hops_plus_one + reached.astype(np.int16) * (hop + 1)
            hops_plus_one.sort_indices()
            yield start, hops_plus_one
            start += rows
            report(start, total)
            # the next block walks about as far as this one
            width = int(np.clip(rows * _WORK / walked, rows / 8, rows * 8, dtype=np.float64)) or 1


def _adjacency(store: GraphStore, undirected: bool) -> sp.csr_array:
    """(N, N) of all graphs, block-diagonal, repeated edges once."""
    shift = np.repeat(store.node_ptr.numpy()[:-1], store.edge_counts.numpy())
    ends = store.edge_index.numpy().astype(np.int64) + shift
    ends = np.concatenate([ends, ends[::-1]], axis=1) if undirected else ends
    ones = np.ones(ends.shape[1], dtype=bool)
    return sp.coo_array((ones, tuple(ends)), shape=(store.num_nodes, store.num_nodes)).tocsr()


def _ones(columns: np.ndarray, total: int) -> sp.csr_array:
    """(rows, total) with one entry per row."""
    return sp.csr_array(
        (np.ones(len(columns), dtype=bool), columns, np.arange(len(columns) + 1)), shape=(len(columns), total)
    )
