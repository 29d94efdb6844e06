"""GECO: global convolutions in place of attention (https://arxiv.org/abs/2406.12059)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from torch import Tensor

from graphbench.errors import check_at_least, check_one_of
from graphbench.layers.attention.geco.by_channel import projected
from graphbench.layers.attention.geco.implicit_filter import (
    ImplicitFilter,
    embedded_rows,
    norm_over_channels,
    normalised,
    positions_of,
)
from graphbench.layers.attention.geco.local_context import LocalContext
from graphbench.layers.attention.geco.node_order import arrange, fixed_order, random_order, restore
from graphbench.layers.contract import ChannelwiseAttention
from graphbench.layers.dropout import Dropout
from graphbench.layers.linear import Linear
from graphbench.ops.circular_conv import circular_conv, reads_columns
from graphbench.registry import FromContext, register
from graphbench.structures import GraphBatch, Ragged
from graphbench.structures.side_stream import WEIGHTS, join_side, on_side

FILTER_NORMS = ("none", "l1", "l2", "channels")
PERMUTATIONS = ("natural", "static", "dynamic")


@register("GECO")
class GECO(ChannelwiseAttention):
    """Local propagation, then gated circular convolutions with filters as long as the graph, in O(N log N + E).

    Equations (Algorithms 1, 4, 5 and 7), X in the order of the nodes, n of them in a graph::

        X <- BatchNorm([X, A_hat X])                                  A_hat = D^-1/2 A D^-1/2, without self loops
        P_1, .., P_K, V = X W + b
        V <- P_i * conv(F_i, V),  i = 1 .. K                          conv(f, v)_t = sum_j f_((t - j) mod n) v_j

    F_i: one filter per order and channel, n taps each, see
    :class:`~graphbench.layers.attention.geco.implicit_filter.ImplicitFilter`.
    Neither causal nor decaying: every node reaches every other. What it computes depends on the order of the nodes,
    but not on where the order begins. Without ``filter_norm`` every convolution
    sums n terms, so that a norm has to follow.

    Args:
        dim: channels of input and output.
        dropout: probability of dropping an entry of the input of a convolution.
        order: K.
        emb_dim: columns of the filters' positional embedding, odd and at least 3.
        filter_width: hidden channels of the filters' network.
        inner_layers: hidden layers of the filters' network after the first.
        omega: first value of its sine frequencies. Up to 1 filters hardly vary over the positions (standard deviation
            0.04 at 2,708 nodes, 0.4 with 10), so that the order of the nodes hardly counts.
        filter_norm: ``none`` as in the paper's equations: a convolution sums n terms, and what a block adds outgrows
            its residual on large graphs (28 times X at 2,708 nodes, 1e5 times at 169,343); or a filter is divided by
            its ``l1`` or ``l2`` norm over the positions, or over the ``channels``, see
            :func:`~graphbench.layers.attention.geco.implicit_filter.normalised`.
        local_block: see :class:`~graphbench.layers.attention.geco.local_context.LocalContext`.
        permutation: order of the nodes: ``natural`` as stored, ``static`` one random order per size of graph for the
            whole run, ``dynamic`` a new one per graph in every training step and layer.
        eval_permutations: number of fixed random orders whose mean evaluation takes; 0: the order of training, for
            ``dynamic`` the natural one.
        permutation_seed: seed of the fixed orders; none: the seed of the run. Kept with the parameters.

    Shape:
        h (N, dim) -> (N, dim); edge states are not read.

    Differences from the paper (no code was released): ``static`` orders depend on the size of a graph alone, so that
    they do not depend on batch-mates. The mean over orders is taken layer by layer. The paper does not give the
    position of dropout inside the operator; here it is that of the released Hyena.
    """

    capturable: ClassVar[bool] = True
    reads_edge_states: ClassVar[bool] = False
    permutation_equivariant: ClassVar[bool] = False

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
        filter_norm: Literal["none", "l1", "l2", "channels"] = "none",
        local_block: str = "propagation",
        permutation: Literal["natural", "static", "dynamic"] = "natural",
        eval_permutations: int = 0,
        permutation_seed: int | None = None,
    ) -> None:
        super().__init__()
        check_at_least(1, order=order)
        check_at_least(0, eval_permutations=eval_permutations)
        check_one_of(PERMUTATIONS, permutation=permutation)
        check_one_of(FILTER_NORMS, filter_norm=filter_norm)
        self.order, self.channels = order, dim
        self.filter_norm = filter_norm
        self.permutation = permutation
        self.eval_permutations = eval_permutations
        seed = torch.initial_seed() if permutation_seed is None else permutation_seed
        self.seed = torch.tensor(seed % 2**31)  # on the host, on whatever device the layer is
        self.local = LocalContext(dim, local_block)
        self.projection = Linear(self.local.dim_out, (order + 1) * dim)
        self.filter = ImplicitFilter(
            order * dim, emb_dim=emb_dim, width=filter_width, inner_layers=inner_layers, omega=omega
        )
        self.dropout = Dropout(dropout)

    def forward(self, h: Tensor, e: Tensor | None, batch: GraphBatch) -> Tensor:
        """New node states (N, dim), without residual; the norm is that of the local block."""
        with on_side(WEIGHTS):  # filters depend on no state: the projections need not wait for them
            filters = self.filters(batch)
        outputs = []
        for order in self._orders(batch):
            *gates, v = self._projections(h, batch, order)
            join_side(WEIGHTS, *filters)
            v = v.to(torch.promote_types(v.dtype, torch.float32))  # it grows with n: a thousand nodes overflow float16
            for gate, taps in zip(gates, filters, strict=True):
                v = circular_conv(self.dropout(v), taps, batch.ragged, gate=gate)
            outputs.append(restore(v.contiguous(), order))  # v of long graphs is channel-major
        out = outputs[0] if len(outputs) == 1 else torch.stack(outputs).mean(0)
        return out if torch.is_autocast_enabled(h.device.type) else out.to(h.dtype)

    def filters(self, batch: GraphBatch) -> list[Tensor]:
        """F_1 .. F_K for the sizes of a batch, (sum of distinct sizes, dim) each."""
        z = positions_of(batch, self.filter.emb_dim, self.filter.dtype)
        taps: Tensor = self.filter(z, by_channel=reads_columns(batch.ragged))
        if self.filter_norm != "none":
            taps = normalised(taps, batch, self.filter_norm)
        return list(taps.chunk(self.order, dim=1))

    def near_rows(self, h: Tensor, batch: GraphBatch) -> Tensor:
        """(N, (K + 1) dim) P_1, .., P_K, V, in the order of the nodes."""
        return self.projection(self.local(h, batch, None))

    def tap_rows(self, position: Tensor, nodes: int) -> Tensor:
        """(B, K dim) taps of F_1 .. F_K, not divided by norms over the positions."""
        z = embedded_rows(position, nodes, self.filter.emb_dim).to(self.filter.dtype)
        taps: Tensor = self.filter(z)
        return taps / norm_over_channels(taps) if self.filter_norm == "channels" else taps

    def mix_channels(self, near: Tensor, taps: Tensor, channels: slice, device: torch.device) -> Tensor:
        """(n, C) of the result."""
        graph = GraphBatch(Ragged.from_sizes([len(near)], device), torch.empty(2, 0, dtype=torch.int64, device=device))
        *gates, v = (part[:, channels].to(device) for part in near.chunk(self.order + 1, dim=1))
        filters = [part[:, channels].to(device) for part in taps.chunk(self.order, dim=1)]
        if self.filter_norm in ("l1", "l2"):
            filters = [normalised(each, graph, self.filter_norm) for each in filters]
        total: Tensor | None = None
        orders = self._orders(graph)
        for order in orders:
            mixed = arrange(v, order).to(torch.promote_types(v.dtype, torch.float32))
            for gate, each in zip(gates, filters, strict=True):
                mixed = circular_conv(mixed, each, graph.ragged, gate=arrange(gate, order))
            mixed = restore(mixed.contiguous(), order)
            total = mixed if total is None else total + mixed
        assert total is not None
        return (total / len(orders)).to(v.dtype)

    def _projections(self, h: Tensor, batch: GraphBatch, order: Tensor | None) -> tuple[Tensor, ...]:
        """P_1 .. P_K and V, (N, dim) each, in the order of the sequence."""
        if reads_columns(batch.ragged):
            return projected(self.local, self.projection, h, batch, order).chunk(self.order + 1, dim=1)
        x: Tensor = self.projection(arrange(self.local(h, batch, order), order))
        return x.chunk(self.order + 1, dim=1)

    def _orders(self, batch: GraphBatch) -> Sequence[Tensor | None]:
        seed = int(self.seed)
        if not self.training and self.eval_permutations:
            return [fixed_order(batch, seed + 1 + number) for number in range(self.eval_permutations)]
        if self.permutation == "static":
            return [fixed_order(batch, seed)]
        if self.training and self.permutation == "dynamic":
            return [random_order(batch.ragged)]
        return [None]

    @torch.no_grad()
    def surrogate_attention(
        self, h: Tensor, e: Tensor | None, batch: GraphBatch, *, channels: Sequence[int] | None = None
    ) -> list[Tensor]:
        """Matrices whose products with V, channel by channel, are the output, as attention weights would be.

        Equation (12 for K = 2, where q = P_2, k = P_1, psi = F_2, phi = F_1)::

            A_ij = q_i sum_m k_m psi_((i - m) mod n) phi_((m - j) mod n)

        Args:
            h: (N, dim).
            e: not read.
            batch: the graphs.
            channels: channels to return; None: all.

        Returns:
            (channels, n, n) per graph, rows and columns numbered as its nodes, mean over the orders of the evaluation.
            Entries have any sign and rows any sum.
        """
        chosen = list(range(h.shape[1]) if channels is None else channels)
        filters = [taps[:, chosen] for taps in self.filters(batch)]
        orders = self._orders(batch)
        by_order = []
        for order in orders:
            gates = [gate[:, chosen] for gate in self._projections(h, batch, order)[:-1]]
            by_order.append(_surrogates(gates, filters, batch.ragged, order))
        return [torch.stack(matrices).mean(0) for matrices in zip(*by_order, strict=True)]

    def get_extra_state(self) -> Tensor:
        """The seed of the fixed orders: a trained layer keeps its orders."""
        return self.seed

    def set_extra_state(self, state: Tensor) -> None:
        """Inverse of :meth:`get_extra_state`."""
        self.seed = state.to("cpu")

    def extra_repr(self) -> str:
        """Order and permutation, in ``print(model)``."""
        return f"order={self.order}, local_block={self.local.kind}, permutation={self.permutation}"


def _surrogates(gates: list[Tensor], filters: list[Tensor], ragged: Ragged, order: Tensor | None) -> list[Tensor]:
    """diag(P_K) S_K .. diag(P_1) S_1 of every graph, (C, n, n), S_i the circulant matrix of F_i."""
    first_tap = {}
    taps_before = 0
    for size in ragged.distinct_sizes:
        first_tap[size] = taps_before
        taps_before += size
    matrices = []
    first = 0
    for size in ragged.sizes:
        nodes = slice(first, first + size)
        position = torch.arange(size, device=ragged.device)
        lag = (position.unsqueeze(1) - position).remainder(max(size, 1)) + first_tap.get(size, 0)
        matrix = torch.eye(size, dtype=gates[0].dtype, device=ragged.device).expand(gates[0].shape[1], -1, -1)
        for gate, taps in zip(gates, filters, strict=True):
            matrix = gate[nodes].t().unsqueeze(2) * (taps.to(gate.dtype)[lag].permute(2, 0, 1) @ matrix)
        if order is not None:  # from positions back to the numbers of the nodes
            position_of = torch.argsort(order[nodes])
            matrix = matrix[:, position_of][:, :, position_of]
        matrices.append(matrix)
        first += size
    return matrices
