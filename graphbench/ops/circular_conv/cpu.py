"""Circular convolution by transforms. On the CPU the size of a graph alone says by which: batches change nothing.

Elsewhere graphs of several sizes share transforms, so that few kernels run; batches change the rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.ops.circular_conv.fourier import CHUNK_ELSEWHERE, Fourier
from graphbench.ops.circular_conv.hartley import Hartley
from graphbench.ops.circular_conv.padded import SMALL, Padded, length_of
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order

# Up to the first size graphs are multiplied with the matrix of the transform; up to the second, graphs of several sizes
# share FFTs (README). Outside of the CPU a product may be cut to TF32, and kernels have to be few.
_LIMITS = {"cpu": (32, 0)}
_ELSEWHERE = (0, 4096)


def circular_conv(u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.circular_conv.circular_conv`."""
    if u.numel() == 0:
        return u * 1
    trains = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in (u, filters, gate))
    return _CircularConv.apply(u, filters, gate, ragged, trains)  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class _Group:
    """Graphs that are transformed together.

    Attributes:
        rows: rows of the graphs in the batch.
        taps: rows of their filters.
        transform: transform of the graphs.
    """

    rows: Tensor | slice
    taps: slice
    transform: Hartley | Padded | Fourier

    def take(self, x: Tensor, columns: slice, dtype: torch.dtype) -> Tensor:
        """Rows of the group, of (N, d)."""
        x = x[:, columns]
        return (x[self.rows] if isinstance(self.rows, slice) else x.index_select(0, self.rows)).to(dtype)

    def put(self, value: Tensor, x: Tensor, columns: slice) -> Tensor:
        """Inverse of :meth:`take`: ``x``, or ``value`` where that is all of it already."""
        if isinstance(self.rows, slice) and _alike(value, x):
            return value
        if isinstance(self.rows, slice):
            x[self.rows, columns] = value
        else:
            x[:, columns].index_copy_(0, self.rows, value.to(x.dtype).contiguous())
        return x

    def take_taps(self, filters: Tensor, columns: slice, dtype: torch.dtype) -> Tensor:
        """Rows of the group's filters, of (M, d)."""
        return filters[self.taps, columns].to(dtype)

    def put_taps(self, value: Tensor, filters: Tensor, columns: slice) -> Tensor:
        """Inverse of :meth:`take_taps`, as :meth:`put`."""
        if _alike(value, filters):
            return value
        filters[self.taps, columns] = value
        return filters


