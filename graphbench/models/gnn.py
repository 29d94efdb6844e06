"""GraphGym's network: the design space of https://arxiv.org/abs/2011.08843 (``model.type: gnn``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.graph import NodeBlocks
from graphbench.encoders.compose import keep_sparse
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import readable
from graphbench.layers.norm import BatchNorm
from graphbench.models.stacked import PreLayer
from graphbench.registry import register
from graphbench.structures import Features, GraphBatch, as_dense

STAGES = ("stack", "skipsum", "skipconcat")


@register("gnn")
class GNN(nn.Module):
    r"""Linear layers, convolutions in stages, a head.

    With ``u_l = n(act(drop(BN(CONV_l(h_{l-1})))))`` and n dividing rows by their length (``l2norm``)::

        stack       h_l = u_l
        skipsum     h_l = h_{l-1} + u_l
        skipconcat  h_l = [h_{l-1} | u_l], and u_l alone for the last

    and ``y = head(n(h_L))``. Edge states, where a convolution changes them, go from layer to layer.

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width.
        edge_encoder: module ``batch -> (E, dim_edge)``, or None.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of convolutions (``gnn.layers_mp``).
        local: makes a convolution from its widths, ``(h, e, batch) -> (h, e)`` (``gnn.layer_type``).
        head: makes the head from the width of the hidden state, ``(h, batch) -> prediction``.
        layers_pre_mp: number of linear layers before (``gnn.layers_pre_mp``).
        stage_type: as above (``gnn.stage_type``).
        batchnorm: BatchNorm after every linear map and convolution (``gnn.batchnorm``).
        dropout: dropout after it (``gnn.dropout``).
        act: activation after that (``gnn.act``).
        l2norm: n as above; without it n is the identity (``gnn.l2norm``).

    Shape:
        batch -> what the head returns

    Differences from the released code: ``skipsum`` with other widths than ``dim`` at the entrance is refused when the
    model is built.
    """

    layers_from: ClassVar[str] = "gnn"

    def __init__(
        self,
        encoder: nn.Module,
        dim_encoded: int,
        edge_encoder: nn.Module | None,
        dim: int,
        layers: int,
        local: Callable[[int, int], nn.Module],
        head: Callable[[int], nn.Module],
        *,
        layers_pre_mp: int = 0,
        stage_type: Literal["stack", "skipsum", "skipconcat"] = "stack",
        batchnorm: bool = True,
        dropout: float = 0.0,
        act: str = "relu",
        l2norm: bool = True,
    ):
        super().__init__()
        if stage_type not in STAGES:
            raise ValueError(f"stage_type must be one of {', '.join(STAGES)}; received {stage_type!r}")
        if layers < 0 or layers_pre_mp < 0:
            raise ValueError(f"layers_mp and layers_pre_mp must be 0 or more, received {layers} and {layers_pre_mp}")
        width = dim if layers_pre_mp else dim_encoded
        if width != dim and (layers == 0 or stage_type == "skipsum"):
            raise ValueError(
                f"the node encoder gives {dim_encoded} columns where {dim} are read: map them with "
                f"gnn.layers_pre_mp of 1 or more (received layers_mp={layers}, stage_type={stage_type})"
            )
        post = {"batchnorm": batchnorm, "dropout": dropout, "act": act, "l2norm": l2norm}
        self.encoder = keep_sparse(encoder)
        self.edge_encoder = edge_encoder
        self.pre_mp = nn.ModuleList(PreLayer(dim if i else dim_encoded, dim, **post) for i in range(layers_pre_mp))
        grows = dim if stage_type == "skipconcat" else 0
        widths = [width + grows * i if grows or i == 0 else dim for i in range(layers)]
        self.layers = nn.ModuleList(ConvLayer(local(each, dim), dim, **post) for each in widths)
        self.head = head(dim)
        self.stage_type, self.l2norm = stage_type, l2norm

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predicts from a batch."""
        e = None if self.edge_encoder is None else self.edge_encoder(batch)
        h, batch = self.encoder(batch)
        for layer in self.pre_mp:
            h = layer(h)
        for number, layer in enumerate(self.layers, 1):
            new, e = layer(h, e, batch)
            h = self._joined(new, h, number)
        return self._predict(h, batch)

    def in_blocks(self, graph: NodeBlocks) -> Tensor:
        """The predictions :meth:`forward` makes for all nodes of one graph, in evaluation, with bounded memory.

        Args:
            graph: in blocks, see :mod:`graphbench.blockwise.graph`.

        Returns:
            (N, out_dim) on the host.

        Raises:
            ValueError: the encoder, a convolution or the head cannot work block by block.
        """
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        h = blocks.nodes(self.encoder)
        for layer in self.pre_mp:
            h = blocks.rows(layer, h)
        for number, layer in enumerate(self.layers, 1):
            h, e = blocks.messages(layer.conv, h, e, h, then=partial(self._finished, number=number))
        return blocks.rows(self._predict, h).tensor

    def _finished(self, new: Tensor, h: Features, number: int) -> Tensor:
        """The state behind layer ``number``, from what its convolution returned and the state before."""
        return self._joined(self.layers[number - 1].finish(new), h, number)

    def _joined(self, new: Tensor, h: Features, number: int) -> Tensor:
        """u_l and h_{l-1} as ``stage_type`` says; l counts from 1."""
        if self.stage_type == "skipsum":
            return h + new
        if self.stage_type == "skipconcat" and number < len(self.layers):
            return torch.cat([as_dense(h), new], dim=1)
        return new

    def _predict(self, h: Tensor, batch: GraphBatch) -> Tensor:
        return self.head(F.normalize(h, dim=-1) if self.l2norm and len(self.layers) else h, batch)


class ConvLayer(nn.Module):
    r"""u <- act(drop(BN(CONV(h, e)))), rows divided by their length where ``l2norm`` says so.

    Args:
        conv: the convolution, ``(h, e, batch) -> (h, e)``.
        dim: width of what it returns.
        batchnorm: whether there is a BatchNorm.
        dropout: probability.
        act: name of the activation.
        l2norm: whether rows get length one.

    Shape:
        h, e -> u (N, dim), e
    """

    def __init__(self, conv: nn.Module, dim: int, *, batchnorm: bool, dropout: float, act: str, l2norm: bool):
        super().__init__()
        self.conv = conv
        self.norm = BatchNorm(dim) if batchnorm else nn.Identity()
        self.dropout = Dropout(dropout)
        self.act = activation(act)
        self.l2norm = l2norm

    def forward(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Maps every node."""
        new, e = self.conv(readable(h, self.conv), e, batch)
        return self.finish(new), e

    def finish(self, new: Tensor) -> Tensor:
        """What follows the convolution, row by row."""
        u = self.act(self.dropout(self.norm(new)))
        return F.normalize(u, dim=-1) if self.l2norm else u
