"""Batches of fixed capacity: the loop over graphs, torch code and kernels give the same rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from graphbench.ops.batch_rows import Field, RowCapacity, batch_rows
from tests.ops.batch_rows_cases import GRAPHS, data
from tests.ops.ragged_inputs import BACKEND, DEVICE


def test_rows_are_those_of_the_loop_over_graphs() -> None:
    """Also where there is no padding edge and where graphs stay empty."""
    ptr, fields = data(DEVICE)
    for graphs in GRAPHS:
        most = [int(sum(ptr[level, g + 1] - ptr[level, g] for g in graphs)) for level in range(3)]
        for extra in (0, 1, 7):
            capacity = RowCapacity((most[0] + extra + 1, most[1] + extra, most[2] + 3 * extra), 4, 3)
            numbers = torch.tensor([*graphs, *[-1] * extra], device=DEVICE)
            expected = batch_rows(numbers, ptr, fields, capacity, backend="reference")
            received = batch_rows(numbers, ptr, fields, capacity, backend=BACKEND)
            assert torch.equal(received.offsets, expected.offsets)
            assert int(received.num_graphs) == len(graphs)
            assert torch.equal(received.real_graphs, expected.real_graphs)
            assert all(torch.equal(*each) for each in zip(received.real, expected.real, strict=True))
            assert BACKEND == "cpu" or (received.lists is not None and expected.lists is not None)
            if received.lists is not None and expected.lists is not None:
                assert all(torch.equal(*each) for each in zip(received.lists, expected.lists, strict=True))
            for number, (one, other) in enumerate(zip(received.fields, expected.fields, strict=True)):
                assert one.dtype == other.dtype
                assert torch.equal(one, other), f"field {number}"


def test_a_data_set_without_edges_may_have_columns_of_edges() -> None:
    ptr = torch.tensor([[0, 2, 5], [0, 0, 0]], device=DEVICE)
    fields = [Field(torch.zeros(2, 0, dtype=torch.int64), "ends", 1), Field(torch.zeros(0, 3), level=1)]
    fields = [replace(field, source=field.source.to(DEVICE)) for field in fields]
    rows = batch_rows(torch.tensor([1, -1], device=DEVICE), ptr, fields, RowCapacity((4, 0), 2, 2), backend=BACKEND)
    assert [tuple(field.shape) for field in rows.fields] == [(2, 0), (0, 3)]


def test_the_worked_example() -> None:
    ptr = torch.tensor([[0, 2, 5, 6]])
    letters = Field(torch.arange(6))
    rows = batch_rows(torch.tensor([1, 0, -1]), ptr, [letters], RowCapacity((8,), 2, 2))
    assert rows.offsets.tolist() == [[0, 3, 5, 5, 7, 8]]
    assert rows.fields[0].tolist() == [2, 3, 4, 0, 1, 0, 0, 0]


def test_padding_edges_are_spread_over_padding_nodes_in_their_order() -> None:
    ptr, fields = data()
    (edges,) = batch_rows(torch.tensor([1]), ptr, [fields[5]], RowCapacity((7, 12, 9), 3, 3)).fields
    assert edges[0, 4:].tolist() == edges[1, 4:].tolist() == [3, 3, 4, 4, 5, 5, 6, 6]


def test_room_for_every_kind_of_rows() -> None:
    ptr, fields = data()
    with pytest.raises(ValueError, match="capacity must hold 3 numbers of rows, one per kind, received 1"):
        batch_rows(torch.tensor([1]), ptr, fields, RowCapacity((7,), 2, 4))
