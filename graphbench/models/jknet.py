"""Jumping knowledge networks (https://arxiv.org/abs/1806.03536)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.encoders.compose import EdgeEncoder, NodeEncoder, keep_sparse
from graphbench.errors import ArgumentError
from graphbench.heads.contract import Head
from graphbench.layers.activation import activation
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import readable
from graphbench.layers.norm import BatchNorm
from graphbench.models.contract import Model
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("JKNet")
class JKNet(Model):
    """A stack of local layers whose states are all read at the end.

    Equation::

        h_0 = X,   h_l = drop(act(norm(local_l(h_{l-1})))),   y = head(jump(h_1, .., h_L))

    Args:
        encoder: module ``batch -> ((N, dim_encoded), batch')``.
        dim_encoded: its width.
        edge_encoder: module ``batch -> (E, dim_edge)``, or None.
        dim: width of every layer (``gnn.dim_inner``).
        layers: L (``gnn.layers_mp``).
        local: makes one local layer from its widths, ``(h, e, batch) -> (h, e)`` (``gnn.layer_type``).
        head: makes the head from the width of the jump, ``(h, batch) -> prediction``.
        batchnorm: norm is BatchNorm (``gnn.batchnorm``).
        dropout: probability (``gnn.dropout``).
        act: activation (``gnn.act``).
        jump: ``"cat"`` puts the states side by side, ``"max"`` takes the largest of every channel.

    Shape:
        batch -> what the head returns

    Differences from the paper: its third jump, attention by an LSTM over the layers, is not here.
    """

    layers_from: ClassVar[str] = "gnn"

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
        super().__init__()
        if local is None or layers < 1:
            raise ArgumentError(
                ("local", "layers"),
                f"JKNet needs a local layer and 1 or more of them, received {layers} of "
                f"{'none' if local is None else 'one kind'}",
            )
        if jump not in ("cat", "max"):
            raise ArgumentError("jump", f"jump must be cat or max, received {jump!r}")
        self.encoder = keep_sparse(encoder)
        self.edge_encoder = edge_encoder
        self.layers = nn.ModuleList(local(dim if i else dim_encoded, dim) for i in range(layers))
        self.norms = nn.ModuleList(BatchNorm(dim) if batchnorm else nn.Identity() for _ in range(layers))
        self.act, self.dropout, self.jump = activation(act), Dropout(dropout), jump
        self.head = head(layers * dim if jump == "cat" else dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Predicts from a batch."""
        e = None if self.edge_encoder is None else self.edge_encoder(batch)
        h, batch = self.encoder(batch)
        states = []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            new, e = layer(readable(h, layer), e, batch)
            h = self.dropout(self.act(norm(new)))
            states.append(h)
        z = torch.cat(states, dim=1) if self.jump == "cat" else torch.stack(states).amax(0)
        return self.head(z, batch)
