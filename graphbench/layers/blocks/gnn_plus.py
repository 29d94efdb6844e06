"""GNN+: classic message passing with what Transformers have around it.

Luo, Shi and Wu, Can Classic GNNs Be Strong Baselines for Graph-level Tasks?, https://arxiv.org/abs/2502.09263.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.layers.contract import Block
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.local.gated_gcn import GatedGCNCore
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gin import GINE
from graphbench.layers.norm import BatchNorm
from graphbench.ops.propagate import gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class GNNPlusBlock(Block):
    """Base of the four layers: message passing, residual, and a feed-forward network between BatchNorms.

    Equations::

        x  = [h +] CONV(h, e)                                 norm, activation and dropout in CONV, see the layers
        h' = BN(x' + drop(W_2 drop(act(W_1 x')))),  x' = BN(x)      with ``ffn``, else h' = x

    Args:
        dim: channels of nodes.
        dropout: drop.
        act: of the feed-forward network.
        ffn: whether there is one (``gnn.ffn``).
    """

    capturable: ClassVar[bool] = True

    def __init__(self, dim: int, *, dropout: float, act: str, ffn: bool) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.norm_in = BatchNorm(dim) if ffn else None
        self.norm_out = BatchNorm(dim) if ffn else None
        self.feed_forward = FeedForward(dim, act=act, dropout=dropout) if ffn else None

    @abstractmethod
    def convolve(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Node states x (N, dim), the residual included, and edge states."""

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states; the batch as it came."""
        x, e = self.convolve(h, e, batch)
        if self.feed_forward is not None and self.norm_in is not None and self.norm_out is not None:
            x = self.norm_in(x, batch)
            x = self.norm_out(x + self.feed_forward(x), batch)
        return x, e, batch


@register("gcn")
class GCNPlus(GNNPlusBlock):
    """:class:`GNNPlusBlock` around ``drop(act(BN(GCN(h))))``.

    Args:
        dim: channels of nodes.
        dropout: probability of dropping an entry.
        act: activation of both.
        residual: add h.
        ffn: see the base class.

    Shape:
        h (N, dim), e -> h' (N, dim), e, batch; edge states are not read.

    Differences from the paper: none known.
    """

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
        ffn: FromContext[bool] = True,
    ) -> None:
        super().__init__(dim, dropout=dropout, act=act, ffn=ffn)
        self.conv: nn.Module = self._conv(dim)
        self.norm, self.act, self.residual = BatchNorm(dim), activation(act), residual

    def _conv(self, dim: int) -> nn.Module:
        return GCN(dim, dim)

    def convolve(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Node states x, and the edge states as they came."""
        new = self.dropout(self.act(self.norm(self.conv(h, e, batch)[0], batch)))
        return (h + new if self.residual else new), e


@register("gcne")
class GCNEdgesPlus(GCNPlus):
    """:class:`GCNPlus` with messages that read edges, neither normalised nor with self loops.

    Equation::

        CONV(h, e)_t = drop(act(BN(sum over s of relu(W h_s + e_st) + b)))

    Args:
        dim: channels of nodes and edges.
        dropout: probability of dropping an entry.
        act: activation.
        residual: add h.
        ffn: see :class:`GNNPlusBlock`.

    Shape:
        h (N, dim), e (E, dim) -> h' (N, dim), e, batch.

    Differences from the paper: its equation has the normalisation of GCN and self loops, which its code switches off.
    """

    needs_edges: ClassVar[bool] = True

    def _conv(self, dim: int) -> nn.Module:
        return _EdgeSum(dim)


class _EdgeSum(nn.Module):
    """``sum over s of relu(W h_s + e_st) + b``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.lin = nn.Linear(dim, dim, bias=False)
        self.bias = nn.Parameter(torch.zeros(dim))

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        if e is None:
            raise ValueError("gcne needs edge states, received none (use gcn, or an edge encoder)")
        adj = batch.adjacency()
        return sum_at_target(adj, (gather(adj, self.lin(h), "source") + e).relu()) + self.bias, e


@register("gine")
class GINEPlus(GNNPlusBlock):
    """:class:`GNNPlusBlock` around ``drop(relu(GINE(h, e)))``; its MLP has a ReLU, too, and there is no norm.

    Args:
        dim: channels of nodes.
        dim_edge: channels of the edge states; another number than ``dim`` adds a linear map.
        dropout: probability of dropping an entry.
        act: of the feed-forward network.
        residual: add h.
        ffn: see the base class.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim), e, batch.

    Differences from the paper: none known; its code leaves the norm after GINE out.
    """

    needs_edges: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dim_edge: FromContext[int],
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
        ffn: FromContext[bool] = True,
    ) -> None:
        super().__init__(dim, dropout=dropout, act=act, ffn=ffn)
        self.conv, self.residual = GINE(dim, dim, dim_edge=dim_edge), residual

    def convolve(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Node states x, and the edge states as they came."""
        new, _ = self.conv(h, e, batch)
        new = self.dropout(new.relu())
        return (h + new if self.residual else new), e


@register("gatedgcn")
class GatedGCNPlus(GNNPlusBlock):
    """:class:`GNNPlusBlock` around :class:`~graphbench.layers.local.gated_gcn.GatedGCNCore`, with ReLU.

    Args:
        dim: channels of nodes.
        dim_edge: channels of the edge states that come in; ``dim`` go out.
        dropout: probability of dropping an entry of new node and edge states.
        act: of the feed-forward network.
        residual: add the old states of nodes and edges.
        ffn: see the base class.

    Shape:
        h (N, dim), e (E, dim_edge) -> h' (N, dim), e' (E, dim), batch.

    Differences from the paper: none known.
    """

    needs_edges: ClassVar[bool] = True

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dim_edge: FromContext[int],
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: FromContext[bool] = False,
        ffn: FromContext[bool] = True,
    ) -> None:
        super().__init__(dim, dropout=dropout, act=act, ffn=ffn)
        self.conv = _GatedSum(dim, dim, dim_edge=dim_edge, dropout=dropout, residual=residual)

    def convolve(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Node states x, and new edge states."""
        return self.conv.convolve(h, e, batch)


class _GatedSum(GatedGCNCore):
    """GatedGCN, part of a layer: nothing names it."""

    def step(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        return *self.convolve(h, e, batch), batch
