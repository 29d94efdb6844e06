"""Effective resistances: the graph as a network of unit resistors.

Papers: Graph Sparsification by Effective Resistances, https://arxiv.org/abs/0803.0929; Affinity-Aware Graph Networks,
https://arxiv.org/abs/2206.11941; conventions: Exphormer's code, https://arxiv.org/abs/2303.06147.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms._dense_blocks import adjacency_stacks, edge_cells
from graphbench.transforms.electrostatic_se import pseudo_inverse
from graphbench.transforms.laplacian_pe import laplacian


@register("EffectiveResistance")
class EffectiveResistance:
    r"""Vectors of nodes between which squared distances are effective resistances.

    .. math:: r_i = S C^{1/2} B L^+ e_i, \qquad \|C^{1/2} B L^+ (e_i - e_j)\|^2 = (e_i - e_j)^T L^+ (e_i - e_j)

    L: Laplacian D - A without self loops; B: one row per directed edge, -1 at its source and +1 at its target;
    C = 1/2, because every edge is there twice. S keeps K rows, the same number for all graphs of a data set.

    Args:
        accuracy: relative error allowed. A graph of n nodes and m directed edges wants k = ceil(8 ln m / accuracy^2)
            rows; K is the largest min(n / 2, k) of all graphs.

    Returns:
        ``embedding`` (N, K) float32.

    Where k is at least n / 2, S keeps the first K edges; otherwise it makes k random combinations (independent normal
    numbers of variance 1 / k), which keep distances up to ``accuracy``. What is missing to K rows is 0.

    Conventions (Exphormer's unless it says ours):
        - The first K edges are all that the original keeps, although distances then are too small.
        - Random numbers are drawn from a fixed seed, graph by graph (ours; the original fails there).
        - Directed graphs are made undirected for L (ours), see :class:`LaplacianPE`; a graph without edges has zeros.
    """

    version: ClassVar[int] = 1

    def __init__(self, accuracy: float = 0.1) -> None:
        if not accuracy > 0:
            raise ValueError(f"accuracy must be more than 0, received {accuracy}")
        self.accuracy = accuracy

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Encodes all graphs of a store."""
        return {"embedding": self.embedding(store).to(torch.float32)}

    def embedding(self, store: GraphStore) -> Tensor:
        """(N, max K) float64."""
        sizes, counts = store.sizes.tolist(), store.edge_counts.tolist()
        kept = max((min(n // 2, self._wanted(edges)) for n, edges in zip(sizes, counts, strict=True)), default=0)
        out = torch.zeros(store.num_nodes, max(1, kept), dtype=torch.float64)
        random = torch.Generator().manual_seed(0)
        for rows, adjacency in adjacency_stacks(store, symmetrize=True):
            inverse = pseudo_inverse(laplacian(adjacency, "none"))
            size = rows.shape[1]
            _, cells = edge_cells(store, rows)
            place, pair = cells // size**2, cells % size**2
            for b, nodes in enumerate(rows):
                ends = pair[place == b]
                wanted = self._wanted(len(ends))
                if wanted >= size / 2:
                    ends = ends[: out.shape[1]]
                drop = (inverse[b][:, ends % size] - inverse[b][:, ends // size]) * math.sqrt(0.5)  # (n, edges)
                if wanted < size / 2:
                    drop = drop @ torch.randn(len(ends), wanted, generator=random, dtype=drop.dtype) / wanted**0.5
                out[nodes, : drop.shape[1]] = drop
        return out

    def _wanted(self, edges: int) -> int:
        return math.ceil(8 * math.log(max(edges, 1)) / self.accuracy**2)


@register("EdgeResistance")
class EdgeResistance:
    r"""Effective resistance between the ends of every edge.

    .. math:: R_{ij} = (L^+)_{ii} + (L^+)_{jj} - 2 (L^+)_{ij}, \qquad L = D - A

    1 for an edge whose removal disconnects its ends, smaller the more ways around it there are; 0 for a self loop.

    Returns:
        ``resistance`` (E, 1) float32.

    Conventions (ours): exact, whereas Exphormer's code sums the truncated vectors of :class:`EffectiveResistance`;
    directed graphs are made undirected, see :class:`LaplacianPE`.
    """

    version: ClassVar[int] = 1
    level: ClassVar[str] = "edge"

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Encodes all graphs of a store."""
        return {"resistance": self.resistances(store).to(torch.float32)}

    def resistances(self, store: GraphStore) -> Tensor:
        """(E, 1) float64."""
        out = torch.zeros(store.num_edges, 1, dtype=torch.float64)
        for rows, adjacency in adjacency_stacks(store, symmetrize=True):
            inverse = pseudo_inverse(laplacian(adjacency, "none"))
            diagonal = inverse.diagonal(dim1=1, dim2=2)
            resistance = diagonal.unsqueeze(2) + diagonal.unsqueeze(1) - 2 * inverse
            edges, cells = edge_cells(store, rows)
            out[edges, 0] = resistance.flatten()[cells]
        return out
