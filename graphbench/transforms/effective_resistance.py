"""Effective resistances: the graph as a network of unit resistors.

Papers: Graph Sparsification by Effective Resistances, https://arxiv.org/abs/0803.0929; Affinity-Aware Graph Networks,
https://arxiv.org/abs/2206.11941; conventions: Exphormer's code, https://arxiv.org/abs/2303.06147.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.algorithms.dense_blocks import Stack, StackTransform
from graphbench.transforms.base import Level


@register("EffectiveResistance")
class EffectiveResistance(StackTransform):
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
        - Random numbers of a graph are drawn from its number in the store (ours; the original fails there).
        - Directed graphs are made undirected for L (ours), see :class:`LaplacianPE`; a graph without edges has zeros.
    """

    version: ClassVar[int] = 2
    outputs: ClassVar[tuple[str, ...]] = ("embedding",)

    def __init__(self, accuracy: float = 0.1) -> None:
        if not accuracy > 0:
            raise ValueError(f"accuracy must be more than 0, received {accuracy}")
        self.accuracy = accuracy

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0, with the number of columns that the data set needs."""
        sizes, counts = store.sizes.tolist(), store.edge_counts.tolist()
        kept = max((min(n // 2, self._num_rows(edges)) for n, edges in zip(sizes, counts, strict=True)), default=0)
        return {"embedding": torch.zeros(store.num_nodes, max(1, kept), dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        embedding, size = out["embedding"], stack.rows.shape[1]
        _, cells = stack.edges
        block, pair = cells // size**2, cells % size**2
        for b, (graph, nodes) in enumerate(zip(stack.graphs.tolist(), stack.rows, strict=True)):
            ends, inverse = pair[block == b], stack.pseudo_inverse[b]
            rows = self._num_rows(len(ends))
            if rows >= size / 2:
                ends = ends[: embedding.shape[1]]
            drop = (inverse[:, ends % size] - inverse[:, ends // size]) * math.sqrt(0.5)  # (n, edges)
            if rows < size / 2:
                random = torch.Generator().manual_seed(graph)
                drop = drop @ torch.randn(len(ends), rows, generator=random, dtype=drop.dtype) / rows**0.5
            embedding[nodes, : drop.shape[1]] = drop.to(embedding.dtype)

    def _num_rows(self, edges: int) -> int:
        return math.ceil(8 * math.log(max(edges, 1)) / self.accuracy**2)


@register("EdgeResistance")
class EdgeResistance(StackTransform):
    r"""Effective resistance between the ends of every edge.

    .. math:: R_{ij} = (L^+)_{ii} + (L^+)_{jj} - 2 (L^+)_{ij}, \qquad L = D - A

    1 for an edge whose removal disconnects its ends, smaller the more ways around it there are; 0 for a self loop.
    Repeated edges are resistors side by side.

    Returns:
        ``resistance`` (E, 1) float32.

    Conventions (ours): exact, whereas Exphormer's code sums the truncated vectors of :class:`EffectiveResistance`;
    directed graphs are made undirected, see :class:`LaplacianPE`.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("resistance",)
    level: Level = "edge"

    def blank(self, store: GraphStore, dtype: torch.dtype) -> dict[str, Tensor]:
        """All 0."""
        return {"resistance": torch.zeros(store.num_edges, 1, dtype=dtype)}

    def fill(self, stack: Stack, out: Mapping[str, Tensor]) -> None:
        """Graphs of one size."""
        inverse = stack.pseudo_inverse
        diagonal = inverse.diagonal(dim1=1, dim2=2)
        resistance = diagonal.unsqueeze(2) + diagonal.unsqueeze(1) - 2 * inverse
        edges, cells = stack.edges
        out["resistance"][edges, 0] = resistance.flatten()[cells].to(out["resistance"].dtype)
