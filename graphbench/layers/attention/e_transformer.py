"""Attention along edges, optionally modulated by their features: SAN's without the pairs that are no edges."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.errors import check_multiple
from graphbench.layers.contract import GlobalAttention
from graphbench.ops.edge_attention import edge_attention
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("ETransformer")
class ETransformer(GlobalAttention):
    """Attention to the neighbours, as Exphormer's ``ETransformer``, https://arxiv.org/abs/2106.03893.

    Equation, per head::

        h'_t = sum_s w_st V h_s / (sum_s w_st + 1e-6)
        w_st = exp(clamp(sum_c (K h_s)_c (Q h_t)_c (E e_st)_c / sqrt(d)))

    over the edges s -> t, the exponent within -5 .. 5. Q = ``q``, K = ``k``, V = ``v``, E = ``edge``.

    Args:
        dim: channels of input and output, divisible by ``heads``.
        heads: H; d = dim / H.
        dim_edge: channels of the edge states.
        use_edge_attr: the factor E e; False: edge features are not read.
        bias: Q, K, V and E have one.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> (N, dim). Without ``e`` the factor is left out.

    Differences from the paper: no pairs besides the edges, no output projection (as in the released code).
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        dim_edge: FromContext[int],
        use_edge_attr: FromContext[bool] = True,
        bias: bool = False,
    ) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        self.heads = heads
        self.q = nn.Linear(dim, dim, bias=bias)
        self.k = nn.Linear(dim, dim, bias=bias)
        self.v = nn.Linear(dim, dim, bias=bias)
        self.edge = nn.Linear(dim_edge, dim, bias=bias) if use_edge_attr else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q = self.q(h).unflatten(1, (self.heads, -1))
        k = self.k(h).unflatten(1, (self.heads, -1))
        v = self.v(h).unflatten(1, (self.heads, -1))
        factors = None if self.edge is None or e is None else self.edge(e).unflatten(1, (self.heads, -1))
        return edge_attention(batch.adjacency(), q, k, v, factors, clamp=5.0, eps=1e-6).flatten(1)

    def extra_repr(self) -> str:
        """Heads, in ``print(model)``."""
        return f"heads={self.heads}"
