"""GatedGCN with edge states (https://arxiv.org/abs/1711.07553, in the form of https://arxiv.org/abs/2003.00982)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor

from graphbench.layers.activation import activation
from graphbench.layers.contract import GraphLayer, LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.linear import Linear, joint_linear
from graphbench.layers.local.distance_gate import DistanceGate
from graphbench.layers.norm import BatchNorm
from graphbench.layers.normed import Normed, normed
from graphbench.ops.linear import linear_and_rows
from graphbench.ops.propagate import gated_mean
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


class GatedGCNCore(GraphLayer):
    """Gated mean of the neighbours, with gates from the edge states.

    Equations::

        g_st = C e_st + D h_t + E h_s
        e'   = e + drop(act(BN(g)))
        h'_t = h_t + drop(act(BN(A h_t + sum_s r_st sigmoid(g_st) * B h_s / (sum_s r_st sigmoid(g_st) + 1e-6))))

    A = ``lin_self``, B = ``lin_neighbor``, C = ``gate_edge``, D = ``gate_target``, E = ``gate_source``. r is 1, or
    with ``equivstable`` a :class:`~graphbench.layers.local.distance_gate.DistanceGate`.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states that come in; ``dim_out`` go out.
        dropout: probability of dropping an entry of the new node and edge states.
        act: activation.
        residual: add the old states, where their width is that of the new ones.
        edge_residual: add the old edge states; None: as ``residual``.
        equivstable: gate messages by the distance of ``state.stable_encoding``, e.g. of ``EquivStableLapPE``.
        update_edges: False: e' = e, and ``edge_norm`` is not used; it counts among the parameters all the same, as in
            Gradformer's released code.
        residual_again: the block around the layer drops entries and adds the old states, which are then in twice, as
            there; ``dropout`` is left to that block.

    Shape:
        h (N, dim_in), e (E, dim_edge) -> h' (N, dim_out), e' (E, dim_out), or e as it came.

    Differences from the paper: none known; the order norm, activation, dropout, residual is that of GraphGPS.
    """

    needs_edges: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int],
        dropout: FromContext[float] = 0.0,
        act: FromContext[str] = "relu",
        residual: bool = True,
        edge_residual: FromContext[bool | None] = None,
        equivstable: FromContext[bool] = False,
        update_edges: bool = True,
        residual_again: bool = False,
    ) -> None:
        super().__init__()
        self.lin_self = Linear(dim_in, dim_out)
        self.lin_neighbor = Linear(dim_in, dim_out)
        self.gate_edge = Linear(dim_edge, dim_out)
        self.gate_target = Linear(dim_in, dim_out)
        self.gate_source = Linear(dim_in, dim_out)
        self.pe_gate = DistanceGate(dim_out, act=act) if equivstable else None
        self.node_norm = BatchNorm(dim_out)
        self.edge_norm = BatchNorm(dim_out)
        self.act = activation(act)
        self.dropout = Dropout(0.0 if residual_again else dropout)
        self.node_residual = residual and dim_in == dim_out
        self.update_edges = update_edges
        self.dim_edge_out = dim_out if update_edges else None
        self.has_residual = not residual_again
        self.edge_residual = (residual if edge_residual is None else edge_residual) and dim_edge == dim_out

    def convolve(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out) and edge states, norm, activation, dropout and residual included."""
        if e is None:
            raise ValueError("CustomGatedGCN needs edge states, received none (an edge encoder supplies them)")
        adj = batch.adjacency()
        maps = (self.gate_target, self.gate_source, self.lin_neighbor, self.lin_self)
        (target, source, value, own), packed, h = joint_linear(h, maps)
        edge, e = linear_and_rows(e, self.gate_edge.weight, self.gate_edge.bias)
        gate = None if self.pe_gate is None else self.pe_gate(adj, batch)
        new, logit = gated_mean(adj, target, source, edge, value, own, gate=gate, packed=packed)
        old, old_edges = (h if self.node_residual else None), (e if self.edge_residual else None)
        around: dict[str, Any] = {"act": self.act, "dropout": self.dropout}
        outputs = [Normed(self.node_norm, new, residual=old, **around)]
        if self.update_edges:
            outputs.append(Normed(self.edge_norm, logit, "edge", residual=old_edges, **around))
        h_new, *e_new = normed(outputs, batch)
        return h_new, (e_new[0] if e_new else e)


@register("CustomGatedGCN", "GatedGCN")
class CustomGatedGCN(GatedGCNCore, LocalLayer):
    """Gated graph convolution with edge states (GatedGCN): :class:`GatedGCNCore` as a sublayer of a block.

    Shape:
        h (N, dim_in), e (E, dim_edge) -> h' (N, dim_out), e' (E, dim_out), or e as it came.
    """

    capturable: ClassVar[bool] = True
    has_residual: bool = True

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out) and edge states, residual included."""
        return self.convolve(h, e, batch)
