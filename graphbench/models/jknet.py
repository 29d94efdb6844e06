"""Local layers one after the other, with the norms, residuals and jumps that tuned baselines choose from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.activation import activation
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear, readable
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import make_norm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.requirements import EdgeTables, Tables, local_layers
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

JUMPS = ("cat", "max", "sum", "last")


@dataclass(frozen=True)
class StackSettings:
    """Norms, residuals and dropout around the local layers; every field is a key of the model.

    Attributes:
        jump: states that the head reads: ``cat`` all layers side by side, ``max`` and ``sum`` per channel, ``last``.
        jump_dropout: drop_J.
        residual: the bracket W_l h + b_l.
        bare_last: the jump reads states before drop, and of the last layer local_L(h_{L-1}) alone, without norm,
            activation and dropout, as in SGFormer's release (medium/models.py).
        layer_norm: norm is a LayerNorm of every node in place of BatchNorm.
        input_map: h_0 is a linear map of X, and dropped out.
        edge_tables: ``shared``, ``per_layer``, .., see :class:`~graphbench.models.requirements.EdgeTables`.
    """

    jump: Literal["cat", "max", "sum", "last"] = "cat"
    jump_dropout: float = 0.0
    residual: bool = False
    bare_last: bool = False
    layer_norm: bool = False
    input_map: bool = False
    edge_tables: Tables = "shared"


@register("JKNet")
class JKNet(EncodedModel):
    """Jumping knowledge network, https://arxiv.org/abs/1806.03536: the head reads the states of all layers.

    Equations, brackets as :class:`StackSettings` says::

        h_0 = X   [drop(W_0 X + b_0)]
        h_l = drop(act(norm(local_l(h_{l-1}) [+ W_l h_{l-1} + b_l])))
        y = head(drop_J(jump(h_1, .., h_L)))

    Args:
        frame: encoders, widths, factory of the head, which reads the jump.
        layers: L (``gnn.layers_mp``).
        local: factory of local layers, from their widths (``gnn.layer_type``).
        batchnorm: norm is BatchNorm (``gnn.batchnorm``).
        dropout: probability (``gnn.dropout``).
        act: activation (``gnn.act``).
        settings: keys of their own, see :class:`StackSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the paper: its third jump, attention by an LSTM over the layers, is not here.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        local: FromContext[Callable[[int, int], LocalLayer] | None],
        *,
        batchnorm: FromContext[bool] = True,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        settings: StackSettings = StackSettings(),
    ):
        super().__init__(frame.encoder, frame.edge_encoder)
        dim, dim_encoded = frame.dim, frame.dim_encoded
        local = local_layers(local, layers)
        check_one_of(JUMPS, jump=settings.jump)
        self.jump = settings.jump
        self.tables = EdgeTables(settings.edge_tables, dim, layers, frame.edge_columns)
        self.lin_in = InputLinear(dim_encoded, dim) if settings.input_map else None
        first = dim if settings.input_map else dim_encoded
        widths = [dim if number else first for number in range(layers)]
        self.layers: Modules[LocalLayer] = Modules(local(width, dim) for width in widths)
        self.residuals = nn.ModuleList(InputLinear(width, dim) for width in widths if settings.residual)
        norm = "node" if settings.layer_norm else "batch" if batchnorm else "none"
        self.bare_last = settings.bare_last
        self.norms = nn.ModuleList(make_norm(norm, dim) for _ in range(layers - self.bare_last))
        self.act = activation(act)
        self.dropout, self.jump_dropout = Dropout(dropout), Dropout(settings.jump_dropout)
        self.head = frame.head(layers * dim if self.jump == "cat" else dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        if self.lin_in is not None:
            h = self.dropout(self.lin_in(h))
        states = []
        for number, layer in enumerate(self.layers):
            new, e_new, _ = layer.step(readable(h, layer), self.tables.of(e, number), batch)
            e = e_new if self.tables.shared else e
            if self.residuals:
                new = new + self.residuals[number](h)
            if self.bare_last and number == len(self.layers) - 1:
                states.append(new)
                break
            state = self.act(self.norms[number](new, batch))
            h = self.dropout(state)
            states.append(state if self.bare_last else h)
        return self.head(self.jump_dropout(self._jumped(states)), batch)

    def _jumped(self, states: list[Tensor]) -> Tensor:
        """(N, dim), or (N, L dim) side by side."""
        if self.jump == "last":
            return states[-1]
        if self.jump == "cat":
            return torch.cat(states, dim=1)
        stacked = torch.stack(states)
        return stacked.sum(0) if self.jump == "sum" else stacked.amax(0)


@register("TunedGNN")
class TunedGNN(JKNet):
    """Classic message passing with tuned surroundings, https://arxiv.org/abs/2406.08993; equations of :class:`JKNet`.

    The released runs have GCN, SAGE with ``self_loops``, or GAT with one head and without bias; ``jump: last`` (``sum``
    is its ``--jk``); ``residual``, ``layer_norm`` or BatchNorm, and ``input_map`` as the data set wants.

    Differences from the released code: its norm before a layer (``--pre_ln``) is not here, no released run has it.
    Linear maps and norms that it creates and never reads are not here either: counts are of what is trained.
    """
