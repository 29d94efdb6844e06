"""Rows of length one against the equation."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.unit_rows import unit_length, unit_rows
from tests.ops.ragged_inputs import BACKEND, DEVICE, assert_same, assert_within_budget, of_kernels, set_kernels


def case(rows: int, width: int = 20) -> tuple[Callable[[str], Callable], list[Tensor]]:
    """(backend -> function of the rows, rows): among them one without a positive entry, and one that is tiny."""
    x = torch.randn(rows, width, dtype=torch.float64)
    if rows > 2:
        x[1], x[2] = -x[1].abs(), 1e-14 * x[2]
    return lambda backend: lambda x: unit_rows(x, backend=backend), [x.to(DEVICE).requires_grad_()]


@pytest.mark.parametrize("rows", [0, 1, 33])
def test_equals_the_equation(rows: int) -> None:
    using, inputs = case(rows)
    assert_same(using(BACKEND), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case(2)
    assert_within_budget(using(BACKEND), using("reference"), inputs)


@of_kernels
def test_parts_of_wider_rows_and_what_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = torch.randn(9, 30, dtype=torch.float64, device=DEVICE)
    wide[4, 7] = torch.nan
    expected = unit_rows(wide[:, 5:25], backend="cpu")
    assert expected.isnan().any(1).sum() == 1
    torch.testing.assert_close(unit_rows(wide[:, 5:25], backend="gpu"), expected, equal_nan=True)
    set_kernels(monkeypatch, "unit_rows", WIDEST=19, unit_rows_forward=None)
    torch.testing.assert_close(unit_rows(wide[:, 5:25], backend="gpu"), expected, equal_nan=True)


def test_gradcheck() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    for backend in ("cpu", "reference"):
        assert torch.autograd.gradcheck(lambda x, backend=backend: unit_rows(x, backend=backend), [x])


def test_refused_arguments() -> None:
    with pytest.raises(ValueError, match=r"x must be \(R, d\), received \(3,\)"):
        unit_rows(torch.ones(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(dtype: torch.dtype) -> None:
    """Half precision has no eps of 1e-12, and no square of 300."""
    rows = torch.tensor([[300.0, 400.0], [-1.0, -2.0], [0.0, 0.0], [1e-4, 0.0]], device=DEVICE, dtype=dtype)
    found = unit_rows(rows, eps=1e-12, backend=BACKEND)
    assert found.dtype == dtype
    expected = torch.tensor([[0.6, 0.8], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]], device=DEVICE)
    torch.testing.assert_close(found.float(), expected, rtol=2 * torch.finfo(dtype).eps, atol=0.0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_any_sign_in_any_number_format(dtype: torch.dtype) -> None:
    """Rows of zeros stay, and squares may leave the format."""
    x = torch.tensor([[0.0, 0.0], [3.0, -4.0], [300.0, -400.0], [3e-5, -4e-5]], dtype=dtype)
    unit = unit_length(x)
    assert unit.dtype == dtype
    expected = torch.tensor([[0.0, 0.0], *[[0.6, -0.8]] * 3], dtype=torch.float64)
    # 3e-5 has few digits in float16, whose smallest steps are 6e-8.
    torch.testing.assert_close(unit.double(), expected, atol=1e-2 if dtype != torch.float64 else 1e-15, rtol=0)
    x.requires_grad_()
    unit_length(x.relu()).sum().backward()  # at 0 the gradient is 1 / eps, which ReLU holds back
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
