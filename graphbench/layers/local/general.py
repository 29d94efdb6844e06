"""The two convolutions of GraphGym's own design space (https://arxiv.org/abs/2011.08843)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import ArgumentError, check_one_of
from graphbench.layers.contract import LocalLayer
from graphbench.ops.propagate import gather, max_at_target, mean_at_target, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch
from graphbench.structures.adjacency import Adjacency

AGGREGATIONS: dict[str, Callable[[Adjacency, Tensor], Tensor]] = {
    "add": sum_at_target,
    "sum": sum_at_target,
    "mean": mean_at_target,
    "max": max_at_target,
}
SELF_MESSAGES = ("none", "add", "concat")


class _General(LocalLayer):
    """Common base of the two convolutions: checks of the arguments, edge weights, aggregation."""

    def __init__(self, dim_out: int, *, batchnorm: bool, agg: str, normalize_adj: bool, self_msg: str) -> None:
        super().__init__()
        check_one_of(AGGREGATIONS, agg=agg)
        check_one_of(SELF_MESSAGES, self_msg=self_msg)
        if normalize_adj and agg not in ("add", "sum"):
            raise ArgumentError(
                ("normalize_adj", "agg"),
                f"normalize_adj weighs the terms of a sum: set agg to add, received agg={agg!r}",
            )
        self.agg = agg
        self.normalize_adj = normalize_adj
        self.self_msg = self_msg
        self.bias = None if batchnorm else nn.Parameter(torch.zeros(dim_out))

    def adjacency(self, batch: GraphBatch) -> Adjacency:
        """The edges, with self loops and weights where they are normalised."""
        if self.normalize_adj:
            return batch.adjacency(norm="sym", self_loops=True)
        return batch.adjacency()

    def aggregate(self, adj: Adjacency, messages: Tensor) -> Tensor:
        """(N, dim_out) from (E, dim_out), bias included."""
        if adj.weight is not None:
            messages = messages * adj.weight.to(messages.dtype).unsqueeze(1)
        new = AGGREGATIONS[self.agg](adj, messages)
        return new if self.bias is None else new + self.bias

    def extra_repr(self) -> str:
        """The design choices, in ``print(model)``."""
        return f"agg={self.agg}, normalize_adj={self.normalize_adj}, self_msg={self.self_msg}"


@register("generalconv")
class GeneralConv(_General):
    """GraphGym's general convolution: linear messages with a choice of aggregation and of self map.

    ``h'_t = AGG over edges s -> t of W h_s + b, + W_self h_t``.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        batchnorm: a BatchNorm follows (``gnn.batchnorm``), and there is no b.
        agg: ``add`` (or ``sum``), ``mean`` or ``max`` (``gnn.agg``).
        normalize_adj: symmetric normalisation with self loops (``gnn.normalize_adj``), for ``add`` only.
        self_msg: term of the node itself: ``concat`` as above, ``add`` (W h_t), ``none`` (``gnn.self_msg``).

    Shape:
        h (N, dim_in), e -> h' (N, dim_out), e; edge states are not read.

    Differences from the released code: degrees of a directed graph are counted at the receiving end.
    """

    capturable: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        batchnorm: FromContext[bool] = True,
        agg: FromContext[str] = "add",
        normalize_adj: FromContext[bool] = False,
        self_msg: FromContext[str] = "concat",
    ) -> None:
        super().__init__(dim_out, batchnorm=batchnorm, agg=agg, normalize_adj=normalize_adj, self_msg=self_msg)
        self.lin = nn.Linear(dim_in, dim_out, bias=False)
        self.lin_self = nn.Linear(dim_in, dim_out, bias=False) if self_msg == "concat" else None
        for linear in (self.lin, self.lin_self):
            if linear is not None:
                nn.init.xavier_uniform_(linear.weight)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        adj = self.adjacency(batch)
        x = self.lin(h)
        new = self.aggregate(adj, gather(adj, x, "source"))
        if self.lin_self is not None:
            new = new + self.lin_self(h)
        if self.self_msg == "add":
            new = new + x
        return new, e


@register("generaledgeconv")
class GeneralEdgeConv(_General):
    """GraphGym's general convolution with edge features in the messages.

    ``h'_t = AGG over edges s -> t of W [h_s | e_st] + b, + W_self h_t``.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output.
        dim_edge: channels of the edge states.
        batchnorm: a BatchNorm follows (``gnn.batchnorm``), and there is no b.
        agg: ``add`` (or ``sum``), ``mean`` or ``max`` (``gnn.agg``).
        self_msg: term of the node itself: ``concat`` as above, ``add`` (h_t), ``none`` (``gnn.self_msg``).
        msg_direction: ``single`` as above; ``both``: W [h_t | h_s | e_st] (``gnn.msg_direction``).

    Shape:
        h (N, dim_in), e (E, dim_edge) -> h' (N, dim_out), e.

    Differences from the released code: ``normalize_adj`` fails there, because added self loops have no edge state, and
    is no argument here. ``dim_edge`` is the width of the edge states, not ``dataset.edge_dim``.
    """

    capturable: ClassVar[bool] = True
    needs_edges: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        dim_edge: FromContext[int],
        batchnorm: FromContext[bool] = True,
        agg: FromContext[str] = "add",
        self_msg: FromContext[str] = "concat",
        msg_direction: FromContext[str] = "single",
    ) -> None:
        super().__init__(dim_out, batchnorm=batchnorm, agg=agg, normalize_adj=False, self_msg=self_msg)
        check_one_of(("single", "both"), msg_direction=msg_direction)
        if self_msg == "add" and dim_in != dim_out:
            raise ArgumentError(
                ("self_msg", "dim_in", "dim_out"),
                f"self_msg add needs equal widths, received dim_in={dim_in} and dim_out={dim_out}",
            )
        self.lin_source = nn.Linear(dim_in, dim_out, bias=False)
        self.lin_edge = nn.Linear(dim_edge, dim_out, bias=False)
        self.lin_target = nn.Linear(dim_in, dim_out, bias=False) if msg_direction == "both" else None
        self.lin_self = nn.Linear(dim_in, dim_out, bias=False) if self_msg == "concat" else None

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        if e is None:
            raise ValueError("generaledgeconv needs edge states, received none (an edge encoder supplies them)")
        adj = self.adjacency(batch)
        message = gather(adj, self.lin_source(h), "source") + self.lin_edge(e)
        if self.lin_target is not None:
            message = message + gather(adj, self.lin_target(h), "target")
        new = self.aggregate(adj, message)
        if self.lin_self is not None:
            new = new + self.lin_self(h)
        if self.self_msg == "add":
            new = new + h
        return new, e
