"""Graph attention over edges (https://arxiv.org/abs/1710.10903)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu

from graphbench.errors import check_multiple
from graphbench.layers.contract import LocalLayer
from graphbench.layers.dropout import Dropout
from graphbench.layers.input_linear import InputLinear
from graphbench.ops.propagate import edge_softmax, gather, sum_at_target
from graphbench.registry import FromContext, register
from graphbench.structures import Features, GraphBatch
from graphbench.structures.adjacency import Adjacency, adjacency


@register("GAT")
class GAT(LocalLayer):
    """Graph attention: neighbours averaged with learned weights, per head.

    Equation::

        h'_t = b + sum_s a_st W h_s,   a_st = softmax over s of leaky(u_s . W h_s + u_t . W h_t + u_e . W_e e_st)

    s runs over the sources of edges into t and t itself; the self loop's edge feature is the mean of the arriving
    ones. Loops among the edges are replaced by it.

    Args:
        dim_in: channels of the input.
        dim_out: channels of the output, all heads together.
        heads: number of heads; divides ``dim_out``.
        dim_edge: channels of the edge states; 0 leaves the edge term out. Else its parameters count, and get no
            gradient where no edge states come.
        negative_slope: slope of the leaky relu.
        bias: add b.
        attention_dropout: dropout of the a_st.

    Shape:
        h (N, dim_in), e (E, dim_edge) or None -> h' (N, dim_out), e. Without e the edge term is 0.

    Differences from the paper: edge term as in PyG's ``GATConv``.
    """

    capturable: ClassVar[bool] = True
    reads_sparse: ClassVar[bool] = True

    def __init__(
        self,
        dim_in: FromContext[int],
        dim_out: FromContext[int],
        *,
        heads: FromContext[int] = 1,
        dim_edge: FromContext[int] = 0,
        negative_slope: float = 0.2,
        bias: bool = True,
        attention_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_multiple(dim_out=dim_out, heads=heads)
        self.heads = heads
        self.negative_slope = negative_slope
        self.lin = InputLinear(dim_in, dim_out, bias=False)
        self.lin_edge = nn.Linear(dim_edge, dim_out, bias=False) if dim_edge else None
        self.att_source = nn.Parameter(torch.empty(1, heads, dim_out // heads))
        self.att_target = nn.Parameter(torch.empty(1, heads, dim_out // heads))
        self.att_edge = nn.Parameter(torch.empty(1, heads, dim_out // heads)) if dim_edge else None
        self.bias = nn.Parameter(torch.zeros(dim_out)) if bias else None
        self.dropout = Dropout(attention_dropout)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform maps and attention vectors, as in PyG."""
        for weight in (self.lin.weight, self.att_source, self.att_target):
            _glorot(weight)
        if self.lin_edge is not None and self.att_edge is not None:
            _glorot(self.lin_edge.weight)
            _glorot(self.att_edge)

    def forward(self, h: Features, e: Tensor | None, batch: GraphBatch) -> tuple[Tensor, Tensor | None]:
        """New node states (N, dim_out), without residual, norm and activation; edge states as they came."""
        edges = batch.derived(_edges)
        x = self.lin(h).view(-1, *self.att_source.shape[1:])
        logit = gather(edges.loops, (x * self.att_source).sum(2), "source")
        logit = logit + gather(edges.loops, (x * self.att_target).sum(2), "target")
        if e is not None and self.lin_edge is not None and self.att_edge is not None:
            logit = logit + _edge_logit(self.lin_edge(e), self.att_edge, edges)
        logit = leaky_relu(logit, self.negative_slope).masked_fill(edges.replaced, -torch.inf)
        weight = self.dropout(edge_softmax(edges.loops, logit))
        message = weight.unsqueeze(2) * gather(edges.loops, x, "source")
        new = sum_at_target(edges.loops, message).flatten(1)
        if self.bias is not None:
            new = new + self.bias
        return new, e

    def extra_repr(self) -> str:
        """Heads, in ``print(model)``."""
        return f"heads={self.heads}"


class Edges:
    """Edges of a batch with exactly one self loop per node.

    Attributes:
        plain: the edges as given.
        loops: the edges followed by one self loop per node.
        replaced: (E + N, 1) True for given loops, which take no part.
        in_degree: (N, 1) edges into a node, given loops left out, at least 1.
    """

    def __init__(self, batch: GraphBatch) -> None:
        self.plain: Adjacency = adjacency(batch.edge_index, batch.num_nodes)
        self.loops: Adjacency = adjacency(batch.edge_index, batch.num_nodes, self_loops=True)
        source, target = batch.edge_index
        added = target.new_zeros(batch.num_nodes, dtype=torch.bool)
        self.replaced = torch.cat([source == target, added]).unsqueeze(1)
        count = target.new_zeros(batch.num_nodes).scatter_add_(0, target, (source != target).long())
        self.in_degree = count.clamp_(min=1).unsqueeze(1)


def _edges(batch: GraphBatch) -> Edges:
    return Edges(batch)


def _edge_logit(mapped: Tensor, attention: Tensor, edges: Edges) -> Tensor:
    """(E + N, heads) edge term u_e . W_e e_st of the logits, from mapped features (E, dim_out).

    W_e is linear, so that the mean over the edges into a node may be taken after it, of one number per head.
    """
    logit = (mapped.view(-1, *attention.shape[1:]) * attention).sum(2)
    logit = logit.masked_fill(edges.replaced[: mapped.shape[0]], 0.0)
    return torch.cat([logit, sum_at_target(edges.plain, logit) / edges.in_degree])


def _glorot(weight: Tensor) -> None:
    """Uniform with the fans taken from the last two dimensions (torch's version counts all of them)."""
    bound = (6.0 / (weight.shape[-2] + weight.shape[-1])) ** 0.5
    nn.init.uniform_(weight, -bound, bound)
