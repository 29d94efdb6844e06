"""Cosines to prototypes as predictions for nodes: the smallest head there can be."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from graphbench.heads.contract import Head, Row
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("cosine_node")
class CosineNodeHead(Head):
    """The cosine of a node's state and a learned prototype for every class.

    Equation::

        y_ic = scale * cos(h_i, w_c)

    Args:
        dim_in: channels of the node states.
        out_dim: classes (1: the logit of the positive one).
        scale: largest logit.

    Shape:
        h (N, dim_in) -> (N, out_dim)
    """

    predicts: ClassVar[Row | None] = "node"

    def __init__(self, dim_in: FromContext[int], out_dim: FromContext[int], *, scale: float = 10.0) -> None:
        super().__init__()
        self.scale = scale
        self.prototypes = nn.Parameter(torch.randn(out_dim, dim_in))

    def forward(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """Predictions for all nodes."""
        return self.scale * normalize(h, dim=1) @ normalize(self.prototypes, dim=1).T
