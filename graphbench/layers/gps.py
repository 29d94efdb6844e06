"""The GPS block: message passing and global attention side by side (https://arxiv.org/abs/2205.12454)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.norm import make_norm
from graphbench.structures import GraphBatch


class GPSBlock(nn.Module):
    """One layer of GraphGPS.

    Equations::

        h_local = norm(h + drop(local(h, e)))
        h_attn  = norm(h + drop(attention(h, e)))
        h'      = norm(x + ffn(x)),   x = h_local + h_attn

    Both branches read the same h. A local layer that adds its residual itself (``residual_inside``: GatedGCN) is
    normalised once more and nothing else. Edge states go from block to block.

    Args:
        dim: channels of nodes (and of edges).
        local: message passing ``(h, e, batch) -> (h', e')``, or None.
        attention: global attention ``(h, e, batch) -> h'``, or None.
        dropout: probability of dropping an entry after each branch and inside the feed-forward part.
        act: activation of the feed-forward part.
        norm: ``"batch"``, ``"layer"`` (per graph) or ``"none"``.

    Shape:
        h (N, dim), e (E, dim) or None -> the same.

    Differences from the paper: none known. As in the released code a missing branch still owns its norm, which
    counts among the parameters and gets no gradient; published parameter counts include it.
    """

    def __init__(
        self,
        dim: int,
        *,
        local: nn.Module | None,
        attention: nn.Module | None,
        dropout: float = 0.0,
        act: str = "relu",
        norm: Literal["batch", "layer", "none"] = "batch",
    ) -> None:
        super().__init__()
        self.local = local
        self.attention = attention
        self.norm_local = make_norm(norm, dim)
        self.norm_attention = make_norm(norm, dim)
        self.feed_forward = FeedForward(dim, act=act, dropout=dropout)
        self.norm_out = make_norm(norm, dim)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node and edge states."""
        branches, e_next = [], e
        if self.local is not None:
            h_local, e_next = self.local(h, e, batch)
            if not self.local.residual_inside:
                h_local = h + self.dropout(h_local)
            branches.append(self.norm_local(h_local, batch))
        if self.attention is not None:
            h_attention = h + self.dropout(self.attention(h, e, batch))
            branches.append(self.norm_attention(h_attention, batch))
        x = sum(branches[1:], branches[0]) if branches else h
        return self.norm_out(x + self.feed_forward(x), batch), e_next
