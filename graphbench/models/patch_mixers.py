"""Mixers of the patches of a graph for :class:`~graphbench.models.graph_mixer.GraphMixer`: MLPs, or attention.

All are called as ``mixer(x, overlap, filled)`` with x (G, P, dim), overlap (G, P, P) the nodes that two patches share
and filled (G, P) bool, False for empty patches, and return (G, P, dim).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm

_HEADS = 8


class PatchMLPs(nn.Module):
    """MLP-Mixer (https://arxiv.org/abs/2105.01601) over P patches, empty ones included.

    Equations, F_a(x) = W_2 drop(gelu(W_1 drop(x))), x^T with patches as channels, a LayerNorm at the end::

        x <- x + F_patches(LN(x)^T)^T,   x <- x + F_channels(LN(x))       widths inside: 4 dim and dim / 2

    Args:
        dim: channels.
        patches: P.
        layers: layers, each of both kinds.
        dropout: probability.
    """

    def __init__(self, dim: int, patches: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.norms_patches = nn.ModuleList(LayerNorm(dim) for _ in range(layers))
        self.norms_channels = nn.ModuleList(LayerNorm(dim) for _ in range(layers))
        self.patches = nn.ModuleList(_perceptron(patches, 4 * dim, dropout) for _ in range(layers))
        self.channels = nn.ModuleList(_perceptron(dim, dim // 2, dropout) for _ in range(layers))
        self.norm_out = LayerNorm(dim)

    def forward(self, x: Tensor, overlap: Tensor, filled: Tensor) -> Tensor:
        """(G, P, dim)."""
        parts = zip(self.norms_patches, self.patches, self.norms_channels, self.channels, strict=True)
        for norm_patches, patches, norm_channels, channels in parts:
            x = x + patches(norm_patches(x).mT).mT
            x = x + channels(norm_channels(x))
        return self.norm_out(x)


class PatchAttention(nn.Module):
    """Pre-norm Transformer over the patches that are not empty: ViT.

    Equations, per head, A the overlap with ``hadamard``, else 1::

        x <- x + drop(W_O [.. drop(softmax(Q K^T / sqrt(d_k)) * A) V ..]),   x <- x + FFN(LN(x)),   (Q, K, V) = W LN(x)

    Args:
        dim: channels, divisible by 8, the number of heads.
        patches: P.
        layers: layers of attention and feed-forward network, of width 2 dim inside.
        dropout: probability, that of attention weights included.
        hadamard: weigh attention by the overlap.
    """

    def __init__(self, dim: int, patches: int, layers: int, dropout: float, *, hadamard: bool) -> None:
        super().__init__()
        if dim % _HEADS:
            raise ArgumentError("dim", f"dim must be a multiple of {_HEADS}, the heads of attention, received {dim}")
        self.hadamard = hadamard
        self.norms = nn.ModuleList(LayerNorm(dim) for _ in range(layers))
        self.norms_ffn = nn.ModuleList(LayerNorm(dim) for _ in range(layers))
        self.qkv = nn.ModuleList(nn.Linear(dim, 3 * dim) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))
        self.feed_forwards: Modules[FeedForward] = Modules(FeedForward(dim, dropout=dropout) for _ in range(layers))
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, overlap: Tensor, filled: Tensor) -> Tensor:
        """(G, P, dim)."""
        # A graph without nodes would have a softmax over nothing.
        hidden = (~filled & filled.any(1, keepdim=True))[:, None, None, :]
        parts = zip(self.norms, self.qkv, self.out, self.norms_ffn, self.feed_forwards, strict=True)
        for norm, qkv, out, norm_ffn, feed_forward in parts:
            q, k, v = qkv(norm(x)).unflatten(2, (3, _HEADS, -1)).permute(2, 0, 3, 1, 4)
            weights = (q @ k.mT * q.shape[3] ** -0.5).masked_fill(hidden, -torch.inf).softmax(3)
            if self.hadamard:
                weights = weights * overlap.unsqueeze(1)
            mixed = (self.dropout(weights) @ v).transpose(1, 2).flatten(2)
            x = x + self.dropout(out(mixed))
            x = x + feed_forward(norm_ffn(x).flatten(0, 1)).view_as(x)
        return x


def _perceptron(dim: int, inner: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(Dropout(dropout), nn.Linear(dim, inner), nn.GELU(), Dropout(dropout), nn.Linear(inner, dim))


MIXERS: Mapping[str, Callable[[int, int, int, float], nn.Module]] = {
    "mlp": PatchMLPs,
    "hadamard": partial(PatchAttention, hadamard=True),
    "standard": partial(PatchAttention, hadamard=False),
}
"""``gt.GraphMixer.mixer`` -> constructor, from width, patches, layers and dropout."""
