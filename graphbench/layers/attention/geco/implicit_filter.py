"""Filters as long as a graph, computed by a small network from positions.

Poli et al., Hyena Hierarchy, https://arxiv.org/abs/2302.10866 (released code: HazyResearch/safari), which GECO,
https://arxiv.org/abs/2406.12059, takes over.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from graphbench.contract import HasOptimizerGroup
from graphbench.errors import ArgumentError, check_at_least
from graphbench.layers.module_list import Modules
from graphbench.ops.segment import segment_repeat, segment_sum
from graphbench.ops.sine_network import sine_network
from graphbench.structures import CapacityRagged, GraphBatch
from graphbench.structures.size_groups import size_groups


def positional_embedding(sizes: Sequence[int], emb_dim: int) -> Tensor:
    r"""Positional embedding, the input of a filter's network.

    Equation, for position k of a filter of n taps, t = k / (n - 1)::

        z_k = [t, cos(w f_1) .. cos(w f_B), -sin(w f_1) .. -sin(w f_B)],    w = 2 pi k / n

    and f_1 .. f_B from 1e-4 to B - 1 in equal steps.

    Args:
        sizes: n of every filter.
        emb_dim: columns, 1 + 2 B. With 3 the only frequency is 1e-4, so that only t varies.

    Returns:
        (sum of sizes, emb_dim) float64 on the host, one filter after the other.

    Raises:
        ArgumentError: ``emb_dim`` is even or less than 3.
    """
    length = torch.as_tensor(list(sizes), dtype=torch.int64)
    first = length.cumsum(0) - length
    n = torch.repeat_interleave(length, length)
    return _embedded(torch.arange(len(n)) - torch.repeat_interleave(first, length), n, emb_dim)


def embedded_rows(position: Tensor, size: int, emb_dim: int) -> Tensor:
    """(B, emb_dim) rows of :func:`positional_embedding` for positions (B,) int64 of one filter of ``size`` taps."""
    return _embedded(position, torch.full_like(position, size), emb_dim)


def _embedded(position: Tensor, size: Tensor, emb_dim: int) -> Tensor:
    """(M, emb_dim) rows z_k for positions k and sizes n, (M,) int64 each, where those lie."""
    bands, k = _bands(emb_dim), position.double()
    frequency = torch.linspace(1e-4, bands - 1, bands, dtype=torch.float64, device=position.device)
    angle = (2 * math.pi * k / size).unsqueeze(1) * frequency
    return torch.cat([(k / (size - 1).clamp(min=1)).unsqueeze(1), angle.cos(), -angle.sin()], dim=1)


def _bands(emb_dim: int) -> int:
    """Frequencies of an embedding of ``emb_dim`` columns."""
    if emb_dim < 3 or emb_dim % 2 == 0:
        raise ArgumentError("emb_dim", f"emb_dim must be odd and at least 3, received {emb_dim}")
    return (emb_dim - 1) // 2


def positions_of(batch: GraphBatch, emb_dim: int, dtype: torch.dtype) -> Tensor:
    """:func:`positional_embedding` of the distinct sizes in a batch, on its device, computed once for all layers.

    :func:`~graphbench.ops.circular_conv.circular_conv` reads filters at these positions: they are evaluated once for
    every distinct size, not for every graph.
    """
    return batch.derived(_embedding, emb_dim, dtype)


def _embedding(batch: GraphBatch, emb_dim: int, dtype: torch.dtype) -> Tensor:
    if isinstance(batch.ragged, CapacityRagged):  # whose sizes are known to the device only
        return _embedded(*size_groups(batch.ragged).positions(), emb_dim).to(dtype)
    embedding = positional_embedding(batch.ragged.distinct_sizes, emb_dim)
    return embedding.to(batch.device, dtype, non_blocking=True)


def decay_rates(channels: int, *, fast: float = 0.3, slow: float = 1.5, target: float = 1e-2) -> Tensor:
    """Rates in equal steps from -ln(target) / slow to -ln(target) / fast: Hyena's, one per channel.

    Args:
        channels: number of rates.
        fast: fraction of the length after which the fastest channel has decayed to ``target``.
        slow: fraction of the length after which the slowest channel has decayed to ``target``.
        target: size after the decay, in (0, 1).

    Returns:
        (channels,) float64.
    """
    return torch.linspace(-math.log(target) / slow, -math.log(target) / fast, channels, dtype=torch.float64)


def decay_window(t: Tensor, rates: Tensor) -> Tensor:
    """exp(-t rate), (M, channels), for positions t (M, 1) from 0 to 1."""
    return torch.exp(-t * rates)


def normalised(taps: Tensor, batch: GraphBatch, norm: str) -> Tensor:
    """Filters divided by their size, so that a convolution does not grow with the number of nodes.

    Args:
        taps: (sum of distinct sizes, C), one filter per distinct size and channel.
        batch: batch whose distinct sizes they are.
        norm: ``l1`` or ``l2`` over the taps of a filter (a convolution of entries of size 1 is then at most 1; of
            independent entries of variance 1 of variance 1), or ``channels``: every tap by the L1 norm over the
            channels, as Hyena's release does under ``normalized``.
    """
    if norm == "channels":
        return taps / norm_over_channels(taps)
    groups = size_groups(batch.ragged).taps
    total = segment_sum(taps.abs() if norm == "l1" else taps.square(), groups).clamp(min=torch.finfo(taps.dtype).tiny)
    factor = total.reciprocal() if norm == "l1" else total.rsqrt()
    return taps * segment_repeat(factor, groups)


def norm_over_channels(taps: Tensor) -> Tensor:
    """(M, 1) L1 norms of the taps of a position over the channels, none of them 0."""
    return taps.abs().sum(1, keepdim=True).clamp(min=torch.finfo(taps.dtype).tiny)


class ImplicitFilter(nn.Module, HasOptimizerGroup):
    """Network from positions to filter taps.

    Equation, z as in :func:`positional_embedding`::

        F(z) = W_out s(W_m s( .. s(W_0 z + b_0) .. ) + b_m),   s(x) = sin(frequency * x)

    One ``frequency`` per hidden channel, the same in all layers, learned from ``omega`` on. No decay: every position
    counts the same.

    Args:
        channels: filters.
        emb_dim: columns of z, odd and at least 3.
        width: hidden channels.
        inner_layers: hidden layers after the first.
        omega: first value of ``frequency``.

    Shape:
        z (M, emb_dim) -> (M, channels), float32 or wider, under autocast too: bfloat16 tells 256 positions apart

    Differences from the released Hyena: z is not trained (it is there, with a rate of 1e-5), because there is one for
    every size. n is the size of the graph; there, the longest sequence, of which shorter ones take the first part.
    """

    optimizer_group: ClassVar[str] = "filter"

    def __init__(self, channels: int, *, emb_dim: int, width: int, inner_layers: int, omega: float) -> None:
        super().__init__()
        check_at_least(1, filter_width=width)
        check_at_least(0, inner_layers=inner_layers)
        self.emb_dim = emb_dim
        _bands(emb_dim)  # refuses other widths
        widths = [emb_dim, *[width] * (inner_layers + 1)]
        self.mlp: Modules[nn.Linear] = Modules(nn.Linear(a, b) for a, b in pairwise(widths))
        self.mlp.append(nn.Linear(width, channels, bias=False))
        self.sine_frequency = nn.Parameter(torch.full((width,), float(omega)))

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the computation."""
        return torch.promote_types(self.sine_frequency.dtype, torch.float32)

    def forward(self, z: Tensor, *, by_channel: bool = False) -> Tensor:
        """(M, channels) taps; ``by_channel``: in channel-major memory, with the frequency folded into the weights."""
        x = z.to(self.dtype)
        with torch.autocast(x.device.type, enabled=False):
            frequency = self.sine_frequency.to(x.dtype)
            *hidden, out = self.mlp
            layers = [(lin.weight.to(x.dtype), lin.bias.to(x.dtype)) for lin in hidden]
            last = out.weight.to(x.dtype)
            if not by_channel:
                return sine_network(x, layers, last, frequency)
            for weight, bias in layers:
                x = torch.sin(F.linear(x, frequency.unsqueeze(1) * weight, frequency * bias))
            return torch.mm(last, x.t()).t()
