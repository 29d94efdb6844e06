"""Powers of a normalised adjacency, for pairs of nodes inside short sequences."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

DENSE = 8192
"""Nodes up to which the powers are kept as dense matrices."""


class Proximities:
    """(A^^k)_ij for k = 1 .. orders, i and j in the same sequence.

    Up to :data:`DENSE` nodes all powers are kept dense. Above, the lower half of them is kept sparse, and an entry
    of A^^k is the product of row i of one and row j of another, which needs A^ to be symmetric.

    Args:
        adjacency: (N, N), A^.
        orders: 1 or more.
        like: gives type and device of the result, and of the dense powers.
        dense: keep all powers dense; None: up to :data:`DENSE` nodes.
    """

    def __init__(self, adjacency: sp.csr_array, orders: int, like: Tensor, dense: bool | None = None) -> None:
        self._orders, self._device, self._dtype = orders, like.device, like.dtype
        self._powers: Tensor | None = None
        if adjacency.shape[0] <= DENSE if dense is None else dense:
            first = torch.from_numpy(adjacency.toarray()).to(self._device, self._dtype)
            powers = [first]
            for _ in range(orders - 1):
                powers.append(first @ powers[-1])
            self._powers = torch.stack(powers)
            return
        self._half = [sp.eye_array(adjacency.shape[0], format="csr"), adjacency]
        while len(self._half) <= (orders + 1) // 2:
            self._half.append((self._half[-1] @ adjacency).tocsr())

    def __call__(self, sequences: Tensor) -> Tensor:
        """(S, L, L, orders) of sequences (S, L) on the host; -1 has proximity 0 to everything."""
        there = sequences >= 0
        index = sequences.clamp(min=0)
        if self._powers is not None:
            rows = index.to(self._device, non_blocking=True)
            found = self._powers[:, rows.unsqueeze(2), rows.unsqueeze(1)].permute(1, 2, 3, 0)
        else:
            halves = [((k + 1) // 2, k // 2) for k in range(1, self._orders + 1)]
            found = torch.stack([self._products(index.numpy(), *half) for half in halves], 3)
            found = found.to(self._device, self._dtype, non_blocking=True)
        mask = (there.unsqueeze(2) & there.unsqueeze(1)).unsqueeze(3)
        return found * mask.to(self._device, non_blocking=True)

    def _products(self, sequences: np.ndarray, left: int, right: int) -> Tensor:
        """(S, L, L) of the power left + right: every sequence has columns of its own in one sparse product."""
        count, length = sequences.shape
        rows = [self._apart(self._half[power], sequences) for power in (left, right)]
        product = (rows[0] @ rows[1].T).tocoo()
        blocks = torch.zeros(count, length, length, dtype=torch.float64)
        row, column = torch.from_numpy(product.row.astype(np.int64)), torch.from_numpy(product.col.astype(np.int64))
        blocks[row // length, row % length, column % length] = torch.from_numpy(product.data)
        return blocks

    def _apart(self, power: sp.csr_array, sequences: np.ndarray) -> sp.csr_array:
        nodes, taken = power.shape[0], power[sequences.reshape(-1)].tocsr()
        group = np.repeat(np.arange(sequences.size) // sequences.shape[1], np.diff(taken.indptr))
        column = taken.indices.astype(np.int64) + group * nodes
        shape = (sequences.size, nodes * len(sequences))
        return sp.csr_array((taken.data, column, taken.indptr.astype(np.int64)), shape=shape)
