"""Launches of Triton kernels: where they run, their number formats, how a ragged batch is cut."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor

from graphbench.ops import backend
from graphbench.ops.gpu_blocks import Block, Blocks, block_tables, tables_for
from graphbench.ops.gpu_tables import tile_table
from graphbench.ops.gpu_tiles import dot
from graphbench.structures import Ragged
from graphbench.structures.capacity import CapacityRagged
from graphbench.structures.dropout_seeds import PER_OPERATOR, dropout_seeds
from graphbench.structures.side_stream import read_by_all

# Graphs, and lines of a table of tiles, that a program looks at together.
TABLE_BLOCK = 64
# Wider heads and their sums would not fit into the registers.
WIDEST = 128


# Triton's interpreter (TRITON_INTERPRET=1) runs the kernels on the CPU.
INTERPRETED = not isinstance(dot, triton.runtime.JITFunction)


def draw_seed(device: torch.device, p: float) -> Tensor:
    """(2,) int64 seeds of dropout from the device's generator; 0 where nothing is dropped."""
    return dropout_seeds(device) if p else _no_seed(device)


@functools.cache
def _no_seed(device: torch.device) -> Tensor:
    return read_by_all(lambda: torch.zeros(PER_OPERATOR, dtype=torch.int64, device=device))


def has_kernels(operator: str, q: Tensor) -> bool:
    """Whether Triton kernels can be used where a tensor lies: not before sm_80, which has too little shared memory.

    Raises:
        ValueError: it lies on a device that Triton cannot reach.
    """
    if not (backend.on_gpu(q) or INTERPRETED):
        raise ValueError(f"backend 'gpu' of {operator} needs tensors on a GPU, received tensors on '{q.device}'")
    return not q.is_cuda or torch.cuda.get_device_capability(q.device) >= (8, 0)


