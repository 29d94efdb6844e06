"""Sums of embeddings: the equation, gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from graphbench.ops.embedding_sum import embedding_sum
from tests.ops.ragged_inputs import BACKEND, DEVICE, assert_same, assert_within_budget, normal, of_kernels, set_kernels


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of everything, and two shares, of more rows where there are more than 64."""
    set_kernels(monkeypatch, "embedding_sum", ROWS=16, VOCABULARY=16, COLUMNS=16, SHARE=32, SHARES=2)


def case(rows: int, sizes: list[int], width: int = 5) -> tuple[Callable[[str], Callable[..., Tensor]], list[Tensor]]:
    """``backend -> function of the tables``, and tables; the last categories of every table are not read."""
    index = torch.stack([torch.randint(max(size // 2, 1), (rows,)) for size in sizes], dim=1)

    def using(backend: str) -> Callable[..., Tensor]:
        return lambda *tables: embedding_sum(index.to(tables[0].device), tables, backend=backend)

    return using, [normal(size, width).detach().to(DEVICE).requires_grad_() for size in sizes]


@pytest.mark.parametrize(("rows", "sizes", "width"), [(0, [3], 5), (1, [1], 5), (70, [21, 1, 7], 20), (33, [40], 16)])
def test_equals_reference(rows: int, sizes: list[int], width: int) -> None:
    using, tables = case(rows, sizes, width)
    assert_same(using(BACKEND), using("reference"), tables)


def test_gradients_that_are_a_part_of_channels() -> None:
    using, tables = case(33, [20, 3], 20)
    beside = torch.randn(33, 3, dtype=torch.float64)

    def joined(backend: str) -> Callable[..., Tensor]:
        return lambda *tables: torch.cat([beside.to(DEVICE), using(backend)(*tables)], dim=1)

    assert_same(joined(BACKEND), joined("reference"), tables)


def test_error_in_float32() -> None:
    using, tables = case(70, [20, 3], 20)
    assert_within_budget(using(BACKEND), using("reference"), tables)


@of_kernels
def test_half_precision_sums_in_float32() -> None:
    using, tables = case(70, [20, 3], 20)
    half = [table.detach().bfloat16().requires_grad_() for table in tables]
    exact = using("reference")(*(table.detach().double() for table in half))
    torch.testing.assert_close(
        using("gpu")(*half).double(), exact, rtol=2**-7, atol=1e-6
    )  # interpreted, rows are cut to bfloat16


@of_kernels
def test_unknown_categories_are_visible() -> None:
    table = torch.ones(3, 2, device=DEVICE)
    index = torch.tensor([[0, 0], [3, 0], [-1, 2]], device=DEVICE)
    assert embedding_sum(index, [table, table], backend="gpu").isnan().all(1).tolist() == [False, True, True]


@of_kernels
def test_large_tables_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "embedding_sum", LARGEST=10, embedding_sum_forward=None)
    using, tables = case(12, [11])
    assert_same(using("gpu"), using("reference"), tables)


def test_gradient() -> None:
    using, tables = case(6, [3, 4])
    assert torch.autograd.gradcheck(using("cpu"), tables)


def test_wrong_arguments_are_refused() -> None:
    one, two = torch.ones(3, 2), torch.ones(3, 4)
    refused = partial(pytest.raises, ValueError)
    with refused(match=r"index must be \(N, 1\), one column per table, received \(2, 2\)"):
        embedding_sum(torch.zeros(2, 2, dtype=torch.int64), [one])
    with refused(match=r"tables must have one width, received \[\(3, 2\), \(3, 4\)\]"):
        embedding_sum(torch.zeros(2, 2, dtype=torch.int64), [one, two])
    with pytest.raises(IndexError):
        embedding_sum(torch.tensor([[3]]), [one])
