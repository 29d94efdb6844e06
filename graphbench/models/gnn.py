"""GraphGym's network: the design space of https://arxiv.org/abs/2011.08843 (``model.type: gnn``)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from graphbench.blockwise.forward import Blockwise
from graphbench.blockwise.model import BlockwiseModel
from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.heads.contract import Head
from graphbench.layers.contract import LocalLayer
from graphbench.layers.input_linear import readable
from graphbench.layers.module_list import Modules
from graphbench.models.contract import EncodedModel
from graphbench.models.pre_layers import LayerSettings, PostLayer, PreLayer
from graphbench.ops.unit_rows import unit_length
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch, as_dense
from graphbench.structures.node_blocks import NodeBlocks

STAGES = ("stack", "skipsum", "skipconcat")


@register("gnn")
class GNN(EncodedModel, BlockwiseModel):
    r"""GraphGym's network: linear layers, convolutions in stages, a head.

    With ``u_l = n(act(drop(BN(CONV_l(h_{l-1})))))`` and n dividing rows by their length (``l2norm``)::

        stack       h_l = u_l
        skipsum     h_l = h_{l-1} + u_l
        skipconcat  h_l = [h_{l-1} | u_l], and u_l alone for the last

    and ``y = head(n(h_L))``. Edge states, where a convolution changes them, go from layer to layer.

    Args:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: width of the encoded nodes.
        edge_encoder: edge encoder, ``batch -> (E, dim_edge)``, or None.
        dim: width of the hidden state (``gnn.dim_inner``).
        layers: number of convolutions (``gnn.layers_mp``).
        local: factory of convolutions, from their widths (``gnn.layer_type``).
        head: factory of the head, from the width of the hidden state.
        pre_mp: linear layers before (``gnn.layers_pre_mp``), or None.
        stage_type: ``stack``, ``skipsum`` or ``skipconcat`` (``gnn.stage_type``).
        post: BatchNorm, dropout, activation and n after every convolution; without ``l2norm`` n is the identity.

    Shape:
        batch -> prediction of the head

    Differences from the released code: ``skipsum`` with an encoder of another width than ``dim`` is refused when the
    model is built.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"

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
        pre_mp: FromContext[Modules[PreLayer] | None] = None,
        stage_type: FromContext[Literal["stack", "skipsum", "skipconcat"]] = "stack",
        post: FromContext[LayerSettings] = LayerSettings(),
    ) -> None:
        super().__init__(encoder, edge_encoder)
        check_one_of(STAGES, stage_type=stage_type)
        check_at_least(0, layers=layers)
        width = dim if pre_mp else dim_encoded
        if width != dim and (layers == 0 or stage_type == "skipsum"):
            raise ArgumentError(
                ("encoder", "dim_encoded", "dim", "layers", "stage_type"),
                f"the node encoder gives {dim_encoded} columns where {dim} are read: map them with "
                f"gnn.layers_pre_mp of 1 or more (received layers_mp={layers}, stage_type={stage_type})",
            )
        self.pre_mp: Modules[PreLayer] = Modules() if pre_mp is None else pre_mp
        if stage_type == "skipconcat":
            widths = [width + dim * number for number in range(layers)]
        else:
            widths = [width if number == 0 else dim for number in range(layers)]
        self.layers: Modules[ConvLayer] = Modules(ConvLayer(local(width_in, dim), dim, post) for width_in in widths)
        self.head = head(dim)
        self.stage_type = stage_type
        self.l2norm = post.l2norm

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        for pre in self.pre_mp:
            h = pre(h, batch)
        for number, layer in enumerate(self.layers, 1):
            new, e = layer(h, e, batch)
            h = self._joined(new, h, number)
        return self._predict(h, batch)

    def forward_blockwise(self, graph: NodeBlocks) -> Tensor:
        """The predictions of :meth:`forward` with bounded memory; see :class:`.BlockwiseModel`."""
        blocks = Blockwise(graph, self)
        e = None if self.edge_encoder is None else blocks.edges(self.edge_encoder)
        h = blocks.nodes(self.encoder)
        for pre in self.pre_mp:
            h = blocks.rows(pre, h)
        for number, layer in enumerate(self.layers, 1):
            h, e = blocks.messages(layer.conv, h, e, h, then=partial(self._finished, layer=layer, number=number))
        return as_dense(blocks.rows(self._predict, h, part=self.head).tensor)

    def _finished(self, new: Tensor, h: Features, layer: ConvLayer, number: int) -> Tensor:
        """h_l, from the output of the convolution of layer l = ``number`` and h_{l-1}."""
        return self._joined(layer.finish(new), h, number)

    def _joined(self, new: Tensor, h: Features, number: int) -> Tensor:
        """h_l, from u_l and h_{l-1}; l = ``number`` counts from 1."""
        if self.stage_type == "skipsum":
            return as_dense(h) + new
        if self.stage_type == "skipconcat" and number < len(self.layers):
            return torch.cat([as_dense(h), new], dim=1)
        return new

    def _predict(self, h: Features, batch: GraphBatch) -> Tensor:
        if self.l2norm and len(self.layers):
            h = unit_length(as_dense(h))
        return self.head(h, batch)


class ConvLayer(PostLayer):
    """A convolution with the steps of :class:`~graphbench.models.pre_layers.PostLayer`.

    Args:
        conv: the convolution, ``(h, e, batch) -> (h, e)``.
        dim: output width of the convolution.
        settings: see :class:`~graphbench.models.pre_layers.LayerSettings`.

    Shape:
        h, e -> u (N, dim), e
    """

    def __init__(self, conv: LocalLayer, dim: int, settings: LayerSettings) -> None:
        super().__init__()
        self.conv = conv
        self.add_steps(dim, settings)

    def forward(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """Node states u (N, dim), and edge states."""
        new, e, batch = self.conv.step(readable(h, self.conv), e, batch)
        return self.finish(new, batch), e
