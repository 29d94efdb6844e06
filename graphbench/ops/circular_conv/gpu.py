"""Direct circular convolutions of small graphs in Triton kernels, one forward, two backward (README); others by FFT."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphbench.ops import backend
from graphbench.ops.circular_conv import cpu
from graphbench.ops.circular_conv.gpu_kernels import circular_conv_forward, rows_gradient, taps_gradient
from graphbench.ops.gpu_launch import INTERPRETED, constants_of, has_kernels, row_tiles, unit_stride
from graphbench.structures import Ragged
from graphbench.structures.first_order import first_order
from graphbench.structures.side_stream import WEIGHTS, join_side, on_side
from graphbench.structures.size_groups import size_groups

# Nodes up to which n^2 products per channel cost less than the launches of transforms.
LARGEST = 512


class Tiling(NamedTuple):
    """Tiles of the kernels, and how programs share the work on a batch.

    Attributes:
        rows: rows of a tile.
        columns: most channels of a tile.
        parts: sums that the terms of an entry are dealt out to.
        graphs: graphs of a size that a program of the gradient of taps looks at together.
        steps: terms of a sum that are under way from memory together.
        warps: warps of a program, of that of the gradient of taps for each of its graphs.
    """

    rows: int
    columns: int
    parts: int
    graphs: int
    steps: int
    warps: int


# Small graphs are little work, which many programs share, so that none goes through many terms one after the other;
# the rows of larger ones are read less often by larger tiles.
SMALL, LARGE = Tiling(8, 32, 4, 2, 8, 8), Tiling(32, 32, 1, 1, 4, 4)
# Nodes of the largest graph up to which a batch has small tiles.
LARGEST_SMALL = 64


def _reaches(u: Tensor, ragged: Ragged) -> bool:
    """Whether the kernels compute this batch."""
    on_device = (backend.on_gpu(u) or INTERPRETED) and has_kernels("circular_conv", u)
    return on_device and 0 < ragged.max_size <= LARGEST and u.numel() > 0


def circular_conv(u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged) -> Tensor:
    """See :func:`graphbench.ops.circular_conv.circular_conv`; graphs of more than 512 nodes go through torch.fft."""
    if not _reaches(u, ragged):
        return cpu.circular_conv(u, filters, gate, ragged)
    with torch.autocast(u.device.type, enabled=False):
        result: Tensor = _CircularConv.apply(u, filters, gate, ragged)  # type: ignore[no-untyped-call]
    return result


def tiling_of(ragged: Ragged) -> Tiling:
    """Tiling by the largest graph, which of a padded batch is a bound: nothing waits for the device."""
    return SMALL if ragged.max_size <= LARGEST_SMALL else LARGE


def constants(width: int, dtype: torch.dtype, gated: bool, tiling: Tiling, graphs: int = 1) -> dict[str, Any]:
    """Constants that are known when a kernel is compiled, for so many ``graphs`` at a time."""
    own = {"GATED": gated, "PARTS": tiling.parts, "STEPS": tiling.steps}
    return own | constants_of(width, dtype, tiling.rows, tiling.columns, tiling.warps * graphs)


class _CircularConv(torch.autograd.Function):
    """Saves its inputs."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, filters: Tensor, gate: Tensor | None, ragged: Ragged) -> Tensor:
        u, filters, gate = unit_stride(u), unit_stride(filters), None if gate is None else unit_stride(gate)
        sizes, out = size_groups(ragged), u.new_empty(u.shape)
        tiling, wide = tiling_of(ragged), torch.promote_types(u.dtype, filters.dtype)
        known = constants(u.shape[1], wide, gate is not None, tiling)
        tiles, factor = ragged.derived(row_tiles, tiling.rows), u if gate is None else gate
        with torch.cuda.device_of(u):
            circular_conv_forward[len(tiles), -(-u.shape[1] // known["SPAN"])](
                u, filters, factor, ragged.ptr, sizes.first_tap, tiles, out,
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
        sizes, factor = size_groups(ragged), u if gate is None else gate
        tiling, wide = tiling_of(ragged), torch.promote_types(u.dtype, filters.dtype)
        known = constants(u.shape[1], wide, gate is not None, tiling)
        du, dtaps = u.new_empty(u.shape), filters.new_empty(filters.shape)
        dgate = None if gate is None else gate.new_empty(gate.shape)
        of_rows, of_taps = ragged.derived(row_tiles, tiling.rows), sizes.taps.derived(row_tiles, tiling.rows)
        columns = -(-u.shape[1] // known["SPAN"])
        with torch.cuda.device_of(u):
            if ctx.needs_input_grad[1]:
                several = constants(u.shape[1], wide, gate is not None, tiling, tiling.graphs)
                with on_side(WEIGHTS):
                    taps_gradient[len(of_taps), columns](
                        u, factor, grad, ragged.ptr, sizes.taps.ptr, of_taps, sizes.ptr, sizes.graphs, dtaps,
                        u.stride(0), factor.stride(0), grad.stride(0), GRAPHS=tiling.graphs, **several,
                    )  # fmt: skip
            rows_gradient[len(of_rows), columns](
                u, filters, factor, grad, ragged.ptr, sizes.first_tap, of_rows, du, du if dgate is None else dgate,
                u.stride(0), filters.stride(0), factor.stride(0), grad.stride(0), **known,
            )  # fmt: skip
        if ctx.needs_input_grad[1]:
            join_side(WEIGHTS)
        return du, dtaps, dgate, None
