"""Graph isomorphism networks, without (https://arxiv.org/abs/1810.00826) and with edge states (1905.12265)."""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from graphbench.errors import check_one_of
from graphbench.layers.activation import activation
from graphbench.layers.contract import LocalLayer
from graphbench.layers.linear import Linear, activated_linear
from graphbench.layers.local.distance_gate import DistanceGate
from graphbench.layers.norm import BatchNorm, NormedSequential
from graphbench.ops.propagate import gather, propagate, relu_sum, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch


@register("GIN")
class GIN(LocalLayer):
    """Graph isomorphism layer: an MLP of the sum of a node and its neighbours.

    ``h'_t = MLP((1 + eps) h_t + sum over neighbours s of h_s)``, MLP = linear, act, linear.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output and inside the MLP.
        act: activation of the MLP.
        eps: weight of the node itself, minus one.
        train_eps: learn ``eps``.

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read.

    Differences from the paper: the MLP has no batch normalisation inside (as in GraphGPS).
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        act: FromContext[str] = "relu",
        eps: float = 0.0,
        train_eps: bool = False,
    ) -> None:
        super().__init__()
        self.mlp = NormedSequential(Linear(dim_in, dim_out), activation(act), Linear(dim_out, dim_out))
        start = torch.full((1,), float(eps))
        if train_eps:
            self.eps = nn.Parameter(start)
        else:
            self.register_buffer("eps", start)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual and norm; edge states as they came."""
        neighbours = propagate(batch.adjacency(), h)
        return self.mlp(torch.addcmul(neighbours, h, 1 + self.eps), batch), e


@register("GINE")
class GINE(GIN):
    """GIN with edge features (https://arxiv.org/abs/1905.12265).

    Equation: ``h'_t = MLP((1 + eps) h_t + sum over edges s -> t of r_st relu(h_s + e_st))``.
    MLP = linear, act, linear. r is 1, or with ``equivstable`` a
    :class:`~graphbench.layers.local.distance_gate.DistanceGate`.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output and inside the MLP.
        dim_edge: channels of the edge states; another number than ``dim_in`` adds a linear map.
        act: activation of the MLP; the message keeps relu.
        eps: weight of the node itself, minus one.
        train_eps: learn ``eps``.
        mlp: ``"two_maps"`` as above; ``"norm_and_map"``: BatchNorm and one linear map, as in the re-tuned baselines
            of https://arxiv.org/abs/2309.00367.
        equivstable: gate messages by the distance of ``state.stable_encoding``, e.g. of ``EquivStableLapPE``.

    Shape:
        h (N, dim_in), e (E, dim_edge) -> h' (N, dim_out), e.

    Differences from the paper: the MLP has no batch normalisation between its maps (as in GraphGPS). GraphGPS has an
    ``equivstable`` variant with these parameters, whose constructor raises an error and whose sum adds the state of
    node 1 in place of the node's own; here every node adds its own.
    """

    capturable: ClassVar[bool] = True
    needs_edges: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int],
        act: FromContext[str] = "relu",
        eps: float = 0.0,
        train_eps: bool = False,
        mlp: FromContext[Literal["two_maps", "norm_and_map"]] = "two_maps",
        equivstable: FromContext[bool] = False,
    ) -> None:
        super().__init__(dim_in, dim_out, act=act, eps=eps, train_eps=train_eps)
        check_one_of(("two_maps", "norm_and_map"), mlp=mlp)
        if mlp == "norm_and_map":
            self.mlp = NormedSequential(BatchNorm(dim_in), Linear(dim_in, dim_out))
        self.edge_lin = Linear(dim_edge, dim_in) if dim_edge != dim_in else None
        # With relu whatever `act` says, as in GraphGPS; the message has a fixed relu too.
        self.pe_gate = DistanceGate(dim_out) if equivstable else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual and norm; edge states as they came."""
        if e is None:
            raise ValueError("GINE needs edge states, received none (use GIN, or an edge encoder)")
        message = e if self.edge_lin is None else self.edge_lin(e)
        adj = batch.adjacency()
        if self.pe_gate is None:
            summed, message = relu_sum(adj, h, message, eps=self.eps)
            return self._mapped(summed, batch), message if self.edge_lin is None else e
        neighbours = sum_at_target(adj, (gather(adj, h, "source") + message).relu() * self.pe_gate(adj, batch))
        return self._mapped(torch.addcmul(neighbours, h, 1 + self.eps), batch), e

    def _mapped(self, h: Tensor, batch: GraphBatch) -> Tensor:
        first, *others = self.mlp
        if isinstance(first, nn.Linear):
            act, *others = others
            h, _ = activated_linear(h, first, act)
        else:
            h = first(h, batch) if isinstance(first, BatchNorm) else first(h)
        for layer in others:
            h = layer(h)
        return h
