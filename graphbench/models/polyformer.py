"""PolyFormer: attention among the terms of a polynomial filter, node by node (https://arxiv.org/abs/2407.14459)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.contract import HasOptimizerGroup
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.grouped_linear import GroupedLinear
from graphbench.layers.input_linear import InputLinear, readable
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.ops.propagate import propagate
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class PolynomialTokens:
    """Tokens and attention; every field is a key of the model.

    Attributes:
        degree: K.
        base: ``mono``: powers of D^-1/2 (A + I) D^-1/2; ``cheb``: Chebyshev polynomials of -D^-1/2 A D^-1/2.
        num_heads: attention heads.
        decay: q.
        expand: width inside the networks of the tokens as a multiple of ``dim``.
        ffn_dim: width inside the feed-forward network.
        block_dropout: drop_B, inside the blocks.
    """

    degree: int = 10
    base: Literal["mono", "cheb"] = "mono"
    num_heads: int = 1
    decay: float = 1.0
    expand: float = 1.0
    ffn_dim: int = 128
    block_dropout: float = 0.5


class PolynomialAttention(nn.Module, HasOptimizerGroup):
    """h + drop(S LN(h)), S of every head from all pairs of the tokens of a node; see :class:`PolyFormer`.

    Args:
        dim: channels.
        settings: number of tokens, heads, q.

    Shape:
        (N, K + 1, dim) -> (N, K + 1, dim)
    """

    optimizer_group: ClassVar[str] = "filter"

    def __init__(self, dim: int, settings: PolynomialTokens) -> None:
        super().__init__()
        s, tokens, inner = settings, settings.degree + 1, int(dim * settings.expand)
        self.heads = s.num_heads
        self.norm = LayerNorm(dim)
        self.networks = nn.Sequential(GroupedLinear(tokens, dim, inner), nn.ReLU(), GroupedLinear(tokens, inner, dim))
        self.query, self.key = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.scale = nn.Parameter(torch.ones(s.num_heads, tokens))
        self.decay: Tensor
        self.register_buffer("decay", torch.arange(1.0, tokens + 1).pow(-s.decay), persistent=False)
        self.dropout = Dropout(s.block_dropout)

    def forward(self, h: Tensor) -> Tensor:
        """(N, K + 1, dim)."""
        value = self.norm(h)
        token = self.networks(value)
        q, k, v = (self._by_head(x) for x in (self.query(token), self.key(token), value))
        score = torch.tanh(q @ k.transpose(2, 3) * q.shape[3] ** -0.5) * (self.scale * self.decay).unsqueeze(1)
        mixed = (self.dropout(score) @ v).transpose(1, 2).flatten(2)
        return h + self.dropout(mixed)

    def _by_head(self, x: Tensor) -> Tensor:
        """(N, heads, K + 1, dim / heads)."""
        return x.view(*x.shape[:2], self.heads, x.shape[2] // self.heads).transpose(1, 2)


class PolynomialBlock(nn.Module):
    """The attention, then h + drop(W_2 gelu(W_1 LN(h))); arguments and shapes as :class:`PolynomialAttention`."""

    def __init__(self, dim: int, settings: PolynomialTokens) -> None:
        super().__init__()
        self.attention = PolynomialAttention(dim, settings)
        self.norm = LayerNorm(dim)
        self.feed_forward = FeedForward(
            dim, act="gelu", dropout=0.0, dropout_out=settings.block_dropout, width=settings.ffn_dim
        )

    def forward(self, h: Tensor) -> Tensor:
        """(N, K + 1, dim)."""
        h = self.attention(h)
        return h + self.feed_forward(self.norm(h).flatten(0, 1)).view_as(h)


@register("PolyFormer")
class PolyFormer(EncodedModel):
    r"""Attention among the terms of a polynomial of the graph: the tokens of a node give it a filter of its own.

    Equations, P_k the k-th polynomial of ``base``, per head of width d_h::

        t_ik = (P_k X W_0)_i + b_0                                                              k = 0 .. K
        z = LN(t),   S_jk = tanh(Q M_j(z_j) . K M_k(z_k) / sqrt(d_h)) c_k / (k + 1)^q,   c learned, 1 at first
        t <- t + drop_B(drop_B(S) z),   t <- t + drop_B(W_2 gelu(W_1 LN(t)))
        y_i = head(drop(relu(W drop(sum over k of t_ik) + b)))

    M_k: a network of two linear maps with ReLU, one per token.

    Args:
        frame: encoder, widths, factory of the head.
        layers: blocks (``gnn.layers_mp``).
        dropout: drop (``gnn.dropout``).
        settings: keys of their own, see :class:`PolynomialTokens`.

    Shape:
        batch -> prediction of the head. O(N (K + 1) dim) memory per block.

    Differences from the released code: the attention's weight decay (``attn_wd``, at most 1e-3 there) is 0, its rate is
    ``optim.filter_lr``. Features are mapped before the propagation, with which the map commutes. The Bernstein and the
    optimal base are not here.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"
    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        settings: PolynomialTokens = PolynomialTokens(),
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        s = settings
        check_at_least(1, degree=s.degree, num_heads=s.num_heads, ffn_dim=s.ffn_dim)
        if dim % s.num_heads or s.base not in ("mono", "cheb"):
            raise ArgumentError(
                ("dim", "num_heads", "base"),
                f"dim must be a multiple of num_heads and base mono or cheb, received dim={dim}, "
                f"num_heads={s.num_heads}, base={s.base!r}",
            )
        self.degree, self.base = s.degree, s.base
        self.lin_in, self.bias = InputLinear(frame.dim_encoded, dim, bias=False), nn.Parameter(torch.zeros(dim))
        self.layers: Modules[PolynomialBlock] = Modules(PolynomialBlock(dim, s) for _ in range(layers))
        self.lin, self.dropout = nn.Linear(dim, dim), Dropout(dropout)
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        features, _, batch = self.encode(batch)
        h = self.tokens(self.lin_in(readable(features, self)), batch)
        for layer in self.layers:
            h = layer(h)
        state = self.dropout(self.lin(self.dropout(h.sum(1))).relu())
        return self.head(state, batch)

    def tokens(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(N, K + 1, dim) from the mapped features (N, dim)."""
        return torch.stack(polynomial_terms(x, batch, self.degree, self.base), dim=1) + self.bias


def polynomial_terms(x: Tensor, batch: GraphBatch, degree: int, base: str) -> list[Tensor]:
    """P_0 x, .., P_K x (N, dim); K = ``degree``, P as :attr:`PolynomialTokens.base` says."""
    adjacency = batch.adjacency(norm="sym", self_loops=base == "mono")
    terms = [x]
    for k in range(degree):
        step = propagate(adjacency, terms[-1])
        terms.append(step if base == "mono" else -2 * step - terms[-2] if k else -step)
    return terms
