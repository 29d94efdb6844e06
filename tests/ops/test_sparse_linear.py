"""Linear maps of sparse rows against those of the dense matrix."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from graphbench.ops.sparse_linear import sparse_linear
from graphbench.structures import SparseRows
from tests.ops.ragged_inputs import assert_same, assert_within_budget, normal

SIZES = {
    "usual": (9, 7, 3),
    "awkward": (63, 500, 5),
    "one_output": (20, 30, 1),
    "no_rows": (0, 4, 3),
    "no_columns": (4, 0, 3),
    "no_outputs": (4, 5, 0),
}
EVERY = pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)


def matrix(n: int, f: int, share: float = 0.2) -> Tensor:
    x = torch.randn(n, f, dtype=torch.float64) * (torch.rand(n, f) < share)
    x[1::4] = 0  # rows and columns without an entry
    x[:, 2::5] = 0
    return x


def case(n: int, f: int, o: int) -> tuple[SparseRows, Tensor, list[Tensor]]:
    x = matrix(n, f)
    return SparseRows.of(x), x, [normal(o, f), normal(o)]


@EVERY
def test_equals_the_dense_map(sizes: tuple[int, int, int]) -> None:
    rows, x, parameters = case(*sizes)
    assert_same(lambda w, b: sparse_linear(rows, w, b), lambda w, b: F.linear(x, w, b), parameters)
    assert_same(lambda w: sparse_linear(rows, w), lambda w: F.linear(x, w), parameters[:1])


@EVERY
def test_equals_reference(sizes: tuple[int, int, int]) -> None:
    rows, _, parameters = case(*sizes)
    assert_same(
        lambda w, b: sparse_linear(rows, w, b),
        lambda w, b: sparse_linear(rows, w, b, backend="reference"),
        parameters,
    )


@EVERY
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_gradient_of_the_values(sizes: tuple[int, int, int], backend: str) -> None:
    rows, _, parameters = case(*sizes)
    value = rows.value.clone().requires_grad_()
    assert_same(
        lambda v, w, b: sparse_linear(rows.with_values(v), w, b, backend=backend),
        lambda v, w, b: F.linear(rows.with_values(v).dense(), w, b),
        [value, *parameters],
    )


def test_gradcheck() -> None:
    rows, _, parameters = case(9, 7, 3)
    value = rows.value.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda v, w, b: sparse_linear(rows.with_values(v), w, b), [value, *parameters])


def test_several_entries_of_one_place_add_up() -> None:
    rows = SparseRows(torch.tensor([0, 3, 3]), torch.tensor([1, 0, 1]), torch.tensor([1.0, 5.0, 2.0]).double(), 2)
    assert_same(lambda w: sparse_linear(rows, w), lambda w: rows.dense() @ w.t(), [normal(3, 2)])


def test_error_in_float32() -> None:
    x = matrix(60, 100, share=0.5)
    rows = {torch.float64: SparseRows.of(x), torch.float32: SparseRows.of(x.float())}
    assert_within_budget(
        lambda w, b: sparse_linear(rows[w.dtype], w, b),
        lambda w, b: sparse_linear(rows[w.dtype], w, b, backend="reference"),
        [normal(4, 100), normal(4)],
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_sums_in_float32(dtype: torch.dtype) -> None:
    """2048 ones and 1000 halves of one: each alone would be lost in the sum's last bit."""
    x = torch.ones(1, 3048)
    weight = torch.cat([torch.ones(2048), torch.full((1000,), 0.5)]).to(dtype).view(1, -1).requires_grad_()
    y = sparse_linear(SparseRows.of(x.to(dtype)), weight)
    assert y.dtype == dtype
    assert y.item() == torch.tensor(2548.0).to(dtype).item()
    y.sum().backward()
    assert weight.grad.dtype == dtype
    assert torch.equal(weight.grad, torch.ones_like(weight))


def test_autocast_changes_nothing() -> None:
    rows, w = SparseRows.of(matrix(9, 7).float()), torch.randn(3, 7)
    with torch.autocast("cpu", torch.bfloat16):
        found = sparse_linear(rows, w)
    assert found.dtype == torch.float32
    assert torch.equal(found, sparse_linear(rows, w))


def test_the_same_gradient_in_every_run() -> None:
    rows, w = SparseRows.of(matrix(300, 40, share=0.6).float()), torch.randn(8, 40, requires_grad=True)
    seed = torch.randn(300, 8)
    first, second = (torch.autograd.grad(sparse_linear(rows, w), w, seed)[0] for _ in range(2))
    assert torch.equal(first, second)


def test_no_dense_matrix_is_made() -> None:
    """40,000 x 40,000 of float32 would be 6.4 GB; two million by two million would not be a tensor at all."""
    n = 2_000_000
    index = torch.arange(n)
    rows = SparseRows(torch.arange(n + 1), index.flip(0), torch.ones(n), n)
    w = torch.randn(1, n, requires_grad=True)
    y = sparse_linear(rows, w)
    y.backward(y.detach())
    assert torch.equal(y[:, 0], w[0].flip(0))
    assert torch.equal(w.grad, w.detach())


def test_refusals() -> None:
    rows = SparseRows.of(matrix(9, 7))
    with pytest.raises(ValueError, match=r"shape \(O, 7\) .* received torch\.float64 of shape \(3, 8\)"):
        sparse_linear(rows, normal(3, 8))
    with pytest.raises(ValueError, match=r"weight must be torch\.float64 .* received torch\.float32"):
        sparse_linear(rows, torch.randn(3, 7))
    with pytest.raises(ValueError, match="backend of sparse_linear must be one of"):
        sparse_linear(rows, normal(3, 7), backend="gpu")
