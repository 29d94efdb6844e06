"""Gathering for all graphs at once, in torch code for every device."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.batch_rows.field import Field, PaddedRows, RowCapacity


def batch_rows(numbers: Tensor, ptr: Tensor, fields: Sequence[Field], capacity: RowCapacity) -> PaddedRows:
    """See :func:`graphbench.ops.batch_rows.batch_rows`."""
    present, graphs = numbers >= 0, numbers.clamp(min=0)
    first = ptr.index_select(1, graphs)
    ends = ((ptr.index_select(1, graphs + 1) - first) * present).cumsum(1)
    starts = torch.cat([ends.new_zeros(len(ptr), 1), ends], dim=1)
    shift = first - starts[:, :-1]
    levels = sorted({field.level for field in fields if field.kind != "graphs"})
    rows = {level: _Rows(shift[level], starts[level], capacity.rows[level]) for level in levels}
    offsets = torch.cat([starts, _behind(starts[:, -1:], capacity)], dim=1)
    gathered = [_field(field, rows.get(field.level), starts, graphs, capacity) for field in fields]
    real = [torch.arange(total, device=ptr.device) < starts[level, -1] for level, total in enumerate(capacity.rows)]
    return PaddedRows(offsets, present.sum(), gathered, real, F.pad(present, (0, capacity.padding_graphs)))


class _Rows:
    """Rows of the data set that are those of a batch: ``index`` (R,), of graph ``owner``; 0 where it is padding."""

    def __init__(self, shift: Tensor, starts: Tensor, total: int) -> None:
        self.number = torch.arange(total, device=shift.device)
        self.owner = torch.searchsorted(starts[1:], self.number, right=True).clamp_(max=len(shift) - 1)
        self.total = starts[-1:]
        self.real = self.number < self.total
        self.index = (shift.index_select(0, self.owner) + self.number).masked_fill(~self.real, 0)


def _behind(totals: Tensor, capacity: RowCapacity) -> Tensor:
    """(L, K) offsets behind the padding graphs, from (L, 1) totals."""
    graph = torch.arange(1, capacity.padding_graphs + 1, device=totals.device)
    nodes = (totals[:1] + graph * capacity.max_size).clamp(max=capacity.rows[0])
    behind = torch.cat([nodes, totals[1:].expand(-1, capacity.padding_graphs)])
    for level, rows in enumerate(capacity.rows):
        behind[level, -1:].fill_(rows)
    return behind


def _field(field: Field, rows: _Rows | None, starts: Tensor, graphs: Tensor, capacity: RowCapacity) -> Tensor:
    if field.kind == "graphs":
        chosen = torch.cat([graphs, graphs.new_zeros(capacity.padding_graphs)])
        return field.source.index_select(0, chosen).to(field.dtype)
    assert rows is not None
    if field.kind == "values":
        return field.source.index_select(0, rows.index).to(field.dtype)
    of_graph = starts[0 if field.kind == "ends" else field.level]
    numbers = field.source.index_select(1, rows.index).to(torch.int64) + of_graph.index_select(0, rows.owner)
    if field.kind == "order":
        return torch.where(rows.real, numbers, rows.number)
    first = starts[0, -1:]
    behind, behind_capacity = rows.number - rows.total, (capacity.rows[field.level] - rows.total).clamp(min=1)
    spread = first + (behind * (capacity.rows[0] - first)).div(behind_capacity, rounding_mode="floor")
    return torch.where(rows.real, numbers, spread)
