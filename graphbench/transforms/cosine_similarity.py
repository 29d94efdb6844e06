"""How similar the features at the two ends of an edge are."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.progress import report
from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.structures import as_dense

_ROWS = 1 << 16  # edges at a time


@register("CosineSimilarity")
class CosineSimilarity:
    r"""Cosine of the angle between the features of the ends of every edge.

    .. math:: s_{ij} = \frac{x_i \cdot x_j}{\|x_i\| \|x_j\|}

    Returns:
        ``similarity`` (E, 1) float32; 0 where an end has no features but zeros.

    Raises:
        ValueError: the nodes have no features.
    """

    version: ClassVar[int] = 1
    level: ClassVar[str] = "edge"

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """Compares the ends of all edges of a store."""
        if store.x is None:
            raise ValueError("CosineSimilarity compares the features of nodes, and these nodes have none")
        x = as_dense(store.x)
        out = torch.zeros(store.num_edges, 1, dtype=torch.float32)
        shift = torch.repeat_interleave(store.node_ptr[:-1], store.edge_counts)
        norm = torch.cat([each.to(torch.float64).norm(dim=1) for each in x.split(_ROWS)])
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
