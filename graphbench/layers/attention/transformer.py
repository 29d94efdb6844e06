"""Multi-head softmax attention (https://arxiv.org/abs/1706.03762)."""

from __future__ import annotations

from torch import Tensor, nn

from graphbench.ops.softmax_attention import softmax_attention
from graphbench.registry import register
from graphbench.structures import GraphBatch


@register("Transformer")
class Transformer(nn.Module):
    """Every node attends to every node of its graph, with several heads side by side.

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

    def __init__(self, dim: int, heads: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f"dim must be a multiple of heads, received dim={dim}, heads={heads}")
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        nn.init.xavier_uniform_(self.qkv.weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.out.bias)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """No residual, no norm."""
        q, k, v = self.qkv(h).view(h.shape[0], 3, self.heads, h.shape[1] // self.heads).unbind(1)
        dropout = self.dropout if self.training else 0.0
        out: Tensor = self.out(softmax_attention(q, k, v, batch.ragged, dropout_p=dropout).reshape(h.shape))
        return out

    def extra_repr(self) -> str:
        """Heads and dropout, in ``print(model)``."""
        return f"heads={self.heads}, dropout={self.dropout}"
