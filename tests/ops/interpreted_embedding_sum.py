"""The kernels of embedding_sum against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.embedding_sum import embedding_sum, gpu
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.test_embedding_sum import case


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of everything, several shares."""
    for name, size in (("ROWS", 16), ("VOCABULARY", 16), ("COLUMNS", 16), ("SHARE", 32)):
        monkeypatch.setattr(gpu, name, size)


@pytest.mark.parametrize(("rows", "sizes", "width"), [(0, [3], 5), (1, [1], 5), (70, [21, 1, 7], 20), (33, [40], 16)])
def test_equals_reference(rows: int, sizes: list[int], width: int) -> None:
    using, tables = case(rows, sizes, width)
    assert_same(using("gpu"), using("reference"), [table.detach().to(DEVICE).requires_grad_() for table in tables])


def test_gradients_that_are_a_part_of_channels() -> None:
    using, tables = case(33, [20, 3], 20)
    beside = torch.randn(33, 3, dtype=torch.float64)

    def joined(backend: str) -> Callable[..., Tensor]:
        return lambda *tables: torch.cat([beside.to(DEVICE), using(backend)(*tables)], dim=1)

    assert_same(joined("gpu"), joined("reference"), [table.detach().to(DEVICE).requires_grad_() for table in tables])


def test_error_in_float32() -> None:
    using, tables = case(70, [20, 3], 20)
    assert_within_budget(using("gpu"), using("reference"), tables)


def test_half_precision_sums_in_float32() -> None:
    using, tables = case(70, [20, 3], 20)
    half = [table.detach().to(DEVICE, torch.bfloat16).requires_grad_() for table in tables]
    exact = using("reference")(*(table.detach().double() for table in half))
    torch.testing.assert_close(
        using("gpu")(*half).double(), exact, rtol=2**-7, atol=1e-6
    )  # interpreted, rows are cut to bfloat16


def test_unknown_categories_are_visible() -> None:
    table = torch.ones(3, 2, device=DEVICE)
    index = torch.tensor([[0, 0], [3, 0], [-1, 2]], device=DEVICE)
    assert embedding_sum(index, [table, table], backend="gpu").isnan().all(1).tolist() == [False, True, True]


def test_large_tables_are_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "LARGEST", 10)
    monkeypatch.setattr(gpu, "forward", None)
    using, tables = case(12, [11])
    assert_same(using("gpu"), using("reference"), [table.detach().to(DEVICE).requires_grad_() for table in tables])
