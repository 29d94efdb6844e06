"""GatedGCN-LSPE: positions that are learned beside node states, layer by layer (https://arxiv.org/abs/2110.07875)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from graphbench.contract import HasAuxiliaryLoss
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.dropout import Dropout
from graphbench.layers.linear import Linear
from graphbench.layers.module_list import Modules
from graphbench.layers.norm import BatchNorm
from graphbench.models.contract import EdgeFrame, EncodedModel
from graphbench.models.requirements import check_same_width
from graphbench.ops.propagate import gated_mean, propagate
from graphbench.ops.segment import segment_mean, segment_repeat, segment_sum
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, as_dense

_EPS = 1e-6


@dataclass(frozen=True)
class PositionSettings:
    """First and last positions, and their loss; every field is a key of the model.

    Attributes:
        positions: K, steps of the random walks at first, and columns of the positions that are read at last.
        unit_positions: columns of the last positions are centred and of length 1 within every graph.
        laplacian_loss: alpha, weight of the loss that makes them eigenvectors of the Laplacian; 0: none.
        orthogonality: lambda in it.
    """

    positions: int = 20
    unit_positions: bool = True
    laplacian_loss: float = 0.0
    orthogonality: float = 0.1

    def check(self) -> None:
        """Refuses what no model can have.

        Raises:
            ArgumentError: no columns, negative weights, or a loss of positions that have no unit length.
        """
        check_at_least(1, positions=self.positions)
        check_at_least(0, laplacian_loss=self.laplacian_loss, orthogonality=self.orthogonality)
        if self.laplacian_loss and not self.unit_positions:
            raise ArgumentError(
                ("laplacian_loss", "unit_positions"), "laplacian_loss needs unit_positions, received none of them"
            )


class LSPELayer(nn.Module):
    """Gated means of node states and of positions, under the same gates.

    Equations, n nodes of the graph, s over the sources of edges into t::

        g_st = B_1 h_s + B_2 h_t + B_3 e_st,   w_st = sigmoid(g_st) / (sum_s sigmoid(g_st) + 1e-6)
        h'_t = drop(h_t + relu(BN((A_1 [h_t | p_t] + sum_s w_st * A_2 [h_s | p_s]) / sqrt(n))))
        p'_t = drop(p_t + tanh(C_1 p_t + sum_s w_st * C_2 p_s))
        e'_st = drop(e_st + relu(BN(g_st)))

    Args:
        dim: channels of all three.
        dropout: probability.
        last: nothing reads e' any more, and it is not computed.

    Shape:
        h (N, dim), p (N, dim), e (E, dim) -> the same
    """

    def __init__(self, dim: int, dropout: float, *, last: bool) -> None:
        super().__init__()
        self.lin_self, self.lin_neighbor = Linear(2 * dim, dim), Linear(2 * dim, dim)
        self.gate_source, self.gate_target, self.gate_edge = (Linear(dim, dim) for _ in range(3))
        self.position_self, self.position_neighbor = Linear(dim, dim), Linear(dim, dim)
        self.node_norm = BatchNorm(dim)
        self.edge_norm = None if last else BatchNorm(dim)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, p: Tensor, e: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor, Tensor]:
        """New node states, positions and edge states."""
        adj, both = batch.adjacency(), torch.cat([h, p], dim=1)
        gates = self.gate_target(h), self.gate_source(h), self.gate_edge(e)
        new, logit = gated_mean(adj, *gates, self.lin_neighbor(both), self.lin_self(both))
        moved, _ = gated_mean(adj, *gates, self.position_neighbor(p), self.position_self(p))
        size = batch.ragged.size_tensor.index_select(0, batch.ragged.graph_id)
        new = self.node_norm(new * size.to(new.dtype).rsqrt().unsqueeze(1), batch)
        h, p = self.dropout(h + new.relu()), self.dropout(p + moved.tanh())
        if self.edge_norm is not None:
            e = self.dropout(e + self.edge_norm(logit, batch, "edge").relu())
        return h, p, e


@register("GatedGCNLSPE")
class GatedGCNLSPE(EncodedModel, HasAuxiliaryLoss):
    r"""Learnable structural and positional encodings: layers that update node states and positions side by side.

    Equations, r_i the probabilities that a random walk from i is back after 1 .. K steps, layers :class:`LSPELayer`::

        h_0, e_0 = encoders(batch),   p_0 = W r + b
        (h, p, e) <- layer_l(h, p, e),   l = 1 .. layers
        q = W_p p [centred, and columns of length 1, within every graph],   y = head(W_q [h | q] + b_q)

    With ``laplacian_loss`` alpha, G graphs and N nodes in a batch, L = I - D^-1/2 A D^-1/2 of each, training adds::

        alpha / (K G N) * sum over graphs of (tr(q^T L q) + lambda |q^T q - I|^2)

    Args:
        frame: encoders, widths, factory of the head. Without edge encoder all edges begin with the same learned row.
        layers: number of them (``gnn.layers_mp``).
        dropout: probability (``gnn.dropout``).
        positions: keys of their own, see :class:`PositionSettings`.

    Shape:
        batch -> prediction of the head

    Differences from the paper: of its networks GatedGCN is here. As in its code positions begin with random walks, and
    states are divided by sqrt(n). Differences from the released code: lambda's term of the loss has a gradient, there
    it is a constant; squared lengths get 1e-6 more, there on ogbg-molpcba only. The bias of W_p, which centring takes
    away, and the last norm of the edges, which nothing reads, are not here. ogbg-molpcba is trained and evaluated there
    without its graphs of up to five nodes.
    """

    capturable: ClassVar[bool] = True
    layers_from = "gnn"

    def __init__(
        self,
        frame: EdgeFrame,
        layers: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        positions: PositionSettings = PositionSettings(),
    ) -> None:
        super().__init__(frame.encoder, frame.edge_encoder, keep_sparse=False)
        dim, dim_edge = frame.dim, frame.dim_edge
        positions.check()
        check_at_least(1, layers=layers)
        check_same_width(frame.dim_encoded, dim, "layers add encoded nodes to hidden states")
        if frame.edge_encoder is not None and dim_edge != dim:
            raise ArgumentError(("dim_edge", "dim"), f"edge states are {dim} columns wide, received {dim_edge}")
        self.settings = positions
        self.first_edge = nn.Parameter(torch.randn(1, dim)) if frame.edge_encoder is None else None
        self.position_in = nn.Linear(positions.positions, dim)
        self.layers: Modules[LSPELayer] = Modules(
            LSPELayer(dim, dropout, last=number == layers) for number in range(1, layers + 1)
        )
        self.position_out = nn.Linear(dim, positions.positions, bias=not positions.unit_positions)
        self.join = nn.Linear(dim + positions.positions, dim)
        self.head = frame.head(dim)

    @classmethod
    def required_transforms(cls, arguments: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Random walks of 1 .. K steps."""
        return {"RandomWalkSE": {"times": list(range(1, arguments["positions"] + 1))}}

    def capture_obstacle(self, one_batch: bool = False) -> str | None:
        """The loss is a mean over all rows of a batch."""
        if self.settings.laplacian_loss and not one_batch:
            return "GatedGCNLSPE.laplacian_loss is computed over all graphs of a batch"
        return super().capture_obstacle(one_batch)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Prediction of the head."""
        h, e, batch = self.encode(batch)
        h, p = as_dense(h), self.position_in(self._landing(batch).to(self.position_in.weight.dtype))
        if e is None:
            assert self.first_edge is not None
            e = self.first_edge.expand(batch.num_edges, -1)
        for layer in self.layers:
            h, p, e = layer(h, p, e, batch)
        q = self.position_out(p)
        if self.settings.unit_positions:
            q = _unit_columns(q, batch)
        alpha = self.settings.laplacian_loss
        self.auxiliary_loss = alpha * self._loss(q, batch) if alpha and self.training else None
        return self.head(self.join(torch.cat([h, q], dim=1)), batch)

    def _landing(self, batch: GraphBatch) -> Tensor:
        """(N, K)."""
        landing, columns = batch.pe.get("RandomWalkSE.landing"), self.settings.positions
        if landing is None or landing.shape[1] != columns:
            received = "none" if landing is None else landing.shape[1]
            raise ValueError(f"GatedGCNLSPE reads random walks of {columns} lengths, received {received}")
        return landing

    def _loss(self, q: Tensor, batch: GraphBatch) -> Tensor:
        """() of the positions, before alpha."""
        smooth = (q * (q - propagate(batch.adjacency(norm="sym"), q))).sum()
        products = segment_sum((q.unsqueeze(2) * q.unsqueeze(1)).flatten(1), batch.ragged)
        unit = torch.eye(q.shape[1], dtype=q.dtype, device=q.device).flatten()
        loss = smooth + self.settings.orthogonality * (products - unit).square().sum()
        return loss / max(1, q.shape[1] * batch.num_graphs * batch.num_nodes)


def _unit_columns(q: Tensor, batch: GraphBatch) -> Tensor:
    """(N, K) with mean 0 and length 1 of every column within every graph."""
    q = q - segment_repeat(segment_mean(q, batch.ragged), batch.ragged)
    length = (segment_sum(q.square(), batch.ragged) + _EPS).sqrt()
    return q / segment_repeat(length, batch.ragged)
