"""Softmax attention in the place of SGFormer's function (https://arxiv.org/abs/2306.10759, Table 8)."""

from __future__ import annotations

from typing import ClassVar, Literal

from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.errors import check_one_of
from graphbench.layers.contract import GlobalAttention
from graphbench.ops.linear_attention.norms import inverse_norms
from graphbench.ops.segment import segment_repeat
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.softmax_attention.reference import softmax_weights
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

NORMS = ("frobenius", "scaled")


@register("FullWidthSoftmax")
class FullWidthSoftmax(GlobalAttention, HasAttentionWeights):
    """Softmax attention with heads as wide as the layer, averaged, without output map.

    Equation, averaged over the heads::

        Z = softmax(S) V,    frobenius  S = Q K^T / (|Q|_F |K|_F)       scaled  S = Q K^T / sqrt(dim)

    ``frobenius`` has the scores of "w/ Softmax Attention" in SGFormer's release (medium/ablation/oursSOFT.py): norms
    over all nodes and heads make them so small that the result is nearly the mean of V. ``scaled`` has those of what
    the release runs as "w/ GAT Attention" (oursGAT.py).

    Args:
        dim: channels of input and output.
        heads: number of heads, each as wide as ``dim``.
        norm: ``"frobenius"`` or ``"scaled"``, as above.
        use_weight: V is a linear map of the input; False: the input for all heads.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the release: there the softmax runs over the last index of scores (query, key, head), its one head,
    so that every weight is 1 and Z the sum of V over all nodes, whatever Q and K are; here it runs over the keys. Norms
    run over one graph, never the batch. O(sum n^2) time. Memory is O(N) and one block of pairs.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        heads: FromContext[int],
        *,
        norm: Literal["frobenius", "scaled"] = "frobenius",
        use_weight: bool = True,
    ) -> None:
        super().__init__()
        check_one_of(NORMS, norm=norm)
        self.heads = heads
        self.norm = norm
        self.q = nn.Linear(dim, heads * dim)
        self.k = nn.Linear(dim, heads * dim)
        self.v = nn.Linear(dim, heads * dim) if use_weight else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        shape = (h.shape[0], self.heads, h.shape[1])
        v = h.unsqueeze(1).expand(shape) if self.v is None else self.v(h).view(shape)
        q, k = self._queries_and_keys(h, batch)
        return softmax_attention(q, k, v, batch.ragged).mean(1)

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Softmax weights, (heads, n, n) per graph; row i is what node i attends to."""
        return list(softmax_weights(*self._queries_and_keys(h, batch), batch.ragged))

    def _queries_and_keys(self, h: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """(N, heads, dim) each, so that their products divided by sqrt(dim) are the scores."""
        shape = (h.shape[0], self.heads, h.shape[1])
        q, k = self.q(h).view(shape), self.k(h).view(shape)
        if self.norm == "frobenius":
            scale = inverse_norms(q, batch.ragged, "frobenius") * inverse_norms(k, batch.ragged, "frobenius")
            # The operator divides by sqrt(dim).
            q = q * segment_repeat(scale * h.shape[1] ** 0.5, batch.ragged).view(-1, 1, 1).to(q.dtype)
        return q, k

    def extra_repr(self) -> str:
        """Heads and norm, in ``print(model)``."""
        return f"heads={self.heads}, norm={self.norm}"
