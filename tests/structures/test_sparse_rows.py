"""Sparse rows are the matrix they stand for, whatever is done to them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from graphbench.structures import SparseRows

SHAPES = {"usual": (7, 5), "one_row": (1, 5), "one_column": (6, 1), "no_rows": (0, 4), "no_columns": (4, 0)}
EVERY = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def matrix(shape: tuple[int, int], share: float = 0.3) -> Tensor:
    """With empty rows and columns."""
    x = torch.randn(shape, dtype=torch.float64) * (torch.rand(shape) < share)
    x[::3] = 0
    return x


def test_by_hand() -> None:
    rows = SparseRows.of(torch.tensor([[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [5.0, 0.0, 0.0, 7.0]]))
    assert rows.ptr.tolist() == [0, 1, 1, 3]
    assert rows.column.tolist() == [1, 0, 3]
    assert rows.value.tolist() == [2, 5, 7]
    assert rows.row.tolist() == [0, 2, 2]
    assert rows.by_column.ptr.tolist() == [0, 1, 2, 2, 3]
    assert rows.by_column.row.tolist() == [2, 0, 2]
    assert rows.value_by_column.tolist() == [5, 2, 7]


@EVERY
def test_there_and_back(shape: tuple[int, int]) -> None:
    x = matrix(shape)
    for rows in (SparseRows.of(x), SparseRows.of(x.to_sparse_coo())):
        assert rows.shape == x.shape
        assert len(rows) == len(x)
        assert (rows.dtype, rows.device) == (x.dtype, x.device)
        assert torch.equal(rows.dense(), x)
        assert rows.dense() is rows.dense()
        by_column = SparseRows(rows.by_column.ptr, rows.by_column.row, rows.value_by_column, shape[0])
        assert torch.equal(by_column.dense(), x.t())


def test_entries_of_one_place_add_up() -> None:
    rows = SparseRows(torch.tensor([0, 3]), torch.tensor([1, 0, 1]), torch.tensor([1.0, 5.0, 2.0]), 2)
    assert rows.dense().tolist() == [[5, 3]]


@EVERY
def test_rows_are_selected_as_from_a_tensor(shape: tuple[int, int]) -> None:
    x = matrix(shape)
    rows, n = SparseRows.of(x), shape[0]
    index = torch.randint(0, n, (9,)) if n else torch.empty(0, dtype=torch.int64)
    assert torch.equal(rows.index_select(0, index).dense(), x[index])
    assert torch.equal(rows.index_select(0, index.to(torch.int32)).dense(), x[index])
    for cut in (slice(None), slice(0, 2), slice(2, 5), slice(n, None), slice(3, 1)):
        assert torch.equal(rows[cut].dense(), x[cut])
    assert rows.narrow(0, 0, n) is rows


def test_rows_behind_each_other() -> None:
    parts = [matrix(shape) for shape in ((3, 5), (0, 5), (6, 5))]
    assert torch.equal(SparseRows.cat([SparseRows.of(x) for x in parts]).dense(), torch.cat(parts))
    with pytest.raises(ValueError, match=r"must have one width, received \[4, 5\]"):
        SparseRows.cat([SparseRows.of(matrix((2, 5))), SparseRows.of(matrix((2, 4)))])


def test_other_values_share_the_order_by_column() -> None:
    rows = SparseRows.of(matrix((7, 5)))
    doubled = rows.with_values(rows.value * 2).with_values(rows.value * 3)
    assert doubled.by_column is rows.by_column
    assert torch.equal(doubled.dense(), 3 * rows.dense())
    assert torch.equal(doubled.value_by_column, 3 * rows.value_by_column)


def test_type_and_place() -> None:
    rows = SparseRows.of(matrix((7, 5)))
    assert rows.to(torch.float64) is rows
    assert rows.to("cpu") is rows
    assert rows.to(torch.float32).dense().dtype == torch.float32
    assert rows.is_floating_point()


def test_the_dense_form_passes_gradients_to_the_values() -> None:
    rows = SparseRows.of(matrix((7, 5)))
    value = rows.value.clone().requires_grad_()
    weight = torch.randn(7, 5, dtype=torch.float64)
    (rows.with_values(value).dense() * weight).sum().backward()
    assert torch.equal(value.grad, weight[rows.row, rows.column])


def test_refusals() -> None:
    rows = SparseRows.of(matrix((7, 5)))
    with pytest.raises(ValueError, match="slices of step 1, received step 2"):
        rows[::2]
    with pytest.raises(ValueError, match="along dimension 0, received 1"):
        rows.index_select(1, torch.tensor([0]))
    with pytest.raises(ValueError, match=r"one floating value and one column per entry, received torch\.int64"):
        rows.with_values(rows.value.long())
    with pytest.raises(ValueError, match=r"received torch\.float64 of shape \(1,\)"):
        SparseRows(rows.ptr, rows.column, rows.value[:1], 5)
