"""The batch as a loop over its graphs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from graphbench.ops.batch_rows.field import Field, PaddedRows, RowCapacity


def batch_rows(numbers: Tensor, ptr: Tensor, fields: Sequence[Field], capacity: RowCapacity) -> PaddedRows:
    """See :func:`graphbench.ops.batch_rows.batch_rows`."""
    graphs = [int(number) for number in numbers if number >= 0]
    offsets = []
    for level, total in enumerate(capacity.rows):
        sizes = [int(ptr[level, graph + 1] - ptr[level, graph]) for graph in graphs]
        sizes += [0] * (len(numbers) - len(graphs))
        padding = total - sum(sizes)
        for _ in range(capacity.padding_graphs):
            sizes.append(min(padding, capacity.max_size) if level == 0 else 0)
            padding -= sizes[-1]
        sizes[-1] += padding
        offsets.append(torch.tensor([0, *sizes]).cumsum(0))
    count = torch.tensor(len(graphs), device=numbers.device)
    gathered = [_field(field, graphs, len(numbers), ptr, offsets, capacity) for field in fields]
    real = [
        torch.tensor([row < int(begin[len(graphs)]) for row in range(total)], dtype=torch.bool, device=ptr.device)
        for begin, total in zip(offsets, capacity.rows, strict=True)
    ]
    of_graphs = torch.tensor([True] * len(graphs) + [False] * (len(numbers) - len(graphs) + capacity.padding_graphs))
    lists = _lists(fields, gathered, capacity.rows[0])
    return PaddedRows(torch.stack(offsets).to(ptr.device), count, gathered, real, of_graphs.to(ptr.device), lists)


def _lists(fields: Sequence[Field], gathered: Sequence[Tensor], nodes: int) -> tuple[Tensor, Tensor] | None:
    orders = [each for each, field in enumerate(fields) if field.kind == "order"]
    levels = [fields[each].level for each in orders]
    ends = [each for each, field in enumerate(fields) if field.kind == "ends" and field.level in levels[:1]]
    if not ends:
        return None
    begin, other = [], []
    for line, entry in enumerate(gathered[orders[0]]):
        key = gathered[ends[0]][1 - line][entry]
        begin.append([int((key < node).sum()) for node in range(nodes + 1)])
        other.append(gathered[ends[0]][line][entry])
    return torch.tensor(begin, device=other[0].device), torch.stack(other)


def _field(
    field: Field, graphs: Sequence[int], places: int, ptr: Tensor, offsets: Sequence[Tensor], capacity: RowCapacity
) -> Tensor:
    source = field.source.to(field.dtype)
    if field.kind == "graphs":
        padding = places + capacity.padding_graphs - len(graphs)
        return torch.stack([source[graph] for graph in [*graphs, *[0] * padding]])
    rows, first_node = capacity.rows[field.level], int(offsets[0][len(graphs)])
    parts = []
    for place, graph in enumerate(graphs):
        of_graph = slice(int(ptr[field.level, graph]), int(ptr[field.level, graph + 1]))
        if field.kind == "values":
            parts.append(source[of_graph])
        else:
            parts.append(source[:, of_graph] + int(offsets[0 if field.kind == "ends" else field.level][place]))
    real = int(offsets[field.level][len(graphs)])
    number = torch.arange(rows - real, device=source.device)
    if field.kind == "values":
        return torch.cat([*parts, source[:1].expand(rows - real, *source.shape[1:])])
    spread = first_node + number * (capacity.rows[0] - first_node) // max(rows - real, 1)
    behind = spread if field.kind == "ends" else real + number
    return torch.cat([*parts, behind.expand(2, -1)], dim=1)
