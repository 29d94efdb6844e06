"""Scores of query tiles, one graph at a time and without padding."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from graphbench.ops.backend import compute_dtype
from graphbench.structures import Ragged


def scores(q_ihd: Tensor, k_jhd: Tensor) -> Tensor:
    """(H, i, j) ``q k^T / sqrt(d)``; half precision is widened."""
    dtype = compute_dtype(q_ihd)
    return torch.einsum("ihd,jhd->hij", q_ihd.to(dtype), k_jhd.to(dtype)) / math.sqrt(q_ihd.shape[2])


def query_tiles(ragged: Ragged, heads: int, pairs: int | None = None) -> Iterator[tuple[int, slice, slice]]:
    """Graph, query rows and rows of their keys: about ``pairs`` scores over all heads at a time, or whole graphs.

    Empty graphs have no tile.
    """
    first = 0
    for graph, size in enumerate(ragged.sizes):
        whole = slice(first, first + size)
        if pairs is None:
            if size:
                yield graph, whole, whole
        else:
            step = max(1, pairs // max(1, heads * size))
            for start in range(first, first + size, step):
                yield graph, slice(start, min(start + step, first + size)), whole
        first += size


def bounded_exp(x: Tensor) -> Tensor:
    """Powers that leave room for a product with a weight below the largest number of the type."""
    return x.clamp(max=0.78 * math.log(torch.finfo(x.dtype).max)).exp()
