"""Borders of superpixels: PascalVOC-SP and COCO-SP, https://arxiv.org/abs/2206.08164.

One column, or two with the data set's name ``edge_wt_region_boundary``: the strength of the border, and its number of
pixels, which is a thousand times larger.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from graphbench.encoders.edge.linear import LinearEdge
from graphbench.errors import ArgumentError
from graphbench.registry import FromContext, register


@register("VOCEdge")
class VOCEdge(LinearEdge):
    """Linear map of the edge features of PascalVOC-SP, standardised or not.

    e_ij = W a_ij + b, or W (a_ij - mean) / std + b.

    Args:
        dim: width of the result.
        edge_in: columns of ``batch.edge_attr``: 2 for ``edge_wt_region_boundary``, else 1.
        standardize: by the mean and standard deviation over all edges of ``edge_wt_region_boundary``, as in the
            re-tuned baselines of https://arxiv.org/abs/2309.00367; plain in GraphGPS.

    Shape:
        edge_attr (E, edge_in) -> (E, dim)

    Raises:
        ValueError: ``standardize`` with one column, for which no statistics are published.
    """

    capturable: ClassVar[bool] = True

    # Statistics of the training split, published with https://arxiv.org/abs/2309.00367.
    mean: ClassVar[tuple[float, ...]] = (0.07640745, 33.73478)
    std: ClassVar[tuple[float, ...]] = (0.0868775, 20.945076)

    def __init__(
        self, dim: FromContext[int], edge_in: FromContext[int], *, standardize: FromContext[bool] = False
    ) -> None:
        super().__init__(dim, edge_in)
        if standardize and edge_in != len(self.mean):
            raise ArgumentError(
                ("standardize", "edge_in"),
                f"{type(self).__name__}: standardize knows the {len(self.mean)} columns of edge_wt_region_boundary, "
                f"received edge_in = {edge_in}",
            )
        self.shift: Tensor | None
        self.scale: Tensor | None
        self.register_buffer("shift", torch.tensor(self.mean) if standardize else None, persistent=False)
        self.register_buffer("scale", torch.tensor(self.std) if standardize else None, persistent=False)

    def prepared(self, attributes: Tensor) -> Tensor:
        """The features, standardised with ``standardize``."""
        if self.shift is None or self.scale is None:
            return attributes
        return (attributes - self.shift) / self.scale


@register("COCOEdge")
class COCOEdge(VOCEdge):
    """Linear map of the edge features of COCO-SP: :class:`VOCEdge` with their statistics."""

    mean: ClassVar[tuple[float, ...]] = (0.07848548, 43.68736)
    std: ClassVar[tuple[float, ...]] = (0.08902349, 28.473562)
