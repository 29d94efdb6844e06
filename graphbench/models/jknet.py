"""Jumping knowledge networks (https://arxiv.org/abs/1806.03536)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.activation import activation
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import readable
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm, NoNorm
from graphbench.models.contract import EncodedModel
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("JKNet")
class JKNet(EncodedModel):
    """A stack of local layers; the head reads the states of all of them.

    Equation::

        h_0 = X,   h_l = drop(act(norm(local_l(h_{l-1})))),   y = head(jump(h_1, .., h_L))

    Args:
        encoder: node encoder, ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width.
        edge_encoder: edge encoder, ``batch -> (E, dim_edge)``, or None.
        dim: width of every layer (``gnn.dim_inner``).
        layers: L (``gnn.layers_mp``).
        local: factory of local layers, from their widths (``gnn.layer_type``).
        head: factory of the head, from the width of the jump.
        batchnorm: norm is BatchNorm (``gnn.batchnorm``).
        dropout: probability (``gnn.dropout``).
        act: activation (``gnn.act``).
        jump: ``"cat"`` concatenates the states, ``"max"`` takes the maximum of every channel.

    Shape:
        batch -> prediction of the head

    Differences from the paper: its third jump, attention by an LSTM over the layers, is not here.
    """

    capturable: ClassVar[bool] = True
    layers_from: ClassVar[Literal["gt", "gnn", "graphormer"]] = "gnn"

    def __init__(
        self,
        encoder: FromContext[NodeEncoder],
        dim_encoded: FromContext[int],
        edge_encoder: FromContext[EdgeEncoder | None],
        dim: FromContext[int],
        layers: FromContext[int],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        head: FromContext[Callable[[int], Head]],
        *,
        batchnorm: FromContext[bool] = True,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        jump: Literal["cat", "max"] = "cat",
    ):
        super().__init__(encoder, edge_encoder)
        if local is None or layers < 1:
            raise ArgumentError(
                ("local", "layers"),
                f"JKNet needs a local layer and 1 or more of them, received {layers} of "
                f"{'none' if local is None else 'one kind'}",
            )
        if jump not in ("cat", "max"):
            raise ArgumentError("jump", f"jump must be cat or max, received {jump!r}")
        self.layers: Modules[LocalLayer] = Modules(local(dim if i else dim_encoded, dim) for i in range(layers))
        self.norms = nn.ModuleList(BatchNorm(dim) if batchnorm else NoNorm() for _ in range(layers))
        self.act = activation(act)
        self.dropout = Dropout(dropout)
        self.jump = jump
        self.head = head(layers * dim if jump == "cat" else dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        states = []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            new, e = layer(readable(h, layer), e, batch)
            h = self.dropout(self.act(norm(new, batch)))
            states.append(h)
        z = torch.cat(states, dim=1) if self.jump == "cat" else torch.stack(states).amax(0)
        prediction: Tensor = self.head(z, batch)
        return prediction
