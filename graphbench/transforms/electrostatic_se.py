"""Statistics of the electrostatic potential between nodes, with GraphGPS's conventions.

Paper: Rethinking Graph Transformers with Spectral Attention, https://arxiv.org/abs/2106.03893; conventions: GraphGPS,
https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import Stack, StackTransform


@register("ElectrostaticSE")
class ElectrostaticSE(StackTransform):
    r"""Ten statistics per node of the potential that a charge at one node makes at another one.

    .. math:: V_{ij} = (L^+)_{ij} - (L^+)_{jj}, \qquad L = D - A

    A: adjacency without self loops, repeated edges counted; D: degrees; L^+: pseudo-inverse. Columns for node j::

        0 .. 3   min, max, mean, standard deviation of V_ij over all i
        4 .. 7   min of V_ji, max of V_ij, mean and standard deviation of V_ji over all i
        8, 9     sum over i of (D^-1 A)_ij V_ij, sum over i of (D^-1 A)_ji V_ji

    Returns:
        ``potential`` (N, 10) float32.

    Conventions (GraphGPS's unless it says ours):
        - Column 5 repeats column 1: a slip of the original, kept because models have weights for it.
        - Statistics run over all nodes of the graph, the node itself (V_jj = 0) and other components included; the
          standard deviation divides by n - 1.
        - Isolated nodes (ours): a node without neighbours has 0 in columns 8 and 9, and a graph of one node is all 0.
          The original gives NaN to every node of such a graph.
        - Disconnected graphs (ours): the pseudo-inverse in float64 is exact. The original inverts in float32, where a
          rounding error of the second zero eigenvalue becomes its largest value.
        - Directed graphs (ours): each is made undirected, see :class:`LaplacianPE`.
    """

    version: ClassVar[int] = 1
    by_graph = True
    outputs: ClassVar[tuple[str, ...]] = ("potential",)
    columns: ClassVar[int] = 10

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"potential": torch.zeros(store.num_nodes, self.columns, dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        if stack.rows.shape[1] > 1:
            out["potential"][stack.rows] = _statistics(stack).to(out["potential"].dtype)


def _statistics(stack: Stack) -> Tensor:
    """(B, n, 10)."""
    inverse, matrix = stack.pseudo_inverse, stack.laplacian("none")
    degree = matrix.diagonal(dim1=1, dim2=2)
    potential = inverse - inverse.diagonal(dim1=1, dim2=2).unsqueeze(1)
    walk = (torch.diag_embed(degree) - matrix) / degree.clamp_min(1).unsqueeze(2)
    neighbours = walk * potential
    return torch.stack(
        [
            potential.amin(1),
            potential.amax(1),
            potential.mean(1),
            potential.std(1),
            potential.amin(2),
            potential.amax(1),
            potential.mean(2),
            potential.std(2),
            neighbours.sum(1),
            neighbours.sum(2),
        ],
        dim=2,
    )
