"""Sums of rows of embedding tables, one row per categorical column."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.embedding_sum import cpu, reference

__all__ = ["embedding_sum"]


_IMPLEMENTATIONS = Backends(reference.embedding_sum, cpu.embedding_sum, gpu=True)


def embedding_sum(index: Tensor, tables: Sequence[Tensor], *, backend: str = "auto") -> Tensor:
    """``out[n] = sum over columns c of tables[c][index[n, c]]``.

    Args:
        index: (N, C) int64 categories.
        tables: C tensors (V_c, d), one per column.
        backend: ``"auto"``, ``"reference"``, ``"gpu"`` or ``"cpu"``.

    Returns:
        (N, d) of the type of the tables.

    Raises:
        ValueError: the number of columns is not that of the tables, or these have several widths or types.
        IndexError: a category outside its table (on the CPU; kernels make its row NaN, because asking waits).
    """
    if index.dim() != 2 or not tables or index.shape[1] != len(tables):
        raise ValueError(f"index must be (N, {len(tables)}), one column per table, received {tuple(index.shape)}")
    if len({(table.shape[1], table.dtype) for table in tables}) > 1:
        raise ValueError(f"tables must have one width, received {[tuple(table.shape) for table in tables]}")
    return _IMPLEMENTATIONS.choose(backend, tables[0])(index, tables)
