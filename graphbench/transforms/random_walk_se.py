"""Landing probabilities of random walks, with GraphGPS's conventions.

Paper: Graph Neural Networks with Learnable Structural and Positional Representations,
https://arxiv.org/abs/2110.07875.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms._dense_blocks import adjacency_stacks


@register("RandomWalkSE")
class RandomWalkSE:
    r"""Probability that a walk of k steps ends where it began, for several k.

    .. math:: P = D^{-1} A, \qquad s_{ik} = (P^k)_{ii}

    A: adjacency as stored (self loops and repeated edges count, directed edges stay directed); D: out-degrees. A node
    without outgoing edges has 0 for every k >= 1.

    Args:
        times: numbers of steps k, each at least 1.

    Returns:
        ``landing`` (N, len(times)) float32.
    """

    version: ClassVar[int] = 1

    def __init__(self, times: list[int]) -> None:
        if not times or any(step != int(step) or step < 1 for step in times):
            raise ValueError(f"times must list at least one number of steps, each at least 1, received {list(times)}")
        self.times = [int(step) for step in times]

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Encodes all graphs of a store."""
        return {"landing": self.probabilities(store).to(torch.float32)}

    def probabilities(self, store: GraphStore) -> Tensor:
        """(N, len(times)) float64."""
        landing = torch.zeros(store.num_nodes, len(self.times), dtype=torch.float64)
        for rows, adjacency in adjacency_stacks(store, symmetrize=False):
            landing[rows] = self._diagonals(adjacency / adjacency.sum(2, keepdim=True).clamp_min(1))
        return landing

    def _diagonals(self, walk: Tensor) -> Tensor:
        """Diagonals of powers, (B, n, n) -> (B, n, len(times)).

        Half of the products suffice: with a + b = k, the diagonal of P^k is the row sum of P^a * (P^b)^T.
        """
        longest = max(self.times)
        diagonals = {1: walk.diagonal(dim1=1, dim2=2)}
        power = walk
        for half in range(1, longest // 2 + 1):  # power = P^half
            diagonals[2 * half] = (power * power.mT).sum(2)
            if 2 * half == longest:
                break
            following = power @ walk
            diagonals[2 * half + 1] = (power * following.mT).sum(2)
            power = following
        return torch.stack([diagonals[step] for step in self.times], dim=2)
