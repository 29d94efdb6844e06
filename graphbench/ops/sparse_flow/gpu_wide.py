"""Launches of the kernels that keep matrices of pairs (``gpu_matrix.py``), for wide heads and graphs that fit a row.

Notation: N rows, H heads, L numbers of a line, d and e widths.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from graphbench.ops.gpu_launch import operand_bytes, span_of, tiles_of
from graphbench.ops.sparse_flow.gpu_matrix import gradient_rows, pair_products, solve_rows, weighted_rows
from graphbench.structures import Ragged

MOST = 512
"""Nodes of a graph, as many as a program keeps a row of in registers."""
NARROWEST = 128
"""Padded width from which on: heads of fewer columns fit the registers, and a line would be large beside them."""
MOST_BYTES = 2**30
"""Most bytes of the three matrices of a backward pass: 97 graphs of PascalVOC-SP with four heads."""
_LINE = 16
"""A line has a multiple of so many numbers, so that they are read 16 bytes at a time."""
SOLVED, DIFFERENTIATED = (1, 1), (1, 1)
"""Rows of a program that works on whole ones, and its warps. One warp per row adds without waiting for others."""


class Product(NamedTuple):
    """Tile of a product: rows, columns, what is summed at a time, warps, loads in flight."""

    rows: int
    columns: int
    chunk: int
    warps: int
    stages: int


PAIRS = Product(32, 64, 32, 4, 3)
WEIGHTED = Product(32, 64, 32, 4, 3)
TURNED = Product(32, 64, 32, 4, 3)


def takes(q: Tensor, v: Tensor, ragged: Ragged) -> bool:
    """Whether heads are wide and graphs fit a row of registers, and matrices the memory that they may have.

    Double precision is for tests of the other kernels.
    """
    if operand_bytes(q.dtype) > 4 or span_of(max(q.shape[2], v.shape[2])) < NARROWEST or ragged.max_size > MOST:
        return False
    return 3 * 4 * q.shape[0] * q.shape[1] * _line_of(ragged) <= MOST_BYTES


def _line_of(ragged: Ragged) -> int:
    """Numbers of a line."""
    return -(-ragged.max_size // _LINE) * _LINE


class Matrices:
    """Matrices (M, H, N, L) of one batch, and their products.

    Args:
        count: M, of the matrices.
        like: any of the inputs, (N, H, ..).
        ragged: partition of N.
        accumulator: type of the matrices.
        shared: constants of products.
    """

    def __init__(
        self, count: int, like: Tensor, ragged: Ragged, accumulator: torch.dtype, shared: dict[str, Any]
    ) -> None:
        self.stride = _line_of(ragged)
        rows, self.heads = like.shape[:2]
        self.values = torch.empty(count, self.heads, rows, self.stride, dtype=accumulator, device=like.device)
        self.ragged, self.rows, self.shared = ragged, rows, shared

    def __getitem__(self, index: int) -> Tensor:
        return self.values[index]

    def multiply(self, first: int, scale: float, *pairs: tuple[Tensor, Tensor]) -> None:
        """Matrices ``first`` and on become ``scale a b^T`` for every pair (a, b), one or two of (N, H, w)."""
        block, width = PAIRS, pairs[0][0].shape[2]
        tiles = self.ragged.derived(tiles_of, 0, self.ragged.max_size, block.rows)
        pair_products[len(tiles), self.heads * len(pairs), -(-self.ragged.max_size // block.columns)](
            *pairs[0], *pairs[-1], self.ragged.ptr, tiles, self[first], self.rows, self.stride,
            **self.shared, SCALE=scale, WIDTH=width, ROWS=block.rows, KEYS=block.columns, CHUNK=block.chunk,
            num_warps=block.warps, num_stages=block.stages,
        )  # fmt: skip

    def add_rows(self, turned: bool, scale: float, *triples: tuple[int, Tensor, Tensor]) -> None:
        """``out = scale W x``, or ``scale W^T x``, for every (number of W, x, out), one or two of them."""
        block, width = TURNED if turned else WEIGHTED, triples[0][1].shape[2]
        tiles = self.ragged.derived(tiles_of, 0, self.ragged.max_size, block.rows)
        (w, x, out), (other_w, other_x, other_out) = triples[0], triples[-1]
        weighted_rows[len(tiles), self.heads * len(triples), -(-width // block.columns)](
            self[w], self[other_w], x, other_x, self.ragged.ptr, tiles, out, other_out, self.rows, self.stride,
            **self.shared, SCALE=scale, TURNED=turned, WIDTH=width, ROWS=block.rows, COLUMNS=block.columns,
            CHUNK=block.chunk, num_warps=block.warps, num_stages=block.stages,
        )  # fmt: skip


def forward(
    inputs: tuple[Tensor, ...], lam: Tensor, ragged: Ragged, seed: Tensor, out: Tensor, state: Tensor, scale: float,
    shared: dict[str, Any], row: dict[str, Any],
) -> None:  # fmt: skip
    """Output and state of every row, written to where there is room for them.

    Args:
        inputs: q, k, q_friction, k_friction (N, H, d) and v (N, H, e).
        lam: (G,).
        ragged: partition of N.
        seed: seed of dropout.
        out: (N, H, e), to be filled.
        state: (7, H, N), to be filled (``gpu_tiles.store_state``).
        scale: factor of the scores.
        shared: constants of products.
        row: constants of the problem of a row.
    """
    q, k, q_friction, k_friction, v = inputs
    matrices = Matrices(2, q, ragged, state.dtype, shared)
    matrices.multiply(0, scale, (q, k), (q_friction, k_friction))
    rows, warps = SOLVED
    tiles = ragged.derived(tiles_of, 0, ragged.max_size, rows)
    solve_rows[len(tiles), matrices.heads](
        lam, ragged.ptr, tiles, matrices.values, state, matrices.rows, matrices.stride, seed,
        **row, ACC=shared["ACC"], HEADS=matrices.heads, ROWS=rows, MOST=MOST, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    matrices.add_rows(False, 1.0, (0, v, out))


def backward(
    inputs: tuple[Tensor, ...], lam: Tensor, ragged: Ragged, seed: Tensor, grad: Tensor, state: Tensor, scale: float,
    shared: dict[str, Any], row: dict[str, Any], gradients: tuple[Tensor, ...], row_dlam: Tensor,
) -> None:  # fmt: skip
    """Gradients, written to where there is room for them.

    Args:
        inputs: inputs of :func:`forward`, like the arguments that are not named here.
        lam: (G,).
        ragged: partition of N.
        seed: seed of dropout.
        grad: (N, H, e) gradient of the output.
        state: state that the forward pass filled.
        scale: factor of the scores.
        shared: constants of products.
        row: constants of the problem of a row.
        gradients: gradients of the inputs, to be filled.
        row_dlam: (H, N), the share of every row in that of lam, to be filled.
    """
    q, k, q_friction, k_friction, v = inputs
    dq, dk, dqf, dkf, dv = gradients
    matrices = Matrices(3, q, ragged, state.dtype, shared)
    matrices.multiply(0, scale, (q, k), (q_friction, k_friction))
    matrices.multiply(2, 1.0, (grad, v))
    rows, warps = DIFFERENTIATED
    tiles = ragged.derived(tiles_of, 0, ragged.max_size, rows)
    gradient_rows[len(tiles), matrices.heads](
        lam, ragged.ptr, tiles, matrices.values, state, row_dlam, matrices.rows, matrices.stride, seed,
        **row, HEADS=matrices.heads, ROWS=rows, MOST=MOST, num_warps=warps, enable_fp_fusion=False,
    )  # fmt: skip
    matrices.add_rows(False, scale, (0, k, dq), (1, k_friction, dqf))
    matrices.add_rows(True, scale, (0, q, dk), (1, q_friction, dkf))
    matrices.add_rows(True, 1.0, (2, grad, dv))
