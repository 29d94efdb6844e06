"""Multi-head softmax attention (https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from graphbench.contract import HasAttentionWeights
from graphbench.errors import check_multiple
from graphbench.layers.contract import GlobalAttention
from graphbench.layers.linear import Linear
from graphbench.ops.softmax_attention import softmax_attention
from graphbench.ops.softmax_attention.reference import softmax_weights
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("Transformer")
class Transformer(GlobalAttention, HasAttentionWeights):
    """Multi-head attention of every node to all nodes of its graph.

    Equation::

        out = W_O [head_1 | .. | head_H],   head = softmax(Q K^T / sqrt(d_k)) V,   (Q, K, V) = W h + b

    H heads of width d_k = dim / H; head c owns channels c * d_k .. (c + 1) * d_k of Q, K, V.

    Args:
        dim: channels of input and output, divisible by ``heads``.
        heads: H.
        dropout: probability of dropping an attention weight.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the paper: none. Parameters and their initialisation are those of
    ``torch.nn.MultiheadAttention``: ``qkv`` is its ``in_proj``, ``out`` its ``out_proj``.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False

    def __init__(self, dim: FromContext[int], heads: FromContext[int], *, dropout: FromContext[float] = 0.0) -> None:
        super().__init__()
        check_multiple(dim=dim, heads=heads)
        self.heads = heads
        self.dropout = dropout
        self.qkv = Linear(dim, 3 * dim)
        self.out = Linear(dim, dim)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        qkv = self._projections(h)
        q, k, v = qkv.unbind(1)
        dropout, bias = self.dropout if self.training else 0.0, self.pair_bias(batch)
        mixed = softmax_attention(q, k, v, batch.ragged, dropout_p=dropout, bias=bias, packed=qkv)
        return self.out(mixed.reshape(h.shape))

    def pair_bias(self, batch: GraphBatch) -> Tensor | None:
        """(sum n_g^2, heads) bias of the scores, row-major per graph; None here."""
        return None

    def attention_weights(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> list[Tensor]:
        """Softmax weights without dropout, (heads, n, n) per graph; row i is what node i attends to."""
        q, k, _ = self._projections(h).unbind(1)
        return list(softmax_weights(q, k, batch.ragged, self.pair_bias(batch)))

    def _projections(self, h: Tensor) -> Tensor:
        """(N, 3, heads, dim / heads) queries, keys and values."""
        qkv: Tensor = self.qkv(h)
        return qkv.view(h.shape[0], 3, self.heads, h.shape[1] // self.heads)

    def extra_repr(self) -> str:
        """Heads and dropout, in ``print(model)``."""
        return f"heads={self.heads}, dropout={self.dropout}"
