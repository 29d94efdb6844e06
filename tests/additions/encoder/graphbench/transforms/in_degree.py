"""In-degrees as node features."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.data.store import GraphStore
from graphbench.registry import register
from graphbench.transforms.base import Transform


@register("InDegree")
class InDegree(Transform):
    """Logarithm of one plus the number of incoming edges.

    Returns:
        ``degree`` (N, 1) float32.
    """

    version: ClassVar[int] = 1
    outputs: ClassVar[tuple[str, ...]] = ("degree",)

    def __call__(self, store: GraphStore) -> dict[str, Tensor]:
        """All graphs at once."""
        first = torch.repeat_interleave(store.node_ptr[:-1], store.edge_ptr.diff())  # edges are numbered inside graphs
        degree = torch.bincount(store.edge_index[1] + first, minlength=store.num_nodes)
        return {"degree": degree.float().log1p().unsqueeze(1)}
