"""Probabilities of walking along an edge in some steps.

Paper: Where Did the Gap Go? Reassessing the Long-Range Graph Benchmark, https://arxiv.org/abs/2309.00367 (its code).
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms._dense_blocks import adjacency_stacks, edge_cells
from graphbench.transforms.random_walk_se import RandomWalkSE


@register("RandomWalkEdgeSE")
class RandomWalkEdgeSE:
    r"""Probability that a walk of k steps leads from the source of an edge to its target, for 0 and several more k.

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
    level: ClassVar[str] = "edge"

    def __init__(self, times: list[int]) -> None:
        self.times = RandomWalkSE(times).times

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Encodes all graphs of a store."""
        return {"landing": self.probabilities(store).to(torch.float32)}

    def probabilities(self, store: GraphStore) -> Tensor:
        """(E, 1 + len(times)) float64."""
        source, target = store.edge_index
        landing = torch.zeros(store.num_edges, 1 + len(self.times), dtype=torch.float64)
        landing[:, 0] = (source == target).to(landing.dtype)
        for rows, adjacency in adjacency_stacks(store, symmetrize=False):
            edges, cells = edge_cells(store, rows)
            walk = adjacency / adjacency.sum(2, keepdim=True).clamp_min(1)
            power = walk
            for step in range(1, max(self.times) + 1):
                for column in (c for c, time in enumerate(self.times, start=1) if time == step):
                    landing[edges, column] = power.flatten()[cells]
                power = power @ walk
        return landing
