"""GNN+: classic message passing with what Transformers have around it.

Luo, Shi and Wu, Can Classic GNNs Be Strong Baselines for Graph-level Tasks?, https://arxiv.org/abs/2502.09263.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.layers.activation import activation
from graphbench.layers.blocks.gated_gcn_conv import GatedGCNBlock
from graphbench.layers.contract import Block, GraphLayer, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.feed_forward import FeedForward
from graphbench.layers.local.gcn import GCN
from graphbench.layers.local.gin import GINE
from graphbench.layers.norm import BatchNorm
from graphbench.ops.propagate import gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class PlusSettings:
    """Settings of all four layers; every field is a key of the layer.

    Attributes:
        dim: channels of nodes.
        dim_edge: channels of the edge states that come in, where the layer reads them.
        dropout: probability of dropping an entry.
        act: activation of the feed-forward network, and of ``gcn`` and ``gcne``.
        residual: add the old states.
        ffn: whether there is a feed-forward network (``gnn.ffn``).
    """

    dim: FromContext[int]
    dim_edge: FromContext[int] = 0
    dropout: FromContext[float] = 0.0
    act: FromContext[str] = "relu"
    residual: FromContext[bool] = False
    ffn: FromContext[bool] = True


class GNNPlusBlock(Block):
    """Base of the four layers: message passing, residual, and a feed-forward network between BatchNorms.

    Equations::

        x  = [h +] drop(act'(CONV(h, e)))                     as the layers say
        h' = BN(x' + drop(W_2 drop(act(W_1 x')))),  x' = BN(x)      with ``ffn``, else h' = x

    Args:
        settings: see :class:`PlusSettings`.

    Shape:
        h (N, dim), e (E, dim_edge) or None -> h' (N, dim), e as CONV leaves it, batch.
    """

    capturable: ClassVar[bool] = True
    conv: GraphLayer

    def __init__(self, settings: PlusSettings) -> None:
        super().__init__()
        s = settings
        self.dropout, self.residual = Dropout(s.dropout), s.residual
        self.norm_in = BatchNorm(s.dim) if s.ffn else None
        self.norm_out = BatchNorm(s.dim) if s.ffn else None
        self.feed_forward = FeedForward(s.dim, act=s.act, dropout=s.dropout) if s.ffn else None

    def finish(self, new: Tensor, h: Tensor, batch: GraphBatch) -> Tensor:
        """State x, from what CONV gives and the old states."""
        new = self.dropout(new.relu())
        return h + new if self.residual else new

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None, GraphBatch]:
        """New node and edge states; the batch as it came."""
        new, e, _ = self.conv.step(h, e, batch)
        x = self.finish(new, h, batch)
        if self.feed_forward is not None and self.norm_in is not None and self.norm_out is not None:
            x = self.norm_in(x, batch)
            x = self.norm_out(x + self.feed_forward(x), batch)
        return x, e, batch


@register("gcn")
class GCNPlus(GNNPlusBlock):
    """GCN+ block: GCN with batch norm, activation and dropout; edge states are not read.

    :class:`GNNPlusBlock` with ``drop(act(BN(GCN(h))))``.

    Differences from the paper: none known.
    """

    def __init__(self, settings: PlusSettings) -> None:
        super().__init__(settings)
        self.conv = self._conv(settings.dim)
        self.norm, self.act = BatchNorm(settings.dim), activation(settings.act)

    def _conv(self, dim: int) -> LocalLayer:
        return GCN(dim, dim)

    def finish(self, new: Tensor, h: Tensor, batch: GraphBatch) -> Tensor:
        """State x, with norm and activation."""
        new = self.dropout(self.act(self.norm(new, batch)))
        return h + new if self.residual else new


@register("gcne")
class GCNEdgesPlus(GCNPlus):
    """GCN+ block with messages that read edges, neither normalised nor with self loops; see :class:`GCNPlus`.

    Equation::

        CONV(h, e)_t = sum over s of relu(W h_s + e_st) + b

    Differences from the paper: its equation has the normalisation of GCN and self loops, which its code switches off.
    """

    needs_edges: ClassVar[bool] = True

    def _conv(self, dim: int) -> LocalLayer:
        return _EdgeSum(dim)


class _EdgeSum(LocalLayer):
    """``sum over s of relu(W h_s + e_st) + b``, part of a layer: nothing names it."""

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
    """GINE+ block: GINE with ReLU and dropout, without norm.

    :class:`GNNPlusBlock` with ``drop(relu(GINE(h, e)))``; its MLP has a ReLU, too.

    Differences from the paper: none known; its code leaves the norm after GINE out.
    """

    needs_edges: ClassVar[bool] = True

    def __init__(self, settings: PlusSettings) -> None:
        super().__init__(settings)
        self.conv = GINE(settings.dim, settings.dim, dim_edge=settings.dim_edge)


@register("gatedgcn")
class GatedGCNPlus(GNNPlusBlock):
    """GatedGCN+ block: :class:`~graphbench.layers.blocks.gated_gcn_conv.GatedGCNBlock`, complete with ReLU.

    A :class:`GNNPlusBlock`.

    Differences from the paper: none known.
    """

    needs_edges: ClassVar[bool] = True

    def __init__(self, settings: PlusSettings) -> None:
        super().__init__(settings)
        s = settings
        self.conv = GatedGCNBlock(s.dim, dim_edge=s.dim_edge, dropout=s.dropout, residual=s.residual)
        self.dim_edge_out = self.conv.dim_edge_out

    def finish(self, new: Tensor, h: Tensor, batch: GraphBatch) -> Tensor:
        """The state that the layer gives."""
        return new
