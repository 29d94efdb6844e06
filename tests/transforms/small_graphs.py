"""Graphs written down by hand, and those of recorded batches."""

from __future__ import annotations

import torch
from torch import Tensor

from graphbench.data.store import GraphStore


def store_of(edge_index: Tensor, ptr: Tensor) -> GraphStore:
    """The graphs of a recorded batch."""
    graph = torch.repeat_interleave(torch.arange(len(ptr) - 1), ptr.diff())[edge_index[0]]
    return GraphStore.from_arrays(
        ptr.diff(), torch.bincount(graph, minlength=len(ptr) - 1), edge_index - ptr[:-1][graph]
    )


def undirected(nodes: int, *pairs: tuple[int, int]) -> GraphStore:
    """One graph, both directions of every pair."""
    both = [*pairs, *((b, a) for a, b in pairs)]
    return GraphStore.from_arrays([nodes], [len(both)], torch.tensor(both, dtype=torch.int64).reshape(-1, 2).T)