def _alike(a: Tensor, b: Tensor) -> bool:
    return (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


def _groups(ragged: Ragged) -> list[_Group]:
    small, similar = _LIMITS.get(ragged.device.type, _ELSEWHERE)
    of_graph, device = np.asarray(ragged.sizes), ragged.device
    end = np.cumsum(of_graph)
    order = np.argsort(of_graph, kind="stable")
    graphs_of = {n: order[slice(*np.searchsorted(of_graph[order], (n, n + 1)))] for n in ragged.distinct_sizes}
    count_of = {n: len(graphs) for n, graphs in graphs_of.items()}
    groups, tap = [], 0
    for sizes in _together(count_of, small, similar):
        graphs = np.concatenate([graphs_of[n] for n in sizes])
        transform: Hartley | Padded | Fourier
        if sizes[-1] <= small:
            transform = Hartley(sizes, [count_of[n] for n in sizes], device)
        elif len(sizes) == 1:
            transform = Fourier(sizes[0], len(graphs), None if device.type == "cpu" else CHUNK_ELSEWHERE)
        else:
            graphs.sort()
            transform = Padded(of_graph[graphs], device)
        rows = np.concatenate([np.arange(end[g] - of_graph[g], end[g]) for g in graphs])
        groups.append(_Group(_index(rows, device), slice(tap, tap + sum(sizes)), transform))
        tap += sum(sizes)
    return groups


def _together(count_of: dict[int, int], small: int, similar: int) -> list[list[int]]:
    """Sizes, ascending, cut where other graphs are transformed in another way or padded too far."""
    groups: list[list[int]] = []
    graphs = rows = 0  # of the last group; rows with every graph padded to what it needs alone
    for n, count in count_of.items():
        graphs, rows = graphs + count, rows + count * length_of(n)
        joins = groups and (
            n <= small or (small < groups[-1][0] and n <= similar and graphs * length_of(n) <= max(SMALL, 4 * rows))
        )
        if joins:
            groups[-1].append(n)
        else:
            groups.append([n])
            graphs, rows = count, count * length_of(n)
    return groups


def _index(rows: np.ndarray, device: torch.device) -> Tensor | slice:
    """Consecutive rows need no gather."""
    if np.array_equal(rows, np.arange(rows[0], rows[0] + len(rows))):
        return slice(int(rows[0]), int(rows[0]) + len(rows))
    return torch.from_numpy(rows).to(device, non_blocking=True)


class _CircularConv(torch.autograd.Function):
    """Spectra as wide as their rows are kept for the backward pass, wider ones computed again."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged, trains: bool) -> Tensor:
        wide = torch.promote_types(compute_dtype(u), compute_dtype(filters))
        out, kept = torch.empty_like(u), []
        with torch.autocast(u.device.type, enabled=False):
            for group in ragged.derived(_groups):
                for columns in group.transform.columns(u.shape[1]):
                    u_spectrum = group.transform.spectrum(group.take(u, columns, wide))
                    f_spectrum = group.transform.filter_spectrum(group.take_taps(filters, columns, wide))
                    out = group.put(group.transform.convolve(u_spectrum, f_spectrum), out, columns)
                    if trains and group.transform.keeps_spectra:
                        kept += [u_spectrum, f_spectrum]
            if gate is not None:
                out.mul_(gate)
        if trains:
            again = not all(group.transform.keeps_spectra for group in ragged.derived(_groups))
            ctx.save_for_backward(u if again else None, filters if again else None, gate, *kept)
            ctx.ragged, ctx.wide, ctx.types, ctx.shapes = ragged, wide, (u.dtype, filters.dtype), filters.shape
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, filters, gate, *spectra = ctx.saved_tensors
        kept, wide = iter(spectra), ctx.wide
        for_u, for_filters, for_gate = ctx.needs_input_grad[:3]
        grad_u = torch.empty_like(grad, dtype=ctx.types[0]) if for_u else None
        grad_filters = grad.new_empty(ctx.shapes, dtype=ctx.types[1]) if for_filters else None
        grad_gate = torch.empty_like(gate) if for_gate else None
        with torch.autocast(grad.device.type, enabled=False):
            for group in ctx.ragged.derived(_groups):
                for columns in group.transform.columns(grad.shape[1]):
                    if group.transform.keeps_spectra:
                        u_spectrum, f_spectrum = next(kept), next(kept)
                    else:
                        u_spectrum = group.transform.spectrum(group.take(u, columns, wide))
                        f_spectrum = group.transform.filter_spectrum(group.take_taps(filters, columns, wide))
                    if grad_gate is not None:
                        grad_gate = group.put(group.transform.convolve(u_spectrum, f_spectrum), grad_gate, columns)
                    rows = group.take(grad, columns, wide)
                    if gate is not None:
                        rows = rows * group.take(gate, columns, wide)
                    g_spectrum = group.transform.gradient_spectrum(rows)
                    if grad_u is not None:
                        grad_u = group.put(group.transform.rows_gradient(g_spectrum, f_spectrum), grad_u, columns)
                    if grad_filters is not None:
                        taps = group.transform.taps_gradient(g_spectrum, u_spectrum)
                        grad_filters = group.put_taps(taps, grad_filters, columns)
            if grad_gate is not None:
                grad_gate.mul_(grad)
            if grad_filters is not None:
                grad_filters[sum(ctx.ragged.distinct_sizes) :] = 0  # taps of a padded batch that no graph reads
        return grad_u, grad_filters, grad_gate, None, None
