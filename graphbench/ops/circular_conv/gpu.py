"""Direct circular convolutions of small graphs in Triton kernels: one forward, two backward (README)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

try:
    from graphbench.ops.gpu_launch import INTERPRETED, constants_of, has_kernels, row_tiles, unit_stride
except ImportError as missing:
    raise ImportError("backend 'gpu' of circular_conv needs Triton: pip install triton") from missing

from graphbench.ops import backend
from graphbench.ops.backend import first_order
from graphbench.ops.circular_conv.gpu_kernels import forward, rows_gradient, taps_gradient
from graphbench.structures import Ragged

# Nodes up to which n^2 products per channel cost less than the launches of transforms.
LARGEST = 512
# Rows and channels of a tile.
ROWS, COLUMNS = 32, 32


def reaches(u: Tensor, ragged: Ragged) -> bool:
    """Whether the kernels compute this batch."""
    on_device = (backend.on_gpu(u) or INTERPRETED) and has_kernels("circular_conv", u)
    return on_device and 0 < ragged.max_size <= LARGEST and u.numel() > 0


def circular_conv(u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.circular_conv.circular_conv`."""
    with torch.autocast(u.device.type, enabled=False):
        result: Tensor = _CircularConv.apply(u, filters, gate, ragged)  # type: ignore[no-untyped-call]
    return result


@dataclass(frozen=True)
class _Sizes:
    """The distinct sizes of a batch on the device.

    Attributes:
        partition: of the taps by size.
        of_graph: (G,) int64, first tap of every graph.
        ptr: (S+1,) int64, first graph of every size in ``graphs``.
        graphs: (G',) int64, the graphs that are not empty, by size.
    """

    partition: Ragged
    of_graph: Tensor
    ptr: Tensor
    graphs: Tensor


def _sizes(ragged: Ragged) -> _Sizes:
    of_graph, distinct = np.asarray(ragged.sizes), np.asarray(ragged.distinct_sizes)
    first = np.append(0, distinct.cumsum())
    number = np.searchsorted(distinct, of_graph)
    graphs = np.argsort(of_graph, kind="stable")[(of_graph == 0).sum() :]
    ptr = np.append(np.searchsorted(of_graph[graphs], distinct), len(graphs))
    # One copy for all of them.
    on_device = torch.from_numpy(np.concatenate([first[number], ptr, graphs])).to(ragged.device, non_blocking=True)
    partition = Ragged.from_sizes(ragged.distinct_sizes, ragged.device)
    return _Sizes(partition, *on_device.split([len(number), len(ptr), len(graphs)]))


def constants(width: int, dtype: torch.dtype, gated: bool) -> dict[str, Any]:
    """What is known when a kernel is compiled."""
    return {"GATED": gated} | constants_of(width, dtype, ROWS, COLUMNS)


class _CircularConv(torch.autograd.Function):
    """Saves its inputs."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged) -> Tensor:
        u, filters, gate = unit_stride(u), unit_stride(filters), None if gate is None else unit_stride(gate)
        sizes, out = ragged.derived(_sizes), u.new_empty(u.shape)
        known = constants(u.shape[1], torch.promote_types(u.dtype, filters.dtype), gate is not None)
        tiles, factor = ragged.derived(row_tiles, ROWS), u if gate is None else gate
        with torch.cuda.device_of(u):
            forward[len(tiles), -(-u.shape[1] // known["SPAN"])](
                u, filters, factor, ragged.ptr, sizes.of_graph, tiles, out,
                u.stride(0), filters.stride(0), factor.stride(0), **known,
            )  # fmt: skip
        ctx.save_for_backward(u, filters, gate)
        ctx.ragged = ragged
        return out

    @staticmethod
    @first_order
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        u, filters, gate = ctx.saved_tensors
        ragged, grad = ctx.ragged, unit_stride(grad)
        sizes, factor = ragged.derived(_sizes), u if gate is None else gate
        known = constants(u.shape[1], torch.promote_types(u.dtype, filters.dtype), gate is not None)
        du, dtaps = u.new_empty(u.shape), filters.new_empty(filters.shape)
        dgate = None if gate is None else gate.new_empty(gate.shape)
        of_rows, of_taps = ragged.derived(row_tiles, ROWS), sizes.partition.derived(row_tiles, ROWS)
        columns = -(-u.shape[1] // known["SPAN"])
        with torch.cuda.device_of(u):
            rows_gradient[len(of_rows), columns](
                u, filters, factor, grad, ragged.ptr, sizes.of_graph, of_rows, du, du if dgate is None else dgate,
                u.stride(0), filters.stride(0), factor.stride(0), grad.stride(0), **known,
            )  # fmt: skip
            if ctx.needs_input_grad[1]:
                taps_gradient[len(of_taps), columns](
                    u, factor, grad, ragged.ptr, sizes.partition.ptr, of_taps, sizes.ptr, sizes.graphs, dtaps,
                    u.stride(0), factor.stride(0), grad.stride(0), **known,
                )  # fmt: skip
        return du, dtaps, dgate, None
