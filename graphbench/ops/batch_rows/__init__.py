"""Rows of some graphs of a data set, cut out of its concatenated tensors into a batch of fixed capacity."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from graphbench.ops.backend import Backends
from graphbench.ops.batch_rows import cpu, reference
from graphbench.ops.batch_rows.field import Field, PaddedRows, RowCapacity

__all__ = ["Field", "PaddedRows", "RowCapacity", "batch_rows"]


_IMPLEMENTATIONS = Backends(reference.batch_rows, cpu.batch_rows, gpu=True)


def batch_rows(
    numbers: Tensor, ptr: Tensor, fields: Sequence[Field], capacity: RowCapacity, *, backend: str = "auto"
) -> PaddedRows:
    """Gathers the rows of some graphs, every kind of rows with padding behind them. Nothing waits for the device.

    Worked example, nodes of graphs of 2, 3 and 1 nodes with features (a, b, c, d, e, f), graphs 1 and 0 and a place
    that stays empty, room for 8 nodes and two padding graphs of at most 2 nodes::

        numbers [1, 0, -1]    offsets [0, 3, 5, 5, 7, 8]    features c d e a b a a a

    Args:
        numbers: (B,) int64 graphs, -1 behind the last one.
        ptr: (L, S+1) int64, first row of every graph of the data set and the total, for L kinds of rows; kind 0 are
            nodes.
        fields: fields that are gathered.
        capacity: number of rows of every kind in the batch; the graphs fit it.
        backend: ``"auto"``, ``"reference"``, ``"cpu"`` or ``"gpu"``.

    Returns:
        Offsets and fields. Padding rows repeat the first row of the data set; padding edges are loops at padding nodes,
        spread evenly and in the order of the nodes. Padding nodes belong to padding graphs of ``capacity.max_size``
        nodes, one of what is left, and empty ones.

    Raises:
        ValueError: ``capacity`` has not one number per kind of rows, or ``backend`` is unknown.
    """
    if len(capacity.rows) != len(ptr):
        raise ValueError(f"capacity must hold {len(ptr)} numbers of rows, one per kind, received {len(capacity.rows)}")
    return _IMPLEMENTATIONS.choose(backend, numbers)(numbers, ptr, fields, capacity)
