"""Graph-Mamba: a selective state space model over the nodes in the order of their degrees.

Wang et al., Graph-Mamba: Towards Long-Range Graph Sequence Modeling with Selective State Spaces,
https://arxiv.org/abs/2402.00789; the block is Mamba's, https://arxiv.org/abs/2312.00752.
"""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from graphbench.errors import check_at_least
from graphbench.layers.contract import GlobalAttention
from graphbench.ops.selective_scan import selective_scan
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, Ragged


class Mamba(nn.Module):
    """Mamba's block on the rows of every graph, in the order they are given.

    Equations, * a causal convolution of every channel along the rows::

        [x | z] = W_in h,   x <- silu(x * w + b),   [r | B | C] = W_x x,   delta = softplus(W_d r + b_d)
        y = selective_scan(x, delta, -exp(A), B, C, D),   out = W_out (y silu(z))

    Args:
        dim: channels.
        states: S, states per channel.
        kernel: rows that the convolution reads.
        expansion: inner width as a multiple of ``dim``; r has ``dim`` / 16 channels, rounded up.

    Shape:
        h (N, dim) -> (N, dim)
    """

    def __init__(self, dim: int, *, states: int = 16, kernel: int = 4, expansion: int = 1) -> None:
        super().__init__()
        check_at_least(1, states=states, kernel=kernel, expansion=expansion)
        inner, self.states, self.rank = expansion * dim, states, math.ceil(dim / 16)
        self.lin_in = nn.Linear(dim, 2 * inner, bias=False)
        self.kernel = nn.Parameter(torch.empty(inner, kernel).uniform_(-(kernel**-0.5), kernel**-0.5))
        self.bias = nn.Parameter(torch.empty(inner).uniform_(-(kernel**-0.5), kernel**-0.5))
        self.lin_x = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.lin_delta = nn.Linear(self.rank, inner)
        self.log_rate = nn.Parameter(torch.arange(1, states + 1, dtype=torch.float32).log().repeat(inner, 1))
        self.skip = nn.Parameter(torch.ones(inner))
        self.lin_out = nn.Linear(inner, dim, bias=False)
        nn.init.uniform_(self.lin_delta.weight, -(self.rank**-0.5), self.rank**-0.5)
        with torch.no_grad():  # steps between 0.001 and 0.1
            step = torch.exp(torch.rand(inner) * math.log(100.0) + math.log(0.001))
            self.lin_delta.bias.copy_(step + torch.log(-torch.expm1(-step)))

    def forward(self, h: Tensor, ragged: Ragged) -> Tensor:
        """(N, dim)."""
        x, z = self.lin_in(h).chunk(2, dim=1)
        x = silu(self._convolved(x, ragged))
        low, b, c = self.lin_x(x).split([self.rank, self.states, self.states], dim=1)
        delta = softplus(self.lin_delta(low))
        y = selective_scan(x, delta, -self.log_rate.exp(), b, c, self.skip, ragged)
        return self.lin_out(y * silu(z))

    def _convolved(self, x: Tensor, ragged: Ragged) -> Tensor:
        """Every row and those before it in its graph, weighted channel by channel."""
        place = ragged.derived(_places)
        total = x * self.kernel[:, -1] + self.bias
        for back in range(1, self.kernel.shape[1]):
            total = total + x.roll(back, 0) * (place >= back) * self.kernel[:, -1 - back]
        return total


@register("GraphMamba", "Mamba_Hybrid_Degree", "Mamba_Hybrid_Degree_Noise")
class GraphMamba(GlobalAttention):
    """State-space layer over nodes sorted by degree (:class:`Mamba`): a node sees those of lower degree.

    Nodes of equal degree are in random order in every training step, and in the order of their numbers in evaluation.

    Args:
        dim: channels.
        states: S, states per channel.
        kernel: rows that the convolution reads.
        expansion: inner width as a multiple of ``dim``.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the paper: in evaluation the released code averages over five random orders, so that two
    evaluations differ; here there is one order, which depends on the numbers of nodes. Degrees count leaving edges, as
    there. Its further orders (eigenvector centrality, clusters, random buckets) are not here.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False
    permutation_equivariant: ClassVar[bool] = False

    def __init__(self, dim: FromContext[int], *, states: int = 16, kernel: int = 4, expansion: int = 1) -> None:
        super().__init__()
        self.mamba = Mamba(dim, states=states, kernel=kernel, expansion=expansion)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        order = _random_order(batch) if self.training else batch.derived(_order)
        new = self.mamba(h.index_select(0, order), batch.ragged)
        return torch.empty_like(new).index_copy(0, order, new)


def _places(ragged: Ragged) -> Tensor:
    """(N, 1) position of every row in its graph."""
    rows = torch.arange(ragged.num_rows, device=ragged.device)
    return (rows - ragged.ptr.index_select(0, ragged.graph_id)).unsqueeze(1)


def _degree(batch: GraphBatch) -> Tensor:
    leaving = batch.edge_index[0]
    degree = torch.zeros(batch.num_nodes, device=batch.device)
    return degree.index_add_(0, leaving, torch.ones_like(leaving, dtype=degree.dtype))


def _order(batch: GraphBatch) -> Tensor:
    """(N,) nodes of every graph by degree, those of equal degree in their order."""
    return _sorted(batch.derived(_degree), batch)


def _random_order(batch: GraphBatch) -> Tensor:
    """(N,) the same with nodes of equal degree in random order."""
    degree = batch.derived(_degree)
    return _sorted(degree + torch.rand_like(degree), batch)


def _sorted(key: Tensor, batch: GraphBatch) -> Tensor:
    by_key = key.argsort(stable=True)
    return by_key.index_select(0, batch.ragged.graph_id.index_select(0, by_key).argsort(stable=True))
