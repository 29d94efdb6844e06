"""GAT's attention over all pairs of nodes instead of the edges (https://arxiv.org/abs/1710.10903)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.layers.contract import GlobalAttention
from graphbench.ops.pair_attention import pair_attention
from graphbench.ops.pair_attention.reference import pair_weights
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("GlobalGAT")
class GlobalGAT(GlobalAttention, HasAttentionWeights):
    """Attention to all nodes of the graph with GAT's additive score.

    Equation, averaged over the heads::

        h'_i = sum_j a_ij W h_j,   a_ij = softmax over j of leaky_relu_0.2(u_q . W h_i + u_k . W h_j)

    Every head has the full width ``dim``.

    Args:
        dim: channels of input and output.
        heads: number of heads.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the paper: j runs over all nodes, as SGFormer's ablation (https://arxiv.org/abs/2306.10759,
    Table 8, "w/ GAT Attention") asks; its released code for that row is scaled dot-product softmax attention, here
    ``Transformer``. For GAT along the edges take the local layer ``GAT``. O(N^2) time, O(N) memory.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(self, dim: FromContext[int], heads: FromContext[int]) -> None:
        super().__init__()
        self.heads = heads
        self.lin = nn.Linear(dim, heads * dim, bias=False)
        self.att_query = nn.Parameter(torch.empty(1, heads, dim))
        self.att_key = nn.Parameter(torch.empty(1, heads, dim))
        nn.init.xavier_uniform_(self.lin.weight)
        bound = (6 / (heads + dim)) ** 0.5
        nn.init.uniform_(self.att_query, -bound, bound)
        nn.init.uniform_(self.att_key, -bound, bound)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        q, k, v = self._projections(h)
        return pair_attention(q, k, v, batch.ragged, weight="additive").mean(1)

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Weights a, (heads, n, n) per graph; row i is what node i attends to."""
        q, k, _ = self._projections(h)
        return list(pair_weights(q, k, batch.ragged, "additive"))

    def _projections(self, h: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(N, heads, 1) terms of query and key, and (N, heads, dim) values."""
        v = self.lin(h).view(h.shape[0], self.heads, h.shape[1])
        return (v * self.att_query).sum(2, keepdim=True), (v * self.att_key).sum(2, keepdim=True), v

    def extra_repr(self) -> str:
        """Heads, in ``print(model)``."""
        return f"heads={self.heads}"
