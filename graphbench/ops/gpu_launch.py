"""What the launches of Triton kernels share: where they run, their number formats, how a ragged batch is cut."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import triton
from torch import Tensor

from graphbench.ops import backend
from graphbench.ops.gpu_tiles import dot
from graphbench.structures import Ragged

# By bytes of a number: queries and keys of a tile, warps.
BLOCKS = {4: (64, 32, 4), 8: (32, 16, 4)}
# Wider heads and their sums would not fit into the registers.
WIDEST = 128


# Triton's interpreter (TRITON_INTERPRET=1) runs the kernels on the CPU.
INTERPRETED = not isinstance(dot, triton.runtime.JITFunction)


def has_kernels(operator: str, q: Tensor) -> bool:
    """Whether Triton kernels can be used where a tensor lies: not before sm_80, which has too little shared memory.

    Raises:
        ValueError: it lies on a device that Triton cannot reach.
    """
    if not (backend.on_gpu(q) or INTERPRETED):
        raise ValueError(f"backend 'gpu' of {operator} needs tensors on a GPU, received tensors on '{q.device}'")
    return not q.is_cuda or torch.cuda.get_device_capability(q.device) >= (8, 0)


def wide_of(kind: torch.dtype) -> torch.dtype:
    """What sums are kept in: fp32, or fp64."""
    return torch.float64 if kind == torch.float64 else torch.float32


def loadable(x: Tensor, wide: torch.dtype) -> Tensor:
    """``x`` in as many bits as sums have: Triton 3.6 multiplies nothing in fp64 that depends on narrower loads."""
    if wide.itemsize < 8:
        return x
    return x.double() if x.is_floating_point() else x.long()


def triton_type(wide: torch.dtype) -> triton.language.dtype:
    """The same in a kernel."""
    return triton.language.float64 if wide == torch.float64 else triton.language.float32


def span_of(width: int) -> int:
    """The power of two that a tile of so many columns takes; Triton multiplies from 16 on."""
    return max(16, 1 << (width - 1).bit_length())


def parts_of(q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[tuple[Tensor, Tensor, Tensor], int]:
    """((q, k, v), number of those in one tensor): three tensors, or views of one (N, 3, H, d), given as ``q``."""
    if k is None or v is None:
        packed = q.unbind(1)
        return (packed[0], packed[1], packed[2]), 3
    return (q, k, v), 1


def empty_parts(q: Tensor, k: Tensor | None, v: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Room for the gradients of what :func:`parts_of` takes."""
    return torch.empty_like(q), None if k is None else torch.empty_like(k), None if v is None else torch.empty_like(v)


def row_tiles(ragged: Ragged, rows: int, graphs: Sequence[int] | None = None) -> Tensor:
    """(T, 2) int64, graph of every tile of ``rows`` rows and its first row within the graph.

    Args:
        ragged: the partition; use ``ragged.derived(row_tiles, rows)``.
        rows: of a tile.
        graphs: in their order; None for all.
    """
    chosen = np.arange(ragged.num_graphs) if graphs is None else np.asarray(graphs, dtype=np.int64)
    count = -(-np.asarray(ragged.sizes, dtype=np.int64)[chosen] // rows)
    within = np.arange(count.sum()) - np.repeat(count.cumsum() - count, count)
    table = np.stack([np.repeat(chosen, count), rows * within], axis=1)
    return torch.from_numpy(table).to(ragged.device, non_blocking=True)
