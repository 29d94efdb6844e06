"""Statistics of the electrostatic potential between nodes, with GraphGPS's conventions.

Paper: Rethinking Graph Transformers with Spectral Attention, https://arxiv.org/abs/2106.03893; conventions: GraphGPS,
https://arxiv.org/abs/2205.12454.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms._dense_blocks import adjacency_stacks
from graphbench.transforms.laplacian_pe import laplacian


@register("ElectrostaticSE")
class ElectrostaticSE:
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
    columns: ClassVar[int] = 10

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Encodes all graphs of a store."""
        return {"potential": self.statistics(store).to(torch.float32)}

    def statistics(self, store: GraphStore) -> Tensor:
        """(N, 10) float64."""
        out = torch.zeros(store.num_nodes, self.columns, dtype=torch.float64)
        for rows, adjacency in adjacency_stacks(store, symmetrize=True):
            if rows.shape[1] > 1:
                out[rows] = _statistics(laplacian(adjacency, "none"))
        return out


def pseudo_inverse(matrices: Tensor) -> Tensor:
    """Pseudo-inverses of a stack of Laplacians, (B, n, n) float64 -> (B, n, n)."""
    # A zero eigenvalue comes out as a few rounding errors, which PyTorch's own threshold for tiny matrices just misses.
    rounding = max(1e-13, matrices.shape[1] * torch.finfo(matrices.dtype).eps)
    return torch.linalg.pinv(matrices, rtol=rounding, hermitian=True)


def _statistics(matrix: Tensor) -> Tensor:
    inverse, degree = pseudo_inverse(matrix), matrix.diagonal(dim1=1, dim2=2)
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
