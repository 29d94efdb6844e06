"""Hyena over the whole graph: the baseline that GECO started from (https://arxiv.org/abs/2302.10866)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from graphbench.errors import check_at_least
from graphbench.layers.attention.geco.implicit_filter import ImplicitFilter, decay_rates, decay_window, positions_of
from graphbench.layers.attention.geco.sequence_conv import SequenceConv
from graphbench.layers.contract import GlobalAttention
from graphbench.layers.dropout import Dropout
from graphbench.ops.circular_conv import circular_conv
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, Ragged


@register("Hyena")
class Hyena(GlobalAttention):
    """Gated causal convolutions along the order in which nodes are stored.

    Equations, K the ``order``, t the position of a node in its graph::

        X_0, .., X_(K-1), V = short(X W_in + b),    short: causal convolution of length 3, per channel
        V <- conv(F_i, V * X_i) + bias_i * V * X_i,  i = K - 1 .. 1
        out = W_out (V * X_0)

        conv(f, v)_t = sum over j <= t of f_(t-j) v_j,    F = window(t) * MLP(z), see ``implicit_filter``

    Args:
        dim: channels of input and output.
        dropout: probability of dropping an entry of the input of a convolution.
        order: K, at least 2; K - 1 convolutions.
        emb_dim: columns of the filters' positional embedding, odd and at least 3.
        filter_width: hidden channels of the filters' network.
        inner_layers: hidden layers of the filters' network after the first.
        omega: first value of the sine frequencies of the filters' network.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the released code (HazyResearch/safari): a filter is as long as the graph, which GECO's Table 5
    asks for; it begins and ends with its graph, whatever else is in the batch. Positional embedding and decay are
    fixed (there the former has a learning rate of 1e-5).
    """

    permutation_equivariant: ClassVar[bool] = False
    reads_edge_states: ClassVar[bool] = False

    def __init__(
        self,
        dim: FromContext[int],
        *,
        dropout: FromContext[float] = 0.0,
        order: int = 2,
        emb_dim: int = 5,
        filter_width: int = 64,
        inner_layers: int = 2,
        omega: float = 1.0,
    ) -> None:
        super().__init__()
        check_at_least(2, order=order)
        self.order = order
        channels = (order - 1) * dim
        self.in_proj = nn.Linear(dim, (order + 1) * dim)
        self.short_conv = SequenceConv((order + 1) * dim, 3, causal=True)
        self.filter = ImplicitFilter(
            channels, emb_dim=emb_dim, width=filter_width, inner_layers=inner_layers, omega=omega
        )
        self.rates: Tensor
        self.register_buffer("rates", decay_rates(channels).to(torch.get_default_dtype()), persistent=False)
        self.skip_bias = nn.Parameter(torch.randn(channels))
        self.out_proj = nn.Linear(dim, dim)
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual and norm."""
        # The released code numbers the filters' channels (channel, order).
        taps = self.filters(positions_of(batch, self.filter.emb_dim, self.filter.dtype))
        taps = taps.unflatten(1, (-1, self.order - 1)).unbind(2)
        x_0, *gates, v = self.short_conv(self.in_proj(h), batch).chunk(self.order + 1, dim=1)
        skip = self.skip_bias.unflatten(0, (-1, self.order - 1)).unbind(1)
        for gate, gate_taps, bias in zip(reversed(gates), taps, skip, strict=True):
            v = self.dropout(v * gate)
            v = _causal_conv(v, gate_taps, batch) + v * bias
        return self.out_proj(v * x_0)

    def filters(self, z: Tensor) -> Tensor:
        """(M, (order - 1) dim) taps at positions z (M, emb_dim), decay included."""
        taps: Tensor = self.filter(z)
        return taps * decay_window(z[:, :1], self.rates)

    def extra_repr(self) -> str:
        """Order, in ``print(model)``."""
        return f"order={self.order}"


class _Doubled:
    """The graphs of a batch, zero-padded to twice their sizes, so that circular convolutions do not wrap around.

    Attributes:
        ragged: twice the sizes.
        rows: (N,) int64, row of every node.
        taps: (sum of distinct sizes,) int64, row of every tap.
    """

    def __init__(self, batch: GraphBatch) -> None:
        ragged = batch.ragged
        self.ragged = Ragged.from_sizes((2 * size for size in ragged.sizes), ragged.device)
        graph = ragged.graph_id
        self.rows = torch.arange(len(graph), device=graph.device) + ragged.ptr.index_select(0, graph)
        distinct = Ragged.from_sizes(ragged.distinct_sizes, ragged.device)
        size = distinct.graph_id
        self.taps = torch.arange(len(size), device=size.device) + distinct.ptr.index_select(0, size)


def _causal_conv(v: Tensor, filters: Tensor, batch: GraphBatch) -> Tensor:
    """``out[t] = sum over j <= t of f[t - j] v[j]`` in every graph: a circular convolution of twice the period."""
    doubled = batch.derived(_Doubled)
    v_twice = v.new_zeros(2 * len(v), v.shape[1]).index_copy(0, doubled.rows, v)
    f_twice = filters.new_zeros(2 * len(filters), v.shape[1]).index_copy(0, doubled.taps, filters)
    return circular_conv(v_twice, f_twice, doubled.ragged).index_select(0, doubled.rows)
