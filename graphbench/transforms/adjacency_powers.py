"""Powers of a normalised adjacency for all pairs of nodes: random walks (GRIT) and proximities (a survey's attention).

Ma et al., Graph Inductive Biases in Transformers without Message Passing, https://arxiv.org/abs/2305.17589;
Min et al., Transformer for Graphs: An Overview from Architecture Perspective, https://arxiv.org/abs/2202.08455.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.errors import check_at_least
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import Stack, StackTransform
from graphbench.transforms.base import Level


class AdjacencyPowers(StackTransform):
    """Consecutive powers of a matrix M of every graph; subclasses say which matrix, and which powers.

    Returns:
        ``powers`` (sum n_g^2, K) float32, row-major per graph: entry (i, j) of every power.
    """

    outputs: ClassVar[tuple[str, ...]] = ("powers",)
    level: Level = "pair"

    @property
    @abstractmethod
    def exponents(self) -> range:
        """The K powers."""

    @abstractmethod
    def matrix(self, stack: Stack) -> Tensor:
        """(B, n, n) M."""

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"powers": torch.zeros(int(store.pair_ptr[-1]), len(self.exponents), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        matrix, pairs = self.matrix(stack), stack.pairs.flatten()
        power = torch.eye(matrix.shape[1], dtype=matrix.dtype).expand_as(matrix)
        for exponent in range(self.exponents.stop):
            power = power @ matrix if exponent else power
            if exponent in self.exponents:
                column = out["powers"][:, exponent - self.exponents.start]
                column[pairs] = power.flatten().to(column.dtype)


@register("RandomWalkPowers")
class RandomWalkPowers(AdjacencyPowers):
    r"""Relative random-walk probabilities (RRWP): where a walk from i is after 0, 1, .., K - 1 steps.

    .. math:: P = D^{-1} A, \qquad p_{ij} = [\, I, P, P^2, \dots, P^{K-1} \,]_{ij}

    A: adjacency as stored; D: out-degrees. A node without outgoing edges has a row of zeros in P.

    Args:
        ksteps: K.
        add_identity: begin with I; False: the powers are 1 .. K.

    Differences from GRIT's code: ``add_identity`` is always true there, whatever its key says.
    """

    version: ClassVar[int] = 1
    by_graph = True

    def __init__(self, ksteps: int = 21, add_identity: bool = True) -> None:
        check_at_least(1, ksteps=ksteps)
        self.ksteps, self.add_identity = ksteps, add_identity

    @property
    def exponents(self) -> range:
        """0 .. K - 1, or 1 .. K."""
        return range(self.ksteps) if self.add_identity else range(1, self.ksteps + 1)

    def matrix(self, stack: Stack) -> Tensor:
        """(B, n, n) P."""
        return stack.adjacency / stack.adjacency.sum(2, keepdim=True).clamp_min(1)


@register("ProximityPowers")
class ProximityPowers(AdjacencyPowers):
    r"""Proximities of all pairs: entries of the powers 1 .. ``hops`` of the normalised adjacency with self loops.

    .. math:: \hat A = D^{-1/2} (A \vee A^\top \vee I) D^{-1/2}, \qquad p_{ij} = [\, \hat A, \dots, \hat A^K \,]_{ij}

    Edges count once and in both directions; D: their degrees, the self loop included.

    Args:
        hops: K.
    """

    version: ClassVar[int] = 1

    def __init__(self, hops: int = 3) -> None:
        check_at_least(1, hops=hops)
        self.hops = hops

    @property
    def exponents(self) -> range:
        """1 .. K."""
        return range(1, self.hops + 1)

    def matrix(self, stack: Stack) -> Tensor:
        """(B, n, n) the normalised adjacency."""
        loops = torch.eye(stack.adjacency.shape[1], dtype=stack.adjacency.dtype)
        linked = ((stack.adjacency + stack.adjacency.mT + loops) > 0).to(stack.adjacency.dtype)
        scale = linked.sum(2).rsqrt()
        return scale.unsqueeze(2) * linked * scale.unsqueeze(1)
