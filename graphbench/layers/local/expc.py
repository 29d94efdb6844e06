"""Expanding convolution (https://arxiv.org/abs/2012.07219): messages are expanded before they are summed."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.contract import LocalLayer
from graphbench.ops.propagate import gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ExpC")
class ExpC(LocalLayer):
    r"""ExpC: neighbours multiplied by learned coefficients and mapped before the sum, which keeps multisets apart.

    .. math:: h'_t = m(h_t, h_t) + \sum_{s \to t} m(h_t, h_s + e_{st}), \qquad
        m(c, x) = \mathrm{ReLU}(W_2\, \mathrm{ReLU}(W_1 (a \otimes x) + b_1) + b_2), \quad
        a = \tanh(W_a [c \,|\, x] + b_a) \in \mathbb{R}^A

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states; another number than ``dim_in`` adds a linear map.
        coefficients: A.

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e its term is 0. O(E A dim_in) memory.

    Differences from the released code ("EB"): the BatchNorm after the sum is the model's; edges from a node to itself,
    which it cuts out of the edges and not out of their features, are edges as any other.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int] = 0,
        coefficients: int = 1,
    ) -> None:
        super().__init__()
        check_at_least(1, coefficients=coefficients)
        self.lin_edge = nn.Linear(dim_edge, dim_in) if dim_edge not in (0, dim_in) else None
        self.expand = nn.Linear(2 * dim_in, coefficients)
        self.mlp = nn.Sequential(
            nn.Linear(coefficients * dim_in, dim_out), nn.ReLU(), nn.Linear(dim_out, dim_out), nn.ReLU()
        )

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and dropout; edge states as they came."""
        adjacency = batch.adjacency()
        x = gather(adjacency, h, "source")
        if e is not None:
            x = x + (e if self.lin_edge is None else self.lin_edge(e))
        message = self._expanded(gather(adjacency, h, "target"), x)
        return self._expanded(h, h) + sum_at_target(adjacency, message), e

    def _expanded(self, center: Tensor, x: Tensor) -> Tensor:
        """(R, dim_out) m(c, x) of rows (R, dim_in)."""
        a = torch.tanh(self.expand(torch.cat([center, x], dim=1)))
        return self.mlp((a.unsqueeze(2) * x.unsqueeze(1)).flatten(1))
