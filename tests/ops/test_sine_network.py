"""Networks of sines: the equation, gradients, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.ops.ragged_inputs import BACKEND, DEVICE, assert_same, assert_within_budget, of_kernels, set_kernels
from tests.ops.sine_networks import call, parameters


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows and channels."""
    set_kernels(monkeypatch, "sine_network", ROWS=16, COLUMNS=16)


def placed(values: list[Tensor]) -> list[Tensor]:
    return [x.detach().to(DEVICE).requires_grad_() for x in values]


def using(backend: str, rows: int, dtype: torch.dtype) -> Callable[..., Tensor]:
    z = torch.linspace(-1, 1, rows * 5, dtype=torch.float64, device=DEVICE).view(rows, 5)
    return lambda *values: call(z.to(values[0].dtype if dtype is torch.float32 else dtype), *values, backend=backend)


@pytest.mark.parametrize(("rows", "layers"), [(0, 2), (1, 1), (40, 3)])
def test_equals_the_equation(rows: int, layers: int) -> None:
    values = placed(parameters(5, 20, layers, 40))
    both = (using(backend, rows, torch.float64) for backend in (BACKEND, "reference"))
    assert_same(*both, values)


def test_error_in_float32() -> None:
    both = (using(backend, 40, torch.float32) for backend in (BACKEND, "reference"))
    assert_within_budget(*both, placed(parameters(5, 20, 2, 40)))


@of_kernels
def test_wider_networks_take_the_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    set_kernels(monkeypatch, "sine_network", WIDEST=16, sine_network_forward=None)
    values = placed(parameters(5, 20, 2, 40))
    assert_same(*(using(backend, 9, torch.float64) for backend in (BACKEND, "reference")), values)


def test_gradient() -> None:
    z = torch.randn(5, 3, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *values: call(z, *values), parameters(3, 4, 2, 6))


def test_wrong_arguments_are_refused() -> None:
    z, values = torch.ones(2, 3), [x.float() for x in parameters(3, 4, 2, 6)]
    with pytest.raises(ValueError, match=r"hidden layers must have shapes \[\(\(4, 5\), \(4,\)\), .* received"):
        call(torch.ones(2, 5), *values)
    with pytest.raises(ValueError, match="z gets no gradient from backend gpu, received a tensor that requires one"):
        call(z.requires_grad_(), *values, backend="gpu")
