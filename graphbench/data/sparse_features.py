"""Node features as sparse rows or dense: one rule for all data sets (``dataset.sparse_features``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch

from graphbench.data.store import GraphStore
from graphbench.errors import check_one_of
from graphbench.structures import Features, SparseRows, as_dense

if TYPE_CHECKING:
    import scipy

SparseFeatures = Literal["auto", "always", "never"]

COLUMNS, DENSITY = 64, 0.125
"""Fewest columns and largest fraction of nonzeros of features that become sparse by themselves.

At a fifth of nonzeros and 64 columns a linear map takes as long as with a dense matrix, at an eighth less (one CPU
thread); the more columns, the more is gained.
"""

_SAMPLE = 4096  # rows that are looked at: features may be mapped from a file as large as the disk


def with_sparse_features(store: GraphStore, choice: SparseFeatures = "auto") -> GraphStore:
    """Store of the graphs with their node features as sparse rows or dense.

    Args:
        store: any graphs; their features may be sparse already, as a loader that reads a sparse file leaves them.
        choice: ``auto``: sparse rows where the store is one graph whose float32 or float64 features have at least 64
            columns and at most an eighth of nonzeros (of 4,096 rows spread over the graph), dense otherwise;
            ``always``: sparse rows for all floating features; ``never``: dense.

    Raises:
        ValueError: another choice.
    """
    check_one_of(get_args(SparseFeatures), sparse_features=choice)
    x = store.x
    if x is None or not x.is_floating_point():
        return store
    as_rows = choice == "always" or (choice == "auto" and store.num_graphs == 1 and _is_sparse(x))
    if as_rows == isinstance(x, SparseRows):
        return store
    return store.with_features(as_dense(x) if isinstance(x, SparseRows) else SparseRows.of(x))


def sparse_rows(matrix: scipy.sparse.spmatrix | scipy.sparse.sparray) -> SparseRows:
    """A matrix of SciPy as float32 sparse rows."""
    from scipy.sparse import csr_array  # here: every configuration passes this module, and few read such a matrix

    csr = csr_array(matrix, dtype=np.float32)
    ptr, column = (torch.from_numpy(array.astype(np.int64)) for array in (csr.indptr, csr.indices))
    return SparseRows(ptr, column, torch.from_numpy(csr.data), csr.shape[1])


def _is_sparse(x: Features) -> bool:
    if x.shape[1] < COLUMNS or x.dtype not in (torch.float32, torch.float64) or not len(x):
        return False
    if isinstance(x, SparseRows):
        return x.value.numel() <= DENSITY * len(x) * x.width
    seen = x[:: -(-len(x) // _SAMPLE)]
    return int(seen.count_nonzero()) <= DENSITY * seen.numel()
