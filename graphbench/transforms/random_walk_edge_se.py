"""Probabilities of walking along an edge in some steps.

Paper: Where Did the Gap Go? Reassessing the Long-Range Graph Benchmark, https://arxiv.org/abs/2309.00367 (its code).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import Stack, StackTransform
from graphbench.transforms.algorithms.large_graphs import LargeGraph
from graphbench.transforms.base import Level
from graphbench.transforms.random_walk_se import RandomWalkSE


@register("RandomWalkEdgeSE")
class RandomWalkEdgeSE(StackTransform):
    r"""Random-walk encoding of edges: probability that k steps lead from source to target, for 0 and several more k.

    .. math:: P = D^{-1} A, \qquad s_{ij,k} = (P^k)_{ij}

    A and D as in :class:`RandomWalkSE`.

    Args:
        times: numbers of steps k, each at least 1; a column for k = 0 (1 for a self loop, else 0) is put before them.

    Returns:
        ``landing`` (E, 1 + len(times)) float32.

    Conventions: a number of steps counts as it is written (ours); the original counts consecutive times from 1,
    whatever the first one is, and fails for others.
    """

    version: ClassVar[int] = 1
    by_graph = True
    outputs: ClassVar[tuple[str, ...]] = ("landing",)
    level: Level = "edge"
    large_from: int | None = 2049

    def __init__(self, times: list[int]) -> None:
        self.times = RandomWalkSE(times).times

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """Zero steps."""
        source, target = store.edge_index
        landing = torch.zeros(store.num_edges, 1 + len(self.times), dtype=dtype)
        landing[:, 0] = (source == target).to(dtype)
        return {"landing": landing}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        edges, cells = stack.edges
        walk = stack.adjacency / stack.adjacency.sum(2, keepdim=True).clamp_min(1)
        power, landing = walk, out["landing"]
        for step in range(1, max(self.times) + 1):
            for column in (c for c, time in enumerate(self.times, start=1) if time == step):
                landing[edges, column] = power.flatten()[cells].to(landing.dtype)
            power = power @ walk if step < max(self.times) else power

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph, some targets at a time."""
        walk, landing = graph.walk(), out["landing"][graph.edges]
        source, target = graph.ends

        def block(first: int, to: np.ndarray) -> None:
            edges = np.flatnonzero((target >= first) & (target < first + to.shape[1]))
            for step in range(1, max(self.times) + 1):
                to = walk @ to
                for column in (c for c, time in enumerate(self.times, start=1) if time == step):
                    landing[edges, column] = torch.from_numpy(to[source[edges], target[edges] - first]).to(landing)

        graph.in_columns(block)
