"""Landing probabilities of random walks, with GraphGPS's conventions.

Paper: Graph Neural Networks with Learnable Structural and Positional Representations,
https://arxiv.org/abs/2110.07875.
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

_ROUNDING = 1e-13  # what is left of a probability of 0 in the sum over a spectrum is smaller


@register("RandomWalkSE")
class RandomWalkSE(StackTransform):
    r"""Random-walk structural encoding: probability that a walk of k steps ends where it began, for several k.

    .. math:: P = D^{-1} A, \qquad s_{ik} = (P^k)_{ii}

    A: adjacency as stored (self loops and repeated edges count, directed edges stay directed); D: out-degrees. A node
    without outgoing edges has 0 for every k >= 1.

    Args:
        times: numbers of steps k, each at least 1.

    Returns:
        ``landing`` (N, len(times)) float32.

    Computed in float64: undirected graphs without self loops from the spectrum of their normalised adjacency
    (probabilities below 1e-13 become 0), others from powers of P, and graphs of more than 2,048 nodes from products of
    sparse P with some columns at a time, which takes max(times) * n * E operations.
    """

    version: ClassVar[int] = 2
    by_graph = True
    outputs: ClassVar[tuple[str, ...]] = ("landing",)
    large_from: int | None = 2049

    def __init__(self, times: list[int]) -> None:
        if not times or any(step != int(step) or step < 1 for step in times):
            raise ValueError(f"times must list at least one number of steps, each at least 1, received {list(times)}")
        self.times = [int(step) for step in times]

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"landing": torch.zeros(store.num_nodes, len(self.times), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        looped = (stack.adjacency.diagonal(dim1=1, dim2=2) != 0).any(1)
        general = stack.directed | looped
        for chosen, diagonals in ((~general, self._from_spectrum), (general, self._from_powers)):
            if bool(chosen.any()):
                out["landing"][stack.rows[chosen]] = diagonals(stack, chosen).to(out["landing"].dtype)

    def _from_spectrum(self, stack: Stack, chosen: Tensor) -> Tensor:
        """(B, n, len(times)); P is similar to I - L, L the symmetric normalised Laplacian, and so are its powers."""
        values, vectors = stack.eigen("sym")
        powers = (1 - values[chosen]).unsqueeze(2) ** torch.tensor(self.times)
        landing = vectors[chosen].square() @ powers
        return torch.where(landing < _ROUNDING, 0.0, landing)

    def _from_powers(self, stack: Stack, chosen: Tensor) -> Tensor:
        """(B, n, len(times)); half of the products suffice.

        With a + b = k, the diagonal of P^k is the row sum of P^a * (P^b)^T.
        """
        adjacency = stack.adjacency[chosen]
        walk = adjacency / adjacency.sum(2, keepdim=True).clamp_min(1)
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

    def fill_large(self, graph: LargeGraph, out: Mapping[str, Tensor]) -> None:
        """One large graph, some columns of the powers at a time: to = P^a e_j and from_ = (P^T)^b e_j give a + b."""
        walk = graph.walk()
        back = walk.T.tocsr()
        longest = max(self.times)

        def block(first: int, unit: np.ndarray) -> None:
            diagonals, to, from_ = {}, unit, unit
            for step in range(1, longest + 1):
                if step % 2:
                    to = walk @ to
                else:
                    from_ = back @ from_
                diagonals[step] = np.einsum("ij,ij->j", from_, to)
            landing = np.stack([diagonals[step] for step in self.times], axis=1)
            rows = out["landing"][graph.nodes][first : first + unit.shape[1]]
            rows.copy_(torch.from_numpy(landing))

        graph.in_columns(block)
