"""Cosine similarity of the features of the two ends of an edge, or of any two nodes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.files.progress import report
from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.structures import as_dense
from graphbench.transforms.algorithms.all_pairs import check_pairs
from graphbench.transforms.base import Input, Level, Transform

_ROWS = 1 << 16  # edges at a time


@register("CosineSimilarity")
class CosineSimilarity(Transform):
    r"""Cosine of the angle between the features of the ends of every edge.

    .. math:: s_{ij} = \frac{x_i \cdot x_j}{\|x_i\| \|x_j\|}

    Args:
        pairs: compare all nodes of a graph with each other instead.

    Returns:
        ``similarity`` (E, 1) float32; 0 where an end has no features but zeros. With ``pairs``: ``dissimilarity``
        (sum n_g^2,) float32, 1 - s, in the order of :class:`~graphbench.structures.PairBlocks`; a node to itself: 0.

    Raises:
        ValueError: the nodes have no features.
        UserError: there are too many pairs, see :data:`graphbench.transforms.algorithms.all_pairs.LIMIT`.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("similarity", "dissimilarity")
    reads: ClassVar[tuple[Input, ...]] = ("edge_index", "x")

    def __init__(self, pairs: bool = False) -> None:
        self.pairs = pairs
        self.level: Level = "pair" if pairs else "edge"

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Compares the ends of all edges, or all nodes of a graph."""
        if store.x is None:
            raise ValueError("CosineSimilarity compares the features of nodes, and these nodes have none")
        x = as_dense(store.x)
        return self._of_pairs(x, store) if self.pairs else self._of_edges(x, store)

    def _of_pairs(self, x: Tensor, store: GraphStore) -> dict[str, Tensor]:
        check_pairs(store, 4)
        blocks = []
        for rows in x.split(store.sizes.tolist()):
            unit = torch.nn.functional.normalize(rows.to(torch.float64), dim=1)
            far = 1 - (unit @ unit.t()).clamp_(-1, 1)
            blocks.append(far.fill_diagonal_(0.0).to(torch.float32).view(-1))
            report(len(blocks), store.num_graphs)
        return {"dissimilarity": torch.cat([x.new_zeros(0, dtype=torch.float32), *blocks])}

    def _of_edges(self, x: Tensor, store: GraphStore) -> dict[str, Tensor]:
        out = torch.zeros(store.num_edges, 1, dtype=torch.float32)
        shift = torch.repeat_interleave(store.node_ptr[:-1], store.edge_counts)
        norm = torch.cat([rows.to(torch.float64).norm(dim=1) for rows in x.split(_ROWS)])
        done = 0
        for edges in torch.arange(store.num_edges).split(_ROWS):
            source, target = store.edge_index[:, edges].to(torch.int64) + shift[edges]
            left, right = (x[ends].to(torch.float64) for ends in (source, target))
            product = norm[source] * norm[target]
            cosine = (left * right).sum(1) / torch.where(product > 0, product, 1.0)
            out[edges, 0] = cosine.clamp(-1, 1).to(out.dtype)
            done += len(edges)
            report(done, store.num_edges)
        return {"similarity": out}
