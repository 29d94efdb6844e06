"""GloGNN: every node aggregates from all nodes of its graph, with coefficients in closed form.

Li et al., Finding Global Homophily in Graph Neural Networks When Meeting Heterophily,
https://arxiv.org/abs/2205.07308.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_at_least, check_one_of
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.models.adjacency_rows import AdjacencyRows
from graphbench.models.contract import EncodedModel, Frame
from graphbench.models.requirements import check_per_node
from graphbench.ops.propagate import propagate
from graphbench.ops.segment import segment_repeat, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@dataclass(frozen=True)
class CoefficientSettings:
    """The coefficient matrix; every field is a key of the model.

    Attributes:
        norm_layers: rounds L of aggregation.
        orders: K, powers of A^ in the regulariser.
        alpha: weight of ||Z||^2.
        beta: weight of ||Z - sum_k lambda_k A^^k||^2.
        gamma: share of the first states in every round.
        delta: share of the features in the first states; 1: the adjacency rows are not read.
        nodes: number of nodes of the one graph whose adjacency rows are read; 0: delta is 1.
        adjacency: ``sym``: A^ = D^-1/2 (A + I) D^-1/2, and A W_A; ``row``: A^ = D^-1 (A + I), and A^ W_A.
        of_predictions: the rounds work on the predictions, as published; False: on the hidden states, which graph heads
            need.
    """

    norm_layers: int = 2
    orders: int = 1
    alpha: float = 0.0
    beta: float = 1.0
    gamma: float = 0.0
    delta: float = 1.0
    nodes: int = 0
    adjacency: Literal["sym", "row"] = "sym"
    of_predictions: bool = False


class GlobalRound(nn.Module):
    r"""One aggregation from all nodes of a graph, with the coefficients Z that explain the states best.

    H' = (1 - gamma) Z H + gamma H_0 with the Z that minimises, graph by graph,

    .. math:: \|H - (1-\gamma) Z H - \gamma H_0\|^2 + \alpha \|Z\|^2 + \beta \|Z - \sum_{k=1}^K \lambda_k \hat A^k\|^2

    Z is never built: with c = alpha + beta, a = (1 - gamma)^2 and S = H^T H of every graph,

    .. math:: Q = \tfrac{1-\gamma}{c} H (I - (\tfrac{c}{a} I + S)^{-1} S), \qquad
        H' = ((1-\gamma) H - \gamma (1-\gamma) H_0) H^\top Q + \beta \sum_k \lambda_k \hat A^k Q + \gamma H_0.

    Args:
        settings: orders, weights.

    Shape:
        H (N, c), H_0 (N, c) -> (N, c); O(N c^2).
    """

    def __init__(self, settings: CoefficientSettings) -> None:
        super().__init__()
        self.settings = settings
        self.order_weights = nn.Parameter(torch.full((settings.orders,), 1.0 / settings.orders))

    def forward(self, h: Tensor, initial: Tensor, batch: GraphBatch) -> Tensor:
        """H'."""
        s = self.settings
        ragged, weight, keep = batch.ragged, s.alpha + s.beta, 1.0 - s.gamma
        gram = segment_sum(h.unsqueeze(2) * h.unsqueeze(1), ragged)
        ridge = weight / keep**2 * torch.eye(h.shape[1], dtype=h.dtype, device=h.device)
        # solve() waits for the device, to ask whether it could: a ridge is there, so that it could.
        solved = torch.linalg.solve_ex(ridge + gram, gram).result
        q = keep / weight * (h - _by_graph(h, solved, batch))
        mixed = keep / weight * (gram - gram @ solved)  # H^T Q
        neighbours, step = torch.zeros_like(q), q
        adjacency = batch.adjacency(norm=s.adjacency, self_loops=True)
        for order_weight in self.order_weights:
            step = propagate(adjacency, step)
            neighbours = neighbours + order_weight * step
        return keep * _by_graph(h - s.gamma * initial, mixed, batch) + s.beta * neighbours + s.gamma * initial


@register("GloGNN")
class GloGNN(EncodedModel):
    """Global aggregation by a coefficient matrix: an MLP, then rounds of :class:`GlobalRound` on its predictions.

    Equations::

        H_0 = MLP(relu(delta W_X X + (1 - delta) A W_A)),   H_l = GlobalRound(H_{l-1}, H_0),   y = H_L

    Args:
        frame: encoder, widths, factory of the head, which is the rest of the MLP (``gnn.layers_post_mp``).
        dropout: dropout of the hidden layer (``gnn.dropout``).
        coefficients: keys of their own, see :class:`CoefficientSettings`.

    Shape:
        batch -> prediction of the head, (N, out_dim) with ``of_predictions``

    Differences from the paper: S is of every graph by itself; published for one graph. The released code for small
    graphs has ``adjacency: row``, as its scripts run it (``orders_func_id`` 2). All rounds share the weights of the
    powers, as there.
    """

    capturable: ClassVar[bool | Literal["one batch"]] = "one batch"

    def __init__(
        self,
        frame: Frame,
        *,
        dropout: FromContext[float] = 0.0,
        coefficients: CoefficientSettings = CoefficientSettings(),
    ) -> None:
        super().__init__(frame.encoder)
        dim = frame.dim
        s = coefficients
        check_at_least(0, nodes=s.nodes, norm_layers=s.norm_layers)
        check_at_least(1, orders=s.orders)
        if s.alpha < 0 or s.beta < 0 or s.alpha + s.beta <= 0:
            raise ArgumentError(("alpha", "beta"), f"alpha + beta must be positive, received {s.alpha} and {s.beta}")
        if not (0 <= s.gamma < 1 and 0 <= s.delta <= 1):
            raise ArgumentError(
                ("gamma", "delta"), f"gamma must lie in [0, 1) and delta in [0, 1], received {s.gamma} and {s.delta}"
            )
        if s.delta < 1 and not s.nodes:
            raise ArgumentError(("delta", "nodes"), f"delta = {s.delta} reads adjacency rows: set nodes, received 0")
        check_one_of(("sym", "row"), adjacency=s.adjacency)
        self.settings = s
        self.lin = InputLinear(frame.dim_encoded, dim) if s.delta > 0 else None
        self.rows = AdjacencyRows(s.nodes, dim, row_normalised=s.adjacency == "row") if s.delta < 1 else None
        self.dropout = Dropout(dropout)
        self.rounds = GlobalRound(s)
        self.head = frame.head(dim)

    def forward(self, batch: GraphBatch) -> Tensor:
        """H_L."""
        x, _, batch = self.encode(batch)
        terms = [] if self.lin is None else [self.settings.delta * self.lin(x)]
        if self.rows is not None:
            terms.append((1 - self.settings.delta) * self.rows(batch))
        h: Tensor = self.dropout(sum(terms[1:], terms[0]).relu())
        if not self.settings.of_predictions:
            return self.head(self._rounds(h, batch), batch)
        prediction = self.head(h, batch)
        check_per_node(prediction, batch, "of_predictions")
        return self._rounds(prediction, batch)

    def _rounds(self, initial: Tensor, batch: GraphBatch) -> Tensor:
        h = initial
        for _ in range(self.settings.norm_layers):
            h = self.rounds(h, initial, batch)
        return h


def _by_graph(rows: Tensor, matrices: Tensor, batch: GraphBatch) -> Tensor:
    """(N, c): every row times the matrix (c, c) of its graph."""
    if batch.num_graphs == 1:
        return rows @ matrices[0]
    return torch.einsum("nc,ncd->nd", rows, segment_repeat(matrices, batch.ragged))
