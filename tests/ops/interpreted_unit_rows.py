"""The kernels of unit_rows against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

import pytest
import torch

from graphbench.ops.unit_rows import gpu, unit_rows
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.test_unit_rows import case


@pytest.mark.parametrize("rows", [0, 1, 33])
def test_equals_reference(rows: int) -> None:
    using, inputs = case(rows, device=DEVICE)
    assert_same(using("gpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case(2, device=DEVICE)
    assert_within_budget(using("gpu"), using("reference"), inputs)


def test_parts_of_wider_rows_and_what_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = torch.randn(9, 30, dtype=torch.float64, device=DEVICE)
    wide[4, 7] = torch.nan
    expected = unit_rows(wide[:, 5:25], backend="cpu")
    assert expected.isnan().any(1).sum() == 1
    torch.testing.assert_close(unit_rows(wide[:, 5:25], backend="gpu"), expected, equal_nan=True)
    monkeypatch.setattr(gpu, "WIDEST", 19)
    monkeypatch.setattr(gpu, "forward", None)
    torch.testing.assert_close(unit_rows(wide[:, 5:25], backend="gpu"), expected, equal_nan=True)
