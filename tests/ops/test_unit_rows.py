"""Rows of length one against the equation. The kernels: interpreted_unit_rows.py."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.unit_rows import unit_rows
from tests.ops.ragged_inputs import assert_same, assert_within_budget


def case(rows: int, width: int = 20, device: str = "cpu") -> tuple[Callable[[str], Callable], list[Tensor]]:
    """(backend -> function of the rows, rows): among them one without a positive entry, and one that is tiny."""
    x = torch.randn(rows, width, dtype=torch.float64)
    if rows > 2:
        x[1], x[2] = -x[1].abs(), 1e-14 * x[2]
    return lambda backend: lambda x: unit_rows(x, backend=backend), [x.to(device).requires_grad_()]


@pytest.mark.parametrize("rows", [0, 1, 33])
def test_equals_the_equation(rows: int) -> None:
    using, inputs = case(rows)
    assert_same(using("cpu"), using("reference"), inputs)


def test_error_in_float32() -> None:
    using, inputs = case(2)
    assert_within_budget(using("cpu"), using("reference"), inputs)


def test_gradcheck() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    for backend in ("cpu", "reference"):
        assert torch.autograd.gradcheck(lambda x, backend=backend: unit_rows(x, backend=backend), [x])


def test_refused_arguments() -> None:
    with pytest.raises(ValueError, match=r"x must be \(R, d\), received \(3,\)"):
        unit_rows(torch.ones(3))
