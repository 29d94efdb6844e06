"""How a ragged batch is cut for the kernels of pair attentions (``gpu_tiles.py``)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from graphbench.structures import Ragged

# By bytes of a number: queries and keys of a tile, warps.
BLOCKS = {4: (64, 32, 4), 8: (32, 16, 4)}
# Wider heads would not fit beside their sums.
WIDEST = 128


def wide_of(v: Tensor) -> torch.dtype:
    """What sums are kept in: fp32, or fp64."""
    return torch.float64 if v.dtype == torch.float64 else torch.float32


def span_of(width: int) -> int:
    """The power of two that a tile of so many columns takes; Triton multiplies from 16 on."""
    return max(16, 1 << (width - 1).bit_length())


_TILES: WeakKeyDictionary[Ragged, dict[int, tuple[Tensor, Tensor]]] = WeakKeyDictionary()


def tiles_of(ragged: Ragged, rows: int) -> tuple[Tensor, Tensor]:
    """(T, 2) int64 graph of every tile and its first row within the graph; (G+1,) first pair of every graph."""
    known = _TILES.setdefault(ragged, {})
    if rows not in known:
        sizes = np.asarray(ragged.sizes, dtype=np.int64)
        each = -(-sizes // rows)
        within = np.arange(each.sum()) - np.repeat(each.cumsum() - each, each)
        table = np.stack([np.repeat(np.arange(len(each)), each), rows * within], axis=1)
        pairs = np.concatenate([[0], np.cumsum(sizes * sizes)])
        found = (torch.from_numpy(value).to(ragged.device, non_blocking=True) for value in (table, pairs))
        known[rows] = (next(found), next(found))
    return known[rows]