def whole_tiles(rows: int, shares: int, tile: int) -> int:
    """Rows of a share where at most so many shares, each of whole tiles of rows, cover all of them."""
    return -(-rows // (shares * tile)) * tile


def unspecialized(numbers: Sequence[int]) -> tuple[int, ...]:
    """``2 x + 3``: for 1 and multiples of 16 in a tuple Triton compiles a kernel anew, ``do_not_specialize`` or not."""
    return tuple(2 * number + 3 for number in numbers)


def wide_of(kind: torch.dtype) -> torch.dtype:
    """Type that sums are kept in: fp32, or fp64."""
    return torch.float64 if kind == torch.float64 else torch.float32


def loadable(x: Tensor, wide: torch.dtype) -> Tensor:
    """``x`` in as many bits as sums have: Triton 3.6 multiplies nothing in fp64 that depends on narrower loads."""
    if wide.itemsize < 8:
        return x
    return x.double() if x.is_floating_point() else x.long()


def triton_type(wide: torch.dtype) -> triton.language.dtype:
    """Triton's type for sums."""
    return triton.language.float64 if wide == torch.float64 else triton.language.float32


def operand_type(kind: torch.dtype) -> triton.language.dtype:
    """Type that rows are multiplied in: bfloat16 as it is, which the interpreter's products do not know."""
    native = kind == torch.bfloat16 and not INTERPRETED
    return triton.language.bfloat16 if native else triton_type(wide_of(kind))


def product_type(kind: torch.dtype) -> triton.language.dtype | str:
    """:func:`operand_type`, or "tf32" for fp32 where torch's products are allowed it: what a kernel multiplies as.

    Not for products whose digits decide something, nor for sums written as products (embeddings).
    """
    allowed = kind == torch.float32 and torch.get_float32_matmul_precision() != "highest"
    return "tf32" if allowed else operand_type(kind)


def operand_bytes(kind: torch.dtype) -> int:
    """Bytes of an entry when it is multiplied."""
    return 2 if kind == torch.bfloat16 else wide_of(kind).itemsize


def attention_block(q: Tensor, v: Tensor, ragged: Ragged) -> Block:
    """(queries of a tile, keys of a tile, warps) for heads of these widths on their device.

    No more queries than a graph has on average: programs with more rows compute scores that nobody reads.
    """
    span = max(span_of(q.shape[2]), span_of(v.shape[2]))
    rows, keys, warps = blocks_on(q.device, "attention")[operand_bytes(v.dtype)][span]
    return min(rows, span_of(-(-len(q) // ragged.num_graphs))), keys, warps


@functools.cache
def blocks_on(device: torch.device, kernels: str) -> Blocks:
    """Blocks of the device's architecture; where kernels are interpreted or only compiled, those of the newest."""
    capability = torch.cuda.get_device_capability(device) if device.type == "cuda" else max(block_tables())
    return tables_for(capability)[kernels].blocks


def span_of(width: int) -> int:
    """The power of two that a tile of so many columns takes; Triton multiplies from 16 on."""
    return max(16, 1 << (width - 1).bit_length())


def constants_of(
    width: int, dtype: torch.dtype, rows: int, columns: int | None = None, warps: int = 4
) -> dict[str, Any]:
    """Constants of kernels over rows of channels, known when they are compiled.

    Args:
        width: channels of a row.
        dtype: type of the rows.
        rows: rows of a tile.
        columns: most channels of a tile; None: all.
        warps: warps of a program.
    """
    span = span_of(width)
    return {
        "WIDTH": width,
        "SPAN": span if columns is None else min(columns, span),
        "ROWS": rows,
        "ACC": triton_type(wide_of(dtype)),
        "num_warps": warps,
        "enable_fp_fusion": True,
    }


def attention_constants(q: Tensor, v: Tensor, ragged: Ragged, p: float, parts: int) -> dict[str, Any]:
    """Constants of kernels over all pairs of rows of a graph, known when they are compiled.

    Args:
        q: (N, H, d) queries.
        v: (N, H, e) values.
        ragged: the partition of the rows.
        p: probability of dropping a weight.
        parts: number of matrices that the rows of q, k and v are parts of, see :func:`parts_of`.
    """
    rows, keys, warps = attention_block(q, v, ragged)
    return {
        "SCALE": 1.0 / math.sqrt(q.shape[2]),
        "P": float(p),
        "KEEP": 1.0 / (1.0 - p),
        "HEADS": q.shape[1],
        "PARTS": parts,
        "D": q.shape[2],
        "E": v.shape[2],
        "SPAN_D": span_of(q.shape[2]),
        "SPAN_E": span_of(v.shape[2]),
        "ROWS": rows,
        "KEYS": keys,
        "DOT": product_type(v.dtype),
        "ACC": triton_type(wide_of(v.dtype)),
        "num_warps": warps,
        "num_stages": 1,
        "enable_fp_fusion": True,
    }


def as_bytes(x: Tensor) -> Tensor:
    """Truth values as the bytes that they are, for kernels that copy."""
    return x.view(torch.uint8) if x.dtype == torch.bool else x


def unit_stride(x: Tensor) -> Tensor:
    """``x`` with channels side by side, as a part of wider rows may have them."""
    return x if x.stride(-1) == 1 else x.contiguous()


def parts_of(q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[tuple[Tensor, Tensor, Tensor], int]:
    """((q, k, v), number of those in one tensor): three tensors, or views of one (N, 3, H, d), given as ``q``."""
    if k is None or v is None:
        packed = q.unbind(1)
        return (packed[0], packed[1], packed[2]), 3
    return (q, k, v), 1


def empty_parts(q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Room for the gradients of what :func:`parts_of` takes."""
    return torch.empty_like(q), None if k is None else torch.empty_like(k), None if v is None else torch.empty_like(v)


def output_of(v: Tensor) -> tuple[Tensor, Tensor]:
    """Room for an output of the shape and type of ``v``, and for what is rounded to it: the same where nothing is."""
    out, wide = v.new_empty(v.shape), wide_of(v.dtype)
    return out, out if v.dtype == wide else torch.empty_like(out, dtype=wide)


def row_tiles(ragged: Ragged, rows: int, graphs: Sequence[int] | None = None) -> Tensor:
    """(T, 2) int64, graph of every tile of ``rows`` rows and its first row within the graph.

    Of a padded batch T is a bound, and what is left over are tiles behind the rows of its last graph, which is empty.

    Args:
        ragged: the partition; use ``ragged.derived(row_tiles, rows)``.
        rows: rows of a tile.
        graphs: numbers of the graphs, in their order; None for all.
    """
    if isinstance(ragged, CapacityRagged):
        assert graphs is None
        return tiles_on_device(ragged, rows)
    chosen = np.arange(ragged.num_graphs) if graphs is None else np.asarray(graphs, dtype=np.int64)
    count = -(-np.asarray(ragged.sizes, dtype=np.int64)[chosen] // rows)
    within = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
    table = np.stack([np.repeat(chosen, count), rows * within], axis=1)
    return torch.from_numpy(table).to(ragged.device, non_blocking=True)


def tiles_of(ragged: Ragged, smaller: int, largest: int, rows: int) -> Tensor:
    """(T, 2) int64 tiles of ``rows`` rows of the graphs of ``smaller < n <= largest``, the longest work first."""
    if isinstance(ragged, CapacityRagged):
        return tiles_on_device(ragged, rows, smaller, largest)
    graphs = [graph for graph, size in enumerate(ragged.sizes) if smaller < size <= largest]
    return row_tiles(ragged, rows, sorted(graphs, key=lambda graph: -ragged.sizes[graph]))


def tiles_on_device(ragged: CapacityRagged, rows: int, smaller: int = 0, largest: int | None = None) -> Tensor:
    """The table of :func:`row_tiles` for a padded batch, in one launch.

    Args:
        ragged: the partition.
        rows: rows of a tile.
        smaller: graphs of so many rows or fewer are left out.
        largest: graphs of more rows are left out as well; None: none.
    """
    graphs, room = ragged.num_graphs, ragged.num_rows // rows + ragged.num_graphs
    tiles = torch.empty(room, 2, dtype=torch.int64, device=ragged.device)
    most = ragged.num_rows if largest is None else largest
    with torch.cuda.device_of(tiles):
        tile_table[(graphs + 1,)](
            ragged.ptr, tiles, graphs, room, smaller, most, ROWS=rows, BLOCK=TABLE_BLOCK, num_warps=1,
            enable_fp_fusion=True,
        )  # fmt: skip
    return tiles
