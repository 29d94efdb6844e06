"""GraphGym's network: the design space of https://arxiv.org/abs/2011.08843 (``model.type: gnn``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder, keep_sparse
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.contract import LocalLayer
from graphbench.layers.input_linear import readable
from graphbench.models.contract import Model
from graphbench.models.pre_layers import LayerSettings, PostLayer
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch, as_dense
from graphbench.structures.node_blocks import NodeBlocks

STAGES = ("stack", "skipsum", "skipconcat")


@register("gnn")
class GNN(Model, BlockwiseModel):
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
        pre_mp: linear layers before (``gnn.layers_pre_mp``); None for none.
        stage_type: as above (``gnn.stage_type``).
        post: BatchNorm, dropout, activation and n after every convolution; without ``l2norm`` n is the identity.

    Shape:
        batch -> what the head returns

    Differences from the released code: ``skipsum`` with other widths than ``dim`` at the entrance is refused when the
    model is built.
    """

    layers_from: ClassVar[str] = "gnn"

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        edge_encoder: FromContext[EdgeEncoder | None],
        dim: FromContext[int],
        layers: FromContext[int],
        local: FromContext[Callable[[int, int], LocalLayer]],
        head: FromContext[Callable[[int], Head]],
        *,
        pre_mp: FromContext[nn.ModuleList | None] = None,
        stage_type: FromContext[Literal["stack", "skipsum", "skipconcat"]] = "stack",
        post: FromContext[LayerSettings] = LayerSettings(),  # noqa: B008  frozen
    ) -> None:
        super().__init__()
        if stage_type not in STAGES:
            raise ArgumentError("stage_type", f"stage_type must be one of {', '.join(STAGES)}; received {stage_type!r}")
        if layers < 0:
            raise ArgumentError("layers", f"layers_mp must be 0 or more, received {layers}")
        pre_mp = nn.ModuleList() if pre_mp is None else pre_mp
        width = dim if pre_mp else dim_encoded
        if width != dim and (layers == 0 or stage_type == "skipsum"):
            raise ArgumentError(
                ("encoder", "dim_encoded", "dim", "layers", "stage_type"),
                f"the node encoder gives {dim_encoded} columns where {dim} are read: map them with "
                f"gnn.layers_pre_mp of 1 or more (received layers_mp={layers}, stage_type={stage_type})",
            )
        self.encoder = keep_sparse(encoder)
        self.edge_encoder = edge_encoder
        self.pre_mp = pre_mp
        grows = dim if stage_type == "skipconcat" else 0
        widths = [width + grows * i if grows or i == 0 else dim for i in range(layers)]
        self.layers = nn.ModuleList(ConvLayer(local(width_in, dim), dim, post) for width_in in widths)
        self.head = head(dim)
        self.stage_type, self.l2norm = stage_type, post.l2norm

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

    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions of :meth:`forward` with bounded memory; see :class:`.BlockwiseModel`."""
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        h = blocks.nodes(self.encoder)
        for layer in self.pre_mp:
            h = blocks.rows(layer, h)
        for number, layer in enumerate(self.layers, 1):
            h, e = blocks.messages(layer.conv, h, e, h, then=partial(self._finished, number=number))
        return blocks.rows(self._predict, h, part=self.head).tensor

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


class ConvLayer(PostLayer):
    """A convolution with what follows it.

    Args:
        conv: the convolution, ``(h, e, batch) -> (h, e)``.
        dim: width of what it returns.
        settings: see :class:`~graphbench.models.pre_layers.LayerSettings`.

    Shape:
        h, e -> u (N, dim), e
    """

    def __init__(self, conv: LocalLayer, dim: int, settings: LayerSettings) -> None:
        super().__init__()
        self.conv = conv
        self.add_steps(dim, settings)

    def forward(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Maps every node."""
        new, e = self.conv(readable(h, self.conv), e, batch)
        return self.finish(new), e
