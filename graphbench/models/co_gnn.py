"""Co-GNN: every node chooses whether it listens and whether it broadcasts (https://arxiv.org/abs/2310.01267)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.activation import activation
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear, readable
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.ops.propagate import gather, mean_at_target, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch

AGGREGATES = {"mean": mean_at_target, "sum": sum_at_target}


@dataclass(frozen=True)
class ActionSettings:
    """Networks and choices; every field is a key of the model.

    Attributes:
        aggregate: aggregation of the neighbours in the environment network, ``mean`` or ``sum``.
        action_aggregate: aggregation of the neighbours in the action networks, ``mean`` or ``sum``.
        action_layers: layers of each of the two action networks.
        action_dim: width inside them.
        temperature: tau; None: learned per node, 1 / (softplus(w . x) + tau_0).
        tau_0: tau_0 of the learned temperature.
        skip: every layer adds its input.
        layer_norm: n is one LayerNorm that all layers share; False: the identity.
    """

    aggregate: Literal["mean", "sum"] = "mean"
    action_aggregate: Literal["mean", "sum"] = "mean"
    action_layers: int = 1
    action_dim: int = 16
    temperature: float | None = 0.01
    tau_0: float = 0.5
    skip: bool = False
    layer_norm: bool = False


class Listening(nn.Module):
    """x'_t = W [x_t | mean or sum over edges s -> t of w_st x_s] + b; the mean counts edges of weight 0 as well.

    Args:
        dim_in: columns that come in.
        dim_out: columns that go out.
        aggregate: ``mean`` or ``sum``.

    Shape:
        x (N, dim_in), weight (E, 1) or None -> (N, dim_out)
    """

    def __init__(self, dim_in: int, dim_out: int, aggregate: str) -> None:
        super().__init__()
        self.aggregate = AGGREGATES[aggregate]
        self.lin = nn.Linear(2 * dim_in, dim_out)

    def forward(self, x: Tensor, batch: GraphBatch, weight: Tensor | None = None) -> Tensor:
        """(N, dim_out)."""
        adjacency = batch.adjacency()
        message = gather(adjacency, x, "source")
        heard = self.aggregate(adjacency, message if weight is None else weight * message)
        return self.lin(torch.cat([x, heard], dim=1))


class ActionNetwork(nn.Module):
    """Logits of two choices per node: layers of :class:`Listening` with ReLU and dropout between them.

    Args:
        dim: columns that come in.
        settings: depth, width, aggregate.
        dropout: probability.

    Shape:
        x (N, dim) -> (N, 2)
    """

    def __init__(self, dim: int, settings: ActionSettings, dropout: float) -> None:
        super().__init__()
        widths = [dim] + [settings.action_dim] * (settings.action_layers - 1) + [2]
        self.layers: Modules[Listening] = Modules(
            Listening(a, b, settings.action_aggregate) for a, b in pairwise(widths)
        )
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(N, 2); the first column says yes."""
        *hidden, last = self.layers
        for layer in hidden:
            x = self.dropout(layer(x, batch)).relu()
        return last(x, batch)


@register("CoGNN")
class CoGNN(EncodedModel):
    r"""Cooperative message passing: edges whose source broadcasts and whose target listens, chosen anew in every layer.

    Equations, pi_in and pi_out two action networks that all layers share, G Gumbel noise::

        x <- act(drop(W_0 X + b_0)),   and in every layer   x <- n(x)
        listens_i = [argmax((pi_in(x)_i + G) / tau) = 0],   broadcasts_i likewise from pi_out
        x'_t = [x_t +] act(drop(W [x_t | mean over edges s -> t of listens_t broadcasts_s x_s] + b)),   y = head(n(x_L))

    Gradients of the choices are those of the softmax (straight through).

    Args:
        frame: encoder, widths, factory of the head.
        layers: number of them (``gnn.layers_mp``).
        dropout: drop (``gnn.dropout``).
        act: act (``gnn.act``); the action networks have ReLU.
        settings: keys of their own, see :class:`ActionSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the released code: in evaluation the likelier choice is taken, there it is drawn. GCN, GIN and
    linear maps as action or environment network, and edge states, are not here.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"
    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        frame: Frame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        settings: ActionSettings = ActionSettings(),
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        s = settings
        check_at_least(1, action_layers=s.action_layers, action_dim=s.action_dim)
        if not {s.aggregate, s.action_aggregate} <= AGGREGATES.keys() or (s.temperature or 1.0) <= 0:
            raise ArgumentError(
                ("aggregate", "action_aggregate", "temperature"),
                "aggregates must be mean or sum and the temperature above 0, received "
                f"'{s.aggregate}', '{s.action_aggregate}' and {s.temperature}",
            )
        self.lin_in = InputLinear(frame.dim_encoded, dim)
        self.norm = LayerNorm(dim) if s.layer_norm else nn.Identity()
        self.listens, self.broadcasts = (ActionNetwork(dim, s, dropout) for _ in range(2))
        self.temperature, self.tau_0, self.skip = s.temperature or 0.0, s.tau_0, s.skip
        self.lin_temperature = nn.Linear(dim, 1, bias=False) if s.temperature is None else None
        self.layers: Modules[Listening] = Modules(Listening(dim, dim, s.aggregate) for _ in range(layers))
        self.act, self.dropout = activation(act), Dropout(dropout)
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        features, _, batch = self.encode(batch)
        adjacency = batch.adjacency()
        x = self.act(self.dropout(self.lin_in(readable(features, self))))
        for layer in self.layers:
            x = self.norm(x)
            listens, broadcasts = (self._chosen(net(x, batch), x) for net in (self.listens, self.broadcasts))
            weight = gather(adjacency, listens, "target") * gather(adjacency, broadcasts, "source")
            new = self.act(self.dropout(layer(x, batch, weight)))
            x = x + new if self.skip else new
        return self.head(self.norm(x), batch)

    def _chosen(self, logits: Tensor, x: Tensor) -> Tensor:
        """(N, 1) 1 where the first of two columns is chosen, 0 elsewhere; drawn in training."""
        if not self.training:
            return (logits[:, :1] >= logits[:, 1:]).to(logits.dtype)
        if self.lin_temperature is None:
            sharpness: float | Tensor = 1 / self.temperature
        else:
            sharpness = F.softplus(self.lin_temperature(x)) + self.tau_0
        noise = -torch.empty_like(logits).exponential_().log()
        soft = ((logits + noise) * sharpness).softmax(1)[:, :1]
        return (soft >= 0.5).to(soft.dtype) + (soft - soft.detach())
