"""Polynormer: attention along edges, then linear attention, each multiplied by a map of its input.

Deng et al., Polynormer: Polynomial-Expressive Graph Transformer in Linear Time, https://arxiv.org/abs/2403.01232.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from graphbench.errors import check_at_least, check_multiple
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import LayerNorm
from graphbench.models.contract import EncodedModel, Frame
from graphbench.ops.kernel_attention import feature_attention
from graphbench.ops.propagate import edge_softmax, gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class PolynomialSettings:
    """Depths and gates; every field is a key of the model.

    Attributes:
        local_layers: attention layers along edges.
        global_layers: linear attention layers; 0: the first of the two phases of training, local layers alone.
        num_heads: attention heads of both.
        beta: first value of the gates, kept as it is; None: a sigmoid of learned numbers that start at 0.
        self_loops: every node attends to itself, too, in the local layers, as in the released program. Loops of a data
            set are edges beside it.
        input_dropout: dropout of the features.
        global_dropout: dropout after every global layer; None: ``dropout`` of the model.
    """

    local_layers: int = 7
    global_layers: int = 2
    num_heads: int = 8
    beta: float | None = None
    self_loops: bool = False
    input_dropout: float = 0.0
    global_dropout: float | None = None


class Gate(nn.Module):
    """One number per channel: sigmoid of a learned one, or learned as it is from ``beta`` on."""

    def __init__(self, dim: int, beta: float | None) -> None:
        super().__init__()
        self.bounded = beta is None
        self.value = nn.Parameter(torch.full((dim,), 0.0 if beta is None else beta))

    def forward(self) -> Tensor:
        """(dim,)."""
        return self.value.sigmoid() if self.bounded else self.value


class LocalPolynomial(nn.Module):
    """x' = drop(relu(GAT(x) + W x + b));  out = (1 - beta) LN(relu(H x) * x') + beta x'.

    GAT of PyG without bias: weights softmax_s(leaky_0.2(u . V x_s + w . V x_t)) of V x_s, per head.

    Args:
        dim: channels.
        heads: attention heads.
        dropout: probability.
        beta: see :class:`Gate`.
        self_loops: see :class:`PolynomialSettings`.

    Shape:
        x (N, dim) -> (N, dim)
    """

    def __init__(self, dim: int, heads: int, dropout: float, beta: float | None, self_loops: bool) -> None:
        super().__init__()
        self.heads, self.self_loops = heads, self_loops
        self.value = nn.Linear(dim, dim, bias=False)
        self.att_source, self.att_target = (nn.Parameter(torch.empty(heads, dim // heads)) for _ in range(2))
        for weight in (self.value.weight, self.att_source, self.att_target):
            nn.init.xavier_uniform_(weight)
        self.lin, self.factor = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.norm, self.gate, self.dropout = LayerNorm(dim), Gate(dim, beta), Dropout(dropout)

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim)."""
        adjacency = batch.adjacency(self_loops=self.self_loops)
        v = self.value(x).unflatten(1, (self.heads, -1))
        logit = gather(adjacency, (v * self.att_source).sum(2), "source")
        logit = logit + gather(adjacency, (v * self.att_target).sum(2), "target")
        weight = edge_softmax(adjacency, leaky_relu(logit, 0.2))
        mixed = sum_at_target(adjacency, weight.unsqueeze(2) * gather(adjacency, v, "source")).flatten(1)
        new: Tensor = self.dropout((mixed + self.lin(x)).relu())
        return torch.lerp(self.norm(self.factor(x).relu() * new), new, self.gate())


class GlobalPolynomial(nn.Module):
    """out = drop(relu(W (LN(A(x) V x) * (H x + beta)) + b)),  A_ij proportional to k_i . k_j with k = sigmoid(K x).

    A is of every graph by itself, its rows sum to 1, and it is never built: O(N).

    Args:
        dim: channels.
        heads: attention heads.
        dropout: probability.
        beta: see :class:`Gate`.
        lin_out: W and b, common to all layers.

    Shape:
        x (N, dim) -> (N, dim)
    """

    def __init__(self, dim: int, heads: int, dropout: float, beta: float | None, lin_out: nn.Linear) -> None:
        super().__init__()
        self.heads = heads
        self.key, self.value, self.factor = (nn.Linear(dim, dim) for _ in range(3))
        self.norm, self.gate, self.dropout = LayerNorm(dim), Gate(dim, beta), Dropout(dropout)
        self.lin_out = lin_out

    def forward(self, x: Tensor, batch: GraphBatch) -> Tensor:
        """(N, dim)."""
        k = self.key(x).sigmoid().unflatten(1, (self.heads, -1))
        v = self.value(x).unflatten(1, (self.heads, -1))
        mixed = feature_attention(k, k, v, batch.ragged).flatten(1)
        return self.dropout(self.lin_out(self.norm(mixed) * (self.factor(x) + self.gate())).relu())


@register("Polynormer")
class Polynormer(EncodedModel):
    """Polynormer: local layers, then global linear attention on the sum of their states.

    y = head(global layers(LN(sum of the states of all local layers))).

    Args:
        frame: encoder, widths, ``dim`` of all heads together, factory of the head.
        dropout: dropout after the first map and after every local layer (``gnn.dropout``).
        settings: keys of their own, see :class:`PolynomialSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the paper: it trains the local layers first, then all; here these are two runs, one with
    ``global_layers: 0`` and one that starts from it (``pretrained.dir``, ``adopt_architecture: false``), or one run
    with both. The linear attention is of every graph by itself; PyG's changes with the other graphs of a batch.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        frame: Frame,
        *,
        dropout: FromContext[float] = 0.0,
        settings: PolynomialSettings = PolynomialSettings(),
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        s = settings
        check_at_least(1, local_layers=s.local_layers, num_heads=s.num_heads)
        check_at_least(0, global_layers=s.global_layers)
        check_multiple(dim=dim, num_heads=s.num_heads)
        self.input_dropout, self.dropout = Dropout(s.input_dropout), Dropout(dropout)
        self.lin_in = InputLinear(frame.dim_encoded, dim)
        self.local_layers: Modules[LocalPolynomial] = Modules(
            LocalPolynomial(dim, s.num_heads, dropout, s.beta, s.self_loops) for _ in range(s.local_layers)
        )
        self.norm = LayerNorm(dim) if s.global_layers else nn.Identity()
        rate = dropout if s.global_dropout is None else s.global_dropout
        lin_out = nn.Linear(dim, dim)
        self.global_layers: Modules[GlobalPolynomial] = Modules(
            GlobalPolynomial(dim, s.num_heads, rate, s.beta, lin_out) for _ in range(s.global_layers)
        )
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        features, _, batch = self.encode(batch)
        x = self.dropout(self.lin_in(self.input_dropout(features)))
        total = torch.zeros_like(x)
        for local in self.local_layers:
            x = local(x, batch)
            total = total + x
        h: Tensor = self.norm(total)
        for layer in self.global_layers:
            h = layer(h, batch)
        return self.head(h, batch)
