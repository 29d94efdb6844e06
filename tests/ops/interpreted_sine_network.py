"""The kernels of sine_network against the reference, on a GPU where there is one and interpreted elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from graphbench.ops.sine_network import gpu
from tests.ops.ragged_inputs import DEVICE, assert_same, assert_within_budget
from tests.ops.sine_networks import call, parameters


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles of rows and channels."""
    monkeypatch.setattr(gpu, "ROWS", 16)
    monkeypatch.setattr(gpu, "COLUMNS", 16)


def using(backend: str, rows: int, dtype: torch.dtype) -> Callable[..., Tensor]:
    z = torch.linspace(-1, 1, rows * 5, dtype=torch.float64, device=DEVICE).view(rows, 5)
    return lambda *values: call(z.to(values[0].dtype if dtype is torch.float32 else dtype), *values, backend=backend)


@pytest.mark.parametrize(("rows", "layers"), [(0, 2), (1, 1), (40, 3)])
def test_equals_the_equation(rows: int, layers: int) -> None:
    values = [x.detach().to(DEVICE).requires_grad_() for x in parameters(5, 20, layers, 40)]
    both = (using(backend, rows, torch.float64) for backend in ("gpu", "reference"))
    assert_same(*both, values)


def test_error_in_float32() -> None:
    both = (using(backend, 40, torch.float32) for backend in ("gpu", "reference"))
    assert_within_budget(*both, parameters(5, 20, 2, 40))


def test_wider_networks_take_the_torch_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "WIDEST", 16)
    monkeypatch.setattr(gpu, "forward", None)
    values = [x.detach().to(DEVICE).requires_grad_() for x in parameters(5, 20, 2, 40)]
    assert_same(*(using(backend, 9, torch.float64) for backend in ("gpu", "reference")), values)
