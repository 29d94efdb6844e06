"""Singular vectors that do not depend on the LAPACK that computed them.

A singular value that occurs m times (in the adjacency of a bipartite graph every one does, as +- an eigenvalue)
determines an m-dimensional subspace, not a basis: which one a library returns depends on its version, the processor and
the number of threads. What is unique is the projector P onto the subspace. Its pivoted Cholesky factor is a basis that
only P determines: take the column of P with the largest diagonal entry, normalise it, project it out, repeat. The
largest of n entries of a projector of rank m is at least m / n, so no step divides by a small number.
"""

from __future__ import annotations

import torch
from torch import Tensor

TOLERANCE = 1e-8
"""Relative to the largest singular value: smaller ones count as 0, neighbours no further apart as one repeated value.
Rounding (about 1e-15) moves the subspaces of values further apart by at most 1e-7, the precision of float32."""

_TIE = 1e-6
"""Diagonal entries that differ relatively by less count as equal: the node that comes first is the pivot."""


def canonical_factor(left: Tensor, values: Tensor, columns: int) -> Tensor:
    r"""The leading columns of :math:`U S^{1/2}` in the canonical basis of every repeated singular value.

    Notation: B matrices, n rows, K singular triplets. A single vector keeps its direction and gets the sign that makes
    its pivot (largest entry in magnitude) positive.

    Args:
        left: (B, n, K) orthonormal left singular vectors, in columns.
        values: (B, K) singular values, descending.
        columns: at most K. A repeated value that is cut there is represented by its first pivots; all its copies have
            to be among the K.

    Returns:
        (B, n, columns); 0 in the columns of singular values that count as 0.
    """
    limit = TOLERANCE * values[:, :1]
    values = torch.where(values > limit, values, 0.0)
    begins = torch.nn.functional.pad(values[:, :-1] - values[:, 1:] > limit, (1, 0))
    cluster = begins.cumsum(1)
    # Nothing is read of the values after the cluster of the last column.
    read = int((cluster <= cluster[:, columns - 1 : columns]).sum(1).max())
    left, values, cluster = left[:, :, :read], values[:, :read], cluster[:, :read]
    stack = torch.arange(len(left))
    rotation = left.new_zeros(len(left), columns, read)  # row c: coordinates of column c in the given basis
    for column in range(columns):
        basis = left * (cluster == cluster[:, column : column + 1]).unsqueeze(1)
        earlier = rotation[:, :column]
        diagonal = basis.square().sum(2) - (basis @ earlier.mT).square().sum(2)
        ties = diagonal >= (1 - _TIE) * diagonal.amax(1, keepdim=True)
        direction = basis[stack, ties.to(torch.uint8).argmax(1)].unsqueeze(1)
        for _ in range(2):  # the second pass removes what rounding leaves of the first
            direction = direction - direction @ earlier.mT @ earlier
        rotation[:, column] = torch.nn.functional.normalize(direction, dim=2).squeeze(1)
    return (left * values.sqrt().unsqueeze(1)) @ rotation.mT
